"""How fast is virtual time? The same model on the virtual clock and on SimPy.

    python benchmarks/clock_vs_simpy.py [--keys 10000] [--workers 16] [--repeat 5]

Workers take keys from a queue. For each key they read (one sleep), make two writes at once
(each a task with two sleeps) and leave a timer behind (the watch event of the write). Both
programs must count the same events and end at the same virtual time, or there is no figure.
Times are processor time, the best of some rounds taken in turn, so that a busy machine spoils
both alike.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import platform
import time
from collections.abc import Callable, Generator
from typing import Any

import simpy

from kcm_lite.clock import VirtualClock

READ, SEND, ANSWER, WATCH = 0.001, 0.004, 0.006, 0.01
Result = tuple[int, float]  # events, virtual seconds at the end


def on_clock(keys: int, workers: int) -> Result:
    """The model as coroutines on a ``VirtualClock``."""
    clock = VirtualClock()
    queue: asyncio.Queue[int] = asyncio.Queue()
    seen: list[int] = []

    async def write() -> None:
        await clock.sleep(SEND)
        await clock.sleep(ANSWER)

    async def worker() -> None:
        while True:
            key = await queue.get()
            await clock.sleep(READ)
            await asyncio.gather(write(), write())
            clock.call_later(WATCH, seen.append, key)

    for key in range(keys):
        queue.put_nowait(key)
    for n in range(workers):
        clock.spawn(worker(), name=f"worker-{n}")
    end = clock.settle()
    clock.close()
    return len(seen) * 6, end


def on_simpy(keys: int, workers: int) -> Result:
    """The model as generators on a SimPy ``Environment``."""
    env = simpy.Environment()
    queue = simpy.Store(env)
    seen: list[int] = []

    def write() -> Generator[Any, Any, None]:
        yield env.timeout(SEND)
        yield env.timeout(ANSWER)

    def worker() -> Generator[Any, Any, None]:
        while True:
            key = yield queue.get()
            yield env.timeout(READ)
            yield env.all_of([env.process(write()), env.process(write())])
            env.timeout(WATCH, key).callbacks.append(lambda event: seen.append(event.value))

    for key in range(keys):
        queue.put(key)
    for _ in range(workers):
        env.process(worker())
    env.run()
    return len(seen) * 6, round(float(env.now), 9)


def timed(model: Callable[[int, int], Result], keys: int, workers: int) -> tuple[float, Result]:
    """Processor seconds for one run of a model, and what it returned."""
    gc.collect()
    begin = time.process_time()
    result = model(keys, workers)
    return time.process_time() - begin, result


def main() -> None:
    """Print one line for each kernel and the ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()

    best: dict[str, float] = {}
    results: dict[str, Result] = {}
    for _ in range(options.repeat):
        for name, model in (("VirtualClock", on_clock), ("SimPy", on_simpy)):
            seconds, results[name] = timed(model, options.keys, options.workers)
            best[name] = min(seconds, best.get(name, seconds))
    if results["VirtualClock"] != results["SimPy"]:
        raise SystemExit(f"the models differ: {results}")

    events, end = results["SimPy"]
    print(f"Python {platform.python_version()}, {options.keys:,} keys, {options.workers} workers")
    print(f"{events:,} timed events in {end:g} virtual seconds; best of {options.repeat}")
    for name, seconds in best.items():
        print(f"{name:13}{seconds:8.3f} s {events / seconds:12,.0f} events/s")
    print(f"ratio        {best['VirtualClock'] / best['SimPy']:8.2f}")


if __name__ == "__main__":
    main()
