from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kcm_lite.api.apps import ReplicaSet
from kcm_lite.api.core import ConfigMap, Namespace, Pod
from kcm_lite.api.errors import Invalid, NotFound
from kcm_lite.api.meta import ObjectMeta
from kcm_lite.api.yaml import ManifestError, dump
from kcm_lite.sim.check import BadInput
from kcm_lite.sim.cluster import Cluster
from kcm_lite.trace import ApiWrite, Decision, QueueOp
from tests.sim_support import pod, replica_set


def test_three_lines_are_enough() -> None:
    cluster = Cluster(nodes=3)
    cluster.apply(dump(replica_set()))
    cluster.run_for(30)
    table = cluster.get("pods")
    assert [row["STATUS"] for row in table] == ["Running"] * 3
    assert [row["READY"] for row in table] == ["1/1"] * 3
    assert str(cluster.timeline()).splitlines()[-1].startswith("00:02.0  ReplicaSet/web: status")
    assert len(cluster.timeline(start=5)) == 0


def test_a_cluster_begins_at_zero_with_everything_in_place() -> None:
    cluster = Cluster(nodes=2)
    assert cluster.now == 0
    assert [row["NAME"] for row in cluster.get("nodes")] == ["node-1", "node-2"]
    assert {row["NAME"] for row in cluster.get("ns")} >= {"default", "kube-system"}
    assert cluster.clock.now().microsecond == 200_000
    assert len(cluster.get("pods")) == 0
    assert str(cluster.get("pods")) == "No resources found."
    before = len(cluster.trace.records)
    cluster.run_for(50)
    assert len([r for r in cluster.trace.records[before:] if isinstance(r, ApiWrite)]) == 0


def test_latency_begins_only_when_the_cluster_is_up() -> None:
    cluster = Cluster()
    cluster.apply(replica_set(1))
    cluster.run_for(1)
    create = next(cluster.trace.of(ApiWrite, agent="replicaset-controller"))
    assert create.t == pytest.approx(0.007)  # watch 2 ms, half a call 5 ms


def test_scale_delete_and_patch_go_by_kind_and_name() -> None:
    cluster = Cluster()
    cluster.apply(replica_set(2))
    cluster.run_for(5)
    cluster.scale("rs/web", 4)
    cluster.run_for(5)
    assert cluster.object("replicaset/web").status.ready_replicas == 4
    cluster.patch("ReplicaSet/web", {"spec": {"replicas": 1}})
    cluster.run_for(5)
    assert len(cluster.objects(Pod)) == 1
    cluster.delete("replicasets/web")
    cluster.run_for(5)
    assert cluster.objects(Pod) == () and cluster.objects(ReplicaSet) == ()
    with pytest.raises(NotFound):
        cluster.object("rs/web")


def test_a_set_deleted_as_an_orphan_leaves_its_pods() -> None:
    cluster = Cluster()
    cluster.apply(replica_set(2))
    cluster.run_for(5)
    cluster.delete("rs/web", propagation="Orphan")
    cluster.run_for(5)
    assert [p.metadata.owner_references for p in cluster.objects(Pod)] == [(), ()]


@pytest.mark.parametrize("ref", ["web", "rs/", "/web"])
def test_a_reference_must_be_kind_and_name(ref: str) -> None:
    with pytest.raises(ValueError, match=r"kind/name|not simulated"):
        Cluster().object(ref)


def test_a_kind_that_is_not_simulated_is_named() -> None:
    with pytest.raises(
        ValueError, match=r'kind "replicatset" is not simulated \(did you mean "Repl'
    ):
        Cluster().get("replicatset")


# ---- apply


def test_apply_takes_text_mappings_objects_and_lists() -> None:
    cluster = Cluster()
    typed = ConfigMap(metadata=ObjectMeta(name="typed"), data={"k": "v"})
    cluster.apply([typed, replica_set(1)])
    cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plain"}})
    cluster.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: text}\n---\n")
    assert [c.metadata.name for c in cluster.objects(ConfigMap)] == ["plain", "text", "typed"]


def test_apply_again_changes_and_takes_away() -> None:
    cluster = Cluster()
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    cluster.apply({**config, "data": {"a": "1", "b": "2"}})
    cluster.patch("cm/c", {"metadata": {"labels": {"by": "hand"}}})
    cluster.apply({**config, "data": {"b": "3"}})
    stored = cluster.object("cm/c")
    assert stored.data == {"b": "3"}
    assert stored.metadata.labels == {"by": "hand"}  # not ours, so it stays


def test_apply_scales_like_a_changed_manifest() -> None:
    cluster = Cluster()
    cluster.apply(replica_set(1))
    cluster.run_for(5)
    cluster.apply(replica_set(3))
    cluster.run_for(5)
    assert cluster.object("rs/web").status.ready_replicas == 3


def test_namespaces_come_by_themselves() -> None:
    cluster = Cluster()
    cluster.apply(pod(namespace="shop"))
    assert cluster.server.get(Namespace, "", "shop").status.phase == "Active"
    assert len(cluster.get("pods")) == 0
    assert len(cluster.get("pods", namespace="shop")) == 1
    assert len(cluster.get("pods", namespace="")) == 1


def test_what_is_not_simulated_is_kept_aside() -> None:
    cluster = Cluster()
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {}}
    assert cluster.apply([service, replica_set(1)])[0].metadata.name == "web"
    assert [str(i) for i in cluster.inert] == ["Service/web"]
    assert cluster.inert[0].raw == service


def test_apply_does_nothing_if_one_manifest_is_wrong() -> None:
    cluster = Cluster()
    wrong = replica_set(1, name="b")
    wrong["spec"]["replicas"] = "three"
    with pytest.raises(BadInput) as caught:
        cluster.apply([replica_set(1, name="a"), wrong])
    assert '[1].spec.replicas: expected int, got str ("three")' in str(caught.value)
    assert cluster.objects(ReplicaSet) == ()
    with pytest.raises(BadInput, match="unknown field"):
        cluster.apply(replica_set(1, selectr={}))
    with pytest.raises(BadInput, match=r"metadata\.name: is missing"):
        cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {}})
    with pytest.raises(BadInput, match="kind: got null, want a text"):
        cluster.apply({"apiVersion": "v1", "metadata": {"name": "x"}})
    with pytest.raises(ManifestError):
        cluster.apply("a: [")
    wrong["spec"]["replicas"] = -1
    with pytest.raises(
        BadInput, match=r"file: document 2, line \d+: spec\.replicas: Invalid value"
    ):
        cluster.apply(f"{dump(pod())}---\n{dump(wrong)}")
    assert cluster.objects(Pod) == ()


def test_what_the_server_would_refuse_is_told_before_anything_is_done() -> None:
    cluster = Cluster()
    bad = replica_set(1)
    bad["spec"]["selector"] = {"matchLabels": {"app": "other"}}
    with pytest.raises(BadInput) as caught:
        cluster.apply([replica_set(1, name="good"), bad])
    assert "[1].spec.template.metadata.labels: Invalid value: " in str(caught.value)
    assert cluster.objects(ReplicaSet) == ()
    typed = ReplicaSet(metadata=ObjectMeta(name="typed"))
    with pytest.raises(Invalid):
        cluster.apply(typed)


# ---- options


def test_unknown_controllers_are_refused() -> None:
    with pytest.raises(BadInput, match=r'controllers\[0\]: got "replicasets", want one of'):
        Cluster(controllers=["replicasets"])


def test_without_its_controller_a_set_gets_no_pods() -> None:
    cluster = Cluster(controllers=["garbage-collector"])
    cluster.apply(replica_set(3))
    cluster.run_for(30)
    assert cluster.objects(Pod) == ()


def test_a_profile_decides_what_pods_do() -> None:
    cluster = Cluster(profile={"neverReady": True})
    cluster.apply(replica_set(2))
    cluster.run_for(60)
    assert cluster.object("rs/web").status.ready_replicas == 0
    with pytest.raises(BadInput, match=r"profile\.readyAftr"):
        Cluster(profile={"readyAftr": 1})


def test_client_limits_are_upstreams_unless_told_otherwise() -> None:
    """100 creates took 3.8 s in a real control plane with the default limits."""
    slow, fast = Cluster(), Cluster(qps=0)
    for cluster in (slow, fast):
        cluster.apply(replica_set(100))
        cluster.run_for(10)
    last = [
        max(w.t for w in c.trace.of(ApiWrite, verb="create", resource="pods")) for c in (slow, fast)
    ]
    assert last[0] == pytest.approx(3.8, abs=0.1)
    assert last[1] < 0.2


def test_without_detail_only_writes_are_recorded() -> None:
    cluster = Cluster(detail=False)
    cluster.apply(replica_set(3))
    cluster.run_for(10)
    assert not list(cluster.trace.of(QueueOp)) and not list(cluster.trace.of(Decision))
    assert len(list(cluster.trace.of(ApiWrite, resource="pods"))) == 12


def test_settle_stops_when_nothing_is_left_to_happen() -> None:
    cluster = Cluster()
    cluster.apply(replica_set(3))
    assert cluster.settle(until=1000) < 3
    assert cluster.object("rs/web").status.ready_replicas == 3


def test_a_quota_follows_what_is_there() -> None:
    cluster = Cluster()
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q"},
        "spec": {"hard": {"pods": "3"}},
    }
    cluster.apply(quota)
    cluster.run_for(1)
    cluster.apply([replica_set(5), pod("extra", namespace="other")])
    cluster.run_for(5)
    assert cluster.object("quota/q").status.used == {"pods": "3"}
    assert len(cluster.objects(Pod)) == 3
    cluster.patch("quota/q", {"spec": {"hard": {"pods": "4"}}})
    cluster.run_for(1)
    assert cluster.object("quota/q").status.hard == {"pods": "4"}
    cluster.scale("rs/web", 1)
    cluster.run_for(5)
    assert cluster.object("quota/q").status.used == {"pods": "1"}
    cluster.delete("quota/q")
    cluster.scale("rs/web", 6)
    cluster.run_for(5)
    assert len(cluster.objects(Pod)) == 6


def test_a_typed_object_works_as_well_as_yaml() -> None:
    cluster = Cluster()
    made = cluster.create(ConfigMap(metadata=ObjectMeta(name="c"), data={"k": "v"}))
    assert made.metadata.namespace == "default"


# ---- determinism

TELL = """
import hashlib, sys
from kcm_lite.sim.cluster import Cluster
from tests.sim_support import replica_set
cluster = Cluster(seed=int(sys.argv[1]))
cluster.apply([replica_set(8), replica_set(5, name="api")])
cluster.run_for(4)
cluster.scale("rs/web", 3)
cluster.delete("rs/api", propagation="Foreground")
cluster.run_for(20)
print(hashlib.sha256(repr(cluster.trace.records).encode()).hexdigest())
"""


def digest(seed: int, hash_seed: str) -> str:
    out = subprocess.run(
        [sys.executable, "-c", TELL, str(seed)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return out.stdout


def test_the_same_seed_gives_the_same_trace_whatever_the_hash_seed() -> None:
    first = digest(1, "0")
    assert digest(1, "12345") == first
    assert digest(2, "0") != first
