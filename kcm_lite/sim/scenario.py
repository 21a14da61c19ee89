"""Scenario files: a cluster's start, timed actions, and what is expected of the run.

A scenario is one YAML document::

    id: rs-scale                     # names it, and the namespace that it runs in
    title: 2 to 5                    # for people
    controller: replicaset           # what it is about
    nodes: 3                         # Ready nodes before t=0
    kubelet: {readyAfter: 1.0}       # what pods do: kcm_lite.sim.profile
    objects: [...]                   # manifests, created in order at t=0
    actions:                         # kcm_lite.sim.actions
    - {at: 5, do: scale, kind: ReplicaSet, name: web, replicas: 5}
    faults:                          # kcm_lite.sim.faults
    - {fault: crashManager, afterWrite: 3, restartAfter: 1}
    until: 30                        # seconds, or 5m
    expect:                          # kcm_lite.sim.expect
    - {within: 20, pods: {ready: true}, count: 5}

Optional beside these: ``startAtSecond`` (t=0 is at this second of a minute), ``seed``,
``managerFlags`` (a list such as ``--kube-api-qps=20``), ``batch`` (``qps`` means client limits of
20/30, all others 1000/1000), ``heartbeat`` (seconds between lease renewals; leases are not
simulated), ``release`` (such as ``"1.22"``: the controllers behave as in that release), and, for
people, ``reference`` (where it was reported) and ``lesson`` (what it teaches). In objects, actions
and expectations ``$NS`` is the scenario's namespace and ``$NODE1`` the name of node 1. In an owner
reference ``uid: $UID`` is the uid of the object named there, ``$UID/other`` of the one in the
namespace ``other``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kcm_lite.api.apps import Deployment, ReplicaSet
from kcm_lite.api.batch import Job, is_job_finished
from kcm_lite.api.core import ReplicationController
from kcm_lite.api.meta import Object
from kcm_lite.api.yaml import Document
from kcm_lite.manager.featuregates import TODAY, FeatureGates, text_of
from kcm_lite.manager.flags import FlagError, flags_of, parse
from kcm_lite.manager.options import new_options
from kcm_lite.manager.start import gates_for
from kcm_lite.sim.check import (
    BadInput,
    Problem,
    anything,
    choice,
    integer,
    list_of,
    mapping,
    number,
    record,
    show,
    string,
)
from kcm_lite.sim.cluster import START, Cluster
from kcm_lite.sim.durations import duration
from kcm_lite.sim.expect import Expectation, Outcome, check_expect, evaluate
from kcm_lite.sim.faults import Fault, check_fault
from kcm_lite.sim.manifests import Inert, live_owners, read_manifest
from kcm_lite.sim.nodes import node_name
from kcm_lite.sim.profile import Profile, check_profile, snake
from kcm_lite.sim.steps import Step, check_action, perform
from kcm_lite.sim.verdicts import verdict_of

NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
MOST_NODES = 5000  # upstream's own limit
FAST, DEFAULT = (1000.0, 1000), (20.0, 30)  # client limits: those of most recordings, of upstream
FLAGS = ("kube-api-burst", "kube-api-qps")
"""The flags of the manager that change a run; the others are checked, and named in its report."""

RELEASES = tuple(text_of((1, minor)) for minor in range(20, TODAY[1] + 1))
"""The releases that a scenario can ask for; no switch of a controller is older."""

Progress = Callable[[float], None]
"""Is told the second that a run has reached, now and then."""


@dataclass(frozen=True)
class Scenario:
    """A scenario, checked and ready to run; see the module for its fields.

    Attributes:
        qps: Requests a second of each controller's client.
        burst: How many of them at once.
        release: Which release the controllers follow.
        reference: Where it was reported.
        lesson: What it teaches, in a paragraph.
        source: Where it was read from.
        notes: What had to be changed in the input, for the report.
        settle: End when all workloads are at rest, at ``until`` at the latest.
    """

    id: str
    title: str = ""
    controller: str = ""
    nodes: int = 3
    start_at_second: int = 0
    seed: int = 0
    qps: float = FAST[0]
    burst: int = FAST[1]
    release: str = RELEASES[-1]
    reference: str = ""
    lesson: str = ""
    profile: Profile = field(default_factory=Profile)
    objects: tuple[Object | Inert, ...] = ()
    actions: tuple[Step, ...] = ()
    faults: tuple[Fault, ...] = ()
    expect: tuple[Expectation, ...] = ()
    until: float = 60.0
    source: str = ""
    notes: tuple[str, ...] = ()
    settle: bool = False

    @property
    def namespace(self) -> str:
        """The namespace that it runs in."""
        return self.id


def release(value: Any, path: str, problems: list[Problem]) -> str:
    """Check for a release; YAML reads one without quotes as a number, and 1.30 as 1.3."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        want = f'"{RELEASES[0]}" to "{RELEASES[-1]}"'
        problems.append(Problem(path, f"got the number {value}, want {want} in quotes"))
        return RELEASES[-1]
    return str(choice(*RELEASES)(value, path, problems))


FIELDS = {
    "id": string,
    "title": string,
    "controller": string,
    "nodes": integer(0, MOST_NODES),
    "startAtSecond": integer(0, 59),
    "seed": integer(0),
    "managerFlags": list_of(string),
    "batch": choice("default", "burst", "qps", "nodemon", "extra"),
    "heartbeat": number,
    "release": release,
    "reference": string,
    "lesson": string,
    "kubelet": anything,
    "objects": list_of(mapping),
    "actions": list_of(mapping),
    "faults": list_of(mapping),
    "until": duration,
    "expect": anything,
}


PLAIN = ("title", "controller", "nodes", "startAtSecond", "seed", "release", "reference", "until")
"""The keys that become fields as they are."""


def is_scenario(raw: Any) -> bool:
    """Report whether a document is a scenario and not a manifest."""
    return (
        isinstance(raw, Mapping) and "kind" not in raw and bool({"objects", "until"} & raw.keys())
    )


def parse_scenario(document: Document) -> Scenario:
    """Read a scenario.

    Raises:
        BadInput: Something is wrong; every problem is named with its place.
    """
    problems: list[Problem] = []
    raw = record(FIELDS, required=("id", "until"))(document.raw, "", problems)
    name = raw.get("id", "")
    if "id" in raw and isinstance(name, str) and not NAME.fullmatch(name):
        text = f"got {show(name)}, want at most 63 of a-z, 0-9 and -: it names a namespace"
        problems.append(Problem("id", text))
    written = ("objects", "actions", "expect")
    raw = {k: _substituted(v, name) if k in written else v for k, v in raw.items()}
    qps, burst, notes = _limits(raw, problems)
    profile = check_profile(raw.get("kubelet"), "kubelet", problems)
    objects = [_manifest(o, f"objects[{i}]", problems, name) for i, o in _list(raw, "objects")]
    steps = [
        check_action(a, f"actions[{i}]", problems, namespace=name) for i, a in _list(raw, "actions")
    ]
    faults = [check_fault(f, f"faults[{i}]", problems) for i, f in _list(raw, "faults")]
    expect = check_expect(raw.get("expect") or [], "expect", problems, namespace=name)
    if problems:
        raise BadInput(problems, document)
    if late := expected_too_late(expect, raw["until"]):
        raise BadInput(late, document)
    return Scenario(
        id=name,
        qps=qps,
        burst=burst,
        lesson=raw.get("lesson", "").strip(),
        profile=profile,
        objects=tuple(o for o in objects if o is not None),
        actions=tuple(sorted((s for s in steps if s), key=lambda s: s.at)),
        faults=tuple(f for f in faults if f is not None),
        expect=expect,
        source=document.source,
        notes=notes,
        **snake({key: raw[key] for key in PLAIN if key in raw}),
    )


def expected_too_late(expect: Iterable[Expectation], until: float) -> list[Problem]:
    """Return which expectations are about a time that the run does not reach."""
    text = f"is after the end of the run (until {until:g})"
    return [Problem(f"{e.where}.{e.mode}", text) for e in expect if until < e.start < math.inf]


def _list(raw: Mapping[str, Any], key: str) -> list[tuple[int, Any]]:
    return list(enumerate(raw.get(key) or ()))


def _manifest(
    raw: Mapping[str, Any], path: str, problems: list[Problem], namespace: str
) -> Object | Inert | None:
    try:
        return read_manifest(raw, namespace=namespace, where=path)
    except BadInput as error:
        problems.extend(error.problems)
        return None


def _substituted(value: Any, namespace: str) -> Any:
    """Return a document with ``$NS`` and ``$NODE<n>`` replaced in every text."""
    if isinstance(value, str):
        if "$" not in value:
            return value
        value = value.replace("$NS", namespace)
        return re.sub(r"\$NODE(\d+)", lambda m: node_name(int(m[1])), value)
    if isinstance(value, Mapping):
        return {k: _substituted(v, namespace) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_substituted(v, namespace) for v in value]
    return value


def _limits(raw: Mapping[str, Any], problems: list[Problem]) -> tuple[float, int, tuple[str, ...]]:
    """Return the clients' limits, and what to say of flags that change nothing."""
    qps, burst = DEFAULT if raw.get("batch") == "qps" else FAST
    written = raw.get("managerFlags")
    if not written:
        return qps, burst, ()
    options = new_options()
    flags = flags_of(options)
    for i, text in enumerate(written):
        before, problem = len(problems), Problem(f"managerFlags[{i}]", f"got {show(text)}")
        try:
            if parse(flags, [text]):
                problems.append(problem._replace(message=f"{problem.message}, want --FLAG=VALUE"))
        except FlagError as error:
            hint = f" ({error.hint})" if error.hint else ""
            problems.append(problem._replace(message=f"{problem.message}: {error}{hint}"))
        ok = len(problems) == before
        if ok and options.generic.client_connection.burst < 1:
            problems.append(problem._replace(message=f"{problem.message}, want a number >= 1"))
    client = options.generic.client_connection
    if flags["kube-api-qps"].given:
        qps = max(client.qps, 0.0)  # less than zero: no limit, as zero is with us
    if flags["kube-api-burst"].given:
        burst = client.burst
    idle = [f"--{name}" for name, flag in flags.items() if flag.given and name not in FLAGS]
    return qps, burst, (f"flags that change nothing here: {', '.join(idle)}",) if idle else ()


@dataclass(frozen=True)
class Run:
    """A scenario that has ended.

    Attributes:
        scenario: What was run; ``until`` is when it ended.
        cluster: As it is at the end; its trace has everything.
        outcomes: How each expectation came out.
        settled: Whether all was at rest or nothing was left to happen.
    """

    scenario: Scenario
    cluster: Cluster
    outcomes: tuple[Outcome, ...]
    settled: bool = False

    @property
    def ok(self) -> bool:
        """Whether every expectation held."""
        return all(o.ok for o in self.outcomes)


def cluster_of(scenario: Scenario, *, faults: Iterable[Fault] = (), detail: bool = True) -> Cluster:
    """Return the cluster of a scenario before anything happens; see `run_scenario`."""
    return Cluster(
        scenario.nodes,
        scenario.seed,
        profile=scenario.profile,
        qps=scenario.qps,
        burst=scenario.burst,
        gates=gates_for(FeatureGates.for_release(scenario.release)),
        start=START.replace(second=scenario.start_at_second),
        detail=detail,
        namespace=scenario.namespace,
        faults=(*scenario.faults, *faults),
    )


def run_scenario(
    scenario: Scenario,
    *,
    faults: Iterable[Fault] = (),
    detail: bool = True,
    progress: Progress | None = None,
) -> Run:
    """Run a scenario to its end.

    Args:
        scenario: What to run.
        faults: What goes wrong beside the scenario's own faults.
        detail: Record more than writes, see `Cluster`; needed to count syncs, so done then.
        progress: Is told how far it is.

    Raises:
        ActionFailed: An action could not be done.
        StatusError: The server refuses an object of ``objects``.
    """
    detail = detail or any(e.subject == "syncs" for e in scenario.expect)
    cluster = cluster_of(scenario, faults=faults, detail=detail)
    play(cluster, scenario, progress=progress)
    settled = scenario.settle and cluster.now < scenario.until
    end = replace(scenario, until=cluster.now)
    outcomes = tuple(evaluate(scenario.expect, cluster.trace, end.until))
    return Run(end, cluster, outcomes, settled)


def play(cluster: Cluster, scenario: Scenario, *, progress: Progress | None = None) -> None:
    """Do to a cluster what a scenario says, up to its end.

    Raises:
        ActionFailed: An action could not be done.
        StatusError: The server refuses an object.
    """
    for obj in scenario.objects:
        if isinstance(obj, Inert):
            cluster.put(obj)
        else:
            cluster.create(live_owners(obj, cluster.server))
    for step in scenario.actions:
        if step.at > scenario.until:
            break
        advance(cluster, step.at, progress)
        perform(cluster, step)
    if scenario.settle:
        settle(cluster, scenario.until, progress)
    else:
        advance(cluster, scenario.until, progress)


def settle(cluster: Cluster, until: float, progress: Progress | None) -> None:
    """Let time pass until all workloads are at rest, or nothing is left to happen."""
    while cluster.now < until:
        target = min(cluster.now + 4 * STRIDE, until)
        if cluster.settle(until=target) < target or at_rest(cluster):
            cluster.run_until(min(float(math.ceil(cluster.now)), until))
            return
        if progress is not None:
            progress(cluster.now)


def at_rest(cluster: Cluster) -> bool:
    """Whether every workload is where its spec wants it and no pod or fault is still to come or go.

    A Job that will be deleted some time after its end is not at rest.
    """
    if cluster.faults.busy or any(s.deleting for s in cluster.kubelets.pods.values()):
        return False
    for kind in (Deployment, ReplicaSet, ReplicationController):
        if any(verdict_of(obj) != "complete" for obj in cluster.objects(kind, namespace="")):
            return False
    jobs = cluster.objects(Job, namespace="")
    return all(is_job_finished(j) and j.spec.ttl_seconds_after_finished is None for j in jobs)


def advance(cluster: Cluster, when: float, progress: Progress | None) -> None:
    """Let time pass up to ``when``, telling how far it is."""
    if progress is not None:
        while cluster.now + STRIDE < when:
            cluster.run_for(STRIDE)
            progress(cluster.now)
    cluster.run_until(when)


STRIDE = 0.25  # seconds of virtual time between two reports of progress
