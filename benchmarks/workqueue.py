"""How fast is the work queue? Its operations beside a bare deque, in the same run.

    python benchmarks/workqueue.py [--keys 100000] [--repeat 5]

The deque only appends and pops: it shows what a to-do list costs that keeps no promise. Each
figure is the best of some rounds, taken in turn, so that a busy machine spoils all alike. The
last column is client-go's figure for the same loop (go1.27.3, one goroutine, 2 vCPU), measured
once, on another day: the order of magnitude, no more.
"""

from __future__ import annotations

import argparse
import gc
import platform
import time
from collections import deque
from collections.abc import Callable

from kcm_lite.client.ratelimit import default_controller_rate_limiter
from kcm_lite.client.workqueue import DelayingQueue, WorkQueue
from kcm_lite.clock import VirtualClock
from kcm_lite.trace import Trace

Loop = Callable[[list[str]], None]


def bare_deque(keys: list[str]) -> None:
    waiting: deque[str] = deque()
    add, get = waiting.append, waiting.popleft
    for key in keys:
        add(key)
        get()


def add_distinct(keys: list[str]) -> None:
    queue = WorkQueue[str]()
    for key in keys:
        queue.add(key)


def add_duplicate(keys: list[str]) -> None:
    queue = WorkQueue[str]()
    for _ in keys:
        queue.add("default/web")


def add_get_done(keys: list[str]) -> None:
    queue = WorkQueue[str]()
    for key in keys:
        queue.add(key)
        queue.done(queue.get_nowait())


def add_get_done_same_key(keys: list[str]) -> None:
    queue = WorkQueue[str]()
    for _ in keys:
        queue.add("default/web")
        queue.done(queue.get_nowait())


def add_get_done_awaited(keys: list[str]) -> None:
    async def main() -> None:
        queue = WorkQueue[str]()
        for key in keys:
            queue.add(key)
            queue.done(await queue.get())

    VirtualClock().run(main())


def add_get_done_traced(keys: list[str]) -> None:
    queue = WorkQueue[str]("web", clock=VirtualClock(), trace=Trace())
    for key in keys:
        queue.add(key)
        queue.done(queue.get_nowait())


def worker_that_waits(keys: list[str]) -> None:
    """Every key finds the worker asleep: a future, a call, a turn of the loop."""
    clock, queue = VirtualClock(), WorkQueue[str]()

    async def work() -> None:
        while True:
            queue.done(await queue.get())

    async def main() -> None:
        for key in keys:
            queue.add(key)
            await clock.sleep(0)

    clock.spawn(work(), name="worker")
    clock.run(main())
    clock.close()


def add_after_far_future(keys: list[str]) -> None:
    queue: DelayingQueue[str] = DelayingQueue(clock=VirtualClock())
    for n, key in enumerate(keys):
        queue.add_after(key, 3600 + n)


def add_after_then_drain(keys: list[str]) -> None:
    clock = VirtualClock()
    queue: DelayingQueue[str] = DelayingQueue(clock=clock)
    for n, key in enumerate(keys):
        queue.add_after(key, 0.001 + n % 1000 / 1000)
    clock.settle()
    while queue:
        queue.done(queue.get_nowait())


def rate_limiter_when(keys: list[str]) -> None:
    limiter = default_controller_rate_limiter(VirtualClock())
    for key in keys:
        limiter.when(key)


LOOPS: dict[str, tuple[Loop, float | None]] = {
    "bare deque: append, popleft": (bare_deque, None),
    "add, distinct keys": (add_distinct, 1.87e6),
    "add, the same key": (add_duplicate, 46.2e6),
    "add, get_nowait, done": (add_get_done, 5.99e6),
    "add, get_nowait, done, the same key": (add_get_done_same_key, 6.21e6),
    "add, await get, done": (add_get_done_awaited, None),
    "add, get_nowait, done, traced": (add_get_done_traced, None),
    "add to a sleeping worker": (worker_that_waits, None),
    "add_after, far future": (add_after_far_future, 2.58e6),
    "add_after, then all come and go": (add_after_then_drain, 0.70e6),
    "default rate limiter: when": (rate_limiter_when, 2.10e6),
}
"""What is measured: the loop, and operations a second of the same loop in Go."""


def seconds(loop: Loop, keys: list[str]) -> float:
    """How long one round takes."""
    gc.collect()
    gc.disable()
    try:
        begin = time.perf_counter()
        loop(keys)
        return time.perf_counter() - begin
    finally:
        gc.enable()


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    keys = [f"default/web-{n}" for n in range(args.keys)]
    best = dict.fromkeys(LOOPS, float("inf"))
    for _ in range(args.repeat):
        for name, (loop, _go) in LOOPS.items():
            best[name] = min(best[name], seconds(loop, keys))
    floor = best["bare deque: append, popleft"]
    print(f"{args.keys:,} keys, best of {args.repeat}, Python {platform.python_version()}")
    print(f"{'a round of':38}{'ns':>7}{'rounds/s':>12}{'x deque':>9}{'Go/s':>12}")
    for name, (_loop, go) in LOOPS.items():
        each = best[name] / args.keys
        theirs = f"{go:12,.0f}" if go else f"{'-':>12}"
        print(f"{name:38}{each * 1e9:7.0f}{1 / each:12,.0f}{best[name] / floor:9.1f}{theirs}")


if __name__ == "__main__":
    main()
