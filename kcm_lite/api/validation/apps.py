"""ReplicaSets and ControllerRevisions.

See: kubernetes ``pkg/apis/apps/validation``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm_lite.api.apps import ControllerRevision, DeploymentStatus, ReplicaSet, ReplicaSetStatus
from kcm_lite.api.core import PodTemplateSpec, ReplicationController, ReplicationControllerStatus
from kcm_lite.api.meta import LabelSelector
from kcm_lite.api.selectors import Selector, SelectorError, label_selector_as_selector
from kcm_lite.api.validation.field import Causes, forbidden, invalid, not_supported, required
from kcm_lite.api.validation.meta import (
    NEGATIVE,
    immutable,
    nonnegative,
    validate_label_selector,
    validate_meta,
    validate_meta_update,
)
from kcm_lite.api.validation.pod import validate_pod_template


def check_replica_set(rs: ReplicaSet) -> Causes:
    """Check the spec of a ReplicaSet."""
    causes = nonnegative(rs.spec.replicas, "spec.replicas")
    causes += nonnegative(rs.spec.min_ready_seconds, "spec.minReadySeconds")
    return causes + validate_selector_and_template(rs.spec.selector, rs.spec.template)


def same_selector(new: Any, old: Any) -> Causes:
    """Check that an update of a ReplicaSet or Deployment keeps the selector."""
    return immutable(new.spec.selector, old.spec.selector, "spec.selector")


def check_replica_counts(obj: ReplicaSet | ReplicationController) -> Causes:
    """Check the counts of pods that ReplicaSets and ReplicationControllers report."""
    status = obj.status
    parts = {"fullyLabeledReplicas": status.fully_labeled_replicas}
    rest: dict[str, int | None] = {"observedGeneration": status.observed_generation}
    if isinstance(status, ReplicaSetStatus):
        rest["terminatingReplicas"] = status.terminating_replicas
    return validate_counts(status, parts, rest)


def validate_counts(
    status: ReplicaSetStatus | ReplicationControllerStatus | DeploymentStatus,
    parts: Mapping[str, int],
    rest: Mapping[str, int | None],
) -> Causes:
    """Check that no count is negative, and no part of the pods more than all of them.

    Args:
        status: Has the pods, the ready and the available ones.
        parts: Other parts of the pods, by name in the status.
        rest: Other numbers, likewise.
    """
    total, ready, available = status.replicas, status.ready_replicas, status.available_replicas
    parts = {**parts, "readyReplicas": ready, "availableReplicas": available}
    every = {"replicas": total, **parts, **rest}
    causes = [invalid(f"status.{k}", v, NEGATIVE) for k, v in every.items() if (v or 0) < 0]
    detail = "cannot be greater than status.replicas"
    causes += [invalid(f"status.{k}", v, detail) for k, v in parts.items() if v > total]
    if available > ready:
        detail = "cannot be greater than readyReplicas"
        causes.append(invalid("status.availableReplicas", available, detail))
    return causes


def validate_selector_and_template(
    wanted: LabelSelector | None, template: PodTemplateSpec
) -> Causes:
    """Check the selector of a ReplicaSet or Deployment, and the template of its pods."""
    causes: Causes = []
    if wanted is None:
        causes.append(required("spec.selector"))
    else:
        causes += validate_label_selector(wanted, "spec.selector")
        if not wanted.match_labels and not wanted.match_expressions:
            detail = "empty selector is invalid for deployment"  # for ReplicaSets as well
            causes.append(invalid("spec.selector", wanted, detail))
    try:
        selector = label_selector_as_selector(wanted)
    except SelectorError:
        causes.append(invalid("spec.selector", wanted, "invalid label selector"))
        return causes
    return causes + validate_template_of(template, selector, "spec.template", "ReplicaSet")


def validate_template_of(
    template: PodTemplateSpec, selector: Selector, path: str, kind: str
) -> Causes:
    """Check the template of a workload whose pods run for ever."""
    causes: Causes = []
    labels = template.metadata.labels
    if not selector.empty and not selector.matches(labels):
        detail = "`selector` does not match template `labels`"
        causes.append(invalid(f"{path}.metadata.labels", labels or None, detail))
    causes += validate_pod_template(template, path)
    policy = template.spec.restart_policy
    if policy != "Always":
        causes.append(not_supported(f"{path}.spec.restartPolicy", policy, ("Always",)))
    if template.spec.active_deadline_seconds is not None:
        detail = f"activeDeadlineSeconds in {kind} is not Supported"
        causes.append(forbidden(f"{path}.spec.activeDeadlineSeconds", detail))
    return causes


def _validate_revision(revision: ControllerRevision) -> Causes:
    return validate_meta(revision.metadata) + nonnegative(revision.revision, "revision")


def validate_controller_revision(revision: ControllerRevision) -> Causes:
    """Check a new revision: it must hold data."""
    causes = _validate_revision(revision)
    if revision.data is None:
        causes.append(required("data", "data is mandatory"))
    elif not isinstance(revision.data, Mapping):
        causes.append(required("data", "data must be a valid JSON object"))
    return causes


def validate_controller_revision_update(new: ControllerRevision, old: ControllerRevision) -> Causes:
    """Check an update: only the number may change."""
    causes = validate_meta_update(new.metadata, old.metadata) + _validate_revision(new)
    return causes + immutable(new.data, old.data, "data")
