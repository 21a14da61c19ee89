from __future__ import annotations

import pytest

pd = pytest.importorskip("pandas")

from kcm_lite.viz import frames  # noqa: E402
from kcm_lite.viz.report import page  # noqa: E402
from tests.sim_support import deployment, job, pod, replica_set, run  # noqa: E402

RUN = run(
    objects=[replica_set(3), pod()],
    actions=[
        {"at": 6, "do": "scale", "kind": "rs", "name": "web", "replicas": 2},
        {"at": 12, "do": "delete", "kind": "rs", "name": "web"},
    ],
    kubelet={"terminationGrace": 2},
)
TRACE = RUN.cluster.trace


def test_writes_hold_every_request() -> None:
    table = frames.writes(TRACE)
    made = table[(table["verb"] == "create") & (table["resource"] == "pods")]
    pods = made[made["subresource"] == ""]
    assert sorted(pods["agent"].value_counts().to_dict().items()) == [
        ("replicaset-controller", 3),
        ("user", 1),
    ]
    assert table["t"].is_monotonic_increasing


def test_lives_of_pods_are_whole_and_in_order() -> None:
    spans = frames.pod_states(TRACE, end=20)
    lone = spans[spans["pod"] == "lone"]
    assert list(lone["state"]) == ["unscheduled", "pending", "running", "ready"]
    assert list(lone["owner"].unique()) == [""]
    assert lone["end"].iloc[-1] == 20
    for name, life in spans.groupby("pod"):
        joined = list(zip(life["end"], life["start"].iloc[1:], strict=False))
        assert all(end == start for end, start in joined), name
    web = spans[spans["owner"] == "ReplicaSet/web"]
    assert (
        web[web["state"] == "terminating"]["end"] - web[web["state"] == "terminating"]["start"]
        > 1.9
    ).all()
    assert set(web["pod"]) == set(web[web["state"] == "terminating"]["pod"])


def test_replicas_follow_the_status_and_end_with_the_set() -> None:
    counts = frames.replicas(TRACE)
    assert counts["workload"].unique().tolist() == ["ReplicaSet/web"]
    assert counts.iloc[-1][["wanted", "replicas", "ready", "available"]].isna().all()
    assert counts["wanted"].dropna().unique().tolist() == [3, 2]
    assert counts["ready"].max() == 3


def test_syncs_begin_before_they_end() -> None:
    table = frames.syncs(TRACE)
    assert len(table) > 3
    assert (table["end"] >= table["start"]).all()
    assert set(table["error"]) == {""}
    assert "replicaset-controller" in set(table["controller"])


def test_queues_deliveries_and_decisions() -> None:
    steps = frames.queues(TRACE)
    assert {"add", "get", "done"} <= set(steps["op"]) and (steps["depth"] >= 0).all()
    delivered = frames.deliveries(TRACE)
    assert set(delivered[delivered["t"] > 0]["lag"]) == {0.002}
    made = frames.decisions(TRACE)
    assert (made["what"] == "victim").sum() == 1


def test_an_empty_trace_gives_empty_frames_with_columns() -> None:
    trace = type(TRACE)()
    for make in (frames.writes, frames.queues, frames.syncs, frames.replicas, frames.decisions):
        table = make(trace)
        assert len(table) == 0 and len(table.columns) > 3
    assert len(frames.pod_states(trace, end=1)) == 0


def test_a_page_without_pods_or_detail_has_what_there_is() -> None:
    from kcm_lite.sim.scenario import run_scenario
    from tests.sim_support import scenario

    text = page(run_scenario(scenario(until=5), detail=False))
    assert "<h2>Pods</h2>" not in text and "<h2>Work queues</h2>" not in text
    assert "<h2>Timeline</h2>" in text


def test_a_page_shows_the_replicas_of_a_set_that_is_gone() -> None:
    assert frames.replicas(TRACE)["wanted"].isna().any()
    assert "<h2>Replicas</h2>" in page(RUN)


def test_rollouts_and_sizes_follow_a_deployment() -> None:
    image = {"at": 6, "do": "setImage", "kind": "deploy", "name": "web", "image": "app:2"}
    trace = run(objects=[deployment(3), replica_set(1, name="lone")], actions=[image]).cluster.trace
    course = frames.rollouts(trace, end=20)
    assert course["workload"].unique().tolist() == ["Deployment/web"]
    assert course["t"].is_monotonic_increasing
    assert course["pods"].max() == course["ceiling"].max() == 4
    assert course[course["t"] > 5]["available"].min() == 3
    assert course.iloc[-1][["pods", "available", "terminating"]].tolist() == [3, 3, 0]
    sizes = frames.set_sizes(trace, end=20)
    old, new = sizes["set"].unique()
    assert sizes[sizes["set"] == old]["size"].tolist() == [3, 2, 1, 0]
    assert sizes[sizes["set"] == new]["size"].tolist() == [1, 2, 3]


def test_jobs_follow_the_status_and_end_with_the_job() -> None:
    batch = job(completions=2, ttlSecondsAfterFinished=3)
    trace = run(objects=[batch], kubelet={"exit": {"after": 3}}).cluster.trace
    counts = frames.jobs(trace)
    assert counts["workload"].unique().tolist() == ["Job/batch"]
    assert counts["succeeded"].max() == 2 and counts["active"].max() == 1
    assert counts.iloc[-1][["active", "succeeded", "failed"]].isna().all()


def test_frames_of_a_run_without_workloads_are_empty_but_have_their_columns() -> None:
    trace = run(objects=[pod()]).cluster.trace
    assert len(frames.rollouts(trace, end=20)) == 0 == len(frames.jobs(trace))
    assert frames.set_sizes(trace, end=20).columns.tolist() == ["workload", "t", "set", "size"]
