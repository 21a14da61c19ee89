"""Core objects: pods, nodes, namespaces, replication controllers, quotas, events, config maps.

Pods name the fields that a controller or a simulated node reads; the rest is kept as data.
See: k8s.io/api ``core/v1``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from kcm_lite.api.meta import (
    Condition,
    Int32,
    MicroTime,
    Object,
    ObjectMeta,
    OpenStruct,
    QuantityText,
    Struct,
    Time,
)


class ContainerPort(OpenStruct, frozen=True, kw_only=True):
    """A port that a container listens on."""

    KEPT: ClassVar[tuple[str, ...]] = ("container_port",)

    name: str = ""
    container_port: Int32 = 0
    host_port: Int32 = 0
    protocol: str = ""
    host_ip: str = msgspec.field(default="", name="hostIP")


class ResourceRequirements(OpenStruct, frozen=True, kw_only=True):
    """What a container asks for and may use; values are quantities."""

    limits: Mapping[str, QuantityText] = {}
    requests: Mapping[str, QuantityText] = {}


class Container(OpenStruct, frozen=True, kw_only=True):
    """A container of a pod."""

    KEPT: ClassVar[tuple[str, ...]] = ("name",)

    name: str = ""
    image: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str | None = None
    termination_message_path: str = ""
    termination_message_policy: str = ""
    image_pull_policy: str = ""


class Toleration(Struct, frozen=True, kw_only=True):
    """A taint that a pod puts up with, and for how long."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class PodSpec(OpenStruct, frozen=True, kw_only=True):
    """What a pod should run, and where."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    dns_policy: str = ""
    node_name: str = ""
    node_selector: Mapping[str, str] = {}
    service_account_name: str = ""
    service_account: str = msgspec.field(default="", name="serviceAccount")
    security_context: Mapping[str, Any] | None = None
    scheduler_name: str = ""
    affinity: Mapping[str, Any] | None = None
    tolerations: tuple[Toleration, ...] = ()
    hostname: str = ""
    subdomain: str = ""
    host_network: bool = False
    volumes: tuple[Mapping[str, Any], ...] = ()
    enable_service_links: bool | None = None
    readiness_gates: tuple[Mapping[str, Any], ...] = ()
    scheduling_gates: tuple[Mapping[str, Any], ...] = ()
    priority: Int32 | None = None
    preemption_policy: str | None = None


class ContainerStateRunning(Struct, frozen=True, kw_only=True):
    """Since when a container runs."""

    started_at: Time | None = None


class ContainerStateTerminated(Struct, frozen=True, kw_only=True):
    """How and when a container ended."""

    KEPT: ClassVar[tuple[str, ...]] = ("exit_code",)

    exit_code: Int32 = 0
    signal: Int32 = 0
    reason: str = ""
    message: str = ""
    started_at: Time | None = None
    finished_at: Time | None = None
    container_id: str = msgspec.field(default="", name="containerID")


class ContainerState(Struct, frozen=True, kw_only=True):
    """One of waiting, running, terminated."""

    waiting: Mapping[str, Any] | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(OpenStruct, frozen=True, kw_only=True):
    """What the kubelet reports about a container."""

    KEPT: ClassVar[tuple[str, ...]] = ("name", "ready", "restart_count", "image", "image_id")

    name: str = ""
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    ready: bool = False
    restart_count: Int32 = 0
    image: str = ""
    image_id: str = msgspec.field(default="", name="imageID")
    container_id: str = msgspec.field(default="", name="containerID")
    started: bool | None = None


class PodIP(Struct, frozen=True, kw_only=True):
    """An address of a pod or of its node."""

    KEPT: ClassVar[tuple[str, ...]] = ("ip",)

    ip: str = ""


class PodStatus(OpenStruct, frozen=True, kw_only=True):
    """What is known about a pod: phase, conditions, containers."""

    observed_generation: int = 0
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    message: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    host_ip: str = msgspec.field(default="", name="hostIP")
    host_ips: tuple[PodIP, ...] = msgspec.field(default=(), name="hostIPs")
    pod_ip: str = msgspec.field(default="", name="podIP")
    pod_ips: tuple[PodIP, ...] = msgspec.field(default=(), name="podIPs")
    start_time: Time | None = None
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    qos_class: str = ""


class Pod(Object, frozen=True, kw_only=True):
    """A group of containers on one node: what the workload controllers create and delete."""

    API_VERSION: ClassVar[str] = "v1"

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class PodTemplateSpec(Struct, frozen=True, kw_only=True):
    """The mould that a workload controller casts its pods from."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class ReplicationControllerSpec(Struct, frozen=True, kw_only=True):
    """How many pods, which ones, and what they look like."""

    replicas: Int32 | None = None
    min_ready_seconds: Int32 = 0
    selector: Mapping[str, str] = {}
    template: PodTemplateSpec | None = None


class ReplicationControllerStatus(Struct, frozen=True, kw_only=True):
    """What the controller last saw."""

    KEPT: ClassVar[tuple[str, ...]] = ("replicas",)

    replicas: Int32 = 0
    fully_labeled_replicas: Int32 = 0
    ready_replicas: Int32 = 0
    available_replicas: Int32 = 0
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class ReplicationController(Object, frozen=True, kw_only=True):
    """The older sibling of a ReplicaSet, with a plain map as selector."""

    API_VERSION: ClassVar[str] = "v1"
    KEPT: ClassVar[tuple[str, ...]] = ("status",)

    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: ReplicationControllerStatus = ReplicationControllerStatus()


class Taint(Struct, frozen=True, kw_only=True):
    """A mark on a node that keeps pods away unless they tolerate it."""

    KEPT: ClassVar[tuple[str, ...]] = ("key", "effect")

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: Time | None = None


class NodeSpec(OpenStruct, frozen=True, kw_only=True):
    """Whether and for whom a node takes pods."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(OpenStruct, frozen=True, kw_only=True):
    """What a node has and how it is."""

    capacity: Mapping[str, QuantityText] = {}
    allocatable: Mapping[str, QuantityText] = {}
    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Node(Object, frozen=True, kw_only=True):
    """A machine that runs pods."""

    API_VERSION: ClassVar[str] = "v1"

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class NamespaceSpec(Struct, frozen=True, kw_only=True):
    """What must happen before a namespace may go."""

    finalizers: tuple[str, ...] = ()


class NamespaceStatus(Struct, frozen=True, kw_only=True):
    """Active or Terminating."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Namespace(Object, frozen=True, kw_only=True):
    """A room for names."""

    API_VERSION: ClassVar[str] = "v1"

    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class ObjectReference(Struct, frozen=True, kw_only=True):
    """Which object is meant."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""


class EventSource(Struct, frozen=True, kw_only=True):
    """Who reports an event."""

    component: str = ""
    host: str = ""


class EventSeries(Struct, frozen=True, kw_only=True):
    """How often an event was seen again."""

    count: Int32 = 0
    last_observed_time: MicroTime | None = None


class Event(Object, frozen=True, kw_only=True):
    """Something that happened to an object, told to people (``kubectl describe``)."""

    KEPT: ClassVar[tuple[str, ...]] = ("reporting_component", "reporting_instance")

    API_VERSION: ClassVar[str] = "v1"

    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    source: EventSource = EventSource()
    first_timestamp: Time | None = None
    last_timestamp: Time | None = None
    count: Int32 = 0
    type: str = ""
    event_time: MicroTime | None = None
    series: EventSeries | None = None
    action: str = ""
    related: ObjectReference | None = None
    reporting_component: str = ""
    reporting_instance: str = ""


class ResourceQuotaSpec(Struct, frozen=True, kw_only=True):
    """How much of each resource a namespace may use; values are quantities."""

    hard: Mapping[str, QuantityText] = {}
    scopes: tuple[str, ...] = ()
    scope_selector: Mapping[str, Any] | None = None


class ResourceQuotaStatus(Struct, frozen=True, kw_only=True):
    """What is allowed and what is used."""

    hard: Mapping[str, QuantityText] = {}
    used: Mapping[str, QuantityText] = {}


class ResourceQuota(Object, frozen=True, kw_only=True):
    """A limit on what a namespace may hold; admission refuses what goes over it."""

    API_VERSION: ClassVar[str] = "v1"

    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class ConfigMap(Object, frozen=True, kw_only=True):
    """Plain data; here mostly something that can own and be owned."""

    API_VERSION: ClassVar[str] = "v1"

    data: Mapping[str, str] = {}
    binary_data: Mapping[str, str] = {}
    immutable: bool | None = None


class Binding(Object, frozen=True, kw_only=True):
    """A scheduler's verdict: this pod goes to that node."""

    API_VERSION: ClassVar[str] = "v1"

    target: ObjectReference = ObjectReference()
