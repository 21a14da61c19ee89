"""The smallest scenario file that shows a failure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kcm_lite.api.yaml import dump
from tests.convergence.library import Sample
from tests.convergence.points import KINDS, Point, check_point, faults_after


def shrink(sample: Sample, point: Point) -> tuple[Sample, Point]:
    """Take away actions and objects as long as the same things fail."""
    smaller = True
    while smaller:
        smaller = False
        for candidate in without_one(sample):
            found = same_failure(candidate, point)
            if found is not None:
                sample, point, smaller = candidate, found, True
                break
    return sample, point


def without_one(sample: Sample) -> Iterator[Sample]:
    """Yield the sample without its last action, ..., its first, its last object, ..., its first."""
    for key in ("actions", "objects"):
        entries = list(sample.raw.get(key) or ())
        for i in reversed(range(len(entries))):
            raw = {**sample.raw, key: entries[:i] + entries[i + 1 :]}
            yield replace(sample, raw=raw)


def same_failure(sample: Sample, point: Point) -> Point | None:
    """Return the point in a smaller sample if the same things fail there; None if not."""
    try:
        found = check_point(sample, point.kind, point.k)
    except Exception:  # what was taken away is needed
        return None
    wanted = {f.what for f in point.failures if not f.explained}
    return found if {f.what for f in found.failures if not f.explained} >= wanted else None


def scenario_file(sample: Sample, point: Point) -> str:
    """Return a file for ``kcm-lite simulate``; its head says what it shows."""
    moved = dict(point.moved)
    actions = [
        {**a, "at": moved.get(f"actions[{i}]", a["at"])}
        for i, a in enumerate(sample.raw.get("actions") or ())
    ]
    raw: dict[str, Any] = {**sample.raw, "faults": faults_after(point.kind, point.k)}
    if actions:
        raw["actions"] = sorted(actions, key=lambda a: float(a["at"]))
    head = [f"{point.kind} after write {point.k}: {KINDS[point.kind][0]}."]
    head += [f"{f.what}: {f.text}" for f in point.failures if not f.explained]
    return "".join(f"# {line}\n" for line in head) + dump(raw)


def write_smallest(points: Mapping[Sample, list[Point]], folder: Path) -> Iterator[str]:
    """Write a file for each kind of failure, from the sample with the fewest writes before it.

    Yields:
        A line a file.
    """
    best: dict[tuple[str, str], tuple[int, Sample, Point]] = {}
    for sample, failed in points.items():
        for point in failed:
            for failure in point.failures:
                if failure.explained:
                    continue
                key = point.kind, failure.what
                if key not in best or point.k < best[key][0]:
                    best[key] = point.k, sample, point
    if best:
        folder.mkdir(parents=True, exist_ok=True)
    for (kind, what), (_, sample, point) in best.items():
        small, found = shrink(sample, point)
        path = folder / f"{kind}-{what}-{sample.id}-{point.k}.yaml"
        path.write_text(scenario_file(small, found), encoding="utf-8")
        yield f"{kind}, {what}: kcm-lite simulate {path}"
