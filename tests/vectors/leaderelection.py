"""Leader election against client-go's: three electors, one lease."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Any

from kcm_lite.api.coordination import Lease
from kcm_lite.api.errors import NotFound
from kcm_lite.api.request import Request
from kcm_lite.apiserver.server import APIServer
from kcm_lite.client.clientset import Client
from kcm_lite.client.leaderelection import (
    LeaderCallbacks,
    LeaderElectionConfig,
    LeaderElector,
    new_leader_elector,
    release,
    report_transition,
    try_acquire_or_renew,
)
from kcm_lite.client.resourcelock import LeaseLock
from kcm_lite.clock import VirtualClock
from tests.vectors import Adapter

NAME = ("default", "lease")


class Wire:
    """Takes no time; fails the next call of a verb on request."""

    def __init__(self, server: APIServer) -> None:
        self.server = server
        self.broken: list[str] = []

    async def call(self, request: Request) -> Any:
        if request.verb in self.broken:
            self.broken.remove(request.verb)
            raise ConnectionError("ordered")
        return self.server.handle(request)

    def watch(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


async def nothing() -> None:
    """Lead."""


def trace(given: dict[str, Any]) -> Any:
    """Run the operations; what the elector and the lease look like after each."""
    clock = VirtualClock()
    server, start = APIServer(clock), clock.now()
    wires = {name: Wire(server) for name in "abc"}
    told: dict[str, list[str]] = {name: [] for name in wires}

    def elector(name: str) -> LeaderElector:
        client = Client(wires[name], clock, qps=0)
        lock = LeaseLock(client, clock, *NAME, identity=name)
        callbacks = LeaderCallbacks(nothing, lambda: None, told[name].append)
        duration = given["lease_duration"]
        config = LeaderElectionConfig(lock, callbacks, duration, duration * 2 / 3, duration / 10)
        return new_leader_elector(config, clock)

    def seconds(time: datetime | None) -> float | None:
        return None if time is None else (time - start).total_seconds()

    electors = {name: elector(name) for name in wires}
    results = []
    for op in given["ops"]:
        result: dict[str, Any] = {}
        match op["op"]:
            case "sleep":
                clock.run_for(op["seconds"])
            case "fail":
                wires[op["who"]].broken.append(op["call"])
            case "delete_lease":
                with suppress(NotFound):
                    server.delete(Lease, *NAME)
            case verb:
                one = electors[op["who"]]
                act = try_acquire_or_renew if verb == "try" else release
                result["ok"] = clock.run(act(one))
                report_transition(one)
                clock.run_for(0)
                result["is_leader"] = one.is_leader
                result["observed_holder"] = one.observed_record.holder_identity
                result["new_leader_callbacks"] = list(told[op["who"]])
        try:
            spec = server.get(Lease, *NAME).spec
        except NotFound:
            result["lease"] = None
        else:
            result["lease"] = {
                "holder": spec.holder_identity,
                "duration": spec.lease_duration_seconds,
                "acquire_time": seconds(spec.acquire_time),
                "renew_time": seconds(spec.renew_time),
                "transitions": spec.lease_transitions,
            }
        results.append(result)
    return {"results": results}


ADAPTERS: dict[str, Adapter] = {"leader_election_trace": trace}
