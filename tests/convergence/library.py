"""The scenarios of the library: recorded runs, cases, examples."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kcm_lite.api.yaml import Document, load_documents
from kcm_lite.sim.faults import KINDS
from kcm_lite.sim.scenario import Scenario, is_scenario, parse_scenario

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests" / "data" / "golden" / "scenarios"
CASES = ROOT / "book" / "cases"
EXAMPLES = ROOT / "examples"

MANIFEST_SECONDS = 60  # how long a manifest without a scenario runs
NOT_RUN = ("faults", "expect")
"""Parts of a scenario that are left out: the faults are ours, the ends are compared instead."""
FAULTS = {*KINDS, "restartManager"}
"""Actions that are left out for the same reason."""


@dataclass(frozen=True, eq=False)
class Sample:
    """A scenario of the library.

    Attributes:
        id: Names it.
        source: ``recorded``, ``case`` or ``example``.
        raw: The document, without the faults and expectations that it may have.
    """

    id: str
    source: str
    raw: Mapping[str, Any]

    @property
    def title(self) -> str:
        """What it shows."""
        return str(self.raw.get("title", ""))

    @property
    def controller(self) -> str:
        """The controller that it is about."""
        return str(self.raw.get("controller", ""))

    def scenario(self, faults: Sequence[Mapping[str, Any]] = ()) -> Scenario:
        """Return the scenario, with faults."""
        return parsed({**self.raw, "faults": [*faults]} if faults else self.raw)


def parsed(raw: Mapping[str, Any]) -> Scenario:
    """Read a scenario from plain data."""
    return parse_scenario(Document(str(raw.get("id", "")), 1, 1, raw))


def find_samples(patterns: Sequence[str] = ("*",)) -> list[Sample]:
    """Return the scenarios whose id matches one of the patterns.

    Raises:
        ValueError: A pattern matches none.
    """
    found = [
        sample
        for folder, source in ((RECORDED, "recorded"), (CASES, "case"), (EXAMPLES, "example"))
        for path in sorted(folder.glob("*.yaml"))
        if (sample := read_sample(path, source)) is not None
    ]
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(s.id, pattern) for s in found):
            raise ValueError(f"--only: no scenario matches {pattern}")
    return [s for s in found if any(fnmatch.fnmatchcase(s.id, p) for p in patterns)]


def read_sample(path: Path, source: str) -> Sample:
    """Read a file: a scenario, or manifests to be applied and watched for a while."""
    documents = load_documents(path.read_text(encoding="utf-8"), str(path))
    if is_scenario(documents[0].raw):
        raw = {k: v for k, v in documents[0].raw.items() if k not in NOT_RUN}
        if actions := raw.get("actions"):
            raw["actions"] = [a for a in actions if a["do"] not in FAULTS]
        return Sample(str(raw["id"]), source, raw)
    name = f"example-{path.stem}"
    objects = [document.raw for document in documents]
    return Sample(
        name,
        source,
        {"id": name, "batch": "qps", "objects": objects, "until": MANIFEST_SECONDS},
    )
