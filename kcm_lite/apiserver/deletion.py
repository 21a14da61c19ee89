"""Delete: a request to go, which grace periods and finalizers may hold up.

See: chapter *The API server*, section *Deletion*; upstream ``registry/rest/delete.go``.
"""

# Generated from the notebooks by tangle.py; edit them instead.

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from kcm_lite.api.core import Namespace, NamespaceStatus
from kcm_lite.api.errors import Conflict, Forbidden, Invalid, NotFound, StatusError
from kcm_lite.api.golang import quote
from kcm_lite.api.meta import DeleteOptions, Object, ObjectMeta, Preconditions, replace
from kcm_lite.api.request import Request
from kcm_lite.api.strategy import STRATEGIES, Strategy
from kcm_lite.api.validation.field import aggregate, not_supported
from kcm_lite.apiserver.registry import Registry, conflict, find, invalid, key_of, may_go, record
from kcm_lite.apiserver.store import Table, commit, listing

# %% book/04_api_server.ipynb#72dbb309
ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
"""The finalizers that the garbage collector takes off when it has dealt with the dependents."""

POLICIES = ("Foreground", "Background", "Orphan")


def delete(reg: Registry, table: Table, request: Request) -> Object:
    """Delete an object, at once or by marking it as being deleted.

    Returns:
        The object as it is now, or, when it is gone, as it was.

    Raises:
        NotFound: There is none of that name.
        Conflict: A precondition does not hold.
    """
    options = request.options or DeleteOptions()
    old = find(table, request.namespace, request.name)
    check_options(options)
    if isinstance(old, Namespace):
        return delete_namespace(reg, table, request, old, options)
    check_preconditions(old, options.preconditions)
    return mark_or_remove(reg, table, request, old, options)


def mark_or_remove(
    reg: Registry, table: Table, request: Request, old: Object, options: DeleteOptions
) -> Object:
    """Do what the grace period and the finalizers allow."""
    strategy = STRATEGIES[request.type]
    key = key_of(old.metadata.namespace, old.metadata.name)
    meta, graceful, pending = begin(reg, strategy, old, options)
    if pending:
        record(reg, request, old.metadata.name, old, old)
        return old
    finalizers = gc_finalizers(strategy, meta.finalizers, options)
    if finalizers and not graceful:
        meta = mark(reg, meta)
    new = old
    if finalizers or graceful:
        new = replace(old, metadata=replace(meta, finalizers=finalizers))
        if new != old:
            new = commit(reg.store, table, key, old, new)
    if not finalizers and not (graceful and meta.deletion_grace_period_seconds):
        last = commit(reg.store, table, key, new, None)
        record(reg, request, meta.name, old, None)
        return last
    record(reg, request, meta.name, old, new)
    return new


# %% book/04_api_server.ipynb#eb45255b
def begin(
    reg: Registry, strategy: Strategy, old: Object, options: DeleteOptions
) -> tuple[ObjectMeta, bool, bool]:
    """Work out a graceful deletion (``BeforeDelete``).

    Returns:
        The metadata that it leaves; whether it is graceful (then the metadata says how long);
        whether a deletion under way makes this one pointless.
    """
    meta, wanted = old.metadata, options.grace_period_seconds
    if wanted is not None and wanted < 0:
        wanted = 1
    if strategy.grace_period is None:
        return meta, False, False
    if meta.deletion_timestamp is None:
        grace = strategy.grace_period(old, wanted)
        return (
            replace(
                meta,
                deletion_timestamp=reg.clock.timestamp() + timedelta(seconds=grace),
                deletion_grace_period_seconds=grace,
                generation=meta.generation + 1 if meta.generation else 0,
            ),
            True,
            False,
        )
    left = meta.deletion_grace_period_seconds
    if not left:
        return meta, False, False
    if wanted is None or wanted >= left:
        return meta, False, True
    due = meta.deletion_timestamp + timedelta(seconds=wanted - left)
    if due < reg.clock.now():
        due, wanted = reg.clock.timestamp(), min(wanted, 1)
    return replace(meta, deletion_timestamp=due, deletion_grace_period_seconds=wanted), True, False


def mark(reg: Registry, meta: ObjectMeta) -> ObjectMeta:
    """Mark an object of a kind without grace periods as being deleted (``markAsDeleting``)."""
    now, due = reg.clock.timestamp(), meta.deletion_timestamp
    return replace(
        meta,
        generation=meta.generation + 1 if due is None and meta.generation else meta.generation,
        deletion_timestamp=now if due is None or due > reg.clock.now() else due,
        deletion_grace_period_seconds=0,
    )


# %% book/04_api_server.ipynb#b6e4a96f
def gc_finalizers(
    strategy: Strategy, finalizers: tuple[str, ...], options: DeleteOptions
) -> tuple[str, ...]:
    """Return the finalizers with those of the garbage collector as the deletion wants them.

    The caller's propagation policy counts first, then a finalizer that is there already, then
    the kind's default.
    """
    if strategy.orphan_dependents is None:
        return tuple(f for f in finalizers if f not in (ORPHAN, FOREGROUND))
    policy = options.propagation_policy
    if policy is None:
        policy = next((_BY_FINALIZER[f] for f in finalizers if f in _BY_FINALIZER), None)
    if policy is None and strategy.orphan_dependents:
        policy = "Orphan"
    wanted = _BY_POLICY.get(policy or "", ())
    new = tuple(f for f in finalizers if f not in (ORPHAN, FOREGROUND)) + wanted
    return finalizers if set(new) == set(finalizers) else new


_BY_POLICY = {"Orphan": (ORPHAN,), "Foreground": (FOREGROUND,)}
_BY_FINALIZER = {ORPHAN: "Orphan", FOREGROUND: "Foreground"}


def check_options(options: DeleteOptions) -> None:
    """Raise `Invalid` for a propagation policy that does not exist."""
    policy = options.propagation_policy
    if policy is not None and policy not in POLICIES:
        cause = not_supported("propagationPolicy", policy, (*POLICIES, "nil"))
        text = aggregate([cause])
        raise Invalid(f'DeleteOptions.meta.k8s.io "" is invalid: {text}', causes=(cause,))


def check_preconditions(old: Object, wanted: Preconditions | None) -> None:
    """Raise `Conflict` if the object is not the one, or not as, the caller thinks."""
    if wanted is None:
        return
    meta = old.metadata
    group = old.API_VERSION.rpartition("/")[0]
    kind = f"{old.KIND}.{group}" if group else old.KIND
    if wanted.uid is not None and wanted.uid != meta.uid:
        raise conflict(
            kind,
            meta.name,
            f"the UID in the precondition ({wanted.uid}) does not match the UID in record"
            f" ({meta.uid}). The object might have been deleted and then recreated",
        )
    version = wanted.resource_version
    if version is not None and version != meta.resource_version:
        raise conflict(
            kind,
            meta.name,
            f"the ResourceVersion in the precondition ({version}) does not match the"
            f" ResourceVersion in record ({meta.resource_version})."
            " The object might have been modified",
        )


# %% book/04_api_server.ipynb#4437a483
IMMORTAL = frozenset({"default", "kube-public", "kube-system"})


def delete_namespace(
    reg: Registry, table: Table, request: Request, old: Namespace, options: DeleteOptions
) -> Object:
    """Mark a namespace as terminating; it goes when its spec's finalizers are gone."""
    meta, wanted = old.metadata, options.preconditions or Preconditions()
    if meta.name in IMMORTAL:
        raise Forbidden(
            f"namespaces {quote(meta.name)} is forbidden: this namespace may not be deleted"
        )
    for what, asked, stored in (
        ("UID", wanted.uid, meta.uid),
        ("ResourceVersion", wanted.resource_version, meta.resource_version),
    ):
        if asked is not None and asked != stored:
            reason = f"Precondition failed: {what} in precondition: {asked}, {what} in object meta: {stored}"
            raise conflict("namespaces", meta.name, reason)
    if meta.deletion_timestamp is None:
        kept = tuple(f for f in meta.finalizers if f not in (ORPHAN, FOREGROUND))
        policy = options.propagation_policy
        now = replace(
            meta,
            deletion_timestamp=reg.clock.timestamp(),
            finalizers=meta.finalizers if policy is None else kept + _BY_POLICY.get(policy, ()),
        )
        status = replace(old.status, phase="Terminating")
        marked = replace(old, metadata=now, status=status)
        new = commit(reg.store, table, meta.name, old, marked)
        record(reg, request, meta.name, old, new)
        return new
    if old.spec.finalizers:
        record(reg, request, meta.name, old, old)
        return old
    return mark_or_remove(reg, table, request, old, options)


def delete_collection(reg: Registry, table: Table, request: Request) -> tuple[Object, ...]:
    """Delete all objects that a request selects, each as `delete` does, and return them."""
    selected = listing(table, request.namespace, request.label_selector, request.field_selector)
    gone = []
    for obj in selected:
        meta = obj.metadata
        gone.append(delete(reg, table, replace(request, namespace=meta.namespace, name=meta.name)))
    return tuple(gone)
