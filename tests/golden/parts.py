"""A run reduced to its comparable parts.

A *run* is a dict with ``writes``, ``objects``, ``pods``, ``events`` and ``final``: the recordings'
format. A *part* is a view of it that leaves out what does not count: times, which are compared
apart, and in the fair parts whatever depends on latencies only.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

Run = dict[str, Any]

POD_TIMES = (
    "created",
    "scheduled",
    "running",
    "ready",
    "finished",
    "deletionRequested",
    "deleted",
)
LASTING = 0.3  # seconds: a state that was gone sooner depends on latencies
PROGRESS = ("NewReplicaSetCreated", "ReplicaSetUpdated")
COLLECTOR = "generic-garbage-collector"


def text(value: Any) -> str:
    """A value as text that is equal for equal values."""
    return json.dumps(value, sort_keys=True)


def drop(mapping: dict[str, Any], *keys: str) -> dict[str, Any]:
    """A copy without some keys."""
    return {k: v for k, v in mapping.items() if k not in keys}


def resource(write: dict[str, Any]) -> str:
    """The resource of a write, without its subresource."""
    return str(write["resource"]).partition("/")[0]


def all_writes(run: Run) -> list[str]:
    """Every write in commit order."""
    return [text(drop(w, "t")) for w in run["writes"]]


def writes_of(run: Run, key: str) -> list[str]:
    """The writes of one object, named ``resource/name``."""
    return [text(drop(w, "t")) for w in run["writes"] if f"{resource(w)}/{w['name']}" == key]


def creates_and_deletes(run: Run) -> dict[str, Any]:
    """What came and went, in order; the collector deletes pods by many workers, in no order."""
    done = [w for w in run["writes"] if w["verb"] in ("create", "delete") and "code" not in w]
    order, collected = [], 0
    for w in done:
        if w["agent"] == COLLECTOR and w["resource"] == "pods":
            collected += 1
        else:
            order.append((w["agent"], w["verb"], w["resource"]))
    distinct = {w["name"] for w in done if w["agent"] == COLLECTOR and w["resource"] == "pods"}
    return {"order": order, "collected": sorted(distinct)}


def scales(run: Run) -> dict[str, list[Any]]:
    """The sequence of spec.replicas of every ReplicaSet."""
    out: dict[str, list[Any]] = {}
    for w in run["writes"]:
        if resource(w) == "replicasets":
            steps = out.setdefault(w["name"], [])
            if change := w.get("diff", {}).get("spec.replicas"):
                steps.append(change)
    return dict(sorted(out.items()))


def effects(run: Run) -> dict[str, Any]:
    """What the controllers did, whatever the latencies.

    Status writes, refusals and no-ops are aside. The writes of an object count in order, per agent.
    Pods are a set per agent and verb, as a stale cache may patch or delete one twice; which pods
    were deleted is told by the victims, here only how many.
    """
    out: dict[str, Any] = {}
    for w in run["writes"]:
        if w["resource"].endswith("/status") or w.get("noop") or "code" in w:
            continue
        verb = w["verb"]
        bare = drop(w, "t", "options", "removesObject", *(("diff",) if verb == "patch" else ()))
        if resource(w) != "pods":
            key = f"{w['agent']} {resource(w)} {w['name']}"
            out.setdefault(key, []).append(text(bare))
        else:
            item = w["name"] if verb == "delete" else text(bare)
            out.setdefault(f"{w['agent']} {verb} pods", set()).add(item)
    return {
        key: (len(v) if key.endswith("delete pods") else sorted(v)) if isinstance(v, set) else v
        for key, v in out.items()
    }


def states(run: Run, key: str) -> list[str]:
    """All states of an object as a watch saw them."""
    return [text(drop(s, "t", "times")) for s in run["objects"].get(key, ())]


def settled(run: Run, key: str) -> list[str]:
    """The states of an object that lasted."""
    sequence = run["objects"].get(key, ())
    ends = [s["t"] for s in sequence[1:]] + [float("inf")]
    out: list[str] = []
    for state, end in zip(sequence, ends, strict=False):
        if end - state["t"] > LASTING and (calm := text(without_races(state))) not in out[-1:]:
            out.append(calm)
    return out


def without_races(entry: dict[str, Any]) -> dict[str, Any]:
    """A state without what a race decides.

    That is the order of conditions, how far Progressing came on its way, and a Job's ``ready``,
    which is sampled once a second just when the recorded pods change.
    """
    if "state" not in entry:
        return drop(entry, "t", "times")
    state = dict(entry["state"])
    if status := state.get("status"):
        status = drop(status, *(["ready"] if "uncountedTerminatedPods" in status else []))
        if conditions := status.get("conditions"):
            calm = [
                {"type": c["type"], "status": c["status"], "reason": "under way"}
                if c.get("reason") in PROGRESS
                else c
                for c in conditions
            ]
            status["conditions"] = sorted(calm, key=lambda c: str(c["type"]))
        state["status"] = status
    return {"state": state}


def conditions(run: Run, key: str) -> dict[str, list[list[Any]]]:
    """Per type of condition the sequence of its status and reason, short-lived ones included."""
    out: dict[str, list[list[Any]]] = {}
    for entry in run["objects"].get(key, ()):
        for c in entry.get("state", {}).get("status", {}).get("conditions", ()):
            reason = "under way" if c.get("reason") in PROGRESS else c.get("reason")
            sequence = out.setdefault(c["type"], [])
            if [c["status"], reason] not in sequence[-1:]:
                sequence.append([c["status"], reason])
    return out


def pods(run: Run) -> list[str]:
    """Every pod: owner, node, index, what became of it, and what its victim looked like."""
    return [text(pod(p)) for p in run["pods"]]


def pod(p: dict[str, Any]) -> dict[str, Any]:
    """A pod without times; an Indexed job's or StatefulSet's without node and index."""
    out = drop(p, *POD_TIMES)
    victim = drop(p["atDeletion"], "readyFor", "age") if "atDeletion" in p else None
    owner, _, ordinal = p["name"].rpartition("-")
    if "jobIndex" in p or (p["owner"] and owner == p["owner"] and ordinal.isdigit()):
        out = drop(out, "node", "index")
        victim = drop(victim, "node", "siblingsOnNode") if victim is not None else None
    if victim is not None:
        out["atDeletion"] = victim
    out["went through"] = [k for k in POD_TIMES if k in p]
    for key in ("ownerChanges", "finalizerChanges"):
        if key in out:
            out[key] = [drop(change, "t") for change in out[key]]
    return out


def pods_apart(run: Run) -> list[str]:
    """Every pod as in `pods`, but not its place among the pods of other owners, nor its node."""
    return sorted(text(apart(p)) for p in run["pods"])


def apart(p: dict[str, Any]) -> dict[str, Any]:
    """A pod without what depends on other owners' pods."""
    out = drop(pod(p), "index", "node")
    if "atDeletion" in out:
        out["atDeletion"] = drop(out["atDeletion"], "node", "siblingsOnNode")
    return out


def victims(run: Run) -> list[tuple[str, str]]:
    """Which pods were deleted, and by whom."""
    return sorted((p["name"], str(p["deletedBy"])) for p in run["pods"] if "deletionRequested" in p)


def events(run: Run) -> list[str]:
    """The events as a bag: inside a concurrent batch their order is chance."""
    return sorted(text(drop(e, "t", "times")) for e in run["events"])


def final(run: Run) -> dict[str, str]:
    """The last state of everything; the nodes of pods aside."""
    return {k: text(drop(v, "node") if k[:4] == "Pod/" else v) for k, v in run["final"].items()}


def final_settled(run: Run) -> dict[str, str]:
    """The last state of everything, but not by how many changes of its spec a set came to it."""
    out = final(run)
    for key, state in run["final"].items():
        if key.startswith("ReplicaSet/"):
            status = drop(state.get("status", {}), "observedGeneration")
            out[key] = text(drop(state, "generation", "status") | {"status": status})
    return out


WHOLE = {
    "writes": all_writes,
    "writes.set": lambda run: sorted(all_writes(run)),
    "writes.createsAndDeletes": creates_and_deletes,
    "writes.scales": scales,
    "writes.effects": effects,
    "pods": pods,
    "pods.apart": pods_apart,
    "pods.victims": victims,
    "pods.count": lambda run: len(run["pods"]),
    "events": events,
    "events.set": events,
    "final": final,
    "final.settled": final_settled,
}
KEYED = {
    "writes": writes_of,
    "objects": states,
    "settled": settled,
    "conditions": conditions,
}


def view(part: str, run: Run) -> Any:
    """A part of a run, such as ``pods`` or ``objects/ReplicaSet/web``."""
    if part in WHOLE:
        return WHOLE[part](run)
    kind, _, key = part.partition("/")
    return KEYED[kind](run, key)


def difference(golden: Any, ours: Any) -> str:
    """The first difference of two views, in one line."""
    if isinstance(golden, list) and isinstance(ours, list):
        a, b = Counter(map(text, golden)), Counter(map(text, ours))
        if a == b:
            at = next(
                i for i, pair in enumerate(zip(golden, ours, strict=True)) if pair[0] != pair[1]
            )
            return f"order differs from item {at}: recorded {golden[at]}, ours {ours[at]}"
        theirs, mine = list((a - b).elements())[:2], list((b - a).elements())[:2]
        return f"recorded only {theirs}, ours only {mine}"
    if isinstance(golden, dict) and isinstance(ours, dict):
        key = next(k for k in [*golden, *ours] if golden.get(k) != ours.get(k))
        return f"{key}: {difference(golden.get(key), ours.get(key))}"
    return f"recorded {golden}, ours {ours}"
