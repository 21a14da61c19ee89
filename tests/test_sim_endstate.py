"""What lasts of a run, and in what two ends differ."""

from __future__ import annotations

from typing import Any

import pytest

from kcm_lite.api.core import Pod
from kcm_lite.api.meta import Object
from kcm_lite.api.serial import decode
from kcm_lite.sim.cluster import Cluster
from kcm_lite.sim.endstate import EndState, differences, end_state, state_of
from tests.sim_support import deployment, job

JOB = job("job", completions=2)


def ended(manifest: dict[str, Any], seed: int = 0, image: str = "") -> EndState:
    """The end of a run."""
    cluster = Cluster(
        seed=seed, profile={"exit": {"after": 3, "code": 0}} if manifest["kind"] == "Job" else None
    )
    cluster.apply(manifest)
    cluster.run_for(30)
    if image:
        cluster.set_image("deploy/web", {"c": image})
        cluster.run_for(30)
    state = end_state(cluster)
    cluster.close()
    return state


@pytest.mark.parametrize("manifest", [deployment(3), JOB])
def test_what_the_server_makes_up_does_not_count(manifest: dict[str, Any]) -> None:
    first, second = ended(manifest, 0), ended(manifest, 1)
    assert first == second
    assert differences(first, second) == []
    assert str(first) == str(second)


def test_an_end_has_sets_by_template_and_pods_by_number() -> None:
    lines = str(ended(deployment(3), image="app:2")).splitlines()
    kinds = [line.split(" ", 1)[0].split("/")[0] for line in lines]
    assert kinds == ["Deployment", "Pod", "ReplicaSet", "ReplicaSet"]
    assert lines[1].startswith("Pod web-<app:2 ") and "  x3  " in lines[1]
    assert "spec.replicas" not in lines[2] and "spec.replicas=3" in lines[3]
    assert "annotations.deployment.kubernetes.io/revision=2" in lines[3]


def test_another_size_differs_field_by_field() -> None:
    found = differences(ended(deployment(3)), ended(deployment(2)))
    assert len(found) == 3
    assert "spec.replicas=2, not 3" in found[0]
    assert found[1].endswith('controller blockOwnerDeletion"] phase=Running ready scheduled')
    assert "Pod web-<app:1 " in found[1]


def test_another_image_is_another_set() -> None:
    found = differences(ended(deployment(1)), ended(deployment(1, image="app:9")))
    sets = ["ReplicaSet/web-<app:1", "ReplicaSet/web-<app:9"]
    assert [line.split(" ")[0] for line in found] == ["Deployment/web:", "Pod", "Pod", *sets]


def pod(**change: Any) -> Pod:
    """A pod of a set, with some fields changed."""
    raw: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-abcde",
            "generateName": "web-",
            "namespace": "ns",
            "labels": {"app": "web"},
        },
        "spec": {"containers": [{"name": "c", "image": "app:1"}]},
        "status": {"phase": "Running"},
    }
    for path, value in change.items():
        place = raw
        *above, last = path.split("__")
        for key in above:
            place = place.setdefault(key, {})
        place[last] = value
    return decode(raw, Pod)


def of(*objects: Object) -> EndState:
    """What lasts of some objects."""
    return state_of(objects, "ns")


OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"metadata__labels": {"app": "other"}}, "labels.app=other, not web"),
        ({"metadata__annotations": {"a": "b"}}, "with annotations.a=b"),
        ({"metadata__finalizers": ["x.io/y"]}, 'with finalizers=["x.io/y"]'),
        ({"metadata__deletionTimestamp": "2026-01-01T00:00:00Z"}, "with deleting"),
        ({"spec__nodeName": "node-1"}, "with scheduled"),
        ({"status__phase": "Failed"}, "phase=Failed, not Running"),
        ({"status__reason": "Evicted"}, "with reason=Evicted"),
        ({"status__conditions": [{"type": "Ready", "status": "True"}]}, "with ready"),
        ({"metadata__ownerReferences": [OWNER]}, 'with owners=["ConfigMap/o"]'),
    ],
)
def test_what_lasts_of_a_pod_is_seen(change: dict[str, Any], text: str) -> None:
    assert differences(of(pod()), of(pod(**change))) == [f"Pod web-*: {text}"]
    assert len(differences(of(pod(**change)), of(pod()))) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"metadata__name": "web-zzzzz"},
        {"metadata__uid": "u"},
        {"metadata__resourceVersion": "7"},
        {"metadata__creationTimestamp": "2026-01-01T00:00:00Z"},
        {"metadata__labels": {"app": "web", "pod-template-hash": "abc"}},
        {"status__podIP": "10.0.0.1"},
        {"status__message": "web-zzzzz"},
    ],
)
def test_what_is_made_up_is_not(change: dict[str, Any]) -> None:
    assert differences(of(pod()), of(pod(**change))) == []


def test_a_missing_pod_and_one_too_many_are_told() -> None:
    one, two = pod(), pod(metadata__name="web-zzzzz")
    (lost,) = differences(of(one, two), of(one))
    (new,) = differences(of(one), of(one, two))
    assert lost.startswith("Pod web-* is missing: images=")
    assert new.startswith("Pod web-* is too much: images=")


def test_an_object_elsewhere_is_named_with_its_namespace() -> None:
    assert str(of(pod(metadata__namespace="x"))).startswith("Pod x/web-*  ")
