"""The figures of a run's page, from the frames of `kcm_lite.viz.frames`. Times are seconds."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from kcm_lite.viz import frames

COLOURS = {
    "unscheduled": "#8d99a8",
    "pending": "#d9a441",
    "running": "#6aa5e3",
    "ready": "#2f9e62",
    "terminating": "#9b6bd1",
    "succeeded": "#2a9d9d",
    "failed": "#d1495b",
}
LINES = {
    "replicas": ("#6aa5e3", 5, "solid", "replicas"),
    "ready": ("#2f9e62", 3.5, "solid", "ready"),
    "available": ("#b58be6", 2, "solid", "available"),
    "wanted": ("#8d99a8", 2, "dot", "wanted"),
}
"""Column: colour, width, dash and name of its line. Wide ones first, so that equal ones show."""
AGENTS = ("#2a78b5", "#d9822b", "#2f9e62", "#9b6bd1", "#d1495b", "#8d99a8", "#2a9d9d", "#b08d57")
MOST_PODS = 120  # rows of the plot of pods' lives
MOST_WORKLOADS = 6
TITLE = 22  # pixels that the title of a panel takes


def layout(figure: go.Figure, end: float, *, height: int, narrow: int, title: str) -> go.Figure:
    """Give a figure its axes, its margins and its legend."""
    figure.update_layout(
        height=height,
        margin={"l": narrow + 30, "r": 16, "t": 8, "b": 44},
        meta={"narrow": narrow},
        font={"size": 13},
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
        hovermode="closest",
        template="none",
    )
    figure.update_xaxes(range=[0, end], showgrid=True)
    figure.update_yaxes(title_text=title, showgrid=True, rangemode="tozero")
    return figure


def lives(spans: pd.DataFrame, end: float) -> go.Figure:
    """Plot `frames.pod_states`: a bar for each pod."""
    shown = list(dict.fromkeys(spans["pod"]))[:MOST_PODS]
    spans = spans[spans["pod"].isin(shown)]
    figure = go.Figure()
    for state in frames.STATES:
        part = spans[spans["state"] == state]
        if len(part):
            figure.add_bar(
                orientation="h",
                name=state,
                y=part["pod"],
                base=part["start"],
                x=part["end"] - part["start"],
                customdata=part[["start", "end", "owner"]],
                hovertemplate="%{y}<br>" + state + " from %{customdata[0]:.2f} s to "
                "%{customdata[1]:.2f} s<br>%{customdata[2]}<extra></extra>",
                marker={"color": COLOURS[state], "line": {"width": 0}},
            )
    longest = max(map(len, shown))
    height = 110 + max(4, len(shown)) * (24 if len(shown) <= 30 else 12)
    layout(figure, end, height=height, narrow=min(150, 8 + 7 * longest), title="")
    figure.update_layout(barmode="overlay", bargap=0.25)
    figure.update_xaxes(title_text="seconds")
    labels = len(shown) <= 40
    figure.update_yaxes(
        categoryorder="array", categoryarray=shown[::-1], showgrid=False, showticklabels=labels
    )
    return figure


def lives_caption(spans: pd.DataFrame) -> str:
    """Say what the plot of pods' lives shows."""
    count = spans["pod"].nunique()
    text = "Each pod's life, in order of creation."
    return f"{text} The first {MOST_PODS} of {count:,} pods." if count > MOST_PODS else text


def replicas(counts: pd.DataFrame, end: float) -> go.Figure:
    """Plot `frames.replicas`."""
    return stepped(counts, LINES, end)


def writes(writes: pd.DataFrame, end: float) -> go.Figure:
    """Plot `frames.writes`: how many in each sixtieth of the run."""
    figure = go.Figure()
    agents = list(dict.fromkeys(writes["agent"]))
    width = end / 60
    for i, agent in enumerate(agents):
        part = writes[writes["agent"] == agent]
        figure.add_histogram(
            x=part["t"],
            name=agent,
            xbins={"start": 0, "end": end + width, "size": width},
            marker={"color": AGENTS[i % len(AGENTS)]},
            hovertemplate="%{y} writes by " + agent + "<br>%{x} s<extra></extra>",
        )
    layout(figure, end, height=320, narrow=44, title=f"writes in {width:.2g} s")
    figure.update_layout(barmode="stack", bargap=0.05)
    figure.update_xaxes(title_text="seconds")
    return figure


def queues(steps: pd.DataFrame, end: float) -> go.Figure:
    """Plot `frames.queues`."""
    figure = go.Figure()
    for i, name in enumerate(dict.fromkeys(steps["queue"])):
        part = steps[steps["queue"] == name]
        figure.add_scatter(
            x=[*part["t"], end],
            y=[*part["depth"], part["depth"].iloc[-1]],
            name=name,
            mode="lines",
            line={"shape": "hv", "color": AGENTS[i % len(AGENTS)], "width": 2},
            hovertemplate="%{y} keys at %{x:.3f} s<extra>" + name + "</extra>",
        )
    layout(figure, end, height=280, narrow=40, title="keys")
    if steps["depth"].max() < 8:
        figure.update_yaxes(dtick=1)
    figure.update_xaxes(title_text="seconds")
    return figure


ROLLOUT = {
    "pods": ("#6aa5e3", 2.5, "solid", "pods"),
    "ceiling": ("#6aa5e3", 1.5, "dot", "limit of a rollout"),
    "available": ("#2f9e62", 3.5, "solid", "available"),
    "floor": ("#d1495b", 2, "dot", "promised floor"),
    "terminating": ("#9b6bd1", 1.5, "solid", "on their way out"),
}
"""Column: colour, width, dash and name of its line."""

JOB = {
    "completions": ("#8d99a8", 2, "dot", "completions wanted"),
    "succeeded": (COLOURS["succeeded"], 3, "solid", "succeeded"),
    "failed": (COLOURS["failed"], 2.5, "solid", "failed"),
    "active": (COLOURS["running"], 2, "solid", "active"),
}


def availability(course: pd.DataFrame, end: float) -> go.Figure:
    """Plot `frames.rollouts`: available pods and the floor, all pods and their limit."""
    return stepped(course, ROLLOUT, end)


def jobs(counts: pd.DataFrame, end: float) -> go.Figure:
    """Plot `frames.jobs`."""
    return stepped(counts, JOB, end)


def stepped(
    table: pd.DataFrame, lines: dict[str, tuple[str, float, str, str]], end: float
) -> go.Figure:
    """Plot columns as stepped lines, a panel for each workload."""
    names, figure = _panels(table)
    for row, name in enumerate(names, 1):
        part = table[table["workload"] == name]
        part = pd.concat([part, part.iloc[-1:].assign(t=end)])
        for column, (colour, width, dash, label) in lines.items():
            figure.add_scatter(
                x=part["t"],
                y=part[column],
                name=label,
                legendgroup=label,
                showlegend=row == 1,
                line={"shape": "hv", "color": colour, "width": width, "dash": dash},
                mode="lines",
                hovertemplate="%{y} " + label + " at %{x:.2f} s<extra>" + name + "</extra>",
                row=row,
                col=1,
            )
    return _finished(figure, names, end, int(table[[*lines]].max(numeric_only=True).max()))


def set_sizes(sizes: pd.DataFrame, end: float) -> go.Figure:
    """Plot `frames.set_sizes`: the sets of each Deployment on top of each other."""
    names, figure = _panels(sizes)
    for row, name in enumerate(names, 1):
        part = sizes[sizes["workload"] == name]
        wide = part.pivot_table(index="t", columns="set", values="size", aggfunc="last", sort=True)
        wide = wide.ffill().fillna(0)
        wide.loc[end] = wide.iloc[-1]
        for i, rs in enumerate(dict.fromkeys(part["set"])):
            figure.add_scatter(
                x=wide.index,
                y=wide[rs],
                name=rs,
                stackgroup=name,
                line={"shape": "hv", "width": 1, "color": AGENTS[i % len(AGENTS)]},
                mode="lines",
                hovertemplate="%{y} pods wanted at %{x:.2f} s<extra>" + rs + "</extra>",
                row=row,
                col=1,
            )
    return _finished(figure, names, end, int(sizes["size"].max()))


def _panels(table: pd.DataFrame) -> tuple[list[str], go.Figure]:
    """Return the workloads of a table and an empty panel for each of the first of them."""
    names = list(dict.fromkeys(table["workload"]))[:MOST_WORKLOADS]
    figure = make_subplots(
        rows=len(names),
        cols=1,
        shared_xaxes=True,
        subplot_titles=names if len(names) > 1 else None,
        vertical_spacing=0.25 / len(names),
    )
    return names, figure


def _finished(figure: go.Figure, names: list[str], end: float, most: int) -> go.Figure:
    height = 130 + 190 * len(names)
    layout(figure, end, height=height, narrow=40, title="pods")
    if len(names) > 1:  # the legend goes above the first panel's title
        figure.update_annotations(font_size=12)
        figure.update_layout(legend={"y": 1 + TITLE / (height - 80)})
    if most < 8:
        figure.update_yaxes(dtick=1)
    figure.update_xaxes(title_text="seconds", row=len(names))
    return figure
