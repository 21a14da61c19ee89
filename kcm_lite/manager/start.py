"""From a completed config to controllers: what each is built from, which are built, the start.

See: chapter *Options to config*, *What reads it*; upstream ``CreateControllerContext``,
``BuildControllers`` and ``RunControllers``.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from kcm_lite.client.informer import SharedInformerFactory
from kcm_lite.client.metrics import ClientMetrics, Registry
from kcm_lite.client.transport import Transport
from kcm_lite.clock import Clock
from kcm_lite.controllers.context import RELEASE_1_22, TODAY, ControllerContext, Gates, Run
from kcm_lite.manager.config import CompletedConfig, Config
from kcm_lite.manager.featuregates import FeatureGates
from kcm_lite.manager.files import read
from kcm_lite.manager.flags import flags_of
from kcm_lite.manager.options import NAME
from kcm_lite.manager.registry import (
    ControllerDescriptor,
    disabled_by_default,
    is_controller_enabled,
    new_controller_descriptors,
)
from kcm_lite.trace import Note, Trace

BEHAVIOURS = {
    "replica_set.pod_deletion_cost": "PodDeletionCost",
    "replica_set.logarithmic_scale_down": "LogarithmicScaleDown",
    "replica_set.terminating_replicas": "DeploymentReplicaSetTerminatingReplicas",
    "replica_set.stale_controller_consistency": "StaleControllerConsistencyReplicaSet",
    "replica_set.next_availability_check": "1.34",
    "replica_set.sidecar_restarts": "1.31",
    "deployment.terminating_replicas": "DeploymentReplicaSetTerminatingReplicas",
    "deployment.scaled_from": "1.31",
    "job.tracking_with_finalizers": "1.25",
    "job.pod_failure_backoff": "1.27",
    "job.queue_base": "1.27",
    "job.queue_maximum": "1.27",
    "job.clear_start_time": "MutableSchedulingDirectivesForSuspendedJobs",
    "job.stale_controller_consistency": "StaleControllerConsistencyJob",
}
"""The gate behind each switch of a controller, or the release that it came with: a gate that v1.36
has forgotten, or none at all."""


NOT_BUILT = "kcm_lite knows the name and has no such controller"


def gates_for(gates: FeatureGates) -> Gates:
    """Return the switches of the controllers that the gates ask for.

    A switch whose gate is off is false; a number is then that of 1.22.
    """

    def chosen(controller: str) -> Any:
        new, old = getattr(TODAY, controller), getattr(RELEASE_1_22, controller)
        off = {}
        for switch in fields(new):
            source = BEHAVIOURS.get(f"{controller}.{switch.name}", "1.0")
            on = gates.since(source) if source[0].isdigit() else gates.enabled(source)
            if not on:
                value = getattr(old, switch.name)
                off[switch.name] = False if isinstance(value, bool) else value
        return replace(new, **off)

    return Gates(**{part.name: chosen(part.name) for part in fields(Gates)})


@dataclass(frozen=True)
class ManagerContext:
    """What a manager builds its controllers from.

    Attributes:
        config: The completed config.
        controllers: What each controller gets.
        informers_started: Set when the informers have been started.
        skipped: The controllers that were not built, by name, with the reason.
    """

    config: Config
    controllers: ControllerContext
    informers_started: asyncio.Event = field(default_factory=asyncio.Event)
    skipped: dict[str, str] = field(default_factory=dict)


def new_context(
    completed: CompletedConfig,
    transport: Transport,
    clock: Clock,
    *,
    rng: random.Random,
    trace: Trace | None = None,
    metrics: Registry | None = None,
) -> ManagerContext:
    """Connect a config with a cluster: clients, informers, gates, settings and metrics."""
    config = completed.config
    requests = None if metrics is None else ClientMetrics(metrics, config.client.host)
    resync = config.component.generic.min_resync_period * (1 + rng.random())
    informers = SharedInformerFactory(
        config.client.new_client(transport, clock, "shared-informers", requests),
        clock,
        resync=resync,
        rng=rng,
        name="shared-informers",
        trace=trace,
    )
    controllers = ControllerContext(
        clock,
        trace,
        lambda agent: config.client.new_client(transport, clock, agent, requests),
        informers,
        gates_for(config.feature_gates),
        rng,
        {name: flag.value for name, flag in flags_of(config.component).items()},
        metrics,
    )
    return ManagerContext(config, controllers)


def new_controller(descriptor: ControllerDescriptor, context: ManagerContext) -> Run | None:
    """Build one controller; its ``Run`` starts it.

    Returns:
        None if it is skipped; the context then knows why.

    Raises:
        InvalidOptions: What it needs cannot be read.
    """
    reason = _skip(descriptor, context.config)
    if reason:
        context.skipped[descriptor.name] = reason
    elif descriptor.constructor:
        return descriptor.constructor(context.controllers)
    return None


def _skip(descriptor: ControllerDescriptor, config: Config) -> str:
    """Return why a controller is not built; nothing if it is."""
    gates, component = descriptor.required_feature_gates, config.component
    if not all(map(config.feature_gates.enabled, gates)):
        return f"disabled by a feature gate ({', '.join(gates)})"
    if descriptor.cloud_provider:
        return "a cloud provider's controller"
    if descriptor.special_handling:
        key = component.sa_controller.service_account_key_file
        if not key:
            return "disabled because there is no private key"
        read(key, "service-account-private-key-file")
    collects = component.garbage_collector_controller.enable_garbage_collector
    if descriptor.name == "garbage-collector-controller" and not collects:
        return "--enable-garbage-collector=false"
    return "" if descriptor.constructor else NOT_BUILT


def build_controllers(
    context: ManagerContext,
    descriptors: Mapping[str, ControllerDescriptor] | None = None,
    add_health_check: Callable[[str], None] = lambda name: None,
) -> dict[str, Run]:
    """Build all controllers that are wanted; the one that makes tokens comes first, in any case.

    Args:
        context: What they are built from.
        descriptors: Which there are; by default today's.
        add_health_check: Is told the name of each that was built.

    Raises:
        InvalidOptions: One of them cannot be built, so none is started.
    """
    if descriptors is None:
        descriptors = new_controller_descriptors()
    off, wanted = disabled_by_default(descriptors), context.config.component.generic.controllers
    built: dict[str, Run] = {}
    for name, descriptor in sorted(descriptors.items(), key=lambda d: not d[1].special_handling):
        if not descriptor.special_handling and not is_controller_enabled(name, off, wanted):
            context.skipped[name] = "disabled"
        elif (run := new_controller(descriptor, context)) is not None:
            built[name] = run
    for name in built:
        add_health_check(name)
    return built


async def run(
    context: ManagerContext,
    descriptors: Mapping[str, ControllerDescriptor] | None = None,
    add_health_check: Callable[[str], None] = lambda name: None,
) -> None:
    """Build the controllers, start the informers, then every controller after its own jitter.

    The arguments are those of `build_controllers`.
    """
    controllers = context.controllers
    built = build_controllers(context, descriptors, add_health_check)
    if controllers.trace is not None:
        text = f"{len(built)} controllers built, {len(context.skipped)} skipped"
        note = Note(controllers.clock.time(), NAME, text, {**context.skipped})
        controllers.trace.write(note)
    controllers.informers.start()
    context.informers_started.set()
    pause = context.config.component.generic.controller_start_interval

    async def start(name: str) -> None:
        await controllers.clock.sleep(pause * (1 + controllers.rng.random()))
        await built[name]()

    for name in built:
        controllers.clock.spawn(start(name), name=name)
