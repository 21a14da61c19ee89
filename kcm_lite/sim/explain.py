"""Why things happened to an object: why chosen, why retried, what held it up.

Everything is read from the trace: the controllers' decisions, the steps of their queues, what the
server refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kcm_lite.api.core import Pod
from kcm_lite.api.meta import controller_of
from kcm_lite.api.scheme import Resource
from kcm_lite.sim.durations import stamp
from kcm_lite.sim.timeline import happenings
from kcm_lite.trace import ApiWrite, Decision, Delivery, QueueOp, SyncEnd, SyncStart, Trace

QUEUES = {
    "Deployment": "deployment",
    "Job": "job",
    "ReplicaSet": "replicaset",
    "ReplicationController": "replicationmanager",
}
"""The work queue of each kind that has a controller."""

Reasons = Iterator[tuple[float, str]]


@dataclass(frozen=True)
class Explanation:
    """What is known about an object.

    Attributes:
        subject: ``Kind/name``.
        reasons: (second, sentence), oldest first.
    """

    subject: str
    reasons: tuple[tuple[float, str], ...]

    def __str__(self) -> str:
        if not self.reasons:
            return f"{self.subject}: the trace says nothing about it"
        return "\n".join([self.subject, *(f"  {stamp(t)}  {text}" for t, text in self.reasons)])

    def __repr__(self) -> str:
        return str(self)


def explain(trace: Trace, resource: Resource, namespace: str, name: str) -> Explanation:
    """Say all that the trace knows about the reasons of what happened to an object."""
    key = f"{namespace}/{name}" if namespace else name
    if resource.type is Pod:
        reasons = _pod(trace, key, namespace, name)
    else:
        reasons = _workload(trace, resource, key)
    merged = _merge(sorted(reasons, key=lambda r: r[0]))
    return Explanation(f"{resource.kind}/{name}", tuple(merged))


def _merge(reasons: list[tuple[float, str]]) -> Reasons:
    """Join neighbours that say the same."""
    i = 0
    while i < len(reasons):
        t, text = reasons[i]
        n = 1
        while i + n < len(reasons) and reasons[i + n][1] == text:
            n += 1
        last = reasons[i + n - 1][0]
        yield t, text if n == 1 else f"{text} ({n} times, the last at {stamp(last)})"
        i += n


# ---- pods


def _pod(trace: Trace, key: str, namespace: str, name: str) -> Reasons:
    mine = [
        w
        for w in trace.of(ApiWrite, resource="pods", namespace=namespace, name=name)
        if w.code < 300
    ]
    for w in mine:
        obj = w.new if w.new is not None else w.old
        assert isinstance(obj, Pod)
        if w.old is None:
            yield w.t, f"created by {w.agent}{_batch(trace, obj, w.t)}"
        elif w.subresource == "binding" and isinstance(w.new, Pod):
            yield w.t, f"put on {w.new.spec.node_name} by the scheduler"
        else:
            for thing in happenings(w):
                text = thing.what.replace("{pods} ", "")
                yield w.t, text if "{pods}" in thing.what else f"{thing.subject} {text}"
    for decision in trace.of(Decision):
        if decision.subject in (key, f"Pod/{key}"):
            yield decision.t, _decision(decision)


def _batch(trace: Trace, pod: Pod, t: float) -> str:
    """Tell which batch of its owner's controller a pod was in."""
    ref = controller_of(pod)
    if ref is None:
        return ""
    owner = f"{pod.metadata.namespace}/{ref.name}"
    for decision in trace.of(Decision, what="batch", key=owner):
        if decision.t >= t:
            return f" for {ref.kind}/{ref.name}, in a batch of {decision.reason}"
    return f" for {ref.kind}/{ref.name}"


def _decision(decision: Decision) -> str:
    about = decision.key.partition("/")[2] or decision.key
    if decision.what == "victim":
        return f"chosen as a victim for {about}: {decision.reason}"
    return f"{decision.what} ({decision.controller}): {decision.reason}"


# ---- what has a controller


def _workload(trace: Trace, resource: Resource, key: str) -> Reasons:
    queue = QUEUES.get(resource.kind)
    if queue is not None:
        yield from _syncs(trace, queue, key)
    for decision in trace.of(Decision):
        if decision.key == key and decision.what != "victim":
            yield decision.t, f"{decision.what}: {decision.reason}"
        elif decision.key == key:
            yield decision.t, f"victim {decision.subject.partition('/')[2]}: {decision.reason}"
        elif decision.subject == f"{resource.kind}/{key}":
            yield decision.t, _decision(decision)
    plural = resource.plural
    for w in trace.of(ApiWrite, resource=plural):
        if _key(w) == key and w.code < 300:
            for thing in happenings(w):
                yield w.t, thing.what


def _key(w: ApiWrite) -> str:
    return f"{w.namespace}/{w.name}" if w.namespace else w.name


def _syncs(trace: Trace, queue: str, key: str) -> Reasons:
    """Tell why a key came to its workers, and what came of it."""
    causes: dict[str, None] = {}
    arrived: list[Delivery] = []
    for record in trace.records:
        if isinstance(record, Delivery):
            if arrived and arrived[-1].t != record.t:
                arrived.clear()
            arrived.append(record)
        elif isinstance(record, QueueOp) and record.queue == queue and record.key == key:
            if record.op == "add":
                causes[_cause(arrived, record.t)] = None
            elif record.op == "add_after":
                causes[f"a check planned {record.delay:g} s before"] = None
            elif record.op == "add_rate_limited":
                yield record.t, f"comes again in {record.delay:g} s, because it failed"
                causes["the retry"] = None
        elif isinstance(record, SyncStart) and record.key == key:
            why = ", ".join(c for c in causes if c) or "a timer"
            yield record.t, f"sync by worker {record.worker}, woken by {why}"
            causes.clear()
        elif isinstance(record, SyncEnd) and record.key == key and record.error:
            yield record.t, f"sync failed: {record.error}"


def _cause(arrived: list[Delivery], t: float) -> str:
    now = [d for d in arrived if d.t == t and d.type != "BOOKMARK"]
    if not now:
        return ""
    kinds: dict[str, int] = {}
    for d in now:
        what = f"{d.type} {d.resource}"
        kinds[what] = kinds.get(what, 0) + 1
    return ", ".join(f"{n} x {what}" for what, n in kinds.items())
