# Generated from book/91_pods.ipynb by tools/tangle.py; edit it there.

"""Questions about one pod, and the index that finds a controller's pods.

See: appendix *Pods for controllers*; upstream ``pkg/api/v1/pod`` and ``controller_utils.go``.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from kcm_lite.api.core import Pod
from kcm_lite.api.meta import Condition, Object, OwnerReference, controller_of
from kcm_lite.api.selectors import Selector
from kcm_lite.client.cache import Indexer
from kcm_lite.clock import Clock

# %% book/91_pods.ipynb#9c3d1133
TERMINAL = ("Succeeded", "Failed")


def is_pod_terminal(pod: Pod) -> bool:
    """Every container has stopped, and none will start again."""
    return pod.status.phase in TERMINAL


def is_pod_active(pod: Pod) -> bool:
    """The pod counts: it has not ended and is not being deleted."""
    return pod.metadata.deletion_timestamp is None and pod.status.phase not in TERMINAL


def is_pod_terminating(pod: Pod) -> bool:
    """The pod is being deleted, and something in it may still run."""
    return pod.metadata.deletion_timestamp is not None and pod.status.phase not in TERMINAL


# %% book/91_pods.ipynb#f6c55cfa
def pod_ready_condition(pod: Pod) -> Condition | None:
    """Return the pod's Ready condition (the first, if there are several)."""
    for condition in pod.status.conditions:
        if condition.type == "Ready":
            return condition
    return None


def is_pod_ready(pod: Pod) -> bool:
    """The pod's Ready condition says True."""
    condition = pod_ready_condition(pod)
    return condition is not None and condition.status == "True"


def is_pod_available(pod: Pod, min_ready_seconds: int, now: datetime) -> bool:
    """The pod has been ready for at least ``min_ready_seconds``."""
    condition = pod_ready_condition(pod)
    if condition is None or condition.status != "True":
        return False
    if min_ready_seconds == 0:
        return True
    since = condition.last_transition_time
    return since is not None and since + timedelta(seconds=min_ready_seconds) <= now


# %% book/91_pods.ipynb#97279d59
def next_availability_check(
    ready_since: datetime | None, min_ready_seconds: int, now: datetime
) -> float | None:
    """Return in how many seconds a ready pod becomes available; None if it is, or never will."""
    if ready_since is None or min_ready_seconds <= 0:
        return None
    due = (ready_since + timedelta(seconds=min_ready_seconds) - now).total_seconds()
    return due if due > 0 else None


def find_min_next_availability_check(
    ready_since: Iterable[datetime | None],
    min_ready_seconds: int,
    evaluated: datetime,
    clock: Clock,
) -> float | None:
    """Return in how many seconds the next of some ready pods becomes available.

    Args:
        ready_since: Since when each is ready.
        min_ready_seconds: How long a pod must be ready.
        evaluated: When their owner's status was computed: a pod that has become available since
            still needs a check, at once.
        clock: Tells how much of the wait is left.
    """
    waiting = [
        since
        for since in ready_since
        if next_availability_check(since, min_ready_seconds, evaluated) is not None
    ]
    if not waiting:
        return None
    first = min(since for since in waiting if since is not None)
    return next_availability_check(first, min_ready_seconds, clock.now()) or 0.0


# %% book/91_pods.ipynb#3dd62066
POD_CONTROLLER_INDEX = "podController"
"""Name of the index that finds the pods of one controller, and the orphans of a namespace."""


def pod_controller_index_key(namespace: str, ref: OwnerReference | None) -> str:
    """Return where a pod with this controller is found; without one, where the orphans are."""
    return namespace if ref is None else f"{namespace}/{ref.kind}/{ref.name}/{ref.uid}"


def index_by_pod_controller(pod: Pod) -> tuple[str, ...]:
    """Give the index `POD_CONTROLLER_INDEX` its one value per pod."""
    return (pod_controller_index_key(pod.metadata.namespace, controller_of(pod)),)


def filter_pods_by_owner(indexer: Indexer[Pod], owner: Object, *, orphans: bool) -> list[Pod]:
    """Return the pods that ``owner`` controls; with ``orphans`` also those that nobody does."""
    meta = owner.metadata
    ref = OwnerReference(kind=owner.KIND, name=meta.name, uid=meta.uid)
    key = pod_controller_index_key(meta.namespace, ref)
    pods = indexer.by_index(POD_CONTROLLER_INDEX, key)
    if orphans:
        pods += indexer.by_index(POD_CONTROLLER_INDEX, meta.namespace)
    return pods


# %% book/91_pods.ipynb#1e7cafbe
def filter_active_pods(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods that count."""
    return [
        pod
        for pod in pods
        if pod.metadata.deletion_timestamp is None and pod.status.phase not in TERMINAL
    ]


def filter_terminating_pods(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods that are on their way out."""
    return [
        pod
        for pod in pods
        if pod.metadata.deletion_timestamp is not None and pod.status.phase not in TERMINAL
    ]


def filter_claimed_pods(owner: Object, selector: Selector, pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods that ``owner`` controls and selects."""
    claimed = []
    for pod in pods:
        ref = controller_of(pod)
        mine = ref is not None and ref.uid == owner.metadata.uid
        if mine and selector.matches(pod.metadata.labels):
            claimed.append(pod)
    return claimed
