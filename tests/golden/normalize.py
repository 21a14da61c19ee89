"""A trace of ours in the format of the recordings.

Names that a control plane makes up become canonical, in creation order: pods ``<owner>-p<n>``,
ReplicaSets ``<deployment>-rs<n>``, template hashes ``hash<n>``. Of each object only the state that
controllers work with is kept.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any

from kcm_lite.api.core import Event, Pod
from kcm_lite.api.meta import Object
from kcm_lite.trace import ApiWrite, Trace
from tests.golden.names import COMPLETION_INDEX, Change, Names
from tests.golden.states import States

OUTSIDERS = frozenset(
    {"user", "kubelet", "scheduler", "cluster", "kube-apiserver", "resourcequota-controller"}
)
WATCHED = {
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "CronJob",
    "ControllerRevision",
    "PersistentVolumeClaim",
    "ConfigMap",
    "Node",
    "Namespace",
    "ResourceQuota",
}
WRITTEN = {f"{kind.lower()}s" for kind in WATCHED - {"ResourceQuota"}} | {"pods"}
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
QUOTED_POD = re.compile(r'"[^"]*-[a-z0-9]{5}"')
BATCH = 0.5  # seconds: requests so close together are one concurrent batch


def normalize(
    trace: Trace,
    *,
    namespace: str,
    start: datetime,
    skip: Collection[str] = ("nodes", "namespaces"),
) -> dict[str, Any]:
    """Return a run in the recordings' format.

    Args:
        trace: What happened.
        namespace: The scenario's namespace; objects elsewhere do not count.
        start: Date and time at t=0.
        skip: Resources that the recording did not watch.
    """
    records = [r for r in trace.of(ApiWrite) if _belongs(r, namespace, skip)]
    changes = list(_changes(records))
    names = Names(changes, namespace)
    states = States(names, start)
    return {
        "writes": _writes(records, names, states),
        "objects": _objects(changes, names, states),
        "pods": _pods(records, changes, names, start),
        "events": _events(changes, names),
        "final": _final(changes, names, states),
    }


def _belongs(record: ApiWrite, namespace: str, skip: Collection[str]) -> bool:
    if record.resource in skip:
        return False
    if record.resource == "namespaces":
        return record.name == namespace
    return record.namespace in (namespace, "")


def _changes(records: list[ApiWrite]) -> Iterator[Change]:
    for r in records:
        if r.code >= 300:
            continue
        if r.new is None:
            if r.old is not None:
                yield Change(r.t, "DELETED", r.old)
        elif r.old is None:
            yield Change(r.t, "ADDED", r.new)
        elif r.old is not r.new and _version(r.old) != _version(r.new):
            yield Change(r.t, "MODIFIED", r.new)


def _version(obj: Object) -> str:
    return obj.metadata.resource_version


def _natural(text: str) -> list[Any]:
    return [int(x) if x.isdigit() else x for x in re.split(r"(\d+)", text)]


def _tenth(seconds: float) -> float:
    return round(seconds + 0.0, 1)


def _objects(changes: list[Change], names: Names, states: States) -> dict[str, Any]:
    out: dict[str, list[dict[str, Any]]] = {}
    for t, kind, obj in changes:
        if obj.KIND not in WATCHED:
            continue
        sequence = out.setdefault(f"{obj.KIND}/{names.of[obj.metadata.uid]}", [])
        if kind == "DELETED":
            sequence.append({"t": _tenth(t), "deleted": True})
            continue
        state, times = states.of(obj)
        if sequence and sequence[-1].get("state") == state:
            continue
        entry: dict[str, Any] = {"t": _tenth(t), "state": state}
        if times:
            entry["times"] = times
        sequence.append(entry)
    return out


def _events(changes: list[Change], names: Names) -> list[dict[str, Any]]:
    out: dict[str, dict[str, Any]] = {}
    for t, kind, event in changes:
        if not isinstance(event, Event) or kind == "DELETED":
            continue
        about = event.involved_object
        entry = out.setdefault(
            event.metadata.uid,
            {
                "t": _tenth(t),
                "component": event.source.component or event.reporting_component,
                "kind": about.kind,
                "name": names.of.get(about.uid) or names.text(about.name),
                "type": event.type,
                "reason": event.reason,
                "message": "",
                "count": 0,
                "times": [],
            },
        )
        count = event.count or 1
        if count > entry["count"] or not entry["times"]:
            entry["times"].append(_tenth(t))
        entry["count"], entry["message"] = count, names.text(event.message)
    return list(out.values())


def _writes(records: list[ApiWrite], names: Names, states: States) -> list[dict[str, Any]]:
    out = []
    for r in records:
        if r.agent in OUTSIDERS or r.resource not in WRITTEN:
            continue
        if r.code == 409 and r.verb != "create":
            continue
        if (r.resource, r.verb) == ("namespaces", "update") and not r.subresource:
            continue
        write = _write(r, names, states)
        if r.resource == "nodes" and r.verb in ("update", "patch") and "diff" not in write:
            continue
        out.append(write)
    start = 0
    while start < len(out):
        end = start + 1
        while end < len(out) and _same_batch(out[start], out[end]):
            end += 1
        out[start:end] = sorted(out[start:end], key=lambda w: _natural(w["name"]))
        start = end
    return out


def _same_batch(first: dict[str, Any], other: dict[str, Any]) -> bool:
    same = all(first.get(k) == other.get(k) for k in ("agent", "verb", "resource", "code"))
    return same and first["resource"] == "pods" and abs(other["t"] - first["t"]) <= BATCH


def _write(r: ApiWrite, names: Names, states: States) -> dict[str, Any]:
    subject = r.new or r.old
    out: dict[str, Any] = {
        "t": _tenth(r.t),
        "agent": r.agent,
        "verb": r.verb,
        "resource": f"{r.resource}/{r.subresource}" if r.subresource else r.resource,
        "name": names.of.get(subject.metadata.uid, "?") if subject else names.text(r.name),
    }
    if r.verb == "deletecollection":
        out["name"] = "*"
    if r.code >= 300:
        out["code"] = r.code
        if r.code in (403, 409, 422):
            out["error"] = QUOTED_POD.sub('"POD"', names.text(r.message))[:220]
        if r.verb == "create" and r.resource == "pods":
            out["name"] = "?"
    elif r.verb == "create" and r.new is not None:
        kept = ("annotations", "labels", "finalizers", "ownerReferences", "spec", "revision")
        out["object"] = {k: v for k, v in states.of(r.new)[0].items() if k in kept}
    elif r.verb in ("update", "patch"):
        if r.new is None:
            out["removesObject"] = True
        elif r.old is not None and _version(r.old) == _version(r.new):
            out["noop"] = True
        else:
            before = states.of(r.old)[0] if r.old else {}
            if change := diff(before, states.of(r.new)[0]):
                out["diff"] = change
    if r.verb in ("delete", "deletecollection") and r.options is not None:
        options = {
            "propagationPolicy": r.options.propagation_policy,
            "gracePeriodSeconds": r.options.grace_period_seconds,
        }
        options = {k: v for k, v in options.items() if v is not None}
        if (pre := r.options.preconditions) is not None:
            given = {"resourceVersion": pre.resource_version, "uid": pre.uid}
            options["preconditions"] = [k for k, v in given.items() if v is not None]
        if options:
            out["options"] = options
    if r.verb == "patch" and r.resource == "pods" and not r.subresource and r.patch is not None:
        meta = r.patch.get("metadata") or {}
        out["patch"] = names.all({k: v for k, v in meta.items() if k != "uid"})
    return out


def diff(old: Any, new: Any, path: str = "") -> dict[str, Any]:
    """Return what differs between two states: ``{path: [old, new]}``."""
    out: dict[str, Any] = {}
    for key in dict.fromkeys([*old, *new]):
        x, y = old.get(key), new.get(key)
        if x == y:
            continue
        inner = f"{path}.{key}" if path else key
        if key == "conditions":
            before = {c["type"]: c for c in x or ()}
            after = {c["type"]: c for c in y or ()}
            for kind in dict.fromkeys([*before, *after]):
                if before.get(kind) != after.get(kind):
                    pair = [_condition(before.get(kind)), _condition(after.get(kind))]
                    out[f"{inner}[{kind}]"] = pair
        elif isinstance(y, dict) and (x is None or isinstance(x, dict)):
            out.update(diff(x or {}, y, inner))
        else:
            out[inner] = [x, y]
    return out


def _condition(c: dict[str, Any] | None) -> str | None:
    if c is None:
        return None
    text = f"{c['status']}/{c.get('reason', '')}"
    return f"{text}: {c['message']}" if c.get("message") else text


def _pods(
    records: list[ApiWrite], changes: list[Change], names: Names, start: datetime
) -> list[dict[str, Any]]:
    deleters: dict[str, list[tuple[float, str]]] = {}
    for r in records:
        deletes = r.verb in ("delete", "deletecollection") or r.subresource == "eviction"
        if r.resource == "pods" and r.code < 300 and deletes:
            who = r.agent if r.agent not in OUTSIDERS or r.agent == "kubelet" else "user"
            name = "*" if r.verb == "deletecollection" else r.name
            deleters.setdefault(name, []).append((r.t, who))
    out: dict[str, dict[str, Any]] = {}
    current: dict[str, Pod] = {}
    last: dict[str, tuple[list[str], list[str]]] = {}
    offset = start.timestamp()
    for t, kind, pod in changes:
        if not isinstance(pod, Pod):
            continue
        meta, uid, tenth = pod.metadata, pod.metadata.uid, _tenth(t)
        if uid not in out:
            out[uid] = _new_pod(pod, tenth, len(out) + 1, names)
        p = out[uid]
        if pod.spec.node_name and "node" not in p:
            p["node"], p["scheduled"] = pod.spec.node_name, tenth
        if pod.status.phase == "Running":
            p.setdefault("running", tenth)
        if _ready_since(pod) is not None:
            p.setdefault("ready", tenth)
        if pod.status.phase in ("Succeeded", "Failed") and "finished" not in p:
            p["finished"], p["phase"] = tenth, pod.status.phase
        owners = [names.of.get(r.uid, r.name) for r in meta.owner_references if r.controller]
        finalizers = list(meta.finalizers)
        before = last.setdefault(uid, (owners, finalizers))
        if before[0] != owners:
            step = {"t": tenth, "owner": owners[0] if owners else None}
            p.setdefault("ownerChanges", []).append(step)
        if before[1] != finalizers:
            p.setdefault("finalizerChanges", []).append({"t": tenth, "finalizers": finalizers})
        last[uid] = (owners, finalizers)
        gone = kind == "DELETED"
        if (meta.deletion_timestamp is not None or gone) and "deletionRequested" not in p:
            requests = [*deleters.get(meta.name, ()), *deleters.get("*", ())]
            known = [agent for at, agent in requests if at <= t + 0.05]
            p["deletionRequested"], p["deletedBy"] = tenth, known[0] if known else None
            previous = current.get(uid, pod)
            p["atDeletion"] = _at_deletion(previous, current, names, t + offset)
        if gone:
            p["deleted"] = tenth
            current.pop(uid, None)
        else:
            current[uid] = pod
    return sorted(out.values(), key=lambda p: _natural(p["name"]))


def _new_pod(pod: Pod, t: float, index: int, names: Names) -> dict[str, Any]:
    meta = pod.metadata
    out: dict[str, Any] = {
        "name": names.of[meta.uid],
        "index": index,
        "owner": names.owner.get(meta.uid),
        "created": t,
    }
    if meta.uid in names.by_slot:
        del out["index"]
    if (completion := meta.annotations.get(COMPLETION_INDEX)) is not None:
        out["jobIndex"] = int(completion)
    counts = {k.split("/")[1]: v for k, v in meta.annotations.items() if "failure-count" in k}
    if counts:
        out["failureCounts"] = counts
    if (image := pod.spec.containers[0].image) != "app:1":
        out["image"] = image
    return out


def _at_deletion(pod: Pod, current: Mapping[str, Pod], names: Names, now: float) -> dict[str, Any]:
    meta, uid = pod.metadata, pod.metadata.uid
    since = _ready_since(pod)
    siblings = sum(
        other.spec.node_name == pod.spec.node_name
        and other.metadata.uid != uid
        and names.owner.get(other.metadata.uid) == names.owner.get(uid)
        and other.metadata.deletion_timestamp is None
        and other.status.phase not in ("Failed", "Succeeded")
        for other in current.values()
    )
    created = meta.creation_timestamp
    return {
        "phase": pod.status.phase,
        "node": pod.spec.node_name or None,
        "ready": since is not None,
        "readyFor": math.floor(now) - int(since.timestamp()) if since else None,
        "age": math.floor(now) - int(created.timestamp()) if created else None,
        "restarts": sum(c.restart_count for c in pod.status.container_statuses),
        "deletionCost": meta.annotations.get(DELETION_COST),
        "siblingsOnNode": siblings,
    }


def _ready_since(pod: Pod) -> datetime | None:
    for c in pod.status.conditions:
        if c.type == "Ready" and c.status == "True":
            return c.last_transition_time
    return None


def _final(changes: list[Change], names: Names, states: States) -> dict[str, Any]:
    current: dict[str, Object] = {}
    for _, kind, obj in changes:
        if isinstance(obj, Event) or obj.KIND not in WATCHED | {"Pod"}:
            continue
        if kind == "DELETED":
            current.pop(obj.metadata.uid, None)
        else:
            current[obj.metadata.uid] = obj
    out = {}
    for uid, obj in current.items():
        state, _ = states.of(obj)
        if isinstance(obj, Pod):
            state = _final_pod(obj, state, names)
        out[f"{obj.KIND}/{names.of[uid]}"] = state
    return dict(sorted(out.items()))


def _final_pod(pod: Pod, state: dict[str, Any], names: Names) -> dict[str, Any]:
    kept = ("labels", "annotations", "finalizers", "ownerReferences", "deleting")
    out = {
        "phase": pod.status.phase,
        "ready": _ready_since(pod) is not None,
        "node": pod.spec.node_name or None,
        "image": pod.spec.containers[0].image,
        **{k: state[k] for k in kept if k in state},
    }
    if pod.spec.hostname:
        out["hostname"] = names.text(pod.spec.hostname)
    return out
