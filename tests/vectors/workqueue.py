"""Work queues and rate limiters against client-go's."""

from __future__ import annotations

from typing import Any

from kcm_lite.client.ratelimit import (
    BucketRateLimiter,
    ItemExponentialFailureRateLimiter,
    ItemFastSlowRateLimiter,
    MaxOfRateLimiter,
    RateLimiter,
)
from kcm_lite.client.workqueue import DelayingQueue, ShutDown, WorkQueue
from kcm_lite.clock import VirtualClock
from tests.vectors import Adapter

DAY_AND_AN_HOUR = 25 * 3600


def limit(limiter: RateLimiter[str], ops: list[dict[str, Any]], clock: VirtualClock) -> Any:
    """Run the operations on a limiter; one result each."""
    results: list[float | None] = []
    for op in ops:
        if op["op"] == "sleep":
            clock.run_for(op["seconds"])
            results.append(None)
        else:
            results.append(getattr(limiter, op["op"])(op["item"]))
    return {"results": results}


def item_exponential_failure(given: dict[str, Any]) -> Any:
    limiter = ItemExponentialFailureRateLimiter[str](given["base_delay"], given["max_delay"])
    return limit(limiter, given["ops"], VirtualClock())


def item_fast_slow(given: dict[str, Any]) -> Any:
    limiter = ItemFastSlowRateLimiter[str](
        given["fast_delay"], given["slow_delay"], given["max_fast_attempts"]
    )
    return limit(limiter, given["ops"], VirtualClock())


def bucket_rate_limiter(given: dict[str, Any]) -> Any:
    clock = VirtualClock()
    limiter = BucketRateLimiter[str](float(given["qps"]), given["burst"], clock)
    return limit(limiter, given["ops"], clock)


def default_controller_rate_limiter(given: dict[str, Any]) -> Any:
    clock = VirtualClock()
    limiter = MaxOfRateLimiter(
        ItemExponentialFailureRateLimiter[str](given["base_delay"], given["max_delay"]),
        BucketRateLimiter[str](float(given["qps"]), given["burst"], clock),
    )
    return limit(limiter, given["ops"], clock)


def queue_trace(given: dict[str, Any]) -> Any:
    """Run the operations on a queue; the length and the state after each."""
    clock, queue, drain = VirtualClock(), WorkQueue[str](), None
    results = []
    for op in given["ops"]:
        result: dict[str, Any] = {}
        match op["op"]:
            case "get":
                try:
                    result |= {"item": clock.run(queue.get()), "shutdown": False}
                except ShutDown:
                    result |= {"item": None, "shutdown": True}
            case "shut_down_with_drain":
                drain = clock.create_task(queue.shut_down_with_drain())
            case "shut_down":
                queue.shut_down()
            case step:
                getattr(queue, step)(op["item"])
        clock.settle()
        result |= {"len": len(queue), "shutting_down": queue.shutting_down}
        if drain is not None:
            result["drain_returned"] = drain.done()
        results.append(result)
    return {"results": results}


def delaying_queue(given: dict[str, Any]) -> Any:
    """Run the operations while a consumer takes every key as soon as it comes."""
    clock = VirtualClock()
    queue: DelayingQueue[str] = DelayingQueue(clock=clock)
    emerged: list[dict[str, Any]] = []

    async def consume() -> None:
        while True:
            try:
                item = await queue.get()
            except ShutDown:
                return
            emerged.append({"at": clock.time(), "item": item})
            queue.done(item)

    clock.spawn(consume(), name="consumer")
    for op in given["ops"]:
        match op["op"]:
            case "sleep":
                clock.run_for(op["seconds"])
            case "add_after":
                queue.add_after(op["item"], op["seconds"])
            case "add":
                queue.add(op["item"])
            case "shut_down":
                queue.shut_down()
        clock.run_for(0)
    clock.run_for(DAY_AND_AN_HOUR)
    return {"emerged": sorted(emerged, key=lambda e: (e["at"], e["item"]))}


ADAPTERS: dict[str, Adapter] = {
    "workqueue_bucket_rate_limiter": bucket_rate_limiter,
    "workqueue_default_controller_rate_limiter": default_controller_rate_limiter,
    "workqueue_delaying_queue": delaying_queue,
    "workqueue_item_exponential_failure": item_exponential_failure,
    "workqueue_item_fast_slow": item_fast_slow,
    "workqueue_queue_trace": queue_trace,
}
