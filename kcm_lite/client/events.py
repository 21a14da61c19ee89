# Generated from book/90_clients_events_metrics.ipynb by tools/tangle.py; edit it there.

"""Tell people what happened: Events, counted, combined and limited before they are written.

See: chapter *Clients, events, metrics*; client-go ``tools/record``.
"""

from __future__ import annotations

import random
from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Generic, TypeVar
from zlib import crc32

import msgspec

from kcm_lite.api.core import Event, EventSource, ObjectReference
from kcm_lite.api.errors import NotFound, StatusError
from kcm_lite.api.meta import Object, ObjectMeta
from kcm_lite.client.clientset import Client
from kcm_lite.client.ratelimit import TokenBucket
from kcm_lite.clock import Clock

# %% book/90_clients_events_metrics.ipynb#f60b9c73
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class EventNames:
    """Names events after their object and their time, as ``web.18867252652f9400``.

    A real clock never shows the same nanosecond twice; ours does. So the microsecond is moved on
    until it is new, and the last three digits come from who tells it.
    """

    def __init__(self, clock: Clock, component: str) -> None:
        self._clock = clock
        self._base = round((clock.now() - EPOCH).total_seconds() * 10**6 - clock.time() * 10**6)
        self._digits = crc32(component.encode()) % 1000
        self._last = 0

    def next(self, name: str) -> str:
        """Return the name of a new event on the object ``name``."""
        self._last = max(self._last + 1, self._base + int(self._clock.time() * 10**6))
        full = f"{name}.{self._last * 1000 + self._digits:x}"
        return full if len(full) <= 253 else sha256(full.encode()).hexdigest()


# %% book/90_clients_events_metrics.ipynb#4a582c0d
class Told(msgspec.Struct, frozen=True, gc=False):
    """One call of `EventRecorder.event`.

    Attributes:
        about: Who tells it, of whom, and of which type: what the limit goes by.
        name: Of the Event, if it becomes one.
        stamp: When, in whole seconds.
        combined: It stands for others like it.
    """

    about: tuple[str, ...]
    obj: Object
    type: str
    reason: str
    message: str
    name: str
    stamp: datetime
    combined: bool = False


class EventLog(msgspec.Struct, frozen=True, gc=False):
    """How often an event was told, since when, and what it is called."""

    count: int
    since: datetime
    name: str


class Similar(msgspec.Struct):
    """The messages of events that differ in nothing else, and when the last one came."""

    messages: dict[str, None]
    last: float


# %% book/90_clients_events_metrics.ipynb#aee27436
V = TypeVar("V")


class Recent(Generic[V]):
    """The values used last, by key; the one not used for longest goes when there are too many."""

    def __init__(self, size: int = 4096) -> None:
        self._size = size
        self._values: OrderedDict[Hashable, V] = OrderedDict()

    def get(self, key: Hashable) -> V | None:
        """Return the value and count it as used; None if there is none."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: Hashable, value: V) -> None:
        """Keep a value."""
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > self._size:
            self._values.popitem(last=False)


# %% book/90_clients_events_metrics.ipynb#d7f95f1f
@dataclass
class Correlator:
    """What keeps events from flooding the server (``EventCorrelator``).

    Attributes:
        similar: Per source, object, type and reason: the messages of late.
        seen: Per event: how often it was told.
        buckets: Per source, object and type: how many more may be written.
    """

    clock: Clock
    names: EventNames
    similar: Recent[Similar] = field(default_factory=Recent)
    seen: Recent[EventLog] = field(default_factory=Recent)
    buckets: Recent[TokenBucket] = field(default_factory=Recent)


# %% book/90_clients_events_metrics.ipynb#a4df71bb
MAX_SIMILAR = 10  # from the tenth message on, similar events are combined ...
SIMILAR_SECONDS = 600.0  # ... unless more time than this passed since the one before


def combine(correlator: Correlator, told: Told) -> tuple[Told, Hashable]:
    """Return what was told, or what stands for all that is like it, and the key to count it by."""
    now, group = correlator.clock.time(), (told.about, told.reason)
    record = correlator.similar.get(group)
    if record is None or now - record.last > SIMILAR_SECONDS:
        record = Similar({}, now)
        correlator.similar.put(group, record)
    record.messages[told.message] = None
    record.last = now
    if len(record.messages) < MAX_SIMILAR:
        return told, (*group, told.message)
    del record.messages[next(iter(record.messages))]
    combined = Told(
        told.about,
        told.obj,
        told.type,
        told.reason,
        f"(combined from similar events): {told.message}",
        correlator.names.next(told.obj.metadata.name),
        correlator.clock.timestamp(),
        combined=True,
    )
    return combined, group


# %% book/90_clients_events_metrics.ipynb#a876b4a8
SPAM_BURST = 25  # events of one source on one object at once ...
SPAM_QPS = 1 / 300  # ... and one more every five minutes


def count(correlator: Correlator, told: Told, key: Hashable) -> EventLog:
    """Count it."""
    before = correlator.seen.get(key)
    if before is None:
        seen = EventLog(1, told.stamp, told.name)
    else:
        seen = EventLog(before.count + 1, before.since, before.name)
    correlator.seen.put(key, seen)
    return seen


def is_spam(correlator: Correlator, told: Told) -> bool:
    """Whether this source has told too much of this object."""
    bucket = correlator.buckets.get(told.about)
    if bucket is None:
        bucket = TokenBucket(SPAM_QPS, SPAM_BURST, correlator.clock)
        correlator.buckets.put(told.about, bucket)
    return not bucket.try_accept()


def correlate(correlator: Correlator, told: Told) -> tuple[Told, EventLog] | None:
    """Return what to write; None if it is too much. What is not written is counted all the same."""
    told, key = combine(correlator, told)
    seen = count(correlator, told, key)
    return None if is_spam(correlator, told) else (told, seen)


# %% book/90_clients_events_metrics.ipynb#7c88dd37
QUEUE_LENGTH = 1000


class EventRecorder:
    """Writes events, in the background and one at a time; ``event`` never waits.

    Args:
        client: Whose requests, and whose limit, they are.
        component: Who tells it: the controller's name.
        rng: For the first retry; by default one of the recorder's own, of fixed seed.
    """

    def __init__(
        self, client: Client, clock: Clock, component: str, *, rng: random.Random | None = None
    ) -> None:
        self.client, self.clock, self.rng = client, clock, rng or random.Random(0)
        self.component = component
        self.correlator = Correlator(clock, EventNames(clock, component))
        self.waiting: deque[Told] = deque()
        self.busy, self.dropped = False, 0

    def event(self, obj: Object, type: str, reason: str, message: str) -> None:
        """Tell that something happened to ``obj``.

        Args:
            obj: To whom. Cluster-scoped objects have their events in the namespace default.
            type: Normal or Warning; another raises ``ValueError``.
            reason: One word in UpperCamelCase, for programs.
            message: For people.
        """
        if type not in ("Normal", "Warning"):
            raise ValueError(f"unsupported event type: {type!r}")
        meta, component = obj.metadata, self.component
        about = (component, obj.KIND, meta.namespace, meta.name, meta.uid, obj.API_VERSION, type)
        name = self.correlator.names.next(meta.name)
        submit(self, Told(about, obj, type, reason, message, name, self.clock.timestamp()))


# %% book/90_clients_events_metrics.ipynb#1bc88e79
def submit(recorder: EventRecorder, told: Told) -> None:
    """Have it written: now if nothing else is being written, else in its turn."""
    if recorder.busy:
        if len(recorder.waiting) < QUEUE_LENGTH:
            recorder.waiting.append(told)
        else:
            recorder.dropped += 1
    elif (write := correlate(recorder.correlator, told)) is not None:
        recorder.busy = True
        recorder.clock.spawn(write_all(recorder, *write), name=f"events {recorder.component}")


async def write_all(recorder: EventRecorder, told: Told, seen: EventLog) -> None:
    """Write one event, and then what has come meanwhile."""
    await record_to_sink(recorder, told, seen)
    while recorder.waiting:
        write = correlate(recorder.correlator, recorder.waiting.popleft())
        if write is not None:
            await record_to_sink(recorder, *write)
    recorder.busy = False


# %% book/90_clients_events_metrics.ipynb#df0eed2d
MAX_TRIES = 12
RETRY_SECONDS = 10.0


async def record_to_sink(recorder: EventRecorder, told: Told, seen: EventLog) -> None:
    """Write one event; try again if the server is not there, give up if it refuses."""
    for attempt in range(MAX_TRIES):
        if attempt:
            share = recorder.rng.random() if attempt == 1 else 1.0
            await recorder.clock.sleep(RETRY_SECONDS * share)
        try:
            await create_or_patch(recorder, told, seen)
        except StatusError:
            return
        except OSError:
            continue
        return


async def create_or_patch(recorder: EventRecorder, told: Told, seen: EventLog) -> None:
    """Create the event; patch it if it was told before, unless the server has it no more."""
    event = make_event(recorder.component, told, seen)
    namespace, name = event.metadata.namespace, seen.name
    if seen.count > 1:
        last = f"{told.stamp:%Y-%m-%dT%H:%M:%SZ}"
        patch = {"count": seen.count, "lastTimestamp": last, "message": told.message}
        try:
            await recorder.client.patch(Event, namespace, name, patch, patch_type="strategic")
            return
        except NotFound:
            pass
    await recorder.client.create(event)


# %% book/90_clients_events_metrics.ipynb#b0afd543
def make_event(component: str, told: Told, seen: EventLog) -> Event:
    """Return the Event as it should be stored."""
    obj, meta = told.obj, told.obj.metadata
    return Event(
        metadata=ObjectMeta(name=seen.name, namespace=meta.namespace or "default"),
        involved_object=ObjectReference(
            kind=obj.KIND,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            api_version=obj.API_VERSION,
            resource_version=meta.resource_version,
        ),
        reason=told.reason,
        message=told.message,
        source=EventSource(component=component),
        first_timestamp=seen.since,
        last_timestamp=told.stamp,
        count=seen.count,
        type=told.type,
        reporting_component="" if told.combined else component,
    )
