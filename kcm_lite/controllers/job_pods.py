# Generated from book/08b_job_rules.ipynb by tools/tangle.py; edit it there.

"""Questions about a Job and its pods: which failed, which are new, which indexes are done.

See: chapter *Job: the rules*; upstream ``pkg/controller/job``.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from datetime import datetime, timedelta

from kcm_lite.api.batch import TRACKING_FINALIZER, Job, is_indexed
from kcm_lite.api.core import Pod
from kcm_lite.controllers.job_backoff import (
    finished_time,
    index_absolute_failure_count,
    index_failure_count,
)
from kcm_lite.controllers.job_indexes import (
    UNKNOWN,
    Intervals,
    completion_index,
    has_index,
    parse_indexes,
    with_indexes,
)
from kcm_lite.controllers.job_policies import match_pod_failure_policy


# %% book/08b_job_rules.ipynb#161586b8
def has_tracking_finalizer(pod: Pod) -> bool:
    """Whether a pod still has to be counted: nothing takes it away before that."""
    return TRACKING_FINALIZER in pod.metadata.finalizers


def only_replace_failed_pods(job: Job) -> bool:
    """Whether a pod on its way out is replaced only when it has ended."""
    spec = job.spec
    return spec.pod_replacement_policy == "Failed" or spec.pod_failure_policy is not None


def is_pod_failed(pod: Pod, job: Job) -> bool:
    """Whether a pod counts as failed: as a rule, one that is being deleted does."""
    phase = pod.status.phase
    if phase == "Failed":
        return True
    if pod.metadata.deletion_timestamp is None or phase == "Succeeded":
        return False
    return not only_replace_failed_pods(job)


def has_valid_index(pod: Pod, job: Job) -> bool:
    """Whether a pod's index is one of the Job's; true of any pod if the Job has no indexes."""
    if not is_indexed(job):
        return True
    return UNKNOWN < completion_index(pod) < (job.spec.completions or 0)


# %% book/08b_job_rules.ipynb#af00d19a
def new_finished_pods(
    job: Job,
    pods: Iterable[Pod],
    counted_as_succeeded: Container[str] = (),
    counted_as_failed: Container[str] = (),
    removals: Container[str] = (),
) -> tuple[list[Pod], list[Pod]]:
    """Return the pods that have succeeded, and failed, and that no status mentions yet.

    Args:
        job: Whose pods they are.
        pods: All of them.
        counted_as_succeeded: UIDs that are on their way into the counts.
        counted_as_failed: Likewise.
        removals: UIDs whose finalizer was taken off already.
    """
    succeeded, failed = [], []
    for pod in pods:
        uid = pod.metadata.uid
        if not has_tracking_finalizer(pod) or uid in removals or not has_valid_index(pod, job):
            continue
        if pod.status.phase == "Succeeded" and uid not in counted_as_succeeded:
            succeeded.append(pod)
        if uid not in counted_as_failed and is_pod_failed(pod, job):
            failed.append(pod)
    return succeeded, failed


# %% book/08b_job_rules.ipynb#772892ce
def succeeded_indexes(job: Job, pods: Iterable[Pod]) -> tuple[Intervals, Intervals]:
    """Return the indexes that were done before, and those that are done now."""
    before = parse_indexes(job.status.completed_indexes, job.spec.completions or 0)
    new = (
        completion_index(pod)
        for pod in pods
        if pod.status.phase == "Succeeded"
        and has_tracking_finalizer(pod)
        and has_valid_index(pod, job)
    )
    return before, with_indexes(before, new)


def failed_indexes(job: Job, pods: Iterable[Pod]) -> Intervals:
    """Return the indexes that have used up their own limit."""
    before = parse_indexes(job.status.failed_indexes or "", job.spec.completions or 0)
    new = (
        completion_index(pod)
        for pod in pods
        if has_tracking_finalizer(pod) and has_valid_index(pod, job) and is_index_failed(pod, job)
    )
    return with_indexes(before, new)


def is_index_failed(pod: Pod, job: Job) -> bool:
    """Whether a pod's failure is the one too many of its index."""
    if not is_pod_failed(pod, job):
        return False
    match = match_pod_failure_policy(job.spec.pod_failure_policy, pod)
    if match.action == "FailIndex":
        return True
    return match.counts and index_failure_count(pod) >= (job.spec.backoff_limit_per_index or 0)


# %% book/08b_job_rules.ipynb#4a6f5afd
def past_backoff_limit_on_failure(job: Job, pods: Iterable[Pod]) -> bool:
    """Whether containers were restarted in place as often as the limit allows."""
    if job.spec.template.spec.restart_policy != "OnFailure":
        return False
    restarts = 0
    for pod in pods:
        status = pod.status
        if status.phase in ("Running", "Pending"):
            both = (*status.init_container_statuses, *status.container_statuses)
            restarts += sum(container.restart_count for container in both)
    limit = job.spec.backoff_limit or 0
    return restarts >= max(limit, 1)


def deadline_of(job: Job) -> datetime | None:
    """Return when a running Job has taken too long; None without a limit or while suspended."""
    seconds, start = job.spec.active_deadline_seconds, job.status.start_time
    if seconds is None or start is None or job.spec.suspend:
        return None
    try:
        return start + timedelta(seconds=seconds)
    except OverflowError:
        return None  # later than dates go


def fail_job_message(job: Job, pods: Sequence[Pod]) -> str:
    """Say which pod's failure is the end of the whole Job; nothing if none is."""
    if job.spec.pod_failure_policy is None:
        return ""
    for pod in pods:
        if is_pod_failed(pod, job):
            match = match_pod_failure_policy(job.spec.pod_failure_policy, pod)
            if match.message:
                return match.message
    return ""


# %% book/08b_job_rules.ipynb#c3daa877
def new_index_failure_counts(job: Job, replaced: Pod | None) -> tuple[int, int]:
    """Return the failures, and the ignored ones, that the next pod of an index inherits."""
    if replaced is None:
        return 0, 0
    failures = index_failure_count(replaced)
    ignored = index_absolute_failure_count(replaced) - failures
    if match_pod_failure_policy(job.spec.pod_failure_policy, replaced).counts:
        return failures + 1, ignored
    return failures, ignored + 1


def delayed_pods(
    job: Job, pods: Iterable[Pod], removals: Container[str], taken: Intervals
) -> dict[int, Pod]:
    """Return, by index, the last failed pod of each index that has no pod now and is not done.

    It keeps its finalizer until the next pod exists, which takes over its count of failures.

    Args:
        job: Whose pods they are.
        pods: All of them.
        removals: UIDs whose finalizer was taken off already.
        taken: Indexes that are done, have failed for good, or are being worked on.
    """
    last: dict[int, Pod] = {}
    for pod in pods:
        if not has_tracking_finalizer(pod) or pod.metadata.uid in removals:
            continue
        index = completion_index(pod)
        if not has_valid_index(pod, job) or not is_pod_failed(pod, job) or has_index(taken, index):
            continue
        other = last.get(index)
        if other is None or (
            index_absolute_failure_count(other) <= index_absolute_failure_count(pod)
            and finished_time(other) <= finished_time(pod)
        ):
            last[index] = pod
    return last
