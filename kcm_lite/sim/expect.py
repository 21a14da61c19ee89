"""Assertions about a run: the ``expect:`` list of a scenario, checked against the trace.

Each entry says *when*, *what* and *how it must compare*::

    expect:
    - at: 10                            # at one moment (seconds, or 1m30s); absent: at the end
      object: ReplicaSet/web            # Kind/name, or Kind/namespace/name
      path: status.readyReplicas
      equals: 3
    - within: 30                        # at some moment from 0 to 30; [5, 30] from 5 to 30
      pods: {owner: web, ready: true}
      atLeast: 2
    - always: [10, 60]                  # at every moment; true: all the time
      pods: {phase: Failed}
      count: 0
    - event: {reason: FailedCreate, object: ReplicaSet/web}
      atLeast: 3
    - object: ReplicaSet/web
      verdict: complete

What can be looked at:

============================ =======================================================================
``object`` with ``path``     a field, as written in a manifest: ``spec.replicas``,
                             ``status.conditions[type=Ready].status``,
                             ``spec.containers[0].image``, ``metadata.annotations['a.b/c']``
``object`` with ``exists``   whether the object is there
``object`` with ``verdict``  ``complete`` (all replicas there, ready, available, none surplus),
                             ``progressing``, or ``failing`` (a condition says so)
``pods``                     the number of pods that match ``phase``, ``ready``, ``owner`` (name of
                             the controller), ``labels``, ``node``, ``deleting``, ``name``
``event``                    how often an event was reported that matches ``reason``, ``type``,
                             ``object``, ``message`` (a part of it)
``writes``                   how many writes have reached the API server, refused ones included,
                             that match ``resource`` (``pods``, ``pods/status``, ``pods/*``),
                             ``verb``, ``agent``, ``name``, ``code`` (201, 403, ...), ``since``
                             (a second of the run); Events and Leases only if ``resource`` says so
``syncs``                    how often the ``controller`` has ended work on a key: ``name`` of the
                             object, ``failed``, ``since``
============================ =======================================================================

How it compares: ``equals``, ``notEquals``, ``atLeast``, ``atMost``, ``contains`` (of a text or
list), ``matches`` (a regular expression), ``exists``. For all that is counted, ``count`` is
``equals``; for events ``atLeast: 1`` is the default. A number that is absent counts as 0: the API
leaves zeros out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import inf
from typing import Any

import msgspec

from kcm_lite.api.core import Event, Pod
from kcm_lite.api.serial import encode
from kcm_lite.sim import counted
from kcm_lite.sim.check import (
    Check,
    Problem,
    anything,
    boolean,
    choice,
    integer,
    list_of,
    record,
    show,
    string,
)
from kcm_lite.sim.counted import Key, filter_of, object_key
from kcm_lite.sim.durations import duration
from kcm_lite.sim.fields import COMPARISONS, holds, steps_of, walk
from kcm_lite.sim.verdicts import VERDICTS, verdict_of
from kcm_lite.trace import ApiWrite, SyncEnd, Trace

Test = Callable[[Any], bool]


class Expectation(msgspec.Struct, frozen=True):
    """One entry of ``expect:``, ready to be checked.

    Attributes:
        where: Its place in the file, such as ``expect[2]``.
        text: What it says, in one line.
        mode: at, within or always.
        start: First moment that counts, in seconds.
        end: Last moment that counts; infinite means the end of the run.
        subject: ``object``, or what is counted: ``pods``, ``event``, ``writes``, ``syncs``.
        key: The object, for ``object``.
        look: What is compared: of an object a value, of all others whether it counts.
        test: Whether a value is right.
    """

    where: str
    text: str
    mode: str
    start: float
    end: float
    subject: str
    key: Key | None
    look: Callable[[Any], Any]
    test: Test


class Outcome(msgspec.Struct, frozen=True):
    """How an expectation came out.

    Attributes:
        ok: Whether it held.
        t: When it was decided: the first violation, the first moment that it was true, or the end.
        found: The value at that time.
    """

    expectation: Expectation
    ok: bool
    t: float
    found: Any


# ---- reading


def check_expect(
    value: Any, path: str, problems: list[Problem], *, namespace: str
) -> tuple[Expectation, ...]:
    """Check a list of expectations as written."""
    entries = list_of(partial(_entry, namespace=namespace))(value, path, problems)
    return tuple(e for e in entries if e is not None)


OBJECT = "object"
SUBJECTS = (OBJECT, *counted.FIELDS)
FIELDS: Mapping[str, Check] = {
    "at": duration,
    "within": anything,
    "always": anything,
    OBJECT: string,
    "path": string,
    "exists": boolean,
    "verdict": choice(*VERDICTS),
    **counted.FIELDS,
    "count": integer(0),
    **dict.fromkeys(COMPARISONS, anything),
}


def _entry(value: Any, path: str, problems: list[Problem], *, namespace: str) -> Expectation | None:
    before = len(problems)
    raw = record(FIELDS)(value, path, problems)
    mode, start, end = _when(raw, path, problems)
    subjects = [s for s in SUBJECTS if s in raw]
    if isinstance(value, Mapping) and len(subjects) != 1:
        problems.append(Problem(path, f"wants exactly one of {', '.join(SUBJECTS)}"))
    if len(problems) > before:
        return None
    subject, key = subjects[0], None
    if subject == OBJECT:
        key = object_key(raw["object"], f"{path}.object", problems, namespace)
        look, test = _object(raw, path, problems)
    else:
        for word in ("path", "verdict", "exists"):
            if word in raw:
                problems.append(Problem(f"{path}.{word}", "is only for object"))
        test = _comparison(raw, path, problems, default=1 if subject == "event" else None)
        look = filter_of(subject, raw[subject], f"{path}.{subject}", problems, namespace)
    if len(problems) > before:
        return None
    text = ", ".join(f"{k}: {_inline(v)}" for k, v in value.items())
    return Expectation(path, text, mode, start, end, subject, key, look, test)


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {_inline(v)}" for k, v in value.items()) + "}"
    return value if isinstance(value, str) else show(value)


def _when(raw: dict[str, Any], path: str, problems: list[Problem]) -> tuple[str, float, float]:
    given = [k for k in ("at", "within", "always") if k in raw]
    if not given:
        return "at", inf, inf
    if len(given) > 1:
        problems.append(Problem(path, f"wants only one of {', '.join(given)}"))
    mode = given[0]
    value, inner = raw[mode], f"{path}.{mode}"
    if mode == "at":
        return mode, value, value
    if mode == "always" and value is True:
        return mode, 0.0, inf
    if isinstance(value, list):
        if len(value) != 2:
            problems.append(Problem(inner, f"got {show(value)}, want [from, to]"))
            return mode, 0.0, inf
        start, end = (duration(v, f"{inner}[{i}]", problems) for i, v in enumerate(value))
        if end < start:
            problems.append(Problem(inner, f"got {show(value)}, want from <= to"))
        return mode, start, end
    return mode, 0.0, duration(value, inner, problems)


def _object(
    raw: dict[str, Any], path: str, problems: list[Problem]
) -> tuple[Callable[[Any], Any], Test]:
    whats = [k for k in ("path", "verdict", "exists") if k in raw]
    if "verdict" in raw:
        wanted = raw["verdict"]
        _only(raw, ("verdict",), path, problems)
        return verdict_of, lambda found: bool(found == wanted)
    if whats == ["exists"]:
        _only(raw, ("exists",), path, problems)
        return lambda obj: obj is not None, lambda found: bool(found == raw["exists"])
    if "path" not in raw:
        problems.append(Problem(path, "wants path, verdict or exists beside object"))
        return lambda obj: None, lambda found: False
    steps = steps_of(raw["path"], f"{path}.path", problems)
    if "exists" in raw:
        _only(raw, ("path", "exists"), path, problems)
        test: Test = lambda found: (found is not None) == raw["exists"]  # noqa: E731
    else:
        test = _comparison(raw, path, problems, default=None)
    return lambda obj: None if obj is None else walk(encode(obj), steps), test


def _only(raw: dict[str, Any], words: Iterable[str], path: str, problems: list[Problem]) -> None:
    for word in (*COMPARISONS, "count", "path", "exists"):
        if word in raw and word not in words:
            problems.append(Problem(f"{path}.{word}", f"does not go with {', '.join(words)}"))


def _comparison(
    raw: dict[str, Any], path: str, problems: list[Problem], *, default: int | None
) -> Test:
    given = {k: raw[k] for k in COMPARISONS if k in raw}
    if "count" in raw:
        if raw.keys() & {"path"}:
            problems.append(Problem(f"{path}.count", "is for what is counted; use equals"))
        given["equals"] = raw["count"]
    if not given and default is not None:
        given["atLeast"] = default
    if not given:
        problems.append(Problem(path, f"says nothing to compare with; one of {_words(raw)}"))
    for word in ("atLeast", "atMost"):
        bound = given.get(word, 0)
        if isinstance(bound, bool) or not isinstance(bound, int | float):
            problems.append(Problem(f"{path}.{word}", f"got {show(bound)}, want a number"))
    if "matches" in given:
        try:
            given["matches"] = re.compile(given["matches"])
        except (re.error, TypeError) as error:
            problems.append(Problem(f"{path}.matches", f"is no regular expression: {error}"))
    return lambda found: all(holds(word, wanted, found) for word, wanted in given.items())


def _words(raw: dict[str, Any]) -> str:
    return ", ".join(COMPARISONS if "path" in raw else ("count", *COMPARISONS))


# ---- checking


class _Watcher:
    """An expectation while the trace is read."""

    def __init__(self, expectation: Expectation, end: float) -> None:
        self.e = expectation
        self.start, self.end = min(expectation.start, end), min(expectation.end, end)
        self.value: Any = expectation.look(None) if expectation.subject == OBJECT else 0
        self.members: set[str] = set()
        self.outcome: Outcome | None = None

    def take(self, record: ApiWrite | SyncEnd) -> None:
        """Follow something that happened."""
        counted_here = self.e.subject == ("syncs" if isinstance(record, SyncEnd) else "writes")
        if counted_here:
            self.value += self.e.look(record)
        elif isinstance(record, ApiWrite) and record.code < 300:
            self.follow(record)

    def follow(self, write: ApiWrite) -> None:
        """Follow what a write made of an object."""
        obj = write.new if write.new is not None else write.old
        if obj is None:
            return
        if self.e.subject == OBJECT:
            meta = obj.metadata
            if self.e.key == (obj.KIND, meta.namespace, meta.name):
                self.value = self.e.look(write.new)
        elif self.e.subject == "pods":
            if isinstance(obj, Pod):
                if write.new is not None and self.e.look(write.new):
                    self.members.add(obj.metadata.uid)
                else:
                    self.members.discard(obj.metadata.uid)
                self.value = len(self.members)
        elif self.e.subject == "event" and isinstance(write.new, Event) and self.e.look(write.new):
            old = write.old.count if isinstance(write.old, Event) else 0
            self.value += max(write.new.count or 1, 1) - old

    def judge(self, now: float, until: float) -> None:
        """Decide, if the state that held from ``now`` to just before ``until`` decides it."""
        if self.outcome is not None:
            return
        moment = max(self.start, now)
        if moment < until and moment <= self.end:
            ok = self.e.test(self.value)
            if self.e.mode == "at" or ok != (self.e.mode == "always"):
                self.outcome = Outcome(self.e, ok, moment, self.value)
                return
        if self.end < until:  # the time is over, and nothing happened that decides it
            self.outcome = Outcome(self.e, self.e.mode == "always", self.end, self.value)


def evaluate(expectations: Iterable[Expectation], trace: Trace, end: float) -> list[Outcome]:
    """Check all expectations against what happened up to ``end`` seconds."""
    watchers = [_Watcher(e, end) for e in expectations]
    now = 0.0
    for happened in trace.records:
        if not isinstance(happened, ApiWrite | SyncEnd):
            continue
        if happened.t > now:
            for watcher in watchers:
                watcher.judge(now, happened.t)
            now = happened.t
        for watcher in watchers:
            watcher.take(happened)
    for watcher in watchers:
        watcher.judge(now, inf)
    return [w.outcome for w in watchers if w.outcome is not None]
