"""A rollout as a picture: the sizes of its sets, its availability, the lives of its pods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import plotly.graph_objects as go

from kcm_lite.sim.measures import Measured, Moment
from kcm_lite.trace import Trace
from kcm_lite.viz import frames

SETS = ("#8d99a8", "#2a78b5", "#c2571a", "#9b6bd1")  # by age; the oldest is grey
AVAILABLE, PROMISED = "#2f9e62", "#d1495b"
STATES = {
    "pending": "#d9a441",
    "running": "#6aa5e3",
    "ready": "#2f9e62",
    "terminating": "#b9a3d6",
}
"""The states that are drawn, and their colours; what has ended is not there any more."""
ROWS = {"": (0.78, 1.0), "2": (0.52, 0.74), "3": (0.0, 0.48)}
"""From where to where the rows go, from the bottom; by the number of their axis."""

Drawn = dict[str, Any]


def rollout_figure(trace: Trace, measured: Measured, *, start: float, end: float) -> go.Figure:
    """Draw a rollout in three rows: what the sets want, what is available, what each pod does.

    Args:
        trace: Where the pods' lives are read.
        measured: The numbers from ``start`` on; see `kcm_lite.sim.measures`.
        start: The second that becomes 0 in the picture.
        end: The last second.
    """
    times = [round(m.t - start, 2) for m in measured.moments] + [round(end - start, 2)]
    moments = measured.moments
    data = [*_sizes(moments, times), *_availability(moments, times), *_lives(trace, start, end)]
    titles = {"": "wanted", "2": "available", "3": "pods"}
    layout: dict[str, Any] = {
        "height": 560,
        "barmode": "overlay",
        "margin": {"l": 48, "r": 12, "t": 12, "b": 40},
        "legend": {"orientation": "h", "y": -0.1, "font": {"size": 11}},
        "xaxis": {
            "range": [0, times[-1]],
            "anchor": "y3",
            "title": {"text": "seconds after the change"},
        },
    }
    for row, domain in ROWS.items():
        axis = {"domain": list(domain), "title": {"text": titles[row]}, "rangemode": "tozero"}
        layout[f"yaxis{row}"] = axis
    layout["yaxis3"] |= {"showticklabels": False, "autorange": "reversed"}
    return go.Figure(data=data, layout=layout)


def _step(times: list[float], values: Sequence[int], name: str, row: str, line: Any) -> Drawn:
    """Draw a number that changes at once; moments at which it does not are left out."""
    xs, ys = [times[0]], [values[0]]
    for t, value in zip(times[1:], values[1:], strict=False):
        if value != ys[-1]:
            xs.append(t)
            ys.append(value)
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [*xs, times[-1]],
        "y": [*ys, ys[-1]],
        "name": name,
        "line": {"shape": "hv", "width": 3, **line},
        "yaxis": f"y{row}",
    }


def _sizes(moments: Sequence[Moment], times: list[float]) -> Iterator[Drawn]:
    names = dict.fromkeys(name for m in moments for name in m.sizes)
    for i, name in enumerate(names):
        label = "old set" if i == 0 else "new set" if len(names) == 2 else f"set {i + 1}"
        sizes = [m.sizes.get(name, 0) for m in moments]
        yield _step(times, sizes, label, "", {"color": SETS[min(i, len(SETS) - 1)]})


def _availability(moments: Sequence[Moment], times: list[float]) -> Iterator[Drawn]:
    yield _step(times, [m.available for m in moments], "available", "2", {"color": AVAILABLE})
    promised = {"color": PROMISED, "dash": "dot", "width": 2}
    yield _step(times, [m.floor for m in moments], "promised", "2", promised)


def _lives(trace: Trace, start: float, end: float) -> Iterator[Drawn]:
    spans = frames.pod_states(trace, end=end)
    lives = [
        (pod, "pending" if state == "unscheduled" else state, max(begin, start), min(stop, end))
        for pod, _, state, begin, stop in spans.itertuples(index=False)
        if stop > start and begin < end
    ]
    rows = {pod: i for i, pod in enumerate(dict.fromkeys(pod for pod, *_ in lives))}
    for state, colour in STATES.items():
        part = [life for life in lives if life[1] == state]
        yield {
            "type": "bar",
            "orientation": "h",
            "name": state,
            "y": [rows[pod] for pod, *_ in part],
            "base": [round(begin - start, 2) for *_, begin, _ in part],
            "x": [round(stop - begin, 2) for *_, begin, stop in part],
            "marker": {"color": colour, "line": {"width": 0}},
            "hovertemplate": f"{state} from %{{base}} s<extra></extra>",
            "yaxis": "y3",
        }
