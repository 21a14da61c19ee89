"""Vectors of Deployments: their arithmetic, their annotations, and whole syncs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

from kcm_lite.api.apps import (
    Deployment,
    DeploymentSpec,
    DeploymentStrategy,
    ReplicaSet,
    RollingUpdateDeployment,
)
from kcm_lite.api.core import Pod, PodTemplateSpec
from kcm_lite.api.errors import AlreadyExists, NotFound
from kcm_lite.api.meta import Object, object_key, replace
from kcm_lite.api.serial import convert, decode, encode
from kcm_lite.client.cache import CONTROLLER_UID_INDEX, index_by_controller_uid
from kcm_lite.client.clientset import Client
from kcm_lite.client.events import EventRecorder
from kcm_lite.client.informer import Cache
from kcm_lite.clock import VirtualClock
from kcm_lite.controllers.deployment import ORPHAN_INDEX, index_orphans, sync_deployment
from kcm_lite.controllers.deployment_revisions import (
    last_revision,
    max_revision,
    set_new_replica_set_annotations,
)
from kcm_lite.controllers.deployment_status import calculate_status, deployment_timed_out
from kcm_lite.controllers.deployment_templates import (
    HASH_LABEL,
    equal_ignore_hash,
    find_new_replica_set,
    find_old_replica_sets,
    generate_replica_set_name,
)
from kcm_lite.controllers.deployment_types import DeploymentController
from kcm_lite.controllers.proportions import (
    find_active_or_latest,
    is_saturated,
    replica_set_proportion,
)
from kcm_lite.controllers.rollout import (
    active,
    by_creation,
    deployment_complete,
    deployment_progressing,
    max_surge,
    max_unavailable,
    min_available,
    new_rs_new_replicas,
    resolve_fenceposts,
    wanted,
)
from kcm_lite.reconcile.podutil import POD_CONTROLLER_INDEX, index_by_pod_controller
from tests.vectors._fakes import JSON, NOW, Queue, Recorder


def names(sets: list[ReplicaSet]) -> list[str]:
    return [rs.metadata.name for rs in sets]


def template(raw: JSON) -> PodTemplateSpec:
    return convert(raw, PodTemplateSpec)


def fenceposts(given: JSON) -> JSON:
    surge, unavailable, desired = given["max_surge"], given["max_unavailable"], given["desired"]
    rolling = RollingUpdateDeployment(max_surge=surge, max_unavailable=unavailable)
    strategy = DeploymentStrategy(type="RollingUpdate", rolling_update=rolling)
    d = Deployment(spec=DeploymentSpec(replicas=desired, strategy=strategy))
    out: JSON = {
        "deployment_max_surge": max_surge(d),
        "deployment_max_unavailable": max_unavailable(d),
        "deployment_min_available": min_available(d),
    }
    try:
        out["surge"], out["unavailable"] = resolve_fenceposts(surge, unavailable, desired)
    except ValueError as error:
        out["error"] = str(error)
    return out


def new_annotations(given: JSON) -> JSON:
    annotations, changed = set_new_replica_set_annotations(
        decode(given["deployment"], Deployment),
        decode(given["replica_set"], ReplicaSet),
        given["new_revision"],
        exists=given["exists"],
        limit=given["rev_history_limit_in_chars"],
    )
    return {"annotations": dict(annotations), "changed": changed}


def util(given: JSON) -> JSON:
    d = decode(given["deployment"], Deployment)
    sets = by_creation(decode(raw, ReplicaSet) for raw in given["replica_sets"])
    new = find_new_replica_set(d, sets)
    old = find_old_replica_sets(new, sets)
    status = calculate_status(d, new, old, NOW)
    chosen = find_active_or_latest(new, old)
    to_add, added = given["to_add"], given["added"]
    return {
        "active_or_latest": chosen and chosen.metadata.name,
        "calculate_status": encode(replace(d, status=status)).get("status", {}),
        "complete": deployment_complete(d, status),
        "complete_current_status": deployment_complete(d, d.status),
        "is_saturated": is_saturated(d, new),
        "last_revision": last_revision(sets),
        "max_revision": max_revision(sets),
        "new_replica_set": new and new.metadata.name,
        "new_rs_new_replicas": new and new_rs_new_replicas(d, sets, new),
        "old_all": names(old),
        "old_with_pods": names(active(old)),
        "progressing": deployment_progressing(d, status),
        "proportions": {
            rs.metadata.name: replica_set_proportion(d, rs, to_add, added) for rs in sets
        },
        "timed_out": deployment_timed_out(d, status, NOW),
    }


def slim(obj: Object) -> JSON:
    """An object as the vectors show it: without kind, empty parts and the hash."""
    wire = trimmed({k: v for k, v in encode(obj).items() if k not in ("apiVersion", "kind")})
    assert isinstance(wire, dict)
    return wire


def trimmed(value: Any) -> Any:
    if isinstance(value, dict):
        parts = {k: trimmed(v) for k, v in value.items()}
        return {k: v for k, v in parts.items() if v != {} or k == "selector"}
    return [trimmed(item) for item in value] if isinstance(value, list) else value


@dataclass
class Server:
    """A server that stores what it is told, notes every write, and makes up nothing."""

    objects: dict[tuple[type, str], Any]
    actions: list[JSON] = field(default_factory=list)
    hash: str = ""

    def masked(self, value: Any) -> Any:
        """A value with the name of our hash replaced by the recordings' word for it."""
        if isinstance(value, str):
            return value.replace(self.hash, "HASH") if self.hash else value
        if isinstance(value, dict):
            return {k: self.masked(v) for k, v in value.items()}
        return [self.masked(v) for v in value] if isinstance(value, list) else value

    async def get(self, kind: type, namespace: str, name: str) -> Any:
        found = self.objects.get((kind, f"{namespace}/{name}"))
        if found is None:
            raise NotFound(f'"{name}" not found')
        return found

    async def create(self, rs: ReplicaSet) -> ReplicaSet:
        self.hash = rs.metadata.labels[HASH_LABEL]
        key = ReplicaSet, object_key(rs)
        if key in self.objects:
            raise AlreadyExists(f'replicasets.apps "{rs.metadata.name}" already exists')
        self.objects[key] = rs
        self.actions.append({"object": slim(rs), "resource": "replicasets", "verb": "create"})
        return rs

    async def update(self, obj: Any) -> Any:
        self.objects[type(obj), object_key(obj)] = obj
        assert isinstance(obj, ReplicaSet)
        action = {"name": obj.metadata.name, "resource": "replicasets", "verb": "update"}
        changed = {
            "annotations": dict(obj.metadata.annotations),
            "minReadySeconds": obj.spec.min_ready_seconds,
            "replicas": wanted(obj),
        }
        self.actions.append(action | changed)
        return obj

    async def update_status(self, d: Deployment) -> Deployment:
        self.objects[Deployment, object_key(d)] = d
        action = {"name": d.metadata.name, "resource": "deployments/status", "verb": "update"}
        self.actions.append(action | state(d))
        return d

    async def patch(
        self, kind: type, namespace: str, name: str, patch: JSON, *, patch_type: str
    ) -> Any:
        action = {"name": name, "patch": patch, "resource": "replicasets", "verb": "patch"}
        self.actions.append(action)
        return self.objects[kind, f"{namespace}/{name}"]

    async def delete(self, kind: type, namespace: str, name: str) -> None:
        del self.objects[kind, f"{namespace}/{name}"]
        self.actions.append({"name": name, "resource": "replicasets", "verb": "delete"})


def state(d: Deployment) -> JSON:
    """The parts of a Deployment that a status write changes."""
    return {
        "annotations": dict(d.metadata.annotations),
        "status": encode(d).get("status", {}),
    }


def controller(given: JSON, server: Server, recorder: Recorder) -> DeploymentController:
    clock = VirtualClock(NOW)
    deployments, sets, pods = Cache(Deployment), Cache(ReplicaSet), Cache(Pod)
    sets.add_indexers({CONTROLLER_UID_INDEX: index_by_controller_uid, ORPHAN_INDEX: index_orphans})
    pods.add_indexers({POD_CONTROLLER_INDEX: index_by_pod_controller})
    deployments.indexer.add(decode(given["deployment"], Deployment))
    for raw in given["replica_sets"]:
        sets.indexer.add(decode(raw, ReplicaSet))
    for raw in given.get("pods") or []:
        pods.indexer.add(decode(raw, Pod))
    for cache in (deployments, sets):
        server.objects |= {(type(obj), object_key(obj)): obj for obj in cache.indexer.list()}
    queue = Queue("deployment", clock)
    return DeploymentController(
        client=cast(Client, server),
        recorder=cast(EventRecorder, recorder),
        deployments=deployments,
        sets=sets,
        pods=pods,
        queue=queue,
        clock=clock,
    )


def sync(given: JSON) -> JSON:
    server, recorder = Server({}), Recorder()
    dc = controller(given, server, recorder)
    error = None
    try:
        asyncio.run(sync_deployment(dc, "ns/d"))
    except Exception as failure:
        error = str(failure)
    sizes = {rs.metadata.name: wanted(rs) for rs in server.objects.values() if _is_set(rs)}
    return server.masked(  # type: ignore[no-any-return]
        {
            "actions": server.actions,
            "deployment": state(server.objects[Deployment, "ns/d"]),
            "error": error,
            "events": recorder.events,
            "queue": cast(Queue, dc.queue).ops,
            "replica_set_sizes": {server.masked(name): size for name, size in sizes.items()},
        }
    )


def _is_set(obj: Object) -> bool:
    return isinstance(obj, ReplicaSet)


def scale_arithmetic(given: JSON) -> JSON:
    out = sync(given)
    return {key: out[key] for key in ("error", "events", "replica_set_sizes")}


def without_null(value: Any) -> Any:
    """A recorded answer with no annotations for null ones: Go has two ways to have none."""
    if isinstance(value, dict):
        parts = {k: without_null(v) for k, v in value.items()}
        return {k: {} if (k, v) == ("annotations", None) else v for k, v in parts.items()}
    return [without_null(item) for item in value] if isinstance(value, list) else value


ADAPTERS = {
    "deployment_scale_arithmetic": scale_arithmetic,
    "deployment_sync": sync,
    "deployment_util": util,
    "equal_ignore_hash": lambda given: {
        "equal": equal_ignore_hash(template(given["a"]), template(given["b"]))
    },
    "generate_replica_set_name": lambda given: {
        "name": generate_replica_set_name(given["deployment"], given["hash"])
    },
    "resolve_fenceposts": fenceposts,
    "set_new_replica_set_annotations": new_annotations,
}

EXPECTED = {"deployment_sync": without_null}
