"""What every controller is built from, and which controllers there are.

A controller is built first, so that it can ask for its informers, and run later, when they have
been started. See: upstream ``cmd/kube-controller-manager/app`` (ControllerContext).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypedDict, TypeVar

from kcm_lite.client.clientset import Client
from kcm_lite.client.informer import SharedInformerFactory
from kcm_lite.client.metrics import Registry
from kcm_lite.clock import Clock
from kcm_lite.controllers import (
    deployment,
    deployment_types,
    garbageattempts,
    garbagecollector,
    garbagedump,
    job,
    job_types,
    replicaset,
    replicaset_types,
    replication,
    ttlafterfinished,
)
from kcm_lite.trace import Trace

T = TypeVar("T")

Run = Callable[[], Coroutine[Any, Any, None]]
"""Starts a controller's workers when its caches are filled."""

DebugHandler = Callable[[str, Mapping[str, Sequence[str]]], tuple[str, str] | None]
"""Answers a path and a query with content type and body; None: there is no such path."""


@dataclass(frozen=True, slots=True)
class MetricsGates:
    """What changed in the numbers of all controllers; by default as in v1.36.

    Attributes:
        limiter: How the gauge ends that a controller has for its client's limiter; empty: there is
            none. It went in v1.26, because nobody had ever set it.
    """

    limiter: str = ""


@dataclass(frozen=True, slots=True)
class Gates:
    """Which release the controllers follow: the switches of each; by default today's."""

    replica_set: replicaset_types.ReplicaSetGates = replicaset_types.TODAY
    deployment: deployment_types.DeploymentGates = deployment_types.TODAY
    job: job_types.JobGates = job_types.TODAY
    metrics: MetricsGates = MetricsGates()


TODAY = Gates()  # as v1.36 has it
RELEASE_1_22 = Gates(
    replicaset_types.RELEASE_1_22,
    deployment_types.RELEASE_1_22,
    job_types.RELEASE_1_22,
    MetricsGates(limiter="rate_limiter_use"),
)


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """What a controller gets.

    Attributes:
        clock: Its time.
        trace: Where it records what it does.
        client_for: Makes a client under a user agent, with a token bucket of its own.
        informers: The caches that all controllers share.
        gates: Which release they follow.
        rng: For jitter.
        settings: What the command line says, by flag; empty: there was none.
        metrics: Where it counts; None: nowhere.
        debug_handlers: Where a controller leaves its own, by its name.
    """

    clock: Clock
    trace: Trace | None
    client_for: Callable[[str], Client]
    informers: SharedInformerFactory
    gates: Gates
    rng: random.Random
    settings: Mapping[str, Any] = field(default_factory=dict)
    metrics: Registry | None = None
    debug_handlers: dict[str, DebugHandler] = field(default_factory=dict)

    def setting(self, flag: str, default: T) -> T:
        """Return a flag's value; the controller's own default if there is no command line."""
        value: T = self.settings.get(flag, default)
        return value


def new_client(context: ControllerContext, agent: str) -> Client:
    """Return a controller's client; with v1.22's numbers, a gauge for its limiter that stays 0."""
    client, ending = context.client_for(agent), context.gates.metrics.limiter
    if context.metrics is not None and ending and client.qps > 0:
        owner = agent.replace("-", "_")
        text = f"A metric measuring the saturation of the rate limiter for {owner}"
        context.metrics.gauge(f"{owner}_{ending}", text).with_labels()
    return client


class Told(TypedDict):
    """What a controller tells of itself, and where."""

    trace: Trace | None
    metrics: Registry | None


def told(context: ControllerContext) -> Told:
    """Return where a controller tells what it does."""
    return {"trace": context.trace, "metrics": context.metrics}


def build_replica_set(context: ControllerContext) -> Run:
    """Build the ReplicaSet controller."""
    client = new_client(context, replicaset_types.REPLICA_SET.agent)
    controller = replicaset.new_replica_set_controller(
        client, context.informers, context.clock, gates=context.gates.replica_set, **told(context)
    )
    return partial(replicaset.run, controller, context.setting("concurrent-replicaset-syncs", 5))


def build_replication_manager(context: ControllerContext) -> Run:
    """Build the controller of ReplicationControllers."""
    client = new_client(context, replication.REPLICATION_CONTROLLER.agent)
    controller = replication.new_replication_manager(
        client, context.informers, context.clock, gates=context.gates.replica_set, **told(context)
    )
    return partial(replicaset.run, controller, context.setting("concurrent_rc_syncs", 5))


def build_deployment(context: ControllerContext) -> Run:
    """Build the Deployment controller."""
    client = new_client(context, deployment_types.AGENT)
    controller = deployment.new_deployment_controller(
        client, context.informers, context.clock, gates=context.gates.deployment, **told(context)
    )
    return partial(deployment.run, controller, context.setting("concurrent-deployment-syncs", 5))


def build_job(context: ControllerContext) -> Run:
    """Build the Job controller."""
    client = new_client(context, job_types.AGENT)
    controller = job.new_job_controller(
        client, context.informers, context.clock, gates=context.gates.job, **told(context)
    )
    return partial(job.run, controller, context.setting("concurrent-job-syncs", 5))


def build_ttl_after_finished(context: ControllerContext) -> Run:
    """Build the controller that deletes finished Jobs."""
    client = new_client(context, ttlafterfinished.AGENT)
    controller = ttlafterfinished.new_ttl_controller(
        client, context.informers, context.clock, **told(context)
    )
    workers = context.setting("concurrent-ttl-after-finished-syncs", 5)
    return partial(ttlafterfinished.run, controller, workers)


def build_garbage_collector(context: ControllerContext) -> Run:
    """Build the garbage collector."""
    client = context.client_for(garbageattempts.NAME)
    collector = garbagecollector.new_garbage_collector(
        client, context.informers, context.clock, **told(context)
    )
    handler = partial(garbagedump.answer, collector.graph)
    context.debug_handlers["garbage-collector-controller"] = handler

    async def run() -> None:
        await context.informers.wait_for_cache_sync()
        garbagecollector.run(collector, context.setting("concurrent-gc-syncs", 20))

    return run


CONTROLLERS: dict[str, Callable[[ControllerContext], Run]] = {
    "deployment-controller": build_deployment,
    "job-controller": build_job,
    "replicaset-controller": build_replica_set,
    "replicationcontroller-controller": build_replication_manager,
    "ttl-after-finished-controller": build_ttl_after_finished,
    "garbage-collector-controller": build_garbage_collector,
}
"""The controllers by the names that ``--controllers`` knows."""
