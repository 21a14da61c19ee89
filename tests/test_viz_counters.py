"""The counts of the note against the world, from records written by hand and from a run."""

from __future__ import annotations

from datetime import UTC, datetime

from kcm_lite.api.apps import ReplicaSet, ReplicaSetSpec
from kcm_lite.api.core import Pod
from kcm_lite.api.meta import ObjectMeta, OwnerReference
from kcm_lite.trace import ApiWrite, Delivery, ExpectationChange, Record, Trace
from kcm_lite.viz.counters import counters, notes

KEY = "default/web"
LATER = datetime(2026, 1, 1, tzinfo=UTC)


def a_set(replicas: int | None) -> ReplicaSet:
    meta = ObjectMeta(name="web", namespace="default")
    return ReplicaSet(metadata=meta, spec=ReplicaSetSpec(replicas=replicas))


def a_pod(version: str, *, owner: str = "web", going: bool = False) -> Pod:
    ref = OwnerReference(kind="ReplicaSet", name=owner, uid="u", controller=True)
    meta = ObjectMeta(
        name="p",
        namespace="default",
        resource_version=version,
        owner_references=(ref,),
        deletion_timestamp=LATER if going else None,
    )
    return Pod(metadata=meta)


def write(t: float, old: Pod | ReplicaSet | None, new: Pod | ReplicaSet | None) -> ApiWrite:
    obj = new or old
    assert obj is not None
    name = obj.metadata.name
    return ApiWrite(t, "a", "patch", "pods", "", "default", name, 200, old=old, new=new)


def news(t: float, kind: str, version: str, resource: str = "pods") -> Delivery:
    return Delivery(t, "c", kind, resource, "default/p", version)


def note(t: float, add: int, dele: int, key: str = KEY) -> ExpectationChange:
    return ExpectationChange(t, "c", key, "expect", add, dele)


def rows(*records: Record) -> list[tuple[float, ...]]:
    trace = Trace()
    for record in records:
        trace.write(record)
    table = counters(trace, KEY)
    assert list(table.columns) == ["t", "wanted", "stored", "cached", "adds", "dels"]
    return list(table.itertuples(index=False, name=None))


def test_a_pods_life_is_counted_at_the_server_and_later_in_the_cache() -> None:
    new, going = a_pod("1"), a_pod("2", going=True)
    assert rows(
        write(0.5, None, a_set(1)),
        note(1.0, 1, 0),
        write(1.5, None, new),
        news(2.0, "ADDED", "1"),
        note(2.0, 0, 0),
        write(3.0, new, going),
        news(3.5, "MODIFIED", "2"),
        write(4.0, going, None),
        news(4.5, "DELETED", "3"),
    ) == [
        (0.0, 0, 0, 0, 0, 0),
        (0.5, 1, 0, 0, 0, 0),
        (1.0, 1, 0, 0, 1, 0),
        (1.5, 1, 1, 0, 1, 0),
        (2.0, 1, 1, 1, 1, 0),
        (2.0, 1, 1, 1, 0, 0),
        (3.0, 1, 0, 1, 0, 0),
        (3.5, 1, 0, 0, 0, 0),
    ]


def test_unset_replicas_are_one_and_a_set_that_is_gone_wants_none() -> None:
    one = a_set(None)
    assert [r[1] for r in rows(write(1, None, one), write(2, one, None))] == [0, 1, 0]


def test_what_is_not_of_the_set_does_not_count() -> None:
    refused = ApiWrite(1, "a", "create", "pods", "", "default", "web-", 403)
    other = a_pod("7", owner="other")
    changes = rows(
        refused,
        write(2, None, other),
        news(3, "ADDED", "7"),
        news(5, "ADDED", "1", "replicasets"),
        note(6, 3, 0, "default/other"),
    )
    assert changes == [(0.0, 0, 0, 0, 0, 0)]


def test_a_bookmark_is_no_pod_though_it_bears_the_version_of_one() -> None:
    bookmark = Delivery(2, "c", "BOOKMARK", "pods", "", "1")
    assert rows(write(1, None, a_pod("1")), bookmark)[-1] == (1.0, 0, 1, 0, 0, 0)


def test_the_picture_has_a_panel_for_each_run_and_ends_where_it_is_told() -> None:
    trace = Trace()
    trace.write(write(1, None, a_set(2)))
    trace.write(note(9, 5, 0))
    figure = notes({"one": trace, "two": trace}, KEY, 4.0)
    assert [a.text for a in figure.layout.annotations] == ["one", "two"]
    assert tuple(figure.layout.xaxis.range) == (0, 4.0)
    wanted = [line for line in figure.data if line.name == "wanted"]
    assert [tuple(line.x) for line in wanted] == [(0.0, 1.0, 4.0)] * 2
    due = next(line for line in figure.data if line.name == "creations expected")
    assert max(due.y) == 0  # what happens after the end is left out
