from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from itertools import pairwise
from typing import Any

import pytest

from kcm_lite.api.coordination import Lease
from kcm_lite.api.core import Event
from kcm_lite.api.request import Request
from kcm_lite.apiserver.server import APIServer
from kcm_lite.apiserver.transport import InMemoryTransport
from kcm_lite.client.clientset import Client
from kcm_lite.client.events import EventRecorder
from kcm_lite.client.leaderelection import (
    LeaderCallbacks,
    LeaderElectionConfig,
    LeaderElector,
    LeaderHealthzAdaptor,
    check_durations,
    new_identity,
    new_leader_elector,
    run,
    try_acquire_or_renew,
)
from kcm_lite.client.resourcelock import LeaseLock, timeout
from kcm_lite.clock import VirtualClock
from kcm_lite.trace import ApiWrite, Trace

NAME = ("default", "lock")


class Wire(InMemoryTransport):
    """Loses requests on their way, or refuses them, on request."""

    mode = ""
    asked: list[tuple[float, str]]

    async def call(self, request: Request) -> Any:
        if request.type is Lease:
            self.asked.append((self.clock.time(), request.verb))
        if self.mode == "lost":
            await asyncio.get_running_loop().create_future()
        if self.mode == "refused":
            raise ConnectionRefusedError("refused")
        return await super().call(request)


class Counts:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def leader_on(self, name: str) -> None:
        self.seen.append(f"on {name}")

    def leader_off(self, name: str) -> None:
        self.seen.append(f"off {name}")

    def slowpath_exercised(self, name: str) -> None:
        self.seen.append(f"slow {name}")


class Candidate:
    def __init__(self, rig: Rig, name: str, **config: Any) -> None:
        self.rig, self.name = rig, name
        self.wire = Wire(rig.server, rig.clock)
        self.wire.asked = []
        client = Client(self.wire, rig.clock, agent=name, qps=0)
        recorder = EventRecorder(client, rig.clock, name)
        lock = LeaseLock(client, rig.clock, *NAME, identity=name, recorder=recorder)
        self.log: list[tuple[float, str]] = []
        self.metrics = Counts()
        callbacks = LeaderCallbacks(self.lead, lambda: self.say("stopped"), self.hear)
        options = LeaderElectionConfig(lock, callbacks, name="lock", metrics=self.metrics, **config)
        self.elector: LeaderElector = new_leader_elector(options, rig.clock)
        self.task = rig.clock.create_task(run(self.elector), name=name)

    def say(self, text: str) -> None:
        self.log.append((self.rig.clock.time(), text))

    def hear(self, leader: str) -> None:
        self.say(f"leader {leader}")

    async def lead(self) -> None:
        self.say("started")
        try:
            await asyncio.Event().wait()
        finally:
            self.say("work cancelled")

    def said(self, text: str) -> list[float]:
        return [t for t, what in self.log if what == text]


class Rig:
    def __init__(self) -> None:
        self.clock, self.trace = VirtualClock(), Trace()
        self.server = APIServer(self.clock, trace=self.trace)

    def lease(self) -> Lease:
        return self.server.get(Lease, *NAME)

    def writes(self) -> list[ApiWrite]:
        return list(self.trace.of(ApiWrite, resource="leases"))


def test_the_first_one_leads_and_the_others_hear_of_it() -> None:
    rig = Rig()
    a, b = Candidate(rig, "a"), Candidate(rig, "b")
    rig.clock.run_for(60)
    assert a.said("started") == [0.02] and not b.said("started")
    assert a.said("leader a") == [0.02] and len(b.said("leader a")) == 1
    spec = rig.lease().spec
    assert (spec.holder_identity, spec.lease_duration_seconds) == ("a", 15)
    assert spec.lease_transitions == 0
    assert spec.acquire_time is not None and spec.renew_time is not None
    assert 56 < (spec.renew_time - spec.acquire_time).total_seconds() <= 60


def test_only_waiting_is_jittered() -> None:
    rig = Rig()
    a, b = Candidate(rig, "a"), Candidate(rig, "b")
    rig.clock.run_for(200)
    renewals = [t for t, verb in a.wire.asked if verb == "update"]
    pauses = {round(y - x, 6) for x, y in pairwise(renewals)}
    assert pauses == {2.01}  # a retry period and the time of the call
    polls = [t for t, verb in b.wire.asked if verb == "get"]
    waits = [y - x - 0.01 for x, y in pairwise(polls[1:])]
    assert all(2 <= wait <= 4.4 for wait in waits)
    assert min(waits) < 2.3 and max(waits) > 4.1


def test_a_renewal_is_one_call_as_long_as_nobody_else_writes() -> None:
    rig = Rig()
    a = Candidate(rig, "a")
    rig.clock.run_for(10)
    assert {verb for t, verb in a.wire.asked if t > 0.1} == {"update"}
    lease = rig.lease()
    rig.server.patch(Lease, *NAME, {"metadata": {"labels": {"x": "y"}}})
    rig.clock.run_for(4)
    assert [verb for t, verb in a.wire.asked if t > 10][:3] == ["update", "get", "update"]
    assert rig.lease().metadata.labels == {"x": "y"}
    assert rig.lease().spec.acquire_time == lease.spec.acquire_time
    assert a.metrics.seen == ["off lock", "on lock", "slow lock"]


@pytest.mark.parametrize("mode", ["lost", "refused"])
def test_a_leader_that_cannot_renew_stops_after_the_renew_deadline(mode: str) -> None:
    rig = Rig()
    a = Candidate(rig, "a")
    rig.clock.run_for(100)
    last = [t for t, _ in a.wire.asked][-1] + 0.01
    a.wire.mode = mode
    rig.clock.run_for(60)
    assert a.said("stopped") == [pytest.approx(last + 2 + 10)]
    assert a.said("work cancelled") == a.said("stopped")
    assert a.task.done() and a.task.exception() is None
    tries = [t for t, _ in a.wire.asked if t > last]
    assert len(tries) == (2 if mode == "lost" else 10)  # each with its own timeout of 5 s
    assert a.metrics.seen[-1] == "off lock"


def test_a_leader_whose_network_comes_back_in_time_goes_on() -> None:
    rig = Rig()
    a = Candidate(rig, "a")
    rig.clock.run_for(100)
    a.wire.mode = "refused"
    rig.clock.run_for(8)
    a.wire.mode = ""
    rig.clock.run_for(60)
    assert not a.said("stopped") and a.elector.is_leader
    assert rig.lease().spec.lease_transitions == 0


def test_release_lets_the_next_one_in_at_its_next_attempt() -> None:
    rig = Rig()
    a, b = Candidate(rig, "a", release_on_cancel=True), Candidate(rig, "b")
    rig.clock.run_for(30)
    a.task.cancel()
    rig.clock.run_for(0.1)
    spec = rig.lease().spec
    assert (spec.holder_identity, spec.lease_duration_seconds) == ("", 1)
    assert a.said("work cancelled") == [30.0]
    assert a.said("stopped") == [pytest.approx(30.02)]
    assert not a.elector.is_leader
    rig.clock.run_for(4.4)
    assert len(b.said("started")) == 1
    assert rig.lease().spec.lease_transitions == 1


def test_without_release_the_lease_runs_out() -> None:
    rig = Rig()
    a, b = Candidate(rig, "a"), Candidate(rig, "b")
    rig.clock.run_for(30)
    a.task.cancel()
    rig.clock.run_for(10)
    assert a.said("stopped") == [30.0] and not b.said("started")
    assert rig.lease().spec.holder_identity == "a"
    rig.clock.run_for(15)
    assert len(b.said("started")) == 1


def test_work_ends_before_the_lease_is_given_back() -> None:
    rig = Rig()
    order: list[str] = []

    class Slow(Candidate):
        async def lead(self) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await rig.clock.sleep(3)
                order.append(f"work ended, held by {rig.lease().spec.holder_identity}")

    a = Slow(rig, "a", release_on_cancel=True)
    rig.clock.run_for(30)
    a.task.cancel()
    rig.clock.run_for(5)
    assert order == ["work ended, held by a"]
    assert rig.lease().spec.holder_identity == ""


def test_who_never_led_is_told_that_it_stopped() -> None:
    rig = Rig()
    Candidate(rig, "a")
    b = Candidate(rig, "b")
    rig.clock.run_for(5)
    b.task.cancel()
    rig.clock.run_for(1)
    assert b.said("stopped") == [5.0] and not b.said("started")


def test_a_deleted_lease_is_made_again() -> None:
    rig = Rig()
    a = Candidate(rig, "a")
    rig.clock.run_for(30)
    rig.server.delete(Lease, *NAME)
    rig.clock.run_for(4)
    assert rig.lease().spec.holder_identity == "a" and not a.said("stopped")


def test_a_lease_of_somebody_dead_is_taken_after_its_own_duration() -> None:
    rig = Rig()
    dead = Candidate(rig, "dead", lease_duration=40.0)
    rig.clock.run_for(10)
    dead.task.cancel()
    b = Candidate(rig, "b")
    rig.clock.run_for(120)
    (start,) = b.said("started")
    assert 50 < start < 50 + 4.5


def test_events_tell_who_leads() -> None:
    rig = Rig()
    a = Candidate(rig, "a")
    rig.clock.run_for(5)
    a.task.cancel()
    rig.clock.run_for(5)
    told = [(e.type, e.reason, e.message) for e in rig.server.list(Event, "default").items]
    assert sorted(told) == [
        ("Normal", "LeaderElection", "a became leader"),
        ("Normal", "LeaderElection", "a stopped leading"),
    ]


@pytest.mark.parametrize(
    ("durations", "message"),
    [
        ((10, 10, 2), "leaseDuration must be greater than renewDeadline"),
        ((15, 2.4, 2), "renewDeadline must be greater than retryPeriod*JitterFactor"),
        ((15, 10, 0), "retryPeriod must be greater than zero"),
        ((15, 0, -1), "renewDeadline must be greater than zero"),
        ((-1, -2, -3), "leaseDuration must be greater than zero"),
    ],
)
def test_durations_that_do_not_fit(durations: tuple[float, float, float], message: str) -> None:
    with pytest.raises(ValueError) as error:
        check_durations(*durations)
    assert str(error.value) == message


def test_the_smallest_durations_that_fit() -> None:
    check_durations(2.400000002, 2.400000001, 2)


def test_an_empty_identity_is_refused() -> None:
    rig = Rig()
    with pytest.raises(ValueError, match="Lock identity is empty"):
        Candidate(rig, "")


def test_health_fails_for_a_leader_that_neither_renews_nor_stops() -> None:
    rig = Rig()
    client = Client(InMemoryTransport(rig.server, rig.clock), rig.clock, qps=0)

    async def lead() -> None:
        """Lead."""

    def elector(name: str) -> LeaderElector:
        lock = LeaseLock(client, rig.clock, *NAME, identity=name)
        callbacks = LeaderCallbacks(lead, lambda: None)
        return new_leader_elector(LeaderElectionConfig(lock, callbacks, name="lock"), rig.clock)

    health, standby = LeaderHealthzAdaptor(), LeaderHealthzAdaptor()
    health.check()  # there is no elector yet
    stuck, waiting = elector("a"), elector("b")
    health.electors.append(stuck)
    standby.electors.append(waiting)
    assert rig.clock.run(try_acquire_or_renew(stuck))
    assert not rig.clock.run(try_acquire_or_renew(waiting))
    rig.clock.run_until(stuck.observed_time + 35)
    health.check()
    rig.clock.run_for(0.001)
    with pytest.raises(RuntimeError, match=r"^failed election to renew leadership on lease lock$"):
        health.check()
    standby.check()
    assert health.name == "leaderElection"


def test_identities_differ_and_repeat_with_the_seed() -> None:
    rng = random.Random(1)
    first, second = new_identity("host", rng), new_identity("host", rng)
    assert first != second and first.startswith("host_") and len(first) == 41
    assert new_identity("host", random.Random(1)) == first


def test_a_timeout_leaves_no_alarm_behind() -> None:
    clock = VirtualClock()

    async def work() -> str:
        async with timeout(clock, 5):
            await clock.sleep(1)
        await clock.sleep(10)
        return "done"

    async def late() -> None:
        async with timeout(clock, 5):
            await clock.sleep(6)

    assert clock.run(work()) == "done"
    with pytest.raises(TimeoutError):
        clock.run(late())
    assert clock.time() == 16


def test_a_bug_in_the_work_is_not_hidden() -> None:
    class Broken(Candidate):
        def lead(self) -> Coroutine[Any, Any, None]:
            async def fail() -> None:
                raise ZeroDivisionError

            return fail()

    rig = Rig()
    Broken(rig, "a")
    with pytest.raises(ZeroDivisionError):
        rig.clock.run_for(1)
