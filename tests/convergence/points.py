"""A fault after one write of the manager, and whether the run came out as without it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kcm_lite.sim.endstate import differences
from kcm_lite.sim.faults import read_fault
from tests.convergence.explained import EXPLAINED
from tests.convergence.library import Sample
from tests.convergence.runs import Ending, run_forked, run_to_end

KINDS: Mapping[str, tuple[str, Sequence[Mapping[str, Any]]]] = {
    "crash": (
        "the manager is killed and starts again after a second",
        [{"fault": "crashManager", "restartAfter": 1}],
    ),
    "stale": (
        "likewise, and for ten seconds it reads a replica that stands where the server was five "
        "seconds before",
        [
            {"fault": "crashManager", "restartAfter": 1},
            {"fault": "staleCache", "behind": 5, "for": 10},
        ],
    ),
    "drop": (
        "all watches break; the server has forgotten where they were and takes new ones after "
        "two seconds",
        [{"fault": "dropWatch", "expired": True, "for": 2}],
    ),
}
"""The faults: what happens, and the entries of ``faults`` without their moment."""


def faults_after(kind: str, k: int) -> list[dict[str, Any]]:
    """Return the entries of ``faults`` for a fault after the k-th write."""
    return [{**entry, "afterWrite": k} for entry in KINDS[kind][1]]


@dataclass(frozen=True)
class Failure:
    """Something that did not come out as it should.

    Attributes:
        what: ``end`` (another end state), ``stay`` (it does not last), ``error``, or the name of
            a promise.
        text: In words.
        explained: The name of the rule that explains it; empty: none does.
    """

    what: str
    text: str
    explained: str = ""


@dataclass(frozen=True)
class Point:
    """A run with a fault after the k-th write."""

    sample: str
    kind: str
    k: int
    failures: tuple[Failure, ...] = ()
    moved: tuple[tuple[str, float], ...] = ()

    @property
    def failed(self) -> bool:
        """Whether something is not explained."""
        return any(not f.explained for f in self.failures)


def check_points(sample: Sample, kind: str, ks: Iterable[int]) -> list[Point]:
    """Run a sample with a fault after each of these writes, and judge the runs."""
    faults = [read_fault(entry) for entry in KINDS[kind][1]]
    expected, endings = run_forked(sample.scenario(), faults, ks)
    return [judged(sample, kind, k, expected, ending) for k, ending in endings.items()]


def check_point(sample: Sample, kind: str, k: int) -> Point:
    """Run a sample with a fault after the k-th write, as its scenario file says, and judge it."""
    expected = run_to_end(sample.scenario())
    ending = run_to_end(sample.scenario(faults_after(kind, k)))
    return judged(sample, kind, k, expected, ending)


def judged(sample: Sample, kind: str, k: int, expected: Ending, ending: Ending) -> Point:
    """Compare a run with the one without fault."""
    failures = [
        Failure(what, text, explained_by(sample, kind, what, text))
        for what, text in problems(expected, ending)
    ]
    return Point(sample.id, kind, k, tuple(failures), ending.moved)


def problems(expected: Ending, ending: Ending) -> Iterable[tuple[str, str]]:
    """Yield what is wrong with an ending: what it is about, and in words."""
    if ending.error:
        yield "error", ending.error
        return
    for text in differences(expected.state, ending.state):
        yield "end", text
    for text in differences(ending.state, ending.later):
        yield "stay", text
    for violation in ending.broken:
        yield violation.rule, str(violation)


def explained_by(sample: Sample, kind: str, what: str, text: str) -> str:
    """Return the name of the rule that explains a failure; empty: there is none."""
    return next((e.name for e in EXPLAINED if e.covers(sample, kind, what, text)), "")


def spread(n: int, most: int | None) -> list[int]:
    """Return the numbers from 1 to n, or ``most`` of them, evenly spread with both ends."""
    if most is None or n <= most:
        return list(range(1, n + 1))
    if most == 1:
        return [1]
    return sorted({1 + round(i * (n - 1) / (most - 1)) for i in range(most)})
