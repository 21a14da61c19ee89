# Generated from book/04_api_server.ipynb by tools/tangle.py; edit it there.

"""Create, update and remove objects of any kind, with all that the API promises about them.

What differs between kinds is in their strategies (`kcm_lite.api.strategy`), what a cluster adds
in the admission plugins.

See: chapter *The API server*; upstream ``k8s.io/apiserver/pkg/registry/generic/registry``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kcm_lite.api.core import Namespace
from kcm_lite.api.errors import (
    AlreadyExists,
    BadRequest,
    Cause,
    Conflict,
    InternalError,
    Invalid,
    NotFound,
)
from kcm_lite.api.golang import quote
from kcm_lite.api.meta import Object, ObjectMeta, replace
from kcm_lite.api.names import generate_name, new_uid
from kcm_lite.api.request import Request
from kcm_lite.api.scheme import Resource, resource_of
from kcm_lite.api.strategy import STRATEGIES
from kcm_lite.api.validation import field as fields
from kcm_lite.api.validation.field import aggregate
from kcm_lite.apiserver.store import Store, Table, commit
from kcm_lite.clock import Clock
from kcm_lite.trace import ApiWrite, Trace

# %% book/04_api_server.ipynb#72dbb309
Admit = Callable[["Registry", Request, Object, Object | None], Object]
"""Changes an object on its way in: given the request, the new object and the stored one."""

Check = Callable[["Registry", Request, Object, Object | None], None]
"""Refuses an object that is otherwise valid, by raising."""

Chain = tuple[tuple[Admit, ...], tuple[Check, ...]]


# %% book/04_api_server.ipynb#f2309e1e
@dataclass(frozen=True, slots=True)
class Plugin:
    """An admission plugin: what it looks at, and what it does to it.

    Attributes:
        verbs: create, update (which a patch is too).
        types: The kinds that it looks at; empty: all.
        subresources: The subresources that it looks at; empty text: the object itself.
    """

    name: str
    verbs: frozenset[str]
    types: frozenset[type[Object]] = frozenset()
    subresources: frozenset[str] = frozenset({""})
    admit: Admit | None = None
    check: Check | None = None


# %% book/04_api_server.ipynb#eb45255b
@dataclass(slots=True)
class Registry:
    """The state of an API server, which the function of every verb takes first."""

    clock: Clock
    store: Store
    rng: random.Random
    trace: Trace | None
    plugins: tuple[Plugin, ...]
    chains: dict[tuple[str, type[Object], str], Chain] = field(default_factory=dict)


def chain(reg: Registry, verb: str, kind: type[Object], subresource: str = "") -> Chain:
    """Return the admission functions for a request: those that change, then those that check."""
    found = reg.chains.get((verb, kind, subresource))
    if found is None:
        chosen = [
            plugin
            for plugin in reg.plugins
            if verb in plugin.verbs
            and subresource in plugin.subresources
            and (not plugin.types or kind in plugin.types)
        ]
        admit = tuple(plugin.admit for plugin in chosen if plugin.admit)
        found = admit, tuple(plugin.check for plugin in chosen if plugin.check)
        reg.chains[verb, kind, subresource] = found
    return found


# %% book/04_api_server.ipynb#b6e4a96f
MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def kind_name(kind: type[Object]) -> str:
    """Return a kind with its group: ``Pod``, ``ReplicaSet.apps``."""
    group = kind.API_VERSION.rpartition("/")[0]
    return f"{kind.KIND}.{group}" if group else kind.KIND


def not_found(resource: Resource, name: str) -> NotFound:
    """Return the 404 for an object."""
    return NotFound(f"{resource.group_resource} {quote(name)} not found")


def conflict(resource: str, name: str, why: str) -> Conflict:
    """Return the 409 for a write that came too late."""
    return Conflict(f"Operation cannot be fulfilled on {resource} {quote(name)}: {why}")


def invalid(kind: type[Object], name: str, causes: Iterable[Cause]) -> Invalid:
    """Return the 422 that lists everything that is wrong."""
    causes = tuple(causes)
    message = f"{kind_name(kind)} {quote(name)} is invalid: {aggregate(causes)}"
    return Invalid(message, causes=causes)


def already_exists(resource: Resource, taken: Object, *, generated: bool) -> AlreadyExists:
    """Return the 409 for a create whose name is taken."""
    message = f"{resource.group_resource} {quote(taken.metadata.name)} already exists"
    if generated:
        message += ", the server was not able to generate a unique name for the object"
    if taken.metadata.deletion_timestamp:
        message = f"object is being deleted: {message}"
    return AlreadyExists(message)


# %% book/04_api_server.ipynb#4437a483
def key_of(namespace: str, name: str) -> str:
    """Return the key under which an object is stored."""
    return f"{namespace}/{name}" if namespace else name


def find(table: Table, namespace: str, name: str) -> Object:
    """Return a stored object.

    Raises:
        NotFound: There is none of that name.
    """
    obj = table.objects.get(f"{namespace}/{name}" if namespace else name)
    if obj is None:
        raise not_found(table.resource, name)
    return obj


def record(
    reg: Registry, request: Request, name: str, old: Object | None, new: Object | None
) -> None:
    """Write down what a request did; ``old is new`` says that it changed nothing."""
    if reg.trace is None:
        return
    reg.trace.write(
        ApiWrite(
            reg.clock.time(),
            request.agent,
            request.verb,
            resource_of(request.type).plural,
            request.subresource,
            request.namespace,
            name,
            201 if request.verb == "create" else 200,
            "",
            old,
            new,
            request.body if request.verb == "patch" else None,
            request.options,
        )
    )


# %% book/04_api_server.ipynb#23fb7106
def create(reg: Registry, table: Table, request: Request) -> Object:
    """Store a new object.

    Raises:
        AlreadyExists: The name is taken.
        Invalid: With every field that is wrong.
        Forbidden: An admission plugin says no.
    """
    kind, resource = request.type, table.resource
    strategy = STRATEGIES[kind]
    admit, check = chain(reg, "create", kind)
    obj = strategy.default(in_namespace(resource, request.namespace, request.body))
    if obj.metadata.resource_version:
        raise InternalError("resourceVersion should not be set on objects to be created")
    for change in admit:
        obj = change(reg, request, obj, None)
    obj = strategy.prepare_for_create(replace(obj, metadata=born(reg, table, obj.metadata)))
    meta = obj.metadata
    if causes := strategy.validate(obj):
        raise invalid(kind, meta.name, causes)
    for verify in check:
        verify(reg, request, obj, None)
    obj = strategy.default(obj)  # as it will be read: preparing may have left more to fill in
    key = key_of(meta.namespace, meta.name)
    if (taken := table.objects.get(key)) is not None:
        raise already_exists(resource, taken, generated=bool(meta.generate_name))
    new = commit(reg.store, table, key, None, obj)
    record(reg, request, meta.name, None, new)
    return new


# %% book/04_api_server.ipynb#36d6909b
def in_namespace(resource: Resource, namespace: str, obj: Object) -> Object:
    """Return an object with the request's namespace filled in.

    Raises:
        BadRequest: It names another namespace, or none where one is needed.
    """
    meta, wanted = obj.metadata, namespace if resource.namespaced else ""
    if resource.namespaced and not wanted:
        raise BadRequest("an empty namespace may not be set during creation")
    if meta.namespace == wanted:
        return obj
    if meta.namespace:
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    return replace(obj, metadata=replace(meta, namespace=wanted))


# %% book/04_api_server.ipynb#c427a527
GENERATE_NAME_ATTEMPTS = 8


def born(reg: Registry, table: Table, meta: ObjectMeta) -> ObjectMeta:
    """Return metadata with what only the server may set: name, uid, time of creation."""
    name = meta.name
    if not name and meta.generate_name:
        for _ in range(GENERATE_NAME_ATTEMPTS):
            name = generate_name(meta.generate_name, reg.rng)
            if key_of(meta.namespace, name) not in table.objects:
                break
    return replace(
        meta,
        name=name,
        uid=new_uid(reg.rng),
        creation_timestamp=reg.clock.timestamp(),
        deletion_timestamp=None,
        deletion_grace_period_seconds=None,
        self_link="",
    )


# %% book/04_api_server.ipynb#f04a7806
def succeed(resource: Resource, request: Request, was: ObjectMeta, new: ObjectMeta) -> ObjectMeta:
    """Return the metadata that may follow ``was``; what callers cannot change is kept.

    Raises:
        Conflict: ``new`` names another version, or another uid, than the stored one.
        Invalid: It names none, and is of a kind that wants one.
    """
    if request.verb != "patch" and new.uid and new.uid != was.uid:
        key = f"/registry/{resource.plural}/{key_of(was.namespace, was.name)}"
        raise conflict(
            resource.group_resource,
            was.name,
            f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0,"
            f" AdditionalErrorMsg: Precondition failed: UID in precondition: {new.uid},"
            f" UID in object meta: {was.uid}",
        )
    anyway = new.resource_version in ("", "0")
    if anyway and not STRATEGIES[request.type].unconditional_update:
        cause = fields.invalid("metadata.resourceVersion", 0, "must be specified for an update")
        text = f"{resource.group_resource} {quote(was.name)} is invalid: {aggregate([cause])}"
        raise Invalid(text, causes=(cause,))
    if not anyway and new.resource_version != was.resource_version:
        raise conflict(resource.group_resource, was.name, MODIFIED)
    grace = new.deletion_grace_period_seconds
    return replace(
        new,
        uid=new.uid or was.uid,
        resource_version=was.resource_version,
        generation=was.generation,
        creation_timestamp=was.creation_timestamp,
        deletion_timestamp=was.deletion_timestamp or new.deletion_timestamp,
        deletion_grace_period_seconds=was.deletion_grace_period_seconds if grace is None else grace,
    )


# %% book/04_api_server.ipynb#9cc0fa4c
def update(reg: Registry, table: Table, request: Request) -> Object:
    """Replace an object, or one part of it (``status``, ``finalize``).

    Raises:
        NotFound: There is none of that name.
        Conflict: It changed since the caller read it, or it is another one of the same name.
        Invalid: With every field that is wrong.
    """
    new, name = request.body, request.name
    if new.metadata.name != name:
        raise BadRequest(
            f"the name of the object ({new.metadata.name}) does not match"
            f" the name on the URL ({name})"
        )
    new = in_namespace(table.resource, request.namespace, new)
    return write(reg, table, request, find(table, request.namespace, name), new)


def write(reg: Registry, table: Table, request: Request, old: Object, new: Object) -> Object:
    """Put ``new`` in the place of ``old``: what update, patch and scale have in common.

    An object that is being deleted and loses its last finalizer is removed; it is returned as it
    was asked to be, with the version that it had.
    """
    kind, was = request.type, old.metadata
    if new.metadata is not was:
        new = replace(new, metadata=succeed(table.resource, request, was, new.metadata))
    new, causes = prepared(reg, request, old, new)
    if causes:
        raise invalid(kind, was.name, causes)
    key = key_of(was.namespace, was.name)
    if was.deletion_timestamp and may_go(was, new):
        commit(reg.store, table, key, old, None)
        record(reg, request, was.name, old, None)
        return new
    new = old if new == old else commit(reg.store, table, key, old, new)
    record(reg, request, was.name, old, new)
    return new


# %% book/04_api_server.ipynb#86ff1400
def prepared(
    reg: Registry, request: Request, old: Object, new: Object
) -> tuple[Object, Iterable[Cause]]:
    """Return an update with the part that it may not touch restored, and what is wrong with it."""
    strategy = STRATEGIES[request.type]
    if request.subresource == "status":
        new = strategy.prepare_for_status_update(new, old)
        return new, strategy.validate_status_update(new, old)
    if isinstance(old, Namespace) and request.subresource == "finalize":
        return replace(new, status=old.status), ()
    new = strategy.default(new)
    admit, check = chain(reg, "update", request.type)
    for change in admit:
        new = change(reg, request, new, old)
    new = strategy.prepare_for_update(new, old)
    causes = strategy.validate_update(new, old)
    if not causes:
        for verify in check:
            verify(reg, request, new, old)
    return new, causes


def may_go(was: ObjectMeta, new: Object) -> bool:
    """Whether a deleted object has nothing left to wait for: no finalizer, no grace period."""
    return not (
        new.metadata.finalizers
        or was.deletion_grace_period_seconds
        or (isinstance(new, Namespace) and new.spec.finalizers)
    )
