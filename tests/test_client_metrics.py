from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client import Histogram as OfficialHistogram
from prometheus_client.parser import text_string_to_metric_families

from kcm_lite.client.metrics import (
    BOUNDS,
    ClientMetrics,
    Registry,
    WorkQueueMetrics,
    number_text,
)
from kcm_lite.client.workqueue import QueueMetrics
from kcm_lite.clock import VirtualClock

Sample = tuple[str, tuple[tuple[str, str], ...], float]


def parse(text: str) -> dict[str, tuple[str, str, list[Sample]]]:
    """Per family, as the official parser reads it: type, help, samples."""
    return {
        family.name: (
            family.type,
            family.documentation,
            [(s.name, tuple(sorted(s.labels.items())), float(s.value)) for s in family.samples],
        )
        for family in text_string_to_metric_families(text)
    }


def test_counter_and_gauge() -> None:
    registry = Registry()
    hits = registry.counter("hits_total", "How often.", ("path",))
    hits.with_labels("/b").inc()
    hits.with_labels("/a").inc(2.5)
    hits.with_labels("/b").inc()
    level = registry.gauge("level", "How high.").with_labels()
    level.set(3)
    level.inc(-1)
    assert registry.expose() == (
        "# HELP hits_total How often.\n"
        "# TYPE hits_total counter\n"
        'hits_total{path="/a"} 2.5\n'
        'hits_total{path="/b"} 2\n'
        "# HELP level How high.\n"
        "# TYPE level gauge\n"
        "level 2\n"
    )
    with pytest.raises(ValueError, match="cannot decrease"):
        hits.with_labels("/a").inc(-1)


def test_histogram_counts_what_is_at_most_a_bound() -> None:
    registry = Registry()
    family = registry.histogram("wait_seconds", "How long.", ("name",), bounds=(0.1, 1.0))
    for value in (0.0, 0.1, 0.5, 1.0, 7.0):
        family.with_labels("q").observe(value)
    kind, _, samples = parse(registry.expose())["wait_seconds"]
    assert kind == "histogram"
    assert samples == [
        ("wait_seconds_bucket", (("le", "0.1"), ("name", "q")), 2),
        ("wait_seconds_bucket", (("le", "1"), ("name", "q")), 4),
        ("wait_seconds_bucket", (("le", "+Inf"), ("name", "q")), 5),
        ("wait_seconds_sum", (("name", "q"),), 8.6),
        ("wait_seconds_count", (("name", "q"),), 5),
    ]


@given(
    st.dictionaries(st.text(max_size=8), st.floats(allow_nan=False), max_size=5),
    st.text(max_size=20),
)
def test_the_official_parser_reads_back_any_label_value_and_number(
    values: dict[str, float], help: str
) -> None:
    registry = Registry()
    family = registry.gauge("g", help, ("label",))
    for label, value in values.items():
        family.with_labels(label).set(value)
    text = registry.expose()
    if "\r" in text or any(c in text for c in "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"):
        return  # the parser splits lines at these; the format does not
    if not values:
        assert text.endswith("# TYPE g gauge\n")
        return
    samples = parse(text)["g"][2]
    assert {dict(labels)["label"]: value for _, labels, value in samples} == values


@given(st.lists(st.floats(min_value=0, max_value=2000), max_size=30))
def test_histograms_agree_with_the_official_library(values: list[float]) -> None:
    registry, official = Registry(), CollectorRegistry()
    ours = registry.histogram("h", "Help.", ("name",), bounds=BOUNDS).with_labels("x")
    theirs = OfficialHistogram("h", "Help.", ["name"], buckets=BOUNDS, registry=official).labels(
        "x"
    )
    for value in values:
        ours.observe(value)
        theirs.observe(value)
    wanted = parse(generate_latest(official).decode())["h"]
    found = parse(registry.expose())["h"]

    def numbers(samples: list[Sample]) -> list[Any]:
        return [
            (name, float(dict(labels).get("le", "nan")) if "le" in dict(labels) else None, value)
            for name, labels, value in samples
            if not name.endswith("_created")
        ]

    assert sorted(map(str, numbers(found[2]))) == sorted(map(str, numbers(wanted[2])))


def test_special_numbers_are_written_as_the_official_library_writes_them() -> None:
    registry, official = Registry(), CollectorRegistry()
    for i, value in enumerate([math.inf, -math.inf, math.nan, 1e-08, 1e21, 0.1, -3.0]):
        registry.gauge(f"g{i}", "h").with_labels().set(value)
        Gauge(f"g{i}", "h", registry=official).set(value)
    assert str(parse(registry.expose())) == str(parse(generate_latest(official).decode()))


def test_queue_bounds_are_upstreams() -> None:
    assert [number_text(bound) for bound in BOUNDS[:5]] == [
        "1e-08",
        "1e-07",
        "1e-06",
        "9.999999999999999e-06",
        "9.999999999999999e-05",
    ]
    assert BOUNDS[-1] == pytest.approx(10) and len(BOUNDS) == 10


@pytest.mark.parametrize("name", ["", "1x", "a-b", "a b", "ä", "a\n"])
def test_bad_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not a metric or label name"):
        Registry().counter(name, "h")
    with pytest.raises(ValueError, match="not a metric or label name"):
        Registry().counter("ok", "h", (name,))


def test_other_mistakes_are_refused() -> None:
    registry = Registry()
    family = registry.counter("c", "h", ("x",))
    assert registry.counter("c", "h", ("x",)) is family
    registry.histogram("b", "h", bounds=(1.0,))
    for wrong in (
        lambda: registry.gauge("c", "h", ("x",)),
        lambda: registry.counter("c", "h", ("y",)),
        lambda: registry.counter("c", "other", ("x",)),
        lambda: registry.histogram("b", "h", bounds=(2.0,)),
    ):
        with pytest.raises(ValueError, match="registered already, as something else"):
            wrong()
    for values in ((), ("a", "b")):
        with pytest.raises(ValueError, match="has the labels"):
            family.with_labels(*values)
    for bounds in ((1.0, 1.0), (2.0, 1.0)):
        with pytest.raises(ValueError, match="must ascend"):
            registry.histogram("h", "h", bounds=bounds)


def test_queue_metrics_follow_an_item() -> None:
    clock, registry = VirtualClock(), Registry()
    queue: QueueMetrics[str] = WorkQueueMetrics(registry, clock).queue("rs")

    def value(name: str, suffix: str = "") -> float:
        samples = parse(registry.expose())[name.removesuffix("_total")][2]
        (found,) = [v for n, _, v in samples if n == name + suffix]
        return found

    queue.add("a")
    queue.add("b")
    assert value("workqueue_depth") == 2 and value("workqueue_adds_total") == 2
    clock.run_for(2)
    queue.get("a")
    assert value("workqueue_depth") == 1
    assert value("workqueue_queue_duration_seconds", "_sum") == 2
    queue.add("a")  # while a worker holds it
    clock.run_for(3)
    queue.get("b")
    clock.run_for(1)
    queue.update_unfinished_work()
    assert value("workqueue_unfinished_work_seconds") == 5
    assert value("workqueue_longest_running_processor_seconds") == 4
    queue.done("a")
    queue.done("a")  # nobody works on it now: no second observation
    assert value("workqueue_work_duration_seconds", "_sum") == 4
    assert value("workqueue_work_duration_seconds", "_count") == 1
    queue.get("a")
    assert value("workqueue_queue_duration_seconds", "_sum") == 2 + 5 + 4
    queue.retry()
    queue.retry()
    assert value("workqueue_retries_total") == 2
    queue.done("a")
    queue.done("b")
    queue.add("c")
    clock.run_for(1)
    queue.add("c")  # it waits since the first time
    clock.run_for(1)
    queue.get("c")
    assert value("workqueue_queue_duration_seconds", "_sum") == 2 + 5 + 4 + 2
    queue.done("c")
    queue.update_unfinished_work()
    assert value("workqueue_unfinished_work_seconds") == 0


def test_a_new_queue_shows_zeros() -> None:
    registry = Registry()
    WorkQueueMetrics(registry, VirtualClock()).queue("rs")
    families = parse(registry.expose())
    assert len(families) == 7
    assert {value for _, _, samples in families.values() for *_, value in samples} == {0.0}


def test_queues_share_families() -> None:
    clock, registry = VirtualClock(), Registry()
    metrics = WorkQueueMetrics(registry, clock)
    metrics.queue("b").add("x")
    metrics.queue("a").add("x")
    text = registry.expose()
    assert text.count("# TYPE workqueue_depth gauge") == 1
    assert text.index('workqueue_depth{name="a"} 1') < text.index('workqueue_depth{name="b"} 1')
    assert 'workqueue_queue_duration_seconds_bucket{name="a",le="9.999999999999999e-06"} 0' in text


def test_requests_by_code_and_method() -> None:
    registry = Registry()
    metrics = ClientMetrics(registry, "localhost:6443")
    calls = "get 200, list 200, create 201, update 409, patch 200, delete 404, deletecollection 200"
    for call in f"{calls}, get 0".split(", "):
        verb, code = call.split()
        metrics.request(verb, int(code))
    samples = parse(registry.expose())["rest_client_requests"][2]
    found = {(dict(labels)["method"], dict(labels)["code"]): v for _, labels, v in samples}
    assert found == {
        ("GET", "200"): 2,
        ("POST", "201"): 1,
        ("PUT", "409"): 1,
        ("PATCH", "200"): 1,
        ("DELETE", "404"): 1,
        ("DELETE", "200"): 1,
        ("GET", "<error>"): 1,
    }
    assert dict(samples[0][1])["host"] == "localhost:6443"
