# Generated from book/08_job.ipynb by tools/tangle.py; edit it there.

"""What a Job controller is: its gates, its fields, and what one sync has found.

See: chapter *Job*; upstream ``pkg/controller/job``.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from kcm_lite.api.batch import Job, JobStatus, UncountedTerminatedPods
from kcm_lite.api.core import Pod
from kcm_lite.api.meta import Condition, object_key, replace
from kcm_lite.client.clientset import Client
from kcm_lite.client.events import EventRecorder
from kcm_lite.client.informer import Cache
from kcm_lite.client.workqueue import RateLimitingQueue
from kcm_lite.clock import Clock
from kcm_lite.controllers.job_backoff import BackoffRecord
from kcm_lite.controllers.job_indexes import Intervals
from kcm_lite.controllers.job_metrics import JobMetrics
from kcm_lite.reconcile.consistency import ConsistencyStore
from kcm_lite.reconcile.expectations import ControllerExpectations
from kcm_lite.reconcile.podcontrol import PodControl
from kcm_lite.trace import Decision, Trace

# %% book/08_job.ipynb#558c8234
AGENT = "job-controller"


@dataclass(frozen=True, slots=True)
class JobGates:
    """What changed over the releases; by default as in v1.36.

    Attributes:
        indexed_job: Jobs may be Indexed (IndexedJob, on since v1.22).
        tracking_with_finalizers: Pods are counted before they may go (JobTrackingWithFinalizers).
            Without it, those are counted that are there.
        pod_failure_backoff: A failed pod delays the pods that follow; without it, it delays the
            syncs of its Job, by the retries of the queue.
        queue_base, queue_maximum: Seconds between the retries of a key, the first and the longest.
        clear_start_time: A suspended Job has no start time
            (MutableSchedulingDirectivesForSuspendedJobs).
        stale_controller_consistency: A sync waits for its own writes
            (StaleControllerConsistencyJob).
    """

    indexed_job: bool = True
    tracking_with_finalizers: bool = True
    pod_failure_backoff: bool = True
    queue_base: float = 1.0
    queue_maximum: float = 60.0
    clear_start_time: bool = True
    stale_controller_consistency: bool = True


TODAY = JobGates()  # as v1.36 has it
RELEASE_1_22 = JobGates(
    tracking_with_finalizers=False,
    pod_failure_backoff=False,
    queue_base=10.0,
    queue_maximum=360.0,
    clear_start_time=False,
    stale_controller_consistency=False,
)


# %% book/08_job.ipynb#cabf988c
@dataclass(frozen=True, slots=True)
class OrphanKey:
    """What the orphan queue holds: one pod by name, or all that a selector means."""

    namespace: str
    name: str = ""
    selector: str = ""


class FinalizerExpectations:
    """UIDs of pods whose finalizer was taken off, until the cache shows it, by Job."""

    def __init__(self) -> None:
        self._uids: dict[str, dict[str, None]] = {}

    def get(self, key: str) -> frozenset[str]:
        """Return the UIDs of one Job."""
        return frozenset(self._uids.get(key, ()))

    def expect(self, key: str, uids: Iterable[str]) -> None:
        """Expect to see these pods without their finalizer."""
        self._uids.setdefault(key, {}).update(dict.fromkeys(uids))

    def observed(self, key: str, uid: str) -> None:
        """The pod was seen without it, or never will be."""
        self._uids.get(key, {}).pop(uid, None)

    def delete(self, key: str) -> None:
        """Forget a Job."""
        self._uids.pop(key, None)


# %% book/08_job.ipynb#1cb82c00
@dataclass(slots=True, eq=False)
class JobController:
    """The fields of the controller; its functions take it first.

    Attributes:
        client: For status writes and live reads.
        pod_control: For pods.
        recorder: For events.
        jobs: The cache of the Jobs.
        pods: The cache of all pods.
        queue: The keys of Jobs that need a sync.
        orphan_queue: Pods that still have the finalizer and no Job that would take it off.
        expectations: What it has created and deleted and not yet seen.
        removals: The finalizers that it has taken off and not yet seen gone.
        backoff: Failures in a row, by Job.
        finished: UIDs of Jobs that it has ended and not yet seen ended. Asked, never iterated.
        consistency: What it has written and its caches have not yet seen.
        metrics: Where it counts; None: nowhere.
    """

    client: Client
    pod_control: PodControl
    recorder: EventRecorder
    jobs: Cache[Job]
    pods: Cache[Pod]
    queue: RateLimitingQueue[str]
    orphan_queue: RateLimitingQueue[OrphanKey]
    expectations: ControllerExpectations
    removals: FinalizerExpectations
    consistency: ConsistencyStore
    clock: Clock
    backoff: dict[str, BackoffRecord] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)
    gates: JobGates = TODAY
    trace: Trace | None = None
    metrics: JobMetrics | None = None


# %% book/08_job.ipynb#01acba62
NOTHING = UncountedTerminatedPods()
NO_FAILURES = BackoffRecord()


# %% book/08_job.ipynb#cb3cfafa
@dataclass(slots=True)
class PodView:
    """The pods of one Job, as one sync sees and changes them.

    Attributes:
        job: As it was read, or last written.
        status: As it will be written next.
        pods: All its pods.
        active: Those that have neither ended nor are being deleted.
        removals: UIDs whose finalizer is off, though the cache does not show it.
        active_count: How many pods are active when the sync is done.
        ready: How many of them are ready.
        terminating: How many pods are on their way out.
    """

    job: Job
    status: JobStatus
    pods: list[Pod]
    active: list[Pod]
    removals: Container[str] = ()
    active_count: int = 0
    ready: int = 0
    terminating: int = 0

    @property
    def key(self) -> str:
        """The Job's key."""
        return object_key(self.job)


# %% book/08_job.ipynb#3df90904
@dataclass(slots=True)
class View(PodView):
    """The pods, and what they mean for the Job (``syncJobCtx``).

    Attributes:
        uncounted: UIDs that were on their way into the counts when the sync began.
        succeeded: Successes, with those that no status mentions yet.
        failed: Failures, likewise, ignored ones aside.
        record: Failures in a row.
        end: How the Job ends, if it does.
        indexes_before: Indexes that were done before this sync.
        indexes: Indexes that are done now.
        failed_indexes: Indexes that have failed for good; None if they have no limit of their own.
        delayed: Failed pods that keep their finalizer until their index has its next pod.
        actions: What a failure policy made of the pods that are counted now.
    """

    uncounted: UncountedTerminatedPods = NOTHING
    succeeded: int = 0
    failed: int = 0
    record: BackoffRecord = NO_FAILURES
    end: Condition | None = None
    indexes_before: Intervals = ()
    indexes: Intervals = ()
    failed_indexes: Intervals | None = None
    delayed: dict[int, Pod] = field(default_factory=dict)
    actions: list[str] = field(default_factory=list)


# %% book/08_job.ipynb#153713ba
COMPLETE, FAILED, SUSPENDED = "Complete", "Failed", "Suspended"
CRITERIA_MET, FAILURE_TARGET = "SuccessCriteriaMet", "FailureTarget"


def condition(type: str, status: str, reason: str, message: str, now: datetime) -> Condition:
    """Return a condition that begins now."""
    return Condition(
        type=type,
        status=status,
        last_probe_time=now,
        last_transition_time=now,
        reason=reason,
        message=message,
    )


def true_condition(conditions: Iterable[Condition], type: str) -> Condition | None:
    """Return the condition of this type if it is True."""
    return next((c for c in conditions if c.type == type and c.status == "True"), None)


def with_condition(conditions: Sequence[Condition], new: Condition) -> tuple[Condition, ...] | None:
    """Return the conditions with ``new`` in its place; None if nothing changes.

    A condition that was never there does not become False.
    """
    for i, old in enumerate(conditions):
        if old.type == new.type:
            same = (old.status, old.reason, old.message) == (new.status, new.reason, new.message)
            return None if same else (*conditions[:i], new, *conditions[i + 1 :])
    return None if new.status == "False" else (*conditions, new)


# %% book/08_job.ipynb#bfcbebbc
def decide(jc: JobController, key: str, what: str, subject: str, reason: str) -> None:
    """Put a choice and its reason into the trace."""
    if jc.trace is not None and jc.trace.detail:
        jc.trace.write(Decision(jc.clock.time(), AGENT, key, what, subject, reason))


def record_wait(jc: JobController, key: str) -> None:
    """Record what has been written and not yet been seen."""
    counts = jc.expectations.get(key)
    if counts is not None:
        text = f"still to be seen: {counts.add} creations, {counts.dele} deletions"
        decide(jc, key, "wait", key, text)


async def write_status(jc: JobController, view: View) -> None:
    """Write the status, and go on with the Job as the server has it then.

    Raises:
        StatusError: The server refused: a conflict, or counts that do not fit together.
    """
    view.job = await jc.client.update_status(replace(view.job, status=view.status))
    view.status = view.job.status
    meta = view.job.metadata
    jc.consistency.wrote_at(view.key, meta.uid, "jobs.batch", meta.resource_version)
