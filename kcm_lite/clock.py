"""Virtual time: ordinary asyncio coroutines on an event loop whose clock jumps.

>>> clock = VirtualClock()
>>> clock.run(clock.sleep(3600))
>>> clock.time()
3600.0

See: chapter *Virtual time*; upstream ``k8s.io/utils/clock``.
"""

# Generated from the notebooks by tangle.py; edit them instead.

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
import logging
import sys
from asyncio import Future, events, tasks
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from math import inf
from types import CoroutineType
from typing import Any, Protocol, TypeVar

import msgspec

# %% book/03_virtual_time.ipynb#0dbea5a6
T = TypeVar("T")
SECOND = 1_000_000_000
"""Nanoseconds in a second: inside, time is an integer, as Go's ``time.Duration`` is."""


class Clock(Protocol):
    """What the rest of the package may use of time."""

    def time(self) -> float:
        """Seconds since this clock's start, exact to the nanosecond."""

    def now(self) -> datetime:
        """The date and time in UTC, to the microsecond."""

    def timestamp(self) -> datetime:
        """``now()`` cut to whole seconds: what an API timestamp carries."""

    def sleep(self, seconds: float, *, background: bool = False) -> Awaitable[None]:
        """Wait. A background sleep belongs to a periodic loop: ``settle()`` does not wait for it."""

    def spawn(self, coro: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Start a worker that nobody awaits: if it crashes, the run ends with its error."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> asyncio.Handle:
        """Call back in this instant, after everything that is ready already."""

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any
    ) -> asyncio.TimerHandle:
        """Call back ``delay`` seconds from now; the handle can cancel it."""

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any
    ) -> asyncio.TimerHandle:
        """Call back when ``time()`` is ``when``; at once if that is past."""


# %% book/03_virtual_time.ipynb#1d904b29
class Deadlock(RuntimeError):
    """Nothing can happen any more, and the coroutine that was run is not done."""


class RunLimit(RuntimeError):
    """A run took more steps or more virtual time than it was allowed."""


class _Handle(msgspec.Struct):
    """One callback to come; cancelled when it has none. Stands in for ``asyncio.TimerHandle``."""

    callback: Callable[..., object] | None
    args: tuple[Any, ...]
    context: contextvars.Context
    due: float | None = None

    def when(self) -> float | None:
        """The time at which it is due, in seconds; None for ``call_soon``."""
        return self.due

    def cancel(self) -> None:
        """Never call back, and let go of what the callback holds."""
        self.callback, self.args = None, ()

    def cancelled(self) -> bool:
        """Whether ``cancel`` came before the call."""
        return self.callback is None


# %% book/03_virtual_time.ipynb#97d19311
class _Agenda(asyncio.AbstractEventLoop):
    """What is to happen, and when: a queue for this instant and a heap for later ones."""

    def __init__(self, start: datetime) -> None:
        if start.tzinfo is None:
            raise ValueError(f"start: {start} has no time zone")
        self._start = start.astimezone(UTC)
        self._stamp, self._stamp_ends = self._start, 0
        self._ns = self._sequence = 0
        self._ready: deque[_Handle] = deque()
        self._timers: list[tuple[int, int, Any]] = []
        self._background: list[tuple[int, int, Any]] = []

    def time(self) -> float:
        """Seconds since the start."""
        return self._ns / SECOND

    def now(self) -> datetime:
        """The date and time in UTC, to the microsecond."""
        return self._start + timedelta(microseconds=self._ns // 1000)

    def timestamp(self) -> datetime:
        """``now()`` cut to whole seconds; worked out once a second."""
        if self._ns >= self._stamp_ends:
            now = self.now()
            self._stamp = now.replace(microsecond=0)
            self._stamp_ends = self._ns + SECOND - now.microsecond * 1000 - self._ns % 1000
        return self._stamp

    def sleep(self, seconds: float, *, background: bool = False) -> Future[None]:
        """Wait ``seconds`` (a negative number is 0). The heap entry is the future itself."""
        future: Future[None] = Future(loop=self)
        when = self._ns + round(seconds * SECOND) if seconds > 0 else self._ns
        self._sequence = sequence = self._sequence + 1
        heapq.heappush(self._background if background else self._timers, (when, sequence, future))
        return future

    def call_soon(
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """Call back in this instant, after everything that is ready already."""
        handle = _Handle(callback, args, context or contextvars.copy_context())
        self._ready.append(handle)
        return handle  # type: ignore[return-value]

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call back ``delay`` seconds from now."""
        return self._push(self._ns + round(delay * SECOND), callback, args, context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call back when ``time()`` is ``when``; in this instant if that is past."""
        return self._push(round(when * SECOND), callback, args, context)

    def _push(
        self,
        when: int,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
    ) -> asyncio.TimerHandle:
        when = max(when, self._ns)
        handle = _Handle(callback, args, context or contextvars.copy_context(), when / SECOND)
        self._sequence = sequence = self._sequence + 1
        heapq.heappush(self._timers, (when, sequence, handle))
        return handle  # type: ignore[return-value]


# %% book/03_virtual_time.ipynb#7140a73f
class _Task(asyncio.Task[T]):
    """A task whose hash is its number, so that sets of tasks iterate alike in every run."""

    __slots__ = ("number",)

    def __init__(self, number: int, coro: Any, **options: Any) -> None:
        self.number = number
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self.number


class _Loop(_Agenda):
    """The agenda as asyncio sees it: futures and tasks live on it."""

    def __init__(self, start: datetime) -> None:
        super().__init__(start)
        self._numbers = itertools.count(1)
        self._tasks: dict[int, asyncio.Task[Any]] = {}
        self._running = self._closed = False

    def create_future(self) -> Future[Any]:
        """A future of this loop."""
        return Future(loop=self)

    def create_task(self, coro: Any, *, name: object = None, **options: Any) -> asyncio.Task[Any]:
        """Start a coroutine. The loop keeps it alive until it is done."""
        number = next(self._numbers)
        task: _Task[Any] = _Task(number, coro, loop=self, name=name or f"task-{number}", **options)
        if not task.done():
            self._tasks[number] = task
            task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        del self._tasks[hash(task)]

    def spawn(self, coro: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Start a worker that nobody awaits; its crash leaves ``run()``."""
        task: asyncio.Task[T] = self.create_task(coro, name=name)
        task.add_done_callback(self._died)
        return task

    def _died(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()):
            error.add_note(f"in task {task.get_name()!r} at t={self.time():g} s")
            raise error

    def get_debug(self) -> bool:
        """Never."""
        return False

    def is_running(self) -> bool:
        """Whether a run is under way."""
        return self._running

    def is_closed(self) -> bool:
        """Whether ``close()`` was called."""
        return self._closed

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Log what asyncio reports; a task left behind with its clock is no error."""
        if error := context.get("exception"):
            logging.getLogger("asyncio").error(context.get("message"), exc_info=error)


# %% book/03_virtual_time.ipynb#89864b76
def _spin(loop: _Loop, until: int, limit: int, *, settle: bool = False) -> None:
    """Run what is ready, then jump to the next timer, until ``until`` (nanoseconds) or nothing is left."""
    ready, timers, background = loop._ready, loop._timers, loop._background
    popleft, pop = ready.popleft, heapq.heappop
    window = loop._ns + SECOND
    while True:
        for _ in itertools.repeat(None, limit):
            if ready:
                handle = popleft()
            else:
                heap = timers
                if settle:
                    while timers and timers[0][2].cancelled():
                        pop(timers)
                    if not timers:
                        return
                if background and (not timers or background[0] < timers[0]):
                    heap = background
                if not heap or heap[0][0] > until:
                    return
                if heap[0][0] >= window:
                    window = heap[0][0] + SECOND
                    break
                when, _, handle = pop(heap)
                if handle.__class__ is Future:
                    if not handle.done():
                        loop._ns = when
                        handle.set_result(None)
                    continue
                if handle.callback is None:
                    continue
                loop._ns = when
            if handle.callback is not None:
                handle.context.run(handle.callback, *handle.args)
        else:
            raise RunLimit(_busiest(loop, limit))
        for heap in (timers, background):
            _prune(heap)


def _prune(heap: list[tuple[int, int, Any]]) -> None:
    """Throw away the cancelled timers when they are many."""


def _busiest(loop: _Loop, limit: int) -> str:
    """Who fills this instant: the next thousand steps by task or callback."""
    seen: Counter[str] = Counter()
    for _ in range(1000):
        if loop._ready:
            handle = loop._ready.popleft()
            if handle.callback is not None:
                seen[_name(handle.callback)] += 1
                handle.context.run(handle.callback, *handle.args)
        elif loop._timers:
            _, _, handle = heapq.heappop(loop._timers)
            if isinstance(handle, Future):
                if not handle.done():
                    handle.set_result(None)
            elif handle.callback is not None:
                loop._ready.append(handle)
    busy = ", ".join(f"{name} ({n / 10:.0f} %)" for name, n in seen.most_common(5))
    return (
        f"more than {limit:,} steps within one second, at t={loop.time():g} s: a hot loop of {busy}"
    )


def _name(callback: Callable[..., object]) -> str:
    owner = getattr(callback, "__self__", None)
    return (
        owner.get_name()
        if isinstance(owner, asyncio.Task)
        else getattr(callback, "__qualname__", repr(callback))
    )


# %% book/03_virtual_time.ipynb#2a09ce39
@contextmanager
def _entered(loop: _Loop) -> Iterator[None]:
    """Make ``loop`` the running loop, inside another running loop too."""
    if loop._running or loop._closed:
        raise RuntimeError(
            "this clock is already running" if loop._running else "this clock is closed"
        )
    outer, task = events._get_running_loop(), None
    if outer is not None and sys.version_info >= (3, 12):
        task = tasks._swap_current_task(outer, None)
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(None, None)
    events._set_running_loop(loop)
    loop._running = True
    try:
        yield
    finally:
        loop._running = False
        events._set_running_loop(outer)
        sys.set_asyncgen_hooks(*hooks)
        if task is not None:
            tasks._swap_current_task(outer, task)


# %% book/03_virtual_time.ipynb#5047a104
class VirtualClock(_Loop):
    """A clock that jumps to the next event, and the asyncio loop that runs on it.

    Args:
        start: The date and time at ``time() == 0``.
        limit_seconds: The longest virtual time that ``run`` and ``settle`` may take.
        limit_steps: The most callbacks within one virtual second.
    """

    def __init__(
        self,
        start: datetime = datetime(2026, 1, 1, tzinfo=UTC),
        *,
        limit_seconds: float = 86_400.0,
        limit_steps: int = 5_000_000,
    ) -> None:
        super().__init__(start)
        self._limit_ns, self._limit_steps = round(limit_seconds * SECOND), limit_steps

    def run(self, coro: Coroutine[Any, Any, T]) -> T:
        """Run until ``coro`` is done, and return its result.

        Raises:
            Deadlock: It waits for something that cannot happen.
            RunLimit: It is not done within the limits.
        """
        end = self._ns + self._limit_ns
        with _entered(self):
            main: asyncio.Task[T] = self.create_task(coro, name="main")
            main.add_done_callback(_stop)
            try:
                _spin(self, end, self._limit_steps)
            except _Done:
                return main.result()
            finally:
                main.cancel()
        if self._timers or self._background:
            raise RunLimit(
                f"main is not done after {self._limit_ns / SECOND:g} s: {_waiting(self)}"
            )
        raise Deadlock(f"nothing can happen after t={self.time():g} s: {_waiting(self)}")

    def run_until(self, when: float) -> None:
        """Run everything up to ``when`` seconds, that instant included; then it is ``when``."""
        end = round(when * SECOND)
        if end < self._ns:
            raise ValueError(f"run_until({when:g}): it is {self.time():g} already")
        with _entered(self):
            _spin(self, end, self._limit_steps)
        self._ns = end

    def run_for(self, seconds: float) -> None:
        """Run for ``seconds`` from now."""
        self.run_until((self._ns + round(seconds * SECOND)) / SECOND)

    def settle(self, *, until: float = inf) -> float:
        """Run until nothing but background timers is left, or until ``until``; return the time."""
        end = self._ns + self._limit_ns if until == inf else round(until * SECOND)
        with _entered(self):
            _spin(self, end, self._limit_steps, settle=True)
        return self.time()

    def close(self) -> None:
        """Cancel all tasks and let them clean up within this instant."""
        if self._closed:
            return
        with _entered(self):
            for task in list(self._tasks.values()):
                task.cancel()
            _spin(self, self._ns, self._limit_steps)
        self._closed = True


class _Done(BaseException):
    """Leaves the spin when the main task is done."""


def _stop(task: asyncio.Task[Any]) -> None:
    raise _Done


def _waiting(loop: _Loop) -> str:
    return ", ".join(task.get_name() for task in loop._tasks.values()) + " wait"


# %% book/03_virtual_time.ipynb#ba0f579e
class RealClock:
    """The same interface over the asyncio loop that is running: its seconds are real."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._start, self._zero = datetime.now(UTC), self._loop.time()
        self._tasks: set[asyncio.Task[Any]] = set()

    def time(self) -> float:
        """Seconds since this clock was made."""
        return round(self._loop.time() - self._zero, 9)

    def now(self) -> datetime:
        """The date and time in UTC."""
        return self._start + timedelta(seconds=self.time())

    def timestamp(self) -> datetime:
        """``now()`` cut to whole seconds."""
        return self.now().replace(microsecond=0)

    def sleep(self, seconds: float, *, background: bool = False) -> Awaitable[None]:
        """Wait; nothing settles in real time, so ``background`` changes nothing."""
        return asyncio.sleep(seconds)

    def spawn(self, coro: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Start a worker that nobody awaits."""
        task = self._loop.create_task(coro, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def call_soon(self, callback: Callable[..., object], *args: Any) -> asyncio.Handle:
        """Call back in the loop's next turn."""
        return self._loop.call_soon(callback, *args)

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any
    ) -> asyncio.TimerHandle:
        """Call back ``delay`` seconds from now."""
        return self._loop.call_later(delay, callback, *args)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any
    ) -> asyncio.TimerHandle:
        """Call back when ``time()`` is ``when``."""
        return self._loop.call_at(self._zero + when, callback, *args)
