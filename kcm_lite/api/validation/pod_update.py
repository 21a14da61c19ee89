"""Updates of pods and of their status.

See: kubernetes ``pkg/apis/core/validation`` (``ValidatePodUpdate``, ``ValidatePodStatusUpdate``).
"""

from __future__ import annotations

from kcm_lite.api.core import Container, ContainerStatus, Pod, PodSpec
from kcm_lite.api.meta import Condition, replace
from kcm_lite.api.validation.container import validate_image_of_pod
from kcm_lite.api.validation.content import is_dns1123_subdomain, is_qualified_name, range_message
from kcm_lite.api.validation.field import Causes, each, forbidden, invalid, required
from kcm_lite.api.validation.meta import (
    all_invalid,
    immutable,
    validate_meta_update,
)
from kcm_lite.api.validation.pod import (
    MAX_INT32,
    MIRROR_POD,
    validate_pod_annotations,
    validate_pod_content,
    validate_tolerations,
)
from kcm_lite.api.validation.podspecdiff import diff_pod_specs

_UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def validate_pod_update(new: Pod, old: Pod) -> Causes:
    """Check an update: nearly all of a pod's spec is fixed once it is created."""
    if new.spec is old.spec and new.metadata is old.metadata:
        return []
    causes = validate_meta_update(new.metadata, old.metadata)
    causes += validate_pod_content(new)
    causes += _validate_annotation_updates(new, old)
    if new.spec == old.spec:
        return causes
    for field in ("containers", "init_containers"):
        path = "spec.containers" if field == "containers" else "spec.initContainers"
        now, was = getattr(new.spec, field), getattr(old.spec, field)
        if len(now) != len(was):
            causes.append(forbidden(path, "pod updates may not add or remove containers"))
            return causes
        causes += each(now, _validate_image, path)
    found, stop = _validate_deadline(new.spec, old.spec)
    causes += found
    if stop:
        return causes
    causes += _validate_added_tolerations(new.spec, old.spec)
    causes += _validate_deleted_gates(new.spec, old.spec)
    munged = _munge(new.spec, old.spec)
    if munged != old.spec:
        diff = diff_pod_specs(old.spec, munged)
        detail = f"pod updates may not change fields other than {_UPDATABLE}\n{diff}"
        causes.append(forbidden("spec", detail))
    return causes


def _validate_image(container: Container, path: str) -> Causes:
    missing = [] if container.image else [required(f"{path}.image")]
    return missing + validate_image_of_pod(container, path)


def _validate_deadline(new: PodSpec, old: PodSpec) -> tuple[Causes, bool]:
    """The deadline may be set once and then shortened. Also returns whether to stop there."""
    path, now, was = (
        "spec.activeDeadlineSeconds",
        new.active_deadline_seconds,
        old.active_deadline_seconds,
    )
    if now is None:
        if was is None:
            return [], False
        detail = "must not update from a positive integer to nil value"
        return [invalid(path, None, detail)], False
    if not 0 <= now <= MAX_INT32:
        return [invalid(path, now, range_message(0, MAX_INT32))], True
    if was is not None and was < now:
        return [invalid(path, now, "must be less than or equal to previous value")], True
    return [], False


def _validate_added_tolerations(new: PodSpec, old: PodSpec) -> Causes:
    kept = {repr(replace(t, toleration_seconds=None)) for t in new.tolerations}
    for toleration in old.tolerations:
        if repr(replace(toleration, toleration_seconds=None)) not in kept:
            detail = "existing toleration can not be modified except its tolerationSeconds"
            return [forbidden("spec.tolerations", detail)]
    return validate_tolerations(new.tolerations, "spec.tolerations")


def _validate_deleted_gates(new: PodSpec, old: PodSpec) -> Causes:
    before = {gate.get("name") for gate in old.scheduling_gates}
    return [
        forbidden(
            f"spec.schedulingGates[{i}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'",
        )
        for i, gate in enumerate(new.scheduling_gates)
        if gate.get("name") not in before
    ]


def _munge(new: PodSpec, old: PodSpec) -> PodSpec:
    """Return the new spec with what may change as it was."""
    grace = new.termination_grace_period_seconds
    if grace == 1 and (old.termination_grace_period_seconds or 0) < 0:
        grace = old.termination_grace_period_seconds
    selector = new.node_selector
    if old.scheduling_gates and old.node_selector.items() <= selector.items():
        selector = old.node_selector  # a gated pod may be narrowed to fewer nodes
    return replace(
        new,
        containers=_with_images_of(new.containers, old.containers),
        init_containers=_with_images_of(new.init_containers, old.init_containers),
        active_deadline_seconds=old.active_deadline_seconds,
        scheduling_gates=old.scheduling_gates,
        tolerations=old.tolerations,
        termination_grace_period_seconds=grace,
        node_selector=selector,
    )


def _with_images_of(
    new: tuple[Container, ...], old: tuple[Container, ...]
) -> tuple[Container, ...]:
    return tuple(replace(a, image=b.image) for a, b in zip(new, old, strict=True))


def _validate_annotation_updates(new: Pod, old: Pod) -> Causes:
    causes: Causes = []
    now, was = new.metadata.annotations, old.metadata.annotations
    path = f"metadata.annotations[{MIRROR_POD}]"
    if MIRROR_POD in was and now.get(MIRROR_POD) != was[MIRROR_POD]:
        causes.append(forbidden(path, "may not remove or update mirror pod annotation"))
    elif MIRROR_POD in now and MIRROR_POD not in was:
        causes.append(forbidden(path, "may not add mirror pod annotation"))
    return causes + validate_pod_annotations(now, new.spec, "metadata.annotations")


_SYSTEM_CONDITIONS = ("PodScheduled", "Ready", "Initialized")


def validate_pod_status_update(new: Pod, old: Pod) -> Causes:
    """Check what a kubelet or a controller says about a pod."""
    causes: Causes = []
    if new.metadata is not old.metadata:
        causes += validate_meta_update(new.metadata, old.metadata)
        causes += _validate_annotation_updates(new, old)
    now, was = new.status, old.status
    causes += _validate_conditions(now.conditions)
    nominated = now.nominated_node_name
    if nominated and nominated != was.nominated_node_name:
        path = "status.nominatedNodeName"
        causes += all_invalid(path, nominated, is_dns1123_subdomain(nominated))
        if old.spec.node_name:
            detail = "may not be set on pods that are already bound to a node"
            causes.append(forbidden(path, detail))
    if now.observed_generation < 0:
        detail = "must be a non-negative integer"
        causes.append(invalid("status.observedGeneration", now.observed_generation, detail))
    causes += immutable(now.qos_class, was.qos_class, "status.qosClass")
    for name, path, containers in (
        ("container_statuses", "status.containerStatuses", old.spec.containers),
        ("init_container_statuses", "status.initContainerStatuses", old.spec.init_containers),
    ):
        after, before = getattr(now, name), getattr(was, name)
        causes += _validate_transition(after, before, containers, old.spec, path)
    if now.host_ips and now.host_ips[0].ip != now.host_ip:
        detail = "must be equal to `hostIP`"
        causes.append(invalid("status.hostIPs[0].ip", now.host_ips[0].ip, detail))
    return causes


def _validate_conditions(conditions: tuple[Condition, ...]) -> Causes:
    causes: Causes = []
    for i, condition in enumerate(conditions):
        if (condition.observed_generation or 0) < 0:
            path = f"status.conditions[{i}].observedGeneration"
            detail = "must be a non-negative integer"
            causes.append(invalid(path, condition.observed_generation, detail))
        if condition.type not in _SYSTEM_CONDITIONS:
            messages = is_qualified_name(condition.type)
            causes += all_invalid(f"status.conditions[{i}].Type", condition.type, messages)
    return causes


def _validate_transition(
    now: tuple[ContainerStatus, ...],
    was: tuple[ContainerStatus, ...],
    containers: tuple[Container, ...],
    spec: PodSpec,
    path: str,
) -> Causes:
    """A container that ended may run again only if its restart policy says so."""
    causes: Causes = []
    for i, before in enumerate(was):
        ended = before.state.terminated
        if ended is None:
            continue
        after = next((s for s in now if s.name == before.name), None)
        if after is None or after.state.terminated is not None:
            continue
        container = next((c for c in containers if c.name == before.name), None)
        policy = container and (container.restart_policy or spec.restart_policy)
        if not (policy == "Always" or (policy == "OnFailure" and ended.exit_code != 0)):
            detail = "may not be transitioned to non-terminated state"
            causes.append(forbidden(f"{path}[{i}].state", detail))
    return causes
