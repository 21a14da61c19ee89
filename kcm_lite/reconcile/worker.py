# Generated from book/06_work_queue.ipynb by tools/tangle.py; edit it there.

"""Workers: take a key, sync it, give it back; a key that failed comes again later.

See: chapter *The work queue*, section *Workers*; ``processNextWorkItem`` in upstream's controllers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import TypeVar

from kcm_lite.client.workqueue import RateLimitingQueue, ShutDown
from kcm_lite.clock import Clock
from kcm_lite.trace import Note, SyncEnd, SyncStart, Trace

# %% book/06_work_queue.ipynb#b4c376c8
T = TypeVar("T", bound=Hashable)
PANICS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    NotImplementedError,
    RecursionError,
    TypeError,
)
"""Exceptions that are bugs, as a panic is in Go. All others are errors, which a retry may cure."""

Sync = Callable[[T], Awaitable[object]]


# %% book/06_work_queue.ipynb#3af9bd89
async def process_next_work_item(
    queue: RateLimitingQueue[T],
    sync: Sync[T],
    *,
    clock: Clock,
    trace: Trace | None = None,
    controller: str,
    worker: int,
) -> bool:
    """Sync the next key: success forgets its failures, an error brings it back later.

    False means that the queue is shut down and empty. A bug in ``sync`` (see `PANICS`) goes into
    the trace and on to the caller.
    """
    try:
        key = await queue.get()
    except ShutDown:
        return False
    detail = trace if trace is not None and trace.detail else None
    if detail is not None:
        detail.write(SyncStart(clock.time(), controller, worker, key))
    try:
        await sync(key)
    except Exception as error:
        text = str(error) or type(error).__name__
        if detail is not None:
            detail.write(SyncEnd(clock.time(), controller, worker, key, text))
        if is_panic(error):
            if trace is not None:
                trace.write(Note(clock.time(), "panic", f"{controller}, {key!r}: {error!r}"))
            raise
        queue.add_rate_limited(key)
    else:
        if detail is not None:
            detail.write(SyncEnd(clock.time(), controller, worker, key))
        queue.forget(key)
    finally:
        queue.done(key)
    return True


# %% book/06_work_queue.ipynb#2b613da1
def is_panic(error: Exception) -> bool:
    """Whether ``error``, or one of the errors gathered in it, is a bug."""
    if isinstance(error, ExceptionGroup):
        return error.subgroup(PANICS) is not None
    return isinstance(error, PANICS)


async def run_worker(
    queue: RateLimitingQueue[T],
    sync: Sync[T],
    *,
    clock: Clock,
    trace: Trace | None = None,
    controller: str,
    worker: int,
) -> None:
    """Sync one key after the other until the queue is shut down and empty."""
    while await process_next_work_item(
        queue, sync, clock=clock, trace=trace, controller=controller, worker=worker
    ):
        pass


# %% book/06_work_queue.ipynb#1d01d7f9
RESTART_PERIOD = 1.0
"""Seconds until a worker that returned is started again."""


def start_workers(
    queue: RateLimitingQueue[T],
    sync: Sync[T],
    n: int,
    *,
    clock: Clock,
    trace: Trace | None = None,
    controller: str,
    stop: asyncio.Event | None = None,
) -> list[asyncio.Task[None]]:
    """Start ``n`` workers; each is started again 1 s after it returns, until ``stop`` is set.

    To end them, set ``stop``, shut the queue down, and await the tasks: keys in work are finished.
    A bug in ``sync`` (see `PANICS`) leaves ``clock.run()``: the process has crashed.
    """

    async def keep_running(worker: int) -> None:
        while stop is None or not stop.is_set():
            await run_worker(
                queue, sync, clock=clock, trace=trace, controller=controller, worker=worker
            )
            if stop is None or not stop.is_set():
                await clock.sleep(RESTART_PERIOD, background=True)

    return [clock.spawn(keep_running(i), name=f"{controller}/worker-{i}") for i in range(n)]
