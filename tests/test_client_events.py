from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from kcm_lite.api.apps import ReplicaSet
from kcm_lite.api.core import Event, Node, ObjectReference
from kcm_lite.api.errors import InternalError, TooManyRequests
from kcm_lite.api.meta import Object, ObjectMeta
from kcm_lite.client.clientset import Client
from kcm_lite.client.events import EventNames, EventRecorder, Recent
from kcm_lite.clock import VirtualClock
from tests.client_fakes import FakeServer


def web(name: str = "web", namespace: str = "ns", uid: str = "uid-web") -> ReplicaSet:
    meta = ObjectMeta(name=name, namespace=namespace, uid=uid, resource_version="7")
    return ReplicaSet(metadata=meta)


class Rig:
    def __init__(self, *, qps: float = 0.0, burst: int = 0, **server: Any) -> None:
        self.clock = VirtualClock()
        self.server = FakeServer(self.clock, **server)
        self.client = Client(self.server, self.clock, agent="rs", qps=qps, burst=burst)
        self.recorder = EventRecorder(self.client, self.clock, "replicaset-controller")

    def tell(
        self,
        message: str,
        *,
        about: Object | None = None,
        reason: str = "Failed",
        type: str = "Warning",
    ) -> None:
        self.recorder.event(about or web(), type, reason, message)

    def tell_all(self, *messages: str, **rest: Any) -> None:
        for message in messages:
            self.tell(message, **rest)
        self.clock.run_for(0)

    def events(self) -> list[Event]:
        found = [e for e in self.server.state(Event).values() if isinstance(e, Event)]
        return sorted(found, key=lambda e: e.metadata.name)

    def counts(self) -> list[tuple[str, int]]:
        return [(event.message, event.count) for event in self.events()]

    def verbs(self) -> list[tuple[str, float]]:
        return [(request.verb, t) for t, request in self.server.requests]


COMBINED = "(combined from similar events): "


def test_an_event_tells_who_what_and_when() -> None:
    rig = Rig()
    rig.clock.run_for(1.7)
    rig.tell_all("Created pod: web-1", reason="SuccessfulCreate", type="Normal")
    (event,) = rig.events()
    meta, obj = event.metadata, event.involved_object
    assert meta.namespace == "ns" and meta.name.startswith("web.18867")
    assert int(meta.name.removeprefix("web."), 16) // 1000 == 1767225601_700000
    assert obj == ObjectReference(
        kind="ReplicaSet",
        api_version="apps/v1",
        namespace="ns",
        name="web",
        uid="uid-web",
        resource_version="7",
    )
    assert (event.type, event.reason, event.message) == (
        "Normal",
        "SuccessfulCreate",
        "Created pod: web-1",
    )
    assert event.source.component == event.reporting_component == "replicaset-controller"
    assert (event.source.host, event.reporting_instance) == ("", "")
    assert event.first_timestamp == event.last_timestamp == rig.clock.timestamp()
    assert event.count == 1
    assert event.event_time is None and event.series is None


def test_cluster_scoped_objects_have_their_events_in_default() -> None:
    rig = Rig()
    rig.tell_all("m", about=Node(metadata=ObjectMeta(name="n1")))
    (event,) = rig.events()
    assert event.metadata.namespace == "default" and event.involved_object.namespace == ""


@pytest.mark.parametrize("type", ["", "normal", "Error"])
def test_only_two_types(type: str) -> None:
    with pytest.raises(ValueError, match="unsupported event type"):
        Rig().tell("m", type=type)


def test_the_same_again_is_counted_by_a_patch() -> None:
    rig = Rig()
    rig.tell_all("m")
    first = rig.clock.timestamp()
    rig.clock.run_for(30)
    rig.tell_all("m", "m")
    (event,) = rig.events()
    assert event.count == 3 and event.first_timestamp == first
    assert [verb for verb, _ in rig.verbs()] == ["create", "patch", "patch"]
    patch = rig.server.requests[-1][1]
    assert (patch.patch_type, patch.name, patch.namespace) == (
        "strategic",
        event.metadata.name,
        "ns",
    )
    assert patch.body == {"count": 3, "lastTimestamp": "2026-01-01T00:00:30Z", "message": "m"}


def test_what_makes_an_event_another() -> None:
    rig = Rig()
    rig.tell_all("m", "n")
    rig.tell_all("m", reason="Other")
    rig.tell_all("m", type="Normal")
    rig.tell_all("m", about=web("api"))
    rig.tell_all("m", about=web(namespace="other"))
    rig.tell_all("m", about=web(uid="reborn"))
    assert [event.count for event in rig.events()] == [1] * 7
    rig.tell_all(
        "m",
        about=ReplicaSet(
            metadata=ObjectMeta(name="web", namespace="ns", uid="uid-web", resource_version="8")
        ),
    )
    assert len(rig.events()) == 7  # another version is the same object


def test_from_the_tenth_on_similar_events_are_combined() -> None:
    rig = Rig()
    rig.tell_all(*(f"m{i}" for i in range(1, 14)))
    assert rig.counts() == [(f"m{i}", 1) for i in range(1, 10)] + [(f"{COMBINED}m13", 4)]
    combined = rig.events()[-1]
    assert combined.reporting_component == ""  # as upstream
    assert combined.source.component == "replicaset-controller" and combined.reason == "Failed"


def test_two_hours_of_the_same_message_are_never_combined() -> None:
    rig = Rig()
    for _ in range(15):
        rig.tell_all("m")
        rig.clock.run_for(500)
    assert rig.counts() == [("m", 15)]


def test_a_slow_stream_of_similar_events_is_combined_too() -> None:
    rig = Rig()
    for i in range(11):
        rig.tell_all(f"m{i}")
        rig.clock.run_for(400)  # an hour and more in all, but never ten minutes without one
    assert rig.counts()[-1] == (f"{COMBINED}m10", 2)


def test_after_ten_quiet_minutes_similar_events_are_themselves_again() -> None:
    rig = Rig()
    rig.tell_all(*(f"m{i}" for i in range(11)))
    rig.clock.run_for(600)
    rig.tell_all("n1")  # ten minutes are not too long
    rig.clock.run_for(600.001)
    rig.tell_all("n2")
    assert rig.counts()[-2:] == [(f"{COMBINED}n1", 3), ("n2", 1)]


def test_a_quarter_of_a_hundred_then_one_in_five_minutes() -> None:
    rig = Rig()
    rig.tell_all(*["m"] * 40)
    assert rig.counts() == [("m", 25)]
    rig.tell_all("m", type="Normal")  # another budget
    rig.tell_all("m", about=web("api"))  # another budget
    assert sorted(count for _, count in rig.counts()) == [1, 1, 25]
    rig.clock.run_for(299)
    rig.tell_all("m")
    assert max(count for _, count in rig.counts()) == 25
    rig.clock.run_for(2)
    rig.tell_all("m")
    # what was swallowed is counted all the same
    assert max(count for _, count in rig.counts()) == 42


def test_a_five_hundred_pod_burst_writes_twenty_five_times() -> None:
    rig = Rig()
    rig.tell_all(
        *(f"Created pod: web-{i}" for i in range(500)), reason="SuccessfulCreate", type="Normal"
    )
    assert len(rig.server.requests) == 25
    assert rig.counts()[-1] == (f"{COMBINED}Created pod: web-24", 16)


def test_names_differ_even_in_the_same_instant() -> None:
    clock = VirtualClock()
    rs, deployment = (
        EventNames(clock, "replicaset-controller"),
        EventNames(clock, "deployment-controller"),
    )
    names = [n.next("web") for _ in range(100) for n in (rs, deployment)]
    assert len(set(names)) == 200
    assert sorted(names[::2]) == names[::2]  # later ones sort later
    long = rs.next("x" * 253)
    assert len(long) <= 253 and long != rs.next("x" * 253)


def test_events_are_written_one_at_a_time_in_order() -> None:
    rig = Rig(call_seconds=1.0)
    for reason in ("A", "B", "C"):
        rig.tell("m", reason=reason)
    rig.clock.run_for(10)
    assert rig.verbs() == [("create", 0.0), ("create", 1.0), ("create", 2.0)]
    assert [event.reason for event in rig.events()] == ["A", "B", "C"]
    # the time is that of the happening
    assert {event.first_timestamp for event in rig.events()} == {rig.events()[0].first_timestamp}
    rig.tell("m", reason="D")
    rig.clock.run_for(10)
    assert rig.verbs()[-1] == ("create", 10.0)


def test_telling_never_waits() -> None:
    rig = Rig(call_seconds=1.0)
    for i in range(1200):
        rig.tell("m", reason=f"R{i}", about=web(f"w{i}"))
    assert rig.recorder.dropped == 199  # one is being written, a thousand wait
    rig.clock.run_for(2000)
    assert len(rig.events()) == 1001


def test_events_take_from_the_controllers_bucket() -> None:
    rig = Rig(qps=1, burst=3)

    async def main() -> None:
        rig.tell("m", reason="A")
        rig.tell("m", reason="B")
        await rig.client.create(web("one"))
        await rig.client.create(web("two"))

    rig.clock.run(main())
    rig.clock.run_for(60)
    kinds = [(request.type.KIND, t) for t, request in rig.server.requests]
    assert sorted(t for _, t in kinds) == [0.0, 0.0, 0.0, 1.0]
    assert sorted(kind for kind, _ in kinds) == ["Event", "Event", "ReplicaSet", "ReplicaSet"]


def test_a_deleted_event_is_created_again() -> None:
    rig = Rig()
    rig.tell_all("m")
    first = rig.events()[0]
    rig.server.drop(first)
    rig.clock.run_for(60)
    rig.tell_all("m")
    assert rig.counts() == [("m", 2)]
    assert rig.events()[0].metadata.name == first.metadata.name
    assert rig.events()[0].first_timestamp == first.first_timestamp
    assert rig.events()[0].last_timestamp == rig.clock.timestamp()
    assert [verb for verb, _ in rig.verbs()] == ["create", "patch", "create"]
    assert rig.server.requests[-1][1].body.metadata.resource_version == ""


@pytest.mark.parametrize("error", [InternalError("no"), TooManyRequests("busy")])
def test_a_refusal_is_final(error: Exception) -> None:
    rig = Rig()
    rig.server.errors.append(error)
    rig.tell_all("m")
    rig.clock.run_for(600)
    assert rig.events() == [] and len(rig.server.requests) == 1
    rig.tell_all("n")
    assert rig.counts() == [("n", 1)]


def test_an_absent_server_is_tried_twelve_times() -> None:
    rig = Rig()
    rig.recorder.rng = random.Random(1)
    rig.server.errors.extend([ConnectionRefusedError("down")] * 12)
    rig.tell("m")
    rig.tell("n")
    rig.clock.run_for(200)
    times = [t for _, t in rig.verbs()]
    assert 0 < times[1] < 10
    assert [round(b - a, 6) for a, b in pairwise(times[1:12])] == [10.0] * 10
    assert times[12] == times[11]  # given up: on with the next one
    assert rig.counts() == [("n", 1)]


def test_an_absent_server_that_comes_back_gets_the_event() -> None:
    rig = Rig()
    rig.server.errors.extend([TimeoutError()] * 3)
    rig.tell("m")
    rig.clock.run_for(60)
    assert rig.counts() == [("m", 1)]
    assert rig.events()[0].first_timestamp != rig.clock.timestamp()


def test_a_programming_error_is_not_swallowed() -> None:
    rig = Rig()
    rig.server.errors.append(ZeroDivisionError())
    rig.tell("m")
    with pytest.raises(ZeroDivisionError):
        rig.clock.run_for(1)


def test_memory_is_bounded() -> None:
    recent: Recent[int] = Recent(3)
    for i in range(4):
        recent.put(i, i)
        assert recent.get(0) in (0, None)
    assert [recent.get(i) for i in range(4)] == [0, None, 2, 3]  # 0 was used, 1 was not
    recent.put(2, 22)
    recent.put(9, 9)
    assert [recent.get(i) for i in (0, 2, 3, 9)] == [None, 22, 3, 9]
    rig = Rig()
    for i in range(4200):
        rig.tell("m", about=web(f"w{i}"))
        rig.clock.run_for(0)
    rig.tell_all("m", about=web("w0"))  # forgotten: new again
    assert len(rig.server.requests) == 4201 and rig.verbs()[-1][0] == "create"
    rig.tell_all("m", about=web("w4199"))
    assert rig.verbs()[-1][0] == "patch"


def test_two_runs_are_alike() -> None:
    def run() -> list[Event]:
        rig = Rig()
        rig.tell_all(*(f"m{i % 12}" for i in range(60)))
        return rig.events()

    assert run() == run()
