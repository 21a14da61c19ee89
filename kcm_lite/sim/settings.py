"""One scenario with other settings, again and again; and each run in a few numbers.

>>> variants = Variants.of(text)                                     # doctest: +SKIP
>>> variants(maxSurge=2, readyAfter="5s", seed=7)
{'seconds': 23.1, 'unavailable': 12, 'surge': 2, 'created': 50}

A setting is one of three:

- a field of the scenario: ``nodes``, ``seed``, ``startAtSecond``, ``until``;
- a key of the kubelet profile, such as ``readyAfter``: see `kcm_lite.sim.profile`;
- a field of the workload's manifest, as a path (``spec.template.spec.priority``) or, for those in
  `SHORT`, by its last name (``maxSurge``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kcm_lite.api.apps import Deployment
from kcm_lite.api.batch import Job
from kcm_lite.api.core import Pod
from kcm_lite.api.meta import controller_of
from kcm_lite.api.yaml import Document, load_documents
from kcm_lite.sim.check import BadInput, Problem, nearest, show
from kcm_lite.sim.course import Course, courses
from kcm_lite.sim.jobcourse import JobCourse, job_courses
from kcm_lite.sim.profile import KEYS
from kcm_lite.sim.scenario import Run, Scenario, parse_scenario, run_scenario
from kcm_lite.trace import ApiWrite, Trace

SCENARIO = ("nodes", "seed", "startAtSecond", "until")
SHORT = {
    path.rpartition(".")[2]: path
    for path in (
        "spec.activeDeadlineSeconds",
        "spec.backoffLimit",
        "spec.backoffLimitPerIndex",
        "spec.completions",
        "spec.minReadySeconds",
        "spec.parallelism",
        "spec.progressDeadlineSeconds",
        "spec.replicas",
        "spec.strategy.rollingUpdate.maxSurge",
        "spec.strategy.rollingUpdate.maxUnavailable",
    )
}
"""Fields of a workload that need no path."""

KINDS = {kind.KIND: kind for kind in (Deployment, Job)}
"""The kinds that can be summed up."""


@dataclass(frozen=True)
class Variants:
    """A scenario that runs with the settings it is called with; it can go to other processes.

    Attributes:
        document: The scenario as it is written.
        target: Which of its ``objects`` the settings and the numbers are about.
    """

    document: Document
    target: int

    @classmethod
    def of(cls, text: str, *, target: str = "") -> Variants:
        """Read a scenario.

        Args:
            text: YAML, one document.
            target: ``Kind/name`` of the Deployment or Job that matters, if there are several.

        Raises:
            BadInput: It is no scenario, or which workload matters is not clear.
        """
        documents = load_documents(text)
        if len(documents) != 1:
            raise BadInput([Problem("", f"got {len(documents)} documents, want one scenario")])
        parse_scenario(documents[0])
        found = documents[0]
        document = Document(found.source, found.index, found.line, found.raw)  # without the text
        return cls(document, _target(document.raw.get("objects") or (), target))

    def __call__(self, **settings: Any) -> dict[str, Any]:
        """Run the scenario with these settings; see `summary` for the answer.

        Raises:
            BadInput: A setting is unknown, or its value does not fit.
        """
        return summary(run_scenario(self.scenario(settings), detail=False), self.about)

    @property
    def about(self) -> str:
        """``Kind/name`` of the target."""
        manifest = self.document.raw["objects"][self.target]
        return f"{manifest['kind']}/{manifest['metadata']['name']}"

    def scenario(self, settings: Mapping[str, Any]) -> Scenario:
        """Return the scenario with some settings.

        Raises:
            BadInput: A setting is unknown, or its value does not fit.
        """
        check_names(settings)
        raw: Any = self.document.raw
        for name, value in settings.items():
            path: list[str | int]
            if name in SCENARIO:
                path = [name]
            elif name in KEYS:
                path = ["kubelet", name]
            else:
                path = ["objects", self.target, *SHORT.get(name, name).split(".")]
            raw = _with(raw, path, value)
        source = self.document
        return parse_scenario(Document(source.source, source.index, source.line, raw))


def check_names(names: Iterable[str]) -> None:
    """Make sure that all are settings.

    Raises:
        BadInput: Some are not; every one is named.
    """
    known = [*SCENARIO, *KEYS, *SHORT]
    want = f"want one of {', '.join(known)}, or a path such as spec.replicas"
    problems = [
        Problem(name, f"is no setting{nearest(name, known)}; {want}")
        for name in names
        if name not in known and not name.startswith(("spec.", "metadata."))
    ]
    if problems:
        raise BadInput(problems)


def _target(objects: Iterable[Mapping[str, Any]], wanted: str) -> int:
    have = {
        f"{o['kind']}/{o['metadata']['name']}": i
        for i, o in enumerate(objects)
        if o.get("kind") in KINDS and o.get("metadata", {}).get("name")
    }
    if wanted in have:
        return have[wanted]
    if len(have) == 1 and not wanted:
        return next(iter(have.values()))
    got = f"got {show(wanted)}, " if wanted else ""
    want = f"want one of {', '.join(have)}" if have else f"want a {' or a '.join(KINDS)} in objects"
    raise BadInput([Problem("target", f"{got}{want}{nearest(wanted, have)}")])


def _with(raw: Any, path: list[str | int], value: Any) -> Any:
    """Return a copy of a document with a value at a path; what is missing on the way is made."""
    if not path:
        return value
    key, rest = path[0], path[1:]
    if isinstance(raw, list | tuple):
        return [_with(v, rest, value) if i == key else v for i, v in enumerate(raw)]
    here = raw if isinstance(raw, Mapping) else {}
    return {**here, key: _with(here.get(key), rest, value)}


# ---- a run in a few numbers


def summary(run: Run, about: str) -> dict[str, Any]:
    """Return the numbers of a Deployment or Job, told from its last change to the end of the run.

    ============= ===========================================================================
    ``seconds``   until it was complete, or the Job had ended; None: it is not, it has not
    ``created``   pods created
    ============= ===========================================================================

    Of a Deployment also:

    =============== =========================================================================
    ``unavailable`` the most wanted pods that were not available at a time
    ``surge``       the most pods beyond the wanted number, those on their way out aside
    =============== =========================================================================

    Of a Job also:

    ============= ===========================================================================
    ``end``       ``Complete``, ``Failed``, or nothing if it goes on
    ``failed``    pods that failed
    ============= ===========================================================================

    Args:
        run: What happened.
        about: ``Kind/name``, a Deployment or Job of the run.
    """
    kind, _, name = about.partition("/")
    trace, end = run.cluster.trace, run.scenario.until
    if KINDS[kind] is Job:
        ran = [c for c in job_courses(trace, end) if c.last.metadata.name == name]
        return _job(ran[-1])
    rolled = [c for c in courses(trace, end) if c.last.metadata.name == name]
    return _deployment(trace, rolled[-1], end)


def _deployment(trace: Trace, course: Course, end: float) -> dict[str, Any]:
    points, start = course.window(end), course.changed
    return {
        "seconds": None if course.finished is None else round(course.finished - start, 9),
        "unavailable": max(max(p.wanted - p.available, 0) for p in points),
        "surge": max(max(p.pods - p.wanted, 0) for p in points),
        "created": _created(trace, {name for _, name, _ in course.sizes}, start),
    }


def _created(trace: Trace, sets: set[str], start: float) -> int:
    """Count the pods that were created for some replica sets since a second of the run."""
    made = (
        controller_of(w.new)
        for w in trace.of(ApiWrite, verb="create", resource="pods", subresource="")
        if w.t >= start and isinstance(w.new, Pod)
    )
    return sum(ref is not None and ref.name in sets for ref in made)


def _job(course: JobCourse) -> dict[str, Any]:
    return {
        "seconds": None if course.ended is None else round(course.ended - course.started, 9),
        "end": course.verdict.type if course.verdict is not None else "",
        "created": course.pods,
        "failed": course.last.status.failed or 0,
    }
