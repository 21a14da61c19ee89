"""Vectors of what ReplicaSets stand on, and of their status and whole syncs."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from kcm_lite.api.apps import ReplicaSet
from kcm_lite.api.core import Pod
from kcm_lite.api.errors import NotFound
from kcm_lite.api.meta import replace
from kcm_lite.api.serial import encode
from kcm_lite.client.cache import CONTROLLER_UID_INDEX, index_by_controller_uid
from kcm_lite.client.clientset import Client
from kcm_lite.client.informer import Cache
from kcm_lite.clock import VirtualClock
from kcm_lite.controllers.replicaset import sync_replica_set
from kcm_lite.controllers.replicaset_status import calculate_status
from kcm_lite.controllers.replicaset_types import REPLICA_SET, Found, ReplicaSetController
from kcm_lite.controllers.victims import (
    VictimRules,
    candidates,
    compare,
    get_pods_to_delete,
    logarithmic_rank,
    order_of_victims,
    ranks_of_pods_on_same_node,
)
from kcm_lite.reconcile.consistency import ConsistencyStore
from kcm_lite.reconcile.expectations import (
    ControllerExpectations,
    UIDTrackingControllerExpectations,
)
from kcm_lite.reconcile.podtally import TERMINATING, PodState, PodTally, state_of
from kcm_lite.reconcile.podutil import (
    POD_CONTROLLER_INDEX,
    filter_active_pods,
    filter_terminating_pods,
    index_by_pod_controller,
    is_pod_available,
    is_pod_ready,
    next_availability_check,
)
from kcm_lite.reconcile.slowstart import slow_start_batch
from tests.vectors._fakes import JSON, NOW, Queue


def pod(raw: JSON) -> Pod:
    return msgspec.convert(raw, Pod, strict=False)


def names(pods: list[Pod]) -> list[str]:
    return [pod.metadata.name for pod in pods]


def rules(given: JSON) -> VictimRules:
    now = NOW if given["now_set"] else None
    return VictimRules(now, logarithmic_scale_down=given["logarithmic_scale_down"])


def active_pods_with_ranks_less(given: JSON) -> JSON:
    a, b = candidates([pod(p) for p in given["pods"]], given["ranks"], rules(given))
    return {"less_0_1": compare(a, b) < 0, "less_1_0": compare(b, a) < 0}


def active_pods_with_ranks_sort(given: JSON) -> JSON:
    found = candidates([pod(p) for p in given["pods"]], given["ranks"], rules(given))
    return {"order": names([candidate.pod for candidate in order_of_victims(found)])}


def pods_to_delete(given: JSON) -> JSON:
    pods = [pod(p) for p in given["filtered_pods"]]
    known = {p.metadata.name: p for p in [*pods, *map(pod, given["extra_related"] or [])]}
    related = [known[name] for name in given["related_pods"]]
    deleted = get_pods_to_delete(pods, related, given["diff"], VictimRules(NOW))
    return {"ranks": ranks_of_pods_on_same_node(pods, related), "delete": names(deleted)}


def logarithmic_rank_diff(given: JSON) -> JSON:
    return {"diff": logarithmic_rank(-given["t1_ns"]) - logarithmic_rank(-given["t2_ns"])}


def filter_pods(given: JSON) -> JSON:
    pods = [pod(p) for p in given["pods"]]
    terminating = filter_terminating_pods(pods)
    return {
        "active": names(filter_active_pods(pods)),
        "terminating": names(terminating),
        "terminating_count": len(terminating),
    }


def pod_availability(given: JSON) -> JSON:
    one, seconds = pod(given["pod"]), given["min_ready_seconds"]
    return {
        "ready": is_pod_ready(one),
        "available": is_pod_available(one, seconds, NOW),
        "next_check": next_availability_check(state_of(one).since, seconds, NOW),
    }


def slow_start(given: JSON) -> JSON:
    calls = 0

    async def call() -> None:
        nonlocal calls
        calls += 1
        if calls in given["fail_calls"]:
            raise RuntimeError("boom")

    size = given["initial_batch_size"]
    successes, error = asyncio.run(slow_start_batch(given["count"], size, call))
    return {"calls": calls, "error": error and str(error), "successes": successes}


METHODS = {"raise": "raise_expectations", "lower": "lower_expectations"}


def expectations(given: JSON, store: Any, clock: VirtualClock) -> JSON:
    results: list[Any] = []
    for op in given["ops"]:
        results.append(None)
        if op["op"] == "sleep":
            clock.run_for(op["seconds"])
        elif op["op"] == "satisfied":
            results[-1] = store.satisfied_expectations(op["key"])
        elif op["op"] == "get":
            found = store.get(op["key"])
            results[-1] = found and {"add": found.add, "del": found.dele}
        elif op["op"] == "get_uids":
            uids = store.get_uids(op["key"])
            results[-1] = uids if uids is None else sorted(uids)
        else:
            arguments = [op[k] for k in ("key", "n", "add", "del", "uids", "uid") if k in op]
            getattr(store, METHODS.get(op["op"], op["op"]))(*arguments)
    return {"results": results}


def controller_expectations(given: JSON) -> JSON:
    clock = VirtualClock(NOW)
    return expectations(given, ControllerExpectations(clock), clock)


def uid_tracking_expectations(given: JSON) -> JSON:
    clock = VirtualClock(NOW)
    return expectations(given, UIDTrackingControllerExpectations(clock), clock)


@dataclass
class Server:
    """A server and a pod control that note what they are asked and fail as they are told."""

    given: JSON
    create_calls: int = 0
    created: int = 0
    deleted: list[str] = field(default_factory=list)
    patches: list[JSON] = field(default_factory=list)
    live_gets: int = 0
    statuses: list[JSON] = field(default_factory=list)

    def fresh(self) -> ReplicaSet:
        if self.given["fresh"] is None:
            raise NotFound('replicasets.apps "r" not found')
        return msgspec.convert(self.given["fresh"], ReplicaSet, strict=False)

    async def get(self, kind: type[ReplicaSet], namespace: str, name: str) -> ReplicaSet:
        self.live_gets += 1
        return self.fresh()

    async def update_status(self, rs: ReplicaSet) -> ReplicaSet:
        self.statuses.append(encode(rs)["status"])
        self.fresh()
        return rs

    async def create_pods(self, *args: object) -> None:
        self.create_calls += 1
        if 0 < self.given["create_fails_from"] <= self.create_calls:
            raise RuntimeError("quota exceeded")
        self.created += 1

    async def delete_pod(self, namespace: str, name: str, owner: object) -> None:
        if name in self.given["delete_fails"]:
            raise RuntimeError("delete failed")
        self.deleted.append(name)

    async def patch_pod(self, namespace: str, name: str, patch: JSON) -> None:
        self.patches.append({"name": name, "patch": patch})


def controller(given: JSON, server: Server) -> ReplicaSetController[ReplicaSet]:
    clock = VirtualClock(NOW)
    sets, pods, tally = Cache(ReplicaSet), Cache(Pod), PodTally("ReplicaSet")
    sets.add_indexers({CONTROLLER_UID_INDEX: index_by_controller_uid})
    pods.add_indexers({POD_CONTROLLER_INDEX: index_by_pod_controller})
    for raw in [given["replica_set"], *(given.get("siblings") or [])]:
        sets.indexer.add(msgspec.convert(raw, ReplicaSet, strict=False))
    for raw in given.get("pods") or []:
        pods.indexer.add(pod(raw))
        tally.put(pod(raw))
    queue = Queue("replicaset", clock)
    return ReplicaSetController(
        kind=REPLICA_SET,
        client=cast(Client, server),
        pod_control=server,
        sets=sets,
        pods=pods,
        tally=tally,
        queue=queue,
        expectations=UIDTrackingControllerExpectations(clock),
        consistency=ConsistencyStore({}),
        clock=clock,
        burst_replicas=given.get("burst_replicas", 500),
    )


def replica_set_calculate_status(given: JSON) -> JSON:
    rs = msgspec.convert(given["replica_set"], ReplicaSet, strict=False)
    active = [pod(p) for p in given["active_pods"]]
    error = RuntimeError(given["error"]) if given["error"] else None
    rsc = controller(given, Server(given))
    states = Counter(map(state_of, active))
    going = PodState(frozenset(), TERMINATING, ready=False, since=None)
    states[going] = len(given["terminating_pods"])
    status = calculate_status(rsc, rs, Found(states), error, NOW)
    return {"status": encode(replace(rs, status=status))["status"]}


def replica_set_sync(given: JSON) -> JSON:
    server = Server(given)
    rsc = controller(given, server)
    if given["expected_creations"]:
        rsc.expectations.expect_creations("ns/r", given["expected_creations"])
    error = None
    try:
        asyncio.run(sync_replica_set(rsc, "ns/r"))
    except Exception as failure:
        error = str(failure)
    expected = rsc.expectations.get("ns/r")
    return {
        "create_calls": server.create_calls,
        "error": error,
        "expectations": expected and {"add": expected.add, "del": expected.dele},
        "live_gets": server.live_gets,
        "pod_patches": sorted(server.patches, key=lambda patch: patch["name"]),
        "pods_created": server.created,
        "pods_deleted": sorted(server.deleted),
        "queue": cast(Queue, rsc.queue).ops,
        "status_updates": server.statuses,
    }


ADAPTERS = {
    "active_pods_with_ranks_less": active_pods_with_ranks_less,
    "active_pods_with_ranks_sort": active_pods_with_ranks_sort,
    "controller_expectations": controller_expectations,
    "filter_pods": filter_pods,
    "get_pods_to_delete": pods_to_delete,
    "logarithmic_rank_diff": logarithmic_rank_diff,
    "pod_availability": pod_availability,
    "replica_set_calculate_status": replica_set_calculate_status,
    "replica_set_sync": replica_set_sync,
    "slow_start_batch": slow_start,
    "uid_tracking_expectations": uid_tracking_expectations,
}
