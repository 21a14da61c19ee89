"""What a set's status says, and when it is written.

See: chapter *ReplicaSet*; upstream ``pkg/controller/replicaset/replica_set_utils.go``.
"""

# Generated from the notebooks by tangle.py; edit them instead.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from kcm_lite.api.apps import ReplicaSetStatus
from kcm_lite.api.core import Pod, PodTemplateSpec, ReplicationControllerStatus
from kcm_lite.api.errors import StatusError
from kcm_lite.api.meta import Condition, object_key, replace
from kcm_lite.controllers.replicaset_types import ReplicaSetController, W, Workload, decide
from kcm_lite.reconcile.podutil import find_min_next_pod_availability_check

# %% book/07_replicaset.ipynb#5176d0e6
REPLICA_FAILURE = "ReplicaFailure"
"""The condition that tells why pods could not be created or deleted."""


def calculate_status(
    rsc: ReplicaSetController[W],
    rs: W,
    active: Sequence[Pod],
    terminating: int,
    error: Exception | None,
    now: datetime,
) -> ReplicaSetStatus | ReplicationControllerStatus:
    """Return the status that follows from the pods that this sync found, not from what it did."""
    labelled, ready, available = count_pods(rs, active, now)
    counts: dict[str, Any] = {
        "replicas": len(active),
        "fully_labeled_replicas": labelled,
        "ready_replicas": ready,
        "available_replicas": available,
    }
    if rsc.kind.terminating_replicas:
        counts["terminating_replicas"] = terminating if rsc.gates.terminating_replicas else None
    conditions: tuple[Condition, ...] = rs.status.conditions
    failing = any(condition.type == REPLICA_FAILURE for condition in conditions)
    if error is None and failing:
        conditions = tuple(c for c in conditions if c.type != REPLICA_FAILURE)
    elif error is not None and not failing:
        diff = len(active) - (rs.spec.replicas or 0)
        failure = Condition(
            type=REPLICA_FAILURE,
            status="True",
            reason="FailedCreate" if diff < 0 else "FailedDelete" if diff > 0 else "",
            message=str(error),
            last_transition_time=rsc.clock.timestamp(),
        )
        conditions = (*conditions, failure)
    return replace(rs.status, conditions=conditions, **counts)


# %% book/07_replicaset.ipynb#bc97bf67
def count_pods(rs: Workload, active: Sequence[Pod], now: datetime) -> tuple[int, int, int]:
    """Count the pods that have all labels of the template, are ready, and are available."""
    template = rs.spec.template or PodTemplateSpec()
    wanted, wait = template.metadata.labels.items(), rs.spec.min_ready_seconds
    due = now - timedelta(seconds=wait)
    labelled = ready = available = 0
    labels: Mapping[str, str] | None = None
    matches = False
    for pod in active:
        if pod.metadata.labels is not labels:  # pods of one template share theirs
            labels = pod.metadata.labels
            matches = wanted <= labels.items()
        labelled += matches
        for condition in pod.status.conditions:
            if condition.type == "Ready":
                if condition.status == "True":
                    ready += 1
                    since = condition.last_transition_time
                    available += wait == 0 or (since is not None and since <= due)
                break
    return labelled, ready, available


# %% book/07_replicaset.ipynb#cddf8783
STATUS_UPDATE_RETRIES = 1


async def update_replica_set_status(
    rsc: ReplicaSetController[W], rs: W, status: ReplicaSetStatus | ReplicationControllerStatus
) -> W:
    """Write the status unless nothing has changed; try once more with a fresh read.

    Returns:
        The set as it is now known.

    Raises:
        StatusError: The fresh read or the second write failed.
    """
    generation = rs.metadata.generation
    if status == rs.status and generation == rs.status.observed_generation:
        return rs
    status = replace(status, observed_generation=generation)
    current = rs
    for attempt in range(STATUS_UPDATE_RETRIES + 1):
        try:
            return await rsc.client.update_status(replace(current, status=status))
        except (StatusError, OSError):
            if attempt == STATUS_UPDATE_RETRIES:
                raise
            current = await rsc.client.get(rsc.kind.type, rs.metadata.namespace, rs.metadata.name)
    raise AssertionError("unreachable")


# %% book/07_replicaset.ipynb#a2c82d4b
def plan_availability_check(
    rsc: ReplicaSetController[W], rs: W, active: Sequence[Pod], evaluated: datetime
) -> None:
    """Come back when the next ready pod will have been ready for minReadySeconds."""
    wait, status = rs.spec.min_ready_seconds, rs.status
    if wait <= 0 or status.ready_replicas == status.available_replicas:
        return
    delay: float = wait
    if rsc.gates.next_availability_check:
        due = find_min_next_pod_availability_check(active, wait, evaluated, rsc.clock)
        delay = wait if due is None else due
    elif status.ready_replicas != rs.spec.replicas:
        return
    key = object_key(rs)
    decide(rsc, key, "requeue", key, f"the next pod is available in {delay:g} s", delay)
    rsc.queue.add_after(key, delay)
