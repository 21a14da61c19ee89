"""Informers and recorders against the real API server, over a wire that breaks."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kcm_lite.api.core import ConfigMap, Event
from kcm_lite.api.meta import ObjectMeta, object_key, replace
from kcm_lite.api.request import Request, WatchClosed
from kcm_lite.apiserver.server import APIServer
from kcm_lite.apiserver.transport import InMemoryTransport, Watch, end
from kcm_lite.client.cache import key_of
from kcm_lite.client.clientset import Client
from kcm_lite.client.events import EventRecorder
from kcm_lite.client.informer import SharedInformerFactory
from kcm_lite.clock import VirtualClock
from kcm_lite.trace import Delivery, Trace


class Cable(InMemoryTransport):
    plugged = True

    def __init__(self, *args: Any, **rest: Any) -> None:
        super().__init__(*args, **rest)
        self.watches: list[Watch] = []

    async def call(self, request: Request) -> Any:
        if not self.plugged:
            raise ConnectionRefusedError
        return await super().call(request)

    def watch(self, *args: Any, **rest: Any) -> Watch:
        watch = super().watch(*args, **rest)
        self.watches.append(watch)
        if not self.plugged:
            end(watch, ConnectionRefusedError())
        return watch

    def cut(self, error: Exception) -> None:
        for watch in self.watches:
            end(watch, error)
        self.watches.clear()


def page(name: str, text: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(namespace="default", name=name), data={"text": text})


actions = st.one_of(
    st.tuples(st.just("write"), st.sampled_from("abc"), st.integers(0, 99)),
    st.tuples(st.just("delete"), st.sampled_from("abc")),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 0.001, 0.004, 1.0, 100.0])),
    st.sampled_from([("unplug",), ("plug",), ("close",), ("reset",)]),
)


@settings(max_examples=150)
@given(st.lists(actions, max_size=40), st.booleans(), st.booleans(), st.integers(2, 12))
def test_whatever_the_wire_does_the_cache_ends_up_right(
    script: list[tuple[Any, ...]], in_order: bool, watch_list: bool, history: int
) -> None:
    clock = VirtualClock()
    server = APIServer(clock, history=history)
    cable = Cable(server, clock)
    factory = SharedInformerFactory(
        Client(cable, clock, agent="t"),
        clock,
        rng=random.Random(len(script)),
        in_order=in_order,
        watch_list=watch_list,
    )
    informer = factory.informer(ConfigMap)
    mirror: dict[str, ConfigMap] = {}

    def added(obj: ConfigMap, initial: bool) -> None:
        assert object_key(obj) not in mirror
        mirror[object_key(obj)] = obj

    def updated(old: ConfigMap, new: ConfigMap) -> None:
        assert mirror[object_key(new)] is old
        mirror[object_key(new)] = new

    informer.add_event_handler(added, updated, lambda gone: mirror.pop(key_of(gone)))
    factory.start()
    for action, *args in script:
        names = {obj.metadata.name: obj for obj in server.list(ConfigMap).items}
        if action == "write" and args[0] in names:
            server.update(replace(names[args[0]], data={"text": str(args[1])}))
        elif action == "write":
            server.create(page(args[0], str(args[1])))
        elif action == "delete" and args[0] in names:
            server.delete(ConfigMap, "default", args[0])
        elif action == "wait":
            clock.run_for(args[0])
        elif action == "unplug":
            cable.plugged = False
            cable.cut(ConnectionResetError())
        elif action == "plug":
            cable.plugged = True
        elif action == "close":
            cable.cut(WatchClosed())
        elif action == "reset":
            cable.cut(ConnectionResetError())
    cable.plugged = True
    clock.run_for(300)
    listed = server.list(ConfigMap)
    state = {object_key(obj): obj for obj in listed.items}
    assert informer.indexer.items == state == mirror
    # bookmarks bring the version up to date even when nothing happens
    assert informer.last_resource_version == listed.resource_version


def test_events_of_a_dead_line_arrive_when_it_is_back() -> None:
    clock = VirtualClock()
    server = APIServer(clock)
    cable = Cable(server, clock)
    recorder = EventRecorder(Client(cable, clock), clock, "demo")
    cable.plugged = False
    told = server.create(page("a", "x"))
    for _ in range(3):
        recorder.event(told, "Normal", "Read", "twice")
    clock.call_at(25, setattr, cable, "plugged", True)
    clock.run_for(60)
    (event,) = server.list(Event).items
    assert (event.count, event.message, event.involved_object.name) == (3, "twice", "a")
    assert event.first_timestamp == event.last_timestamp == told.metadata.creation_timestamp


def run_once(seed: int) -> list[Delivery]:
    clock, trace, rng = VirtualClock(), Trace(), random.Random(seed)
    server = APIServer(clock, trace=trace, history=6)
    cable = Cable(server, clock, trace=trace)
    client = Client(cable, clock, agent="t")
    factory = SharedInformerFactory(client, clock, trace=trace)
    recorder = EventRecorder(client, clock, "demo")
    factory.informer(ConfigMap).add_event_handler(
        lambda new, initial: recorder.event(new, "Normal", "Seen", new.data["text"])
    )
    factory.informer(Event)
    factory.start()
    for i in range(30):
        server.create(page(f"p{i}", str(i)))
        if rng.random() < 0.3:
            cable.cut(ConnectionResetError())
        clock.run_for(rng.random() * 3)
    clock.run_for(100)
    return list(trace.of(Delivery))


def test_the_same_seed_gives_the_same_run() -> None:
    assert run_once(1) == run_once(1)
    assert run_once(1) != run_once(2)
