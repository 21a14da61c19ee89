"""From a completed config to controllers: what each is built from, which are built, the start.

See: chapter *Options to config*, *What reads it*; upstream ``CreateControllerContext``,
``BuildControllers`` and ``RunControllers``.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import get_type_hints

from kcm_lite.client.informer import SharedInformerFactory
from kcm_lite.client.transport import Transport
from kcm_lite.clock import Clock
from kcm_lite.controllers.context import ControllerContext, Gates, Run
from kcm_lite.manager.config import CompletedConfig, Config
from kcm_lite.manager.featuregates import FeatureGates
from kcm_lite.manager.files import read
from kcm_lite.manager.options import NAME, flags_of
from kcm_lite.manager.registry import (
    ControllerDescriptor,
    disabled_by_default,
    is_controller_enabled,
    new_controller_descriptors,
)
from kcm_lite.trace import Note, Trace

BEHAVIOURS: dict[str, dict[str, str]] = {
    "replica_set": {
        "pod_deletion_cost": "PodDeletionCost",
        "logarithmic_scale_down": "LogarithmicScaleDown",
        "terminating_replicas": "DeploymentReplicaSetTerminatingReplicas",
        "stale_controller_consistency": "StaleControllerConsistencyReplicaSet",
        "next_availability_check": "1.34",
        "sidecar_restarts": "1.31",
    },
    "deployment": {
        "terminating_replicas": "DeploymentReplicaSetTerminatingReplicas",
        "scaled_from": "1.31",
    },
}
"""The gate behind each switch of the controllers; or the release it came with, if it never had
one."""


def gates_for(gates: FeatureGates) -> Gates:
    """Return the switches of the controllers that the gates ask for."""

    def on(source: str) -> bool:
        return gates.since(source) if source[0].isdigit() else gates.enabled(source)

    kinds = get_type_hints(Gates)
    return Gates(
        **{
            controller: kinds[controller](**{name: on(source) for name, source in rows.items()})
            for controller, rows in BEHAVIOURS.items()
        }
    )


@dataclass(frozen=True)
class ManagerContext:
    """What a manager builds its controllers from.

    Attributes:
        config: The completed config.
        controllers: What each controller gets.
        informers_started: Set when the informers have been started.
    """

    config: Config
    controllers: ControllerContext
    informers_started: asyncio.Event = field(default_factory=asyncio.Event)

    def say(self, text: str) -> None:
        """Note something about the start in the trace."""
        if self.controllers.trace is not None:
            self.controllers.trace.write(Note(self.controllers.clock.time(), NAME, text))


def new_context(
    completed: CompletedConfig,
    transport: Transport,
    clock: Clock,
    *,
    rng: random.Random,
    trace: Trace | None = None,
) -> ManagerContext:
    """Connect a config with a cluster: clients, informers, gates and settings."""
    config = completed.config
    resync = config.component.generic.min_resync_period * (1 + rng.random())
    informers = SharedInformerFactory(
        config.client.new_client(transport, clock, "shared-informers"),
        clock,
        resync=resync,
        rng=rng,
        name="shared-informers",
        trace=trace,
    )
    controllers = ControllerContext(
        clock,
        trace,
        lambda agent: config.client.new_client(transport, clock, agent),
        informers,
        gates_for(config.feature_gates),
        rng,
        {name: flag.value for name, flag in flags_of(config.component).items()},
    )
    return ManagerContext(config, controllers)


def new_controller(descriptor: ControllerDescriptor, context: ManagerContext) -> Run | None:
    """Build one controller; its ``Run`` starts it.

    Returns:
        None if it is skipped; the trace says why.

    Raises:
        InvalidOptions: What it needs cannot be read.
    """
    config, name = context.config, descriptor.name
    gates = descriptor.required_feature_gates
    if not all(map(config.feature_gates.enabled, gates)):
        context.say(f"{name} is disabled by a feature gate ({', '.join(gates)})")
    elif descriptor.cloud_provider:
        context.say(f"skipping {name}: it is a cloud provider's")
    elif descriptor.special_handling and not (key := _key_file(config)):
        context.say(f"{name} is disabled because there is no private key")
    elif name == "garbage-collector-controller" and not _collects(config):
        context.say(f"skipping {name}: --enable-garbage-collector=false")
    elif descriptor.constructor is None:
        if descriptor.special_handling:
            read(key, "service-account-private-key-file")
        context.say(f"skipping {name}: kcm_lite knows the name and has no such controller")
    else:
        return descriptor.constructor(context.controllers)
    return None


def _key_file(config: Config) -> str:
    return config.component.sa_controller.service_account_key_file


def _collects(config: Config) -> bool:
    return config.component.garbage_collector_controller.enable_garbage_collector


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
    descriptors = descriptors or new_controller_descriptors()
    off, wanted = disabled_by_default(descriptors), context.config.component.generic.controllers
    built: dict[str, Run] = {}
    for name, descriptor in sorted(descriptors.items(), key=lambda d: not d[1].special_handling):
        if not descriptor.special_handling and not is_controller_enabled(name, off, wanted):
            context.say(f"{name} is disabled")
        elif (run := new_controller(descriptor, context)) is not None:
            built[name] = run
    for name in built:
        add_health_check(name)
    return built


async def run(context: ManagerContext) -> None:
    """Build the controllers, start the informers, then every controller after its own jitter."""
    controllers = context.controllers
    built = build_controllers(context)
    controllers.informers.start()
    context.informers_started.set()
    pause = context.config.component.generic.controller_start_interval

    async def start(name: str) -> None:
        await controllers.clock.sleep(pause * (1 + controllers.rng.random()))
        await built[name]()

    for name in built:
        controllers.clock.spawn(start(name), name=name)
