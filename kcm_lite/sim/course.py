"""The course of a Deployment, read from the trace: its pods over time, against what it promised.

A pod is available when it has been ready for ``minReadySeconds`` and is not on its way out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from kcm_lite.api.apps import Deployment, ReplicaSet
from kcm_lite.api.core import Pod
from kcm_lite.api.meta import Object, controller_of, replace
from kcm_lite.controllers.rollout import deployment_complete, max_surge, min_available, wanted
from kcm_lite.reconcile.podutil import is_pod_active
from kcm_lite.sim.cluster import START
from kcm_lite.sim.verdicts import is_ready
from kcm_lite.trace import ApiWrite, Trace

FRACTION = START.microsecond / 1e6  # of a second of wall time that is over at t=0


class Point(NamedTuple):
    """How things stand from ``t`` on.

    Attributes:
        wanted: ``spec.replicas``.
        floor: How many pods a rolling update promises to keep available; 0 for Recreate.
        ceiling: How many pods it may have: wanted and the surge.
        pods: How many there are, those on their way out aside.
        terminating: How many are on their way out, or have ended.
        available: How many are available.
    """

    t: float
    wanted: int
    floor: int
    ceiling: int
    pods: int
    terminating: int
    available: int


class Course(msgspec.Struct):
    """What became of a Deployment.

    Attributes:
        last: Its last version.
        created: When it was created.
        changed: When its last rollout began: with its last template, or its last size if it was
            at rest then.
        finished: When its status first said, after the last change, that it is complete; None: it
            did not.
        gone: When and by whom it was deleted, None if it is still there.
        points: Its pods over time.
        sizes: (second, name of the replica set, ``spec.replicas``), each time that one changes.
    """

    last: Deployment
    created: float
    changed: float
    finished: float | None = None
    gone: tuple[float, str] | None = None
    points: list[Point] = []
    sizes: list[tuple[float, str, int]] = []

    @property
    def is_first(self) -> bool:
        """Whether there was no other before: this is the first rollout."""
        return self.changed == self.created

    def window(self, end: float) -> list[Point]:
        """Return the points that held from its beginning on until it was done, or ``end``."""
        stop = end if self.finished is None else self.finished
        before = [p for p in self.points if p.t <= self.changed]
        return [*before[-1:], *(p for p in self.points if self.changed < p.t <= stop)]


Change = tuple[float, int, int, int]
"""When, and by how many pods, of those on their way out, and of the available ones."""


class _Life(msgspec.Struct):
    """A pod while the trace is read."""

    owner: str  # uid of the replica set
    terminating: bool = False
    ready_since: float | None = None


class _Set(msgspec.Struct):
    """A replica set while the trace is read.

    Attributes:
        spans: (uid of the Deployment that owns it, from when, until when), one after the other.
        changes: What became of its pods.
    """

    min_ready: int
    size: int = -1
    spans: list[tuple[str, float, float]] = []
    changes: list[Change] = []


class _Reader(msgspec.Struct):
    """What is known while the trace is read, by uid."""

    courses: dict[str, Course] = {}
    sets: dict[str, _Set] = {}
    lives: dict[str, _Life] = {}
    limits: dict[str, list[tuple[float, int, int, int]]] = {}  # t, wanted, floor, ceiling


def courses(trace: Trace, end: float) -> list[Course]:
    """Return the course of every Deployment that there was, up to a second of the run."""
    reader = _Reader()
    for w in trace.of(ApiWrite):
        obj = w.new if w.new is not None else w.old
        if w.code >= 300 or obj is None:
            continue
        if isinstance(obj, Deployment):
            _deployment(reader, w, obj)
        elif isinstance(obj, ReplicaSet):
            _set(reader, w, obj)
        elif isinstance(obj, Pod):
            _pod(reader, w, obj)
    for life in reader.lives.values():
        _unready(reader, life, end, at_end=True)
    for uid, course in reader.courses.items():
        changes = [c for rs in reader.sets.values() for c in _changes_for(rs, uid)]
        course.points = _points(reader.limits[uid], changes)
    return list(reader.courses.values())


def _deployment(reader: _Reader, w: ApiWrite, d: Deployment) -> None:
    uid = d.metadata.uid
    course = reader.courses.get(uid)
    if course is None:
        course = reader.courses[uid] = Course(d, w.t, w.t)
    elif d.spec is not course.last.spec and d.spec != course.last.spec:
        _change(course, d, w.t)
    course.last = d
    if w.new is None:
        course.gone = (w.t, w.agent)
    if course.finished is None and deployment_complete(d, d.status):
        course.finished = w.t
    limits = (wanted(d), min_available(d), wanted(d) + max_surge(d))
    steps = reader.limits.setdefault(uid, [])
    if not steps or steps[-1][1:] != limits:
        steps.append((w.t, *limits))


def _change(course: Course, d: Deployment, t: float) -> None:
    """Begin anew: with a new template always, with another size only after the end."""
    old = course.last.spec
    new_template = d.spec.template != old.template
    if new_template or course.finished is not None:
        if replace(d.spec, paused=old.paused) == old:
            return  # only paused, or resumed
        course.changed = t
    course.finished = None


def _set(reader: _Reader, w: ApiWrite, rs: ReplicaSet) -> None:
    owner = _owner(rs) if w.new is not None else ""
    known = reader.sets.get(rs.metadata.uid)
    if known is None:
        known = reader.sets[rs.metadata.uid] = _Set(rs.spec.min_ready_seconds)
    known.min_ready = rs.spec.min_ready_seconds
    before = known.spans[-1] if known.spans else ("", 0.0, 0.0)
    current = before[0] if before[2] == math.inf else ""
    if owner != current:
        if current:
            known.spans[-1] = (current, before[1], w.t)
        if owner in reader.courses:
            known.spans.append((owner, w.t, math.inf))
    size = 0 if w.new is None else wanted(rs)
    course = reader.courses.get(owner or current)
    if course is not None and (known.size != size or owner != current):
        known.size = size
        course.sizes.append((w.t, rs.metadata.name, size if owner else 0))


def _pod(reader: _Reader, w: ApiWrite, pod: Pod) -> None:
    uid = pod.metadata.uid
    life = reader.lives.get(uid)
    if life is None:
        owner = _owner(pod)
        if owner not in reader.sets or w.new is None:
            return
        life = reader.lives[uid] = _Life(owner)
        _count(reader, life, w.t, pods=1)
    if w.new is None:
        _unready(reader, life, w.t)
        left = {"terminating": -1} if life.terminating else {"pods": -1}
        _count(reader, life, w.t, **left)
        del reader.lives[uid]
        return
    ends = not is_pod_active(pod)
    if ends and not life.terminating:
        life.terminating = True
        _count(reader, life, w.t, pods=-1, terminating=1)
    if ends or not is_ready(pod):
        _unready(reader, life, w.t)
    elif life.ready_since is None:
        life.ready_since = w.t


def _unready(reader: _Reader, life: _Life, t: float, *, at_end: bool = False) -> None:
    """Count the time that a pod was available, now that it is over, or at the end of the run."""
    if life.ready_since is None:
        return
    wait = reader.sets[life.owner].min_ready
    since = life.ready_since
    if wait:  # counted from the time of the condition, which is in whole seconds
        since = max(since, math.floor(since + FRACTION) - FRACTION + wait)
    life.ready_since = None
    if since <= t:
        _count(reader, life, since, available=1)
        if not at_end:
            _count(reader, life, t, available=-1)


def _count(
    reader: _Reader,
    life: _Life,
    t: float,
    *,
    pods: int = 0,
    terminating: int = 0,
    available: int = 0,
) -> None:
    reader.sets[life.owner].changes.append((t, pods, terminating, available))


def _owner(obj: Object) -> str:
    ref = controller_of(obj)
    return ref.uid if ref else ""


def _changes_for(rs: _Set, uid: str) -> Iterator[Change]:
    """Yield what became of a set's pods while a Deployment owned it."""
    for owner, start, end in rs.spans:
        if owner == uid:
            until = [c for c in rs.changes if c[0] < end]
            yield _sum(start, [c for c in until if c[0] <= start])
            yield from (c for c in until if c[0] > start)
            if end < math.inf:
                yield _sum(end, until, -1)


def _sum(t: float, changes: list[Change], sign: int = 1) -> Change:
    pods = sum(c[1] for c in changes)
    terminating = sum(c[2] for c in changes)
    available = sum(c[3] for c in changes)
    return t, sign * pods, sign * terminating, sign * available


def _points(limits: list[tuple[float, int, int, int]], changes: list[Change]) -> list[Point]:
    """Return what holds from each moment on at which a limit or a count changes."""
    moments = sorted({t for t, *_ in limits} | {t for t, *_ in changes})
    steps, left = iter(sorted(changes)), limits[:]
    step = next(steps, None)
    now, counts = left[0], [0, 0, 0]
    out: list[Point] = []
    for t in moments:
        while left and left[0][0] <= t:
            now = left.pop(0)
        while step is not None and step[0] <= t:
            counts = [a + b for a, b in zip(counts, step[1:], strict=True)]
            step = next(steps, None)
        out.append(Point(t, *now[1:], *counts))
    return out
