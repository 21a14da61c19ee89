"""Scale, binding, finalize, eviction: the parts of an object that are written apart from it.

See: chapter *Admission and the wire*; upstream ``pkg/registry/core/pod/storage`` and others.
"""

# Generated from the notebooks by tangle.py; edit them instead.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kcm_lite.api.autoscaling import Scale, ScaleSpec, ScaleStatus
from kcm_lite.api.core import Binding, Namespace, Pod
from kcm_lite.api.errors import BadRequest
from kcm_lite.api.meta import Condition, DeleteOptions, LabelSelector, Object, ObjectMeta, replace
from kcm_lite.api.request import Request
from kcm_lite.api.selectors import label_selector_as_selector, selector_from_set
from kcm_lite.api.validation.field import invalid as invalid_value
from kcm_lite.api.validation.field import not_supported, required
from kcm_lite.apiserver.deletion import check_preconditions, delete
from kcm_lite.apiserver.patch import patched
from kcm_lite.apiserver.registry import (
    Registry,
    conflict,
    find,
    invalid,
    key_of,
    record,
    update,
    write,
)
from kcm_lite.apiserver.store import Table, commit


# %% book/04b_admission_and_the_wire.ipynb#737b7e08
def scale_of(obj: Any) -> Scale:
    """Return the scale of a workload."""
    meta, selector = obj.metadata, obj.spec.selector
    match selector:
        case LabelSelector() | None:
            text = str(label_selector_as_selector(selector))
        case _:
            text = str(selector_from_set(selector))
    return Scale(
        metadata=ObjectMeta(
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            resource_version=meta.resource_version,
            creation_timestamp=meta.creation_timestamp,
        ),
        spec=ScaleSpec(replicas=obj.spec.replicas or 0),
        status=ScaleStatus(replicas=obj.status.replicas, selector=text),
    )


def get_scale(reg: Registry, table: Table, request: Request) -> Scale:
    """Return the scale of an object."""
    return scale_of(find(table, request.namespace, request.name))


def write_scale(reg: Registry, table: Table, request: Request) -> Scale:
    """Set the replicas of an object by its scale: by an update or a patch of it."""
    old: Any = find(table, request.namespace, request.name)
    if request.verb == "patch":
        scale = patched(scale_of(old), request.patch_type, request.body)
    else:
        scale = request.body
    meta, replicas = scale.metadata, scale.spec.replicas
    if replicas < 0:
        why = "must be greater than or equal to 0"
        raise invalid(Scale, old.metadata.name, [invalid_value("spec.replicas", replicas, why)])
    if meta.uid and meta.uid != old.metadata.uid:
        raise conflict(
            f"{table.resource.group_resource}/scale",
            old.metadata.name,
            f"Precondition failed: UID in precondition: {meta.uid},"
            f" UID in object meta: {old.metadata.uid}",
        )
    wanted = replace(old.metadata, resource_version=meta.resource_version)
    new = replace(old, metadata=wanted, spec=replace(old.spec, replicas=replicas))
    return scale_of(write(reg, table, request, old, new))


# %% book/04b_admission_and_the_wire.ipynb#2a4c96a3
def with_condition(pod: Pod, condition: Condition) -> Pod:
    """Return a pod with a condition set (``UpdatePodCondition``)."""
    rest = tuple(c for c in pod.status.conditions if c.type != condition.type)
    before = next((c for c in pod.status.conditions if c.type == condition.type), None)
    if before is not None and before.status == condition.status:
        condition = replace(condition, last_transition_time=before.last_transition_time)
    if before is None:
        conditions = (*rest, condition)
    else:
        conditions = tuple(condition if c is before else c for c in pod.status.conditions)
    return replace(pod, status=replace(pod.status, conditions=conditions))


def bind(reg: Registry, table: Table, request: Request) -> None:
    """Put a pod on a node: once, and only while it is not being deleted.

    Raises:
        Conflict: It has a node already, is being deleted, or is not the pod that was meant.
    """
    binding: Binding = request.body
    name = request.name or binding.metadata.name
    if name != binding.metadata.name:
        raise BadRequest("name in URL does not match name in Binding object")
    target = binding.target
    if target.kind not in ("", "Node"):
        raise invalid(
            Binding, name, [not_supported("target.kind", target.kind, ("Node", "<empty>"))]
        )
    if not target.name:
        raise invalid(Binding, name, [required("target.name")])
    pod = find(table, request.namespace, name)
    assert isinstance(pod, Pod)
    meta = pod.metadata
    if (uid := binding.metadata.uid) and uid != meta.uid:
        raise conflict(
            "pods/binding",
            name,
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: {meta.uid}",
        )
    if meta.deletion_timestamp:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
        raise conflict("pods/binding", name, why)
    if pod.spec.node_name:
        why = f'pod {name} is already assigned to node "{pod.spec.node_name}"'
        raise conflict("pods/binding", name, why)
    if pod.spec.scheduling_gates:
        raise conflict("pods/binding", name, f"pod {name} has non-empty .spec.schedulingGates")
    now = reg.clock.timestamp()
    placed = with_condition(
        replace(pod, spec=replace(pod.spec, node_name=target.name)),
        Condition(type="PodScheduled", status="True", last_transition_time=now),
    )
    new = commit(reg.store, table, key_of(meta.namespace, name), pod, placed)
    record(reg, request, name, pod, new)


# %% book/04b_admission_and_the_wire.ipynb#64c0bb96
def evict(reg: Registry, table: Table, request: Request) -> Object:
    """Delete a pod as the Eviction API does: with a condition that says why."""
    pod = find(table, request.namespace, request.name)
    assert isinstance(pod, Pod)
    options = request.options or DeleteOptions()
    check_preconditions(pod, options.preconditions)
    condition = Condition(
        type="DisruptionTarget",
        status="True",
        reason="EvictionByEvictionAPI",
        message="Eviction API: evicting",
        last_transition_time=reg.clock.timestamp(),
    )
    marked = with_condition(pod, condition)
    if marked != pod:
        commit(reg.store, table, key_of(pod.metadata.namespace, pod.metadata.name), pod, marked)
    return delete(reg, table, replace(request, options=replace(options, preconditions=None)))


def finalize(reg: Registry, table: Table, request: Request) -> Object:
    """Set the finalizers of a namespace's spec; without any, a terminating namespace goes."""
    return update(reg, table, request)


SUBRESOURCES: dict[tuple[str, str], Callable[[Registry, Table, Request], Any]] = {
    ("get", "scale"): get_scale,
    ("update", "scale"): write_scale,
    ("patch", "scale"): write_scale,
    ("create", "binding"): bind,
    ("create", "eviction"): evict,
    ("update", "finalize"): finalize,
}
