"""Workers: success, errors, bugs, restarts and the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm_lite.api.errors import Conflict
from kcm_lite.client.ratelimit import ItemExponentialFailureRateLimiter
from kcm_lite.client.workqueue import RateLimitingQueue
from kcm_lite.clock import VirtualClock
from kcm_lite.reconcile.worker import process_next_work_item, run_worker, start_workers
from kcm_lite.trace import Note, QueueOp, SyncEnd, SyncStart, Trace

Sync = Callable[[str], Awaitable[None]]


class World:
    """A clock, a trace, and a queue whose keys fail 1, 2, 4, ... s."""

    def __init__(self, *, detail: bool = True) -> None:
        self.clock, self.trace = VirtualClock(), Trace(detail=detail)
        self.queue: RateLimitingQueue[str] = RateLimitingQueue(
            "q",
            clock=self.clock,
            trace=self.trace,
            limiter=ItemExponentialFailureRateLimiter(1, 1000),
        )
        self.stop = asyncio.Event()

    def start(self, sync: Sync, n: int = 1, **options: Any) -> list[asyncio.Task[None]]:
        options = {"clock": self.clock, "trace": self.trace, "controller": "web", **options}
        return start_workers(self.queue, sync, n, **options)

    def errors(self) -> list[tuple[float, str]]:
        return [(end.t, end.error) for end in self.trace.of(SyncEnd)]


def failing(*outcomes: Exception | None) -> Sync:
    """A sync that fails as told, then succeeds for ever."""
    plan = iter(outcomes)

    async def sync(key: str) -> None:
        if (error := next(plan, None)) is not None:
            raise error

    return sync


def test_an_error_brings_the_key_back_later_and_success_forgets_it() -> None:
    world = World()
    world.queue.add("a")
    world.start(failing(Conflict("object has been modified"), OSError("boom"), None, ValueError()))
    world.clock.settle()
    assert world.errors() == [(0, "object has been modified"), (1, "boom"), (3, "")]
    assert world.queue.num_requeues("a") == 0
    world.queue.add("a")
    world.clock.settle()
    assert world.errors()[3:] == [(3, "ValueError"), (4, "")], "an error without text is named"


def test_what_is_written_down_and_in_which_order() -> None:
    world = World()
    world.queue.add("a")
    world.start(failing(OSError("boom")))
    world.clock.settle()
    log = [getattr(r, "op", type(r).__name__) for r in world.trace.records]
    failed = ["add", "get", "SyncStart", "SyncEnd", "add_rate_limited", "done"]
    assert log == [*failed, "add", "get", "SyncStart", "SyncEnd", "forget", "done"]
    assert [(s.controller, s.worker, s.key) for s in world.trace.of(SyncStart)] == [
        ("web", 0, "a")
    ] * 2


def test_without_detail_only_bugs_are_written_down() -> None:
    world = World(detail=False)
    world.queue.add("a")
    world.start(failing(OSError("boom"), KeyError("status")))
    with pytest.raises(KeyError):
        world.clock.settle()
    (note,) = world.trace.records
    assert note == Note(1.0, "panic", "web, 'a': KeyError('status')")


@pytest.mark.parametrize(
    "bug",
    [
        AttributeError("'NoneType' object has no attribute 'spec'"),
        IndexError("list index out of range"),
        ZeroDivisionError("division by zero"),
        TypeError("unsupported operand"),
        AssertionError(),
        ExceptionGroup("batch", [OSError("boom"), ExceptionGroup("inner", [KeyError("uid")])]),
    ],
    ids=lambda bug: type(bug).__name__,
)
def test_a_bug_is_written_down_and_ends_the_run(bug: Exception) -> None:
    world = World()
    world.start(failing(bug), 2)
    world.clock.call_at(5, world.queue.add, "a")
    with pytest.raises(type(bug)) as raised:
        world.clock.run_until(60)
    assert (raised.value, world.clock.time()) == (bug, 5)
    assert [note.source for note in world.trace.of(Note)] == ["panic"]
    assert world.trace.records[-1].op == "done", "the key is given back first"  # type: ignore[attr-defined]
    assert not list(world.trace.of(QueueOp, op="add_rate_limited"))


def test_errors_gathered_without_a_bug_are_an_error() -> None:
    world = World()
    world.queue.add("a")
    world.start(failing(ExceptionGroup("batch", [OSError("boom"), Conflict("stale")])))
    world.clock.settle()
    assert [error != "" for _, error in world.errors()] == [True, False]


def test_a_trace_is_not_needed() -> None:
    clock = VirtualClock()
    queue: RateLimitingQueue[str] = RateLimitingQueue(clock=clock)
    queue.add("a")
    start_workers(queue, failing(OSError("boom")), 1, clock=clock, controller="web")
    assert clock.settle() == 0.005
    queue.add("a")
    start_workers(queue, failing(KeyError("x")), 1, clock=clock, controller="web")
    clock.settle()  # the first worker took it


def test_n_workers_sync_n_keys_at_once() -> None:
    world = World()

    async def sync(key: str) -> None:
        await world.clock.sleep(1)

    for n in range(10):
        world.queue.add(f"k{n}")
    world.start(sync, 5)
    world.clock.settle()
    assert world.clock.time() == 2
    assert {s.worker for s in world.trace.of(SyncStart)} == set(range(5))


@pytest.mark.parametrize("n", [0, -3])
def test_no_workers(n: int) -> None:
    world = World()
    world.queue.add("a")
    assert world.start(failing(), n) == []
    world.clock.settle()
    assert len(world.queue) == 1


def test_a_worker_that_returned_is_started_again_after_a_second() -> None:
    world = World()
    world.queue.shut_down()
    (task,) = world.start(failing(), stop=world.stop)
    world.clock.run_until(0.2)
    world.queue.shutting_down = False  # nobody does this; it makes the restart visible
    world.queue.add("a")
    world.clock.run_until(0.999)
    assert world.errors() == []
    world.clock.run_until(1)
    assert world.errors() == [(1, "")]
    assert not task.done()


def test_the_end_in_good_order() -> None:
    world = World()

    async def sync(key: str) -> None:
        await world.clock.sleep(1)

    for key in "abcd":
        world.queue.add(key)
    tasks = world.start(sync, 2, stop=world.stop)
    world.clock.run_until(0.5)
    world.stop.set()
    world.queue.shut_down()
    world.queue.add("e")
    world.clock.run(asyncio.wait(tasks))
    assert world.clock.time() == 2, "what waits is still synced, and nobody waits for a restart"
    assert [s.key for s in world.trace.of(SyncStart)] == list("abcd")


def test_an_idle_worker_lets_the_clock_settle_and_cancels() -> None:
    world = World()
    (task,) = world.start(failing())
    assert world.clock.settle() == 0
    task.cancel()
    world.clock.settle()
    assert task.cancelled()


def test_a_sync_that_is_cancelled_gives_its_key_back_and_is_no_error() -> None:
    world = World()

    async def sync(key: str) -> None:
        await world.clock.sleep(10)

    world.queue.add("a")
    (task,) = world.start(sync)
    world.clock.run_until(1)
    task.cancel()
    world.clock.settle()
    assert not world.queue.processing
    assert world.errors() == []
    assert world.queue.num_requeues("a") == 0


def test_one_step_by_hand() -> None:
    world = World()
    world.queue.add("a")
    options: dict[str, Any] = {"clock": world.clock, "controller": "web", "worker": 0}
    step = process_next_work_item(world.queue, failing(), **options)
    assert world.clock.run(step) is True
    world.queue.shut_down()
    step = process_next_work_item(world.queue, failing(), **options)
    assert world.clock.run(step) is False
    world.clock.run(run_worker(world.queue, failing(), **options))


@given(
    fail=st.lists(st.booleans(), max_size=30),
    events=st.lists(st.tuples(st.integers(0, 20), st.sampled_from("abc")), min_size=1, max_size=15),
    workers=st.integers(1, 4),
)
def test_every_key_ends_with_a_success(
    fail: list[bool], events: list[tuple[int, str]], workers: int
) -> None:
    """Whatever fails, no key is lost, none is synced twice at once, and all are forgotten."""
    world = World()
    plan, held = iter(fail), set[str]()

    async def sync(key: str) -> None:
        assert key not in held
        held.add(key)
        await world.clock.sleep(0.3)
        held.remove(key)
        if next(plan, False):
            raise OSError("boom")

    world.start(sync, workers)
    for at, key in events:
        world.clock.call_at(at / 10, world.queue.add, key)
    world.clock.settle()
    for key in {key for _, key in events}:
        assert list(world.trace.of(SyncEnd, key=key))[-1].error == ""
        assert world.queue.num_requeues(key) == 0
    failures = sum(end.error != "" for end in world.trace.of(SyncEnd))
    assert len(list(world.trace.of(SyncEnd))) <= len(events) + failures
    assert not world.queue.dirty
    assert not world.queue.processing
