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

import argparse
import copy
import json
import multiprocessing
import resource
import time
from collections.abc import Callable, Generator
from typing import Any

AIM = {1_000: (1.5, 300.0), 3_000: (5.0, 300.0)}
"""Seconds and megabytes that a size may take on a quiet machine with two cores."""

GROWTH = 1.3
"""Time per pod at 10,000 pods over that at 1,000: no more than this."""

REAL = {
    1_000: {"20 qps, the default": 150.0, "1000 qps": 14.0},
    3_000: {"1000 qps": 44.0},
}
"""Seconds that a real control plane took, by the limit of its clients."""


def deployment(pods: int) -> dict[str, Any]:
    """A Deployment of so many small pods."""
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "web", "image": "web:1"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": pods, "selector": {"matchLabels": labels}, "template": template},
    }


def created_and_rolled(pods: int) -> dict[str, float]:
    """Create a Deployment, roll it, and measure both."""
    from kcm_lite.sim.cluster import Cluster
    from kcm_lite.trace import ApiWrite

    started, busy = time.perf_counter(), time.process_time()
    cluster = Cluster(nodes=max(3, pods // 100), qps=0, detail=False)
    manifest = deployment(pods)
    cluster.apply(manifest)
    _run_until(cluster, lambda status: status.available_replicas == pods)
    rolled = copy.deepcopy(manifest)
    rolled["spec"]["template"]["spec"]["containers"][0]["image"] = "web:2"
    cluster.apply(rolled)

    def done(status: Any) -> bool:
        counts = {status.replicas, status.updated_replicas, status.available_replicas}
        seen = status.observed_generation == 2
        return seen and counts == {pods} and not status.terminating_replicas

    _run_until(cluster, done)
    return {
        "pods": pods,
        "seconds": time.perf_counter() - started,
        "cpu": time.process_time() - busy,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "writes": sum(1 for _ in cluster.trace.of(ApiWrite)),
        "virtual_seconds": cluster.now,
    }


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


def _child(function: Callable[..., Any], args: tuple[Any, ...], answer: Any) -> None:
    answer.put(function(*args))


def apart(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function in a new process."""
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=_child, args=(function, args, answer))
    process.start()
    result = answer.get()
    process.join()
    return result


def misses(run: dict[str, Any]) -> list[str]:
    """Return which aims a run missed."""
    pods = run["pods"]
    seconds, megabytes = AIM.get(pods, (float("inf"), float("inf")))
    out = []
    if run["cpu"] > seconds:
        out.append(f"{pods:,} pods: {run['cpu']:.2f} s, aim {seconds:g} s")
    if run["megabytes"] > megabytes:
        out.append(f"{pods:,} pods: {run['megabytes']:.0f} MB, aim {megabytes:g} MB")
    if pods >= 10_000 and run["growth"] > GROWTH:
        out.append(f"growth {run['growth']:.2f}x, aim {GROWTH}x")
    return out


def main() -> int:
    """Measure, print the table, and return 1 if an aim is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 3_000, 10_000])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    runs: list[dict[str, Any]] = []
    print("   pods   wall s    cpu s     MB   writes  writes/s   us/pod  growth")
    for pods in args.sizes:
        tries = [apart(created_and_rolled, pods) for _ in range(args.repeat)]
        best = min(tries, key=lambda run: run["cpu"])
        per_pod = best["cpu"] / pods
        best["growth"] = per_pod / (runs[0]["cpu"] / runs[0]["pods"]) if runs else 1.0
        runs.append(best)
        print(
            f"{pods:>7,} {best['seconds']:>8.2f} {best['cpu']:>8.2f} {best['megabytes']:>6.0f} "
            f"{best['writes']:>8,} {best['writes'] / best['cpu']:>9,.0f} "
            f"{1e6 * per_pod:>8.0f}  {best['growth']:.2f}x"
        )
        for limit, seconds in REAL.get(pods, {}).items():
            times = seconds / best["cpu"]
            print(f"         real, {limit}: {seconds:g} s, {times:.0f} times as long")
    events = max(apart(simpy_events_per_second) for _ in range(args.repeat))
    print(f"SimPy: {events:,.0f} bare events a second")
    missed = [line for run in runs for line in misses(run)]
    for line in missed:
        print(f"missed: {line}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"runs": runs, "simpy_events_per_second": events}, file, indent=1)
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
