"""Every kind of decision: a run that makes it, and the facts in the sentence about it."""

from __future__ import annotations

import ast
import dataclasses
import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kcm_lite.api.apps import ReplicaSet
from kcm_lite.api.batch import Job
from kcm_lite.api.coordination import Lease, LeaseSpec
from kcm_lite.api.core import ConfigMap, Pod
from kcm_lite.api.meta import DeleteOptions, ObjectMeta, OwnerReference, replace
from kcm_lite.apiserver.transport import Latency
from kcm_lite.client.leaderelection import (
    LeaderCallbacks,
    LeaderElectionConfig,
    new_leader_elector,
)
from kcm_lite.client.leaderelection import run as elect
from kcm_lite.client.resourcelock import LeaseLock
from kcm_lite.controllers.context import TODAY, Gates
from kcm_lite.sim import explain
from kcm_lite.sim.cluster import Cluster
from kcm_lite.sim.scenario import run_scenario
from kcm_lite.trace import ApiWrite, Decision
from tests.sim_support import deployment, job, pod, replica_set, run, scenario

KCM = Path(explain.__file__).parents[1]


def action(at: float, do: str, kind: str, name: str, **rest: Any) -> dict[str, Any]:
    return {"at": at, "do": do, "kind": kind, "name": name, **rest}


def image(at: float, to: str = "app:2") -> dict[str, Any]:
    return action(at, "setImage", "Deployment", "web", container="c", image=to)


def relabel(at: float, kind: str, name: str) -> dict[str, Any]:
    return action(at, "patch", kind, name, patch={"metadata": {"labels": {"app": "other"}}})


def play(*objects: Any, **raw: Any) -> Cluster:
    return run(objects=list(objects), **raw).cluster


def told(cluster: Cluster, ref: str, what: str, whom: str = "") -> list[str]:
    """Return the reasons of one kind of decision about an object, as `explain` gives them."""
    head = f"{what} {whom}".rstrip()
    texts = [text for _, text in cluster.explain(ref).reasons]
    return [t.partition(": ")[2] for t in texts if re.match(re.escape(head) + r"( \S+)?: ", t)]


def numbers(text: str) -> list[float]:
    return [float(n) for n in re.findall(r"(?<![\w.])\d+(?:\.\d+)?", text)]


def names(cluster: Cluster, agent: str, verb: str, resource: str = "pods") -> list[str]:
    writes = cluster.trace.of(ApiWrite, agent=agent, verb=verb, resource=resource)
    return [w.name if w.new is None else w.new.metadata.name for w in writes if w.code < 300]


# ---- the table


def table() -> dict[str, tuple[str, ...]]:
    """Return who takes each kind of decision, as the module's table says."""
    lines = (explain.__doc__ or "").splitlines()
    rules = [i for i, line in enumerate(lines) if line.startswith("===")]
    widths = [len(rule) for rule in lines[rules[0]].split()]
    rows = lines[rules[1] + 1 : rules[2]]
    first, second = widths[0], widths[0] + 1 + widths[1]
    return {r[:first].strip(): tuple(r[first:second].strip().split(", ")) for r in rows}


def recorded() -> dict[str, set[str]]:
    """Return the kinds of decisions that the package's source records, by file."""
    found: dict[str, set[str]] = {}
    for path in [*KCM.glob("controllers/*.py"), KCM / "sim/kubelet.py"]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                place = {"decide": slice(2, 4), "Decision": slice(3, 4)}.get(node.func.id)
                words = node.args[place] if place else []
                texts = [w.value for w in words if isinstance(w, ast.Constant)]
                found.setdefault(path.stem, set()).update(t for t in texts if isinstance(t, str))
    return found


def test_every_kind_of_decision_is_in_the_table_and_nothing_else() -> None:
    computed = {"adopt", "release", "suspended", "resumed"}  # chosen by an expression
    assert set().union(*recorded().values()) | computed == set(table())


# ---- ReplicaSet


def test_victims_and_all() -> None:
    cluster = play(
        replica_set(3),
        kubelet={"overrides": [{"match": {"index": 1}, "neverReady": True}]},
        actions=[
            action(6, "scale", "rs", "web", replicas=2),
            action(12, "scale", "rs", "web", replicas=0),
        ],
    )
    first, *others = names(cluster, "replicaset-controller", "delete")
    (why,) = told(cluster, "rs/web", "victim", f"Pod/{first}")
    assert why.startswith("is not ready; ") and why.split("; ")[1].removesuffix(" is") in others
    assert told(cluster, "rs/web", "all go") == [
        f"all {len(others)} pods go: the order does not matter"
    ]


def test_batches_bursts_and_waits() -> None:
    cluster = play(replica_set(9))
    batches = [numbers(t) for t in told(cluster, "rs/web", "batch")]
    assert batches == [[1, 9], [2, 9], [4, 9], [2, 9]]
    crowd = play(replica_set(600))
    assert [numbers(t) for t in told(crowd, "rs/web", "burst")] == [[600, 500]]


@pytest.mark.parametrize("manifest", [replica_set(9), job(completions=9, parallelism=9)])
def test_what_is_not_yet_seen_is_waited_for(manifest: dict[str, Any]) -> None:
    """Without today's guard, and with a watch that is slower than a call."""
    unguarded = Gates(
        replica_set=dataclasses.replace(TODAY.replica_set, stale_controller_consistency=False),
        job=dataclasses.replace(TODAY.job, stale_controller_consistency=False),
    )
    cluster = Cluster(gates=unguarded, latency=Latency(0.01, 3.0), qps=0)
    cluster.apply(manifest)
    cluster.run_for(0.1)
    ref = f"{manifest['kind']}/{manifest['metadata']['name']}"
    cluster.patch(ref, {"metadata": {"annotations": {"look": "again"}}})
    cluster.run_for(20)
    waits = [numbers(t) for t in told(cluster, ref, "wait") if t.startswith("still to be seen")]
    assert waits and all(0 < adds <= 9 and dels == 0 for adds, dels in waits)


def test_adopted_and_released() -> None:
    cluster = play(
        pod(labels={"app": "web"}),
        replica_set(2),
        actions=[relabel(5, "Pod", "lone")],
    )
    assert told(cluster, "rs/web", "adopt", "Pod/lone") == ["matches the selector app=web"]
    assert told(cluster, "rs/web", "release", "Pod/lone") == [
        "no longer matches the selector app=web"
    ]
    assert "release (replicaset-controller): no longer" in str(cluster.explain("pod/lone"))


def test_when_a_set_looks_again() -> None:
    cluster = play(replica_set(1, minReadySeconds=5))
    delays = [numbers(t)[0] for t in told(cluster, "rs/web", "requeue")]
    assert delays and all(0 < d <= 5 for d in delays)
    for t, text in cluster.explain("rs/web").reasons:
        for planned in re.findall(r"a check planned (\S+) s before", text):
            assert t >= float(planned), "what is planned for later wakes nobody now"


def test_a_sync_that_fails_or_is_held_back() -> None:
    quota = {"kind": "ResourceQuota", "apiVersion": "v1", "metadata": {"name": "q"}}
    cluster = play(
        {**quota, "spec": {"hard": {"pods": "2"}}},
        actions=[{"at": 2, "do": "create", "object": replica_set(4)}],
    )
    text = str(cluster.explain("rs/web"))
    assert "comes again in 0.005 s, because it failed" in text
    assert "FailedCreate: Error creating" in text
    assert "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2" in text
    lagging = Cluster(latency=Latency(watch=0.5))
    lagging.apply(replica_set(2))
    lagging.run_for(2)
    lagging.apply(replica_set(3))
    lagging.run_for(5)
    held = re.search(
        r"held back: (\S+) are read up to version (\d+), and it wrote version (\d+)",
        str(lagging.explain("rs/web")),
    )
    assert held is not None and int(held[2]) < int(held[3])


def test_two_objects_of_one_name_are_told_apart() -> None:
    cluster = play(deployment(1), replica_set(2, selector=LONE, template=TEMPLATE))
    assert told(cluster, "rs/web", "create") == []
    assert told(cluster, "deploy/web", "batch") == []


LONE = {"matchLabels": {"app": "lone"}}
TEMPLATE = {
    "metadata": {"labels": {"app": "lone"}},
    "spec": {"containers": [{"name": "c", "image": "app:1"}]},
}


# ---- Deployment


def test_which_limit_scales_and_which_holds() -> None:
    strategy = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    cluster = play(deployment(4, strategy=strategy), actions=[image(6)], until=60)
    old, new = (rs.metadata.name for rs in sorted(cluster.objects(ReplicaSet), key=created_at))
    assert told(cluster, "deploy/web", "create", f"ReplicaSet/{old}") == [
        "no set has this template; 4 of its pods fit at first"
    ]
    assert told(cluster, "deploy/web", "create", f"ReplicaSet/{new}") == [
        "no set has this template; 1 of its pods fit at first"
    ]
    ups = [numbers(t) for t in told(cluster, "deploy/web", "scale", f"ReplicaSet/{new}")]
    assert all(total + more <= most == 5 for _, _, total, more, most in ups) and ups
    downs = [numbers(t) for t in told(cluster, "deploy/web", "scale", f"ReplicaSet/{old}")]
    assert downs[0] == [4, 3, 1, 3]  # from 4 to 3: 1 more is available than the promised 3
    holds = told(cluster, "deploy/web", "hold")
    assert any(
        t.startswith("maxSurge: 5 pods are wanted, at most 5 may be; maxUnav") for t in holds
    )
    assert "3 are old or available, 3 must stay" in " ".join(holds)
    assert holds[-1].endswith("of 4 new pods are available")


def created_at(rs: ReplicaSet) -> Any:
    return rs.metadata.creation_timestamp


def test_a_set_that_begins_empty_is_told_too() -> None:
    strategy = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    cluster = play(deployment(2, strategy=strategy), actions=[image(6)])
    assert "no set has this template; 0 of its pods fit at first" in told(
        cluster, "deploy/web", "create"
    )


def test_shares_of_a_rollout_that_is_scaled() -> None:
    strategy = {"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
    cluster = play(
        deployment(10, strategy=strategy),
        kubelet={"overrides": [{"match": {"image": "app:2"}, "neverReady": True}]},
        actions=[image(6), action(10, "scale", "Deployment", "web", replicas=20)],
    )
    shares = [t for t in told(cluster, "deploy/web", "scale") if "its share of" in t]
    assert len(shares) == 2
    assert all("its share of 23, the surge included" in t for t in shares)
    assert sum(numbers(t)[1] for t in shares) == 23


def test_recreate_waits_for_the_old_pods() -> None:
    cluster = play(
        deployment(2, strategy={"type": "Recreate"}),
        kubelet={"terminationGrace": 5},
        actions=[image(6)],
        until=30,
    )
    holds = [t for t in told(cluster, "deploy/web", "hold") if t.startswith("Recreate")]
    assert holds and all("reported" in t and numbers(t)[0] <= 2 for t in holds)


def test_paused_and_cleaned_up() -> None:
    cluster = play(
        deployment(1, revisionHistoryLimit=1),
        actions=[
            image(5, "app:2"),
            image(15, "app:3"),
            image(25, "app:4"),
            {"at": 40, "do": "pause", "kind": "Deployment", "name": "web"},
            image(42, "app:5"),
        ],
        until=50,
    )
    assert told(cluster, "deploy/web", "paused") and cluster.object("deploy/web").spec.paused
    gone = names(cluster, "deployment-controller", "delete", "replicasets")
    assert gone
    for name in gone:
        (why,) = told(cluster, "deploy/web", "clean up", f"ReplicaSet/{name}")
        assert why == "2 old sets, 1 are kept"


def test_rollbacks() -> None:
    cluster = play(deployment(1), actions=[image(5), image(15, "app:3")], until=25)
    wish = "deprecated.deployment.rollback.to"
    for revision in ("1", "77"):
        cluster.patch("deploy/web", {"metadata": {"annotations": {wish: revision}}})
        cluster.run_for(10)
    back, none = told(cluster, "deploy/web", "rollback")
    assert back == "its template comes back, of revision 1"
    assert none == "none: Unable to find the revision to rollback to."
    assert cluster.object("deploy/web").spec.template.spec.containers[0].image == "app:1"


def test_progress_deadline() -> None:
    cluster = play(
        deployment(2, progressDeadlineSeconds=15),
        kubelet={"neverReady": True},
        until=60,
    )
    (why,) = told(cluster, "deploy/web", "deadline")
    spent, limit = numbers(why)
    assert spent > limit == 15
    left = [numbers(t)[0] for t in told(cluster, "deploy/web", "requeue")]
    assert left and all(0 <= n <= 15 for n in left)


def test_collisions() -> None:
    probe = play(deployment(1))
    (rs,) = probe.objects(ReplicaSet)
    other = replica_set(1, rs.metadata.name)
    cluster = play(other, deployment(1))
    count = cluster.object("deploy/web").status.collision_count
    whys = told(cluster, "deploy/web", "collision", f"ReplicaSet/{rs.metadata.name}")
    assert count and f"the name is taken; try {count} gives another" in whys


def test_sets_adopted_and_released() -> None:
    labels = {"app": "web"}
    orphan = {**replica_set(0, "old"), "metadata": {"name": "old", "labels": labels}}
    orphan["spec"] = {**replica_set(0)["spec"]}
    cluster = play(
        orphan,
        deployment(1),
        actions=[relabel(8, "ReplicaSet", "old")],
    )
    for what in ("adopt", "release"):
        assert told(cluster, "deploy/web", what, "ReplicaSet/old") == ["by the selector app=web"]


def test_a_key_that_is_given_up() -> None:
    quota = {"kind": "ResourceQuota", "apiVersion": "v1", "metadata": {"name": "q"}}
    cluster = play(
        {**quota, "spec": {"hard": {"count/replicasets.apps": "0"}}},
        actions=[{"at": 2, "do": "create", "object": deployment(1)}],
        until=600,
    )
    refused = [
        w
        for w in cluster.trace.of(ApiWrite, verb="create", resource="replicasets")
        if w.code == 403
    ]
    (why,) = told(cluster, "deploy/web", "give up")
    assert numbers(why)[0] == len(refused)
    assert "exceeded quota: q" in why


# ---- Job


def test_batches_indexes_and_the_end_of_a_job() -> None:
    cluster = play(
        job(completions=5, parallelism=3, completionMode="Indexed"),
        kubelet={"exit": {"after": 4}},
        until=60,
    )
    assert told(cluster, "job/batch", "index")[0] == "0-2: the lowest that are free"
    assert [numbers(t) for t in told(cluster, "job/batch", "batch")][:2] == [[1, 3], [2, 3]]
    assert told(cluster, "job/batch", "end")[0] == "CompletionsReached: 5 of 5"
    freed = list(cluster.trace.of(Decision, what="finalizer"))
    assert len(freed) == 5
    for decision in freed:
        text = str(cluster.explain(f"pod/{decision.subject.split('/')[1]}"))
        assert "finalizer (job-controller): it is noted as Succeeded" in text


def test_back_off() -> None:
    cluster = play(job(backoffLimit=2), kubelet={"exit": {"after": 1, "code": 1}}, until=120)
    waits = [numbers(t) for t in told(cluster, "job/batch", "back-off")]
    assert [first for first, *_ in waits][:1] == [1] and 0 < waits[0][1] <= 10
    assert any(n == 2 and 10 < s <= 20 for n, s in waits)
    assert told(cluster, "job/batch", "end")[0].startswith("BackoffLimitExceeded")
    assert "it is noted as Failed" in told(cluster, "job/batch", "finalizer")[0]


RULES: dict[str, Any] = {
    "rules": [
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [9]}},
    ]
}


def test_rules_that_failed_pods_match() -> None:
    codes = [7, 3, 9]
    overrides = [
        {"match": {"index": i}, "exit": {"after": 1, "code": code}}
        for i, code in enumerate(codes, 1)
    ]
    cluster = play(
        job(podFailurePolicy=RULES, backoffLimit=5), kubelet={"overrides": overrides}, until=120
    )
    pods = names(cluster, "job-controller", "create")
    for name, why in zip(
        pods, ("rule 0 says Ignore", "no rule: it counts", "rule 1 says FailJob"), strict=True
    ):
        assert told(cluster, "job/batch", "policy", f"Pod/{name}")[0] == why
    assert "PodFailurePolicy: " in told(cluster, "job/batch", "end")[0]
    assert "matching FailJob rule at index 1" in told(cluster, "job/batch", "end")[0]


def test_success_policy() -> None:
    cluster = play(
        job(
            completions=4,
            parallelism=4,
            completionMode="Indexed",
            successPolicy={"rules": [{"succeededIndexes": "3", "succeededCount": 1}]},
        ),
        kubelet={
            "exit": {"after": 50},
            "terminationGrace": 5,
            "overrides": [{"match": {"jobIndex": 3}, "exit": {"after": 3}}],
        },
        until=40,
    )
    assert told(cluster, "job/batch", "end")[0] == "SuccessPolicy: Matched rules at index 0"
    waits = [t for t in told(cluster, "job/batch", "wait") if "on their way out" in t]
    assert waits[0] == "Complete waits for 3 pods on their way out"


def test_suspended_resumed_and_removed() -> None:
    cluster = play(
        job(parallelism=3, completions=3),
        kubelet={"exit": {"after": 30}},
        actions=[
            action(5, "patch", "Job", "batch", patch={"spec": {"suspend": True}}),
            action(15, "patch", "Job", "batch", patch={"spec": {"suspend": False}}),
            action(25, "patch", "Job", "batch", patch={"spec": {"parallelism": 1}}),
        ],
        until=30,
    )
    assert told(cluster, "job/batch", "suspended") == ["spec.suspend is true"]
    assert told(cluster, "job/batch", "resumed") == ["spec.suspend is false"]
    assert told(cluster, "job/batch", "remove") == [
        "3 active, 0 wanted: 3 go uncounted",
        "3 active, 1 wanted: 2 go uncounted",
    ]


def test_the_time_that_a_job_has() -> None:
    cluster = play(
        job(activeDeadlineSeconds=9, ttlSecondsAfterFinished=20),
        kubelet={"exit": {"after": 60}},
        until=60,
    )
    left = [numbers(t) for t in told(cluster, "job/batch", "deadline")]
    assert left and all(0 < n <= limit == 9 for n, limit in left)
    assert told(cluster, "job/batch", "end")[0].startswith("DeadlineExceeded")
    *soon, last = told(cluster, "job/batch", "ttl")
    assert soon and all(0 < numbers(t)[0] <= numbers(t)[1] == 20 for t in soon)
    assert numbers(last)[0] == 20 and last.startswith("deleted")
    assert not cluster.objects(Job)


def test_what_is_on_its_way_out_is_not_replaced_before_its_end() -> None:
    cluster = play(
        job(podReplacementPolicy="Failed"),
        kubelet={"exit": {"after": 60}, "terminationGrace": 6},
        until=8,
    )
    (victim,) = cluster.objects(Pod)
    cluster.delete(f"pod/{victim.metadata.name}")
    cluster.run_for(30)
    assert set(told(cluster, "job/batch", "hold")) == {
        "1 pods on their way out are replaced when they have ended"
    }
    assert len(names(cluster, "job-controller", "create")) == 2


def test_a_job_that_somebody_else_manages() -> None:
    cluster = play(job(managedBy="example.com/queue"))
    assert told(cluster, "job/batch", "skip") == ["spec.managedBy is example.com/queue"]


def test_pods_that_a_job_takes_and_lets_go() -> None:
    mine = job(parallelism=2, completions=5, manualSelector=True, selector=LONE)
    mine["spec"]["template"]["metadata"] = {"labels": {"app": "lone"}}
    cluster = play(
        pod(labels={"app": "lone"}),
        mine,
        kubelet={"exit": {"after": 60}},
        actions=[relabel(8, "Pod", "lone")],
    )
    for what in ("adopt", "release"):
        assert told(cluster, "job/batch", what, "Pod/lone") == ["by the selector app=lone"]


def test_a_replication_controller_is_told_as_a_set() -> None:
    rc = {**replica_set(3), "apiVersion": "v1", "kind": "ReplicationController"}
    rc["spec"] = {**rc["spec"], "selector": {"app": "web"}}
    cluster = play(rc)
    assert [numbers(t) for t in told(cluster, "rc/web", "batch")] == [[1, 3], [2, 3]]
    (name, *_) = names(cluster, "replication-controller", "create")
    text = str(cluster.explain(f"pod/{name}"))
    assert "for ReplicationController/web, in a batch of 1 of 3 at once" in text


def test_pods_of_a_job_that_is_gone() -> None:
    cluster = play(job(), kubelet={"exit": {"after": 60}}, until=8)
    (mine,) = cluster.objects(Pod)
    cluster.delete("job/batch", propagation="Background")
    cluster.run_for(10)
    text = str(cluster.explain(f"pod/{mine.metadata.name}"))
    assert "finalizer (job-controller): no Job will count it any more" in text


# ---- garbage collector


def test_collected_for_an_absent_owner() -> None:
    cluster = play(replica_set(2), actions=[action(6, "delete", "rs", "web")])
    for name in names(cluster, "replicaset-controller", "create"):
        text = str(cluster.explain(f"pod/{name}"))
        assert "absent owner (generic-garbage-collector): ReplicaSet/web is gone" in text
        assert "collect (generic-garbage-collector): no owner is left" in text


def test_foreground_waits_for_those_that_block() -> None:
    cluster = play(replica_set(3), kubelet={"terminationGrace": 4}, until=6)
    cluster.delete("rs/web", propagation="Foreground")
    cluster.run_for(15)
    waits = [numbers(t) for t in suffered(cluster, "rs/web", "wait")]
    assert waits[0] == [3, 3]
    assert [n for n, _ in waits] == sorted((n for n, _ in waits), reverse=True)
    assert suffered(cluster, "rs/web", "finalizer") == ["blocked by 0 of 0 dependents"]
    (first, *_) = names(cluster, "replicaset-controller", "create")
    assert "its owner waits for it" in str(cluster.explain(f"pod/{first}"))


def suffered(cluster: Cluster, ref: str, what: str) -> list[str]:
    head = f"{what} (generic-garbage-collector): "
    texts = [text for _, text in cluster.explain(ref).reasons]
    return [t.removeprefix(head) for t in texts if t.startswith(head)]


def test_orphans_and_those_with_another_owner() -> None:
    cluster = play(replica_set(2), until=6)
    cluster.delete("rs/web", propagation="Orphan")
    cluster.run_for(5)
    assert suffered(cluster, "rs/web", "orphan") == ["dependents that stay: 2"]
    a, b = (cluster.create(config(name)) for name in "ab")
    cluster.create(config("child", a, b))
    cluster.run_for(2)
    cluster.delete("cm/a")
    cluster.run_for(2)
    assert suffered(cluster, "cm/child", "absent owner") == ["ConfigMap/a is gone"]
    assert suffered(cluster, "cm/child", "keep") == ["1 living owner(s); 1 reference(s) dropped"]


def config(name: str, *owners: Any, block: bool = False) -> Any:
    refs = tuple(
        OwnerReference(
            api_version="v1",
            kind="ConfigMap",
            name=owner.metadata.name,
            uid=owner.metadata.uid,
            block_owner_deletion=block,
        )
        for owner in owners
    )
    return ConfigMap(metadata=ObjectMeta(name=name, owner_references=refs))


def test_a_circle_of_owners_is_unblocked() -> None:
    cluster = play(until=1)
    a = cluster.create(config("a"))
    b = cluster.create(config("b", a, block=True))
    ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "b", "uid": b.metadata.uid}
    cluster.patch("cm/a", {"metadata": {"ownerReferences": [{**ref, "blockOwnerDeletion": True}]}})
    cluster.run_for(2)
    cluster.server.delete(type(a), "test", "a", DeleteOptions(propagation_policy="Foreground"))
    cluster.run_for(20)
    told_of = suffered(cluster, "cm/a", "unblock") + suffered(cluster, "cm/b", "unblock")
    assert told_of and all(numbers(t) == [1] for t in told_of)
    assert not cluster.objects(ConfigMap)


# ---- scheduler, leases


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ({"nodes": 0}, "none of 0 nodes takes it"),
        ({"nodes": 2, "kubelet": {"node": 5}}, "the profile demands node 5 of 2"),
        ({"kubelet": {"neverSchedule": True}}, "the profile says neverSchedule"),
    ],
)
def test_why_a_pod_is_pending(raw: Mapping[str, Any], why: str) -> None:
    cluster = play(actions=[{"at": 2, "do": "create", "object": pod()}], **raw)
    assert f"pending (scheduler): {why}" in str(cluster.explain("pod/lone"))


def test_what_keeps_a_pod_from_each_node() -> None:
    cluster = Cluster(nodes=3)
    cluster.patch("node/node-1", {"spec": {"unschedulable": True}})
    cluster.patch("node/node-2", {"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}})
    cluster.patch("node/node-3", {"spec": {"unschedulable": True}})
    cluster.apply(pod())
    cluster.run_for(5)
    text = "none of 3 nodes takes it: 2 unschedulable, 1 with the taint gpu"
    pending = [t for _, t in cluster.explain("pod/lone").reasons if t.startswith("pending")]
    assert pending == [f"pending (scheduler): {text}"]
    cluster.patch("node/node-1", {"spec": {"unschedulable": False}})
    cluster.run_for(5)
    assert "put on node-1 by the scheduler" in str(cluster.explain("pod/lone"))


def test_a_lease_goes_from_hand_to_hand() -> None:
    cluster = Cluster(nodes=1)

    def candidate(name: str, delay: float) -> Any:
        client = cluster.client_for(name)
        lock = LeaseLock(client, cluster.clock, "default", "manager", identity=name, timeout=5.0)

        async def work() -> None:
            await cluster.clock.sleep(1e6, background=True)

        config = LeaderElectionConfig(
            lock,
            LeaderCallbacks(work, lambda: None),
            15.0,
            10.0,
            2.0,
            release_on_cancel=True,
            name="manager",
        )
        elector = new_leader_elector(config, cluster.clock, random.Random(name))

        async def later() -> None:
            await cluster.clock.sleep(delay)
            await elect(elector)

        return cluster.clock.spawn(later(), name=name)

    first, second = candidate("one", 0.0), candidate("two", 1.0)
    cluster.run_for(20)
    first.cancel()
    cluster.run_for(20)
    text = str(cluster.explain("lease/manager"))
    assert "one takes it: nobody has it" in text
    assert re.search(r"one renews it \(\d+ times", text)
    assert "one gives it back" in text
    assert "two takes it: nobody has it" in text
    second.cancel()


def test_a_lease_whose_holder_is_silent() -> None:
    cluster = Cluster(nodes=1)
    meta = ObjectMeta(name="manager", namespace="default")
    spec = LeaseSpec(holder_identity="one", lease_duration_seconds=15)
    lease = cluster.create(Lease(metadata=meta, spec=spec))
    cluster.run_for(17.5)
    taken = replace(lease, spec=replace(spec, holder_identity="two"))
    cluster.server.update(taken)
    with pytest.raises(Exception, match="modified"):
        cluster.server.update(replace(lease, spec=replace(spec, holder_identity="three")))
    lines = [t for _, t in cluster.explain("lease/manager").reasons]
    assert lines[0] == "one takes it: nobody has it"
    assert lines[1] == "two takes it from one: 17.5 s without renewal, it lasts 15 s"
    assert lines[2].startswith("user comes too late: ")


# ---- what it costs


def test_without_detail_nothing_is_recorded() -> None:
    raw = {"objects": [deployment(3), job()], "actions": [image(6)]}
    quiet = run_scenario(scenario(**raw), detail=False).cluster.trace
    loud = run_scenario(scenario(**raw), detail=True).cluster.trace
    assert not list(quiet.of(Decision)) and list(loud.of(Decision))
    assert [w.name for w in quiet.of(ApiWrite)] == [w.name for w in loud.of(ApiWrite)]
