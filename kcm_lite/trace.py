"""Everything that happens, recorded once: an append-only log of typed records.

Rooms on every floor write here; figures, tables, explanations, reports and tests only read.
Records hold the (frozen) objects themselves, so writing one costs no copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

if TYPE_CHECKING:
    from kcm_lite.api.meta import Object

R = TypeVar("R", bound="Record")


class Record(msgspec.Struct, frozen=True, gc=False):
    """Something that happened at ``t`` seconds of the clock."""

    t: float


class ApiWrite(Record, frozen=True, gc=False):
    """A write request that reached the API server, in commit order, refused ones included."""

    agent: str  # who asked: "replicaset-controller", "kubelet", "user"
    verb: str  # create, update, patch, delete
    resource: str  # "pods", "replicasets"
    subresource: str  # "", "status", "scale", "binding"
    namespace: str
    name: str  # a refused create with generateName: the prefix
    code: int  # HTTP code
    message: str = ""  # of a refusal
    old: Object | None = None  # as stored before; None: did not exist
    new: Object | None = None  # as stored after; None: gone, or refused
    patch: Any = None  # the body of a patch
    options: Any = None  # DeleteOptions of a delete


class Delivery(Record, frozen=True, gc=False):
    """A watch event that reached a client's cache."""

    client: str
    type: str  # ADDED, MODIFIED, DELETED, BOOKMARK
    resource: str
    key: str
    resource_version: str
    lag: float = 0.0  # seconds from commit to delivery


class QueueOp(Record, frozen=True, gc=False):
    """A step of a work queue."""

    queue: str
    op: str  # add, get, done, add_after, add_rate_limited, forget, shut_down
    key: Any
    delay: float = 0.0
    depth: int = 0


class SyncStart(Record, frozen=True, gc=False):
    """A worker takes up a key."""

    controller: str
    worker: int
    key: Any


class SyncEnd(Record, frozen=True, gc=False):
    """A worker is done with a key; ``error`` is empty when it went well."""

    controller: str
    worker: int
    key: Any
    error: str = ""


class ExpectationChange(Record, frozen=True, gc=False):
    """A controller now expects to see so many creations and deletions of its key's objects."""

    controller: str
    key: str
    op: str  # expect, raise, creation_observed, deletion_observed, delete, expired
    add: int
    dele: int


class Decision(Record, frozen=True, gc=False):
    """A choice that a controller made, and why: what `explain` tells."""

    controller: str
    key: str  # the object that the controller works for
    what: str  # "victim", "batch", "requeue", "adopt", "release", ...
    subject: str  # the object that was chosen, a key
    reason: str  # one sentence
    data: Any = None


class Note(Record, frozen=True, gc=False):
    """Something done to the cluster from outside: a scenario's action, a fault, a crash."""

    source: str  # "scenario", "fault", "panic", "cluster"
    text: str
    data: Any = None


class Trace:
    """The log.

    Attributes:
        records: What happened, oldest first. Append only.
        detail: False leaves out the frequent records (deliveries, queue steps, syncs,
            expectations, decisions) and keeps writes and notes; for large runs.
    """

    __slots__ = ("detail", "records", "write")

    def __init__(self, *, detail: bool = True) -> None:
        self.records: list[Record] = []
        self.detail = detail
        self.write = self.records.append

    def of(self, kind: type[R], /, **equal: Any) -> Iterator[R]:
        """Yield the records of one type whose fields equal the given values, oldest first."""
        for record in self.records:
            if type(record) is kind and all(getattr(record, k) == v for k, v in equal.items()):
                yield record
