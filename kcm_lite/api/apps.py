"""Workload objects of the ``apps`` group. See: k8s.io/api ``apps/v1``."""

from __future__ import annotations

from typing import Any, ClassVar

from kcm_lite.api.core import PodTemplateSpec
from kcm_lite.api.intstr import IntOrString
from kcm_lite.api.meta import Condition, Int32, LabelSelector, Object, Struct


class ReplicaSetSpec(Struct, frozen=True, kw_only=True):
    """How many pods, which ones, and what they look like."""

    replicas: Int32 | None = None
    min_ready_seconds: Int32 = 0
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicaSetStatus(Struct, frozen=True, kw_only=True):
    """What the controller last saw. ``replicas`` is always written, zero included."""

    KEPT: ClassVar[tuple[str, ...]] = ("replicas",)

    replicas: Int32 = 0
    fully_labeled_replicas: Int32 = 0
    ready_replicas: Int32 = 0
    available_replicas: Int32 = 0
    terminating_replicas: Int32 | None = None
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class ReplicaSet(Object, frozen=True, kw_only=True):
    """Keeps so many pods of one template alive."""

    API_VERSION: ClassVar[str] = "apps/v1"
    KEPT: ClassVar[tuple[str, ...]] = ("status",)

    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class RollingUpdateDeployment(Struct, frozen=True, kw_only=True):
    """How many pods a rollout may add and take away at a time: numbers or percentages."""

    max_unavailable: IntOrString | None = None
    max_surge: IntOrString | None = None


class DeploymentStrategy(Struct, frozen=True, kw_only=True):
    """How old pods give way to new ones: RollingUpdate or Recreate."""

    type: str = ""
    rolling_update: RollingUpdateDeployment | None = None


class DeploymentSpec(Struct, frozen=True, kw_only=True):
    """How many pods, what they look like, and how to change what they look like."""

    KEPT: ClassVar[tuple[str, ...]] = ("strategy",)

    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    strategy: DeploymentStrategy = DeploymentStrategy()
    min_ready_seconds: Int32 = 0
    revision_history_limit: Int32 | None = None
    paused: bool = False
    progress_deadline_seconds: Int32 | None = None


class DeploymentStatus(Struct, frozen=True, kw_only=True):
    """What the controller last saw, over all replica sets."""

    observed_generation: int = 0
    replicas: Int32 = 0
    updated_replicas: Int32 = 0
    ready_replicas: Int32 = 0
    available_replicas: Int32 = 0
    unavailable_replicas: Int32 = 0
    terminating_replicas: Int32 | None = None
    conditions: tuple[Condition, ...] = ()
    collision_count: Int32 | None = None


class Deployment(Object, frozen=True, kw_only=True):
    """Pods of one template, and the way from one template to the next."""

    API_VERSION: ClassVar[str] = "apps/v1"
    KEPT: ClassVar[tuple[str, ...]] = ("status",)

    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class ControllerRevision(Object, frozen=True, kw_only=True):
    """A frozen copy of a workload's template, by which StatefulSets and DaemonSets roll back."""

    API_VERSION: ClassVar[str] = "apps/v1"

    KEPT: ClassVar[tuple[str, ...]] = ("revision",)

    data: Any = None
    revision: int = 0
