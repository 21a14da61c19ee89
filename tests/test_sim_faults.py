"""Every fault does its harm, where and when it should, is recorded, and is alike in every run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from kcm_lite.api.apps import ReplicaSet
from kcm_lite.api.core import Node, Pod
from kcm_lite.sim.chance import Range
from kcm_lite.sim.cluster import Cluster
from kcm_lite.sim.faults import (
    CallError,
    ClockSkew,
    CrashManager,
    DropWatch,
    DuplicateEvents,
    Fault,
    Latency,
    LoseLease,
    NodeDeath,
    PodChaos,
    StaleCache,
    StallWatch,
    WatchLag,
    read_fault,
)
from kcm_lite.sim.scenario import Run, run_scenario
from kcm_lite.sim.timeline import timeline
from kcm_lite.trace import ApiWrite, Delivery, Note, QueueOp, SyncEnd
from tests.sim_support import deployment, job, replica_set, scenario

RS = "replicaset-controller"


def hurt(*faults: Fault, until: float = 30, **raw: Any) -> Run:
    """Run three replicas with faults."""
    raw = {"objects": [replica_set(3)], **raw}
    return run_scenario(scenario(until=until, **raw), faults=faults)


def notes(run: Run | Cluster) -> list[Note]:
    cluster = run.cluster if isinstance(run, Run) else run
    return list(cluster.trace.of(Note, source="fault"))


def creates(run: Run, code: int = 201) -> list[ApiWrite]:
    return list(run.cluster.trace.of(ApiWrite, verb="create", resource="pods", agent=RS, code=code))


def pods(run: Run) -> list[Pod]:
    return [p for p in run.cluster.objects(Pod) if p.metadata.deletion_timestamp is None]


# ---- calls


@pytest.mark.parametrize(
    ("error", "done", "code"),
    [
        ("throttled", False, 429),
        ("internal", False, 500),
        ("timeout", False, None),
        ("timeoutAfterWrite", True, None),
        ("unreachable", False, None),
        ("reset", True, None),
    ],
)
def test_a_call_fails_as_it_should_and_the_set_gets_there(
    error: str, done: bool, code: int | None
) -> None:
    run = hurt(
        CallError(error=error, resource="pods", verb="create", times=1, after=2, retry_after=3)
    )
    (note,) = notes(run)
    assert note.text == f"{RS}: create pods meets {error}"
    told = {"fault": "callError", "number": 1, "error": error, "agent": RS, "name": ""}
    assert note.data == told
    assert note.t == pytest.approx(0.015, abs=0.01)
    first = creates(run)[0].t
    assert (first == note.t) is done
    refused = [w for w in run.cluster.trace.of(ApiWrite) if w.code == code]
    assert len(refused) == (code is not None)
    assert len(pods(run)) == 3
    assert run.cluster.object("rs/web").status.ready_replicas == 3


def test_the_client_waits_as_long_as_a_busy_server_says_and_the_controller_sees_nothing() -> None:
    run = hurt(CallError(error="throttled", resource="pods", verb="create", times=1, retry_after=3))
    (note,) = notes(run)
    assert creates(run)[0].t == pytest.approx(note.t + 3.01)
    errors = [s for s in run.cluster.trace.of(SyncEnd, controller=RS) if s.error]
    assert not [s for s in errors if "too many requests" in s.error]


def test_a_timeout_is_told_when_it_is_over() -> None:
    run = hurt(CallError(error="timeout", resource="pods", verb="create", times=1, after=7))
    (note,) = notes(run)
    failed = next(s for s in run.cluster.trace.of(SyncEnd, controller=RS) if "Timeout" in s.error)
    assert failed.t == pytest.approx(note.t + 7, abs=0.05)


def test_a_conflict_is_of_writes_that_bring_a_version() -> None:
    run = hurt(CallError(error="conflict", until=5))
    assert notes(run)
    assert all(n.data["error"] == "conflict" for n in notes(run) if "data" and "error" in n.data)
    assert not [w for w in run.cluster.trace.of(ApiWrite, verb="create") if w.code == 409]
    conflicts = list(run.cluster.trace.of(ApiWrite, code=409))
    assert {w.verb for w in conflicts} <= {"update", "patch", "delete"}
    assert "the object has been modified; please apply your changes" in conflicts[0].message
    assert run.cluster.object("rs/web").status.ready_replicas == 3


def test_filters_say_which_calls_and_windows_say_when() -> None:
    run = hurt(
        CallError(error="internal", resource="replicasets", agent="deployment-controller"),
        objects=[deployment(2), replica_set(1, "lone")],
    )
    by = {(n.data["agent"], n.text.split()[2]) for n in notes(run)}
    assert by == {("deployment-controller", "replicasets")}  # no set of its own is ever made
    assert run.cluster.object("rs/lone").status.ready_replicas == 1
    run = hurt(
        CallError(error="internal", resource="pods", verb="create", agent=RS, at=5, until=8),
        actions=[
            {"at": t, "do": "deletePod", "pick": "oldest", "gracePeriodSeconds": 0}
            for t in (4, 6, 10)
        ],
    )
    hits = [n for n in notes(run) if "meets" in n.text]
    assert hits
    assert all(5 <= n.t <= 8 for n in hits)
    assert notes(run)[-1].text == "callError is over"
    assert notes(run)[-1].t == 8
    assert len(pods(run)) == 3


def test_a_rate_hits_its_share() -> None:
    run = hurt(
        CallError(error="internal", rate=0.25, resource="pods", verb="create"),
        objects=[replica_set(200)],
        until=200,
    )
    refused, made = len(creates(run, 500)), len(creates(run))
    assert made == 200
    assert 0.15 < refused / (refused + made) < 0.35


def test_calls_take_as_long_as_the_latency_says() -> None:
    run = hurt(Latency(call=2, resource="pods", verb="create", until=20))
    slow = hurt(Latency(call=Range(1, 3), resource="pods", verb="create"))
    usual = hurt()
    first = [creates(r)[0].t for r in (usual, run)]
    assert first[1] == pytest.approx(first[0] + 0.995)
    delays = [w.t for w in creates(slow)]
    assert len(set(delays)) == 3
    assert notes(run)[0].text == "other latencies of pods until 00:20.0"


# ---- watches


def deliveries(run: Run, resource: str = "pods") -> list[Delivery]:
    of = run.cluster.trace.of(Delivery, client="shared-informers", resource=resource)
    return [d for d in of if d.type != "BOOKMARK"]


def test_a_stalled_watch_says_nothing_and_then_everything_in_order() -> None:
    run = hurt(StallWatch(resource="pods", at=0.5, lasts=9.5))
    got = deliveries(run)
    assert not [d for d in got if 0.6 < d.t < 10]
    burst = [d for d in got if d.t == 10]
    assert len(burst) > 3
    versions = [int(d.resource_version) for d in got]
    assert versions == sorted(versions)
    written = {
        w.new.metadata.resource_version: w.t for w in run.cluster.trace.of(ApiWrite) if w.new
    }
    for d in got:
        assert d.t - d.lag == pytest.approx(written[d.resource_version])
    assert [d for d in deliveries(run, "replicasets") if 0 < d.t < 10] == deliveries(
        run, "replicasets"
    )[: len([d for d in deliveries(run, "replicasets") if d.t < 10])]
    assert not list(run.cluster.trace.of(Note, source="reflector"))  # the connection stayed open


def test_lagging_watches_keep_their_order() -> None:
    run = hurt(WatchLag(resource="pods", seconds=Range(0, 3)), objects=[replica_set(20)], until=60)
    versions = [int(d.resource_version) for d in deliveries(run)]
    assert versions == sorted(versions)
    assert max(d.lag for d in deliveries(run)) > 1
    assert len(pods(run)) == 20


def test_a_watch_latency_counts_from_the_write() -> None:
    run = hurt(Latency(watch=0.5, resource="pods", at=0.001))
    assert {round(d.lag, 6) for d in deliveries(run)} == {0.5}


def test_a_dropped_watch_begins_again_where_it_was() -> None:
    run = hurt(DropWatch(resource="pods", at=1.5))
    (note,) = notes(run)
    assert note.text == "1 watch breaks (of pods)"
    (text,) = [n.text for n in run.cluster.trace.of(Note, source="reflector")]
    assert "watch closed: connection reset by peer" in text
    versions = [[d.resource_version for d in deliveries(r)] for r in (run, hurt())]
    assert versions[0] == versions[1]


def test_a_dropped_watch_can_be_refused_for_a_while() -> None:
    run = hurt(DropWatch(resource="pods", at=1.5, lasts=5))
    assert not [d for d in deliveries(run) if 1.6 < d.t < 6.5]
    assert run.cluster.object("rs/web").status.ready_replicas == 3
    assert "refused until 00:06.5" in notes(run)[0].text


def test_an_expired_watch_lists_again() -> None:
    run = hurt(DropWatch(at=1.5, expired=True))
    texts = [n.text for n in run.cluster.trace.of(Note, source="reflector")]
    assert [t for t in texts if "pods: too old resource version" in t]
    assert "has forgotten" in notes(run)[0].text
    assert run.cluster.object("rs/web").status.ready_replicas == 3


def test_doubled_events_come_twice_in_a_row() -> None:
    run = hurt(DuplicateEvents(resource="pods"))
    keys = [(d.key, d.resource_version, d.type) for d in deliveries(run)]
    assert keys[::2] == keys[1::2]
    assert len(keys) == 2 * len(deliveries(hurt()))
    assert len(pods(run)) == 3


# ---- the manager


def test_a_crash_after_the_kth_write_leaves_exactly_k() -> None:
    whole = hurt(objects=[replica_set(8)])
    for k in range(1, whole.cluster.transport.writes + 1):
        run = hurt(CrashManager(after_write=k, restart_after=None), objects=[replica_set(8)])
        assert run.cluster.transport.writes == k
        (note,) = notes(run)
        assert note.data == {"fault": "crashManager", "number": 1, "writes": k}
        later = [r for r in run.cluster.trace.records if r.t > note.t]
        mine = [r for r in later if isinstance(r, QueueOp | SyncEnd | Delivery)]
        assert not mine
        assert not [w for w in later if isinstance(w, ApiWrite) and w.agent == RS]


def test_nothing_is_left_of_a_crashed_manager() -> None:
    run = hurt(CrashManager(at=1.007, restart_after=None), objects=[replica_set(8), job()])
    cluster = run.cluster
    assert not cluster.manager.alive
    watchers = [w for t in cluster.server.store.tables.values() for w in t.watchers]
    assert not [w for w in watchers if w.bookmarks]  # only clients on the wire ask for those
    alive = [t.get_name() for t in cluster.clock._tasks if not t.done()]
    assert alive == ["bookmarks"]
    assert not cluster.transport.lost or len(cluster.transport.lost) < 20


def test_a_new_manager_knows_nothing_and_finishes_the_work() -> None:
    run = hurt(CrashManager(after_write=3, restart_after=2.5), objects=[replica_set(8)])
    crash, start = notes(run)
    assert start.t == pytest.approx(crash.t + 2.5)
    assert start.text == "the manager starts"
    assert run.cluster.manager.lives == 2
    assert len(pods(run)) == 8
    lists = [d for d in deliveries(run) if d.t >= start.t]
    assert lists


def test_a_manager_can_be_started_by_hand_before_its_time() -> None:
    run = hurt(
        actions=[
            {"at": 1, "do": "crashManager", "restartAfter": 10},
            {"at": 3, "do": "restartManager"},
        ]
    )
    assert run.cluster.manager.lives == 2  # the planned start finds it running
    assert [n.t for n in run.cluster.trace.of(Note, source="scenario")] == [3]


def test_a_crash_without_a_manager_is_said() -> None:
    run = hurt(CrashManager(at=1, restart_after=None), CrashManager(at=2), LoseLease(at=3))
    assert [n.text for n in notes(run)] == [
        "the manager crashes",
        "no manager runs that could crash",
        "no manager runs that could lose its lease",
    ]


def test_a_stale_manager_reads_the_past_and_its_writes_meet_the_present() -> None:
    """It has never heard of the pods that its predecessor made, and makes them again."""
    faults = CrashManager(at=1, restart_after=0.5), StaleCache(at=1, behind=0.999, lasts=8)
    run, fresh = hurt(*faults, until=60), hurt(faults[0], until=60)
    assert [len(creates(r)) for r in (run, fresh)] == [6, 3]
    assert [len(pods(r)) for r in (run, fresh)] == [3, 3]
    text = "a manager that starts reads a replica that is 11 changes behind until 00:09.0"
    assert notes(run)[1].text == text
    old = [n.text for n in run.cluster.trace.of(Note, source="reflector")]
    assert [t for t in old if "pods: streamed list failed, falling back to list" in t]


def test_of_two_older_replicas_each_ends_in_its_own_time() -> None:
    cluster = Cluster(faults=[StaleCache(at=1, lasts=4), StaleCache(at=2, lasts=6)])
    ways = cluster.manager.ways
    found = []
    for second in (0.5, 1.5, 2.5, 5.5, 8.5):
        cluster.run_until(second)
        found.append([way().until for way in ways])  # type: ignore[attr-defined]
    assert found == [[], [5], [5, 8], [8], []]


def test_a_replica_that_is_behind_by_seconds_shows_that_moment() -> None:
    """At 5 s all pods are gone, also those whose deletion was the last write before it."""
    run = hurt(
        CrashManager(at=9, restart_after=0.1),
        StaleCache(at=9, behind=4, lasts=3),
        actions=[
            {"at": t, "do": "scale", "kind": "ReplicaSet", "name": "web", "replicas": n}
            for t, n in ((4, 0), (6, 2))
        ],
        until=9.2,
    )
    pods_then = run.cluster.informers.informer(Pod).indexer.list()
    (then,) = run.cluster.informers.informer(ReplicaSet).indexer.list()
    assert then.spec.replicas == 0
    at_five = [
        w for w in run.cluster.trace.of(ApiWrite, resource="pods", verb="create") if w.t <= 5
    ]
    gone = [w for w in run.cluster.trace.of(ApiWrite, resource="pods", verb="delete") if w.t <= 5]
    removed = [w for w in gone if w.new is None]
    assert len(pods_then) == len([w for w in at_five if w.agent == RS]) - len(removed)


def test_a_running_manager_does_not_notice_an_older_replica() -> None:
    run, usual = hurt(StaleCache(at=1, behind=1, lasts=5)), hurt()
    assert creates(run) == creates(usual)
    assert not list(run.cluster.trace.of(Note, source="reflector"))


def test_a_lost_lease_leads_to_another_manager_at_most_beside_the_old_one() -> None:
    run = hurt(LoseLease(at=5, taken_over_after=3))
    assert [(n.t, n.text) for n in notes(run)] == [
        (5, "the manager loses its lease; another one leads in 3 s"),
        (5, "the manager that has lost its lease ends"),
        (8, "another manager leads"),
    ]
    both = hurt(LoseLease(at=5, taken_over_after=3, overlap=4))
    assert [(n.t, n.text) for n in notes(both)][1:] == [
        (8, "another manager leads"),
        (12, "the manager that has lost its lease ends"),
    ]
    for done in (run, both):
        assert len(done.cluster.manager.processes) == 1
        assert len(pods(done)) == 3


def test_each_lost_lease_ends_its_own_manager() -> None:
    run = hurt(LoseLease(at=4, taken_over_after=1, overlap=3), LoseLease(at=5.5, overlap=4))
    assert run.cluster.manager.lives == 3
    assert len(run.cluster.manager.processes) == 1
    assert len(pods(run)) == 3


def test_two_managers_at_once_get_the_number_right_in_the_end() -> None:
    run = hurt(
        LoseLease(at=4.9, taken_over_after=0, overlap=10),
        actions=[{"at": 5, "do": "scale", "kind": "ReplicaSet", "name": "web", "replicas": 9}],
        until=60,
    )
    assert len(creates(run)) > 9
    assert len(pods(run)) == 9


def test_the_managers_clock_is_wrong_for_a_while() -> None:
    """A Job that may be active for 60 s is ended at once by a clock that is an hour ahead."""
    run = hurt(
        ClockSkew(ahead=3600, at=5, until=20),
        objects=[job(activeDeadlineSeconds=60, backoffLimit=0)],
        actions=[{"at": 6, "do": "annotatePod", "pick": "all", "annotations": {"a": "b"}}],
    )
    conditions = run.cluster.object("job/batch").status.conditions
    assert "DeadlineExceeded" in {c.reason for c in conditions}
    assert [n.text for n in notes(run)] == [
        "the manager's clock is 3600 s ahead until 00:20.0",
        "clockSkew is over",
    ]
    assert run.cluster.manager.ahead == 0


def test_a_wrong_clock_outlives_a_crash() -> None:
    run = hurt(ClockSkew(ahead=-7), CrashManager(at=2))
    (process,) = run.cluster.manager.processes
    gap = process.clock.now() - run.cluster.clock.now()
    assert gap.total_seconds() == -7


# ---- nodes and pods


def test_a_dead_node_is_noticed_its_pods_are_replaced_and_it_comes_back() -> None:
    run = hurt(
        NodeDeath(node=1, at=10, detected_after=20, evicted_after=60, return_after=90), until=120
    )
    trace = run.cluster.trace
    assert [(n.t, n.text) for n in notes(run)] == [
        (10, "Node/node-1 dies"),
        (100, "Node/node-1 is back"),
    ]
    (evicted,) = trace.of(ApiWrite, agent="taint-eviction-controller", verb="delete")
    assert evicted.t == 70
    gone = next(w for w in trace.of(ApiWrite, verb="delete", agent="kubelet") if w.new is None)
    assert gone.t == pytest.approx(100, abs=0.2)
    assert gone.name == evicted.name
    ready = {
        n.metadata.name: {c.type: c.status for c in n.status.conditions}["Ready"]
        for n in run.cluster.objects(Node)
    }
    assert ready["node-1"] == "True"
    unknown = next(trace.of(ApiWrite, agent="node-lifecycle-controller", resource="nodes"))
    assert unknown.t == 30
    assert len(pods(run)) == 3
    assert run.cluster.object("rs/web").status.ready_replicas == 3


def test_a_node_that_comes_back_soon_does_what_was_due() -> None:
    run = hurt(NodeDeath(node=1, at=0.5, return_after=9.5), until=30)
    started = [
        w.t
        for w in run.cluster.trace.of(ApiWrite, agent="kubelet", resource="pods")
        if isinstance(w.new, Pod) and isinstance(w.old, Pod)
        if w.old.status.phase == "Pending" != w.new.status.phase
    ]
    assert sorted(started)[-1] == pytest.approx(10, abs=0.1)
    assert run.cluster.object("rs/web").status.ready_replicas == 3
    assert not list(run.cluster.trace.of(ApiWrite, agent="node-lifecycle-controller"))


def test_a_node_dies_once() -> None:
    run = hurt(NodeDeath(node=1, at=1), NodeDeath(node=1, at=2), NodeDeath(node=9, at=3))
    assert [n.text for n in notes(run)] == [
        "Node/node-1 dies",
        "Node/node-1 is not there, or dead already",
        "Node/node-9 is not there, or dead already",
    ]


@pytest.mark.parametrize("effect", ["fail", "delete", "evict", "notReady"])
def test_chaos_hits_running_pods_until_it_ends(effect: str) -> None:
    run = hurt(PodChaos(every=2, effect=effect, at=5, until=15), until=40)
    hits = [n for n in notes(run) if n.text.startswith("Pod/")]
    assert [n.t for n in hits] == [7, 9, 11, 13, 15] or [n.t for n in hits] == [7, 9, 11, 13]
    assert all(n.data["pod"] in n.text for n in hits)
    want = 3 if effect != "notReady" else 3 - len({n.data["pod"] for n in hits})
    assert run.cluster.object("rs/web").status.ready_replicas == want


def test_chaos_spares_pods_that_do_not_match() -> None:
    run = hurt(
        PodChaos(every=1, effect="delete", selector={"app": "b"}),
        objects=[replica_set(2, "a"), replica_set(2, "b")],
    )
    hit = {n.data["pod"][:2] for n in notes(run) if "pod" in n.data}
    assert hit == {"b-"}


# ---- all of them


EVERY = [
    {"fault": "callError", "error": "internal", "rate": "20%", "until": 20},
    {"fault": "callError", "error": "conflict", "rate": 0.5, "until": 20},
    {"fault": "latency", "call": {"median": 0.02, "p99": 0.5}, "watch": [0, 0.1], "until": 20},
    {"fault": "watchLag", "seconds": {"mean": 0.3}, "resource": "Pod", "until": 20},
    {"fault": "stallWatch", "resource": "rs", "at": 4, "for": 3},
    {"fault": "dropWatch", "at": 8, "for": 2, "expired": True},
    {"fault": "duplicateEvents", "rate": "30%", "until": 20},
    {"fault": "staleCache", "at": 10, "behind": 2, "for": 6},
    {"fault": "crashManager", "at": 11, "restartAfter": 0.5},
    {"fault": "loseLease", "at": 14, "overlap": 2},
    {"fault": "nodeDeath", "node": 2, "at": 3, "returnAfter": 15, "detectedAfter": 5},
    {"fault": "clockSkew", "ahead": -30, "at": 2, "until": 20},
    {"fault": "podChaos", "every": {"mean": 3}, "until": 20},
]


def troubled(seed: int = 0) -> Run:
    objects = [deployment(4), job(completions=6, parallelism=3)]
    ends = {"overrides": [{"match": {"labels": {"job-name": "batch"}}, "exit": {"after": 2}}]}
    return hurt(*map(read_fault, EVERY), objects=objects, kubelet=ends, until=120, seed=seed)


def test_all_at_once_heals_and_shows_in_the_timeline() -> None:
    run = troubled()
    assert {n.data["fault"] for n in notes(run)} == {f["fault"] for f in EVERY}
    lines = str(timeline(run.cluster.trace))
    for note in notes(run):
        assert f"fault: {note.text}" in lines
    assert run.cluster.object("deploy/web").status.ready_replicas == 4
    status = run.cluster.object("job/batch").status
    assert status.succeeded >= 6  # two managers may start one pod too many
    assert status.conditions[-1].type == "Complete"
    assert run.cluster.faults.waiting == 0


SCRIPT = """
import hashlib
from tests.test_sim_faults import troubled
text = "\\n".join(map(repr, troubled({seed}).cluster.trace.records))
print(hashlib.sha256(text.encode()).hexdigest())
"""


def digest(seed: int, hash_seed: str) -> str:
    env = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(seed=seed)], env=env, capture_output=True, check=True
    )
    return done.stdout.decode().strip()


def test_the_same_seed_gives_the_same_bytes_in_any_process_and_another_seed_others() -> None:
    first = digest(0, "1")
    assert digest(0, "2") == first
    assert digest(1, "1") != first


def test_a_fault_that_does_not_begin_changes_no_write() -> None:
    plain, armed = hurt(), hurt(CrashManager(after_write=10_000), StallWatch(at=29, lasts=1))
    writes = [repr(list(r.cluster.trace.of(ApiWrite))) for r in (plain, armed)]
    assert writes[0] == writes[1]
    assert armed.cluster.faults.waiting == 1


def test_notes_can_be_written_down() -> None:
    json.dumps([n.data for n in notes(troubled())])
