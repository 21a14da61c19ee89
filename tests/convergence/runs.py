"""One run to its end: the state that is reached, whether it lasts, and which promises were broken.

A run goes on after the scenario's ``until``, up to `PATIENCE` seconds, until nothing is left to
happen. A retry may wait long: a Job's back-off ten minutes, a work queue's a thousand seconds.

Runs with a fault after the k-th write, for many k, share their beginning: one run forks a process
where each fault begins. What comes out is the same as with ``afterWrite: k`` in a scenario file.
"""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from kcm_lite.sim.cluster import Cluster
from kcm_lite.sim.endstate import EndState, end_state
from kcm_lite.sim.faults import Fault
from kcm_lite.sim.invariants import Violation, violations
from kcm_lite.sim.manifests import Inert, live_owners
from kcm_lite.sim.scenario import Scenario, cluster_of
from kcm_lite.sim.steps import ActionFailed, perform

PATIENCE = 1500.0
STAY = 300.0  # seconds for which the end must last
RETRY, RETRIES = 1.0, 60  # a user whose object is not there yet tries again


@dataclass(frozen=True)
class Ending:
    """How a run came out.

    Attributes:
        state: What was reached.
        later: The same, `STAY` seconds later.
        broken: Promises that were broken on the way.
        writes: How many writes the manager committed.
        moved: Places of actions that were done later than planned, and when.
        error: What ended the run, if it was not its time.
    """

    state: EndState
    later: EndState
    broken: tuple[Violation, ...] = ()
    writes: int = 0
    moved: tuple[tuple[str, float], ...] = ()
    error: str = ""


NOWHERE = EndState(())


def run_to_end(scenario: Scenario) -> Ending:
    """Run a scenario, and on until nothing is left to happen."""
    return finish(cluster_of(scenario, detail=False), scenario)


def finish(cluster: Cluster, scenario: Scenario) -> Ending:
    """Do what a scenario says to a cluster, and go on until nothing is left to happen."""
    try:
        moved = play(cluster, scenario)
        cluster.settle(until=cluster.now + PATIENCE)
        state = end_state(cluster)
        cluster.run_for(STAY)
        later = end_state(cluster)
        broken = tuple(violations(cluster.trace))
        return Ending(state, later, broken, cluster.transport.writes, moved)
    except Exception as error:  # a crash of a controller is a finding like any other
        return Ending(NOWHERE, NOWHERE, error=f"{type(error).__name__}: {error}")
    finally:
        cluster.close()


def run_forked(
    scenario: Scenario, faults: Sequence[Fault], ks: Iterable[int]
) -> tuple[Ending, dict[int, Ending]]:
    """Run a scenario without faults, and for each k once with all of them after the k-th write.

    Returns:
        How the run without came out, and those with, by k.
    """
    cluster = cluster_of(scenario, detail=False)
    found: dict[int, Ending] = {}
    answer_to: int | None = None  # in a child: the pipe to its parent

    def part(k: int) -> None:
        nonlocal answer_to
        read, write = os.pipe()
        child = os.fork()
        if child:
            os.close(write)
            found[k] = _answer(read, child)
            return
        os.close(read)
        answer_to = write
        gc.disable()  # it will not live long
        asyncio._set_running_loop(cluster.clock)  # asyncio forgets its loop in a fork
        cluster.transport.triggers.clear()
        for fault in faults:
            cluster.inject(fault)

    cluster.transport.triggers = [(k, partial(part, k)) for k in ks]
    try:
        ending = finish(cluster, scenario)
        if answer_to is not None:
            with open(answer_to, "wb") as pipe:
                pickle.dump(ending, pipe)
        return ending, found
    finally:
        if answer_to is not None:
            os._exit(0)  # nobody else's cleaning up


def _answer(read: int, child: int) -> Ending:
    """Return what a child says."""
    try:
        with open(read, "rb") as pipe:
            ending: Ending = pickle.load(pipe)
            return ending
    except (EOFError, pickle.UnpicklingError):
        return Ending(NOWHERE, NOWHERE, error="the run's process ended without an answer")
    finally:
        os.waitpid(child, 0)


def play(cluster: Cluster, scenario: Scenario) -> tuple[tuple[str, float], ...]:
    """Do what a scenario says; what finds nothing to act on is done later.

    Raises:
        ActionFailed: It could not be done later, either.
    """
    for obj in scenario.objects:
        if isinstance(obj, Inert):
            cluster.put(obj)
        else:
            cluster.create(live_owners(obj, cluster.server))
    moved = []
    for step in scenario.actions:
        if step.at > scenario.until:
            break
        cluster.run_until(max(step.at, cluster.now))
        for attempt in range(RETRIES + 1):
            try:
                perform(cluster, step)
                break
            except ActionFailed:
                if attempt == RETRIES:
                    raise
                cluster.run_for(RETRY)
        if cluster.now != step.at:
            moved.append((step.where, cluster.now))
    cluster.run_until(max(scenario.until, cluster.now))
    return tuple(moved)
