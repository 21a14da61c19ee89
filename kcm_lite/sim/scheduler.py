"""Which node a pod goes to: round robin over the nodes that are fit, in the order they came.

There is no more to it on purpose: no resources, no scores, and of affinity only the term by which
a DaemonSet names the node. A toleration is compared by key and value, whatever its effect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from kcm_lite.api.core import Pod, Taint, Toleration
from kcm_lite.sim.nodes import Machine, Machines


class Scheduler:
    """The picker and its position in the round.

    Attributes:
        turn: How many pods were placed by turn; forced placements do not count.
    """

    def __init__(self, machines: Machines) -> None:
        self.machines = machines
        self.turn = 0
        self._fit: tuple[int, tuple[Toleration, ...], list[str]] = (-1, (), [])

    def pick(self, pod: Pod, forced: int | None) -> str | None:
        """Return the name of the node for a pod, or None when no node is fit.

        Args:
            pod: The pod, not yet bound.
            forced: Number of the node that the profile wants, from 1.
        """
        nodes = self.machines.by_name
        if pod.spec.affinity:
            for name in _required_names(pod.spec.affinity):
                return name if name in nodes else None
        if forced is not None:
            names = list(nodes)
            return names[forced - 1] if forced <= len(names) else None
        fit = self._names(pod.spec.tolerations)
        if not fit:
            return None
        self.turn += 1
        return fit[(self.turn - 1) % len(fit)]

    def why_none(self, pod: Pod, forced: int | None) -> str:
        """Say what keeps a pod from the nodes, when `pick` finds none."""
        nodes = self.machines.by_name
        if pod.spec.affinity and (names := list(_required_names(pod.spec.affinity))):
            return f"it demands {names[0]}, which is not there"
        if forced is not None:
            return f"the profile demands node {forced} of {len(nodes)}"
        reasons = Counter(_obstacle(machine) for machine in nodes.values())
        told = ", ".join(f"{n} {reason}" for reason, n in reasons.items())
        return f"none of {len(nodes)} nodes takes it{': ' if told else ''}{told}"

    def _names(self, tolerations: tuple[Toleration, ...]) -> list[str]:
        """Return the fit nodes; pods of one template share theirs, and most ask in a row."""
        version, known, fit = self._fit
        if version != self.machines.version or known is not tolerations:
            nodes = self.machines.by_name.values()
            fit = [m.name for m in nodes if takes(m, tolerations)]
            self._fit = self.machines.version, tolerations, fit
        return fit


def _obstacle(machine: Machine) -> str:
    """Say why a node takes no pod that does not tolerate its taints."""
    if not machine.ready or machine.frozen:
        return "not ready"
    if machine.unschedulable:
        return "unschedulable"
    return "with the taint " + ", ".join(t.key for t in machine.taints)


def takes(machine: Machine, tolerations: tuple[Toleration, ...]) -> bool:
    """Report whether a node takes new pods that tolerate so much."""
    if not machine.ready or machine.frozen or machine.unschedulable:
        return False
    return not machine.taints or all(
        taint.effect not in ("NoSchedule", "NoExecute") or tolerated(taint, tolerations)
        for taint in machine.taints
    )


def tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    """Report whether one of the tolerations is for this taint."""
    return any(
        (t.operator == "Exists" and t.key in ("", taint.key))
        or (t.key == taint.key and t.value == taint.value)
        for t in tolerations
    )


def _required_names(affinity: Any) -> Iterator[str]:
    """Yield the node names that an affinity demands by ``matchFields``."""
    node_affinity = affinity.get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field["key"] == "metadata.name":
                yield field["values"][0]
