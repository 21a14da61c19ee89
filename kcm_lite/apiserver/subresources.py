# Generated from book/04b_admission_and_the_wire.ipynb by tools/tangle.py; edit it there.

"""Scale, binding, finalize, eviction: the parts of an object that are written apart from it.

See: chapter *Admission and the wire*; upstream ``pkg/registry/core/pod/storage`` and others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kcm_lite.api.autoscaling import Scale, ScaleSpec, ScaleStatus
from kcm_lite.api.core import Binding, Pod, PodSpec
from kcm_lite.api.errors import BadRequest
from kcm_lite.api.golang import quote
from kcm_lite.api.memo import by_identity
from kcm_lite.api.meta import Condition, DeleteOptions, LabelSelector, Object, ObjectMeta, replace
from kcm_lite.api.request import Request
from kcm_lite.api.selectors import label_selector_as_selector, selector_from_set
from kcm_lite.api.validation.field import aggregate, not_supported, required
from kcm_lite.api.validation.field import invalid as invalid_value
from kcm_lite.apiserver.deletion import check_preconditions, delete
from kcm_lite.apiserver.patch import patched
from kcm_lite.apiserver.registry import (
    Registry,
    chain,
    conflict,
    find,
    invalid,
    key_of,
    record,
    update,
    write,
)
from kcm_lite.apiserver.store import Table, commit


# %% book/04b_admission_and_the_wire.ipynb#855360f5
def get_scale(reg: Registry, table: Table, request: Request) -> Scale:
    """Return the scale of an object."""
    return scale_of(find(table, request.namespace, request.name))


# %% book/04b_admission_and_the_wire.ipynb#f5d714d5
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


# %% book/04b_admission_and_the_wire.ipynb#e9993606
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


# %% book/04b_admission_and_the_wire.ipynb#1f707f80
def with_condition(pod: Pod, condition: Condition) -> Pod:
    """Return a pod with a condition set; an unchanged status keeps its time of transition."""
    conditions = list(pod.status.conditions)
    for i, before in enumerate(conditions):
        if before.type == condition.type:
            if before.status == condition.status:
                since = before.last_transition_time
                condition = replace(condition, last_transition_time=since)
            conditions[i] = condition
            break
    else:
        conditions.append(condition)
    return replace(pod, status=replace(pod.status, conditions=tuple(conditions)))


def admitted(reg: Registry, request: Request, pod: Object) -> None:
    """Ask the admission plugins about a subresource that is created."""
    admit, check = chain(reg, "create", request.type, request.subresource)
    for ask in (*admit, *check):
        ask(reg, request, pod, None)


# %% book/04b_admission_and_the_wire.ipynb#afd270ab
def bind(reg: Registry, table: Table, request: Request) -> None:
    """Put a pod on a node: once, and only while it is not being deleted.

    Raises:
        Conflict: It has a node already, is being deleted, or is not the pod that was meant.
    """
    binding: Binding = request.body
    name, target = request.name, binding.target
    if name != binding.metadata.name:
        raise BadRequest("name in URL does not match name in Binding object")
    if target.kind not in ("", "Node"):
        wrong = not_supported("target.kind", target.kind, ("Node", "<empty>"))
        raise BadRequest(aggregate([wrong]))
    if not target.name:
        raise BadRequest(aggregate([required("target.name")]))
    pod = find(table, request.namespace, name)
    assert isinstance(pod, Pod)
    admitted(reg, request, pod)
    if why := unbindable(pod, binding.metadata.uid):
        raise conflict("pods/binding", name, why)
    now, status = reg.clock.timestamp(), pod.status
    if status.nominated_node_name:
        status = replace(status, nominated_node_name="")
    bound = with_condition(
        replace(pod, spec=placed(pod.spec, target.name), status=status),
        Condition(type="PodScheduled", status="True", last_transition_time=now),
    )
    new = commit(reg.store, table, key_of(pod.metadata.namespace, name), pod, bound)
    record(reg, request, name, pod, new)


# %% book/04b_admission_and_the_wire.ipynb#a3a83c90
@by_identity
def placed(spec: PodSpec, node: str) -> PodSpec:
    """Return a spec with a node; pods of one template on one node share it."""
    return replace(spec, node_name=node)


def unbindable(pod: Pod, uid: str) -> str:
    """Return why a pod cannot get a node, or nothing."""
    meta = pod.metadata
    if uid and uid != meta.uid:
        return f"Precondition failed: UID in precondition: {uid}, UID in object meta: {meta.uid}"
    if meta.deletion_timestamp:
        return f"pod {meta.name} is being deleted, cannot be assigned to a host"
    if pod.spec.node_name:
        return f"pod {meta.name} is already assigned to node {quote(pod.spec.node_name)}"
    if pod.spec.scheduling_gates:
        return f"pod {meta.name} has non-empty .spec.schedulingGates"
    return ""


# %% book/04b_admission_and_the_wire.ipynb#64c0bb96
def evict(reg: Registry, table: Table, request: Request) -> Object:
    """Delete a pod as the Eviction API does, with a condition that says why.

    The options of the delete are the request's. There are no disruption budgets.
    """
    pod = find(table, request.namespace, request.name)
    assert isinstance(pod, Pod)
    admitted(reg, request, pod)
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
        key = key_of(pod.metadata.namespace, pod.metadata.name)
        commit(reg.store, table, key, pod, marked)
    return delete(reg, table, replace(request, options=replace(options, preconditions=None)))


# What each verb does to a subresource other than status.
SUBRESOURCES: dict[tuple[str, str], Callable[[Registry, Table, Request], Any]] = {
    ("get", "scale"): get_scale,
    ("update", "scale"): write_scale,
    ("patch", "scale"): write_scale,
    ("create", "binding"): bind,
    ("create", "eviction"): evict,
    ("update", "finalize"): update,
}
