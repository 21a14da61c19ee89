"""A machine dies, and perhaps comes back.

Its kubelet reports nothing, starts nothing and ends nothing; what was due is done when it is back.
What the node lifecycle controller and the taint eviction controller do about it stands here in
short: after a time the node is Unknown and its pods are not ready, after a longer one its pods are
deleted. They stay, terminating, until the machine is back.
"""

from __future__ import annotations

from asyncio import TimerHandle
from collections.abc import Callable, Iterator

from kcm_lite.api.core import Node, Pod
from kcm_lite.api.meta import replace
from kcm_lite.reconcile.podutil import is_pod_active
from kcm_lite.sim.faults import NodeDeath
from kcm_lite.sim.nodes import node_name, with_ready
from kcm_lite.sim.parts import Parts
from kcm_lite.sim.verdicts import is_ready

LIFECYCLE, EVICTION = "node-lifecycle-controller", "taint-eviction-controller"


def die(
    cluster: Parts, fault: NodeDeath, note: Callable[..., None], later: Callable[..., TimerHandle]
) -> None:
    """Let a machine fall silent now, and plan what follows."""
    name = node_name(fault.node)
    machine = cluster.machines.by_name.get(name)
    if machine is None or machine.frozen:
        note(f"Node/{name} is not there, or dead already")
        return
    note(f"Node/{name} dies")
    cluster.machines.set_frozen(name, True)
    plans = [
        later(fault.detected_after, _detect, cluster, name),
        later(fault.evicted_after, _evict, cluster, name),
    ]

    def come_back() -> None:
        for plan in plans:
            plan.cancel()
        note(f"Node/{name} is back", over=True)
        _return(cluster, name)

    if fault.return_after is not None:
        later(fault.return_after, come_back)


def _pods(cluster: Parts, name: str) -> Iterator[Pod]:
    """Yield the pods of a node, in the order of their creation."""
    for seen in cluster.kubelets.pods.values():
        if seen.pod.spec.node_name == name:
            yield seen.pod


def _node(cluster: Parts, name: str) -> Node | None:
    nodes = cluster.server.list(Node).items
    return next((node for node in nodes if node.metadata.name == name), None)


def _detect(cluster: Parts, name: str) -> None:
    """The node is Unknown, and its pods are not ready."""
    node, now = _node(cluster, name), cluster.clock.timestamp()
    if node is None:
        return
    lost = tuple(
        replace(
            c,
            status="Unknown",
            reason="NodeStatusUnknown",
            message="Kubelet stopped posting node status.",
            last_transition_time=now,
        )
        for c in node.status.conditions
    )
    node = replace(node, status=replace(node.status, conditions=lost))
    cluster.server.update(node, subresource="status", agent=LIFECYCLE)
    for pod in list(_pods(cluster, name)):
        if is_ready(pod):
            conditions = tuple(
                replace(c, status="False", last_transition_time=now) if c.type == "Ready" else c
                for c in pod.status.conditions
            )
            unready = replace(pod, status=replace(pod.status, conditions=conditions))
            cluster.server.update(unready, subresource="status", agent=LIFECYCLE)


def _evict(cluster: Parts, name: str) -> None:
    """The node's pods are deleted."""
    for pod in list(_pods(cluster, name)):
        if is_pod_active(pod):
            meta = pod.metadata
            cluster.server.delete(Pod, meta.namespace, meta.name, agent=EVICTION)


def _return(cluster: Parts, name: str) -> None:
    """The node reports again, and its kubelet does what was due."""
    if name not in cluster.machines.by_name:
        return
    cluster.machines.set_frozen(name, False)
    node = _node(cluster, name)
    if node is not None:
        fresh = with_ready(node, True, cluster.clock.timestamp())
        cluster.server.update(fresh, subresource="status", agent="kubelet")
    cluster.kubelets.resume(name)
