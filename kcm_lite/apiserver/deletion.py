# Generated from book/04a_deletion.ipynb by tools/tangle.py; edit it there.

"""Delete: a wish to go, which grace periods and finalizers may hold up.

See: chapter *Deletion*; upstream ``pkg/registry/rest/delete.go``.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from kcm_lite.api.core import Namespace
from kcm_lite.api.errors import Forbidden, Invalid
from kcm_lite.api.meta import DeleteOptions, Object, ObjectMeta, Preconditions, replace
from kcm_lite.api.request import Request
from kcm_lite.api.strategy import STRATEGIES, Strategy
from kcm_lite.api.validation.field import aggregate, not_supported
from kcm_lite.apiserver.registry import Registry, conflict, find, key_of, kind_name, record
from kcm_lite.apiserver.store import Table, commit, listing


# %% book/04a_deletion.ipynb#135e1ce6
def delete(reg: Registry, table: Table, request: Request) -> Object:
    """Delete an object, at once or by marking it.

    Returns:
        The object as it is now or, when it is gone, as it was.

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


# %% book/04a_deletion.ipynb#5fd1817b
def mark_or_remove(
    reg: Registry, table: Table, request: Request, old: Object, options: DeleteOptions
) -> Object:
    """Do what the grace period and the finalizers allow."""
    strategy = STRATEGIES[request.type]
    name, key = old.metadata.name, key_of(old.metadata.namespace, old.metadata.name)
    meta, graceful, pending = begin(reg, strategy, old, options)
    if pending:
        record(reg, request, name, old, old)
        return old
    finalizers = gc_finalizers(strategy, meta.finalizers, options)
    if finalizers and not graceful:
        meta = mark(reg, meta)
    new = old
    if finalizers or graceful:
        new = replace(old, metadata=replace(meta, finalizers=finalizers))
        new = old if new == old else commit(reg.store, table, key, old, new)
    if finalizers or (graceful and meta.deletion_grace_period_seconds):
        record(reg, request, name, old, new)
        return new
    last = commit(reg.store, table, key, new, None)
    record(reg, request, name, old, None)
    return last


# %% book/04a_deletion.ipynb#bd9c641c
def begin(
    reg: Registry, strategy: Strategy[Any], old: Object, options: DeleteOptions
) -> tuple[ObjectMeta, bool, bool]:
    """Work out a graceful deletion (``BeforeDelete``).

    Returns:
        The metadata that it leaves; whether it is graceful (the metadata then says how long);
        whether a deletion under way makes this one pointless.
    """
    meta, wanted = old.metadata, options.grace_period_seconds
    if wanted is not None and wanted < 0:
        wanted = 1
    if strategy.grace_period is None:
        return meta, False, False
    if meta.deletion_timestamp is None:
        grace = strategy.grace_period(old, wanted)
        due = reg.clock.timestamp() + timedelta(seconds=grace)
        generation = meta.generation + 1 if meta.generation else 0
        return deleting(replace(meta, generation=generation), due, grace), True, False
    left = meta.deletion_grace_period_seconds
    if not left:
        return meta, False, False
    if wanted is None or wanted >= left:
        return meta, False, True
    due = meta.deletion_timestamp + timedelta(seconds=wanted - left)
    if due < reg.clock.now():
        due, wanted = reg.clock.timestamp(), min(wanted, 1)
    return deleting(meta, due, wanted), True, False


# %% book/04a_deletion.ipynb#1e08dfd6
def deleting(meta: ObjectMeta, due: datetime, grace: int) -> ObjectMeta:
    """Return metadata with the mark of a deletion."""
    return replace(meta, deletion_timestamp=due, deletion_grace_period_seconds=grace)


def mark(reg: Registry, meta: ObjectMeta) -> ObjectMeta:
    """Mark an object of a kind without grace periods as being deleted (``markAsDeleting``)."""
    due = meta.deletion_timestamp
    if due is None and meta.generation:
        meta = replace(meta, generation=meta.generation + 1)
    if due is None or due > reg.clock.now():
        due = reg.clock.timestamp()
    return deleting(meta, due, 0)


# %% book/04a_deletion.ipynb#335ae5fd
ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
POLICIES = {"Foreground": (FOREGROUND,), "Background": (), "Orphan": (ORPHAN,)}
"""What a deletion may want for the dependents, and the finalizer that says so."""


def gc_finalizers(
    strategy: Strategy[Any], finalizers: tuple[str, ...], options: DeleteOptions
) -> tuple[str, ...]:
    """Return the finalizers with those of the garbage collector as the deletion wants them.

    The caller's propagation policy counts first, then a finalizer that is there already, then
    the kind's default.
    """
    others = tuple(f for f in finalizers if f not in (ORPHAN, FOREGROUND))
    if strategy.orphan_dependents is None:
        wanted: tuple[str, ...] = ()
    elif options.propagation_policy is not None:
        wanted = POLICIES[options.propagation_policy]
    elif len(others) < len(finalizers):
        wanted = (next(f for f in finalizers if f in (ORPHAN, FOREGROUND)),)
    else:
        wanted = (ORPHAN,) if strategy.orphan_dependents else ()
    return finalizers if set(others + wanted) == set(finalizers) else others + wanted


def check_options(options: DeleteOptions) -> None:
    """Raise `Invalid` for a propagation policy that does not exist."""
    policy = options.propagation_policy
    if policy is not None and policy not in POLICIES:
        cause = not_supported("propagationPolicy", policy, (*POLICIES, "nil"))
        message = f'DeleteOptions.meta.k8s.io "" is invalid: {aggregate([cause])}'
        raise Invalid(message, causes=(cause,))


# %% book/04a_deletion.ipynb#abd56fed
def check_preconditions(old: Object, wanted: Preconditions | None) -> None:
    """Raise `Conflict` if the object is not the one, or not as, the caller thinks."""
    if wanted is None:
        return
    meta = old.metadata
    for what, asked, stored, hint in (
        ("UID", wanted.uid, meta.uid, "deleted and then recreated"),
        ("ResourceVersion", wanted.resource_version, meta.resource_version, "modified"),
    ):
        if asked is not None and asked != stored:
            raise conflict(
                kind_name(type(old)),
                meta.name,
                f"the {what} in the precondition ({asked}) does not match the {what} in record"
                f" ({stored}). The object might have been {hint}",
            )


# %% book/04a_deletion.ipynb#b324604e
IMMORTAL = frozenset({"default", "kube-public", "kube-system"})


def delete_namespace(
    reg: Registry, table: Table, request: Request, old: Namespace, options: DeleteOptions
) -> Object:
    """Mark a namespace as terminating; it goes when the finalizers of its spec are gone."""
    meta, wanted = old.metadata, options.preconditions or Preconditions()
    if meta.name in IMMORTAL:
        why = "this namespace may not be deleted"
        raise Forbidden(f'namespaces "{meta.name}" is forbidden: {why}')
    for what, asked, stored in (
        ("UID", wanted.uid, meta.uid),
        ("ResourceVersion", wanted.resource_version, meta.resource_version),
    ):
        if asked is not None and asked != stored:
            why = f"{what} in precondition: {asked}, {what} in object meta: {stored}"
            raise conflict("namespaces", meta.name, f"Precondition failed: {why}")
    if meta.deletion_timestamp is None:
        finalizers = gc_finalizers(STRATEGIES[Namespace], meta.finalizers, options)
        now = reg.clock.timestamp()
        marked = replace(
            old,
            metadata=replace(meta, deletion_timestamp=now, finalizers=finalizers),
            status=replace(old.status, phase="Terminating"),
        )
        new = commit(reg.store, table, meta.name, old, marked)
        record(reg, request, meta.name, old, new)
        return new
    if old.spec.finalizers:
        record(reg, request, meta.name, old, old)
        return old
    return mark_or_remove(reg, table, request, old, options)


# %% book/04a_deletion.ipynb#0bad0612
def delete_collection(reg: Registry, table: Table, request: Request) -> tuple[Object, ...]:
    """Delete all objects that a request selects, each as `delete` does; return them."""
    gone = []
    for obj in listing(table, request.namespace, request.label_selector, request.field_selector):
        meta = obj.metadata
        gone.append(delete(reg, table, replace(request, namespace=meta.namespace, name=meta.name)))
    return tuple(gone)
