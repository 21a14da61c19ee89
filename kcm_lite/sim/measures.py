"""A rollout in numbers, read from the trace: sizes, pods, availability, from moment to moment.

>>> rollout = measure(cluster.trace, "default/web", start=10)        # doctest: +SKIP
>>> rollout.peak, rollout.lowest, rollout.finished
(13, 8, 9.1)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from kcm_lite.api.apps import Deployment, ReplicaSet
from kcm_lite.api.core import Pod
from kcm_lite.api.meta import controller_of, object_key
from kcm_lite.controllers.deployment_status import PROGRESSING, find_condition
from kcm_lite.controllers.rollout import (
    available,
    deployment_complete,
    max_surge,
    min_available,
    wanted,
)
from kcm_lite.trace import ApiWrite, Trace


@dataclass(frozen=True, slots=True)
class Moment:
    """How things stand from second ``t`` on.

    Attributes:
        sizes: How many pods each replica set wants, by name, the oldest first.
        pods: Pods that are there and not on their way out.
        going: Pods on their way out.
        available: Available pods, as the sets report them.
        floor: How many available pods are promised.
        limit: How many pods there may be, those on their way out aside.
    """

    t: float
    sizes: dict[str, int]
    pods: int
    going: int
    available: int
    floor: int
    limit: int


@dataclass(frozen=True, slots=True)
class Measured:
    """A rollout from its start on.

    Attributes:
        moments: Every change, oldest first; the first is how things stood at the start.
        finished: Seconds from the start until it was complete; None if it was not.
        problem: Why it is not complete, in one line; empty if it is, or if nobody complains.
    """

    moments: tuple[Moment, ...]
    finished: float | None
    problem: str

    @property
    def peak(self) -> int:
        """The most pods at a time, those on their way out aside."""
        return max(m.pods for m in self.moments)

    @property
    def crowd(self) -> int:
        """The most pods at a time, all of them."""
        return max(m.pods + m.going for m in self.moments)

    @property
    def lowest(self) -> int:
        """The fewest available pods."""
        return min(m.available for m in self.moments)


class _State:
    """What is there while the trace is read."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.d: Deployment | None = None
        self.sets: dict[str, ReplicaSet] = {}  # by uid
        self.pods: dict[str, bool] = {}  # by uid: whether it is on its way out

    def take(self, w: ApiWrite) -> bool:
        """Follow a write; report whether it was about the Deployment, its sets or their pods."""
        obj = w.new if w.new is not None else w.old
        if isinstance(obj, Deployment):
            mine = object_key(obj) == self.key
            if mine:
                self.d = obj if w.new is not None else None
            return mine
        ref = controller_of(obj) if isinstance(obj, ReplicaSet | Pod) else None
        if obj is None or ref is None:
            return False
        meta = obj.metadata
        if isinstance(obj, ReplicaSet):
            if f"{meta.namespace}/{ref.name}" != self.key:
                return False
            self.sets.pop(meta.uid, None) if w.new is None else self.sets.update({meta.uid: obj})
            return True
        if ref.uid not in self.sets:
            return False
        if w.new is None:
            self.pods.pop(meta.uid, None)
        else:
            self.pods[meta.uid] = meta.deletion_timestamp is not None
        return True

    def moment(self, t: float) -> Moment:
        """Count."""
        assert self.d is not None
        going = sum(self.pods.values())
        return Moment(
            t=t,
            sizes={rs.metadata.name: wanted(rs) for rs in self.sets.values()},
            pods=len(self.pods) - going,
            going=going,
            available=available(self.sets.values()),
            floor=min_available(self.d),
            limit=wanted(self.d) + max_surge(self.d),
        )


def measure(trace: Trace, key: str, *, start: float = 0.0, end: float = inf) -> Measured:
    """Measure what happened to a Deployment from ``start`` to ``end`` seconds.

    Args:
        trace: What happened.
        key: The Deployment's namespace and name.

    Raises:
        LookupError: There was no such Deployment until ``end``.
    """
    state, moments, finished = _State(key), list[Moment](), None
    for w in trace.of(ApiWrite):
        if w.t > end:
            break
        if w.code >= 300 or not state.take(w) or state.d is None:
            continue
        moment = state.moment(max(w.t, start))
        if moments and moments[-1].t == moment.t:
            moments.pop()
        moments.append(moment)
        if w.t >= start:
            complete = deployment_complete(state.d, state.d.status)
            finished = (finished if finished is not None else w.t - start) if complete else None
    if not moments:
        raise LookupError(f"no Deployment {key} in this run")
    condition = find_condition(state.d.status, PROGRESSING) if state.d is not None else None
    failing = finished is None and condition is not None and condition.status == "False"
    problem = f"{condition.reason}: {condition.message}" if failing and condition else ""
    return Measured(tuple(moments), finished, problem)
