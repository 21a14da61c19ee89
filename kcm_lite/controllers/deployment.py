# Generated from book/09_deployment.ipynb by tools/tangle.py; edit it there.

"""The Deployment controller: one set a template, and the way from one to the next.

See: chapter *Deployment*; upstream ``pkg/controller/deployment``.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

from kcm_lite.api.apps import Deployment, ReplicaSet
from kcm_lite.api.core import Pod
from kcm_lite.api.errors import StatusError
from kcm_lite.api.meta import LabelSelector, controller_of, object_key, replace
from kcm_lite.api.selectors import SelectorError, label_selector_as_selector
from kcm_lite.api.validation.deployment import RECREATE, ROLLING_UPDATE
from kcm_lite.client.cache import CONTROLLER_UID_INDEX, index_by_controller_uid
from kcm_lite.client.clientset import Client
from kcm_lite.client.events import EventRecorder
from kcm_lite.client.informer import SharedInformer, SharedInformerFactory
from kcm_lite.client.metrics import Registry, queue_metrics
from kcm_lite.client.workqueue import RateLimitingQueue
from kcm_lite.clock import Clock
from kcm_lite.controllers import deployment_handlers as handlers
from kcm_lite.controllers.deployment_history import rollback, rollback_to
from kcm_lite.controllers.deployment_rolling import rollout_recreate, rollout_rolling
from kcm_lite.controllers.deployment_scale import check_paused_conditions, is_scaling_event, sync
from kcm_lite.controllers.deployment_sets import get_all_replica_sets_and_sync_revision
from kcm_lite.controllers.deployment_status import sync_deployment_status
from kcm_lite.controllers.deployment_types import (
    AGENT,
    TODAY,
    DeploymentController,
    DeploymentGates,
    View,
    decide,
)
from kcm_lite.controllers.rollout import by_creation
from kcm_lite.reconcile.podcontrol import is_namespace_terminating
from kcm_lite.reconcile.podutil import POD_CONTROLLER_INDEX, index_by_pod_controller
from kcm_lite.reconcile.refmanager import (
    ControllerRefManager,
    claim_objects,
    recheck_deletion_timestamp,
)
from kcm_lite.reconcile.worker import is_panic, start_workers
from kcm_lite.trace import Trace


# %% book/09_deployment.ipynb#d3d730e4
async def sync_deployment(dc: DeploymentController, key: str) -> None:
    """Bring one Deployment a step further: at most one kind of change a sync, and the status.

    Raises:
        ValueError: The selector or the strategy is not valid.
        Exception: What a claim, a write or the status failed with; the next sync goes on.
    """
    d = dc.deployments.indexer.get(key)
    if d is None:
        return
    if d.spec.selector == LabelSelector():
        await refuse_to_select_all(dc, d)
        return
    view = View(d, await claim_replica_sets(dc, d))
    if d.metadata.deletion_timestamp is not None:
        await sync_status_only(dc, view)
        return
    await check_paused_conditions(dc, view)
    if d.spec.paused:
        decide(dc, d, "paused", d, "it may be scaled, but gets no new set")
        await sync(dc, view)
    elif (wish := rollback_to(view.d)) is not None:
        await rollback(dc, view, wish)
    elif await is_scaling_event(dc, view):
        await sync(dc, view)
    elif d.spec.strategy.type == RECREATE:
        await rollout_recreate(dc, view)
    elif d.spec.strategy.type == ROLLING_UPDATE:
        await rollout_rolling(dc, view)
    else:
        raise ValueError(f"unexpected deployment strategy type: {d.spec.strategy.type}")


# %% book/09_deployment.ipynb#6532b11f
async def sync_status_only(dc: DeploymentController, view: View) -> None:
    """Keep the status of a Deployment that is being deleted true, and do nothing else."""
    new, old = await get_all_replica_sets_and_sync_revision(dc, view, create=False)
    await sync_deployment_status(dc, view, new, old)


async def refuse_to_select_all(dc: DeploymentController, d: Deployment) -> None:
    """Tell that an empty selector is not served; validation lets none in."""
    message = "This deployment is selecting all pods. A non-empty selector is required."
    dc.recorder.event(d, "Warning", "SelectingAll", message)
    if d.status.observed_generation < d.metadata.generation:
        status = replace(d.status, observed_generation=d.metadata.generation)
        with suppress(StatusError, OSError):
            await dc.client.update_status(replace(d, status=status))


# %% book/09_deployment.ipynb#5a3399fd
async def claim_replica_sets(dc: DeploymentController, d: Deployment) -> list[ReplicaSet]:
    """Adopt orphans, release strangers, return the Deployment's sets, the oldest first."""
    try:
        selector = label_selector_as_selector(d.spec.selector)
    except SelectorError as error:
        raise ValueError(
            f"deployment {object_key(d)} has invalid label selector: {error}"
        ) from error

    async def patch(rs: ReplicaSet, body: dict[str, Any]) -> None:
        meta = rs.metadata
        await dc.client.patch(ReplicaSet, meta.namespace, meta.name, body, patch_type="strategic")
        what = "adopt" if controller_of(rs) is None else "release"
        decide(dc, d, what, rs, f"by the selector {selector}")

    async def can_adopt() -> None:
        await recheck_deletion_timestamp(dc.client, d)

    manager = ControllerRefManager(d, selector, can_adopt, patch)
    indexer = dc.sets.indexer
    sets = indexer.by_index(CONTROLLER_UID_INDEX, d.metadata.uid)
    orphans = indexer.by_index(ORPHAN_INDEX, d.metadata.namespace)
    return by_creation(await claim_objects(manager, [*sets, *orphans]))


# %% book/09_deployment.ipynb#071b76f4
MAX_RETRIES = 15
"""Failures in a row after which a key is dropped until something happens to it."""


async def sync_or_give_up(dc: DeploymentController, key: str) -> None:
    """Sync a key; swallow the error of the sixteenth failure, and of a namespace that is going."""
    try:
        await sync_deployment(dc, key)
    except Exception as error:
        if is_namespace_terminating(error):
            return
        if is_panic(error) or dc.queue.num_requeues(key) < MAX_RETRIES:
            raise
        d = dc.deployments.indexer.get(key)
        if d is not None:
            decide(dc, d, "give up", d, f"failed {MAX_RETRIES + 1} times in a row: {error}")


# %% book/09_deployment.ipynb#823d7e48
ORPHAN_INDEX = "orphan"
"""Name of the index that finds the sets of a namespace that nobody controls."""


def index_orphans(rs: ReplicaSet) -> tuple[str, ...]:
    """Index under the namespace if nobody controls the set."""
    return (rs.metadata.namespace,) if controller_of(rs) is None else ()


def new_deployment_controller(
    client: Client,
    informers: SharedInformerFactory,
    clock: Clock,
    *,
    gates: DeploymentGates = TODAY,
    trace: Trace | None = None,
    metrics: Registry | None = None,
) -> DeploymentController:
    """Build the controller and subscribe it; ``run`` starts it."""
    deployments, sets = informers.informer(Deployment), informers.informer(ReplicaSet)
    pods, told = informers.informer(Pod), queue_metrics(metrics, "deployment", clock)
    dc = DeploymentController(
        client=client,
        recorder=EventRecorder(client, clock, AGENT),
        deployments=deployments,
        sets=sets,
        pods=pods,
        queue=RateLimitingQueue("deployment", clock=clock, trace=trace, metrics=told),
        clock=clock,
        gates=gates,
        trace=trace,
    )
    subscribe(dc, deployments, sets, pods)
    return dc


# %% book/09_deployment.ipynb#41bcb7a7
def subscribe(
    dc: DeploymentController,
    deployments: SharedInformer[Deployment],
    sets: SharedInformer[ReplicaSet],
    pods: SharedInformer[Pod],
) -> None:
    """Have the caches indexed as the controller reads them, and the handlers called."""
    sets.add_indexers({CONTROLLER_UID_INDEX: index_by_controller_uid, ORPHAN_INDEX: index_orphans})
    pods.add_indexers({POD_CONTROLLER_INDEX: index_by_pod_controller})
    deployments.add_event_handler(
        partial(handlers.add_deployment, dc),
        partial(handlers.update_deployment, dc),
        partial(handlers.delete_deployment, dc),
    )
    sets.add_event_handler(
        partial(handlers.add_replica_set, dc),
        partial(handlers.update_replica_set, dc),
        partial(handlers.delete_replica_set, dc),
    )
    pods.add_event_handler(on_delete=partial(handlers.delete_pod, dc))


# %% book/09_deployment.ipynb#38f99165
async def run(dc: DeploymentController, workers: int = 5) -> None:
    """Start ``workers`` workers once the three caches hold their first list."""
    for filled in (dc.deployments, dc.sets, dc.pods):
        await filled.processor.synced.wait()
    start_workers(
        dc.queue,
        partial(sync_or_give_up, dc),
        workers,
        clock=dc.clock,
        trace=dc.trace,
        controller=AGENT,
    )
