# Generated from book/01b_leader_election.ipynb by tools/tangle.py; edit it there.

"""A manager among others: wait for the lease, run the controllers, end when the lease is lost.

See: chapter *Leader election*, *A manager that waits*; upstream ``Run`` and ``leaderElectAndRun``
in ``cmd/kube-controller-manager/app``.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kcm_lite.client.leaderelection import (
    LeaderCallbacks,
    LeaderElectionConfig,
    LeaderElector,
    LeaderHealthzAdaptor,
    new_leader_elector,
)
from kcm_lite.client.leaderelection import run as run_elector
from kcm_lite.client.metrics import ClientMetrics, ElectionMetrics, Registry
from kcm_lite.client.resourcelock import LeaseLock
from kcm_lite.client.transport import Transport
from kcm_lite.clock import Clock
from kcm_lite.manager.config import CompletedConfig
from kcm_lite.manager.files import LeaderMigration
from kcm_lite.manager.options import NAME
from kcm_lite.manager.registry import ControllerDescriptor, new_controller_descriptors
from kcm_lite.manager.start import ManagerContext, new_context, run, shut_down
from kcm_lite.trace import Trace

# %% book/01b_leader_election.ipynb#d6de8562
RELEASE_ON_EXIT = "ControllerManagerReleaseLeaderElectionLockOnExit"

Descriptors = Mapping[str, ControllerDescriptor]


@dataclass
class Manager:
    """One manager process.

    Attributes:
        identity: Who it is among the candidates.
        on_leading: Told the lease's name when it begins to work under it.
        on_exit: Told the exit code and why, when the process must end.
        on_built: Told the name of each controller that was built.
        metrics: Where it counts; None: nowhere.
        health: The check *leaderElection*.
        electors: Those that wait or lead: one, or two while controllers migrate.
        contexts: What it runs: one for each lease that it has got.
    """

    completed: CompletedConfig
    transport: Transport
    clock: Clock
    identity: str
    rng: random.Random
    trace: Trace | None = None
    on_leading: Callable[[str], None] = lambda lease: None
    on_exit: Callable[[int, str], None] = lambda code, why: None
    on_built: Callable[[str], None] = lambda controller: None
    metrics: Registry | None = None
    health: LeaderHealthzAdaptor = field(default_factory=LeaderHealthzAdaptor)
    electors: list[LeaderElector] = field(default_factory=list)
    contexts: list[ManagerContext] = field(default_factory=list)
    _elections: list[asyncio.Task[None]] = field(default_factory=list)
    _started: asyncio.Event = field(default_factory=asyncio.Event)  # the main controllers
    _terminating: bool = False


# %% book/01b_leader_election.ipynb#a083d5e9
def start(manager: Manager) -> None:
    """Begin to wait for the lease; without leader election, run the controllers now."""
    config, descriptors = manager.completed.config, new_controller_descriptors()
    election, plan = config.component.generic.leader_election, config.leader_migration
    if not election.leader_elect:
        _spawn(manager, _work(manager, "", descriptors), "controllers")
        return
    main, migrated = migration_split(plan, descriptors)
    _spawn(manager, _elect(manager, election.resource_name, main, "leaderelection"), "election")
    if plan is not None:
        _spawn(manager, _migrate(manager, plan.leader_name, migrated), "migration election")


def terminate(manager: Manager) -> None:
    """Ask it to end (SIGTERM); it exits with 0, and gives the lease back if the gate says so."""
    manager._terminating = True
    for task in manager._elections:
        task.cancel()


def _spawn(manager: Manager, coro: Any, name: str) -> None:
    manager._elections.append(manager.clock.spawn(coro, name=name))


# %% book/01b_leader_election.ipynb#c2061546
async def _migrate(manager: Manager, lease: str, descriptors: Descriptors) -> None:
    """Ask for the second lease once the controllers under the first one run.

    Before that, one manager could hold the main lease and another one the migration lease.
    """
    await manager._started.wait()
    await _elect(manager, lease, descriptors, "migration leaderelection")


# %% book/01b_leader_election.ipynb#ad261e3e
async def _elect(manager: Manager, lease: str, descriptors: Descriptors, what: str) -> None:
    """Wait for one lease and run these controllers under it."""
    config, clock = manager.completed.config, manager.clock
    election = config.component.generic.leader_election
    registry = manager.metrics
    requests = None if registry is None else ClientMetrics(registry, config.client.host)
    client = config.client.new_client(manager.transport, clock, "leader-election", requests)
    lock = LeaseLock(
        client,
        clock,
        election.resource_namespace,
        lease,
        identity=manager.identity,
        timeout=max(1.0, election.renew_deadline / 2),
        recorder=config.client.new_event_recorder(client, clock),
    )

    def stopped() -> None:
        if manager._terminating:
            manager.on_exit(0, "Requested to terminate. Exiting.")
        else:
            manager.on_exit(1, f"{what} lost/stopped")

    elector = new_leader_elector(
        LeaderElectionConfig(
            lock,
            LeaderCallbacks(lambda: _work(manager, lease, descriptors), stopped),
            election.lease_duration,
            election.renew_deadline,
            election.retry_period,
            release_on_cancel=config.feature_gates.enabled(RELEASE_ON_EXIT),
            name=lease,
            metrics=None if registry is None else ElectionMetrics(registry),
        ),
        clock,
        manager.rng,
    )
    manager.electors.append(elector)
    manager.health.electors.append(elector)
    await run_elector(elector)


# %% book/01b_leader_election.ipynb#79b52b4e
async def _work(manager: Manager, lease: str, descriptors: Descriptors) -> None:
    manager.on_leading(lease)
    context = new_context(
        manager.completed,
        manager.transport,
        manager.clock,
        rng=manager.rng,
        trace=manager.trace,
        metrics=manager.metrics,
    )
    manager.contexts.append(context)
    await run(context, descriptors, manager.on_built)
    manager._started.set()
    try:
        await asyncio.Event().wait()  # until it is cancelled
    except asyncio.CancelledError:
        await shut_down(context)
        raise


# %% book/01b_leader_election.ipynb#924d8c21
def migration_split(
    plan: LeaderMigration | None, descriptors: Descriptors
) -> tuple[Descriptors, Descriptors]:
    """Return the controllers under the main lease, and those under the migration lease.

    A controller that the plan gives to another component is in neither. The token controller is
    always under the main lease.
    """
    if plan is None:
        return descriptors, {}
    owners = {leader.name: leader.component for leader in plan.controller_leaders}
    main, migrated = {}, {}
    for name, descriptor in descriptors.items():
        if descriptor.special_handling or name not in owners:
            main[name] = descriptor
        elif owners[name] in (NAME, "*"):
            migrated[name] = descriptor
    return main, migrated
