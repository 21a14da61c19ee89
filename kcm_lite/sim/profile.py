"""What the simulated nodes do with pods: a kubelet profile, written as data.

A profile says how long each step of a pod's life takes and which steps never come. Times are
seconds, durations (``1m30s``), or ranges (``5s..20s``) from which each pod draws its own, in order
of creation. Under ``overrides`` some pods behave otherwise: all entries that match apply, in order.

===================== ======== ==============================================================
key                   default  meaning
===================== ======== ==============================================================
scheduleAfter         0        from creation to binding
neverSchedule         false    the pod never gets a node
node                  -        force this node, by number from 1
startAfter            1        from binding to Running
neverStart            false    the pod stays Pending
readyAfter            1        from Running to Ready; 0: in the same write
neverReady            false    the pod runs, but is never ready
exit                  -        {after, code, podConditions}: the container ends, counted from
                               Running; code 0 (default) is Succeeded, any other Failed
restarts              0        with restartPolicy OnFailure and a code other than 0: so many
                               restarts, then exit code 0; -1: for ever
initialRestartCount   0        the restart count that a pod begins with
terminationGrace      1        from deletion to the end
terminationExitCode   143      exit code of a container that is terminated
gap                   0        put ready, exit and term on a grid, at least so far apart
overrides             -        a list of {match: {...}, other keys}
===================== ======== ==============================================================

A ``match`` holds when all that it names does: ``index`` (the n-th pod in creation order, or a
list), ``indexFrom``, ``labels``, ``name``, ``namespace``, ``image`` (of the first container),
``images`` (by name of container), ``jobIndex``, ``owner`` (``Kind`` or ``Kind/name`` of the
controller), and ``share``: of all pods for which the rest holds such a part, ``20%``, by lot.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from typing import Any

from kcm_lite.api.core import Pod
from kcm_lite.api.meta import Condition, Struct, controller_of, replace
from kcm_lite.sim.chance import Chance, Range, share, span
from kcm_lite.sim.check import (
    BadInput,
    Check,
    Problem,
    boolean,
    choice,
    integer,
    list_of,
    number,
    one_or_list,
    optional,
    record,
    string,
    strings,
)

EXIT_AFTER = "exit.after"  # the one range that is inside another key
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"


class Exit(Struct, frozen=True, kw_only=True):
    """How a container ends by itself: so many seconds after Running, with this code."""

    after: float
    code: int = 0
    pod_conditions: tuple[Condition, ...] = ()


class Behaviour(Struct, frozen=True, kw_only=True):
    """What happens to one pod; see the module's table."""

    schedule_after: float = 0.0
    never_schedule: bool = False
    node: int | None = None
    start_after: float = 1.0
    never_start: bool = False
    ready_after: float = 1.0
    never_ready: bool = False
    exit: Exit | None = None
    restarts: int = 0
    initial_restart_count: int = 0
    termination_grace: float = 1.0
    termination_exit_code: int = 143


class Match(Struct, frozen=True, kw_only=True):
    """Which pods an override is for; what is None does not matter."""

    index: tuple[int, ...] | None = None
    index_from: int | None = None
    labels: Mapping[str, str] | None = None
    name: str | None = None
    namespace: str | None = None
    image: str | None = None
    images: Mapping[str, str] | None = None
    job_index: tuple[int, ...] | None = None
    owner: str | None = None
    share: Fraction | None = None


class Override(Struct, frozen=True, kw_only=True):
    """A change of behaviour for the pods that match; a time in ``ranges`` is drawn for each."""

    match: Match
    changes: Mapping[str, Any]
    ranges: Mapping[str, Range] = {}


class Profile(Struct, frozen=True, kw_only=True):
    """The behaviour of all pods, the exceptions, and the grid."""

    default: Behaviour = Behaviour()
    ranges: Mapping[str, Range] = {}
    overrides: tuple[Override, ...] = ()
    gap: float = 0.0


def behaviour_of(profile: Profile, pod: Pod, index: int, chance: Chance) -> Behaviour:
    """Return how a pod behaves that is the ``index``-th (from 1) that the nodes have seen."""
    out = _drawn(profile.default, profile.ranges, "kubelet", chance)
    for i, override in enumerate(profile.overrides):
        if not matches(override.match, pod, index):
            continue
        place, part = f"overrides[{i}]", override.match.share
        if part is None or chance.wins(place, part):
            out = replace(out, **override.changes)
            out = _drawn(out, override.ranges, place, chance)
    return out


def _drawn(
    behaviour: Behaviour, ranges: Mapping[str, Range], place: str, chance: Chance
) -> Behaviour:
    """Return a behaviour with a time drawn from each range."""
    for name, values in ranges.items():
        seconds = chance.seconds(f"{place}.{name}", values)
        if name != EXIT_AFTER:
            behaviour = replace(behaviour, **{name: seconds})
        elif behaviour.exit is not None:
            behaviour = replace(behaviour, exit=replace(behaviour.exit, after=seconds))
    return behaviour


def matches(match: Match, pod: Pod, index: int) -> bool:
    """Report whether all that a match names is true of a pod, its share aside."""
    meta = pod.metadata
    return (
        (match.index is None or index in match.index)
        and (match.index_from is None or index >= match.index_from)
        and (match.labels is None or match.labels.items() <= meta.labels.items())
        and (match.name is None or meta.name == match.name)
        and (match.namespace is None or meta.namespace == match.namespace)
        and (match.image is None or pod.spec.containers[0].image == match.image)
        and (match.images is None or match.images.items() <= _images(pod).items())
        and (match.owner is None or _owned_by(pod, match.owner))
        and (
            match.job_index is None
            or meta.annotations.get(COMPLETION_INDEX) in [str(i) for i in match.job_index]
        )
    )


def _images(pod: Pod) -> dict[str, str]:
    return {c.name: c.image for c in (*pod.spec.init_containers, *pod.spec.containers)}


def _owned_by(pod: Pod, owner: str) -> bool:
    ref = controller_of(pod)
    return ref is not None and owner in (ref.kind, f"{ref.kind}/{ref.name}")


EXIT = record(
    {
        "after": span,
        "code": integer(0, 255),
        "podConditions": list_of(
            record(
                {
                    "type": string,
                    "status": choice("True", "False", "Unknown"),
                    "reason": string,
                    "message": string,
                },
                required=("type", "status"),
            )
        ),
    },
    required=("after",),
)

KEYS: dict[str, Check] = {
    "scheduleAfter": span,
    "neverSchedule": boolean,
    "node": optional(integer(1)),
    "startAfter": span,
    "neverStart": boolean,
    "readyAfter": span,
    "neverReady": boolean,
    "exit": optional(EXIT),
    "restarts": integer(-1),
    "initialRestartCount": integer(0),
    "terminationGrace": span,
    "terminationExitCode": integer(0, 255),
}

MATCH = record(
    {
        "index": one_or_list(integer(1)),
        "indexFrom": integer(1),
        "labels": strings,
        "name": string,
        "namespace": string,
        "image": string,
        "images": strings,
        "jobIndex": one_or_list(integer(0)),
        "owner": string,
        "share": share,
    }
)


@cache
def profile_check() -> Check:
    """Return the check of a whole profile."""
    override = record({"match": MATCH, **KEYS}, required=("match",))
    return record({**KEYS, "gap": number, "overrides": list_of(override)})


def check_profile(value: Any, path: str, problems: list[Problem]) -> Profile:
    """Check a profile as written and return it in typed form; null means all defaults."""
    raw = profile_check()({} if value is None else value, path, problems)
    gap, overrides = raw.pop("gap", 0.0), raw.pop("overrides", ())
    if problems:
        return Profile()
    changes, ranges = _changes(raw)
    return Profile(
        default=replace(Behaviour(), **changes),
        ranges=ranges,
        overrides=tuple(_override(o) for o in overrides),
        gap=gap,
    )


def _override(raw: dict[str, Any]) -> Override:
    match = Match(**snake(raw.pop("match")))
    changes, ranges = _changes(raw)
    return Override(match=match, changes=changes, ranges=ranges)


def parse_profile(value: Mapping[str, Any] | None) -> Profile:
    """Return the profile that a mapping describes.

    Raises:
        BadInput: It has unknown keys or values out of range; all of them are named.
    """
    problems: list[Problem] = []
    profile = check_profile(value, "profile", problems)
    if problems:
        raise BadInput(problems)
    return profile


def _changes(raw: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Range]]:
    """Return the values to set, and the ranges to draw from."""
    out = snake(raw)
    ranges = {k: v for k, v in out.items() if isinstance(v, Range)}
    out = {k: v for k, v in out.items() if k not in ranges}
    if out.get("exit"):
        end = dict(out["exit"])
        conditions = tuple(Condition(**c) for c in end.pop("podConditions", ()))
        if isinstance(end["after"], Range):
            ranges[EXIT_AFTER], end["after"] = end["after"], 0.0
        out["exit"] = Exit(**end, pod_conditions=conditions)
    return out, ranges


def snake(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by the names of fields, from values by keys of a file."""
    return {"".join(f"_{c.lower()}" if c.isupper() else c for c in k): v for k, v in raw.items()}
