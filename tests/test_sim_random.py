"""Scenarios at random: no controller fails, every promise is kept, and what settles lasts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kcm_lite.manager.featuregates import TODAY, text_of
from kcm_lite.sim.endstate import differences, end_state
from kcm_lite.sim.invariants import violations
from kcm_lite.sim.scenario import cluster_of
from kcm_lite.sim.steps import ActionFailed
from tests.convergence.runs import play
from tests.sim_support import deployment, job, replica_set, scenario

Raw = dict[str, Any]
few = st.integers(0, 6)


def some(required: Mapping[str, st.SearchStrategy[Any]], **maybe: Any) -> st.SearchStrategy[Raw]:
    """A mapping with some of the optional keys."""
    return st.fixed_dictionaries(dict(required), optional=maybe)


share = st.sampled_from([1, 2, "10%", "25%", "50%", "100%"])
rolling = some({"maxSurge": share}, maxUnavailable=st.sampled_from([0, 1, 2, "0%", "25%", "100%"]))
strategy = st.one_of(
    st.just({"type": "Recreate"}),
    rolling.map(lambda limits: {"type": "RollingUpdate", "rollingUpdate": limits}),
)
deployments = some(
    {"replicas": few},
    strategy=strategy,
    minReadySeconds=st.integers(0, 8),
    progressDeadlineSeconds=st.sampled_from([10, 20, 60]),
    revisionHistoryLimit=st.integers(0, 2),
    paused=st.booleans(),
)
sets = some({"replicas": st.sampled_from([0, 1, 3, 9, 17])}, minReadySeconds=st.integers(0, 5))
rules = st.fixed_dictionaries(
    {
        "action": st.sampled_from(["FailJob", "Ignore", "Count"]),
        "onExitCodes": st.just({"operator": "In", "values": [1]}),
    }
)
job_fields: dict[str, Any] = {
    "parallelism": few,
    "backoffLimit": st.integers(0, 3),
    "activeDeadlineSeconds": st.sampled_from([3, 8, 40]),
    "ttlSecondsAfterFinished": st.sampled_from([0, 2, 10]),
    "suspend": st.booleans(),
    "podReplacementPolicy": st.just("Failed"),
    "podFailurePolicy": rules.map(lambda rule: {"rules": [rule]}),
}
jobs = st.one_of(
    some({}, completions=few, **job_fields),
    some(
        {"completionMode": st.just("Indexed"), "completions": st.integers(1, 6)},
        backoffLimitPerIndex=st.integers(0, 2),
        successPolicy=st.sampled_from([{"rules": [{"succeededCount": 1}]}]),
        **job_fields,
    ),
)

exits = st.fixed_dictionaries({"after": st.sampled_from([1, 2, 5]), "code": st.integers(0, 1)})
kubelets = some(
    {"startAfter": st.sampled_from([0.3, 1.0, 2.0])},
    readyAfter=st.sampled_from([0, 1.0, 3.0]),
    terminationGrace=st.sampled_from([0, 1.0, 4.0]),
    gap=st.just(1.0),
)
trouble = st.sampled_from(["neverReady", "neverStart", "neverSchedule"])


def kubelet(draw: st.DrawFn, *, ending: bool) -> Raw:
    """What pods do: those of Jobs end; a few are in trouble."""
    odd: list[Raw] = [
        {"match": {"index": draw(st.integers(1, 6))}, **({"exit": draw(exits)} if ending else {})}
        for _ in range(draw(st.integers(0, 2)))
    ]
    for one in odd if not ending else ():
        one[draw(trouble)] = True
    more = {"exit": {"after": draw(st.integers(1, 4)), "code": 0}} if ending else {}
    return {**draw(kubelets), **more, "overrides": odd}


def change(draw: st.DrawFn, obj: Raw) -> Raw:
    """What a user does to an object, or to a pod of it."""
    kind, name = obj["kind"], obj["metadata"]["name"]
    about = {"kind": kind, "name": name}
    pod = {"do": "deletePod", "pick": draw(st.sampled_from(["oldest", "newest"]))}
    policies = st.sampled_from(["Background", "Foreground", "Orphan"])
    gone = {"do": "delete", **about, "propagation": draw(policies)}
    if kind == "Job":
        spec = draw(some({}, parallelism=few, suspend=st.booleans()))
        return draw(st.sampled_from([pod, {"do": "patch", **about, "patch": {"spec": spec}}, gone]))
    choices = [pod, {"do": "scale", **about, "replicas": draw(few)}, gone]
    if kind == "Deployment":
        image = {"do": "setImage", **about, "image": f"app:{draw(st.integers(1, 3))}"}
        paused = {"spec": {"paused": draw(st.booleans())}}
        choices += [image, {"do": "patch", **about, "patch": paused}, {"do": "restart", **about}]
    return draw(st.sampled_from(choices))


errors = st.sampled_from(["conflict", "internal", "unreachable"])  # at once: none makes a sync long
failing = errors.map(lambda e: {"fault": "callError", "error": e, "rate": "20%", "until": 40})
LAG = {"fault": "watchLag", "resource": "pods", "seconds": 0.05}
"""Pods come so late that only expectations keep a controller from creating them again."""


Make = Callable[..., Raw]
SPECS: dict[Make, st.SearchStrategy[Raw]] = {
    job: jobs,
    deployment: deployments,
    replica_set: sets,
}


@st.composite
def scenarios(draw: st.DrawFn) -> Raw:
    """One or two objects of a kind, odd pods, and what a user does meanwhile."""
    make = draw(st.sampled_from([*SPECS, deployment]))
    spec = SPECS[make]
    objects = [make(name=f"web-{n}", **draw(spec)) for n in range(draw(st.integers(1, 2)))]
    at, actions = 1.0, []
    for _ in range(draw(st.integers(0, 4))):
        at += draw(st.sampled_from([0.3, 1.0, 2.5, 7.0]))
        actions.append({"at": at, **change(draw, draw(st.sampled_from(objects)))})
    faults = st.tuples(failing) | st.just(()) | st.just(() if make is deployment else (LAG,))
    release = draw(st.sampled_from([text_of(TODAY), "1.22"]))
    out = {"release": release, "objects": objects, "actions": actions, "until": 60}
    return {**out, "faults": [*draw(faults)], "kubelet": kubelet(draw, ending=make is job)}


@given(scenarios())
@settings(max_examples=200)
def test_controllers_keep_their_promises_whatever_a_user_does(raw: Raw) -> None:
    parsed = scenario(**raw)
    cluster = cluster_of(parsed, detail=False)
    try:
        play(cluster, parsed)
        patience = cluster.now + 1500
        settled = cluster.settle(until=patience) < patience
        before = end_state(cluster)
        cluster.run_for(300)
        changed = differences(before, end_state(cluster)) if settled else []
    except ActionFailed:
        changed = []  # its object is gone, and stays away
    finally:
        cluster.close()
    assert [str(v) for v in violations(cluster.trace)] == []
    assert changed == []
