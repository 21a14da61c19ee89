"""One process on a machine of its own: its clock, its network, its life.

Everything that a process does starts with a timer, an answer or a watch event. Those three pass
through here, so a process can be frozen, cut off from the API server, or killed; its wall clock can
be wrong and its seconds can be too long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any, TypeVar

from kcm_lite.api.errors import StatusError
from kcm_lite.api.meta import Object
from kcm_lite.api.request import Request, WatchEvent
from kcm_lite.client.transport import Transport, Watch
from kcm_lite.clock import Clock

T = TypeVar("T")


class Process:
    """A process; `clock` and `transport` are what its code gets.

    Args:
        clock: The time that all processes share.
        transport: The way to the API server.
        name: Comes before the names of its tasks.
        ahead: Seconds by which its wall clock is ahead of the others.
        rate: Its seconds per true second; 2 is a clock that runs twice too fast.
    """

    def __init__(
        self, clock: Clock, transport: Transport, name: str, *, ahead: float = 0.0, rate: float = 1
    ) -> None:
        self.name = name
        self.alive = True
        self.frozen = False
        self.cut_off = False
        self.hindered = False  # frozen, cut off or dead: it can neither send nor receive
        self.clock = ProcessClock(self, clock, ahead, rate)
        self.transport = ProcessTransport(self, transport)
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self._changed = asyncio.Event()
        self._held: list[Callable[[], None]] = []  # callbacks that came due while it was frozen

    def freeze(self, frozen: bool = True) -> None:
        """Stop it where it is (SIGSTOP, a paused machine), or let it go on."""
        self.frozen = frozen
        self._notify()

    def cut_off_network(self, cut_off: bool = True) -> None:
        """Hold back whatever it sends and receives, or let all of that through."""
        self.cut_off = cut_off
        self._notify()

    def kill(self) -> None:
        """End it at once: nothing more is sent, no code of its own cleans up."""
        self.alive = False
        self.hindered = True
        for watch in self.transport.watches:
            watch.stop()
        for task in list(self.tasks):
            task.cancel()
        self._notify()

    def _notify(self) -> None:
        self.hindered = self.frozen or self.cut_off or not self.alive
        self._changed.set()
        self._changed = asyncio.Event()
        if not self.frozen:
            held, self._held = self._held, []
            for callback in held:
                callback()

    async def wait_while_frozen(self) -> None:
        """Wait until it may go on."""
        while self.frozen and self.alive:
            await self._changed.wait()

    async def reach_network(self) -> None:
        """Wait until something can be sent or received.

        Raises:
            ConnectionAbortedError: The process is dead.
        """
        while self.alive and (self.frozen or self.cut_off):
            await self._changed.wait()
        if not self.alive:
            raise ConnectionAbortedError(f"{self.name} is dead")

    def due(self, callback: Callable[[], None]) -> None:
        """Run a callback whose time has come; later, if the process is frozen."""
        if self.frozen:
            self._held.append(callback)
        elif self.alive:
            callback()


class ProcessClock:
    """The time of one process (``Clock``).

    Attributes:
        time: Seconds, as this process counts them.
    """

    def __init__(self, process: Process, clock: Clock, ahead: float, rate: float) -> None:
        self.process, self.base, self.rate = process, clock, rate
        self._start = clock.now() - timedelta(seconds=clock.time())
        self.time: Callable[[], float] = clock.time if rate == 1 else self._time
        self.set_ahead(ahead)

    def set_ahead(self, seconds: float) -> None:
        """Set by how much its wall clock is ahead of the others; less than 0: behind."""
        self.ahead = timedelta(seconds=seconds)

    def _time(self) -> float:
        return round(self.base.time() * self.rate, 9)

    def now(self) -> datetime:
        """The date and time that this process believes in."""
        if self.rate == 1:
            return self.base.now() + self.ahead
        return self._start + timedelta(seconds=self.time()) + self.ahead

    def timestamp(self) -> datetime:
        """``now()`` cut to whole seconds."""
        return self.now().replace(microsecond=0)

    def sleep(self, seconds: float, *, background: bool = False) -> Awaitable[None]:
        """Wait; a frozen process wakes up when it may go on."""
        return self._sleep(seconds, background)

    async def _sleep(self, seconds: float, background: bool) -> None:
        await self.base.sleep(seconds / self.rate, background=background)
        if self.process.frozen:
            await self.process.wait_while_frozen()

    def spawn(self, coro: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Start a task that ends with the process."""
        task = self.base.spawn(coro, name=f"{self.process.name}: {name}")
        self.process.tasks[task] = None
        task.add_done_callback(self.process.tasks.pop)
        return task

    def call_soon(self, callback: Callable[..., object], *args: Any) -> Any:
        """Call back in this instant."""

        def fire() -> None:
            if not handle.cancelled():
                callback(*args)

        handle = self.base.call_soon(self.process.due, fire)
        return handle

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> Any:
        """Call back when ``time()`` is ``when``."""
        return self.call_later(when - self.time(), callback, *args)

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Any:
        """Call back ``delay`` of this process's seconds from now."""

        def fire() -> None:
            if not handle.cancelled():
                callback(*args)

        handle = self.base.call_later(delay / self.rate, self.process.due, fire)
        return handle


class ProcessTransport:
    """The way to the API server for one process (``Transport``).

    Attributes:
        pending: The requests that are not answered yet, by identity.
        watches: Those that were begun; some may have ended.
    """

    def __init__(self, process: Process, transport: Transport) -> None:
        self.process, self.base = process, transport
        self.pending: dict[int, Request] = {}
        self.watches: list[ProcessWatch] = []

    async def call(self, request: Request) -> Any:
        """Send a request when the network lets it through, and wait likewise for the answer."""
        process = self.process
        if process.hindered:
            await process.reach_network()
        number = id(request)
        self.pending[number] = request
        try:
            answer = await self.base.call(request)
        except (StatusError, OSError):
            if process.hindered:
                await process.reach_network()
            raise
        finally:
            del self.pending[number]
        if process.hindered:
            await process.reach_network()
        return answer

    def watch(self, type: type[Object], **how: Any) -> Watch:
        """Begin a watch whose events wait for the network."""
        watch = ProcessWatch(self.process, self.base.watch(type, **how))
        self.watches = [w for w in self.watches if not w.stopped]
        self.watches.append(watch)
        return watch


class ProcessWatch:
    """A watch of one process."""

    def __init__(self, process: Process, watch: Watch) -> None:
        self.process, self.base = process, watch
        self.stopped = False

    async def next(self) -> list[WatchEvent]:
        """Wait for events, and until they can be received."""
        events = await self.base.next()
        await self.process.reach_network()
        return events

    def stop(self) -> None:
        """Let go of it."""
        self.stopped = True
        self.base.stop()
