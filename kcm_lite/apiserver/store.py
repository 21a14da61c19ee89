# Generated from book/04_api_server.ipynb by tools/tangle.py; edit it there.

"""Objects under keys, a version for every change, and watchers that hear of each one.

See: chapter *The API server*; upstream ``k8s.io/apiserver/pkg/storage``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kcm_lite.api.errors import Expired, Invalid
from kcm_lite.api.golang import quote
from kcm_lite.api.meta import Object, ObjectMeta, replace
from kcm_lite.api.request import INITIAL_EVENTS_END, WatchEvent
from kcm_lite.api.scheme import RESOURCES, Resource

# %% book/04_api_server.ipynb#f05920c4
# Where a watcher's events go, one at a time, in the order of their versions.
Sink = Callable[[WatchEvent], None]


# %% book/04_api_server.ipynb#2f8b8b3f
@dataclass(slots=True)
class Table:
    """The objects of one kind, and what happened to them lately.

    Attributes:
        objects: By key: ``namespace/name``, or the bare name.
        history: The latest changes, oldest first: the event, and the object before it.
        forgotten: The version of the last change that fell out of ``history``.
        watchers: Replaced, never changed in place, so that a sink may end its own watch.
    """

    resource: Resource
    history: deque[tuple[WatchEvent, Object | None]]
    objects: dict[str, Object] = field(default_factory=dict)
    forgotten: int = 0
    watchers: tuple[Watcher, ...] = ()


@dataclass(slots=True)
class Store:
    """All tables, and the one counter that numbers every change of every object."""

    tables: dict[type[Object], Table]
    revision: int = 0


def new_store(*, history: int = 10_000) -> Store:
    """Return an empty store that remembers ``history`` changes of each kind."""
    return Store({r.type: Table(r, deque(maxlen=history)) for r in RESOURCES})


# %% book/04_api_server.ipynb#1511a6da
def commit(store: Store, table: Table, key: str, old: Object | None, new: Object | None) -> Object:
    """Store ``new`` under ``key`` (None: remove it), with the next version, and tell the watchers.

    Returns:
        The object as stored; a removed one as it last was, with the version of its removal.
    """
    store.revision = revision = store.revision + 1
    version = str(revision)
    last = old if new is None else new
    assert last is not None
    last = replace(last, metadata=replace(last.metadata, resource_version=version))
    if new is None:
        del table.objects[key]
        event = WatchEvent("DELETED", last, version)
    else:
        table.objects[key] = last
        event = WatchEvent("ADDED" if old is None else "MODIFIED", last, version)
    history = table.history
    if len(history) == history.maxlen:
        table.forgotten = int(history[0][0].resource_version)
    history.append((event, old))
    for watcher in table.watchers:
        if watcher.selective:
            tell(watcher, event, old)
        else:
            watcher.sink(event)
    return last


# %% book/04_api_server.ipynb#85bba96e
@dataclass(slots=True, eq=False)
class Watcher:
    """Somebody who wants to hear of the changes of a kind, or of some of them."""

    sink: Sink
    namespace: str
    labels: Any  # has matches(labels), or None
    fields: Any  # has matches(obj), or None
    bookmarks: bool
    selective: bool = field(init=False)

    def __post_init__(self) -> None:
        self.selective = bool(self.namespace or self.labels or self.fields)


def selects(namespace: str, labels: Any, fields: Any, obj: Object) -> bool:
    """Whether an object is in the namespace and matches both selectors; empty ones match all."""
    meta = obj.metadata
    return (
        (not namespace or meta.namespace == namespace)
        and (labels is None or labels.matches(meta.labels))
        and (fields is None or fields.matches(obj))
    )


def tell(watcher: Watcher, event: WatchEvent, old: Object | None) -> None:
    """Pass an event on as this watcher sees it: what stops matching is deleted to it."""
    namespace, labels, fields = watcher.namespace, watcher.labels, watcher.fields
    before = old is not None and selects(namespace, labels, fields, old)
    if event.type == "DELETED":
        if before:
            watcher.sink(event)
        return
    after = selects(namespace, labels, fields, event.object)
    if after:
        watcher.sink(event if before else replace(event, type="ADDED"))
    elif before and old is not None:
        gone = replace(old, metadata=replace(old.metadata, resource_version=event.resource_version))
        watcher.sink(replace(event, type="DELETED", object=gone))


# %% book/04_api_server.ipynb#a2ac5d07
def listing(
    table: Table, namespace: str = "", labels: Any = None, fields: Any = None
) -> list[Object]:
    """Return the objects that are selected, in the order of their keys."""
    objects = (table.objects[key] for key in sorted(table.objects))
    return [obj for obj in objects if selects(namespace, labels, fields, obj)]


# %% book/04_api_server.ipynb#cd5f18b6
def subscribe(
    store: Store,
    table: Table,
    sink: Sink,
    *,
    namespace: str = "",
    resource_version: str = "",
    label_selector: Any = None,
    field_selector: Any = None,
    send_initial_events: bool = False,
    bookmarks: bool = False,
) -> Callable[[], None]:
    """Send every later change to ``sink``; return a function that ends this.

    Without a version, what exists now comes first as ADDED; with one, everything that happened
    after it. ``send_initial_events`` begins with what exists now, whatever the version, and says
    with a BOOKMARK where that ends.

    Raises:
        Expired: The history no longer reaches back to ``resource_version``.
        Invalid: It is no version.
        BadRequest: The kind cannot be selected by a field.
    """
    if field_selector is not None:
        field_selector.check(table.resource.type)
    watcher = Watcher(sink, namespace, label_selector, field_selector, bookmarks)
    if send_initial_events or resource_version in ("", "0"):
        for obj in listing(table, namespace, label_selector, field_selector):
            sink(WatchEvent("ADDED", obj, obj.metadata.resource_version))
        if send_initial_events:
            bookmark(store, table, watcher, {INITIAL_EVENTS_END: "true"})
    else:
        replay(table, watcher, parse_version(table, resource_version))
    table.watchers += (watcher,)

    def cancel() -> None:
        table.watchers = tuple(w for w in table.watchers if w is not watcher)

    return cancel


# %% book/04_api_server.ipynb#7d28aaaf
def parse_version(table: Table, text: str) -> int:
    """Return a resource version as a number.

    Raises:
        Invalid: It is none.
    """
    if text.isascii() and text.isdigit():
        return int(text)
    where = f'{table.resource.group_resource} "" is invalid: resourceVersion'
    why = f"strconv.ParseUint: parsing {quote(text)}: invalid syntax"
    raise Invalid(f"{where}: Invalid value: {quote(text)}: {why}")


def replay(table: Table, watcher: Watcher, version: int) -> None:
    """Send a watcher what happened after ``version``.

    Raises:
        Expired: Some of it is forgotten.
    """
    if version < table.forgotten:
        raise Expired(f"too old resource version: {version} ({table.forgotten})")
    for event, old in table.history:
        if int(event.resource_version) > version:
            tell(watcher, event, old)


# %% book/04_api_server.ipynb#c934f372
def bookmark(store: Store, table: Table, watcher: Watcher, notes: dict[str, str]) -> None:
    """Tell a watcher that it has heard everything up to now; ``notes`` are annotations."""
    version = str(store.revision)
    meta = ObjectMeta(resource_version=version, annotations=notes)
    watcher.sink(WatchEvent("BOOKMARK", table.resource.type(metadata=meta), version))


def send_bookmarks(store: Store) -> None:
    """Send a bookmark to every watcher that asked for them."""
    for kind in store.tables.values():
        for watcher in kind.watchers:
            if watcher.bookmarks:
                bookmark(store, kind, watcher, {})
