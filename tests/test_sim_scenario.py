from __future__ import annotations

from typing import Any

import pytest

from kcm_lite.api.core import ConfigMap, Node, Pod
from kcm_lite.api.yaml import load_documents
from kcm_lite.sim.actions import ACTIONS
from kcm_lite.sim.check import BadInput
from kcm_lite.sim.faults import KINDS
from kcm_lite.sim.nodes import node_name
from kcm_lite.sim.scenario import is_scenario, parse_scenario, run_scenario
from kcm_lite.sim.simulate import report
from kcm_lite.sim.steps import ActionFailed
from kcm_lite.trace import ApiWrite, Note
from tests.golden.replay import OWN
from tests.sim_support import pod, replica_set, run, scenario

GADGET = {**pod(), "apiVersion": "example.com/v1", "kind": "Gadget"}


def test_defaults() -> None:
    s = scenario()
    assert (s.nodes, s.seed, s.qps, s.burst, s.until) == (3, 0, 1000, 1000, 20)
    assert s.namespace == s.id == "test"
    assert (s.objects, s.actions, s.expect) == ((), (), ())


def test_client_limits_come_from_the_batch_and_the_flags() -> None:
    assert (scenario(batch="qps").qps, scenario(batch="qps").burst) == (20, 30)
    s = scenario(managerFlags=["--kube-api-qps=7.5", "--kube-api-burst=9"])
    assert (s.qps, s.burst) == (7.5, 9)


def test_other_flags_of_the_manager_are_read_and_named() -> None:
    s = scenario(managerFlags=["--node-monitor-period=1s", "--kube-api-burst=7"], batch="nodemon")
    assert (s.qps, s.burst) == (1000, 7)
    assert s.notes == ("flags that change nothing here: --node-monitor-period",)


def test_durations_may_have_units() -> None:
    assert scenario(until="1m30s").until == 90


def test_where_it_was_reported_and_what_it_teaches() -> None:
    s = scenario(reference="kubernetes/kubernetes#1", lesson="Do not.\n")
    assert (s.reference, s.lesson, s.release) == ("kubernetes/kubernetes#1", "Do not.", "1.36")


@pytest.mark.parametrize(("release", "terminating"), [("1.34", None), ("1.35", 0)])
def test_controllers_follow_the_release(release: str, terminating: int | None) -> None:
    result = run(objects=[replica_set(1)], release=release)
    assert result.cluster.object("rs/web").status.terminating_replicas == terminating


def test_every_golden_scenario_can_be_read() -> None:
    for path in sorted((OWN / "scenarios").glob("*.yaml")):
        document = load_documents(path.read_text(), str(path))[0]
        assert is_scenario(document.raw)
        assert parse_scenario(document).id == path.stem


def test_manifests_are_no_scenario() -> None:
    assert not is_scenario(replica_set())
    assert not is_scenario({"kind": "List", "objects": []})
    assert not is_scenario([])


def test_t_zero_is_at_the_second_that_is_asked_for() -> None:
    result = run(startAtSecond=45, objects=[pod()])
    created = result.cluster.object("pod/lone").metadata.creation_timestamp
    assert (created.second, created.microsecond) == (45, 0)


def test_placeholders() -> None:
    owned = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "b",
            "labels": {"ns": "$NS", "at": "on-$NODE2"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "$UID"}
            ],
        },
    }
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    expect = [
        {"object": "ConfigMap/$NS/b", "path": "metadata.labels.at", "equals": "on-$NODE2"},
    ]
    done = run(objects=[owner, owned], expect=expect)
    assert [o.ok for o in done.outcomes] == [True]
    cluster = done.cluster
    b = cluster.object("cm/b")
    assert b.metadata.labels == {"ns": "test", "at": "on-node-2"}
    assert b.metadata.owner_references[0].uid == cluster.object("cm/a").metadata.uid


@pytest.mark.parametrize(("uid", "live"), [("$UID/other", True), ("$UIDs", False), ("x/y", False)])
def test_an_owner_in_another_namespace(uid: str, live: bool) -> None:
    ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": uid}
    where = {"name": "a", "namespace": "other"}
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": where}
    meta = {"name": "b", "ownerReferences": [ref]}
    owned = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
    done = run(objects=[owner, owned], until=0)
    (stored,) = done.cluster.object("cm/b").metadata.owner_references
    there = done.cluster.object("cm/a", namespace="other").metadata.uid
    assert stored.uid == (there if live else uid)


# ---- what is wrong is told


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"until": -3}, "until: got -3, want seconds or a duration such as 90, 90s, 5m"),
        ({"until": "soon"}, 'until: got "soon", want seconds or a duration'),
        ({"id": "My_Test"}, 'id: got "My_Test", want at most 63 of a-z'),
        ({"unitl": 3}, 'unitl: unknown key "unitl" (did you mean "until"?)'),
        ({"release": 1.30}, 'release: got the number 1.3, want "1.20" to "1.36" in quotes'),
        ({"release": "1.19"}, 'release: got "1.19", want one of 1.20, 1.21'),
        ({"release": "1.37"}, "1.35, 1.36"),
        ({"release": True}, "release: got true, want one of 1.20"),
        ({"reference": 3}, "reference: got 3, want a text"),
        ({"lesson": ""}, 'lesson: got "", want a text'),
        ({"nodes": -1}, "nodes: got -1, want a whole number >= 0"),
        ({"startAtSecond": 60}, "startAtSecond: got 60"),
        ({"batch": "slow"}, 'batch: got "slow", want one of default, burst, qps'),
        ({"kubelet": {"gapp": 1}}, 'kubelet.gapp: unknown key "gapp" (did you mean "gap"?)'),
        ({"kubelet": 3}, "kubelet: got 3, want a mapping"),
        ({"objects": {}}, "objects: got {}, want a list"),
        ({"objects": [3]}, "objects[0]: got 3, want a mapping"),
        ({"objects": [{"kind": "Pod"}]}, "objects[0].apiVersion: got null, want a text"),
        (
            {"objects": [{**pod(), "spec": {"containers": 3}}]},
            "objects[0].spec.containers: expected list, got int (3)",
        ),
        ({"managerFlags": ["--kube-api-qsp=3"]}, 'managerFlags[0]: got "--kube-api-qsp=3"'),
        (
            {"managerFlags": ["--kube-api-qsp=3"]},
            "unknown flag: --kube-api-qsp (did you mean --kube-api-qps?)",
        ),
        ({"managerFlags": ["--kube-api-qps=x"]}, 'invalid argument "x" for "--kube-api-qps"'),
        ({"managerFlags": ["--kube-api-burst=0"]}, 'got "--kube-api-burst=0", want a number >= 1'),
        (
            {"expect": [{"at": 21, "pods": {}, "count": 0}, {"pods": {}, "count": 0}]},
            "expect[0].at: is after the end of the run (until",
        ),
        (
            {"expect": [{"always": [30, 40], "pods": {}, "count": 0}]},
            "expect[0].always: is after the end of the run (until",
        ),
        ({"managerFlags": ["--v=2", "9"]}, 'managerFlags[1]: got "9", want --FLAG=VALUE'),
        ({"actions": [{"do": "scale"}]}, "actions[0].at: is missing"),
        ({"actions": [{"at": 1}]}, "actions[0].do: got null, want one of addNode, annotatePod"),
        ({"actions": [{"at": 1, "do": "scal"}]}, '(did you mean "scale"?)'),
        ({"actions": [{"at": -1, "do": "addNode"}]}, "actions[0].at: got -1, want seconds >= 0"),
        (
            {"actions": [{"at": 1, "do": "scale", "kind": "Widget", "name": "w", "replicas": 2}]},
            'actions[0].kind: scale: kind "Widget" is not simulated',
        ),
        (
            {"actions": [{"at": 1, "do": "create", "object": GADGET}]},
            'actions[0].object.kind: create: kind "Gadget" is not simulated',
        ),
        (
            {"actions": [{"at": 1, "do": "scale", "kind": "rs", "name": "w"}]},
            "actions[0].replicas: is missing",
        ),
        (
            {"actions": [{"at": 1, "do": "deletePod", "pick": "eldest"}]},
            'actions[0].pick: got "eldest", want one of oldest, newest, nth',
        ),
        (
            {"actions": [{"at": 1, "do": "deletePod", "pick": "oldest", "kind": "Pod"}]},
            'actions[0].kind: unknown key "kind"',
        ),
        (
            {"actions": [{"at": 1, "do": "relabelPod", "pick": "all", "labels": {"a": 1}}]},
            "actions[0].labels.a: got 1, want a text (quote it)",
        ),
        (
            {
                "actions": [
                    {"at": 1, "do": "delete", "kind": "rs", "name": "w", "propagation": "no"}
                ]
            },
            'propagation: got "no", want one of Background, Foreground, Orphan',
        ),
    ],
)
def test_bad_input_names_place_value_and_what_is_allowed(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        scenario(**raw)
    assert message in str(caught.value)
    assert str(caught.value).startswith("test.yaml: document 1, line 1: ")


def test_all_problems_are_told_at_once_with_their_lines() -> None:
    text = "id: x\nuntil: never\nkubelet:\n  gap: -1\nactions:\n- at: 1\n  do: fly\n"
    with pytest.raises(BadInput) as caught:
        parse_scenario(load_documents(text, "s.yaml")[0])
    heads = [line.split(": got")[0] for line in str(caught.value).splitlines()]
    assert heads == [
        "s.yaml: document 1, line 2: until",
        "s.yaml: document 1, line 4: kubelet.gap",
        "s.yaml: document 1, line 7: actions[0].do",
    ]


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ({"do": "scale", "kind": "rs", "name": "nope", "replicas": 1}, '"nope" not found'),
        ({"do": "deletePod", "pick": "nth", "n": 7}, "no pod is there to pick (nth, n: 7)"),
        ({"do": "deletePod", "pick": "oldest"}, "no pod is there to pick (oldest)"),
        ({"do": "deleteOwned", "kind": "Pod"}, "no Pod has an owner"),
        ({"do": "setNodeReady", "node": 9, "ready": False}, '"node-9" not found'),
        ({"do": "setImage", "kind": "rs", "name": "nope", "image": "a"}, "not found"),
    ],
)
def test_an_action_that_cannot_be_done_ends_the_run(action: dict[str, Any], message: str) -> None:
    with pytest.raises(ActionFailed) as caught:
        run(actions=[{"at": 3, **action}])
    assert f"actions[0] ({action['do']} at 3)" in str(caught.value)
    assert message in str(caught.value)


# ---- actions


def test_actions_happen_at_their_time_in_order_and_not_after_the_end() -> None:
    actions: list[dict[str, Any]] = [
        {"at": at, "do": "scale", "kind": "ReplicaSet", "name": "web", "replicas": n}
        for at, n in ((9, 5), (3.5, 1), (9, 2), (21, 7))
    ]
    result = run(objects=[replica_set(3)], actions=actions)
    scaled = [
        (w.t, w.new.spec.replicas)  # type: ignore[union-attr]
        for w in result.cluster.trace.of(ApiWrite, agent="user", verb="patch")
    ]
    assert scaled == [(3.5, 1), (9, 5), (9, 2)]
    assert "1 action comes too late: scale at 21" in report(result)
    assert "too late" not in " ".join(report(run(objects=[replica_set(3)], actions=actions[:2])))


def test_create_apply_patch_image_and_delete() -> None:
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c"},
        "data": {"a": "1"},
    }
    cluster = run(
        objects=[replica_set(1)],
        actions=[
            {"at": 1, "do": "create", "object": config},
            {"at": 2, "do": "apply", "object": {**config, "data": {"a": "2"}}},
            {"at": 3, "do": "setImage", "kind": "rs", "name": "web", "image": "app:2"},
            {
                "at": 5,
                "do": "patch",
                "kind": "rs",
                "name": "web",
                "patch": {"spec": {"replicas": 2}},
            },
            {"at": 9, "do": "apply", "object": {**config, "metadata": {"name": "d"}}},
            {"at": 10, "do": "delete", "kind": "cm", "name": "c"},
        ],
    ).cluster
    assert [c.metadata.name for c in cluster.objects(ConfigMap)] == ["d"]
    template = cluster.object("rs/web").spec.template
    assert template.spec.containers[0].image == "app:2"
    images = sorted(p.spec.containers[0].image for p in cluster.objects(Pod))
    assert images == ["app:1", "app:2"]


def test_owned_objects() -> None:
    cluster = run(
        objects=[replica_set(2)],
        actions=[{"at": 5, "do": "deleteOwned", "kind": "Pod", "gracePeriodSeconds": 0}],
        until=5,
    ).cluster
    gone = list(cluster.trace.of(ApiWrite, verb="delete", resource="pods"))
    assert len(gone) == 1


def test_pods_are_picked() -> None:
    cluster = run(
        objects=[replica_set(4), pod("lone", labels={"app": "lone"})],
        kubelet={"overrides": [{"match": {"index": 3}, "neverReady": True}]},
        actions=[
            {"at": 5, "do": "annotatePod", "pick": pick, "annotations": {f"x/{pick}": "1"}, **more}
            for pick, more in (
                ("oldest", {}),
                ("newest", {}),
                ("nth", {"n": 2}),
                ("ready", {}),
                ("notReady", {}),
                ("all", {"selector": {"app": "lone"}}),
            )
        ],
    ).cluster
    seen = {s.index: sorted(s.pod.metadata.annotations) for s in cluster.kubelets.pods.values()}
    assert seen == {
        1: ["x/all", "x/oldest", "x/ready"],  # the bare pod came first
        2: ["x/nth"],
        3: ["x/notReady"],
        4: [],
        5: ["x/newest"],
    }


def test_pods_are_relabelled_deleted_evicted_and_set() -> None:
    cluster = run(
        objects=[pod(f"p{i}") for i in range(1, 7)],
        kubelet={"terminationGrace": 3},
        actions=[
            {"at": 5, "do": "relabelPod", "pick": "nth", "n": 1, "labels": {"a": "b"}},
            {"at": 6, "do": "relabelPod", "pick": "nth", "n": 1, "labels": {"a": None, "c": "d"}},
            {"at": 5, "do": "deletePod", "pick": "nth", "n": 2},
            {"at": 5, "do": "evictPod", "pick": "nth", "n": 3},
            {"at": 5, "do": "setPodPhase", "pick": "nth", "n": 4, "phase": "Failed", "reason": "X"},
            {"at": 5, "do": "setPodReady", "pick": "nth", "n": 5, "ready": False},
            {"at": 5, "do": "setPodPhase", "pick": "nth", "n": 6, "phase": "Succeeded"},
        ],
        until=7,
    ).cluster
    pods = {p.metadata.name: p for p in cluster.objects(Pod)}
    assert pods["p1"].metadata.labels == {"c": "d"}
    assert pods["p2"].metadata.deletion_timestamp and pods["p3"].metadata.deletion_timestamp
    assert "DisruptionTarget" in [c.type for c in pods["p3"].status.conditions]
    assert (pods["p4"].status.phase, pods["p4"].status.reason) == ("Failed", "X")
    assert [row["READY"] for row in cluster.get("pods")][4] == "0/1"
    assert pods["p6"].status.phase == "Succeeded"


def test_nodes_come_go_and_change() -> None:
    cluster = run(
        nodes=2,
        actions=[
            {"at": 1, "do": "addNode", "labels": {"disk": "ssd"}},
            {"at": 2, "do": "removeNode", "node": 1},
            {"at": 3, "do": "labelNode", "node": 2, "labels": {"disk": "hdd", "ordinal": None}},
            {"at": 4, "do": "cordonNode", "node": 2},
            {
                "at": 5,
                "do": "taintNode",
                "node": 3,
                "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
            },
            {"at": 6, "do": "setNodeReady", "node": 3, "ready": False},
        ],
    ).cluster
    nodes = {n.metadata.name: n for n in cluster.objects(Node)}
    assert list(nodes) == ["node-2", "node-3"]
    assert nodes["node-2"].metadata.labels["disk"] == "hdd"
    assert "ordinal" not in nodes["node-2"].metadata.labels
    assert nodes["node-2"].spec.unschedulable
    assert nodes["node-3"].metadata.labels["disk"] == "ssd"
    assert [(t.key, t.value) for t in nodes["node-3"].spec.taints] == [("k", "v")]
    assert [row["STATUS"] for row in cluster.get("no")] == ["Ready,SchedulingDisabled", "NotReady"]


def test_taints_come_off_and_the_node_comes_back() -> None:
    taint = {"key": "k", "effect": "NoSchedule"}
    cluster = run(
        nodes=1,
        objects=[pod()],
        actions=[
            {"at": 0, "do": "taintNode", "node": 1, "taints": [taint]},
            {"at": 4, "do": "taintNode", "node": 1, "taints": [taint], "remove": True},
            {"at": 6, "do": "setNodeReady", "node": 1, "ready": False, "stopHeartbeat": True},
            {"at": 8, "do": "setNodeReady", "node": 1, "ready": True},
        ],
        kubelet={"scheduleAfter": 1, "readyAfter": 5},
    ).cluster
    bound = next(cluster.trace.of(ApiWrite, subresource="binding"))
    assert bound.t == pytest.approx(4, abs=1.1)
    assert not cluster.machines.by_name[node_name(1)].frozen
    assert "falls silent" in next(cluster.trace.of(Note, source="scenario")).text


def test_a_namespace_named_null_is_the_scenarios_own() -> None:
    result = run(actions=[{"at": 2, "do": "delete", "kind": "Namespace", "name": None}], until=3)
    assert result.cluster.object("ns/test").status.phase == "Terminating"


def test_every_action_of_the_format_is_there() -> None:
    words = (
        "create apply patch scale setImage restart delete deleteOwned scaleOwned "
        "deletePod evictPod relabelPod annotatePod setPodPhase setPodReady "
        "setNodeReady addNode removeNode taintNode labelNode cordonNode "
        "pause resume undo status history restartManager"
    )
    assert {*words.split(), *KINDS} == set(ACTIONS)


def test_progress_changes_nothing() -> None:
    seen: list[float] = []
    plain = run(objects=[replica_set(3)])
    told = run_scenario(scenario(objects=[replica_set(3)]), progress=seen.append)
    assert seen == sorted(seen) and len(seen) > 10
    assert repr(plain.cluster.trace.records) == repr(told.cluster.trace.records)


@pytest.mark.parametrize("kind", ["ConfigMap", "Namespace"])
def test_only_what_has_containers_gets_an_image(kind: str) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "test"}}
    step = {"at": 1, "do": "setImage", "kind": kind, "name": "test", "image": "a:2"}
    with pytest.raises(ActionFailed, match=f"does not have a pod template: {kind}"):
        run(objects=[config], actions=[step])
