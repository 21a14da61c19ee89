"""The table of a run of the harness, as the book shows it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kcm_lite.sim.endstate import LEFT_OUT
from kcm_lite.sim.invariants import RULES
from tests.convergence.explained import EXPLAINED
from tests.convergence.library import Sample, find_samples
from tests.convergence.points import KINDS, Point


@dataclass(frozen=True)
class Row:
    """One scenario: how many points, how they came out.

    Attributes:
        writes: The manager's writes without faults.
        by_kind: Points by kind of fault.
        failed: Points that failed, and 1 if the undisturbed run breaks a promise.
        explained: Points with a failure that is explained, by explanation.
        wrong: What is wrong without any fault.
    """

    id: str
    title: str
    source: str
    controller: str
    writes: int
    by_kind: dict[str, int]
    failed: int
    explained: dict[str, int]
    wrong: list[str]

    @classmethod
    def of(cls, sample: Sample, writes: int, wrong: list[str], points: Sequence[Point]) -> Row:
        """Sum up the points of a scenario."""
        explained = Counter(
            name for p in points for name in dict.fromkeys(f.explained for f in p.failures) if name
        )
        by_kind = Counter(p.kind for p in points)
        failed = sum(p.failed for p in points) + bool(wrong)
        about = sample.title, sample.source, sample.controller
        return cls(
            sample.id, *about, writes, dict(by_kind), failed, dict(sorted(explained.items())), wrong
        )

    @property
    def points(self) -> int:
        """How many runs with a fault."""
        return sum(self.by_kind.values())

    def line(self) -> str:
        """Say it in a line, and one more for each thing that is wrong without any fault."""
        kinds = "  ".join(f"{kind} {n}" for kind, n in self.by_kind.items())
        parts = [f"{self.failed} failed"] if self.failed else []
        parts += [f"{n} explained: {name}" for name, n in self.explained.items()]
        text = f"{'FAILED' if self.failed else 'ok':8}{self.id:36}{kinds}"
        if parts:
            text += f"  ({'; '.join(parts)})"
        return "\n".join([text, *(f"    without faults: {line}" for line in self.wrong)])


def table_document(rows: Sequence[Row], kinds: Sequence[str], before: str = "") -> str:
    """Return the table as JSON text.

    Args:
        rows: The scenarios that were run.
        kinds: With which faults.
        before: A table whose other scenarios are kept, those that still exist.
    """
    scenarios = {row["id"]: row for row in (json.loads(before)["scenarios"] if before else ())}
    for row in rows:
        scenarios[row.id] = {
            "id": row.id,
            "title": row.title,
            "source": row.source,
            "controller": row.controller,
            "writes": row.writes,
            "points": row.by_kind,
            "failed": row.failed,
            "explained": row.explained,
        }
    kept = [scenarios[s.id] for s in find_samples() if s.id in scenarios]
    used = Counter[str]()
    for row in kept:
        used.update(row["explained"])
    document = {
        "points": sum(sum(row["points"].values()) for row in kept),
        "failed": sum(row["failed"] for row in kept),
        "faults": {kind: KINDS[kind][0] for kind in kinds},
        "promises": {name: text for name, (text, _) in RULES.items()},
        "left_out": dict(LEFT_OUT),
        "explained": [
            {
                "name": e.name,
                "faults": e.kinds,
                "about": e.what,
                "reason": e.reason,
                "points": used[e.name],
            }
            for e in EXPLAINED
        ],
        "scenarios": kept,
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
