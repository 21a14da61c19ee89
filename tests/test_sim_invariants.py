"""The controllers' promises: real runs keep them, and a trace that breaks one is found."""

from __future__ import annotations

from typing import Any

import pytest

from kcm_lite.api.meta import Object
from kcm_lite.api.serial import decode
from kcm_lite.sim.cluster import Cluster
from kcm_lite.sim.invariants import RULES, violations
from kcm_lite.trace import ApiWrite, Trace

RS, DEPLOY, JOB = "replicaset-controller", "deployment-controller", "job-controller"
GC, TTL = "generic-garbage-collector", "ttl-after-finished-controller"
NOW = "2026-01-01T00:00:00Z"
FINALIZER = "batch.kubernetes.io/job-tracking"


def obj(kind: str, name: str, owner: Object | None = None, **more: Any) -> Object:
    """An object of the wire form; ``more`` goes into the top level, ``meta`` into metadata."""
    versions = {"Deployment": "apps/v1", "ReplicaSet": "apps/v1", "Job": "batch/v1"}
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", **more.pop("meta", {})}
    if owner is not None:
        ref = {"kind": owner.KIND, "apiVersion": owner.API_VERSION, "controller": True}
        ref |= {"name": owner.metadata.name, "uid": owner.metadata.uid}
        meta["ownerReferences"] = [ref]
    return decode({"apiVersion": versions.get(kind, "v1"), "kind": kind, "metadata": meta, **more})


def pod(name: str, owner: Object | None, phase: str = "Running", **meta: Any) -> Object:
    """A pod, ready if it runs."""
    ready = {"type": "Ready", "status": "True" if phase == "Running" else "False"}
    status = {"phase": phase, "conditions": [ready]}
    return obj("Pod", name, owner, spec={"containers": [{"name": "c"}]}, status=status, meta=meta)


def rs(replicas: int, name: str = "web", owner: Object | None = None, **meta: Any) -> Object:
    """A set."""
    return obj("ReplicaSet", name, owner, spec={"replicas": replicas}, meta=meta)


def deployment(replicas: int = 4, **meta: Any) -> Object:
    """A Deployment that keeps three of four, and has five at most."""
    limits = {"maxSurge": "25%", "maxUnavailable": "25%"}
    strategy = {"type": "RollingUpdate", "rollingUpdate": limits}
    return obj("Deployment", "d", spec={"replicas": replicas, "strategy": strategy}, meta=meta)


def job(parallelism: int = 1, indexed: bool = False, **status: Any) -> Object:
    """A Job of two pods."""
    spec: dict[str, Any] = {"parallelism": parallelism, "completions": 2}
    if indexed:
        spec["completionMode"] = "Indexed"
    return obj("Job", "j", spec=spec, status=status)


Write = tuple[str, str, Object | None, Object | None]  # agent, verb, old, new


def broken(*writes: Write, t: float = 0.0, every: float = 1.0) -> list[str]:
    """What these writes break, one a second or so."""
    trace = Trace()
    for n, (agent, verb, old, new) in enumerate(writes):
        known: Any = new if new is not None else old
        plural = f"{known.KIND.lower()}s"
        sub = "status" if verb == "status" else ""
        name, when = known.metadata.name, t + n * every
        trace.write(ApiWrite(when, agent, verb, plural, sub, "ns", name, 200, old=old, new=new))
    return [f"{v.rule}: {v.subject} {v.text}" for v in violations(trace)]


def made(*objects: Object, by: str = "user") -> list[Write]:
    """The creation of objects."""
    return [(by, "create", None, o) for o in objects]


WEB, D = rs(2), deployment()
A, B, C = (pod(n, WEB) for n in "abc")
THREE = made(rs(3), A, B, C)
REVISION = "deployment.kubernetes.io/revision"
DYING: dict[str, Any] = {"deletionTimestamp": NOW}
OLD = rs(4, "old", D, annotations={"deployment.kubernetes.io/desired-replicas": "4"})
OLD_PODS = [pod(f"o{n}", OLD) for n in range(4)]
LOST: dict[str, Any] = {
    "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "m", "uid": "uid-m"}]
}


def smaller(replicas: int) -> Object:
    """The old set with another size."""
    return rs(replicas, "old", D, annotations=dict(OLD.metadata.annotations))


DONE = pod("p", job(), "Succeeded", finalizers=[FINALIZER])
FREED = pod("p", job(), "Succeeded")
INDEX = {"annotations": {"batch.kubernetes.io/job-completion-index": "1"}}
DONE_1 = pod("p", job(), "Succeeded", finalizers=[FINALIZER], **INDEX)
GOOD = {"succeeded": ["uid-p"]}
NOTED = job(uncountedTerminatedPods=GOOD)
COUNTED = job(succeeded=1, uncountedTerminatedPods={})
COMPLETE = job(conditions=[{"type": "Complete", "status": "True"}])
BOTH = job(conditions=[{"type": t, "status": "True"} for t in ("Complete", "Failed")])

BREAKS: list[tuple[str, list[Write]]] = [
    ("owned: Pod/x belongs to nobody, was deleted by replicaset-controller",
     [(RS, "delete", pod("x", None), None)]),
    ("owned: Pod/x belongs to Job/j, was deleted by replicaset-controller",
     [(RS, "delete", pod("x", job()), None)]),
    ("orphaned: Pod/a was collected though ReplicaSet/web lives",
     [*made(WEB, A), (GC, "delete", A, None)]),
    ("adopted: Pod/x was adopted by ReplicaSet/web while it was being deleted",
     [*made(WEB), (RS, "patch", pod("x", None, **DYING), pod("x", WEB, **DYING))]),
    ("adopted: Pod/x was adopted by ReplicaSet/web, which is gone or going",
     [(RS, "patch", pod("x", None), pod("x", WEB))]),
    ("size: ReplicaSet/web has 3 active pods, may have 2", made(WEB, A, B, C, by=RS)),
    ("size: Job/j has 2 active pods, may have 1",
     made(job(), pod("p", job()), pod("q", job()), by=JOB)),
    ("enough: ReplicaSet/web has 1 active pods left, should keep 2",
     [*made(WEB, A, B), (RS, "delete", A, None)]),
    ("surge: Deployment/d wants 6 pods in all its sets, may want 5",
     [*made(D, OLD), (DEPLOY, "create", None, rs(2, "new", D))]),
    ("floor: Deployment/d keeps 2 of 4 available pods, promised 3",
     [*made(D, OLD, *OLD_PODS), (DEPLOY, "update", OLD, smaller(2))]),
    ("forward: Deployment/d goes from revision 2 back to 1",
     [(DEPLOY, "update", deployment(annotations={REVISION: "2"}),
       deployment(annotations={REVISION: "1"}))]),
    ("forward: ReplicaSet/web has observed generation 2, then 1",
     [(RS, "status", obj("ReplicaSet", "web", status={"observedGeneration": 2}),
       obj("ReplicaSet", "web", status={"observedGeneration": 1}))]),
    ("ends: Job/j was Complete and is no more", [("user", "status", COMPLETE, job())]),
    ("ends: Job/j is both Complete and Failed", [(JOB, "status", COMPLETE, BOTH)]),
    ("ends: Job/j is not finished, or has no time to live, and was deleted",
     [(TTL, "delete", COMPLETE, None)]),
    ("counts: Job/j counts 1 successes, noted 0", [(JOB, "status", job(), COUNTED)]),
    ("counts: Job/j counts 2 failures, noted 0",
     [(JOB, "status", NOTED, job(failed=2, uncountedTerminatedPods=GOOD))]),
    ("counts: Job/j counts a pod twice: uid-p",
     [(JOB, "status", NOTED, COUNTED),
      (JOB, "status", COUNTED, job(succeeded=1, uncountedTerminatedPods=GOOD))]),
    ("counts: Job/j counts a pod twice: uid-p",
     [(JOB, "status", job(), job(uncountedTerminatedPods={**GOOD, "failed": ["uid-p"]}))]),
    ("counts: Job/j has lost the completed indexes [1]",
     [(JOB, "status", job(indexed=True, completedIndexes="0,1", succeeded=2),
       job(indexed=True, completedIndexes="0", succeeded=1, uncountedTerminatedPods={}))]),
    ("freed: Job/j has let pod p (Succeeded) go before it was counted",
     [*made(job(), DONE), (JOB, "patch", DONE, FREED)]),
    ("freed: Job/j has let pod p (Succeeded) go before it was counted",
     [*made(job(indexed=True, completedIndexes="0"), DONE_1),
      (JOB, "patch", DONE_1, pod("p", job(), "Succeeded", **INDEX))]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "writes"), BREAKS, ids=[text[:40] for text, _ in BREAKS])
def test_a_broken_promise_is_found(text: str, writes: list[Write]) -> None:
    assert broken(*writes) == [text]


def test_every_rule_is_broken_above() -> None:
    assert {text.partition(":")[0] for text, _ in BREAKS} == set(RULES)


KEEPS: dict[str, list[Write]] = {
    "others may delete what they like": [("user", "delete", A, None), (GC, "delete", A, None)],
    "a second deletion": [(RS, "delete", pod("x", None, **DYING), None)],
    "an owner that waits for its dependents": [
        *made(rs(2, **DYING, finalizers=["foregroundDeletion"]), A), (GC, "delete", A, None)],
    "an owner in another namespace": [
        *made(decode({"apiVersion": "v1", "kind": "ConfigMap",
                      "metadata": {"name": "m", "namespace": "other", "uid": "uid-m"}})),
        (GC, "delete", pod("x", None, **LOST), None)],
    "a surplus goes": [*THREE, ("user", "patch", rs(3), WEB), (RS, "delete", A, None)],
    "a pod that has ended goes": [*made(WEB), (RS, "delete", pod("x", WEB, "Failed"), None)],
    "a sync that goes on after a change of size": [
        *made(rs(3), A, B), ("user", "patch", rs(3), rs(1)), *made(C, by=RS)],
    "a pod that has ended makes room": [
        *made(WEB, A, B), ("kubelet", "status", A, pod("a", WEB, "Failed")), *made(C, by=RS)],
    "a rollout within its limits": [
        *made(D, OLD, *OLD_PODS), (DEPLOY, "create", None, rs(1, "new", D)),
        (DEPLOY, "update", OLD, smaller(3))],
    "pods that are not available anyway": [
        *made(D, OLD, *[pod(f"o{n}", OLD, "Pending") for n in range(4)]),
        (DEPLOY, "update", OLD, smaller(0))],
    "a Deployment with another size": [
        *made(deployment(1), OLD, *OLD_PODS), (DEPLOY, "update", OLD, smaller(1))],
    "a pod that was noted": [*made(NOTED, DONE), (JOB, "patch", DONE, FREED)],
    "an index that is done": [
        *made(job(indexed=True, completedIndexes="0,1"), DONE_1),
        (JOB, "patch", DONE_1, pod("p", job(), "Succeeded", **INDEX))],
    "a Job that is over": [*made(COMPLETE, DONE), (JOB, "patch", DONE, FREED)],
    "a pod that still runs": [
        *made(job(), pod("p", job(), finalizers=[FINALIZER])),
        (JOB, "patch", pod("p", job(), finalizers=[FINALIZER]), pod("p", job()))],
    "a Job that counts the pods that are there": [
        (JOB, "status", job(), job(succeeded=1)),
        (JOB, "status", job(indexed=True, completedIndexes="0"), job(indexed=True))],
    "fewer completions": [
        (JOB, "status", job(indexed=True, completedIndexes="0-3", succeeded=4),
         job(indexed=True, completedIndexes="0,1", succeeded=2, uncountedTerminatedPods={}))],
}  # fmt: skip


@pytest.mark.parametrize("name", KEEPS)
def test_what_is_allowed_is_not_reported(name: str) -> None:
    assert broken(*KEEPS[name]) == []


RUNS = pod("p", job(), finalizers=[FINALIZER])
TOO_LATE: dict[str, tuple[str, list[Write]]] = {
    "a change of size while a pod is on its way": (
        "size: ReplicaSet/web has 3 active pods, may have 2",
        [*made(rs(3), A, B), ("user", "patch", rs(3), WEB), (RS, "create", None, C)]),
    "a pod that ends while it is freed as a surplus": (
        "freed: Job/j has let pod p (Succeeded) go before it was counted",
        [*made(job(), RUNS), ("kubelet", "status", RUNS, DONE), (JOB, "patch", DONE, FREED)]),
    "pods that get ready while their set shrinks": (
        "floor: Deployment/d keeps 2 of 4 available pods, promised 3",
        [*made(D, OLD, *OLD_PODS), (DEPLOY, "update", OLD, smaller(2))]),
}  # fmt: skip


@pytest.mark.parametrize("name", TOO_LATE)
def test_a_sync_may_go_by_a_view_of_a_moment_ago_but_not_by_an_older_one(name: str) -> None:
    text, writes = TOO_LATE[name]
    assert broken(*writes, every=0.01) == []
    assert broken(*writes) == [text]


@pytest.mark.parametrize(
    ("seconds", "found"),
    [(58, []), (59, []), (61, ["floor: Deployment/d keeps 0 of 4 available pods, promised 3"])],
)
def test_a_pod_may_be_available_a_second_early_but_need_not(
    seconds: float, found: list[str]
) -> None:
    slow = obj("ReplicaSet", "old", D, spec={"replicas": 4, "minReadySeconds": 60},
               meta={"annotations": dict(OLD.metadata.annotations)})  # fmt: skip
    trace = Trace()
    for o in (D, slow, *OLD_PODS):
        plural = f"{o.KIND.lower()}s"
        trace.write(ApiWrite(0, "user", "create", plural, "", "ns", o.metadata.name, 201, new=o))
    args = ("replicasets", "", "ns", "old", 200)
    trace.write(ApiWrite(seconds, DEPLOY, "update", *args, old=slow, new=smaller(0)))
    assert [f"{v.rule}: {v.subject} {v.text}" for v in violations(trace)] == found


def test_a_refused_write_breaks_nothing() -> None:
    trace = Trace()
    trace.write(ApiWrite(0, RS, "delete", "pods", "", "ns", "x", 409, old=pod("x", None)))
    assert violations(trace) == []


def test_real_runs_keep_every_promise() -> None:
    cluster = Cluster(seed=3, profile={"exit": {"after": 3, "code": 0}})
    cluster.apply(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "j"},
            "spec": {
                "completions": 7,
                "parallelism": 3,
                "template": {
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [{"name": "c", "image": "app:1"}],
                    }
                },
            },
        }
    )
    cluster.run_for(120)
    assert cluster.object("job/j").status.succeeded == 7
    assert violations(cluster.trace) == []
    cluster.close()
