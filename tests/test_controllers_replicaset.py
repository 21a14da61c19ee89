"""The ReplicaSet controller: handlers, one sync at a time, and whole runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Generic, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcm_lite.api.apps import ReplicaSet, ReplicaSetSpec, ReplicaSetStatus
from kcm_lite.api.core import (
    Container,
    Pod,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
    ReplicationController,
    ReplicationControllerSpec,
)
from kcm_lite.api.errors import Cause, Conflict, Forbidden, NotFound, ServerTimeout
from kcm_lite.api.meta import (
    Condition,
    LabelSelector,
    LabelSelectorRequirement,
    ObjectMeta,
    OwnerReference,
    replace,
)
from kcm_lite.apiserver.transport import Latency
from kcm_lite.client.cache import CONTROLLER_UID_INDEX, Indexer, Tombstone, index_by_controller_uid
from kcm_lite.client.clientset import Client
from kcm_lite.client.informer import Cache
from kcm_lite.client.workqueue import RateLimitingQueue
from kcm_lite.clock import VirtualClock
from kcm_lite.controllers.context import Gates
from kcm_lite.controllers.replicaset import claim_pods, find_pods, sync_replica_set
from kcm_lite.controllers.replicaset_handlers import (
    add_pod,
    add_rs,
    delete_pod,
    delete_rs,
    update_pod,
    update_rs,
)
from kcm_lite.controllers.replicaset_types import (
    RELEASE_1_22,
    REPLICA_SET,
    TODAY,
    ReplicaSetController,
    ReplicaSetGates,
    W,
    WorkloadKind,
)
from kcm_lite.controllers.replication import REPLICATION_CONTROLLER
from kcm_lite.reconcile.consistency import ConsistencyError, ConsistencyStore
from kcm_lite.reconcile.expectations import UIDTrackingControllerExpectations
from kcm_lite.reconcile.podtally import PodTally
from kcm_lite.reconcile.podutil import (
    POD_CONTROLLER_INDEX,
    index_by_pod_controller,
    is_pod_ready,
)
from kcm_lite.sim.cluster import Cluster
from kcm_lite.trace import ApiWrite, Decision, Trace

START = datetime(2026, 1, 1, tzinfo=UTC)
KEY = "ns/web"
NO_STATUS = ReplicaSetStatus()
TERMINATING = Forbidden("going", causes=(Cause(reason="NamespaceTerminating"),))


def rs(
    replicas: int | None = 3,
    name: str = "web",
    *,
    uid: str = "u1",
    selector: dict[str, str] | None = None,
    owner: str = "",
    deleting: bool = False,
    min_ready_seconds: int = 0,
    version: str = "5",
    status: ReplicaSetStatus = NO_STATUS,
) -> ReplicaSet:
    labels = {"app": "web"} if selector is None else selector
    refs = (OwnerReference(kind="Deployment", name="d", uid=owner, controller=True),)
    return ReplicaSet(
        metadata=ObjectMeta(
            name=name,
            namespace="ns",
            uid=uid,
            generation=1,
            resource_version=version,
            owner_references=refs if owner else (),
            deletion_timestamp=START if deleting else None,
        ),
        spec=ReplicaSetSpec(
            replicas=replicas,
            min_ready_seconds=min_ready_seconds,
            selector=LabelSelector(match_labels=labels),
            template=PodTemplateSpec(
                metadata=ObjectMeta(labels={"app": "web"}),
                spec=PodSpec(containers=(Container(name="c", image="i"),)),
            ),
        ),
        status=status,
    )


def pod(
    name: str,
    *,
    owner: str = "u1",
    owner_name: str = "web",
    kind: str = "ReplicaSet",
    labels: dict[str, str] | None = None,
    ready: datetime | None = None,
    deleting: bool = False,
    phase: str = "Running",
    node: str = "n1",
    version: str = "7",
) -> Pod:
    ref = OwnerReference(kind=kind, name=owner_name, uid=owner, controller=True)
    status = "True" if ready is not None else "False"
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace="ns",
            uid=f"uid-{name}",
            labels={"app": "web"} if labels is None else labels,
            owner_references=(ref,) if owner else (),
            resource_version=version,
            deletion_timestamp=START if deleting else None,
        ),
        spec=PodSpec(node_name=node),
        status=PodStatus(
            phase=phase,
            conditions=(Condition(type="Ready", status=status, last_transition_time=ready),),
        ),
    )


@dataclass
class World(Generic[W]):
    """A controller over caches filled by hand; its writes are noted, and fail as told.

    The server's answer to a get is ``live``. ``fails`` maps a call's first word (create, delete,
    patch, get, status) to the errors of its next calls; None lets a call pass.
    """

    kind: WorkloadKind[W]
    gates: ReplicaSetGates = TODAY
    burst: int = 500
    read: dict[str, str] = field(default_factory=dict)  # how far the caches have read
    calls: list[str] = field(default_factory=list)
    statuses: list[Any] = field(default_factory=list)
    fails: dict[str, list[Exception | None]] = field(default_factory=dict)
    later: list[tuple[str, float]] = field(default_factory=list)
    live: Any = None

    def __post_init__(self) -> None:
        self.clock = VirtualClock(START)
        self.trace = Trace()
        self.sets: Cache[W] = Cache(self.kind.type)
        self.pods: Cache[Pod] = Cache(Pod)
        self.sets.add_indexers({CONTROLLER_UID_INDEX: index_by_controller_uid})
        self.pods.add_indexers({POD_CONTROLLER_INDEX: index_by_pod_controller})
        self.queue: RateLimitingQueue[str] = RateLimitingQueue("q", clock=self.clock)
        self.rsc: ReplicaSetController[W] = ReplicaSetController(
            kind=self.kind,
            client=cast(Client, self),
            pod_control=self,
            sets=self.sets,
            pods=self.pods,
            tally=PodTally(self.kind.type.KIND),
            queue=self.queue,
            expectations=UIDTrackingControllerExpectations(self.clock, trace=self.trace),
            consistency=ConsistencyStore(
                {name: partial(self.read.__getitem__, name) for name in self.read}
            ),
            clock=self.clock,
            burst_replicas=self.burst,
            gates=self.gates,
            trace=self.trace,
        )

    def _call(self, verb: str, what: str) -> None:
        self.calls.append(f"{verb} {what}".rstrip())
        errors = self.fails.get(verb, [])
        if errors and (error := errors.pop(0)) is not None:
            raise error

    async def create_pods(self, namespace: str, *rest: object) -> None:
        self._call("create", "")

    async def delete_pod(self, namespace: str, name: str, owner: object) -> None:
        self._call("delete", name)

    async def patch_pod(self, namespace: str, name: str, patch: dict[str, Any]) -> None:
        self._call("patch", name)

    async def get(self, kind: type[Any], namespace: str, name: str) -> Any:
        self._call("get", name)
        return self.live if self.live is not None else self.sets.indexer.get(f"{namespace}/{name}")

    async def update_status(self, obj: Any) -> Any:
        self._call("status", obj.metadata.resource_version)
        self.statuses.append(obj.status)
        meta = replace(obj.metadata, resource_version="100")
        return replace(obj, metadata=meta)

    def have(self, *objects: Any) -> World[W]:
        for obj in objects:
            if isinstance(obj, Pod):
                self.pods.indexer.add(obj)
                self.rsc.tally.put(obj)
            else:
                self.sets.indexer.add(obj)
        return self

    def queued(self) -> list[str]:
        """Take everything off the queue."""
        found = []
        while len(self.queue):
            found.append(key := self.queue.get_nowait())
            self.queue.done(key)
        return found

    def sync(self, key: str = KEY) -> None:
        self.clock.run(sync_replica_set(self.rsc, key))

    def counts(self) -> tuple[int, int] | None:
        found = self.rsc.expectations.get(KEY)
        return None if found is None else (found.add, found.dele)

    def decisions(self, what: str) -> list[tuple[str, str]]:
        return [(d.subject, d.reason) for d in self.trace.of(Decision, what=what)]


def world(*objects: Any, **options: Any) -> World[ReplicaSet]:
    return World(REPLICA_SET, **options).have(*objects)


# --- what happens in the cluster -> which set is looked at


def test_a_new_or_changed_set_is_queued() -> None:
    w = world()
    add_rs(w.rsc, rs(), True)
    assert w.queued() == [KEY]
    update_rs(w.rsc, rs(), rs())  # a reminder: nothing has changed
    assert w.queued() == [KEY]


def test_a_set_of_the_same_name_and_another_uid_starts_clean() -> None:
    w = world(read={"pods": "1"})
    w.rsc.expectations.expect_creations(KEY, 3)
    w.rsc.consistency.wrote_at(KEY, "u1", "pods", "9")
    update_rs(w.rsc, rs(uid="u1"), rs(uid="u2"))
    assert w.counts() is None
    assert w.queued() == [KEY]
    w.rsc.consistency.ensure_ready(KEY)


@pytest.mark.parametrize("wrap", [lambda obj: obj, lambda obj: Tombstone(KEY, obj)])
def test_a_deleted_set_forgets_its_expectations(wrap: Any) -> None:
    w = world()
    w.rsc.expectations.expect_deletions(KEY, ["ns/a"])
    delete_rs(w.rsc, wrap(rs()))
    assert w.counts() is None
    assert w.queued() == [KEY]


def test_a_pods_creation_is_observed_by_its_owner_only() -> None:
    w = world(rs(), rs(name="other", uid="u2"))
    w.rsc.expectations.expect_creations(KEY, 2)
    w.rsc.expectations.expect_creations("ns/other", 2)
    add_pod(w.rsc, pod("a"))
    assert w.counts() == (1, 0)
    assert w.queued() == [KEY]


@pytest.mark.parametrize(
    "stranger",
    [
        pod("a", owner="u-old"),  # a set that had this name before
        pod("a", owner_name="gone"),
        pod("a", kind="ReplicationController"),
    ],
)
def test_a_pod_of_somebody_else_wakes_nobody(stranger: Pod) -> None:
    w = world(rs())
    w.rsc.expectations.expect_creations(KEY, 2)
    add_pod(w.rsc, stranger)
    update_pod(
        w.rsc,
        stranger,
        replace(stranger, metadata=replace(stranger.metadata, resource_version="8")),
    )
    delete_pod(w.rsc, stranger)
    assert w.counts() == (2, 0)
    assert w.queued() == []


def test_a_pod_that_is_already_going_when_first_seen_counts_as_a_deletion() -> None:
    w = world(rs())
    w.rsc.expectations.expect_deletions(KEY, ["ns/a"])
    add_pod(w.rsc, pod("a", deleting=True))
    assert w.counts() == (0, 0)
    assert w.queued() == [KEY]


def test_an_orphan_wakes_every_set_that_would_take_it_and_is_no_creation() -> None:
    w = world(
        rs(), rs(name="twin", uid="u2"), rs(name="db", uid="u3", selector={"app": "db"}),
        rs(name="all", uid="u4", selector={}),
    )  # fmt: skip
    w.rsc.expectations.expect_creations(KEY, 1)
    add_pod(w.rsc, pod("a", owner=""))
    assert w.queued() == [KEY, "ns/twin"]
    assert w.counts() == (1, 0)
    add_pod(w.rsc, pod("b", owner="", labels={}))
    delete_pod(w.rsc, pod("a", owner=""))
    assert w.queued() == []


def changed(old: Pod, **meta: Any) -> Pod:
    return replace(old, metadata=replace(old.metadata, resource_version="8", **meta))


def test_a_reminder_about_a_pod_is_ignored() -> None:
    w = world(rs())
    update_pod(w.rsc, pod("a"), pod("a", deleting=True))
    assert w.queued() == []


def test_a_deletion_timestamp_counts_as_the_deletion_and_the_end_not_again() -> None:
    w = world(rs())
    w.rsc.expectations.expect_deletions(KEY, ["ns/a", "ns/b"])
    going = changed(pod("a"), deletion_timestamp=START)
    update_pod(w.rsc, pod("a"), going)
    assert w.counts() == (0, 1)
    assert w.queued() == [KEY]
    delete_pod(w.rsc, Tombstone("ns/a", going))
    assert w.counts() == (0, 1)
    assert w.queued() == [KEY]


def test_a_change_of_owner_wakes_both() -> None:
    w = world(rs(), rs(name="twin", uid="u2"))
    old = pod("a", owner="u2", owner_name="twin")
    cur = changed(old, owner_references=pod("a").metadata.owner_references)
    update_pod(w.rsc, old, cur)
    assert w.queued() == ["ns/twin", KEY]


def test_a_released_pod_wakes_its_old_owner_and_those_who_would_take_it() -> None:
    w = world(rs(), rs(name="db", uid="u3", selector={"app": "db"}))
    released = changed(pod("a"), owner_references=(), labels={"app": "db"})
    update_pod(w.rsc, pod("a"), released)
    assert w.queued() == [KEY, "ns/db"]
    update_pod(w.rsc, released, changed(released, annotations={"x": "y"}, generation=2))
    assert w.queued() == []  # same version twice: only a reminder


def test_an_orphan_that_changes_nothing_that_matters_wakes_nobody() -> None:
    w = world(rs())
    orphan = pod("a", owner="")
    update_pod(w.rsc, orphan, changed(orphan, annotations={"x": "y"}))
    assert w.queued() == []
    update_pod(w.rsc, orphan, changed(orphan, labels={"app": "web", "new": "1"}))
    assert w.queued() == [KEY]


@pytest.mark.parametrize(("gates", "delay"), [(TODAY, 10), (RELEASE_1_22, 11)])
def test_a_pod_that_becomes_ready_is_looked_at_again(gates: ReplicaSetGates, delay: int) -> None:
    w = world(rs(min_ready_seconds=10), gates=gates)
    old = pod("a")
    update_pod(w.rsc, old, replace(pod("a", ready=START), metadata=changed(old).metadata))
    assert w.queued() == [KEY]
    w.clock.run_for(delay - 0.5)
    assert w.queued() == []
    w.clock.run_for(1)
    assert w.queued() == [KEY]


# --- one sync


def test_missing_pods_are_created_and_expected_and_status_is_what_was_found() -> None:
    w = world(rs(3), pod("a", ready=START))
    w.sync()
    assert w.calls == ["create", "create", "status 5"]
    assert w.counts() == (2, 0)
    (status,) = w.statuses
    assert (status.replicas, status.ready_replicas, status.available_replicas) == (1, 1, 1)
    assert (status.fully_labeled_replicas, status.terminating_replicas) == (1, 0)
    assert status.observed_generation == 1


def test_unset_replicas_are_none() -> None:
    w = world(rs(None), pod("a"))
    w.sync()
    assert w.calls == ["delete a", "status 5"]


def test_unfulfilled_expectations_stop_the_hand_not_the_status() -> None:
    w = world(rs(3))
    w.rsc.expectations.expect_creations(KEY, 1)
    w.sync()
    assert w.calls == ["status 5"]
    assert w.decisions("wait") == [(KEY, "still to be seen: 1 creations, 0 deletions")]
    w.clock.run_for(300.1)
    w.sync()
    assert w.calls.count("create") == 3


def test_a_set_that_is_being_deleted_creates_and_deletes_nothing() -> None:
    w = world(rs(3, deleting=True), pod("a"), pod("b", labels={"app": "x"}), pod("c", owner=""))
    w.sync()
    assert w.calls == ["status 5"]
    assert w.statuses[0].replicas == 1


def test_a_set_that_is_gone_leaves_nothing_behind() -> None:
    w = world()
    w.rsc.expectations.expect_creations(KEY, 1)
    w.sync()
    assert w.counts() is None
    assert w.calls == []


def test_a_selector_that_cannot_be_read_is_not_retried() -> None:
    broken = rs()
    expression = LabelSelectorRequirement(key="app", operator="Near", values=("web",))
    selector = LabelSelector(match_expressions=(expression,))
    w = world(replace(broken, spec=replace(broken.spec, selector=selector)))
    w.sync()
    assert w.calls == []


def test_a_sync_on_a_stale_cache_does_nothing_at_all() -> None:
    w = world(rs(3), read={"pods": "41"})
    w.rsc.consistency.wrote_at(KEY, "u1", "pods", "42")
    with pytest.raises(ConsistencyError):
        w.sync()
    assert w.calls == []
    w.read["pods"] = "42"
    w.sync()
    assert w.calls == ["create"] * 3 + ["status 5"]


def test_the_status_write_is_a_write_to_wait_for() -> None:
    w = world(rs(0), read={"replicasets.apps": "5"})
    w.sync()
    with pytest.raises(ConsistencyError, match="as new as written version: 100"):
        w.sync()


def test_a_burst_is_capped_both_ways() -> None:
    w = world(rs(7), burst=4)
    w.sync()
    assert w.calls.count("create") == 4
    assert w.counts() == (4, 0)
    assert w.decisions("burst") == [(KEY, "7 pods to go, 4 at a time")]
    assert [reason for _, reason in w.decisions("batch")] == [
        "1 of 4 at once", "2 of 4 at once", "1 of 4 at once",
    ]  # fmt: skip
    w = world(rs(0), *(pod(f"p{i}") for i in range(7)), burst=4)
    w.sync()
    assert [call for call in w.calls if "delete" in call] == [f"delete p{i}" for i in range(4)]
    assert w.counts() == (0, 4)


def test_a_refused_creation_ends_the_sync_and_only_what_was_created_is_expected() -> None:
    w = world(rs(10), fails={"create": [None, None, Forbidden("exceeded quota")]})
    with pytest.raises(Forbidden, match="exceeded quota"):
        w.sync()
    assert w.calls == ["create"] * 3 + ["status 5"]
    assert w.counts() == (2, 0)
    (condition,) = w.statuses[0].conditions
    assert (condition.type, condition.status, condition.reason, condition.message) == (
        "ReplicaFailure", "True", "FailedCreate", "exceeded quota",
    )  # fmt: skip
    assert condition.last_transition_time == START
    assert w.decisions("batch")[-1][1] == "2 of 10 at once, 1 failed: 7 more are not tried"


def test_the_failure_is_written_once_and_taken_back_when_it_is_over() -> None:
    failed = ReplicaSetStatus(
        observed_generation=1,
        terminating_replicas=0,
        conditions=(Condition(type="Other"), Condition(type="ReplicaFailure", message="old")),
    )
    w = world(rs(1, status=failed), fails={"create": [Forbidden("new")]})
    with pytest.raises(Forbidden):
        w.sync()
    assert w.calls == ["create"]  # the status says so already
    w = world(rs(1, status=failed), pod("a"))
    w.sync()
    assert w.statuses[0].conditions == (Condition(type="Other"),)


def test_in_a_namespace_that_is_going_creations_fail_without_an_error() -> None:
    w = world(rs(3), fails={"create": [TERMINATING] * 3})
    w.sync()
    assert w.calls == ["create"] * 3 + ["status 5"]
    assert w.counts() == (3, 0)
    assert w.statuses[0].conditions == ()


def test_a_failed_deletion_is_not_expected_and_the_first_error_is_told() -> None:
    w = world(rs(0), pod("a"), pod("b"), pod("c"), pod("d"))
    w.fails = {"delete": [None, Conflict("first"), NotFound("gone"), Conflict("second")]}
    with pytest.raises(Conflict, match="first"):
        w.sync()
    assert w.rsc.expectations.get_uids(KEY) == ["ns/a"]
    assert w.statuses[0].conditions[0].reason == "FailedDelete"
    w = world(rs(0), pod("a"), fails={"delete": [NotFound("gone")]})
    w.sync()
    assert w.counts() == (0, 0)


def test_the_pods_of_all_sets_of_one_deployment_crowd_a_node_bare_sets_do_not() -> None:
    mine = [pod("a", node="n1", ready=START), pod("b", node="n2", ready=START)]
    other = pod("x", node="n2", owner="u2", owner_name="old", labels={"app": "old"})
    old = rs(1, "old", uid="u2", selector={"app": "old"}, owner="d")
    w = world(rs(1, owner="d"), old, *mine, other)
    w.sync()
    assert w.calls[0] == "delete b"
    assert w.decisions("victim") == [("ns/b", "2 related pods on its node; a has 1")]
    w = world(rs(1), old, *mine, other)
    w.sync()
    assert w.calls[0] == "delete a"
    assert w.decisions("victim")[0][1].startswith("like b in everything")


def test_nobody_elses_pod_is_ever_a_victim() -> None:
    stranger = pod("x", owner="u2", owner_name="other", node="")  # both would be first to go
    orphan = pod("y", owner="", labels={}, node="")
    w = world(rs(1), stranger, orphan, pod("a"), pod("b"), pod("c", phase="Failed"))
    w.sync()
    assert [call for call in w.calls if "delete" in call] == ["delete a"]
    w = world(rs(0), stranger, orphan, pod("a"))
    w.sync()
    assert [call for call in w.calls if "delete" in call] == ["delete a"]


def test_pods_that_have_ended_are_ignored_and_terminating_ones_are_counted_apart() -> None:
    w = world(
        rs(1), pod("a"), pod("b", phase="Succeeded"), pod("c", phase="Failed"),
        pod("d", deleting=True), pod("e", deleting=True, phase="Failed"),
        pod("f", deleting=True, labels={"app": "x"}), pod("g", deleting=True, owner=""),
    )  # fmt: skip
    w.sync()
    assert w.calls == ["status 5"]
    assert (w.statuses[0].replicas, w.statuses[0].terminating_replicas) == (1, 1)


def test_in_1_22_nobody_counts_the_terminating() -> None:
    w = world(rs(0), pod("d", deleting=True), gates=RELEASE_1_22)
    w.sync()
    assert w.statuses[0].terminating_replicas is None


def test_orphans_are_adopted_after_one_live_look_and_strangers_released() -> None:
    w = world(rs(2), pod("a", owner=""), pod("b", owner=""), pod("c", labels={"app": "x"}))
    w.sync()
    assert sorted(w.calls[:4]) == ["get web", "patch a", "patch b", "patch c"]
    assert w.statuses[0].replicas == 2
    assert w.decisions("adopt") == [(f"ns/{n}", "matches the selector app=web") for n in "ab"]
    assert w.decisions("release") == [("ns/c", "no longer matches the selector app=web")]


@pytest.mark.parametrize(
    ("live", "error", "message"),
    [
        (rs(uid="u2"), None, "original ReplicaSet ns/web is gone: got uid u2, wanted u1"),
        (rs(deleting=True), None, "ns/web has just been deleted at 2026-01-01 00:00:00 .0000 UTC"),
        (None, NotFound("no such set"), "can't recheck DeletionTimestamp: no such set"),
        (None, OSError("cut off"), "can't recheck DeletionTimestamp: cut off"),
    ],
)
def test_nobody_is_adopted_by_a_dead_owner(
    live: ReplicaSet | None, error: Exception | None, message: str
) -> None:
    w = world(rs(2), pod("a", owner=""), live=live, fails={"get": [error]})
    with pytest.raises(Exception, match=message):
        w.sync()
    assert w.calls == ["get web"]


def test_an_unchanged_status_is_not_written() -> None:
    settled = ReplicaSetStatus(
        replicas=1, fully_labeled_replicas=1, terminating_replicas=0, observed_generation=1
    )
    w = world(rs(1, status=settled), pod("a"))
    w.sync()
    assert w.calls == []
    stale = replace(settled, observed_generation=0)
    w = world(rs(1, status=stale), pod("a"))
    w.sync()
    assert w.calls == ["status 5"]


def test_a_status_conflict_is_tried_once_more_with_a_fresh_read() -> None:
    w = world(rs(0), live=rs(9, version="77"), fails={"status": [Conflict("changed")]})
    w.sync()
    assert w.calls == ["status 5", "get web", "status 77"]
    assert w.statuses[0].observed_generation == 1
    w = world(rs(0), fails={"status": [Conflict("one"), Conflict("two")]})
    with pytest.raises(Conflict, match="two"):
        w.sync()
    w = world(rs(0), fails={"status": [Conflict("one")], "get": [ServerTimeout("late")]})
    with pytest.raises(ServerTimeout, match="late"):
        w.sync()


def test_an_error_of_the_status_write_outweighs_that_of_the_creation() -> None:
    w = world(rs(1), fails={"create": [Forbidden("quota")], "status": [Conflict("c")] * 2})
    with pytest.raises(Conflict):
        w.sync()


def ready_for(*seconds: float) -> list[Pod]:
    return [pod(f"p{i}", ready=START - timedelta(seconds=s)) for i, s in enumerate(seconds)]


def test_today_the_set_comes_back_when_its_next_pod_is_due() -> None:
    w = world(rs(4, min_ready_seconds=10), *ready_for(3, 9, 10))
    w.fails = {"create": [None]}
    w.sync()
    assert w.statuses[0].available_replicas == 1
    assert w.decisions("requeue") == [(KEY, "the next pod is available in 1 s")]
    w.clock.run_for(0.9)
    assert w.queued() == []
    w.clock.run_for(0.2)
    assert w.queued() == [KEY]


@pytest.mark.parametrize(
    ("wanted", "back"), [(3, [(KEY, "the next pod is available in 10 s")]), (4, [])]
)
def test_in_1_22_after_min_ready_seconds_and_only_if_all_are_ready(
    wanted: int, back: list[tuple[str, str]]
) -> None:
    w = world(rs(wanted, min_ready_seconds=10), *ready_for(3, 9, 10), gates=RELEASE_1_22)
    w.sync()
    assert w.decisions("requeue") == back


# --- the older kind


def rc(replicas: int = 2, selector: dict[str, str] | None = None) -> ReplicationController:
    web = rs()
    return ReplicationController(
        metadata=web.metadata,
        spec=ReplicationControllerSpec(
            replicas=replicas,
            selector={"app": "web"} if selector is None else selector,
            template=web.spec.template,
        ),
    )


def test_a_replication_controller_is_served_by_the_same_code() -> None:
    w = World(REPLICATION_CONTROLLER, read={"pods": "1", "replicationcontrollers": "1"}).have(
        rc(2), pod("a", kind="ReplicationController", ready=START), pod("b"), pod("c", owner="")
    )
    w.sync()
    assert w.calls == ["get web", "patch c", "status 5"]
    (status,) = w.statuses
    assert (status.replicas, status.ready_replicas) == (2, 1)
    add_pod(w.rsc, pod("x", owner="", labels={"app": "web"}))
    add_pod(w.rsc, pod("y"))  # a ReplicaSet's
    assert w.queued() == [KEY]


def test_a_replication_controller_without_a_selector_takes_nobody() -> None:
    w = World(REPLICATION_CONTROLLER).have(rc(0, selector={}), pod("c", owner=""))
    w.sync()
    assert w.calls == ["status 5"]


# --- the short way and the long way


POD_CHOICES = st.builds(
    pod,
    name=st.sampled_from([f"p{i}" for i in range(8)]),
    owner=st.sampled_from(["u1", "u1", "u1", "u2", ""]),
    labels=st.sampled_from([{"app": "web"}, {"app": "web", "x": "1"}, {"app": "db"}]),
    ready=st.sampled_from([None, START, START - timedelta(seconds=9)]),
    deleting=st.booleans(),
    phase=st.sampled_from(["Running", "Pending", "Failed"]),
)


@given(st.lists(POD_CHOICES, max_size=8, unique_by=lambda p: p.metadata.name), st.booleans())
def test_the_tally_and_a_look_at_every_pod_find_the_same(pods: list[Pod], deleting: bool) -> None:
    w = world(rs(3, deleting=deleting), *pods)
    found = w.sets.indexer.get(KEY)
    assert found is not None
    selector = REPLICA_SET.selector(found)
    short = find_pods(w.rsc, found, selector)
    long = w.clock.run(claim_pods(w.rsc, found, selector))
    assert long.pods is not None
    assert short is None or not w.calls  # whoever must be patched is not overlooked
    if short is not None:
        assert short.states == long.states
        assert short.count("active") == len(long.pods)


def test_a_sync_that_changes_nothing_looks_at_no_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    w = world(rs(2), pod("a"), pod("b", ready=START), pod("y", owner="", labels={"app": "db"}))
    monkeypatch.setattr(Indexer, "by_index", None)  # whoever lists pods crashes
    w.sync()
    assert (w.statuses[0].replicas, w.statuses[0].ready_replicas) == (2, 1)


# --- whole runs


MANIFEST = """
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web}
spec:
  replicas: 5
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i}]}
"""


def alive(cluster: Cluster) -> list[Pod]:
    return [p for p in cluster.objects(Pod) if p.metadata.deletion_timestamp is None]


STEPS = st.lists(
    st.tuples(
        st.sampled_from([0.004, 0.012, 0.05, 0.3, 1.1]),
        st.sampled_from(["delete", "delete", "relabel", "fail", "nothing"]),
        st.integers(0, 9),
    ),
    max_size=12,
)


@settings(max_examples=60)
@given(STEPS, st.sampled_from([0.001, 0.03, 0.5]), st.sampled_from([TODAY, RELEASE_1_22]))
def test_whatever_happens_to_pods_the_number_comes_back_and_never_overshoots(
    steps: list[tuple[float, str, int]], lag: float, gates: ReplicaSetGates
) -> None:
    cluster = Cluster(
        controllers=["replicaset"],
        gates=Gates(replica_set=gates),
        qps=0,
        latency=Latency(call=0.01, watch=lag),
    )
    cluster.apply(MANIFEST)
    for wait, what, which in steps:
        cluster.run_for(wait)
        mine = [p for p in alive(cluster) if p.metadata.labels == {"app": "web"}]
        active = [p for p in mine if p.status.phase != "Failed"]
        assert len(active) <= 5
        if not active:
            continue
        victim = active[which % len(active)]
        ref = f"pod/{victim.metadata.name}"
        if what == "delete":
            cluster.delete(ref)
        elif what == "relabel":
            cluster.patch(ref, {"metadata": {"labels": {"app": "gone"}}})
        elif what == "fail" and is_pod_ready(victim):  # its kubelet has nothing more to report
            cluster.server.update(
                replace(victim, status=replace(victim.status, phase="Failed")), subresource="status"
            )
    cluster.run_for(60)
    status = cluster.object("rs/web").status
    assert (status.replicas, status.ready_replicas, status.terminating_replicas or 0) == (5, 5, 0)
    assert sum(p.status.phase == "Running" and p.metadata.labels == {"app": "web"}
               for p in alive(cluster)) == 5  # fmt: skip


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 12), st.sampled_from([0.01, 0.04, 2.0])), max_size=6))
def test_after_any_scaling_the_last_number_is_reached(scales: list[tuple[int, float]]) -> None:
    cluster = Cluster(controllers=["replicaset"], latency=Latency(call=0.01, watch=0.05))
    cluster.apply(MANIFEST)
    wanted = 5
    for wanted, wait in scales:
        cluster.run_for(wait)
        cluster.scale("rs/web", wanted)
    cluster.run_for(60)
    assert len(alive(cluster)) == cluster.object("rs/web").status.available_replicas == wanted


def test_the_first_sync_writes_status_twice_first_what_it_found() -> None:
    cluster = Cluster(controllers=["replicaset"])
    cluster.apply(MANIFEST)
    cluster.run_for(0.5)
    writes = cluster.trace.of(ApiWrite, resource="replicasets", subresource="status")
    first, second = [w.new.status for w in writes if isinstance(w.new, ReplicaSet)]
    assert first == ReplicaSetStatus(observed_generation=1, terminating_replicas=0)
    assert (second.replicas, second.fully_labeled_replicas) == (5, 5)


def test_a_replication_controller_runs_beside_a_replica_set_with_the_same_labels() -> None:
    cluster = Cluster()
    cluster.apply(MANIFEST)
    cluster.apply(
        MANIFEST.replace("apps/v1", "v1")
        .replace("ReplicaSet", "ReplicationController")
        .replace("{matchLabels: {app: web}}", "{app: web}")
    )
    cluster.run_for(30)
    kinds = [p.metadata.owner_references[0].kind for p in alive(cluster)]
    assert sorted(kinds) == ["ReplicaSet"] * 5 + ["ReplicationController"] * 5
    assert cluster.object("rc/web").status.ready_replicas == 5
    assert not any(w.code == 409 for w in cluster.trace.of(ApiWrite))
