"""What the command line asks about a plain manifest: what if the image changes, if pods fail?

A question becomes a timed action, or an exception in what pods do, for the pods of one workload:
the *target*. Pods of a Job end, by default well, after `DURATION` seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as with_fields
from fractions import Fraction
from typing import Any

from kcm_lite.api.apps import Deployment, ReplicaSet
from kcm_lite.api.batch import Job
from kcm_lite.api.core import Container, ReplicationController
from kcm_lite.api.meta import Object, replace
from kcm_lite.api.yaml import ManifestError, load_documents
from kcm_lite.sim.actions import ACTIONS
from kcm_lite.sim.chance import Range
from kcm_lite.sim.check import BadInput, Problem, nearest, show
from kcm_lite.sim.kinds import Unknown, resource_named
from kcm_lite.sim.manifests import Inert
from kcm_lite.sim.profile import EXIT_AFTER, Exit, Match, Override
from kcm_lite.sim.scenario import Scenario
from kcm_lite.sim.steps import Step, check_action

DURATION = 10.0
"""Seconds that a Job's pods run if nobody says how long."""

AT = 30.0
"""When actions happen if nobody says when."""

LONGEST = 3600.0
"""Seconds after which a run ends that has not come to rest by itself."""

ROLLING: tuple[type[Object], ...] = (Deployment,)
SIZED: tuple[type[Object], ...] = (Deployment, ReplicaSet, ReplicationController)
ENDING: tuple[type[Object], ...] = (Job,)
WORKLOADS = (*SIZED, *ENDING)

Workload = Deployment | ReplicaSet | ReplicationController | Job
Span = float | Range


@dataclass(frozen=True)
class Questions:
    """What is asked; None is not asked. See the options of the same names."""

    target: str | None = None
    set_image: tuple[str, ...] = ()
    scale: int | None = None
    at: float | None = None
    fail_ready: Fraction | None = None
    start: Span | None = None
    ready: Span | None = None
    exit_code: int | None = None
    fail: Fraction | None = None
    duration: Span | None = None
    do: tuple[str, ...] = ()


NO_QUESTIONS = Questions()

KINDS: dict[str, tuple[type[Object], ...]] = {
    "set_image": ROLLING,
    "scale": SIZED,
    "fail_ready": SIZED,
    "start": WORKLOADS,
    "ready": SIZED,
    "exit_code": ENDING,
    "fail": ENDING,
    "duration": ENDING,
    "do": WORKLOADS,
}
"""About which kinds each question can be."""

TIMED = {"set_image", "scale", "do"}
"""Those that happen at a moment."""


def flag(name: str) -> str:
    """Return how the command line spells a question."""
    return f"--{name.replace('_', '-')}"


def asked(questions: Questions) -> list[str]:
    """Return the names of the questions that are asked, target and time aside."""
    return [name for name in KINDS if getattr(questions, name) not in (None, ())]


def check_use(questions: Questions, *, scenario: bool) -> None:
    """Check what can be checked without the manifests.

    Raises:
        BadInput: A question is put to a scenario, or an option lacks the one that it goes with.
    """
    names = asked(questions)
    extra = [name for name in ("target", "at") if getattr(questions, name) is not None]
    problems = []
    if scenario:
        where = "is for plain manifests: a scenario says it under actions and kubelet"
        problems = [Problem(flag(name), where) for name in [*names, *extra]]
    elif questions.target is not None and not names:
        problems.append(Problem("--target", f"goes with {', '.join(map(flag, KINDS))}"))
    if not scenario and questions.at is not None and not TIMED & {*names}:
        problems.append(Problem("--at", "goes with --set-image, --scale and --do"))
    if questions.fail is not None and questions.exit_code == 0:
        problems.append(Problem("--fail", "pods that fail have an exit code other than 0"))
    if problems:
        raise BadInput(problems)


def ask(
    scenario: Scenario, objects: Sequence[Object | Inert], questions: Questions, *, ends: bool
) -> Scenario:
    """Return the scenario of plain manifests with the questions in it.

    Args:
        scenario: Without the manifests.
        objects: The manifests.
        questions: Checked by `check_use`.
        ends: Whether the end of the run was chosen; else it is when nothing is left to happen,
            if there are questions or Jobs.

    Raises:
        BadInput: A question does not fit the manifests.
    """
    names = asked(questions)
    jobs = [o for o in objects if isinstance(o, Job)]
    overrides = [_ends(Match(owner="Job"), 0, DURATION)] if jobs else []
    steps: list[Step] = []
    if names:
        problems: list[Problem] = []
        steps = _done(objects, questions, scenario.namespace, problems)
        if {*names} != {"do"}:
            target = find_target(objects, questions, scenario.namespace)
            problems += _misfits(target, names)
            if not problems:
                steps += _steps(target, questions, problems)
                overrides += _overrides(target, questions)
        if scenario.until < (questions.at or 0) and ends:
            text = f"is after the end of the run (--until {scenario.until:g})"
            problems.append(Problem("--at", text))
        if problems:
            raise BadInput(problems)
    steps.sort(key=lambda step: step.at)
    profile = replace(scenario.profile, overrides=(*scenario.profile.overrides, *overrides))
    scenario = with_fields(scenario, profile=profile, actions=(*scenario.actions, *steps))
    if (names or jobs) and not ends:
        scenario = with_fields(scenario, until=LONGEST, settle=True)
    return scenario


# ---- whom it is about


def name_of(obj: Object, namespace: str = "") -> str:
    """Return ``kind/name``, or ``kind/namespace/name`` outside a namespace."""
    meta = obj.metadata
    where = f"{meta.namespace}/" if namespace and meta.namespace != namespace else ""
    return f"{obj.KIND.lower()}/{where}{meta.name or meta.generate_name}"


def find_target(
    objects: Sequence[Object | Inert], questions: Questions, namespace: str
) -> Workload:
    """Return the workload that the questions are about.

    Raises:
        BadInput: There is none, or it is not clear which.
    """
    every = [o for o in objects if isinstance(o, Workload) and not o.metadata.owner_references]
    found = {name_of(o, namespace): o for o in every}
    first, have = flag(asked(questions)[0]), ", ".join(found)
    if not found:
        kinds = ", ".join(k.KIND for k in WORKLOADS)
        raise BadInput([Problem(first, f"the manifests hold no workload ({kinds})")])
    if questions.target is None:
        fit = [o for o in every if not _misfits(o, asked(questions))]
        if len(every) > 1 and len(fit) != 1:
            have = ", ".join(name_of(o, namespace) for o in fit or every)
            text = f"which workload? add --target, one of {have}"
            raise BadInput([Problem(first, text)])
        return (fit or every)[0]
    kind, _, name = questions.target.partition("/")
    try:
        wanted = f"{resource_named(kind).kind.lower()}/{name}"
    except Unknown:
        wanted = questions.target
    if wanted not in found:
        hint = nearest(wanted, found)
        text = f"got {show(questions.target)}, want one of {have}{hint}"
        raise BadInput([Problem("--target", text)])
    return found[wanted]


def _misfits(target: Workload, names: Sequence[str]) -> list[Problem]:
    """Return what is wrong with asking this of that."""
    return [
        Problem(
            flag(name),
            f"is for {' and '.join(k.KIND for k in KINDS[name])}, not for {name_of(target)}",
        )
        for name in names
        if not isinstance(target, KINDS[name])
    ]


# ---- what is done


def _steps(target: Workload, questions: Questions, problems: list[Problem]) -> list[Step]:
    at = AT if questions.at is None else questions.at
    meta = target.metadata
    about = {"kind": target.KIND, "name": meta.name, "namespace": meta.namespace}
    steps = [
        Step(at, "setImage", {**about, "container": name, "image": image}, "--set-image")
        for name, image in new_images(target, questions.set_image, problems).items()
    ]
    if questions.scale is not None:
        steps.append(Step(at, "scale", {**about, "replicas": questions.scale}, "--scale"))
    problems += _nameless(target, steps[0].where) if steps else []
    return steps


def _nameless(target: Workload, where: str) -> list[Problem]:
    """Return what is wrong with an action on a workload that the server is to name."""
    text = f"{name_of(target)} has no name yet"
    return [] if target.metadata.name else [Problem(where, text)]


def _done(
    objects: Sequence[Object | Inert],
    questions: Questions,
    namespace: str,
    problems: list[Problem],
) -> list[Step]:
    """Return the actions that ``--do`` names: about the target, unless they say of what."""
    steps = []
    for text in questions.do:
        raw = _action(text)
        raw.setdefault("at", AT if questions.at is None else questions.at)
        action = ACTIONS.get(raw["do"])
        if action is not None and {"kind", "name"} <= {*action.required} - {*raw}:
            target = find_target(objects, questions, namespace)
            problems += _nameless(target, f"--do {raw['do']}")
            raw |= {"kind": target.KIND, "name": target.metadata.name}
            if "namespace" in action.fields:
                raw["namespace"] = target.metadata.namespace
        step = check_action(raw, f"--do {raw['do']}", problems, namespace=namespace)
        steps += [step] if step is not None else []
    return steps


def _action(text: str) -> dict[str, Any]:
    """Read an action as a scenario has it, in a line: ``undo, at: 60``."""
    try:
        (document,) = load_documents(f"{{do: {text}}}", "--do")
        if isinstance(document.raw.get("do"), str):
            return {**document.raw}
    except (ManifestError, ValueError):
        pass  # said below
    want = 'an action, and its keys: "undo, at: 60"'
    raise BadInput([Problem("--do", f"got {show(text)}, want {want}")])


def new_images(target: Any, texts: Sequence[str], problems: list[Problem]) -> dict[str, str]:
    """Return image by container from texts such as ``web=app:2`` or ``app:2``."""
    pod, path = target.spec.template.spec, "--set-image"
    every: dict[str, Container] = {c.name: c for c in (*pod.init_containers, *pod.containers)}
    out: dict[str, str] = {}
    for text in texts:
        name, sign, image = text.rpartition("=")
        if not image or image.split() != [image] or (sign and not name):
            problems.append(Problem(path, f"got {show(text)}, want [NAME=]IMAGE"))
        elif not sign and len(pod.containers) > 1:
            names = ", ".join(c.name for c in pod.containers)
            problems.append(Problem(path, f"which container? want NAME={image}, NAME: {names}"))
        elif sign and name not in every:
            have = f"{name_of(target)} has {', '.join(every)}{nearest(name, every)}"
            problems.append(Problem(path, f'unable to find container named "{name}": {have}'))
        elif (name := name or pod.containers[0].name) in out:
            problems.append(Problem(path, f"container {name} is there twice"))
        elif every[name].image == image:
            problems.append(Problem(path, f"container {name} has the image {image} already"))
        else:
            out[name] = image
    return out


# ---- what pods do


def _pods_of(target: Workload) -> Match:
    """Return what tells the pods of a workload from others."""
    where = target.metadata.namespace
    if isinstance(target, Deployment):  # a replica set of unknown name owns them
        return Match(labels=target.spec.template.metadata.labels, namespace=where)
    name = f"/{target.metadata.name}" if target.metadata.name else ""
    return Match(owner=f"{target.KIND}{name}", namespace=where)


def _overrides(target: Workload, questions: Questions) -> list[Override]:
    pods, out = _pods_of(target), []
    for field, span in (("start_after", questions.start), ("ready_after", questions.ready)):
        if isinstance(span, Range):
            out.append(Override(match=pods, changes={}, ranges={field: span}))
        elif span is not None:
            out.append(Override(match=pods, changes={field: span}))
    if isinstance(target, Job):
        code = 1 if questions.exit_code is None else questions.exit_code
        good = 0 if questions.exit_code is None or questions.fail is not None else code
        duration = DURATION if questions.duration is None else questions.duration
        out.append(_ends(pods, good, duration))
        if questions.fail is not None:
            out.append(_ends(replace(pods, share=questions.fail), code, duration))
    elif questions.fail_ready is not None:
        images = new_images(target, questions.set_image, []) or None
        match = replace(pods, share=questions.fail_ready, images=images)
        out.append(Override(match=match, changes={"never_ready": True}))
    return out


def _ends(pods: Match, code: int, duration: Span) -> Override:
    """Let pods end by themselves; in place they are restarted as often as it takes."""
    changes: dict[str, Any] = {"exit": Exit(after=0.0, code=code), "restarts": -1 if code else 0}
    if isinstance(duration, Range):
        return Override(match=pods, changes=changes, ranges={EXIT_AFTER: duration})
    changes["exit"] = Exit(after=duration, code=code)
    return Override(match=pods, changes=changes)
