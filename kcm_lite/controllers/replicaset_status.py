# Generated from book/07_replicaset.ipynb by tools/tangle.py; edit it there.

"""What a set's status says, and when it is written.

See: chapter *ReplicaSet*; upstream ``pkg/controller/replicaset/replica_set_utils.go``.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from kcm_lite.api.apps import ReplicaSetStatus
from kcm_lite.api.core import PodTemplateSpec, ReplicationControllerStatus
from kcm_lite.api.errors import StatusError
from kcm_lite.api.meta import Condition, object_key, replace
from kcm_lite.controllers.replicaset_types import (
    Found,
    ReplicaSetController,
    W,
    Workload,
    decide,
)
from kcm_lite.reconcile.podtally import ACTIVE, TERMINATING, PodState
from kcm_lite.reconcile.podutil import find_min_next_availability_check

# %% book/07_replicaset.ipynb#ee2e8d57
REPLICA_FAILURE = "ReplicaFailure"
"""The condition that tells why pods could not be created or deleted."""


def calculate_status(
    rsc: ReplicaSetController[W], rs: W, found: Found, error: Exception | None, now: datetime
) -> ReplicaSetStatus | ReplicationControllerStatus:
    """Return the status that follows from the pods that this sync found, not from what it did."""
    counts: dict[str, Any] = count_pods(rs, found.states, now)
    if rsc.kind.terminating_replicas:
        gone = found.count(TERMINATING) if rsc.gates.terminating_replicas else None
        counts["terminating_replicas"] = gone
    conditions: tuple[Condition, ...] = rs.status.conditions
    failing = any(condition.type == REPLICA_FAILURE for condition in conditions)
    if error is None and failing:
        conditions = tuple(c for c in conditions if c.type != REPLICA_FAILURE)
    elif error is not None and not failing:
        diff = counts["replicas"] - (rs.spec.replicas or 0)
        failure = Condition(
            type=REPLICA_FAILURE,
            status="True",
            reason="FailedCreate" if diff < 0 else "FailedDelete" if diff > 0 else "",
            message=str(error),
            last_transition_time=rsc.clock.timestamp(),
        )
        conditions = (*conditions, failure)
    return replace(rs.status, conditions=conditions, **counts)


# %% book/07_replicaset.ipynb#c3643b9c
def count_pods(rs: Workload, states: Mapping[PodState, int], now: datetime) -> dict[str, int]:
    """Count the active pods: all, those with all labels of the template, ready, available."""
    template = rs.spec.template or PodTemplateSpec()
    wanted, wait = template.metadata.labels.items(), rs.spec.min_ready_seconds
    due = now - timedelta(seconds=wait)
    counts = dict.fromkeys(
        ("replicas", "fully_labeled_replicas", "ready_replicas", "available_replicas"), 0
    )
    for state, n in states.items():
        if state.phase != ACTIVE:
            continue
        counts["replicas"] += n
        if wanted <= state.labels:
            counts["fully_labeled_replicas"] += n
        if state.ready:
            counts["ready_replicas"] += n
            if wait == 0 or (state.since is not None and state.since <= due):
                counts["available_replicas"] += n
    return counts


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
    rsc: ReplicaSetController[W], rs: W, found: Found, evaluated: datetime
) -> None:
    """Come back when the next ready pod will have been ready for minReadySeconds."""
    wait, status = rs.spec.min_ready_seconds, rs.status
    if wait <= 0 or status.ready_replicas == status.available_replicas:
        return
    delay: float = wait
    if rsc.gates.next_availability_check:
        ready = [state.since for state in found.states if state.phase == ACTIVE]
        due = find_min_next_availability_check(ready, wait, evaluated, rsc.clock)
        delay = wait if due is None else due
    elif status.ready_replicas != rs.spec.replicas:
        return
    key = object_key(rs)
    decide(rsc, key, "requeue", key, f"the next pod is available in {delay:g} s", delay)
    rsc.queue.add_after(key, delay)
