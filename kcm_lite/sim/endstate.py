"""What of a cluster lasts, without what chance and the moment decide: to compare the ends of runs.

>>> state = end_state(cluster)                        # doctest: +SKIP
>>> print(state)
Pod web-*  x3  labels.app=web owners=ReplicaSet/web phase=Running ready scheduled
ReplicaSet/web  labels.app=web ... spec.template=<app:1 541b> status.readyReplicas=3 ...
>>> differences(state, end_state(other))
["ReplicaSet/web: status.readyReplicas=3, not status.readyReplicas=2"]
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kcm_lite.api.core import Event, Namespace, Node, Pod
from kcm_lite.api.meta import Object
from kcm_lite.api.scheme import RESOURCES, resource_of
from kcm_lite.api.serial import encode
from kcm_lite.sim.cluster import Cluster
from kcm_lite.sim.verdicts import is_ready

LEFT_OUT: Mapping[str, str] = {
    "uid, resourceVersion, generateName": "the server makes them up",
    "generation, observedGeneration": "they count writes; whether the status is up to date stays",
    "creationTimestamp and all other times": "a restart takes time; that there is one stays",
    "suffixes of names, template hashes, UIDs in labels": "made up; a mark of the template stays",
    "messages": "they quote names; the reason stays",
    "collisionCount": "a repeated creation may meet its own forerunner",
    "nodeName": "nodes take turns in the order of creation; whether a pod has one stays",
    "a pod's containers, conditions and addresses": "its kubelet's; phase, reason, readiness stay",
    "Events, Leases, Nodes, Namespaces": "not the controllers' aim",
}
"""What is not compared, and why."""

UNCOMPARED = (Event, Namespace, Node)
MADE_UP = {"pod-template-hash", "controller-uid", "batch.kubernetes.io/controller-uid"}
HASH = "pod-template-hash"
TIMES = {"startTime", "completionTime"}


@dataclass(frozen=True)
class EndState:
    """What of a cluster's objects lasts.

    Attributes:
        objects: The canonical name and the fields of every object, ordered; pods that are alike
            come several times.
    """

    objects: tuple[tuple[str, tuple[str, ...]], ...]

    def __str__(self) -> str:
        counts = Counter(self.objects)
        return "\n".join(
            f"{name}{f'  x{n}' if n > 1 else ''}  {' '.join(fields)}"
            for (name, fields), n in counts.items()
        )


def end_state(cluster: Cluster) -> EndState:
    """Return what lasts of a cluster as it is now."""
    kinds = [r.type for r in RESOURCES if r.type not in UNCOMPARED and r.kind != "Lease"]
    objects = [obj for kind in kinds for obj in cluster.server.list(kind, "").items]
    return state_of(objects, cluster.namespace)


def state_of(objects: Iterable[Object], namespace: str) -> EndState:
    """Return what lasts of some objects; those outside the namespace are named with theirs."""
    objects = list(objects)
    wires = [encode(obj) for obj in objects]
    names = {obj.metadata.name: name for obj, name in _template_names(objects, wires)}
    found = [
        (_label(obj, names, namespace), tuple(sorted(_flat(_content(obj, wire, names)))))
        for obj, wire in zip(objects, wires, strict=True)
    ]
    return EndState(tuple(sorted(found)))


# ---- names


def _template_names(
    objects: Iterable[Object], wires: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[Object, str]]:
    """Yield the sets that are named after their template, with a name that tells its content."""
    for obj, wire in zip(objects, wires, strict=True):
        value = obj.metadata.labels.get(HASH, "")
        template = (wire.get("spec") or {}).get("template")
        if value and template and obj.metadata.name.endswith(f"-{value}"):
            yield obj, f"{obj.metadata.name.removesuffix(value)}{_gist(template)}"


def _gist(template: Mapping[str, Any]) -> str:
    """Return a template's images and a mark of all that it says."""
    images = ",".join(c["image"] for c in template["spec"]["containers"])
    text = json.dumps(_scrubbed(template), sort_keys=True)
    return f"<{images} {zlib.crc32(text.encode()) & 0xFFFF:04x}>"


def _label(obj: Object, names: Mapping[str, str], namespace: str) -> str:
    meta = obj.metadata
    where = f"{meta.namespace}/" if meta.namespace not in ("", namespace) else ""
    if meta.generate_name:
        prefix = meta.generate_name.removesuffix("-")
        return f"{obj.KIND} {where}{names.get(prefix, prefix)}-*"
    return f"{obj.KIND}/{where}{names.get(meta.name, meta.name)}"


# ---- content


def _scrubbed(value: Any) -> Any:
    """Return a document without the labels that the control plane makes up."""
    if isinstance(value, Mapping):
        return {k: _scrubbed(v) for k, v in value.items() if k not in MADE_UP}
    if isinstance(value, list):
        return [_scrubbed(v) for v in value]
    return value


def _content(obj: Object, wire: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    meta = wire["metadata"]
    out: dict[str, Any] = {
        "labels": _scrubbed(meta.get("labels", {})),
        "annotations": meta.get("annotations", {}),
        "finalizers": sorted(meta.get("finalizers", ())),
        "owners": [_owner(ref, names) for ref in meta.get("ownerReferences", ())],
        "deleting": "deletionTimestamp" in meta,
    }
    if isinstance(obj, Pod):
        out |= {
            "images": [c.image for c in obj.spec.containers],
            "scheduled": bool(obj.spec.node_name),
            "phase": obj.status.phase,
            "reason": obj.status.reason,
            "ready": is_ready(obj),
        }
        return out
    rest = {k: v for k, v in wire.items() if k not in ("apiVersion", "kind", "metadata", "status")}
    if "template" in rest.get("spec", {}):
        rest["spec"] = {**rest["spec"], "template": _gist(rest["spec"]["template"])}
    out |= _scrubbed(rest)
    if resource_of(obj).has_status:
        out["status"] = _status(wire.get("status") or {}, meta.get("generation", 0))
    return out


def _owner(ref: Mapping[str, Any], names: Mapping[str, str]) -> str:
    text = f"{ref['kind']}/{names.get(ref['name'], ref['name'])}"
    marks = [k for k in ("controller", "blockOwnerDeletion") if ref.get(k)]
    return " ".join([text, *marks])


def _status(status: Mapping[str, Any], generation: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in status.items():
        if key == "collisionCount":
            continue
        if key == "observedGeneration":
            out["upToDate"] = value == generation
        elif key == "conditions":
            out[key] = {c["type"]: f"{c['status']} {c.get('reason', '')}".strip() for c in value}
        elif key == "uncountedTerminatedPods":
            out[key] = {k: len(uids) for k, uids in value.items()}
        else:
            out[key] = key in TIMES or value
    return out


def _flat(value: Any, path: str = "") -> Iterator[str]:
    """Yield ``path=value`` for all that is set: zeros, empty texts and False are not."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else key)
    elif value is True:
        yield path
    elif value:
        text = json.dumps(value, sort_keys=True) if isinstance(value, list) else str(value)
        yield f"{path}={text}"


# ---- comparing


def differences(expected: EndState, found: EndState) -> list[str]:
    """Return in what an end differs from the expected one, a line each; nothing if it does not."""
    if expected == found:
        return []
    missing, extra = Counter(expected.objects), Counter(found.objects)
    missing, extra = missing - extra, extra - missing
    out = []
    for name in dict.fromkeys(name for name, _ in sorted([*missing, *extra])):
        lost = [(fields, n) for (other, fields), n in missing.items() if other == name]
        new = [(fields, n) for (other, fields), n in extra.items() if other == name]
        if len(lost) == len(new) == 1 and lost[0][1] == new[0][1]:
            out.append(f"{_times(name, new[0][1])}: {_changed(lost[0][0], new[0][0])}")
            continue
        out += [f"{_times(name, n)} is missing: {' '.join(fields)}" for fields, n in lost]
        out += [f"{_times(name, n)} is too much: {' '.join(fields)}" for fields, n in new]
    return out


def _times(name: str, n: int) -> str:
    return f"{n} x {name}" if n > 1 else name


def _changed(old: tuple[str, ...], new: tuple[str, ...]) -> str:
    """Say in which fields an object differs."""
    before = {text.partition("=")[0]: text for text in old if text not in new}
    after = {text.partition("=")[0]: text for text in new if text not in old}
    out = []
    for path in dict.fromkeys([*before, *after]):
        if path not in after:
            out.append(f"without {before[path]}")
        elif path not in before:
            out.append(f"with {after[path]}")
        else:
            out.append(f"{after[path]}, not {before[path].partition('=')[2] or 'true'}")
    return "; ".join(out)
