"""What the benchmarks of workloads share: a process for each run, its costs, the aims."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
from collections.abc import Callable
from typing import Any

Aims = dict[int, tuple[float, float]]
"""Seconds and megabytes that a size may take on a quiet machine with two cores."""


def web(kind: str, pods: int) -> dict[str, Any]:
    """A Deployment or ReplicaSet of so many small pods."""
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "web", "image": "web:1"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web"},
        "spec": {"replicas": pods, "selector": {"matchLabels": labels}, "template": template},
    }


def costs(run: Callable[[], Any]) -> dict[str, Any]:
    """Return what a run took that returns its cluster."""
    from kcm_lite.trace import ApiWrite

    started, busy = time.perf_counter(), time.process_time()
    cluster = run()
    return {
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


def best(repeat: int, function: Callable[..., dict[str, Any]], *args: Any) -> dict[str, Any]:
    """Return the run of several, each in a process of its own, that took the CPU least."""
    return min((apart(function, *args) for _ in range(repeat)), key=lambda run: run["cpu"])


def parser(doc: str | None, sizes: list[int]) -> argparse.ArgumentParser:
    """Return the parser of a benchmark's options."""
    options = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    options.add_argument("--sizes", type=int, nargs="+", default=sizes)
    options.add_argument("--repeat", type=int, default=3)
    options.add_argument("--json", metavar="FILE")
    return options


HEAD = "   pods   wall s    cpu s     MB   writes  writes/s   us/pod  growth"


def tell(run: dict[str, Any], base: dict[str, Any]) -> None:
    """Print the row of a run, and note its time per pod over that of another size."""
    per_pod = run["cpu"] / run["pods"]
    run["growth"] = per_pod / (base["cpu"] / base["pods"])
    print(
        f"{run['pods']:>7,} {run['seconds']:>8.2f} {run['cpu']:>8.2f} {run['megabytes']:>6.0f} "
        f"{run['writes']:>8,} {run['writes'] / run['cpu']:>9,.0f} "
        f"{1e6 * per_pod:>8.0f}  {run['growth']:.2f}x"
    )


def misses(run: dict[str, Any], unit: str, aims: Aims, growth: float) -> list[str]:
    """Return which aims a run missed; growth counts from 10,000 pods on."""
    size = run[unit]
    seconds, megabytes = aims.get(size, (float("inf"), float("inf")))
    out = []
    if run["cpu"] > seconds:
        out.append(f"{size:,} {unit}: {run['cpu']:.2f} s, aim {seconds:g} s")
    if run["megabytes"] > megabytes:
        out.append(f"{size:,} {unit}: {run['megabytes']:.0f} MB, aim {megabytes:g} MB")
    if size >= 10_000 and run.get("growth", 0) > growth:
        out.append(f"growth {run['growth']:.2f}x, aim {growth}x")
    return out


def finish(
    path: str | None,
    runs: list[dict[str, Any]],
    unit: str,
    aims: Aims,
    growth: float = float("inf"),
    **more: Any,
) -> int:
    """Print the aims that were missed, write the file if one is wanted, return the exit code."""
    missed = [line for run in runs for line in misses(run, unit, aims, growth)]
    for line in missed:
        print(f"missed: {line}")
    if path:
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"runs": runs, **more}, file, indent=1)
    return 1 if missed else 0
