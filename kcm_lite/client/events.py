"""Tell people what happened: Events, counted, combined and limited before they reach the server."""

# Generated from the notebooks by tangle.py; edit them instead.

from __future__ import annotations

import random
from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Generic, TypeVar
from zlib import crc32

import msgspec

from kcm_lite.api.core import Event, EventSource, ObjectReference
from kcm_lite.api.errors import NotFound, StatusError
from kcm_lite.api.meta import Object, ObjectMeta, replace
from kcm_lite.client.clientset import Client
from kcm_lite.client.ratelimit import TokenBucket
from kcm_lite.clock import Clock

# %% book/90_clients_events_metrics.ipynb#877b47ac
V = TypeVar("V")


class Recent(Generic[V]):
    """The values used last, by key; the one not used for longest goes when there are too many."""

    def __init__(self, size: int = 4096) -> None:
        self._size = size
        self._values: OrderedDict[Hashable, V] = OrderedDict()

    def get(self, key: Hashable) -> V | None:
        """Return the value and count it as used; None if there is none."""
        if key not in self._values:
            return None
        self._values.move_to_end(key)
        return self._values[key]

    def put(self, key: Hashable, value: V) -> None:
        """Keep a value."""
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > self._size:
            self._values.popitem(last=False)


# %% book/90_clients_events_metrics.ipynb#4a582c0d
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class EventNames:
    """Names events after their object and their time, as ``web.18867252652f9400``.

    A real clock never shows the same nanosecond twice; ours does. So the microsecond is moved on
    until it is new, and the last three digits come from who tells it.
    """

    def __init__(self, clock: Clock, component: str) -> None:
        self._clock = clock
        self._last = 0
        self._digits = crc32(component.encode()) % 1000

    def next(self, name: str) -> str:
        """Return the name of a new event on the object ``name``."""
        since = self._clock.now() - EPOCH
        microseconds = (since.days * 86400 + since.seconds) * 10**6 + since.microseconds
        self._last = max(microseconds, self._last + 1)
        full = f"{name}.{self._last * 1000 + self._digits:x}"
        return full if len(full) <= 253 else sha256(full.encode()).hexdigest()


# %% book/90_clients_events_metrics.ipynb#aee27436
class Similar(msgspec.Struct):
    """Events that differ in nothing but the message."""

    messages: dict[str, None]
    last: datetime


class Seen(msgspec.Struct, frozen=True):
    """An event as it was last written."""

    count: int
    first_timestamp: datetime | None
    name: str
    resource_version: str


@dataclass
class Correlator:
    """What keeps events from flooding the server (``EventCorrelator``).

    Attributes:
        similar: Per source, object, type and reason: the messages of late.
        seen: Per event: how often it was written.
        buckets: Per source, object and type: how many more may be written.
        names: Gives each event a name of its own.
    """

    clock: Clock
    names: EventNames
    similar: Recent[Similar] = field(default_factory=Recent)
    seen: Recent[Seen] = field(default_factory=Recent)
    buckets: Recent[TokenBucket] = field(default_factory=Recent)


def source_and_object(event: Event) -> tuple[str, ...]:
    """Who tells it, and of whom."""
    source, obj = event.source, event.involved_object
    return (
        source.component,
        source.host,
        obj.kind,
        obj.namespace,
        obj.name,
        obj.uid,
        obj.api_version,
        event.type,
    )


# %% book/90_clients_events_metrics.ipynb#a4df71bb
MAX_SIMILAR = 10  # from the tenth message on, similar events are combined
SIMILAR_SECONDS = 600.0  # ... if no longer than this passed between two of them


def combine(correlator: Correlator, event: Event) -> tuple[Event, Hashable]:
    """Return the event, or the one that stands for all similar ones, and the key to count it by."""
    about = (*source_and_object(event), event.reason)
    group = (*about, event.reporting_component, event.reporting_instance)
    now = correlator.clock.now()
    record = correlator.similar.get(group)
    if record is None or (now - record.last).total_seconds() > SIMILAR_SECONDS:
        record = Similar({}, now)
    record.messages[event.message] = None
    record.last = now
    correlator.similar.put(group, record)
    if len(record.messages) < MAX_SIMILAR:
        return event, (*about, event.involved_object.field_path, event.message)
    del record.messages[next(iter(record.messages))]
    stamp = correlator.clock.timestamp()
    name = correlator.names.next(event.involved_object.name)
    combined = Event(
        metadata=ObjectMeta(name=name, namespace=event.metadata.namespace),
        involved_object=event.involved_object,
        reason=event.reason,
        message=f"(combined from similar events): {event.message}",
        source=event.source,
        first_timestamp=stamp,
        last_timestamp=stamp,
        count=1,
        type=event.type,
    )
    return combined, group


# %% book/90_clients_events_metrics.ipynb#a876b4a8
def count(correlator: Correlator, event: Event, key: Hashable) -> tuple[Event, dict[str, Any]]:
    """Return the event as it should be stored, and the patch that makes it of the stored one."""
    seen = correlator.seen.get(key)
    patch: dict[str, Any] = {}
    if seen is not None:
        meta = replace(event.metadata, name=seen.name, resource_version=seen.resource_version)
        event = replace(
            event, metadata=meta, first_timestamp=seen.first_timestamp, count=seen.count + 1
        )
        last = event.last_timestamp
        patch = {"count": event.count, "lastTimestamp": f"{last:%Y-%m-%dT%H:%M:%SZ}"}
        if event.message:
            patch["message"] = event.message
    remember(correlator, event, key)
    return event, patch


def remember(correlator: Correlator, event: Event, key: Hashable) -> None:
    """Note how the event is stored now."""
    meta = event.metadata
    seen = Seen(event.count, event.first_timestamp, meta.name, meta.resource_version)
    correlator.seen.put(key, seen)


def was_stored(correlator: Correlator, event: Event) -> None:
    """Note what the server made of an event."""
    about = (*source_and_object(event), event.reason)
    remember(correlator, event, (*about, event.involved_object.field_path, event.message))


# %% book/90_clients_events_metrics.ipynb#7c88dd37
SPAM_BURST = 25  # events of one source on one object at once
SPAM_QPS = 1 / 300  # ... and one more every five minutes


def is_spam(correlator: Correlator, event: Event) -> bool:
    """Whether this source has told too much of this object."""
    key = source_and_object(event)
    bucket = correlator.buckets.get(key)
    if bucket is None:
        bucket = TokenBucket(SPAM_QPS, SPAM_BURST, correlator.clock)
        correlator.buckets.put(key, bucket)
    return not bucket.try_accept()


def correlate(correlator: Correlator, event: Event) -> tuple[Event, dict[str, Any]] | None:
    """Return what to write: an event, and the patch if it is stored already; None: nothing."""
    event, key = combine(correlator, event)
    event, patch = count(correlator, event, key)
    return None if is_spam(correlator, event) else (event, patch)


# %% book/90_clients_events_metrics.ipynb#1bc88e79
def reference_to(obj: Object) -> ObjectReference:
    """Return a reference to an object, as events carry it."""
    meta = obj.metadata
    return ObjectReference(
        kind=obj.KIND,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        api_version=obj.API_VERSION,
        resource_version=meta.resource_version,
    )


# %% book/90_clients_events_metrics.ipynb#df0eed2d
QUEUE_LENGTH = 1000


class EventRecorder:
    """Writes events, in the background and one at a time; ``event`` never waits or fails.

    Args:
        client: Whose requests, and whose limit, they are.
        clock: For timestamps and limits.
        component: Who tells it: the controller's name.
        rng: For the jitter of the first retry; by default one of the recorder's own.

    Attributes:
        dropped: Events lost because a thousand others were waiting.
    """

    def __init__(
        self, client: Client, clock: Clock, component: str, *, rng: random.Random | None = None
    ) -> None:
        self.client, self.clock, self.rng = client, clock, rng or random.Random(0)
        self.source = EventSource(component=component)
        self.correlator = Correlator(clock, EventNames(clock, component))
        self.waiting: deque[Event] = deque()
        self.busy = False
        self.dropped = 0

    def event(self, obj: Object, type: str, reason: str, message: str) -> None:
        """Tell that something happened to ``obj``.

        Args:
            obj: To whom. Cluster-scoped objects have their events in the namespace default.
            type: Normal or Warning.
            reason: One word in UpperCamelCase, for programs.
            message: For people.

        Raises:
            ValueError: ``type`` is another.
        """
        if type not in ("Normal", "Warning"):
            raise ValueError(f"unsupported event type: {type!r}")
        submit(self, make_event(self, obj, type, reason, message))


# %% book/90_clients_events_metrics.ipynb#b0afd543
def make_event(recorder: EventRecorder, obj: Object, type: str, reason: str, message: str) -> Event:
    """Return an event that is told for the first time."""
    stamp, meta = recorder.clock.timestamp(), obj.metadata
    name = recorder.correlator.names.next(meta.name)
    return Event(
        metadata=ObjectMeta(name=name, namespace=meta.namespace or "default"),
        involved_object=reference_to(obj),
        reason=reason,
        message=message,
        source=recorder.source,
        first_timestamp=stamp,
        last_timestamp=stamp,
        count=1,
        type=type,
        reporting_component=recorder.source.component,
    )


def submit(recorder: EventRecorder, event: Event) -> None:
    """Have an event written: now if nothing else is being written, else in its turn."""
    if recorder.busy:
        if len(recorder.waiting) < QUEUE_LENGTH:
            recorder.waiting.append(event)
        else:
            recorder.dropped += 1
    elif (write := correlate(recorder.correlator, event)) is not None:
        recorder.busy = True
        name = f"events {recorder.source.component}"
        recorder.clock.spawn(write_all(recorder, *write), name=name)


# %% book/90_clients_events_metrics.ipynb#515033d2
MAX_TRIES = 12
RETRY_SECONDS = 10.0


async def write_all(recorder: EventRecorder, event: Event, patch: dict[str, Any]) -> None:
    """Write one event, and then what has come meanwhile."""
    await record_to_sink(recorder, event, patch)
    while recorder.waiting:
        write = correlate(recorder.correlator, recorder.waiting.popleft())
        if write is not None:
            await record_to_sink(recorder, *write)
    recorder.busy = False


async def record_to_sink(recorder: EventRecorder, event: Event, patch: dict[str, Any]) -> None:
    """Write one event; try again if the server is not there, give up if it refuses."""
    for attempt in range(MAX_TRIES):
        if attempt:
            share = recorder.rng.random() if attempt == 1 else 1.0
            await recorder.clock.sleep(RETRY_SECONDS * share)
        try:
            stored = await create_or_patch(recorder.client, event, patch)
        except StatusError:
            return
        except OSError:
            continue
        was_stored(recorder.correlator, stored)
        return


async def create_or_patch(client: Client, event: Event, patch: dict[str, Any]) -> Event:
    """Patch the stored event; create it if it is new, or gone."""
    meta = event.metadata
    if patch:
        try:
            return await client.patch(
                Event, meta.namespace, meta.name, patch, patch_type="strategic"
            )
        except NotFound:
            pass
    return await client.create(replace(event, metadata=replace(meta, resource_version="")))
