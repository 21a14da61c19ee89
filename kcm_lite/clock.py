# Generated from book/03_virtual_time.ipynb by tools/tangle.py; edit it there.

"""Virtual time: ordinary asyncio coroutines on an event loop whose clock jumps.

>>> clock = VirtualClock()
>>> async def nap() -> None:
...     await clock.sleep(3600)
>>> clock.run(nap())
>>> clock.time()
3600.0

See: chapter *Virtual time*; upstream ``k8s.io/utils/clock``.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain, repeat
from math import inf
from typing import Any, Protocol, TypeVar

from kcm_lite.eventloop import SECOND, Callback, Loop, entered, spin

# %% book/03_virtual_time.ipynb#2a09ce39
T = TypeVar("T")


# %% book/03_virtual_time.ipynb#71a45c4e
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


# %% book/03_virtual_time.ipynb#739d9fd2
class RunLimit(RuntimeError):
    """A run took more steps, or more virtual time, than it may."""


def _accuse(loop: Loop, limit: int) -> Iterator[None]:
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
class Deadlock(RuntimeError):
    """Nothing can happen any more, and the coroutine that was run is not done."""


def _waiting(loop: Loop) -> str:
    """Which tasks wait, and where: at most ten of them."""
    names: list[str] = []
    alive = [task for task in loop._tasks if not task.done()]
    for task in sorted(alive, key=lambda task: task.get_name() != "main"):  # main comes first
        coro: Any = task.get_coro()
        where = ""
        while coro is not None:
            where = getattr(coro, "__qualname__", where)
            coro = getattr(coro, "cr_await", None)
        names.append(f"{task.get_name()} in {where}")
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return f"{len(names)} waiting: {', '.join(names[:10])}{more}"


# %% book/03_virtual_time.ipynb#46ec8fc7
class Driven(Loop):
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
        with entered(self):
            return spin(self, end, self._allowance, settle=settle)

    def _allowance(self) -> Iterator[None]:
        return chain(repeat(None, self._limit_steps), _accuse(self, self._limit_steps))

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
class VirtualClock(Driven):
    """A clock that jumps to the next event, and the asyncio event loop that runs on it.

    Args:
        start: The date and time at ``time() == 0``.
        limit_seconds: The most virtual seconds for one ``run``, or one ``settle`` without end.
        limit_steps: The most steps (callbacks) within one virtual second.
    """

    def run(self, coro: Coroutine[Any, Any, T]) -> T:
        """Run until ``coro`` is done, and return its result or raise its error.

        Raises:
            Deadlock: It waits for what cannot happen; the message names the waiting tasks.
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
        if self._closed:
            return
        with entered(self):
            try:
                for task in self._tasks:
                    task.cancel()
                spin(self, self._ns, self._allowance)
            finally:
                self._closed = True


# %% book/03_virtual_time.ipynb#c98a903c
def _report(task: asyncio.Task[Any]) -> None:
    """Tell the loop's exception handler that a worker crashed."""
    if not task.cancelled() and (error := task.exception()):
        what = {"message": f"worker {task.get_name()!r} crashed", "exception": error}
        task.get_loop().call_exception_handler(what)


# %% book/03_virtual_time.ipynb#dc7cfbb6
class RealClock:
    """The interface of ``Clock`` over the running asyncio loop: its seconds are real ones."""

    def __init__(self) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self.call_soon, self.call_later = loop.call_soon, loop.call_later
        self._start, self._zero = datetime.now(UTC), loop.time()
        self._workers: set[asyncio.Task[Any]] = set()  # asyncio keeps weak references only

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
        task.add_done_callback(self._workers.discard)
        task.add_done_callback(_report)
        return task
