"""Virtual time: ordinary asyncio coroutines on an event loop whose clock jumps.

>>> clock = VirtualClock()
>>> async def nap() -> None:
...     await clock.sleep(3600)
>>> clock.run(nap())
>>> clock.time()
3600.0

See: chapter *Virtual time*; upstream ``k8s.io/utils/clock``.
"""

# Generated from the notebooks by tangle.py; edit them instead.

from __future__ import annotations

import asyncio
import contextvars
import heapq
import logging
import sys
from asyncio import Future, events, tasks
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain, repeat
from math import inf
from typing import Any, Protocol, TypeVar

import msgspec

# %% book/03_virtual_time.ipynb#2a09ce39
T = TypeVar("T")
Callback = Callable[..., object]


class Clock(Protocol):
    """What the rest of the package may use of time (``clock.Clock``)."""

    def time(self) -> float:
        """Seconds since this clock's start, to the nanosecond."""

    def now(self) -> datetime:
        """The date and time in UTC, to the microsecond."""

    def timestamp(self) -> datetime:
        """``now()`` cut to whole seconds: what an API timestamp carries."""

    def sleep(self, seconds: float, *, background: bool = False) -> Awaitable[None]:
        """Wait; a *background* sleep belongs to a periodic loop, and ``settle()`` ignores it."""

    def spawn(self, coro: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Start a worker that nobody awaits; if it crashes, the run ends with its error."""

    def call_soon(self, callback: Callback, *args: Any) -> asyncio.Handle:
        """Call back in this instant, after everything that is ready already."""

    def call_later(self, delay: float, callback: Callback, *args: Any) -> asyncio.TimerHandle:
        """Call back ``delay`` seconds from now, unless the handle is cancelled before."""

    def call_at(self, when: float, callback: Callback, *args: Any) -> asyncio.TimerHandle:
        """Call back when ``time()`` is ``when``, or in this instant if that is past."""


# %% book/03_virtual_time.ipynb#5047a104
SECOND = 1_000_000_000
"""Nanoseconds in a second."""


class _Time:
    """An instant, told as seconds since the start and as a date."""

    def __init__(self, start: datetime) -> None:
        if start.tzinfo is None:
            raise ValueError(f"start: {start} has no time zone")
        self._start = self._timestamp = start.astimezone(UTC)
        self._ns = 0
        self._timestamp_ends = 0  # when, in nanoseconds, the cached timestamp is out of date

    def time(self) -> float:
        """Seconds since the start."""
        return self._ns / SECOND

    def now(self) -> datetime:
        """The date and time in UTC, to the microsecond."""
        return self._start + timedelta(microseconds=self._ns // 1000)

    def timestamp(self) -> datetime:
        """``now()`` cut to whole seconds."""
        if self._ns >= self._timestamp_ends:  # once a virtual second: every API write asks
            now = self.now()
            self._timestamp = now.replace(microsecond=0)
            self._timestamp_ends = self._ns - self._ns % 1000 + SECOND - now.microsecond * 1000
        return self._timestamp


# %% book/03_virtual_time.ipynb#b1454a6b
class _Handle(msgspec.Struct, eq=False):
    """One callback to come, or none if it was cancelled; does what a ``TimerHandle`` does."""

    callback: Callback | None
    args: tuple[Any, ...]
    context: contextvars.Context
    due: int = 0  # nanoseconds

    def when(self) -> float:
        """The second at which it is due."""
        return self.due / SECOND

    def cancel(self) -> None:
        """Never call back, and let go of what the callback holds."""
        self.callback, self.args = None, ()

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self.callback is None


# %% book/03_virtual_time.ipynb#d8ff24a2
class _Agenda(_Time, asyncio.AbstractEventLoop):
    """What is to happen: a queue for this instant and two heaps for later ones."""

    def __init__(self, start: datetime) -> None:
        super().__init__(start)
        self._sequence = 0
        self._ready: deque[_Handle] = deque()
        self._timers: list[tuple[int, int, Any]] = []  # time, sequence, future or handle
        self._background: list[tuple[int, int, Any]] = []  # the same, of periodic loops
        self._crowded = 1000  # so many timers are worth a search for cancelled ones

    get_debug = bool  # every future asks; bool() is False, and C

    def sleep(self, seconds: float, *, background: bool = False) -> Future[None]:
        """Wait; less than zero is zero, which lets all that is ready go first."""
        future: Future[None] = Future(loop=self)
        when = self._ns + round(seconds * SECOND)
        heap = self._background if background else self._timers
        self._sequence = sequence = self._sequence + 1
        heapq.heappush(heap, (when if when > self._ns else self._ns, sequence, future))
        return future

    def _push(self, when: int, callback: Callback, args: tuple[Any, ...], context: Any) -> Any:
        when = max(when, self._ns)
        handle = _Handle(callback, args, context or contextvars.copy_context(), when)
        self._sequence = sequence = self._sequence + 1
        heapq.heappush(self._timers, (when, sequence, handle))
        return handle


# %% book/03_virtual_time.ipynb#72918878
class _Callbacks(_Agenda):
    """The agenda with asyncio's methods for callbacks; ``Clock`` has their types."""

    def call_soon(self, callback: Callback, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        """Call back in this instant, after everything that is ready already."""
        handle = _Handle(callback, args, context or contextvars.copy_context(), self._ns)
        self._ready.append(handle)
        return handle

    def call_later(self, delay: float, callback: Callback, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        """Call back ``delay`` seconds from now."""
        return self._push(self._ns + round(delay * SECOND), callback, args, context)

    def call_at(self, when: float, callback: Callback, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        """Call back when ``time()`` is ``when``; in this instant if that is past."""
        return self._push(round(when * SECOND), callback, args, context)


# %% book/03_virtual_time.ipynb#0001a47e
class _Task(asyncio.Task[T]):
    """A task whose hash is its number, so that sets of tasks iterate alike in every run."""

    __slots__ = ("number",)
    number: int

    def __hash__(self) -> int:
        return self.number


class _Tasks(_Callbacks):
    """The loop's futures and tasks; the tasks are numbered and kept alive."""

    def __init__(self, start: datetime) -> None:
        super().__init__(start)
        self._tasks: list[asyncio.Task[Any]] = []
        self._number, self._sweep_at = 0, 1000

    def create_future(self) -> Future[Any]:
        """A future of this loop."""
        return Future(loop=self)

    def create_task(self, coro: Any, *, name: Any = None, **options: Any) -> asyncio.Task[Any]:
        """Start a coroutine; asyncio alone would keep only a weak reference to its task."""
        self._number = number = self._number + 1
        task: _Task[Any] = _Task.__new__(_Task)
        task.number = number  # before __init__, which puts the task into asyncio's own set
        asyncio.Task.__init__(task, coro, loop=self, name=name or f"task-{number}", **options)
        self._tasks.append(task)
        if number > self._sweep_at:  # now and then: cheaper than a callback for each task
            self._tasks = [task for task in self._tasks if not task.done()]
            self._sweep_at = number + len(self._tasks) + 1000
        return task


# %% book/03_virtual_time.ipynb#a425c62e
class _Loop(_Tasks):
    """A complete event loop, standing still."""

    _running = _closed = False

    def spawn(self, coro: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Start a worker that nobody awaits; its crash leaves the run that it happens in."""
        task = self.create_task(coro, name=name)
        task.add_done_callback(self._died)
        return task

    def _died(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()):
            error.add_note(f"in task {task.get_name()!r} at t={self.time()} s")
            raise error

    def _finish(self, generator: AsyncGenerator[Any, Any]) -> None:
        self.create_task(generator.aclose(), name="close an async generator")

    def is_running(self) -> bool:
        """Whether a run is under way."""
        return self._running

    def is_closed(self) -> bool:
        """Whether ``close()`` was called."""
        return self._closed

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Log an error that nobody fetched; a task dropped with its clock is none."""
        if error := context.get("exception"):
            logging.getLogger("asyncio").error(context.get("message"), exc_info=error)


# %% book/03_virtual_time.ipynb#243742b6
def _spin(loop: _Loop, until: int, limit: int, *, settle: bool = False) -> bool:
    """Run what is ready and jump to the next timer, again and again; true if nothing is left.

    Args:
        loop: The loop, entered.
        until: The last instant to reach, in nanoseconds.
        limit: The most steps within a virtual second.
        settle: Whether background timers alone count as nothing.
    """
    ready, timers, background = loop._ready, loop._timers, loop._background
    end = min(loop._ns + SECOND, until)
    while True:
        for _ in chain(repeat(None, limit), _accuse(loop, limit)):
            if ready:
                handle = ready.popleft()
            else:
                if settle and not _foreground(timers):
                    return True
                early = background and (not timers or background[0] < timers[0])
                heap = background if early else timers
                if not heap:
                    return True
                when, _, handle = heap[0]
                if when > end and not handle.cancelled():
                    break
                heapq.heappop(heap)
                if handle.__class__ is Future:
                    if not handle.done():
                        loop._ns = when
                        handle.set_result(None)  # which makes the sleeper ready
                    continue
                loop._ns = when if handle.callback is not None else loop._ns
            if handle.callback is not None:
                handle.context.run(handle.callback, *handle.args)
        if when > until:
            return False
        end = min(when + SECOND, until)  # a new second has a new allowance of steps
        if len(timers) > loop._crowded:
            _prune(loop)


# %% book/03_virtual_time.ipynb#36f82f7f
def _foreground(timers: list[tuple[int, int, Any]]) -> bool:
    """Whether a timer is left that was not cancelled."""
    while timers and timers[0][2].cancelled():
        heapq.heappop(timers)
    return bool(timers)


def _prune(loop: _Loop) -> None:
    """Drop all cancelled timers, and look again when there are twice as many."""
    alive = [timer for timer in loop._timers if not timer[2].cancelled()]
    loop._timers[:] = alive
    heapq.heapify(loop._timers)
    loop._crowded = 2 * len(alive) + 1000


# %% book/03_virtual_time.ipynb#25d22207
class RunLimit(RuntimeError):
    """A run took more steps, or more virtual time, than it may."""


class Deadlock(RuntimeError):
    """Nothing can happen any more, and the coroutine that was run is not done."""


def _accuse(loop: _Loop, limit: int) -> Iterator[None]:
    """Watch whose the next thousand steps are, then raise ``RunLimit``."""
    steps: Counter[str] = Counter()
    for _ in range(1000):
        if loop._ready and loop._ready[0].callback:
            steps[_name(loop._ready[0].callback)] += 1
        yield
    busy = ", ".join(f"{name} ({n / steps.total():.0%})" for name, n in steps.most_common(5))
    raise RunLimit(f"over {limit:,} steps within a second, at t={loop.time()} s; busy: {busy}")


def _name(callback: Any) -> str:
    """The name of a task, if the callback is a step of it, or else of the function."""
    if isinstance(callback, partial):
        return _name(callback.func)
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return owner.get_name()
    return str(getattr(callback, "__qualname__", type(callback).__qualname__))


# %% book/03_virtual_time.ipynb#825f90f5
def _waiting(loop: _Loop) -> str:
    """Which tasks wait, and where: at most ten of them."""
    names: list[str] = []
    for task in [task for task in loop._tasks if not task.done()]:
        coro: Any = task.get_coro()
        where = ""
        while coro is not None:
            where = getattr(coro, "__qualname__", where)
            coro = getattr(coro, "cr_await", None)
        names.append(f"{task.get_name()} in {where}")
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return f"{len(names)} waiting: {', '.join(names[:10])}{more}"


# %% book/03_virtual_time.ipynb#fc390ce3
@contextmanager
def _entered(loop: _Loop) -> Iterator[None]:
    """Make this the running loop, also within another one's task."""
    if loop._running or loop._closed:
        raise RuntimeError(f"this clock is {'already running' if loop._running else 'closed'}")
    outer, task = events._get_running_loop(), None
    if outer is not None and sys.version_info >= (3, 12):
        task = tasks._swap_current_task(outer, None)
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(firstiter=None, finalizer=loop._finish)
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


# %% book/03_virtual_time.ipynb#46ec8fc7
class _Driven(_Loop):
    """A loop whose caller says how far time goes."""

    def __init__(
        self,
        start: datetime = datetime(2026, 1, 1, tzinfo=UTC),
        *,
        limit_seconds: float = 86_400,
        limit_steps: int = 5_000_000,
    ) -> None:
        super().__init__(start)
        self._limit_ns, self._limit_steps = round(limit_seconds * SECOND), limit_steps

    def _advance(self, end: int, *, settle: bool = False) -> bool:
        if end < self._ns:
            raise ValueError(f"t={end / SECOND} s is past: it is t={self.time()} s")
        with _entered(self):
            return _spin(self, end, self._limit_steps, settle=settle)

    def run_for(self, seconds: float) -> None:
        """Run for ``seconds`` from now."""
        end = self._ns + round(seconds * SECOND)
        self._advance(end)
        self._ns = end

    def run_until(self, when: float) -> None:
        """Run all that happens up to and at ``when``; then ``time()`` is ``when``.

        Raises:
            ValueError: That is past.
            RunLimit: More than ``limit_steps`` steps within a virtual second.
        """
        self._advance(round(when * SECOND))
        self._ns = round(when * SECOND)


# %% book/03_virtual_time.ipynb#a9737cd2
class _Left(BaseException):
    """Leaves the spin: the coroutine that was run is done."""


def _leave(task: asyncio.Task[Any]) -> None:
    raise _Left


def _run(clock: VirtualClock, coro: Coroutine[Any, Any, T]) -> T:
    """What ``VirtualClock.run`` does."""
    main: asyncio.Task[T] = clock.create_task(coro, name="main")
    main.add_done_callback(_leave)
    end = clock._ns + clock._limit_ns
    try:
        if clock._advance(end):
            raise Deadlock(f"t={clock.time()} s, and nothing can happen; {_waiting(clock)}")
        raise RunLimit(f"not done after {clock._limit_ns / SECOND} s; {_waiting(clock)}")
    except _Left:
        return main.result()
    finally:
        main.remove_done_callback(_leave)
        main.cancel()  # if an error ends the run, nobody will ask for its result


# %% book/03_virtual_time.ipynb#78288c1f
class VirtualClock(_Driven):
    """A clock that jumps to the next event, and the asyncio event loop that runs on it.

    Args:
        start: The date and time at ``time() == 0``.
        limit_seconds: The most virtual seconds for one ``run``, or one ``settle`` without end.
        limit_steps: The most steps (callbacks) within one virtual second.
    """

    def run(self, coro: Coroutine[Any, Any, T]) -> T:
        """Run until ``coro`` is done, and return its result or raise its error.

        Raises:
            Deadlock: It waits for what cannot happen; the message names every waiting task.
            RunLimit: It is not done within the limits; the message names the busy tasks.
        """
        return _run(self, coro)

    def settle(self, *, until: float = inf) -> float:
        """Run until only background timers are left, at most to ``until``; return the time."""
        end = self._ns + self._limit_ns if until == inf else round(until * SECOND)
        if not self._advance(end, settle=True):
            if until == inf:
                limit = self._limit_ns / SECOND
                raise RunLimit(f"not settled after {limit} s; {_waiting(self)}")
            self._ns = end
        return self.time()

    def close(self) -> None:
        """Cancel every task and let them clean up in this instant; forget the rest."""
        if not self._closed:
            for task in self._tasks:
                task.cancel()
            try:
                self._advance(self._ns)
            finally:
                self._closed = True


# %% book/03_virtual_time.ipynb#c98a903c
class RealClock:
    """The interface of ``Clock`` over the running asyncio loop: its seconds are real ones."""

    def __init__(self) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self._start, self._zero = datetime.now(UTC), loop.time()
        self._workers: set[asyncio.Task[Any]] = set()  # asyncio keeps weak references only
        self.call_soon, self.call_later = loop.call_soon, loop.call_later

    def time(self) -> float:
        """Seconds since this clock was made."""
        return round(self._loop.time() - self._zero, 9)

    def now(self) -> datetime:
        """The date and time in UTC."""
        return self._start + timedelta(seconds=self.time())

    def timestamp(self) -> datetime:
        """``now()`` cut to whole seconds."""
        return self.now().replace(microsecond=0)

    def call_at(self, when: float, callback: Callback, *args: Any) -> asyncio.TimerHandle:
        """Call back when ``time()`` is ``when``, or in the next turn if that is past."""
        return self._loop.call_at(self._zero + when, callback, *args)

    def sleep(self, seconds: float, *, background: bool = False) -> Awaitable[None]:
        """Wait; nobody settles in real time, so ``background`` changes nothing."""
        return asyncio.sleep(seconds)

    def spawn(self, coro: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Start a worker that nobody awaits; a crash goes to the loop's exception handler."""
        task = self._loop.create_task(coro, name=name)
        self._workers.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._workers.discard(task)
        if not task.cancelled() and (error := task.exception()):
            message = f"worker {task.get_name()!r} crashed"
            self._loop.call_exception_handler({"message": message, "exception": error})
