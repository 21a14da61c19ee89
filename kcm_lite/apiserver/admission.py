# Generated from book/04b_admission_and_the_wire.ipynb by tools/tangle.py; edit it there.

"""What may come in, and what is added to it: namespaces, quotas, default tolerations.

Each plugin is a row of `ADMISSION`. See: chapter *Admission and the wire*; upstream
``k8s.io/apiserver/pkg/admission`` and ``plugin/pkg/admission``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from kcm_lite.api.core import (
    Namespace,
    Pod,
    PodSpec,
    ResourceQuota,
    ResourceQuotaStatus,
    Toleration,
)
from kcm_lite.api.errors import Cause, Forbidden
from kcm_lite.api.golang import quote
from kcm_lite.api.memo import by_identity
from kcm_lite.api.meta import Object, replace
from kcm_lite.api.quantity import parse_quantity
from kcm_lite.api.request import Request
from kcm_lite.api.scheme import RESOURCES, resource_of
from kcm_lite.apiserver.registry import Plugin, Registry, key_of, not_found, record
from kcm_lite.apiserver.store import commit, listing


# %% book/04b_admission_and_the_wire.ipynb#72a46ee4
def forbidden(obj: Object, why: str, *causes: Cause) -> Forbidden:
    """Return the 403 of an admission plugin."""
    name = obj.metadata.name or obj.metadata.generate_name or "Unknown"
    message = f"{resource_of(obj).group_resource} {quote(name)} is forbidden: {why}"
    return Forbidden(message, causes=causes)


# %% book/04b_admission_and_the_wire.ipynb#3b6689df
def live_namespace(reg: Registry, request: Request, obj: Object, old: Object | None) -> Object:
    """Refuse what would be created in a namespace that does not exist or is going."""
    name = obj.metadata.namespace
    if not name:
        return obj
    table = reg.store.tables[Namespace]
    namespace = table.objects.get(name)
    if namespace is None:
        raise not_found(table.resource, name)
    assert isinstance(namespace, Namespace)
    if namespace.status.phase == "Terminating":
        raise forbidden(
            obj,
            f"unable to create new content in namespace {name} because it is being terminated",
            Cause(
                reason="NamespaceTerminating",
                message=f"namespace {name} is being terminated",
                field="metadata.namespace",
            ),
        )
    return obj


# %% book/04b_admission_and_the_wire.ipynb#fe4287b2
NOT_READY = Toleration(
    key="node.kubernetes.io/not-ready",
    operator="Exists",
    effect="NoExecute",
    toleration_seconds=300,
)
UNREACHABLE = replace(NOT_READY, key="node.kubernetes.io/unreachable")


@by_identity
def tolerant(spec: PodSpec) -> PodSpec:
    """Return a spec that bears a node that is not ready or unreachable for 5 minutes."""
    missing = tuple(
        wanted
        for wanted in (NOT_READY, UNREACHABLE)
        if not any(
            t.key in ("", wanted.key) and t.effect in ("", "NoExecute") for t in spec.tolerations
        )
    )
    return replace(spec, tolerations=spec.tolerations + missing) if missing else spec


def default_tolerations(reg: Registry, request: Request, obj: Object, old: Object | None) -> Object:
    """Let a pod stay 5 minutes on a node in trouble, unless it says for how long itself."""
    assert isinstance(obj, Pod)
    spec = tolerant(obj.spec)
    return obj if spec is obj.spec else replace(obj, spec=spec)


# %% book/04b_admission_and_the_wire.ipynb#d52f14c2
@by_identity
def prioritised(spec: PodSpec) -> PodSpec:
    """Return a spec with the priority of a cluster that has no priority classes."""
    if spec.priority is not None:
        return spec
    return replace(spec, priority=0, preemption_policy="PreemptLowerPriority")


def priority(reg: Registry, request: Request, obj: Object, old: Object | None) -> Object:
    """Give a pod its priority: 0."""
    assert isinstance(obj, Pod)
    return replace(obj, spec=prioritised(obj.spec))


# %% book/04b_admission_and_the_wire.ipynb#6c33baeb
COUNTED = frozenset(
    {
        "configmaps",
        "persistentvolumeclaims",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
    }
)
"""The kinds that a quota may also name without ``count/``."""


def usage_of(obj: Object, now: datetime) -> dict[str, int]:
    """Return what an object uses of a quota: one of its kind, and one of ``pods`` while it lives.

    Events use nothing. ``now`` tells whether a pod has outlived its own deletion.
    """
    resource = resource_of(obj)
    if resource.plural == "events":
        return {}
    used = {f"count/{resource.group_resource}": 1}
    if isinstance(obj, Pod):
        if lives(obj, now):
            used["pods"] = 1
    elif not resource.group and resource.plural in COUNTED:
        used[resource.plural] = 1
    return used


def lives(pod: Pod, now: datetime) -> bool:
    """Whether a pod counts: not ended, and not overdue in its deletion."""
    meta = pod.metadata
    if pod.status.phase in ("Failed", "Succeeded"):
        return False
    grace = meta.deletion_grace_period_seconds
    if meta.deletion_timestamp is None or grace is None:
        return True
    return now <= meta.deletion_timestamp + timedelta(seconds=grace)


# %% book/04b_admission_and_the_wire.ipynb#c2b6d3ce
def quota_status(reg: Registry, quota: ResourceQuota) -> ResourceQuotaStatus:
    """Count anew what a quota allows and what its namespace uses: what the quota loop writes.

    Limits on anything but object counts and ``pods`` are left out, and so not enforced; a quota
    with scopes is left out as a whole.
    """
    names = {"pods", *COUNTED} | {f"count/{r.group_resource}" for r in RESOURCES if r.namespaced}
    spec, now = quota.spec, reg.clock.now()
    if spec.scopes or spec.scope_selector:
        return ResourceQuotaStatus()
    used = {name: 0 for name in spec.hard if name in names}
    for kind in reg.store.tables.values():
        if kind.resource.namespaced:
            for obj in listing(kind, quota.metadata.namespace):
                for name, amount in usage_of(obj, now).items():
                    if name in used:
                        used[name] += amount
    return ResourceQuotaStatus(
        hard={name: spec.hard[name] for name in used},
        used={name: str(amount) for name, amount in used.items()},
    )


# %% book/04b_admission_and_the_wire.ipynb#0f890331
def quotas(reg: Registry, request: Request, obj: Object, old: Object | None) -> None:
    """Refuse what goes over a quota; book what does not, before the object is stored."""
    table, namespace = reg.store.tables[ResourceQuota], obj.metadata.namespace
    if not table.objects or not namespace:
        return
    asked = usage_of(obj, reg.clock.now())
    totals = []
    for found in listing(table, namespace):
        assert isinstance(found, ResourceQuota)
        if names := sorted(asked.keys() & found.status.hard.keys()):
            totals.append((found, total_of(obj, found, asked, names)))
    for found, total in totals:
        book(reg, found, total)


def total_of(
    obj: Object, quota: ResourceQuota, asked: Mapping[str, int], names: Sequence[str]
) -> dict[str, int]:
    """Return what would be used of a quota with ``asked`` added.

    Raises:
        Forbidden: It is more than allowed, or what is used is not known yet.
    """
    name, hard, used = quota.metadata.name, quota.status.hard, quota.status.used
    if unknown := [n for n in names if n not in used]:
        why = f"status unknown for quota: {name}, resources: {','.join(unknown)}"
        raise forbidden(obj, why)
    total = {n: parse_quantity(used[n]).value() + asked[n] for n in names}
    over = [n for n in names if total[n] > parse_quantity(hard[n]).value()]
    if over:
        requested, taken, limited = (
            ",".join(f"{n}={amounts[n]}" for n in over) for amounts in (asked, used, hard)
        )
        raise forbidden(
            obj,
            f"exceeded quota: {name}, requested: {requested}, used: {taken}, limited: {limited}",
        )
    return total


# %% book/04b_admission_and_the_wire.ipynb#034bfc27
def book(reg: Registry, found: ResourceQuota, total: Mapping[str, int]) -> None:
    """Write into a quota's status what is used now."""
    used = {**found.status.used, **{name: str(amount) for name, amount in total.items()}}
    raised = replace(found, status=replace(found.status, used=used))
    table, meta = reg.store.tables[ResourceQuota], found.metadata
    new = commit(reg.store, table, key_of(meta.namespace, meta.name), found, raised)
    request = Request(
        verb="update",
        type=ResourceQuota,
        namespace=meta.namespace,
        name=meta.name,
        subresource="status",
        agent="kube-apiserver",
    )
    record(reg, request, meta.name, found, new)


# %% book/04b_admission_and_the_wire.ipynb#5fbcd58f
CREATE, WRITE = frozenset({"create"}), frozenset({"create", "update"})
ANY = frozenset({"", "binding", "eviction"})
PODS: frozenset[type[Object]] = frozenset({Pod})
# The plugins of the API server, in their order. A plugin that joins adds a row.
ADMISSION: tuple[Plugin, ...] = (
    Plugin("NamespaceLifecycle", CREATE, subresources=ANY, admit=live_namespace),
    Plugin("Priority", CREATE, PODS, admit=priority),
    Plugin("DefaultTolerationSeconds", WRITE, PODS, admit=default_tolerations),
    Plugin("ResourceQuota", CREATE, check=quotas),
)
