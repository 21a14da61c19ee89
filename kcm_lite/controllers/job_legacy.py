# Generated from book/08_job.ipynb by tools/tangle.py; edit it there.

"""A Job's sync as v1.22 had it: count the pods that are there, and let the queue delay retries.

See: chapter *Job*, section *Then and now*; ``pkg/controller/job`` of v1.22.
"""

from __future__ import annotations

from kcm_lite.api.batch import INDEXED, NON_INDEXED, Job, is_indexed, is_job_finished
from kcm_lite.api.core import Pod
from kcm_lite.api.errors import Conflict
from kcm_lite.api.meta import Condition, object_key, replace
from kcm_lite.client.workqueue import RateLimitingQueue
from kcm_lite.controllers.job_claims import claim_pods
from kcm_lite.controllers.job_indexes import (
    completion_index,
    format_indexes,
    total,
    with_indexes,
)
from kcm_lite.controllers.job_manage import delete_active_pods, manage_job
from kcm_lite.controllers.job_metrics import measured
from kcm_lite.controllers.job_pods import (
    deadline_of,
    has_valid_index,
    past_backoff_limit_on_failure,
)
from kcm_lite.controllers.job_tracking import note_suspension, tell_end
from kcm_lite.controllers.job_types import (
    COMPLETE,
    CRITERIA_MET,
    FAILED,
    FAILURE_TARGET,
    JobController,
    View,
    condition,
    decide,
    write_status,
)
from kcm_lite.reconcile.podutil import filter_active_pods


# %% book/08_job.ipynb#a958c389
class PatientQueue(RateLimitingQueue[str]):
    """A queue that remembers a key's failures until its controller says otherwise.

    A worker forgets them after every sync without an error; 1.22's worker of Jobs did not.
    """

    __slots__ = ()

    def forget(self, item: str) -> None:
        """Do nothing; see `forget_failures`."""

    def forget_failures(self, item: str) -> None:
        """Let the key's next failure count as its first."""
        super().forget(item)


def forget(jc: JobController, key: str) -> None:
    """Forget the failures of a Job."""
    if isinstance(jc.queue, PatientQueue):
        jc.queue.forget_failures(key)


# %% book/08_job.ipynb#ea5f3d16
async def sync_job_1_22(jc: JobController, key: str) -> None:
    """Bring one Job a step further, as v1.22 did.

    Raises:
        RuntimeError: A pod has failed: the queue is to wait before the next sync.
        Exception: What a claim or a write failed with.
    """
    job = jc.jobs.indexer.get(key)
    if job is None:
        jc.expectations.delete_expectations(key)
    if job is None or is_job_finished(job):
        forget(jc, key)
    elif is_indexed(job) and not jc.gates.indexed_job:
        message = "Skipped Indexed Job sync because feature is disabled."
        jc.recorder.event(job, "Warning", "IndexedJobDisabled", message)
    elif job.spec.completion_mode not in (None, INDEXED, NON_INDEXED):
        message = "Skipped Job sync because completion mode is unknown"
        jc.recorder.event(job, "Warning", "UnknownCompletionMode", message)
    else:
        try:
            await measured(jc.metrics, jc.clock, job, key, step_1_22(jc, job))
        except Conflict:
            return  # whoever changed the Job has it synced again


# %% book/08_job.ipynb#ef85eb53
async def step_1_22(jc: JobController, job: Job) -> None:
    """Count, judge, act on the pods, write the counts."""
    key, may_act = object_key(job), jc.expectations.satisfied_expectations(object_key(job))
    view = count_pods(job, await claim_pods(jc, job))
    if job.status.start_time is None and not job.spec.suspend:
        view.status = replace(view.status, start_time=jc.clock.timestamp())
        if job.spec.active_deadline_seconds is not None:
            jc.queue.add_after(key, job.spec.active_deadline_seconds)
    new_failure, suspended, error = view.failed > job.status.failed, False, None
    view.end = judge_1_22(jc, view, new_failure)
    if view.end is not None:
        active = len(view.active)
        _, error = await delete_active_pods(jc, view)
        view.active_count, view.failed = 0, view.failed + active  # whatever became of them
    else:
        error, suspended = await go_on_1_22(jc, view, may_act)
    more = view.succeeded > job.status.succeeded
    wrote = await write_counts(jc, view, suspended)
    if wrote and new_failure and view.end is None:
        raise RuntimeError(f'failed pod(s) detected for job key "{key}"')
    if error is not None:
        raise error
    if more or wrote:
        forget(jc, key)


# %% book/08_job.ipynb#a9490b16
def count_pods(job: Job, pods: list[Pod]) -> View:
    """Count the pods that are there: one that was deleted does not count, or no longer."""
    view = View(job, job.status, pods, filter_active_pods(pods))
    valid = [pod for pod in pods if has_valid_index(pod, job)]
    view.active_count = len(view.active)
    view.failed = sum(pod.status.phase == "Failed" for pod in valid)
    done = [pod for pod in valid if pod.status.phase == "Succeeded"]
    view.succeeded = len(done)
    if is_indexed(job):
        view.indexes = with_indexes((), map(completion_index, done))
        view.succeeded = total(view.indexes)
    return view


def judge_1_22(jc: JobController, view: View, new_failure: bool) -> Condition | None:
    """Say whether the Job has failed: by a new failure beyond the limit, or by its deadline."""
    job, now = view.job, jc.clock.timestamp()
    spec = job.spec
    beyond = view.failed > (spec.backoff_limit or 0) and len(view.active) != spec.parallelism
    if (new_failure and beyond) or past_backoff_limit_on_failure(job, view.pods):
        message = "Job has reached the specified backoff limit"
        return condition(FAILED, "True", "BackoffLimitExceeded", message, now)
    deadline = deadline_of(replace(job, status=view.status))
    if deadline is not None and deadline <= jc.clock.now():
        message = "Job was active longer than specified deadline"
        return condition(FAILED, "True", "DeadlineExceeded", message, now)
    return None


# %% book/08_job.ipynb#e7610c25
async def go_on_1_22(jc: JobController, view: View, may_act: bool) -> tuple[Exception | None, bool]:
    """Manage the pods; then see whether the Job is complete, suspended or resumed."""
    error, managed = None, may_act and view.job.metadata.deletion_timestamp is None
    if managed:
        error = await manage_job(jc, view)
    wanted = view.job.spec.completions
    enough = view.succeeded > 0 if wanted is None else view.succeeded >= wanted
    if enough and view.active_count == 0:
        view.end = condition(COMPLETE, "True", "", "", jc.clock.timestamp())
        return error, False
    return error, managed and note_suspension(jc, view)


# %% book/08_job.ipynb#7938824d
async def write_counts(jc: JobController, view: View, suspended: bool) -> bool:
    """Write what was counted, and the end, in one status; return whether there was a need to.

    Today's server lets no count sink and wants a forerunner of every end: the status has them.
    """
    before, end = view.job.status, view.end
    status = replace(
        view.status,
        active=view.active_count,
        succeeded=max(view.succeeded, before.succeeded),
        failed=max(view.failed, before.failed),
    )
    counts = (status.active, status.succeeded, status.failed)
    if (
        not suspended
        and end is None
        and counts
        == (
            before.active,
            before.succeeded,
            before.failed,
        )
    ):
        return False
    if is_indexed(view.job):
        status = replace(status, completed_indexes=format_indexes(view.indexes))
    if end is not None:
        decide(jc, view.key, "end", view.key, end.reason or "all completions reached")
        first = replace(end, type=FAILURE_TARGET if end.type == FAILED else CRITERIA_MET)
        status = replace(status, conditions=(*status.conditions, first, end))
        if end.type == COMPLETE:
            status = replace(status, completion_time=end.last_transition_time)
    view.status = status
    if end is not None:
        tell_end(jc, view)
    await write_status(jc, view)
    return True
