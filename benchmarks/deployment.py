"""How fast a Deployment is created and rolled, beside a real control plane and beside SimPy.

    python benchmarks/deployment.py [--sizes 1000 3000 10000] [--repeat 3] [--json FILE]

A run creates a Deployment, waits until all pods are available, changes the image (25 %/25 %), and
waits until the last old pod is gone: no client limits, recording writes only. Every run has a
process of its own, so that peak memory is that run's alone; of the repeats the fastest counts.
Beside the seconds on the wall stand those of the CPU: there is one thread, so they are what a quiet
machine would take, and what the aims are about.

``real`` is how long a v1.36.2 control plane took for the same, with fake kubelets. SimPy's bare
events a second are measured in the same session: one write costs more than one event, as it is
validated, stored, watched, cached, and answered.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any

from runs import HEAD, apart, best, costs, finish, parser, tell, web

AIMS = {1_000: (1.5, 300.0), 3_000: (5.0, 300.0)}
GROWTH = 1.3
"""Time per pod at 10,000 pods over that at 1,000: no more than this."""

REAL = {
    1_000: {"20 qps, the default": 150.0, "1000 qps": 14.0},
    3_000: {"1000 qps": 44.0},
}
"""Seconds that a real control plane took, by the limit of its clients."""


def created_and_rolled(pods: int) -> dict[str, Any]:
    """Create a Deployment, roll it, and measure both."""
    from kcm_lite.sim.cluster import Cluster

    def done(status: Any) -> bool:
        counts = {status.replicas, status.updated_replicas, status.available_replicas}
        seen = status.observed_generation == 2
        return seen and counts == {pods} and not status.terminating_replicas

    def run() -> Cluster:
        cluster = Cluster(nodes=max(3, pods // 100), qps=0, detail=False)
        manifest = web("Deployment", pods)
        cluster.apply(manifest)
        _run_until(cluster, lambda status: status.available_replicas == pods)
        manifest["spec"]["template"]["spec"]["containers"][0]["image"] = "web:2"
        cluster.apply(manifest)
        _run_until(cluster, done)
        return cluster

    return {"pods": pods, **costs(run)}


def _run_until(cluster: Any, done: Callable[[Any], bool]) -> None:
    while not done(cluster.object("deploy/web").status):
        cluster.run_for(0.25)
        assert cluster.now < 600, "the rollout does not end"


def simpy_events_per_second(processes: int = 2_000, steps: int = 100) -> float:
    """Let SimPy do nothing but wait, in so many processes."""
    import simpy

    env = simpy.Environment()

    def wait(number: int) -> Generator[Any, Any, None]:
        for _ in range(steps):
            yield env.timeout(1 + number % 7)

    for number in range(processes):
        env.process(wait(number))
    busy = time.process_time()
    env.run()
    return processes * steps / (time.process_time() - busy)


def main() -> int:
    """Measure, print the table, and return 1 if an aim is missed."""
    args = parser(__doc__, [1_000, 3_000, 10_000]).parse_args()
    runs: list[dict[str, Any]] = []
    print(HEAD)
    for pods in args.sizes:
        run = best(args.repeat, created_and_rolled, pods)
        tell(run, (runs or [run])[0])
        runs.append(run)
        for limit, seconds in REAL.get(pods, {}).items():
            times = seconds / run["cpu"]
            print(f"         real, {limit}: {seconds:g} s, {times:.0f} times as long")
    events = max(apart(simpy_events_per_second) for _ in range(args.repeat))
    print(f"SimPy: {events:,.0f} bare events a second")
    return finish(args.json, runs, "pods", AIMS, GROWTH, simpy_events_per_second=events)


if __name__ == "__main__":
    raise SystemExit(main())
