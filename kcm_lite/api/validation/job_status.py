"""The status of Jobs: counts that fit together, and conditions that do not go back.

A rule looks only where an update changes something, so that a status with an old fault can still
be written. See: kubernetes ``pkg/apis/batch/validation`` and ``pkg/registry/batch/job``.
"""

from __future__ import annotations

from collections.abc import Iterator

from kcm_lite.api.batch import (
    Job,
    JobStatus,
    UncountedTerminatedPods,
    is_condition_true,
    is_indexed,
    is_job_finished,
)
from kcm_lite.api.errors import Cause
from kcm_lite.api.validation.field import Causes, duplicate, invalid, omitted, required
from kcm_lite.api.validation.job_policies import check_indexes, overlap_of
from kcm_lite.api.validation.meta import IMMUTABLE, nonnegative, validate_meta_update

COMPLETE, FAILED, FINISHED = "Complete", "Failed", "Finished"
MET, TARGET, SUSPENDED = "SuccessCriteriaMet", "FailureTarget", "Suspended"
_NOTHING = UncountedTerminatedPods()
_CONDITIONS, _COMPLETION_TIME = "status.conditions", "status.completionTime"


def validate_job_status_update(new: Job, old: Job) -> Causes:
    """Check a status that the controller, or somebody in its place, wants to write."""
    causes = validate_meta_update(new.metadata, old.metadata)
    if new.status is old.status:
        return causes
    causes += _validate_counts(new.status)
    for rules in (_of_end, _of_finished, _of_indexes, _of_totals, _of_criteria, _of_change):
        causes += rules(new, old)
    return causes


def _holds(job: Job, name: str) -> bool:
    """Whether a condition is True; Finished means one of the two last ones."""
    return is_job_finished(job) if name == FINISHED else is_condition_true(job, name)


def _changed(new: Job, old: Job, *names: str) -> bool:
    """Whether one of these fields or conditions is another one now."""
    return any(
        getattr(new.status, name) != getattr(old.status, name)
        if name in JobStatus.__struct_fields__
        else _holds(new, name) != _holds(old, name)
        for name in names
    )


def _validate_counts(status: JobStatus) -> Causes:
    causes: Causes = []
    for name in ("active", "succeeded", "failed", "ready", "terminating"):
        causes += nonnegative(getattr(status, name), f"status.{name}")
    uncounted, seen = status.uncounted_terminated_pods or _NOTHING, set[str]()
    for name in ("succeeded", "failed"):
        for i, uid in enumerate(getattr(uncounted, name)):
            path = f"status.uncountedTerminatedPods.{name}[{i}]"
            if not uid:
                causes.append(invalid(path, uid, "must not be empty"))
            elif uid in seen:
                causes.append(duplicate(path, uid))
            seen.add(uid)
    return causes


def _of_end(new: Job, old: Job) -> Iterator[Cause]:
    """Complete and Failed exclude each other, need their forerunners, and have their time."""
    status, complete, failed = new.status, _holds(new, COMPLETE), _holds(new, FAILED)
    end = status.completion_time
    if _changed(new, old, COMPLETE, FAILED) and complete and failed:
        yield omitted(_CONDITIONS, "cannot set Complete=True and Failed=true conditions")
    if _changed(new, old, COMPLETE, TARGET) and complete and _holds(new, TARGET):
        yield omitted(_CONDITIONS, "cannot set Complete=True and FailureTarget=true conditions")
    if _changed(new, old, COMPLETE, "completion_time"):
        if end is not None and not complete:
            detail = "cannot set completionTime when there is no Complete=True condition"
            yield invalid(_COMPLETION_TIME, end, detail)
        if end is None and complete:
            yield required(_COMPLETION_TIME, "completionTime is required for Complete jobs")
    early = end is not None and status.start_time is not None and end < status.start_time
    if _changed(new, old, "start_time", "completion_time") and early:
        yield invalid(_COMPLETION_TIME, end, "must be equal to or after `startTime`")
    if _changed(new, old, FAILED, "failed_indexes") and failed and not _holds(new, TARGET):
        detail = "cannot set Failed=True condition without the FailureTarget=true condition"
        yield omitted(_CONDITIONS, detail)
    if _changed(new, old, COMPLETE, MET) and complete and not _holds(new, MET):
        detail = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
        yield omitted(_CONDITIONS, detail)


def _of_finished(new: Job, old: Job) -> Iterator[Cause]:
    """A finished Job has started, and nothing of it is left to run or to count."""
    status = new.status
    if not is_job_finished(new):
        return
    if _changed(new, old, FINISHED, "active") and status.active > 0:
        yield invalid("status.active", status.active, "active>0 is invalid for finished job")
    never_ran = new.spec.suspend is True and new.spec.completions == 0
    if _changed(new, old, FINISHED, "start_time") and status.start_time is None and not never_ran:
        yield required("status.startTime", "startTime is required for finished job")
    uncounted = status.uncounted_terminated_pods
    if _changed(new, old, FINISHED, "uncounted_terminated_pods") and uncounted not in (
        None,
        _NOTHING,
    ):
        path = "status.uncountedTerminatedPods"
        yield invalid(path, uncounted, "must be empty for finished job")


def _of_indexes(new: Job, old: Job) -> Iterator[Cause]:
    """Indexes can be read, belong to an Indexed Job, and are not done and failed at once."""
    status, spec = new.status, new.spec
    done, failed, completions = status.completed_indexes, status.failed_indexes, spec.completions
    per_index = spec.backoff_limit_per_index is not None
    done_changed, failed_changed = (
        _changed(new, old, "completed_indexes"),
        _changed(new, old, "failed_indexes"),
    )
    if done_changed and completions is not None:
        yield from _unreadable(done, completions, "completedIndexes")
    if failed_changed and completions is not None and per_index and failed is not None:
        yield from _unreadable(failed, completions, "failedIndexes")
    if done_changed and done and not is_indexed(new):
        detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
        yield invalid("status.completedIndexes", done, detail)
    if failed is None:
        return
    if failed_changed and not per_index:
        detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        yield invalid("status.failedIndexes", failed, detail)
    if (done_changed or failed_changed) and completions is not None:
        both = overlap_of(done, failed, completions)
        if both is not None:
            detail = f"failedIndexes and completedIndexes overlap at index: {both}"
            yield invalid("status.failedIndexes", failed, detail)


def _unreadable(text: str, completions: int, name: str) -> Iterator[Cause]:
    try:
        check_indexes(text, completions)
    except ValueError as error:
        yield invalid(f"status.{name}", text, f"error parsing {name}: {error}")


def _of_totals(new: Job, old: Job) -> Iterator[Cause]:
    """No pod of a finished Job is on its way out; no pod is ready without being active."""
    status = new.status
    ready, terminating = status.ready or 0, status.terminating or 0
    if _changed(new, old, FINISHED, "terminating") and terminating > 0 and is_job_finished(new):
        detail = "terminating>0 is invalid for finished job"
        yield invalid("status.terminating", terminating, detail)
    if _changed(new, old, "ready", "active") and ready > status.active:
        yield invalid("status.ready", ready, "cannot set more ready pods than active")


def _of_criteria(new: Job, old: Job) -> Iterator[Cause]:
    """What is a success is not a failure."""
    met = _holds(new, MET)
    if met and _holds(new, FAILED):
        yield omitted(_CONDITIONS, "cannot set SuccessCriteriaMet=True and Failed=true conditions")
    if met and _holds(new, TARGET):
        detail = "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"
        yield omitted(_CONDITIONS, detail)
    if new.spec.success_policy is not None and not met and _holds(new, COMPLETE):
        detail = (
            "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        )
        yield omitted(_CONDITIONS, detail)


def _of_change(new: Job, old: Job) -> Iterator[Cause]:
    """What has been said stays said, and counts only rise."""
    now, was = new.status, old.status
    for name in (FAILED, COMPLETE, TARGET):
        if _holds(old, name) and not _holds(new, name):
            yield omitted(_CONDITIONS, f"cannot disable the terminal {name}=True condition")
    if now.failed < was.failed:
        yield invalid("status.failed", now.failed, "cannot decrease the failed counter")
    elastic = is_indexed(new) and new.spec.completions == new.spec.parallelism
    if now.succeeded < was.succeeded and not elastic:
        yield invalid("status.succeeded", now.succeeded, "cannot decrease the succeeded counter")
    end, before = now.completion_time, was.completion_time
    if end is not None and before is not None and end != before:
        yield invalid(_COMPLETION_TIME, end, IMMUTABLE)
    resuming = _holds(old, SUSPENDED) and any(
        c.type == SUSPENDED and c.status == "False" for c in now.conditions
    )
    if was.start_time not in (None, now.start_time) and not new.spec.suspend and not resuming:
        detail = "field is immutable for unsuspended job once set"
        yield invalid("status.startTime", now.start_time, detail)
    if _holds(old, MET) and not _holds(new, MET):
        yield omitted(_CONDITIONS, "cannot disable the SuccessCriteriaMet=True condition")
    if _holds(old, COMPLETE) and not _holds(old, MET) and _holds(new, MET):
        detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        yield omitted(_CONDITIONS, detail)
