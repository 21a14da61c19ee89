"""How long a Job of many completions takes to simulate, and how much memory.

    python benchmarks/job.py [--sizes 1000 10000] [--parallelism 500] [--repeat 3] [--json FILE]

Every size runs in a process of its own; of the repeats the fastest counts. Of the pods, 5 % fail
(every twentieth), the others succeed after 10 s. A run goes from the create of the Job to its
Complete condition, without client limits, recording writes only. Seconds are of the CPU: there is
one thread, so they are what a quiet machine would take.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
from collections.abc import Callable
from typing import Any

AIM = {10_000: (10.0, 500.0)}
"""Seconds and megabytes that a size may take on a quiet machine with two cores."""


def job(completions: int, parallelism: int) -> dict[str, Any]:
    """A Job that no number of failures ends."""
    spec = {"restartPolicy": "Never", "containers": [{"name": "work", "image": "work:1"}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "work"},
        "spec": {
            "completions": completions,
            "parallelism": parallelism,
            "backoffLimit": completions,
            "template": {"spec": spec},
        },
    }


def complete(completions: int, parallelism: int) -> dict[str, float]:
    """Create a Job and let time pass until it is complete."""
    from kcm_lite.api.batch import is_job_finished
    from kcm_lite.sim.cluster import Cluster
    from kcm_lite.trace import ApiWrite

    started, busy = time.perf_counter(), time.process_time()
    every_twentieth = list(range(20, completions * 2, 20))
    profile = {
        "readyAfter": 0,
        "exit": {"after": 10, "code": 0},
        "overrides": [{"match": {"index": every_twentieth}, "exit": {"after": 10, "code": 1}}],
    }
    cluster = Cluster(nodes=max(3, parallelism // 50), qps=0, detail=False, profile=profile)
    cluster.apply(job(completions, parallelism))
    while not is_job_finished(cluster.object("job/work")):
        cluster.run_for(1)
        assert cluster.now < 100_000, "the Job does not end"
    status = cluster.object("job/work").status
    assert status.succeeded == completions, status
    return {
        "completions": completions,
        "failed": status.failed,
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
    size = run["completions"]
    seconds, megabytes = AIM.get(size, (float("inf"), float("inf")))
    out = []
    if run["cpu"] > seconds:
        out.append(f"{size:,} completions: {run['cpu']:.2f} s, aim {seconds:g} s")
    if run["megabytes"] > megabytes:
        out.append(f"{size:,} completions: {run['megabytes']:.0f} MB, aim {megabytes:g} MB")
    return out


def main() -> int:
    """Measure, print the table, and return 1 if an aim is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--parallelism", type=int, default=500)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    runs: list[dict[str, Any]] = []
    print("completions  failed   wall s    cpu s     MB   writes  us/write  virtual s")
    for size in args.sizes:
        tries = (apart(complete, size, args.parallelism) for _ in range(args.repeat))
        best = min(tries, key=lambda run: run["cpu"])
        runs.append(best)
        print(
            f"{size:>11,} {best['failed']:>7,} {best['seconds']:>8.2f} {best['cpu']:>8.2f} "
            f"{best['megabytes']:>6.0f} {best['writes']:>8,} "
            f"{1e6 * best['cpu'] / best['writes']:>9.0f} {best['virtual_seconds']:>10.0f}"
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
