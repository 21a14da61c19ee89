# Generated from book/08_job.ipynb by tools/tangle.py; edit it there.

"""Delete finished Jobs when their time to live is over.

See: chapter *Job*; upstream ``pkg/controller/ttlafterfinished``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from kcm_lite.api.batch import Job, is_job_finished
from kcm_lite.api.errors import NotFound
from kcm_lite.api.meta import DeleteOptions, Preconditions, object_key
from kcm_lite.client.clientset import Client
from kcm_lite.client.informer import Cache, SharedInformerFactory
from kcm_lite.client.metrics import Histogram, Registry, exponential_buckets, queue_metrics
from kcm_lite.client.workqueue import RateLimitingQueue
from kcm_lite.clock import Clock
from kcm_lite.reconcile.worker import start_workers
from kcm_lite.trace import Decision, Trace

# %% book/08_job.ipynb#a18bc3ed
AGENT = "ttl-after-finished-controller"
DELAYS = (
    "ttl_after_finished_controller_job_deletion_duration_seconds",
    "The time it took to delete the job since it became eligible for deletion",
)


@dataclass(slots=True, eq=False)
class TTLController:
    """The fields of the controller; its functions take it first.

    Attributes:
        delays: Seconds between the end of a Job's time and its deletion.
    """

    client: Client
    jobs: Cache[Job]
    queue: RateLimitingQueue[str]
    clock: Clock
    trace: Trace | None = None
    delays: Histogram | None = None


# %% book/08_job.ipynb#a18bc301
def needs_cleanup(job: Job) -> bool:
    """Whether a Job is finished and has a time to live."""
    return job.spec.ttl_seconds_after_finished is not None and is_job_finished(job)


def expires_at(job: Job) -> datetime:
    """Return when a finished Job's time is over, counted from Complete or Failed.

    Raises:
        ValueError: It is not finished, has no time to live, or nobody knows since when it is.
    """
    meta, name = job.metadata, object_key(job)
    ttl = job.spec.ttl_seconds_after_finished
    if ttl is None or not is_job_finished(job):
        raise ValueError(f"job {meta.namespace}/{meta.name} should not be cleaned up")
    for end in job.status.conditions:
        if end.type in ("Complete", "Failed") and end.status == "True":
            if end.last_transition_time is None:
                break
            return end.last_transition_time + timedelta(seconds=ttl)
    raise ValueError(f"unable to find the time when the Job {name} finished")


# %% book/08_job.ipynb#c6fa3dbb
async def process_job(tc: TTLController, key: str) -> None:
    """Delete a Job whose time is over, after a look at the live one; else come back in time."""
    job = tc.jobs.indexer.get(key)
    if job is None or not is_expired(tc, job):
        return
    meta = job.metadata
    try:
        fresh = await tc.client.get(Job, meta.namespace, meta.name)
    except NotFound:
        return
    if is_expired(tc, fresh):
        late = (tc.clock.now() - expires_at(fresh)).total_seconds()
        ttl = fresh.spec.ttl_seconds_after_finished
        decide(tc, key, f"deleted: it ended {ttl} s ago, and {late:g} s more")
        options = DeleteOptions(
            propagation_policy="Foreground", preconditions=Preconditions(uid=fresh.metadata.uid)
        )
        await tc.client.delete(Job, meta.namespace, meta.name, options)
        if tc.delays is not None:
            tc.delays.observe((tc.clock.now() - expires_at(fresh)).total_seconds())


def is_expired(tc: TTLController, job: Job) -> bool:
    """Whether a Job may be deleted now; if later, see to it that it is looked at then."""
    if job.metadata.deletion_timestamp is not None or not needs_cleanup(job):
        return False
    left = (expires_at(job) - tc.clock.now()).total_seconds()
    if left > 0:
        ttl = job.spec.ttl_seconds_after_finished
        decide(tc, object_key(job), f"{left:g} s are left of {ttl} after its end")
        tc.queue.add_after(object_key(job), left)
    return left <= 0


def decide(tc: TTLController, key: str, reason: str) -> None:
    """Put into the trace how long a Job may stay, and why it goes."""
    if tc.trace is not None and tc.trace.detail:
        tc.trace.write(Decision(tc.clock.time(), AGENT, key, "ttl", key, reason))


# %% book/08_job.ipynb#3b71aba6
def new_ttl_controller(
    client: Client,
    informers: SharedInformerFactory,
    clock: Clock,
    *,
    trace: Trace | None = None,
    metrics: Registry | None = None,
) -> TTLController:
    """Build the controller and subscribe it; ``run`` starts it."""
    jobs, name = informers.informer(Job), "ttl_jobs_to_delete"
    told = queue_metrics(metrics, name, clock)
    queue: RateLimitingQueue[str] = RateLimitingQueue(name, clock=clock, trace=trace, metrics=told)
    tc = TTLController(client, jobs, queue, clock, trace)
    if metrics is not None:
        bounds = exponential_buckets(0.1, 2, 14)
        tc.delays = metrics.histogram(*DELAYS, bounds=bounds).with_labels()

    def see(job: Job, initial: bool = False) -> None:
        if job.metadata.deletion_timestamp is None and needs_cleanup(job):
            tc.queue.add(object_key(job))

    jobs.add_event_handler(see, lambda old, cur: see(cur))
    return tc


async def run(tc: TTLController, workers: int = 5) -> None:
    """Start the workers once the cache holds its first list."""
    await tc.jobs.processor.synced.wait()
    start_workers(
        tc.queue,
        partial(process_job, tc),
        workers,
        clock=tc.clock,
        trace=tc.trace,
        controller=AGENT,
    )
