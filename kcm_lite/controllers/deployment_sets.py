# Generated from book/09a_sets_and_status.ipynb by tools/tangle.py; edit it there.

"""The sets of a Deployment: the new one, found or made, and their sizes.

See: chapter *Deployment*; upstream ``pkg/controller/deployment/sync.go``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from kcm_lite.api.apps import Deployment, ReplicaSet
from kcm_lite.api.errors import AlreadyExists, StatusError
from kcm_lite.api.golang import quote
from kcm_lite.api.meta import controller_of, replace
from kcm_lite.controllers.deployment_revisions import (
    REVISION,
    next_revision,
    replicas_annotations,
    set_deployment_revision,
    set_new_replica_set_annotations,
)
from kcm_lite.controllers.deployment_status import (
    CREATE_FAILED,
    FOUND,
    NEW,
    PROGRESSING,
    condition,
    find_condition,
    has_progress_deadline,
    with_condition,
)
from kcm_lite.controllers.deployment_templates import (
    equal_ignore_hash,
    find_new_replica_set,
    find_old_replica_sets,
    new_replica_set,
)
from kcm_lite.controllers.deployment_types import DeploymentController, View, decide
from kcm_lite.controllers.rollout import wanted
from kcm_lite.reconcile.podcontrol import is_namespace_terminating


# %% book/09a_sets_and_status.ipynb#5b8fff99
async def get_all_replica_sets_and_sync_revision(
    dc: DeploymentController, view: View, *, create: bool
) -> tuple[ReplicaSet | None, list[ReplicaSet]]:
    """Return the new set and the old ones; see to it that the new one has the highest number.

    Args:
        create: Make the new set if there is none; otherwise None is returned for it.

    Raises:
        StatusError: A write was refused.
    """
    new = find_new_replica_set(view.d, view.sets)
    old = find_old_replica_sets(new, view.sets)
    number = next_revision(old)
    if new is not None:
        new = await update_new_replica_set(dc, view, new, number)
    elif create:
        new = await create_new_replica_set(dc, view, old, number)
    return new, old


# %% book/09a_sets_and_status.ipynb#1d132605
async def update_new_replica_set(
    dc: DeploymentController, view: View, rs: ReplicaSet, number: str
) -> ReplicaSet:
    """Bring number, annotations and minReadySeconds up to date: of the set, then in the status.

    One of the two a sync: the write of the set wakes the next.
    """
    d = view.d
    annotations, changed = set_new_replica_set_annotations(d, rs, number, exists=True)
    if annotations is not rs.metadata.annotations:
        rs = replace(rs, metadata=replace(rs.metadata, annotations=annotations))
    if changed or rs.spec.min_ready_seconds != d.spec.min_ready_seconds:
        spec = replace(rs.spec, min_ready_seconds=d.spec.min_ready_seconds)
        return await dc.client.update(replace(rs, spec=spec))
    view.d = set_deployment_revision(d, annotations.get(REVISION, ""))
    if has_progress_deadline(d) and find_condition(d.status, PROGRESSING) is None:
        note(dc, view, "True", FOUND, f"Found new replica set {quote(rs.metadata.name)}")
    if view.d is not d:
        await dc.client.update_status(view.d)
    return rs


def note(dc: DeploymentController, view: View, status: str, reason: str, message: str) -> None:
    """Set the Progressing condition of the Deployment that this sync works on."""
    change = condition(dc.clock.timestamp(), PROGRESSING, status, reason, message)
    view.d = replace(view.d, status=with_condition(view.d.status, change))


# %% book/09a_sets_and_status.ipynb#e5ea4cad
async def create_new_replica_set(
    dc: DeploymentController, view: View, old: Sequence[ReplicaSet], number: str
) -> ReplicaSet:
    """Make the set for the Deployment's template.

    Raises:
        AlreadyExists: Another set has the name; the next sync tries another name.
        StatusError: The set could not be made, or the status not be written.
    """
    rs, d = new_replica_set(view.d, old), view.d
    annotations, _ = set_new_replica_set_annotations(d, rs, number, exists=False)
    rs = replace(rs, metadata=replace(rs.metadata, annotations=annotations))
    try:
        created, is_new = await dc.client.create(rs), True
    except AlreadyExists as error:
        created, is_new = await own_or_collide(dc, view, rs.metadata.name, error), False
    except (StatusError, OSError) as error:
        await tell_failure(dc, view, rs, error)
        raise
    name, size = created.metadata.name, wanted(rs)
    if is_new and size > 0:
        tell_scaled(dc, d, name, 0, size)
    if is_new:
        text = f"no set has this template; {size} of its pods fit at first"
        decide(dc, d, "create", created, text)
    view.d = set_deployment_revision(d, number)
    if is_new and has_progress_deadline(d):
        note(dc, view, "True", NEW, f"Created new replica set {quote(name)}")
    if view.d is not d:
        await dc.client.update_status(view.d)
    return created


# %% book/09a_sets_and_status.ipynb#303e906a
async def own_or_collide(
    dc: DeploymentController, view: View, name: str, error: AlreadyExists
) -> ReplicaSet:
    """Return the set that has the name if it is the right one; else count a collision.

    Raises:
        NotFound: The cache does not have it yet.
        AlreadyExists: It is not: the same ``error``.
    """
    d = view.d
    rs = dc.sets.lister().get(d.metadata.namespace, name)
    ref = controller_of(rs)
    mine = ref is not None and ref.uid == d.metadata.uid
    if mine and equal_ignore_hash(d.spec.template, rs.spec.template):
        return rs
    count = (d.status.collision_count or 0) + 1
    decide(dc, d, "collision", rs, f"the name is taken; try {count} gives another")
    with suppress(StatusError, OSError):
        await dc.client.update_status(replace(d, status=replace(d.status, collision_count=count)))
    raise error


# %% book/09a_sets_and_status.ipynb#db9583de
async def tell_failure(
    dc: DeploymentController, view: View, rs: ReplicaSet, error: Exception
) -> None:
    """Put into status and events that the set could not be made."""
    if is_namespace_terminating(error):
        return
    text = f"Failed to create new replica set {quote(rs.metadata.name)}: {error}"
    if has_progress_deadline(view.d):
        note(dc, view, "False", CREATE_FAILED, text)
        with suppress(StatusError, OSError):
            await dc.client.update_status(view.d)
    dc.recorder.event(view.d, "Warning", CREATE_FAILED, text)


# %% book/09a_sets_and_status.ipynb#f9b22fa2
async def scale_replica_set(
    dc: DeploymentController,
    d: Deployment,
    rs: ReplicaSet,
    size: int,
    why: str,
    *,
    force: bool = False,
) -> ReplicaSet:
    """Have a set want another number of pods, and remember the Deployment's size.

    Args:
        why: For the trace.
        force: Write the remembered size even if the number stays.

    Returns:
        The set as it is now.

    Raises:
        StatusError: The write was refused.
    """
    have, meta = wanted(rs), rs.metadata
    annotations = {**meta.annotations, **replicas_annotations(d)}
    if have == size and not (force and annotations != meta.annotations):
        return rs
    changed = replace(meta, annotations=annotations)
    spec = rs.spec if have == size else replace(rs.spec, replicas=size)
    updated = await dc.client.update(replace(rs, metadata=changed, spec=spec))
    if have != size:
        tell_scaled(dc, d, meta.name, have, size)
        decide(dc, d, "scale", rs, f"from {have} to {size}: {why}")
    return updated


# %% book/09a_sets_and_status.ipynb#e8c52ff1
def tell_scaled(dc: DeploymentController, d: Deployment, name: str, have: int, size: int) -> None:
    """Tell people that a set was scaled."""
    way = "up" if have < size else "down"
    since = f"from {have} to {size}" if dc.gates.scaled_from else f"to {size}"
    dc.recorder.event(d, "Normal", "ScalingReplicaSet", f"Scaled {way} replica set {name} {since}")
