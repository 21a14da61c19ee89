"""Reading and writing objects."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm_lite.api import apps, core
from kcm_lite.api.apps import ReplicaSet, ReplicaSetSpec, ReplicaSetStatus
from kcm_lite.api.autoscaling import Scale
from kcm_lite.api.core import Container, Event, Node, Pod, PodSpec, PodTemplateSpec, Toleration
from kcm_lite.api.errors import BadRequest
from kcm_lite.api.meta import (
    Condition,
    LabelSelector,
    LabelSelectorRequirement,
    Object,
    ObjectMeta,
    OwnerReference,
)
from kcm_lite.api.scheme import RESOURCES
from kcm_lite.api.serial import DecodeError, convert, decode, encode, to_wire

words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=6)
strings = st.dictionaries(words, words, max_size=3)
seconds = st.integers(0, 2**32).map(lambda number: datetime.fromtimestamp(number, UTC))
optional_bool = st.none() | st.booleans()
json_values = st.recursive(
    st.booleans() | st.integers(-(2**60), 2**60) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
unknown = st.dictionaries(words.map(lambda word: f"x-{word}"), json_values, max_size=3)

owner_references = st.builds(
    OwnerReference, name=words, uid=words, kind=words, controller=optional_bool
)
metadata = st.builds(
    ObjectMeta,
    name=words,
    namespace=words,
    generation=st.integers(0, 2**40),
    labels=strings,
    annotations=strings,
    creation_timestamp=st.none() | seconds,
    deletion_grace_period_seconds=st.none() | st.integers(0, 100),
    owner_references=st.lists(owner_references, max_size=2).map(tuple),
    finalizers=st.lists(words, max_size=2).map(tuple),
)
containers = st.builds(Container, name=words, image=words, extra=unknown)
pod_specs = st.builds(
    PodSpec,
    containers=st.lists(containers, max_size=2).map(tuple),
    termination_grace_period_seconds=st.none() | st.integers(-5, 100),
    host_network=st.booleans(),
    tolerations=st.lists(
        st.builds(Toleration, key=words, toleration_seconds=st.none() | st.integers(-9, 9)),
        max_size=2,
    ).map(tuple),
    extra=unknown,
)
selectors = st.builds(
    LabelSelector,
    match_labels=strings,
    match_expressions=st.lists(
        st.builds(LabelSelectorRequirement, key=words, values=st.lists(words).map(tuple)),
        max_size=2,
    ).map(tuple),
)
conditions = st.builds(
    Condition, type=words, status=words, last_transition_time=st.none() | seconds
)
replica_sets = st.builds(
    ReplicaSet,
    metadata=metadata,
    spec=st.builds(
        ReplicaSetSpec,
        replicas=st.none() | st.integers(0, 2**31 - 1),
        min_ready_seconds=st.integers(0, 100),
        selector=st.none() | selectors,
        template=st.builds(PodTemplateSpec, metadata=metadata, spec=pod_specs),
    ),
    status=st.builds(
        ReplicaSetStatus,
        replicas=st.integers(0, 9),
        terminating_replicas=st.none() | st.integers(0, 3),
        conditions=st.lists(conditions, max_size=2).map(tuple),
    ),
)


@given(replica_sets)
def test_round_trip(rs: ReplicaSet) -> None:
    wire = encode(rs)
    assert decode(wire) == rs
    assert decode(json.loads(json.dumps(wire)), ReplicaSet) == rs
    assert encode(decode(wire)) == wire


@given(unknown, unknown)
def test_unknown_fields_of_pods_survive(
    in_spec: dict[str, Any], in_container: dict[str, Any]
) -> None:
    raw = {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {"containers": [{"name": "c", **in_container}], **in_spec},
    }
    before = copy.deepcopy(raw)
    pod = decode(raw, Pod)
    assert pod.spec.extra == in_spec
    assert pod.spec.containers[0].extra == in_container
    assert encode(pod) == before
    assert raw == before


def test_a_written_object_shares_nothing_with_the_object() -> None:
    pod = decode({"apiVersion": "v1", "kind": "Pod", "spec": {"affinity": {"a": [{"b": 1}]}}}, Pod)
    wire = encode(pod)
    wire["spec"]["affinity"]["a"][0]["b"] = 2
    assert encode(pod)["spec"]["affinity"] == {"a": [{"b": 1}]}


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda r: r.kind)
def test_every_kind_has_an_empty_form(resource: Any) -> None:
    raw = {"apiVersion": resource.api_version, "kind": resource.kind}
    obj = decode(raw)
    assert obj == resource.type()
    assert encode(obj).items() >= raw.items()
    assert decode(raw, strict=True) == obj


def test_zeros_that_the_api_keeps() -> None:
    status = encode(ReplicaSet(status=ReplicaSetStatus(observed_generation=1)))["status"]
    assert status == {"observedGeneration": 1, "replicas": 0}
    status = to_wire(ReplicaSetStatus(terminating_replicas=0))
    assert status == {"replicas": 0, "terminatingReplicas": 0}
    assert encode(ReplicaSet(spec=ReplicaSetSpec(replicas=0)))["spec"] == {"replicas": 0}
    assert encode(ReplicaSet(spec=ReplicaSetSpec(selector=LabelSelector())))["spec"] == {
        "selector": {}
    }
    assert encode(Scale())["kind"] == "Scale"
    assert to_wire(core.ContainerStatus())["ready"] is False
    assert to_wire(OwnerReference(controller=False))["controller"] is False


def test_null_is_the_same_as_not_given() -> None:
    raw = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"creationTimestamp": None, "labels": None},
        "spec": {"replicas": None, "selector": None, "template": None},
        "status": None,
    }
    assert decode(raw) == ReplicaSet()


def test_times() -> None:
    raw: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"creationTimestamp": "2026-01-01T02:00:00.9+02:00"},
        "eventTime": "2026-01-01T00:00:00.000123Z",
        "firstTimestamp": "2026-01-01T00:00:00z",
    }
    event = decode(raw, Event)
    assert event.metadata.creation_timestamp == datetime(2026, 1, 1, tzinfo=UTC)
    assert event.event_time == datetime(2026, 1, 1, 0, 0, 0, 123, tzinfo=UTC)
    wire = encode(event)
    assert wire["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert wire["eventTime"] == "2026-01-01T00:00:00.000123Z"
    assert wire["firstTimestamp"] == "2026-01-01T00:00:00Z"


def test_quantities_become_canonical() -> None:
    raw = {
        "apiVersion": "v1",
        "kind": "Node",
        "status": {"capacity": {"cpu": 2, "memory": "1024Ki", "pods": "0.5"}},
    }
    assert decode(raw, Node).status.capacity == {"cpu": "2", "memory": "1Mi", "pods": "500m"}


def rs(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": spec}


ODD_KEY: dict[Any, Any] = {**rs(), 3: "x"}


def with_container(container: Any) -> dict[str, Any]:
    return rs(template={"spec": {"containers": [{"name": "a"}, container]}})


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (rs(replicas="3"), "spec.replicas: expected int, got str"),
        (rs(replicas=True), "spec.replicas: expected int, got bool"),
        (rs(replicas=1.5), "spec.replicas: expected int, got float"),
        (
            rs(replicas=2**31),
            "spec.replicas: expected a number between -2147483648 and 2147483647, got 2147483648",
        ),
        (rs(template=[]), "spec.template: expected map, got list"),
        (
            rs(selector={"matchLabels": {"a/b": 1}}),
            "spec.selector.matchLabels[a/b]: expected str, got int",
        ),
        (
            rs(selector={"matchLabels": {1: "a"}}),
            "spec.selector.matchLabels[1]: expected str as a name, got int",
        ),
        (with_container("x"), "spec.template.spec.containers[1]: expected map, got str"),
        (
            with_container({"ports": [{"containerPort": "80"}]}),
            "spec.template.spec.containers[1].ports[0].containerPort: expected int, got str",
        ),
        (
            with_container({"resources": {"requests": {"cpu": "much"}}}),
            "spec.template.spec.containers[1].resources.requests[cpu]: quantities must match the"
            " regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            {**rs(), "metadata": {"creationTimestamp": "yesterday"}},
            "metadata.creationTimestamp: expected a timestamp such as 2026-01-01T00:00:00Z,"
            ' got "yesterday"',
        ),
        (
            {**rs(), "metadata": {"creationTimestamp": "2026-02-30T00:00:00Z"}},
            "metadata.creationTimestamp: expected a timestamp such as 2026-01-01T00:00:00Z,"
            ' got "2026-02-30T00:00:00Z"',
        ),
        ({**rs(), "metadata": "x"}, "metadata: expected map, got str"),
        (ODD_KEY, "expected str as a name, got int"),
        ([], "expected map, got list"),
        ("x", "expected map, got str"),
        ({}, "kind: missing; it says what the object is"),
        ({"kind": "Pod"}, "apiVersion: missing; it says what the object is"),
        ({"kind": 5, "apiVersion": "v1"}, "kind: expected str, got int"),
        (
            {"kind": "Pod", "apiVersion": "apps/v1"},
            'no matches for kind "Pod" in version "apps/v1"',
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_its_path(raw: Any, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        decode(raw)
    assert caught.value.message == str(caught.value) == message
    assert caught.value.code == 400


def test_the_first_misfit_of_the_document_is_named() -> None:
    with pytest.raises(DecodeError) as caught:
        decode(rs(minReadySeconds="x", replicas="y"))
    error = caught.value
    assert (error.path, error.owner) == ("spec.minReadySeconds", "ReplicaSetSpec")
    assert (error.expected, error.value) == ("int32", "x")


def test_another_kind_than_asked_for_is_refused() -> None:
    with pytest.raises(BadRequest, match=r"expected Pod of v1, got ReplicaSet of apps/v1"):
        decode(rs(), Pod)
    assert decode({"metadata": {"name": "a"}}, Pod).metadata.name == "a"


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (rs(replica=3), "spec.replica"),
        (with_container({"img": "x"}), "spec.template.spec.containers[1].img"),
        ({**rs(), "metadata": {"label": {}}}, "metadata.label"),
        ({**rs(), "specs": {}}, "specs"),
    ],
)
def test_strict_reading_refuses_names_that_kubernetes_does_not_have(raw: Any, path: str) -> None:
    decode(raw)
    with pytest.raises(BadRequest) as caught:
        decode(raw, strict=True)
    assert caught.value.message == f"{path}: unknown field"


def test_strict_reading_takes_what_is_only_carried() -> None:
    raw = with_container({"livenessProbe": {"anything": 1}, "env": [{"name": "A"}]})
    container = decode(raw, ReplicaSet, strict=True).spec.template.spec.containers[1]
    assert container.extra == {"livenessProbe": {"anything": 1}, "env": [{"name": "A"}]}


def test_parts_of_objects() -> None:
    selector = convert({"matchLabels": {"a": "b"}}, LabelSelector)
    assert selector == LabelSelector(match_labels={"a": "b"})
    with pytest.raises(DecodeError, match=r"^matchLabels: expected map, got list$"):
        convert({"matchLabels": []}, LabelSelector)


def test_wire_names() -> None:
    """Every field is camelCase, also those that a plain renaming gets wrong."""
    assert "podIP" in to_wire(core.PodStatus(pod_ip="x"))
    assert "hostIPs" in to_wire(core.PodStatus(host_ips=(core.PodIP(ip="x"),)))
    assert "imageID" in to_wire(core.ContainerStatus())
    assert "minReadySeconds" in to_wire(apps.ReplicaSetSpec(min_ready_seconds=1))


def test_kinds_are_known_by_their_type() -> None:
    for resource in RESOURCES:
        assert issubclass(resource.type, Object)
        assert resource.kind == resource.type.__name__
