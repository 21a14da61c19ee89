"""Leases: who holds what, and until when. See: k8s.io/api ``coordination/v1``."""

from __future__ import annotations

from typing import ClassVar

from kcm_lite.api.meta import Int32, MicroTime, Object, Struct


class LeaseSpec(Struct, frozen=True, kw_only=True):
    """The claim of one holder; ``holder_identity`` is empty when it was given back."""

    holder_identity: str | None = None
    lease_duration_seconds: Int32 | None = None
    acquire_time: MicroTime | None = None
    renew_time: MicroTime | None = None
    lease_transitions: Int32 | None = None


class Lease(Object, frozen=True, kw_only=True):
    """A claim that its holder must renew; leader election and node heartbeats use it."""

    API_VERSION: ClassVar[str] = "coordination.k8s.io/v1"
    KEPT: ClassVar[tuple[str, ...]] = ("spec",)

    spec: LeaseSpec = LeaseSpec()
