"""One page about a run: verdict, plots, final state, timeline, decisions. It needs no other file.

The script that draws is inside the page, so it opens anywhere, without a network.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Any

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from kcm_lite import __version__
from kcm_lite.sim.durations import stamp
from kcm_lite.sim.scenario import Run
from kcm_lite.sim.simulate import conditions, final_state, verdicts
from kcm_lite.sim.timeline import timeline
from kcm_lite.trace import Decision
from kcm_lite.viz import frames, plots

QUIET = ("cluster", "kube-apiserver")  # agents whose writes are not part of the story
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
            *_verdicts(run),
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
    course = frames.rollouts(trace, end=end)
    sizes = frames.set_sizes(trace, end=end)
    if len(course):
        caption = "Available pods against the promised floor, and all pods against the limit."
        yield "availability", plots.availability(course, end), caption
    if len(sizes):
        caption = "How many pods each replica set should have, the newest set on top."
        yield "sizes", plots.set_sizes(sizes, end), caption
    jobs = frames.jobs(trace)
    if len(jobs):
        yield "jobs", plots.jobs(jobs, end), "Pods of each Job, as its status counts them."
    spans = frames.pod_states(trace, end=end)
    if len(spans):
        yield "pods", plots.lives(spans, end), plots.lives_caption(spans)
    counts = frames.replicas(trace)
    counts = counts[~counts["workload"].isin("ReplicaSet/" + sizes["set"])]
    if len(counts):
        caption = "Wanted and actual replicas of each workload, as its status tells."
        yield "replicas", plots.replicas(counts, end), caption
    writes = frames.writes(trace)
    writes = writes[~writes["agent"].isin(QUIET)]
    if len(writes):
        caption = f"{len(writes):,} write requests to the API server, by who sent them."
        yield "writes", plots.writes(writes, end), caption
    steps = frames.queues(trace)
    if len(steps):
        yield "queues", plots.queues(steps, end), "Keys that wait in each work queue."


def _plot(key: str, caption: str) -> str:
    headings = {
        "availability": "Availability",
        "sizes": "Replica sets",
        "jobs": "Jobs",
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


def _verdicts(run: Run) -> list[str]:
    out = []
    for answer in verdicts(run):
        facts = "".join(f"<li>{escape(fact)}</li>" for fact in answer.facts)
        out.append(f'<p class="verdict">{escape(answer.line)}</p>')
        out += [f"<ul>{facts}</ul>"] if facts else []
    return ["<h2>Verdict</h2>", *out] if out else []


def _final(run: Run) -> list[str]:
    out = [f"<h2>After {stamp(run.scenario.until)}</h2>"]
    for name, table in final_state(run.cluster):
        rows = _html_table(table.columns, table.rows)
        out += [f"<details open><summary>{escape(name)}</summary>", rows, "</details>"]
    return out


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
