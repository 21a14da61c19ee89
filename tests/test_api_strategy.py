"""What the API server does with an object before it stores it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kcm_lite.api.apps import ReplicaSet
from kcm_lite.api.core import Event, Namespace, Node, Pod, ReplicationController
from kcm_lite.api.defaults import default_pod_spec, image_tag, qos_class
from kcm_lite.api.meta import replace
from kcm_lite.api.scheme import RESOURCES
from kcm_lite.api.serial import decode, encode
from kcm_lite.api.strategy import STRATEGIES, Strategy

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def obj(kind: str, version: str = "v1", name: str = "x", **parts: Any) -> Any:
    metadata = {"name": name, "namespace": "ns", **parts.pop("metadata", {})}
    return decode({"apiVersion": version, "kind": kind, "metadata": metadata, **parts})


def rules(of: Any) -> Strategy[Any]:
    return STRATEGIES[type(of)]


def created(new: Any) -> Any:
    """Run a create; it must be accepted."""
    strategy = rules(new)
    new = strategy.default(new)
    meta = replace(new.metadata, uid="u", creation_timestamp=NOW)
    new = strategy.prepare_for_create(replace(new, metadata=meta))
    assert strategy.validate(new) == []
    return replace(new, metadata=replace(new.metadata, resource_version="1"))


def updated(new: Any, old: Any) -> Any:
    """Run an update; it must be accepted."""
    strategy = rules(new)
    new = strategy.prepare_for_update(strategy.default(new), old)
    assert strategy.validate_update(new, old) == []
    return new


POD = {"containers": [{"name": "c", "image": "i"}]}
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": POD}
RS_SPEC = {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE}


def pod(**spec: Any) -> Any:
    return obj("Pod", spec={**POD, **spec})


def replica_set(**spec: Any) -> Any:
    return obj("ReplicaSet", "apps/v1", spec={**RS_SPEC, **spec})


def test_every_kind_has_a_strategy() -> None:
    assert set(STRATEGIES) == {resource.type for resource in RESOURCES}


def test_defaults_are_filled_in_once() -> None:
    for new in (
        pod(hostNetwork=True),
        replica_set(),
        obj("ReplicationController", spec={"template": TEMPLATE}),
        obj("Namespace", metadata={"namespace": ""}),
        obj("Node", metadata={"namespace": ""}, status={"capacity": {"cpu": "2"}}),
    ):
        once = rules(new).default(new)
        assert once != new
        assert rules(new).default(once) is once


def test_pods_of_one_template_share_their_spec() -> None:
    template = created(replica_set()).spec.template
    first, second = (created(Pod(metadata=m, spec=template.spec)) for m in _two_names())
    assert first.spec is second.spec
    assert first.spec.enable_service_links is True
    assert template.spec.enable_service_links is None


def test_a_negative_grace_period_counts_as_one_second_in_a_pod_but_stays_in_a_template() -> None:
    impatient = {**POD, "terminationGracePeriodSeconds": -1}
    rs = created(replica_set(template={**TEMPLATE, "spec": impatient}))
    assert rs.spec.template.spec.termination_grace_period_seconds == -1
    assert created(obj("Pod", spec=impatient)).spec.termination_grace_period_seconds == 1


def _two_names() -> list[Any]:
    return [pod().metadata, obj("Pod", name="y").metadata]


def test_service_account_has_two_names() -> None:
    for name in ("serviceAccount", "serviceAccountName"):
        spec = encode(rules(pod()).default(pod(**{name: "robot"})))["spec"]
        assert (spec["serviceAccount"], spec["serviceAccountName"]) == ("robot", "robot")
    spec = encode(rules(pod()).default(pod(serviceAccount="a", serviceAccountName="b")))["spec"]
    assert (spec["serviceAccount"], spec["serviceAccountName"]) == ("b", "b")


@pytest.mark.parametrize(
    ("image", "tag"),
    [
        ("a", "latest"),
        ("a:latest", "latest"),
        ("a:1", "1"),
        ("registry:5000/a", "latest"),
        ("registry:5000/a:1", "1"),
        ("Registry.example/a/b_c", "latest"),
        ("a@sha256:" + "0" * 64, ""),
        ("a:1@sha256:" + "0" * 64, "1"),
        ("A", ""),
        (" a ", ""),
        ("", ""),
    ],
)
def test_image_tags(image: str, tag: str) -> None:
    assert image_tag(image) == tag


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ([{}], "BestEffort"),
        ([{"requests": {"cpu": "0"}}], "BestEffort"),
        ([{"limits": {"example.com/gpu": "1"}}], "BestEffort"),
        ([{"requests": {"cpu": "1"}}], "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}], "Guaranteed"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}, {}], "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "0.5"}}], "Burstable"),
        ([{"limits": {"cpu": "1"}}], "Burstable"),
    ],
)
def test_quality_of_service(resources: list[Any], expected: str) -> None:
    containers = [
        {"name": f"c{i}", "image": "i", "resources": each} for i, each in enumerate(resources)
    ]
    assert created(pod(containers=containers)).status.qos_class == expected


def test_a_new_pod_is_pending() -> None:
    new = created(obj("Pod", spec=POD, status={"phase": "Running"}, metadata={"generation": 7}))
    assert encode(new)["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert new.metadata.generation == 1
    gated = created(pod(schedulingGates=[{"name": "a/b"}]))
    (condition,) = gated.status.conditions
    assert (condition.type, condition.status, condition.reason) == (
        "PodScheduled",
        "False",
        "SchedulingGated",
    )
    assert condition.last_transition_time == NOW


def test_generation_counts_changes_of_the_spec_only() -> None:
    old = created(replica_set())
    assert old.metadata.generation == 1
    scaled = updated(replace(old, spec=replace(old.spec, replicas=2)), old)
    assert scaled.metadata.generation == 2
    labelled = updated(replace(old, metadata=replace(old.metadata, labels={"a": "b"})), old)
    assert labelled.metadata.generation == 1
    said = replace(old, status=replace(old.status, replicas=3))
    assert updated(said, old).status == old.status
    strategy = rules(old)
    kept = strategy.prepare_for_status_update(replace(said, spec=scaled.spec), old)
    assert (kept.spec, kept.status.replicas, kept.metadata.generation) == (old.spec, 3, 1)


def test_kinds_without_generation() -> None:
    node = created(obj("Node", metadata={"namespace": ""}))
    tainted = replace(node, spec=replace(node.spec, unschedulable=True))
    assert updated(tainted, node).metadata.generation == 0


def test_a_replication_controller_takes_selector_and_labels_from_its_template() -> None:
    rc = created(obj("ReplicationController", spec={"template": TEMPLATE}))
    assert rc.spec.selector == {"app": "x"}
    assert rc.metadata.labels == {"app": "x"}
    assert rc.spec.replicas == 1
    rc = created(
        obj(
            "ReplicationController",
            metadata={"labels": {"a": "b"}},
            spec={"template": TEMPLATE, "replicas": 0},
        )
    )
    assert (rc.metadata.labels, rc.spec.replicas) == ({"a": "b"}, 0)
    rs = created(replica_set())
    assert rs.metadata.labels == {}


def test_a_new_namespace_is_active_and_held_by_a_finalizer() -> None:
    namespace = created(obj("Namespace", metadata={"namespace": ""}, spec={"finalizers": ["a/b"]}))
    assert namespace.spec.finalizers == ("a/b", "kubernetes")
    assert namespace.status.phase == "Active"
    assert namespace.metadata.labels == {"kubernetes.io/metadata.name": "x"}


def test_an_update_of_a_namespace_keeps_its_finalizers() -> None:
    old = created(obj("Namespace", metadata={"namespace": ""}))
    freed = replace(old, spec=replace(old.spec, finalizers=()))
    assert updated(freed, old).spec.finalizers == ("kubernetes",)


def test_a_node_comes_with_its_status() -> None:
    node = created(obj("Node", metadata={"namespace": ""}, status={"capacity": {"cpu": 2}}))
    assert node.status.capacity == node.status.allocatable == {"cpu": "2"}


@pytest.mark.parametrize(
    ("node", "phase", "of_spec", "asked", "expected"),
    [
        ("n", "Running", 30, None, 30),
        ("n", "Running", 30, 5, 5),
        ("n", "Running", 30, 0, 0),
        ("n", "Running", 30, -1, 1),
        ("", "Pending", 30, None, 0),
        ("n", "Failed", 30, 10, 0),
        ("n", "Succeeded", 30, None, 0),
    ],
)
def test_grace_periods(
    node: str, phase: str, of_spec: int, asked: int | None, expected: int
) -> None:
    victim = obj(
        "Pod",
        spec={**POD, "nodeName": node, "terminationGracePeriodSeconds": of_spec},
        status={"phase": phase},
    )
    grace_period = rules(victim).grace_period
    assert grace_period is not None
    assert grace_period(victim, asked) == expected


def test_deletion_rules_differ_between_kinds() -> None:
    assert STRATEGIES[ReplicaSet].grace_period is None
    assert STRATEGIES[ReplicationController].orphan_dependents is True
    assert STRATEGIES[ReplicaSet].orphan_dependents is False
    assert STRATEGIES[Event].orphan_dependents is None


def test_a_status_update_of_a_pod_keeps_what_a_kubelet_may_not_touch() -> None:
    reference = {"apiVersion": "v1", "kind": "K", "name": "n", "uid": "o"}
    old = created(obj("Pod", spec=POD, metadata={"ownerReferences": [reference]}))
    seen = decode(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "status": {
                "observedGeneration": 4,
                "conditions": [{"type": "Ready", "status": "False", "observedGeneration": 3}],
            },
        },
        Pod,
    ).status
    old = replace(old, status=replace(seen, qos_class="BestEffort"))
    new = obj(
        "Pod",
        spec={"containers": []},
        metadata={"labels": {"a": "b"}},
        status={"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    )
    new = rules(new).prepare_for_status_update(new, old)
    assert new.spec is old.spec
    assert new.metadata.owner_references == old.metadata.owner_references
    assert new.metadata.labels == {"a": "b"}
    assert new.status.qos_class == "BestEffort"
    assert new.status.observed_generation == 4
    assert new.status.conditions[0].observed_generation == 3
    assert new.status.conditions[0].status == "True"


def test_defaulting_does_not_change_what_it_is_given() -> None:
    new = pod(hostNetwork=True, containers=[{"name": "c", "image": "i", "ports": [{}]}])
    before = encode(new)
    created_or_not = rules(new).default(new)
    assert encode(new) == before
    assert created_or_not.spec.containers[0].ports[0].protocol == "TCP"
    assert default_pod_spec(new.spec) is default_pod_spec(new.spec)
    assert qos_class(new.spec) == "BestEffort"


def test_host_network_takes_the_ports_of_the_node() -> None:
    ports = [{"containerPort": 80}, {"containerPort": 81, "hostPort": 81}]
    new = created(pod(hostNetwork=True, containers=[{"name": "c", "image": "i", "ports": ports}]))
    assert [port.host_port for port in new.spec.containers[0].ports] == [80, 81]


def test_what_only_namespaced_kinds_may_have() -> None:
    node = obj("Node")
    assert [c.field for c in rules(node).validate(node)] == ["metadata.namespace"]
    assert isinstance(node, Node)
    assert Namespace in STRATEGIES
