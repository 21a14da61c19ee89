"""Find recorded runs, replay their scenarios in the simulator, and judge the outcome."""

from __future__ import annotations

import fnmatch
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kcm_lite.api.scheme import RESOURCES
from kcm_lite.api.yaml import load_documents
from kcm_lite.controllers.context import CONTROLLERS
from kcm_lite.sim.cluster import START
from kcm_lite.sim.kinds import is_simulated
from kcm_lite.sim.scenario import parse_scenario, run_scenario
from tests.golden.compare import Part, Verdict, compare
from tests.golden.normalize import normalize
from tests.golden.parts import Run

OWN = Path(__file__).parent.parent / "data" / "golden"

CONTROLLER_OF = {
    "daemon-set-controller": "daemonset-controller",
    "generic-garbage-collector": "garbage-collector-controller",
    "node-controller": "node-lifecycle-controller",
    "pod-garbage-collector": "pod-garbage-collector-controller",
    "pvc-protection-controller": "persistentvolumeclaim-protection-controller",
    "replication-controller": "replicationcontroller-controller",
}
"""The controller behind a user agent, where the two are not called alike."""

SOMETIMES_WATCHED = {"Node": "nodes", "Namespace": "namespaces", "ResourceQuota": "resourcequotas"}
"""Kinds that only some recordings watched: those that show at least one of it."""


@dataclass(frozen=True)
class Recording:
    """A scenario and what a real control plane made of it."""

    id: str
    scenario: Path
    golden: Path


@dataclass
class Result:
    """How a replay came out."""

    id: str
    status: str  # passed, failed, skipped
    reason: str = ""
    title: str = ""
    controller: str = ""
    verdict: Verdict | None = None
    problems: list[str] = field(default_factory=list)

    def line(self) -> str:
        """Sum it up in one line."""
        if self.verdict is None:
            return f"{self.status:8}{self.id:28}{self.reason}"
        strict, fair, times = self.counts()
        exempt = sum(bool(p.exempt) for p in self.verdict.strict)
        worst = max((p.worst for p in self.verdict.times), default=0.0)
        note = f" ({exempt} exempt)" if exempt else ""
        return (
            f"{self.status:8}{self.id:28}strict {strict[0]}/{strict[1]}{note}"
            f"  fair {fair[0]}/{fair[1]}  times {times[0]}/{times[1]} (worst {worst:.1f} s)"
        )

    def counts(self) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        """Return (good, all) of the strict, the fair and the timed parts; exempt ones aside."""
        assert self.verdict is not None
        strict = [p for p in self.verdict.strict if not p.exempt]
        fair, times = self.verdict.fair, self.verdict.times
        return (
            (sum(p.ok for p in strict), len(strict)),
            (sum(p.ok for p in fair), len(fair)),
            (sum(not p.late for p in times), len(times)),
        )

    def differences(self, limit: int) -> Iterator[str]:
        """Yield the first differences, and why a part is exempt."""
        yield from self.problems
        if self.verdict is None:
            return
        bad: list[tuple[str, Part]] = [("strict", p) for p in self.verdict.strict if not p.ok]
        bad += [("fair", p) for p in self.verdict.fair if not p.ok]
        for rule, part in bad[:limit]:
            label = f"exempt, {part.exempt}" if part.exempt else rule
            yield f"{label}: {part.name}: {part.note}"
        late = [(p, x) for p in self.verdict.fair for x in p.late]
        for part, (what, golden, ours) in late[:limit]:
            yield f"time: {part.name}: {what} at {golden:g} in the recording, at {ours:g} with us"


def find_runs(root: Path, patterns: Sequence[str]) -> list[Recording]:
    """Return the runs in a directory whose id matches one of the patterns.

    Raises:
        ValueError: There are none, or a file of a pair is missing.
    """
    scenarios = {p.stem: p for p in sorted((root / "scenarios").glob("*.yaml"))}
    golden = {
        p.name.removesuffix(".gz").removesuffix(".json"): p
        for p in (root / "golden").glob("*.json*")
    }
    if not scenarios:
        raise ValueError(f"{root}: no scenarios/ID.yaml there")
    chosen = [i for i in scenarios if any(fnmatch.fnmatchcase(i, p) for p in patterns)]
    if not chosen:
        raise ValueError(f"{root}: no run matches {' '.join(patterns)}")
    missing = [i for i in chosen if i not in golden]
    if missing:
        raise ValueError(f"{root}: golden/ID.json[.gz] is missing for {', '.join(missing)}")
    return [Recording(i, scenarios[i], golden[i]) for i in chosen]


def load(path: Path) -> Run:
    """Read a recording."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        run: Run = json.load(file)
        return run


def missing_parts(raw: Mapping[str, Any], golden: Run) -> list[str]:
    """Return what a scenario needs and we have not built: kinds and controllers."""
    actions = raw.get("actions") or ()
    manifests = [*(raw.get("objects") or ()), *(a["object"] for a in actions if "object" in a)]
    kinds = [m["kind"] for m in manifests] + [a["kind"] for a in actions if "kind" in a]
    built = {r.kind for r in RESOURCES if is_simulated(r)}
    out = [f"kind {kind}" for kind in dict.fromkeys(kinds) if kind not in built]
    about = raw.get("controller", "")
    if about and f"{about}-controller" not in CONTROLLERS:
        out.append(f"controller {about}")
    agents = dict.fromkeys(w["agent"] for w in golden["writes"])
    unknown = [a for a in agents if CONTROLLER_OF.get(a, a) not in CONTROLLERS]
    return out + [f"writes of {agent}" for agent in unknown]


def replay(recording: Recording) -> Result:
    """Run a scenario and compare it with its recording; whatever goes wrong fails this run only."""
    result = Result(recording.id, "failed", "could not be replayed")
    try:
        _replay(recording, result)
    except Exception as error:
        result.problems += [f"{type(error).__name__}: {line}" for line in str(error).splitlines()]
    return result


def _replay(recording: Recording, result: Result) -> None:
    text = recording.scenario.read_text(encoding="utf-8")
    document = load_documents(text, str(recording.scenario))[0]
    golden = load(recording.golden)
    result.title = document.raw.get("title", "")
    result.controller = document.raw.get("controller", "")
    if missing := missing_parts(document.raw, golden):
        result.status, result.reason = "skipped", f"not built: {', '.join(missing)}"
        return
    run = run_scenario(parse_scenario(document), detail=False)
    watched = {key.partition("/")[0] for key in golden["objects"]}
    ours = normalize(
        run.cluster.trace,
        namespace=run.scenario.namespace,
        start=START.replace(second=run.scenario.start_at_second),
        skip=[p for kind, p in SOMETIMES_WATCHED.items() if kind not in watched],
    )
    run.cluster.close()
    result.verdict = compare(dict(document.raw), golden, ours)
    result.status = "passed" if result.verdict.ok else "failed"


def score_document(results: Sequence[Result]) -> str:
    """Return the scores as the book's page on fidelity reads them."""
    rows = []
    for r in results:
        row: dict[str, Any] = {"id": r.id, "title": r.title, "controller": r.controller}
        row["status"] = r.status
        if r.verdict is not None:
            strict, fair, times = r.counts()
            row |= {"strict": strict, "fair": fair, "times": times}
            row["exempt"] = {p.name: p.exempt for p in r.verdict.strict if p.exempt}
            row["worst_seconds"] = round(max((p.worst for p in r.verdict.times), default=0.0), 1)
        elif r.reason:
            row["reason"] = r.reason
        rows.append(row)
    counts = {s: sum(r.status == s for r in results) for s in ("passed", "failed", "skipped")}
    document = {"release": "v1.36.2", **counts, "runs": rows}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
