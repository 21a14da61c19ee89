"""The process of a cluster's controllers: it can crash, and starts again knowing nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection

from kcm_lite.client.transport import Transport
from kcm_lite.sim.faultywire import FaultyWire
from kcm_lite.sim.process import Process
from kcm_lite.trace import Note, Record, Trace

NAME = "kube-controller-manager"

Build = Callable[[Process, Trace, int], None]
"""Builds and starts the controllers in a process; the number says how many there were before."""


class ProcessTrace(Trace):
    """The log of one process: it goes into the cluster's, until the process is dead."""

    __slots__ = ()

    def __init__(self, trace: Trace) -> None:
        super().__init__(detail=trace.detail)
        self.records, self.write = trace.records, trace.write

    def fall_silent(self) -> None:
        """Write nothing any more."""
        self.write = _forget


def _forget(record: Record) -> None:
    pass


class ManagerProcess:
    """The manager of a cluster, over all its lives.

    Args:
        wire: The way to the API server.
        trace: The cluster's log.
        build: Starts its controllers.

    Attributes:
        ways: Give the way to the API server that a new life takes; the latest counts, and without
            one it is the wire.
        ahead: Seconds by which its wall clock is ahead.
        lives: How many there were.
    """

    def __init__(self, wire: FaultyWire, trace: Trace, build: Build) -> None:
        self.wire, self.trace, self.build = wire, trace, build
        self.ways: list[Callable[[], Transport]] = []
        self.ahead = 0.0
        self.lives = 0
        self._traces: dict[Process, ProcessTrace] = {}

    @property
    def processes(self) -> list[Process]:
        """The processes that live; more than one while an old leader does not know it yet."""
        return list(self._traces)

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return bool(self._traces)

    def start(self) -> None:
        """Start a process: with empty caches, queues and expectations."""
        way = self.ways[-1]() if self.ways else self.wire
        process = Process(self.wire.clock, way, NAME, ahead=self.ahead)
        trace = self._traces[process] = ProcessTrace(self.trace)
        self.lives += 1
        self.build(process, trace, self.lives - 1)

    def kill(self, which: Collection[Process] | None = None) -> None:
        """End some processes, or all: what they had sent and is not there is lost.

        Nothing is left of a process: no task, no timer, no watch, and it records nothing more.
        """
        for process in list(self._traces) if which is None else which:
            if process in self._traces:
                self._traces.pop(process).fall_silent()
                self.wire.lose(process.transport.pending.values())
                process.kill()

    def set_ahead(self, seconds: float) -> None:
        """Set the wall clock, of this life and of those to come."""
        self.ahead = seconds
        for process in self.processes:
            process.clock.set_ahead(seconds)

    def note(self, text: str) -> None:
        """Record what becomes of it."""
        self.trace.write(Note(self.wire.clock.time(), "manager", text))
