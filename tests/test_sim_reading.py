"""What a run tells people: timeline, tables, explanations."""

from __future__ import annotations

import re

import pytest

from kcm_lite.api.core import Pod
from kcm_lite.sim.cluster import Cluster
from kcm_lite.sim.durations import age, parse_duration, stamp
from kcm_lite.sim.timeline import Line, around, timeline
from kcm_lite.trace import Decision
from tests.sim_support import deployment, pod, replica_set, run


def lines(cluster: Cluster) -> list[str]:
    return [str(line) for line in timeline(cluster.trace)]


def test_bursts_share_a_line() -> None:
    assert lines(run(objects=[replica_set(3)]).cluster) == [
        "00:00.0  ReplicaSet/web: created by user, wants 3",
        "00:00.0  ReplicaSet/web: 3 pods created by replicaset-controller",
        "00:00.0  ReplicaSet/web: 3 pods scheduled",
        "00:00.0  ReplicaSet/web: status: replicas 3, ready 0, available 0",
        "00:01.0  ReplicaSet/web: 3 pods Running",
        "00:02.0  ReplicaSet/web: 3 pods ready",
        "00:02.0  ReplicaSet/web: status: replicas 3, ready 3, available 3",
    ]


def test_what_is_apart_stays_apart() -> None:
    told = lines(run(objects=[replica_set(3)], kubelet={"gap": 1}).cluster)
    assert [line for line in told if line.endswith("1 pod ready")] == [
        "00:02.5  ReplicaSet/web: 1 pod ready",
        "00:03.5  ReplicaSet/web: 1 pod ready",
        "00:04.5  ReplicaSet/web: 1 pod ready",
    ]


def test_a_long_burst_says_until_when() -> None:
    told = lines(run(objects=[replica_set(4)], kubelet={"gap": 0.2}).cluster)
    assert "00:02.5  ReplicaSet/web: 4 pods ready (until 00:03.1)" in told


def test_the_life_of_a_bare_pod() -> None:
    delete = {"at": 5, "do": "deletePod", "pick": "oldest"}
    told = lines(run(objects=[pod()], actions=[delete]).cluster)
    assert told == [
        "00:00.0  Pod/lone: created by user",
        "00:00.0  Pod/lone: scheduled",
        "00:01.0  Pod/lone: Running",
        "00:02.0  Pod/lone: ready",
        "00:05.0  Pod/lone: being deleted (user)",
        "00:06.0  Pod/lone: Failed",
        "00:06.0  Pod/lone: gone",
    ]


def test_what_people_and_the_server_do_is_told() -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q"},
        "spec": {"hard": {"pods": "1"}},
    }
    told = "\n".join(
        lines(
            run(
                objects=[quota, pod(labels={"app": "web"}), replica_set(2)],
                actions=[
                    {"at": 4, "do": "scale", "kind": "rs", "name": "web", "replicas": 1},
                    {"at": 6, "do": "relabelPod", "pick": "oldest", "labels": {"app": "x"}},
                    {"at": 8, "do": "setNodeReady", "node": 1, "ready": False},
                    {
                        "at": 9,
                        "do": "delete",
                        "kind": "rs",
                        "name": "web",
                        "propagation": "Foreground",
                    },
                ],
            ).cluster
        )
    )
    for text in (
        "ReplicaSet/web: adopts Pod/lone",
        'replicaset-controller: create pods refused, 403: pods "web-..." is forbidden: exceeded',
        "ReplicaSet/web: condition ReplicaFailure is True (FailedCreate)",
        "00:04.0  ReplicaSet/web: user sets spec.replicas 2 -> 1",
        "00:06.0  Pod/lone: user sets metadata.labels.app web -> x",
        "ReplicaSet/web: releases Pod/lone",
        "00:08.0  Node/node-1: no longer ready",
        "00:09.0  ReplicaSet/web: deletion requested by user, waits for foregroundDeletion",
        "ReplicaSet/web: gone (generic-garbage-collector)",
    ):
        assert text in told, text
    assert "kube-apiserver" not in told and "Node/node-2" not in told


def test_restarts_and_readiness_are_told() -> None:
    told = lines(
        run(
            objects=[{**pod(), "spec": {**pod()["spec"], "restartPolicy": "OnFailure"}}],
            kubelet={"exit": {"after": 3, "code": 1}, "restarts": 1},
            actions=[{"at": 2.5, "do": "setPodReady", "pick": "oldest", "ready": False}],
        ).cluster
    )
    assert "00:02.5  Pod/lone: no longer ready" in told
    assert "00:04.0  Pod/lone: restarted" in told
    assert told[-1] == "00:07.0  Pod/lone: Succeeded"


def test_around_a_moment() -> None:
    every = [Line(float(t), float(t), "x", str(t)) for t in range(10)]
    assert [line.what for line in around(every, 5.5, before=2, after=1)] == ["4", "5", "6"]
    assert [line.what for line in around(every, -1, before=2, after=1)] == ["0"]
    assert around([], 3) == []


# ---- tables


def test_the_pods_table_is_kubectls() -> None:
    cluster = run(
        objects=[pod("a"), pod("b"), pod("c"), pod("d"), pod("e")],
        kubelet={
            "overrides": [
                {"match": {"index": 1}, "neverReady": True},
                {"match": {"index": 2}, "exit": {"after": 2}},
                {"match": {"index": 3}, "exit": {"after": 2, "code": 1}},
                {"match": {"index": 4}, "terminationGrace": 100},
                {"match": {"index": 5}, "neverSchedule": True},
            ]
        },
        actions=[{"at": 10, "do": "deletePod", "pick": "nth", "n": 4}],
        until=130,
    ).cluster
    cluster.kubelets.set_phase(
        next(iter(cluster.kubelets.pods.values())), "Failed", reason="Evicted"
    )
    text = str(cluster.get("po", wide=True))
    assert text.splitlines() == [
        "NAME   READY   STATUS      RESTARTS   AGE     IP         NODE",
        "a      0/1     Evicted     0          2m10s   10.1.0.2   node-1",
        "b      0/1     Completed   0          2m10s   10.1.0.3   node-2",
        "c      0/1     Error       0          2m10s   10.1.0.4   node-3",
        "e      0/1     Pending     0          2m10s   <none>     <none>",
    ]


def test_tables_of_other_kinds() -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q"},
        "spec": {"hard": {"pods": 9}},
    }
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c"},
        "data": {"k": "v"},
    }
    cluster = run(objects=[quota, config, replica_set(2)], until=65).cluster
    assert str(cluster.get("rs")).splitlines() == [
        "NAME   DESIRED   CURRENT   READY   AGE",
        "web    2         2         2       65s",
    ]
    assert [row["REQUEST"] for row in cluster.get("quota")] == ["pods: 2/9"]
    assert [row["DATA"] for row in cluster.get("cm")] == ["1"]
    assert [row["STATUS"] for row in cluster.get("nodes")] == ["Ready"] * 3
    messages = [row["MESSAGE"] for row in cluster.get("events")]
    assert all(m.startswith("Created pod: web-") for m in messages) and len(messages) == 2
    assert len(cluster.get("events")) == 2


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("1.5", 1.5),
        ("5m", 300),
        ("1h30m", 5400),
        ("1h2m3s", 3723),
        ("0", 0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "5x", "-3", "1m1h", "5 m", "nan", "1e3", "٣"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="want seconds or a duration such as 90, 90s, 5m, 1h30m"):
        parse_duration(text)


def test_stamps_and_ages() -> None:
    assert [stamp(t) for t in (0, 2.04, 59.96, 754.3, 3723.4)] == [
        "00:00.0",
        "00:02.0",
        "01:00.0",
        "12:34.3",
        "1:02:03.4",
    ]
    ages = [age(s) for s in (5, 119, 120, 130, 600, 7200, 11100, 100000, 200000)]
    assert ages == ["5s", "119s", "2m", "2m10s", "10m", "120m", "3h5m", "27h", "2d"]


# ---- explanations


def test_why_a_pod_was_the_victim() -> None:
    cluster = run(
        objects=[replica_set(3)],
        kubelet={"overrides": [{"match": {"index": 2}, "neverReady": True}]},
        actions=[{"at": 8, "do": "scale", "kind": "rs", "name": "web", "replicas": 2}],
    ).cluster
    victim = next(cluster.trace.of(Decision, what="victim")).subject.split("/")[1]
    told = str(cluster.explain(f"pod/{victim}"))
    assert told.startswith(f"Pod/{victim}\n")
    assert "created by replicaset-controller for ReplicaSet/web, in a batch of" in told
    assert "put on node-2 by the scheduler" in told
    assert re.search(r"00:08\.0  chosen as a victim for web: .*not ready", told), told
    assert "being deleted (replicaset-controller)" in told
    survivor = cluster.objects(Pod)[0].metadata.name
    assert "victim" not in str(cluster.explain(f"pod/{survivor}"))


def test_why_a_key_came_back_and_what_limited_a_batch() -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q"},
        "spec": {"hard": {"pods": "2"}},
    }
    cluster = run(
        objects=[quota],
        actions=[{"at": 2, "do": "create", "object": replica_set(4)}],
        kubelet={"neverSchedule": True},
    ).cluster
    told = str(cluster.explain("rs/web"))
    for text in (
        "sync by worker",
        "woken by 1 x ADDED replicasets",
        "batch: 1 of 4 at once",
        "1 failed",
        "sync failed: pods",
        "comes again in 0.005 s, because it failed",
        "comes again in 0.01 s, because it failed",
        "woken by the retry",
        "condition ReplicaFailure is True (FailedCreate)",
    ):
        assert text in told, text


def test_why_a_set_looks_again_later() -> None:
    told = str(run(objects=[replica_set(1, minReadySeconds=5)]).cluster.explain("rs/web"))
    assert "requeue: the next pod is available in" in told
    assert "a check planned" in told


def test_an_adopted_pod_and_a_collected_one() -> None:
    cluster = run(
        objects=[pod(labels={"app": "web"}), replica_set(1)],
        actions=[{"at": 5, "do": "delete", "kind": "rs", "name": "web"}],
    ).cluster
    told = str(cluster.explain("pod/lone"))
    assert "adopt (replicaset-controller): matches the selector app=web" in told
    assert "collect (generic-garbage-collector): no owner is left" in told


def test_nothing_is_known_of_nothing() -> None:
    assert str(Cluster().explain("pod/x")) == "Pod/x: the trace says nothing about it"


def test_what_is_wanted_is_told_before_annotations() -> None:
    scale = {"at": 5, "do": "scale", "kind": "deploy", "name": "web", "replicas": 4}
    told = lines(run(objects=[deployment(2)], actions=[scale]).cluster)
    sets = [line for line in told if "deployment-controller sets" in line]
    assert sets and all("controller sets spec.replicas 2 -> 4, metadata.annot" in s for s in sets)
