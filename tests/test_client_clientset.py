from __future__ import annotations

from typing import Any

import pytest

from kcm_lite.api.apps import ReplicaSet
from kcm_lite.api.autoscaling import Scale, ScaleSpec
from kcm_lite.api.core import Event, Node, Pod
from kcm_lite.api.errors import Conflict, InternalError, NotFound, TooManyRequests
from kcm_lite.api.meta import DeleteOptions, ObjectMeta
from kcm_lite.api.request import Request
from kcm_lite.client.clientset import MAX_RETRIES, Client, get_scale, update_scale
from kcm_lite.client.metrics import ClientMetrics, Registry
from kcm_lite.clock import VirtualClock
from tests.client_fakes import FakeServer, pod


class Echo(FakeServer):
    """Answers every request with itself."""

    async def call(self, request: Request) -> Any:
        self.requests.append((self.clock.time(), request))
        return request


def send(call: Any) -> Request:
    """The request that ``call(client)`` makes."""
    clock = VirtualClock()
    echo = Echo(clock)
    clock.run(call(Client(echo, clock, agent="me")))
    (sent,) = [request for _, request in echo.requests]
    return sent


WEB = ReplicaSet(metadata=ObjectMeta(name="web", namespace="ns"))
NODE = Node(metadata=ObjectMeta(name="n1"))


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (
            lambda c: c.get(Pod, "ns", "a"),
            {"verb": "get", "type": Pod, "namespace": "ns", "name": "a"},
        ),
        (lambda c: c.list(Pod), {"verb": "list", "type": Pod}),
        (
            lambda c: c.list(Pod, "ns", label_selector="L", field_selector="F"),
            {
                "verb": "list",
                "type": Pod,
                "namespace": "ns",
                "label_selector": "L",
                "field_selector": "F",
            },
        ),
        (
            lambda c: c.create(WEB),
            {"verb": "create", "type": ReplicaSet, "namespace": "ns", "name": "web", "body": WEB},
        ),
        (lambda c: c.create(NODE), {"verb": "create", "type": Node, "name": "n1", "body": NODE}),
        (
            lambda c: c.update(WEB),
            {"verb": "update", "type": ReplicaSet, "namespace": "ns", "name": "web", "body": WEB},
        ),
        (
            lambda c: c.update_status(WEB),
            {
                "verb": "update",
                "type": ReplicaSet,
                "namespace": "ns",
                "name": "web",
                "body": WEB,
                "subresource": "status",
            },
        ),
        (
            lambda c: c.patch(Pod, "ns", "a", {"x": 1}),
            {
                "verb": "patch",
                "type": Pod,
                "namespace": "ns",
                "name": "a",
                "body": {"x": 1},
                "patch_type": "merge",
            },
        ),
        (
            lambda c: c.patch(
                Pod, "ns", "a", [{"op": "test"}], patch_type="json", subresource="status"
            ),
            {
                "verb": "patch",
                "type": Pod,
                "namespace": "ns",
                "name": "a",
                "body": [{"op": "test"}],
                "patch_type": "json",
                "subresource": "status",
            },
        ),
        (
            lambda c: c.delete(Pod, "ns", "a", DeleteOptions(grace_period_seconds=0)),
            {
                "verb": "delete",
                "type": Pod,
                "namespace": "ns",
                "name": "a",
                "options": DeleteOptions(grace_period_seconds=0),
            },
        ),
        (
            lambda c: get_scale(c, ReplicaSet, "ns", "web"),
            {
                "verb": "get",
                "type": ReplicaSet,
                "namespace": "ns",
                "name": "web",
                "subresource": "scale",
            },
        ),
    ],
)
def test_each_verb_makes_its_request(call: Any, wanted: dict[str, Any]) -> None:
    assert send(call) == Request(agent="me", **wanted)


def test_a_scale_goes_to_the_workload_it_came_from() -> None:
    scale = Scale(metadata=ObjectMeta(name="web", namespace="ns"), spec=ScaleSpec(replicas=3))
    sent = send(lambda c: update_scale(c, ReplicaSet, scale))
    assert (sent.verb, sent.type, sent.name, sent.subresource) == (
        "update",
        ReplicaSet,
        "web",
        "scale",
    )
    assert sent.body is scale


def test_a_watch_carries_name_version_and_selectors() -> None:
    seen: dict[str, Any] = {}

    class Spy(FakeServer):
        def watch(self, type: Any, **rest: Any) -> Any:
            seen.update(rest, type=type)
            return super().watch(type, **rest)

    clock = VirtualClock()
    client = Client(Spy(clock), clock, agent="me")
    client.watch(Pod, "ns", resource_version="0", label_selector="L")
    assert seen == {
        "type": Pod,
        "namespace": "ns",
        "resource_version": "0",
        "client": "me",
        "label_selector": "L",
    }


def test_answers_and_errors_come_through() -> None:
    clock = VirtualClock()
    client = Client(FakeServer(clock), clock)

    async def main() -> None:
        made = await client.create(pod("a"))
        assert made.metadata.resource_version == "1"
        assert (await client.list(Pod)).items == (made,)
        assert await client.get(Pod, "ns", "a") == made
        with pytest.raises(Conflict):
            await client.update(pod("a"))
        await client.delete(Pod, "ns", "a")
        with pytest.raises(NotFound):
            await client.get(Pod, "ns", "a")

    clock.run(main())


def times_of(client: Client, server: FakeServer, calls: int) -> list[float]:
    async def main() -> None:
        for i in range(calls):
            await client.create(pod(f"p{server.version}-{i}"))

    client.clock.run(main())  # type: ignore[attr-defined]
    return [round(t, 9) for t, _ in server.requests]


def test_thirty_at_once_then_twenty_a_second() -> None:
    clock = VirtualClock()
    server = FakeServer(clock)
    times = times_of(Client(server, clock), server, 34)
    assert times[:30] == [0.0] * 30
    assert times[30:] == [0.05, 0.1, 0.15, 0.2]


def test_every_call_of_a_client_takes_from_the_same_bucket() -> None:
    clock = VirtualClock()
    server = FakeServer(clock)
    client = Client(server, clock, qps=1, burst=3)
    server.put(pod("a"))

    async def main() -> None:
        made = await client.get(Pod, "ns", "a")
        await client.update_status(made)
        await client.create(Event(metadata=ObjectMeta(name="e", namespace="ns")))
        await client.list(Pod)
        await client.delete(Pod, "ns", "a")

    clock.run(main())
    assert [(t, r.verb) for t, r in server.requests] == [
        (0.0, "get"),
        (0.0, "update"),
        (0.0, "create"),
        (1.0, "list"),
        (2.0, "delete"),
    ]


def test_callers_that_wait_keep_their_order() -> None:
    clock = VirtualClock()
    server = FakeServer(clock)
    client = Client(server, clock, qps=10, burst=1)

    async def main() -> None:
        tasks = [clock.spawn(client.create(pod(f"p{i}")), name=f"t{i}") for i in range(4)]
        for task in tasks:
            await task

    clock.run(main())
    assert [(round(t, 9), r.name) for t, r in server.requests] == [
        (0.0, "p0"),
        (0.1, "p1"),
        (0.2, "p2"),
        (0.3, "p3"),
    ]


def test_watches_take_no_token() -> None:
    clock = VirtualClock()
    server = FakeServer(clock)
    client = Client(server, clock, qps=1, burst=1)
    for _ in range(5):
        client.watch(Pod, resource_version="0")
    assert times_of(client, server, 2) == [0.0, 1.0]


@pytest.mark.parametrize("qps", [0.0, -1.0])
def test_no_limit(qps: float) -> None:
    clock = VirtualClock()
    server = FakeServer(clock)
    assert times_of(Client(server, clock, qps=qps, burst=0), server, 100) == [0.0] * 100


def test_a_bucket_that_holds_nothing_is_refused() -> None:
    clock = VirtualClock()
    with pytest.raises(ValueError, match="burst must be at least 1, got 0"):
        Client(FakeServer(clock), clock, qps=20, burst=0)


def test_another_agent_has_another_bucket() -> None:
    clock = VirtualClock()
    server = FakeServer(clock)
    one = Client(server, clock, agent="one", qps=1, burst=2)
    two = one.with_agent("two")
    assert (two.agent, two.qps, two.burst, two.transport) == ("two", 1, 2, server)
    assert times_of(one, server, 3) == [0.0, 0.0, 1.0]
    assert times_of(two, server, 2)[3:] == [1.0, 1.0]
    assert [request.agent for _, request in server.requests] == ["one"] * 3 + ["two"] * 2


def test_requests_are_counted_with_their_codes() -> None:
    counted: list[tuple[str, int]] = []

    class Count(ClientMetrics):
        def request(self, verb: str, code: int) -> None:
            counted.append((verb, code))

    clock = VirtualClock()
    server = FakeServer(clock)
    client = Client(server, clock, metrics=Count(Registry())).with_agent("x")

    async def main() -> None:
        await client.create(pod("a"))
        await client.get(Pod, "ns", "a")
        with pytest.raises(NotFound):
            await client.get(Pod, "ns", "b")
        server.errors.append(ConnectionRefusedError("down"))
        with pytest.raises(ConnectionRefusedError):
            await client.get(Pod, "ns", "a")

    clock.run(main())
    assert counted == [("create", 201), ("get", 200), ("get", 404), ("get", 0)]


class Failing(Echo):
    """Fails so many times, then answers."""

    def __init__(self, clock: VirtualClock, error: Exception, times: int) -> None:
        super().__init__(clock)
        self.error, self.times = error, times

    async def call(self, request: Request) -> Any:
        await super().call(request)
        if len(self.requests) <= self.times:
            raise self.error
        return request


BUSY = TooManyRequests("busy", retry_after=3)
RESET = ConnectionResetError("reset")


@pytest.mark.parametrize(
    ("error", "verb", "times"),
    [
        (BUSY, "create", [0, 3, 6]),
        (InternalError("later", retry_after=2), "update", [0, 2, 4]),
        (RESET, "get", [0, 1, 2]),
        (RESET, "list", [0, 1, 2]),
    ],
)
def test_a_call_is_repeated_when_the_server_asks_for_it(
    error: Exception, verb: str, times: list[float]
) -> None:
    clock = VirtualClock()
    server = Failing(clock, error, 2)
    clock.run(Client(server, clock).call(verb, Pod))
    assert [t for t, _ in server.requests] == times


@pytest.mark.parametrize(
    ("error", "verb"),
    [
        (TooManyRequests("a budget forbids it"), "create"),
        (InternalError("no"), "get"),
        (Conflict("old", retry_after=1), "update"),
        (RESET, "create"),
        (ConnectionRefusedError("refused"), "get"),
        (TimeoutError(), "list"),
    ],
)
def test_other_errors_are_for_the_caller(error: Exception, verb: str) -> None:
    clock = VirtualClock()
    server = Failing(clock, error, 1)
    with pytest.raises(type(error)):
        clock.run(Client(server, clock).call(verb, Pod))
    assert len(server.requests) == 1


def test_the_client_gives_up_after_ten_repetitions() -> None:
    clock = VirtualClock()
    server = Failing(clock, BUSY, 1000)
    with pytest.raises(TooManyRequests):
        clock.run(Client(server, clock).call("get", Pod))
    assert len(server.requests) == MAX_RETRIES + 1 == 11
    assert clock.time() == 30


def test_a_repetition_takes_a_token() -> None:
    clock = VirtualClock()
    server = Failing(clock, TooManyRequests("busy", retry_after=1), 2)
    clock.run(Client(server, clock, qps=0.1, burst=1).call("get", Pod))
    assert [t for t, _ in server.requests] == [0, 10, 20]


def test_waits_retries_and_durations_are_observed() -> None:
    clock, registry = VirtualClock(), Registry()
    metrics = ClientMetrics(registry, "here")
    server = Failing(clock, BUSY, 1)
    client = Client(server, clock, qps=1, burst=1, metrics=metrics)
    clock.run(client.get(Pod, "ns", "a"))
    lines = registry.expose().splitlines()
    assert 'rest_client_request_retries_total{code="429",verb="GET",host="here"} 1' in lines
    assert 'rest_client_requests_total{code="429",method="GET",host="here"} 1' in lines
    assert 'rest_client_requests_total{code="200",method="GET",host="here"} 1' in lines
    ours = 'verb="GET",host="here"}'
    assert f"rest_client_request_duration_seconds_sum{{{ours} 3" in lines
    assert f"rest_client_request_duration_seconds_count{{{ours} 1" in lines
    assert f"rest_client_rate_limiter_duration_seconds_count{{{ours} 2" in lines
    assert f"rest_client_rate_limiter_duration_seconds_sum{{{ours} 0" in lines
    clock.run(client.get(Pod, "ns", "a"))  # the token came back during the pause, one is used up
    lines = registry.expose().splitlines()
    assert f"rest_client_rate_limiter_duration_seconds_sum{{{ours} 1" in lines
    assert f"rest_client_request_duration_seconds_sum{{{ours} 4" in lines
    unlimited = Client(server, clock, qps=0, metrics=metrics)
    clock.run(unlimited.get(Pod, "ns", "a"))
    lines = registry.expose().splitlines()
    assert f"rest_client_rate_limiter_duration_seconds_count{{{ours} 3" in lines
