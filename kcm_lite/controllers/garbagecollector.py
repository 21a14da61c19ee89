# Generated from book/11a_garbage_collection.ipynb by tools/tangle.py; edit it there.

"""Deletes what has lost its owners, along owner references, with three propagation policies.

See: chapter *Garbage collection*; upstream ``pkg/controller/garbagecollector``.
"""

from typing import Any

from kcm_lite.api.core import Event
from kcm_lite.api.meta import Object, ObjectMeta, OwnerReference
from kcm_lite.api.scheme import RESOURCES
from kcm_lite.client.cache import Tombstone
from kcm_lite.client.clientset import Client
from kcm_lite.client.events import EventRecorder
from kcm_lite.client.informer import SharedInformerFactory
from kcm_lite.client.metrics import Registry, queue_metrics
from kcm_lite.client.workqueue import RateLimitingQueue
from kcm_lite.clock import Clock
from kcm_lite.controllers.garbageattempts import (
    NAME,
    GarbageCollector,
    attempt_to_delete,
    attempt_to_orphan,
    resource_for,
)
from kcm_lite.controllers.garbagegraph import (
    Graph,
    Identity,
    Node,
    coordinates,
    identity_of,
    process_delete,
    process_update,
)
from kcm_lite.reconcile.worker import start_workers
from kcm_lite.trace import Trace

# %% book/11a_garbage_collection.ipynb#c40d744a
SYNC_ERRORS = (
    "garbagecollector_controller_resources_sync_error_total",
    "Number of garbage collector resources sync errors",
)


def new_garbage_collector(
    client: Client,
    informers: SharedInformerFactory,
    clock: Clock,
    *,
    trace: Trace | None = None,
    metrics: Registry | None = None,
) -> GarbageCollector:
    """Build the collector and let it watch every kind except events."""
    queues = [
        RateLimitingQueue[Node](
            name, clock=clock, trace=trace, metrics=queue_metrics(metrics, name, clock)
        )
        for name in ("garbage_collector_attempt_to_delete", "garbage_collector_attempt_to_orphan")
    ]
    recorder = EventRecorder(client, clock, "garbage-collector-controller")

    def invalid_namespace(node: Node, ref: OwnerReference) -> None:
        here = node.identity.namespace
        wrong = coordinates(ref, here)
        text = f'ownerRef {wrong} does not exist in namespace "{here}"'
        recorder.event(stand_in(node.identity), "Warning", "OwnerRefInvalidNamespace", text)

    if metrics is not None:
        metrics.counter(*SYNC_ERRORS).with_labels()  # kinds are known, so it stays 0
    delete, orphan = queues
    graph = Graph(delete.add, orphan.add, delete.add_rate_limited, invalid_namespace)
    gc = GarbageCollector(client, clock, graph, delete, orphan, trace)
    for resource in RESOURCES:
        if resource.type is not Event:
            monitor(gc, informers, resource.type)
    return gc


# %% book/11a_garbage_collection.ipynb#cd68ad30
def monitor(gc: GarbageCollector, informers: SharedInformerFactory, kind: type[Object]) -> None:
    """Feed the graph with what the watch of one kind shows."""

    def on_update(old: Object, new: Object) -> None:
        process_update(gc.graph, old, new)

    def on_add(new: Object, is_initial: bool) -> None:
        process_update(gc.graph, None, new)

    def on_delete(gone: Object | Tombstone[Any]) -> None:
        obj = gone.obj if isinstance(gone, Tombstone) else gone
        process_delete(gc.graph, identity_of(obj))

    informers.informer(kind).add_event_handler(
        on_add=on_add, on_update=on_update, on_delete=on_delete
    )


def stand_in(identity: Identity) -> Object:
    """Return an object that stands for ``identity`` where only its name matters: in an event."""
    kind = resource_for(identity.api_version, identity.kind).type
    meta = ObjectMeta(namespace=identity.namespace, name=identity.name, uid=identity.uid)
    return kind(metadata=meta)


# %% book/11a_garbage_collection.ipynb#9944138d
def run(gc: GarbageCollector, workers: int = 20) -> None:
    """Start ``workers`` for each of the two queues (``--concurrent-gc-syncs``)."""

    async def delete_one(node: Node) -> None:
        await attempt_to_delete(gc, node)

    async def orphan_one(node: Node) -> None:
        await attempt_to_orphan(gc, node)

    clock, trace = gc.clock, gc.trace
    start_workers(
        gc.attempt_to_delete, delete_one, workers, clock=clock, trace=trace, controller=NAME
    )
    start_workers(
        gc.attempt_to_orphan, orphan_one, workers, clock=clock, trace=trace, controller=NAME
    )
