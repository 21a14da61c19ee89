# Generated from book/07_replicaset.ipynb by tools/tangle.py; edit it there.

"""Slow start: do a thing many times, carefully at first.

See: chapter *ReplicaSet*; upstream ``slowStartBatch``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

# %% book/07_replicaset.ipynb#edf2d2f6
SLOW_START_INITIAL_BATCH_SIZE = 1


async def slow_start_batch(
    count: int,
    initial_batch_size: int,
    fn: Callable[[], Awaitable[object]],
    *,
    on_batch: Callable[[int, int], None] | None = None,
) -> tuple[int, Exception | None]:
    """Call ``fn`` up to ``count`` times, in batches that double while everything goes well.

    The calls of a batch run at the same time. The first batch with a failure is the last.

    Args:
        count: How many calls are wanted.
        initial_batch_size: How many calls the first batch makes.
        fn: What to do.
        on_batch: Is told the size and the number of failures of every batch.

    Returns:
        The number of calls that succeeded, and the error that came first.
    """
    successes, remaining = 0, count
    size = min(initial_batch_size, remaining)
    while size > 0:
        errors = await _run_batch(size, fn)
        successes += size - len(errors)
        if on_batch is not None:
            on_batch(size, len(errors))
        if errors:
            return successes, errors[0]
        remaining -= size
        size = min(2 * size, remaining)
    return successes, None


# %% book/07_replicaset.ipynb#87be9f01
async def _run_batch(size: int, fn: Callable[[], Awaitable[object]]) -> list[Exception]:
    """Call ``fn`` ``size`` times at once; return the errors in the order in which they came."""
    errors: list[Exception] = []

    async def call() -> None:
        try:
            await fn()
        except Exception as error:
            errors.append(error)

    if size == 1:
        await call()
    else:
        await asyncio.gather(*[call() for _ in range(size)])
    return errors
