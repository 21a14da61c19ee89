"""What kubelets report of a pod: its containers, its conditions."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache

import msgspec

from kcm_lite.api.core import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodIP,
    PodStatus,
)
from kcm_lite.api.meta import Condition, replace
from kcm_lite.sim.profile import Behaviour

OWN_CONDITIONS = (
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
)


class Seen(msgspec.Struct, eq=False):
    """A pod as the nodes know it."""

    pod: Pod  # as last watched
    index: int  # the n-th pod that was created, from 1
    behaviour: Behaviour
    bound: bool = False
    deleting: bool = False
    done: bool = False  # its containers have ended
    restarts: int = 0
    started: datetime | None = None  # its containers run since
    running_since: datetime | None = None  # the pod runs since
    ready: bool = False
    ready_since: datetime | None = None  # when ``ready`` last changed


HOST_IPS = (PodIP(ip="127.0.0.1"),)


def started_status(seen: Seen, now: datetime) -> PodStatus:
    """Return the status of a pod that begins to run."""
    high, low = divmod(seen.index, 250)
    ip = f"10.{1 + high // 250}.{high % 250}.{low + 1}"
    return replace(
        seen.pod.status,
        phase="Running",
        start_time=now,
        host_ip="127.0.0.1",
        host_ips=HOST_IPS,
        pod_ip=ip,
        pod_ips=(PodIP(ip=ip),),
        conditions=_conditions(seen, ""),
        container_statuses=_containers(seen, _running(now)),
    )


def running_status(seen: Seen) -> PodStatus:
    """Return the status of a pod that runs, ready or not."""
    return replace(
        seen.pod.status,
        conditions=_conditions(seen, ""),
        container_statuses=_containers(seen, _running(seen.started)),
    )


def finished_status(
    seen: Seen, code: int, now: datetime, conditions: Iterable[Condition]
) -> PodStatus:
    """Return the status of a pod whose containers have ended with an exit code."""
    ended = ContainerState(
        terminated=ContainerStateTerminated(
            exit_code=code,
            reason="Error" if code else "Completed",
            started_at=seen.started or now,
            finished_at=now,
        )
    )
    return replace(
        seen.pod.status,
        phase="Failed" if code else "Succeeded",
        conditions=(
            *_conditions(seen, "PodFailed" if code else "PodCompleted"),
            *(replace(c, last_transition_time=now) for c in conditions),
        ),
        container_statuses=_containers(seen, ended),
    )


@lru_cache(maxsize=64)
def _running(since: datetime | None) -> ContainerState:
    return ContainerState(running=ContainerStateRunning(started_at=since))


def _containers(seen: Seen, state: ContainerState) -> tuple[ContainerStatus, ...]:
    count = seen.restarts + seen.behaviour.initial_restart_count
    started = state.running is not None
    return tuple(
        ContainerStatus(
            name=c.name,
            image=c.image,
            ready=seen.ready,
            started=started,
            restart_count=count,
            state=state,
        )
        for c in seen.pod.spec.containers
    )


def _conditions(seen: Seen, reason: str) -> tuple[Condition, ...]:
    """The kubelet's own conditions, then those of others, such as DisruptionTarget."""
    own = _own(seen.running_since, seen.ready, seen.ready_since, reason)
    others = [c for c in seen.pod.status.conditions if c.type not in OWN_CONDITIONS]
    return (*own, *others) if others else own


@lru_cache(maxsize=256)
def _own(
    running: datetime | None, ready: bool, since: datetime | None, reason: str
) -> tuple[Condition, ...]:
    """The five conditions that a kubelet keeps. ``reason`` is that of a finished pod."""
    out = []
    for kind in OWN_CONDITIONS:
        follows = kind in ("Ready", "ContainersReady")
        value = ready if follows else True
        why = "" if value else reason or "ContainersNotReady"
        if kind == "Initialized" and reason == "PodCompleted":
            why = reason
        out.append(
            Condition(
                type=kind,
                status="True" if value else "False",
                reason=why,
                last_transition_time=since if follows else running or since,
            )
        )
    return tuple(out)
