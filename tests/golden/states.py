"""The salient state of an object: what controllers read and write, without what is noise."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from kcm_lite.api.meta import Object
from kcm_lite.api.serial import encode
from tests.golden.names import TIMESTAMP, WITH_TEMPLATE, Names

SPEC = {
    "Deployment": ("replicas", "paused"),
    "ReplicaSet": ("replicas",),
    "StatefulSet": ("replicas",),
    "Job": ("parallelism", "completions", "suspend"),
    "CronJob": ("suspend",),
    "Node": ("taints", "unschedulable"),
    "Pod": ("nodeName",),
}
HIDDEN_ANNOTATIONS = ("kubectl.kubernetes.io/last-applied", "node.alpha", "volumes.kubernetes.io")
POD_NOISE = {"podIP", "podIPs", "hostIP", "hostIPs", "qosClass", "observedGeneration"}
TIMES = {"startTime", "completionTime", "lastScheduleTime", "lastSuccessfulTime"}


class States:
    """The salient state of objects."""

    def __init__(self, names: Names, start: datetime) -> None:
        self.names = names
        self._zero = start.replace(microsecond=0)

    def of(self, obj: Object) -> tuple[dict[str, Any], dict[str, int]]:
        """Return what of an object counts, and the whole seconds of its times."""
        wire, kind = encode(obj), obj.KIND
        meta, spec, status = wire["metadata"], wire.get("spec") or {}, wire.get("status") or {}
        out: dict[str, Any] = {}
        times: dict[str, int] = {}
        annotations = {
            k: "TIME" if TIMESTAMP.fullmatch(v) else v
            for k, v in meta.get("annotations", {}).items()
            if not k.startswith(HIDDEN_ANNOTATIONS)
        }
        if annotations:
            out["annotations"] = annotations
        if kind != "Node" and (labels := meta.get("labels")):
            out["labels"] = {k: v for k, v in labels.items() if "topology.kubernetes.io/" not in k}
        if meta.get("finalizers"):
            out["finalizers"] = list(meta["finalizers"])
        if meta.get("ownerReferences"):
            kept = ("kind", "name", "controller", "blockOwnerDeletion")
            refs = [{k: r[k] for k in kept if k in r} for r in meta["ownerReferences"]]
            out["ownerReferences"] = refs
        if meta.get("deletionTimestamp"):
            out["deleting"] = True
        if meta.get("generation") and kind != "Pod":
            out["generation"] = meta["generation"]
        wanted = {k: spec[k] for k in SPEC.get(kind, ()) if k in spec}
        if "taints" in wanted:
            wanted["taints"] = [
                {k: v for k, v in t.items() if k != "timeAdded"} for t in wanted["taints"]
            ]
        if kind in WITH_TEMPLATE and "template" in spec:
            wanted["image"] = spec["template"]["spec"]["containers"][0]["image"]
        if wanted:
            out["spec"] = wanted
        if kind == "ControllerRevision":
            out["revision"] = wire.get("revision")
        if status:
            out["status"] = self._status(kind, status, times)
        return self.names.all(out), times

    def _status(self, kind: str, status: dict[str, Any], times: dict[str, int]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, value in status.items():
            if (kind == "Node" and key != "conditions") or (kind == "Pod" and key in POD_NOISE):
                continue
            if key == "conditions":
                out[key] = []
                for c in value:
                    if kind == "Node" and c["type"] != "Ready":
                        continue
                    kept = ("type", "status", "reason", "message")
                    out[key].append({k: c[k] for k in kept if c.get(k)})
                    if c.get("lastTransitionTime") and kind != "Node":
                        times[f"cond.{c['type']}"] = self._second(c["lastTransitionTime"])
            elif key == "containerStatuses":
                out[key] = [_container(c) for c in value]
            elif key in TIMES:
                times[key], out[key] = self._second(value), "TIME"
            elif key == "active" and isinstance(value, list):
                out[key] = [ref["name"] for ref in value]
            elif key == "uncountedTerminatedPods":
                out[key] = {k: [self.names.of.get(u, "?") for u in v] for k, v in value.items()}
            else:
                out[key] = value
        return out

    def _second(self, timestamp: str) -> int:
        moment = datetime.fromisoformat(timestamp.replace("Z", "+00:00"))
        return int((moment - self._zero).total_seconds())


def _container(status: dict[str, Any]) -> dict[str, Any]:
    state = status["state"]
    out = {"restartCount": status.get("restartCount", 0), "state": next(iter(state))}
    if "terminated" in state:
        out["exitCode"] = state["terminated"].get("exitCode", 0)
    return out
