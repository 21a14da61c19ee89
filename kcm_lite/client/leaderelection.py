# Generated from book/01b_leader_election.ipynb by tools/tangle.py; edit it there.

"""Leader election: of several processes one leads, and the others wait to take over.

>>> lock = LeaseLock(client, clock, "kube-system", "web", identity="host-1")   # doctest: +SKIP
>>> callbacks = LeaderCallbacks(lead, stopped)                                 # doctest: +SKIP
>>> elector = new_leader_elector(LeaderElectionConfig(lock, callbacks), clock) # doctest: +SKIP
>>> await run(elector)                                                         # doctest: +SKIP

See: chapter *Leader election*; client-go ``tools/leaderelection``.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import msgspec

from kcm_lite.api.errors import NotFound, StatusError
from kcm_lite.api.names import new_uid
from kcm_lite.client.resourcelock import LeaderElectionRecord, Lock, timeout
from kcm_lite.clock import Clock

# %% book/01b_leader_election.ipynb#6f06e285
JITTER_FACTOR = 1.2
"""A candidate waits up to so many retry periods longer than one."""


@dataclass(frozen=True)
class LeaderCallbacks:
    """What an elector tells its process.

    Attributes:
        on_started_leading: The work; it is cancelled when this process leads no more.
        on_stopped_leading: Called at the end of `run`, even if this process never led.
        on_new_leader: Told of every leader seen, this process included.
    """

    on_started_leading: Callable[[], Coroutine[Any, Any, None]]
    on_stopped_leading: Callable[[], None]
    on_new_leader: Callable[[str], None] | None = None


# %% book/01b_leader_election.ipynb#5fa0ffcd
class LeaderMetrics(Protocol):
    """Who counts."""

    def leader_on(self, name: str) -> None:
        """This process leads."""

    def leader_off(self, name: str) -> None:
        """It does not."""

    def slowpath_exercised(self, name: str) -> None:
        """A leader had to read the lock before it could renew."""


# %% book/01b_leader_election.ipynb#ed9b3210
@dataclass(frozen=True)
class LeaderElectionConfig:
    """How an elector behaves; times in seconds.

    Attributes:
        lease_duration: The others take over when they have seen no change for so long.
        renew_deadline: A leader that could not renew for so long stops leading.
        retry_period: Between two attempts.
        release_on_cancel: Give the lease back at the end. The work must have ended by then.
        name: Of the lease, for metrics and health.
    """

    lock: Lock
    callbacks: LeaderCallbacks
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    release_on_cancel: bool = False
    name: str = ""
    metrics: LeaderMetrics | None = None


def check_durations(lease_duration: float, renew_deadline: float, retry_period: float) -> None:
    """Refuse times with which a leader would lose its lease although all is well.

    Raises:
        ValueError: In upstream's words.
    """
    lease, renew, retry = (round(s * 1e9) for s in (lease_duration, renew_deadline, retry_period))
    if lease <= renew:
        raise ValueError("leaseDuration must be greater than renewDeadline")
    if renew <= int(JITTER_FACTOR * retry):
        raise ValueError("renewDeadline must be greater than retryPeriod*JitterFactor")
    for name, value in (("leaseDuration", lease), ("renewDeadline", renew), ("retryPeriod", retry)):
        if value < 1:
            raise ValueError(f"{name} must be greater than zero")


# %% book/01b_leader_election.ipynb#71fe0965
NOTHING = LeaderElectionRecord()


@dataclass
class LeaderElector:
    """One candidate.

    Attributes:
        observed_record: The record as last seen or written.
        observed_raw: As last read; a different one is news.
        observed_time: When the news came, by this process's clock.
        reported_leader: Whom ``on_new_leader`` was told of last.
    """

    config: LeaderElectionConfig
    clock: Clock
    rng: random.Random
    observed_record: LeaderElectionRecord = NOTHING
    observed_raw: LeaderElectionRecord | None = None
    observed_time: float = float("-inf")
    reported_leader: str = ""

    @property
    def is_leader(self) -> bool:
        """Whether the record names this process, as far as it knows."""
        return self.observed_record.holder_identity == self.config.lock.identity


# %% book/01b_leader_election.ipynb#91656102
def new_leader_elector(
    config: LeaderElectionConfig, clock: Clock, rng: random.Random | None = None
) -> LeaderElector:
    """Return an elector that has seen nothing yet.

    Raises:
        ValueError: The durations do not fit together, or the lock has no identity.
    """
    check_durations(config.lease_duration, config.renew_deadline, config.retry_period)
    if not config.lock.identity:
        raise ValueError("Lock identity is empty")
    if config.metrics is not None:
        config.metrics.leader_off(config.name)
    return LeaderElector(config, clock, rng or random.Random(config.lock.identity))


# %% book/01b_leader_election.ipynb#16e55ea5
def observe(elector: LeaderElector, record: LeaderElectionRecord) -> None:
    """Remember a record, and when it came."""
    elector.observed_record, elector.observed_time = record, elector.clock.time()


def is_lease_valid(elector: LeaderElector, now: float) -> bool:
    """Whether the record changed less than its lease duration ago."""
    end = elector.observed_time + elector.observed_record.lease_duration_seconds
    return round(end - now, 9) > 0


def raw(record: LeaderElectionRecord) -> LeaderElectionRecord:
    """Return what is compared to notice a change: times in whole seconds."""
    acquired, renewed = record.acquire_time, record.renew_time
    return msgspec.structs.replace(
        record,
        acquire_time=acquired and acquired.replace(microsecond=0),
        renew_time=renewed and renewed.replace(microsecond=0),
    )


# %% book/01b_leader_election.ipynb#89411fa8
async def try_acquire_or_renew(elector: LeaderElector) -> bool:
    """Renew the lease, or take it if nobody holds it; whether that went well."""
    try:
        return await _try(elector)
    except (StatusError, OSError):
        return False


async def _try(elector: LeaderElector) -> bool:
    config, lock, now = elector.config, elector.config.lock, elector.clock.time()
    wall, seconds = elector.clock.now(), int(config.lease_duration)
    mine = LeaderElectionRecord(lock.identity, seconds, wall, wall, 0)
    if elector.is_leader and is_lease_valid(elector, now):
        mine = _follow(mine, elector.observed_record)  # also if the lease turns out to be gone
        try:
            return await _write(elector, mine)
        except (StatusError, OSError):
            pass  # someone touched it: read it first
    try:
        found = await lock.get()
    except NotFound:
        await lock.create(mine)
        observe(elector, mine)
        return True
    if elector.observed_raw != raw(found):
        observe(elector, found)
        elector.observed_raw = raw(found)
    if found.holder_identity and is_lease_valid(elector, now) and not elector.is_leader:
        return False
    if elector.is_leader and config.metrics is not None:
        config.metrics.slowpath_exercised(config.name)
    return await _write(elector, _follow(mine, found))


# %% book/01b_leader_election.ipynb#b0e28e9e
def _follow(mine: LeaderElectionRecord, old: LeaderElectionRecord) -> LeaderElectionRecord:
    """Return the record that comes after ``old``: its own renewed, or another's taken over."""
    if old.holder_identity == mine.holder_identity:
        return msgspec.structs.replace(
            mine, acquire_time=old.acquire_time, leader_transitions=old.leader_transitions
        )
    return msgspec.structs.replace(mine, leader_transitions=old.leader_transitions + 1)


async def _write(elector: LeaderElector, record: LeaderElectionRecord) -> bool:
    await elector.config.lock.update(record)
    observe(elector, record)
    return True


def report_transition(elector: LeaderElector) -> None:
    """Tell ``on_new_leader`` if the leader is another one."""
    leader, tell = elector.observed_record.holder_identity, elector.config.callbacks.on_new_leader
    if leader != elector.reported_leader:
        elector.reported_leader = leader
        if tell is not None:
            elector.clock.call_soon(tell, leader)


# %% book/01b_leader_election.ipynb#d0af456a
async def acquire(elector: LeaderElector) -> None:
    """Try until this process leads."""
    config = elector.config
    while True:
        won = await try_acquire_or_renew(elector)
        report_transition(elector)
        if won:
            break
        pause = config.retry_period * (1 + JITTER_FACTOR * elector.rng.random())
        await elector.clock.sleep(pause, background=True)
    config.lock.record_event("became leader")
    if config.metrics is not None:
        config.metrics.leader_on(config.name)


# %% book/01b_leader_election.ipynb#796b77a1
@contextmanager
def ending(callback: Callable[[], object]) -> Iterator[None]:
    """Call back when the block ends, however; but not when a coroutine is only thrown away."""
    try:
        yield
    except (Exception, asyncio.CancelledError):
        callback()
        raise
    callback()


# %% book/01b_leader_election.ipynb#12068023
async def renew(elector: LeaderElector) -> None:
    """Renew until that fails for a whole renew deadline."""
    with ending(partial(_stopped, elector.config)):
        while await _renew_once(elector):
            await elector.clock.sleep(elector.config.retry_period, background=True)


def _stopped(config: LeaderElectionConfig) -> None:
    if config.metrics is not None:
        config.metrics.leader_off(config.name)
    config.lock.record_event("stopped leading")


async def _renew_once(elector: LeaderElector) -> bool:
    clock, period = elector.clock, elector.config.retry_period
    try:
        async with timeout(clock, elector.config.renew_deadline):
            start = clock.time()
            while not await try_acquire_or_renew(elector):
                await clock.sleep(max(0.0, start + period - clock.time()), background=True)
                start = clock.time()
    except TimeoutError:
        return False
    finally:
        report_transition(elector)
    return True


# %% book/01b_leader_election.ipynb#4bd5c725
async def release(elector: LeaderElector) -> bool:
    """Give the lease back: no holder, and one second to run. Whether nothing is held any more."""
    clock, lock = elector.clock, elector.config.lock
    try:
        async with timeout(clock, elector.config.renew_deadline):
            found = await lock.get()
            if not elector.is_leader:
                return True
            now = clock.now()
            return await _write(
                elector, LeaderElectionRecord("", 1, now, now, found.leader_transitions)
            )
    except (StatusError, OSError):
        return False


# %% book/01b_leader_election.ipynb#c108282d
async def run(elector: LeaderElector) -> None:
    """Wait for the lease, work, and return when it is lost. To stop it, cancel it."""
    config = elector.config
    with ending(config.callbacks.on_stopped_leading):
        await acquire(elector)
        start = config.callbacks.on_started_leading()
        work = elector.clock.spawn(start, name=f"{config.lock.identity} leads {config.name}")
        try:
            with ending(work.cancel):
                await renew(elector)
        except asyncio.CancelledError:
            await _give_back(elector, work)
            raise
        await _give_back(elector, work)


async def _give_back(elector: LeaderElector, work: asyncio.Task[None]) -> None:
    if elector.config.release_on_cancel:
        await asyncio.wait([work])
        await release(elector)


# %% book/01b_leader_election.ipynb#128b4b16
def check(elector: LeaderElector, tolerance: float) -> None:
    """Raise if this process leads and its last renewal is older than lease plus tolerance.

    Raises:
        RuntimeError: It should have stopped and did not; whoever asks should restart it.
    """
    age = elector.clock.time() - elector.observed_time
    if elector.is_leader and round(age, 9) > elector.config.lease_duration + tolerance:
        raise RuntimeError(f"failed election to renew leadership on lease {elector.config.name}")


@dataclass
class LeaderHealthzAdaptor:
    """The health check *leaderElection*, which is there before the elector is."""

    timeout: float = 20.0
    electors: list[LeaderElector] = field(default_factory=list)
    name = "leaderElection"

    def check(self) -> None:
        """Raise as `check` does; healthy as long as there is no elector."""
        for elector in self.electors[-1:]:
            check(elector, self.timeout)


# %% book/01b_leader_election.ipynb#90b8ea6f
def new_identity(hostname: str, rng: random.Random) -> str:
    """Return ``hostname_uuid``: two processes on one host are two candidates."""
    return f"{hostname}_{new_uid(rng)}"
