"""The case library in figures and lines: what a scenario's run came to, briefly."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from kcm_lite.api.yaml import load_documents
from kcm_lite.sim.counted import ASIDE, CONTROLLER_AGENTS
from kcm_lite.sim.scenario import Run, Scenario, parse_scenario
from kcm_lite.sim.simulate import expectations
from kcm_lite.sim.timeline import timeline
from kcm_lite.trace import ApiWrite
from kcm_lite.viz.frames import pod_states
from kcm_lite.viz.show import WIDTH

STATES = {
    "ready": ("ready", "#2a78b5"),
    "unscheduled": ("not ready", "#d98c21"),
    "pending": ("not ready", "#d98c21"),
    "running": ("not ready", "#d98c21"),
    "terminating": ("on their way out", "#b03030"),
    "succeeded": ("ended", "#7a7a7a"),
    "failed": ("ended", "#7a7a7a"),
}
ANSWERS = {True: ("accepted", "#2e8b57"), False: ("refused", "#b03030")}
STEPS = 240
"""A curve has so many steps at most: what happens within one is not told apart."""
LINES = 12
"""Lines of a timeline that a readout shows."""

Steps = list[tuple[float, int]]


def read_cases(folder: str | Path) -> dict[str, Scenario]:
    """Read every scenario file of a folder, by the file's name without its ending."""
    return {
        path.stem: parse_scenario(load_documents(path.read_text("utf-8"), path.name)[0])
        for path in sorted(Path(folder).glob("*.yaml"), key=lambda path: path.stem)
    }


def pods_over_time(run: Run) -> dict[str, Steps]:
    """Return how many pods were ready, not ready, on their way out, ended, at each change."""
    spans = pod_states(run.cluster.trace, end=run.scenario.until)
    changes: dict[str, list[tuple[float, int]]] = {}
    for state, start, end in zip(spans["state"], spans["start"], spans["end"], strict=True):
        marks = changes.setdefault(STATES[state][0], [])
        marks += [(start, 1), *([(end, -1)] if end < run.scenario.until else [])]
    return {name: summed(sorted(marks), run.scenario.until) for name, marks in changes.items()}


def writes_over_time(run: Run) -> dict[str, Steps]:
    """Return how many writes the controllers had made, accepted and refused ones, at each change.

    Events and Leases do not count.
    """
    agents = set(CONTROLLER_AGENTS.values())
    marks: dict[str, list[tuple[float, int]]] = {}
    for write in run.cluster.trace.of(ApiWrite):
        if write.agent in agents and write.resource not in ASIDE:
            marks.setdefault(ANSWERS[write.code < 300][0], []).append((write.t, 1))
    return {name: summed(found, run.scenario.until) for name, found in marks.items()}


def summed(changes: Iterable[tuple[float, int]], end: float) -> Steps:
    """Return a sum at its changes, from 0 to the end, at most `STEPS` of them."""
    total, steps = 0, {0.0: 0}
    width = end / STEPS
    for t, change in changes:
        total += change
        steps[round(int(t / width) * width, 3)] = total
    return [*steps.items(), (end, total)]


def case_figure(run: Run) -> go.Figure:
    """Draw the pods of a run and what the controllers wrote, over time."""
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.08)
    rows = [(pods_over_time(run), STATES.values()), (writes_over_time(run), ANSWERS.values())]
    for row, (curves, looks) in enumerate(rows, 1):
        for name, colour in dict(looks).items():
            steps = curves.get(name, [])
            figure.add_scatter(
                x=[t for t, _ in steps],
                y=[count for _, count in steps],
                name=name,
                mode="lines",
                line={"shape": "hv", "color": colour, "width": 2},
                row=row,
                col=1,
            )
    figure.update_layout(
        height=380,
        margin={"l": 60, "r": 16, "t": 8, "b": 44},
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
        template="none",
        font={"size": 13},
    )
    figure.update_xaxes(range=[0, run.scenario.until])
    figure.update_xaxes(title_text="seconds", row=2)
    for row, title in ((1, "pods"), (2, "writes, in all")):
        figure.update_yaxes(title_text=title, rangemode="tozero", row=row)
    return figure


def case_readout(run: Run) -> str:
    """Tell a case in a few lines: what it teaches, what happened, what was expected."""
    case, lines = run.scenario, timeline(run.cluster.trace)
    shown = [clipped(str(line)) for line in lines]
    if len(shown) > LINES:
        half = LINES // 2
        shown[half:-half] = [f"... {len(shown) - LINES} more lines ..."]
    out = [*textwrap.wrap(f"{case.title} (release {case.release})", WIDTH), ""]
    out += [*textwrap.wrap(case.lesson, WIDTH), "", *shown, ""]
    return "\n".join([*out, *map(clipped, expectations(run.outcomes, lines))])


def clipped(line: str) -> str:
    """Cut a line that is too long for the page."""
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 3]}..."
