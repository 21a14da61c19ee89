from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("plotly")

from kcm_lite.sim.check import BadInput
from kcm_lite.viz.cases import (
    LINES,
    STEPS,
    case_figure,
    case_readout,
    pods_over_time,
    read_cases,
    summed,
    writes_over_time,
)
from kcm_lite.viz.show import WIDTH
from tests.cases_page import PAGE, linked, page
from tests.sim_support import replica_set, run

QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "q"},
    "spec": {"hard": {"pods": "2"}},
}
RUN = run(
    objects=[QUOTA, replica_set(3)],
    title="A title",
    lesson="A lesson.",
    actions=[{"at": 10, "do": "deletePod", "pick": "oldest"}],
    kubelet={"terminationGrace": 4},
    expect=[{"pods": {"ready": True}, "count": 2}, {"pods": {}, "count": 9}],
)


def test_pods_over_time() -> None:
    curves = pods_over_time(RUN)
    assert set(curves) == {"ready", "not ready", "on their way out", "ended"}  # and then gone
    assert curves["ready"][0] == (0.0, 0) and curves["ready"][-1] == (20.0, 2)
    assert max(count for _, count in curves["ready"]) == 2
    assert [count for _, count in curves["on their way out"]] == [0, 1, 0, 0]
    assert [round(t) for t, _ in curves["on their way out"]] == [0, 10, 14, 20]


def test_writes_over_time_are_those_of_controllers() -> None:
    curves = writes_over_time(RUN)
    assert curves["refused"][-1][1] >= 3 and curves["accepted"][-1][1] >= 4
    for steps in curves.values():
        assert [count for _, count in steps] == sorted(count for _, count in steps)


def test_a_curve_has_few_steps() -> None:
    steps = summed([(n / 100, 1) for n in range(10_000)], 100.0)
    assert steps[-1] == (100.0, 10_000) and len(steps) <= STEPS + 2
    assert summed([], 5.0) == [(0.0, 0), (5.0, 0)]


def test_the_figure_has_a_curve_of_each_kind() -> None:
    names = [trace.name for trace in case_figure(RUN).data]
    assert names == ["ready", "not ready", "on their way out", "ended", "accepted", "refused"]


def test_the_readout_is_short_and_says_what_was_expected() -> None:
    lines = case_readout(RUN).splitlines()
    assert lines[:3] == ["A title (release 1.36)", "", "A lesson."]
    assert any(line.startswith("FAILED expect[1]") for line in lines)
    assert lines[-1] == "1 of 2 expectations held"
    assert all(len(line) <= WIDTH for line in lines)
    left_out = [line for line in lines if line.endswith("more lines ...")]
    assert len(left_out) == 1 and lines.index(left_out[0]) == 4 + LINES // 2


def test_a_broken_case_is_named(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text("{id: good, until: 1, objects: []}")
    assert list(read_cases(tmp_path)) == ["good"]
    (tmp_path / "bad.yaml").write_text("{id: bad, until: 1, objcts: []}")
    with pytest.raises(BadInput, match=r"bad\.yaml.*objcts"):
        read_cases(tmp_path)


# ---- the page that lists the cases


def test_the_page_says_what_the_files_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tests.cases_page"


@pytest.mark.parametrize(
    ("reference", "link"),
    [
        ("https://github.com/a/b/issues/3", "[a/b#3](https://github.com/a/b/issues/3)"),
        ("https://github.com/a/b/pull/3 (open)", "[a/b#3](https://github.com/a/b/pull/3) (open)"),
        ("https://x.io/y/", "[x.io/y](https://x.io/y/)"),
        ("a colleague", "a colleague"),
    ],
)
def test_a_reference_is_a_link_if_it_can_be(reference: str, link: str) -> None:
    assert linked(reference) == link
