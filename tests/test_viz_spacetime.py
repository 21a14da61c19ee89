"""Space-time diagrams: one arrow a record, lanes in order, nothing lost."""

from __future__ import annotations

from kcm_lite.trace import (
    ApiWrite,
    Decision,
    Delivery,
    ExpectationChange,
    Note,
    QueueOp,
    Record,
    SyncEnd,
    SyncStart,
)
from kcm_lite.viz.spacetime import Step, lanes_of, listing, space_time, step_of, steps

RECORDS: list[Record] = [
    Note(0.0, "scenario", "delete pod web-1"),
    ApiWrite(0.005, "user", "delete", "pods", "", "default", "web-1", 200),
    Delivery(0.007, "manager", "MODIFIED", "pods", "default/web-1", "7"),
    QueueOp(0.007, "replicaset", "add", "default/web"),
    QueueOp(0.007, "replicaset", "get", "default/web"),
    SyncStart(0.007, "replicaset-controller", 0, "default/web"),
    ExpectationChange(0.007, "replicaset-controller", "default/web", "expect", 1, 0),
    Decision(0.007, "replicaset-controller", "default/web", "batch", "default/web", "1 missing"),
    ApiWrite(0.012, "replicaset-controller", "create", "pods", "", "default", "web-", 403),
    SyncEnd(0.02, "replicaset-controller", 0, "default/web", "quota"),
]


def test_every_record_but_a_queue_get_is_an_arrow() -> None:
    arrows = steps(RECORDS)
    assert len(arrows) == len(RECORDS) - 1
    assert step_of(RECORDS[4]) is None
    assert [(a.source, a.target) for a in arrows[1:4]] == [
        ("user", "API server"),
        ("API server", "cache"),
        ("cache", "queue"),
    ]
    assert arrows[-2].text == "create pods web-: refused, 403"
    assert arrows[-1].text == "sync of default/web failed: quota"


def test_window_and_filter() -> None:
    assert [a.t for a in steps(RECORDS, start=0.001, end=0.006)] == [0.005]
    only = steps(RECORDS, keep=lambda r: isinstance(r, ApiWrite))
    assert [a.t for a in only] == [0.005, 0.012]


def test_lanes_read_from_people_to_controllers() -> None:
    want = ["user", "API server", "cache", "queue", "replicaset-controller"]
    assert lanes_of(steps(RECORDS)) == want


def test_the_figure_has_one_number_a_step_and_one_arrow_a_message() -> None:
    arrows = steps(RECORDS)
    figure = space_time(arrows)
    lines, heads, dots = figure.data  # later traces lie above: no arrow hides a number
    assert list(dots.text) == [str(n) for n in range(1, len(arrows) + 1)]
    messages = [a for a in arrows if a.source != a.target]
    assert len(heads.x) == len(messages)
    assert (lines.x[:3], lines.y[:3]) == ((0, 1, None), (2, 2, None))
    assert (heads.x[0], heads.y[0]) == (1, 2)
    assert not figure.layout.annotations
    assert list(figure.layout.yaxis.ticktext).count("0.007 s") == 1


def test_heads_point_to_who_is_told() -> None:
    there, back = Step(0, "user", "API server", "asks"), Step(1, "API server", "user", "answers")
    _, heads, _ = space_time([there, back]).data
    assert list(heads.x) == [1, 0]
    assert list(heads.marker.angle) == [90, -90]


def test_listing_fits_the_page() -> None:
    lines = listing(steps(RECORDS)).splitlines()
    assert len(lines) == 9
    assert max(map(len, lines)) <= 80
    assert lines[1].startswith(" 2    0.005 user > API server: delete pods web-1")
