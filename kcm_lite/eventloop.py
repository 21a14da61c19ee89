# Generated from book/03_virtual_time.ipynb by tools/tangle.py; edit it there.

"""An asyncio event loop that stands still until ``spin`` moves its time.

Each class adds a little to the one before; ``kcm_lite.clock`` makes a clock of the last.
Attributes with an underscore are shared between these two modules and nobody else.

See: chapter *Virtual time*.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sys
from asyncio import Future, events, tasks
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

# %% book/03_virtual_time.ipynb#5047a104
SECOND = 1_000_000_000
"""Nanoseconds in a second."""
T = TypeVar("T")
Callback = Callable[..., object]
Allowance = Callable[[], Iterable[None]]


# %% book/03_virtual_time.ipynb#7086c435
class Time:
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
if TYPE_CHECKING:  # to a type checker, AbstractEventLoop has forty methods yet to be written
    from asyncio import BaseEventLoop as EventLoop
else:
    from asyncio import AbstractEventLoop as EventLoop


class Handle(msgspec.Struct, eq=False):
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
class Agenda(Time, EventLoop):
    """What is to happen: a queue for this instant and two heaps for later ones."""

    def __init__(self, start: datetime) -> None:
        super().__init__(start)
        self._sequence = 0
        self._ready: deque[Handle] = deque()
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
        heappush(heap, (when if when > self._ns else self._ns, sequence, future))
        return future

    def _push(self, when: int, callback: Callback, args: tuple[Any, ...], context: Any) -> Any:
        when = max(when, self._ns)
        context = contextvars.copy_context() if context is None else context
        handle = Handle(callback, args, context, when)
        self._sequence = sequence = self._sequence + 1
        heappush(self._timers, (when, sequence, handle))
        return handle


# %% book/03_virtual_time.ipynb#72918878
class Callbacks(Agenda):
    """The agenda with asyncio's methods for callbacks; ``Clock`` has their types."""

    def call_soon(self, callback: Callback, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        """Call back in this instant, after everything that is ready already."""
        context = contextvars.copy_context() if context is None else context
        handle = Handle(callback, args, context, self._ns)
        self._ready.append(handle)
        return handle

    def call_later(self, delay: float, callback: Callback, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        """Call back ``delay`` seconds from now."""
        return self._push(self._ns + round(delay * SECOND), callback, args, context)

    def call_at(self, when: float, callback: Callback, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        """Call back when ``time()`` is ``when``; in this instant if that is past."""
        return self._push(round(when * SECOND), callback, args, context)


# %% book/03_virtual_time.ipynb#0001a47e
class NumberedTask(asyncio.Task[T]):
    """A task whose hash is its number, so that sets of tasks iterate alike in every run."""

    __slots__ = ("number",)
    number: int

    def __hash__(self) -> int:
        return self.number


class Tasks(Callbacks):
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
        task: NumberedTask[Any] = NumberedTask.__new__(NumberedTask)
        task.number = number  # before __init__, which puts the task into asyncio's own set
        asyncio.Task.__init__(task, coro, loop=self, name=name or f"task-{number}", **options)
        self._tasks.append(task)
        if number > self._sweep_at:  # now and then: cheaper than a callback for each task
            self._tasks = [task for task in self._tasks if not task.done()]
            self._sweep_at = number + len(self._tasks) + 1000
        return task


# %% book/03_virtual_time.ipynb#a425c62e
class Loop(Tasks):
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
def spin(loop: Loop, until: int, allowance: Allowance, *, settle: bool = False) -> bool:
    """Run all that is due up to ``until`` (nanoseconds); true if nothing is left after it.

    ``allowance()`` gives an item for each step that a virtual second may take, then raises.
    With ``settle``, background timers alone count as nothing.
    """
    ready, timers, background = loop._ready, loop._timers, loop._background
    end = min(loop._ns + SECOND, until)
    while True:
        for _ in allowance():
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
                heappop(heap)
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
        end = min(when + SECOND, until)  # a new second, a new allowance
        if len(timers) > loop._crowded:
            _prune(loop)


# %% book/03_virtual_time.ipynb#36f82f7f
def _foreground(timers: list[tuple[int, int, Any]]) -> bool:
    """Whether a timer is left that was not cancelled."""
    while timers and timers[0][2].cancelled():
        heappop(timers)
    return bool(timers)


def _prune(loop: Loop) -> None:
    """Drop all cancelled timers, and look again when there are twice as many."""
    alive = [timer for timer in loop._timers if not timer[2].cancelled()]
    loop._timers[:] = alive
    heapify(loop._timers)
    loop._crowded = 2 * len(alive) + 1000


# %% book/03_virtual_time.ipynb#fc390ce3
@contextmanager
def entered(loop: Loop) -> Iterator[None]:
    """Make this the running loop, also within another one's task."""
    if loop._running or loop._closed:
        raise RuntimeError(f"this clock is {'already running' if loop._running else 'closed'}")
    outer = events._get_running_loop()
    task = outer and tasks.current_task(outer)
    if task and sys.version_info >= (3, 12):
        tasks._swap_current_task(outer, None)
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
        if task and sys.version_info >= (3, 12):
            tasks._swap_current_task(outer, task)
