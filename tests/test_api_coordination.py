from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from kcm_lite.api.coordination import Lease, LeaseSpec
from kcm_lite.api.core import ConfigMap
from kcm_lite.api.errors import Conflict, Invalid
from kcm_lite.api.meta import ObjectMeta, replace
from kcm_lite.api.serial import decode, encode
from kcm_lite.api.strategy import STRATEGIES
from kcm_lite.apiserver.server import APIServer
from kcm_lite.clock import VirtualClock

META = ObjectMeta(namespace="default", name="kube-controller-manager")


def test_times_keep_their_microseconds_on_the_wire() -> None:
    at = datetime(2026, 1, 1, 12, 0, 0, 250_001, tzinfo=UTC)
    lease = Lease(metadata=META, spec=LeaseSpec(holder_identity="", renew_time=at))
    wire = encode(lease)
    assert wire["spec"] == {"holderIdentity": "", "renewTime": "2026-01-01T12:00:00.250001Z"}
    assert decode(wire, Lease, strict=True) == lease
    assert encode(Lease(metadata=META))["spec"] == {}


def test_fields_of_a_gate_that_is_off_are_read_and_dropped() -> None:
    wire = encode(Lease(metadata=META)) | {"spec": {"strategy": "OldestEmulationVersion"}}
    assert decode(wire, Lease, strict=True).spec == LeaseSpec()


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        (LeaseSpec(lease_duration_seconds=1, lease_transitions=0), []),
        (
            LeaseSpec(lease_duration_seconds=0, lease_transitions=-1),
            [
                ("spec.leaseDurationSeconds", "Invalid value: 0: must be greater than 0"),
                (
                    "spec.leaseTransitions",
                    "Invalid value: -1: must be greater than or equal to 0",
                ),
            ],
        ),
    ],
)
def test_counts_of_a_lease(spec: LeaseSpec, causes: list[tuple[str, str]]) -> None:
    api = APIServer(VirtualClock())
    stored = api.create(Lease(metadata=META))
    writes: list[Callable[[], Lease]] = [
        lambda: api.create(Lease(metadata=replace(META, name="new"), spec=spec)),
        lambda: api.update(replace(stored, spec=spec)),
    ]
    for write in writes:
        if not causes:
            write()
            continue
        with pytest.raises(Invalid) as error:
            write()
        assert [(c.field, c.message) for c in error.value.causes] == causes


def test_of_two_writers_that_read_the_same_version_one_wins() -> None:
    api = APIServer(VirtualClock())
    stored = api.create(Lease(metadata=META))
    api.update(replace(stored, spec=LeaseSpec(holder_identity="a")))
    with pytest.raises(Conflict):
        api.update(replace(stored, spec=LeaseSpec(holder_identity="b")))
    assert api.get(Lease, "default", META.name).spec.holder_identity == "a"


UNCONDITIONAL = (
    'leases.coordination.k8s.io "kube-controller-manager" is invalid: '
    "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
)


@pytest.mark.parametrize("version", ["", "0"])
def test_an_update_of_a_lease_must_name_a_version(version: str) -> None:
    api = APIServer(VirtualClock())
    stored = api.create(Lease(metadata=META))
    blind = replace(stored, metadata=replace(stored.metadata, resource_version=version))
    with pytest.raises(Invalid) as error:
        api.update(replace(blind, spec=LeaseSpec(holder_identity="a")))
    assert (str(error.value), error.value.code) == (UNCONDITIONAL, 422)
    (cause,) = error.value.causes
    assert (cause.reason, cause.field) == ("FieldValueInvalid", "metadata.resourceVersion")
    assert api.get(Lease, "default", META.name) is stored
    api.patch(Lease, "default", META.name, {"spec": {"holderIdentity": "b"}})
    with pytest.raises(Invalid):  # a patch that takes the version away
        api.patch(Lease, "default", META.name, {"metadata": {"resourceVersion": None}})
    assert api.get(Lease, "default", META.name).spec.holder_identity == "b"


def test_only_leases_refuse_an_update_without_a_version() -> None:
    refuse = {kind for kind, rules in STRATEGIES.items() if not rules.unconditional_update}
    assert refuse == {Lease}
    api = APIServer(VirtualClock())
    stored = api.create(ConfigMap(metadata=META))
    api.update(replace(stored, metadata=replace(stored.metadata, resource_version="")))
