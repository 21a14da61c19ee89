# Generated from book/04b_admission_and_the_wire.ipynb by tools/tangle.py; edit it there.

"""The wire between clients and the API server: time passes on it, order does not change.

See: chapter *Admission and the wire*.
"""

from __future__ import annotations

from asyncio import Future, get_running_loop
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from kcm_lite.api.errors import StatusError
from kcm_lite.api.meta import Object, object_key
from kcm_lite.api.request import Request, WatchClosed, WatchEvent
from kcm_lite.api.scheme import resource_of
from kcm_lite.apiserver.server import APIServer
from kcm_lite.apiserver.store import Sink
from kcm_lite.clock import Clock
from kcm_lite.trace import Delivery, Trace

# %% book/04b_admission_and_the_wire.ipynb#665d5390
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


# %% book/04b_admission_and_the_wire.ipynb#4d222223
@dataclass(slots=True, eq=False)
class Watch:
    """An open watch: batches of events, each what was committed in one instant.

    Attributes:
        filling: The batch that arrives at ``due``.
        ready: The batches that have arrived.
        ended: What `next` raises when there is no more.
    """

    transport: InMemoryTransport
    client: str
    due: float = -1.0
    filling: list[WatchEvent] = field(default_factory=list)
    ready: deque[list[WatchEvent]] = field(default_factory=deque)
    ended: Exception | None = None
    waiter: Future[None] | None = None
    cancel: Callable[[], None] | None = None

    async def next(self) -> list[WatchEvent]:
        """Wait for events and return them, oldest first, at least one.

        Raises:
            StatusError: The watch could not begin: `Expired` if the server no longer knows what
                to send.
            WatchClosed: It is over.
        """
        while not self.ready:
            if self.ended is not None:
                raise self.ended
            self.waiter = get_running_loop().create_future()
            await self.waiter
        return self.ready.popleft()

    def stop(self) -> None:
        """Let go of it: what is on its way is lost. A second stop does nothing."""
        self.ready.clear()
        end(self, WatchClosed())


# %% book/04b_admission_and_the_wire.ipynb#b7bceacd
def begin(watch: Watch, subscribe: Callable[[Sink], Callable[[], None]]) -> None:
    """Begin to hear of changes, unless the watch was stopped before it began."""
    if watch.ended is not None:
        return
    try:
        watch.cancel = subscribe(partial(send, watch))
    except StatusError as error:
        transport = watch.transport
        transport.clock.call_later(transport.latency.call / 2, end, watch, error)


def send(watch: Watch, event: WatchEvent) -> None:
    """Send an event on its way; it arrives together with the others of this instant."""
    clock = watch.transport.clock
    due = clock.time() + watch.transport.latency.watch
    if due > watch.due:
        watch.due, watch.filling = due, []
        clock.call_at(due, arrive, watch, watch.filling)
    watch.filling.append(event)


def arrive(watch: Watch, batch: list[WatchEvent]) -> None:
    """Have the transport hand over a batch that has come the whole way."""
    if watch.filling is batch:
        watch.due = -1.0  # what comes from now on, even in this instant, is another batch
    if watch.ended is None:
        watch.transport.deliver(watch, batch)


def hand_over(watch: Watch, batch: list[WatchEvent], late: float = 0.0) -> None:
    """Hand a batch, ``late`` by so many seconds, to whoever waits for it."""
    if watch.ended is not None:
        return
    if watch.transport.trace is not None:
        note(watch, watch.transport.trace, batch, watch.transport.latency.watch + late)
    watch.ready.append(batch)
    wake(watch)


# %% book/04b_admission_and_the_wire.ipynb#fa85b1dc
def end(watch: Watch, error: Exception) -> None:
    """End a watch: what has arrived is still handed out, then ``error`` is raised."""
    if watch.cancel is not None:
        watch.cancel()
    watch.ended = watch.ended or error
    wake(watch)


def wake(watch: Watch) -> None:
    """Let a waiting ``next`` go on."""
    if watch.waiter is not None and not watch.waiter.done():
        watch.waiter.set_result(None)


def note(watch: Watch, trace: Trace, batch: list[WatchEvent], lag: float) -> None:
    """Record what arrives, and how long it took."""
    now = watch.transport.clock.time()
    plural = resource_of(batch[0].object).plural
    for event in batch:
        key, version = object_key(event.object), event.resource_version
        trace.write(Delivery(now, watch.client, event.type, plural, key, version, lag))


# %% book/04b_admission_and_the_wire.ipynb#c34d5939
def serve(transport: InMemoryTransport, request: Request, reply: Future[Any]) -> None:
    """Let the server act on a request, and send its answer on the way back."""
    answer, error = None, None
    try:
        answer = transport.server.handle(request)
    except StatusError as refusal:
        error = refusal
    transport.clock.call_later(transport.latency.call / 2, settle, reply, answer, error)


def settle(reply: Future[Any], answer: Any, error: Exception | None) -> None:
    """Hand an answer or a refusal to the caller, unless the caller has gone."""
    if reply.done():
        return
    if error is None:
        reply.set_result(answer)
    else:
        reply.set_exception(error)


async def send_bookmarks(transport: InMemoryTransport) -> None:
    """Send bookmarks for ever; the loop keeps no clock from settling."""
    while True:
        await transport.clock.sleep(BOOKMARK_SECONDS, background=True)
        transport.server.send_bookmarks()


# %% book/04b_admission_and_the_wire.ipynb#ba2c5e2c
class InMemoryTransport:
    """The way to an API server in the same process; implements the client's ``Transport``.

    Whatever has the same two methods can stand in front of it, to lose, delay or refuse. A worse
    wire overrides ``deliver``.

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
        latency: Latency | None = None,
        trace: Trace | None = None,
    ) -> None:
        self.server, self.clock, self.latency = server, clock, latency or Latency()
        self.trace = trace if trace is not None and trace.detail else None
        self._bookmarking = False

    async def call(self, request: Request) -> Any:
        """Send a request: half of the latency passes before the server acts, half after.

        Raises:
            StatusError: The server refused.
        """
        reply: Future[Any] = get_running_loop().create_future()
        self.clock.call_later(self.latency.call / 2, serve, self, request, reply)
        return await reply

    def watch(self, type: type[Object], *, client: str = "", **more: Any) -> Watch:
        """Begin a watch; the server hears of it half a call later.

        Args:
            type: Which objects.
            client: Who watches.
            more: The arguments of `kcm_lite.apiserver.store.subscribe`.
        """
        watch = Watch(self, client)
        ask = partial(self.server.subscribe, type, bookmarks=True, **more)
        self.clock.call_later(self.latency.call / 2, begin, watch, ask)
        if not self._bookmarking:
            self._bookmarking = True
            self.clock.spawn(send_bookmarks(self), name="bookmarks")
        return watch

    def deliver(self, watch: Watch, batch: list[WatchEvent]) -> None:
        """Hand over a batch that has arrived: at once."""
        hand_over(watch, batch)
