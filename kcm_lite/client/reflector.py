# Generated from book/05_informers.ipynb by tools/tangle.py; edit it there.

"""List, then watch from there, for ever: keeps a store equal to what the server has.

See: chapter *Informers*; client-go ``tools/cache/reflector.go``.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Generic, NoReturn, Protocol, TypeVar, cast

from kcm_lite.api.errors import StatusError, TooManyRequests
from kcm_lite.api.meta import Object, object_key
from kcm_lite.api.request import INITIAL_EVENTS_END, ObjectList, WatchClosed, WatchEvent
from kcm_lite.client.transport import Watch
from kcm_lite.clock import Clock
from kcm_lite.trace import Note, Trace

# %% book/05_informers.ipynb#dd880c49
T = TypeVar("T", bound=Object)
T_contra = TypeVar("T_contra", bound=Object, contravariant=True)

# %% book/05_informers.ipynb#766e37e9
INITIAL_DELAY, MAXIMUM_DELAY = 0.8, 30.0
RESET_SECONDS = 120.0


class Backoff:
    """Delays that double from 0.8 s to 30 s, and begin again two minutes after they began.

    Each is stretched by up to its own length, so that clients do not come back in step.

    Args:
        clock: Tells when to begin again.
        rng: Source of the stretch.
    """

    __slots__ = ("_began", "_clock", "_next", "_rng")

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock, self._rng = clock, rng
        self._next, self._began = INITIAL_DELAY, clock.time()

    def step(self) -> float:
        """Return how many seconds to wait now."""
        now = self._clock.time()
        if now - self._began > RESET_SECONDS:
            self._next, self._began = INITIAL_DELAY, now
        delay = self._next
        self._next = min(delay * 2, MAXIMUM_DELAY)
        return delay * (1 + self._rng.random())


# %% book/05_informers.ipynb#5fce1668
class Source(Protocol[T]):
    """Where the objects come from: the part of a client that lists and watches one type."""

    async def list(self) -> ObjectList[T]:
        """Return all objects, and the version at which that was the state."""

    def watch(self, resource_version: str, *, send_initial_events: bool = False) -> Watch:
        """Watch what changes after ``resource_version``."""


class Sink(Protocol[T_contra]):
    """Where they go."""

    def replace(self, items: Sequence[T_contra], resource_version: str) -> None:
        """This is all there is, at this version."""

    def apply(self, events: Sequence[WatchEvent]) -> None:
        """These changes followed, in this order."""


# %% book/05_informers.ipynb#efde9191
class Reflector(Generic[T]):
    """Keeps a sink equal to a source, through every interruption.

    Args:
        source, sink: What to copy, and where to.
        clock: For the delays.
        rng: For their stretch.
        name: For the trace.
        watch_list: Get the first state as a stream (today) instead of by a list (1.22).
        trace: Where interruptions are noted.

    Attributes:
        last_sync_resource_version: The version of the last thing that reached the sink.
    """

    def __init__(
        self,
        source: Source[T],
        sink: Sink[T],
        clock: Clock,
        rng: random.Random,
        *,
        name: str = "",
        watch_list: bool = True,
        trace: Trace | None = None,
    ) -> None:
        self.source, self.sink, self.clock = source, sink, clock
        self.name, self.watch_list, self.trace = name, watch_list, trace
        self.backoff = Backoff(clock, rng)
        self.last_sync_resource_version = ""

    async def run(self) -> NoReturn:
        """List and watch; when that ends, wait a little and do it again."""
        while True:
            try:
                await list_and_watch(self)
            except (StatusError, OSError) as error:
                note(self, str(error))
            await self.clock.sleep(self.backoff.step())


# %% book/05_informers.ipynb#6ed0cfec
async def list_and_watch(reflector: Reflector[T]) -> None:
    """Bring the sink up to date, then follow the changes until something calls for a new list."""
    watch = None
    if reflector.watch_list:
        try:
            watch = await stream(reflector)
        except (StatusError, OSError, WatchClosed) as error:
            note(reflector, f"streamed list failed, falling back to list: {error}")
    if watch is None:
        found = await reflector.source.list()
        sync_with(reflector, found.items, found.resource_version)
    await follow(reflector, watch)


def note(reflector: Reflector[T], text: str) -> None:
    """Put an interruption into the trace."""
    if reflector.trace is not None:
        line = f"{reflector.name}: {text}"
        reflector.trace.write(Note(reflector.clock.time(), "reflector", line))


# %% book/05_informers.ipynb#4727a1bf
def sync_with(reflector: Reflector[T], items: Sequence[T], resource_version: str) -> None:
    """Tell the sink that this is all there is. Errors as for `deliver`."""
    try:
        reflector.sink.replace(items, resource_version)
    except (StatusError, OSError) as error:
        raise RuntimeError(f"a handler failed: {error}") from error
    reflector.last_sync_resource_version = resource_version


def deliver(reflector: Reflector[T], events: Sequence[WatchEvent]) -> None:
    """Hand changes to the sink.

    Raises:
        RuntimeError: A handler let through an error that looks like an interruption of ours. It is
            a bug, and must not pass for one.
    """
    try:
        reflector.sink.apply(events)
    except (StatusError, OSError) as error:
        raise RuntimeError(f"a handler failed: {error}") from error
    reflector.last_sync_resource_version = events[-1].resource_version


# %% book/05_informers.ipynb#89de9992
async def follow(reflector: Reflector[T], watch: Watch | None) -> None:
    """Hand on the events of one watch after the other, each from where the last one ended.

    Returns: When a watch ended at once and empty; it is not trusted.
    Raises: What calls for a new list: `Expired`, as a rule.
    """
    clock = reflector.clock
    while True:
        started, seen = clock.time(), 0
        if watch is None:
            watch = reflector.source.watch(reflector.last_sync_resource_version)
        try:
            while True:
                events = await watch.next()
                deliver(reflector, events)
                seen += len(events)
        except (TooManyRequests, ConnectionRefusedError) as error:
            note(reflector, f"watch failed, backing off: {error}")
            await clock.sleep(reflector.backoff.step())
        except (WatchClosed, ConnectionError, TimeoutError) as error:
            note(reflector, f"watch closed: {error}")
            if not seen and clock.time() - started < 1.0:
                return
        finally:
            watch.stop()
        watch = None


# %% book/05_informers.ipynb#b0d9b615
async def stream(reflector: Reflector[T]) -> Watch:
    """Take the first state from a watch: adds up to a bookmark, then the same watch goes on."""
    watch = reflector.source.watch(reflector.last_sync_resource_version, send_initial_events=True)
    state: dict[str, T] = {}
    try:
        while True:
            events = await watch.next()
            for position, event in enumerate(events):
                obj, kind = cast(T, event.object), event.type
                if kind == "BOOKMARK":
                    if obj.metadata.annotations.get(INITIAL_EVENTS_END) == "true":
                        sync_with(reflector, list(state.values()), event.resource_version)
                        if rest := events[position + 1 :]:
                            deliver(reflector, rest)
                        return watch
                elif kind == "DELETED":
                    state.pop(object_key(obj), None)
                else:
                    state[object_key(obj)] = obj
    except BaseException:
        watch.stop()
        raise
