"""The Explorer: live widgets and the static form agree; bad grids are refused."""

import json
from collections.abc import Callable
from typing import Any

import plotly.graph_objects as go
import pytest

from kcm_lite.viz.explorer import MAX_POINTS, MIME, Control, Explorer


def build(n: int, mode: str = "lines") -> go.Figure:
    """Two traces, three from n = 3 on; markers carry a text."""
    figure = go.Figure(go.Scatter(y=[n, 2 * n], mode=mode), {"title": f"{n}"})
    if mode == "markers":
        figure.data[0].text = ["a", "b"]
    figure.add_scatter(y=[1, 1])
    if n >= 3:
        figure.add_bar(y=[n])
    return figure


@pytest.fixture
def explorer() -> Explorer:
    return Explorer(
        build,
        {"n": range(5), "mode": ["lines", "markers"]},
        start={"n": 2},
        caption="More <is> more.",
        readout=lambda n, mode: f"{n} & {mode}",
    )


def static_figure(spec: dict[str, Any], *indexes: int) -> dict[str, Any]:
    """What the page script draws for a choice."""
    index = 0
    for control, chosen in zip(spec["controls"], indexes, strict=True):
        index = index * len(control["options"]) + chosen
    point = spec["points"][index]
    return {
        "data": [spec["traces"][number] for number in point["data"]],
        "layout": spec["layouts"][point["layout"]],
    }


def test_every_static_point_is_the_figure_that_build_makes(explorer: Explorer) -> None:
    spec = explorer.static_spec()
    assert len(spec["points"]) == 10
    for n in range(5):
        for i, mode in enumerate(["lines", "markers"]):
            expected = json.loads(build(n, mode).to_json())
            expected["layout"].pop("template")
            assert static_figure(spec, n, i) == expected


def test_what_points_have_in_common_is_listed_once(explorer: Explorer) -> None:
    spec = explorer.static_spec()
    assert len(spec["layouts"]) == 5  # the title is n's
    assert len(spec["traces"]) == 10 + 1 + 2  # first trace, the constant one, bars of n = 3, 4
    assert "template" not in json.dumps(spec["layouts"])
    assert spec["template"]["layout"]["colorway"]


def test_static_controls_say_what_can_be_chosen(explorer: Explorer) -> None:
    assert explorer.static_spec()["controls"] == [
        {"label": "n", "kind": "slider", "options": ["0", "1", "2", "3", "4"], "start": 2},
        {"label": "mode", "kind": "select", "options": ["lines", "markers"], "start": 0},
    ]


def test_the_static_form_is_deterministic(explorer: Explorer) -> None:
    assert json.dumps(explorer.static_spec()) == json.dumps(explorer.static_spec())


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2.5], "slider"),
        (["a", "b"], "select"),
        ([True, False], "select"),
        ([1, None], "select"),
        (Control(["a", "b"], kind="slider"), "slider"),
        (Control([1, 2], kind="select"), "select"),
        (Control({"few": 1, "many": 9}), "slider"),
    ],
)
def test_numbers_slide_unless_told_otherwise(values: Any, kind: str) -> None:
    spec = Explorer(None, {"x": values}, readout=lambda x: str(x)).static_spec()
    assert spec["controls"][0]["kind"] == kind


def test_labels_units_and_names() -> None:
    seen: list[object] = []

    def readout(slow_start: Any, base_delay: Any) -> str:
        seen.append((slow_start, base_delay))
        return ""

    explorer = Explorer(
        None,
        {
            "slow_start": Control({"off": None, "on": 1}, label="Slow start"),
            "base_delay": Control([5, 10], unit="ms"),
        },
        readout=readout,
    )
    slow_start, base_delay = explorer.static_spec()["controls"]
    assert (slow_start["label"], slow_start["options"]) == ("Slow start", ["off", "on"])
    assert (base_delay["label"], base_delay["options"]) == ("base delay", ["5 ms", "10 ms"])
    assert seen == [(None, 5), (None, 10), (1, 5), (1, 10)]
    assert repr(explorer) == "Explorer of Slow start (2 values), base delay (2 values)"


def test_live_controls_recompute(explorer: Explorer) -> None:
    n, mode, figure, readout, caption = explorer.widget.children
    assert (type(n).__name__, type(mode).__name__) == ("SelectionSlider", "Dropdown")
    assert "2 &amp; lines" in readout.value and "More &lt;is&gt; more." in caption.value

    def check(expected: go.Figure) -> None:
        shown = json.loads(figure.to_json())
        for trace in shown["data"]:
            trace.pop("uid", None)
        assert shown == json.loads(expected.to_json())

    check(build(2))
    mode.value = 1
    check(build(2, "markers"))
    mode.value = 0
    check(build(2))  # the markers' text is gone again
    n.value = 4
    check(build(4))  # one trace more
    assert "4 &amp; lines" in readout.value
    n.value = 0
    check(build(0))


def test_a_live_readout_needs_no_figure() -> None:
    explorer = Explorer(None, {"x": ["a", "b"]}, readout=lambda x: f"says {x}")
    choice, readout, _ = explorer.widget.children
    choice.value = 1
    assert "says b" in readout.value


def test_a_notebook_shows_the_widget_and_a_static_page_the_grid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("KCM_STATIC_BOOK", raising=False)
    live = Explorer(build, {"n": range(3)})
    assert "application/vnd.jupyter.widget-view+json" in live._repr_mimebundle_()
    monkeypatch.setenv("KCM_STATIC_BOOK", "1")
    static = Explorer(build, {"n": range(3)}, caption="Why.")
    assert static._repr_mimebundle_() == {
        "text/plain": "Explorer of n (3 values): Why.",
        MIME: static.static_spec(),
    }


def test_an_error_in_a_static_point_is_raised_where_the_cell_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KCM_STATIC_BOOK", "1")
    with pytest.raises(ZeroDivisionError):
        Explorer(None, {"x": [1, 0]}, readout=lambda x: str(1 / x))


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Explorer(build, {"n": range(MAX_POINTS + 1)}), "201 grid points; at most 200"),
        (lambda: Explorer(build, {"n": range(20), "mode": range(11)}), "220 grid points"),
        (lambda: Explorer(build, {"n": []}), "n: no values"),
        (
            lambda: Explorer(build, {"n": [1]}, start={"n": 2}),
            "n: the start 2 is none of its values",
        ),
        (lambda: Explorer(build, {"n": [1]}, start={"m": 1}), "start: no parameter named m"),
        (lambda: Explorer(None, {"n": [1]}), "needs a figure or a readout"),
    ],
)
def test_bad_grids_are_refused(make: Callable[[], Explorer], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        make()


def test_the_largest_grid_is_allowed() -> None:
    spec = Explorer(None, {"n": range(MAX_POINTS)}, readout=lambda n: str(n)).static_spec()
    assert len(spec["points"]) == MAX_POINTS
