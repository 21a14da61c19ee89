"""Runs with faults, drawn and told: the counts are true, the bands are where the faults were."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("plotly")

from kcm_lite.sim.check import BadInput
from kcm_lite.sim.faults import (
    CallError,
    ClockSkew,
    CrashManager,
    DropWatch,
    Fault,
    LoseLease,
    NodeDeath,
    PodChaos,
    StaleCache,
)
from kcm_lite.sim.scenario import Run, run_scenario
from kcm_lite.trace import Note, Trace
from kcm_lite.viz.faults import (
    SHOWN,
    Span,
    fault_figure,
    fault_spans,
    healing,
    pod_counts,
)
from kcm_lite.viz.show import WIDTH
from tests.sim_support import deployment, job, replica_set, scenario

WEB = "ReplicaSet/web"


def hurt(*faults: Fault, **raw: Any) -> Run:
    raw = {"objects": [replica_set(3)], "until": 20, **raw}
    return run_scenario(scenario(**raw), faults=faults, detail=False)


def spans(*faults: Fault, **raw: Any) -> list[tuple[str, float, float]]:
    run = hurt(*faults, **raw)
    found = fault_spans(run.cluster.trace, run.scenario.until)
    return [(s.fault, round(s.begin, 2), round(s.end, 2)) for s in found]


CALM = hurt()


def test_a_crash_lasts_until_the_next_start_or_for_ever() -> None:
    assert spans(CrashManager(at=5, restart_after=3)) == [("crashManager", 5, 8)]
    assert spans(CrashManager(at=5, restart_after=None)) == [("crashManager", 5, 20)]
    twice = CrashManager(at=5, restart_after=1), CrashManager(at=12, restart_after=2)
    assert spans(*twice) == [("crashManager", 5, 6), ("crashManager", 12, 14)]


def test_a_window_ends_when_it_says_and_else_with_the_run() -> None:
    assert spans(ClockSkew(ahead=5, at=3, until=9)) == [("clockSkew", 3, 9)]
    assert spans(ClockSkew(ahead=5, at=3)) == [("clockSkew", 3, 20)]
    assert spans(NodeDeath(node=1, at=4, return_after=6)) == [("nodeDeath", 4, 10)]


def test_what_happens_within_a_window_is_marked_too() -> None:
    chaos = PodChaos(every=4.0, at=2, until=11, effect="delete")
    assert spans(chaos) == [("podChaos", 2, 11), ("podChaos", 6, 6), ("podChaos", 10, 10)]


def test_an_error_is_a_moment_and_a_window_if_it_ends() -> None:
    once = CallError(error="internal", resource="pods", verb="create", times=1)
    assert spans(once) == [("callError", 0.01, 0.01)]
    assert ("callError", 0.01, 7) in spans(
        CallError(error="internal", resource="pods", verb="create", until=7)
    )


def test_a_broken_watch_is_a_moment_or_refused_for_a_while() -> None:
    assert spans(DropWatch(at=5)) == [("dropWatch", 5, 5)]
    assert ("dropWatch", 5, 8) in spans(DropWatch(at=5, lasts=3))


def test_two_leaders_are_a_fault_until_the_old_one_ends() -> None:
    assert spans(LoseLease(at=5, taken_over_after=1)) == [("loseLease", 5, 6)]
    assert spans(LoseLease(at=5, taken_over_after=1, overlap=4)) == [("loseLease", 5, 10)]
    twice = LoseLease(at=2, taken_over_after=1, overlap=1), LoseLease(at=9, taken_over_after=2)
    assert spans(*twice) == [("loseLease", 2, 4), ("loseLease", 9, 11)]


def test_two_faults_at_once_are_told_apart() -> None:
    both = CrashManager(at=5, restart_after=1), StaleCache(at=5, behind=2, lasts=4)
    assert spans(*both) == [("crashManager", 5, 6), ("staleCache", 5, 9)]


def test_two_faults_of_one_kind_at_once_end_each_at_its_own_end() -> None:
    both = ClockSkew(ahead=5, at=3, until=9), ClockSkew(ahead=7, at=4, until=6)
    assert spans(*both) == [("clockSkew", 3, 9), ("clockSkew", 4, 6)]
    death = NodeDeath(node=1, at=4, return_after=9), NodeDeath(node=2, at=5, return_after=2)
    assert spans(*death) == [("nodeDeath", 4, 13), ("nodeDeath", 5, 7)]


def test_a_trace_without_faults_has_no_spans() -> None:
    assert fault_spans(CALM.cluster.trace, 20) == []
    trace = Trace()
    trace.write(Note(3.0, "fault", "something lasts", {"fault": "latency", "number": 1}))
    assert fault_spans(trace, 9.0) == [Span("latency", 3.0, 9.0)]


def test_the_counts_are_those_of_the_pods_and_of_the_status() -> None:
    actions = [{"at": 10, "do": "deletePod", "pick": "oldest"}]
    table = pod_counts(hurt(CrashManager(at=9, restart_after=6), actions=actions), WEB)
    last = table[table["t"] < 14].iloc[-1]  # no manager: the pod is gone, the status knows nothing
    assert (last["wanted"], last["pods"], last["good"], last["said"]) == (3, 2, 2, 3)
    last = table.iloc[-1]
    assert (last["wanted"], last["pods"], last["good"], last["said"]) == (3, 3, 3, 3)
    assert table["t"].is_monotonic_increasing


def test_the_pods_of_a_job_are_counted_as_they_succeed() -> None:
    objects = [job(completions=3, parallelism=2)]
    run = hurt(objects=objects, kubelet={"exit": {"after": 2}}, until=60)
    table = pod_counts(run, "Job/batch")
    assert table["pods"].max() == 2 and table["pods"].iloc[-1] == 0
    assert list(table.iloc[-1][["wanted", "good", "said"]]) == [3, 3, 3]
    assert bool(table["done"].iloc[-1])


def test_a_workload_that_was_not_there_is_named() -> None:
    with pytest.raises(BadInput, match=r"subject: got .*ReplicaSet/wob.*ReplicaSet/web"):
        pod_counts(CALM, "ReplicaSet/wob")
    with pytest.raises(BadInput, match="runs: got none"):
        fault_figure({}, WEB)


def test_a_run_against_itself_has_lost_nothing() -> None:
    same = healing(CALM, CALM, WEB)
    assert (same.broke, same.missing, same.lost, same.more, same.other) == ((), 0, 0, 0, ())
    assert same.whole == same.whole_without is not None
    assert "broke   nothing" in str(same) and "never fewer" in str(same)


def test_what_was_lost_and_when_it_was_whole_again() -> None:
    actions = [{"at": 8, "do": "deletePod", "pick": "oldest", "gracePeriodSeconds": 0}]
    calm = hurt(actions=actions)
    found = healing(hurt(CrashManager(at=5, restart_after=7), actions=actions), calm, WEB)
    assert found.broke == (
        (5.0, "the manager crashes, a new one starts in 7 s", 1),
        (12.0, "the manager starts", 1),
    )
    assert found.missing == 1
    assert found.lost == pytest.approx(4, abs=0.2)  # from 10, when it is ready again, to 14
    assert found.whole_without is not None and found.whole_without < 11
    assert found.whole == pytest.approx(14.1, abs=0.2)
    assert not found.other and not found.broken


def test_what_does_not_heal_is_told() -> None:
    image = [{"at": 8, "do": "setImage", "kind": "Deployment", "name": "web", "image": "app:2"}]
    raw: Any = {"objects": [deployment(2)], "actions": image}
    found = healing(
        hurt(CrashManager(at=5, restart_after=None), **raw), hurt(**raw), "Deployment/web"
    )
    assert found.whole is None and found.other  # all ready, of the old image
    assert found.more < 0
    assert "healed  not by the end" in str(found)
    assert all(len(line) <= WIDTH for line in str(found).splitlines())


def test_a_broken_promise_is_named() -> None:
    raw: Any = {"objects": [replica_set(3)], "until": 30}
    faults = (
        CrashManager(after_write=3, restart_after=0.1),
        StaleCache(after_write=3, versions=9, lasts=5),
    )
    found = healing(hurt(*faults, **raw), hurt(**raw), WEB)
    assert found.broken.keys() >= {"size"}
    assert "promise size" in str(found)


def test_a_readout_quotes_few_notes_and_counts_the_rest() -> None:
    chaos = PodChaos(every=2.0, at=2, until=19, effect="delete")
    lines = str(healing(hurt(chaos), CALM, WEB)).splitlines()
    assert len([line for line in lines if line.startswith("broke")]) == SHOWN
    assert lines[SHOWN].strip().startswith("and ")


def test_each_run_has_a_panel_with_its_marks() -> None:
    crash = hurt(CrashManager(at=5, restart_after=3))
    figure = fault_figure({"calm": CALM, "crash": crash}, WEB)
    assert [a.text for a in figure.layout.annotations] == ["calm", "crash"]
    (band,) = figure.layout.shapes
    assert (band.type, band.x0, band.x1, band.yref) == ("rect", 5, 8, "y2 domain")
    assert len(figure.data) == 8 and {trace.yaxis for trace in figure.data} == {"y", "y2"}
    assert [trace.showlegend for trace in figure.data] == [True] * 4 + [False] * 4
    assert figure.layout.yaxis.domain[0] > figure.layout.yaxis2.domain[1]
    assert figure.layout.yaxis.range == figure.layout.yaxis2.range
    assert figure.layout.yaxis.range[1] > max(max(trace.y) for trace in figure.data)
    assert all(trace.x[-1] == 20 for trace in figure.data)


def test_a_picture_can_end_early_and_draws_close_moments_once() -> None:
    run = hurt(CallError(error="internal", resource="pods", verb="create", rate=0.5))
    figure = fault_figure({"": run}, WEB, end=4)
    lines = [shape for shape in figure.layout.shapes if shape.type == "line"]
    assert lines and len(lines) == len({round(shape.x0, 1) for shape in lines})
    assert all(max(trace.x) == 4 for trace in figure.data)
    late = fault_figure({"": hurt(CrashManager(at=15))}, WEB, end=10)
    assert not late.layout.shapes and not late.layout.annotations
