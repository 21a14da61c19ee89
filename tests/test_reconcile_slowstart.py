"""Slow start: batch sizes, where it stops, what it returns."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm_lite.clock import VirtualClock
from kcm_lite.reconcile.slowstart import slow_start_batch


class Calls:
    """A function that counts its calls and fails on some of them."""

    def __init__(self, *failing: int) -> None:
        self.failing, self.made, self.batches = failing, 0, list[tuple[int, int]]()

    async def __call__(self) -> None:
        self.made += 1
        if self.made in self.failing:
            raise OSError(f"call {self.made}")

    def report(self, size: int, failures: int) -> None:
        self.batches.append((size, failures))


def start(count: int, calls: Calls, initial: int = 1) -> tuple[int, str]:
    done, error = asyncio.run(slow_start_batch(count, initial, calls, on_batch=calls.report))
    return done, str(error or "")


def test_ten_in_batches_of_1_2_4_and_the_rest() -> None:
    calls = Calls()
    assert start(10, calls) == (10, "")
    assert calls.batches == [(1, 0), (2, 0), (4, 0), (3, 0)]


def test_one_failure_of_two_leaves_two_successes_and_seven_untried() -> None:
    calls = Calls(3)
    assert start(10, calls) == (2, "call 3")
    assert calls.batches == [(1, 0), (2, 1)]
    assert calls.made == 3


def test_a_failing_batch_is_finished_before_it_stops() -> None:
    calls = Calls(4)
    assert start(100, calls) == (6, "call 4")
    assert calls.made == 7


@pytest.mark.parametrize("count", [0, -3])
def test_nothing_to_do(count: int) -> None:
    calls = Calls()
    assert start(count, calls) == (0, "")
    assert calls.made == 0


def test_the_error_returned_is_the_one_that_came_first_in_time() -> None:
    clock, number = VirtualClock(), 0

    async def fail_later_first() -> None:
        nonlocal number
        number += 1
        mine = number
        await clock.sleep(10 - mine)
        raise OSError(f"call {mine}")

    assert str(clock.run(slow_start_batch(3, 3, fail_later_first))[1]) == "call 3"


def test_the_calls_of_a_batch_overlap_and_the_batches_do_not() -> None:
    clock, times = VirtualClock(), list[float]()

    async def call() -> None:
        times.append(clock.time())
        await clock.sleep(1)

    clock.run(slow_start_batch(7, 1, call))
    assert times == [0, 1, 1, 2, 2, 2, 2]


def test_cancelling_cancels_the_batch() -> None:
    clock, cancelled = VirtualClock(), 0

    async def call() -> None:
        nonlocal cancelled
        try:
            await clock.sleep(1)
        except asyncio.CancelledError:
            cancelled += 1
            raise

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await slow_start_batch(2, 2, call)

    clock.run(main())
    assert cancelled == 2


@given(st.integers(0, 300), st.integers(1, 20), st.sets(st.integers(1, 300), max_size=4))
def test_never_more_calls_than_wanted_and_all_accounted_for(
    count: int, initial: int, failing: set[int]
) -> None:
    calls = Calls(*failing)
    done, error = start(count, calls, initial)
    failures = sum(n for _, n in calls.batches)
    assert calls.made <= count
    assert done + failures == calls.made == sum(size for size, _ in calls.batches)
    assert bool(error) == bool(failures) == (done < count)
    assert all(n == 0 for _, n in calls.batches[:-1])
    for (before, _), (after, _) in zip(calls.batches, calls.batches[1:], strict=False):
        assert after <= 2 * before
