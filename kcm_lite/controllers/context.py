"""What every controller is built from, and which controllers there are.

A controller is built first, so that it can ask for its informers, and run later, when they have
been started. See: upstream ``cmd/kube-controller-manager/app`` (ControllerContext).
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kcm_lite.client.clientset import Client
from kcm_lite.client.informer import SharedInformerFactory
from kcm_lite.clock import Clock
from kcm_lite.controllers import garbagecollector, replicaset, replication
from kcm_lite.controllers.replicaset_types import REPLICA_SET, ReplicaSetGates
from kcm_lite.trace import Trace

Run = Callable[[], Awaitable[None]]
"""Starts a controller's workers when its caches are filled."""


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """What a controller gets.

    Attributes:
        clock: Its time.
        trace: Where it records what it does.
        client_for: Makes a client under a user agent, with a token bucket of its own.
        informers: The caches that all controllers share.
        gates: Which release the ReplicaSet controllers follow.
        rng: For jitter.
    """

    clock: Clock
    trace: Trace | None
    client_for: Callable[[str], Client]
    informers: SharedInformerFactory
    gates: ReplicaSetGates
    rng: random.Random


def build_replica_set(context: ControllerContext) -> Run:
    """Build the ReplicaSet controller."""
    client = context.client_for(REPLICA_SET.agent)
    controller = replicaset.new_replica_set_controller(
        client, context.informers, context.clock, gates=context.gates, trace=context.trace
    )
    return lambda: replicaset.run(controller)


def build_replication_manager(context: ControllerContext) -> Run:
    """Build the controller of ReplicationControllers."""
    client = context.client_for(replication.REPLICATION_CONTROLLER.agent)
    controller = replication.new_replication_manager(
        client, context.informers, context.clock, gates=context.gates, trace=context.trace
    )
    return lambda: replicaset.run(controller)


def build_garbage_collector(context: ControllerContext) -> Run:
    """Build the garbage collector."""
    client = context.client_for(garbagecollector.NAME)
    collector = garbagecollector.new_garbage_collector(
        client, context.informers, context.clock, trace=context.trace
    )

    async def run() -> None:
        await context.informers.wait_for_cache_sync()
        garbagecollector.run(collector)

    return run


CONTROLLERS: dict[str, Callable[[ControllerContext], Run]] = {
    "replicaset-controller": build_replica_set,
    "replicationcontroller-controller": build_replication_manager,
    "garbage-collector-controller": build_garbage_collector,
}
"""The controllers by the names that ``--controllers`` knows."""
