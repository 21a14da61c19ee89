"""The timed actions of a scenario: checked before the run, done when their time comes.

Everything that can be known before the run is checked: keys, values, the kinds that an action names
and the objects that it brings. What only the run can tell, such as whether an object is there, ends
it with `ActionFailed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kcm_lite.api.errors import StatusError
from kcm_lite.sim.actions import ACTIONS, Args
from kcm_lite.sim.check import BadInput, Problem, choice, mapping, number, record, string
from kcm_lite.sim.cluster import Cluster
from kcm_lite.sim.faults import KINDS, check_fault
from kcm_lite.sim.kinds import Unknown, resource_named
from kcm_lite.sim.manifests import Inert, read_manifest
from kcm_lite.sim.rollout import CommandError


class ActionFailed(RuntimeError):
    """An action could not be done at run time, for example because its object is not there."""


@dataclass(frozen=True)
class Step:
    """An action of a scenario, checked.

    Attributes:
        at: When, in seconds.
        do: The name of the action.
        args: Its values; ``object`` is an object already.
        where: Its place in the file, such as ``actions[2]``.
    """

    at: float
    do: str
    args: Args
    where: str


def check_action(value: Any, path: str, problems: list[Problem], *, namespace: str) -> Step | None:
    """Check one entry of ``actions``; return None if something is wrong with it."""
    before = len(problems)
    raw = mapping(value, path, problems)
    name = raw.get("do")
    if isinstance(name, str) and name in KINDS:
        fault = check_fault(raw, path, problems, action=True)
        return None if fault is None else Step(fault.at, name, {"fault": fault}, path)
    action = ACTIONS.get(name) if isinstance(name, str) else None
    if action is None:
        choice(*sorted(ACTIONS))(name, f"{path}.do", problems)
        return None
    fields = {"at": number, "do": string, **action.fields}
    args = record(fields, required=("at", *action.required))(raw, path, problems)
    if isinstance(kind := args.get("kind"), str) and kind:
        try:
            resource_named(kind)
        except Unknown as error:
            problems.append(Problem(f"{path}.kind", f"{name}: {error}"))
    if isinstance(manifest := args.get("object"), Mapping):
        try:
            args["object"] = read_manifest(manifest, namespace=namespace, where=f"{path}.object")
        except BadInput as error:
            problems.extend(error.problems)
        if isinstance(args["object"], Inert):
            text = f'{name}: kind "{args["object"].kind}" is not simulated'
            problems.append(Problem(f"{path}.object.kind", text))
    if len(problems) > before:
        return None
    at = args.pop("at")
    return Step(at, args.pop("do"), args, path)


def perform(cluster: Cluster, step: Step) -> None:
    """Do an action now.

    Raises:
        ActionFailed: It cannot be done.
    """
    try:
        ACTIONS[step.do].do(cluster, step.args)
    except (StatusError, CommandError) as error:
        raise ActionFailed(f"{step.where} ({step.do} at {step.at:g}): {error}") from error
    except LookupError as error:
        raise ActionFailed(f"{step.where} ({step.do} at {step.at:g}): {error.args[0]}") from error
