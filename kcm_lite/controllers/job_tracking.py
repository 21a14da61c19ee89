# Generated from book/08_job.ipynb by tools/tangle.py; edit it there.

"""Count every pod once: note its UID, take its finalizer off, then move the counter.

See: chapter *Job*; upstream ``trackJobStatusAndRemoveFinalizers``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Container
from typing import Any

from kcm_lite.api.batch import (
    TRACKING_FINALIZER,
    JobStatus,
    UncountedTerminatedPods,
    is_indexed,
)
from kcm_lite.api.core import Pod
from kcm_lite.api.errors import NotFound
from kcm_lite.api.meta import object_key, replace
from kcm_lite.controllers.job_indexes import completion_index, format_indexes, has_index, total
from kcm_lite.controllers.job_metrics import count_ended_pods, count_policy_actions, mode
from kcm_lite.controllers.job_pods import has_tracking_finalizer, has_valid_index, is_pod_failed
from kcm_lite.controllers.job_policies import match_pod_failure_policy
from kcm_lite.controllers.job_types import (
    COMPLETE,
    CRITERIA_MET,
    FAILED,
    FAILURE_TARGET,
    NOTHING,
    SUSPENDED,
    JobController,
    View,
    condition,
    decide,
    true_condition,
    with_condition,
    write_status,
)

# %% book/08_job.ipynb#793b5525
MAX_UNCOUNTED_PODS = 500
"""How many pods one sync counts at most: their UIDs must fit into the status."""
REMOVE_FINALIZER: dict[str, Any] = {
    "metadata": {"$deleteFromPrimitiveList/finalizers": [TRACKING_FINALIZER]}
}


def with_counted(status: JobStatus, waiting: Container[str]) -> JobStatus:
    """Move the pods that wait no longer from the lists of UIDs into the counts.

    Args:
        status: The old one.
        waiting: UIDs of the pods that still have their finalizer.
    """
    uncounted = status.uncounted_terminated_pods or NOTHING
    succeeded = tuple(uid for uid in uncounted.succeeded if uid in waiting)
    failed = tuple(uid for uid in uncounted.failed if uid in waiting)
    new = (len(uncounted.succeeded) - len(succeeded), len(uncounted.failed) - len(failed))
    if new == (0, 0):
        return status
    return replace(
        status,
        succeeded=status.succeeded + new[0],
        failed=status.failed + new[1],
        uncounted_terminated_pods=UncountedTerminatedPods(succeeded=succeeded, failed=failed),
    )


# %% book/08_job.ipynb#b6d07375
async def track(jc: JobController, view: View, *, flush: bool) -> None:
    """Count the pods that have ended, free them, and end the Job if it is over.

    Args:
        flush: Whether the status has to be written anyway.

    Raises:
        Exception: What a status write or the removal of a finalizer failed with.
    """
    waiting = {
        pod.metadata.uid
        for pod in view.pods
        if pod.metadata.uid not in view.removals and has_tracking_finalizer(pod)
    }
    before = view.status
    view.status = with_counted(view.status, waiting)
    ended, full, new = note_ended_pods(view, waiting)
    note_indexes(view)
    announce_end(jc, view)
    if flush or new or view.status != before:
        await write_and_count(jc, view, before)
        jc.backoff[view.key] = view.record
        before = view.status
    if jc.metrics is not None:
        count_policy_actions(jc.metrics, view.actions)
    written = view.status
    freed, error = await remove_tracking_finalizers(jc, view.key, ended)
    view.status = with_counted(view.status, waiting - freed)
    if error is not None:
        if view.status is not written:
            await write_status(jc, view)
        raise error
    finished = not full and enact_end(jc, view)
    if view.status is not written:
        await write_and_count(jc, view, before)
        if finished:
            tell_end(jc, view)


# %% book/08_job.ipynb#b6d07301
async def write_and_count(jc: JobController, view: View, before: JobStatus) -> None:
    """Write the status, as `write_status` does, and count how its counts have grown."""
    await write_status(jc, view)
    if jc.metrics is not None:
        count_ended_pods(jc.metrics, view.job, before)


# %% book/08_job.ipynb#0d46c7c8
def note_ended_pods(view: View, waiting: Container[str]) -> tuple[list[Pod], bool, bool]:
    """Put pods that have ended into the lists of UIDs.

    Returns:
        The pods that may be freed; whether there was no room for more; whether one is new.
    """
    job, indexed = view.job, is_indexed(view.job)
    lists = view.status.uncounted_terminated_pods or NOTHING
    succeeded, failed = [*lists.succeeded], [*lists.failed]
    known_good, known_bad = frozenset(view.uncounted.succeeded), frozenset(view.uncounted.failed)
    over = view.end is not None and view.end.type != CRITERIA_MET
    free: list[Pod] = []
    new_indexes, full = 0, False
    for pod in sorted(view.pods, key=completion_index) if indexed else view.pods:
        uid = pod.metadata.uid
        if uid not in waiting:
            continue
        bad = is_pod_failed(pod, job)
        if not may_free(view, pod, bad):
            continue
        free.append(pod)
        if pod.status.phase == "Succeeded" and uid not in known_bad:
            if not indexed and uid not in known_good:
                succeeded.append(uid)
            elif indexed and has_valid_index(pod, job):
                new_indexes += not has_index(view.indexes_before, completion_index(pod))
        elif (bad or over) and uid not in known_bad and counts_as_failed(view, pod):
            failed.append(uid)
        if full := new_indexes + len(succeeded) + len(failed) >= MAX_UNCOUNTED_PODS:
            break
    noted = UncountedTerminatedPods(succeeded=tuple(succeeded), failed=tuple(failed))
    view.status = replace(view.status, uncounted_terminated_pods=noted)
    return free, full, new_indexes > 0


# %% book/08_job.ipynb#f5e6a102
def counts_as_failed(view: View, pod: Pod) -> bool:
    """Whether a failed pod is counted: not without a valid index, nor if a policy ignores it."""
    if not has_valid_index(pod, view.job):
        return False
    match = match_pod_failure_policy(view.job.spec.pod_failure_policy, pod)
    if match.action:
        view.actions.append(match.action)
    return match.counts


def may_free(view: View, pod: Pod, failed: bool) -> bool:
    """Whether a pod may lose its finalizer: it has ended, or everything has."""
    if view.job.metadata.deletion_timestamp is not None or view.end is not None:
        return True
    if pod.status.phase == "Succeeded":
        return True
    return failed and view.delayed.get(completion_index(pod)) is not pod


def note_indexes(view: View) -> None:
    """Write the indexes that are done, and those that have failed, into the status."""
    if not is_indexed(view.job):
        return
    failed = None if view.failed_indexes is None else format_indexes(view.failed_indexes)
    view.status = replace(
        view.status,
        succeeded=total(view.indexes),
        completed_indexes=format_indexes(view.indexes),
        failed_indexes=failed,
    )


# %% book/08_job.ipynb#c989ff99
def announce_end(jc: JobController, view: View) -> None:
    """Put the forerunner of Complete or Failed into the status: first it is known, then done."""
    end = view.end
    if end is None or end.type not in (FAILURE_TARGET, CRITERIA_MET):
        return
    known = end.type == CRITERIA_MET and true_condition(view.status.conditions, CRITERIA_MET)
    if not known:
        view.status = replace(view.status, conditions=(*view.status.conditions, end))
    type = FAILED if end.type == FAILURE_TARGET else COMPLETE
    view.end = condition(type, "True", end.reason, end.message, jc.clock.timestamp())


def enact_end(jc: JobController, view: View) -> bool:
    """Put Complete or Failed into the status, unless pods are still to be counted or to go."""
    end, status = view.end, view.status
    if end is None or status.uncounted_terminated_pods not in (None, NOTHING):
        return False
    if view.terminating > 0:
        text = f"{end.type} waits for {view.terminating} pods on their way out"
        decide(jc, view.key, "wait", view.key, text)
        return False
    status = replace(status, conditions=with_condition(status.conditions, end) or status.conditions)
    if end.type == COMPLETE:
        status = replace(status, completion_time=end.last_transition_time)
    view.status = status
    return True


# %% book/08_job.ipynb#b17874b1
def note_suspension(jc: JobController, view: View) -> bool:
    """Keep the Suspended condition and the start time as the spec has it; tell a change."""
    now, on = jc.clock.timestamp(), bool(view.job.spec.suspend)
    what = "suspended" if on else "resumed"
    new = condition(SUSPENDED, str(on), f"Job{what.capitalize()}", f"Job {what}", now)
    conditions = with_condition(view.status.conditions, new)
    if conditions is None:
        return False
    start = view.status.start_time
    if not on or jc.gates.clear_start_time:
        start = None if on else now
    view.status = replace(view.status, conditions=conditions, start_time=start)
    decide(jc, view.key, what, view.key, f"spec.suspend is {str(on).lower()}")
    jc.recorder.event(view.job, "Normal", what.capitalize(), f"Job {what}")
    return True


def tell_end(jc: JobController, view: View) -> None:
    """Tell people how the Job has ended, and do not look at it again."""
    job, end = view.job, view.end
    assert end is not None
    jc.finished.add(job.metadata.uid)
    if jc.metrics is not None:
        result = "succeeded" if end.type == COMPLETE else "failed"
        jc.metrics.count("jobs_finished_total", mode(job), result, end.reason)
    if end.type != COMPLETE:
        jc.recorder.event(job, "Warning", end.reason, end.message)
        return
    wanted = job.spec.completions
    if wanted is not None and job.status.succeeded > wanted:
        message = "Too many succeeded pods running after completion count reached"
        jc.recorder.event(job, "Warning", "TooManySucceededPods", message)
    jc.recorder.event(job, "Normal", "Completed", "Job completed")


# %% book/08_job.ipynb#022d4efe
async def remove_tracking_finalizers(
    jc: JobController, key: str, pods: Collection[Pod]
) -> tuple[set[str], Exception | None]:
    """Take the finalizer off some pods; a pod that is gone has none.

    Returns:
        The UIDs of the pods that have none now, and the first error.
    """
    jc.removals.expect(key, (pod.metadata.uid for pod in pods))
    freed, errors = set[str](), list[Exception]()

    async def remove(pod: Pod) -> None:
        meta = pod.metadata
        try:
            await jc.pod_control.patch_pod(meta.namespace, meta.name, REMOVE_FINALIZER)
        except Exception as error:
            jc.removals.observed(key, meta.uid)
            if not isinstance(error, NotFound):
                errors.append(error)
                return
        freed.add(meta.uid)
        decide(jc, key, "finalizer", object_key(pod), _why_free(pod))

    await asyncio.gather(*[remove(pod) for pod in pods])
    return freed, errors[0] if errors else None


def _why_free(pod: Pod) -> str:
    phase = pod.status.phase
    ended = phase in ("Succeeded", "Failed")
    return f"it is noted as {phase}" if ended else f"it is {phase}, and its Job is over"
