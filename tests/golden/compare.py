"""Compare a run of ours with a recorded one: strict, fair, and its times.

strict  The parts that came out identical in both recordings, to the last detail. A part may be
        exempt when a tie decides it; `EXEMPTIONS` says which ties, and why.
fair    What any correct control plane must do, whatever its latencies. A part that differed
        between the recordings may equal either of them.
times   Where a fair part is equal, its moments lie within half a second and the spread that the
        two recordings showed themselves.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.golden.parts import COLLECTOR, POD_TIMES, Run, difference, resource, scales, text, view

TOLERANCE = 0.5  # seconds
INSTANT = 0.15  # seconds: recorded times have one decimal
BULK = 500  # pods in one burst: the machine's throughput decides the moments


@dataclass(frozen=True)
class Exemption:
    """A kind of tie, and the strict parts that it decides."""

    name: str
    reason: str
    parts: tuple[str, ...]  # a part's name, or the start of it up to a slash
    applies: Callable[[dict[str, Any], Run], bool]  # scenario, golden


@dataclass
class Part:
    """How one part came out."""

    name: str
    ok: bool
    note: str = ""
    exempt: str = ""  # name of the exemption, when the part differs for a known reason
    worst: float = 0.0  # largest difference of times
    late: list[tuple[str, float, float]] = field(default_factory=list)
    timed: bool = False


@dataclass
class Verdict:
    """How a run came out."""

    strict: list[Part]
    fair: list[Part]

    @property
    def times(self) -> list[Part]:
        """The fair parts whose moments were compared."""
        return [p for p in self.fair if p.timed]

    @property
    def ok(self) -> bool:
        """Whether everything that is asked of the run holds."""
        return (
            all(p.ok or p.exempt for p in self.strict)
            and all(p.ok for p in self.fair)
            and not any(p.late for p in self.fair)
        )


def compare(scenario: dict[str, Any], golden: Run, ours: Run) -> Verdict:
    """Compare a run of ours with the recording of the same scenario."""
    return Verdict(
        [strict_part(part, scenario, golden, ours) for part in golden["deterministic"]],
        [fair_part(part, golden, ours) for part in fair_parts(golden)],
    )


def strict_part(part: str, scenario: dict[str, Any], golden: Run, ours: Run) -> Part:
    """Compare a part to the last detail."""
    theirs, mine = view(part, golden), view(part, ours)
    if theirs == mine:
        return Part(part, True)
    for exemption in EXEMPTIONS:
        named = any(part == p or (p[-1] == "/" and part.startswith(p)) for p in exemption.parts)
        if named and exemption.applies(scenario, golden):
            return Part(part, False, difference(theirs, mine), exempt=exemption.name)
    return Part(part, False, difference(theirs, mine))


def fair_parts(golden: Run) -> list[str]:
    """The parts that do not depend on latencies."""
    known = golden["deterministic"]
    pods = next((p for p in ("pods", "pods.victims", "pods.count") if p in known), "pods.count")
    if pods == "pods" and owners_start_together({}, golden):
        pods = "pods.apart"
    ends = [p for p in ("writes.scales", "final") if p in known]
    if is_bulk(golden) or steps_are_chance({}, golden):
        ends = ["final.settled" if p == "final" and not is_bulk(golden) else p for p in ends]
        return [*ends, "pods.victims" if "pods.victims" in known else "pods.count", "pods.count"]
    events = ["events.set"] if {"events", "events.set"} & set(known) else []
    objects = [
        f"{rule}/{key}"
        for key in golden["objects"]
        for rule in ("settled", "conditions")
        if rule == "conditions" or not is_sampled(key, golden)
    ]
    return ["writes.effects", *ends, pods, *events, *objects]


def recordings(golden: Run) -> Iterator[Run]:
    """Yield the first recording, and the second as far as it differed."""
    yield golden
    if second := golden.get("secondRun"):
        yield {**golden, **second, "objects": {**golden["objects"], **second.get("objects", {})}}


def fair_part(part: str, golden: Run, ours: Run) -> Part:
    """Compare a part with either recording; the better match counts."""
    mine = view(part, ours)
    throttled = is_bulk(golden) or steps_are_chance({}, golden)
    limit = TOLERANCE + max(golden["timingSpread"].values(), default=0) + 1e-6
    best: Part | None = None
    for run in recordings(golden):
        theirs = view(part, run)
        out = Part(part, theirs == mine)
        if not out.ok:
            out.note = difference(theirs, mine)
        elif not throttled and (pairs := moments(part, run, ours)):
            out.timed = True
            out.worst = max(abs(x - y) for _, x, y in pairs)
            out.late = [p for p in pairs if abs(p[1] - p[2]) > limit]
        if best is None or (out.ok, -len(out.late)) > (best.ok, -len(best.late)):
            best = out
    assert best is not None
    return best


def moments(part: str, golden: Run, ours: Run) -> list[tuple[str, float, float]]:
    """The moments of a part that correspond: what, when recorded, when with us."""
    kind, _, key = part.partition("/")
    if kind == "settled":
        if view(f"objects/{key}", golden) != view(f"objects/{key}", ours):
            return []
        pairs = zip(golden["objects"].get(key, ()), ours["objects"].get(key, ()), strict=True)
        return [(f"state {i}", a["t"], b["t"]) for i, (a, b) in enumerate(pairs)]
    collect = {"pods": pod_times, "events.set": event_times, "writes.effects": write_times}.get(
        "pods" if part.startswith("pods.") and part != "pods.count" else part
    )
    if collect is None:
        return []
    theirs, mine = collect(golden), collect(ours)
    return [
        (f"{label} #{i}", a, b)
        for label, times in theirs.items()
        for i, (a, b) in enumerate(zip(sorted(times), sorted(mine.get(label, ())), strict=False))
    ]


def pod_times(run: Run) -> dict[str, list[float]]:
    """Moments of the pods; equal pods of one owner are interchangeable."""
    out: dict[str, list[float]] = {}
    for p in run["pods"]:
        for key in POD_TIMES:
            if key in p:
                out.setdefault(f"{p['owner']} {key}", []).append(p[key])
    return out


def event_times(run: Run) -> dict[str, list[float]]:
    """First appearances of events, by object and reason."""
    out: dict[str, list[float]] = {}
    for e in run["events"]:
        out.setdefault(f"{e['kind']}/{e['name']} {e['reason']}", []).append(e["t"])
    return out


def write_times(run: Run) -> dict[str, list[float]]:
    """Moments of the writes that did something, status aside."""
    out: dict[str, list[float]] = {}
    for w in run["writes"]:
        if "code" in w or w.get("noop") or w["resource"].endswith("/status"):
            continue
        name = "" if resource(w) == "pods" else f"/{w['name']}"
        out.setdefault(f"{w['agent']} {w['verb']} {w['resource']}{name}", []).append(w["t"])
    return out


# ---- ties


def is_bulk(golden: Run) -> bool:
    """Whether so much happens at once that the recording machine's throughput shows."""
    busiest = 0
    times = sorted(p["created"] for p in golden["pods"])
    start = 0
    for end, t in enumerate(times):
        while t - times[start] > 10:
            start += 1
        busiest = max(busiest, end - start + 1)
    return busiest >= BULK


def is_sampled(key: str, golden: Run) -> bool:
    """Whether a Job's status, written once a second, showed other counts in each recording."""
    first = [view(f"settled/{key}", run) for run in recordings(golden)]
    return key.startswith("Job/") and first[:-1] != first[1:]


def peers_change_together(scenario: dict[str, Any], golden: Run) -> bool:
    """Whether two pods of one owner make the same step in the same instant, without a grid."""
    if (scenario.get("kubelet") or {}).get("gap"):
        return False
    for steps in pod_times(golden).values():
        times = sorted(steps)
        if any(b - a <= INSTANT for a, b in itertools.pairwise(times)):
            return True
    return False


def owners_start_together(scenario: dict[str, Any], golden: Run) -> bool:
    """Whether pods of several owners were created in the same instant."""
    born = sorted((p["created"], str(p["owner"])) for p in golden["pods"])
    return any(b[0] - a[0] <= INSTANT and a[1] != b[1] for a, b in itertools.pairwise(born))


def controllers_act_together(scenario: dict[str, Any], golden: Run) -> bool:
    """Whether writes of two controllers were committed in the same instant."""
    return any(
        b["t"] - a["t"] <= INSTANT and a["agent"] != b["agent"]
        for a, b in itertools.pairwise(golden["writes"])
    )


def steps_are_chance(scenario: dict[str, Any], golden: Run) -> bool:
    """Whether the two recordings scaled a replica set by different steps."""
    first, second = recordings(golden), golden.get("secondRun", {})
    return "writes" in second and len({text(scales(run)) for run in first}) > 1


def changes_a_second_apart(scenario: dict[str, Any], golden: Run) -> bool:
    """Whether the pods of a Job change just when the syncs of earlier changes are due."""
    if scenario.get("controller") != "job" or (scenario.get("kubelet") or {}).get("gap"):
        return False
    times = sorted(t for steps in pod_times(golden).values() for t in steps)
    return any(abs(b - a - 1) <= INSTANT for a, b in itertools.combinations(times, 2))


def collector_acts_together(scenario: dict[str, Any], golden: Run) -> bool:
    """Whether the collector and a controller wrote pods in the same instant."""
    pods = [w for w in golden["writes"] if resource(w) == "pods"]
    return any(
        abs(a["t"] - b["t"]) <= INSTANT and (a["agent"] == COLLECTOR) != (b["agent"] == COLLECTOR)
        for a, b in itertools.combinations(pods, 2)
    )


EXEMPTIONS = (
    Exemption(
        "peers in one instant",
        "Without a grid several pods of one owner change in the same instant. How many syncs see "
        "them apart, and so which counts the status passes through, is chance. What lasts, and "
        "what the controller does, is compared under the fair rules.",
        ("writes", "writes.set", "writes/replicasets/", "objects/ReplicaSet/"),
        peers_change_together,
    ),
    Exemption(
        "owners in one instant",
        "Two owners create their pods at the same time, so the order of creation among all pods, "
        "and with it the node that each gets by turn, is chance.",
        ("pods",),
        owners_start_together,
    ),
    Exemption(
        "controllers in one instant",
        "The Deployment controller and the ReplicaSet controller are woken by the same write and "
        "work side by side. Whose next write is committed first depends on latencies; each one's "
        "own writes, and every object's, are compared in order all the same.",
        ("writes",),
        lambda scenario, golden: (
            scenario.get("controller") == "deployment"
            and controllers_act_together(scenario, golden)
        ),
    ),
    Exemption(
        "a sync in the instant of a change",
        "A change of a pod has its Job synced a second later. Without a grid pods go from step to "
        "step in whole seconds as well, so whether a sync just sees the next step or just misses "
        "it is chance, and with it which `ready` is written. What lasts, what the controller "
        "does, and when, is compared under the fair rules.",
        ("writes", "objects/Job/"),
        changes_a_second_apart,
    ),
    Exemption(
        "collector in one instant",
        "The garbage collector deletes a Job's pods while the Job controller takes their "
        "finalizers off. A delete that comes first names the version that it saw; one that is "
        "refused for that is repeated without. Which pod fares which way is chance.",
        ("writes", "writes.set"),
        collector_acts_together,
    ),
    Exemption(
        "steps by chance",
        "A rollout takes a step for whatever has become ready by the time a status is written. "
        "Where the two recordings took different steps, the number of steps, and with it a set's "
        "generation, is chance; that it came out the same twice is, too.",
        ("final",),
        steps_are_chance,
    ),
)
