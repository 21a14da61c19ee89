"""Leases. See: kubernetes ``pkg/apis/coordination/validation``."""

from __future__ import annotations

from kcm_lite.api.coordination import Lease
from kcm_lite.api.validation.field import Causes, invalid
from kcm_lite.api.validation.meta import nonnegative


def check_lease(lease: Lease) -> Causes:
    """Check a Lease; anybody may take it over."""
    causes: Causes = []
    seconds, transitions = lease.spec.lease_duration_seconds, lease.spec.lease_transitions
    if seconds is not None and seconds <= 0:
        causes.append(invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
    return causes + nonnegative(transitions, "spec.leaseTransitions")
