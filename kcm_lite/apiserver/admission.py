"""What may come in, and what is added to it: namespaces, quotas, default tolerations.

Each plugin is a row of `ADMISSION`. See: chapter *Admission and the wire*; upstream
``k8s.io/apiserver/pkg/admission`` and ``plugin/pkg/admission``.
"""

# Generated from the notebooks by tangle.py; edit them instead.

from __future__ import annotations

from collections.abc import Mapping
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
from kcm_lite.api.meta import Object, replace
from kcm_lite.api.quantity import parse_quantity
from kcm_lite.api.request import Request
from kcm_lite.api.scheme import Resource, resource_of
from kcm_lite.apiserver.registry import Plugin, Registry, key_of, not_found, record
from kcm_lite.apiserver.store import commit, listing


# %% book/04b_admission_and_the_wire.ipynb#72a46ee4
def forbidden(resource: Resource, obj: Object, why: str, *causes: Cause) -> Forbidden:
    """Return the 403 of an admission plugin."""
    name = obj.metadata.name or obj.metadata.generate_name or "Unknown"
    message = f"{resource.group_resource} {quote(name)} is forbidden: {why}"
    return Forbidden(message, causes=causes)


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
            resource_of(obj),
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


def default_tolerations(reg: Registry, request: Request, obj: Object, old: Object | None) -> Object:
    """Let a pod stay 5 minutes on a node that is not ready or unreachable, unless it says more."""
    assert isinstance(obj, Pod)
    missing = tuple(
        wanted
        for wanted in (NOT_READY, UNREACHABLE)
        if not any(
            t.key in ("", wanted.key) and t.effect in ("", "NoExecute")
            for t in obj.spec.tolerations
        )
    )
    if not missing:
        return obj
    return replace(obj, spec=replace(obj.spec, tolerations=(*obj.spec.tolerations, *missing)))


def priority(reg: Registry, request: Request, obj: Object, old: Object | None) -> Object:
    """Give a pod the priority of a cluster without priority classes."""
    assert isinstance(obj, Pod)
    spec = obj.spec
    if spec.priority is None:
        spec = replace(spec, priority=0, preemption_policy="PreemptLowerPriority")
        return replace(obj, spec=spec)
    return obj


# %% book/04b_admission_and_the_wire.ipynb#d52f14c2
def usage_of(obj: Object, now: datetime) -> dict[str, int]:
    """Return what an object uses of a quota: object counts, and ``pods`` while a pod is alive."""
    resource = resource_of(obj)
    used = {f"count/{resource.group_resource}": 1}
    if isinstance(obj, Pod):
        if alive(obj, now):
            used["pods"] = 1
    elif not resource.group:
        used[resource.plural] = 1
    return used


def alive(pod: Pod, now: datetime) -> bool:
    """Whether a pod counts: not ended, and not stuck in its deletion."""
    meta = pod.metadata
    if pod.status.phase in ("Failed", "Succeeded"):
        return False
    if meta.deletion_timestamp is None or meta.deletion_grace_period_seconds is None:
        return True
    return now <= meta.deletion_timestamp + timedelta(seconds=meta.deletion_grace_period_seconds)


def quota_status(reg: Registry, quota: ResourceQuota) -> ResourceQuotaStatus:
    """Count anew what a quota allows and what its namespace uses: what the quota loop writes.

    Limits on anything else than object counts and ``pods`` are not counted and not enforced.
    """
    now, totals = reg.clock.now(), dict.fromkeys(quota.spec.hard, 0)
    for table in reg.store.tables.values():
        if table.resource.namespaced:
            for obj in listing(table, quota.metadata.namespace):
                for name, amount in usage_of(obj, now).items():
                    if name in totals:
                        totals[name] += amount
    counted = {name: str(n) for name, n in totals.items() if name in quota_names(reg)}
    return ResourceQuotaStatus(hard=quota.spec.hard, used=counted)


def quota_names(reg: Registry) -> frozenset[str]:
    """Return the limits that are enforced: ``pods`` and the count of every kind."""
    names = {"pods"}
    for table in reg.store.tables.values():
        names.add(f"count/{table.resource.group_resource}")
        if not table.resource.group:
            names.add(table.resource.plural)
    return frozenset(names)


# %% book/04b_admission_and_the_wire.ipynb#6c33baeb
def quota(reg: Registry, request: Request, obj: Object, old: Object | None) -> None:
    """Refuse what goes over a quota, and book what does not: used rises before the create."""
    table = reg.store.tables[ResourceQuota]
    namespace = obj.metadata.namespace
    if not table.objects or not namespace:
        return
    asked = usage_of(obj, reg.clock.now())
    booked = []
    for found in listing(table, namespace):
        assert isinstance(found, ResourceQuota)
        hard, used = found.status.hard, found.status.used
        names = sorted(name for name in asked if name in hard)
        if not names:
            continue
        if unknown := [name for name in names if name not in used]:
            why = f"status unknown for quota: {found.metadata.name}, resources: {','.join(unknown)}"
            raise forbidden(resource_of(obj), obj, why)
        total = {name: parse_quantity(used[name]).value() + asked[name] for name in names}
        over = [name for name in names if total[name] > parse_quantity(hard[name]).value()]
        if over:
            requested, taken, limited = (
                ",".join(f"{name}={amounts[name]}" for name in over)
                for amounts in (asked, used, hard)
            )
            raise forbidden(
                resource_of(obj),
                obj,
                f"exceeded quota: {found.metadata.name}, requested: {requested},"
                f" used: {taken}, limited: {limited}",
            )
        booked.append((found, total))
    for found, total in booked:
        book(reg, found, total)


def book(reg: Registry, found: ResourceQuota, total: Mapping[str, int]) -> None:
    """Write what is used now into a quota's status."""
    used = {**found.status.used, **{name: str(amount) for name, amount in total.items()}}
    meta = found.metadata
    raised = replace(found, status=replace(found.status, used=used))
    table = reg.store.tables[ResourceQuota]
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


# %% book/04b_admission_and_the_wire.ipynb#c2b6d3ce
CREATE, WRITE = frozenset({"create"}), frozenset({"create", "update"})
PODS: frozenset[type[Object]] = frozenset({Pod})

ADMISSION: tuple[Plugin, ...] = (
    Plugin("NamespaceLifecycle", CREATE, admit=live_namespace),
    Plugin("Priority", CREATE, PODS, admit=priority),
    Plugin("DefaultTolerationSeconds", WRITE, PODS, admit=default_tolerations),
    Plugin("ResourceQuota", CREATE, check=quota),
)
"""The plugins of the API server, in their order. A plugin that joins adds a row."""
