"""Pods that something is done to: which match, and what happens to one that is hit at random."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from kcm_lite.api.core import Pod
from kcm_lite.api.errors import StatusError
from kcm_lite.api.request import Request
from kcm_lite.sim.parts import Parts
from kcm_lite.sim.podstatus import Seen

CHAOS = "chaos"
"""The agent that deletes and evicts them."""


def matching(cluster: Parts, selector: Mapping[str, str]) -> Iterator[Seen]:
    """Yield the pods of the cluster's namespace that match, in the order of their creation."""
    for seen in cluster.kubelets.pods.values():
        meta = seen.pod.metadata
        if meta.namespace == cluster.namespace and selector.items() <= meta.labels.items():
            yield seen


def hittable(cluster: Parts, selector: Mapping[str, str]) -> Iterator[Seen]:
    """Yield those of them that run."""
    for seen in matching(cluster, selector):
        if seen.started is not None and not seen.done and not seen.deleting:
            yield seen


def evict(cluster: Parts, seen: Seen, agent: str = "user") -> None:
    """Evict a pod.

    Raises:
        StatusError: A budget forbids it, for example.
    """
    meta = seen.pod.metadata
    cluster.server.handle(
        Request(
            verb="create",
            type=Pod,
            namespace=meta.namespace,
            name=meta.name,
            subresource="eviction",
            agent=agent,
        )
    )


def hit(cluster: Parts, seen: Seen, effect: str) -> None:
    """Do something bad to a pod."""
    meta = seen.pod.metadata
    match effect:
        case "fail":
            cluster.kubelets.set_phase(seen, "Failed", reason="Chaos")
        case "notReady":
            cluster.kubelets.set_ready(seen, False)
        case "delete":
            cluster.server.delete(Pod, meta.namespace, meta.name, agent=CHAOS)
        case _:
            with suppress(StatusError):
                evict(cluster, seen, CHAOS)
