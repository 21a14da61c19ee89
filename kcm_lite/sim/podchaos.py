"""Pods that are hit at random: which can be, and what happens to one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from kcm_lite.api.core import Pod
from kcm_lite.api.errors import StatusError
from kcm_lite.api.request import Request
from kcm_lite.sim.podstatus import Seen

if TYPE_CHECKING:
    from kcm_lite.sim.cluster import Cluster

CHAOS = "chaos"
"""The agent that deletes and evicts them."""


def hittable(cluster: Cluster, selector: Mapping[str, str]) -> Iterator[Seen]:
    """Yield the running pods that match, in the order of their creation."""
    for seen in sorted(cluster.kubelets.pods.values(), key=lambda seen: seen.index):
        meta, running = seen.pod.metadata, seen.started is not None and not seen.done
        mine = meta.namespace == cluster.namespace and selector.items() <= meta.labels.items()
        if mine and running and not seen.deleting:
            yield seen


def hit(cluster: Cluster, seen: Seen, effect: str) -> None:
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
            request = Request(
                verb="create",
                type=Pod,
                namespace=meta.namespace,
                name=meta.name,
                subresource="eviction",
                agent=CHAOS,
            )
            with suppress(StatusError):  # a budget may forbid it
                cluster.server.handle(request)
