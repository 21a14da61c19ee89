"""Core kinds other than pods.

See: kubernetes ``pkg/apis/core/validation``.
"""

from __future__ import annotations

from collections.abc import Mapping

from kcm_lite.api.core import (
    ConfigMap,
    Event,
    Namespace,
    Node,
    ReplicationController,
    ResourceQuota,
    Taint,
)
from kcm_lite.api.quantity import parse_quantity
from kcm_lite.api.selectors import selector_from_set
from kcm_lite.api.validation.apps import validate_template_of
from kcm_lite.api.validation.content import (
    is_config_map_key,
    is_dns1123_label,
    is_dns1123_subdomain,
    is_label_value,
    is_qualified_name,
)
from kcm_lite.api.validation.field import (
    Causes,
    duplicate,
    forbidden,
    invalid,
    one_of,
    required,
    too_long,
)
from kcm_lite.api.validation.meta import (
    IMMUTABLE,
    all_invalid,
    nonnegative,
    validate_finalizer_is_known,
    validate_generic_meta,
    validate_meta,
    validate_meta_update,
)
from kcm_lite.api.validation.pod import TAINT_EFFECTS
from kcm_lite.api.validation.podspecdiff import show_internal
from kcm_lite.api.validation.resources import (
    is_standard_quota_resource,
    validate_amount,
    validate_quota_resource_name,
)

Amounts = Mapping[str, str | int | float]


# --- ReplicationController ----------------------------------------------------------------------


def is_long_name(name: str) -> list[str]:
    """The same rule as for other kinds; only the message of a long name differs."""
    return is_dns1123_subdomain(name, "bytes")


def check_replication_controller(rc: ReplicationController) -> Causes:
    """Check the spec of a ReplicationController; unlike a ReplicaSet's, its selector may change."""
    spec = rc.spec
    causes = nonnegative(spec.min_ready_seconds, "spec.minReadySeconds")
    if not spec.selector:
        causes.append(required("spec.selector"))
    if spec.replicas is None:
        causes.append(required("spec.replicas"))
    causes += nonnegative(spec.replicas, "spec.replicas")
    if spec.template is None:
        return [*causes, required("spec.template")]
    selector = selector_from_set(spec.selector)
    return causes + validate_template_of(
        spec.template, selector, "spec.template", "ReplicationController"
    )


# --- Node ---------------------------------------------------------------------------------------


def check_node(node: Node) -> Causes:
    """Check the spec and the status of a new node."""
    return _validate_taints(node.spec.taints) + _validate_node_resources(node)


def validate_node_update(new: Node, old: Node) -> Causes:
    """Check an update of a node or of its status."""
    causes = validate_meta_update(new.metadata, old.metadata)
    causes += _validate_node_resources(new)
    provider = old.spec.extra.get("providerID")
    if provider and new.spec.extra.get("providerID") != provider:
        detail = 'node updates may not change providerID except from "" to valid'
        causes.append(forbidden("spec.providerID", detail))
    return causes + _validate_taints(new.spec.taints)


def _validate_node_resources(node: Node) -> Causes:
    causes: Causes = []
    for field in ("capacity", "allocatable"):
        amounts: Amounts = getattr(node.status, field)
        for name, amount in sorted(amounts.items()):
            path = f"status.{field}.{name}"
            causes += validate_amount(name, parse_quantity(amount), path)
    return causes


def _validate_taints(taints: tuple[Taint, ...]) -> Causes:
    causes: Causes = []
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate(taints):
        path = f"metadata.taints[{i}]"  # where upstream says they are
        causes += all_invalid(f"{path}.key", taint.key, is_qualified_name(taint.key))
        if messages := is_label_value(taint.value):
            causes.append(invalid(f"{path}.value", taint.value, ";".join(messages)))
        causes += one_of(taint.effect, TAINT_EFFECTS, f"{path}.effect")
        if (taint.key, taint.effect) in seen:
            detail = "taints must be unique by key and effect pair"
            causes.append(duplicate(path, show_internal(taint, "Taint"), detail))
        seen.add((taint.key, taint.effect))
    return causes


# --- Namespace ----------------------------------------------------------------------------------


def validate_namespace(namespace: Namespace) -> Causes:
    """Check a new namespace."""
    causes = validate_meta(namespace.metadata, namespaced=False, rule=is_dns1123_label)
    for finalizer in namespace.spec.finalizers:
        causes += all_invalid("spec.finalizers", finalizer, is_qualified_name(finalizer))
        causes += validate_finalizer_is_known(finalizer, "spec.finalizers")
    return causes


def validate_namespace_status_update(new: Namespace, old: Namespace) -> Causes:
    """Check that the phase fits the deletion timestamp."""
    causes = validate_meta_update(new.metadata, old.metadata)
    phase, deleted = new.status.phase, new.metadata.deletion_timestamp is not None
    only, how = ("Terminating", "not empty") if deleted else ("Active", "empty")
    if phase != only:
        detail = f"may only be '{only}' if `deletionTimestamp` is {how}"
        causes.append(invalid("status.Phase", phase, detail))
    return causes


# --- ResourceQuota ------------------------------------------------------------------------------

SCOPES = (
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
)
_CONFLICTING = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_POD_COUNTS = frozenset({"pods"})
_POD_COMPUTE = frozenset(
    {"cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"}
)


def check_resource_quota(quota: ResourceQuota) -> Causes:
    """Check a new quota."""
    return check_quota_spec(quota) + check_quota_status(quota)


def same_scopes(new: ResourceQuota, old: ResourceQuota) -> Causes:
    """Check that an update keeps the scopes."""
    if set(new.spec.scopes) == set(old.spec.scopes):
        return []
    return [invalid("spec.scopes", new.spec.scopes, IMMUTABLE)]


def _validate_amounts(amounts: Amounts, path: str) -> Causes:
    causes: Causes = []
    for name, amount in sorted(amounts.items()):
        causes += validate_quota_resource_name(name, f"{path}[{name}]")
        causes += validate_amount(name, parse_quantity(amount), f"{path}[{name}]")
    return causes


def check_quota_status(quota: ResourceQuota) -> Causes:
    """Check what is used, of what."""
    causes = _validate_amounts(quota.status.hard, "status.hard")
    return causes + _validate_amounts(quota.status.used, "status.used")


def check_quota_spec(quota: ResourceQuota) -> Causes:
    """Check what is allowed, and of which pods."""
    spec = quota.spec
    causes = _validate_amounts(spec.hard, "spec.hard")
    for scope in spec.scopes:
        if scope not in SCOPES:
            causes.append(invalid("spec.scopes", spec.scopes, "unsupported scope"))
        for name in sorted(spec.hard):
            if is_standard_quota_resource(name) and not _scope_fits(scope, name):
                detail = "unsupported scope applied to resource"
                causes.append(invalid("spec.scopes", spec.scopes, detail))
    for pair in _CONFLICTING:
        if pair <= set(spec.scopes):
            causes.append(invalid("spec.scopes", spec.scopes, "conflicting scopes"))
    return causes


def _scope_fits(scope: str, resource: str) -> bool:
    if scope == "BestEffort":
        return resource in _POD_COUNTS
    if scope == "VolumeAttributesClass":
        return resource in ("persistentvolumeclaims", "requests.storage")
    return scope not in SCOPES or resource in _POD_COUNTS | _POD_COMPUTE


# --- ConfigMap ----------------------------------------------------------------------------------

MAX_DATA = 1 << 20


def validate_config_map(config: ConfigMap) -> Causes:
    """Check a new ConfigMap."""
    causes = validate_meta(config.metadata)
    for key in sorted(config.data):
        causes += all_invalid(f"data[{key}]", key, is_config_map_key(key))
        if key in config.binary_data:
            detail = "duplicate of key present in binaryData"
            causes.append(invalid(f"data[{key}]", key, detail))
    for key in sorted(config.binary_data):
        causes += all_invalid(f"binaryData[{key}]", key, is_config_map_key(key))
    values = (*config.data.values(), *config.binary_data.values())
    if sum(len(value.encode()) for value in values) > MAX_DATA:
        causes.append(too_long("", MAX_DATA))
    return causes


def validate_config_map_update(new: ConfigMap, old: ConfigMap) -> Causes:
    """Check an update: an immutable ConfigMap stays as it is."""
    causes = validate_meta_update(new.metadata, old.metadata)
    if old.immutable:
        detail = "field is immutable when `immutable` is set"
        if not new.immutable:
            causes.append(forbidden("immutable", detail))
        if new.data != old.data:
            causes.append(forbidden("data", detail))
        if new.binary_data != old.binary_data:
            causes.append(forbidden("binaryData", detail))
    return causes + validate_config_map(new)


# --- Event --------------------------------------------------------------------------------------


def validate_new_event(event: Event) -> Causes:
    """Check a new event; its name need not be a DNS name."""
    return check_event(event) or validate_generic_meta(event.metadata, True)


def check_event(event: Event) -> Causes:
    """Check what holds for new and for updated events."""
    causes: Causes = []
    involved, namespace = event.involved_object.namespace, event.metadata.namespace
    path = "involvedObject.namespace"
    if event.event_time is None:
        if namespace != involved and not (not involved and namespace == "default"):
            causes.append(invalid(path, involved, "does not match event.namespace"))
    else:
        if not involved and namespace not in ("default", "kube-system"):
            causes.append(invalid(path, involved, "does not match event.namespace"))
        causes += _validate_new_style(event)
    return causes + all_invalid("namespace", namespace, is_dns1123_subdomain(namespace))


def _validate_new_style(event: Event) -> Causes:
    causes: Causes = []
    component = event.reporting_component
    if not component:
        causes.append(required("reportingComponent"))
    causes += all_invalid("reportingComponent", component, is_qualified_name(component))
    for path, text in (
        ("reportingInstance", event.reporting_instance),
        ("action", event.action),
        ("reason", event.reason),
    ):
        if not text:
            causes.append(required(path))
        if len(text.encode()) > 128:
            causes.append(invalid(path, "", "can have at most 128 characters"))
    if len(event.message.encode()) > 1024:
        causes.append(invalid("message", "", "can have at most 1024 characters"))
    return causes
