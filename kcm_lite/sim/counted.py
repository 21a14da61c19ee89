"""What an expectation can count: pods, events, writes and syncs, each by a filter of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kcm_lite.api.meta import controller_of
from kcm_lite.api.scheme import BY_TYPE
from kcm_lite.controllers import garbageattempts, replication
from kcm_lite.controllers.context import CONTROLLERS
from kcm_lite.sim.check import (
    Check,
    Problem,
    boolean,
    choice,
    integer,
    record,
    show,
    string,
    strings,
)
from kcm_lite.sim.durations import duration
from kcm_lite.sim.faultywire import UNCOUNTED
from kcm_lite.sim.kinds import check_kind
from kcm_lite.sim.verdicts import is_ready
from kcm_lite.trace import ApiWrite, SyncEnd

PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
COLLECTOR = "garbage-collector-controller"
CONTROLLER_AGENTS = {
    **{name: name for name in CONTROLLERS},
    COLLECTOR: garbageattempts.NAME,
    "replicationcontroller-controller": replication.REPLICATION_CONTROLLER.agent,
}
"""The controllers by the names that ``--controllers`` knows, with their user agents."""
OTHERS = ("user", "kubelet", "scheduler", "kube-apiserver", "cluster", "resourcequota-controller")
AGENTS = {**CONTROLLER_AGENTS, **{name: name for name in OTHERS}}
"""Who writes."""
ASIDE = frozenset(BY_TYPE[kind].plural for kind in UNCOUNTED)
"""Written all the time and no part of what a controller is about."""
Key = tuple[str, str, str]  # kind, namespace, name
Filter = Callable[[Any], bool]


def object_key(text: str, path: str, problems: list[Problem], namespace: str) -> Key:
    """Return the key of ``Kind/name`` or ``Kind/namespace/name``."""
    word, *rest = text.split("/")
    if len(rest) not in (1, 2) or not all(rest):
        problems.append(Problem(path, f"got {show(text)}, want Kind/name"))
        return "", "", ""
    found = check_kind(word, path, problems)
    if found is None:
        return "", "", ""
    where = "" if not found.namespaced else rest[0] if len(rest) == 2 else namespace
    return found.kind, where, rest[-1]


def resource(value: Any, path: str, problems: list[Problem]) -> tuple[str, str]:
    """Check for a resource such as ``pods``, with ``/status`` for a subresource, ``/*`` for all."""
    name, _, sub = string(value, path, problems).partition("/")
    found = check_kind(name, path, problems) if name else None
    return ("", "") if found is None else (found.plural, sub)


FIELDS: Mapping[str, Check] = {
    "pods": record(
        {
            "phase": choice(*PHASES),
            "ready": boolean,
            "owner": string,
            "labels": strings,
            "node": string,
            "deleting": boolean,
            "name": string,
        }
    ),
    "event": record({"reason": string, "type": string, "object": string, "message": string}),
    "writes": record(
        {
            "resource": resource,
            "verb": choice("create", "update", "patch", "delete"),
            "agent": choice(*AGENTS),
            "name": string,
            "code": integer(100, 599),
            "since": duration,
        }
    ),
    "syncs": record(
        {
            "controller": choice(*(name for name in CONTROLLERS if name != COLLECTOR)),
            "name": string,
            "failed": boolean,
            "since": duration,
        },
        required=("controller",),
    ),
}
"""What can be counted, and the keys of its filter."""


def filter_of(
    subject: str, raw: Mapping[str, Any], path: str, problems: list[Problem], namespace: str
) -> Filter:
    """Return what tells whether a pod, an event or a record counts."""
    match subject:
        case "pods":
            return _pods(raw)
        case "event":
            return _events(raw, path, problems, namespace)
        case "writes":
            return _writes(raw)
        case _:
            return _syncs(raw)


def _pods(raw: Mapping[str, Any]) -> Filter:
    def counts(pod: Any) -> bool:
        meta = pod.metadata
        ref = controller_of(pod)
        found = {
            "phase": pod.status.phase,
            "ready": is_ready(pod),
            "owner": ref.name if ref else None,
            "node": pod.spec.node_name,
            "deleting": meta.deletion_timestamp is not None,
            "name": meta.name,
        }
        return all(
            v.items() <= meta.labels.items() if k == "labels" else found[k] == v
            for k, v in raw.items()
        )

    return counts


def _events(raw: Mapping[str, Any], path: str, problems: list[Problem], namespace: str) -> Filter:
    about = None
    if "object" in raw:
        about = object_key(raw["object"], f"{path}.object", problems, namespace)

    def counts(event: Any) -> bool:
        ref = event.involved_object
        return (
            raw.get("reason", event.reason) == event.reason
            and raw.get("type", event.type) == event.type
            and raw.get("message", "") in event.message
            and (about is None or about == (ref.kind, ref.namespace, ref.name))
        )

    return counts


def _writes(raw: Mapping[str, Any]) -> Filter:
    plural, sub = raw.get("resource", ("", "*"))
    agent, since = AGENTS.get(raw.get("agent", ""), ""), raw.get("since", 0.0)

    def counts(write: ApiWrite) -> bool:
        return (
            write.t >= since
            and (write.resource == plural if plural else write.resource not in ASIDE)
            and sub in ("*", write.subresource)
            and raw.get("verb", write.verb) == write.verb
            and agent in ("", write.agent)
            and raw.get("name", write.name) == write.name
            and raw.get("code", write.code) == write.code
        )

    return counts


def _syncs(raw: Mapping[str, Any]) -> Filter:
    agent, since = AGENTS[raw["controller"]], raw.get("since", 0.0)

    def counts(sync: SyncEnd) -> bool:
        return (
            sync.t >= since
            and sync.controller == agent
            and ("name" not in raw or str(sync.key).rpartition("/")[2] == raw["name"])
            and raw.get("failed", bool(sync.error)) == bool(sync.error)
        )

    return counts
