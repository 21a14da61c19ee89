from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcm_lite.api.core import Node, Pod
from kcm_lite.api.errors import InternalError
from kcm_lite.api.meta import Object, ObjectMeta, object_key, replace
from kcm_lite.api.request import ObjectList, WatchEvent
from kcm_lite.client.cache import (
    CONTROLLER_UID_INDEX,
    Indexer,
    Tombstone,
    index_by_controller_uid,
    index_by_namespace,
    key_of,
    last_state,
)
from kcm_lite.client.clientset import Client
from kcm_lite.client.deltafifo import Delta, DeltaFIFO
from kcm_lite.client.informer import Options, SharedInformer, SharedInformerFactory, start
from kcm_lite.clock import VirtualClock
from tests.client_fakes import FakeServer, pod

Note = tuple[Any, ...]


class Notes:
    """A handler's diary."""

    def __init__(self) -> None:
        self.lines: list[Note] = []

    def add(self, obj: Pod, initial: bool) -> None:
        self.lines.append(("add", obj.metadata.name, initial))

    def update(self, old: Pod, new: Pod) -> None:
        versions = old.metadata.resource_version, new.metadata.resource_version
        self.lines.append(("update", new.metadata.name, *versions))

    def delete(self, obj: Pod | Tombstone[Pod]) -> None:
        how = "tombstone" if isinstance(obj, Tombstone) else "delete"
        self.lines.append((how, last_state(obj).metadata.name))

    def take(self) -> list[Note]:
        lines, self.lines = self.lines, []
        return lines


class Rig:
    def __init__(self, **options: Any) -> None:
        self.clock = VirtualClock()
        self.server = FakeServer(self.clock)
        client = Client(self.server, self.clock, agent="t")
        self.factory = SharedInformerFactory(client, self.clock, name="t", **options)
        self.informer = self.factory.informer(Pod)

    def subscribe(self, **options: Any) -> Notes:
        notes = Notes()
        self.registration = self.informer.add_event_handler(
            notes.add, notes.update, notes.delete, **options
        )
        return notes

    def start(self) -> Rig:
        self.factory.start()
        self.clock.run_for(0)
        return self

    def miss(self) -> None:
        """From now on, nothing reaches the watch."""
        self.server.losing = True

    def relist(self) -> None:
        self.server.losing = False
        self.server.expire()
        self.clock.run_for(5)


def test_first_list_then_changes() -> None:
    rig = Rig()
    rig.server.put(pod("a"))
    notes = rig.subscribe()
    assert not rig.informer.has_synced and not rig.registration.has_synced()
    assert rig.informer.last_resource_version == ""
    rig.start()
    assert rig.informer.has_synced and rig.registration.has_synced()
    rig.server.put(pod("b"))
    rig.server.put(pod("b", app="x"))
    rig.server.drop(pod("a"))
    rig.clock.run_for(0)
    assert notes.take() == [
        ("add", "a", True),
        ("add", "b", False),
        ("update", "b", "2", "3"),
        ("delete", "a"),
    ]
    assert rig.informer.last_resource_version == "4"
    assert [p.metadata.name for p in rig.informer.lister().list()] == ["b"]


def test_an_empty_cluster_syncs_too() -> None:
    rig = Rig().start()
    assert rig.informer.has_synced


@pytest.mark.parametrize("watch_list", [True, False])
def test_waiting_for_the_caches(watch_list: bool) -> None:
    rig = Rig(watch_list=watch_list)
    rig.factory.informer(Node)
    rig.server.errors.append(InternalError("later"))
    rig.server.watch_errors.append(InternalError("later"))

    async def main() -> None:
        rig.factory.start()
        assert not rig.informer.has_synced
        await rig.factory.wait_for_cache_sync()

    rig.clock.run(main())
    assert rig.informer.has_synced and rig.factory.informer(Node).has_synced
    assert 0.8 <= rig.clock.time() < 1.6


def test_handlers_are_told_in_order_of_registration_after_the_cache_changed() -> None:
    rig, seen = Rig(), list[Note]()
    cache = rig.informer.indexer

    for name in ("one", "two"):

        def note(obj: Pod, initial: bool, name: str = name) -> None:
            seen.append((name, obj.metadata.name, len(cache), cache.resource_version))

        rig.informer.add_event_handler(on_add=note)
    rig.start()
    rig.server.put(pod("a"))
    rig.server.put(pod("b"))
    rig.clock.run_for(0)
    assert seen == [
        ("one", "a", 1, "1"),
        ("two", "a", 1, "1"),
        ("one", "b", 2, "2"),
        ("two", "b", 2, "2"),
    ]


def test_a_missed_delete_becomes_a_tombstone() -> None:
    rig = Rig()
    notes = rig.subscribe()
    for name in "abc":
        rig.server.put(pod(name))
    rig.start()
    notes.take()
    rig.miss()
    rig.server.drop(pod("a"))
    rig.server.put(pod("b", app="x"))
    rig.server.put(pod("d"))
    rig.clock.run_for(60)
    assert notes.take() == []
    graves: list[Any] = []
    rig.informer.add_event_handler(on_delete=graves.append)
    rig.relist()
    assert notes.take() == [
        ("tombstone", "a"),
        ("update", "b", "2", "5"),
        ("update", "c", "3", "3"),
        ("add", "d", False),
    ]
    assert graves == [Tombstone("ns/a", pod("a", version="1"))]


def test_a_relist_is_atomic_for_who_reads_the_cache() -> None:
    rig = Rig()
    rig.server.put(pod("a"))
    rig.server.put(pod("b"))
    rig.start()
    seen: list[list[str]] = []

    def look(*_: Any) -> None:
        seen.append([p.metadata.name for p in rig.informer.indexer.list()])

    rig.informer.add_event_handler(None, look, look)
    rig.informer.add_event_handler(on_add=lambda obj, initial: None if initial else look())
    rig.miss()
    rig.server.drop(pod("a"))
    rig.server.put(pod("c"))
    rig.relist()
    assert seen == [["b", "c"]] * 3


def test_deletion_and_recreation_that_nobody_saw_is_an_update_with_another_uid() -> None:
    rig = Rig()
    rig.server.put(pod("a", uid="first"))
    rig.start()
    pairs: list[tuple[str, str]] = []
    rig.informer.add_event_handler(
        on_update=lambda old, new: pairs.append((old.metadata.uid, new.metadata.uid))
    )
    rig.miss()
    rig.server.drop(pod("a"))
    rig.server.put(pod("a", uid="second"))
    rig.relist()
    assert pairs == [("first", "second")]


def test_who_comes_late_is_told_of_everything_at_once() -> None:
    rig = Rig().start()
    rig.server.put(pod("a"))
    rig.clock.run_for(1)
    early = rig.subscribe()
    assert early.take() == [("add", "a", True)]
    assert rig.registration.has_synced()
    rig.server.put(pod("b"))
    rig.clock.run_for(0)
    assert early.take() == [("add", "b", False)]


def test_who_comes_while_a_batch_is_handed_out_misses_nothing_and_hears_nothing_twice() -> None:
    rig = Rig().start()
    late = Notes()

    def invite(obj: Pod, initial: bool) -> None:
        if obj.metadata.name == "b":
            rig.informer.add_event_handler(late.add, late.update, late.delete)

    rig.informer.add_event_handler(on_add=invite)
    events = [
        WatchEvent("ADDED", pod(name, version=str(i)), str(i)) for i, name in enumerate("abc", 1)
    ]
    rig.informer.reflector.sink.apply(events)
    assert late.take() == [("add", "a", True), ("add", "b", True), ("add", "c", False)]


def test_who_comes_while_a_list_is_handed_out_hears_nothing_twice() -> None:
    rig, late = Rig(), Notes()

    def invite(obj: Pod, initial: bool) -> None:
        if obj.metadata.name == "b":
            rig.informer.add_event_handler(late.add, late.update, late.delete)

    rig.informer.add_event_handler(on_add=invite)
    for name in "abc":
        rig.server.put(pod(name))
    rig.start()
    assert late.take() == [("add", "a", True), ("add", "b", True), ("add", "c", True)]


def test_any_handler_may_be_left_out() -> None:
    rig = Rig()
    rig.informer.add_event_handler()
    rig.start()
    rig.server.put(pod("a"))
    rig.server.put(pod("a", app="x"))
    rig.server.drop(pod("a"))
    rig.clock.run_for(0)
    assert rig.informer.last_resource_version == "3"


def test_a_handler_that_raises_ends_the_run() -> None:
    rig = Rig()
    rig.informer.add_event_handler(on_add=lambda obj, initial: 1 // 0)
    rig.start()
    rig.server.put(pod("a"))
    with pytest.raises(ZeroDivisionError):
        rig.clock.run_for(1)


@pytest.mark.parametrize("watch_list", [True, False])
@pytest.mark.parametrize("before_start", [True, False])
def test_a_handlers_error_does_not_pass_for_an_interruption(
    watch_list: bool, before_start: bool
) -> None:
    rig = Rig(watch_list=watch_list)

    def look_up(obj: Pod, initial: bool) -> None:
        rig.informer.lister().get("ns", "somebody-else")  # NotFound, and nobody catches it

    rig.informer.add_event_handler(on_add=look_up)
    if before_start:
        rig.server.put(pod("a"))
    with pytest.raises(RuntimeError, match='a handler failed: pod "somebody-else" not found'):
        rig.start()
        rig.server.put(pod("b"))
        rig.clock.run_for(1)


def test_indexes_can_join_before_and_after_the_start() -> None:
    rig = Rig()
    rig.informer.add_indexers({CONTROLLER_UID_INDEX: index_by_controller_uid})
    rig.server.put(pod("a", owner="u"))
    rig.start()
    rig.informer.add_indexers({"late": index_by_controller_uid, "more": index_by_namespace})
    rig.server.put(pod("b", owner="u"))
    rig.clock.run_for(0)
    for name in (CONTROLLER_UID_INDEX, "late"):
        found = rig.informer.indexer.by_index(name, "u")
        assert [p.metadata.name for p in found] == ["a", "b"]
    with pytest.raises(ValueError, match="indexer conflict"):
        rig.informer.add_indexers({"late": index_by_namespace})


def test_one_informer_a_kind_and_one_watch() -> None:
    rig = Rig(watch_list=False)
    assert rig.factory.informer(Pod) is rig.informer
    others: object = rig.factory.informer(Node)
    assert others is not rig.informer
    for _ in range(5):
        rig.subscribe()
    rig.start()
    rig.factory.start()  # again: nothing
    rig.clock.run_for(60)
    assert len(rig.server.requests) == 2 and len(rig.server.opened) == 2


def test_an_informer_asked_for_later_can_be_started_later() -> None:
    rig = Rig().start()
    nodes = rig.factory.informer(Node)
    rig.server.put(Node(metadata=ObjectMeta(name="n")))
    rig.clock.run_for(1)
    assert not nodes.has_synced
    rig.start()
    assert nodes.has_synced and "n" in nodes.indexer


def test_stop_leaves_the_cache() -> None:
    rig = Rig(resync=10.0).start()
    rig.server.put(pod("a"))
    rig.clock.run_for(0)
    notes = rig.subscribe()
    notes.take()
    rig.factory.stop()
    rig.clock.run_for(0)
    rig.server.put(pod("b"))
    rig.clock.run_for(60)
    assert notes.take() == [] and len(rig.informer.indexer) == 1
    assert all(watch.stopped for _, watch in rig.server.watches)


# reminders


def test_no_reminders_by_default() -> None:
    rig = Rig()
    rig.server.put(pod("a"))
    notes = rig.subscribe(resync=5.0)  # an informer without reminders has none for anybody
    rig.start()
    notes.take()
    rig.clock.run_for(100)
    assert notes.take() == []


def test_each_handler_has_its_own_period() -> None:
    rig = Rig(resync=10.0)
    rig.server.put(pod("a"))
    times: dict[str, list[float]] = {"default": [], "rare": [], "never": []}

    def subscribe(name: str, resync: float | None) -> None:
        rig.informer.add_event_handler(
            on_update=lambda old, new: times[name].append(rig.clock.time()), resync=resync
        )

    subscribe("default", None)
    subscribe("rare", 25.0)
    subscribe("never", 0.0)
    rig.start()
    rig.clock.run_for(60.5)
    assert times == {"default": [10, 20, 30, 40, 50, 60], "rare": [30, 60], "never": []}


def test_the_most_eager_handler_sets_the_pace_before_the_start_only() -> None:
    rig = Rig(resync=30.0)
    eager, lazy = rig.subscribe(resync=0.2), rig.subscribe(resync=30.0)
    assert rig.informer.check == 1.0  # the least that is allowed
    rig.server.put(pod("a"))
    rig.start()
    late = rig.subscribe(resync=0.5)
    for notes in (eager, lazy, late):
        notes.take()
    rig.clock.run_for(30.5)
    assert [len(notes.take()) for notes in (eager, lazy, late)] == [30, 1, 30]
    rig = Rig(resync=30.0).start()
    late = rig.subscribe(resync=1.0)
    assert rig.registration.resync == 30.0


def test_a_reminder_shows_the_same_object_twice() -> None:
    rig = Rig(resync=10.0)
    rig.server.put(pod("a"))
    pairs: list[tuple[Pod, Pod]] = []
    rig.informer.add_event_handler(on_update=lambda old, new: pairs.append((old, new)))
    rig.start()
    rig.clock.run_for(10)
    assert len(pairs) == 1 and pairs[0][0] is pairs[0][1]


def test_reminders_keep_no_run_alive() -> None:
    rig = Rig(resync=10.0).start()
    assert rig.clock.settle() < 10


def test_a_relist_without_news_reaches_only_who_wants_reminders() -> None:
    rig = Rig(resync=10.0)
    rig.server.put(pod("a"))
    reminded, quiet = rig.subscribe(), rig.subscribe(resync=0.0)
    rig.start()
    rig.clock.run_for(12)  # one look has been: who is not due wants nothing now
    reminded.take(), quiet.take()
    rig.server.put(pod("a", app="x"))
    rig.clock.run_for(0)
    rig.server.expire()
    rig.clock.run_for(5)
    assert quiet.take() == [("update", "a", "1", "2")]
    assert reminded.take() == [("update", "a", "1", "2"), ("update", "a", "2", "2")]


# the queue of 1.22


def test_the_delta_queue_gathers_by_object() -> None:
    known: Indexer[Pod] = Indexer()
    fifo = DeltaFIFO(known)
    a, b, a2 = pod("a", version="1"), pod("b", version="2"), pod("a", version="3")
    fifo.add("Added", a)
    fifo.add("Added", b)
    fifo.add("Updated", a2)
    assert len(fifo) == 2
    assert fifo.pop() == [Delta("Added", a), Delta("Updated", a2)]
    assert fifo.pop() == [Delta("Added", b)]


def test_of_two_deletions_in_a_row_the_better_one_stays() -> None:
    a = pod("a")
    pairs: list[tuple[Pod | Tombstone[Pod], ...]] = [
        (a, Tombstone("ns/a", a), a),
        (Tombstone("ns/a", a), a, a),
        (Tombstone("ns/a", a), Tombstone("ns/a", a), Tombstone("ns/a", a)),
    ]
    for first, second, kept in pairs:
        fifo: DeltaFIFO[Pod] = DeltaFIFO(Indexer())
        fifo.add("Deleted", first)
        fifo.add("Deleted", second)
        assert fifo.pop() == [Delta("Deleted", kept)]
    fifo = DeltaFIFO(Indexer())
    for kind in ("Deleted", "Added", "Deleted"):
        fifo.add(kind, a)
    assert [delta.type for delta in fifo.pop()] == ["Deleted", "Added", "Deleted"]


def test_a_replacement_makes_tombstones_for_what_is_known_or_queued() -> None:
    known: Indexer[Pod] = Indexer()
    known.add(pod("known"))
    known.add(pod("both", version="1"))
    fifo = DeltaFIFO(known)
    fifo.add("Updated", pod("both", version="2"))
    fifo.add("Added", pod("queued"))
    fifo.add("Deleted", Tombstone("ns/grave", pod("grave")))
    fifo.replace([pod("new")])
    popped = [fifo.pop() for _ in range(len(fifo))]

    def words(delta: Delta[Pod]) -> tuple[str, str, str]:
        return delta.type, key_of(delta.object), type(delta.object).__name__

    assert [[*map(words, deltas)] for deltas in popped] == [
        [("Updated", "ns/both", "Pod"), ("Deleted", "ns/both", "Tombstone")],
        [("Added", "ns/queued", "Pod"), ("Deleted", "ns/queued", "Tombstone")],
        [("Deleted", "ns/grave", "Tombstone")],
        [("Replaced", "ns/new", "Pod")],
        [("Deleted", "ns/known", "Tombstone")],
    ]
    last = popped[0][1].object
    assert isinstance(last, Tombstone) and last.obj.metadata.resource_version == "2"


def test_then_events_came_by_object_and_a_list_item_by_item() -> None:
    diaries = []
    for in_order in (True, False):
        rig = Rig(in_order=in_order)
        rig.server.put(pod("a"))
        notes = rig.subscribe()
        rig.start()
        rig.server.losing = True
        b, a, b2 = (
            rig.server.put(pod("b")),
            rig.server.put(pod("a", x="1")),
            rig.server.put(pod("b", x="1")),
        )
        rig.server.send(
            WatchEvent("ADDED", b, "2"),
            WatchEvent("MODIFIED", a, "3"),
            WatchEvent("MODIFIED", b2, "4"),
        )
        rig.clock.run_for(0)
        rig.server.drop(pod("a"))
        rig.server.put(pod("c"))
        rig.relist()
        diaries.append(notes.take())
    today, then = diaries
    assert today == [
        ("add", "a", True),
        ("add", "b", False),
        ("update", "a", "1", "3"),
        ("update", "b", "2", "4"),
        ("tombstone", "a"),
        ("update", "b", "4", "4"),
        ("add", "c", False),
    ]
    assert then == [
        ("add", "a", True),
        ("add", "b", False),
        ("update", "b", "2", "4"),
        ("update", "a", "1", "3"),
        ("update", "b", "4", "4"),
        ("add", "c", False),
        ("tombstone", "a"),
    ]


# whatever happens


class Mirror:
    """Rebuilds the state from what a handler is told, and checks that it is told sense."""

    def __init__(self) -> None:
        self.state: dict[str, Object] = {}

    def add(self, obj: Object, initial: bool) -> None:
        assert object_key(obj) not in self.state
        self.state[object_key(obj)] = obj

    def update(self, old: Object, new: Object) -> None:
        assert self.state[object_key(new)] is old
        self.state[object_key(new)] = new

    def delete(self, obj: Any) -> None:
        self.state.pop(key_of(obj), None)


actions = st.one_of(
    st.tuples(st.just("put"), st.sampled_from("abcd"), st.sampled_from(["", "u1", "u2"])),
    st.tuples(st.just("drop"), st.sampled_from("abcd")),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 0.5, 3.0, 200.0])),
    st.tuples(st.just("losing"), st.booleans()),
    st.tuples(st.just("late")),
    st.sampled_from([("close",), ("expire",), ("break",), ("refuse",), ("bookmark",)]),
)


@settings(max_examples=300)
@given(st.lists(actions, max_size=40), st.booleans(), st.booleans(), st.integers(0, 9))
def test_once_things_settle_cache_and_handlers_agree_with_the_server(
    script: list[tuple[Any, ...]], in_order: bool, watch_list: bool, seed: int
) -> None:
    rig = Rig(in_order=in_order, watch_list=watch_list, rng=random.Random(seed))
    rig.informer.add_indexers({CONTROLLER_UID_INDEX: index_by_controller_uid})
    server, lost = rig.server, False

    def join() -> Mirror:
        mirror = Mirror()
        rig.informer.add_event_handler(mirror.add, mirror.update, mirror.delete)
        return mirror

    mirrors = [join()]
    rig.start()
    for action, *args in script:
        if action == "put":
            server.put(pod(args[0], owner=args[1], uid=f"{args[0]}{server.version}"))
        elif action == "drop" and f"ns/{args[0]}" in server.state(Pod):
            server.drop(pod(args[0]))
        elif action == "wait":
            rig.clock.run_for(args[0])
        elif action == "losing":
            server.losing = args[0]
        elif action == "late":
            mirrors.append(join())
        elif action == "close":
            server.close()
        elif action == "expire":
            server.expire()
        elif action == "break":
            server.end_watches(ConnectionResetError("broken"))
        elif action == "refuse":
            server.watch_errors.append(ConnectionRefusedError("refused"))
            server.errors.append(InternalError("sick"))
        elif action == "bookmark" and not lost:
            server.send(WatchEvent("BOOKMARK", Pod(), str(server.version)))
        lost = lost or server.losing
    server.losing = False
    if lost:  # only a new list can bring back what no watch has sent
        server.version += 1  # who has seen the last event may have missed one before it
        server.expire()
    rig.clock.run_for(300)
    state = server.state(Pod)
    cache = rig.informer.indexer
    assert cache.items == state
    assert all(mirror.state == state for mirror in mirrors)
    for owner in ("u1", "u2"):
        found = {object_key(p) for p in cache.by_index(CONTROLLER_UID_INDEX, owner)}
        assert found == {key for key, p in state.items() if index_by_controller_uid(p) == (owner,)}
    assert int(rig.informer.last_resource_version) <= server.version


def test_an_informer_takes_any_source() -> None:
    class Fixed:
        async def list(self) -> ObjectList[Pod]:
            return ObjectList((pod("a"),), "1")

        def watch(self, resource_version: str, *, send_initial_events: bool = False) -> Any:
            return FakeServer(clock).watch(Pod, resource_version=resource_version)

    clock = VirtualClock()
    informer = SharedInformer(Fixed(), Pod, clock, random.Random(0), Options(watch_list=False))
    start(informer)
    clock.run_for(0)
    assert informer.lister().get("ns", "a") == replace(pod("a"))
