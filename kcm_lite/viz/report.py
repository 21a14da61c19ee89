"""One page about a run: plots, final state, timeline, decisions. It needs no other file.

The script that draws is inside the page, so it opens anywhere, without a network.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs
from plotly.subplots import make_subplots

from kcm_lite import __version__
from kcm_lite.sim.durations import stamp
from kcm_lite.sim.scenario import Run
from kcm_lite.sim.simulate import conditions, final_state, verdicts
from kcm_lite.sim.tables import Table
from kcm_lite.sim.timeline import timeline
from kcm_lite.trace import Decision
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
    "replicas": ("#6aa5e3", 5),
    "ready": ("#2f9e62", 3.5),
    "available": ("#b58be6", 2),
    "wanted": ("#8d99a8", 2),
}
"""Colour and width of each count: wide lines first, so that equal ones show all."""
AGENTS = ("#2a78b5", "#d9822b", "#2f9e62", "#9b6bd1", "#d1495b", "#8d99a8", "#2a9d9d", "#b08d57")
QUIET = ("cluster", "kube-apiserver")  # agents whose writes are not part of the story
MOST_PODS = 120  # rows of the plot of pods' lives
MOST_WORKLOADS = 6
MOST_ROWS = 2000  # rows of a table of the page


def page(run: Run) -> str:
    """Return the page of a run as HTML."""
    figures = {key: (figure, caption) for key, figure, caption in _figures(run)}
    title = run.scenario.title or run.scenario.id
    data = {key: json.loads(figure.to_json()) for key, (figure, _) in figures.items()}
    plots = [_plot(key, caption) for key, (_, caption) in figures.items()]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<link rel="icon" href="data:,">',
            f"<title>{escape(title)}</title>",
            f"<style>{_asset('report.css')}</style></head><body><main>",
            *_head(run, title),
            *_expectations(run),
            *plots,
            *_final(run),
            *_timeline(run),
            *_decisions(run),
            f"<footer>kcm-lite {__version__}. Virtual time; the same seed gives the same run."
            "</footer></main>",
            f'<script type="application/json" id="figures">{_script_json(data)}</script>',
            f"<script>{get_plotlyjs()}</script>",
            f'<script type="module">{_asset("report.js")}</script>',
            "</body></html>",
        ]
    )


def _asset(name: str) -> str:
    return files("kcm_lite.viz").joinpath(name).read_text(encoding="utf-8")


def _script_json(data: Any) -> str:
    """Return JSON that cannot end the script element that it stands in."""
    return json.dumps(data).replace("<", "\\u003c")


# ---- figures


def _figures(run: Run) -> Iterable[tuple[str, go.Figure, str]]:
    trace, end = run.cluster.trace, run.scenario.until
    spans = frames.pod_states(trace, end=end)
    if len(spans):
        yield "pods", _lives(spans, end), _lives_caption(spans)
    counts = frames.replicas(trace)
    if len(counts):
        caption = "Wanted and actual replicas of each workload, as its status tells."
        yield "replicas", _replicas(counts, end), caption
    writes = frames.writes(trace)
    writes = writes[~writes["agent"].isin(QUIET)]
    if len(writes):
        caption = f"{len(writes):,} write requests to the API server, by who sent them."
        yield "writes", _writes(writes, end), caption
    steps = frames.queues(trace)
    if len(steps):
        yield "queues", _queues(steps, end), "Keys that wait in each work queue."


def _layout(figure: go.Figure, end: float, *, height: int, narrow: int, title: str) -> go.Figure:
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


def _lives(spans: pd.DataFrame, end: float) -> go.Figure:
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
    _layout(figure, end, height=height, narrow=min(150, 8 + 7 * longest), title="")
    figure.update_layout(barmode="overlay", bargap=0.25)
    figure.update_xaxes(title_text="seconds")
    labels = len(shown) <= 40
    figure.update_yaxes(
        categoryorder="array", categoryarray=shown[::-1], showgrid=False, showticklabels=labels
    )
    return figure


def _lives_caption(spans: pd.DataFrame) -> str:
    count = spans["pod"].nunique()
    text = "Each pod's life, in order of creation."
    return f"{text} The first {MOST_PODS} of {count:,} pods." if count > MOST_PODS else text


def _replicas(counts: pd.DataFrame, end: float) -> go.Figure:
    names = list(dict.fromkeys(counts["workload"]))[:MOST_WORKLOADS]
    figure = make_subplots(
        rows=len(names),
        cols=1,
        shared_xaxes=True,
        subplot_titles=names if len(names) > 1 else None,
        vertical_spacing=0.25 / len(names),
    )
    for row, name in enumerate(names, 1):
        part = counts[counts["workload"] == name]
        last = part.iloc[-1:].assign(t=end)
        part = pd.concat([part, last])
        for column, (colour, width) in LINES.items():
            figure.add_scatter(
                x=part["t"],
                y=part[column],
                name=column,
                legendgroup=column,
                showlegend=row == 1,
                line={
                    "shape": "hv",
                    "color": colour,
                    "width": width,
                    "dash": "dot" if column == "wanted" else "solid",
                },
                mode="lines",
                hovertemplate="%{y} " + column + " at %{x:.2f} s<extra>" + name + "</extra>",
                row=row,
                col=1,
            )
    _layout(figure, end, height=110 + 190 * len(names), narrow=40, title="pods")
    if counts[["wanted", "replicas"]].to_numpy().max() < 8:
        figure.update_yaxes(dtick=1)
    figure.update_xaxes(title_text="seconds", row=len(names))
    return figure


def _writes(writes: pd.DataFrame, end: float) -> go.Figure:
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
    _layout(figure, end, height=320, narrow=44, title=f"writes in {width:.2g} s")
    figure.update_layout(barmode="stack", bargap=0.05)
    figure.update_xaxes(title_text="seconds")
    return figure


def _queues(steps: pd.DataFrame, end: float) -> go.Figure:
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
    _layout(figure, end, height=280, narrow=40, title="keys")
    if steps["depth"].max() < 8:
        figure.update_yaxes(dtick=1)
    figure.update_xaxes(title_text="seconds")
    return figure


def _plot(key: str, caption: str) -> str:
    headings = {
        "pods": "Pods",
        "replicas": "Replicas",
        "writes": "API writes",
        "queues": "Work queues",
    }
    return (
        f'<h2>{headings[key]}</h2><figure><div class="plot" id="{key}" role="img" '
        f'aria-label="{escape(caption)}"></div><figcaption>{escape(caption)}</figcaption></figure>'
    )


# ---- text


def _head(run: Run, title: str) -> list[str]:
    scenario, trace = run.scenario, run.cluster.trace
    pods = frames.pod_states(trace, end=scenario.until)
    ready = int(((pods["state"] == "ready") & (pods["end"] >= scenario.until)).sum())
    tiles = [
        (stamp(scenario.until), "virtual time"),
        (f"{pods['pod'].nunique():,}", "pods created"),
        (f"{ready:,}", "ready at the end"),
        (f"{int((~frames.writes(trace)['agent'].isin(QUIET)).sum()):,}", "API writes"),
    ]
    if run.outcomes:
        held = sum(o.ok for o in run.outcomes)
        tiles.append((f"{held} of {len(run.outcomes)}", "expectations held"))
    sub = conditions(scenario)
    inert = ", ".join(dict.fromkeys(map(str, run.cluster.inert)))
    return [
        f'<h1>{escape(title)}</h1><p class="sub">{escape(sub)}</p><div class="tiles">',
        *(f'<div class="tile"><b>{escape(n)}</b><span>{t}</span></div>' for n, t in tiles),
        "</div>",
        *([f"<p>Stored, not simulated: {escape(inert)}</p>"] if inert else []),
    ]


def _expectations(run: Run) -> list[str]:
    if not run.outcomes:
        return []
    out = ['<h2>Expectations</h2><ul class="expect">']
    for o in run.outcomes:
        mark, kind = ("✓", "good") if o.ok else ("✗", "bad")
        note = "" if o.ok else f" <b>at {stamp(o.t)} found {escape(repr(o.found))}</b>"
        out.append(
            f'<li><span class="{kind}">{mark}</span> {escape(o.expectation.text)}{note}</li>'
        )
    return [*out, "</ul>"]


def _final(run: Run) -> list[str]:
    out = [f"<h2>After {stamp(run.scenario.until)}</h2>"]
    for answer in verdicts(run):
        text = "<br>".join(map(escape, answer.lines()))
        out.append(f'<p class="verdict">{text}</p>')
    for name, table in final_state(run.cluster):
        out += [f"<details open><summary>{escape(name)}</summary>", _table(table), "</details>"]
    return out


def _table(table: Table) -> str:
    return _html_table(table.columns, table.rows)


def _html_table(columns: Sequence[str], rows: Sequence[Sequence[str]], last: str = "") -> str:
    """Return a table that scrolls; ``last`` is the class of its last column."""
    head = "".join(f"<th>{escape(c)}</th>" for c in columns)
    body = []
    for row in rows[:MOST_ROWS]:
        cells = [f"<td>{escape(cell)}</td>" for cell in row]
        if last:
            cells[0] = f'<td class="time">{escape(row[0])}</td>'
            cells[-1] = f'<td class="{last}">{escape(row[-1])}</td>'
        body.append(f"<tr>{''.join(cells)}</tr>")
    if len(rows) > MOST_ROWS:
        text = f"{len(rows) - MOST_ROWS:,} more"
        body.append(f'<tr><td colspan="{len(columns)}">{text}</td></tr>')
    return (
        '<div class="scroll tall" tabindex="0"><table><thead><tr>'
        f"{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _timeline(run: Run) -> list[str]:
    rows = [(stamp(line.t), line.text) for line in timeline(run.cluster.trace)]
    return ["<h2>Timeline</h2>", _html_table(("TIME", "WHAT HAPPENED"), rows, last="text")]


def _decisions(run: Run) -> list[str]:
    made = run.cluster.trace.of(Decision)
    rows = [(stamp(d.t), d.what, d.subject, d.reason) for d in made]
    if not rows:
        return []
    head = ("TIME", "DECISION", "ABOUT", "REASON")
    return ["<h2>Decisions</h2>", _html_table(head, rows, last="text")]
