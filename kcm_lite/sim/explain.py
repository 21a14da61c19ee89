"""Why things happened to an object: why chosen, why retried, what held it up.

Everything is read from the trace: the controllers' decisions, the steps of their queues, what the
server refused, who took a lease. An explanation has one line a decision: when, what, about whom
(unless it is the object itself), and why. These are the decisions, and who takes them:

============ =========================== =========================================================
what         by                          why, with its numbers
============ =========================== =========================================================
victim       ReplicaSet                  which criterion put this pod before the one that stays
all go       ReplicaSet                  how many: nobody asks in which order
batch        ReplicaSet, Job             how many creations at once, how many failed: slow start
burst        ReplicaSet                  how many are to go, how many at a time
wait         ReplicaSet, Job, GC         expectations not yet met; pods to go first; dependents
requeue      ReplicaSet, Deployment      when to look again, and for what
adopt        ReplicaSet, Deployment, Job by which selector
release      ReplicaSet, Deployment, Job by which selector
create       Deployment                  why a new set, and how many of its pods fit
scale        Deployment                  from, to, and which limit or share says so
hold         Deployment, Job             which limit lets nothing change, or what is waited for
paused       Deployment                  what is still done
rollback     Deployment                  to which revision, or why not
collision    Deployment                  which try comes next
clean up     Deployment                  how many old sets there are, how many are kept
deadline     Deployment, Job             how long without progress; how much time is left
give up      Deployment                  after how many failures
index        Job                         which indexes get a pod
back-off     Job                         after how many failures, and how long
policy       Job                         which rule a failed pod matches, and what that means
remove       Job                         how many pods go uncounted, and why
finalizer    Job, GC                     why it is taken off: nothing is left to count or wait for
suspended    Job                         what the spec says
resumed      Job                         what the spec says
end          Job                         its reason, with the rule of the policy if there is one
skip         Job                         who manages it instead
ttl          TTL                         how long it may stay, or has stayed too long
absent owner GC                          which owner is gone
collect      GC                          no owner, or one that waits; with which propagation
keep         GC                          how many owners live, how many references are dropped
orphan       GC                          how many dependents stay
unblock      GC                          how many owners need not wait for a circle
pending      scheduler                   what keeps the pod from each node
============ =========================== =========================================================

Without a decision of their own, from other records:

- a sync: which worker, and what woke it; a sync that failed, with its error, and when the key comes
  again; one that was held back because a cache had not yet seen the controller's own writes;
- a refusal, such as a quota's: the event that the controller wrote about it;
- a lease: who took it from whom after how much silence, who gave it back, who came too late.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kcm_lite.api.coordination import Lease
from kcm_lite.api.core import Event, Pod
from kcm_lite.api.meta import controller_of
from kcm_lite.api.scheme import Resource
from kcm_lite.sim.check import nearest
from kcm_lite.sim.durations import stamp
from kcm_lite.sim.timeline import TOLD_ANYWAY, happenings
from kcm_lite.trace import ApiWrite, Decision, Delivery, QueueOp, SyncEnd, SyncStart, Trace

WORKERS = {
    "Deployment": ("deployment", ("deployment-controller",)),
    "Job": ("job", ("job-controller", "ttl-after-finished-controller")),
    "ReplicaSet": ("replicaset", ("replicaset-controller",)),
    "ReplicationController": ("replicationmanager", ("replication-controller",)),
}
"""The work queue of each kind that has a controller, and who decides about it."""

BEHIND = re.compile(r"read version: (\d+) is not as new as written version: (\d+) .* (\S+)")

Reasons = Iterator[tuple[float, str]]


@dataclass(frozen=True)
class Explanation:
    """What is known about an object.

    Attributes:
        subject: ``Kind/name``.
        reasons: (second, sentence), oldest first.
        hint: What was perhaps meant, if nothing is known.
    """

    subject: str
    reasons: tuple[tuple[float, str], ...]
    hint: str = ""

    def __str__(self) -> str:
        if not self.reasons:
            return f"{self.subject}: the trace says nothing about it{self.hint}"
        return "\n".join([self.subject, *(f"  {stamp(t)}  {text}" for t, text in self.reasons)])

    def __repr__(self) -> str:
        return str(self)


def explain(trace: Trace, resource: Resource, namespace: str, name: str) -> Explanation:
    """Say all that the trace knows about the reasons of what happened to an object."""
    key = f"{namespace}/{name}" if namespace else name
    if resource.type is Pod:
        reasons = _pod(trace, key, namespace, name)
    elif resource.type is Lease:
        reasons = _lease(trace, namespace, name)
    else:
        reasons = _workload(trace, resource, key)
    merged = tuple(_merge(sorted(reasons, key=lambda r: r[0])))
    hint = "" if merged else _hint(trace, resource, namespace, name)
    return Explanation(f"{resource.kind}/{name}", merged, hint)


def _hint(trace: Trace, resource: Resource, namespace: str, name: str) -> str:
    """Return which object of the kind was perhaps meant, if there was none of the name."""
    writes = trace.of(ApiWrite, resource=resource.plural)
    there = {(w.namespace, w.name): None for w in writes if w.code < 300}
    if (namespace, name) in there:
        return ""
    kind = resource.kind.lower()
    names = [f"{kind}/{n}" if w == namespace else f"{kind}/{w}/{n}" for w, n in there]
    if len(names) == 1:
        return f' (did you mean "{names[0]}"?)'
    return nearest(f"{kind}/{name}", names)


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
    for w in trace.of(ApiWrite, resource="pods", namespace=namespace, name=name):
        obj = w.new if w.new is not None else w.old
        if w.code >= 300 or not isinstance(obj, Pod):
            continue
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
            yield decision.t, _suffered(decision)


def _batch(trace: Trace, pod: Pod, t: float) -> str:
    """Tell which batch of its owner's controller a pod was in."""
    ref = controller_of(pod)
    if ref is None:
        return ""
    owner, agents = f"{pod.metadata.namespace}/{ref.name}", WORKERS.get(ref.kind, ("", ()))[1]
    for decision in trace.of(Decision, what="batch", key=owner):
        if decision.t >= t and decision.controller in agents:
            return f" for {ref.kind}/{ref.name}, in a batch of {decision.reason}"
    return f" for {ref.kind}/{ref.name}"


def _suffered(decision: Decision) -> str:
    """Say what somebody who works for another object decided about this one."""
    about = decision.key.partition("/")[2] or decision.key
    if decision.what == "victim":
        return f"chosen as a victim for {about}: {decision.reason}"
    return f"{decision.what} ({decision.controller}): {decision.reason}"


# ---- what has a controller


def _workload(trace: Trace, resource: Resource, key: str) -> Reasons:
    queue, agents = WORKERS.get(resource.kind, ("", ()))
    if queue:
        yield from _syncs(trace, queue, agents, key)
    me = f"{resource.kind}/{key}"
    for decision in trace.of(Decision):
        if decision.key == key and decision.controller in agents:
            whom = "" if decision.subject in (key, me) else f" {_short(decision.subject)}"
            yield decision.t, f"{decision.what}{whom}: {decision.reason}"
        elif decision.subject == me:
            yield decision.t, _suffered(decision)
    for w in trace.of(ApiWrite, resource=resource.plural):
        if _key(w) == key and w.code < 300:
            for thing in happenings(w):
                yield w.t, thing.what
    for w in trace.of(ApiWrite, resource="events"):
        event = w.new
        if isinstance(event, Event) and event.reason in TOLD_ANYWAY:
            about = event.involved_object
            if me == f"{about.kind}/{about.namespace}/{about.name}":
                yield w.t, f"{event.reason}: {event.message}"


def _short(subject: str) -> str:
    """Return ``Kind/name``; a subject without a kind is a pod."""
    parts = subject.split("/")
    return f"{parts[0]}/{parts[2]}" if len(parts) == 3 else f"Pod/{parts[-1]}"


def _key(w: ApiWrite) -> str:
    return f"{w.namespace}/{w.name}" if w.namespace else w.name


def _syncs(trace: Trace, queue: str, agents: tuple[str, ...], key: str) -> Reasons:
    """Tell why a key came to its workers, and what came of it."""
    causes: dict[str, None] = {}
    planned: dict[str, float] = {}  # when each is due
    arrived: list[Delivery] = []
    failed = False
    for record in trace.records:
        if isinstance(record, Delivery):
            if arrived and arrived[-1].t != record.t:
                arrived.clear()
            arrived.append(record)
        elif isinstance(record, QueueOp) and record.queue == queue and record.key == key:
            if record.op == "add":
                causes[_cause(arrived, record.t)] = None
            elif record.op == "add_after":
                planned[f"a check planned {record.delay:g} s before"] = record.t + record.delay
            elif record.op == "add_rate_limited":
                why = ", because it failed" if failed else ""
                yield record.t, f"comes again in {record.delay:g} s{why}"
                planned["the retry"] = record.t + record.delay
        elif isinstance(record, SyncStart) and _mine(record, agents, key):
            due = [text for text, t in planned.items() if t <= record.t + 1e-9]
            why = ", ".join(c for c in [*causes, *due] if c) or "a timer"
            yield record.t, f"sync by worker {record.worker}, woken by {why}"
            causes.clear()
            for text in due:
                del planned[text]
            failed = False
        elif isinstance(record, SyncEnd) and _mine(record, agents, key) and record.error:
            failed = True
            yield record.t, _failure(record.error)


def _mine(record: SyncStart | SyncEnd, agents: tuple[str, ...], key: str) -> bool:
    return record.key == key and record.controller in agents


def _failure(error: str) -> str:
    if (behind := BEHIND.fullmatch(error)) is not None:
        read, wrote, resource = behind.groups()
        return f"held back: {resource} are read up to version {read}, and it wrote version {wrote}"
    return f"sync failed: {error}"


def _cause(arrived: list[Delivery], t: float) -> str:
    now = [d for d in arrived if d.t == t and d.type != "BOOKMARK"]
    if not now:
        return ""
    kinds: dict[str, int] = {}
    for d in now:
        what = f"{d.type} {d.resource}"
        kinds[what] = kinds.get(what, 0) + 1
    return ", ".join(f"{n} x {what}" for what, n in kinds.items())


# ---- leases


def _lease(trace: Trace, namespace: str, name: str) -> Reasons:
    """Tell how a lease went from hand to hand."""
    renewed = 0.0
    for w in trace.of(ApiWrite, resource="leases", namespace=namespace, name=name):
        if w.code >= 300:
            yield w.t, f"{w.agent} comes too late: {w.message}"
            continue
        if not isinstance(w.new, Lease):
            yield w.t, f"deleted by {w.agent}"
            continue
        before = w.old.spec.holder_identity if isinstance(w.old, Lease) else None
        spec = w.new.spec
        if not spec.holder_identity:
            yield w.t, f"{before} gives it back"
        elif spec.holder_identity == before:
            yield w.t, f"{before} renews it"
        elif not before:
            yield w.t, f"{spec.holder_identity} takes it: nobody has it"
        else:
            assert isinstance(w.old, Lease)
            text = f"{w.t - renewed:.1f} s without renewal, it lasts"
            seconds = w.old.spec.lease_duration_seconds
            yield w.t, f"{spec.holder_identity} takes it from {before}: {text} {seconds} s"
        renewed = w.t
