"""Create, update and remove, with all that the API promises about them.

The same functions serve every kind; what differs between kinds is in its strategy
(``kcm_lite.api.strategy``) and in the tables of admission plugins.

See: chapter *The API server*; upstream ``k8s.io/apiserver/pkg/registry/generic/registry``.
"""

# Generated from the notebooks by tangle.py; edit them instead.

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

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
from kcm_lite.api.names import generate_name
from kcm_lite.api.request import Request
from kcm_lite.api.scheme import Resource
from kcm_lite.api.strategy import STRATEGIES
from kcm_lite.api.validation.field import aggregate
from kcm_lite.apiserver.store import Store, Table, commit
from kcm_lite.clock import Clock
from kcm_lite.trace import ApiWrite, Trace

# %% book/04_api_server.ipynb#85bba96e
Admit = Callable[["Registry", Request, Object, Object | None], Object]
"""Changes an object on its way in (given the request, the new object, the stored one)."""

Check = Callable[["Registry", Request, Object, Object | None], None]
"""Refuses an object that is otherwise valid, by raising."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """An admission plugin: what it looks at, and what it does to it.

    Attributes:
        verbs: create and/or update (a patch is an update) and/or delete.
        types: The kinds that it looks at; empty: all.
    """

    name: str
    verbs: frozenset[str]
    types: frozenset[type[Object]] = frozenset()
    admit: Admit | None = None
    check: Check | None = None


@dataclass(slots=True)
class Registry:
    """The state of an API server, which every verb's function takes first."""

    clock: Clock
    store: Store
    rng: random.Random
    trace: Trace | None
    plugins: tuple[Plugin, ...]
    chains: dict[tuple[str, type[Object]], tuple[tuple[Admit, ...], tuple[Check, ...]]] = field(
        default_factory=dict
    )


def chain(
    reg: Registry, verb: str, kind: type[Object]
) -> tuple[tuple[Admit, ...], tuple[Check, ...]]:
    """Return the admission functions for a verb and a kind: those that change, those that check."""
    found = reg.chains.get((verb, kind))
    if found is None:
        chosen = [p for p in reg.plugins if verb in p.verbs and (not p.types or kind in p.types)]
        found = (
            tuple(p.admit for p in chosen if p.admit),
            tuple(p.check for p in chosen if p.check),
        )
        reg.chains[verb, kind] = found
    return found


# %% book/04_api_server.ipynb#a2ac5d07
MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def not_found(resource: Resource, name: str) -> NotFound:
    """Return the 404 of an object."""
    return NotFound(f"{resource.group_resource} {quote(name)} not found")


def conflict(name_of_resource: str, name: str, why: str) -> Conflict:
    """Return the 409 of a write that came too late."""
    return Conflict(f"Operation cannot be fulfilled on {name_of_resource} {quote(name)}: {why}")


def invalid(kind: type[Object], name: str, causes: Iterable[Cause]) -> Invalid:
    """Return the 422 that lists everything that is wrong."""
    causes = tuple(causes)
    group = kind.API_VERSION.rpartition("/")[0]
    what = f"{kind.KIND}.{group}" if group else kind.KIND
    return Invalid(f"{what} {quote(name)} is invalid: {aggregate(causes)}", causes=causes)


def key_of(namespace: str, name: str) -> str:
    """Return the key under which an object is stored."""
    return f"{namespace}/{name}" if namespace else name


def find(table: Table, namespace: str, name: str) -> Object:
    """Return a stored object.

    Raises:
        NotFound: There is none of that name.
    """
    obj = table.objects.get(key_of(namespace, name))
    if obj is None:
        raise not_found(table.resource, name)
    return obj


def record(
    reg: Registry, request: Request, name: str, old: Object | None, new: Object | None
) -> None:
    """Write down what a request did; ``old is new`` says that it changed nothing."""
    if reg.trace is not None:
        reg.trace.write(
            ApiWrite(
                reg.clock.time(),
                request.agent,
                request.verb,
                reg.store.tables[request.type].resource.plural,
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


# %% book/04_api_server.ipynb#7d28aaaf
def create(reg: Registry, table: Table, request: Request) -> Object:
    """Store a new object: defaulted, admitted, named, validated, in this order.

    Raises:
        AlreadyExists: The name is taken.
        Invalid: With every field that is wrong.
        Forbidden: An admission plugin says no.
    """
    kind = request.type
    strategy = STRATEGIES[kind]
    obj = strategy.default(in_namespace(table.resource, request, request.body))
    if obj.metadata.resource_version:
        raise InternalError("resourceVersion should not be set on objects to be created")
    admit, check = chain(reg, "create", kind)
    for change in admit:
        obj = change(reg, request, obj, None)
    obj = strategy.prepare_for_create(replace(obj, metadata=born(reg, table, obj.metadata)))
    meta = obj.metadata
    if causes := strategy.validate(obj):
        raise invalid(kind, meta.name, causes)
    for verify in check:
        verify(reg, request, obj, None)
    key = key_of(meta.namespace, meta.name)
    if (taken := table.objects.get(key)) is not None:
        raise already_exists(table.resource, taken, meta.generate_name)
    new = commit(reg.store, table, key, None, obj)
    record(reg, request, meta.name, None, new)
    return new


def in_namespace(resource: Resource, request: Request, obj: Object) -> Object:
    """Return the object with the request's namespace filled in.

    Raises:
        BadRequest: It names another one, or none where one is needed.
    """
    meta, namespace = obj.metadata, request.namespace if resource.namespaced else ""
    if meta.namespace != namespace:
        if meta.namespace:
            raise BadRequest(
                "the namespace of the provided object does not match"
                " the namespace sent on the request"
            )
        obj = replace(obj, metadata=replace(meta, namespace=namespace))
    if resource.namespaced and not namespace:
        raise BadRequest("an empty namespace may not be set during creation")
    return obj


# %% book/04_api_server.ipynb#a40e9dcd
GENERATE_NAME_ATTEMPTS = 8


def born(reg: Registry, table: Table, meta: ObjectMeta) -> ObjectMeta:
    """Return the metadata with what only the server may set: name, uid, time of creation."""
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


def new_uid(rng: random.Random) -> str:
    """Return a random (version 4) UUID, the same one for the same seed."""
    bits = f"{rng.getrandbits(128):032x}"
    variant = "89ab"[int(bits[16], 16) & 3]
    return f"{bits[:8]}-{bits[8:12]}-4{bits[13:16]}-{variant}{bits[17:20]}-{bits[20:]}"


def already_exists(resource: Resource, taken: Object, generated_from: str) -> AlreadyExists:
    """Return the 409 of a create whose name is taken."""
    message = f"{resource.group_resource} {quote(taken.metadata.name)} already exists"
    if generated_from:
        message += ", the server was not able to generate a unique name for the object"
    if taken.metadata.deletion_timestamp:
        message = f"object is being deleted: {message}"
    return AlreadyExists(message)


# %% book/04_api_server.ipynb#e994401c
def update(reg: Registry, table: Table, request: Request) -> Object:
    """Replace an object, or its status.

    Raises:
        NotFound: There is none of that name.
        Conflict: It changed since the caller read it, or it is another one of the same name.
        Invalid: With every field that is wrong.
    """
    new = request.body
    if new.metadata.name != request.name:
        raise BadRequest(
            f"the name of the object ({new.metadata.name}) does not match"
            f" the name on the URL ({request.name})"
        )
    old = find(table, request.namespace, request.name)
    return write(reg, table, request, old, new)


def write(reg: Registry, table: Table, request: Request, old: Object, new: Object) -> Object:
    """Put ``new`` in the place of ``old``: the second half of update, patch, scale and finalize.

    Nothing is written, and no watcher hears of it, when nothing changes. An object that is being
    deleted and loses its last finalizer is removed.
    """
    kind, was = request.type, old.metadata
    strategy = STRATEGIES[kind]
    if new.metadata is not was:
        new = replace(new, metadata=succeed(table, request, was, new.metadata))
    if request.subresource == "status":
        new = strategy.prepare_for_status_update(new, old)
        causes = strategy.validate_status_update(new, old)
    else:
        new = strategy.default(new)
        admit, check = chain(reg, "update", kind)
        for change in admit:
            new = change(reg, request, new, old)
        new = strategy.prepare_for_update(new, old)
        causes = strategy.validate_update(new, old)
    if causes:
        raise invalid(kind, was.name, causes)
    key = key_of(was.namespace, was.name)
    if was.deletion_timestamp and may_go(was, new):
        commit(reg.store, table, key, old, None)
        record(reg, request, was.name, old, None)
        return new
    if new == old:
        new = old
    else:
        new = commit(reg.store, table, key, old, new)
    record(reg, request, was.name, old, new)
    return new


def may_go(was: ObjectMeta, new: Object) -> bool:
    """Whether a deleted object has nothing left to wait for: no finalizer, no grace period."""
    return not (
        new.metadata.finalizers
        or was.deletion_grace_period_seconds
        or getattr(getattr(new, "spec", None), "finalizers", ())
    )


# %% book/04_api_server.ipynb#42c94613
def succeed(table: Table, request: Request, was: ObjectMeta, new: ObjectMeta) -> ObjectMeta:
    """Return the metadata that may follow ``was``: what callers cannot change is kept.

    Raises:
        Conflict: ``new`` names another version or another uid than the stored one.
    """
    resource = table.resource
    if request.verb != "patch" and new.uid and new.uid != was.uid:
        path = "/".join(("", "registry", resource.plural, key_of(was.namespace, was.name)))
        reason = f"UID in precondition: {new.uid}, UID in object meta: {was.uid}"
        raise conflict(
            resource.group_resource,
            was.name,
            f"StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0,"
            f" AdditionalErrorMsg: Precondition failed: {reason}",
        )
    if new.resource_version and new.resource_version != was.resource_version:
        raise conflict(resource.group_resource, was.name, MODIFIED)
    return replace(
        new,
        namespace=new.namespace or was.namespace,
        uid=new.uid or was.uid,
        resource_version=was.resource_version,
        generation=was.generation,
        creation_timestamp=was.creation_timestamp,
        deletion_timestamp=was.deletion_timestamp or new.deletion_timestamp,
        deletion_grace_period_seconds=was.deletion_grace_period_seconds
        if new.deletion_grace_period_seconds is None
        else new.deletion_grace_period_seconds,
    )
