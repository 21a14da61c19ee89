# Generated from book/06_work_queue.ipynb by tools/tangle.py; edit it there.

"""When to try again: how long a key that failed has to wait.

>>> limiter: RateLimiter[str] = ItemExponentialFailureRateLimiter(base=0.005, maximum=1000)
>>> [limiter.when("default/web") for _ in range(4)]
[0.005, 0.01, 0.02, 0.04]
>>> limiter.forget("default/web")
>>> limiter.when("default/web")
0.005

See: chapter *The work queue*, section *How much later?*; client-go
``util/workqueue/default_rate_limiters.go`` and ``golang.org/x/time/rate``.
"""

from __future__ import annotations

from collections.abc import Hashable
from math import inf
from typing import Generic, Protocol, TypeVar

from kcm_lite.clock import Clock
from kcm_lite.eventloop import SECOND

# %% book/06_work_queue.ipynb#ef7167e7
T = TypeVar("T", bound=Hashable)
T_contra = TypeVar("T_contra", contravariant=True)


class RateLimiter(Protocol[T_contra]):
    """Decides how long a key waits before it is tried again."""

    def when(self, item: T_contra) -> float:
        """Count a failure of ``item`` and return its delay in seconds."""

    def forget(self, item: T_contra) -> None:
        """Forget the failures of ``item``."""

    def num_requeues(self, item: T_contra) -> int:
        """How many failures of ``item`` are remembered."""


# %% book/06_work_queue.ipynb#3b97d0da
class _PerItem(Generic[T]):
    """Counts failures by key."""

    __slots__ = ("_failures",)

    def __init__(self) -> None:
        self._failures: dict[T, int] = {}

    def forget(self, item: T) -> None:
        """Forget the failures of ``item``."""
        self._failures.pop(item, None)

    def num_requeues(self, item: T) -> int:
        """How many failures of ``item`` are remembered."""
        return self._failures.get(item, 0)

    def _count(self, item: T) -> int:
        failures = self._failures[item] = self._failures.get(item, 0) + 1
        return failures


# %% book/06_work_queue.ipynb#6d32466d
LONGEST = 2**63 - 1
"""The longest delay in nanoseconds, 292 years: what Go can say."""


class ItemExponentialFailureRateLimiter(_PerItem[T]):
    """Doubles a key's delay with each of its failures.

    Args:
        base: Delay after the first failure, in seconds.
        maximum: The longest delay, in seconds.
    """

    __slots__ = ("_base", "_maximum")

    def __init__(self, base: float, maximum: float) -> None:
        super().__init__()
        self._base, self._maximum = round(base * SECOND), round(maximum * SECOND)

    def when(self, item: T) -> float:
        """Count a failure of ``item`` and return ``base * 2**(failures before)``, in seconds."""
        failures = self._count(item)
        delay = self._base * (2.0 ** (failures - 1) if failures <= 1024 else inf)
        if delay > float(LONGEST):
            return self._maximum / SECOND
        return min(_int64(delay), self._maximum) / SECOND


def _int64(value: float) -> int:
    """Cut a float to Go's int64; what does not fit (2**63, not a number) is the smallest one."""
    return int(value) if -(2.0**63) <= value < 2.0**63 else -(2**63)


# %% book/06_work_queue.ipynb#535e7b14
class ItemFastSlowRateLimiter(_PerItem[T]):
    """Gives a key so many quick retries, then slow ones.

    Args:
        fast: Delay of the first ``max_fast`` failures, in seconds.
        slow: Delay of all later ones, in seconds.
        max_fast: How many failures are quick.
    """

    __slots__ = ("_fast", "_max_fast", "_slow")

    def __init__(self, fast: float, slow: float, max_fast: int) -> None:
        super().__init__()
        self._fast, self._slow, self._max_fast = fast, slow, max_fast

    def when(self, item: T) -> float:
        """Count a failure of ``item`` and return its delay in seconds."""
        return self._fast if self._count(item) <= self._max_fast else self._slow


# %% book/06_work_queue.ipynb#5741700d
class MaxOfRateLimiter(Generic[T]):
    """Asks several limiters and takes the longest delay."""

    __slots__ = ("_limiters",)

    def __init__(self, *limiters: RateLimiter[T]) -> None:
        self._limiters = limiters

    def when(self, item: T) -> float:
        """Count a failure of ``item`` with every limiter and return the longest delay."""
        longest = 0.0
        for limiter in self._limiters:
            delay = limiter.when(item)
            if delay > longest:
                longest = delay
        return longest

    def forget(self, item: T) -> None:
        """Tell every limiter to forget ``item``."""
        for limiter in self._limiters:
            limiter.forget(item)

    def num_requeues(self, item: T) -> int:
        """The most failures that any limiter remembers."""
        return max((limiter.num_requeues(item) for limiter in self._limiters), default=0)


# %% book/06_work_queue.ipynb#59f3ced4
class TokenBucket:
    """Lets ``qps`` events a second through, and up to ``burst`` at once after a quiet time.

    Args:
        qps: Tokens that fall into the bucket each second; infinite: no limit.
        burst: The most tokens that the bucket holds. It starts full.
    """

    __slots__ = ("_clock", "_last", "_tokens", "burst", "qps")

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self.qps, self.burst, self._clock = qps, burst, clock
        self._tokens, self._last = float(burst), round(clock.time() * SECOND)

    def reserve(self) -> float:
        """Take a token, a future one if need be, and return the seconds until it is there."""
        return _take(self, LONGEST) / SECOND

    def try_accept(self) -> bool:
        """Take a token if there is one now."""
        return _take(self, 0) == 0

    async def wait(self) -> None:
        """Take a token and wait until it is there.

        Raises:
            ValueError: No token can ever come: the bucket holds none.
        """
        if self.burst < 1 and self.qps != inf:
            raise ValueError(f"a token bucket of burst {self.burst} never lets anything through")
        delay = self.reserve()
        if delay:
            await self._clock.sleep(delay)


# %% book/06_work_queue.ipynb#427b2dde
def _take(bucket: TokenBucket, patience: int) -> int:
    """Take one token if it comes within ``patience``; nanoseconds until then, else ``LONGEST``."""
    if bucket.qps == inf:
        return 0
    now = round(bucket._clock.time() * SECOND)
    seconds, nanoseconds = divmod(now - bucket._last, SECOND)
    come = (seconds + nanoseconds / SECOND) * max(bucket.qps, 0.0)
    tokens = min(bucket._tokens + come, float(bucket.burst)) - 1.0
    delay = 0 if tokens >= 0 else _time_for(-tokens, bucket.qps)
    if bucket.burst < 1 or delay > patience:
        return LONGEST
    bucket._last, bucket._tokens = now, tokens
    return max(delay, 0)


def _time_for(tokens: float, qps: float) -> int:
    """Nanoseconds in which ``tokens`` fall at ``qps``."""
    if qps <= 0:
        return LONGEST
    duration = tokens / qps * SECOND
    return LONGEST if duration > float(LONGEST) else _int64(duration)


# %% book/06_work_queue.ipynb#79e3fd2c
class BucketRateLimiter(Generic[T]):
    """Limits all keys together, with one token bucket; it knows no key by name."""

    __slots__ = ("_bucket",)

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self._bucket = TokenBucket(qps, burst, clock)

    def when(self, item: T) -> float:
        """Return the seconds until the next token is there, and take it."""
        return self._bucket.reserve()

    def forget(self, item: T) -> None:
        """Do nothing: a token that was taken is gone."""

    def num_requeues(self, item: T) -> int:
        """Always 0."""
        return 0


def default_controller_rate_limiter(clock: Clock) -> RateLimiter[Hashable]:
    """5 ms doubling to 1000 s a key; 10 retries a second, burst 100, for all keys together."""
    return MaxOfRateLimiter(
        ItemExponentialFailureRateLimiter(0.005, 1000), BucketRateLimiter(10, 100, clock)
    )


def default_item_based_rate_limiter() -> RateLimiter[Hashable]:
    """1 ms doubling to 1000 s a key; no limit for all keys together."""
    return ItemExponentialFailureRateLimiter(0.001, 1000)
