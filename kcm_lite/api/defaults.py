"""What the API server fills in where an object says nothing.

Each function returns the object itself when there is nothing to fill in.
See: kubernetes ``pkg/apis/*/v1/defaults.go`` and ``conversion.go``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kcm_lite.api.apps import Deployment, DeploymentStrategy, ReplicaSet, RollingUpdateDeployment
from kcm_lite.api.batch import NON_INDEXED, Job, PodFailurePolicy, PodFailurePolicyRule
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
from kcm_lite.api.meta import replace
from kcm_lite.api.quantity import parse_quantity

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


def default_container(container: Container) -> Container:
    """Fill in pull policy, termination message and the protocol of the ports."""
    changes: dict[str, Any] = {}
    if not container.image_pull_policy:
        latest = image_tag(container.image) == "latest"
        changes["image_pull_policy"] = "Always" if latest else "IfNotPresent"
    if not container.termination_message_path:
        changes["termination_message_path"] = "/dev/termination-log"
    if not container.termination_message_policy:
        changes["termination_message_policy"] = "File"
    if any(not port.protocol for port in container.ports):
        changes["ports"] = tuple(
            port if port.protocol else replace(port, protocol="TCP") for port in container.ports
        )
    return replace(container, **changes) if changes else container


@by_identity
def default_pod_spec(spec: PodSpec) -> PodSpec:
    """Fill in a pod's or a template's spec (``SetDefaults_PodSpec`` and the conversions)."""
    changes: dict[str, Any] = {}
    if not spec.dns_policy:
        changes["dns_policy"] = "ClusterFirst"
    if not spec.restart_policy:
        changes["restart_policy"] = "Always"
    if spec.security_context is None:
        changes["security_context"] = {}
    if spec.termination_grace_period_seconds is None:
        changes["termination_grace_period_seconds"] = 30
    if not spec.scheduler_name:
        changes["scheduler_name"] = "default-scheduler"
    account = spec.service_account_name or spec.service_account
    if (spec.service_account_name, spec.service_account) != (account, account):
        changes["service_account_name"] = changes["service_account"] = account
    for name in ("containers", "init_containers"):
        old: tuple[Container, ...] = getattr(spec, name)
        new = tuple(default_container(container) for container in old)
        if any(a is not b for a, b in zip(old, new, strict=True)):
            changes[name] = new
    return replace(spec, **changes) if changes else spec


def default_pod_template(template: PodTemplateSpec) -> PodTemplateSpec:
    """Fill in the spec of a template."""
    spec = default_pod_spec(template.spec)
    return template if spec is template.spec else replace(template, spec=spec)


@by_identity
def default_spec_of_pod(spec: PodSpec) -> PodSpec:
    """Fill in what only a real pod gets, not a template (``SetDefaults_Pod``)."""
    spec = default_pod_spec(spec)
    changes: dict[str, Any] = {}
    if spec.enable_service_links is None:
        changes["enable_service_links"] = True
    if (spec.termination_grace_period_seconds or 0) < 0:
        changes["termination_grace_period_seconds"] = 1
    for name in ("containers", "init_containers"):
        old: tuple[Container, ...] = getattr(spec, name)
        new = tuple(_default_container_of_pod(c, spec.host_network) for c in old)
        if any(a is not b for a, b in zip(old, new, strict=True)):
            changes[name] = new
    return replace(spec, **changes) if changes else spec


def _default_container_of_pod(container: Container, host_network: bool) -> Container:
    resources = container.resources
    missing = {k: v for k, v in resources.limits.items() if k not in resources.requests}
    if missing:
        requests = {**resources.requests, **missing}
        container = replace(container, resources=replace(resources, requests=requests))
    if host_network and any(not port.host_port for port in container.ports):
        ports = tuple(
            port if port.host_port else replace(port, host_port=port.container_port)
            for port in container.ports
        )
        container = replace(container, ports=ports)
    return container


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
    spec = rs.spec
    template = default_pod_template(spec.template)
    if spec.replicas is not None and template is spec.template:
        return rs
    replicas = 1 if spec.replicas is None else spec.replicas
    return replace(rs, spec=replace(spec, replicas=replicas, template=template))


def default_deployment(d: Deployment) -> Deployment:
    """Fill in replicas (1), the template, the strategy (RollingUpdate 25 %/25 %) and the limits."""
    spec = d.spec
    changes: dict[str, Any] = {}
    template, strategy = default_pod_template(spec.template), default_strategy(spec.strategy)
    if template is not spec.template:
        changes["template"] = template
    if strategy is not spec.strategy:
        changes["strategy"] = strategy
    for name, value in _DEPLOYMENT_LIMITS:
        if getattr(spec, name) is None:
            changes[name] = value
    return replace(d, spec=replace(spec, **changes)) if changes else d


_DEPLOYMENT_LIMITS = (
    ("replicas", 1),
    ("revision_history_limit", 10),
    ("progress_deadline_seconds", 600),
)
_QUARTER = "25%"


def default_strategy(strategy: DeploymentStrategy) -> DeploymentStrategy:
    """Fill in the type, and for a rolling update what it may add and take away: a quarter each."""
    kind, rolling = strategy.type or "RollingUpdate", strategy.rolling_update
    if kind == "RollingUpdate":
        rolling = rolling or RollingUpdateDeployment()
        if rolling.max_unavailable is None:
            rolling = replace(rolling, max_unavailable=_QUARTER)
        if rolling.max_surge is None:
            rolling = replace(rolling, max_surge=_QUARTER)
    if kind == strategy.type and rolling is strategy.rolling_update:
        return strategy
    return DeploymentStrategy(type=kind, rolling_update=rolling)


_MAX_INT32 = 2**31 - 1


def default_job(job: Job) -> Job:
    """Fill in how many pods (1, of which 1 at once), the limits, and labels from the template."""
    spec = job.spec
    changes: dict[str, Any] = {}
    template = default_pod_template(spec.template)
    if template is not spec.template:
        changes["template"] = template
    if spec.completions is None and spec.parallelism is None:
        changes["completions"] = 1
    for name, value in (
        ("parallelism", 1),
        ("backoff_limit", 6 if spec.backoff_limit_per_index is None else _MAX_INT32),
        ("completion_mode", NON_INDEXED),
        ("suspend", False),
        ("pod_replacement_policy", "Failed" if spec.pod_failure_policy else "TerminatingOrFailed"),
        ("manual_selector", False),
    ):
        if getattr(spec, name) is None:
            changes[name] = value
    if spec.pod_failure_policy is not None:
        policy = default_pod_failure_policy(spec.pod_failure_policy)
        if policy is not spec.pod_failure_policy:
            changes["pod_failure_policy"] = policy
    labels = template.metadata.labels
    if labels and not job.metadata.labels:
        job = replace(job, metadata=replace(job.metadata, labels=labels))
    return replace(job, spec=replace(spec, **changes)) if changes else job


def default_pod_failure_policy(policy: PodFailurePolicy) -> PodFailurePolicy:
    """Fill in the status of a condition that a rule names: True."""
    if all(pattern.status for rule in policy.rules for pattern in rule.on_pod_conditions):
        return policy

    def complete(rule: PodFailurePolicyRule) -> PodFailurePolicyRule:
        patterns = tuple(
            pattern if pattern.status else replace(pattern, status="True")
            for pattern in rule.on_pod_conditions
        )
        return replace(rule, on_pod_conditions=patterns)

    return replace(policy, rules=tuple(map(complete, policy.rules)))


def default_replication_controller(rc: ReplicationController) -> ReplicationController:
    """Fill in replicas (1), the template, and selector and labels from the template's labels."""
    spec = rc.spec
    changes: dict[str, Any] = {}
    if spec.replicas is None:
        changes["replicas"] = 1
    if spec.template is not None:
        template = default_pod_template(spec.template)
        if template is not spec.template:
            changes["template"] = template
        labels = template.metadata.labels
        if labels and not spec.selector:
            changes["selector"] = labels
        if labels and not rc.metadata.labels:
            rc = replace(rc, metadata=replace(rc.metadata, labels=labels))
    return replace(rc, spec=replace(spec, **changes)) if changes else rc


def default_namespace(namespace: Namespace) -> Namespace:
    """Fill in the phase, and the label that holds the name."""
    meta = namespace.metadata
    if meta.name and meta.labels.get(NAMESPACE_NAME_LABEL) != meta.name:
        labels = {**meta.labels, NAMESPACE_NAME_LABEL: meta.name}
        namespace = replace(namespace, metadata=replace(meta, labels=labels))
    if not namespace.status.phase:
        namespace = replace(namespace, status=replace(namespace.status, phase="Active"))
    return namespace


def default_node(node: Node) -> Node:
    """Fill in what can be allocated: the whole capacity."""
    status = node.status
    if status.capacity and not status.allocatable:
        return replace(node, status=replace(status, allocatable=status.capacity))
    return node
