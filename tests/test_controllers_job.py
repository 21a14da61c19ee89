"""The Job controller and the TTL controller: whole runs, faults, crashes, both releases."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcm_lite.api.batch import TRACKING_FINALIZER, Job, is_job_finished
from kcm_lite.api.core import Event, Pod
from kcm_lite.api.errors import Invalid, NotFound, ServerTimeout
from kcm_lite.api.meta import DeleteOptions, replace
from kcm_lite.api.request import Request
from kcm_lite.apiserver.store import commit
from kcm_lite.apiserver.transport import InMemoryTransport
from kcm_lite.client.clientset import Client
from kcm_lite.client.informer import SharedInformerFactory
from kcm_lite.controllers import job as controller
from kcm_lite.controllers.context import RELEASE_1_22, TODAY, Gates
from kcm_lite.controllers.job_types import JobController
from kcm_lite.manager.featuregates import FeatureGates
from kcm_lite.manager.start import gates_for
from kcm_lite.sim.cluster import Cluster
from kcm_lite.trace import ApiWrite, Decision
from tests.sim_support import job as manifest

FOREGROUND = DeleteOptions(propagation_policy="Foreground")


def cluster(
    *, exit_code: int = 0, after: float = 3, gates: Gates = TODAY, **profile: Any
) -> Cluster:
    profile = {"exit": {"after": after, "code": exit_code}, **profile}
    return Cluster(profile=profile, gates=gates, qps=0)


def status(c: Cluster, name: str = "batch") -> Any:
    return c.object(f"job/{name}").status


def held(c: Cluster, name: str = "batch") -> dict[str, str]:
    """The conditions that are True, with their reasons."""
    return {x.type: x.reason for x in status(c, name).conditions if x.status == "True"}


def events(c: Cluster) -> list[str]:
    """Reasons of the Job's own events, in order."""
    found = [e for e in c.server.list(Event, "default").items if isinstance(e, Event)]
    return [e.reason for e in found if e.involved_object.kind == "Job"]


def pods(c: Cluster) -> list[Pod]:
    return [*c.server.list(Pod, "default").items]


# ---- the plain life of a Job


def test_the_worked_example_ends_and_is_gone_a_minute_later() -> None:
    c = cluster()
    c.apply(manifest(completions=10, parallelism=2, backoffLimit=6, ttlSecondsAfterFinished=60))
    c.run_for(30)
    assert (status(c).succeeded, status(c).failed, status(c).active) == (10, 0, 0)
    assert held(c) == {"SuccessCriteriaMet": "CompletionsReached", "Complete": "CompletionsReached"}
    assert events(c).count("SuccessfulCreate") + events(c).count("Completed") == len(events(c))
    finished = status(c).completion_time
    c.run_for(60)
    with pytest.raises(NotFound):
        status(c)
    assert not pods(c)
    gone = next(w for w in c.trace.of(ApiWrite, resource="jobs") if w.verb == "delete")
    assert gone.agent == "ttl-after-finished-controller"
    assert 59 <= gone.t - (finished - c.clock.now()).total_seconds() - c.now <= 61


def test_nothing_to_do_is_done_at_once() -> None:
    c = cluster()
    c.apply(manifest(completions=0))
    c.run_for(2)
    assert "Complete" in held(c) and not pods(c)


def test_without_completions_one_success_ends_the_work() -> None:
    c = cluster(overrides=[{"match": {"index": [2, 3]}, "exit": {"after": 9, "code": 0}}])
    c.apply(manifest(parallelism=3))
    c.run_for(8)
    assert (status(c).succeeded, status(c).active) == (1, 2)  # nobody takes the first one's place
    c.run_for(10)
    assert status(c).succeeded == 3 and "Complete" in held(c)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"backoffLimit": 0}, "BackoffLimitExceeded"),
        ({"backoffLimit": 0, "activeDeadlineSeconds": 5}, "BackoffLimitExceeded"),
        ({"activeDeadlineSeconds": 2}, "DeadlineExceeded"),
    ],
)
def test_what_ends_a_job_first_is_its_reason(spec: dict[str, Any], reason: str) -> None:
    c = cluster(exit_code=1, readyAfter=0)
    c.apply(manifest(**spec))
    c.run_for(12)
    assert held(c) == {"FailureTarget": reason, "Failed": reason}
    assert status(c).failed == 1 and status(c).active == 0
    assert status(c).completion_time is None
    assert events(c)[-1] == reason


def test_a_deadline_that_is_moved_into_the_past_ends_the_job_at_once() -> None:
    c = cluster(after=1000)
    c.apply(manifest(activeDeadlineSeconds=500))
    c.run_for(20)
    c.patch("job/batch", {"spec": {"activeDeadlineSeconds": 5}})
    c.run_for(2.5)
    assert held(c)["Failed"] == "DeadlineExceeded"


def test_pods_that_are_not_wanted_any_more_do_not_count_as_failed() -> None:
    c = cluster(after=50)
    c.apply(manifest(completions=6, parallelism=4))
    c.run_for(10)
    c.patch("job/batch", {"spec": {"parallelism": 1}})
    c.run_for(5)
    assert (status(c).active, status(c).failed) == (1, 0)
    c.patch("job/batch", {"spec": {"suspend": True}})
    c.run_for(5)
    assert (status(c).active, status(c).failed, status(c).start_time) == (0, 0, None)
    assert held(c) == {"Suspended": "JobSuspended"} and not pods(c)
    c.patch("job/batch", {"spec": {"suspend": False}})
    c.run_for(2)
    assert status(c).active == 1 and status(c).start_time is not None
    assert {"Suspended", "Resumed"} <= set(events(c))


def test_a_job_of_somebody_elses_is_left_alone() -> None:
    c = cluster()
    c.apply(manifest(managedBy="example.com/other"))
    c.run_for(10)
    assert not pods(c) and status(c).start_time is None


def test_a_deleted_job_frees_its_pods() -> None:
    c = cluster(after=100)
    c.apply(manifest(completions=3, parallelism=3))
    c.run_for(5)
    c.server.delete(Job, "default", "batch", FOREGROUND)
    c.run_for(10)
    assert not pods(c)
    with pytest.raises(NotFound):
        status(c)


def test_orphans_of_a_deleted_job_lose_the_finalizer_and_stay() -> None:
    c = cluster(after=100)
    c.apply(manifest(completions=2, parallelism=2))
    c.run_for(5)
    c.server.delete(Job, "default", "batch")  # by default a Job's pods are orphaned
    c.run_for(10)
    assert len(pods(c)) == 2
    assert not any(TRACKING_FINALIZER in p.metadata.finalizers for p in pods(c))


def test_an_indexed_pod_knows_its_index_in_four_ways() -> None:
    c = cluster()
    c.apply(manifest(completions=2, parallelism=2, completionMode="Indexed"))
    c.run_for(1)
    index = "batch.kubernetes.io/job-completion-index"
    second = next(p for p in pods(c) if p.metadata.labels[index] == "1")
    assert second.metadata.annotations[index] == "1"
    assert second.spec.hostname == "batch-1"
    assert second.metadata.name.startswith("batch-1-")
    env = second.spec.containers[0].extra["env"][0]
    assert env["name"] == "JOB_COMPLETION_INDEX"
    assert env["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.labels['{index}']"


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        ({"completions": 4}, "spec.completions"),
        ({"completionMode": "Indexed"}, "spec.completionMode"),
        ({"backoffLimitPerIndex": 1}, "spec.backoffLimitPerIndex"),
        ({"template": {"spec": {"restartPolicy": "OnFailure"}}}, "spec.template"),
    ],
)
def test_what_a_job_is_cannot_be_changed(patch: dict[str, Any], field: str) -> None:
    c = cluster()
    c.apply(manifest(completions=2))
    with pytest.raises(Invalid) as caught:
        c.patch("job/batch", {"spec": patch})
    assert field in {cause.field for cause in caught.value.causes}


def test_the_wait_is_explained() -> None:
    c = cluster(exit_code=1)
    c.apply(manifest())
    c.run_for(10)
    waits = list(c.trace.of(Decision, what="back-off"))
    assert "1 failures in a row" in waits[0].reason
    assert "back-off" in str(c.explain("job/batch"))


# ---- ready and active, as upstream has it


def test_a_running_back_off_reports_no_active_pod_and_is_refused() -> None:
    """Upstream's counting: see the deviations that are none, in the chapter."""
    c = cluster(after=60, overrides=[{"match": {"index": 1}, "exit": {"after": 5, "code": 1}}])
    c.apply(manifest(completions=4, parallelism=2))
    c.run_for(10)
    refused = [w for w in c.trace.of(ApiWrite, resource="jobs") if w.code == 422]
    assert refused and "cannot set more ready pods than active" in refused[0].message


# ---- the release of 2021


def created(c: Cluster) -> list[ApiWrite]:
    """The creations of pods."""
    writes = c.trace.of(ApiWrite, resource="pods")
    return [w for w in writes if (w.verb, w.subresource) == ("create", "") and w.code < 300]


def starts(c: Cluster) -> list[int]:
    """Seconds at which pods were created, cut to whole ones."""
    return [int(w.t) for w in created(c)]


def test_the_same_failing_job_on_both_releases() -> None:
    found = {}
    for name, gates in (("1.22", RELEASE_1_22), ("today", TODAY)):
        c = cluster(exit_code=1, after=2, gates=gates)
        c.apply(manifest(backoffLimit=3))
        c.run_for(200)
        assert held(c)["Failed"] == "BackoffLimitExceeded" and status(c).failed == 4
        found[name] = starts(c)
    assert found["today"] == [0, 12, 35, 78]  # 10, 20, 40 s after the failure
    assert found["1.22"] == [0, 3, 13, 33]  # at once, then 10 and 20 s after the retry


def test_in_1_22_a_pod_that_is_deleted_too_early_never_counts() -> None:
    counts = {}
    for name, gates in (("1.22", RELEASE_1_22), ("today", TODAY)):
        c = cluster(gates=gates)
        c.apply(manifest(completions=4, parallelism=1))
        for _ in range(60):
            c.run_for(0.5)
            for p in pods(c):
                if p.status.phase == "Succeeded" and p.metadata.deletion_timestamp is None:
                    c.server.delete(Pod, "default", p.metadata.name)
        counts[name] = status(c).succeeded, len(starts(c))
    assert counts["today"] == (4, 4)
    assert counts["1.22"][0] <= 1 and counts["1.22"][1] > 4


def test_1_22_keeps_the_start_time_of_a_suspended_job() -> None:
    c = cluster(after=100, gates=RELEASE_1_22)
    c.apply(manifest(completions=1))
    c.run_for(5)
    c.patch("job/batch", {"spec": {"suspend": True}})
    c.run_for(5)
    assert status(c).start_time is not None and status(c).active == 0


def test_1_22_completes_indexed_jobs() -> None:
    c = cluster(gates=RELEASE_1_22)
    c.apply(manifest(completions=3, parallelism=2, completionMode="Indexed"))
    c.run_for(30)
    assert status(c).completed_indexes == "0-2" and "Complete" in held(c)
    assert not any(p.metadata.finalizers for p in pods(c))


def test_before_1_22_indexed_jobs_are_left_alone() -> None:
    assert gates_for(FeatureGates.for_release("1.22")).job.indexed_job
    old = gates_for(FeatureGates.for_release("1.21"))
    c = cluster(gates=old)
    c.apply(manifest(completions=3, parallelism=2, completionMode="Indexed"))
    c.run_for(30)
    assert events(c) == ["IndexedJobDisabled"] and not pods(c)
    c = cluster(gates=old)
    c.apply(manifest(completions=3, parallelism=2))
    c.run_for(30)
    assert "Complete" in held(c)


@pytest.mark.parametrize("gates", [RELEASE_1_22, TODAY])
def test_a_job_of_a_mode_that_a_newer_server_knows_is_left_alone(gates: Gates) -> None:
    c = cluster(gates=gates)
    c.apply(manifest(completions=3, suspend=True))
    c.run_for(1)
    stored = c.object("job/batch")
    spec = replace(stored.spec, completion_mode="Scattered", suspend=False)
    store = c.server.registry.store
    commit(store, store.tables[Job], "default/batch", stored, replace(stored, spec=spec))
    c.run_for(30)
    assert events(c)[-1] == "UnknownCompletionMode" and not pods(c)


# ---- faults and crashes


class BadWire:
    """A way to the server that loses requests, or answers, and can be cut for good."""

    def __init__(self, inner: InMemoryTransport, chance: random.Random) -> None:
        self.inner, self.chance, self.trouble, self.cut = inner, chance, 0.0, False

    async def call(self, request: Request) -> Any:
        if self.cut or self.chance.random() < self.trouble:
            raise ServerTimeout("the request was lost")
        answer = await self.inner.call(request)
        lossy = request.verb != "create" and self.chance.random() < self.trouble
        if self.cut or lossy:
            raise ServerTimeout("the answer was lost")
        return answer

    def watch(self, type: Any, **more: Any) -> Any:
        return self.inner.watch(type, **more)


@dataclass
class Plant:
    """A cluster whose Job controller can crash and come back, with an empty memory."""

    c: Cluster
    chance: random.Random
    wire: BadWire | None = None
    running: JobController | None = None
    informers: SharedInformerFactory | None = None
    most: int = 0
    outcomes: dict[str, str] = field(default_factory=dict)

    def start(self) -> None:
        c = self.c
        self.wire = BadWire(c.transport, self.chance)
        client = Client(self.wire, c.clock, agent="job-controller", qps=0)
        self.informers = SharedInformerFactory(client, c.clock, trace=None)
        self.running = controller.new_job_controller(client, self.informers, c.clock)
        self.informers.start()
        c.clock.spawn(controller.run(self.running), name="job-controller")

    def crash(self) -> None:
        assert self.wire and self.running and self.informers
        self.wire.cut = True
        self.running.queue.shut_down()
        self.running.orphan_queue.shut_down()
        self.informers.stop()
        self.start()

    def pass_time(self, seconds: float) -> None:
        end = self.c.now + seconds
        while self.c.now < end - 1e-9:
            self.c.run_for(min(0.25, end - self.c.now))
            owned = [p for p in pods(self.c) if p.metadata.owner_references]
            active = [
                p
                for p in owned
                if p.metadata.deletion_timestamp is None
                and p.status.phase not in ("Succeeded", "Failed")
            ]
            self.most = max(self.most, len(active))


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["wait", "wait", "delete", "force", "crash", "trouble", "calm"]),
        st.integers(0, 5),
    ),
    max_size=14,
)


@pytest.mark.parametrize("mode", ["NonIndexed", "Indexed"])
@settings(max_examples=25)
@given(
    steps=STEPS,
    parallelism=st.integers(1, 4),
    completions=st.integers(1, 7),
    bad=st.sets(st.integers(1, 12), max_size=4),
    seed=st.integers(0, 10**6),
)
def test_every_pod_counts_once_whatever_happens(
    mode: str,
    steps: list[tuple[str, int]],
    parallelism: int,
    completions: int,
    bad: set[int],
    seed: int,
) -> None:
    profile: dict[str, Any] = {"exit": {"after": 3, "code": 0}, "terminationGrace": 2}
    if bad:
        fails = {"match": {"index": sorted(bad)}, "exit": {"after": 2, "code": 1}}
        profile["overrides"] = [fails]
    c = Cluster(profile=profile, qps=0, controllers=["garbage-collector"], detail=False)
    plant = Plant(c, random.Random(seed))
    plant.start()
    c.apply(
        manifest(
            completions=completions,
            parallelism=parallelism,
            completionMode=mode,
            backoffLimit=100,
        )
    )
    for what, n in steps:
        apply_step(plant, what, n)
        plant.pass_time(0.25 + n / 3)
    assert plant.wire is not None
    plant.wire.trouble = 0.0
    for _ in range(40):
        plant.pass_time(0)
        c.run_for(60)
        if is_job_finished(c.object("job/batch")):
            break
    counted = status(c)
    made = len(created(c))
    assert "Complete" in held(c)
    assert counted.succeeded == completions
    assert counted.succeeded + counted.failed == made
    assert plant.most <= parallelism
    c.run_for(5)
    assert not any(TRACKING_FINALIZER in p.metadata.finalizers for p in pods(c))
    if mode == "Indexed":
        last = completions - 1
        texts = {0: "0", 1: "0,1"}
        assert counted.completed_indexes == texts.get(last, f"0-{last}")


def apply_step(plant: Plant, what: str, n: int) -> None:
    """Do one bad thing."""
    assert plant.wire is not None
    c, living = plant.c, pods(plant.c)
    acts: dict[str, Callable[[], object]] = {
        "crash": plant.crash,
        "trouble": lambda: setattr(plant.wire, "trouble", 0.3),
        "calm": lambda: setattr(plant.wire, "trouble", 0.0),
    }
    if what in acts:
        trouble = plant.wire.trouble
        acts[what]()
        if what == "crash":
            plant.wire.trouble = trouble
    elif what in ("delete", "force") and living:
        grace = DeleteOptions(grace_period_seconds=0) if what == "force" else None
        c.server.delete(Pod, "default", living[n % len(living)].metadata.name, grace)


def test_a_crash_between_the_status_and_the_finalizer_counts_nobody_twice() -> None:
    """The two halves of counting, torn apart at every single request."""
    for cut_after in range(1, 16):
        c = Cluster(
            profile={"exit": {"after": 2, "code": 0}},
            qps=0,
            controllers=["garbage-collector"],
            detail=False,
        )
        plant = Plant(c, random.Random(0))
        plant.start()
        c.apply(manifest(completions=3, parallelism=3))
        while len([w for w in c.trace.of(ApiWrite) if w.agent == "job-controller"]) < cut_after:
            c.run_for(0.005)
            if c.now > 30:
                break
        plant.crash()
        c.run_for(60)
        assert "Complete" in held(c), cut_after
        assert (status(c).succeeded, status(c).failed) == (3, 0), cut_after
        assert len(pods(c)) == 3


def test_the_same_seed_gives_the_same_run() -> None:
    def trace() -> list[str]:
        c = cluster(exit_code=1)
        c.apply(manifest(completions=5, parallelism=3, completionMode="Indexed"))
        c.run_for(60)
        return [repr(record) for record in c.trace.records]

    assert trace() == trace()
