# Generated from book/09b_revisions_and_scaling.ipynb by tools/tangle.py; edit it there.

"""Scaling without a rollout: another number of pods is wanted, or the Deployment is paused.

See: chapter *Revisions and scaling*; upstream ``pkg/controller/deployment/sync.go``.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcm_lite.api.apps import Deployment, ReplicaSet
from kcm_lite.api.meta import replace
from kcm_lite.controllers.deployment_history import cleanup_deployment, rollback_to
from kcm_lite.controllers.deployment_revisions import DESIRED_REPLICAS, number_of
from kcm_lite.controllers.deployment_sets import (
    get_all_replica_sets_and_sync_revision,
    scale_replica_set,
)
from kcm_lite.controllers.deployment_status import (
    PAUSED,
    PROGRESSING,
    RESUMED,
    TIMED_OUT,
    condition,
    find_condition,
    has_progress_deadline,
    sync_deployment_status,
    with_condition,
)
from kcm_lite.controllers.deployment_types import DeploymentController, View
from kcm_lite.controllers.proportions import (
    find_active_or_latest,
    is_saturated,
    proportional_sizes,
)
from kcm_lite.controllers.rollout import (
    active,
    by_creation,
    is_rolling_update,
    max_surge,
    wanted,
)


# %% book/09b_revisions_and_scaling.ipynb#83dc9cd4
async def is_scaling_event(dc: DeploymentController, view: View) -> bool:
    """Whether a set that wants pods remembers another size of its Deployment."""
    new, old = await get_all_replica_sets_and_sync_revision(dc, view, create=False)
    sizes = [number_of(rs, DESIRED_REPLICAS) for rs in active(old if new is None else [*old, new])]
    return any(size is not None and size != wanted(view.d) for size in sizes)


async def sync(dc: DeploymentController, view: View) -> None:
    """Scale, and nothing else: no new set, no progress."""
    new, old = await get_all_replica_sets_and_sync_revision(dc, view, create=False)
    await scale(dc, view.d, new, old)
    if view.d.spec.paused and rollback_to(view.d) is None:
        await cleanup_deployment(dc, view.d, old)
    await sync_deployment_status(dc, view, new, old)


# %% book/09b_revisions_and_scaling.ipynb#68d3fbb2
async def scale(
    dc: DeploymentController, d: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]
) -> None:
    """Give one set the whole number, or each its share.

    Raises:
        StatusError: A write was refused; the next sync goes on from there.
    """
    only = find_active_or_latest(new, old)
    if only is not None:
        await scale_replica_set(dc, d, only, wanted(d), "it is the only one with pods")
    elif is_saturated(d, new):
        for rs in active(by_creation(old)[::-1]):
            await scale_replica_set(dc, d, rs, 0, "the new set has every pod that is wanted")
    elif is_rolling_update(d):
        sets = active([*by_creation(old)[::-1], *([] if new is None else [new])])
        share = f"its share of {wanted(d) + max_surge(d)}, the surge included, stays the same"
        for rs, size in proportional_sizes(d, sets):
            await scale_replica_set(dc, d, rs, size, share, force=True)


# %% book/09b_revisions_and_scaling.ipynb#f19d1bec
async def check_paused_conditions(dc: DeploymentController, view: View) -> None:
    """Note in the status that a rollout was paused or goes on, so that no deadline passes."""
    d = view.d
    current = find_condition(d.status, PROGRESSING)
    if not has_progress_deadline(d) or (current is not None and current.reason == TIMED_OUT):
        return
    noted = current is not None and current.reason == PAUSED
    if noted == d.spec.paused:
        return
    reason, text = (PAUSED, "paused") if d.spec.paused else (RESUMED, "resumed")
    now, message = dc.clock.timestamp(), f"Deployment is {text}"
    change = condition(now, PROGRESSING, "Unknown", reason, message)
    view.d = replace(d, status=with_condition(d.status, change))
    await dc.client.update_status(view.d)
