# Generated from book/05_informers.ipynb by tools/tangle.py; edit it there.

"""One cache and one watch per kind, shared by every controller that wants to know.

See: chapter *Informers*; client-go ``tools/cache/shared_informer.go``.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kcm_lite.api.meta import Object
from kcm_lite.api.request import ObjectList
from kcm_lite.api.scheme import resource_of
from kcm_lite.client.cache import NAMESPACE_INDEX, Indexer, IndexFunc, Lister, index_by_namespace
from kcm_lite.client.clientset import Client
from kcm_lite.client.deltafifo import ByObject
from kcm_lite.client.processor import (
    InOrder,
    OnAdd,
    OnDelete,
    OnUpdate,
    Registration,
    SharedProcessor,
    tell_updated,
)
from kcm_lite.client.reflector import Reflector, Sink, Source
from kcm_lite.client.transport import Watch
from kcm_lite.clock import Clock
from kcm_lite.trace import Trace

# %% book/05_informers.ipynb#00db3227
T = TypeVar("T", bound=Object)


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
@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How an informer works.

    Attributes:
        resync: Seconds between two reminders for handlers that do not say; 0: no reminders at all.
        in_order: Hand on changes in their order (today), not object by object (1.22).
        watch_list: Begin with a streamed list (today), not a plain one (1.22).
        name: For the trace.
        trace: Where interruptions are noted.
    """

    resync: float = 0.0
    in_order: bool = True
    watch_list: bool = True
    name: str = ""
    trace: Trace | None = None


# %% book/05_informers.ipynb#0407b051
class SharedInformer(Cache[T]):
    """A cache of one kind, kept equal to the server by one watch for all its subscribers.

    Args:
        source: What to list and watch.
        kind: The type of the objects.
        clock, rng: For delays and reminders.
        options: How to work.
    """

    def __init__(
        self, source: Source[T], kind: type[T], clock: Clock, rng: random.Random, options: Options
    ) -> None:
        super().__init__(kind)
        self.clock, self.resync, self.check = clock, options.resync, options.resync
        self.name = f"{options.name}/{resource_of(kind).plural}"
        self.tasks: list[asyncio.Task[Any]] = []
        sink: Sink[T] = (InOrder if options.in_order else ByObject)(self.indexer, self.processor)
        self.reflector = Reflector(source, sink, clock, rng, name=self.name, trace=options.trace)
        self.reflector.watch_list = options.watch_list

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
    """Add a subscriber, and tell it of what the cache has already."""
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

    At least 1 s. Before the start the informer goes by its most eager handler; after the start
    none gets more than the informer looks. An informer without reminders has none for anybody.
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
        clock, rng: For delays and reminders; the default rng is the factory's own, of fixed seed.
        options: The fields of `Options`.
    """

    def __init__(
        self, client: Client, clock: Clock, *, rng: random.Random | None = None, **options: Any
    ) -> None:
        self.client, self.clock, self.rng = client, clock, rng or random.Random(0)
        self.options = Options(**options)
        self.informers: dict[type[Object], SharedInformer[Any]] = {}

    def informer(self, kind: type[T]) -> SharedInformer[T]:
        """Return the informer of this kind; the first to ask makes it."""
        if kind not in self.informers:
            source = ListWatch(self.client, kind)
            informer = SharedInformer(source, kind, self.clock, self.rng, self.options)
            self.informers[kind] = informer
        return self.informers[kind]

    def start(self) -> None:
        """Start the informers that were asked for and do not run yet."""
        for informer in self.informers.values():
            start(informer)

    async def wait_for_cache_sync(self) -> None:
        """Wait until every cache holds its first list."""
        for informer in [*self.informers.values()]:
            await informer.processor.synced.wait()

    def stop(self) -> None:
        """End the watches; the caches stay as they are."""
        for informer in self.informers.values():
            for task in informer.tasks:
                task.cancel()
