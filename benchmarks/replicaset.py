"""How fast a ReplicaSet gets its pods, and how much memory that takes.

    python benchmarks/replicaset.py [--sizes 100 1000 10000] [--repeat 3] [--json FILE]

Every size runs in a process of its own, so that peak memory is that run's alone; of the repeats the
fastest counts. A run goes from the create of the set to the status that says all pods are ready,
without client limits, recording writes only. Beside the seconds on the wall stand those of the CPU:
there is one thread, so they are what a quiet machine would take, and what the aims are about.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
from collections.abc import Callable
from typing import Any

AIM = {1_000: (0.5, 400.0), 10_000: (5.0, 400.0)}
"""Seconds and megabytes that a size may take on a quiet machine with two cores."""

GROWTH = 1.2
"""Time per pod at 10,000 pods over that at the size before: no more than this."""


def replica_set(pods: int) -> dict[str, Any]:
    """A ReplicaSet of so many small pods."""
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "web", "image": "web:1"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web"},
        "spec": {"replicas": pods, "selector": {"matchLabels": labels}, "template": template},
    }


def all_ready(pods: int) -> dict[str, float]:
    """Create a set and let time pass until all its pods are ready."""
    from kcm_lite.sim.cluster import Cluster
    from kcm_lite.trace import ApiWrite

    started, busy = time.perf_counter(), time.process_time()
    cluster = Cluster(nodes=max(3, pods // 100), qps=0, detail=False)
    cluster.apply(replica_set(pods))
    while cluster.object("rs/web").status.ready_replicas < pods:
        cluster.run_for(0.25)
        assert cluster.now < 600, "the pods never get ready"
    return {
        "pods": pods,
        "seconds": time.perf_counter() - started,
        "cpu": time.process_time() - busy,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "writes": sum(1 for _ in cluster.trace.of(ApiWrite)),
        "virtual_seconds": cluster.now,
    }


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
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    runs: list[dict[str, Any]] = []
    print("   pods   wall s    cpu s     MB   writes  writes/s   us/pod  growth")
    for pods in args.sizes:
        best = min((apart(all_ready, pods) for _ in range(args.repeat)), key=lambda r: r["cpu"])
        per_pod = best["cpu"] / pods
        best["growth"] = per_pod / (runs[-1]["cpu"] / runs[-1]["pods"]) if runs else 1.0
        runs.append(best)
        print(
            f"{pods:>7,} {best['seconds']:>8.2f} {best['cpu']:>8.2f} {best['megabytes']:>6.0f} "
            f"{best['writes']:>8,} {best['writes'] / best['cpu']:>9,.0f} "
            f"{1e6 * per_pod:>8.0f}  {best['growth']:.2f}x"
        )
    missed = [line for run in runs for line in misses(run)]
    for line in missed:
        print(f"missed: {line}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"runs": runs}, file, indent=1)
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
