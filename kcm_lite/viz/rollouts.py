"""A rollout as a picture: the sizes of its sets, its availability, the lives of its pods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import plotly.graph_objects as go

from kcm_lite.sim.measures import Measured
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
    length = round(end - start, 2)
    data = [*_sizes(measured, start, length), *_availability(measured, start, length)]
    data += _lives(trace, start, end)
    titles = {"": "wanted", "2": "available", "3": "pods"}
    layout: dict[str, Any] = {
        "height": 560,
        "barmode": "overlay",
        "margin": {"l": 48, "r": 12, "t": 12, "b": 40},
        "legend": {"orientation": "h", "y": -0.1, "font": {"size": 11}},
        "xaxis": {
            "range": [0, length],
            "anchor": "y3",
            "title": {"text": "seconds after the change"},
        },
    }
    for row, domain in ROWS.items():
        axis = {"domain": list(domain), "title": {"text": titles[row]}, "rangemode": "tozero"}
        layout[f"yaxis{row}"] = axis
    layout["yaxis3"] |= {"showticklabels": False, "autorange": "reversed"}
    return go.Figure(data=data, layout=layout)


def _step(
    steps: Sequence[tuple[float, int]], name: str, row: str, line: Any, start: float, length: float
) -> Drawn:
    """Draw a number that changes at once; moments at which it does not are left out."""
    xs, ys = [0.0], [steps[0][1]]
    for t, value in steps[1:]:
        if value != ys[-1]:
            xs.append(round(t - start, 2))
            ys.append(value)
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [*xs, length],
        "y": [*ys, ys[-1]],
        "name": name,
        "line": {"shape": "hv", "width": 3, **line},
        "yaxis": f"y{row}",
    }


def _sizes(measured: Measured, start: float, length: float) -> Iterator[Drawn]:
    names = list(measured.sizes[-1][1])
    for i, name in enumerate(names):
        label = "old set" if i == 0 else "new set" if len(names) == 2 else f"set {i + 1}"
        steps = [(t, sizes.get(name, 0)) for t, sizes in measured.sizes]
        colour = {"color": SETS[min(i, len(SETS) - 1)]}
        yield _step(steps, label, "", colour, start, length)


def _availability(measured: Measured, start: float, length: float) -> Iterator[Drawn]:
    available = [(p.t, p.available) for p in measured.points]
    floor = [(p.t, p.floor) for p in measured.points]
    yield _step(available, "available", "2", {"color": AVAILABLE}, start, length)
    promised = {"color": PROMISED, "dash": "dot", "width": 2}
    yield _step(floor, "promised", "2", promised, start, length)


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
