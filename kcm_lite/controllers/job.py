# Generated from book/08_job.ipynb by tools/tangle.py; edit it there.

"""The Job controller: pods that run to their end, each counted once.

See: chapter *Job*; upstream ``pkg/controller/job``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from kcm_lite.api.batch import (
    INDEXED,
    JOB_CONTROLLER,
    NON_INDEXED,
    Job,
    is_indexed,
    is_job_finished,
)
from kcm_lite.api.core import Pod
from kcm_lite.api.meta import Condition, object_key, replace
from kcm_lite.client.clientset import Client
from kcm_lite.client.events import EventRecorder
from kcm_lite.client.informer import SharedInformer, SharedInformerFactory
from kcm_lite.client.metrics import Registry, queue_metrics
from kcm_lite.client.ratelimit import ItemExponentialFailureRateLimiter
from kcm_lite.client.workqueue import RateLimitingQueue
from kcm_lite.clock import Clock
from kcm_lite.controllers import job_handlers as handlers
from kcm_lite.controllers.job_backoff import next_record
from kcm_lite.controllers.job_claims import claim_pods, sync_orphan_pod
from kcm_lite.controllers.job_indexes import indexes_of, merge, total, with_indexes
from kcm_lite.controllers.job_legacy import PatientQueue, sync_job_1_22
from kcm_lite.controllers.job_manage import delete_active_pods, manage_job
from kcm_lite.controllers.job_metrics import JobMetrics, measured
from kcm_lite.controllers.job_pods import (
    deadline_of,
    delayed_pods,
    fail_job_message,
    failed_indexes,
    new_finished_pods,
    past_backoff_limit_on_failure,
    succeeded_indexes,
)
from kcm_lite.controllers.job_policies import match_pod_failure_policy, match_success_policy
from kcm_lite.controllers.job_tracking import note_suspension, track
from kcm_lite.controllers.job_types import (
    AGENT,
    CRITERIA_MET,
    FAILED,
    FAILURE_TARGET,
    NO_FAILURES,
    NOTHING,
    TODAY,
    FinalizerExpectations,
    JobController,
    JobGates,
    View,
    condition,
    decide,
    record_wait,
    true_condition,
)
from kcm_lite.controllers.replicaset import ensure_ready, note_write
from kcm_lite.reconcile.consistency import ConsistencyStore
from kcm_lite.reconcile.expectations import ControllerExpectations
from kcm_lite.reconcile.podcontrol import RealPodControl
from kcm_lite.reconcile.podutil import (
    POD_CONTROLLER_INDEX,
    filter_active_pods,
    filter_terminating_pods,
    index_by_pod_controller,
    is_pod_ready,
)
from kcm_lite.reconcile.worker import start_workers
from kcm_lite.trace import Trace


# %% book/08_job.ipynb#0ba5a67a
async def sync_job(jc: JobController, key: str) -> None:
    """Bring one Job a step further: its pods, its counts, its end.

    Raises:
        ConsistencyError: The caches have not yet seen the last sync's writes; nothing was done.
        Exception: What a claim, a write or the removal of a finalizer failed with.
    """
    stale = None if jc.metrics is None else jc.metrics.counters["stale_sync_skips_total"]
    ensure_ready(jc.consistency, key, stale)
    job = jc.jobs.indexer.get(key)
    if job is None:
        jc.expectations.delete_expectations(key)
        jc.removals.delete(key)
        jc.consistency.clear(key)
        jc.backoff.pop(key, None)
    elif job.spec.managed_by not in (None, JOB_CONTROLLER):
        decide(jc, key, "skip", key, f"spec.managedBy is {job.spec.managed_by}")
    elif is_job_finished(job):
        jc.backoff.pop(key, None)
        jc.consistency.clear(key, job.metadata.uid)
        jc.finished.discard(job.metadata.uid)
    elif job.spec.completion_mode not in (None, INDEXED, NON_INDEXED):
        message = "Skipped Job sync because completion mode is unknown"
        jc.recorder.event(job, "Warning", "UnknownCompletionMode", message)
    elif job.metadata.uid not in jc.finished:
        await measured(jc.metrics, jc.clock, job, key, step(jc, job))


# %% book/08_job.ipynb#b2a55883
async def step(jc: JobController, job: Job) -> None:
    """Look, judge, act on the pods, count."""
    may_act = jc.expectations.satisfied_expectations(object_key(job))
    if not may_act:
        record_wait(jc, object_key(job))
    view = look(jc, job, await claim_pods(jc, job))
    view.end = judge(jc, view)
    before, suspended = view.status, False
    if view.end is not None:
        error = await stop(jc, view, may_act)
    else:
        error, suspended = await go_on(jc, view, may_act)
    status = replace(
        view.status, active=view.active_count, ready=view.ready, terminating=view.terminating
    )
    counts = (status.active, status.ready, status.terminating)
    changed = suspended or counts != (before.active, before.ready, before.terminating)
    view.status = status
    await track(jc, view, flush=changed)
    if error is not None:
        raise error


# %% book/08_job.ipynb#6d260209
def look(jc: JobController, job: Job, pods: list[Pod]) -> View:
    """Count what the pods say and no status mentions yet."""
    active, status = filter_active_pods(pods), job.status
    uncounted = status.uncounted_terminated_pods or NOTHING
    if status.uncounted_terminated_pods is None:
        status = replace(status, uncounted_terminated_pods=NOTHING)
    if status.start_time is None and not job.spec.suspend:
        status = replace(status, start_time=jc.clock.timestamp())
    view = View(job, status, pods, active, removals=jc.removals.get(object_key(job)))
    view.active_count = len(active)
    view.ready = sum(map(is_pod_ready, active))
    view.terminating = len(filter_terminating_pods(pods))
    view.uncounted = uncounted
    succeeded, failed = new_finished_pods(
        job, pods, uncounted.succeeded, uncounted.failed, view.removals
    )
    policy = job.spec.pod_failure_policy
    matches = [match_pod_failure_policy(policy, pod) for pod in failed]
    counted = sum(match.counts for match in matches)
    if policy is not None:
        for pod, match in zip(failed, matches, strict=True):
            decide(jc, view.key, "policy", object_key(pod), match.text)
    view.succeeded = status.succeeded + len(succeeded) + len(uncounted.succeeded)
    view.failed = status.failed + counted + len(uncounted.failed)
    view.record = next_record(jc.backoff.get(view.key, NO_FAILURES), succeeded, failed)
    if is_indexed(job):
        view.indexes_before, view.indexes = succeeded_indexes(job, pods)
        view.succeeded = total(view.indexes)
    if job.spec.backoff_limit_per_index is not None and is_indexed(job):
        view.failed_indexes = failed_indexes(job, pods)
        taken = merge(with_indexes(view.indexes, indexes_of(active)), view.failed_indexes)
        view.delayed = delayed_pods(job, pods, view.removals, taken)
    return view


# %% book/08_job.ipynb#700f736c
def judge(jc: JobController, view: View) -> Condition | None:
    """Say how the Job ends, if what has been seen decides it. The order matters."""
    job, conditions, now = view.job, view.status.conditions, jc.clock.timestamp()
    if (met := true_condition(conditions, CRITERIA_MET)) is not None:
        return met
    if (target := true_condition(conditions, FAILURE_TARGET)) is not None:
        return condition(FAILED, "True", target.reason, target.message, now)
    reason, message = _failure(jc, view)
    if reason:
        return condition(FAILURE_TARGET, "True", reason, message, now)
    if is_indexed(job):
        completions = job.spec.completions or 0
        message = match_success_policy(job.spec.success_policy, completions, view.indexes)
        if message:
            return condition(CRITERIA_MET, "True", "SuccessPolicy", message, now)
    return None


# %% book/08_job.ipynb#700f7301
def _failure(jc: JobController, view: View) -> tuple[str, str]:
    """Return the reason and the message of a failure; empty if there is none."""
    job, spec = view.job, view.job.spec
    if message := fail_job_message(job, view.pods):
        return "PodFailurePolicy", message
    if view.failed > (spec.backoff_limit or 0) or past_backoff_limit_on_failure(job, view.pods):
        return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    deadline = deadline_of(replace(job, status=view.status))
    if deadline is not None:
        left = (deadline - jc.clock.now()).total_seconds()
        if left <= 0:
            return "DeadlineExceeded", "Job was active longer than specified deadline"
        text = f"{left:g} s are left of {spec.active_deadline_seconds}"
        decide(jc, view.key, "deadline", view.key, text)
        jc.queue.add_after(view.key, left)
    if view.failed_indexes is not None:
        bad, limit = total(view.failed_indexes), spec.max_failed_indexes
        if limit is not None and bad > limit:
            message = "Job has exceeded the specified maximal number of failed indexes"
            return "MaxFailedIndexesExceeded", message
        if bad > 0 and bad + view.succeeded >= (spec.completions or 0):
            return "FailedIndexes", "Job has failed indexes"
    return "", ""


# %% book/08_job.ipynb#6c3b93bc
async def stop(jc: JobController, view: View, may_act: bool) -> Exception | None:
    """Delete the active pods of a Job that ends; it ends later if some are left or unseen."""
    assert view.end is not None
    decide(jc, view.key, "end", view.key, f"{view.end.reason}: {view.end.message}")
    deleted, error = await delete_active_pods(jc, view)
    if deleted != len(view.active) or not may_act:
        view.end = None
    return error


async def go_on(jc: JobController, view: View, may_act: bool) -> tuple[Exception | None, bool]:
    """Manage the pods; then see whether the Job is complete, suspended or resumed.

    Returns:
        The first error, and whether the Suspended condition has changed.
    """
    error, managed = None, may_act and view.job.metadata.deletion_timestamp is None
    if managed:
        error = await manage_job(jc, view)
    wanted = view.job.spec.completions
    enough = view.succeeded > 0 if wanted is None else view.succeeded >= wanted
    if enough and view.active_count == 0:
        message = "Reached expected number of succeeded pods"
        now = jc.clock.timestamp()
        view.end = condition(CRITERIA_MET, "True", "CompletionsReached", message, now)
        text = f"CompletionsReached: {view.succeeded} of {'any' if wanted is None else wanted}"
        decide(jc, view.key, "end", view.key, text)
        return error, False
    return error, managed and note_suspension(jc, view)


# %% book/08_job.ipynb#e5de6929
TIMER_LAG = 0.001
"""Seconds by which the queue's timer is late: pods tend to change on the second, as syncs do."""


def new_job_controller(
    client: Client,
    informers: SharedInformerFactory,
    clock: Clock,
    *,
    gates: JobGates = TODAY,
    trace: Trace | None = None,
    metrics: Registry | None = None,
) -> JobController:
    """Build the controller and subscribe it; ``run`` starts it."""
    jobs, pods = informers.informer(Job), informers.informer(Pod)
    caches = {
        "pods": lambda: pods.last_resource_version,
        "jobs.batch": lambda: jobs.last_resource_version,
    }
    consistency = ConsistencyStore(caches if gates.stale_controller_consistency else {})
    recorder = EventRecorder(client, clock, AGENT)
    kind = RateLimitingQueue[str] if gates.pod_failure_backoff else PatientQueue
    base, maximum = gates.queue_base, gates.queue_maximum
    limiter = partial(ItemExponentialFailureRateLimiter[Any], base, maximum)
    rest: dict[str, Any] = {"clock": clock, "trace": trace}
    told = [queue_metrics(metrics, name, clock) for name in ("job", "job_orphan_pod")]
    jc = JobController(
        client=client,
        pod_control=RealPodControl(client, recorder, partial(note_write, consistency)),
        recorder=recorder,
        jobs=jobs,
        pods=pods,
        queue=kind("job", limiter=limiter(), metrics=told[0], **rest),
        orphan_queue=RateLimitingQueue(
            "job_orphan_pod", limiter=limiter(), metrics=told[1], **rest
        ),
        expectations=ControllerExpectations(clock, trace=trace, controller=AGENT),
        removals=FinalizerExpectations(),
        consistency=consistency,
        gates=gates,
        metrics=None if metrics is None else JobMetrics(metrics),
        **rest,
    )
    jc.queue.lag = TIMER_LAG
    subscribe(jc, jobs, pods)
    return jc


# %% book/08_job.ipynb#0ff13059
def subscribe(jc: JobController, jobs: SharedInformer[Job], pods: SharedInformer[Pod]) -> None:
    """Have the pods indexed as the controller reads them, and the handlers called."""
    pods.add_indexers({POD_CONTROLLER_INDEX: index_by_pod_controller})
    jobs.add_event_handler(
        partial(handlers.add_job, jc),
        partial(handlers.update_job, jc),
        partial(handlers.delete_job, jc),
    )
    pods.add_event_handler(
        partial(handlers.add_pod, jc),
        partial(handlers.update_pod, jc),
        partial(handlers.delete_pod, jc),
    )


async def run(jc: JobController, workers: int = 5) -> None:
    """Start the workers of both queues once the caches hold their first list."""
    await jc.jobs.processor.synced.wait()
    await jc.pods.processor.synced.wait()
    rest: dict[str, Any] = {"clock": jc.clock, "trace": jc.trace}
    sync = sync_job if jc.gates.tracking_with_finalizers else sync_job_1_22
    start_workers(jc.queue, partial(sync, jc), workers, controller=AGENT, **rest)
    orphans = f"{AGENT}/orphans"
    start_workers(
        jc.orphan_queue, partial(sync_orphan_pod, jc), workers, controller=orphans, **rest
    )
