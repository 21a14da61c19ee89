"""A rollout in a few numbers: the most pods, the fewest available ones, the time that it took.

>>> rollout = measure(cluster.trace, "default/web", start=10)        # doctest: +SKIP
>>> rollout.peak, rollout.lowest, rollout.finished
(13, 8, 9.1)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kcm_lite.api.meta import object_key
from kcm_lite.controllers.deployment_status import PROGRESSING, find_condition
from kcm_lite.sim.course import Point, courses
from kcm_lite.trace import Trace

Sizes = dict[str, int]
"""How many pods each replica set wants, by name, the oldest set first."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A Deployment from a moment on, to the end of the run.

    Attributes:
        points: Pods and limits, each time that one changes; the first is the start.
        sizes: When the sets' sizes changed, and what they are then; the first is the start.
        finished: Seconds from the start until it was complete; None if it is not.
        problem: Why it is not, in one line; empty if it is, or if nobody complains.
    """

    points: tuple[Point, ...]
    sizes: tuple[tuple[float, Sizes], ...]
    finished: float | None
    problem: str

    @property
    def peak(self) -> int:
        """The most pods at a time, those on their way out aside."""
        return max(p.pods for p in self.points)

    @property
    def crowd(self) -> int:
        """The most pods at a time, all of them."""
        return max(p.pods + p.terminating for p in self.points)

    @property
    def lowest(self) -> int:
        """The fewest available pods."""
        return min(p.available for p in self.points)


def measure(trace: Trace, key: str, *, start: float = 0.0) -> Measured:
    """Measure what happened to a Deployment from ``start`` on.

    Args:
        trace: What happened.
        key: The Deployment's namespace and name.
        start: The second at which, for example, its image was changed.

    Raises:
        LookupError: There was no such Deployment.
    """
    end = trace.records[-1].t if trace.records else 0.0
    found = [course for course in courses(trace, end) if object_key(course.last) == key]
    if not found:
        raise LookupError(f"no Deployment {key} in this run")
    course = found[-1]
    finished = None if course.finished is None else max(course.finished - start, 0.0)
    condition = find_condition(course.last.status, PROGRESSING)
    problem = ""
    if finished is None and condition is not None and condition.status == "False":
        problem = f"{condition.reason}: {condition.message}"
    points = [p for p in course.points if p.t <= end]
    before = [p for p in points if p.t <= start][-1:] or points[:1]
    after = [p for p in points if p.t > start]
    first = tuple(p._replace(t=start) for p in before)
    return Measured((*first, *after), _snapshots(course.sizes, start), finished, problem)


def _snapshots(
    changes: Sequence[tuple[float, str, int]], start: float
) -> tuple[tuple[float, Sizes], ...]:
    """Return the sizes of all sets at the start and after every change of one."""
    now: Sizes = {}
    out: list[tuple[float, Sizes]] = [(start, now)]
    for t, name, size in changes:
        now = now | {name: size}
        if t <= start:
            out[0] = (start, now)
        else:
            out.append((t, now))
    return tuple(out)
