"""What became of each workload, for people: finished or stuck, when, why, at what price.

ReplicaSets and ReplicationControllers have a line each, see `kcm_lite.sim.verdicts`; those of a
Deployment are left to its own answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from kcm_lite.api.apps import Deployment, ReplicaSet
from kcm_lite.api.batch import Job
from kcm_lite.api.core import Pod
from kcm_lite.api.meta import Condition, Object, controller_of
from kcm_lite.api.scheme import RESOURCES
from kcm_lite.controllers.deployment_status import PROGRESSING, find_condition
from kcm_lite.controllers.deployment_templates import find_new_replica_set
from kcm_lite.controllers.replicaset_status import REPLICA_FAILURE
from kcm_lite.controllers.rollout import by_creation, is_rolling_update, wanted
from kcm_lite.sim.cluster import Cluster
from kcm_lite.sim.course import Course, Point, courses
from kcm_lite.sim.durations import stamp
from kcm_lite.sim.jobcourse import JobCourse, job_courses
from kcm_lite.sim.verdicts import is_ready, verdict_of

MOST_PODS = 3  # that are named


class Answer(msgspec.Struct, frozen=True):
    """What became of a workload.

    Attributes:
        subject: ``Kind/name``.
        state: finished, stuck, paused or unfinished; of a Job Complete, Failed, Suspended or
            unfinished; of the others see `verdict_of`.
        line: The answer in one line.
        facts: What else there is to know, a line each.
        data: The same as plain data.
    """

    subject: str
    state: str
    line: str
    facts: tuple[str, ...] = ()
    data: dict[str, Any] = {}

    def lines(self) -> list[str]:
        """Return all of it as lines of text."""
        return [self.line, *(f"  {fact}" for fact in self.facts)]


def answers(cluster: Cluster, end: float, *, settled: bool = False) -> list[Answer]:
    """Return the answers for all workloads that there were.

    Args:
        cluster: As it is at the end.
        end: Second at which the run ended.
        settled: Whether nothing was left to happen then.
    """
    out = []
    for resource in RESOURCES:
        for obj in cluster.objects(resource.type, namespace=""):
            verdict = verdict_of(obj)
            if verdict and not isinstance(obj, Pod | Deployment | Job) and not _owned(obj):
                subject = f"{resource.kind}/{obj.metadata.name}"
                out.append(Answer(subject, verdict, f"{subject} is {verdict}"))
    out += [_deployment(cluster, c, end, settled) for c in courses(cluster.trace, end)]
    out += [_job(c, end) for c in job_courses(cluster.trace, end)]
    return out


def _owned(obj: Object) -> bool:
    ref = controller_of(obj)
    return ref is not None and ref.kind == "Deployment"


# ---- Deployment


def _deployment(cluster: Cluster, course: Course, end: float, settled: bool) -> Answer:
    d = course.last
    subject = f"Deployment/{d.metadata.name}"
    state, why = _state(course, settled)
    stop = end if course.finished is None else course.finished
    seconds = stop - course.changed
    missing = [] if course.finished is not None or course.gone else _unavailable(cluster, d)
    head = {
        "finished": f"{subject} finished in {_span(seconds)}, from {stamp(course.changed)} "
        f"to {stamp(stop)}",
        "stuck": f"{subject} is stuck: {_text(why) if why else 'nothing more will happen'}",
        "paused": f"{subject} is paused, with {d.status.updated_replicas} of {wanted(d)} pods of "
        "the new template",
        "unfinished": f"{subject} has not finished after {_span(seconds)}"
        + (f": {_text(why)}" if why else ""),
        "deleted": f"{subject} was deleted",
    }[state]
    facts = []
    if missing:
        facts.append(f"not available: {_names(missing)}")
    if course.gone is not None:
        facts.append(f"gone at {stamp(course.gone[0])} ({course.gone[1]})")
    points = course.window(end)
    numbers = _numbers(course, points, stop)
    facts += _sizes(d, points, numbers)
    if (lack := _shortage(course, end)) is not None:
        numbers["shortage"] = lack
        again = "the end" if lack["to"] is None else stamp(lack["to"])
        facts.append(
            f"later only {lack['available']} of {lack['wanted']} available (fewer than wanted "
            f"for {_span(lack['seconds'])} between {stamp(lack['from'])} and {again})"
        )
    data = _data(d, state, why, course.changed, course.finished, seconds)
    data |= {"notAvailable": [pod.metadata.name for pod in missing], **numbers}
    return Answer(subject, state, head, tuple(facts), data)


def _data(
    obj: Object,
    state: str,
    why: Condition | None,
    started: float,
    finished: float | None,
    seconds: float,
) -> dict[str, Any]:
    """Return what is told of any workload, as plain data."""
    return {
        "subject": f"{obj.KIND}/{obj.metadata.name}",
        "namespace": obj.metadata.namespace,
        "state": state,
        "reason": why.reason if why else "",
        "message": why.message if why else "",
        "started": started,
        "finished": finished,
        "seconds": round(seconds, 3),
    }


def _state(course: Course, settled: bool) -> tuple[str, Condition | None]:
    """Return how a rollout ended, and the condition that says why."""
    d = course.last
    if course.finished is not None:
        return "finished", None
    if course.gone is not None:
        return "deleted", None
    progress = find_condition(d.status, PROGRESSING)
    failure = find_condition(d.status, REPLICA_FAILURE)
    if failure is not None and failure.status == "True":
        return "stuck", failure
    if progress is not None and progress.status == "False":
        return "stuck", progress
    if d.spec.paused:
        return "paused", None
    return ("stuck" if settled else "unfinished"), progress


def _text(condition: Condition) -> str:
    return f"{condition.reason}: {condition.message}"


def _unavailable(cluster: Cluster, d: Deployment) -> list[Pod]:
    """Return the pods of the new template that are not ready, the oldest first."""
    namespace, uid = d.metadata.namespace, d.metadata.uid
    sets = [
        rs
        for rs in cluster.objects(ReplicaSet, namespace=namespace)
        if (ref := controller_of(rs)) and ref.uid == uid
    ]
    new = find_new_replica_set(d, by_creation(sets))
    if new is None:
        return []
    return [
        seen.pod
        for seen in cluster.kubelets.pods.values()
        if (ref := controller_of(seen.pod))
        and ref.uid == new.metadata.uid
        and not is_ready(seen.pod)
        and seen.pod.metadata.deletion_timestamp is None
    ]


def _names(pods: list[Pod]) -> str:
    """Return how many pods are in which state, and the names of the first of them."""
    by_state: dict[str, list[str]] = {}
    for pod in pods:
        by_state.setdefault(_pod_state(pod), []).append(pod.metadata.name)
    return "; ".join(f"{len(n)} {state} ({_first(n)})" for state, n in by_state.items())


def _first(names: list[str]) -> str:
    return ", ".join(names[:MOST_PODS]) + (", ..." if len(names) > MOST_PODS else "")


def _pod_state(pod: Pod) -> str:
    if pod.status.phase == "Running":
        return "running but not ready"
    if pod.status.phase == "Pending":
        return "not started" if pod.spec.node_name else "without a node"
    return pod.status.phase.lower()


def _numbers(course: Course, points: list[Point], stop: float) -> dict[str, Any]:
    """Return peak and lowest availability of a rollout; the latter not for the very first."""
    peak = max(points, key=lambda p: p.pods)
    every = max(p.pods + p.terminating for p in points)
    out: dict[str, Any] = {
        "peak": peak.pods,
        "peakAllowed": peak.ceiling,
        "peakWithTerminating": every,
    }
    if course.is_first:
        return out
    before = [p for p in course.points if p.t < course.changed][-1]
    ends = [*(p.t for p in points[1:]), stop]
    starts = [max(p.t, course.changed) for p in points]
    spans = zip(points, starts, ends, strict=True)
    below = sum(t - start for p, start, t in spans if p.available < p.floor)
    lowest = min(points, key=lambda p: (p.available - p.floor, p.available))
    least = min(points, key=lambda p: p.available)
    return out | {
        "availableBefore": before.available,
        "wantedBefore": before.wanted,
        "lowestAvailable": least.available,
        "lowestAt": max(least.t, course.changed),
        "promised": lowest.floor,
        "secondsBelow": round(below, 3),
    }


def _shortage(course: Course, end: float) -> dict[str, Any] | None:
    """Return how many pods a finished rollout lost, from when, until it had all for good."""
    after = [p for p in course.points if course.finished is not None and p.t > course.finished]
    short = [i for i, p in enumerate(after) if p.available < p.wanted]
    if not short:
        return None
    least = min((after[i] for i in short), key=lambda p: p.available - p.wanted)
    times = [*(p.t for p in after), end]
    again = times[short[-1] + 1] if short[-1] + 1 < len(after) else None
    return {
        "available": least.available,
        "wanted": least.wanted,
        "from": after[short[0]].t,
        "to": again,
        "seconds": round(sum(times[i + 1] - times[i] for i in short), 3),
    }


def _sizes(d: Deployment, points: list[Point], n: dict[str, Any]) -> list[str]:
    """Return what a rollout cost in pods and in availability, in words."""
    top = max(points, key=lambda p: p.pods)
    peak = f"at most {top.pods} {_plural(top.pods)} at once ({top.wanted} wanted"
    if top.wanted < top.pods <= top.ceiling:
        peak += f", {top.ceiling - top.wanted} more allowed"
    peak += ")"
    if n["peakWithTerminating"] > n["peak"]:
        peak += f", {n['peakWithTerminating']} with those on their way out"
    out = [peak]
    if "promised" in n:
        least = f"at least {n['lowestAvailable']} available"
        promised = f"{n['promised']} promised" if is_rolling_update(d) else "none promised"
        if n["secondsBelow"]:
            promised += f": below that for {_span(n['secondsBelow'])}"
        out.append(f"{least} (at {stamp(n['lowestAt'])}), {promised}")
        if n["availableBefore"] < n["wantedBefore"]:
            of = f"{n['availableBefore']} of {n['wantedBefore']}"
            out.append(f"it began when only {of} were available")
    return out


def _plural(pods: int) -> str:
    return "pod" if pods == 1 else "pods"


def _span(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.2f} s"


# ---- Job


def _job(course: JobCourse, end: float) -> Answer:
    job, status = course.last, course.last.status
    subject = f"Job/{job.metadata.name}"
    verdict = course.verdict
    stop = end if course.ended is None else course.ended
    seconds = stop - course.started
    if verdict is not None:
        state, ending = verdict.type, _ending(verdict)
        line = f"{subject} is {state} after {_span(seconds)}, at {stamp(stop)}{ending}"
    elif course.gone is not None:
        state, line = "deleted", f"{subject} was deleted before its end"
    elif job.spec.suspend:
        state, line = "Suspended", f"{subject} is suspended"
    else:
        state, line = "unfinished", f"{subject} has not ended after {_span(seconds)}"
    counts = f"{status.succeeded} succeeded, {status.failed} failed"
    other = course.pods - status.succeeded - status.failed - status.active
    counts += f", {status.active} active" if status.active else ""
    counts += f", {other} not counted" if other > 0 else ""
    facts = [f"{course.pods} {_plural(course.pods)} used: {counts}"]
    if course.stopped:
        facts.append(f"{course.stopped} of them stopped by the controller before their end")
    if course.backoff:
        facts.append(f"{_span(course.backoff)} lost in back-off")
    if course.gone is not None:
        facts.append(f"gone at {stamp(course.gone[0])} ({course.gone[1]})")
    data = _data(job, state, verdict, course.started, course.ended, seconds) | {
        "pods": course.pods,
        "succeeded": status.succeeded,
        "failed": status.failed,
        "stopped": course.stopped,
        "secondsInBackoff": round(course.backoff, 3),
    }
    return Answer(subject, state, line, tuple(facts), data)


def _ending(condition: Condition) -> str:
    said: Iterable[str] = filter(None, (condition.reason, condition.message))
    text = ": ".join(said)
    return f": {text}" if text else ""
