"""Cases that are about a library call and not about a cluster.

The two about leader election, LE-CRASH-SKEW and LE-RENEW-DEADLINE, need several managers: see
``test_sim_replicas.py``.
"""

from __future__ import annotations

import pytest

from kcm_lite.api.errors import Invalid
from kcm_lite.client.ratelimit import default_controller_rate_limiter
from kcm_lite.client.workqueue import DelayingQueue, RateLimitingQueue, ShutDown, WorkQueue
from kcm_lite.clock import VirtualClock
from kcm_lite.controllers.rollout import resolve_fenceposts
from kcm_lite.sim.check import BadInput
from kcm_lite.sim.cluster import Cluster
from tests.sim_support import deployment, job, scenario

Times = list[tuple[float, str]]


def work(queue: WorkQueue[str], clock: VirtualClock, seconds: float, workers: int = 1) -> Times:
    """Start workers that take so long for a key; return when they began with which."""
    began: Times = []

    async def worker() -> None:
        while True:
            try:
                key = await queue.get()
            except ShutDown:
                began.append((clock.time(), "ShutDown"))
                return
            began.append((clock.time(), key))
            await clock.sleep(seconds)
            queue.done(key)

    for number in range(workers):
        clock.spawn(worker(), name=f"worker {number}")
    return began


def test_wq_add_plus_delayed() -> None:
    clock = VirtualClock()
    queue: DelayingQueue[str] = DelayingQueue(clock=clock)
    began = work(queue, clock, 0)
    queue.add_after("k", 18000)
    queue.add("k")
    clock.run_until(18010)
    assert began == [(0, "k"), (18000, "k")]


def test_wq_bucket() -> None:
    clock = VirtualClock()
    queue: RateLimitingQueue[str] = RateLimitingQueue(clock=clock)
    began = work(queue, clock, 0)
    for number in range(1, 151):
        queue.add_rate_limited(f"{number:03}")
    clock.run_until(10)
    assert began[:100] == [(0.005, f"{n:03}") for n in range(1, 101)]
    assert [key for _, key in began[100:]] == [f"{n:03}" for n in range(101, 151)]
    assert [t for t, _ in began[100:]] == pytest.approx([n / 10 for n in range(1, 51)])


@pytest.mark.parametrize("period", [1.0, 1.5])
def test_wq_spurious_fails(period: float) -> None:
    clock = VirtualClock()
    queue: RateLimitingQueue[str] = RateLimitingQueue(clock=clock)
    tries: list[float] = []

    async def worker() -> None:
        while True:
            key = await queue.get()
            tries.append(clock.time())
            queue.add_rate_limited(key)
            queue.done(key)

    clock.spawn(worker(), name="worker")
    for number in range(30):
        clock.run_until(number * period)
        before = len(tries)
        queue.add("k")
        clock.run_for(0)
        assert len(tries) == before + 1, "an event did not have the key tried at once"
    assert queue.num_requeues("k") == len(tries) >= 30
    assert tries[18] < 30
    clock.run_until(1200)
    assert 990 < tries[-1] - tries[-2] <= 1000.001
    queue.forget("k")
    assert queue.num_requeues("k") == 0


def test_wq_spurious_fails_reach_the_longest_delay() -> None:
    limiter = default_controller_rate_limiter(VirtualClock())
    delays = [limiter.when("k") for _ in range(19)]
    assert delays[0] == 0.005 and delays[-2] == pytest.approx(655.36) and delays[-1] == 1000


@pytest.mark.parametrize("adds", [1, 3, 9])
def test_wq_dirty(adds: int) -> None:
    clock = VirtualClock()
    queue: WorkQueue[str] = WorkQueue(clock=clock)
    began = work(queue, clock, 10, workers=2)
    queue.add("k")
    for number in range(1, adds + 1):
        clock.run_until(number)
        queue.add("k")
    clock.run_until(40)
    assert began == [(0, "k"), (10, "k")]


def shutting_down() -> tuple[VirtualClock, DelayingQueue[str], Times]:
    clock = VirtualClock()
    queue: DelayingQueue[str] = DelayingQueue(clock=clock)
    began = work(queue, clock, 5)
    for key in "abc":
        queue.add(key)
    queue.add_after("later", 12)
    clock.run_until(1)
    return clock, queue, began


def test_wq_shutdown() -> None:
    clock, queue, began = shutting_down()
    queue.shut_down()
    assert clock.time() == 1
    clock.run_until(2)
    queue.add("d")
    clock.run_until(30)
    assert began == [(0, "a"), (5, "b"), (10, "c"), (15, "ShutDown")]


def test_wq_shutdown_with_drain() -> None:
    clock, queue, began = shutting_down()
    returned: list[float] = []

    async def drain() -> None:
        await queue.shut_down_with_drain()
        returned.append(clock.time())

    clock.spawn(drain(), name="drain")
    clock.run_until(2)
    queue.add("d")
    clock.run_until(30)
    assert began == [(0, "a"), (5, "b"), (10, "c"), (15, "ShutDown")]
    assert len(returned) == 1 and 5 <= returned[0] <= 15


# ---- what a Deployment and a Job refuse, and how a Deployment rounds


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable"),
    [(1, 1, 0), (2, 1, 0), (3, 1, 0), (4, 1, 1), (5, 2, 1), (10, 3, 2), (15, 4, 3)],
)
def test_dep_fencepost(replicas: int, surge: int, unavailable: int) -> None:
    assert resolve_fenceposts("25%", "25%", replicas) == (surge, unavailable)


@pytest.mark.parametrize("nothing", [0, "0%"])
def test_dep_fencepost_nothing_at_all_is_refused(nothing: int | str) -> None:
    strategy = {"rollingUpdate": {"maxSurge": nothing, "maxUnavailable": nothing}}
    with pytest.raises(BadInput, match="may not be 0 when `maxSurge` is 0"):
        scenario(objects=[deployment(strategy=strategy)])


def test_dep_fencepost_never_more_unavailable_than_there_are() -> None:
    cluster = Cluster(profile={"startAfter": 0, "readyAfter": 1})
    strategy = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 50}}
    cluster.apply(deployment(3, strategy=strategy))
    cluster.run_until(10)
    cluster.set_image("deploy/web", {"*": "app:2"})
    cluster.run_until(30)
    status = cluster.object("deploy/web").status
    assert (status.replicas, status.updated_replicas, status.available_replicas) == (3, 3, 3)


@pytest.mark.parametrize("change", [{"completions": 3}, {"completions": 3, "parallelism": 4}])
def test_job_indexed_elastic_needs_both(change: dict[str, int]) -> None:
    cluster = Cluster()
    cluster.apply(job("j", completions=5, parallelism=5, completionMode="Indexed"))
    cluster.run_until(5)
    with pytest.raises(Invalid, match="completions"):
        cluster.patch("job/j", {"spec": change})
    cluster.patch("job/j", {"spec": {"completions": 3, "parallelism": 3}})
