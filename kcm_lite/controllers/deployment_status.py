# Generated from book/09a_sets_and_status.ipynb by tools/tangle.py; edit it there.

"""What a Deployment's status says: counts, and three conditions with their reasons.

See: chapter *Deployment*; upstream ``progress.go`` and ``calculateStatus``.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from kcm_lite.api.apps import Deployment, DeploymentStatus, ReplicaSet
from kcm_lite.api.golang import quote
from kcm_lite.api.meta import Condition, object_key, replace
from kcm_lite.controllers.deployment_types import DeploymentController, View, decide
from kcm_lite.controllers.replicaset_status import REPLICA_FAILURE
from kcm_lite.controllers.rollout import (
    EPOCH,
    UNLIMITED,
    available,
    deployment_complete,
    deployment_progressing,
    max_unavailable,
    total,
    wanted,
)

# %% book/09a_sets_and_status.ipynb#1c263180
AVAILABLE, PROGRESSING = "Available", "Progressing"

FOUND, NEW, UPDATED = "FoundNewReplicaSet", "NewReplicaSetCreated", "ReplicaSetUpdated"
DONE, TIMED_OUT = "NewReplicaSetAvailable", "ProgressDeadlineExceeded"
CREATE_FAILED = "ReplicaSetCreateError"
PAUSED, RESUMED = "DeploymentPaused", "DeploymentResumed"


def condition(now: datetime, type: str, status: str, reason: str, message: str) -> Condition:
    """Return a condition that is updated and changed ``now``."""
    return Condition(
        type=type,
        status=status,
        last_update_time=now,
        last_transition_time=now,
        reason=reason,
        message=message,
    )


def find_condition(status: DeploymentStatus, type: str) -> Condition | None:
    """Return the condition of a type, if it is there."""
    return next((c for c in status.conditions if c.type == type), None)


# %% book/09a_sets_and_status.ipynb#bddd16c8
def without_condition(status: DeploymentStatus, type: str) -> DeploymentStatus:
    """Return the status without the conditions of a type."""
    return replace(status, conditions=tuple(c for c in status.conditions if c.type != type))


def with_condition(status: DeploymentStatus, change: Condition) -> DeploymentStatus:
    """Return the status with a condition, as it was if status and reason are the same.

    The time of the last transition stays if only the reason changes.
    """
    current = find_condition(status, change.type)
    if current is not None and current.status == change.status:
        if current.reason == change.reason:
            return status
        change = replace(change, last_transition_time=current.last_transition_time)
    rest = without_condition(status, change.type)
    return replace(rest, conditions=(*rest.conditions, change))


# %% book/09a_sets_and_status.ipynb#28841a83
def calculate_status(
    d: Deployment,
    new: ReplicaSet | None,
    old: Sequence[ReplicaSet],
    now: datetime,
    *,
    terminating: bool = True,
) -> DeploymentStatus:
    """Return the status that follows from what the sets report.

    Args:
        terminating: Also count the pods on their way out.
    """
    sets = [*old] if new is None else [*old, new]
    ready = available(sets)
    status = DeploymentStatus(
        observed_generation=d.metadata.generation,
        replicas=sum(rs.status.replicas for rs in sets),
        updated_replicas=0 if new is None else new.status.replicas,
        ready_replicas=sum(rs.status.ready_replicas for rs in sets),
        available_replicas=ready,
        unavailable_replicas=max(total(sets) - ready, 0),
        terminating_replicas=count_terminating(sets) if terminating else None,
        conditions=d.status.conditions,
        collision_count=d.status.collision_count,
    )
    if ready >= wanted(d) - max_unavailable(d):
        verdict = ("True", "MinimumReplicasAvailable", "has minimum availability")
    else:
        verdict = ("False", "MinimumReplicasUnavailable", "does not have minimum availability")
    value, reason, text = verdict
    return with_condition(status, condition(now, AVAILABLE, value, reason, f"Deployment {text}."))


# %% book/09a_sets_and_status.ipynb#4bbf7036
def count_terminating(sets: Sequence[ReplicaSet]) -> int | None:
    """Return how many pods are on their way out; None if a set that was synced does not say."""
    counts = [
        rs.status.terminating_replicas
        for rs in sets
        if rs.status.observed_generation or rs.status.terminating_replicas is not None
    ]
    return None if None in counts else sum(n for n in counts if n is not None)


# %% book/09a_sets_and_status.ipynb#9fd59339
def has_progress_deadline(d: Deployment) -> bool:
    """Whether a rollout that makes no progress will be reported."""
    return d.spec.progress_deadline_seconds not in (None, UNLIMITED)


def deployment_timed_out(d: Deployment, status: DeploymentStatus, now: datetime) -> bool:
    """Whether the last progress is longer ago than the deadline allows."""
    current, deadline = find_condition(status, PROGRESSING), d.spec.progress_deadline_seconds
    if not has_progress_deadline(d) or deadline is None or current is None:
        return False
    if current.reason in (DONE, TIMED_OUT):
        return current.reason == TIMED_OUT
    return (current.last_update_time or EPOCH) + timedelta(seconds=deadline) < now


# %% book/09a_sets_and_status.ipynb#9b7f6aa9
def estimate_progress(
    d: Deployment, status: DeploymentStatus, new: ReplicaSet | None, now: datetime
) -> DeploymentStatus:
    """Return the status with what can be said of the rollout: done, under way, or stuck."""
    if not has_progress_deadline(d):
        return without_condition(status, PROGRESSING)
    current = find_condition(d.status, PROGRESSING)
    was_done = current is not None and current.reason == DONE
    if was_done and status.replicas == status.updated_replicas:
        return status  # no rollout is under way
    who: Deployment | ReplicaSet = d if new is None else new
    name, second = f"{who.KIND} {quote(who.metadata.name)}", now.replace(microsecond=0)
    if deployment_complete(d, status):
        text = f"{name} has successfully progressed."
        return with_condition(status, condition(second, PROGRESSING, "True", DONE, text))
    if deployment_progressing(d, status):
        text = f"{name} is progressing."
        change = condition(second, PROGRESSING, "True", UPDATED, text)
        if current is not None and current.status == "True":
            change = replace(change, last_transition_time=current.last_transition_time)
        return with_condition(without_condition(status, PROGRESSING), change)
    if deployment_timed_out(d, status, now):
        text = f"{name} has timed out progressing."
        return with_condition(status, condition(second, PROGRESSING, "False", TIMED_OUT, text))
    return status


# %% book/09a_sets_and_status.ipynb#d18aac86
def replica_failure(new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> Condition | None:
    """Return the failure that a set reports, the new one first, as a Deployment's condition."""
    for rs in [*([] if new is None else [new]), *old]:
        for c in rs.status.conditions:
            if c.type == REPLICA_FAILURE:
                return replace(c, last_update_time=c.last_transition_time)
    return None


# %% book/09a_sets_and_status.ipynb#1f74e03a
async def sync_rollout_status(
    dc: DeploymentController, view: View, new: ReplicaSet | None, old: Sequence[ReplicaSet]
) -> None:
    """Write the status of a rollout if it has changed; else come back for the deadline.

    Raises:
        StatusError: The write was refused.
    """
    d, now = view.d, dc.clock.now()
    terminating = dc.gates.terminating_replicas
    status = calculate_status(d, new, old, dc.clock.timestamp(), terminating=terminating)
    status = estimate_progress(d, status, new, now)
    failure = replica_failure(new, old)
    if failure is not None:
        status = with_condition(status, failure)
    else:
        status = without_condition(status, REPLICA_FAILURE)
    if status == d.status:
        requeue_stuck_deployment(dc, d, status)
    else:
        record_timeout(dc, d, status, now)
        await dc.client.update_status(replace(d, status=status))


async def sync_deployment_status(
    dc: DeploymentController, view: View, new: ReplicaSet | None, old: Sequence[ReplicaSet]
) -> None:
    """Write counts and availability if they have changed, and nothing about progress."""
    terminating = dc.gates.terminating_replicas
    status = calculate_status(view.d, new, old, dc.clock.timestamp(), terminating=terminating)
    if status != view.d.status:
        await dc.client.update_status(replace(view.d, status=status))


# %% book/09a_sets_and_status.ipynb#7653f8b7
def requeue_stuck_deployment(
    dc: DeploymentController, d: Deployment, status: DeploymentStatus
) -> None:
    """Come back when the deadline has passed: nothing else may happen until then."""
    current, deadline = find_condition(d.status, PROGRESSING), d.spec.progress_deadline_seconds
    if not has_progress_deadline(d) or deadline is None or current is None:
        return
    if deployment_complete(d, status) or current.reason == TIMED_OUT:
        return
    since = current.last_update_time or EPOCH
    left = (since - dc.clock.now()).total_seconds() + deadline
    decide(dc, d, "requeue", d, f"no progress: if there is none for {left:g} s more, say so")
    if left < 1:
        dc.queue.add_rate_limited(object_key(d))
    else:
        dc.queue.add_after(object_key(d), left + 1)


def record_timeout(
    dc: DeploymentController, d: Deployment, status: DeploymentStatus, now: datetime
) -> None:
    """Record that the status says for the first time that the deadline has passed."""
    before, after = (find_condition(s, PROGRESSING) for s in (d.status, status))
    if before is None or after is None or TIMED_OUT in (before.reason, None):
        return
    if after.reason == TIMED_OUT:
        spent = (now - (before.last_update_time or EPOCH)).total_seconds()
        limit = d.spec.progress_deadline_seconds
        decide(dc, d, "deadline", d, f"no progress for {spent:g} s, {limit} s are allowed")
