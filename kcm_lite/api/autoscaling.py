"""The Scale subresource. See: k8s.io/api ``autoscaling/v1``."""

from __future__ import annotations

from typing import ClassVar

from kcm_lite.api.meta import Int32, Object, Struct


class ScaleSpec(Struct, frozen=True, kw_only=True):
    """The wanted number of replicas."""

    replicas: Int32 = 0


class ScaleStatus(Struct, frozen=True, kw_only=True):
    """The observed number, and a selector in string form that finds the pods."""

    KEPT: ClassVar[tuple[str, ...]] = ("replicas",)

    replicas: Int32 = 0
    selector: str = ""


class Scale(Object, frozen=True, kw_only=True):
    """One number of a workload, the same shape for every kind that can be scaled."""

    API_VERSION: ClassVar[str] = "autoscaling/v1"

    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()
