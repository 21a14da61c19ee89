"""The one door of the API server: requests in, objects or typed errors out.

>>> from kcm_lite.api.core import ConfigMap
>>> from kcm_lite.api.meta import ObjectMeta
>>> from kcm_lite.clock import VirtualClock
>>> server = APIServer(VirtualClock())
>>> stored = server.create(ConfigMap(metadata=ObjectMeta(namespace="default", name="a")))
>>> server.get(ConfigMap, "default", "a") is stored
True

See: chapter *The API server*.
"""

# Generated from the notebooks by tangle.py; edit them instead.

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from kcm_lite.api.core import Namespace
from kcm_lite.api.errors import MethodNotSupported, NotFound, StatusError
from kcm_lite.api.meta import DeleteOptions, Object, ObjectMeta
from kcm_lite.api.request import ObjectList, Request
from kcm_lite.apiserver.admission import ADMISSION
from kcm_lite.apiserver.deletion import delete, delete_collection
from kcm_lite.apiserver.patch import patch
from kcm_lite.apiserver.registry import Plugin, Registry, create, find, update
from kcm_lite.apiserver.store import Sink, Table, listing, new_store, send_bookmarks, subscribe
from kcm_lite.apiserver.subresources import SUBRESOURCES
from kcm_lite.clock import Clock
from kcm_lite.trace import ApiWrite, Trace

# %% book/04_api_server.ipynb#23fb7106
T = TypeVar("T", bound=Object)
Verb = Callable[[Registry, Table, Request], Any]

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
"""The namespaces that every cluster has."""


def get(reg: Registry, table: Table, request: Request) -> Object:
    """Return one object."""
    return find(table, request.namespace, request.name)


def list_objects(reg: Registry, table: Table, request: Request) -> ObjectList[Object]:
    """Return the selected objects, in the order of their keys, and the version of the whole."""
    if request.field_selector is not None:
        request.field_selector.check(request.type)
    items = listing(table, request.namespace, request.label_selector, request.field_selector)
    return ObjectList(tuple(items), str(reg.store.revision))


VERBS: dict[tuple[str, str], Verb] = {
    ("get", ""): get,
    ("get", "status"): get,
    ("list", ""): list_objects,
    ("create", ""): create,
    ("update", ""): update,
    ("update", "status"): update,
    ("patch", ""): patch,
    ("patch", "status"): patch,
    ("delete", ""): delete,
    ("deletecollection", ""): delete_collection,
    **SUBRESOURCES,
}
"""What each verb does, to an object or to a subresource."""


# %% book/04_api_server.ipynb#c427a527
class APIServer:
    """An API server in memory: every request is one indivisible step, at no cost of time.

    Args:
        clock: Its time, for the timestamps that it sets.
        trace: Where every write is recorded.
        rng: The source of uids and generated names; seed it.
        history: So many changes of each kind are kept for watches that start in the past.
        admission: The plugins that change or refuse what comes in, in order.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        trace: Trace | None = None,
        rng: random.Random | None = None,
        history: int = 10_000,
        admission: Sequence[Plugin] = ADMISSION,
    ) -> None:
        self.clock = clock
        self.store = new_store(history=history)
        self.registry = Registry(
            clock, self.store, rng or random.Random(0), trace, tuple(admission)
        )
        for name in NAMESPACES:
            body = Namespace(metadata=ObjectMeta(name=name))
            self.handle(Request(verb="create", type=Namespace, body=body, agent="kube-apiserver"))

    def handle(self, request: Request) -> Any:
        """Do what a request asks.

        Returns:
            The object, an `ObjectList`, or for a deletecollection the objects as a tuple.

        Raises:
            StatusError: The server refuses; the type says why (`NotFound`, `Conflict`, ...).
        """
        table = self.store.tables.get(request.type)
        verb = VERBS.get((request.verb, request.subresource))
        try:
            if table is None:
                raise NotFound("the server could not find the requested resource")
            if verb is None or not serves(table, request.subresource):
                raise unsupported(table, request)
            return verb(self.registry, table, request)
        except StatusError as error:
            if request.verb not in ("get", "list"):
                refused(self.registry, request, error)
            raise

    def subscribe(
        self,
        type: type[T],
        sink: Sink,
        *,
        namespace: str = "",
        resource_version: str = "",
        label_selector: Any = None,
        field_selector: Any = None,
        send_initial_events: bool = False,
        bookmarks: bool = False,
    ) -> Callable[[], None]:
        """Watch: call ``sink`` with every change. See `kcm_lite.apiserver.store.subscribe`."""
        table = self.store.tables.get(type)
        if table is None:
            raise NotFound("the server could not find the requested resource")
        if field_selector is not None:
            field_selector.check(type)
        return subscribe(
            self.store,
            table,
            sink,
            namespace=namespace,
            resource_version=resource_version,
            label_selector=label_selector,
            field_selector=field_selector,
            send_initial_events=send_initial_events,
            bookmarks=bookmarks,
        )

    def send_bookmarks(self) -> None:
        """Tell the watchers that asked for it how far they have heard everything."""
        send_bookmarks(self.store)

    # The verbs as methods, for tests and pages.

    def create(self, obj: T, *, agent: str = "user") -> T:
        """Create an object in its own namespace."""
        meta = obj.metadata
        return cast(
            T,
            self.handle(
                Request(
                    verb="create", type=type(obj), namespace=meta.namespace, body=obj, agent=agent
                )
            ),
        )

    def get(self, type: type[T], namespace: str, name: str) -> T:
        """Return one object."""
        return cast(T, self.handle(Request(verb="get", type=type, namespace=namespace, name=name)))

    def list(
        self,
        type: type[T],
        namespace: str = "",
        label_selector: Any = None,
        field_selector: Any = None,
    ) -> ObjectList[T]:
        """Return the selected objects and the version of the whole."""
        return cast(
            ObjectList[T],
            self.handle(
                Request(
                    verb="list",
                    type=type,
                    namespace=namespace,
                    label_selector=label_selector,
                    field_selector=field_selector,
                )
            ),
        )

    def update(self, obj: T, *, subresource: str = "", agent: str = "user") -> T:
        """Replace an object, or with ``subresource="status"`` its status."""
        meta = obj.metadata
        return cast(
            T,
            self.handle(
                Request(
                    verb="update",
                    type=type(obj),
                    namespace=meta.namespace,
                    name=meta.name,
                    subresource=subresource,
                    body=obj,
                    agent=agent,
                )
            ),
        )

    def patch(
        self,
        type: type[T],
        namespace: str,
        name: str,
        patch: Any,
        *,
        patch_type: str = "merge",
        subresource: str = "",
        agent: str = "user",
    ) -> T:
        """Change parts of an object."""
        return cast(
            T,
            self.handle(
                Request(
                    verb="patch",
                    type=type,
                    namespace=namespace,
                    name=name,
                    subresource=subresource,
                    body=patch,
                    patch_type=patch_type,
                    agent=agent,
                )
            ),
        )

    def delete(
        self,
        type: type[T],
        namespace: str,
        name: str,
        options: DeleteOptions | None = None,
        *,
        agent: str = "user",
    ) -> T:
        """Delete an object, at once or by marking it; return it as it is or was."""
        return cast(
            T,
            self.handle(
                Request(
                    verb="delete",
                    type=type,
                    namespace=namespace,
                    name=name,
                    options=options,
                    agent=agent,
                )
            ),
        )


# %% book/04_api_server.ipynb#f04a7806
def serves(table: Table, subresource: str) -> bool:
    """Whether objects of this kind have the subresource."""
    resource = table.resource
    match subresource:
        case "":
            return True
        case "status":
            return resource.has_status
        case "scale":
            return resource.has_scale
        case "binding" | "eviction":
            return resource.kind == "Pod"
        case "finalize":
            return resource.kind == "Namespace"
    return False


def unsupported(table: Table, request: Request) -> StatusError:
    """Return the error for a verb or subresource that does not exist."""
    if request.subresource and not serves(table, request.subresource):
        return NotFound("the server could not find the requested resource")
    what = table.resource.group_resource
    return MethodNotSupported(f'{request.verb} is not supported on resources of kind "{what}"')


def refused(reg: Registry, request: Request, error: StatusError) -> None:
    """Record a write that was refused."""
    if reg.trace is None:
        return
    name = request.name
    if not name and isinstance(request.body, Object):
        name = request.body.metadata.name or request.body.metadata.generate_name
    table = reg.store.tables.get(request.type)
    reg.trace.write(
        ApiWrite(
            reg.clock.time(),
            request.agent,
            request.verb,
            table.resource.plural if table else request.type.KIND,
            request.subresource,
            request.namespace,
            name,
            error.code,
            error.message,
            patch=request.body if request.verb == "patch" else None,
            options=request.options,
        )
    )
