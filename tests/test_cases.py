"""Public bug reports and questions with known answers, as scenarios that say what is expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcm_lite.api.yaml import load_documents
from kcm_lite.sim.scenario import parse_scenario, run_scenario

CASES = sorted((Path(__file__).parents[1] / "book" / "cases").glob("*.yaml"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_known_answer_comes_out(path: Path) -> None:
    document = load_documents(path.read_text(encoding="utf-8"), path.name)[0]
    run = run_scenario(parse_scenario(document), detail=False)
    wrong = [
        f"{o.expectation.where}: {o.expectation.text}: found {o.found} at {o.t:g} s"
        for o in run.outcomes
        if not o.ok
    ]
    assert run.outcomes, "the case expects nothing"
    assert not wrong, "\n".join(wrong)
