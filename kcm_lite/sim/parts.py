"""A cluster as those see it that do something to it: its parts, without what is built on them."""

from __future__ import annotations

from typing import Protocol

from kcm_lite.apiserver.server import APIServer
from kcm_lite.clock import VirtualClock
from kcm_lite.sim.faultywire import FaultyWire
from kcm_lite.sim.kubelet import Kubelets
from kcm_lite.sim.nodes import Machines
from kcm_lite.sim.restarts import ManagerProcess
from kcm_lite.trace import Trace


class Parts(Protocol):
    """What `kcm_lite.sim.cluster.Cluster` consists of; see there."""

    namespace: str
    clock: VirtualClock
    trace: Trace
    server: APIServer
    machines: Machines
    kubelets: Kubelets
    transport: FaultyWire
    manager: ManagerProcess

    @property
    def now(self) -> float:
        """Seconds since the start."""
