"""Deployments.

See: kubernetes ``pkg/apis/apps/validation``.
"""

from __future__ import annotations

from kcm_lite.api.apps import (
    Deployment,
    DeploymentStatus,
    DeploymentStrategy,
    RollingUpdateDeployment,
)
from kcm_lite.api.golang import parse_int
from kcm_lite.api.intstr import IntOrString
from kcm_lite.api.validation.apps import validate_counts, validate_selector_and_template
from kcm_lite.api.validation.content import is_valid_percent
from kcm_lite.api.validation.field import Causes, forbidden, invalid, not_supported, required
from kcm_lite.api.validation.meta import (
    all_invalid,
    nonnegative,
    validate_meta_update,
)
from kcm_lite.api.validation.podspecdiff import show_internal

RECREATE, ROLLING_UPDATE = "Recreate", "RollingUpdate"
ROLLBACK_TO = "deprecated.deployment.rollback.to"
"""The annotation that asks for a rollback to a revision; it holds the number."""


def validate_deployment_status_update(new: Deployment, old: Deployment) -> Causes:
    """Check that the counts of a status fit together and that collisions are not uncounted."""
    causes = validate_meta_update(new.metadata, old.metadata) + _validate_status(new.status)
    count, before = new.status.collision_count, old.status.collision_count
    if before is not None and (count or 0) < before:
        causes.append(invalid("status.collisionCount", count or 0, "cannot be decremented"))
    return causes


def check_deployment(d: Deployment) -> Causes:
    """Check the spec of a Deployment, and its request for a rollback."""
    spec = d.spec
    causes = nonnegative(spec.replicas, "spec.replicas")
    causes += validate_selector_and_template(spec.selector, spec.template)
    causes += validate_strategy(spec.strategy, "spec.strategy")
    causes += nonnegative(spec.min_ready_seconds, "spec.minReadySeconds")
    causes += nonnegative(spec.revision_history_limit, "spec.revisionHistoryLimit")
    causes += _validate_rollback(d.metadata.annotations.get(ROLLBACK_TO, ""))
    deadline = spec.progress_deadline_seconds
    causes += nonnegative(deadline, "spec.progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.min_ready_seconds:
        detail = "must be greater than minReadySeconds"
        causes.append(invalid("spec.progressDeadlineSeconds", deadline, detail))
    return causes


def _validate_rollback(revision: str) -> Causes:
    """Check the number in the annotation; upstream reads it into a field of the spec."""
    try:
        return nonnegative(parse_int(revision), "spec.rollback.version") if revision else []
    except ValueError as error:
        return [invalid(f"metadata.annotations[{ROLLBACK_TO}]", revision, str(error))]


def validate_strategy(strategy: DeploymentStrategy, path: str) -> Causes:
    """Check the kind of update, and that only a rolling one has limits."""
    rolling = strategy.rolling_update
    if strategy.type == RECREATE:
        if rolling is None:
            return []
        detail = f"may not be specified when strategy `type` is '{RECREATE}'"
        return [forbidden(f"{path}.rollingUpdate", detail)]
    if strategy.type == ROLLING_UPDATE:
        if rolling is None:
            detail = "this should be defaulted and never be nil"
            return [required(f"{path}.rollingUpdate", detail)]
        return _validate_rolling_update(rolling, f"{path}.rollingUpdate")
    shown = show_internal(strategy, "DeploymentStrategy")
    return [not_supported(path, shown, (RECREATE, ROLLING_UPDATE))]


def _validate_rolling_update(rolling: RollingUpdateDeployment, path: str) -> Causes:
    unavailable, surge = rolling.max_unavailable or 0, rolling.max_surge or 0
    causes = validate_positive_int_or_percent(unavailable, f"{path}.maxUnavailable")
    causes += validate_positive_int_or_percent(surge, f"{path}.maxSurge")
    if not _number(unavailable) and not _number(surge):
        detail = "may not be 0 when `maxSurge` is 0"
        causes.append(invalid(f"{path}.maxUnavailable", unavailable, detail))
    return causes + validate_not_more_than_100_percent(unavailable, f"{path}.maxUnavailable")


def validate_positive_int_or_percent(value: IntOrString, path: str) -> Causes:
    """A number that is not negative, or a percentage."""
    if isinstance(value, int):
        return nonnegative(value, path)
    return all_invalid(path, value, is_valid_percent(value))


def validate_not_more_than_100_percent(value: IntOrString, path: str) -> Causes:
    """A percentage must not be of more than everything; numbers may be as large as they like."""
    if isinstance(value, int) or is_valid_percent(value):
        return []
    digits = value[:-1].lstrip("0")
    too_much = len(digits) > 3 or int(digits or "0") > 100
    return [invalid(path, value, "must not be greater than 100%")] if too_much else []


def _number(value: IntOrString) -> int:
    """Return the number in front of the percent sign if there is one; 0 for what is no number."""
    if isinstance(value, int):
        return value
    try:
        return parse_int(value.removesuffix("%"))
    except ValueError:
        return 0


def _validate_status(status: DeploymentStatus) -> Causes:
    causes = nonnegative(status.observed_generation, "status.observedGeneration")
    rest = {
        "unavailableReplicas": status.unavailable_replicas,
        "terminatingReplicas": status.terminating_replicas,
        "collisionCount": status.collision_count,
    }
    return causes + validate_counts(status, {"updatedReplicas": status.updated_replicas}, rest)
