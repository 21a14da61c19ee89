# Generated from book/07_replicaset.ipynb by tools/tangle.py; edit it there.

"""What happens in the cluster, and which set must be looked at because of it.

See: chapter *ReplicaSet*; upstream ``pkg/controller/replicaset``.
"""

from __future__ import annotations

from kcm_lite.api.core import Pod
from kcm_lite.api.meta import OwnerReference, controller_of, object_key
from kcm_lite.api.selectors import SelectorError
from kcm_lite.client.cache import NAMESPACE_INDEX, Tombstone, last_state
from kcm_lite.controllers.replicaset_types import ReplicaSetController, W
from kcm_lite.reconcile.podutil import is_pod_ready


# %% book/07_replicaset.ipynb#e44bfa8e
def add_rs(rsc: ReplicaSetController[W], rs: W, initial: bool = False) -> None:
    """A set is new: sync it."""
    rsc.queue.add(object_key(rs))


def update_rs(rsc: ReplicaSetController[W], old: W, cur: W) -> None:
    """A set has changed: sync it, whatever the change. A new UID means that the old one is gone."""
    if cur.metadata.uid != old.metadata.uid:
        delete_rs(rsc, Tombstone(object_key(old), old))
    rsc.queue.add(object_key(cur))


def delete_rs(rsc: ReplicaSetController[W], obj: W | Tombstone[W]) -> None:
    """A set is gone: a new one of its name must not inherit what this one expects."""
    rs = last_state(obj)
    key = object_key(rs)
    rsc.consistency.clear(key, rs.metadata.uid)
    rsc.expectations.delete_expectations(key)
    rsc.queue.add(key)


# %% book/07_replicaset.ipynb#a5341e7d
def resolve_controller_ref(
    rsc: ReplicaSetController[W], namespace: str, ref: OwnerReference
) -> W | None:
    """Find the set that a reference means: by name, then make sure that it is the same one."""
    if ref.kind != rsc.kind.type.KIND:
        return None
    rs = rsc.sets.indexer.get(f"{namespace}/{ref.name}")
    return rs if rs is not None and rs.metadata.uid == ref.uid else None


def get_pod_replica_sets(rsc: ReplicaSetController[W], pod: Pod) -> list[W]:
    """Return the sets that would take an orphan; an empty selector takes nothing."""
    meta, found = pod.metadata, []
    if not meta.labels:
        return []
    for rs in rsc.sets.indexer.by_index(NAMESPACE_INDEX, meta.namespace):
        try:
            selector = rsc.kind.selector(rs)
        except SelectorError:
            return []
        if not selector.empty and selector.matches(meta.labels):
            found.append(rs)
    return found


# %% book/07_replicaset.ipynb#259612ec
def add_pod(rsc: ReplicaSetController[W], pod: Pod, initial: bool = False) -> None:
    """A pod is new: one creation less to expect. After a restart it may be on its way out."""
    if pod.metadata.deletion_timestamp is not None:
        delete_pod(rsc, pod)
        return
    ref = controller_of(pod)
    if ref is None:
        for rs in get_pod_replica_sets(rsc, pod):
            rsc.queue.add(object_key(rs))
    elif (owner := resolve_controller_ref(rsc, pod.metadata.namespace, ref)) is not None:
        key = object_key(owner)
        rsc.expectations.creation_observed(key)
        rsc.queue.add(key)


def delete_pod(rsc: ReplicaSetController[W], obj: Pod | Tombstone[Pod]) -> None:
    """A pod is gone or going: one deletion less to expect. Nobody cares about orphans."""
    pod = last_state(obj)
    ref = controller_of(pod)
    if ref is None:
        return
    owner = resolve_controller_ref(rsc, pod.metadata.namespace, ref)
    if owner is not None:
        key = object_key(owner)
        rsc.expectations.deletion_observed(key, object_key(pod))
        rsc.queue.add(key)


# %% book/07_replicaset.ipynb#9db75323
def update_pod(rsc: ReplicaSetController[W], old: Pod, cur: Pod) -> None:
    """A pod has changed: wake its set; if labels or owner changed, all that are concerned."""
    before, after = old.metadata, cur.metadata
    if before.resource_version == after.resource_version:
        return  # only a reminder
    if after.deletion_timestamp is not None:
        delete_pod(rsc, cur)  # do not wait for the kubelet
        if before.labels != after.labels:
            delete_pod(rsc, old)
        return
    old_ref = controller_of(old)
    ref = old_ref if before.owner_references is after.owner_references else controller_of(cur)
    if old_ref != ref and old_ref is not None:
        previous = resolve_controller_ref(rsc, before.namespace, old_ref)
        if previous is not None:
            rsc.queue.add(object_key(previous))
    if ref is not None:
        owner = resolve_controller_ref(rsc, after.namespace, ref)
        if owner is not None:
            _wake_owner(rsc, owner, old, cur)
    elif before.labels != after.labels or old_ref is not None:
        for rs in get_pod_replica_sets(rsc, cur):
            rsc.queue.add(object_key(rs))


def _wake_owner(rsc: ReplicaSetController[W], owner: W, old: Pod, cur: Pod) -> None:
    """Sync now, and once more when a pod that has just become ready will be available."""
    key, wait = object_key(owner), owner.spec.min_ready_seconds
    rsc.queue.add(key)
    if wait > 0 and not is_pod_ready(old) and is_pod_ready(cur):
        margin = 0 if rsc.gates.next_availability_check else 1
        rsc.queue.add_after(key, wait + margin)
