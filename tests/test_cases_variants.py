"""The rules behind the cases, with other numbers: each expected value comes from a formula."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest

from kcm_lite.sim.scenario import Run
from kcm_lite.trace import ApiWrite, SyncEnd
from tests.sim_support import deployment, job, replica_set, run


def quota(pods: int) -> dict[str, Any]:
    spec = {"hard": {"pods": str(pods)}}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec}


def created(done: Run, agent: str, until: float = math.inf) -> list[ApiWrite]:
    """Return the attempts of a controller to create pods."""
    writes = done.cluster.trace.of(ApiWrite, resource="pods", verb="create", agent=agent)
    return [w for w in writes if w.t <= until]


# ---- RS-SLOWSTART-QUOTA


def first_try(wanted: int, room: int) -> int:
    """How many requests: batches of 1, 2, 4, ... up to the first with a refusal."""
    sent, batch = 0, 1
    while sent < wanted:
        sent += (batch := min(batch, wanted - sent))
        if sent > room:
            break
        batch *= 2
    return sent


@pytest.mark.parametrize(
    ("wanted", "room"),
    [
        (100, 0),
        (100, 1),
        (100, 2),
        (100, 3),
        (50, 7),
        (50, 8),
        (20, 15),
        (20, 16),
        (20, 20),
        (1, 0),
    ],
)
def test_the_first_try_of_a_refused_scale_up(wanted: int, room: int) -> None:
    done = run(objects=[quota(room), replica_set(wanted)], until=1)
    end = next(done.cluster.trace.of(SyncEnd, controller="replicaset-controller"))
    writes = created(done, "replicaset-controller", end.t)
    assert len(writes) == first_try(wanted, room)
    assert sum(w.code == 201 for w in writes) == min(room, wanted)


# ---- RS-MINREADY


@pytest.mark.parametrize("ready", [[10, 40], [5, 20, 50], [3, 3, 3], [30, 1, 12, 13]])
@pytest.mark.parametrize("wait", [7, 30, 60])
def test_pods_become_available_when_they_are_due(ready: list[int], wait: int) -> None:
    overrides = [
        {"match": {"index": i}, "readyAfter": seconds} for i, seconds in enumerate(ready, 1)
    ]
    done = run(
        objects=[replica_set(len(ready), minReadySeconds=wait)],
        kubelet={"startAfter": 0, "overrides": overrides},
        until=200,
    )
    due = sorted(seconds + wait for seconds in ready)
    found: list[float] = []
    for write in done.cluster.trace.of(ApiWrite, resource="replicasets"):
        count = write.new.status.available_replicas or 0 if write.new else 0  # type: ignore[attr-defined]
        found += [write.t] * (count - len(found))
    assert found == pytest.approx(due, abs=1)


# ---- RS-OVERCREATE


@pytest.mark.parametrize("wanted", [1, 3, 12])
@pytest.mark.parametrize(("look", "end"), [(290, 299), (301, 330), (325, 330)])
@pytest.mark.parametrize("release", ["1.35", "1.36"])
def test_a_silent_watch(wanted: int, look: int, end: int, release: str) -> None:
    patch = {"metadata": {"annotations": {"look": "again"}}}
    done = run(
        objects=[replica_set(wanted)],
        faults=[{"fault": "stallWatch", "resource": "pods", "until": end}],
        actions=[{"at": look, "do": "patch", "kind": "rs", "name": "web", "patch": patch}],
        release=release,
        until=400,
    )
    twice = look > 300 and release == "1.35"
    assert len(created(done, "replicaset-controller")) == wanted * (1 + twice)
    assert done.cluster.object("rs/web").status.ready_replicas == wanted


# ---- JOB-WAVES, JOB-IGNORE-BACKOFF


@pytest.mark.parametrize("parallelism", [1, 2, 3, 5])
@pytest.mark.parametrize("seconds", [5, 30])
def test_each_failed_pod_doubles_the_delay(parallelism: int, seconds: int) -> None:
    done = run(
        objects=[job(completions=20, parallelism=parallelism, backoffLimit=20)],
        kubelet={"startAfter": 0, "exit": {"after": seconds, "code": 1}},
        until=700,
    )
    starts = [w.t for w in created(done, "job-controller")]
    rounds = list(zip(*[iter(starts)] * parallelism, strict=False))
    assert len(rounds) >= 2 + (parallelism < 4)
    for number, (one, other) in enumerate(pairwise(rounds), 1):
        delay = min(10 * 2 ** (number * parallelism - 1), 600)
        assert other[-1] - other[0] < 1
        assert seconds + delay - 1 < other[0] - one[-1] < seconds + delay + 2


@pytest.mark.parametrize("evicted", [1, 2, 3])
def test_ignored_disruptions_lengthen_the_back_off(evicted: int) -> None:
    gone = {"type": "DisruptionTarget", "status": "True"}
    ill = {"after": 100, "code": 137, "podConditions": [gone]}
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    done = run(
        objects=[
            job(
                completions=3,
                parallelism=3,
                backoffLimit=0,
                podFailurePolicy={"rules": [rule]},
            )
        ],
        kubelet={
            "startAfter": 0,
            "exit": {"after": 1000, "code": 0},
            "overrides": [{"match": {"index": i}, "exit": ill} for i in range(1, evicted + 1)],
        },
        until=300,
    )
    again = [w.t for w in created(done, "job-controller")[3:]]
    assert again == pytest.approx([100 + 10 * 2 ** (evicted - 1)] * evicted, abs=2)
    assert not done.cluster.object("job/batch").status.failed


# ---- GC-PROPAGATION


@pytest.mark.parametrize("grace", [1, 30, 100])
@pytest.mark.parametrize("policy", ["Foreground", "Background", "Orphan"])
def test_when_the_owner_and_its_pods_are_gone(grace: int, policy: str) -> None:
    done = run(
        objects=[replica_set(2)],
        kubelet={"terminationGrace": grace},
        actions=[{"at": 50, "do": "delete", "kind": "rs", "name": "web", "propagation": policy}],
        until=50 + grace + 20,
    )

    def gone(resource: str) -> list[float]:
        writes = done.cluster.trace.of(ApiWrite, resource=resource)
        return [w.t for w in writes if w.new is None and w.old is not None and w.code < 300]

    owner = 50 + grace if policy == "Foreground" else 50
    assert gone("replicasets") == pytest.approx([owner], abs=2)
    assert gone("pods") == pytest.approx([] if policy == "Orphan" else [50 + grace] * 2, abs=2)


# ---- DEP-SURGE-TERMINATING


@pytest.mark.parametrize("replicas", [4, 10, 15, 20])
def test_a_rollout_of_pods_that_go_slowly_holds_both_generations(replicas: int) -> None:
    done = run(
        objects=[deployment(replicas)],
        kubelet={"startAfter": 0, "readyAfter": 10, "terminationGrace": 300},
        actions=[{"at": 100, "do": "setImage", "kind": "deploy", "name": "web", "image": "app:2"}],
        expect=[{"within": [100, 250], "pods": {}, "count": 2 * replicas}],
        until=250,
    )
    assert done.ok
