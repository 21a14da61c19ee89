"""The wire: when requests are committed, when answers and events arrive, in which order."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from kcm_lite.api.core import ConfigMap
from kcm_lite.api.errors import Conflict, Expired, NotFound
from kcm_lite.api.meta import replace
from kcm_lite.api.request import Request, WatchClosed
from kcm_lite.api.selectors import parse_selector
from kcm_lite.apiserver.transport import InMemoryTransport, Latency, Watch
from kcm_lite.client.transport import Transport
from kcm_lite.trace import ApiWrite, Delivery, Trace
from tests.apiserver_support import Box, config, kinds


class Wire(Box):
    """A server at the end of a wire."""

    def __init__(self, call: float = 0.010, watch: float = 0.002, **options: Any) -> None:
        super().__init__(**options)
        self.transport: InMemoryTransport = InMemoryTransport(
            self.server, self.clock, latency=Latency(call, watch), trace=self.trace
        )

    def create(self, name: str = "a") -> Awaitable[Any]:
        return self.transport.call(
            Request(verb="create", type=ConfigMap, namespace="default", body=config(name))
        )


def as_the_client_sees_it(transport: InMemoryTransport) -> Transport:
    """The type checker's part of the test: it implements the client's protocol."""
    return transport


def test_a_request_is_committed_halfway_and_answered_at_the_end() -> None:
    wire = Wire()

    async def main() -> None:
        made = await wire.create()
        assert made is wire.server.get(ConfigMap, "default", "a")
        assert wire.clock.time() == 0.010

    wire.clock.run(main())
    (write,) = wire.trace.of(ApiWrite, resource="configmaps")
    assert write.t == 0.005


def test_a_refusal_takes_as_long_as_an_answer() -> None:
    wire = Wire()

    async def main() -> None:
        with pytest.raises(NotFound):
            await wire.transport.call(
                Request(verb="get", type=ConfigMap, namespace="default", name="a")
            )
        assert wire.clock.time() == 0.010

    wire.clock.run(main())


def test_requests_of_one_instant_are_served_in_the_order_of_their_calls() -> None:
    wire = Wire()

    async def main() -> None:
        await asyncio.gather(*(wire.create(name) for name in "cab"))
        assert wire.clock.time() == 0.010

    events = wire.watch(ConfigMap)
    wire.clock.run(main())
    assert [e.object.metadata.name for e in events] == ["c", "a", "b"]


def test_two_writers_at_once_one_wins() -> None:
    wire = Wire()
    stored = wire.server.create(config())

    async def main() -> list[Any]:
        bodies = (replace(stored, data={"n": n}) for n in "12")
        calls = (
            wire.transport.call(
                Request(verb="update", type=ConfigMap, namespace="default", name="a", body=body)
            )
            for body in bodies
        )
        return await asyncio.gather(*calls, return_exceptions=True)

    first, second = wire.clock.run(main())
    assert first.data == {"n": "1"} and isinstance(second, Conflict)


def test_a_request_on_its_way_is_served_though_its_caller_is_gone() -> None:
    wire = Wire()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.003):
                await wire.create()
        await wire.clock.sleep(1)
        assert wire.server.get(ConfigMap, "default", "a")

    wire.clock.run(main())


# --- watches


def test_events_arrive_after_the_watch_latency_in_batches_of_one_instant() -> None:
    wire = Wire()
    arrived = []

    async def main() -> None:
        watch = wire.transport.watch(ConfigMap, client="me")
        await wire.clock.sleep(1)
        await asyncio.gather(*(wire.create(name) for name in "abc"))
        await wire.create("d")
        for _ in range(2):
            batch = await watch.next()
            arrived.append((wire.clock.time(), [e.object.metadata.name for e in batch]))

    wire.clock.run(main())
    assert arrived == [(1.020, ["a", "b", "c"]), (1.020, ["d"])]
    deliveries = list(wire.trace.of(Delivery, client="me"))
    assert [(d.t, d.key, d.type, d.resource) for d in deliveries] == [
        (1.007, "default/a", "ADDED", "configmaps"),
        (1.007, "default/b", "ADDED", "configmaps"),
        (1.007, "default/c", "ADDED", "configmaps"),
        (1.017, "default/d", "ADDED", "configmaps"),
    ]
    assert {d.lag for d in deliveries} == {0.002}


def test_a_watch_waits_for_what_comes() -> None:
    wire = Wire()

    async def main() -> None:
        watch = wire.transport.watch(ConfigMap)
        wire.clock.call_at(5, wire.server.create, config())
        assert kinds(await watch.next()) == ["ADDED"]
        assert wire.clock.time() == 5.002

    wire.clock.run(main())


def test_a_watch_begins_at_the_server_half_a_call_later_and_misses_nothing() -> None:
    wire = Wire()
    version = wire.server.create(config("a")).metadata.resource_version

    async def main() -> None:
        watch = wire.transport.watch(ConfigMap, resource_version=version)
        wire.server.create(config("b"))  # committed before the server hears of the watch
        assert [e.object.metadata.name for e in await watch.next()] == ["b"]
        assert wire.clock.time() == 0.007

    wire.clock.run(main())


def test_a_watch_that_is_too_old_fails_at_next() -> None:
    wire = Wire(history=1)
    for name in "abc":
        wire.server.create(config(name))

    async def main() -> None:
        watch = wire.transport.watch(ConfigMap, resource_version="1")
        for _ in range(2):
            with pytest.raises(Expired):
                await watch.next()
            assert wire.clock.time() == 0.010

    wire.clock.run(main())


def test_selectors_and_streamed_lists_go_through() -> None:
    wire = Wire()
    wire.server.create(config("a", labels={"app": "web"}))
    wire.server.create(config("b"))

    async def main() -> None:
        watch = wire.transport.watch(
            ConfigMap,
            namespace="default",
            label_selector=parse_selector("app=web"),
            send_initial_events=True,
            client="me",
        )
        batch = await watch.next()
        assert [(e.type, e.object.metadata.name) for e in batch] == [
            ("ADDED", "a"),
            ("BOOKMARK", ""),
        ]

    wire.clock.run(main())


def test_a_stopped_watch_ends_its_waiter_and_hears_nothing_more() -> None:
    wire = Wire()

    async def main() -> None:
        watch = wire.transport.watch(ConfigMap, client="me")
        wire.clock.call_at(1, watch.stop)
        with pytest.raises(WatchClosed):
            await watch.next()
        assert wire.clock.time() == 1
        watch.stop()
        await wire.create()
        with pytest.raises(WatchClosed):
            await watch.next()

    wire.clock.run(main())
    wire.clock.run_for(1)
    assert not list(wire.trace.of(Delivery))
    assert wire.server.store.tables[ConfigMap].watchers == ()


def test_what_is_on_its_way_to_a_stopped_watch_is_lost() -> None:
    wire = Wire()

    async def main() -> None:
        watch = wire.transport.watch(ConfigMap, client="me")
        await wire.clock.sleep(1)
        wire.server.create(config())
        watch.stop()
        with pytest.raises(WatchClosed):
            await watch.next()

    wire.clock.run(main())
    wire.clock.run_for(1)
    assert not list(wire.trace.of(Delivery))


def test_a_watch_stopped_before_it_began_never_begins() -> None:
    wire = Wire()

    async def main() -> None:
        wire.transport.watch(ConfigMap).stop()
        await wire.clock.sleep(1)

    wire.clock.run(main())
    assert wire.server.store.tables[ConfigMap].watchers == ()


def test_a_cancelled_next_loses_nothing() -> None:
    wire = Wire()

    async def main() -> None:
        watch = wire.transport.watch(ConfigMap)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await watch.next()
        wire.server.create(config())
        assert kinds(await watch.next()) == ["ADDED"]

    wire.clock.run(main())


def test_bookmarks_come_once_a_minute() -> None:
    wire = Wire()
    seen = []

    async def main() -> None:
        watch: Watch = wire.transport.watch(ConfigMap)
        for _ in range(2):
            (event,) = await watch.next()
            seen.append((event.type, wire.clock.time()))

    wire.clock.run(main())
    assert seen == [("BOOKMARK", 60.002), ("BOOKMARK", 120.002)]


def test_an_open_watch_keeps_no_clock_from_settling() -> None:
    wire = Wire()

    async def listen() -> None:
        watch = wire.transport.watch(ConfigMap)
        while True:
            await watch.next()

    wire.clock.spawn(listen(), name="listen")
    wire.server.create(config())
    assert wire.clock.settle() < 1


def test_without_detail_deliveries_are_not_recorded() -> None:
    box = Box()
    trace = Trace(detail=False)
    transport = InMemoryTransport(box.server, box.clock, trace=trace)

    async def main() -> None:
        watch = transport.watch(ConfigMap)
        box.clock.call_later(0.1, box.server.create, config())
        await watch.next()

    box.clock.run(main())
    assert not trace.records


def test_no_latency_keeps_the_order_too() -> None:
    wire = Wire(call=0.0, watch=0.0)
    names: list[str] = []

    async def main() -> None:
        watch = wire.transport.watch(ConfigMap)
        await wire.clock.sleep(0)
        await asyncio.gather(*(wire.create(f"n{i}") for i in range(5)))
        while len(names) < 5:
            names.extend(e.object.metadata.name for e in await watch.next())
        assert wire.clock.time() == 0

    wire.clock.run(main())
    assert names == [f"n{i}" for i in range(5)]


def test_a_bug_of_the_server_is_not_swallowed() -> None:
    wire = Wire()
    wire.server.handle = lambda request: 1 // 0  # type: ignore[method-assign]

    async def main() -> None:
        await wire.create()

    with pytest.raises(ZeroDivisionError):
        wire.clock.run(main())
