"""What travels between a client and an API server: requests, lists, watch events.

Client and server are siblings that do not know each other; this is the language they share.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from kcm_lite.api.meta import DeleteOptions, Object

T = TypeVar("T", bound=Object)

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark that follows the objects that existed when a watch began."""


class Request(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One call of the API.

    Attributes:
        verb: create, get, list, update, patch, delete or deletecollection.
        subresource: status, scale, binding, finalize, or empty for the object itself.
        body: The object of a create or update; the patch document of a patch.
        patch_type: merge, strategic or json.
        label_selector: Of a list or deletecollection; anything with ``matches(labels)``.
        field_selector: Likewise, with ``matches(obj)``.
        agent: Who asks: the controller's name, kubelet, user.
    """

    verb: str
    type: type[Object]
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    body: Any = None
    patch_type: str = ""
    options: DeleteOptions | None = None
    label_selector: Any = None
    field_selector: Any = None
    agent: str = "user"


class ObjectList(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """The objects of one type at one resource version."""

    items: tuple[T, ...]
    resource_version: str


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    """A change of one object; every watcher gets the same event."""

    type: str  # ADDED, MODIFIED, DELETED, BOOKMARK, ERROR
    object: Object
    resource_version: str


class WatchClosed(Exception):
    """The server ended a watch in good order: watch again from the last version seen."""
