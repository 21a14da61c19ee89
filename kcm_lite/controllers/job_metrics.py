# Generated from book/08c_job_pods.ipynb by tools/tangle.py; edit it there.

"""What the Job controller counts; its queues count for themselves.

See: chapter *Job: pods and events*; upstream ``pkg/controller/job/metrics``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

from kcm_lite.api import batch
from kcm_lite.api.batch import Job, JobStatus, is_indexed
from kcm_lite.client.metrics import Registry, exponential_buckets
from kcm_lite.clock import Clock
from kcm_lite.controllers.job_indexes import parse_indexes, total

# %% book/08c_job_pods.ipynb#8a726731
MODE = "completion_mode"
SYNC = (MODE, "result", "action")
# By their names after "job_controller_": text and labels.
COUNTERS = {
    "job_syncs_total": ("The number of job syncs", SYNC),
    "jobs_finished_total": ("The number of finished jobs", (MODE, "result", "reason")),
    "jobs_by_external_controller_total": (
        "The number of Jobs managed by an external controller",
        ("controller_name",),
    ),
    "job_pods_finished_total": (
        "The number of finished Pods that are fully tracked",
        (MODE, "result"),
    ),
    "pod_failures_handled_by_failure_policy_total": (
        "The number of failed Pods handled by failure policy, by the action of the rule",
        ("action",),
    ),
    "terminated_pods_tracking_finalizer_total": (
        "The number of terminated pods that got (add) or lost (delete) the tracking finalizer",
        ("event",),
    ),
    "job_finished_indexes_total": ("The number of finished indexes", ("status", "backoffLimit")),
    "job_pods_creation_total": (
        "The number of Pods created by the Job controller, by the reason of their creation",
        ("reason", "status"),
    ),
    "stale_sync_skips_total": (
        "Total number of Job syncs skipped due to a stale watch cache.",
        ("group", "resource"),
    ),
}

# %% book/08c_job_pods.ipynb#e84e1579
RECONCILING, TRACKING = "reconciling", "tracking"
PODS_CREATED, PODS_DELETED = "pods_created", "pods_deleted"


class JobMetrics:
    """The numbers of the controller.

    Attributes:
        actions: What the syncs that are under way do, by the Job's key.
    """

    def __init__(self, registry: Registry) -> None:
        self.durations = registry.histogram(
            "job_controller_job_sync_duration_seconds",
            "The time it took to sync a job",
            SYNC,
            bounds=exponential_buckets(0.004, 2, 15),
        )
        self.counters = {
            name: registry.counter(f"job_controller_{name}", *rest)
            for name, rest in COUNTERS.items()
        }
        self.actions: dict[str, str] = {}

    def count(self, name: str, *labels: str, by: int = 1) -> None:
        """Add to a counter of `COUNTERS`; adding 0 makes it show."""
        self.counters[name].with_labels(*labels).inc(by)


def mode(job: Job) -> str:
    """Return the value of the label completion_mode."""
    return batch.INDEXED if is_indexed(job) else batch.NON_INDEXED


# %% book/08c_job_pods.ipynb#7b6f6eb4
async def measured(
    metrics: JobMetrics | None, clock: Clock, job: Job, key: str, sync: Awaitable[None]
) -> None:
    """Wait for a Job's sync; observe how long it took, what it did and how it went."""
    if metrics is None:
        return await sync
    start, result = clock.time(), "error"
    try:
        await sync
        result = "success"
    finally:
        labels = mode(job), result, metrics.actions.pop(key, RECONCILING)
        metrics.durations.with_labels(*labels).observe(round(clock.time() - start, 9))
        metrics.count("job_syncs_total", *labels)


# %% book/08c_job_pods.ipynb#8bd70925
def count_ended_pods(metrics: JobMetrics, job: Job, before: JobStatus) -> None:
    """Count what a status that was just written counts beyond the one before."""
    status, good = job.status, job.status.succeeded - before.succeeded
    if is_indexed(job):
        limit = "global" if job.spec.backoff_limit_per_index is None else "perIndex"
        good = _growth(job, before.completed_indexes, status.completed_indexes)
        metrics.count("job_finished_indexes_total", "succeeded", limit, by=good)
        bad = _growth(job, before.failed_indexes or "", status.failed_indexes or "")
        if limit == "perIndex" and bad > 0:
            metrics.count("job_finished_indexes_total", "failed", limit, by=bad)
    metrics.count("job_pods_finished_total", mode(job), "succeeded", by=good)
    bad = status.failed - before.failed
    metrics.count("job_pods_finished_total", mode(job), "failed", by=bad)


def _growth(job: Job, before: str, after: str) -> int:
    """Return how many indexes more ``after`` has."""
    if before == after:
        return 0
    completions = job.spec.completions or 0
    return total(parse_indexes(after, completions)) - total(parse_indexes(before, completions))


# %% book/08c_job_pods.ipynb#9e048594
def count_created_pods(
    metrics: JobMetrics, job: Job, *, failed: int, terminating: int, made: int, refused: int
) -> None:
    """Count the pods that one sync has made, and those that the server has refused.

    As upstream, a refused one is in both numbers.

    Args:
        failed: Pods of the Job that have failed.
        terminating: Pods of the Job that are on their way out.
    """
    reason = "new"
    if failed and job.spec.pod_replacement_policy == "Failed":
        reason = "recreate_failed"
    elif failed or terminating:
        reason = "recreate_terminating_or_failed"
    for status, number in (("succeeded", made + refused), ("failed", refused)):
        if number:
            metrics.count("job_pods_creation_total", reason, status, by=number)


def count_policy_actions(metrics: JobMetrics, actions: Iterable[str]) -> None:
    """Count failed pods by the action of the rule that they matched."""
    for action in actions:
        metrics.count("pod_failures_handled_by_failure_policy_total", action)
