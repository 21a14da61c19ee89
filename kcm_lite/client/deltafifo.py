# Generated from book/05_informers.ipynb by tools/tangle.py; edit it there.

"""The queue between reflector and cache as it was in 1.22: by object, not in order.

See: chapter *Informers*, section *Then and now*; client-go ``tools/cache/delta_fifo.go``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar, cast

from kcm_lite.api.meta import Object
from kcm_lite.api.request import WatchEvent
from kcm_lite.client.cache import Indexer, Tombstone, key_of, last_state
from kcm_lite.client.processor import SharedProcessor, tell_added, tell_deleted, tell_updated

# %% book/05_informers.ipynb#04a5a51a
T = TypeVar("T", bound=Object)


class Delta(NamedTuple, Generic[T]):
    """What happened to an object: Added, Updated, Deleted or Replaced."""

    type: str
    object: T | Tombstone[T]


# %% book/05_informers.ipynb#c564188e
class DeltaFIFO(Generic[T]):
    """A queue of objects, each with all that happened to it since it was last popped.

    Args:
        known: What the consumer has; a replacement is compared with it.
    """

    __slots__ = ("_deltas", "_known")

    def __init__(self, known: Indexer[T]) -> None:
        self._known = known
        self._deltas: dict[str, list[Delta[T]]] = {}

    def __len__(self) -> int:
        return len(self._deltas)

    def add(self, type: str, obj: T | Tombstone[T]) -> None:
        """Append a delta to the object's list; of two deletions in a row one is kept."""
        deltas = self._deltas.setdefault(key_of(obj), [])
        if type == "Deleted" and deltas and deltas[-1].type == "Deleted":
            if isinstance(obj, Tombstone):
                return
            deltas.pop()
        deltas.append(Delta(type, obj))

    def replace(self, items: Iterable[T]) -> None:
        """Queue all ``items``, and a tombstone for what is known or queued and not among them."""
        listed = {key_of(obj): obj for obj in items}
        for obj in listed.values():
            self.add("Replaced", obj)
        last = {key: last_state(deltas[-1].object) for key, deltas in self._deltas.items()}
        for key, obj in (self._known.items | last).items():
            if key not in listed:
                self.add("Deleted", Tombstone(key, obj))

    def pop(self) -> list[Delta[T]]:
        """Take out the object that waits longest, with everything that happened to it."""
        return self._deltas.pop(next(iter(self._deltas)))


# %% book/05_informers.ipynb#e0a687ba
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
