"""A cluster whose controllers run in a manager, as a candidate for the lease."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from kcm_lite.client.leaderelection import new_identity
from kcm_lite.client.metrics import Registry
from kcm_lite.controllers.context import DebugHandler
from kcm_lite.manager.config import CompletedConfig
from kcm_lite.manager.leading import Manager, start
from kcm_lite.sim.cluster import START, Cluster
from kcm_lite.sim.process import Process
from kcm_lite.sim.scenario import Scenario
from kcm_lite.trace import Trace

HOST = "kcm-lite"


class ManagerExit(Exception):
    """The manager has ended by itself.

    Attributes:
        code: Its exit code.
    """

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


def leave(code: int, why: str) -> None:
    """End the run that the manager's end happens in."""
    raise ManagerExit(code, why)


class ManagedCluster(Cluster):
    """A cluster as a scenario describes it, under a manager.

    A manager that a fault has killed starts again as another candidate, and must wait for the lease
    of the one before.

    Args:
        completed: The manager's config.
        scenario: The cluster, and what goes wrong in it; its client limits do not count.
        on_exit: Told the exit code and why when the latest manager ends by itself.
        on_built: Told the name of each controller that was built.
        metrics: Where the manager counts.

    Raises:
        InvalidOptions: A controller cannot be built.

    Attributes:
        candidate: The latest manager.
    """

    candidate: Manager

    def __init__(
        self,
        completed: CompletedConfig,
        scenario: Scenario,
        *,
        on_exit: Callable[[int, str], None] = leave,
        on_built: Callable[[str], None] = lambda name: None,
        metrics: Registry | None = None,
    ) -> None:
        self._completed, self._metrics = completed, metrics
        self._on_exit, self._on_built = on_exit, on_built
        super().__init__(
            scenario.nodes,
            scenario.seed,
            profile=scenario.profile,
            controllers=(),
            start=START.replace(second=scenario.start_at_second),
            namespace=scenario.namespace,
            faults=scenario.faults,
        )

    def _build(self, process: Process, trace: Trace, lives: int) -> None:
        """Start a manager in a process."""
        rng = random.Random(f"{self._seed}/{lives}/manager")
        election = self._completed.config.component.generic.leader_election
        self.ensure_namespace(election.resource_namespace)
        self.candidate = Manager(
            self._completed,
            process.transport,
            process.clock,
            new_identity(HOST, rng),
            rng,
            trace,
            on_exit=lambda code, why: self._exited(process, code, why),
            on_built=self._on_built,
            metrics=self._metrics,
        )
        start(self.candidate)

    def debug_handlers(self) -> dict[str, DebugHandler]:
        """Return the debug handlers of the controllers that run, by name."""
        contexts = (context.controllers for context in self.candidate.contexts)
        return {name: h for c in contexts for name, h in c.debug_handlers.items()}

    def tasks(self) -> list[asyncio.Task[Any]]:
        """Return the tasks of the managers, the oldest first."""
        return [task for process in self.manager.processes for task in process.tasks]

    def close(self) -> None:
        """End the managers and stop everything."""
        self.manager.kill()
        super().close()

    def _exited(self, process: Process, code: int, why: str) -> None:
        """A manager ends by itself; an older one that is not alone does so unnoticed."""
        if process.alive:
            latest = process is self.manager.processes[-1]
            self.manager.note(f"exit {code}: {why}")
            self.manager.kill([process])
            if latest:
                self._on_exit(code, why)
