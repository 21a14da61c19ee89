# Generated from book/01_startup.ipynb by tools/tangle.py; edit it there.

"""From a completed config to controllers that run: what each is built from, the start, the end.

See: chapter *Startup*; upstream ``CreateControllerContext``, ``BuildControllers`` and
``RunControllers``.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from kcm_lite.client.informer import SharedInformerFactory
from kcm_lite.client.metrics import ClientMetrics, Registry
from kcm_lite.client.resourcelock import timeout
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

# %% book/01_startup.ipynb#b84b5518
T = TypeVar("T")


class Crew:
    """A clock that remembers the tasks that it started (``Clock``).

    Attributes:
        tasks: Those that have not ended, oldest first.
    """

    def __init__(self, clock: Clock) -> None:
        self.time, self.now, self.timestamp = clock.time, clock.now, clock.timestamp
        self.sleep, self.call_soon = clock.sleep, clock.call_soon
        self.call_later, self.call_at = clock.call_later, clock.call_at
        self._spawn = clock.spawn
        self.tasks: dict[asyncio.Task[Any], None] = {}

    def spawn(self, coro: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Start a worker, as the clock does, and remember it."""
        task = self._spawn(coro, name=name)
        self.tasks[task] = None
        task.add_done_callback(self.tasks.pop)
        return task


# %% book/01_startup.ipynb#c820ebcf
@dataclass(frozen=True)
class ManagerContext:
    """What a manager builds its controllers from.

    Attributes:
        config: The completed config.
        controllers: What each controller gets.
        crew: All tasks that come of it.
        informers_started: Set when the informers have been started.
        skipped: The controllers that were not built, by name, with the reason.
    """

    config: Config
    controllers: ControllerContext
    crew: Crew
    informers_started: asyncio.Event = field(default_factory=asyncio.Event)
    skipped: dict[str, str] = field(default_factory=dict)


# %% book/01_startup.ipynb#faab9f23
# The gate behind each switch of a controller, or the release that it came with: a gate that v1.36
# has forgotten, or none at all.
BEHAVIOURS = {
    "replica_set.pod_deletion_cost": "PodDeletionCost",
    "replica_set.logarithmic_scale_down": "LogarithmicScaleDown",
    "replica_set.terminating_replicas": "DeploymentReplicaSetTerminatingReplicas",
    "replica_set.stale_controller_consistency": "StaleControllerConsistencyReplicaSet",
    "replica_set.next_availability_check": "1.34",
    "replica_set.sidecar_restarts": "1.31",
    "deployment.terminating_replicas": "DeploymentReplicaSetTerminatingReplicas",
    "deployment.scaled_from": "1.31",
    "job.indexed_job": "1.22",
    "job.tracking_with_finalizers": "1.25",
    "job.pod_failure_backoff": "1.27",
    "job.queue_base": "1.27",
    "job.queue_maximum": "1.27",
    "job.clear_start_time": "MutableSchedulingDirectivesForSuspendedJobs",
    "job.stale_controller_consistency": "StaleControllerConsistencyJob",
    "metrics.limiter": "1.26",
}


# %% book/01_startup.ipynb#61e5e76f
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


# %% book/01_startup.ipynb#d8adb160
def _new_informers(
    config: Config,
    transport: Transport,
    clock: Clock,
    rng: random.Random,
    trace: Trace | None,
    requests: ClientMetrics | None,
) -> SharedInformerFactory:
    name, resync = "shared-informers", config.component.generic.min_resync_period
    client = config.client.new_client(transport, clock, name, requests)
    resync *= 1 + rng.random()
    return SharedInformerFactory(client, clock, resync=resync, rng=rng, name=name, trace=trace)


# %% book/01_startup.ipynb#9c016b28
def new_context(
    completed: CompletedConfig,
    transport: Transport,
    clock: Clock,
    *,
    rng: random.Random,
    trace: Trace | None = None,
    metrics: Registry | None = None,
) -> ManagerContext:
    """Connect a config with a cluster: clients, informers, gates, settings and metrics.

    Nothing starts, and no request is made.
    """
    config, crew = completed.config, Crew(clock)
    requests = None if metrics is None else ClientMetrics(metrics, config.client.host)
    controllers = ControllerContext(
        crew,
        trace,
        lambda agent: config.client.new_client(transport, crew, agent, requests),
        _new_informers(config, transport, crew, rng, trace, requests),
        gates_for(config.feature_gates),
        rng,
        {name: flag.value for name, flag in flags_of(config.component).items()},
        metrics,
    )
    return ManagerContext(config, controllers, crew)


# %% book/01_startup.ipynb#6f87e6b5
NOT_BUILT = "kcm_lite knows the name and has no such controller"


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


# %% book/01_startup.ipynb#525e9337
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


# %% book/01_startup.ipynb#a3efc025
def build_controllers(
    context: ManagerContext,
    descriptors: Mapping[str, ControllerDescriptor] | None = None,
    add_health_check: Callable[[str], None] = lambda name: None,
) -> dict[str, Run]:
    """Build all controllers that are wanted; the one that makes tokens comes first, in any case.

    Args:
        context: What they are built from.
        descriptors: Which there are; by default today's.
        add_health_check: Is told the name of each that was built, when all have been built.

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


# %% book/01_startup.ipynb#e1c6a9db
START_JITTER = 1.0
"""How many start intervals longer than one a controller's pause may be."""


def start_informers(context: ManagerContext) -> None:
    """Start the informers that were asked for, and tell whoever waits for that."""
    context.controllers.informers.start()
    context.informers_started.set()


def run_controllers(context: ManagerContext, built: Mapping[str, Run]) -> None:
    """Start every controller after a pause of its own; each waits for its caches itself."""
    interval = context.config.component.generic.controller_start_interval

    async def start(name: str) -> None:
        pause = interval * (1 + START_JITTER * context.controllers.rng.random())
        await context.crew.sleep(pause)
        await built[name]()

    for name in built:
        context.crew.spawn(start(name), name=name)


# %% book/01_startup.ipynb#ab75ed9f
async def run(
    context: ManagerContext,
    descriptors: Mapping[str, ControllerDescriptor] | None = None,
    add_health_check: Callable[[str], None] = lambda name: None,
) -> None:
    """Build the controllers, start the informers, then every controller after its own pause.

    It does not wait for the controllers; `shut_down` ends them. The arguments are those of
    `build_controllers`.
    """
    controllers = context.controllers
    built = build_controllers(context, descriptors, add_health_check)
    if controllers.trace is not None:
        text = f"{len(built)} controllers built, {len(context.skipped)} skipped"
        note = Note(controllers.clock.time(), NAME, text, {**context.skipped})
        controllers.trace.write(note)
    start_informers(context)
    run_controllers(context, built)


# %% book/01_startup.ipynb#e475e9e0
async def shut_down(context: ManagerContext) -> None:
    """End all tasks of the crew and wait for them, for the controller shutdown timeout at most.

    Raises:
        RuntimeError: Some did not end in time. A timeout of 0 waits for ever.
    """
    tasks, seconds = list(context.crew.tasks), context.config.controller_shutdown_timeout
    for task in tasks:
        task.cancel()
    with suppress(TimeoutError):
        async with timeout(context.crew, seconds) if seconds else nullcontext():
            for task in tasks:
                await asyncio.wait([task])
    if late := ", ".join(task.get_name() for task in tasks if not task.done()):
        raise RuntimeError(f"controller shutdown timeout reached, still running: {late}")
