"""The recorded runs of a real control plane, replayed; and the comparison itself, tested."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kcm_lite.api.yaml import load_documents
from kcm_lite.sim.cluster import START
from kcm_lite.sim.scenario import parse_scenario, run_scenario
from tests.golden.__main__ import main
from tests.golden.compare import compare
from tests.golden.normalize import normalize
from tests.golden.replay import OWN, Recording, Result, find_runs, load, replay, score_document

RUNS = find_runs(OWN, ["*"])
FIDELITY = Path(__file__).parents[1] / "book" / "data" / "fidelity_golden.json"


@cache
def result_of(run: Recording) -> Result:
    return replay(run)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.id)
def test_recorded_run_is_reproduced(run: Recording) -> None:
    result = result_of(run)
    assert result.status == "passed", "\n".join([result.line(), *result.differences(20)])


def test_exemptions_are_few() -> None:
    """An exemption is for a tie that the recording shows, not a way to pass."""
    exempt = {
        (run.id, part.name, part.exempt)
        for run in RUNS
        if (verdict := result_of(run).verdict) is not None
        for part in verdict.strict
        if part.exempt
    }
    assert exempt <= {
        ("dep-pod-deleted", "writes", "controllers in one instant"),
        ("qps-dep-60", "final", "steps by chance"),
    } | {
        (run, part, "peers in one instant")
        for run in ("rs-down-created", "rs-down-restarts")
        for part in ("writes", "objects/ReplicaSet/web")
    } | {
        (run, part, "a sync in the instant of a change")
        for run in (
            "job-fail-once",
            "job-onfailure",
            "job-onfailure-limit",
            "job-pfp-count",
            "job-ttl-0",
            "job-ttl-5",
            "job-ttl-failed",
        )
        for part in ("writes", "objects/Job/job")
    } | {("job-delete-background", "writes.set", "collector in one instant")}


def test_the_page_on_fidelity_shows_this_score() -> None:
    fresh = score_document([result_of(run) for run in RUNS])
    told = FIDELITY.read_text(encoding="utf-8")
    assert told == fresh, f"stale: python -m tests.golden --score book/data/{FIDELITY.name}"


@pytest.fixture(scope="module")
def pair() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """A scenario, its recording, and our run of it."""
    document = load_documents((OWN / "scenarios" / "rs-pod-deleted.yaml").read_text())[0]
    run = run_scenario(parse_scenario(document), detail=False)
    ours = normalize(run.cluster.trace, namespace=run.scenario.id, start=START)
    golden = load(OWN / "golden" / "rs-pod-deleted.json.gz")
    return dict(document.raw), golden, ours


def spoilt(ours: dict[str, Any], *path: Any, value: Any) -> dict[str, Any]:
    """A copy with another value at a path; ``...`` as the value removes what is there."""
    out = copy.deepcopy(ours)
    place = out
    for key in path[:-1]:
        place = place[key]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return out


def test_the_comparison_passes_what_is_equal(pair: Any) -> None:
    assert compare(*pair).ok


@pytest.mark.parametrize(
    ("path", "value", "part"),
    [
        (("writes", 0), ..., "writes.effects"),
        (("pods", 0, "node"), "node-9", "pods"),
        (("pods", 1, "deletedBy"), "kubelet", "pods"),
        (("events", 0, "message"), "Created pod: web-p9", "events.set"),
        (("final", "ReplicaSet/web", "status", "readyReplicas"), 2, "final"),
        (("final", "Pod/web-p1"), ..., "final"),
        (("objects", "ReplicaSet/web", -1, "state", "generation"), 7, "settled/ReplicaSet/web"),
    ],
)
def test_the_comparison_finds_a_difference(
    pair: Any, path: tuple[Any, ...], value: Any, part: str
) -> None:
    scenario, golden, ours = pair
    verdict = compare(scenario, golden, spoilt(ours, *path, value=value))
    assert not verdict.ok
    bad = [p.name for p in verdict.fair if not p.ok]
    assert bad == [part]
    assert all(p.note for p in verdict.fair if not p.ok)


def test_the_comparison_finds_a_write_that_is_late(pair: Any) -> None:
    scenario, golden, ours = pair
    late = spoilt(ours, "pods", 0, "ready", value=ours["pods"][0]["ready"] + 5.7)
    verdict = compare(scenario, golden, late)
    assert not verdict.ok
    assert all(p.ok for p in verdict.fair)
    assert [p.name for p in verdict.fair if p.late] == ["pods"]


def test_a_status_that_passes_through_other_counts_is_only_strictly_different(pair: Any) -> None:
    scenario, golden, ours = pair
    at = next(i for i, w in enumerate(ours["writes"]) if w["resource"] == "replicasets/status")
    verdict = compare(scenario, golden, spoilt(ours, "writes", at, value=...))
    assert not verdict.ok
    assert all(p.ok for p in verdict.fair)
    assert [p.name for p in verdict.strict if not p.ok] == ["writes"]


# ---- the command


def recording(tmp_path: Path, change: dict[str, Any] | None = None) -> Path:
    """A directory with one run, its scenario changed."""
    for folder in ("scenarios", "golden"):
        (tmp_path / folder).mkdir()
    raw = load_documents((OWN / "scenarios" / "rs-create-3.yaml").read_text())[0].raw
    text = json.dumps({**raw, **(change or {})})
    (tmp_path / "scenarios" / "rs-create-3.yaml").write_text(text)
    golden = json.dumps(load(OWN / "golden" / "rs-create-3.json.gz"))
    (tmp_path / "golden" / "rs-create-3.json").write_text(golden)
    return tmp_path


def test_command_prints_a_line_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(recording(tmp_path))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("passed  rs-create-3 ")
    assert "strict 5/5" in lines[0] and "fair 6/6" in lines[0] and "times 4/4" in lines[0]
    assert lines[-2:] == ["0 skipped", "1 passed, 0 failed"]


def test_command_fails_with_the_first_differences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = recording(tmp_path, {"kubelet": {"readyAfter": 4, "gap": 1}})
    assert main([str(root)]) == 1
    out = capsys.readouterr().out
    assert out.startswith("failed  rs-create-3")
    assert "time: pods: web ready #0 at 2.5 in the recording, at 5.5 with us" in out
    assert out.endswith("0 passed, 1 failed\n")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"controller": "widget"}, "not built: controller widget"),
        (
            {"actions": [{"at": 1, "do": "scale", "kind": "Widget", "name": "x", "replicas": 1}]},
            "not built: kind Widget",
        ),
    ],
)
def test_command_skips_what_is_not_built(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], reason: str
) -> None:
    assert main([str(recording(tmp_path, change))]) == 0
    out = capsys.readouterr().out
    assert out.startswith("skipped rs-create-3")
    assert reason in out
    assert out.endswith("1 skipped\n0 passed, 0 failed\n")


def test_a_scenario_that_is_wrong_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(recording(tmp_path, {"until": "soon"}))]) == 1
    assert 'until: got "soon", want seconds' in capsys.readouterr().out


@pytest.mark.parametrize("which", ["scenarios/rs-create-3.yaml", "golden/rs-create-3.json"])
def test_a_file_that_cannot_be_read_fails_its_run_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], which: str
) -> None:
    root = recording(tmp_path)
    (root / which).write_text('{"a": [')
    assert main([str(root)]) == 1
    out = capsys.readouterr().out
    assert out.startswith("failed  rs-create-3 ") and "Error: " in out
    assert out.endswith("0 passed, 1 failed\n")


def test_a_run_that_crashes_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = {"at": 1, "do": "scale", "kind": "ReplicaSet", "name": "nope", "replicas": 1}
    assert main([str(recording(tmp_path, {"actions": [gone]}))]) == 1
    assert (
        'ActionFailed: actions[0] (scale at 1): replicasets.apps "nope"' in capsys.readouterr().out
    )


def test_command_refuses_a_directory_without_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path)]) == 2
    assert "no scenarios/ID.yaml there" in capsys.readouterr().err
    assert main([str(recording(tmp_path)), "--only", "zz-*"]) == 2
    assert "no run matches zz-*" in capsys.readouterr().err
    (tmp_path / "golden" / "rs-create-3.json").unlink()
    assert main([str(tmp_path)]) == 2
    assert "missing for rs-create-3" in capsys.readouterr().err


def test_score_is_written_only_where_told(tmp_path: Path) -> None:
    root = recording(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert main([str(root)]) == 0
    assert sorted(tmp_path.rglob("*")) == before
    target = tmp_path / "score.json"
    assert main([str(root), "--score", str(target)]) == 0
    document = json.loads(target.read_text())
    assert (document["passed"], document["failed"], document["skipped"]) == (1, 0, 0)
    assert document["runs"][0]["strict"] == [5, 5]
