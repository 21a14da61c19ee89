"""Faults at work: each begins when its time has come, does its harm, and is noted in the trace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, TypeVar

from kcm_lite.api.errors import InternalError, ServerTimeout, TooManyRequests
from kcm_lite.api.meta import Object
from kcm_lite.api.request import Request
from kcm_lite.api.scheme import BY_TYPE
from kcm_lite.apiserver.registry import conflict
from kcm_lite.sim import faults
from kcm_lite.sim.chance import draw
from kcm_lite.sim.check import BadInput, Problem
from kcm_lite.sim.durations import stamp
from kcm_lite.sim.faultywire import Fate, WatchRule
from kcm_lite.sim.nodedeath import die
from kcm_lite.sim.olderreplica import OlderReplica, version_at
from kcm_lite.sim.parts import Parts
from kcm_lite.sim.podchaos import hit, hittable
from kcm_lite.trace import Note

T = TypeVar("T")
SOURCE = "fault"
CHANGING = frozenset({"update", "patch", "delete"})
HTTP = {"create": "post", "update": "put", "deletecollection": "delete"}
HTTP_TIMEOUT = "Timeout: request did not complete within the allotted timeout"
Undo = Callable[[], None]
End = float | None
"""The second at which a fault ends; None: never."""


class Harm:
    """One fault of a cluster: what it does, and what is still to come of it.

    Attributes:
        cluster: Whose.
        fault: What is wrong.
        number: Which of the cluster's faults it is.
        plans: Its timers and tasks.
    """

    def __init__(self, cluster: Parts, fault: faults.Fault, number: int) -> None:
        self.cluster, self.fault, self.number = cluster, fault, number
        self.plans: list[asyncio.TimerHandle | asyncio.Task[Any]] = []

    def later(self, delay: float, act: Callable[..., None], *args: Any) -> asyncio.TimerHandle:
        """Act some seconds from now, unless the plan is cancelled."""

        def do() -> None:
            self.plans.remove(plan)
            act(*args)

        plan: asyncio.TimerHandle = self.cluster.clock.call_later(delay, do)
        self.plans.append(plan)
        return plan

    def note(self, text: str, **data: Any) -> None:
        """Record what happens; ``over`` says of what follows whether the harm ends with it."""
        data = {"fault": self.fault.fault, "number": self.number, **data}
        self.cluster.trace.write(Note(self.cluster.now, SOURCE, text, data))


class Injection:
    """The faults of a cluster.

    Attributes:
        waiting: How many have not begun.
        begun: The others.
    """

    def __init__(self, cluster: Parts, seed: int) -> None:
        self.cluster, self.seed = cluster, seed
        self.count = self.waiting = 0
        self.begun: list[Harm] = []

    @property
    def busy(self) -> bool:
        """Whether something is still to come of them."""
        plans = [plan for harm in self.begun for plan in harm.plans]
        return self.waiting > 0 or any(not plan.cancelled() for plan in plans)

    def add(self, fault: faults.Fault) -> None:
        """Let a fault happen when it says; at once, if that is past.

        Raises:
            BadInput: It would be over already.
        """
        cluster = self.cluster
        over = fault.until if isinstance(fault, faults.Window) else None
        if over is not None and over < cluster.now:
            text = f"got {over:g}, and it is t={cluster.now:g} already"
            raise BadInput([Problem("until", text)])
        self.count += 1
        harm = Harm(cluster, fault, self.count)
        rng = Random(f"{self.seed}/fault/{self.count}")
        self.waiting += 1
        if fault.after_write is not None:
            cluster.transport.triggers.append((fault.after_write, lambda: self._begin(harm, rng)))
        elif fault.at > cluster.now:
            cluster.clock.call_at(fault.at, self._begin, harm, rng)
        else:
            self._begin(harm, rng)

    def _begin(self, harm: Harm, rng: Random) -> None:
        self.waiting -= 1
        self.begun.append(harm)
        fault, now = harm.fault, self.cluster.now
        end = fault.end(now) if isinstance(fault, faults.Window) else None
        undo = BEGIN[type(fault)](harm, fault, rng, end)
        if undo is not None and end is not None:
            harm.later(end - now, _end, harm, undo)


def _end(harm: Harm, undo: Undo) -> None:
    undo()
    harm.note(f"{harm.fault.fault} is over", over=True)


def chance(rate: float, rng: Random) -> bool:
    """Whether it happens this time."""
    return rate == 1 or rng.random() < rate


def standing(rules: list[T], rule: T) -> Undo:
    """Put up a rule; return what takes it down."""
    rules.append(rule)
    return lambda: rules.remove(rule)


def watches_of(resource: str | None) -> WatchRule:
    """Return whether a watch is of a resource; None: of any."""
    return lambda kind: not resource or BY_TYPE[kind].plural == resource


def until(end: End) -> str:
    """Say until when."""
    return "" if end is None else f" until {stamp(end)}"


def what(resource: str | None) -> str:
    """Say which watches."""
    return f"of {resource}" if resource else "of everything"


# ---- calls


def concerns(fault: faults.CallError | faults.Latency, request: Request) -> bool:
    """Whether a fault is about a call."""
    return (
        (not fault.resource or BY_TYPE[request.type].plural == fault.resource)
        and (not fault.verb or request.verb == fault.verb)
        and (not fault.agent or request.agent == fault.agent)
    )


def fate_of(fault: faults.CallError, request: Request) -> Fate:
    """Return what a failing call comes to."""
    resource = BY_TYPE[request.type]
    ask = f"({HTTP.get(request.verb, request.verb)} {resource.group_resource})"
    match fault.error:
        case "conflict":
            why = "the object has been modified; please apply your changes to the latest version"
            return Fate(conflict(resource.group_resource, request.name, f"{why} and try again"))
        case "throttled":
            text = "the server has received too many requests and has asked us to try again later"
            return Fate(TooManyRequests(f"{text} {ask}", retry_after=fault.retry_after))
        case "internal":
            text = 'an error on the server ("unknown") has prevented the request from succeeding'
            return Fate(InternalError(f"{text} {ask}"))
        case "unreachable":
            return Fate(ConnectionRefusedError("connection refused"))
        case "reset":
            return Fate(ConnectionResetError("connection reset by peer"), done=True)
        case error:
            done = error == "timeoutAfterWrite"
            return Fate(ServerTimeout(HTTP_TIMEOUT), done, fault.after)


def call_error(harm: Harm, fault: faults.CallError, rng: Random, end: End) -> Undo:
    """Let calls fail."""
    left = fault.times

    def judge(request: Request) -> Fate | None:
        nonlocal left
        if left == 0 or not concerns(fault, request):
            return None
        if fault.error == "conflict" and request.verb not in CHANGING:
            return None
        if not chance(fault.rate, rng):
            return None
        left = None if left is None else left - 1
        resource = "/".join(filter(None, (BY_TYPE[request.type].plural, request.subresource)))
        text = f"{request.agent}: {request.verb} {resource} meets {fault.error}"
        harm.note(text, error=fault.error, agent=request.agent, name=request.name)
        return fate_of(fault, request)

    return standing(harm.cluster.transport.failing, judge)


def latency(harm: Harm, fault: faults.Latency, rng: Random, end: End) -> Undo:
    """Let calls and watch events take another time."""
    wire, undo = harm.cluster.transport, list[Undo]()
    if (call := fault.call) is not None:

        def call_time(request: Request) -> float | None:
            return draw(call, rng) if concerns(fault, request) else None

        undo.append(standing(wire.call_times, call_time))
    if (way := fault.watch) is not None:
        mine = watches_of(fault.resource)

        def watch_time(kind: type[Object]) -> float:
            return max(0.0, draw(way, rng) - wire.latency.watch) if mine(kind) else 0.0

        undo.append(standing(wire.watch_times, watch_time))
    harm.note(f"other latencies {what(fault.resource)}{until(end)}")

    def undo_all() -> None:
        for act in undo:
            act()

    return undo_all


# ---- watches


def watch_lag(harm: Harm, fault: faults.WatchLag, rng: Random, end: End) -> Undo:
    """Let watch events come later."""
    mine = watches_of(fault.resource)

    def late(kind: type[Object]) -> float:
        return draw(fault.seconds, rng) if mine(kind) else 0.0

    harm.note(f"watches {what(fault.resource)} lag behind{until(end)}")
    return standing(harm.cluster.transport.watch_times, late)


def stall_watch(harm: Harm, fault: faults.StallWatch, rng: Random, end: End) -> Undo:
    """Hold watch events back until the end."""
    mine, clock = watches_of(fault.resource), harm.cluster.clock
    assert end is not None

    def held(kind: type[Object]) -> float:
        return end - clock.time() if mine(kind) else 0.0

    harm.note(f"watches {what(fault.resource)} are silent{until(end)}")
    return standing(harm.cluster.transport.watch_times, held)


def drop_watch(harm: Harm, fault: faults.DropWatch, rng: Random, end: End) -> Undo | None:
    """Break watches."""
    wire, mine = harm.cluster.transport, watches_of(fault.resource)
    broken = wire.break_watches(mine, expired=fault.expired)
    many = "1 watch breaks" if broken == 1 else f"{broken} watches break"
    gone = ", and the server has forgotten where they were" if fault.expired else ""
    refused = f"; new ones are refused{until(end)}" if end is not None else ""
    harm.note(f"{many} ({what(fault.resource)}){gone}{refused}", broken=broken)
    return None if end is None else standing(wire.refusing, mine)


def duplicate_events(harm: Harm, fault: faults.DuplicateEvents, rng: Random, end: End) -> Undo:
    """Let watch events come twice."""
    mine = watches_of(fault.resource)
    harm.note(f"watch events {what(fault.resource)} come twice{until(end)}")
    rules = harm.cluster.transport.doubling
    return standing(rules, lambda kind: mine(kind) and chance(fault.rate, rng))


# ---- the manager


def stale_cache(harm: Harm, fault: faults.StaleCache, rng: Random, end: End) -> Undo:
    """Let a manager that starts read an older replica."""
    cluster, store = harm.cluster, harm.cluster.server.store
    version = version_at(store, cluster.trace.records, cluster.now - fault.behind) - fault.versions
    version = max(version, 1)
    assert end is not None
    text = f"a manager that starts reads a replica that is {store.revision - version} changes"
    harm.note(f"{text} behind{until(end)}", version=version)
    return standing(cluster.manager.ways, lambda: OlderReplica(cluster.transport, version, end))


def crash_manager(harm: Harm, fault: faults.CrashManager, rng: Random, end: End) -> None:
    """Kill the manager, and start it again."""
    manager = harm.cluster.manager
    if not manager.alive:
        harm.note("no manager runs that could crash")
        return
    back = fault.restart_after
    again = "" if back is None else f", a new one starts in {back:g} s"
    harm.note(f"the manager crashes{again}", writes=harm.cluster.transport.writes)
    manager.kill()
    if back is not None:
        harm.later(back, restart, harm)


def restart(harm: Harm) -> None:
    """Start the manager, unless somebody else did."""
    if not harm.cluster.manager.alive:
        harm.note("the manager starts", over=True)
        harm.cluster.manager.start()


def lose_lease(harm: Harm, fault: faults.LoseLease, rng: Random, end: End) -> None:
    """Let another manager take over."""
    manager = harm.cluster.manager
    if not manager.alive:
        harm.note("no manager runs that could lose its lease")
        return
    old, late = manager.processes, fault.overlap > 0

    def stop() -> None:
        harm.note("the manager that has lost its lease ends", over=late)
        manager.kill(old)

    def take_over() -> None:
        harm.note("another manager leads", over=not late)
        manager.start()

    later = fault.taken_over_after
    harm.note(f"the manager loses its lease; another one leads in {later:g} s")
    if not late:
        stop()
    harm.later(later, take_over)
    if late:
        harm.later(later + fault.overlap, stop)


def clock_skew(harm: Harm, fault: faults.ClockSkew, rng: Random, end: End) -> Undo:
    """Set the manager's wall clock wrong."""
    manager = harm.cluster.manager
    manager.set_ahead(manager.ahead + fault.ahead)
    side = "ahead" if fault.ahead >= 0 else "behind"
    harm.note(f"the manager's clock is {abs(fault.ahead):g} s {side}{until(end)}")
    return lambda: manager.set_ahead(manager.ahead - fault.ahead)


# ---- nodes and pods


def node_death(harm: Harm, fault: faults.NodeDeath, rng: Random, end: End) -> None:
    """Let a machine fall silent."""
    die(harm.cluster, fault, partial(harm.note, node=fault.node), harm.later)


def pod_chaos(harm: Harm, fault: faults.PodChaos, rng: Random, end: End) -> Undo:
    """Hit pods at random."""

    async def strike() -> None:
        while True:
            await harm.cluster.clock.sleep(draw(fault.every, rng), background=True)
            if victims := list(hittable(harm.cluster, fault.selector or {})):
                seen = rng.choice(victims)
                name = seen.pod.metadata.name
                harm.note(f"Pod/{name}: {fault.effect}", pod=name)
                hit(harm.cluster, seen, fault.effect)

    harm.note(f"pods are hit at random: {fault.effect}{until(end)}")
    task = harm.cluster.clock.spawn(strike(), name="pod chaos")
    harm.plans.append(task)

    def stop() -> None:
        harm.plans.remove(task)
        task.cancel()

    return stop


BEGIN: dict[type[faults.Fault], Callable[..., Undo | None]] = {
    faults.CallError: call_error,
    faults.Latency: latency,
    faults.WatchLag: watch_lag,
    faults.StallWatch: stall_watch,
    faults.DropWatch: drop_watch,
    faults.DuplicateEvents: duplicate_events,
    faults.StaleCache: stale_cache,
    faults.CrashManager: crash_manager,
    faults.LoseLease: lose_lease,
    faults.NodeDeath: node_death,
    faults.ClockSkew: clock_skew,
    faults.PodChaos: pod_chaos,
}
"""What each kind does when it begins; what it returns ends it."""
