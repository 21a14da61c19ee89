"""Runs with faults: the pods over time with the faults marked, and what it took to heal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd
import plotly.graph_objects as go

from kcm_lite.api.batch import Job
from kcm_lite.api.core import Pod
from kcm_lite.sim.check import BadInput, Problem, nearest, show
from kcm_lite.sim.durations import stamp
from kcm_lite.sim.endstate import differences, end_state
from kcm_lite.sim.invariants import violations
from kcm_lite.sim.scenario import Run
from kcm_lite.sim.verdicts import verdict_of
from kcm_lite.trace import ApiWrite, Note, Trace
from kcm_lite.viz.cases import clipped
from kcm_lite.viz.frames import pod_state

FAULT, BAND = "#d1495b", "rgba(209, 73, 91, 0.20)"
LINES = {
    "wanted": ("#8d99a8", 2, "dot"),
    "pods": ("#6aa5e3", 4, "solid"),
    "good": ("#2f9e62", 2.5, "solid"),
    "said": ("#9b6bd1", 1.5, "dash"),
}
"""Column: colour, width and dash of its line; wide lines first, so that equal ones show."""
NAMES = {"wanted": "wanted", "pods": "pods", "good": "ready", "said": "available, says the status"}
JOB_NAMES = {
    "wanted": "completions wanted",
    "pods": "active pods",
    "good": "succeeded",
    "said": "succeeded, says the status",
}
AWAY = frozenset({"terminating", "succeeded", "failed"})
MOMENTS = frozenset({"callError", "dropWatch"})
"""Faults that are moments, unless a note tells of their end; all others last."""
Drawn = dict[str, Any]
SHOWN = 4
"""Kinds of notes that a readout quotes."""


class Span(NamedTuple):
    """A time at which something was wrong; a moment if it ends where it begins."""

    fault: str
    begin: float
    end: float


def fault_spans(trace: Trace, end: float) -> list[Span]:
    """Return when which fault was at work, read from its notes; what never ended, to the end."""
    spans: list[Span] = []
    since: dict[tuple[str, int], float] = {}
    for note in trace.of(Note, source="fault"):
        fault, over = note.data["fault"], note.data.get("over")
        key = fault, note.data["number"]
        if over:
            spans.append(Span(fault, since.pop(key, note.t), note.t))
        elif over is None:
            if fault in MOMENTS or key in since:
                spans.append(Span(fault, note.t, note.t))
            since.setdefault(key, note.t)
    spans += (Span(f, begin, end) for (f, _), begin in since.items() if f not in MOMENTS)
    return sorted(dict.fromkeys(spans), key=lambda span: span.begin)


def pod_counts(run: Run, subject: str) -> pd.DataFrame:
    """Return the counts of a run's pods, and what a workload says of them, at each change.

    Args:
        run: Its pods are those of one workload.
        subject: The workload, ``Kind/name``.

    Returns:
        Columns ``t`` (seconds); ``wanted``; ``pods``: active ones; ``good``: those that are ready,
        or of a Job that have succeeded, pods that are gone since then included; ``said``: likewise,
        as the status says; ``done``: whether the status says that all is as the spec wants it.

    Raises:
        BadInput: No such workload was there.
    """
    now: dict[str, Any] = {**dict.fromkeys(LINES, 0), "done": False}
    rows = [{"t": 0.0, **now}]
    states: dict[str, str] = {}
    succeeded: set[str] = set()
    seen: set[str] = set()
    for w in run.cluster.trace.of(ApiWrite):
        obj: Any = w.new if w.new is not None else w.old
        if w.code >= 300 or obj is None:
            continue
        name = f"{obj.KIND}/{obj.metadata.name}"
        if isinstance(obj, Pod):
            uid = obj.metadata.uid
            if w.new is None:
                states.pop(uid, None)
            elif (state := pod_state(obj)) is not None:
                states[uid] = state
                if state == "succeeded":
                    succeeded.add(uid)
            counts = Counter(states.values())
            now["pods"] = len(states) - sum(counts[state] for state in AWAY)
            now["good"] = len(succeeded) if subject.startswith("Job/") else counts["ready"]
        elif hasattr(obj, "spec") and hasattr(obj, "status"):
            seen.add(name)
            if name == subject:
                now["wanted"], now["said"] = _wanted(obj), _said(obj)
                now["done"] = verdict_of(obj) == "complete"
        if now != {key: rows[-1][key] for key in now}:
            rows.append({"t": w.t, **now})
    if subject not in seen:
        known = sorted(seen)
        want = f"want one of {', '.join(known)}{nearest(subject, known)}"
        raise BadInput([Problem("subject", f"got {show(subject)}, {want}")])
    return pd.DataFrame(rows)


def _wanted(obj: Any) -> int:
    number = obj.spec.completions if isinstance(obj, Job) else obj.spec.replicas
    return 1 if number is None else number


def _said(obj: Any) -> int:
    return int(obj.status.succeeded if isinstance(obj, Job) else obj.status.available_replicas)


# ---- the picture


def fault_figure(runs: Mapping[str, Run], subject: str, *, end: float | None = None) -> go.Figure:
    """Draw the pods of runs over time, a panel each, with bands and lines where faults were.

    Args:
        runs: By the title of their panel; a single one goes without.
        subject: Which workload's numbers are shown, ``Kind/name``.
        end: The last second; by default that of the longest run.

    Raises:
        BadInput: No runs, or the workload was not there.
    """
    if not runs:
        raise BadInput([Problem("runs", "got none, want at least one")])
    end = max(run.scenario.until for run in runs.values()) if end is None else end
    several = len(runs) > 1
    height = 105 * len(runs) if several else 220
    share, gap = 1 / len(runs), 26 / height if several else 0.0
    names = JOB_NAMES if subject.startswith("Job/") else NAMES
    data: list[Drawn] = []
    marks: list[Drawn] = []
    titles: list[Drawn] = []
    layout: Drawn = {}
    tables = [pod_counts(run, subject) for run in runs.values()]
    most = max(int(table[[*LINES]].max().max()) for table in tables)
    for row, (title, run) in enumerate(runs.items()):
        axis, top = f"{row + 1}" if row else "", 1 - row * share
        data += _lines(tables[row], axis, names, end)
        marks += _marks(fault_spans(run.cluster.trace, end), f"y{axis} domain", end)
        layout[f"yaxis{axis}"] = {
            "domain": [max(top - share, 0), top - gap],
            "title": {"text": "pods"},
            "range": [0, 1.08 * most + 0.1],
        }
        where = {"x": 0, "y": top - gap, "xanchor": "left", "yanchor": "bottom"}
        titles.append(
            {"text": title, "xref": "paper", "yref": "paper", "showarrow": False, **where}
        )
    layout["xaxis"] = {
        "range": [0, end],
        "anchor": f"y{len(runs)}" if several else "y",
        "title": {"text": "seconds"},
    }
    legend = {"orientation": "h", "y": 1 + 8 / height, "yanchor": "bottom", "x": 0}
    return go.Figure(
        data=data,
        layout={
            **layout,
            "shapes": marks,
            "annotations": titles if several else [],
            "height": height + 110,
            "margin": {"l": 44, "r": 12, "t": 62, "b": 44},
            "legend": legend,
            "font": {"size": 12},
        },
    )


def _lines(table: pd.DataFrame, axis: str, names: Mapping[str, str], end: float) -> Iterator[Drawn]:
    table = table[table["t"] <= end]
    for column, (colour, width, dash) in LINES.items():
        changed = table[table[column] != table[column].shift()]
        yield {
            "type": "scatter",
            "mode": "lines",
            "x": [*(round(t, 2) for t in changed["t"]), end],
            "y": [*map(int, changed[column]), int(table[column].iloc[-1])],
            "name": names[column],
            "legendgroup": column,
            "showlegend": not axis,
            "line": {"shape": "hv", "color": colour, "width": width, "dash": dash},
            "yaxis": f"y{axis}",
        }


def _marks(spans: list[Span], yref: str, end: float) -> Iterator[Drawn]:
    """Draw a band where a fault lasted, a line where it was a moment; of close moments one."""
    drawn: set[float] = set()
    for _, begin, stop in spans:
        x0, x1 = round(begin, 2), round(min(stop, end), 2)
        if begin > end or (begin == stop and round(begin, 1) in drawn):
            continue
        look: Drawn = {"type": "rect", "fillcolor": BAND, "line": {"width": 0}, "layer": "below"}
        if begin == stop:
            drawn.add(round(begin, 1))
            look = {"type": "line", "line": {"color": FAULT, "width": 1.5}}
        yield {"x0": x0, "x1": x1, "y0": 0, "y1": 1, "yref": yref, **look}


# ---- in words


@dataclass(frozen=True)
class Healing:
    """What a fault did to a run, against the same run without it.

    Attributes:
        broke: What the faults did: second, text, how often.
        missing: The most pods that were good without the fault, and were not with it, at a time.
        missing_at: The second at which that began.
        lost: Those that were missing, times the seconds.
        whole: From which second on it was as wanted, with a status that says so; None: it is not.
        whole_without: The same without the fault.
        writes: What the manager has written, Events aside.
        refused: Writes that were refused.
        more: How many more than without the fault; less than 0: fewer.
        broken: The promises that were broken, how often: see `kcm_lite.sim.invariants`.
        other: In what the end differs from that without the fault.
    """

    broke: tuple[tuple[float, str, int], ...]
    missing: int
    missing_at: float
    lost: float
    whole: float | None
    whole_without: float | None
    writes: int
    refused: int
    more: int
    broken: Mapping[str, int]
    other: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(map(clipped, self._lines()))

    def _lines(self) -> Iterator[str]:
        for t, text, count in self.broke[:SHOWN]:
            yield f"broke   {stamp(t)}  {text}{f' (x{count})' if count > 1 else ''}"
        if len(self.broke) > SHOWN:
            yield f"        and {len(self.broke) - SHOWN} more"
        if not self.broke:
            yield "broke   nothing"
        if self.missing:
            behind = f"{self.missing} pods fewer" if self.missing > 1 else "1 pod fewer"
            cost = f"{self.lost:g} pod seconds in all"
            yield f"worst   {behind} than without the fault, at {stamp(self.missing_at)}; {cost}"
        else:
            yield "worst   never fewer pods than without the fault"
        if self.whole is None:
            yield "healed  not by the end"
        else:
            before = self.whole_without
            than = "" if before is None else f"; without the fault at {stamp(before)}"
            yield f"healed  whole at {stamp(self.whole)}{than}"
        yield f"end     {'; '.join(self.other) or 'the same as without the fault'}"
        rules = (f"{rule} (x{n})" if n > 1 else rule for rule, n in self.broken.items())
        yield f"promise {', '.join(rules) + ' broken' if self.broken else 'all kept'}"
        refused = f"; {self.refused} refused" if self.refused else ""
        yield f"writes  {self.writes}, {self.more:+d} against the run without the fault{refused}"


def healing(run: Run, calm: Run, subject: str) -> Healing:
    """Compare a run with the same run without faults.

    Args:
        run: The run with faults.
        calm: The run without.
        subject: The workload that matters, ``Kind/name``.

    Raises:
        BadInput: The workload was not there.
    """
    hurt, still = pod_counts(run, subject), pod_counts(calm, subject)
    behind = _behind(hurt, still)
    missing = max(int(behind.max()), 0)
    texts: dict[str, list[float]] = {}
    for note in run.cluster.trace.of(Note, source="fault"):
        if not note.text.endswith(" is over"):
            texts.setdefault(note.text, []).append(note.t)
    writes = run.cluster.transport.writes
    return Healing(
        broke=tuple((ts[0], text, len(ts)) for text, ts in texts.items()),
        missing=missing,
        missing_at=float(behind.index[behind == missing][0]) if missing else 0.0,
        lost=round(_lost(behind, run.scenario.until), 1),
        whole=_whole(hurt, subject),
        whole_without=_whole(still, subject),
        writes=writes,
        refused=sum(w.code >= 300 for w in run.cluster.trace.of(ApiWrite)),
        more=writes - calm.cluster.transport.writes,
        broken=Counter(v.rule for v in violations(run.cluster.trace)),
        other=tuple(differences(end_state(calm.cluster), end_state(run.cluster))),
    )


def _behind(hurt: pd.DataFrame, calm: pd.DataFrame) -> pd.Series[Any]:
    """Return by how many good pods a run is behind, from each second on at which that changes."""
    ends = {i: table.groupby("t")["good"].last() for i, table in enumerate((hurt, calm))}
    both = pd.DataFrame(ends).sort_index().ffill()
    return (both[1] - both[0]).astype(int)


def _lost(behind: pd.Series[Any], end: float) -> float:
    """Return the sum of pods times seconds."""
    moments = [*behind.index, end]
    spans = zip(behind, moments, moments[1:], strict=False)
    return float(sum(max(n, 0) * (stop - begin) for n, begin, stop in spans))


def _whole(table: pd.DataFrame, subject: str) -> float | None:
    """Return from when on to the end everything is as wanted."""
    whole = table["done"]
    if not subject.startswith("Job/"):
        whole &= (table["good"] == table["wanted"]) & (table["pods"] == table["wanted"])
    if not whole.iloc[-1]:
        return None
    after = table["t"][~whole]
    first = table["t"] if after.empty else table["t"][table.index > after.index[-1]]
    return float(first.iloc[0])
