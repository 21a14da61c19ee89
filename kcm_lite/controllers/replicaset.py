# Generated from book/07_replicaset.ipynb by tools/tangle.py; edit it there.

"""The ReplicaSet controller: so many pods of one template, no more and no less.

See: chapter *ReplicaSet*; upstream ``pkg/controller/replicaset``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from kcm_lite.api.apps import ReplicaSet
from kcm_lite.api.core import Pod
from kcm_lite.api.meta import OwnerReference, controller_of, object_key
from kcm_lite.api.scheme import resource_of
from kcm_lite.api.selectors import Selector, SelectorError
from kcm_lite.client.cache import CONTROLLER_UID_INDEX, index_by_controller_uid
from kcm_lite.client.clientset import Client
from kcm_lite.client.events import EventRecorder
from kcm_lite.client.informer import Cache, SharedInformer, SharedInformerFactory
from kcm_lite.client.metrics import Family, Registry, queue_metrics
from kcm_lite.client.workqueue import RateLimitingQueue
from kcm_lite.clock import Clock
from kcm_lite.controllers import replicaset_handlers as handlers
from kcm_lite.controllers.replicaset_manage import manage_replicas
from kcm_lite.controllers.replicaset_status import (
    calculate_status,
    plan_availability_check,
    update_replica_set_status,
)
from kcm_lite.controllers.replicaset_types import (
    BURST_REPLICAS,
    REPLICA_SET,
    TODAY,
    Found,
    ReplicaSetController,
    ReplicaSetGates,
    ReplicaSetMetrics,
    W,
    WorkloadKind,
    decide,
)
from kcm_lite.reconcile.consistency import ConsistencyError, ConsistencyStore
from kcm_lite.reconcile.expectations import UIDTrackingControllerExpectations
from kcm_lite.reconcile.podcontrol import RealPodControl, new_controller_ref
from kcm_lite.reconcile.podtally import ACTIVE, ENDED, PodState, keep_tally, state_of
from kcm_lite.reconcile.podutil import (
    POD_CONTROLLER_INDEX,
    filter_active_pods,
    filter_claimed_pods,
    filter_pods_by_owner,
    filter_terminating_pods,
    index_by_pod_controller,
)
from kcm_lite.reconcile.refmanager import (
    ControllerRefManager,
    claim_objects,
    recheck_deletion_timestamp,
)
from kcm_lite.reconcile.worker import start_workers
from kcm_lite.trace import Trace


# %% book/07_replicaset.ipynb#432dfe47
async def sync_replica_set(rsc: ReplicaSetController[W], key: str) -> None:
    """Bring one set's pods to the wanted number, then its status to what was seen.

    Raises:
        ConsistencyError: The caches have not yet seen the last sync's writes; nothing was done.
        Exception: What a claim, a creation, a deletion or the status write failed with.
    """
    stale = None if rsc.metrics is None else rsc.metrics.stale_syncs
    ensure_ready(rsc.consistency, key, stale)
    rs = rsc.sets.indexer.get(key)
    if rs is None:
        rsc.consistency.clear(key)
        rsc.expectations.delete_expectations(key)
        return
    may_act = rsc.expectations.satisfied_expectations(key)
    try:
        selector = rsc.kind.selector(rs)
    except SelectorError:
        return  # a retry would not help
    found = find_pods(rsc, rs, selector) or await claim_pods(rsc, rs, selector)
    error = None
    if not may_act:
        _record_wait(rsc, key)
    elif rs.metadata.deletion_timestamp is None:
        error = await manage_replicas(rsc, rs, found)
    now = rsc.clock.now()
    status = calculate_status(rsc, rs, found, error, now)
    updated = await update_replica_set_status(rsc, rs, status)
    version, resource = updated.metadata.resource_version, resource_of(rs).group_resource
    rsc.consistency.wrote_at(key, rs.metadata.uid, resource, version)
    if error is not None:
        raise error
    plan_availability_check(rsc, updated, found, now)


# %% book/07_replicaset.ipynb#432dfe01
def ensure_ready(consistency: ConsistencyStore, key: str, stale_syncs: Family[Any] | None) -> None:
    """Raise ``ConsistencyError`` while a cache is behind the last sync's writes; count that."""
    try:
        consistency.ensure_ready(key)
    except ConsistencyError as error:
        if stale_syncs is not None:
            resource, _, group = error.resource.partition(".")
            stale_syncs.with_labels(group, resource).inc()
        raise


def _record_wait(rsc: ReplicaSetController[W], key: str) -> None:
    counts = rsc.expectations.get(key)
    if counts is not None:
        text = f"still to be seen: {counts.add} creations, {counts.dele} deletions"
        decide(rsc, key, "wait", key, text)


# %% book/07_replicaset.ipynb#6923024b
def find_pods(rsc: ReplicaSetController[W], rs: W, selector: Selector) -> Found | None:
    """Return the set's pods from the tally; None if some must be adopted or released first."""
    meta, matches = rs.metadata, dict[frozenset[tuple[str, str]], bool]()

    def selected(state: PodState) -> bool:
        if state.labels not in matches:
            matches[state.labels] = selector.matches(dict(state.labels))
        return matches[state.labels]

    mine = rsc.tally.of(meta.namespace, new_controller_ref(rs))
    orphans = rsc.tally.of(meta.namespace, None)
    if any(state.phase == ACTIVE and not selected(state) for state in mine):
        return None
    if any(state.phase == ACTIVE and selected(state) for state in orphans):
        return None
    counted = {s: n for s, n in mine.items() if s.phase != ENDED and selected(s)}
    return Found(counted)


async def claim_pods(rsc: ReplicaSetController[W], rs: W, selector: Selector) -> Found:
    """Look at every pod: adopt orphans, release strangers, return what is the set's now."""
    every = filter_pods_by_owner(rsc.pods.indexer, rs, orphans=True)
    key = object_key(rs)

    async def patch(pod: Pod, body: dict[str, Any]) -> None:
        await rsc.pod_control.patch_pod(pod.metadata.namespace, pod.metadata.name, body)
        what = "adopt" if controller_of(pod) is None else "release"
        why = "matches" if what == "adopt" else "no longer matches"
        decide(rsc, key, what, object_key(pod), f"{why} the selector {selector}")

    async def can_adopt() -> None:
        await recheck_deletion_timestamp(rsc.client, rs)

    manager = ControllerRefManager(rs, selector, can_adopt, patch)
    active: list[Pod] = await claim_objects(manager, filter_active_pods(every))
    terminating: list[Pod] = filter_claimed_pods(rs, selector, filter_terminating_pods(every))
    states: Counter[PodState] = Counter(state_of(pod) for pod in [*active, *terminating])
    return Found(states, active)


# %% book/07_replicaset.ipynb#e4056436
def caches_of(sets: Cache[W], pods: Cache[Pod]) -> dict[str, Callable[[], str]]:
    """Return for each kind that the controller writes how far its cache has read."""
    return {
        "pods": lambda: pods.last_resource_version,
        resource_of(sets.kind).group_resource: lambda: sets.last_resource_version,
    }


def note_write(consistency: ConsistencyStore, pod: Pod, ref: OwnerReference | None) -> None:
    """Remember a pod's write for the set that the pod belongs to."""
    if ref is not None:
        meta = pod.metadata
        owner = f"{meta.namespace}/{ref.name}"
        consistency.wrote_at(owner, ref.uid, "pods", meta.resource_version)


def subscribe(
    rsc: ReplicaSetController[W], sets: SharedInformer[W], pods: SharedInformer[Pod]
) -> None:
    """Have the caches indexed as the controller reads them, and the handlers called."""
    sets.add_indexers({CONTROLLER_UID_INDEX: index_by_controller_uid})
    pods.add_indexers({POD_CONTROLLER_INDEX: index_by_pod_controller})
    sets.add_event_handler(
        partial(handlers.add_rs, rsc),
        partial(handlers.update_rs, rsc),
        partial(handlers.delete_rs, rsc),
    )
    pods.add_event_handler(
        partial(handlers.add_pod, rsc),
        partial(handlers.update_pod, rsc),
        partial(handlers.delete_pod, rsc),
    )


# %% book/07_replicaset.ipynb#74f6fbe4
def new_base_controller(
    kind: WorkloadKind[W],
    client: Client,
    informers: SharedInformerFactory,
    clock: Clock,
    *,
    burst_replicas: int = BURST_REPLICAS,
    gates: ReplicaSetGates = TODAY,
    trace: Trace | None = None,
    metrics: Registry | None = None,
) -> ReplicaSetController[W]:
    """Build a controller for ``kind`` and subscribe it to sets and pods; nothing runs yet."""
    sets, pods = informers.informer(kind.type), informers.informer(Pod)
    told = queue_metrics(metrics, kind.queue, clock)
    guarded = kind.consistency and gates.stale_controller_consistency
    consistency = ConsistencyStore(caches_of(sets, pods) if guarded else {})
    recorder = EventRecorder(client, clock, kind.agent)
    rsc = ReplicaSetController(
        kind=kind,
        client=client,
        pod_control=RealPodControl(client, recorder, partial(note_write, consistency)),
        sets=sets,
        pods=pods,
        tally=keep_tally(pods, kind.type.KIND),
        queue=RateLimitingQueue(kind.queue, clock=clock, trace=trace, metrics=told),
        expectations=UIDTrackingControllerExpectations(clock, trace=trace, controller=kind.agent),
        consistency=consistency,
        clock=clock,
        burst_replicas=burst_replicas,
        gates=gates,
        trace=trace,
        metrics=None if metrics is None else ReplicaSetMetrics(metrics),
    )
    subscribe(rsc, sets, pods)
    return rsc


# %% book/07_replicaset.ipynb#f08422b2
def new_replica_set_controller(
    client: Client,
    informers: SharedInformerFactory,
    clock: Clock,
    *,
    burst_replicas: int = BURST_REPLICAS,
    gates: ReplicaSetGates = TODAY,
    trace: Trace | None = None,
    metrics: Registry | None = None,
) -> ReplicaSetController[ReplicaSet]:
    """Build the ReplicaSet controller (see `new_base_controller`); ``run`` starts it."""
    return new_base_controller(
        REPLICA_SET,
        client,
        informers,
        clock,
        burst_replicas=burst_replicas,
        gates=gates,
        trace=trace,
        metrics=metrics,
    )


async def run(rsc: ReplicaSetController[W], workers: int = 5) -> None:
    """Start ``workers`` workers once both caches hold their first list."""
    await rsc.sets.processor.synced.wait()
    await rsc.pods.processor.synced.wait()
    start_workers(
        rsc.queue,
        partial(sync_replica_set, rsc),
        workers,
        clock=rsc.clock,
        trace=rsc.trace,
        controller=rsc.kind.agent,
    )
