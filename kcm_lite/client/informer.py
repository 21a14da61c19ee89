"""One cache and one watch per kind, shared by every controller that wants to know."""

# Generated from the notebooks by tangle.py; edit them instead.

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from kcm_lite.api.meta import Object, object_key
from kcm_lite.api.request import ObjectList, WatchEvent
from kcm_lite.api.scheme import resource_of
from kcm_lite.client.cache import (
    NAMESPACE_INDEX,
    Indexer,
    IndexFunc,
    Lister,
    Tombstone,
    index_by_namespace,
    key_of,
    last_state,
)
from kcm_lite.client.clientset import Client
from kcm_lite.client.deltafifo import DeltaFIFO
from kcm_lite.client.reflector import Reflector, Sink, Source
from kcm_lite.client.transport import Watch
from kcm_lite.clock import Clock
from kcm_lite.trace import Trace

# %% book/05_informers.ipynb#86328777
T = TypeVar("T", bound=Object)

OnAdd = Callable[[T, bool], object]
OnUpdate = Callable[[T, T], object]
OnDelete = Callable[[T | Tombstone[T]], object]


# %% book/05_informers.ipynb#a4434bf1
@dataclass(slots=True, eq=False)
class Registration(Generic[T]):
    """One subscriber of a shared informer.

    Attributes:
        on_add: Called with an object that is new to the cache, and whether it was in the first
            list (as opposed to: created now).
        on_update: Called with the object before and after. Both are the same at a reminder;
            their UIDs differ if a deletion and a new creation in between were missed.
        on_delete: Called with the object's last state; with a tombstone if that is not certain.
        resync: Seconds between two reminders of everything; 0: none.
        due: When the next reminder is due.
        synced: Set when the first list was handed on.
        syncing: Whether updates that change no version are for this subscriber.
    """

    on_add: OnAdd[T] | None
    on_update: OnUpdate[T] | None
    on_delete: OnDelete[T] | None
    resync: float
    due: float
    synced: asyncio.Event
    syncing: bool = True

    def has_synced(self) -> bool:
        """Whether this subscriber was told of everything that the first list held."""
        return self.synced.is_set()


# %% book/05_informers.ipynb#dbdf4253
Registrations = tuple[Registration[T], ...]


class SharedProcessor(Generic[T]):
    """The subscribers of one informer (``sharedProcessor``).

    Handlers are called in the order of registration, in the instant in which a batch arrives.
    They must only take note and return. One that raises ends the run, as a panic does upstream.
    """

    def __init__(self) -> None:
        self.registrations: Registrations[T] = ()
        self.synced = asyncio.Event()


def tell_added(registrations: Registrations[T], obj: T, initial: bool) -> None:
    """Tell of an object that is new to the cache."""
    for registration in registrations:
        if registration.on_add is not None:
            registration.on_add(obj, initial)


def tell_updated(registrations: Registrations[T], old: T, new: T) -> None:
    """Tell of a change; if the version is the same, only those who want reminders."""
    changed = old.metadata.resource_version != new.metadata.resource_version
    for registration in registrations:
        if registration.on_update is not None and (changed or registration.syncing):
            registration.on_update(old, new)


def tell_deleted(registrations: Registrations[T], obj: T | Tombstone[T]) -> None:
    """Tell of a deletion."""
    for registration in registrations:
        if registration.on_delete is not None:
            registration.on_delete(obj)


# %% book/05_informers.ipynb#6d0e2439
class InOrder(Generic[T]):
    """What fills a cache today: one change after the other, a new list in one piece.

    The batch that the reflector brings is the queue; it is worked off before the next one comes.
    """

    def __init__(self, indexer: Indexer[T], processor: SharedProcessor[T]) -> None:
        self.indexer, self.processor = indexer, processor

    def apply(self, events: Sequence[WatchEvent]) -> None:
        """Take over changes one by one: first the cache, then the subscribers."""
        indexer, processor = self.indexer, self.processor
        for event in events:
            kind: str = event.type
            obj: Any = event.object
            indexer.resource_version = event.resource_version
            if kind == "DELETED":
                indexer.remove(object_key(obj))
                tell_deleted(processor.registrations, obj)
            elif kind != "BOOKMARK":
                old = indexer.put(object_key(obj), obj)
                if old is None:
                    tell_added(processor.registrations, obj, not processor.synced.is_set())
                else:
                    tell_updated(processor.registrations, old, obj)

    def replace(self, items: Sequence[T], resource_version: str) -> None:
        """Take over a list: the whole cache, then tombstones, then changes and additions."""
        registrations, synced = self.processor.registrations, self.processor.synced
        before = self.indexer.items
        self.indexer.replace(items, resource_version)
        for key, obj in before.items():
            if key not in self.indexer:
                tell_deleted(registrations, Tombstone(key, obj))
        for obj in items:
            old = before.get(object_key(obj))
            if old is None:
                tell_added(registrations, obj, not synced.is_set())
            else:
                tell_updated(registrations, old, obj)
        synced.set()


# %% book/05_informers.ipynb#e0fb2f23
DELTA_TYPES = {"ADDED": "Added", "MODIFIED": "Updated", "DELETED": "Deleted"}


class ByObject(Generic[T]):
    """What filled a cache in 1.22: object after object, each with all its changes."""

    def __init__(self, indexer: Indexer[T], processor: SharedProcessor[T]) -> None:
        self.indexer, self.processor = indexer, processor
        self.fifo = DeltaFIFO(indexer)

    def apply(self, events: Sequence[WatchEvent]) -> None:
        """Queue changes and work the queue off."""
        for event in events:
            if event.type != "BOOKMARK":
                self.fifo.add(DELTA_TYPES[event.type], cast(T, event.object))
        self._drain()
        self.indexer.resource_version = events[-1].resource_version

    def replace(self, items: Sequence[T], resource_version: str) -> None:
        """Queue a list and work the queue off."""
        self.fifo.replace(items)
        self._drain()
        self.indexer.resource_version = resource_version
        self.processor.synced.set()

    def _drain(self) -> None:
        processor = self.processor
        while self.fifo:
            for kind, obj in self.fifo.pop():
                if kind == "Deleted":
                    self.indexer.delete(obj)
                    tell_deleted(processor.registrations, obj)
                elif (old := self.indexer.put(key_of(obj), new := last_state(obj))) is None:
                    tell_added(processor.registrations, new, not processor.synced.is_set())
                else:
                    tell_updated(processor.registrations, old, new)


# %% book/05_informers.ipynb#934bcda4
class Cache(Generic[T]):
    """The half of a shared informer that controllers read.

    Attributes:
        kind: The type of the objects.
        indexer: The objects. Read them; only the informer writes.
        processor: The subscribers.
    """

    def __init__(self, kind: type[T]) -> None:
        self.kind = kind
        self.indexer: Indexer[T] = Indexer({NAMESPACE_INDEX: index_by_namespace})
        self.processor: SharedProcessor[T] = SharedProcessor()

    @property
    def has_synced(self) -> bool:
        """Whether the first list has arrived and every handler knows it."""
        return self.processor.synced.is_set()

    @property
    def last_resource_version(self) -> str:
        """The version of the last change that the cache has; empty before the first list."""
        return self.indexer.resource_version

    def lister(self) -> Lister[T]:
        """Return a lister over the cache."""
        return Lister(self.indexer, self.kind)

    def add_indexers(self, indexers: Mapping[str, IndexFunc]) -> None:
        """Add indexes, whether or not the cache is filled already.

        Raises:
            ValueError: A name is taken by another function.
        """
        for name, function in indexers.items():
            self.indexer.add_indexer(name, function)


# %% book/05_informers.ipynb#ffaf7817
class SharedInformer(Cache[T]):
    """A cache of one kind, kept equal to the server by one watch for all its subscribers.

    Args:
        source: What to list and watch.
        kind: The type of the objects.
        clock: For delays and reminders.
        rng: For the jitter of delays.
        resync: Seconds between two reminders for handlers that do not say; 0: no reminders at all.
        in_order: Hand on changes in their order (today), not object by object (1.22).
        watch_list: Begin with a streamed list (today), not a plain one (1.22).
        name: For the trace.
        trace: Where interruptions are noted.
    """

    def __init__(
        self,
        source: Source[T],
        kind: type[T],
        clock: Clock,
        rng: random.Random,
        *,
        resync: float = 0.0,
        in_order: bool = True,
        watch_list: bool = True,
        name: str = "",
        trace: Trace | None = None,
    ) -> None:
        super().__init__(kind)
        self.clock, self.resync, self.check = clock, resync, resync
        self.name = f"{name}/{resource_of(kind).plural}"
        self.tasks: list[asyncio.Task[Any]] = []
        sink: Sink[T] = (InOrder if in_order else ByObject)(self.indexer, self.processor)
        self.reflector = Reflector(
            source, sink, clock, rng, name=self.name, watch_list=watch_list, trace=trace
        )

    def add_event_handler(
        self,
        on_add: OnAdd[T] | None = None,
        on_update: OnUpdate[T] | None = None,
        on_delete: OnDelete[T] | None = None,
        *,
        resync: float | None = None,
    ) -> Registration[T]:
        """Subscribe (see `Registration`); who comes late is told of what the cache has, at once.

        Args:
            resync: Seconds between two reminders; None: as the informer has it.
        """
        return subscribe(self, (on_add, on_update, on_delete), resync)


# %% book/05_informers.ipynb#eaaccee8
def subscribe(
    informer: SharedInformer[T],
    handlers: tuple[OnAdd[T] | None, OnUpdate[T] | None, OnDelete[T] | None],
    resync: float | None,
) -> Registration[T]:
    """Add a subscriber, and tell it of what the cache has if the informer runs already."""
    processor, now = informer.processor, informer.clock.time()
    period = resync_period(informer, informer.resync if resync is None else resync)
    registration = Registration(*handlers, period, now + period, processor.synced)
    processor.registrations += (registration,)
    if registration.on_add is not None:
        for obj in informer.indexer.list():
            registration.on_add(obj, True)
    return registration


def resync_period(informer: SharedInformer[T], wanted: float) -> float:
    """Return the seconds between reminders that a handler gets.

    At least 1 s. Before the start the informer goes by its most eager handler; after the start no
    handler gets more than the informer looks. An informer without reminders has none for anybody.
    """
    if wanted <= 0 or informer.check <= 0:
        return 0.0
    wanted = max(wanted, 1.0)
    if not informer.tasks:
        informer.check = min(informer.check, wanted)
    return max(wanted, informer.check)


# %% book/05_informers.ipynb#e5a1355a
def start(informer: SharedInformer[T]) -> None:
    """Begin to list and watch; a second start does nothing."""
    if not informer.tasks:
        spawn = informer.clock.spawn
        informer.tasks.append(spawn(informer.reflector.run(), name=f"reflector {informer.name}"))
        if informer.check:
            informer.tasks.append(spawn(remind(informer), name=f"resync {informer.name}"))


async def remind(informer: SharedInformer[T]) -> None:
    """Every ``check`` seconds, tell the subscribers that are due of every object once more."""
    while True:
        await informer.clock.sleep(informer.check, background=True)
        now = informer.clock.time()
        registrations = informer.processor.registrations
        for registration in registrations:
            registration.syncing = registration.resync > 0 and registration.due <= now
            if registration.syncing:
                registration.due = now + registration.resync
        if any(registration.syncing for registration in registrations):
            for obj in informer.indexer.list():
                tell_updated(registrations, obj, obj)


# %% book/05_informers.ipynb#44a607ad
class ListWatch(Generic[T]):
    """The objects of one type, as a client gets them."""

    def __init__(self, client: Client, kind: type[T]) -> None:
        self._client, self._kind = client, kind

    async def list(self) -> ObjectList[T]:
        """Return all objects, and the version at which that was the state."""
        return await self._client.list(self._kind)

    def watch(self, resource_version: str, *, send_initial_events: bool = False) -> Watch:
        """Watch what changes after ``resource_version``."""
        return self._client.watch(
            self._kind, resource_version=resource_version, send_initial_events=send_initial_events
        )


# %% book/05_informers.ipynb#00637caa
class SharedInformerFactory:
    """One informer per kind, however many controllers ask.

    Args:
        client: Whose requests fill the caches.
        clock: For delays and reminders.
        resync: Seconds between two reminders for handlers that do not say; 0: no reminders at all.
        in_order: Hand on changes in their order (today), not object by object (1.22).
        watch_list: Begin with a streamed list (today), not a plain one (1.22).
        rng: For the jitter of delays; by default one of the factory's own, with a fixed seed.
        name: For the trace.
        trace: Where interruptions are noted.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        resync: float = 0.0,
        in_order: bool = True,
        watch_list: bool = True,
        rng: random.Random | None = None,
        name: str = "",
        trace: Trace | None = None,
    ) -> None:
        self.client, self.clock, self.rng = client, clock, rng or random.Random(0)
        self.resync, self.in_order, self.watch_list = resync, in_order, watch_list
        self.name, self.trace = name, trace
        self.informers: dict[type[Object], SharedInformer[Any]] = {}

    def informer(self, kind: type[T]) -> SharedInformer[T]:
        """Return the informer of this kind; the first to ask makes it."""
        if kind not in self.informers:
            self.informers[kind] = SharedInformer(
                ListWatch(self.client, kind),
                kind,
                self.clock,
                self.rng,
                resync=self.resync,
                in_order=self.in_order,
                watch_list=self.watch_list,
                name=self.name,
                trace=self.trace,
            )
        return self.informers[kind]

    def start(self) -> None:
        """Start the informers that do not run yet; ask for them first."""
        for informer in self.informers.values():
            start(informer)

    async def wait_for_cache_sync(self) -> None:
        """Wait until every cache holds its first list."""
        for informer in self.informers.values():
            await informer.processor.synced.wait()

    def stop(self) -> None:
        """End the watches; the caches stay as they are."""
        for informer in self.informers.values():
            for task in informer.tasks:
                task.cancel()
