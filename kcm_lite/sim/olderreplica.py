"""A replica of the API server that stands still: what a manager reads that starts too early.

Lists come from the state at a version of the past, and a watch from there says nothing until the
replica goes on. Everything else goes to the real server, so that writes made from what was read
are refused as in a cluster. The replica does not serve streamed lists: those of today wait until
the replica has caught up, and would show nothing old.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kcm_lite.api.errors import Invalid
from kcm_lite.api.meta import Object, object_key
from kcm_lite.api.request import ObjectList, Request
from kcm_lite.api.scheme import resource_of
from kcm_lite.apiserver.store import Store, Table, selects
from kcm_lite.apiserver.transport import Watch
from kcm_lite.sim.faultywire import FaultyWire
from kcm_lite.trace import ApiWrite, Record

STREAMED = (
    'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: '
    "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
)


def objects_at(table: Table, version: int) -> dict[str, Object]:
    """Return the objects of a kind, by key, as they were at a version; as far back as is known."""
    objects = dict(table.objects)
    for event, old in reversed(table.history):
        if int(event.resource_version) <= version:
            break
        key = object_key(event.object)
        if old is None:
            objects.pop(key, None)
        else:
            objects[key] = old
    return objects


def version_at(store: Store, records: Iterable[Record], when: float) -> int:
    """Return the version that a store had at a second, from the writes that a trace has since."""
    version = store.revision
    for record in reversed(list(records)):
        if record.t <= when:
            break
        if isinstance(record, ApiWrite) and record.old is not record.new:
            version = min(version, _version(store, record) - 1)
    return version


def _version(store: Store, write: ApiWrite) -> int:
    """Return the version that a write made."""
    if write.new is not None:
        return int(write.new.metadata.resource_version)
    assert write.old is not None
    table = store.tables[resource_of(write.old).type]
    for event, _ in reversed(table.history):
        if event.type == "DELETED" and event.object.metadata.uid == write.old.metadata.uid:
            return int(event.resource_version)
    return store.revision


class OlderReplica:
    """The way of one manager to the API server while it reads an older replica (``Transport``).

    Args:
        wire: The way to the real one.
        version: Where the replica stands.
        until: When it goes on.
    """

    def __init__(self, wire: FaultyWire, version: int, until: float) -> None:
        self.wire, self.version, self.until = wire, version, until

    async def call(self, request: Request) -> Any:
        """Send a request; lists are answered by the replica."""
        stale = request.verb == "list" and self.wire.clock.time() < self.until
        return await self.wire.call(request, self._list if stale else None)

    def _list(self, request: Request) -> ObjectList[Object]:
        labels, fields = request.label_selector, request.field_selector
        if fields is not None:
            fields.check(request.type)
        objects = objects_at(self.wire.server.store.tables[request.type], self.version)
        items = (objects[key] for key in sorted(objects))
        chosen = tuple(obj for obj in items if selects(request.namespace, labels, fields, obj))
        return ObjectList(chosen, str(self.version))

    def watch(self, type: type[Object], *, client: str = "", **more: Any) -> Watch:
        """Begin a watch at the replica: it says nothing before the replica goes on."""
        if self.wire.clock.time() >= self.until:
            return self.wire.watch(type, client=client, **more)
        if more.get("send_initial_events"):
            return self.wire.refused(client, Invalid(STREAMED))
        watch = self.wire.watch(type, client=client, **more)
        self.wire.hold(watch, self.until)
        return watch
