"""Several managers in one cluster, of which one leads.

>>> replicas = Replicas(Cluster(controllers=()), 3)
>>> replicas.cluster.run_for(30)
>>> replicas.leaders()
['kcm-1']
>>> replicas.kill("kcm-1")
>>> replicas.cluster.run_for(30)
>>> len(replicas.leaders())
1
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from kcm_lite.api.coordination import Lease
from kcm_lite.client.leaderelection import check_durations, new_identity
from kcm_lite.manager.command import answer
from kcm_lite.manager.config import CompletedConfig
from kcm_lite.manager.leading import Manager, start, terminate
from kcm_lite.sim.cluster import START, Cluster
from kcm_lite.sim.process import Process
from kcm_lite.trace import ApiWrite, Note

SOURCE = "manager"
MAIN_LEASE = "kube-controller-manager"


def manager_config(
    *flags: str,
    lease_duration: float = 15.0,
    renew_deadline: float = 10.0,
    retry_period: float = 2.0,
) -> CompletedConfig:
    """Return a manager's config with these times, in seconds, and without an HTTPS server.

    Args:
        flags: More of the command line.

    Raises:
        ValueError: The times do not fit together.
    """
    check_durations(lease_duration, renew_deadline, retry_period)
    said = answer(
        [
            "--secure-port=0",
            f"--leader-elect-lease-duration={lease_duration}s",
            f"--leader-elect-renew-deadline={renew_deadline}s",
            f"--leader-elect-retry-period={retry_period}s",
            *flags,
        ],
        now=START,
    )
    if said.config is None:
        raise ValueError("these flags do not run a manager")
    return said.config


@dataclass
class Span:
    """A time in which a manager acted under a lease; a frozen one does not act.

    Attributes:
        end: None: it still does.
        why: How it ended.
    """

    replica: str
    lease: str
    start: float
    end: float | None = None
    why: str = ""


@dataclass(frozen=True)
class Change:
    """A write of the lease: who holds it from ``t`` on, and by whose clock it was renewed."""

    t: float
    holder: str
    transitions: int


class Replicas:
    """Managers in a cluster.

    Args:
        cluster: Its own controllers should be off: ``controllers=()``.
        count: How many; they are called kcm-1, kcm-2, ...
        config: Of all of them.
        ahead: By name: seconds by which a wall clock is ahead.
        rate: By name: seconds that a clock counts in a true second.
        seed: Decides identities and jitter.

    Attributes:
        spans: Who worked under which lease, in order of the start.
        ended: By name: when the manager ended.
        processes, managers: By name; those that run or ran last.
    """

    def __init__(
        self,
        cluster: Cluster,
        count: int = 3,
        *,
        config: CompletedConfig | None = None,
        ahead: Mapping[str, float] | None = None,
        rate: Mapping[str, float] | None = None,
        seed: int = 0,
    ) -> None:
        self.cluster, self.seed = cluster, seed
        self.config = config or manager_config()
        self.ahead, self.rate = dict(ahead or {}), dict(rate or {})
        self.spans: list[Span] = []
        self.ended: dict[str, float] = {}
        self.processes: dict[str, Process] = {}
        self.managers: dict[str, Manager] = {}
        self._frozen: dict[str, list[str]] = {}  # by name: the leases that it acted under
        self._runs = 0
        cluster.ensure_namespace(
            self.config.config.component.generic.leader_election.resource_namespace
        )
        for number in range(1, count + 1):
            self.start(f"kcm-{number}")

    # ---- what is done to them

    def start(self, name: str) -> None:
        """Start a manager, again if there was one of that name: it is a new candidate."""
        old = self.processes.get(name)
        if old is not None and old.alive:
            raise ValueError(f"{name} runs already")
        self._runs += 1
        self.ended.pop(name, None)
        cluster = self.cluster
        process = Process(
            cluster.clock,
            cluster.transport,
            name,
            ahead=self.ahead.get(name, 0.0),
            rate=self.rate.get(name, 1.0),
        )
        rng = random.Random(f"{self.seed}/{self._runs}/{name}")
        manager = Manager(
            self.config,
            process.transport,
            process.clock,
            new_identity(name, rng),
            rng,
            cluster.trace,
            on_leading=lambda lease: self._leads(name, lease),
            on_exit=lambda code, why: self._exit(process, f"exit {code}: {why}"),
        )
        self.processes[name], self.managers[name] = process, manager
        self._note(name, "started")
        start(manager)

    def kill(self, name: str) -> None:
        """End a manager at once (SIGKILL, a crash, a dead machine)."""
        self._end(self._alive(name), "killed")

    def terminate(self, name: str) -> None:
        """Ask a manager to end (SIGTERM)."""
        self._alive(name)
        self._note(name, "asked to end")
        terminate(self.managers[name])

    def freeze(self, name: str) -> None:
        """Stop a manager where it is, until `thaw`."""
        process = self._alive(name)
        if process.frozen:
            raise ValueError(f"{name} is frozen already")
        process.freeze()
        self._frozen[name] = [s.lease for s in self.spans if s.replica == name and s.end is None]
        self._close(name, "frozen")
        self._note(name, "frozen")

    def thaw(self, name: str) -> None:
        """Let a frozen manager go on."""
        process = self._alive(name)
        if not process.frozen:
            raise ValueError(f"{name} is not frozen")
        self._note(name, "goes on")
        for lease in self._frozen.pop(name):
            self.spans.append(Span(name, lease, self.cluster.now))
        process.freeze(False)

    def cut(self, name: str) -> None:
        """Cut a manager off from the API server, until `heal`."""
        self._alive(name).cut_off_network()
        self._note(name, "cut off from the API server")

    def heal(self, name: str) -> None:
        """Connect a manager again; what was on its way arrives."""
        self._note(name, "connected again")
        self._alive(name).cut_off_network(False)

    def _alive(self, name: str) -> Process:
        process = self.processes.get(name)
        if process is None or not process.alive:
            raise ValueError(f"no manager {name} runs; there are {', '.join(self.running())}")
        return process

    # ---- what they do

    def _leads(self, name: str, lease: str) -> None:
        self.spans.append(Span(name, lease, self.cluster.now))
        self._note(name, f"leads ({lease})")

    def _exit(self, process: Process, why: str) -> None:
        if process.alive:
            self._end(process, why)

    def _end(self, process: Process, why: str) -> None:
        self._close(process.name, why)
        self.ended[process.name] = self.cluster.now
        self._note(process.name, why)
        process.kill()

    def _close(self, name: str, why: str) -> None:
        for span in self.spans:
            if span.replica == name and span.end is None:
                span.end, span.why = self.cluster.now, why

    def _note(self, name: str, text: str) -> None:
        self.cluster.trace.write(Note(self.cluster.now, SOURCE, f"{name}: {text}"))

    # ---- what can be seen

    def running(self) -> list[str]:
        """Return the names of those that have not ended."""
        return [name for name, process in self.processes.items() if process.alive]

    def leaders(self, lease: str = MAIN_LEASE) -> list[str]:
        """Return who works under a lease now: more than one is what must not be."""
        return [s.replica for s in self.spans if s.lease == lease and s.end is None]

    def changes(self, lease: str = MAIN_LEASE) -> list[Change]:
        """Return every write of a lease."""
        found = []
        for write in self.cluster.trace.of(ApiWrite, resource="leases", name=lease):
            if write.code < 300 and isinstance(write.new, Lease):
                spec = write.new.spec
                holder = (spec.holder_identity or "").partition("_")[0]
                found.append(Change(write.t, holder, spec.lease_transitions or 0))
        return found

    def _times(self, lease: str) -> list[tuple[float, float]]:
        now, spans = self.cluster.now, (s for s in self.spans if s.lease == lease)
        return sorted((s.start, now if s.end is None else s.end) for s in spans)

    def overlaps(self, lease: str = MAIN_LEASE) -> list[tuple[float, float]]:
        """Return the times, from and to, in which two managers worked under one lease."""
        out, last = [], float("-inf")
        for begin, end in self._times(lease):
            if begin < min(last, end):
                out.append((begin, min(last, end)))
            last = max(last, end)
        return out

    def gaps(self, lease: str = MAIN_LEASE) -> list[tuple[float, float]]:
        """Return the times, from and to, in which nobody worked, after somebody had."""
        now, spans = self.cluster.now, self._times(lease)
        out, last = [], float("inf")
        for begin, end in spans:
            if begin > last:
                out.append((last, begin))
            last = max(last, end) if last != float("inf") else end
        return [*out, (last, now)] if spans and last < now else out
