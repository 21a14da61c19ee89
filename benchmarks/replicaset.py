"""How fast a ReplicaSet gets its pods, and how fast the clock is beside SimPy's.

    python benchmarks/replicaset.py [--sizes 100 1000 10000] [--repeat 3] [--json FILE]

Every size runs in a process of its own, so that peak memory is that run's alone; of the repeats the
fastest counts. A run goes from the create of the set to the status that says all pods are ready,
without client limits, recording writes only.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import resource
import time
from collections.abc import Callable
from typing import Any

AIM = {1_000: (0.5, None), 10_000: (5.0, 400.0)}
"""Seconds and megabytes that a size may take on a quiet machine with two cores."""

GROWTH = 1.2
"""Time per pod at the largest size over that at the one before: no more than this."""


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

    started = time.perf_counter()
    cluster = Cluster(nodes=max(3, pods // 100), qps=0, detail=False)
    cluster.apply(replica_set(pods))
    while cluster.object("rs/web").status.ready_replicas < pods:
        cluster.run_for(0.25)
        assert cluster.now < 600, "the pods never get ready"
    seconds = time.perf_counter() - started
    return {
        "pods": pods,
        "seconds": seconds,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "writes": sum(1 for _ in cluster.trace.of(ApiWrite)),
        "virtual_seconds": cluster.now,
    }


KEYS, WORKERS, ROUNDS = 10_000, 16, 3
"""The model for both kernels: workers take keys, work 10 ms on each, and put it back for later."""


def on_our_clock() -> float:
    """Run the model on the virtual clock; return steps a second."""
    from kcm_lite.clock import VirtualClock

    clock = VirtualClock()

    async def main() -> None:
        waiting: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
        left = KEYS * ROUNDS
        for key in range(KEYS):
            waiting.put_nowait((key, 1))

        async def worker() -> None:
            nonlocal left
            while left:
                key, turn = await waiting.get()
                await clock.sleep(0.010)
                left -= 1
                if turn < ROUNDS:
                    clock.call_later(0.005 * 2**turn, waiting.put_nowait, (key, turn + 1))

        tasks = [clock.spawn(worker(), name=f"worker-{i}") for i in range(WORKERS)]
        while left:
            await clock.sleep(1.0)
        for task in tasks:
            task.cancel()

    started = time.perf_counter()
    clock.run(main())
    return KEYS * ROUNDS * 3 / (time.perf_counter() - started)


def on_simpy() -> float | None:
    """Run the same model on SimPy; return steps a second, or None if it is not installed."""
    try:
        import simpy
    except ImportError:
        return None
    env = simpy.Environment()
    waiting = simpy.Store(env)
    left = KEYS * ROUNDS
    for key in range(KEYS):
        waiting.put((key, 1))

    def again(delay: float, key: int, turn: int) -> Any:
        yield env.timeout(delay)
        yield waiting.put((key, turn))

    def worker() -> Any:
        nonlocal left
        while left:
            key, turn = yield waiting.get()
            yield env.timeout(0.010)
            left -= 1
            if turn < ROUNDS:
                env.process(again(0.005 * 2**turn, key, turn + 1))

    for _ in range(WORKERS):
        env.process(worker())
    started = time.perf_counter()
    env.run(until=KEYS)
    return KEYS * ROUNDS * 3 / (time.perf_counter() - started)


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


def main() -> int:
    """Measure, print the tables, and return 1 if an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    runs = []
    missed = []
    print(
        f"{'pods':>7} {'seconds':>8} {'MB':>6} {'writes':>7} {'writes/s':>9} {'us/pod':>7}  growth"
    )
    for pods in args.sizes:
        best = min((apart(all_ready, pods) for _ in range(args.repeat)), key=lambda r: r["seconds"])
        per_pod = best["seconds"] / pods
        before = runs[-1]["seconds"] / runs[-1]["pods"] if runs else per_pod
        best["growth"] = per_pod / before
        runs.append(best)
        print(
            f"{pods:>7,} {best['seconds']:>8.2f} {best['megabytes']:>6.0f} {best['writes']:>7,} "
            f"{best['writes'] / best['seconds']:>9,.0f} {1e6 * per_pod:>7.0f}  {best['growth']:.2f}x"
        )
        seconds, megabytes = AIM.get(pods, (None, None))
        if seconds is not None and best["seconds"] > seconds:
            missed.append(f"{pods:,} pods: {best['seconds']:.2f} s, aim {seconds:g} s")
        if megabytes is not None and best["megabytes"] > megabytes:
            missed.append(f"{pods:,} pods: {best['megabytes']:.0f} MB, aim {megabytes:g} MB")
    if runs[-1]["pods"] >= 10_000 and runs[-1]["growth"] > GROWTH:
        missed.append(f"growth {runs[-1]['growth']:.2f}x, aim {GROWTH}x")
    ours = max(apart(on_our_clock) for _ in range(args.repeat))
    theirs = apart(on_simpy)
    print(f"\nclock: {ours:,.0f} steps/s", end="")
    if theirs is None:
        print("; SimPy is not installed")
    else:
        theirs = max(theirs, *(apart(on_simpy) for _ in range(args.repeat - 1)), 0)
        print(f"; SimPy {theirs:,.0f} steps/s; we take {theirs / ours:.2f}x its time")
    for line in missed:
        print(f"missed: {line}")
    if args.json:
        document = {"runs": runs, "clock_steps_per_second": ours, "simpy_steps_per_second": theirs}
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=1)
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
