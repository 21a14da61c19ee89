"""Every vector of upstream's own functions that the project holds, and the replay command."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path

import pytest

from tests.vectors import (
    OWN,
    Score,
    Skip,
    adapters,
    difference,
    files,
    replay,
    same,
    score_document,
    vector_name,
)
from tests.vectors.__main__ import main

FIDELITY = Path(__file__).parents[1] / "book" / "data" / "fidelity_vectors.json"


@cache
def score_of(path: Path) -> Score:
    return replay(path, adapters())


@pytest.mark.parametrize("path", list(files(OWN, [])), ids=vector_name)
def test_vectors(path: Path) -> None:
    score = score_of(path)
    assert score.failed == 0, "\n".join([score.line, *score.differences])


def test_every_built_function_is_replayed() -> None:
    ours = {vector_name(p): p for p in files(OWN, [])}
    built = {*adapters(), *adapters("TABLES")}
    assert built <= set(ours)
    assert {name for name, p in ours.items() if score_of(p).passed} == built


def test_the_page_on_fidelity_shows_this_score() -> None:
    fresh = score_document([score_of(p) for p in files(OWN, [])])
    told = FIDELITY.read_text(encoding="utf-8")
    assert told == fresh, f"stale: python -m tests.vectors --score {FIDELITY.name}"


def write(directory: Path, name: str, cases: list[dict[str, object]]) -> Path:
    path = directory / name
    raw = json.dumps({"function": "f", "cases": cases}).encode()
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return path


def test_replay_counts_passes_failures_crashes_and_skips(tmp_path: Path) -> None:
    def twice(given: dict[str, int]) -> dict[str, int]:
        if given["x"] < 0:
            raise Skip("negative")
        return {"y": 2 * given["x"], "z": 1 // given["x"]}

    path = write(
        tmp_path,
        "twice.json.gz",
        [
            {"in": {"x": 1}, "out": {"y": 2, "z": 1}},
            {"in": {"x": 2}, "out": {"y": 5, "z": 0}},
            {"in": {"x": 0}, "out": {"y": 0, "z": 0}},
            {"in": {"x": -1}, "out": None},
        ],
    )
    score = replay(path, {"twice": twice})
    assert (score.passed, score.failed, dict(score.skipped)) == (1, 2, {"negative": 1})
    assert score.differences[0] == "case 1: .y: wanted 5, got 4"
    assert "ZeroDivisionError" in score.differences[1]
    assert score.line == "twice 1/3 (1 skipped: negative)"


def test_a_function_that_is_not_built_is_skipped(tmp_path: Path) -> None:
    score = replay(write(tmp_path, "later.json", [{"in": {}, "out": 1}]), {})
    assert score.line == "later skipped: not built yet (1)"


def test_true_is_not_one_and_lengths_count() -> None:
    assert not same(True, 1)
    assert not same({"a": [1]}, {"a": [1, 2]})
    assert same([1.0, {"a": None}], [1, {"a": None}])
    assert difference({"a": 1}, {}) == ".a: wanted 1, got nothing"


def test_command_exit_codes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.vectors.__main__.adapters", lambda: {"id": lambda given: given})
    write(tmp_path, "id.json", [{"in": {"a": 1}, "out": {"a": 1}}])
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == ["id 1/1", "1 passed, 0 failed"]
    write(tmp_path, "id.json", [{"in": {"a": 1}, "out": {"a": 2}}])
    write(tmp_path, "other.json", [{"in": {}, "out": 2}])
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "0 passed, 1 failed, 1 skipped"
    assert main([str(tmp_path), "--only", "oth*"]) == 0
    assert capsys.readouterr().out.startswith("other skipped")
    assert main([str(tmp_path), "--only", "none"]) == 2
    assert main([str(tmp_path / "absent")]) == 2


def test_a_file_that_cannot_be_used_fails_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.vectors.__main__.adapters", lambda: {"d": lambda given: given})
    (tmp_path / "a.json").write_text("{")
    (tmp_path / "b.json.gz").write_bytes(b"not packed")
    (tmp_path / "c.json").write_text("[]")
    (tmp_path / "d.json").write_text(json.dumps({"cases": [{"in": 1, "out": 1}, {"in": 2}]}))
    assert main([str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "a 0/1\n    cannot be used: JSONDecodeError: " in out
    assert "b 0/1\n    cannot be used: BadGzipFile: " in out
    assert "d 1/2\n    cannot be used: KeyError: 'out'" in out
    assert out.endswith("1 passed, 3 failed, 1 skipped\n")
