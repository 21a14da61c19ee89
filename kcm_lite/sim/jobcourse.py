"""The course of a Job, read from the trace: how it ended, its pods, its waits."""

from __future__ import annotations

import msgspec

from kcm_lite.api.batch import Job
from kcm_lite.api.core import Pod
from kcm_lite.api.meta import Condition, controller_of, object_key
from kcm_lite.controllers.job_types import AGENT
from kcm_lite.reconcile.podutil import is_pod_terminal
from kcm_lite.trace import ApiWrite, Decision, Trace

BACKOFF = "back-off"
"""The controller's decision to create no pod for now."""


class JobCourse(msgspec.Struct):
    """What became of a Job.

    Attributes:
        last: Its last version.
        started: When it was created, or last resumed.
        ended: When its status said that it is Complete or Failed; None: it did not.
        verdict: The condition that said so.
        pods: How many pods were created for it.
        stopped: How many of them the controller deleted before they had ended by themselves.
        backoff: Seconds in which it made no pod because others had failed before.
        gone: When and by whom it was deleted; None if it is still there.
    """

    last: Job
    started: float
    ended: float | None = None
    verdict: Condition | None = None
    pods: int = 0
    stopped: int = 0
    backoff: float = 0.0
    gone: tuple[float, str] | None = None
    waits_since: float | None = None

    def wake(self, t: float) -> None:
        """End a wait, if it is one."""
        if self.waits_since is not None:
            self.backoff += t - self.waits_since
            self.waits_since = None


def job_courses(trace: Trace, end: float) -> list[JobCourse]:
    """Return the course of every Job without a controller above it, up to a second of the run."""
    by_uid: dict[str, JobCourse] = {}
    by_key: dict[str, JobCourse] = {}
    for record in trace.records:
        if type(record) is Decision:
            if record.what == BACKOFF and record.controller == AGENT:
                course = by_key.get(record.key)
                if course is not None and course.waits_since is None:
                    course.waits_since = record.t
        elif type(record) is ApiWrite and record.code < 300:
            obj = record.new if record.new is not None else record.old
            if isinstance(obj, Job) and controller_of(obj) is None:
                _job(record, obj, by_uid, by_key)
            elif isinstance(obj, Pod) and (record.old is None or record.verb == "delete"):
                ref = controller_of(obj)
                if ref is not None and (course := by_uid.get(ref.uid)) is not None:
                    _pod(record, course)
    for course in by_uid.values():
        course.wake(end)
    return list(by_uid.values())


def _pod(w: ApiWrite, course: JobCourse) -> None:
    """Count a pod that comes, or that the controller stops."""
    if w.old is None:
        course.pods += 1
        course.wake(w.t)
    elif w.agent == AGENT and isinstance(w.old, Pod) and not is_pod_terminal(w.old):
        course.stopped += 1


def _job(w: ApiWrite, job: Job, by_uid: dict[str, JobCourse], by_key: dict[str, JobCourse]) -> None:
    """Follow a write of a Job."""
    course = by_uid.get(job.metadata.uid)
    if course is None:
        course = by_uid[job.metadata.uid] = by_key[object_key(job)] = JobCourse(job, w.t)
    if course.last.spec.suspend and not job.spec.suspend:
        course.started = w.t
    course.last = job
    if course.verdict is None:
        said = (c for c in job.status.conditions if c.type in ("Complete", "Failed"))
        course.verdict = next((c for c in said if c.status == "True"), None)
        if course.verdict is not None:
            course.ended = w.t
    if w.new is None:
        course.gone = (w.t, w.agent)
    if course.verdict is not None or course.gone is not None:
        course.wake(w.t)
