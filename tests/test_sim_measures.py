"""A rollout in numbers, and as a picture."""

from __future__ import annotations

import pytest

from kcm_lite.sim.cluster import Cluster
from kcm_lite.sim.measures import measure
from kcm_lite.trace import Trace
from kcm_lite.viz.rollouts import STATES, rollout_figure
from tests.test_controllers_deployment import MANIFEST, set_image

SLOW = {
    "readyAfter": 2,
    "terminationGrace": 5,
    "overrides": [{"match": {"image": "app:bad"}, "neverReady": True}],
}


def rolled(image: str = "app:2", wait: float = 30) -> Cluster:
    cluster = Cluster(qps=0, profile=SLOW, detail=False)
    cluster.apply(MANIFEST % 10)
    cluster.patch("deploy/web", {"spec": {"progressDeadlineSeconds": 10}})
    cluster.run_for(20)
    set_image(cluster, image, wait)
    return cluster


def test_a_rollout_is_measured_from_its_start() -> None:
    m = measure(rolled().trace, "default/web", start=20)
    assert (m.peak, m.crowd, m.lowest, m.problem) == (13, 20, 8, "")
    assert m.finished == pytest.approx(6.2, abs=0.1)
    first, last = m.points[0], m.points[-1]
    assert (first.t, first.pods, first.terminating, first.available) == (20, 10, 0, 10)
    assert (last.pods, last.terminating, last.available) == (10, 0, 10)
    assert {(p.floor, p.ceiling) for p in m.points} == {(8, 13)}
    times = [p.t for p in m.points]
    assert times == sorted(set(times))
    assert [list(sizes.values()) for _, sizes in (m.sizes[0], m.sizes[-1])] == [[10], [0, 10]]
    assert m.sizes[0][0] == 20


def test_a_stuck_rollout_has_a_problem_and_no_end() -> None:
    m = measure(rolled("app:bad").trace, "default/web", start=20)
    assert m.finished is None
    assert m.problem.startswith("ProgressDeadlineExceeded: ReplicaSet ")
    assert m.lowest == 8


def test_what_is_still_under_way_has_neither() -> None:
    m = measure(rolled(wait=1).trace, "default/web", start=20)
    assert (m.finished, m.problem) == (None, "")


def test_from_the_very_beginning_the_first_moment_is_empty() -> None:
    cluster = Cluster(qps=0, profile=SLOW, detail=False)
    cluster.run_for(5)
    cluster.apply(MANIFEST % 3)
    cluster.run_for(10)
    m = measure(cluster.trace, "default/web")
    assert (m.points[0].pods, m.sizes[0]) == (0, (0.0, {}))
    assert m.finished == pytest.approx(8, abs=0.1)


def test_others_do_not_count() -> None:
    cluster = rolled()
    cluster.apply(MANIFEST.replace("web}", "twin}", 1) % 5)
    cluster.run_for(10)
    assert measure(cluster.trace, "default/web", start=20).peak == 13
    assert measure(cluster.trace, "default/twin").peak == 5


def test_a_deployment_that_never_was_is_an_error() -> None:
    with pytest.raises(LookupError, match="no Deployment default/web"):
        measure(Trace(), "default/web")
    with pytest.raises(LookupError, match="no Deployment default/gone"):
        measure(rolled().trace, "default/gone")


def test_the_picture_has_sizes_availability_and_every_pod() -> None:
    cluster = rolled()
    m = measure(cluster.trace, "default/web", start=20)
    figure = rollout_figure(cluster.trace, m, start=20, end=50)
    names = [trace.name for trace in figure.data]
    assert names == ["old set", "new set", "available", "promised", *STATES]
    lives = figure.data[-1]  # terminating
    assert len(lives.y) == 10
    assert all(x == pytest.approx(5, abs=0.1) for x in lives.x)
    for trace in figure.data[:4]:
        assert trace.x[0] == 0 and trace.x[-1] == 30
    assert set(figure.data[3].y) == {8}
    assert len({y for trace in figure.data[4:] for y in trace.y}) == 20


def test_more_than_two_sets_are_numbered() -> None:
    cluster = rolled(wait=3)
    set_image(cluster, "app:3", 30)
    m = measure(cluster.trace, "default/web", start=20)
    figure = rollout_figure(cluster.trace, m, start=20, end=53)
    assert [trace.name for trace in figure.data][:3] == ["old set", "set 2", "set 3"]
