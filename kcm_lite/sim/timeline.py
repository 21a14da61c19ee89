"""What happened, in lines for people: ``00:02.0  ReplicaSet/web: 3 pods ready``.

Alike things that follow each other closely share a line. Only the trace is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from kcm_lite.api.coordination import Lease
from kcm_lite.api.core import Event, Node, Pod
from kcm_lite.api.meta import Object, controller_of
from kcm_lite.api.names import ALPHABET
from kcm_lite.api.serial import encode
from kcm_lite.sim.durations import stamp
from kcm_lite.sim.verdicts import is_ready
from kcm_lite.trace import ApiWrite, Note, Record, Trace

CLOSE = 0.5  # seconds: alike things so close together are one burst
SILENT_AGENTS = frozenset({"cluster", "kube-apiserver"})
SILENT_SOURCES = frozenset({"cluster", "reflector"})
TOLD_ANYWAY = frozenset({"FailedCreate", "FailedDelete"})  # events that repeat a refusal
MADE_UP = re.compile(rf'("[^"]*)-[{ALPHABET}]{{5}}(?=")')  # a generated name in a message
COUNTS = {
    "active": "active",
    "succeeded": "succeeded",
    "failed": "failed",
    "replicas": "replicas",
    "ready_replicas": "ready",
    "available_replicas": "available",
    "terminating_replicas": "terminating",
}


class Line(msgspec.Struct):
    """One line.

    Attributes:
        t: Second of the first thing that it tells.
        end: Second of the last.
        subject: About whom, such as ``ReplicaSet/web``.
        what: What happened; ``{n}`` stands for how often.
        count: How often.
    """

    t: float
    end: float
    subject: str
    what: str
    count: int = 1

    @property
    def text(self) -> str:
        """The line without its time."""
        what = self.what
        if "{pods}" in what:
            what = what.replace("{pods}", "1 pod" if self.count == 1 else f"{self.count} pods")
        elif self.count > 1:
            what += f" (x{self.count})"
        return f"{self.subject}: {what}" if self.subject else what

    def __str__(self) -> str:
        until = f" (until {stamp(self.end)})" if self.end - self.t >= 0.1 else ""
        return f"{stamp(self.t)}  {self.text}{until}"


class Happening(msgspec.Struct, frozen=True):
    """One thing that happened; ``replaces`` says that only the last of a burst counts."""

    subject: str
    what: str
    replaces: str = ""


class Timeline(tuple[Line, ...]):
    """Lines, oldest first; prints as one line each."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    def __repr__(self) -> str:
        return str(self)


def timeline(trace: Trace, *, start: float = 0.0) -> Timeline:
    """Return the lines of a run from ``start`` seconds on, oldest first."""
    lines: list[Line] = []
    open_lines: dict[tuple[str, str], Line] = {}
    for record in trace.records:
        if record.t < start:
            continue
        for thing in happenings(record):
            key = (thing.subject, thing.replaces or thing.what)
            line = open_lines.get(key)
            if line is not None and record.t - line.end <= CLOSE:
                line.end = record.t
                if thing.replaces:
                    line.t, line.what = record.t, thing.what
                else:
                    line.count += 1
            else:
                open_lines[key] = line = Line(record.t, record.t, thing.subject, thing.what)
                lines.append(line)
    return Timeline(sorted(lines, key=lambda line: line.t))


def name_of(obj: Object) -> str:
    """Return ``Kind/name``."""
    return f"{obj.KIND}/{obj.metadata.name}"


def happenings(record: Record) -> Iterator[Happening]:
    """Yield what a record means to people."""
    if isinstance(record, Note):
        if record.source not in SILENT_SOURCES:
            yield Happening("", f"{record.source}: {record.text}")
    elif isinstance(record, ApiWrite) and record.agent not in SILENT_AGENTS:
        if record.code >= 300:
            if record.code != 409:  # a conflict is everyday life: read again, write again
                what = f"{record.verb} {record.resource} refused, {record.code}"
                yield Happening(record.agent, f"{what}: {_bare(record.message)}")
        else:
            yield from _write(record)


def _bare(message: str) -> str:
    """Return a message without names that were made up: alike messages are alike then."""
    return MADE_UP.sub(r"\1-...", message)


def _write(w: ApiWrite) -> Iterator[Happening]:
    old, new = w.old, w.new
    obj = new if new is not None else old
    if obj is None or old is new:
        return
    if isinstance(obj, Pod):
        yield from _pod(w, old, new)
    elif isinstance(obj, Event):
        if isinstance(new, Event) and new.type != "Normal" and new.reason not in TOLD_ANYWAY:
            about = new.involved_object
            yield Happening(f"{about.kind}/{about.name}", f"{new.reason}: {new.message}")
    elif new is None:
        how = f"deleted by {w.agent}" if w.verb == "delete" else f"gone ({w.agent})"
        yield Happening(name_of(obj), how)
    elif old is None:
        yield Happening(name_of(obj), f"created by {w.agent}{_wanted(new)}")
    elif new.metadata.deletion_timestamp and not old.metadata.deletion_timestamp:
        yield Happening(name_of(obj), f"deletion requested by {w.agent}{_waits(new)}")
    elif isinstance(new, Node) and w.subresource == "status":
        if is_ready(new) != is_ready(old):
            yield Happening(name_of(obj), "ready" if is_ready(new) else "no longer ready")
    elif w.subresource == "status":
        yield from _status(old, new)
    elif isinstance(old, Lease) and isinstance(new, Lease):
        before, after = old.spec.holder_identity, new.spec.holder_identity
        if before != after:  # renewals are no news
            yield Happening(name_of(obj), f"held by {after or 'nobody'}, no longer by {before}")
    else:
        yield Happening(name_of(obj), f"{w.agent} sets {_changes(old, new)}")


def _wanted(obj: Any) -> str:
    replicas = getattr(getattr(obj, "spec", None), "replicas", None)
    return "" if replicas is None else f", wants {replicas}"


def _waits(obj: Object) -> str:
    return f", waits for {', '.join(f)}" if (f := obj.metadata.finalizers) else ""


def _pod(w: ApiWrite, old: Object | None, new: Object | None) -> Iterator[Happening]:
    assert old is None or isinstance(old, Pod)
    assert new is None or isinstance(new, Pod)
    if old is None:
        assert new is not None
        yield _of_pod(new, f"{{pods}} created by {w.agent}")
        return
    if new is None:
        yield _of_pod(old, "{pods} gone")
        return
    before, after = controller_of(old), controller_of(new)
    if before != after:
        if before is not None:
            yield Happening(f"{before.kind}/{before.name}", f"releases Pod/{new.metadata.name}")
        if after is not None:
            yield Happening(f"{after.kind}/{after.name}", f"adopts Pod/{new.metadata.name}")
    if new.metadata.deletion_timestamp and not old.metadata.deletion_timestamp:
        yield _of_pod(new, f"{{pods}} being deleted ({w.agent})")
    if new.spec.node_name and not old.spec.node_name:
        yield _of_pod(new, "{pods} scheduled")
    if new.status.phase != old.status.phase:
        yield _of_pod(new, f"{{pods}} {new.status.phase}")
    elif _restarts(new) > _restarts(old):
        yield _of_pod(new, "{pods} restarted")
    if is_ready(new) != is_ready(old) and new.status.phase == "Running":
        yield _of_pod(new, "{pods} ready" if is_ready(new) else "{pods} no longer ready")
    if w.agent == "user" and new.metadata.deletion_timestamp == old.metadata.deletion_timestamp:
        yield Happening(name_of(new), f"{w.agent} sets {_changes(old, new)}")


def _of_pod(pod: Pod, what: str) -> Happening:
    ref = controller_of(pod)
    if ref is not None:
        return Happening(f"{ref.kind}/{ref.name}", what)
    return Happening(name_of(pod), what.replace("{pods} ", ""))


def _restarts(pod: Pod) -> int:
    return sum(s.restart_count for s in pod.status.container_statuses)


def _status(old: Any, new: Any) -> Iterator[Happening]:
    counts = [
        f"{text} {getattr(new.status, field) or 0}"
        for field, text in COUNTS.items()
        if hasattr(new.status, field)
        if field != "terminating_replicas" or new.status.terminating_replicas
    ]
    if any(getattr(new.status, f, None) != getattr(old.status, f, None) for f in COUNTS):
        yield Happening(name_of(new), f"status: {', '.join(counts)}", replaces="status")
    before = {c.type: c.status for c in getattr(old.status, "conditions", ())}
    after = getattr(new.status, "conditions", ())
    for c in after:
        if before.get(c.type) != c.status:
            yield Happening(name_of(new), f"condition {c.type} is {c.status} ({c.reason})")
    left = {c.type for c in after}
    for kind in before:
        if kind not in left:
            yield Happening(name_of(new), f"condition {kind} is gone")
    if hasattr(new.status, "used") and new.status.used != old.status.used:
        used = ", ".join(f"{k} {v} of {new.status.hard.get(k)}" for k, v in new.status.used.items())
        yield Happening(name_of(new), f"used: {used}", replaces="used")


NOISE = ("metadata.resourceVersion", "metadata.generation", "status.")


def _changes(old: Object, new: Object) -> str:
    """Return what differs, in the words of the manifest: ``spec.replicas 3 -> 5``; spec first."""
    found = (d for d in _differences(encode(old), encode(new)) if not d[0].startswith(NOISE))
    parts = [
        f"{path} {_short(a)} -> {_short(b)}"
        for path, a, b in sorted(found, key=lambda d: not d[0].startswith("spec."))
    ]
    return ", ".join(parts[:3]) + (f" and {len(parts) - 3} more" if len(parts) > 3 else "")


def _short(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _differences(a: Any, b: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for key in dict.fromkeys([*a, *b]):
            inner = f"{path}.{key}" if path else key
            yield from _differences(a.get(key), b.get(key), inner)
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, pair in enumerate(zip(a, b, strict=True)):
            yield from _differences(*pair, f"{path}[{i}]")
    elif a != b:
        yield path, a, b


def around(lines: Iterable[Line], t: float, *, before: int = 6, after: int = 2) -> list[Line]:
    """Return the lines next to a moment."""
    every = list(lines)
    split = sum(line.t <= t for line in every)
    return every[max(0, split - before) : split + after]
