"""Whatever goes wrong, once it stops the controllers get where their objects want them."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kcm_lite.api.core import Pod
from kcm_lite.sim.chance import Range
from kcm_lite.sim.cluster import Cluster
from kcm_lite.sim.faults import (
    ERRORS,
    CallError,
    ClockSkew,
    CrashManager,
    DropWatch,
    DuplicateEvents,
    Fault,
    Latency,
    LoseLease,
    NodeDeath,
    PodChaos,
    StaleCache,
    StallWatch,
    WatchLag,
)
from kcm_lite.sim.scenario import run_scenario
from tests.sim_support import deployment, job, replica_set, scenario

CALM = 20.0
"""When everything that was wrong is over."""

HEALED = 1300.0
"""When all is well again: a key that has failed often waits up to 1000 s."""

RESOURCES = ("pods", "replicasets", "deployments", "jobs", None)
whole = st.integers(1, 15)
begun = st.one_of(
    st.builds(lambda at: {"at": float(at)}, whole),
    st.builds(lambda k: {"after_write": k}, st.integers(1, 40)),
)
window = st.builds(lambda begin: {**begin, "until": CALM}, begun)
resource = st.builds(lambda r: {"resource": r}, st.sampled_from(RESOURCES))


def of(kind: type[Fault], *parts: st.SearchStrategy[dict[str, Any]], **own: Any) -> Any:
    """Return a strategy for faults of a kind: its own values, beside those of the parts."""

    def build(values: dict[str, Any], *more: dict[str, Any]) -> Fault:
        return kind(**{k: v for part in (values, *more) for k, v in part.items()})

    return st.builds(build, st.fixed_dictionaries(own), *parts)


FAULTS = st.one_of(
    of(
        CallError,
        window,
        resource,
        error=st.sampled_from(sorted(ERRORS)),
        rate=st.sampled_from([0.2, 0.5, 1.0]),
        after=st.just(2.0),
    ),
    of(Latency, window, call=st.just(Range(0, 1)), watch=st.just(Range(0, 1))),
    of(WatchLag, window, resource, seconds=st.just(Range(0, 2))),
    of(StallWatch, window, resource),
    of(DropWatch, begun, resource, expired=st.booleans()),
    of(DropWatch, window, resource),
    of(DuplicateEvents, window, resource),
    of(StaleCache, window, behind=st.integers(0, 5), versions=st.integers(0, 5)),
    of(CrashManager, begun, restart_after=st.sampled_from([0.0, 0.5, 3.0])),
    of(LoseLease, begun, taken_over_after=st.just(1.0), overlap=st.sampled_from([0.0, 3.0])),
    of(NodeDeath, st.builds(lambda at: {"at": float(at)}, whole), node=st.just(1)).map(
        lambda f: NodeDeath(node=1, at=f.at, return_after=CALM - f.at)
    ),
    of(ClockSkew, window, ahead=st.sampled_from([-60.0, -2.0, 2.0, 3600.0])),
    of(PodChaos, window, every=st.just(4.0), effect=st.sampled_from(["fail", "delete", "evict"])),
)
PLANS = st.lists(FAULTS, min_size=1, max_size=4)
quietly = settings(max_examples=60)


def after(faults: list[Fault], **raw: Any) -> Cluster:
    """Return the cluster after a run with faults."""
    return run_scenario(scenario(until=HEALED, **raw), faults=faults, detail=False).cluster


def running(cluster: Cluster) -> int:
    pods = cluster.objects(Pod)
    final = ("Succeeded", "Failed")
    return sum(p.metadata.deletion_timestamp is None and p.status.phase not in final for p in pods)


@quietly
@given(PLANS)
def test_a_replica_set_gets_its_pods(plan: list[Fault]) -> None:
    actions = [
        {"at": t, "do": "scale", "kind": "ReplicaSet", "name": "web", "replicas": n}
        for t, n in ((6, 8), (12, 4))
    ]
    cluster = after(plan, objects=[replica_set(3)], actions=actions)
    status = cluster.object("rs/web").status
    assert running(cluster) == status.ready_replicas == status.replicas == 4


@quietly
@given(PLANS)
def test_a_deployment_rolls_out(plan: list[Fault]) -> None:
    image = {"at": 6, "do": "setImage", "kind": "Deployment", "name": "web", "image": "app:2"}
    cluster = after(plan, objects=[deployment(4)], actions=[image])
    status = cluster.object("deploy/web").status
    assert running(cluster) == status.ready_replicas == status.updated_replicas == 4
    assert {p.spec.containers[0].image for p in cluster.objects(Pod) if not p.status.reason} >= {
        "app:2"
    }


@quietly
@given(PLANS)
def test_a_job_completes(plan: list[Fault]) -> None:
    cluster = after(
        plan,
        objects=[job(completions=6, parallelism=3, backoffLimit=100, completionMode="Indexed")],
        kubelet={"exit": {"after": 3}},
    )
    status = cluster.object("job/batch").status
    assert status.succeeded == 6
    assert status.completed_indexes == "0-5"
    assert running(cluster) == 0
    assert not [p for p in cluster.objects(Pod) if p.metadata.finalizers]
