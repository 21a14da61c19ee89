"""A sample of the convergence harness, and proof that it catches what it should.

All scenarios and points: ``python -m tests.convergence`` (see there).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kcm_lite.api.meta import Object
from kcm_lite.api.yaml import load_documents
from kcm_lite.client.informer import SharedInformerFactory
from kcm_lite.controllers import garbagecollector
from kcm_lite.controllers.garbagegraph import identity_of, process_delete, process_update
from kcm_lite.reconcile.consistency import ConsistencyStore
from kcm_lite.reconcile.expectations import UIDTrackingControllerExpectations
from kcm_lite.sim.faults import read_fault
from kcm_lite.sim.scenario import parse_scenario
from tests.convergence.__main__ import main
from tests.convergence.explained import EXPLAINED
from tests.convergence.library import Sample, find_samples
from tests.convergence.points import (
    KINDS,
    Failure,
    Point,
    check_point,
    check_points,
    explained_by,
    faults_after,
    spread,
)
from tests.convergence.repro import scenario_file, shrink
from tests.convergence.runs import run_forked, run_to_end
from tests.convergence.table import Row, table_document

TABLE = Path(__file__).parents[1] / "book" / "data" / "convergence.json"
SAMPLES = {sample.id: sample for sample in find_samples()}
CHOSEN = (
    "dep-recreate",
    "dep-rolling-1",
    "dep-rs-deleted",
    "gc-chain",
    "gc-foreground",
    "job-backoff-2",
    "job-indexed",
    "job-success-count",
    "job-ttl-5",
    "rs-pod-deleted",
    "rs-quota-slowstart",
    "rs-release",
)
POINTS = 5  # a scenario and kind of fault


def unexplained(points: list[Point]) -> list[str]:
    """What fails, a line each."""
    return [
        f"{p.kind} {p.k}: {f.what}: {f.text}" for p in points for f in p.failures if not f.explained
    ]


@pytest.mark.parametrize("name", CHOSEN)
def test_a_sample_comes_right_after_every_fault(name: str) -> None:
    sample = SAMPLES[name]
    writes = run_to_end(sample.scenario()).writes
    assert writes > 1
    for kind in KINDS:
        ks = spread(writes, POINTS)
        points = check_points(sample, kind, ks)
        assert [p.k for p in points] == ks
        assert not unexplained(points)


@pytest.mark.parametrize("kind", KINDS)
def test_a_forked_run_is_the_run_of_the_scenario_file(kind: str) -> None:
    sample = SAMPLES["job-fail-once"]
    faults = [read_fault(entry) for entry in KINDS[kind][1]]
    without, forked = run_forked(sample.scenario(), faults, [2, 6])
    assert without == run_to_end(sample.scenario())
    assert set(forked) == {2, 6}
    for k, ending in forked.items():
        assert ending == run_to_end(sample.scenario(faults_after(kind, k)))


# ---- planted faults of controllers


def forgets_what_was_there(gc: Any, informers: SharedInformerFactory, kind: type[Object]) -> None:
    """A collector that does not look at the objects that it finds when it starts."""

    def on_add(new: Object, is_initial: bool) -> None:
        if not is_initial:
            process_update(gc.graph, None, new)

    def on_update(old: Object, new: Object) -> None:
        process_update(gc.graph, old, new)

    def on_delete(gone: Any) -> None:
        obj = getattr(gone, "obj", gone)
        process_delete(gc.graph, identity_of(obj))

    informers.informer(kind).add_event_handler(
        on_add=on_add, on_update=on_update, on_delete=on_delete
    )


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """The collector has this fault."""
    monkeypatch.setattr(garbagecollector, "monitor", forgets_what_was_there)


@pytest.mark.usefixtures("forgetful")
def test_a_collector_that_forgets_in_a_crash_is_found() -> None:
    sample = SAMPLES["gc-chain"]
    (point, _) = check_points(sample, "crash", [1, 2])
    assert [f.what for f in point.failures] == ["end"]
    assert point.failures[0].text.startswith("ConfigMap/c is too much: ")
    assert point.failed
    assert not unexplained(check_points(sample, "drop", [1, 2]))


def test_a_controller_without_expectations_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        UIDTrackingControllerExpectations, "satisfied_expectations", lambda self, key: True
    )
    monkeypatch.setattr(ConsistencyStore, "ensure_ready", lambda self, owner, *more: None)
    points = check_points(SAMPLES["rs-pod-deleted"], "drop", [1, 2, 3])
    assert {f.what for p in points for f in p.failures} == {"size"}


def test_a_controller_that_breaks_down_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def monitor(gc: Any, informers: Any, kind: Any) -> None:
        raise ValueError("broken")

    sample = SAMPLES["gc-chain"]
    before = check_points(sample, "crash", [1])
    monkeypatch.setattr(garbagecollector, "monitor", monitor)
    with pytest.raises(ValueError, match="broken"):
        check_point(sample, "crash", 1)
    assert not unexplained(before)


@pytest.mark.usefixtures("forgetful")
def test_the_smallest_scenario_shows_the_failure(tmp_path: Path) -> None:
    sample = SAMPLES["rs-delete-foreground"]
    point = check_point(sample, "crash", 7)
    assert point.failed
    more = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "beside"}}
    bigger = replace(sample, raw={**sample.raw, "objects": [*sample.raw["objects"], more]})
    small, found = shrink(bigger, check_point(bigger, "crash", 7))
    assert small.raw["objects"] == sample.raw["objects"]
    assert small.raw["actions"] == sample.raw["actions"]
    text = scenario_file(small, found)
    assert text.startswith("# crash after write 7: the manager is killed")
    scenario = parse_scenario(load_documents(text)[0])
    assert run_to_end(scenario).state != run_to_end(sample.scenario()).state


def test_an_action_that_had_to_wait_moves_in_the_file() -> None:
    sample = SAMPLES["rs-pod-deleted"]
    failure = Failure("end", "something")
    point = Point(sample.id, "crash", 3, (failure,), (("actions[0]", 99.0),))
    (document,) = load_documents(scenario_file(sample, point))
    assert [a["at"] for a in document.raw["actions"]] == [99.0]
    assert document.raw["faults"] == faults_after("crash", 3)


# ---- the command


def test_the_command_counts_points(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    table = tmp_path / "table.json"
    words = ["--only", "gc-chain", "gc-orphan", "--kind", "crash", "drop", "--jobs", "1"]
    assert main([*words, "--points", "1", "--table", str(table)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["ok", "gc-chain", "crash", "1", "drop", "1"]
    assert lines[-1] == "4 points, 0 failed"
    document = json.loads(table.read_text(encoding="utf-8"))
    assert (document["points"], document["failed"]) == (4, 0)
    assert [row["id"] for row in document["scenarios"]] == ["gc-chain", "gc-orphan"]


@pytest.mark.usefixtures("forgetful")
def test_the_command_fails_with_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["--only", "gc-chain", "--kind", "crash", "--jobs", "1", "--out", str(tmp_path)]
    assert main(words) == 1
    out = capsys.readouterr().out
    assert out.startswith("FAILED  gc-chain ") and out.endswith("2 points, 1 failed\n")
    assert "    crash 1: end: ConfigMap/c is too much" in out
    (path,) = tmp_path.iterdir()
    assert f"crash, end: kcm-lite simulate {path}" in out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--only", "zz-*"], "--only: no scenario matches zz-*"),
        (["--points", "0"], "argument --points: got 0, want a whole number >= 1"),
        (["--jobs", "x"], "argument --jobs: got x, want a whole number >= 1"),
        (["--kind", "fire"], "argument --kind: invalid choice: 'fire'"),
    ],
)
def test_the_command_refuses_what_makes_no_sense(
    capsys: pytest.CaptureFixture[str], words: list[str], text: str
) -> None:
    try:
        code = main(words)
    except SystemExit as end:
        code = int(end.code or 0)
    assert code == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("n", "most", "expected"),
    [(3, None, [1, 2, 3]), (3, 5, [1, 2, 3]), (9, 3, [1, 5, 9]), (9, 1, [1]), (0, 3, [])],
)
def test_points_are_spread_evenly(n: int, most: int | None, expected: list[int]) -> None:
    assert spread(n, most) == expected


# ---- what is explained, and the table of the book


@pytest.mark.parametrize(
    ("name", "kind", "what", "text"),
    [
        ("rs-create-3", "crash", "size", "size: ReplicaSet/web has 4 active pods, may have 3"),
        ("rs-create-3", "drop", "size", "size: ReplicaSet/web has 4 active pods, may have 3"),
        ("rs-create-3", "stale", "end", "ReplicaSet/web: status.replicas=2, not 3"),
        ("rs-create-3", "stale", "end", "ReplicaSet/web: status.readyReplicas=2, not 3"),
        ("job-5-2", "crash", "end", "Job/job: with status.failed=1"),
        ("job-5-2", "stale", "end", "Job/job: without status.conditions.Complete=True"),
        ("job-5-2", "stale", "counts", "counts: Job/job counts a pod twice: u"),
    ],
)
def test_what_must_not_happen_is_not_explained(name: str, kind: str, what: str, text: str) -> None:
    assert explained_by(SAMPLES[name], kind, what, text) == ""


def table() -> dict[str, Any]:
    """The table that the book shows."""
    document: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return document


def test_the_table_of_the_book_has_every_scenario_and_point_and_no_failure() -> None:
    rows = {row["id"]: row for row in table()["scenarios"]}
    stale = f"stale: python -m tests.convergence --table book/data/{TABLE.name} --only ..."
    assert list(rows) == list(SAMPLES), stale
    for name, row in rows.items():
        assert row["points"] == dict.fromkeys(KINDS, row["writes"]), name
        assert row["failed"] == 0, name
    for name in CHOSEN:
        assert rows[name]["writes"] == run_to_end(SAMPLES[name].scenario()).writes, stale


def test_every_explanation_is_needed() -> None:
    entries = table()["explained"]
    assert [e["name"] for e in entries] == [e.name for e in EXPLAINED]
    assert all(e["points"] > 0 for e in entries)
    assert max(Counter(e.name for e in EXPLAINED).values()) == 1


def test_a_table_keeps_the_scenarios_that_were_not_run() -> None:
    def row(name: str, points: list[Point]) -> Row:
        return Row.of(SAMPLES[name], 7, [], points)

    first = EXPLAINED[0].name
    explained = Point(
        "gc-chain", "crash", 1, (Failure("end", "x", first), Failure("end", "y", first))
    )
    bad = Point("gc-orphan", "drop", 1, (Failure("end", "x"),))
    before = table_document([row("gc-orphan", [bad]), row("gc-chain", [])], ["crash"])
    after = json.loads(table_document([row("gc-chain", [explained])], ["crash"], before))
    assert [(r["id"], r["points"], r["failed"]) for r in after["scenarios"]] == [
        ("gc-chain", {"crash": 1}, 0),
        ("gc-orphan", {"drop": 1}, 1),
    ]
    assert (after["points"], after["failed"]) == (2, 1)
    assert after["explained"][0]["points"] == 1


def test_a_scenario_that_breaks_a_promise_without_faults_fails() -> None:
    row = Row.of(SAMPLES["gc-chain"], 1, ["size: too many"], [])
    assert row.failed == 1
    assert "    without faults: size: too many" in row.line()


def sample_of(raw: dict[str, Any]) -> Sample:
    return Sample("x", "case", raw)


def test_only_what_is_really_there_excuses_other_victims() -> None:
    text = "ReplicaSet/web: status.readyReplicas=2, not 3"
    alike = sample_of({"objects": [{"kind": "ReplicaSet"}]})
    unlike = sample_of({"objects": [{"kind": "ReplicaSet"}], "kubelet": {"overrides": [{}]}})
    found: Callable[[Sample], str] = lambda s: explained_by(s, "stale", "end", text)  # noqa: E731
    assert (found(alike), found(unlike)) == ("", "other victims after an old view")
