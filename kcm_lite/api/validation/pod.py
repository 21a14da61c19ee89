"""Pods and pod templates.

See: kubernetes ``pkg/apis/core/validation``. Checked are the fields that a controller, the
scheduler or a kubelet of this package reads, and those beside them that cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm_lite.api.core import (
    Pod,
    PodSpec,
    PodTemplateSpec,
    Toleration,
)
from kcm_lite.api.errors import Cause
from kcm_lite.api.golang import parse_int
from kcm_lite.api.memo import by_identity
from kcm_lite.api.validation.container import (
    validate_containers,
    validate_image_of_pod,
    validate_init_containers,
)
from kcm_lite.api.validation.content import (
    is_dns1123_label,
    is_dns1123_subdomain,
    is_label_value,
    is_qualified_name,
    range_message,
)
from kcm_lite.api.validation.field import (
    Causes,
    duplicate,
    each,
    forbidden,
    invalid,
    not_supported,
    one_of,
    required,
)
from kcm_lite.api.validation.meta import (
    all_invalid,
    validate_annotations,
    validate_labels,
    validate_meta,
)

POD_RESTART_POLICIES = ("Always", "OnFailure", "Never")
DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
MIRROR_POD = "kubernetes.io/config.mirror"
MAX_INT32 = 2**31 - 1


@by_identity
def validate_pod_spec(spec: PodSpec, path: str, of_pod: bool) -> tuple[Cause, ...]:
    """Check the spec of a pod, or of a template when ``of_pod`` is false."""
    causes: Causes = []
    if spec.termination_grace_period_seconds is None:
        causes.append(required(f"{path}.terminationGracePeriodSeconds"))
    causes += validate_containers(spec.containers, f"{path}.containers")
    causes += validate_init_containers(spec, f"{path}.initContainers")
    if spec.host_network:
        causes += _validate_host_network(spec, path, of_pod)
    causes += one_of(spec.restart_policy, POD_RESTART_POLICIES, f"{path}.restartPolicy")
    causes += one_of(spec.dns_policy, DNS_POLICIES, f"{path}.dnsPolicy")
    causes += validate_labels(spec.node_selector, f"{path}.nodeSelector")
    for i, gate in enumerate(spec.readiness_gates):
        name = _text(gate, "conditionType")
        where = f"{path}.readinessGates[{i}].conditionType"
        causes += all_invalid(where, name, is_qualified_name(name))
    causes += _validate_scheduling_gates(spec, f"{path}.schedulingGates")
    for value, field, rule in (
        (spec.service_account_name, "serviceAccountName", is_dns1123_subdomain),
        (spec.node_name, "nodeName", is_dns1123_subdomain),
    ):
        if value:
            causes += all_invalid(f"{path}.{field}", value, rule(value))
    deadline = spec.active_deadline_seconds
    if deadline is not None and not 1 <= deadline <= MAX_INT32:
        detail = range_message(1, MAX_INT32)
        causes.append(invalid(f"{path}.activeDeadlineSeconds", deadline, detail))
    for value, field in ((spec.hostname, "hostname"), (spec.subdomain, "subdomain")):
        if value:
            causes += all_invalid(f"{path}.{field}", value, is_dns1123_label(value))
    causes += validate_tolerations(spec.tolerations, f"{path}.tolerations")
    if spec.preemption_policy is not None:
        where = f"{path}.preemptionPolicy"
        causes += one_of(spec.preemption_policy, PREEMPTION_POLICIES, where)
    if of_pod:
        causes += each(spec.containers, validate_image_of_pod, f"{path}.containers")
        causes += each(spec.init_containers, validate_image_of_pod, f"{path}.initContainers")
    return tuple(causes)


def _text(raw: Mapping[str, Any], key: str) -> str:
    value = raw.get(key)
    return value if isinstance(value, str) else ""


def _validate_host_network(spec: PodSpec, path: str, of_pod: bool) -> Causes:
    causes: Causes = []
    for i, container in enumerate(spec.containers):
        for j, port in enumerate(container.ports):
            host = port.host_port
            if (of_pod or host != 0) and host != port.container_port:
                detail = "must match `containerPort` when `hostNetwork` is true"
                where = f"{path}.containers[{i}].ports[{j}].hostPort"
                causes.append(invalid(where, host, detail))
    return causes


def _validate_scheduling_gates(spec: PodSpec, path: str) -> Causes:
    causes: Causes = []
    names: set[str] = set()
    for i, gate in enumerate(spec.scheduling_gates):
        name = _text(gate, "name")
        causes += all_invalid(f"{path}[{i}]", name, is_qualified_name(name))
        if name in names:
            causes.append(duplicate(f"{path}[{i}]", name))
        names.add(name)
    return causes


def validate_tolerations(tolerations: tuple[Toleration, ...], path: str) -> Causes:
    """Check which taints a pod puts up with."""
    return each(tolerations, _validate_toleration, path)


def _validate_toleration(toleration: Toleration, path: str) -> Causes:
    causes: Causes = []
    key, operator, value = toleration.key, toleration.operator, toleration.value
    if key:
        causes += all_invalid(f"{path}.key", key, is_qualified_name(key))
    elif operator != "Exists":
        detail = (
            "operator must be Exists when `key` is empty,"
            ' which means "match all values and all keys"'
        )
        causes.append(invalid(f"{path}.operator", operator, detail))
    if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        causes.append(invalid(f"{path}.effect", toleration.effect, detail))
    if operator in ("Equal", ""):
        if messages := is_label_value(value):
            causes.append(invalid(f"{path}.operator", value, ";".join(messages)))
    elif operator == "Exists":
        if value:
            detail = "value must be empty when `operator` is 'Exists'"
            causes.append(invalid(f"{path}.operator", value, detail))
    else:
        allowed = (
            ("Equal", "Exists", "Lt", "Gt") if operator in ("Lt", "Gt") else ("Equal", "Exists")
        )
        causes.append(not_supported(f"{path}.operator", operator, allowed))
    if toleration.effect:
        causes += one_of(toleration.effect, TAINT_EFFECTS, f"{path}.effect")
    return causes


def validate_pod_annotations(annotations: Mapping[str, str], spec: PodSpec, path: str) -> Causes:
    """Check the annotations that mean something for a pod."""
    causes: Causes = []
    if MIRROR_POD in annotations and not spec.node_name:
        detail = "must set spec.nodeName if mirror pod annotation is set"
        causes.append(invalid(f"{path}[{MIRROR_POD}]", annotations[MIRROR_POD], detail))
    if DELETION_COST in annotations and not is_deletion_cost(annotations[DELETION_COST]):
        detail = "must be a 32bit integer"
        causes.append(invalid(f"{path}[{DELETION_COST}]", annotations[DELETION_COST], detail))
    return causes


def is_deletion_cost(text: str) -> bool:
    """Whether the text is a 32-bit number without plus sign or leading zeros."""
    if not (text == "0" or text[:1] in tuple("-123456789")):
        return False
    try:
        parse_int(text, 32)
    except ValueError:
        return False
    return True


def validate_pod_template(template: PodTemplateSpec, path: str) -> Causes:
    """Check a template: labels, annotations and spec."""
    causes = validate_labels(template.metadata.labels, f"{path}.labels")
    annotations = template.metadata.annotations
    causes += validate_annotations(annotations, f"{path}.annotations")
    causes += validate_pod_annotations(annotations, template.spec, f"{path}.annotations")
    causes += validate_pod_spec(template.spec, f"{path}.spec", False)
    if template.spec.extra.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        causes.append(forbidden(f"{path}.spec.ephemeralContainers", detail))
    return causes


def validate_pod_content(pod: Pod) -> Causes:
    """Check what holds for new and for updated pods."""
    causes = validate_meta(pod.metadata)
    annotations = pod.metadata.annotations
    if annotations:
        causes += validate_pod_annotations(annotations, pod.spec, "metadata.annotations")
    causes += validate_pod_spec(pod.spec, "spec", True)
    return causes


def validate_pod(pod: Pod) -> Causes:
    """Check a new pod."""
    causes = validate_pod_content(pod)
    if pod.spec.extra.get("ephemeralContainers"):
        causes.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if pod.spec.node_name and pod.spec.scheduling_gates:
        detail = "cannot be set until all schedulingGates have been cleared"
        causes.append(forbidden("spec.nodeName", detail))
    return causes
