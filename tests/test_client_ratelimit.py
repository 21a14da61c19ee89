"""Rate limiters: the delays, the overflow rules, and what a token bucket lets through."""

from __future__ import annotations

import asyncio
import doctest
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm_lite.client import ratelimit
from kcm_lite.client.ratelimit import (
    BucketRateLimiter,
    ItemExponentialFailureRateLimiter,
    ItemFastSlowRateLimiter,
    MaxOfRateLimiter,
    RateLimiter,
    TokenBucket,
    default_controller_rate_limiter,
    default_item_based_rate_limiter,
)
from kcm_lite.clock import VirtualClock

NEVER = 9223372036.854776  # seconds: the most that Go's time.Duration holds


def test_doctest() -> None:
    assert doctest.testmod(ratelimit).failed == 0


# By key


def test_controllers_delays_from_5_ms_to_1000_s() -> None:
    limiter = default_controller_rate_limiter(VirtualClock())
    delays = [limiter.when("a") for _ in range(20)]
    assert delays[:4] == [0.005, 0.01, 0.02, 0.04]
    assert delays[16:] == [327.68, 655.36, 1000, 1000]


def test_item_based_delays_begin_with_1_ms() -> None:
    limiter = default_item_based_rate_limiter()
    assert [limiter.when("a") for _ in range(3)] == [0.001, 0.002, 0.004]


def test_keys_do_not_share_their_failures() -> None:
    limiter = ItemExponentialFailureRateLimiter[str](1, 60)
    assert [limiter.when(key) for key in "aab"] == [1, 2, 1]
    limiter.forget("a")
    limiter.forget("never seen")
    assert (limiter.num_requeues("a"), limiter.num_requeues("b")) == (0, 1)
    assert limiter.when("a") == 1


@pytest.mark.parametrize(
    ("base", "maximum", "failures", "delay"),
    [
        (1e-9, 1e9, 60, 2**59 / 1e9),
        (1e-9, 1e9, 63, 1e9),
        (1e-9, 1e9, 64, -NEVER),  # 2**63 ns is not above float64(MaxInt64), and overflows
        (1e-9, 1e9, 65, 1e9),
        (0.005, 1000, 1100, 1000),  # 2**1099 is infinite
        (0, 1000, 1024, 0),
        (0, 1000, 1025, -NEVER),  # 0 times infinity is not a number, which compares as false
        (10, 5, 1, 5),
        (1, 0, 1, 0),
        (-1, 1000, 2, -2),
    ],
)
def test_overflow_as_in_go(base: float, maximum: float, failures: int, delay: float) -> None:
    limiter = ItemExponentialFailureRateLimiter[str](base, maximum)
    for _ in range(failures - 1):
        limiter.when("a")
    assert limiter.when("a") == delay


@pytest.mark.parametrize(("max_fast", "delays"), [(2, [1, 1, 9, 9]), (0, [9] * 4), (-1, [9] * 4)])
def test_fast_then_slow(max_fast: int, delays: list[float]) -> None:
    limiter = ItemFastSlowRateLimiter[str](1, 9, max_fast)
    assert [limiter.when("a") for _ in range(4)] == delays
    assert limiter.num_requeues("a") == 4
    limiter.forget("a")
    assert limiter.when("a") == delays[0]


# The token bucket


def test_burst_then_one_token_after_the_other() -> None:
    clock = VirtualClock()
    bucket = TokenBucket(10, 3, clock)
    assert [bucket.reserve() for _ in range(5)] == [0, 0, 0, 0.1, 0.2]
    clock.run_for(0.15)
    assert bucket.reserve() == 0.15
    clock.run_for(3600)
    assert [bucket.reserve() for _ in range(4)] == [0, 0, 0, 0.1], "an hour fills three, not more"


def test_try_accept_takes_nothing_when_it_fails() -> None:
    clock = VirtualClock()
    bucket = TokenBucket(1, 1, clock)
    assert [bucket.try_accept() for _ in range(3)] == [True, False, False]
    clock.run_for(0.5)
    assert not bucket.try_accept()
    clock.run_for(0.5)
    assert bucket.try_accept()


def test_wait() -> None:
    clock = VirtualClock()
    bucket = TokenBucket(2, 1, clock)

    async def main() -> list[float]:
        times = []
        for _ in range(3):
            await bucket.wait()
            times.append(clock.time())
        return times

    assert clock.run(main()) == [0, 0.5, 1]


def test_waiters_are_let_through_in_order() -> None:
    clock, passed = VirtualClock(), []
    bucket = TokenBucket(1, 1, clock)

    async def caller(n: int) -> None:
        await bucket.wait()
        passed.append((clock.time(), n))

    for n in range(4):
        clock.spawn(caller(n), name=f"caller-{n}")
    clock.settle()
    assert passed == [(0, 0), (1, 1), (2, 2), (3, 3)]


@pytest.mark.parametrize("burst", [0, -1])
def test_a_bucket_that_holds_nothing(burst: int) -> None:
    clock = VirtualClock()
    bucket = TokenBucket(10, burst, clock)
    assert (bucket.reserve(), bucket.try_accept()) == (NEVER, False)
    with pytest.raises(ValueError, match="never lets anything through"):
        clock.run(bucket.wait())


@pytest.mark.parametrize("qps", [0, -1])
def test_no_token_ever_comes(qps: float) -> None:
    clock = VirtualClock()
    bucket = TokenBucket(qps, 2, clock)
    assert bucket.reserve() == 0
    clock.run_for(3600)
    assert bucket.reserve() == 0, "time takes no token away"
    assert bucket.reserve() == NEVER


def test_the_buckets_overflow_as_in_go() -> None:
    """2**63 ns until the next token are a negative time in Go, so no delay; more is the longest."""
    bucket = TokenBucket(1e9 / 2**63, 1, VirtualClock())
    assert [bucket.reserve() for _ in range(3)] == [0, 0, NEVER]


def test_no_limit_needs_no_burst() -> None:
    clock = VirtualClock()
    bucket = TokenBucket(inf, 0, clock)
    assert (bucket.reserve(), bucket.try_accept()) == (0, True)
    clock.run(bucket.wait())
    assert clock.time() == 0


def test_a_cancelled_wait_stops_waiting() -> None:
    clock = VirtualClock()
    bucket = TokenBucket(1, 1, clock)

    async def main() -> float:
        await bucket.wait()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await bucket.wait()
        return clock.time()

    assert clock.run(main()) == 0.5


@given(
    qps=st.sampled_from([0.1, 1, 3, 10, 50]),
    burst=st.integers(1, 20),
    steps=st.lists(st.one_of(st.none(), st.floats(0, 30)), max_size=60),
)
def test_no_window_lets_more_through_than_burst_and_rate(
    qps: float, burst: int, steps: list[float | None]
) -> None:
    clock = VirtualClock()
    bucket = TokenBucket(qps, burst, clock)
    times: list[float] = []
    for step in steps:
        if step is None:
            times.append(clock.time() + bucket.reserve())
        else:
            clock.run_for(step)
    assert times == sorted(times)
    for i, begin in enumerate(times):
        for n, end in enumerate(times[i:], start=1):
            assert n <= burst + qps * (end - begin) + 1e-6


# All limiters


def test_the_bucket_knows_no_key() -> None:
    limiter = BucketRateLimiter[str](1, 1, VirtualClock())
    assert [limiter.when(key) for key in "abc"] == [0, 1, 2]
    limiter.forget("c")
    assert (limiter.when("c"), limiter.num_requeues("c")) == (3, 0)


def test_the_longest_delay_wins_and_every_limiter_counts() -> None:
    clock = VirtualClock()
    slow = ItemExponentialFailureRateLimiter[str](1, 60)
    limiter = MaxOfRateLimiter(slow, BucketRateLimiter[str](0.1, 2, clock))
    assert [limiter.when(key) for key in ("a", "a", "b")] == [1, 2, 10]
    assert slow.num_requeues("b") == 1, "the bucket's delay was longer; the key's failure counts"
    assert (limiter.num_requeues("a"), limiter.num_requeues("c")) == (2, 0)
    limiter.forget("a")
    assert limiter.num_requeues("a") == 0


def test_the_longest_of_none_and_of_a_negative_delay_is_zero() -> None:
    none: RateLimiter[str] = MaxOfRateLimiter()
    assert (none.when("a"), none.num_requeues("a")) == (0, 0)
    assert MaxOfRateLimiter(ItemExponentialFailureRateLimiter[str](-1, 60)).when("a") == 0
