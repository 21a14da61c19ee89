"""Space-time diagrams: who told whom what, in order, drawn from the trace.

Lanes stand side by side, time runs down, one numbered arrow a step. The steps are placed in order,
not to scale, because milliseconds and minutes meet in one picture; the axis tells the times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from kcm_lite.trace import (
    ApiWrite,
    Decision,
    Delivery,
    ExpectationChange,
    Note,
    QueueOp,
    Record,
    SyncEnd,
    SyncStart,
)

API, CACHE, QUEUE, USER = "API server", "cache", "queue", "user"
ARROW = "#2a78b5"
SELF = "#c2571a"


@dataclass(frozen=True, slots=True)
class Step:
    """One arrow: at ``t`` seconds ``source`` tells ``target`` something.

    Equal lanes: a step that somebody makes alone.
    """

    t: float
    source: str
    target: str
    text: str


def step_of(record: Record) -> Step | None:
    """Return the arrow of one record, or None if it is not drawn."""
    match record:
        case ApiWrite():
            what = (
                f"{record.resource}/{record.subresource}" if record.subresource else record.resource
            )
            text = f"{record.verb} {what} {record.name}"
            if record.code >= 300:
                text += f": refused, {record.code}"
            return Step(record.t, record.agent, API, text)
        case Delivery():
            return Step(record.t, API, CACHE, f"{record.type} {record.resource} {record.key}")
        case QueueOp(op="add" | "add_after" | "add_rate_limited"):
            late = f" in {record.delay:g} s" if record.delay else ""
            return Step(record.t, CACHE, QUEUE, f"{record.op} {record.key}{late}")
        case SyncStart():
            return Step(
                record.t, QUEUE, record.controller, f"worker {record.worker} takes {record.key}"
            )
        case SyncEnd():
            how = f"failed: {record.error}" if record.error else "done"
            return Step(
                record.t, record.controller, record.controller, f"sync of {record.key} {how}"
            )
        case ExpectationChange():
            text = f"expectation {record.op}: {record.add} to add, {record.dele} to go"
            return Step(record.t, record.controller, record.controller, text)
        case Decision():
            return Step(
                record.t, record.controller, record.controller, f"{record.what}: {record.reason}"
            )
        case Note():
            return Step(record.t, USER, USER, record.text)
    return None


def steps(
    records: Iterable[Record],
    *,
    start: float = 0.0,
    end: float = float("inf"),
    keep: Callable[[Record], bool] = lambda record: True,
) -> list[Step]:
    """Return the arrows of the records from ``start`` to ``end`` seconds that ``keep`` accepts."""
    wanted = (r for r in records if start <= r.t <= end and keep(r))
    return [step for step in map(step_of, wanted) if step is not None]


def lanes_of(arrows: Sequence[Step]) -> list[str]:
    """Return the lanes in reading order: people, API server, cache, queue, then who else acts."""
    seen = dict.fromkeys(lane for s in arrows for lane in (s.source, s.target))
    fixed = [lane for lane in (USER, API, CACHE, QUEUE) if lane in seen]
    return fixed + [lane for lane in seen if lane not in fixed]


def space_time(arrows: Sequence[Step], *, lanes: Sequence[str] = ()) -> go.Figure:
    """Draw the arrows, numbered; hovering over a number tells the step.

    Args:
        arrows: The steps, in order; `steps` makes them from a trace.
        lanes: Their order from left to right; by default `lanes_of`.
    """
    order = list(lanes or lanes_of(arrows))
    at = {lane: i for i, lane in enumerate(order)}
    rows = range(1, len(arrows) + 1)
    figure = go.Figure()
    for i in range(len(order)):
        figure.add_shape(
            type="line",
            layer="below",
            x0=i,
            x1=i,
            y0=0,
            y1=len(arrows) + 0.5,
            line={"width": 1, "color": "#999"},
        )
    told = [(row, a) for row, a in zip(rows, arrows, strict=True) if a.source != a.target]
    figure.add_scatter(  # lines and heads are traces: annotations would hide the numbers
        x=[x for _, a in told for x in (at[a.source], at[a.target], None)],
        y=[y for row, _ in told for y in (row, row, None)],
        mode="lines",
        line={"width": 1.6, "color": ARROW},
        hoverinfo="skip",
        showlegend=False,
    )
    figure.add_scatter(
        x=[at[a.target] for _, a in told],
        y=[row for row, _ in told],
        mode="markers",
        marker={
            "symbol": "arrow",
            "size": 9,
            "color": ARROW,
            "angle": [90 if at[a.target] > at[a.source] else -90 for _, a in told],
        },
        hoverinfo="skip",
        showlegend=False,
    )
    middle = [(at[a.source] + at[a.target]) / 2 for a in arrows]
    figure.add_scatter(
        x=middle,
        y=list(rows),
        mode="markers+text",
        text=[str(row) for row in rows],
        textfont={"color": "white", "size": 10},
        marker={"size": 19, "color": [SELF if a.source == a.target else ARROW for a in arrows]},
        customdata=[f"{a.t:.3f} s, {a.source} to {a.target}: {a.text}" for a in arrows],
        hovertemplate="%{customdata}<extra></extra>",
        showlegend=False,
    )
    figure.update_layout(
        height=134 + 27 * len(arrows),
        margin={"l": 62, "r": 16, "t": 70, "b": 16},
        xaxis={
            "tickvals": list(range(len(order))),
            "ticktext": lane_labels(order),
            "side": "top", "range": [-0.5, len(order) - 0.5], "showgrid": False, "zeroline": False,
            "tickangle": 0, "tickfont": {"size": 10.5},
        },
        yaxis={
            "tickvals": list(rows), "ticktext": time_labels(arrows), "title": None,
            "range": [len(arrows) + 0.6, 0], "showgrid": False, "zeroline": False,
        },
    )  # fmt: skip
    return figure


def lane_labels(lanes: Sequence[str]) -> list[str]:
    """Return the lanes' names, every second one a line higher: they stand close on a phone."""
    names = [lane.replace("-controller", "<br>controller").replace(" ", "<br>") for lane in lanes]
    return [name + "<br> <br> " if i % 2 else name for i, name in enumerate(names)]


def time_labels(arrows: Sequence[Step]) -> list[str]:
    """Return each step's time, left out where it is the one before's."""
    labels, last = [], ""
    for arrow in arrows:
        text = f"{arrow.t:.3f} s"
        labels.append("" if text == last else text)
        last = text
    return labels


def listing(arrows: Sequence[Step], width: int = 80) -> str:
    """Return the steps under their numbers, one line each, cut at ``width`` columns."""
    lines = []
    for row, arrow in enumerate(arrows, 1):
        who = arrow.source if arrow.source == arrow.target else f"{arrow.source} > {arrow.target}"
        lines.append(f"{row:2} {arrow.t:8.3f} {who}: {arrow.text}"[:width])
    return "\n".join(lines)
