from __future__ import annotations

from typing import Any

import pytest

from kcm_lite.sim.check import BadInput
from kcm_lite.sim.expect import Outcome
from kcm_lite.sim.scenario import run_scenario
from tests.sim_support import replica_set, run, scenario

SET = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "xyz"}}


def outcome(entry: dict[str, Any], **more: Any) -> Outcome:
    """How one expectation of a set of 3, scaled to 5 at 10, comes out by 20."""
    scale = {"at": 10, "do": "scale", "kind": "rs", "name": "web", "replicas": 5}
    result = run(objects=[replica_set(3), SET], actions=[scale], expect=[entry], **more)
    assert result.ok == result.outcomes[0].ok
    return result.outcomes[0]


PATH = {"object": "ReplicaSet/web", "path": "status.readyReplicas"}
READY = {"pods": {"ready": True}}


@pytest.mark.parametrize(
    ("entry", "ok", "t", "found"),
    [
        # at: at a moment, by default at the end
        ({"at": 5, **PATH, "equals": 3}, True, 5, 3),
        ({"at": 5, **PATH, "equals": 5}, False, 5, 3),
        ({"at": 1, **PATH, "equals": 0}, True, 1, None),
        ({**PATH, "equals": 5}, True, 20, 5),
        # within: at some moment
        ({"within": 5, **READY, "count": 3}, True, 2.02, 3),
        ({"within": 1, **READY, "count": 3}, False, 1, 0),
        ({"within": [3, 9], **READY, "count": 5}, False, 9, 3),
        ({"within": [3, 15], **READY, "count": 5}, True, 12.02, 5),
        ({"within": [3, 9], **READY, "count": 3}, True, 3, 3),
        ({"within": "30s", **READY, "count": 5}, True, 12.02, 5),
        # always: at every moment
        ({"always": [3, 20], **READY, "atLeast": 3}, True, 20, 5),
        ({"always": [0, 9], **READY, "atLeast": 1}, False, 0, 0),
        ({"always": [3, 20], **READY, "atMost": 3}, False, 12.01, 4),
        ({"always": True, "pods": {"phase": "Failed"}, "count": 0}, True, 20, 0),
        ({"always": 9, **READY, "atMost": 3}, True, 9, 3),
    ],
)
def test_when(entry: dict[str, Any], ok: bool, t: float, found: Any) -> None:
    result = outcome(entry)
    assert (result.ok, result.found) == (ok, found)
    assert result.t == pytest.approx(t, abs=0.02)


@pytest.mark.parametrize(
    ("entry", "ok"),
    [
        ({"object": "cm/c", "path": "data.a", "equals": "xyz"}, True),
        ({"object": "cm/c", "path": "data.a", "notEquals": "xyz"}, False),
        ({"object": "cm/c", "path": "data.a", "contains": "y"}, True),
        ({"object": "cm/c", "path": "data.a", "matches": "^x.z$"}, True),
        ({"object": "cm/c", "path": "data.a", "matches": "^y"}, False),
        ({"object": "cm/c", "path": "data.b", "exists": False}, True),
        ({"object": "cm/c", "path": "data['a']", "exists": True}, True),
        ({"object": "cm/c", "exists": True}, True),
        ({"object": "cm/d", "exists": False}, True),
        ({"object": "cm/d", "path": "data.a", "equals": "xyz"}, False),
        ({"object": "ConfigMap/other/c", "exists": True}, False),
        ({"object": "rs/web", "path": "spec.replicas", "atLeast": 5, "atMost": 5}, True),
        ({"object": "rs/web", "path": "spec.template.metadata.labels", "contains": "app"}, True),
        (
            {
                "object": "rs/web",
                "path": "spec.template.spec.containers[0].image",
                "equals": "app:1",
            },
            True,
        ),
        (
            {
                "object": "rs/web",
                "path": "spec.template.spec.containers[name=c].image",
                "equals": "app:1",
            },
            True,
        ),
        (
            {"object": "rs/web", "path": "spec.template.spec.containers[7].image", "exists": False},
            True,
        ),
        (
            {
                "object": "no/node-1",
                "path": "status.conditions[type=Ready].status",
                "equals": "True",
            },
            True,
        ),
        ({"object": "rs/web", "verdict": "complete"}, True),
        ({"at": 1, "object": "rs/web", "verdict": "progressing"}, True),
        ({"at": 10, "object": "rs/web", "verdict": "complete"}, False),
        ({"pods": {"owner": "web", "phase": "Running", "ready": True}, "count": 5}, True),
        ({"pods": {"owner": "other"}, "count": 0}, True),
        ({"pods": {"labels": {"app": "web"}, "node": "node-1"}, "count": 2}, True),
        ({"pods": {"deleting": True}, "count": 0}, True),
        ({"event": {"reason": "SuccessfulCreate"}}, True),
        ({"event": {"reason": "SuccessfulCreate", "object": "rs/web"}, "count": 5}, True),
        ({"event": {"reason": "SuccessfulCreate", "object": "rs/other"}, "count": 0}, True),
        ({"event": {"type": "Warning"}, "count": 0}, True),
        ({"event": {"message": "Created pod: web-"}, "atLeast": 6}, False),
    ],
)
def test_what(entry: dict[str, Any], ok: bool) -> None:
    assert outcome(entry).ok is ok


def test_a_failing_set() -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q"},
        "spec": {"hard": {"pods": "2"}},
    }
    result = run(
        objects=[quota, replica_set(3)],
        expect=[
            {"object": "rs/web", "verdict": "failing"},
            {"event": {"reason": "FailedCreate", "type": "Warning"}, "atLeast": 9},
            {"pods": {"ready": True}, "count": 2},
        ],
    )
    assert [o.ok for o in result.outcomes] == [True, True, True]


def test_a_deleted_object_is_gone_for_expectations() -> None:
    delete = {"at": 5, "do": "delete", "kind": "cm", "name": "c"}
    result = run(
        objects=[SET],
        actions=[delete],
        expect=[
            {"at": 4.9, "object": "cm/c", "exists": True},
            {"object": "cm/c", "exists": False},
            {"always": True, "object": "cm/c", "exists": True},
        ],
    )
    assert [(o.ok, o.t) for o in result.outcomes] == [(True, 4.9), (True, 20), (False, 5)]


PODS = {"resource": "pods", "verb": "create", "agent": "replicaset-controller"}
SYNCS = {"controller": "replicaset-controller", "name": "web"}


@pytest.mark.parametrize(
    ("entry", "ok"),
    [
        ({"writes": PODS, "count": 5}, True),
        ({"at": 9, "writes": PODS, "count": 3}, True),
        ({"always": [1, 9], "writes": PODS, "count": 3}, True),
        ({"within": [10, 11], "writes": PODS, "count": 5}, True),
        ({"writes": {**PODS, "since": 10}, "count": 2}, True),
        ({"writes": {**PODS, "code": 201}, "count": 5}, True),
        ({"writes": {**PODS, "code": 403}, "count": 0}, True),
        ({"writes": {**PODS, "agent": "user"}, "count": 0}, True),
        ({"writes": {**PODS, "resource": "Pod"}, "count": 5}, True),
        ({"writes": {"resource": "pods", "verb": "create"}, "count": 5}, True),
        ({"writes": {"resource": "pods/binding", "agent": "scheduler"}, "count": 5}, True),
        ({"writes": {"resource": "pods/*", "verb": "create"}, "count": 10}, True),
        ({"writes": {"resource": "po", "verb": "delete"}, "count": 0}, True),
        ({"writes": {"name": "web", "agent": "user"}, "count": 2}, True),  # the scale is one
        ({"writes": {"resource": "events"}, "count": 5}, True),
        ({"at": 0.009, "writes": {"agent": "replicaset-controller"}, "count": 1}, True),
        ({"syncs": SYNCS, "atLeast": 4}, True),
        ({"syncs": {**SYNCS, "failed": True}, "count": 0}, True),
        ({"syncs": {**SYNCS, "failed": False}, "atLeast": 4}, True),
        ({"syncs": {**SYNCS, "since": 15}, "count": 0}, True),
        ({"syncs": {**SYNCS, "name": "eb"}, "count": 0}, True),
        ({"syncs": {"controller": "job-controller"}, "count": 0}, True),
    ],
)
def test_how_often(entry: dict[str, Any], ok: bool) -> None:
    found = outcome(entry)
    assert found.ok is ok, found


def test_refused_writes_and_failed_syncs_count() -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q"},
        "spec": {"hard": {"pods": "0"}},
    }
    raw: dict[str, Any] = {
        "objects": [quota, replica_set(3)],
        "until": 0.5,
        "expect": [
            {"writes": {**PODS, "code": 403}, "atLeast": 3},
            {"writes": {**PODS, "code": 201}, "count": 0},
            {"syncs": {**SYNCS, "failed": True}, "atLeast": 3},
        ],
    }
    assert [o.ok for o in run(**raw).outcomes] == [True] * 3
    sparse = run_scenario(scenario(**raw), detail=False)  # syncs are recorded when they count
    assert [o.found for o in sparse.outcomes] == [o.found for o in run(**raw).outcomes]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (3, "expect[0]: got 3, want a mapping"),
        ({}, "expect[0]: wants exactly one of object, pods, event, writes, syncs"),
        (
            {"pods": {}, "event": {}, "count": 1},
            "expect[0]: wants exactly one of object, pods, event",
        ),
        ({"pods": {}, "count": 1, "at": 1, "within": 2}, "expect[0]: wants only one of at, within"),
        ({"pods": {}}, "expect[0]: says nothing to compare with; one of count, equals"),
        ({"pods": {}, "count": -1}, "expect[0].count: got -1, want a whole number >= 0"),
        (
            {"pods": {"fase": "x"}, "count": 1},
            'expect[0].pods.fase: unknown key "fase" (did you mean',
        ),
        ({"pods": {"phase": "Runing"}, "count": 1}, '(did you mean "Running"?)'),
        ({"pods": {}, "count": 1, "within": [5]}, "expect[0].within: got [5], want [from, to]"),
        ({"pods": {}, "count": 1, "within": [5, 2]}, "want from <= to"),
        ({"pods": {}, "count": 1, "within": True}, "expect[0].within: got true, want seconds"),
        ({"pods": {}, "count": 1, "always": False}, "expect[0].always: got false, want seconds"),
        ({"pods": {}, "path": "x", "count": 1}, "expect[0].path: is only for object"),
        ({"object": "web", "exists": True}, 'expect[0].object: got "web", want Kind/name'),
        ({"object": "Depl/web", "exists": True}, 'expect[0].object: kind "Depl" is not simulated'),
        ({"object": "rs/web"}, "expect[0]: wants path, verdict or exists beside object"),
        ({"object": "rs/web", "path": "a..b", "equals": 1}, 'expect[0].path: got "a..b"'),
        ({"object": "rs/web", "path": "a", "count": 1}, "expect[0].count: is for what is counted"),
        ({"object": "rs/web", "path": "a", "matches": "("}, "expect[0].matches: is no regular"),
        (
            {"object": "rs/web", "path": "a", "atLeast": "x"},
            'expect[0].atLeast: got "x", want a num',
        ),
        (
            {"object": "rs/web", "verdict": "done"},
            'expect[0].verdict: got "done", want one of comp',
        ),
        (
            {"object": "rs/web", "verdict": "complete", "equals": 1},
            "equals: does not go with verdict",
        ),
        ({"writes": {}}, "expect[0]: says nothing to compare with; one of count, equals"),
        (
            {"writes": {"agent": "replicaset"}, "count": 0},
            '(did you mean "replicaset-controller"?)',
        ),
        ({"writes": {"verb": "get"}, "count": 0}, 'got "get", want one of create, update, patch'),
        ({"writes": {"resource": "pod s"}, "count": 0}, "expect[0].writes.resource: kind"),
        ({"writes": {"resource": 3}, "count": 0}, "expect[0].writes.resource: got 3, want a text"),
        ({"writes": {"code": 9}, "count": 0}, "expect[0].writes.code: got 9, want a whole"),
        ({"writes": {"since": -1}, "count": 0}, "expect[0].writes.since: got -1, want seconds"),
        ({"syncs": {}, "count": 0}, "expect[0].syncs.controller: is missing"),
        (
            {"syncs": {"controller": "garbage-collector-controller"}, "count": 0},
            "expect[0].syncs.controller: got",
        ),
        ({"syncs": {"controller": "job-controller"}, "path": "x"}, "path: is only for object"),
        ({"event": {"object": "x"}}, 'expect[0].event.object: got "x", want Kind/name'),
    ],
)
def test_a_wrong_expectation_is_told_before_the_run(entry: Any, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        scenario(expect=[entry])
    assert message in str(caught.value)


def test_expect_must_be_a_list() -> None:
    with pytest.raises(BadInput, match=r"expect: got \{\}, want a list|expect"):
        scenario(expect={"pods": {}})
