"""The trace as data frames, one row per thing that happened. Times are seconds of the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from kcm_lite.api.apps import ReplicaSet
from kcm_lite.api.batch import Job
from kcm_lite.api.core import Pod, ReplicationController
from kcm_lite.api.meta import Object, controller_of
from kcm_lite.sim.course import Point, courses
from kcm_lite.sim.verdicts import is_ready
from kcm_lite.trace import ApiWrite, Decision, Delivery, QueueOp, SyncEnd, SyncStart, Trace

STATES = ("unscheduled", "pending", "running", "ready", "terminating", "succeeded", "failed")
"""The states of a pod's life, in order."""


def _frame(trace: Trace, kind: type[Any], columns: list[str]) -> pd.DataFrame:
    """Return the records of a kind, a row each, with these of their fields."""
    return pd.DataFrame([[getattr(r, c) for c in columns] for r in trace.of(kind)], columns=columns)


def writes(trace: Trace) -> pd.DataFrame:
    """Return every write request: who, what, and how the server answered."""
    who = ["t", "agent", "verb"]
    return _frame(trace, ApiWrite, [*who, "resource", "subresource", "namespace", "name", "code"])


def deliveries(trace: Trace) -> pd.DataFrame:
    """Return every watch event that reached a cache, and how late."""
    what = ["t", "client", "type", "resource", "key"]
    return _frame(trace, Delivery, [*what, "resource_version", "lag"])


def queues(trace: Trace) -> pd.DataFrame:
    """Return every step of the work queues, with the depth after it."""
    table = _frame(trace, QueueOp, ["t", "queue", "op", "key", "delay", "depth"])
    return table.assign(key=[str(key) for key in table["key"]])


def decisions(trace: Trace) -> pd.DataFrame:
    """Return every choice that a controller made, with its reason."""
    return _frame(trace, Decision, ["t", "controller", "key", "what", "subject", "reason"])


def syncs(trace: Trace) -> pd.DataFrame:
    """Return every sync of a key: by which worker, from when to when, with which error."""
    columns = ["controller", "worker", "key", "start", "end", "error"]
    open_syncs: dict[tuple[str, int], float] = {}
    rows = []
    for record in trace.records:
        if isinstance(record, SyncStart):
            open_syncs[record.controller, record.worker] = record.t
        elif isinstance(record, SyncEnd):
            start = open_syncs.pop((record.controller, record.worker))
            who = [record.controller, record.worker, str(record.key)]
            rows.append([*who, start, record.t, record.error])
    return pd.DataFrame(rows, columns=columns)


def _counts(
    trace: Trace,
    kinds: tuple[type[Object], ...],
    columns: list[str],
    read: Callable[[Any], list[int | None]],
) -> pd.DataFrame:
    """Return what ``read`` counts of each workload, each time that it changes."""
    rows: list[list[Any]] = []
    last: dict[str, list[int | None]] = {}
    for w in trace.of(ApiWrite):
        obj = w.new if w.new is not None else w.old
        if w.code < 300 and isinstance(obj, kinds):
            name = f"{obj.KIND}/{obj.metadata.name}"
            counts: list[int | None] = [None] * len(columns)
            if w.new is not None:
                counts = read(obj)
            if last.get(name) != counts:
                last[name] = counts
                rows.append([w.t, name, *counts])
    return pd.DataFrame(rows, columns=["t", "workload", *columns])


def replicas(trace: Trace) -> pd.DataFrame:
    """Return the counts of every workload each time that one changes; none when it is gone."""

    def read(obj: Any) -> list[int | None]:
        wanted, status = 1 if obj.spec.replicas is None else obj.spec.replicas, obj.status
        return [wanted, status.replicas, status.ready_replicas, status.available_replicas]

    kinds = ReplicaSet, ReplicationController
    return _counts(trace, kinds, ["wanted", "replicas", "ready", "available"], read)


def jobs(trace: Trace) -> pd.DataFrame:
    """Return the counts of every Job each time that one changes; none when it is gone."""

    def read(job: Any) -> list[int | None]:
        status = job.status
        return [job.spec.completions, status.active, status.succeeded, status.failed]

    return _counts(trace, (Job,), ["completions", "active", "succeeded", "failed"], read)


def rollouts(trace: Trace, *, end: float) -> pd.DataFrame:
    """Return the pods of every Deployment over time, against what it promised.

    The columns are those of `kcm_lite.sim.course.Point`, and ``workload``.
    """
    columns = ["workload", *Point._fields]
    rows = [
        [f"Deployment/{course.last.metadata.name}", *point]
        for course in courses(trace, end)
        for point in course.points
    ]
    return pd.DataFrame(rows, columns=columns)


def set_sizes(trace: Trace, *, end: float) -> pd.DataFrame:
    """Return how many pods each replica set of a Deployment should have, each time it changes."""
    columns = ["workload", "t", "set", "size"]
    rows = [
        [f"Deployment/{course.last.metadata.name}", *size]
        for course in courses(trace, end)
        for size in course.sizes
    ]
    return pd.DataFrame(rows, columns=columns)


def pod_states(trace: Trace, *, end: float) -> pd.DataFrame:
    """Return each pod's life as spans: in which of `STATES` from when to when.

    Args:
        trace: What happened.
        end: Second at which the spans that are still open end.
    """
    columns = ["pod", "owner", "state", "start", "end"]
    rows: list[list[Any]] = []
    current: dict[str, list[Any]] = {}  # by uid, in order of creation
    for w in trace.of(ApiWrite, resource="pods"):
        obj = w.new if w.new is not None else w.old
        if w.code >= 300 or not isinstance(obj, Pod):
            continue
        span = current.get(obj.metadata.uid)
        state = pod_state(obj) if w.new is not None else None
        if span is not None and span[2] != state:
            span[4] = w.t
            del current[obj.metadata.uid]
            span = None
        if span is None and state is not None:
            ref = controller_of(obj)
            owner = f"{ref.kind}/{ref.name}" if ref else ""
            span = current[obj.metadata.uid] = [obj.metadata.name, owner, state, w.t, end]
            rows.append(span)
    return pd.DataFrame(rows, columns=columns)


def pod_state(pod: Pod) -> str:
    """Return which of `STATES` a pod is in."""
    phase = pod.status.phase
    if phase in ("Succeeded", "Failed"):
        return phase.lower()
    if pod.metadata.deletion_timestamp is not None:
        return "terminating"
    if phase == "Running":
        return "ready" if is_ready(pod) else "running"
    return "pending" if pod.spec.node_name else "unscheduled"
