"""The work queue: what it promises, in the small and under random storms."""

from __future__ import annotations

import asyncio
import doctest
import os
import subprocess
import sys
from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kcm_lite.client import workqueue
from kcm_lite.client.ratelimit import ItemExponentialFailureRateLimiter
from kcm_lite.client.workqueue import DelayingQueue, RateLimitingQueue, ShutDown, WorkQueue
from kcm_lite.clock import Deadlock, VirtualClock
from kcm_lite.trace import QueueOp, Trace

KEYS = ("a", "b", "c")


def test_doctest() -> None:
    assert doctest.testmod(workqueue).failed == 0


# The three collections


def test_first_in_first_out() -> None:
    queue = WorkQueue[str]()
    for key in ("c", "a", "b"):
        queue.add(key)
    assert [queue.get_nowait() for _ in range(3)] == ["c", "a", "b"]


def test_adds_of_a_waiting_key_collapse_and_keep_its_place() -> None:
    queue = WorkQueue[str]()
    for key in ("a", "b", "a", "a"):
        queue.add(key)
    assert list(queue.order) == ["a", "b"]


def test_a_key_in_work_waits_for_done_and_goes_to_the_end() -> None:
    queue = WorkQueue[str]()
    queue.add("a")
    assert queue.get_nowait() == "a"
    queue.add("a")
    queue.add("a")
    queue.add("b")
    assert (len(queue), "a" in queue.dirty, "a" in queue.processing) == (1, True, True)
    queue.done("a")
    assert list(queue.order) == ["b", "a"]
    assert not queue.processing


def test_done_without_a_new_add_leaves_nothing_behind() -> None:
    queue = WorkQueue[str]()
    queue.add("a")
    queue.done(queue.get_nowait())
    assert not queue.order
    assert not queue.dirty
    assert not queue.processing


def test_done_of_a_key_that_nobody_took_queues_it_twice_as_upstream_does() -> None:
    queue = WorkQueue[str]()
    queue.add("a")
    queue.done("a")
    assert list(queue.order) == ["a", "a"]


def test_get_nowait_of_an_empty_queue() -> None:
    queue = WorkQueue[str]()
    with pytest.raises(asyncio.QueueEmpty):
        queue.get_nowait()
    queue.shut_down()
    with pytest.raises(ShutDown):
        queue.get_nowait()


def test_an_unhashable_key_is_refused_and_changes_nothing() -> None:
    queue = WorkQueue[Any]()
    with pytest.raises(TypeError, match="unhashable"):
        queue.add(["default/web"])
    assert len(queue) == 0


class AgainstAModel(RuleBasedStateMachine):
    """The queue against one number a key: 1 = dirty, 2 = in work, 3 = both."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = WorkQueue[str]()
        self.state = dict.fromkeys(KEYS, 0)
        self.order: deque[str] = deque()
        self.open = True

    @rule(key=st.sampled_from(KEYS))
    def add(self, key: str) -> None:
        self.queue.add(key)
        if self.open:
            if self.state[key] == 0:
                self.order.append(key)
            self.state[key] |= 1

    @precondition(lambda self: self.order)
    @rule()
    def get(self) -> None:
        key = self.queue.get_nowait()
        assert key == self.order.popleft()
        assert self.state[key] == 1, "a key in work was handed out"
        self.state[key] = 2

    @precondition(lambda self: any(s & 2 for s in self.state.values()))
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from([k for k, s in self.state.items() if s & 2]))
        self.queue.done(key)
        self.state[key] &= 1
        if self.state[key]:
            self.order.append(key)

    @rule()
    def shut_down(self) -> None:
        self.queue.shut_down()
        self.open = False

    @invariant()
    def agree(self) -> None:
        assert list(self.queue.order) == list(self.order)
        assert self.queue.dirty == {k for k, s in self.state.items() if s & 1}
        assert self.queue.processing == {k for k, s in self.state.items() if s & 2}
        assert self.queue.shutting_down is not self.open


TestAgainstAModel = AgainstAModel.TestCase


# Workers


@given(
    events=st.lists(st.tuples(st.integers(0, 50), st.sampled_from(KEYS)), min_size=1, max_size=40),
    durations=st.lists(st.integers(0, 30), min_size=1, max_size=8),
    workers=st.integers(1, 4),
)
def test_storm(events: list[tuple[int, str]], durations: list[int], workers: int) -> None:
    """One key, one worker; no event without a later sync; no sync without an event."""
    clock = VirtualClock()
    queue = WorkQueue[str]()
    held: set[str] = set()
    begun: list[tuple[float, str]] = []
    ended: list[tuple[float, str]] = []

    async def work() -> None:
        while True:
            key = await queue.get()
            assert key not in held, f"two workers hold {key}"
            held.add(key)
            begun.append((clock.time(), key))
            await clock.sleep(durations[len(begun) % len(durations)] / 10)
            ended.append((clock.time(), key))
            held.remove(key)
            queue.done(key)

    for n in range(workers):
        clock.spawn(work(), name=f"worker-{n}")
    for at, key in sorted(events):
        clock.call_at(at / 10, queue.add, key)
    clock.settle()

    assert not held
    assert not queue.dirty
    assert {key for _, key in begun} == {key for _, key in events}
    for key in {key for _, key in events}:
        adds = sorted(at / 10 for at, k in events if k == key)
        starts = [t for t, k in begun if k == key]
        ends = [0.0, *(t for t, k in ended if k == key)]
        assert starts[-1] >= adds[-1], f"an event of {key} was lost"
        for before, start in zip([0.0, *starts], starts, strict=False):
            assert any(before <= add <= start for add in adds), f"{key} synced for no event"
        assert len(starts) <= len(adds)
        if workers >= len(KEYS):  # a free worker: a sync begins with an event or after the last one
            assert all(t in adds or t in ends for t in starts)


def test_a_burst_during_a_sync_costs_one_more_sync() -> None:
    clock = VirtualClock()
    queue = WorkQueue[str]()
    syncs = 0

    async def work() -> None:
        nonlocal syncs
        while True:
            key = await queue.get()
            syncs += 1
            await clock.sleep(1)
            queue.done(key)

    for _ in range(4):
        clock.spawn(work(), name="worker")
    for n in range(1000):
        clock.call_at(n / 1000, queue.add, "a")
    clock.settle()
    assert syncs == 2


def test_get_waits_for_the_first_add() -> None:
    clock = VirtualClock()
    queue = WorkQueue[str]()
    clock.call_later(5, queue.add, "a")
    assert (clock.run(queue.get()), clock.time()) == ("a", 5)


def test_get_that_nothing_ends_is_a_deadlock() -> None:
    with pytest.raises(Deadlock):
        VirtualClock().run(WorkQueue[str]().get())


def test_waiting_workers_are_served_in_turn() -> None:
    clock, queue, served = VirtualClock(), WorkQueue[str](), []

    async def work(n: int) -> None:
        served.append((n, await queue.get()))

    for n in range(3):
        clock.spawn(work(n), name=f"worker-{n}")
    clock.settle()
    for key in KEYS:
        queue.add(key)
    clock.settle()
    assert served == [(0, "a"), (1, "b"), (2, "c")]


@pytest.mark.parametrize("cancel_first", [True, False])
def test_a_worker_cancelled_as_it_is_called_passes_the_key_on(cancel_first: bool) -> None:
    clock, queue, served = VirtualClock(), WorkQueue[str](), []

    async def work(n: int) -> None:
        served.append((n, await queue.get()))

    first, _ = (clock.spawn(work(n), name=f"worker-{n}") for n in range(2))
    clock.settle()
    if cancel_first:
        first.cancel()
    queue.add("a")
    first.cancel()
    clock.settle()
    assert served == [(1, "a")]


def test_a_key_taken_from_under_a_woken_worker() -> None:
    clock, queue, served = VirtualClock(), WorkQueue[str](), []

    async def work() -> None:
        served.append(await queue.get())

    clock.spawn(work(), name="worker")
    clock.settle()
    queue.add("a")
    assert queue.get_nowait() == "a"  # before the worker, already called, could run
    clock.settle()
    assert served == []
    queue.add("b")
    clock.settle()
    assert served == ["b"]


# The end


def test_after_shut_down_adds_are_ignored_and_the_rest_is_handed_out() -> None:
    clock, queue = VirtualClock(), WorkQueue[str]()
    queue.add("a")
    queue.add("b")
    assert queue.get_nowait() == "a"
    queue.add("a")
    queue.shut_down()
    queue.add("c")
    assert queue.shutting_down
    queue.done("a")  # was dirty before the end: still handed out
    assert [clock.run(queue.get()) for _ in range(2)] == ["b", "a"]
    with pytest.raises(ShutDown):
        clock.run(queue.get())


def test_shut_down_wakes_all_who_wait() -> None:
    clock, queue, ended = VirtualClock(), WorkQueue[str](), []

    async def work(n: int) -> None:
        with pytest.raises(ShutDown):
            await queue.get()
        ended.append(n)

    for n in range(3):
        clock.spawn(work(n), name=f"worker-{n}")
    clock.call_later(1, queue.shut_down)
    clock.settle()
    assert ended == [0, 1, 2]


def returned(clock: VirtualClock, task: asyncio.Task[None]) -> bool:
    clock.settle()
    return task.done()


def test_drain_waits_for_keys_in_work() -> None:
    clock, queue = VirtualClock(), WorkQueue[str]()
    for key in ("a", "b"):
        queue.add(key)
        queue.get_nowait()
    drains = [clock.create_task(queue.shut_down_with_drain()) for _ in range(2)]
    assert not returned(clock, drains[0])
    queue.done("a")
    assert not returned(clock, drains[0])
    queue.done("b")
    assert all(returned(clock, drain) for drain in drains)


def test_drain_does_not_wait_for_keys_that_nobody_took() -> None:
    clock, queue = VirtualClock(), WorkQueue[str]()
    queue.add("a")
    clock.run(queue.shut_down_with_drain())
    assert len(queue) == 1


def test_drain_returns_though_the_key_is_queued_again() -> None:
    clock, queue = VirtualClock(), WorkQueue[str]()
    queue.add("a")
    queue.get_nowait()
    queue.add("a")
    drain = clock.create_task(queue.shut_down_with_drain())
    clock.settle()
    queue.done("a")
    assert returned(clock, drain)
    assert len(queue) == 1


def test_shut_down_ends_a_drain() -> None:
    clock, queue = VirtualClock(), WorkQueue[str]()
    queue.add("a")
    queue.get_nowait()
    drain = clock.create_task(queue.shut_down_with_drain())
    assert not returned(clock, drain)
    queue.shut_down()
    assert returned(clock, drain)


# Later


def delaying() -> tuple[VirtualClock, DelayingQueue[str], list[tuple[float, str]]]:
    """A delaying queue whose keys are taken at once, and the list of what came when."""
    clock = VirtualClock()
    queue: DelayingQueue[str] = DelayingQueue(clock=clock)
    came: list[tuple[float, str]] = []

    async def consume() -> None:
        while True:
            key = await queue.get()
            came.append((clock.time(), key))
            queue.done(key)

    clock.spawn(consume(), name="consumer")
    return clock, queue, came


def test_the_earlier_of_two_delays_wins() -> None:
    clock, queue, came = delaying()
    for seconds in (5, 3, 10):
        queue.add_after("a", seconds)
    clock.settle()
    assert came == [(3, "a")]
    assert clock.time() == 3, "an entry that was overtaken kept the clock busy"


@pytest.mark.parametrize("seconds", [0, -1, -0.0, 4e-10, -9223372036.854776])
def test_no_delay_adds_now(seconds: float) -> None:
    queue: DelayingQueue[str] = DelayingQueue(clock=VirtualClock())
    queue.add_after("a", seconds)
    assert list(queue.order) == ["a"]


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), float("-inf")])
def test_a_delay_that_is_no_number_is_refused(seconds: float) -> None:
    queue: DelayingQueue[str] = DelayingQueue(clock=VirtualClock())
    with pytest.raises(ValueError, match="delay of 'a'"):
        queue.add_after("a", seconds)


def test_add_does_not_end_a_waiting_entry() -> None:
    clock, queue, came = delaying()
    queue.add_after("a", 5)
    queue.add("a")
    clock.settle()
    assert came == [(0, "a"), (5, "a")]


def test_a_key_waits_again_after_it_came() -> None:
    clock, queue, came = delaying()
    queue.add_after("a", 5)
    clock.run_for(5)
    queue.add_after("a", 7)
    clock.settle()
    assert came == [(5, "a"), (12, "a")]


def test_shut_down_drops_what_waits_and_lets_go_of_the_timer() -> None:
    clock, queue, came = delaying()
    queue.add_after("a", 3600)
    clock.run_for(1)
    queue.shut_down()
    queue.add_after("b", 1)
    with pytest.raises(ShutDown):
        clock.settle()
    assert (clock.settle(), came) == (1, [])


def test_one_timer_for_many_keys() -> None:
    clock, queue, came = delaying()
    for n in range(1000, 0, -1):
        queue.add_after(f"k{n}", n)
    assert sum(not handle.cancelled() for _, _, handle in clock._timers) == 1
    clock.settle()
    assert came == [(n, f"k{n}") for n in range(1, 1001)]


def test_equal_times_come_in_the_order_of_their_adds() -> None:
    clock, queue, came = delaying()
    for key in ("b", "a", "c"):
        queue.add_after(key, 1)
    clock.settle()
    assert [key for _, key in came] == ["b", "a", "c"]


def test_unsortable_keys() -> None:
    clock = VirtualClock()
    queue: DelayingQueue[object] = DelayingQueue(clock=clock)
    keys = [object(), object()]
    for key in keys:
        queue.add_after(key, 1)
    clock.settle()
    assert list(queue.order) == keys


@pytest.mark.parametrize("seconds", [300036059.0, 9223372036.854776])
def test_a_delay_of_years_comes_once(seconds: float) -> None:
    """Seconds as a float cannot tell these nanoseconds apart; the alarm must not come too early."""
    clock, queue, came = delaying()
    for _ in range(31):  # nanoseconds
        clock.run_for(1e-9)
        queue.add_after("a", seconds)
    clock.run_until(seconds + 1)
    assert [key for _, key in came] == ["a"]


@given(
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from(KEYS), st.integers(-2, 20)), max_size=40)
)
def test_delays_against_a_model(ops: list[tuple[int, str, int]]) -> None:
    """At each of the times that count, and at no other, the key comes out."""
    clock, queue, came = delaying()
    expected: set[tuple[float, str]] = set()
    waiting: dict[str, int] = {}
    for at, key, delay in sorted(ops, key=lambda op: op[0]):
        clock.run_until(at)
        for due, k in sorted((due, k) for k, due in waiting.items() if due <= at):
            expected.add((due, k))
            del waiting[k]
        queue.add_after(key, delay)
        if delay <= 0:
            expected.add((at, key))
        else:
            waiting[key] = min(waiting.get(key, at + delay), at + delay)
        clock.run_for(0)
    clock.settle()
    expected |= {(due, key) for key, due in waiting.items()}
    assert set(came) == expected


# Rate limits


def test_add_rate_limited_waits_longer_each_time_until_forget() -> None:
    clock = VirtualClock()
    queue: RateLimitingQueue[str] = RateLimitingQueue(
        clock=clock, limiter=ItemExponentialFailureRateLimiter(1, 1000)
    )
    times = []

    async def take() -> None:
        queue.done(await queue.get())
        times.append(clock.time())

    for _ in range(3):
        queue.add_rate_limited("a")
        clock.run(take())
    assert (times, queue.num_requeues("a")) == ([1, 3, 7], 3)
    queue.add("a")
    queue.forget("a")
    assert (queue.num_requeues("a"), len(queue)) == (0, 1), "forget takes nothing off the queue"
    clock.run(take())
    queue.add_rate_limited("a")
    clock.run(take())
    assert times[3:] == [7, 8]


def test_the_default_limiter_is_the_controllers_one() -> None:
    clock = VirtualClock()
    queue: RateLimitingQueue[int] = RateLimitingQueue(clock=clock)
    for n in range(150):
        queue.add_rate_limited(n)
    clock.run_until(0.005)
    assert len(queue) == 100, "the burst of 100 waits 5 ms"
    clock.run_until(5)
    assert len(queue) == 150, "then ten a second"


def test_only_rate_limited_adds_are_limited() -> None:
    queue: RateLimitingQueue[int] = RateLimitingQueue(clock=VirtualClock())
    for n in range(10_000):
        queue.add(n)
    assert len(queue) == 10_000


# What the trace and the metrics see


class Notes:
    """Metrics that only write down what they are told."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock, self.seen = clock, list[tuple[float, str]]()

    def note(self, what: str) -> None:
        self.seen.append((self.clock.time(), what))

    def add(self, item: str) -> None:
        self.note(f"add {item}")

    def get(self, item: str) -> None:
        self.note(f"get {item}")

    def done(self, item: str) -> None:
        self.note(f"done {item}")

    def retry(self) -> None:
        self.note("retry")

    def update_unfinished_work(self) -> None:
        self.note("update")


def test_metrics_see_what_upstream_counts() -> None:
    clock = VirtualClock()
    notes = Notes(clock)
    queue: DelayingQueue[str] = DelayingQueue("q", clock=clock, metrics=notes)
    queue.add("a")
    queue.add("a")  # dirty already: not counted
    queue.get_nowait()
    queue.add("a")  # in work: counted as an add
    queue.done("a")
    queue.add_after("b", 1)
    queue.add_after("b", 0)  # counts as a retry too
    assert [what for _, what in notes.seen] == [
        *("add a", "get a", "add a", "done a", "retry", "retry", "add b"),
    ]
    clock.run_for(0)
    queue.shut_down()
    queue.add_after("c", 1)
    assert len(notes.seen) == 7, "after the end nothing is counted"


def test_unfinished_work_is_measured_every_half_second_while_there_is_any() -> None:
    clock = VirtualClock()
    notes = Notes(clock)
    queue = WorkQueue[str]("q", clock=clock, metrics=notes)
    clock.call_at(0.7, queue.add, "a")
    clock.call_at(0.7, queue.get_nowait)
    clock.call_at(2.2, queue.done, "a")
    clock.call_at(9.9, queue.add, "a")
    clock.call_at(9.9, queue.get_nowait)
    clock.call_at(10.6, queue.shut_down)
    clock.run_until(20)
    ticks = [t for t, what in notes.seen if what == "update"]
    assert ticks == [1, 1.5, 2, 2.5, 10, 10.5], "the last one of a row finds nothing in work"


def test_the_measuring_is_background_work() -> None:
    clock = VirtualClock()
    queue = WorkQueue[str]("q", clock=clock, metrics=Notes(clock))
    queue.add("a")
    queue.get_nowait()
    assert clock.settle() == 0


def test_trace() -> None:
    clock, trace = VirtualClock(), Trace()
    queue: RateLimitingQueue[str] = RateLimitingQueue("q", clock=clock, trace=trace)
    queue.add("a")
    queue.add("a")
    queue.forget(queue.get_nowait())  # nothing to forget: not worth a line
    queue.add_rate_limited("a")
    queue.done("a")
    queue.add_after("b", 7)
    queue.forget("a")
    clock.run_until(1)
    queue.shut_down()
    queue.add_after("b", 1)
    assert [(r.t, r.op, r.key, r.delay, r.depth) for r in trace.of(QueueOp, queue="q")] == [
        (0, "add", "a", 0, 1),
        (0, "add", "a", 0, 1),
        (0, "get", "a", 0, 0),
        (0, "add_rate_limited", "a", 0.005, 0),
        (0, "done", "a", 0, 0),
        (0, "add_after", "b", 7, 0),
        (0, "forget", "a", 0, 0),
        (0.005, "add", "a", 0, 1),
        (1, "shut_down", None, 0, 1),
    ]


def test_a_trace_without_detail_has_no_queue_steps() -> None:
    clock, trace = VirtualClock(), Trace(detail=False)
    queue = WorkQueue[str]("q", clock=clock, trace=trace)
    queue.add("a")
    assert trace.records == []
    trace.detail = True
    queue.get_nowait()
    assert len(trace.records) == 1


@pytest.mark.parametrize("watcher", [{"trace": Trace()}, {"metrics": Notes(VirtualClock())}])
def test_watching_needs_a_clock(watcher: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="needs a clock"):
        WorkQueue[str]("q", **watcher)


STORM = """
from kcm_lite.client.workqueue import RateLimitingQueue
from kcm_lite.clock import VirtualClock
from kcm_lite.trace import Trace

clock, trace = VirtualClock(), Trace()
queue = RateLimitingQueue("q", clock=clock, trace=trace)

async def work():
    while True:
        key = await queue.get()
        await clock.sleep(0.01)
        (queue.forget if len(trace.records) % 3 else queue.add_rate_limited)(key)
        queue.done(key)

for n in range(3):
    clock.spawn(work(), name=f"worker-{n}")
for n in range(50):
    clock.call_at(n / 1000, queue.add, f"default/web-{n % 7}")
clock.settle()
print(*trace.records, sep="\\n")
"""


def test_same_trace_under_any_hash_seed() -> None:
    def run(seed: str) -> bytes:
        env = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run(
            [sys.executable, "-c", STORM], env=env, capture_output=True, check=True
        ).stdout

    first = run("1")
    assert first.count(b"\n") > 100
    assert run("2") == first


def test_a_queue_in_real_time() -> None:
    """The same queue on an ordinary asyncio loop."""

    async def main() -> list[str]:
        from kcm_lite.clock import RealClock

        queue: DelayingQueue[str] = DelayingQueue(clock=RealClock())
        queue.add_after("b", 0.002)
        queue.add_after("a", 0.001)
        return [await queue.get(), await queue.get()]

    assert asyncio.run(main()) == ["a", "b"]
