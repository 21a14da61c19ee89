# Generated from book/09_deployment.ipynb by tools/tangle.py; edit it there.

"""The two ways from one template to the next: little by little, or all at once.

See: chapter *Deployment*; upstream ``rolling.go`` and ``recreate.go``.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcm_lite.api.apps import ReplicaSet
from kcm_lite.api.errors import StatusError
from kcm_lite.controllers.deployment_history import cleanup_deployment
from kcm_lite.controllers.deployment_sets import (
    get_all_replica_sets_and_sync_revision,
    scale_replica_set,
)
from kcm_lite.controllers.deployment_status import sync_rollout_status
from kcm_lite.controllers.deployment_types import DeploymentController, View, decide
from kcm_lite.controllers.rollout import (
    active,
    deployment_complete,
    held_by,
    max_surge,
    new_rs_new_replicas,
    scale_down_steps,
    total,
    wanted,
)
from kcm_lite.reconcile.podutil import filter_pods_by_owner, is_pod_terminal


# %% book/09_deployment.ipynb#a13e8ee3
async def rollout_rolling(dc: DeploymentController, view: View) -> None:
    """Take one step: more new pods if there is room, else fewer old ones if they can be spared."""
    new, old = await get_all_replica_sets_and_sync_revision(dc, view, create=True)
    assert new is not None  # it was made if it was not there
    if not (
        await reconcile_new_replica_set(dc, view, new, old)
        or await reconcile_old_replica_sets(dc, view, new, active(old))
    ):
        if deployment_complete(view.d, view.d.status):
            await cleanup_deployment(dc, view.d, old)
        elif dc.trace is not None and dc.trace.detail and (why := held_by(view.d, old, new)):
            decide(dc, view.d, "hold", view.d, why)
    await sync_rollout_status(dc, view, new, old)


# %% book/09_deployment.ipynb#01ce33e8
async def reconcile_new_replica_set(
    dc: DeploymentController, view: View, new: ReplicaSet, old: Sequence[ReplicaSet]
) -> bool:
    """Give the new set as many pods as fit under the limit; say whether that is a change."""
    d, have, want = view.d, wanted(new), wanted(view.d)
    if have == want:
        return False
    if have > want:
        await scale_replica_set(dc, d, new, want, "no more are wanted")
        return True
    size = new_rs_new_replicas(d, [*old, new], new)
    why = f"{total([*old, new])} pods are wanted by all sets, {size - have} more fit"
    why += f" under {want + max_surge(d)}"
    await scale_replica_set(dc, d, new, size, why)
    return size != have


async def reconcile_old_replica_sets(
    dc: DeploymentController, view: View, new: ReplicaSet, old: list[ReplicaSet]
) -> bool:
    """Take from the old sets what can be spared; say whether that was anything."""
    scaled = False
    try:
        for i, size, why in scale_down_steps(view.d, old, new):
            old[i] = await scale_replica_set(dc, view.d, old[i], size, why)
            scaled = True
    except (StatusError, OSError, ValueError):
        return False  # upstream drops the error: the set's next event brings the next try
    return scaled


# %% book/09_deployment.ipynb#34675376
async def rollout_recreate(dc: DeploymentController, view: View) -> None:
    """Take all old pods away, wait until the last is gone, then make the new ones."""
    new, old = await get_all_replica_sets_and_sync_revision(dc, view, create=False)
    busy = active(old)
    for rs in busy:
        await scale_replica_set(dc, view.d, rs, 0, "the strategy is Recreate")
    if not busy and not old_pods_running(dc, view, new, old):
        if new is None:
            new, old = await get_all_replica_sets_and_sync_revision(dc, view, create=True)
        assert new is not None
        await scale_replica_set(dc, view.d, new, wanted(view.d), "the old pods are gone")
        if deployment_complete(view.d, view.d.status):
            await cleanup_deployment(dc, view.d, old)
    elif not busy:
        left = sum(rs.status.replicas for rs in old)
        decide(dc, view.d, "hold", view.d, f"Recreate: old pods are left, {left} reported")
    await sync_rollout_status(dc, view, new, old)


def old_pods_running(
    dc: DeploymentController, view: View, new: ReplicaSet | None, old: Sequence[ReplicaSet]
) -> bool:
    """Whether an old set reports pods, or the cache has one of theirs that has not ended."""
    return any(rs.status.replicas for rs in old) or any(
        not is_pod_terminal(pod)
        for rs in view.sets
        if new is None or rs.metadata.uid != new.metadata.uid
        for pod in filter_pods_by_owner(dc.pods.indexer, rs, orphans=False)
    )
