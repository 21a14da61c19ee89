"""The wire of a cluster, with places where faults can take hold. Without faults it is only a wire.

Rules stand here while their fault lasts; `kcm_lite.sim.injection` puts them up and takes them down.
"""

from __future__ import annotations

from asyncio import Future, get_running_loop
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kcm_lite.api.coordination import Lease
from kcm_lite.api.core import Event
from kcm_lite.api.errors import Expired, StatusError
from kcm_lite.api.meta import Object
from kcm_lite.api.request import Request, WatchEvent
from kcm_lite.apiserver.server import refusal
from kcm_lite.apiserver.transport import InMemoryTransport, Watch, end, hand_over, settle

READS = frozenset({"get", "list"})
UNCOUNTED: frozenset[type[Object]] = frozenset({Event, Lease})
"""What a manager writes beside its work."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a call instead of an answer.

    Attributes:
        error: What the caller gets.
        done: Whether the server does what is asked.
        after: Seconds until the caller hears; None: as usual.
    """

    error: Exception
    done: bool = False
    after: float | None = None


CallRule = Callable[[Request], Fate | None]
CallTime = Callable[[Request], float | None]
WatchTime = Callable[[type[Object]], float]
"""Seconds by which what arrives is held back; of several rules the slowest counts."""

WatchRule = Callable[[type[Object]], bool]
Answer = Callable[[Request], Any]


class FaultyWire(InMemoryTransport):
    """The way to the API server.

    Attributes:
        failing: Decide about calls; the first that has an opinion wins.
        call_times: Say how long a call takes; the first that has an opinion wins.
        watch_times: Hold watch events back.
        doubling: Say whether a batch of watch events brings all of them twice.
        refusing: Say whether a watch cannot begin.
        lost: Requests that will not reach the server, by identity.
        writes: How many writes were committed; Events and Leases are not counted.
        triggers: What to call right after so many writes.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.failing: list[CallRule] = []
        self.call_times: list[CallTime] = []
        self.watch_times: list[WatchTime] = []
        self.doubling: list[WatchRule] = []
        self.refusing: list[WatchRule] = []
        self.lost: dict[int, Request] = {}
        self.writes = 0
        self.triggers: list[tuple[int, Callable[[], None]]] = []
        self._open: dict[Watch, type[Object]] = {}
        self._held: dict[Watch, float] = {}  # when the last batch that is held back will be let go
        self._expired: set[tuple[str, type[Object]]] = set()

    # ---- calls

    async def call(self, request: Request, answer: Answer | None = None) -> Any:
        """Send a request, and wait for the answer, as slow as the rules say.

        Args:
            answer: Who answers instead of the server.
        """
        reply: Future[Any] = get_running_loop().create_future()
        half = self.latency.call / 2
        for rule in self.call_times:
            if (seconds := rule(request)) is not None:
                half = seconds / 2
                break
        self.clock.call_later(half, self._serve, request, reply, half, answer)
        return await reply

    def _serve(
        self, request: Request, reply: Future[Any], back: float, instead: Answer | None
    ) -> None:
        """Let the server act, unless a rule decides otherwise, and send what it says back."""
        if self.lost and self.lost.pop(id(request), None) is not None:
            return
        answer: Any = None
        error: Exception | None = None
        fate: Fate | None = None
        for rule in self.failing:
            if (fate := rule(request)) is not None:
                break
        if fate is None or fate.done:
            try:
                answer = (instead or self.server.handle)(request)
            except StatusError as refused:
                error = refused
        committed = error is None and request.verb not in READS
        if fate is not None:
            if not fate.done:
                self._record(request, fate.error)
                committed = False
            error, back = fate.error, back if fate.after is None else fate.after
        self.clock.call_later(back, settle, reply, answer, error)
        if committed and request.type not in UNCOUNTED:
            self._count()

    def _record(self, request: Request, error: Exception) -> None:
        """Write down a write that the server refuses for no reason of its own."""
        trace = self.server.registry.trace
        if trace is None or request.verb in READS:
            return
        if isinstance(error, StatusError) and error.code != 504:
            trace.write(refusal(self.clock.time(), request, error))

    def _count(self) -> None:
        self.writes += 1
        if self.triggers:
            due = [act for count, act in self.triggers if count <= self.writes]
            self.triggers = [t for t in self.triggers if t[0] > self.writes]
            for act in due:
                act()

    def lose(self, requests: Iterable[Request]) -> None:
        """Let these requests, if they are still on their way to the server, never reach it."""
        self.lost.update((id(request), request) for request in requests)

    # ---- watches

    def watch(self, type: type[Object], *, client: str = "", **more: Any) -> Watch:
        """Begin a watch, if it may."""
        self._open = {w: kind for w, kind in self._open.items() if w.ended is None}
        self._held = {w: due for w, due in self._held.items() if w.ended is None}
        error: Exception | None = None
        version = more.get("resource_version", "")
        if (client, type) in self._expired:
            self._expired.discard((client, type))
            if version and not more.get("send_initial_events"):
                newest = self.server.store.revision
                error = Expired(f"too old resource version: {version} ({newest})")
        if any(rule(type) for rule in self.refusing):
            error = ConnectionRefusedError("connection refused")
        if error is not None:
            return self.refused(client, error)
        watch = super().watch(type, client=client, **more)
        self._open[watch] = type
        return watch

    def refused(self, client: str, error: Exception) -> Watch:
        """Return a watch that cannot begin."""
        watch = Watch(self, client)
        self.clock.call_later(self.latency.call, end, watch, error)
        return watch

    def break_watches(self, which: WatchRule, *, expired: bool) -> int:
        """Break the connections of open watches; return of how many."""
        broken = [(w, kind) for w, kind in self._open.items() if w.ended is None and which(kind)]
        for watch, kind in broken:
            if expired:
                self._expired.add((watch.client, kind))
            end(watch, ConnectionResetError("connection reset by peer"))
        return len(broken)

    def hold(self, watch: Watch, until: float) -> None:
        """Hand over nothing of one watch until a second of the run."""
        self._held[watch] = until

    def deliver(self, watch: Watch, batch: list[WatchEvent]) -> None:
        """Hand over what has arrived, when the rules let it; order does not change."""
        if not (self.watch_times or self.doubling or self._held):
            hand_over(watch, batch)
            return
        kind, now = self._open[watch], self.clock.time()
        if any(rule(kind) for rule in self.doubling):
            batch = [event for event in batch for _ in range(2)]
        before = self._held.get(watch, -1.0)
        due = max(before, *(now + rule(kind) for rule in self.watch_times), now)
        if due > now or before >= now:
            self._held[watch] = due
            self.clock.call_at(due, hand_over, watch, batch, round(due - now, 9))
        else:
            self._held.pop(watch, None)
            hand_over(watch, batch)
