# Generated from book/90_clients_events_metrics.ipynb by tools/tangle.py; edit it there.

"""Counters, gauges and histograms in Prometheus' text format; those of queues and of clients.

See: chapter *Clients, events, metrics*; upstream ``k8s.io/component-base/metrics``.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from math import inf, isfinite, isnan
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from kcm_lite.clock import Clock


# %% book/90_clients_events_metrics.ipynb#1bcabe89
class Counter:
    """A number that only grows."""

    TYPE: ClassVar[str] = "counter"
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1.0) -> None:
        """Add ``amount``.

        Raises:
            ValueError: It is negative.
        """
        if amount < 0:
            raise ValueError("a counter cannot decrease")
        self.value += amount

    def samples(self) -> Iterator[tuple[str, str, float]]:
        """Yield (suffix of the name, extra label, value)."""
        yield "", "", self.value


# %% book/90_clients_events_metrics.ipynb#c7a8f0bd
class Gauge:
    """A number that goes up and down."""

    TYPE: ClassVar[str] = "gauge"
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def set(self, value: float) -> None:
        """Set it."""
        self.value = value

    def inc(self, amount: float = 1.0) -> None:
        """Add ``amount``, which may be negative."""
        self.value += amount

    def samples(self) -> Iterator[tuple[str, str, float]]:
        """Yield (suffix of the name, extra label, value)."""
        yield "", "", self.value


# %% book/90_clients_events_metrics.ipynb#7bb91179
def escape(text: str) -> str:
    """Escape a help text."""
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def quote(text: str) -> str:
    """Escape a label value."""
    return escape(text).replace('"', '\\"')


def number_text(value: float) -> str:
    """Return a number as the text format has it."""
    if isfinite(value):
        return repr(value).removesuffix(".0")
    return "NaN" if isnan(value) else "+Inf" if value > 0 else "-Inf"


# %% book/90_clients_events_metrics.ipynb#9b4cba38
class Histogram:
    """How many observations were at most each bound, and their sum.

    Args:
        bounds: Ascending; everything above the last goes into ``+Inf``.
    """

    TYPE: ClassVar[str] = "histogram"
    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        if list(self.bounds) != sorted(set(self.bounds)):
            raise ValueError(f"bounds must ascend: {self.bounds}")
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count one observation."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def samples(self) -> Iterator[tuple[str, str, float]]:
        """Yield (suffix of the name, extra label, value)."""
        total = 0
        for bound, number in zip((*self.bounds, inf), self.counts, strict=True):
            total += number
            yield "_bucket", f'le="{number_text(bound)}"', total
        yield "_sum", "", self.sum
        yield "_count", "", total


def exponential_buckets(start: float, factor: float, number: int) -> tuple[float, ...]:
    """Return ``number`` bounds, each ``factor`` times the one before."""
    bounds = [start]
    while len(bounds) < number:
        bounds.append(bounds[-1] * factor)
    return tuple(bounds)


# %% book/90_clients_events_metrics.ipynb#7d5f403e
class Metric(Protocol):
    """A counter, a gauge or a histogram."""

    TYPE: ClassVar[str]

    def samples(self) -> Iterator[tuple[str, str, float]]:
        """Yield (suffix of the name, extra label, value)."""


M = TypeVar("M", bound=Metric)


# %% book/90_clients_events_metrics.ipynb#9f1f4db4
class Family(Generic[M]):
    """One metric with labels: a counter, gauge or histogram for each choice of label values."""

    def __init__(self, name: str, help: str, labels: Sequence[str], make: Callable[[], M]) -> None:
        for text in (name, *labels):
            if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", text):
                raise ValueError(f"not a metric or label name: {text!r}")
        self.name, self.help, self.labels = name, help, tuple(labels)
        self._make = make
        self.children: dict[tuple[str, ...], M] = {}

    def with_labels(self, *values: str) -> M:
        """Return the metric with these label values; the first to ask makes it.

        Raises:
            ValueError: Too few or too many values.
        """
        if len(values) != len(self.labels):
            raise ValueError(f"{self.name} has the labels {self.labels}, not {values}")
        if values not in self.children:
            self.children[values] = self._make()
        return self.children[values]

    def definition(self) -> tuple[object, ...]:
        """Return what is registered: type, text, labels, bounds."""
        metric = self._make()
        return metric.TYPE, self.help, self.labels, getattr(metric, "bounds", ())

    def expose(self) -> Iterator[str]:
        """Yield the lines of the text format."""
        kind = self._make().TYPE
        yield f"# HELP {self.name} {escape(self.help)}"
        yield f"# TYPE {self.name} {kind}"
        for values, child in sorted(self.children.items()):
            pairs = zip(self.labels, values, strict=True)
            own = [f'{label}="{quote(text)}"' for label, text in pairs]
            for suffix, extra, value in child.samples():
                labels = ",".join([*own, extra] if extra else own)
                braces = f"{{{labels}}}" if labels else ""
                yield f"{self.name}{suffix}{braces} {number_text(value)}"


# %% book/90_clients_events_metrics.ipynb#13578712
class Registry:
    """All metrics of a process."""

    def __init__(self) -> None:
        self._families: dict[str, Family[Any]] = {}

    def counter(self, name: str, help: str, labels: Sequence[str] = ()) -> Family[Counter]:
        """Register a counter, or find it: several queues, or clients, share a metric.

        Raises:
            ValueError: The name is taken by a different metric, or no metric name.
        """
        return self._register(Family(name, help, labels, Counter))

    def gauge(self, name: str, help: str, labels: Sequence[str] = ()) -> Family[Gauge]:
        """Register a gauge. Errors as for `counter`."""
        return self._register(Family(name, help, labels, Gauge))

    def histogram(
        self, name: str, help: str, labels: Sequence[str] = (), *, bounds: Sequence[float]
    ) -> Family[Histogram]:
        """Register a histogram. Errors as for `counter`; bounds must ascend."""
        Histogram(bounds)
        return self._register(Family(name, help, labels, lambda: Histogram(bounds)))

    def _register(self, family: Family[M]) -> Family[M]:
        known = self._families.setdefault(family.name, family)
        if known.definition() != family.definition():
            raise ValueError(f"{family.name} is registered already, as something else")
        return known

    def expose(self) -> str:
        """Return everything in the text format, by name."""
        lines = [line for _, f in sorted(self._families.items()) for line in f.expose()]
        return "\n".join([*lines, ""])


# %% book/90_clients_events_metrics.ipynb#71ca7eaa
BOUNDS = exponential_buckets(10e-9, 10, 10)
HELP = {
    "depth": "Current depth of workqueue",
    "adds_total": "Total number of adds handled by workqueue",
    "queue_duration_seconds": "How long in seconds an item stays in workqueue before being "
    "requested.",
    "work_duration_seconds": "How long in seconds processing an item from workqueue takes.",
    "unfinished_work_seconds": "How many seconds of work has done that is in progress and hasn't "
    "been observed by work_duration. Large values indicate stuck threads. One can deduce the "
    "number of stuck threads by observing the rate at which this increases.",
    "longest_running_processor_seconds": "How many seconds has the longest running processor for "
    "workqueue been running.",
    "retries_total": "Total number of retries handled by workqueue",
}
"""The metrics of a work queue and what they are, in upstream's words."""


class WorkQueueMetrics:
    """The metrics of all work queues, with the queue as a label."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self.clock = clock
        named = {name: (f"workqueue_{name}", text, ("name",)) for name, text in HELP.items()}
        self.depth = registry.gauge(*named["depth"])
        self.adds = registry.counter(*named["adds_total"])
        self.latency = registry.histogram(*named["queue_duration_seconds"], bounds=BOUNDS)
        self.work = registry.histogram(*named["work_duration_seconds"], bounds=BOUNDS)
        self.unfinished = registry.gauge(*named["unfinished_work_seconds"])
        self.longest = registry.gauge(*named["longest_running_processor_seconds"])
        self.retries = registry.counter(*named["retries_total"])

    def queue(self, name: str) -> MeasuredQueue:
        """Return what the queue of this name reports to."""
        return MeasuredQueue(self, name)


def queue_metrics(registry: Registry | None, name: str, clock: Clock) -> MeasuredQueue | None:
    """Return what the queue of this name reports to; without a registry it reports nothing."""
    return None if registry is None else WorkQueueMetrics(registry, clock).queue(name)


# %% book/90_clients_events_metrics.ipynb#e94d8c90
class MeasuredQueue:
    """The metrics of one work queue: what `kcm_lite.client.workqueue.QueueMetrics` asks for."""

    def __init__(self, metrics: WorkQueueMetrics, name: str) -> None:
        self._clock, self._adds = metrics.clock, metrics.adds.with_labels(name)
        self._depth = metrics.depth.with_labels(name)
        self._latency = metrics.latency.with_labels(name)
        self._work = metrics.work.with_labels(name)
        self._unfinished = metrics.unfinished.with_labels(name)
        self._longest = metrics.longest.with_labels(name)
        self._retries = metrics.retries.with_labels(name)
        self._added, self._started = dict[Any, float](), dict[Any, float]()

    def add(self, item: Any) -> None:
        """``item`` now needs work and did not before."""
        self._adds.inc()
        self._depth.inc()
        self._added.setdefault(item, self._clock.time())

    def get(self, item: Any) -> None:
        """A worker took ``item``."""
        self._depth.inc(-1.0)
        self._started[item] = now = self._clock.time()
        self._latency.observe(round(now - self._added.pop(item, now), 9))

    def done(self, item: Any) -> None:
        """A worker gave ``item`` back."""
        if item in self._started:
            self._work.observe(round(self._clock.time() - self._started.pop(item), 9))

    def retry(self) -> None:
        """Some key was added with a delay."""
        self._retries.inc()

    def update_unfinished_work(self) -> None:
        """Measure how long the items in work have been there."""
        ages = [self._clock.time() - started for started in self._started.values()]
        self._unfinished.set(round(sum(ages), 9))
        self._longest.set(round(max(ages, default=0.0), 9))


# %% book/90_clients_events_metrics.ipynb#190f6266
METHODS = {
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}
CLIENT_BOUNDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
CLIENT = {
    "requests_total": "Number of HTTP requests, partitioned by status code, method, and host.",
    "request_retries_total": "Number of request retries, partitioned by status code, verb, and "
    "host.",
    "request_duration_seconds": "Request latency in seconds. Broken down by verb, and host.",
    "rate_limiter_duration_seconds": "Client side rate limiter latency in seconds. Broken down by "
    "verb, and host.",
}
"""The metrics of clients and what they are, in upstream's words."""


def code_text(code: int) -> str:
    """Return the value of the label *code*."""
    return str(code) if code else "<error>"


# %% book/90_clients_events_metrics.ipynb#190f6201
class ClientMetrics:
    """How many requests were answered with which code, and how long they took."""

    def __init__(self, registry: Registry, host: str = "") -> None:
        self._host = host
        name = {key: (f"rest_client_{key}", text) for key, text in CLIENT.items()}
        by, bounds = ("verb", "host"), CLIENT_BOUNDS
        self._requests = registry.counter(*name["requests_total"], ("code", "method", "host"))
        self._retries = registry.counter(*name["request_retries_total"], ("code", *by))
        self._time = registry.histogram(*name["request_duration_seconds"], by, bounds=bounds)
        self._wait = registry.histogram(*name["rate_limiter_duration_seconds"], by, bounds=bounds)

    def request(self, verb: str, code: int) -> None:
        """Count a request; code 0 stands for no answer."""
        self._requests.with_labels(code_text(code), METHODS.get(verb, "GET"), self._host).inc()

    def retried(self, verb: str, code: int) -> None:
        """Count a request that will be sent again."""
        self._retries.with_labels(code_text(code), METHODS.get(verb, "GET"), self._host).inc()

    def throttled(self, verb: str, seconds: float) -> None:
        """Observe how long a request waited for its token."""
        self._wait.with_labels(METHODS.get(verb, "GET"), self._host).observe(seconds)

    def took(self, verb: str, seconds: float) -> None:
        """Observe how long a request took."""
        self._time.with_labels(METHODS.get(verb, "GET"), self._host).observe(seconds)


# %% book/90_clients_events_metrics.ipynb#840e2dfd
class ElectionMetrics:
    """What is counted of elections: what `LeaderMetrics` of ``client.leaderelection`` asks for."""

    def __init__(self, registry: Registry) -> None:
        note = "'name' is the string used to identify the lease. Please make sure to group by name."
        self._leader = registry.gauge(
            "leader_election_master_status",
            "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, "
            f"1 indicates master. {note}",
            ("name",),
        )
        self._slow = registry.counter(
            "leader_election_slowpath_total",
            f"Total number of slow path exercised in renewing leader leases. {note}",
            ("name",),
        )

    def leader_on(self, name: str) -> None:
        """This process leads."""
        self._leader.with_labels(name).set(1)

    def leader_off(self, name: str) -> None:
        """It does not."""
        self._leader.with_labels(name).set(0)

    def slowpath_exercised(self, name: str) -> None:
        """A leader had to read the lock before it could renew."""
        self._slow.with_labels(name).inc()
