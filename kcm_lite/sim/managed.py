"""The command ``kcm-lite controller-manager``: a manager in a simulated cluster.

Upstream's flags decide which controllers run and how; ours say in which cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from kcm_lite.api.errors import StatusError
from kcm_lite.api.yaml import ManifestError
from kcm_lite.manager.command import Answer, answer
from kcm_lite.manager.config import CompletedConfig
from kcm_lite.manager.featuregates import text_of
from kcm_lite.manager.flags import FlagError, flags_of
from kcm_lite.manager.govalues import BOOL, STRING
from kcm_lite.manager.options import NAME
from kcm_lite.manager.settings import Group, Setting
from kcm_lite.manager.validation import InvalidOptions, Problem
from kcm_lite.sim.check import BadInput
from kcm_lite.sim.durations import parse_duration
from kcm_lite.sim.expect import evaluate
from kcm_lite.sim.live import live
from kcm_lite.sim.managedcluster import ManagedCluster, ManagerExit
from kcm_lite.sim.scenario import RELEASES, Run, Scenario, play
from kcm_lite.sim.simulate import Options, read_input, report
from kcm_lite.sim.steps import ActionFailed
from kcm_lite.trace import Note

USAGE = """\
The Kubernetes controller manager: the loops that watch a cluster's state and
move it towards the wanted one. Here they run in a simulated cluster, in virtual
time. FILE is what "kcm-lite simulate" reads: manifests, or a scenario.

Usage:
  kcm-lite controller-manager [flags] --cluster FILE [--until TIME] [--all]
  kcm-lite controller-manager [flags] --cluster FILE --real-time [--until TIME]
                              [--token TOKEN]

In real time it serves /healthz, /metrics, /configz and /debug over HTTPS until
SIGINT or SIGTERM; all but /healthz ask for the bearer token. Either way it leads
by a lease, and ends with 1 when it loses it.
"""


class OwnFlags(Group):
    """The flags that upstream does not have."""

    cluster = Setting(STRING, "cluster", "")
    until = Setting(STRING, "until", "")
    all = Setting(BOOL, "all", False)
    real_time = Setting(BOOL, "real-time", False)
    token = Setting(STRING, "token", "")


class Refused(Exception):
    """The command does not run.

    Attributes:
        lines: Why; each names the flag, or the file, and what is wrong with it.
    """

    def __init__(self, *lines: object) -> None:
        super().__init__("\n".join(map(str, lines)))
        self.lines = lines


def command(
    words: Sequence[str],
    *,
    columns: int,
    now: datetime,
    say: Callable[[str], None] = lambda line: None,
) -> tuple[list[str], bool]:
    """Do what the command line says.

    Args:
        words: What follows ``controller-manager``.
        columns: The terminal's width; 0: unknown.
        now: From when a new certificate holds.
        say: Prints a line at once, in real time.

    Returns:
        The lines to print, and whether every expectation of a scenario held.

    Raises:
        Refused: Something is wrong and nothing has been started, or the manager has ended.
    """
    own, said = OwnFlags(), Answer()
    usage = USAGE.splitlines()
    try:
        said = answer(words, now=now, columns=columns, usage=usage, more=flags_of(own))
        if said.config is None:
            return list(said.lines), True
        _check_use(own)
        scenario = _scenario(own)
        if own.real_time:
            return _live(own, said.config, scenario, say), True
        done, why = manage(said.config, scenario)
    except FlagError as error:
        raise Refused(f"{error} ({error.hint})" if error.hint else error) from None
    except InvalidOptions as error:
        raise Refused(*(_told(problem, said.config) for problem in error.problems)) from None
    except (ActionFailed, StatusError) as error:
        raise Refused(f"--cluster={own.cluster}: {error}") from None
    lines = report(done, every_line=own.all)
    done.cluster.close()
    if own.all:
        lines = [*skipped(done), *lines]
    if why:
        for line in lines:
            say(line)
        raise Refused(why)
    return lines, done.ok


def _live(
    own: OwnFlags, completed: CompletedConfig, scenario: Scenario, say: Callable[[str], None]
) -> list[str]:
    """Run in real time; return the last words."""
    code, why = live(completed, scenario, say=say, token=own.token, endless=not own.until)
    if code:
        raise Refused(why)
    return [why] if why else []


def _told(problem: Problem, completed: CompletedConfig | None) -> Problem:
    """Return a problem with the value of its flag, if it was found when the config was complete."""
    flags = {} if completed is None else flags_of(completed.config.component)
    value = flags[problem.flag].value if problem.flag in flags else ""
    return problem if problem.value else replace(problem, value=str(value))


def _check_use(own: OwnFlags) -> None:
    """Refuse flags that would change nothing."""
    if own.real_time and own.all:
        raise Refused("--all: there is no report with --real-time")
    if own.token and not own.real_time:
        raise Refused("--token: nothing is served without --real-time")


def _scenario(own: OwnFlags) -> Scenario:
    """Read the cluster that the flags name."""
    if not own.cluster:
        raise Refused("--cluster is missing: kcm-lite runs in a simulated cluster")
    try:
        until = parse_duration(own.until) if own.until else None
    except ValueError as error:
        raise Refused(f"--until={own.until}: {error}") from None
    try:
        scenario = read_input(Options((own.cluster,), until=until))
    except BadInput as error:
        raise Refused(*(f"--cluster: {line}" for line in error.lines())) from None
    except OSError as error:
        raise Refused(f"--cluster={error.filename}: {error.strerror}") from None
    except ManifestError as error:
        raise Refused(f"--cluster: {error}") from None
    if scenario.release != RELEASES[-1]:
        text = "here the flags say it, --emulated-version and --feature-gates"
        raise Refused(f"--cluster: {own.cluster}: release: got {scenario.release}; {text}")
    return scenario


def manage(completed: CompletedConfig, scenario: Scenario) -> tuple[Run, str]:
    """Run a scenario in a cluster of its own, under a manager.

    Args:
        completed: The manager's config; its release and client limits outrank the scenario's.
        scenario: The cluster, what is done to it, and what is expected.

    Returns:
        The run, and why the manager ended before the scenario did; nothing if it did not.

    Raises:
        InvalidOptions: A controller cannot be built; nothing has been done to the cluster.
        ActionFailed: An action could not be done.
        StatusError: The server refuses an object of ``objects``.
    """
    client, why = completed.config.client, ""
    release = text_of(completed.config.feature_gates.release)
    scenario = replace(scenario, qps=client.qps, burst=client.burst, release=release)
    cluster = ManagedCluster(completed, scenario)
    try:
        play(cluster, scenario)
    except ManagerExit as error:
        why, scenario = str(error), replace(scenario, until=cluster.now)
    outcomes = tuple(evaluate(scenario.expect, cluster.trace, scenario.until))
    return Run(scenario, cluster, outcomes), why


def skipped(run: Run) -> list[str]:
    """Return the controllers that the manager did not build, with the reasons."""
    notes = run.cluster.trace.of(Note, source=NAME)
    reasons = {name: reason for note in notes for name, reason in note.data.items()}
    return [f"{name}: {reason}" for name, reason in reasons.items()]
