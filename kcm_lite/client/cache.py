# Generated from book/05_informers.ipynb by tools/tangle.py; edit it there.

"""What a controller knows: objects by key and by index, read without asking the server.

>>> from kcm_lite.api.core import Pod
>>> from kcm_lite.api.meta import ObjectMeta
>>> indexer: Indexer[Pod] = Indexer({NAMESPACE_INDEX: index_by_namespace})
>>> indexer.add(Pod(metadata=ObjectMeta(namespace="default", name="web-0")))
>>> [pod.metadata.name for pod in indexer.by_index(NAMESPACE_INDEX, "default")]
['web-0']

See: chapter *Informers*; client-go ``tools/cache``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from kcm_lite.api.errors import NotFound
from kcm_lite.api.meta import Object, controller_of, object_key
from kcm_lite.api.scheme import resource_of
from kcm_lite.api.selectors import Selector

# %% book/05_informers.ipynb#80b33d7b
T = TypeVar("T", bound=Object)


# %% book/05_informers.ipynb#b665c09a
class Tombstone(msgspec.Struct, Generic[T], frozen=True):
    """A deletion that nobody saw: found out later, by comparing (``DeletedFinalStateUnknown``).

    Attributes:
        key: Of the object that is gone.
        obj: Its last state that was seen; what happened to it after that is unknown.
    """

    key: str
    obj: T


def key_of(obj: T | Tombstone[T]) -> str:
    """Return the key of an object or of a tombstone (``DeletionHandlingMetaNamespaceKeyFunc``)."""
    return obj.key if isinstance(obj, Tombstone) else object_key(obj)


def last_state(obj: T | Tombstone[T]) -> T:
    """Return the object of a delete notification, whichever of the two it is."""
    return obj.obj if isinstance(obj, Tombstone) else obj


# %% book/05_informers.ipynb#1f3d7698
Objects = list[T]
"""A list of objects; in classes that have a method ``list``, the type needs another name."""


class Store(Generic[T]):
    """Objects by key.

    Attributes:
        items: The objects. Read only.
        resource_version: The version of the server's state that this is a copy of.
    """

    __slots__ = ("items", "resource_version")

    def __init__(self) -> None:
        self.items: dict[str, T] = {}
        self.resource_version = ""

    def __len__(self) -> int:
        return len(self.items)

    def __contains__(self, key: str) -> bool:
        return key in self.items

    def get(self, key: str) -> T | None:
        """Return the object with this key, or None."""
        return self.items.get(key)

    def list(self) -> Objects[T]:
        """Return all objects."""
        return [*self.items.values()]


# %% book/05_informers.ipynb#3b3f69bd
IndexFunc = Callable[[Any], tuple[str, ...]]
"""Gives the values under which an object is to be found; none is fine."""

NAMESPACE_INDEX = "namespace"
CONTROLLER_UID_INDEX = "controllerUID"


def index_by_namespace(obj: Object) -> tuple[str, ...]:
    """Index under the namespace."""
    return (obj.metadata.namespace,)


def index_by_controller_uid(obj: Object) -> tuple[str, ...]:
    """Index under the UID of the controller; an orphan is not in this index."""
    ref = controller_of(obj)
    return () if ref is None else (ref.uid,)


# %% book/05_informers.ipynb#890cce4c
class Index(Generic[T]):
    """Objects grouped by what a function says of them.

    It holds the objects themselves, so that a look-up costs one copy of a group.

    Attributes:
        function: Gives an object's values.
        groups: Per value, the objects that have it, by key.
        values: Per key, the values under which the object is found.
    """

    __slots__ = ("function", "groups", "values")

    def __init__(self, function: IndexFunc, items: Mapping[str, T]) -> None:
        self.function = function
        self.groups: dict[str, dict[str, T]] = {}
        self.values: dict[str, tuple[str, ...]] = {}
        for key, obj in items.items():
            self.put(key, obj)

    def put(self, key: str, obj: T) -> None:
        """Let ``obj`` take the place of what has this key: in the same groups, as a rule."""
        values, groups = self.function(obj), self.groups
        if self.values.get(key) != values:
            self.remove(key)
            self.values[key] = values
            for value in values:
                groups.setdefault(value, {})
        for value in values:
            groups[value][key] = obj

    def remove(self, key: str) -> None:
        """Take out what has this key, if anything; a group that is empty then goes as well."""
        for value in self.values.pop(key, ()):
            group = self.groups.get(value, {})
            group.pop(key, None)
            if not group:
                self.groups.pop(value, None)


# %% book/05_informers.ipynb#b8cadbfc
class IndexedStore(Store[T]):
    """A store with any number of indexes; every write changes all of them."""

    __slots__ = ("indices",)

    def __init__(self) -> None:
        super().__init__()
        self.indices: dict[str, Index[T]] = {}

    def put(self, key: str, obj: T) -> T | None:
        """Store ``obj`` under ``key``, which must be its own, and return what was there."""
        old = self.items.get(key)
        self.items[key] = obj
        for index in self.indices.values():
            index.put(key, obj)
        return old

    def remove(self, key: str) -> T | None:
        """Take the object with this key out and return it; None if it was not here."""
        old = self.items.pop(key, None)
        if old is not None:
            for index in self.indices.values():
                index.remove(key)
        return old

    def by_index(self, name: str, value: str) -> Objects[T]:
        """Return the objects that the index ``name`` has under ``value``.

        Raises:
            KeyError: There is no such index.
        """
        if name not in self.indices:
            raise KeyError(f"Index with name {name} does not exist")
        group = self.indices[name].groups.get(value)
        return [*group.values()] if group else []


# %% book/05_informers.ipynb#0e23f521
class Indexer(IndexedStore[T]):
    """What an informer fills and a controller reads (``cache.Indexer``)."""

    __slots__ = ()

    def __init__(self, indexers: Mapping[str, IndexFunc] | None = None) -> None:
        super().__init__()
        for name, function in (indexers or {}).items():
            self.add_indexer(name, function)

    def add_indexer(self, name: str, function: IndexFunc) -> None:
        """Add an index; the same one again is no change.

        Raises:
            ValueError: Another function has this name.
        """
        if name not in self.indices:
            self.indices[name] = Index(function, self.items)
        elif self.indices[name].function is not function:
            raise ValueError(f"indexer conflict: {name}")

    def add(self, obj: T) -> None:
        """Store an object, be it new or changed."""
        self.put(object_key(obj), obj)

    update = add

    def delete(self, obj: T | Tombstone[T]) -> None:
        """Take an object out."""
        self.remove(key_of(obj))

    def replace(self, items: Iterable[T], resource_version: str = "") -> None:
        """Hold exactly ``items`` from now on."""
        self.items = {object_key(obj): obj for obj in items}
        self.resource_version = resource_version
        for name, old in self.indices.items():
            self.indices[name] = Index(old.function, self.items)


# %% book/05_informers.ipynb#9770b8c6
class Lister(Generic[T]):
    """The only way in which a controller reads: from the cache, never from the server.

    Args:
        indexer: The cache.
        kind: The type of its objects, for messages.
    """

    __slots__ = ("_indexer", "_kind")

    def __init__(self, indexer: Indexer[T], kind: type[T]) -> None:
        self._indexer = indexer
        self._kind = kind

    def get(self, namespace: str, name: str) -> T:
        """Return the object as the cache has it.

        Raises:
            NotFound: The cache does not have it, whatever the server may have.
        """
        found = self._indexer.get(f"{namespace}/{name}" if namespace else name)
        if found is None:
            resource = resource_of(self._kind)
            suffix = f".{resource.group}" if resource.group else ""
            raise NotFound(f'{resource.kind.lower()}{suffix} "{name}" not found')
        return found

    def list(self, namespace: str = "", selector: Selector | None = None) -> list[T]:
        """Return the objects whose labels match, of one namespace or, if it is empty, of all."""
        if not namespace:
            found = self._indexer.list()
        elif NAMESPACE_INDEX in self._indexer.indices:
            found = self._indexer.by_index(NAMESPACE_INDEX, namespace)
        else:
            found = [obj for obj in self._indexer.list() if obj.metadata.namespace == namespace]
        if selector is None:
            return found
        matches = selector.matches
        return [obj for obj in found if matches(obj.metadata.labels)]
