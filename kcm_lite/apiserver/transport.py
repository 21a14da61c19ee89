"""The wire between clients and the API server: time passes on it, order does not change.

See: chapter *Admission and the wire*.
"""

# Generated from the notebooks by tangle.py; edit them instead.

from __future__ import annotations

from asyncio import Future, get_running_loop
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from kcm_lite.api.errors import StatusError
from kcm_lite.api.meta import Object, object_key
from kcm_lite.api.request import Request, WatchClosed, WatchEvent
from kcm_lite.api.scheme import resource_of
from kcm_lite.apiserver.server import APIServer
from kcm_lite.clock import Clock
from kcm_lite.trace import Delivery, Trace

# %% book/04b_admission_and_the_wire.ipynb#0f890331
BOOKMARK_SECONDS = 60.0
"""How often a watcher that asks for bookmarks gets one."""


class Latency(msgspec.Struct, frozen=True):
    """How long things take on the wire, in seconds.

    Attributes:
        call: A request and its answer; the server acts when half of it has passed.
        watch: From a change to the watcher's learning of it.
    """

    call: float = 0.010
    watch: float = 0.002


class InMemoryTransport:
    """The way to an API server in the same process; implements the client's ``Transport``.

    Whatever has the same two methods can stand in front of it, to lose, delay or refuse.

    Args:
        server: Where the requests go.
        clock: Whose time passes.
        latency: How much of it.
        trace: Where deliveries are recorded, if it wants detail.
    """

    def __init__(
        self,
        server: APIServer,
        clock: Clock,
        *,
        latency: Latency = Latency(),
        trace: Trace | None = None,
    ) -> None:
        self.server, self.clock, self.latency = server, clock, latency
        self.trace = trace if trace is not None and trace.detail else None
        self._half = latency.call / 2
        self._bookmarking = False

    async def call(self, request: Request) -> Any:
        """Send a request; half the latency before the server acts, half after.

        Raises:
            StatusError: The server refused.
        """
        await self.clock.sleep(self._half)
        try:
            return self.server.handle(request)
        finally:
            await self.clock.sleep(self._half)

    def watch(
        self,
        type: type[Object],
        *,
        namespace: str = "",
        resource_version: str = "",
        label_selector: Any = None,
        field_selector: Any = None,
        send_initial_events: bool = False,
        client: str = "",
    ) -> Watch:
        """Begin a watch; the server hears of it half a call later."""
        watch = Watch(self, client)

        def subscribe() -> Callable[[], None]:
            return self.server.subscribe(
                type,
                watch.send,
                namespace=namespace,
                resource_version=resource_version,
                label_selector=label_selector,
                field_selector=field_selector,
                send_initial_events=send_initial_events,
                bookmarks=True,
            )

        self.clock.call_later(self._half, watch.open, subscribe)
        if not self._bookmarking:
            self._bookmarking = True
            self.clock.spawn(self._bookmark(), name="bookmarks")
        return watch

    async def _bookmark(self) -> None:
        while True:
            await self.clock.sleep(BOOKMARK_SECONDS, background=True)
            self.server.send_bookmarks()


# %% book/04b_admission_and_the_wire.ipynb#034bfc27
class Watch:
    """An open watch: batches of events, each batch what was committed at one instant."""

    __slots__ = (
        "_cancel",
        "_client",
        "_due",
        "_ended",
        "_filling",
        "_ready",
        "_stopped",
        "_transport",
        "_waiter",
    )

    def __init__(self, transport: InMemoryTransport, client: str) -> None:
        self._transport, self._client = transport, client
        self._ready: deque[list[WatchEvent]] = deque()
        self._filling: list[WatchEvent] = []
        self._due = -1.0
        self._ended: Exception | None = None
        self._waiter: Future[None] | None = None
        self._cancel: Callable[[], None] | None = None
        self._stopped = False

    def open(self, subscribe: Callable[[], Callable[[], None]]) -> None:
        """Begin to hear of changes, unless it was stopped before it began."""
        if self._stopped:
            return
        try:
            self._cancel = subscribe()
        except StatusError as error:
            transport = self._transport
            transport.clock.call_later(transport.latency.call / 2, self.end, error)

    def send(self, event: WatchEvent) -> None:
        """Take an event from the server: it arrives with all others of this instant."""
        transport = self._transport
        due = transport.clock.time() + transport.latency.watch
        if due > self._due:
            self._due, self._filling = due, []
            transport.clock.call_at(due, self._arrive, self._filling)
        self._filling.append(event)

    def _arrive(self, batch: list[WatchEvent]) -> None:
        if self._stopped:
            return
        if self._due <= self._transport.clock.time():
            self._due = -1.0  # what comes in this very instant is another batch
        trace = self._transport.trace
        if trace is not None:
            now, lag = self._transport.clock.time(), self._transport.latency.watch
            plural = resource_of(batch[0].object).plural
            for event in batch:
                trace.write(
                    Delivery(
                        now,
                        self._client,
                        event.type,
                        plural,
                        object_key(event.object),
                        event.resource_version,
                        lag,
                    )
                )
        self._ready.append(batch)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def next(self) -> list[WatchEvent]:
        """Wait for events and return them, oldest first, at least one.

        Raises:
            StatusError: The watch could not begin, or cannot go on: `Expired` if the server no
                longer knows what to send.
            WatchClosed: It is over, in good order.
        """
        while not self._ready:
            if self._ended is not None:
                raise self._ended
            self._waiter = get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._ready.popleft()

    def end(self, error: Exception) -> None:
        """End it from the server's side: what has arrived is still handed out, then ``error``."""
        if self._cancel is not None:
            self._cancel()
        self._ended = error
        self._wake()

    def stop(self) -> None:
        """Let go of it. What is on its way is lost; a waiting ``next`` raises `WatchClosed`."""
        if not self._stopped:
            self._stopped = True
            self._ready.clear()
            self.end(WatchClosed())
