# Generated from book/09a_sets_and_status.ipynb by tools/tangle.py; edit it there.

"""What happens in the cluster, and which Deployment must be looked at because of it.

See: chapter *Deployment*; upstream ``pkg/controller/deployment``.
"""

from __future__ import annotations

from contextlib import suppress

from kcm_lite.api.apps import Deployment, ReplicaSet
from kcm_lite.api.core import Pod
from kcm_lite.api.meta import OwnerReference, controller_of, object_key
from kcm_lite.api.selectors import SelectorError, label_selector_as_selector
from kcm_lite.api.validation.deployment import RECREATE
from kcm_lite.client.cache import (
    CONTROLLER_UID_INDEX,
    NAMESPACE_INDEX,
    Tombstone,
    key_of,
    last_state,
)
from kcm_lite.controllers.deployment_types import DeploymentController
from kcm_lite.reconcile.podutil import filter_pods_by_owner


# %% book/09a_sets_and_status.ipynb#2dc79b30
def add_deployment(dc: DeploymentController, d: Deployment, initial: bool = False) -> None:
    """A Deployment is new: sync it."""
    dc.queue.add(object_key(d))


def update_deployment(dc: DeploymentController, old: Deployment, cur: Deployment) -> None:
    """A Deployment has changed: sync it, whatever the change."""
    dc.queue.add(object_key(cur))


def delete_deployment(dc: DeploymentController, obj: Deployment | Tombstone[Deployment]) -> None:
    """A Deployment is gone: its sync finds nothing to do."""
    dc.queue.add(key_of(obj))


# %% book/09a_sets_and_status.ipynb#8ac7cc9f
def resolve_controller_ref(
    dc: DeploymentController, namespace: str, ref: OwnerReference | None
) -> Deployment | None:
    """Find the Deployment that a reference means: by name, then make sure that it is the same."""
    if ref is None or ref.kind != Deployment.KIND:
        return None
    d = dc.deployments.indexer.get(f"{namespace}/{ref.name}")
    return d if d is not None and d.metadata.uid == ref.uid else None


def get_deployments_for_replica_set(dc: DeploymentController, rs: ReplicaSet) -> list[Deployment]:
    """Return the Deployments that would take an orphan; an empty selector takes nothing."""
    meta, found = rs.metadata, []
    if not meta.labels:
        return []
    for d in dc.deployments.indexer.by_index(NAMESPACE_INDEX, meta.namespace):
        with suppress(SelectorError):
            selector = label_selector_as_selector(d.spec.selector)
            if not selector.empty and selector.matches(meta.labels):
                found.append(d)
    return found


# %% book/09a_sets_and_status.ipynb#71c3326a
def add_replica_set(dc: DeploymentController, rs: ReplicaSet, initial: bool = False) -> None:
    """A set is new: wake its Deployment, or whoever might adopt it."""
    ref = controller_of(rs)
    if rs.metadata.deletion_timestamp is not None:
        delete_replica_set(dc, rs)
    elif ref is None:
        for d in get_deployments_for_replica_set(dc, rs):
            dc.queue.add(object_key(d))
    elif (owner := resolve_controller_ref(dc, rs.metadata.namespace, ref)) is not None:
        dc.queue.add(object_key(owner))


def update_replica_set(dc: DeploymentController, old: ReplicaSet, cur: ReplicaSet) -> None:
    """A set has changed: wake its Deployment; if labels or owner changed, all concerned."""
    before, after = old.metadata, cur.metadata
    if before.resource_version == after.resource_version:
        return  # only a reminder
    old_ref, ref = controller_of(old), controller_of(cur)
    if old_ref != ref:
        delete_replica_set(dc, old)
    if ref is not None:
        owner = resolve_controller_ref(dc, after.namespace, ref)
        if owner is not None:
            dc.queue.add(object_key(owner))
    elif before.labels != after.labels or old_ref is not None:
        for d in get_deployments_for_replica_set(dc, cur):
            dc.queue.add(object_key(d))


def delete_replica_set(dc: DeploymentController, obj: ReplicaSet | Tombstone[ReplicaSet]) -> None:
    """A set is gone, or going, or no longer its: wake its Deployment."""
    rs = last_state(obj)
    owner = resolve_controller_ref(dc, rs.metadata.namespace, controller_of(rs))
    if owner is not None:
        dc.queue.add(object_key(owner))


# %% book/09a_sets_and_status.ipynb#672b0c8e
def delete_pod(dc: DeploymentController, obj: Pod | Tombstone[Pod]) -> None:
    """A pod is gone: wake its Deployment if that recreates and this was the last of its pods."""
    pod = last_state(obj)
    namespace, ref = pod.metadata.namespace, controller_of(pod)
    if ref is None or ref.kind != ReplicaSet.KIND:
        return
    rs = dc.sets.indexer.get(f"{namespace}/{ref.name}")
    if rs is None or rs.metadata.uid != ref.uid:
        return
    d = resolve_controller_ref(dc, namespace, controller_of(rs))
    if d is None or d.spec.strategy.type != RECREATE:
        return
    sets = dc.sets.indexer.by_index(CONTROLLER_UID_INDEX, d.metadata.uid)
    if not any(filter_pods_by_owner(dc.pods.indexer, rs, orphans=False) for rs in sets):
        dc.queue.add(object_key(d))
