"""What the API server fills in where an object says nothing.

Each function returns the object itself when there is nothing to fill in.
See: kubernetes ``pkg/apis/*/v1/defaults.go`` and ``conversion.go``.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from kcm_lite.api.apps import Deployment, DeploymentStrategy, ReplicaSet, RollingUpdateDeployment
from kcm_lite.api.batch import NON_INDEXED, Job, PodFailurePolicyRule
from kcm_lite.api.core import (
    Container,
    Namespace,
    Node,
    Pod,
    PodSpec,
    PodTemplateSpec,
    ReplicationController,
)
from kcm_lite.api.memo import by_identity
from kcm_lite.api.meta import ObjectMeta, replace
from kcm_lite.api.quantity import parse_quantity

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")

NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"

_REFERENCE = re.compile(
    r"(?:[A-Za-z0-9.-]+(?::[0-9]+)?/)?"  # registry
    r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"
    r"(?::(?P<tag>[\w][\w.-]{0,127}))?(?P<digest>@[A-Za-z0-9+._-]+:[0-9a-fA-F]{32,})?",
    re.ASCII,
)


def image_tag(image: str) -> str:
    """Return an image's tag: ``latest`` without tag and digest, nothing if it is unreadable."""
    match = _REFERENCE.fullmatch(image)
    if match is None:
        return ""
    return match["tag"] or ("" if match["digest"] else "latest")


def _filled(part: S, **values: Any) -> S:
    """Return the part with these values, or the part itself if it has them already."""
    changes = {
        name: new
        for name, new in values.items()
        if (old := getattr(part, name)) is not new and old != new
    }
    return replace(part, **changes) if changes else part


def _each(items: tuple[S, ...], fill: Callable[[S], S]) -> tuple[S, ...]:
    """Return the items filled in, or the same tuple if there was nothing to fill in."""
    filled = tuple(map(fill, items))
    return items if all(map(operator.is_, items, filled)) else filled


def _or(value: T | None, default: T) -> T:
    return default if value is None else value


def default_container(container: Container) -> Container:
    """Fill in pull policy, termination message and the protocol of the ports."""
    policy = "Always" if image_tag(container.image) == "latest" else "IfNotPresent"
    return _filled(
        container,
        image_pull_policy=container.image_pull_policy or policy,
        termination_message_path=container.termination_message_path or "/dev/termination-log",
        termination_message_policy=container.termination_message_policy or "File",
        ports=_each(container.ports, lambda port: _filled(port, protocol=port.protocol or "TCP")),
    )


@by_identity
def default_pod_spec(spec: PodSpec) -> PodSpec:
    """Fill in a pod's or a template's spec (``SetDefaults_PodSpec`` and the conversions)."""
    account = spec.service_account_name or spec.service_account
    return _filled(
        spec,
        dns_policy=spec.dns_policy or "ClusterFirst",
        restart_policy=spec.restart_policy or "Always",
        security_context=_or(spec.security_context, {}),
        termination_grace_period_seconds=_or(spec.termination_grace_period_seconds, 30),
        scheduler_name=spec.scheduler_name or "default-scheduler",
        service_account_name=spec.service_account_name or account,
        service_account=account,
        containers=_each(spec.containers, default_container),
        init_containers=_each(spec.init_containers, default_container),
    )


def default_pod_template(template: PodTemplateSpec) -> PodTemplateSpec:
    """Fill in the spec of a template."""
    return _filled(template, spec=default_pod_spec(template.spec))


@by_identity
def default_spec_of_pod(spec: PodSpec) -> PodSpec:
    """Fill in what only a real pod gets, not a template (``SetDefaults_Pod``)."""
    spec = default_pod_spec(spec)
    grace = spec.termination_grace_period_seconds or 0
    fill = functools.partial(_default_container_of_pod, host_network=spec.host_network)
    return _filled(
        spec,
        enable_service_links=_or(spec.enable_service_links, True),
        termination_grace_period_seconds=1 if grace < 0 else spec.termination_grace_period_seconds,
        containers=_each(spec.containers, fill),
        init_containers=_each(spec.init_containers, fill),
    )


def _default_container_of_pod(container: Container, host_network: bool) -> Container:
    resources, ports = container.resources, container.ports
    missing = {k: v for k, v in resources.limits.items() if k not in resources.requests}
    if missing:
        resources = replace(resources, requests={**resources.requests, **missing})
    if host_network:
        ports = _each(
            ports, lambda port: _filled(port, host_port=port.host_port or port.container_port)
        )
    return _filled(container, resources=resources, ports=ports)


def default_pod(pod: Pod) -> Pod:
    """Fill in a pod."""
    spec = default_spec_of_pod(pod.spec)
    return pod if spec is pod.spec else replace(pod, spec=spec)


@by_identity
def qos_class(spec: PodSpec) -> str:
    """Return how well a pod's needs are guaranteed: Guaranteed, Burstable or BestEffort.

    See: kubernetes ``pkg/apis/core/helper/qos`` (resources of containers only).
    """
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    complete = True
    for container in (*spec.containers, *spec.init_containers):
        _add_compute(requests, container.resources.requests)
        complete = _add_compute(limits, container.resources.limits) == 2 and complete
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if complete and requests == limits else "Burstable"


def _add_compute(total: dict[str, int], amounts: Mapping[str, str | int | float]) -> int:
    """Add what is there of CPU and memory to the total; return how many of the two there are."""
    found = 0
    for name in ("cpu", "memory"):
        nanos = parse_quantity(amounts[name]).nanos if name in amounts else 0
        if nanos > 0:
            total[name] = total.get(name, 0) + nanos
            found += 1
    return found


def default_replica_set(rs: ReplicaSet) -> ReplicaSet:
    """Fill in the number of replicas (1) and the template."""
    replicas, template = _or(rs.spec.replicas, 1), default_pod_template(rs.spec.template)
    return _filled(rs, spec=_filled(rs.spec, replicas=replicas, template=template))


def default_deployment(d: Deployment) -> Deployment:
    """Fill in replicas (1), the template, the strategy (RollingUpdate 25 %/25 %) and the limits."""
    spec = _filled(
        d.spec,
        replicas=_or(d.spec.replicas, 1),
        template=default_pod_template(d.spec.template),
        strategy=default_strategy(d.spec.strategy),
        revision_history_limit=_or(d.spec.revision_history_limit, 10),
        progress_deadline_seconds=_or(d.spec.progress_deadline_seconds, 600),
    )
    return _filled(d, spec=spec)


_QUARTER = "25%"


def default_strategy(strategy: DeploymentStrategy) -> DeploymentStrategy:
    """Fill in the type, and for a rolling update what it may add and take away: a quarter each."""
    kind, rolling = strategy.type or "RollingUpdate", strategy.rolling_update
    if kind == "RollingUpdate":
        rolling = rolling or RollingUpdateDeployment()
        rolling = _filled(
            rolling,
            max_unavailable=_or(rolling.max_unavailable, _QUARTER),
            max_surge=_or(rolling.max_surge, _QUARTER),
        )
    return _filled(strategy, type=kind, rolling_update=rolling)


_MAX_INT32 = 2**31 - 1


def default_job(job: Job) -> Job:
    """Fill in how many pods (1, of which 1 at once), the limits, and labels from the template."""
    spec, template = job.spec, default_pod_template(job.spec.template)
    completions = 1 if spec.parallelism is None else None
    limit = 6 if spec.backoff_limit_per_index is None else _MAX_INT32
    policy = spec.pod_failure_policy
    spec = _filled(
        spec,
        template=template,
        completions=_or(spec.completions, completions),
        parallelism=_or(spec.parallelism, 1),
        backoff_limit=_or(spec.backoff_limit, limit),
        completion_mode=_or(spec.completion_mode, NON_INDEXED),
        suspend=_or(spec.suspend, False),
        pod_replacement_policy=_or(
            spec.pod_replacement_policy, "Failed" if policy else "TerminatingOrFailed"
        ),
        manual_selector=_or(spec.manual_selector, False),
        pod_failure_policy=policy and _filled(policy, rules=_each(policy.rules, _default_rule)),
    )
    return _filled(job, spec=spec, metadata=_labelled(job.metadata, template))


def _default_rule(rule: PodFailurePolicyRule) -> PodFailurePolicyRule:
    """Fill in the status of a condition that a rule names: True."""
    patterns = _each(rule.on_pod_conditions, lambda p: _filled(p, status=p.status or "True"))
    return _filled(rule, on_pod_conditions=patterns)


def _labelled(meta: ObjectMeta, template: PodTemplateSpec) -> ObjectMeta:
    """Return the metadata of a workload; without labels it takes those of its template."""
    return _filled(meta, labels=meta.labels or template.metadata.labels)


def default_replication_controller(rc: ReplicationController) -> ReplicationController:
    """Fill in replicas (1), the template, and selector and labels from the template's labels."""
    spec = _filled(rc.spec, replicas=_or(rc.spec.replicas, 1))
    if spec.template is None:
        return _filled(rc, spec=spec)
    template = default_pod_template(spec.template)
    selector = spec.selector or template.metadata.labels
    spec = _filled(spec, template=template, selector=selector)
    return _filled(rc, spec=spec, metadata=_labelled(rc.metadata, template))


def default_namespace(namespace: Namespace) -> Namespace:
    """Fill in the phase, and the label that holds the name."""
    meta = namespace.metadata
    if meta.name and meta.labels.get(NAMESPACE_NAME_LABEL) != meta.name:
        labels = {**meta.labels, NAMESPACE_NAME_LABEL: meta.name}
        namespace = replace(namespace, metadata=replace(meta, labels=labels))
    status = _filled(namespace.status, phase=namespace.status.phase or "Active")
    return _filled(namespace, status=status)


def default_node(node: Node) -> Node:
    """Fill in what can be allocated: the whole capacity."""
    status = node.status
    return _filled(node, status=_filled(status, allocatable=status.allocatable or status.capacity))
