"""The queue between reflector and cache as it was in 1.22: by object, not in order."""

# Generated from the notebooks by tangle.py; edit them instead.

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

from kcm_lite.api.meta import Object
from kcm_lite.client.cache import Indexer, Tombstone, key_of

# %% book/05_informers.ipynb#8efec11e
T = TypeVar("T", bound=Object)


class Delta(NamedTuple, Generic[T]):
    """What happened to an object: Added, Updated, Deleted, Replaced or Sync."""

    type: str
    object: T | Tombstone[T]


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
        for key, deltas in list(self._deltas.items()):
            if key not in listed:
                last = deltas[-1].object
                self.add(
                    "Deleted", Tombstone(key, last.obj if isinstance(last, Tombstone) else last)
                )
        for obj in self._known.list():
            if (key := key_of(obj)) not in listed and key not in self._deltas:
                self.add("Deleted", Tombstone(key, obj))

    def pop(self) -> list[Delta[T]]:
        """Take out the object that waits longest, with everything that happened to it.

        Raises:
            IndexError: Nothing waits.
        """
        if not self._deltas:
            raise IndexError("pop from an empty DeltaFIFO")
        return self._deltas.pop(next(iter(self._deltas)))
