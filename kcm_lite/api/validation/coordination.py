"""Leases. See: kubernetes ``pkg/apis/coordination/validation``."""

from __future__ import annotations

from kcm_lite.api.coordination import Lease, LeaseSpec
from kcm_lite.api.validation.field import Causes, invalid
from kcm_lite.api.validation.meta import validate_meta, validate_meta_update


def validate_lease(lease: Lease) -> Causes:
    """Check a new Lease."""
    return validate_meta(lease.metadata) + _validate_spec(lease.spec)


def validate_lease_update(new: Lease, old: Lease) -> Causes:
    """Check an update: anybody may take a Lease over."""
    return validate_meta_update(new.metadata, old.metadata) + _validate_spec(new.spec)


def _validate_spec(spec: LeaseSpec) -> Causes:
    causes: Causes = []
    seconds, transitions = spec.lease_duration_seconds, spec.lease_transitions
    if seconds is not None and seconds <= 0:
        causes.append(invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        detail = "must be greater than or equal to 0"
        causes.append(invalid("spec.leaseTransitions", transitions, detail))
    return causes
