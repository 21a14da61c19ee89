# Generated from book/01b_leader_election.ipynb by tools/tangle.py; edit it there.

"""Locks for leader election: a record in the API server that one process can write at a time.

See: chapter *Leader election*; client-go ``tools/leaderelection/resourcelock``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import msgspec

from kcm_lite.api.coordination import Lease, LeaseSpec
from kcm_lite.api.meta import ObjectMeta, replace
from kcm_lite.client.clientset import Client
from kcm_lite.client.events import EventRecorder
from kcm_lite.clock import Clock


# %% book/01b_leader_election.ipynb#64c10b62
class LeaderElectionRecord(msgspec.Struct, frozen=True):
    """What a candidate reads from the lock and writes into it.

    Attributes:
        holder_identity: Who leads; empty: the last leader gave it back.
        lease_duration_seconds: How long the others must see no change before they take over.
        acquire_time, renew_time: By the holder's clock. Nobody else relies on them.
        leader_transitions: How often the holder changed.
    """

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    leader_transitions: int = 0


# %% book/01b_leader_election.ipynb#7b79b4cd
def record_of(spec: LeaseSpec) -> LeaderElectionRecord:
    """Read the record that a Lease holds."""
    return LeaderElectionRecord(
        spec.holder_identity or "",
        spec.lease_duration_seconds or 0,
        spec.acquire_time,
        spec.renew_time,
        spec.lease_transitions or 0,
    )


def spec_of(record: LeaderElectionRecord) -> LeaseSpec:
    """Return what a Lease holds for a record."""
    return LeaseSpec(
        holder_identity=record.holder_identity,
        lease_duration_seconds=record.lease_duration_seconds,
        acquire_time=record.acquire_time,
        renew_time=record.renew_time,
        lease_transitions=record.leader_transitions,
    )


# %% book/01b_leader_election.ipynb#7839c0db
@asynccontextmanager
async def timeout(clock: Clock, seconds: float) -> AsyncIterator[None]:
    """Raise ``TimeoutError`` if the block takes longer, by this clock and not by the loop's."""
    async with asyncio.timeout(None) as limit:
        alarm = clock.call_later(seconds, limit.reschedule, -1.0)
        try:
            yield
        finally:
            alarm.cancel()


# %% book/01b_leader_election.ipynb#328e0c46
class Lock(Protocol):
    """A record that several processes can read, and that one can write at a time.

    Each method raises ``StatusError`` or ``OSError``.
    """

    identity: str

    async def get(self) -> LeaderElectionRecord:
        """Read the record; ``NotFound`` if there is none."""

    async def create(self, record: LeaderElectionRecord) -> None:
        """Make the record."""

    async def update(self, record: LeaderElectionRecord) -> None:
        """Replace the record, if nobody else did since this process saw it last."""

    def record_event(self, text: str) -> None:
        """Tell people."""


# %% book/01b_leader_election.ipynb#3d32b979
@dataclass
class LeaseLock:
    """A lock that is a Lease in the API server (``resourcelock.LeaseLock``).

    Attributes:
        identity: Who this process is; no other may have the same.
        timeout: Seconds for one request, so that a hung one does not cost the leadership.
        recorder: Where *became leader* and *stopped leading* are told.
        lease: As this process saw it last.
    """

    client: Client
    clock: Clock
    namespace: str
    name: str
    identity: str
    timeout: float = 5.0
    recorder: EventRecorder | None = None
    lease: Lease | None = None

    async def get(self) -> LeaderElectionRecord:
        """Read the record; ``NotFound`` if there is none."""
        async with timeout(self.clock, self.timeout):
            self.lease = await self.client.get(Lease, self.namespace, self.name)
        return record_of(self.lease.spec)

    async def create(self, record: LeaderElectionRecord) -> None:
        """Make the Lease; ``AlreadyExists`` if someone was quicker."""
        meta = ObjectMeta(namespace=self.namespace, name=self.name)
        async with timeout(self.clock, self.timeout):
            self.lease = await self.client.create(Lease(metadata=meta, spec=spec_of(record)))

    async def update(self, record: LeaderElectionRecord) -> None:
        """Write the Lease as seen last; ``Conflict`` if someone was quicker."""
        if self.lease is None:
            raise RuntimeError("lease not initialized, call get or create first")
        async with timeout(self.clock, self.timeout):
            self.lease = await self.client.update(replace(self.lease, spec=spec_of(record)))

    def record_event(self, text: str) -> None:
        """Tell an event about the Lease."""
        if self.recorder is not None and self.lease is not None:
            message = f"{self.identity} {text}"
            self.recorder.event(self.lease, "Normal", "LeaderElection", message)
