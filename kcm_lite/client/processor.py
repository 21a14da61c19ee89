# Generated from book/05_informers.ipynb by tools/tangle.py; edit it there.

"""The subscribers of an informer, and the queue that fills its cache and tells them.

See: chapter *Informers*; client-go ``sharedProcessor`` and ``the_real_fifo.go``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kcm_lite.api.meta import Object, object_key
from kcm_lite.api.request import WatchEvent
from kcm_lite.client.cache import Indexer, Tombstone

# %% book/05_informers.ipynb#a4434bf1
T = TypeVar("T", bound=Object)

OnAdd = Callable[[T, bool], object]
OnUpdate = Callable[[T, T], object]
OnDelete = Callable[[T | Tombstone[T]], object]


# %% book/05_informers.ipynb#dbdf4253
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


# %% book/05_informers.ipynb#6d0e2439
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


# %% book/05_informers.ipynb#e0fb2f23
class InOrder(Generic[T]):
    """What fills a cache today: one change after the other, a new list in one piece."""

    def __init__(self, indexer: Indexer[T], processor: SharedProcessor[T]) -> None:
        self.indexer, self.processor = indexer, processor

    def apply(self, events: Sequence[WatchEvent]) -> None:
        """Take over changes: first the cache, then the subscribers."""
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
