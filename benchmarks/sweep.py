"""How long 1,000 rollouts of 50 pods take on all cores, and on one.

    python benchmarks/sweep.py [--seeds 10] [--json FILE]

A rollout: a Deployment of 50 pods gets another image; the run ends a minute later. The grid is 4
surges x 5 limits of unavailability x 5 times to get ready x the seeds. It is swept twice: by
`sweep_scenario`, which finds out by itself that a process a core is worth it, and point by point in
one process. Beside the seconds on the wall stand those of the CPU; divided by the cores they are
what a quiet machine would take, and what the aim is about.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from typing import Any

AIM = 120.0
"""Seconds that 1,000 rollouts may take on two quiet cores."""

SCENARIO = """
id: sweep
objects:
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web}
  spec:
    replicas: 50
    selector: {matchLabels: {app: web}}
    template:
      metadata: {labels: {app: web}}
      spec:
        containers: [{name: web, image: "web:1"}]
actions:
- {at: 30, do: setImage, kind: Deployment, name: web, container: web, image: "web:2"}
until: 90
"""

GRID: dict[str, list[Any]] = {
    "maxSurge": [0, 1, "25%", "100%"],
    "maxUnavailable": [1, 2, "10%", "25%", "50%"],
    "readyAfter": [0.5, 1, 2, "1s..3s", "0s..5s"],
}


def _cpu() -> float:
    """Return the seconds of the CPU that this process and its children have used."""
    used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def main() -> int:
    """Measure, print the table, and return 1 if the aim is missed."""
    from kcm_lite.sim.settings import Variants
    from kcm_lite.viz.sweep import cores, points_of, sweep_scenario

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    grid = {**GRID, "seed": list(range(args.seeds))}
    points = points_of(grid)

    wall, cpu = time.perf_counter(), _cpu()
    frame = sweep_scenario(SCENARIO, grid)
    many = {"seconds": time.perf_counter() - wall, "cpu": _cpu() - cpu}

    run = Variants.of(SCENARIO)
    wall, cpu = time.perf_counter(), _cpu()
    rows = [run(**point) for point in points]
    one = {"seconds": time.perf_counter() - wall, "cpu": _cpu() - cpu}

    same = frame["seconds"].fillna(-1).tolist() == [r["seconds"] or -1 for r in rows]
    assert same, "the order of completion must not matter"
    print(f"{len(points):,} rollouts of 50 pods   wall s    cpu s")
    for name, measured in ((f"{cores()} cores", many), ("one process", one)):
        print(f"{name:<24} {measured['seconds']:>8.1f} {measured['cpu']:>8.1f}")
    print(f"one process takes {one['seconds'] / many['seconds']:.2f} times as long")
    print(frame.groupby("maxSurge", sort=False)[["seconds", "unavailable", "surge"]].mean())
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"rollouts": len(points), "cores": cores(), "many": many, "one": one}, file)
    quiet, limit = many["cpu"] / 2, AIM * len(points) / 1000
    print(f"two quiet cores take {quiet:.0f} s, aim {limit:.0f} s")
    if quiet > limit:
        print("missed")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
