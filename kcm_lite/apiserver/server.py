# Generated from book/04_api_server.ipynb by tools/tangle.py; edit it there.

"""The one door of the API server: requests in, objects or typed errors out.

>>> from kcm_lite.api.core import ConfigMap
>>> from kcm_lite.clock import VirtualClock
>>> server = APIServer(VirtualClock())
>>> stored = server.create(ConfigMap(metadata=ObjectMeta(namespace="default", name="a")))
>>> server.get(ConfigMap, "default", "a") is stored
True

See: chapter *The API server*.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

from kcm_lite.api.core import Namespace
from kcm_lite.api.errors import MethodNotSupported, NotFound, StatusError
from kcm_lite.api.meta import DeleteOptions, Object, ObjectMeta
from kcm_lite.api.request import ObjectList, Request
from kcm_lite.api.scheme import BY_TYPE, Resource
from kcm_lite.apiserver.admission import ADMISSION
from kcm_lite.apiserver.deletion import delete, delete_collection
from kcm_lite.apiserver.patch import patch
from kcm_lite.apiserver.registry import Plugin, Registry, create, find, update
from kcm_lite.apiserver.store import Sink, Table, listing, new_store, send_bookmarks, subscribe
from kcm_lite.apiserver.subresources import SUBRESOURCES
from kcm_lite.clock import Clock
from kcm_lite.trace import ApiWrite, Trace

# %% book/04_api_server.ipynb#f83c38cf
T = TypeVar("T", bound=Object)
Verb = Callable[[Registry, Table, Request], Any]

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")  # in every cluster


# %% book/04_api_server.ipynb#d92e0daf
def get(reg: Registry, table: Table, request: Request) -> Object:
    """Return one object."""
    return find(table, request.namespace, request.name)


def list_objects(reg: Registry, table: Table, request: Request) -> ObjectList[Object]:
    """Return the selected objects, in the order of their keys, and the version of the whole."""
    labels, fields = request.label_selector, request.field_selector
    if fields is not None:
        fields.check(request.type)
    items = tuple(listing(table, request.namespace, labels, fields))
    return ObjectList(items, str(reg.store.revision))


# What each verb does to an object or to a subresource of it.
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


# %% book/04_api_server.ipynb#88a989a0
def serves(resource: Resource, subresource: str) -> bool:
    """Whether objects of this kind have the subresource."""
    match subresource:
        case "":
            return True
        case "status":
            return resource.has_status
        case "scale":
            return resource.has_scale
        case "binding" | "eviction":
            return resource.kind == "Pod"
        case _:
            return resource.kind == "Namespace" and subresource == "finalize"


@cache
def route(kind: type[Object], verb: str, subresource: str) -> Verb:
    """Return the function that serves a request.

    Raises:
        NotFound: There is no such kind or subresource.
        MethodNotSupported: The verb is not for it.
    """
    resource = BY_TYPE.get(kind)
    if resource is None or not serves(resource, subresource):
        raise NotFound("the server could not find the requested resource")
    serve = VERBS.get((verb, subresource))
    if serve is None:
        what = resource.group_resource
        raise MethodNotSupported(f'{verb} is not supported on resources of kind "{what}"')
    return serve


# %% book/04_api_server.ipynb#dcb1b1d8
def serve(reg: Registry, request: Request) -> Any:
    """Do what a request asks; record it if it is a write, refused or not."""
    try:
        verb = route(request.type, request.verb, request.subresource)
        return verb(reg, reg.store.tables[request.type], request)
    except StatusError as error:
        if reg.trace is not None and request.verb not in ("get", "list"):
            reg.trace.write(refusal(reg.clock.time(), request, error))
        raise


def refusal(t: float, request: Request, error: StatusError) -> ApiWrite:
    """Return the record of a write that was refused."""
    name, resource = request.name, BY_TYPE.get(request.type)
    if not name and isinstance(request.body, Object):
        name = request.body.metadata.name or request.body.metadata.generate_name
    return ApiWrite(
        t,
        request.agent,
        request.verb,
        resource.plural if resource else request.type.KIND,
        request.subresource,
        request.namespace,
        name,
        error.code,
        error.message,
        patch=request.body if request.verb == "patch" else None,
        options=request.options,
    )


# %% book/04_api_server.ipynb#cead22d6
class Verbs:
    """The verbs as methods, on top of ``handle``; further arguments are those of a `Request`."""

    def handle(self, request: Request) -> Any:
        """Do what a request asks."""
        raise NotImplementedError

    def create(self, obj: T, **more: Any) -> T:
        """Create an object in the namespace that it names."""
        return self._put("create", obj, **more)

    def update(self, obj: T, **more: Any) -> T:
        """Replace an object, or with ``subresource="status"`` its status."""
        return self._put("update", obj, **more)

    def get(self, type: type[T], namespace: str, name: str, **more: Any) -> T:
        """Return one object."""
        return self._ask("get", type, namespace, name, **more)

    def list(self, type: type[T], namespace: str = "", **more: Any) -> ObjectList[T]:
        """Return the objects that ``label_selector`` and ``field_selector`` select."""
        request = Request(verb="list", type=type, namespace=namespace, **more)
        found: ObjectList[T] = self.handle(request)
        return found

    def patch(self, type: type[T], namespace: str, name: str, body: Any, **more: Any) -> T:
        """Change parts of an object, by a merge patch unless ``patch_type`` says otherwise."""
        return self._ask(
            "patch", type, namespace, name, body=body, **{"patch_type": "merge", **more}
        )

    def delete(
        self,
        type: type[T],
        namespace: str,
        name: str,
        options: DeleteOptions | None = None,
        **more: Any,
    ) -> T:
        """Delete an object, at once or by marking it; return it as it is or was."""
        return self._ask("delete", type, namespace, name, options=options, **more)

    def _put(self, verb: str, obj: T, **more: Any) -> T:
        meta = obj.metadata
        return self._ask(verb, type(obj), meta.namespace, meta.name, body=obj, **more)

    def _ask(self, verb: str, type: type[T], namespace: str, name: str, **more: Any) -> T:
        request = Request(verb=verb, type=type, namespace=namespace, name=name, **more)
        done: T = self.handle(request)
        return done


# %% book/04_api_server.ipynb#ab787323
class APIServer(Verbs):
    """An API server in memory: every request is one indivisible step and takes no time.

    Args:
        clock: Its time, for the timestamps that it sets.
        trace: Where every write is recorded, refused ones included.
        rng: The source of uids and generated names.
        history: So many changes of each kind are kept for watches that begin in the past.
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
        self.store = new_store(history=history)
        rng = rng or random.Random(0)
        self.registry = Registry(clock, self.store, rng, trace, tuple(admission))
        for name in NAMESPACES:
            self.create(Namespace(metadata=ObjectMeta(name=name)), agent="kube-apiserver")

    def handle(self, request: Request) -> Any:
        """Do what a request asks.

        Returns:
            The object, an `ObjectList`, None for a binding, a tuple for a deletecollection.

        Raises:
            StatusError: The server refuses; its type says why (`NotFound`, `Conflict`, ...).
        """
        return serve(self.registry, request)

    def subscribe(self, type: type[Object], sink: Sink, **more: Any) -> Callable[[], None]:
        """Watch a kind; the arguments are those of `kcm_lite.apiserver.store.subscribe`."""
        table = self.store.tables.get(type)
        if table is None:
            raise NotFound("the server could not find the requested resource")
        return subscribe(self.store, table, sink, **more)

    def send_bookmarks(self) -> None:
        """Tell the watchers that asked for it that they have heard everything up to now."""
        send_bookmarks(self.store)
