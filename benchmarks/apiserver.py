"""What the API server and the wire cost: the four writes of each pod's life, and a watcher.

python -m benchmarks.apiserver [PODS]

Prints CPU time in microseconds a write. Ratios against the bare clock (two timers and one wake-up a
call, nothing else) say what is ours and what is the machine's.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from kcm_lite.api.core import Binding, Container, ObjectReference, Pod, PodSpec
from kcm_lite.api.meta import Condition, ObjectMeta, replace
from kcm_lite.api.request import Request, WatchEvent
from kcm_lite.apiserver.server import APIServer
from kcm_lite.apiserver.transport import InMemoryTransport
from kcm_lite.clock import VirtualClock
from kcm_lite.trace import Trace

SPEC = PodSpec(containers=(Container(name="web", image="nginx"),))
LABELS = {"app": "web"}
WRITES = 4
CROWD = 500  # pods that live at the same time, as a ReplicaSet's burst
REPEAT = 3

Call = Callable[[Request], Awaitable[Any]]


async def life(clock: VirtualClock, call: Call) -> None:
    """Create a pod, bind it, report it running, then ready."""
    meta = ObjectMeta(generate_name="web-", labels=LABELS)
    body = Pod(metadata=meta, spec=SPEC)
    pod = await call(Request(verb="create", type=Pod, namespace="default", body=body))
    name = pod.metadata.name
    node = Binding(metadata=ObjectMeta(name=name), target=ObjectReference(kind="Node", name="n1"))
    where = {"type": Pod, "namespace": "default", "name": name}
    await call(Request(verb="create", subresource="binding", body=node, **where))
    for ready in ("False", "True"):
        pod = await call(Request(verb="get", **where))
        condition = Condition(type="Ready", status=ready, last_transition_time=clock.timestamp())
        status = replace(pod.status, phase="Running", conditions=(condition,))
        body = replace(pod, status=status)
        await call(Request(verb="update", subresource="status", body=body, **where))


def server_only(pods: int, trace: Trace | None) -> float:
    """CPU seconds without a wire: the server's own work."""
    clock = VirtualClock()
    server = APIServer(clock, trace=trace)
    seen: list[WatchEvent] = []
    server.subscribe(Pod, seen.append)

    async def call(request: Request) -> Any:
        return server.handle(request)

    async def all_of_them() -> None:
        for _ in range(pods):
            await life(clock, call)

    return cpu(lambda: clock.run(all_of_them()))


def on_the_wire(pods: int, trace: Trace | None) -> float:
    """CPU seconds with the wire, a watcher of all pods, and many pods at a time."""
    clock = VirtualClock()
    server = APIServer(clock, trace=trace)
    wire = InMemoryTransport(server, clock, trace=trace)
    seen = 0

    async def direct(request: Request) -> Any:
        return server.handle(request)

    async def call(request: Request) -> Any:
        return await (direct if request.verb == "get" else wire.call)(request)

    async def watcher() -> None:
        nonlocal seen
        watch = wire.watch(Pod)
        while True:
            seen += len(await watch.next())

    async def main() -> None:
        clock.spawn(watcher(), name="watcher")
        for start in range(0, pods, CROWD):
            batch = min(CROWD, pods - start)
            await asyncio.gather(*(life(clock, call) for _ in range(batch)))
        await clock.sleep(1)

    seconds = cpu(lambda: clock.run(main()))
    assert seen == WRITES * pods, f"{seen} events of {WRITES * pods}"
    return seconds


def bare_clock(pods: int) -> float:
    """CPU seconds of the clock alone: as many calls, each two timers and one wake-up."""
    clock = VirtualClock()

    async def call() -> None:
        reply = asyncio.get_running_loop().create_future()
        clock.call_later(0.005, clock.call_later, 0.005, reply.set_result, None)
        await reply

    async def one() -> None:
        for _ in range(WRITES):
            await call()

    async def main() -> None:
        for start in range(0, pods, CROWD):
            await asyncio.gather(*(one() for _ in range(min(CROWD, pods - start))))

    return cpu(lambda: clock.run(main()))


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds that work takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    pods = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    rows: list[tuple[str, Callable[[], float]]] = [
        ("bare clock", lambda: bare_clock(pods)),
        ("server, no trace", lambda: server_only(pods, None)),
        ("server, with trace", lambda: server_only(pods, Trace())),
        ("wire and watcher, no trace", lambda: on_the_wire(pods, None)),
        ("wire and watcher, writes only", lambda: on_the_wire(pods, Trace(detail=False))),
        ("wire and watcher, all detail", lambda: on_the_wire(pods, Trace())),
    ]
    print(f"{pods:,} pods, {WRITES * pods:,} writes, best of {REPEAT}")
    print(f"{'':<32}{'seconds':>8}{'us/write':>10}{'ratio':>7}")
    unit = 0.0
    for name, run in rows:
        seconds = min(run() for _ in range(REPEAT))
        unit = unit or seconds
        each = 1e6 * seconds / (WRITES * pods)
        print(f"{name:<32}{seconds:>8.2f}{each:>10.1f}{seconds / unit:>7.2f}")


if __name__ == "__main__":
    main()
