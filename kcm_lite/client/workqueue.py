# Generated from book/06_work_queue.ipynb by tools/tangle.py; edit it there.

"""Work queues: what a controller still has to look at.

>>> queue: WorkQueue[str] = WorkQueue()
>>> queue.add("default/web")
>>> queue.add("default/web")            # a second event for the same object
>>> key = queue.get_nowait()
>>> queue.add("default/web")            # a third, while a worker holds the key
>>> len(queue)
0
>>> queue.done(key)
>>> len(queue)
1

See: chapter *The work queue*; client-go ``util/workqueue``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from heapq import heappop, heappush
from itertools import count
from math import isfinite
from typing import Generic, Protocol, TypeVar

from kcm_lite.client.ratelimit import RateLimiter, default_controller_rate_limiter
from kcm_lite.clock import Clock
from kcm_lite.eventloop import SECOND
from kcm_lite.trace import QueueOp, Trace

# %% book/06_work_queue.ipynb#4d666de0
T = TypeVar("T", bound=Hashable)
T_contra = TypeVar("T_contra", contravariant=True)


class ShutDown(Exception):
    """The queue is shut down and empty: the worker that asked should end."""


# %% book/06_work_queue.ipynb#8b63247a
class QueueState(Generic[T]):
    """The three collections of a work queue.

    Attributes:
        order: The keys to hand out, oldest first. Each is in ``dirty`` and not in ``processing``.
        dirty: The keys that need work. Asked for membership only, never iterated.
        processing: The keys that workers hold. They may be dirty again.
        shutting_down: Whether ``add`` ignores its keys.
    """

    __slots__ = ("_drainers", "_getters", "_watch", "dirty", "order", "processing", "shutting_down")

    def __init__(self) -> None:
        self.order: deque[T] = deque()
        self.dirty: set[T] = set()
        self.processing: set[T] = set()
        self.shutting_down = False
        self._getters: deque[asyncio.Future[None]] = deque()  # workers that wait for a key
        self._drainers: deque[asyncio.Future[None]] = deque()  # who waits for the last key's done()
        self._watch: _Watch[T] | None = None  # who is told of every step

    def __len__(self) -> int:
        """How many keys wait to be handed out."""
        return len(self.order)


# %% book/06_work_queue.ipynb#d20d7d20
class DedupQueue(QueueState[T]):
    """What happens to a key: it needs work, a worker takes it, the worker gives it back."""

    __slots__ = ()

    def add(self, item: T) -> None:
        """Say that ``item`` needs work; it is queued unless it waits already or is in work."""
        if self.shutting_down:
            return
        if new := item not in self.dirty:
            self.dirty.add(item)
            if item not in self.processing:
                self.order.append(item)
                if self._getters:
                    _wake_one(self._getters)
        if self._watch is not None:
            self._watch.add(self, item, new)

    def get_nowait(self) -> T:
        """Take the oldest key, or raise ``asyncio.QueueEmpty``, or ``ShutDown`` if no more come."""
        if not self.order:
            raise ShutDown if self.shutting_down else asyncio.QueueEmpty
        item = self.order.popleft()
        self.processing.add(item)
        self.dirty.discard(item)
        if self._watch is not None:
            self._watch.get(self, item)
        return item

    def done(self, item: T) -> None:
        """Give ``item`` back; if it became dirty in the meantime it is queued again."""
        self.processing.discard(item)
        if item in self.dirty:
            self.order.append(item)
            if self._getters:
                _wake_one(self._getters)
        if self._drainers and not self.processing:
            _wake_all(self._drainers)
        if self._watch is not None:
            self._watch.done(self, item)


# %% book/06_work_queue.ipynb#54001803
def _wake_one(waiters: deque[asyncio.Future[None]]) -> None:
    """Call the one who has waited longest."""
    while waiters:
        waiter = waiters.popleft()
        if not waiter.done():
            waiter.set_result(None)
            return


def _wake_all(waiters: deque[asyncio.Future[None]]) -> None:
    while waiters:
        _wake_one(waiters)


async def _turn(waiters: deque[asyncio.Future[None]]) -> None:
    """Wait to be called. Called and cancelled in the same instant: pass the call on."""
    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiters.append(waiter)
    try:
        await waiter
    except asyncio.CancelledError:
        if not waiter.cancelled():
            _wake_one(waiters)
        raise


# %% book/06_work_queue.ipynb#a585907a
class BlockingQueue(DedupQueue[T]):
    """Lets workers wait for a key, and comes to an end."""

    __slots__ = ("_drain",)

    async def get(self) -> T:
        """Wait for a key and take it; ``done`` must follow. Raises ``ShutDown`` at the end."""
        while not self.order and not self.shutting_down:
            await _turn(self._getters)
        return self.get_nowait()

    def shut_down(self) -> None:
        """Ignore new keys from now on; those that wait are still handed out. Ends a drain."""
        self._drain = False
        self._close()

    async def shut_down_with_drain(self) -> None:
        """Shut down, then wait until no worker holds a key."""
        self._drain = True
        self._close()
        while self.processing and self._drain:
            await _turn(self._drainers)

    def _close(self) -> None:
        self.shutting_down = True
        _wake_all(self._getters)
        _wake_all(self._drainers)
        if self._watch is not None:
            self._watch.record(self, "shut_down", None)


# %% book/06_work_queue.ipynb#1acdc569
class QueueMetrics(Protocol[T_contra]):
    """What a queue tells whoever measures it, at the moment it happens."""

    def add(self, item: T_contra) -> None:
        """``item`` needs work and did not before."""

    def get(self, item: T_contra) -> None:
        """A worker took ``item``."""

    def done(self, item: T_contra) -> None:
        """A worker gave ``item`` back."""

    def retry(self) -> None:
        """A key was added with a delay, zero included."""

    def update_unfinished_work(self) -> None:
        """Measure how long the keys in work have been there; asked every 500 ms of the clock."""


UPDATE_PERIOD = 0.5
"""Seconds between two measurements of unfinished work."""


async def _tick(watch: _Watch[T], queue: QueueState[T], metrics: QueueMetrics[T]) -> None:
    """Measure at every multiple of the period, until a measurement finds nothing in work."""
    clock, busy = watch.clock, True
    while busy:
        age = clock.time() - watch.born
        tick = int(age / UPDATE_PERIOD + 1e-9) + 1
        await clock.sleep(tick * UPDATE_PERIOD - age, background=True)
        if queue.shutting_down:
            break
        metrics.update_unfinished_work()
        busy = bool(queue.processing)
    watch.ticker = None


# %% book/06_work_queue.ipynb#37f91fd6
class _Watch(Generic[T]):
    """Tells the trace and the metrics what a queue did. Methods are named after the step."""

    __slots__ = ("born", "clock", "metrics", "name", "ticker", "trace")

    def __init__(
        self, name: str, clock: Clock, trace: Trace | None, metrics: QueueMetrics[T] | None
    ) -> None:
        self.name, self.clock, self.trace, self.metrics = name, clock, trace, metrics
        self.born = clock.time()
        self.ticker: asyncio.Task[None] | None = None

    def record(self, queue: QueueState[T], op: str, item: T | None, delay: float = 0.0) -> None:
        if self.trace is not None and self.trace.detail:
            now, depth = self.clock.time(), len(queue.order)
            self.trace.write(QueueOp(now, self.name, op, item, delay, depth))

    def add(self, queue: QueueState[T], item: T, new: bool) -> None:
        if new and self.metrics is not None:
            self.metrics.add(item)
        self.record(queue, "add", item)

    def get(self, queue: QueueState[T], item: T) -> None:
        if self.metrics is not None:
            self.metrics.get(item)
            if self.ticker is None:
                name = f"{self.name}/unfinished-work"
                self.ticker = self.clock.spawn(_tick(self, queue, self.metrics), name=name)
        self.record(queue, "get", item)

    def done(self, queue: QueueState[T], item: T) -> None:
        if self.metrics is not None:
            self.metrics.done(item)
        self.record(queue, "done", item)

    def later(self, queue: QueueState[T], op: str, item: T, delay: float) -> None:
        if self.metrics is not None:
            self.metrics.retry()
        self.record(queue, op, item, delay)


# %% book/06_work_queue.ipynb#34e0b8ed
class WorkQueue(BlockingQueue[T]):
    """A to-do list for several workers: no key is lost, none is held by two workers at once.

    Args:
        name: What the trace and the metrics call it.
        clock: Needed only with a trace or metrics.
    """

    __slots__ = ("name",)

    def __init__(
        self,
        name: str = "",
        *,
        clock: Clock | None = None,
        trace: Trace | None = None,
        metrics: QueueMetrics[T] | None = None,
    ) -> None:
        super().__init__()
        self.name = name
        if trace is not None or metrics is not None:
            if clock is None:
                raise ValueError("a queue with a trace or metrics needs a clock")
            self._watch = _Watch(name, clock, trace, metrics)


# %% book/06_work_queue.ipynb#e58b20f3
class DelayingQueue(WorkQueue[T]):
    """A work queue that takes keys for later.

    Attributes:
        lag: Seconds by which the timer is late. Zero; a real one is late by about a millisecond,
            so that whatever else happens in that instant has happened.
    """

    __slots__ = ("_alarm", "_clock", "_heap", "_number", "_ready_at", "lag")

    def __init__(
        self,
        name: str = "",
        *,
        clock: Clock,
        trace: Trace | None = None,
        metrics: QueueMetrics[T] | None = None,
    ) -> None:
        super().__init__(name, clock=clock, trace=trace, metrics=metrics)
        self._clock = clock
        self._heap: list[tuple[int, int, T]] = []  # (nanosecond, number, key), the next one first
        self._ready_at: dict[T, int] = {}  # the heap entry that counts for a key
        self._number = count()
        self._alarm: asyncio.TimerHandle | None = None
        self.lag = 0.0

    def add_after(self, item: T, seconds: float) -> None:
        """Add ``item`` in ``seconds``, at once if that is not positive.

        A key waits once: of two delays the one that ends earlier counts. ``add`` does not end it.
        """
        _later(self, "add_after", item, seconds)

    def _close(self) -> None:
        super()._close()
        self._heap.clear()
        self._ready_at.clear()
        _set_alarm(self)


# %% book/06_work_queue.ipynb#01609ec2
def _later(queue: DelayingQueue[T], op: str, item: T, seconds: float) -> None:
    """Put ``item`` on the heap, unless it is due now or waits for an earlier time."""
    if queue.shutting_down:
        return
    if not isfinite(seconds):
        raise ValueError(f"delay of {item!r}: {seconds} is not a number of seconds")
    if queue._watch is not None:
        queue._watch.later(queue, op, item, seconds)
    now = round(queue._clock.time() * SECOND)
    ready = now + round(seconds * SECOND)
    if ready <= now:
        queue.add(item)
    elif ready < queue._ready_at.get(item, ready + 1):
        queue._ready_at[item] = ready
        heappush(queue._heap, (ready, next(queue._number), item))
        if queue._heap[0][2] is item:
            _set_alarm(queue)


def _set_alarm(queue: DelayingQueue[T]) -> None:
    """Arm the one timer for the first entry."""
    if queue._alarm is not None:
        queue._alarm.cancel()
    queue._alarm = None
    if queue._heap:
        ready = queue._heap[0][0]
        queue._alarm = queue._clock.call_at(ready / SECOND + queue.lag, _ring, queue, ready)


def _ring(queue: DelayingQueue[T], due: int) -> None:
    """Add what is due; drop entries that an earlier one of the same key has overtaken."""
    heap, ready_at = queue._heap, queue._ready_at
    now = max(due, round(queue._clock.time() * SECOND))
    while heap and (heap[0][0] <= now or ready_at.get(heap[0][2]) != heap[0][0]):
        ready, _, item = heappop(heap)
        if ready_at.get(item) == ready:
            del ready_at[item]
            queue.add(item)
    _set_alarm(queue)


# %% book/06_work_queue.ipynb#45de75e5
class RateLimitingQueue(DelayingQueue[T]):
    """A delaying queue that knows how long a key that failed should wait.

    Args:
        limiter: Decides about the delays; by default as controllers have it, 5 ms to 1000 s.
    """

    __slots__ = ("_limiter",)

    def __init__(
        self,
        name: str = "",
        *,
        clock: Clock,
        limiter: RateLimiter[T] | None = None,
        trace: Trace | None = None,
        metrics: QueueMetrics[T] | None = None,
    ) -> None:
        super().__init__(name, clock=clock, trace=trace, metrics=metrics)
        self._limiter = limiter or default_controller_rate_limiter(clock)

    def add_rate_limited(self, item: T) -> None:
        """Add ``item`` when the limiter allows it."""
        _later(self, "add_rate_limited", item, self._limiter.when(item))

    def forget(self, item: T) -> None:
        """Forget the failures of ``item``. The queue itself does not change."""
        if self._watch is not None and self._limiter.num_requeues(item):
            self._watch.record(self, "forget", item)
        self._limiter.forget(item)

    def num_requeues(self, item: T) -> int:
        """How many failures of ``item`` are remembered."""
        return self._limiter.num_requeues(item)
