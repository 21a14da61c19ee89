# Generated from book/10_expectations.ipynb by tools/tangle.py; edit it there.

"""Read your own writes: refuse to act on a cache that is older than one's last write.

>>> store = ConsistencyStore({"pods": lambda: "41"})
>>> store.wrote_at("default/web", "uid-1", "pods", "42")
>>> try:
...     store.ensure_ready("default/web")
... except ConsistencyError as error:
...     print(error)
read version: 41 is not as new as written version: 42 for group resource pods

See: chapter *Expectations*; upstream ``pkg/controller/util/consistency``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping


# %% book/10_expectations.ipynb#98756e21
class ConsistencyError(Exception):
    """The cache has not yet seen what its reader wrote.

    Attributes:
        read: The resource version that the cache has reached.
        wrote: The resource version of the write.
        resource: Of which kind of object, such as ``pods`` or ``replicasets.apps``.
    """

    def __init__(self, read: str, wrote: str, resource: str) -> None:
        super().__init__(
            f"read version: {read} is not as new as written version: {wrote} "
            f"for group resource {resource}"
        )
        self.read, self.wrote, self.resource = read, wrote, resource


def _newer(a: str, b: str) -> bool:
    """Whether version ``a`` is later than ``b``; what is no version is never later."""
    return a.isdecimal() and b.isdecimal() and int(a) > int(b)


# %% book/10_expectations.ipynb#368dec3f
class ConsistencyStore:
    """The newest version that each owner's controller has written, by kind of object.

    Args:
        caches: For each resource, how far its cache has read. A resource without one is never
            waited for; with no caches at all the store always says yes.
    """

    __slots__ = ("_caches", "_writes")

    def __init__(self, caches: Mapping[str, Callable[[], str]]) -> None:
        self._caches = dict(caches)
        self._writes: dict[str, tuple[str, dict[str, str]]] = {}  # owner's key -> uid, versions

    def wrote_at(self, owner: str, uid: str, resource: str, version: str) -> None:
        """Remember a write of ``owner``'s controller; only the newest counts."""
        record = self._writes.get(owner)
        if record is None or record[0] != uid:
            record = self._writes[owner] = uid, {}
        if not _newer(record[1].get(resource, ""), version):
            record[1][resource] = version

    def clear(self, owner: str, uid: str = "") -> None:
        """Forget ``owner``; with a UID only if it is still that object."""
        if owner in self._writes and uid in ("", self._writes[owner][0]):
            del self._writes[owner]

    def ensure_ready(self, owner: str) -> None:
        """Return if the caches have caught up with ``owner``'s writes, and forget those.

        Raises:
            ConsistencyError: A cache is behind.
        """
        _, versions = self._writes.get(owner, ("", {}))
        for resource, wrote in versions.items():
            read = self._caches[resource]() if resource in self._caches else ""
            if read and _newer(wrote, read):
                raise ConsistencyError(read, wrote, resource)
        self.clear(owner)
