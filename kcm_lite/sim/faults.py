"""What can go wrong, on a dial: the faults of a cluster, of `run_scenario` and of scenario files.

>>> CrashManager(after_write=3, restart_after=1.0)
CrashManager(at=0.0, after_write=3, restart_after=1.0)
>>> read_fault({"fault": "stallWatch", "resource": "Pod", "at": 5, "for": 10})
StallWatch(at=5.0, after_write=None, until=None, lasts=10.0, resource='pods')

In a scenario file::

    faults:
    - {fault: callError, error: conflict, resource: jobs, verb: update, rate: 20%, until: 60}
    - {fault: crashManager, afterWrite: 7, restartAfter: 1}

Every fault begins ``at`` a second of the run (0, if it does not say), or with ``afterWrite: k``
right after the k-th write that the manager has committed; Events and Leases do not count. What
lasts, lasts ``until`` a second, or ``for`` some seconds, or to the end of the run. As an action,
``{at: 5, do: crashManager}``, a fault has the same keys.

=================== ================================================================================
``callError``       calls fail with ``error``, see `ERRORS`; a ``rate`` of them, ``times`` at most;
                    a timeout is told ``after`` seconds, ``throttled`` asks for ``retryAfter``
``latency``         a ``call`` or the way of a ``watch`` event takes so long
``watchLag``        watch events come ``seconds`` later
``stallWatch``      no watch event comes until the end, then all do; the connection stays open
``dropWatch``       open watches break, and cannot begin again before the end; ``expired``: the
                    server has forgotten where they were
``duplicateEvents`` a ``rate`` of the batches of watch events brings every event twice
``staleCache``      a manager that starts meanwhile lists and watches a replica of the API server
                    that is ``behind`` by so many seconds or ``versions`` and stands still until
                    the end
``crashManager``    the manager is gone in mid-step; a new one starts ``restartAfter`` seconds
                    later, not at all if null
``loseLease``       another manager takes over ``takenOverAfter`` seconds later; for ``overlap``
                    seconds the old one works on beside it
``nodeDeath``       a ``node``'s kubelet is silent, until ``returnAfter`` if given; the cluster
                    notices ``detectedAfter`` and deletes its pods ``evictedAfter`` seconds
``clockSkew``       the manager's wall clock is ``ahead`` (or behind: less than 0) by seconds
``podChaos``        ``every`` so often the ``effect`` hits a pod that matches ``selector``
=================== ================================================================================

Which calls or watches: ``resource`` (a kind or its plural), ``verb``, ``agent`` (the controller's
name). Times that vary: ``5..20``, ``[5, 20]``, ``{mean: 2}`` (exponential), ``{median: 0.05, p99:
2}`` (log-normal).
"""

# ruff: noqa: RUF009 - `key` returns a `field`
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar

from kcm_lite.sim.chance import Exponential, Range, Times, rate, times
from kcm_lite.sim.check import (
    BadInput,
    Check,
    Problem,
    anything,
    boolean,
    choice,
    integer,
    mapping,
    number,
    offset,
    optional,
    record,
    string,
    strings,
)
from kcm_lite.sim.durations import duration
from kcm_lite.sim.kinds import check_kind

VERBS = ("create", "get", "list", "update", "patch", "delete", "deletecollection")
ERRORS: Mapping[str, str] = {
    "conflict": "409: somebody else was faster; of updates, patches and deletes",
    "throttled": "429, with Retry-After",
    "internal": "500",
    "timeout": "504, and nothing was done",
    "timeoutAfterWrite": "504, though the request was done",
    "unreachable": "the connection is refused",
    "reset": "the connection breaks after the request was done",
}
"""What a call can fail with."""

NAMES = {"lasts": "for"}


def camel(name: str) -> str:
    """Return the name of a field in a file."""
    first, *rest = name.split("_")
    return NAMES.get(name) or first + "".join(map(str.capitalize, rest))


def resource(value: Any, path: str, problems: list[Problem]) -> str:
    """Check for a kind; return its plural."""
    name = string(value, path, problems)
    found = check_kind(name, path, problems) if name else None
    return found.plural if found is not None else ""


def key(check: Check, default: Any = MISSING) -> Any:
    """Return a field whose value is checked, and perhaps converted, when a fault is made."""
    return field(default=default, metadata={"check": check})


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Something that goes wrong at a moment.

    Attributes:
        at: When, in seconds of the run; what is past means: at once.
        after_write: Right after the manager's k-th committed write, instead.

    Raises:
        BadInput: A value makes no sense.
    """

    fault: ClassVar[str] = ""
    at: float = key(duration, 0.0)
    after_write: int | None = key(optional(integer(1)), None)

    def __post_init__(self) -> None:
        problems: list[Problem] = []
        for f in fields(self):
            if (value := getattr(self, f.name)) is not f.default:
                checked = f.metadata["check"](value, camel(f.name), problems)
                object.__setattr__(self, f.name, checked)
        if not problems:
            problems.extend(self.contradictions())
        if problems:
            raise BadInput(problems)

    def contradictions(self) -> Iterator[Problem]:
        """Yield what does not fit together."""
        if self.after_write is not None and self.at:
            yield Problem("afterWrite", "does not go with at: a fault begins once")


@dataclass(frozen=True, kw_only=True)
class Window(Fault):
    """Something that is wrong for a while.

    Attributes:
        until: The second at which it ends; None, with `lasts`: never.
        lasts: For how many seconds; ``for`` in a file.
    """

    until: float | None = key(optional(duration), None)
    lasts: float | None = key(optional(duration), None)
    must_end: ClassVar[bool] = False

    def contradictions(self) -> Iterator[Problem]:
        """Yield what does not fit together."""
        yield from super().contradictions()
        if self.until is not None and self.lasts is not None:
            yield Problem("for", "does not go with until: one of them says when it ends")
        if self.until is not None and self.until < self.at:
            yield Problem("until", f"got {self.until:g}, want at ({self.at:g}) or later")
        if self.must_end and self.until is None and self.lasts is None:
            yield Problem("for", "is missing: it must end; until would do too")

    def end(self, now: float) -> float | None:
        """Return when it ends if it begins now; None: never."""
        return self.until if self.lasts is None else now + self.lasts


@dataclass(frozen=True, kw_only=True)
class CallError(Window):
    """Calls fail, see `ERRORS`."""

    fault = "callError"
    error: str = key(choice(*ERRORS))
    rate: float = key(rate, 1.0)
    times: int | None = key(optional(integer(1)), None)
    after: float = key(number, 34.0)
    retry_after: int = key(integer(1), 1)
    resource: str | None = key(optional(resource), None)
    verb: str | None = key(optional(choice(*VERBS)), None)
    agent: str | None = key(optional(string), None)


@dataclass(frozen=True, kw_only=True)
class Latency(Window):
    """Calls, or the way of watch events, take another time than usual."""

    fault = "latency"
    call: Times | None = key(optional(times), None)
    watch: Times | None = key(optional(times), None)
    resource: str | None = key(optional(resource), None)
    verb: str | None = key(optional(choice(*VERBS)), None)
    agent: str | None = key(optional(string), None)

    def contradictions(self) -> Iterator[Problem]:
        """Yield what does not fit together."""
        yield from super().contradictions()
        if self.call is None and self.watch is None:
            yield Problem("call", "is missing: say how long a call or a watch event takes")
        if self.call is None and (self.verb or self.agent):
            yield Problem("verb" if self.verb else "agent", "is of calls, and call is missing")


@dataclass(frozen=True, kw_only=True)
class WatchLag(Window):
    """Watch events come so much later."""

    fault = "watchLag"
    seconds: Times = key(times)
    resource: str | None = key(optional(resource), None)


@dataclass(frozen=True, kw_only=True)
class StallWatch(Window):
    """No watch event arrives until the end, then all do."""

    fault, must_end = "stallWatch", True
    resource: str | None = key(optional(resource), None)


@dataclass(frozen=True, kw_only=True)
class DropWatch(Window):
    """Open watches break; new ones are refused until the end, if it has one."""

    fault = "dropWatch"
    expired: bool = key(boolean, False)
    resource: str | None = key(optional(resource), None)


@dataclass(frozen=True, kw_only=True)
class DuplicateEvents(Window):
    """Watch events come twice."""

    fault = "duplicateEvents"
    rate: float = key(rate, 1.0)
    resource: str | None = key(optional(resource), None)


@dataclass(frozen=True, kw_only=True)
class StaleCache(Window):
    """A manager that starts meanwhile reads a replica of the API server that stands still.

    Attributes:
        behind: The replica stands where the server was so many seconds before it begins.
        versions: And so many changes before that.
    """

    fault, must_end = "staleCache", True
    behind: float = key(duration, 0.0)
    versions: int = key(integer(0), 0)


@dataclass(frozen=True, kw_only=True)
class CrashManager(Fault):
    """The manager is killed; what it had sent and the server had not seen is lost."""

    fault = "crashManager"
    restart_after: float | None = key(optional(duration), 1.0)


@dataclass(frozen=True, kw_only=True)
class LoseLease(Fault):
    """Another manager begins to lead; the one before ends, by and by."""

    fault = "loseLease"
    taken_over_after: float = key(duration, 2.0)
    overlap: float = key(duration, 0.0)


@dataclass(frozen=True, kw_only=True)
class NodeDeath(Fault):
    """A machine is gone: its kubelet reports nothing and ends no pod."""

    fault = "nodeDeath"
    node: int = key(integer(1))
    return_after: float | None = key(optional(duration), None)
    detected_after: float = key(duration, 50.0)
    evicted_after: float = key(duration, 350.0)

    def contradictions(self) -> Iterator[Problem]:
        """Yield what does not fit together."""
        yield from super().contradictions()
        if self.evicted_after < self.detected_after:
            want = f"detectedAfter ({self.detected_after:g}) or more"
            yield Problem("evictedAfter", f"got {self.evicted_after:g}, want {want}")


@dataclass(frozen=True, kw_only=True)
class ClockSkew(Window):
    """The manager's wall clock is wrong."""

    fault = "clockSkew"
    ahead: float = key(offset)


@dataclass(frozen=True, kw_only=True)
class PodChaos(Window):
    """Pods fail, are deleted, or are no longer ready, one at a time, at random."""

    fault = "podChaos"
    every: Times = key(times)
    effect: str = key(choice("fail", "delete", "evict", "notReady"), "fail")
    selector: Mapping[str, str] | None = key(optional(strings), None)

    def contradictions(self) -> Iterator[Problem]:
        """Yield what does not fit together."""
        yield from super().contradictions()
        if self.every in (0, Range(0, 0), Exponential(0)):
            yield Problem("every", "got 0, want more than 0 seconds")


KINDS: Mapping[str, type[Fault]] = {
    kind.fault: kind
    for kind in (
        CallError,
        Latency,
        WatchLag,
        StallWatch,
        DropWatch,
        DuplicateEvents,
        StaleCache,
        CrashManager,
        LoseLease,
        NodeDeath,
        ClockSkew,
        PodChaos,
    )
}
"""The faults by the names that files give them."""


def keys_of(kind: type[Fault]) -> tuple[str, ...]:
    """Return the keys that a fault of a kind has in a file."""
    return tuple(camel(f.name) for f in fields(kind))


def required_of(kind: type[Fault]) -> tuple[str, ...]:
    """Return the keys that it cannot do without."""
    return tuple(camel(f.name) for f in fields(kind) if f.default is MISSING)


def make(kind: type[Fault], raw: Mapping[str, Any]) -> Fault:
    """Return a fault from the values that a file gives it.

    Raises:
        BadInput: A value makes no sense.
    """
    python = {camel(f.name): f.name for f in fields(kind)}
    return kind(**{python[k]: v for k, v in raw.items()})


def check_fault(
    value: Any, path: str, problems: list[Problem], *, action: bool = False
) -> Fault | None:
    """Check one entry of ``faults``, or an action that is a fault.

    Returns:
        The fault; None if something is wrong with it.
    """
    before, word = len(problems), "do" if action else "fault"
    raw = mapping(value, path, problems)
    name = raw.get(word)
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        choice(*sorted(KINDS))(name, f"{path}.{word}", problems)
        return None
    known = dict.fromkeys((word, *keys_of(kind)), anything)  # `make` looks at the values
    required = required_of(kind)
    if action:
        del known["afterWrite"]
        required = ("at", *required)
    given = record(known, required=required)(raw, path, problems)
    if len(problems) == before:
        del given[word]
        try:
            return make(kind, given)
        except BadInput as error:
            problems.extend(Problem(f"{path}.{p.path}", p.message) for p in error.problems)
    return None


def read_fault(raw: Mapping[str, Any]) -> Fault:
    """Return the fault that an entry of ``faults`` means.

    Raises:
        BadInput: Something is wrong; every problem is named with its key.
    """
    problems: list[Problem] = []
    fault = check_fault(raw, "fault", problems)
    if fault is None:
        raise BadInput(problems)
    return fault
