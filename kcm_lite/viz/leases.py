"""The lease over time: who holds it, who acts under it, and when nobody or two do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import plotly.graph_objects as go

from kcm_lite.sim.replicas import MAIN_LEASE, Replicas

ACTS, LIVES, RENEWS = "#2a78b5", "#bbbbbb", "#10324d"
NOBODY, TWO = "rgba(230, 160, 40, 0.28)", "rgba(200, 40, 40, 0.30)"


def lease_figure(
    replicas: Replicas,
    *,
    start: float = 0.0,
    end: float | None = None,
    marks: Sequence[tuple[float, str]] = (),
) -> go.Figure:
    """Draw a row for each manager: its life, when it acts, and each write of the lease by it.

    Args:
        start, end: Seconds of the run; by default up to now.
        marks: What was done to them, and when.
    """
    end = replicas.cluster.now if end is None else end
    names = list(reversed(replicas.processes))
    spans = [s for s in replicas.spans if s.lease == MAIN_LEASE]
    figure = go.Figure()
    lives = [(n, start, min(end, replicas.ended.get(n, end))) for n in names]
    _bars(figure, lives, "runs", LIVES, 3)
    acts = [(s.replica, max(start, s.start), min(end, s.end or end)) for s in spans]
    _bars(figure, [bar for bar in acts if bar[1] < bar[2]], "acts", ACTS, 16)
    written = [c for c in replicas.changes() if start <= c.t <= end and c.holder]
    figure.add_scatter(
        x=[round(c.t, 2) for c in written],
        y=[c.holder for c in written],
        mode="markers",
        name="writes the lease",
        marker={"size": 6, "color": RENEWS, "symbol": "line-ns", "line": {"width": 2}},
    )
    for spots, colour in ((replicas.gaps(), NOBODY), (replicas.overlaps(), TWO)):
        for begin, stop in spots:
            if begin < end and stop > start:
                figure.add_vrect(
                    x0=max(begin, start),
                    x1=min(stop, end),
                    fillcolor=colour,
                    line_width=0,
                    layer="below",
                )
    for t, text in marks:
        figure.add_vline(x=t, line={"dash": "dot", "width": 1.5, "color": "#555"})
        figure.add_annotation(
            x=t, y=1.0, yref="paper", text=text, yanchor="bottom", showarrow=False
        )
    figure.update_layout(
        height=130 + 44 * len(names),
        margin={"l": 60, "r": 16, "t": 40, "b": 40},
        xaxis={"title": "seconds", "range": [start, end]},
        yaxis={"categoryorder": "array", "categoryarray": names},
        legend={"orientation": "h", "y": -0.35},
    )
    return figure


def _bars(
    figure: go.Figure, bars: Iterable[tuple[str, float, float]], name: str, colour: str, width: int
) -> None:
    """Add horizontal bars as one trace of broken lines."""
    x: list[float | None] = []
    y: list[str | None] = []
    for row, begin, end in bars:
        x += [round(begin, 2), round(end, 2), None]
        y += [row, row, None]
    line = {"width": width, "color": colour}
    figure.add_scatter(x=x, y=y, mode="lines", name=name, line=line, hoverinfo="x+y")
