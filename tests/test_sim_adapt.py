from __future__ import annotations

from typing import Any

from kcm_lite.api.core import Pod
from kcm_lite.api.meta import Object
from kcm_lite.sim.adapt import adapted
from kcm_lite.sim.manifests import LIVE_UID, Inert, read_manifest
from tests.sim_support import pod, replica_set

NODES = {"node-1", "node-2"}


def config(name: str, *owners: str, **meta: Any) -> Object | Inert:
    refs = [{"apiVersion": "v1", "kind": "ConfigMap", "name": o, "uid": f"old-{o}"} for o in owners]
    raw = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **meta}}
    raw["metadata"]["ownerReferences"] = refs  # type: ignore[index]
    return read_manifest(raw, namespace="default")


def names(objects: list[Object | Inert]) -> list[str]:
    return [o.name if isinstance(o, Inert) else o.metadata.name for o in objects]


def test_what_only_the_old_server_knew_is_gone() -> None:
    old = config(
        "a",
        uid="u",
        resourceVersion="7",
        generation=3,
        creationTimestamp="2025-01-01T00:00:00Z",
        deletionTimestamp="2025-01-01T00:00:00Z",
        managedFields=[{"manager": "kubectl"}],
        finalizers=["keep/me"],
        labels={"keep": "me"},
    )
    (fresh,), lines = adapted([old], NODES)
    assert isinstance(fresh, Object)
    meta = fresh.metadata
    assert (meta.uid, meta.resource_version, meta.generation) == ("", "", 0)
    assert meta.creation_timestamp is None and meta.deletion_timestamp is None
    assert meta.managed_fields == ()
    assert meta.finalizers == ("keep/me",) and meta.labels == {"keep": "me"}
    assert lines == []


def test_owners_come_first_and_references_become_live() -> None:
    objects, lines = adapted([config("c", "b"), config("b", "a"), config("x"), config("a")], NODES)
    assert names(objects) == ["x", "a", "b", "c"]
    refs = [r.uid for o in objects if isinstance(o, Object) for r in o.metadata.owner_references]
    assert refs == [LIVE_UID, LIVE_UID]
    assert lines == []


def test_references_to_owners_that_are_not_there_are_dropped_and_told() -> None:
    objects, lines = adapted([config("b", "a", "gone"), config("a")], NODES)
    assert [r.name for r in objects[1].metadata.owner_references] == ["a"]  # type: ignore[union-attr]
    assert lines == ["ConfigMap/b: its owner ConfigMap/gone is not simulated"]
    elsewhere = config("a", namespace="other")
    assert adapted([config("b", "a"), elsewhere], NODES)[1] != []


def test_a_circle_of_owners_ends() -> None:
    objects, _ = adapted([config("a", "b"), config("b", "a"), config("c", "a")], NODES)
    assert sorted(names(objects)) == ["a", "b", "c"]
    assert names(objects).index("c") > names(objects).index("a")


def test_a_pod_on_an_unknown_node_is_scheduled_anew() -> None:
    pods = []
    for name, node in (("a", "node-2"), ("b", "ip-10-0-0-1"), ("c", "")):
        raw = pod(name)
        raw["spec"]["nodeName"] = node
        pods.append(read_manifest(raw, namespace="default"))
    objects, lines = adapted(pods, NODES)
    assert [o.spec.node_name for o in objects if isinstance(o, Pod)] == ["node-2", "", ""]
    assert lines == ["Pod/b: its node ip-10-0-0-1 is not simulated"]


def test_what_is_not_simulated_passes_through() -> None:
    raw = {**replica_set(), "kind": "CronTab", "apiVersion": "stable.example.com/v1"}
    inert = read_manifest(raw, namespace="default")
    assert adapted([inert], NODES) == ([inert], [])
