"""What the start and the end of a manager promise."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kcm_lite.api.core import Pod
from kcm_lite.clock import VirtualClock
from kcm_lite.controllers import context as controllers_context
from kcm_lite.controllers.context import CONTROLLERS, ControllerContext, Run
from kcm_lite.manager.command import answer
from kcm_lite.manager.leading import RELEASE_ON_EXIT
from kcm_lite.manager.registry import ControllerDescriptor, new_controller_descriptors
from kcm_lite.manager.start import (
    Crew,
    ManagerContext,
    build_controllers,
    new_context,
    run,
    run_controllers,
    shut_down,
    start_informers,
)
from kcm_lite.manager.validation import InvalidOptions, Problem
from kcm_lite.sim.cluster import Cluster
from kcm_lite.sim.process import Process
from kcm_lite.sim.replicas import Replicas, manager_config
from kcm_lite.trace import ApiWrite, QueueOp, SyncStart
from tests.sim_support import deployment, replica_set

Managed = Callable[..., ManagerContext]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster without controllers."""
    made = Cluster(controllers=())
    yield made
    made.close()


@pytest.fixture
def managed(cluster: Cluster) -> Managed:
    """What a command line's controllers are built from in that cluster."""

    def manage(*args: str, seed: int = 0, clock: Any = None) -> ManagerContext:
        completed = answer(["--secure-port=0", *args], now=cluster.clock.now()).config
        assert completed is not None
        clock, rng = clock or cluster.clock, random.Random(seed)
        return new_context(completed, cluster.transport, clock, rng=rng, trace=cluster.trace)

    return manage


def informers(context: ManagerContext) -> list[Any]:
    return list(context.controllers.informers.informers.values())


# ---- the context


def test_a_context_starts_nothing_and_asks_nobody(cluster: Cluster, managed: Managed) -> None:
    before = len(cluster.trace.records)
    context = managed()
    cluster.run_for(10)
    assert not context.crew.tasks and not informers(context)
    assert not context.informers_started.is_set() and context.skipped == {}
    assert [r for r in cluster.trace.records[before:] if getattr(r, "agent", "") != "kubelet"] == []


def test_two_contexts_share_nothing(managed: Managed) -> None:
    one, two = managed(), managed()
    build_controllers(one)
    assert two.skipped == {} and not informers(two)
    start_informers(one)
    assert one.crew.tasks and not two.crew.tasks and not two.informers_started.is_set()


def test_the_time_between_reminders_is_one_to_two_periods(managed: Managed) -> None:
    periods = [managed(seed=seed).controllers.informers.options.resync for seed in range(20)]
    assert all(12 * 3600 <= period <= 24 * 3600 for period in periods)
    assert len(set(periods)) == 20 and max(periods) - min(periods) > 6 * 3600


# ---- building


@pytest.mark.parametrize("broken", sorted(CONTROLLERS))
def test_a_build_error_starts_nothing_whichever_it_is(
    broken: str, cluster: Cluster, managed: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(context: ControllerContext) -> Run:
        raise InvalidOptions([Problem("no luck", "controllers")])

    monkeypatch.setitem(controllers_context.CONTROLLERS, broken, refuse)
    cluster.apply(replica_set(2))
    context, checks = managed(), list[str]()
    with pytest.raises(InvalidOptions, match="no luck"):
        cluster.clock.run(run(context, add_health_check=checks.append))
    cluster.run_for(10)
    assert not context.crew.tasks and checks == []
    assert not any(informer.tasks for informer in informers(context))
    assert not context.informers_started.is_set() and not cluster.objects(Pod)


def test_health_checks_are_those_of_what_was_built(managed: Managed) -> None:
    checks: list[str] = []
    built = build_controllers(managed("--controllers=*,-job"), add_health_check=checks.append)
    assert checks == list(built) and "job-controller" not in checks
    assert set(checks) == CONTROLLERS.keys() - {"job-controller"}
    assert checks == [name for name in new_controller_descriptors() if name in built]


def test_health_checks_come_after_the_last_build(
    managed: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    for name, build in CONTROLLERS.items():

        def noted(context: ControllerContext, name: str = name, build: Any = build) -> Any:
            events.append(f"build {name}")
            return build(context)

        monkeypatch.setitem(controllers_context.CONTROLLERS, name, noted)
    build_controllers(managed(), add_health_check=lambda name: events.append(f"check {name}"))
    kinds = [event.split()[0] for event in events]
    assert kinds == ["build"] * len(CONTROLLERS) + ["check"] * len(CONTROLLERS)


def test_a_name_that_is_asked_for_twice_is_built_once(managed: Managed) -> None:
    assert list(build_controllers(managed("--controllers=job,job-controller,job"))) == [
        "job-controller"
    ]


# ---- the order


def test_informers_start_when_all_have_been_built_and_before_any_controller_runs(
    cluster: Cluster, managed: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    context = managed()

    def spy(name: str, build: Any) -> Any:
        def built(given: ControllerContext) -> Any:
            events.append("build")
            assert not any(informer.tasks for informer in informers(context))
            inner = build(given)

            async def begin() -> None:
                events.append("run")
                assert all(informer.tasks for informer in informers(context))
                assert context.informers_started.is_set()
                await inner()

            return begin

        return built

    for name, build in CONTROLLERS.items():
        monkeypatch.setitem(controllers_context.CONTROLLERS, name, spy(name, build))
    cluster.clock.run(run(context))
    names = [task.get_name() for task in context.crew.tasks]
    assert names[-len(CONTROLLERS) :] == [n for n in new_controller_descriptors() if n in names]
    cluster.run_for(1)
    assert events == ["build"] * len(CONTROLLERS) + ["run"] * len(CONTROLLERS)
    assert all(len(informer.tasks) <= 2 for informer in informers(context))  # started once
    tasks = [informer.tasks[:] for informer in informers(context)]
    start_informers(context)
    assert [informer.tasks for informer in informers(context)] == tasks


def test_nobody_works_before_its_caches_are_filled(cluster: Cluster, managed: Managed) -> None:
    cluster.apply(replica_set(2))
    cluster.clock.run(run(managed()))
    cluster.run_for(10)
    filled = max(t for t, kind in cache_times(cluster) if kind in ("pods", "replicasets"))
    syncs = [s.t for s in cluster.trace.of(SyncStart, controller="replicaset-controller")]
    assert syncs and min(syncs) >= filled
    assert len(cluster.objects(Pod)) == 2


def cache_times(cluster: Cluster) -> list[tuple[float, str]]:
    from kcm_lite.trace import Delivery

    found = cluster.trace.of(Delivery, client="shared-informers", type="BOOKMARK")
    return [(d.t, d.resource) for d in found]


@pytest.mark.parametrize("flag", ["true", "false"])
def test_each_controller_writes_under_its_own_name(
    flag: str, cluster: Cluster, managed: Managed
) -> None:
    cluster.clock.run(run(managed(f"--use-service-account-credentials={flag}")))
    cluster.apply(deployment(2))
    cluster.run_for(5)
    creators = {
        w.resource: w.agent
        for w in cluster.trace.of(ApiWrite, verb="create", subresource="")
        if w.resource in ("pods", "replicasets")
    }
    assert creators == {"pods": "replicaset-controller", "replicasets": "deployment-controller"}


# ---- the pause


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("interval", [0, 1, 30])
def test_the_pause_is_between_one_interval_and_two(
    interval: int, seed: int, cluster: Cluster, managed: Managed
) -> None:
    begun: dict[str, float] = {}

    def noted(name: str) -> Run:
        async def begin() -> None:
            begun[name] = cluster.now

        return begin

    context = managed(f"--controller-start-interval={interval}s", seed=seed)
    run_controllers(context, {name: noted(name) for name in "abcdefgh"})
    cluster.run_for(100)
    times = list(begun.values())
    assert sorted(begun) == list("abcdefgh")
    assert all(interval <= t <= 2 * interval for t in times)
    assert len(set(times)) == (8 if interval else 1)


def test_the_same_seed_gives_the_same_pauses(managed: Managed, cluster: Cluster) -> None:
    def pauses(seed: int) -> list[float]:
        found: list[float] = []

        async def begin() -> None:
            found.append(round(cluster.now - start, 6))

        start = cluster.now
        context = managed("--controller-start-interval=9s", seed=seed)
        run_controllers(context, dict.fromkeys("abc", begin))
        cluster.run_for(20)
        return found

    assert pauses(1) == pauses(1) != pauses(2)


# ---- the end


def test_after_the_end_nothing_is_left_and_nothing_is_done(
    cluster: Cluster, managed: Managed
) -> None:
    context = managed()
    cluster.clock.run(run(context))
    cluster.apply(replica_set(2))
    cluster.run_for(5)
    before = cluster.now
    cluster.clock.run(shut_down(context))
    assert cluster.now == before and not context.crew.tasks
    cluster.delete(f"pod/{cluster.objects(Pod)[0].metadata.name}")
    cluster.apply(replica_set(2, "more"))
    records = len(cluster.trace.records)
    cluster.run_for(120)
    assert len(cluster.objects(Pod)) == 1
    after = cluster.trace.records[records:]
    assert not [r for r in after if isinstance(r, SyncStart | QueueOp)]


def test_the_end_of_what_never_ran(cluster: Cluster, managed: Managed) -> None:
    cluster.clock.run(shut_down(managed()))
    assert cluster.now == 0


def test_the_end_in_the_middle_of_a_pause(cluster: Cluster, managed: Managed) -> None:
    context = managed("--controller-start-interval=1m")
    cluster.clock.run(run(context))
    cluster.run_for(1)
    cluster.clock.run(shut_down(context))
    assert cluster.now == 1 and not context.crew.tasks


async def stubborn(clock: VirtualClock, seconds: float) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await clock.sleep(seconds)


@pytest.mark.parametrize(
    ("flags", "takes", "late"),
    [
        ((), 9.0, False),
        ((), 11.0, True),
        (("--controller-shutdown-timeout=3s",), 2.0, False),
        (("--controller-shutdown-timeout=3s",), 4.0, True),
        (("--controller-shutdown-timeout=0s",), 3600.0, False),
    ],
)
def test_who_does_not_end_in_time_is_named(
    flags: tuple[str, ...], takes: float, late: bool, cluster: Cluster, managed: Managed
) -> None:
    context = managed("--controllers=job", *flags)
    cluster.clock.run(run(context))
    context.crew.spawn(stubborn(cluster.clock, takes), name="slow-controller")
    cluster.run_for(1)
    if late:
        text = "controller shutdown timeout reached, still running: slow-controller$"
        with pytest.raises(RuntimeError, match=text):
            cluster.clock.run(shut_down(context))
        assert cluster.now == 1 + context.config.controller_shutdown_timeout
    else:
        cluster.clock.run(shut_down(context))
        assert cluster.now == 1 + takes


def test_the_timeout_goes_by_the_clock_of_the_process(cluster: Cluster, managed: Managed) -> None:
    process = Process(cluster.clock, cluster.transport, "fast", rate=2.0)
    context = managed("--controllers=job", clock=process.clock)
    context.crew.spawn(stubborn(cluster.clock, 60), name="slow-controller")
    cluster.run_for(1)
    with pytest.raises(RuntimeError, match="still running: fast: slow-controller"):
        cluster.clock.run(shut_down(context))
    assert cluster.now == 1 + 10 / 2


def test_a_crew_remembers_its_own_tasks_only_and_forgets_those_that_ended() -> None:
    clock = VirtualClock()
    one, two = Crew(clock), Crew(clock)

    async def nap(seconds: float) -> float:
        await one.sleep(seconds)
        return clock.time()

    short, long = one.spawn(nap(1), name="short"), one.spawn(nap(5), name="long")
    two.spawn(nap(3), name="other")
    assert [task.get_name() for task in one.tasks] == ["short", "long"]
    clock.run_until(2)
    assert list(one.tasks) == [long] and len(two.tasks) == 1
    clock.run_until(9)
    assert not one.tasks and (short.result(), long.result()) == (1, 5)
    assert one.time() == clock.time() and one.now() == clock.now()


def test_controllers_have_ended_before_the_lease_is_given_back() -> None:
    """A manager that writes without a pause stops before another one may begin."""
    gate = f"--feature-gates={RELEASE_ON_EXIT}=true"
    config = manager_config(gate, "--controllers=replicaset", "--kube-api-qps=0")
    found = Replicas(Cluster(controllers=()), 2, config=config)
    cluster = found.cluster
    cluster.run_until(60)
    for i in range(60):
        cluster.apply(replica_set(2, f"w{i}"))
    cluster.run_for(0.02)
    found.terminate("kcm-1")
    cluster.run_for(1)
    given = next(c.t for c in found.changes() if c.t > 60 and not c.holder)
    writes = [w.t for w in cluster.trace.of(ApiWrite, agent="replicaset-controller")]
    (begun,) = [span.start for span in found.spans if span.replica == "kcm-2"] or [cluster.now]
    assert [t for t in writes if 60 < t < given]
    assert not [t for t in writes if given <= t < begun]


def test_a_descriptor_without_a_constructor_is_named_as_not_built(managed: Managed) -> None:
    context = managed()
    assert build_controllers(context, {"mine": ControllerDescriptor("mine")}) == {}
    assert "mine" in context.skipped
