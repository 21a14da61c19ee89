"""Public bug reports and questions with known answers: the scenarios of ``book/cases``."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from kcm_lite.api.yaml import load_documents
from kcm_lite.sim.scenario import Run, Scenario, parse_scenario, run_scenario
from kcm_lite.trace import ApiWrite, ExpectationChange, SyncEnd, SyncStart
from tests.golden.replay import OWN

CASES = sorted((Path(__file__).parents[1] / "book" / "cases").glob("*.yaml"))
REPORTS = (
    "RS-OVERCREATE",
    "RS-SCALEDOWN-LOG",
    "RS-NODE-SPREAD",
    "RS-SLOWSTART-QUOTA",
    "RS-MINREADY",
    "RS-EXPECT-DELETE",
    "RS-RECREATE-SAME-NAME",
    "DEP-FENCEPOST",
    "DEP-SURGE-TERMINATING",
    "DEP-PROGRESS-DEADLINE",
    "DEP-NO-DEADLINE-OUTSIDE-ROLLOUT",
    "DEP-HASH-COLLISION",
    "DEP-OVERLAP",
    "DEP-HISTORY",
    "DEP-UNDO-REVISION",
    "DEP-RECREATE",
    "JOB-WAVES",
    "JOB-DEADLINE-FIRST",
    "JOB-IGNORE-BACKOFF",
    "JOB-DELETE-BY-HAND",
    "JOB-SUCCESSPOLICY-TERMINATING",
    "JOB-SUSPEND-DEADLINE",
    "JOB-TTL0",
    "JOB-INDEXED-ELASTIC",
    "JOB-PER-INDEX",
    "JOB-FAILJOB",
    "WQ-ADD-PLUS-DELAYED",
    "WQ-BUCKET",
    "WQ-SPURIOUS-FAILS",
    "WQ-DIRTY",
    "GC-CROSS-NS",
    "GC-PROPAGATION",
)
"""Those about a library call have no scenario: see ``test_cases_library.py``."""


def read(path: Path) -> Scenario:
    document = load_documents(path.read_text(encoding="utf-8"), path.name)[0]
    return parse_scenario(document)


@cache
def ran(stem: str) -> Run:
    return run_scenario(read(next(path for path in CASES if path.stem == stem)))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_known_answer_comes_out(path: Path) -> None:
    run = run_scenario(read(path), detail=False)
    wrong = [
        f"{o.expectation.where}: {o.expectation.text}: found {o.found} at {o.t:g} s"
        for o in run.outcomes
        if not o.ok
    ]
    assert run.outcomes, "the case expects nothing"
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_says_where_it_was_reported_and_what_it_teaches(path: Path) -> None:
    case = read(path)
    assert case.id == f"case-{path.stem}"
    assert case.title and case.controller and case.reference
    assert 100 <= len(case.lesson) <= 600
    assert len(case.lesson.splitlines()) == 1, "one paragraph"


def test_a_case_shares_its_id_with_no_recorded_run() -> None:
    ids = [read(path).id for path in CASES]
    assert len({*ids}) == len(ids)
    assert not {*ids} & {path.stem for path in (OWN / "scenarios").glob("*.yaml")}


def test_every_report_about_what_there_is_has_a_case() -> None:
    stems = [path.stem for path in CASES]
    missing = [r for r in REPORTS if not any(s.startswith(r.lower()) for s in stems)]
    assert not missing
    strays = [s for s in stems if not any(s.startswith(r.lower()) for r in REPORTS)]
    assert not strays


# ---- what a scenario cannot say


def test_a_refused_batch_takes_back_what_it_left_out() -> None:
    trace = ran("rs-slowstart-quota").cluster.trace
    changes = [(c.op, c.add) for c in trace.of(ExpectationChange)]
    assert changes[0] == ("expect", 100)
    assert changes[5:7] == [("creation_observed", 95), ("lower", 0)]


def test_every_later_sync_tries_one_pod() -> None:
    trace = ran("rs-slowstart-quota").cluster.trace
    tries: list[int] = []
    for record in trace.records:
        if isinstance(record, SyncStart):
            tries.append(0)
        elif isinstance(record, ApiWrite) and record.agent == "replicaset-controller":
            tries[-1] += (record.resource, record.verb) == ("pods", "create")
    assert tries[0] == 7 and {*tries[1:]} == {1} and len(tries) > 10


def test_deletions_that_were_seen_are_counted_once() -> None:
    changes = list(ran("rs-expect-delete").cluster.trace.of(ExpectationChange))
    deletions = [(round(c.t), c.op, c.dele) for c in changes if c.t > 10]
    assert deletions == [
        (10, "expect", 2),
        (10, "deletion_observed", 1),
        (10, "deletion_observed", 0),
        (15, "expect", 1),
        (15, "deletion_observed", 0),
    ]  # and nothing at 40 and 45, when the pods are gone


def test_a_key_is_never_in_two_hands() -> None:
    busy: set[str] = set()
    for record in ran("wq-dirty").cluster.trace.records:
        if isinstance(record, SyncStart):
            assert record.key not in busy
            busy.add(record.key)
        elif isinstance(record, SyncEnd):
            busy.remove(record.key)
    assert not busy


@pytest.mark.parametrize("seed", range(8))
def test_of_two_pods_of_one_age_class_the_smaller_uid_goes(seed: int) -> None:
    scenario = read(next(path for path in CASES if path.stem == "rs-scaledown-log"))
    cluster = run_scenario(replace(scenario, seed=seed)).cluster
    made = {w.name: w.new for w in cluster.trace.of(ApiWrite, resource="pods", verb="create")}
    uids = {name: obj.metadata.uid for name, obj in made.items() if obj and name in ("b", "c")}
    deleted = cluster.trace.of(
        ApiWrite, resource="pods", verb="delete", agent="replicaset-controller"
    )
    assert [w.name for w in deleted] == ["a", min(uids, key=lambda name: uids[name])]
