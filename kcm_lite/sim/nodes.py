"""The simulated machines: node objects, and what the scheduler and the kubelets know of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from kcm_lite.api.core import Node, NodeSpec, NodeStatus, Taint
from kcm_lite.api.meta import Condition, ObjectMeta, replace
from kcm_lite.api.request import WatchEvent
from kcm_lite.sim.verdicts import is_ready

CAPACITY: Mapping[str, str | int | float] = {"cpu": "64", "memory": "256Gi", "pods": "2000"}
PRESSURES = (
    ("MemoryPressure", "KubeletHasSufficientMemory"),
    ("DiskPressure", "KubeletHasNoDiskPressure"),
    ("PIDPressure", "KubeletHasSufficientPID"),
)
NODE_INFO: Mapping[str, Any] = {
    "machineID": "x",
    "systemUUID": "x",
    "bootID": "x",
    "kernelVersion": "6",
    "osImage": "fake",
    "containerRuntimeVersion": "fake://1",
    "kubeletVersion": "v1.36.2",
    "kubeProxyVersion": "",
    "operatingSystem": "linux",
    "architecture": "amd64",
}


class Machine(msgspec.Struct):
    """A node as the scheduler and its kubelet see it."""

    name: str
    ordinal: int
    ready: bool = True
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    frozen: bool = False  # its kubelet is silent and does nothing any more


def node_name(number: int) -> str:
    """Return the name of the n-th node."""
    return f"node-{number}"


def node_object(
    number: int,
    *,
    scenario: str,
    now: datetime,
    labels: Mapping[str, str] | None = None,
    taints: tuple[Taint, ...] = (),
) -> Node:
    """Return a Ready node, with the labels that scenarios may select by.

    Args:
        number: 1, 2, ...: part of the name and the value of the label ``ordinal``.
        scenario: Value of the label ``scenario`` and of zone and region.
        now: Time of the conditions.
        labels: More labels.
        taints: What keeps pods away from the start.
    """
    name = node_name(number)
    meta = ObjectMeta(
        name=name,
        labels={
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "scenario": scenario,
            "ordinal": str(number),
            "topology.kubernetes.io/zone": scenario,
            "topology.kubernetes.io/region": scenario,
            **(labels or {}),
        },
    )
    status = NodeStatus(
        capacity=CAPACITY,
        allocatable=CAPACITY,
        conditions=node_conditions(ready=True, now=now),
        extra={"nodeInfo": NODE_INFO},
    )
    return Node(metadata=meta, spec=NodeSpec(taints=taints), status=status)


def node_conditions(*, ready: bool, now: datetime) -> tuple[Condition, ...]:
    """Return what a kubelet reports of its node."""
    rows = [(kind, "False", reason) for kind, reason in PRESSURES]
    rows.append(
        ("Ready", "True", "KubeletReady") if ready else ("Ready", "False", "KubeletNotReady")
    )
    return tuple(
        Condition(
            type=kind,
            status=status,
            reason=reason,
            last_heartbeat_time=now,
            last_transition_time=now,
        )
        for kind, status, reason in rows
    )


def with_ready(node: Node, ready: bool, now: datetime) -> Node:
    """Return the node with its kubelet's report changed; equal conditions keep their time."""
    before = {c.type: c for c in node.status.conditions}
    fresh = node_conditions(ready=ready, now=now)
    kept = tuple(
        replace(c, last_transition_time=before[c.type].last_transition_time)
        if c.type in before and before[c.type].status == c.status
        else c
        for c in fresh
    )
    return replace(node, status=replace(node.status, conditions=kept))


class Machines:
    """All nodes in creation order, kept up to date by a watch.

    Attributes:
        by_name: The machines; a node that is deleted leaves.
        last: The highest number that a node had so far.
        version: Rises with every change.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, Machine] = {}
        self.last = self.version = 0

    def set_frozen(self, name: str, frozen: bool) -> None:
        """Let a node's kubelet fall silent, or come back."""
        self.version += 1
        self.by_name[name].frozen = frozen

    def on_node(self, event: WatchEvent) -> None:
        """Take in a watch event of a Node."""
        node = event.object
        assert isinstance(node, Node)
        name = node.metadata.name
        self.version += 1
        if event.type == "DELETED":
            self.by_name.pop(name, None)
            return
        machine = self.by_name.get(name)
        if machine is None:
            ordinal = node.metadata.labels.get("ordinal", "")
            number = int(ordinal) if ordinal.isdigit() else len(self.by_name) + 1
            machine = self.by_name[name] = Machine(name, number)
            self.last = max(self.last, number)
        machine.ready = is_ready(node)
        machine.unschedulable = node.spec.unschedulable
        machine.taints = node.spec.taints
