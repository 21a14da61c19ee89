"""The ``simulate`` command: manifests or a scenario in, a timeline and the final state out."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import wrap
from typing import Any, TextIO

from kcm_lite.api.core import Namespace
from kcm_lite.api.errors import StatusError
from kcm_lite.api.scheme import RESOURCES
from kcm_lite.api.serial import encode
from kcm_lite.api.yaml import read_path
from kcm_lite.sim.adapt import adapted
from kcm_lite.sim.answers import Answer, answers
from kcm_lite.sim.check import BadInput, Problem
from kcm_lite.sim.cluster import Cluster
from kcm_lite.sim.durations import stamp
from kcm_lite.sim.expect import Outcome
from kcm_lite.sim.kinds import resource_named
from kcm_lite.sim.manifests import read_documents
from kcm_lite.sim.nodes import Machine, node_name
from kcm_lite.sim.questions import NO_QUESTIONS, Questions, ask, check_use
from kcm_lite.sim.scenario import (
    DEFAULT,
    RELEASES,
    Run,
    Scenario,
    expected_too_late,
    is_scenario,
    parse_scenario,
    run_scenario,
)
from kcm_lite.sim.steps import ActionFailed
from kcm_lite.sim.tables import Table
from kcm_lite.sim.timeline import Line, around, timeline

FINAL = (
    "Deployment",
    "Job",
    "ReplicaSet",
    "ReplicationController",
    "Pod",
    "ResourceQuota",
    "ConfigMap",
    "Node",
)
"""The kinds whose tables end a report, if there are any; nodes only if one takes no pods."""

TOLD = ("title", "until", "seed", "nodes", "release", "reference", "lesson")
"""What a run as data says of its scenario."""

LONGEST = 40
"""Rows of a table or lines of a timeline that are printed; what is left out is counted."""


@dataclass(frozen=True)
class Options:
    """What the command line says.

    Attributes:
        paths: Files, directories, or ``-`` for standard input.
        scenario: A scenario file that goes with plain manifests.
        until: Seconds to simulate; None: what the scenario says, or 60.
        questions: What is asked about plain manifests.
    """

    paths: tuple[str, ...]
    scenario: str | None = None
    until: float | None = None
    seed: int | None = None
    nodes: int | None = None
    release: str | None = None
    qps: float | None = None
    burst: int | None = None
    questions: Questions = NO_QUESTIONS


def read_input(options: Options) -> Scenario:
    """Read everything that the command was given into one scenario.

    Raises:
        BadInput: Something in it is wrong.
        OSError: A file cannot be read.
    """
    documents = [d for path in options.paths for d in read_path(path)]
    scenarios = [d for d in documents if is_scenario(d.raw)]
    if options.scenario is not None:
        for document in read_path(options.scenario):
            if "kind" in document.raw:
                raise BadInput(
                    [Problem("kind", "a scenario has none: this is a manifest")], document
                )
            scenarios.append(document)
    check_use(options.questions, scenario=bool(scenarios))
    if len(scenarios) > 1:
        names = ", ".join(d.where for d in scenarios)
        raise BadInput([Problem("", f"only one scenario can be run at a time, found {names}")])
    plain = [d for d in documents if not is_scenario(d.raw)]
    if scenarios:
        scenario = parse_scenario(scenarios[0])
    elif plain:
        scenario = Scenario("default", qps=DEFAULT[0], burst=DEFAULT[1], source=plain[0].source)
    else:
        raise BadInput([Problem(", ".join(options.paths), "nothing to simulate in it")])
    chosen = {
        name: value
        for name in ("until", "seed", "nodes", "release", "qps", "burst")
        if (value := getattr(options, name)) is not None
    }
    scenario = replace(scenario, **chosen)
    if late := expected_too_late(scenario.expect, scenario.until):
        raise BadInput(late)
    nodes = {node_name(n) for n in range(1, scenario.nodes + 1)}
    objects, lines = adapted(read_documents(plain, scenario.namespace), nodes)
    if not scenarios:
        ends = options.until is not None
        scenario = ask(scenario, objects, options.questions, ends=ends)
    return replace(scenario, objects=(*objects, *scenario.objects), notes=(*lines, *scenario.notes))


def simulate(scenario: Scenario) -> Run:
    """Run a scenario, with a progress line if standard error is a terminal.

    Raises:
        BadInput: An object or an action turned out to be impossible.
    """
    err = sys.stderr
    meter = Meter(scenario.until, err) if err is not None and err.isatty() else None
    try:
        return run_scenario(scenario, progress=meter)
    except (ActionFailed, StatusError) as error:
        raise BadInput([Problem(scenario.source, str(error))]) from error
    finally:
        if meter is not None:
            meter.clear()


class Meter:
    """A line that says how far a run is; it rewrites itself."""

    def __init__(self, until: float, err: TextIO) -> None:
        self.until, self.err = until, err
        self._shown = ""

    def __call__(self, t: float) -> None:
        """Show that the run has reached second ``t``."""
        text = f"\r{stamp(t)} of {stamp(self.until)} ({100 * t / self.until:.0f} %)"
        if text != self._shown:
            self._shown = text
            self.err.write(text)
            self.err.flush()

    def clear(self) -> None:
        """Wipe the line."""
        if self._shown:
            self.err.write("\r\x1b[K")
            self.err.flush()


# ---- the report


def report(run: Run, *, every_line: bool = False) -> list[str]:
    """Return the lines of a run's report: what happened, how it ended, what was expected."""
    scenario, cluster = run.scenario, run.cluster
    title = f"{scenario.id}: {scenario.title}" if scenario.title else scenario.id
    out = [f"{title}  ({conditions(scenario)})", ""]
    lines = timeline(cluster.trace)
    out += shortened([str(line) for line in lines], every_line)
    if cluster.inert:
        names = ", ".join(dict.fromkeys(map(str, cluster.inert)))
        out += ["", f"stored, not simulated: {names}"]
    if scenario.notes:
        out += ["", *scenario.notes]
    if count := cluster.faults.waiting:
        out += ["", f"{count} {'fault has' if count == 1 else 'faults have'} not begun"]
    if late := [step for step in scenario.actions if step.at > scenario.until]:
        count, what = len(late), ", ".join(f"{step.do} at {step.at:g}" for step in late)
        out += ["", f"{count} {'action comes' if count == 1 else 'actions come'} too late: {what}"]
    out += ["", f"after {stamp(scenario.until)}"]
    for name, table in final_state(cluster):
        out += ["", name, *shortened(str(table).splitlines(), every_line)]
    out += ["", *(line for answer in verdicts(run) for line in answer.lines())]
    if run.outcomes:
        out += ["", *expectations(run.outcomes, lines)]
    if scenario.lesson:
        out += ["", *wrap(scenario.lesson, 80)]
    if scenario.reference:
        out += ["", f"reported: {scenario.reference}"]
    return out


def conditions(scenario: Scenario) -> str:
    """Return the conditions of a run in a few words."""
    nodes = "1 node" if scenario.nodes == 1 else f"{scenario.nodes} nodes"
    limits = f"{scenario.qps:g}/{scenario.burst}" if scenario.qps > 0 else "none"
    release = "" if scenario.release == RELEASES[-1] else f", release {scenario.release}"
    return f"{nodes}, seed {scenario.seed}, client limits {limits}{release}"


def shortened(lines: list[str], every_line: bool) -> list[str]:
    """Leave out the middle of something long."""
    if every_line or len(lines) <= LONGEST:
        return lines
    half = LONGEST // 2
    left_out = f"... {len(lines) - 2 * half} lines left out; --all prints them"
    return [*lines[:half], left_out, *lines[-half:]]


def final_state(cluster: Cluster) -> list[tuple[str, Table]]:
    """Return the tables of all kinds of which there is something to see, with their headings."""
    out = []
    for kind in FINAL:
        resource = resource_named(kind)
        if kind == "Node" and not any(map(_remarkable, cluster.machines.by_name.values())):
            continue
        for namespace in _namespaces(cluster) if resource.namespaced else [""]:
            if cluster.objects(resource.type, namespace=namespace):
                table = cluster.get(kind, namespace=namespace, wide=True)
                where = f" in {namespace}" if namespace not in ("", cluster.namespace) else ""
                out.append((f"{resource.plural}{where}", table))
    return out


def _remarkable(machine: Machine) -> bool:
    return not machine.ready or machine.unschedulable or bool(machine.taints)


def _namespaces(cluster: Cluster) -> list[str]:
    """Return the cluster's own namespace first, then the others."""
    every = [n.metadata.name for n in cluster.objects(Namespace)]
    return [cluster.namespace, *(n for n in every if n != cluster.namespace)]


def verdicts(run: Run) -> list[Answer]:
    """Return what became of each workload: whether it got where its spec wants it."""
    return answers(run.cluster, run.scenario.until, settled=run.settled)


def expectations(outcomes: Iterable[Outcome], lines: Iterable[Line]) -> list[str]:
    """Return how the expectations came out; around a failure with what happened then."""
    out = []
    good = [o for o in outcomes if o.ok]
    bad = [o for o in outcomes if not o.ok]
    for outcome in bad:
        e = outcome.expectation
        what = {
            "at": f"not at {stamp(outcome.t)}",
            "within": f"not once until {stamp(outcome.t)}",
            "always": f"no more at {stamp(outcome.t)}",
        }[e.mode]
        out.append(f"FAILED {e.where} ({e.text}): {what}, found {outcome.found!r}")
        out += [f"    {line}" for line in around(lines, outcome.t)]
    out.append(f"{len(good)} of {len(good) + len(bad)} expectations held")
    return out


# ---- files


def as_json(run: Run) -> dict[str, Any]:
    """Return a run as plain data: timeline, final objects, outcomes."""
    cluster = run.cluster
    objects = [
        encode(obj)
        for resource in RESOURCES
        for obj in cluster.objects(resource.type, namespace="")
        if obj.metadata.namespace not in ("kube-system", "kube-public", "kube-node-lease")
    ]
    return {
        "scenario": run.scenario.id,
        **{name: getattr(run.scenario, name) for name in TOLD},
        "ok": run.ok,
        "verdicts": [
            {"subject": a.subject, "state": a.state, "text": a.lines(), **a.data}
            for a in verdicts(run)
        ],
        "timeline": [
            {"t": line.t, "end": line.end, "subject": line.subject, "text": line.text}
            for line in timeline(cluster.trace)
        ],
        "expect": [
            {
                "where": o.expectation.where,
                "text": o.expectation.text,
                "ok": o.ok,
                "t": o.t,
                "found": o.found,
            }
            for o in run.outcomes
        ],
        "objects": objects,
        "not_simulated": [i.raw for i in cluster.inert],
    }


def check_target(path: str) -> None:
    """Check before the run that a file can be written after it.

    Raises:
        OSError: It cannot.
    """
    code, target = 0, Path(path)
    if not path or not target.parent.is_dir():
        code = errno.ENOENT
    elif target.is_dir():
        code = errno.EISDIR
    elif not os.access(target if target.exists() else target.parent, os.W_OK):
        code = errno.EACCES
    if code:
        raise OSError(code, os.strerror(code), path or '""')


def write_file(path: str, text: str) -> None:
    """Write a file in one piece: it is there whole, or not at all.

    Raises:
        OSError: It cannot be written.
    """
    target = Path(path).resolve()
    if target.exists() and not target.is_file():  # a device or a pipe: not to be replaced
        target.write_text(text, encoding="utf-8")
        return
    part = target.with_name(f".{target.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, path) from None
