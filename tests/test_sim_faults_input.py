"""What cannot be said of a fault is refused, with its place, its value and what is allowed."""

from __future__ import annotations

from typing import Any

import pytest

from kcm_lite.sim.chance import Exponential, LogNormal, Range, Times
from kcm_lite.sim.check import BadInput
from kcm_lite.sim.cluster import Cluster
from kcm_lite.sim.faults import (
    KINDS,
    CallError,
    CrashManager,
    Latency,
    StallWatch,
    read_fault,
)
from tests.sim_support import scenario

MINIMAL: dict[str, dict[str, Any]] = {
    "callError": {"error": "conflict"},
    "latency": {"call": 1},
    "watchLag": {"seconds": 1},
    "stallWatch": {"for": 1},
    "staleCache": {"until": 1},
    "nodeDeath": {"node": 1},
    "clockSkew": {"ahead": -5},
    "podChaos": {"every": 1},
}


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_can_be_written_and_none_does_without_what_it_needs(name: str) -> None:
    said = {"fault": name, **MINIMAL.get(name, {})}
    assert type(read_fault(said)) is KINDS[name]
    for key in MINIMAL.get(name, {}):
        with pytest.raises(BadInput, match="is missing"):
            read_fault({k: v for k, v in said.items() if k != key})


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ({"fault": "stalWatch"}, 'fault.fault: got "stalWatch", want one of callError, .*did you'),
        ({}, "fault.fault: got null, want one of"),
        ({"fault": ["x"]}, r'fault.fault: got \["x"\]'),
        ({"fault": "crashManager", "restart_after": 1}, 'unknown key "restart_after" .*restartAft'),
        ({"fault": "crashManager", "for": 1}, 'fault.for: unknown key "for"'),
        ({"fault": "crashManager", "at": -1}, "fault.at: got -1"),
        ({"fault": "crashManager", "at": 1, "afterWrite": 1}, "fault.afterWrite: does not go with"),
        (
            {"fault": "crashManager", "afterWrite": 0},
            "fault.afterWrite: got 0, want a whole number",
        ),
        ({"fault": "crashManager", "afterWrite": 1.5}, "fault.afterWrite: got 1.5"),
        ({"fault": "crashManager", "restartAfter": "soon"}, 'fault.restartAfter: got "soon"'),
        ({"fault": "stallWatch"}, "fault.for: is missing: it must end"),
        ({"fault": "stallWatch", "for": 1, "until": 2}, "fault.for: does not go with until"),
        (
            {"fault": "stallWatch", "at": 5, "until": 2},
            r"fault.until: got 2, want at \(5\) or later",
        ),
        (
            {"fault": "stallWatch", "for": 1, "resource": "pots"},
            'fault.resource: kind "pots" is not',
        ),
        ({"fault": "stallWatch", "for": 1, "resource": 7}, "fault.resource: got 7, want a text"),
        (
            {"fault": "callError", "error": "conflct"},
            'error: got "conflct".*did you mean "conflict"',
        ),
        (
            {"fault": "callError", "error": "timeout", "verb": "post"},
            'fault.verb: got "post", want',
        ),
        ({"fault": "callError", "error": "timeout", "rate": 2}, "fault.rate: got 2, want a share"),
        ({"fault": "callError", "error": "timeout", "times": 0}, "fault.times: got 0"),
        ({"fault": "callError", "error": "throttled", "retryAfter": 0}, "fault.retryAfter: got 0"),
        ({"fault": "latency", "watch": 1, "verb": "get"}, "fault.verb: is of calls, and call is"),
        ({"fault": "latency", "call": [2, 1]}, r"fault.call: got \[2, 1\], want the smaller one"),
        ({"fault": "latency", "call": [1, "x"]}, r'fault.call\[1\]: got "x"'),
        ({"fault": "latency", "call": {"median": 1}}, "fault.call.p99: is missing"),
        ({"fault": "latency", "call": {"median": 2, "p99": 1}}, "0 < median <= p99"),
        ({"fault": "latency", "call": {"meen": 1}}, 'unknown key "meen"'),
        ({"fault": "latency", "call": "fast"}, 'fault.call: got "fast", want'),
        ({"fault": "nodeDeath", "node": "node-1"}, 'fault.node: got "node-1", want a whole number'),
        (
            {"fault": "nodeDeath", "node": 1, "evictedAfter": 10},
            r"fault.evictedAfter: got 10, want detectedAfter \(50\) or more",
        ),
        ({"fault": "clockSkew", "ahead": "1h"}, 'fault.ahead: got "1h", want a number of seconds'),
        (
            {"fault": "podChaos", "every": 1, "effect": "kill"},
            'fault.effect: got "kill", want one of',
        ),
        ({"fault": "podChaos", "every": 1, "selector": {"a": 1}}, "fault.selector"),
        ({"fault": "dropWatch", "expired": "yes"}, 'fault.expired: got "yes", want true or false'),
    ],
)
def test_nonsense_is_named(raw: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        read_fault(raw)


def test_a_scenario_names_every_problem_of_its_faults_and_of_actions_that_are_faults() -> None:
    with pytest.raises(BadInput) as caught:
        scenario(
            faults=[{"fault": "crashManger"}, {"fault": "stallWatch"}, 7],
            actions=[
                {"at": 1, "do": "crashManager", "afterWrite": 3},
                {"do": "dropWatch"},
                {"at": 1, "do": "stallWatch", "fault": "x"},
                {"at": 1, "do": "crashManger"},
            ],
        )
    text = str(caught.value)
    for words in (
        'faults[0].fault: got "crashManger"',
        "faults[1].for: is missing",
        "faults[2]: got 7, want a mapping",
        'actions[0].afterWrite: unknown key "afterWrite"',
        "actions[1].at: is missing",
        'actions[2].fault: unknown key "fault"',
        'actions[3].do: got "crashManger"',
        'did you mean "crashManager"?',
    ):
        assert words in text, words


def test_values_mean_what_they_say() -> None:
    cases: list[tuple[Any, Times]] = [
        (2, 2.0),
        ("5s..20s", Range(5, 20)),
        ([0.1, 0.2], Range(0.1, 0.2)),
        ({"mean": 2}, Exponential(2)),
        ({"median": 0.05, "p99": 2}, LogNormal(0.05, 2)),
    ]
    fault = read_fault({"fault": "callError", "error": "internal", "rate": "25%", "resource": "rs"})
    assert isinstance(fault, CallError)
    assert (fault.rate, fault.resource) == (0.25, "replicasets")
    for said, meant in cases:
        latency = read_fault({"fault": "latency", "call": said})
        assert isinstance(latency, Latency)
        assert latency.call == meant
        assert Latency(call=meant).call == meant
    stall = read_fault({"fault": "stallWatch", "at": "1m", "for": "90s"})
    assert isinstance(stall, StallWatch)
    assert (stall.at, stall.end(70.0)) == (60, 160)
    assert CrashManager(restart_after=None).restart_after is None


def test_python_gets_the_same_answers() -> None:
    with pytest.raises(BadInput, match="afterWrite: got 0"):
        CrashManager(after_write=0)
    with pytest.raises(TypeError):
        CallError()


def test_what_would_be_over_already_cannot_be_injected() -> None:
    cluster = Cluster(controllers=())
    cluster.run_for(10)
    with pytest.raises(BadInput, match="until: got 5, and it is t=10 already"):
        cluster.inject(StallWatch(until=5))
