"""The ownership graph equals what the objects say, whatever the order of events."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kcm_lite.api.core import ConfigMap, Node
from kcm_lite.api.meta import ObjectMeta, OwnerReference
from kcm_lite.controllers import garbagegraph as gg

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = "abcde"


def ref(name: str, *, block: bool | None = None, kind: str = "ConfigMap") -> OwnerReference:
    return OwnerReference(
        api_version="v1", kind=kind, name=name, uid=f"uid-{name}", block_owner_deletion=block
    )


def config_map(name: str, *refs: OwnerReference, namespace: str = "ns", **meta: Any) -> ConfigMap:
    return ConfigMap(
        metadata=ObjectMeta(
            name=name, namespace=namespace, uid=f"uid-{name}", owner_references=refs, **meta
        )
    )


def new_graph() -> tuple[gg.Graph, list[str]]:
    told: list[str] = []
    return (
        gg.Graph(
            attempt_to_delete=lambda n: told.append(f"delete {n.identity.name}"),
            attempt_to_orphan=lambda n: told.append(f"orphan {n.identity.name}"),
            retry_delete=lambda n: told.append(f"retry {n.identity.name}"),
            invalid_namespace=lambda n, r: told.append(f"invalid {n.identity.name}->{r.name}"),
        ),
        told,
    )


def links(graph: gg.Graph) -> set[tuple[str, str]]:
    return {
        (owner.identity.uid, dependent.identity.uid)
        for owner in graph.nodes.values()
        for dependent in owner.dependents
    }


@given(
    st.lists(
        st.tuples(
            st.sampled_from(NAMES),
            st.one_of(st.none(), st.lists(st.sampled_from(NAMES), unique=True, max_size=3)),
        ),
        max_size=40,
    )
)
def test_the_graph_is_what_the_objects_say(events: list[tuple[str, list[str] | None]]) -> None:
    graph, told = new_graph()
    live: dict[str, ConfigMap] = {}
    born = dict.fromkeys(NAMES, 0)  # a name that comes back is another object, with another UID

    def current(name: str) -> str:
        return f"{name}{born[name]}"

    for name, owners in events:
        me = current(name)
        if owners is None:
            if me in live:
                gone = live.pop(me)
                born[name] += 1
                bereaved = [o for o in live.values() if ref(me) in o.metadata.owner_references]
                told.clear()
                gg.process_delete(graph, gg.identity_of(gone))
                queued = [line.removeprefix("delete ") for line in told]
                assert sorted(queued) == sorted(o.metadata.name for o in bereaved)
        else:
            new = config_map(me, *(ref(current(o)) for o in owners if o != name))
            gg.process_update(graph, live.get(me), new)
            live[me] = new
        want = {(r.uid, o.metadata.uid) for o in live.values() for r in o.metadata.owner_references}
        alive = {o.metadata.uid for o in live.values()}
        got = links(graph)
        assert got <= want
        assert {pair for pair in got if pair[0] in alive} == {p for p in want if p[0] in alive}
        assert {uid for uid, node in graph.nodes.items() if not node.virtual} == alive


def test_a_child_before_its_owner_makes_the_owner_looked_up() -> None:
    graph, told = new_graph()
    gg.process_update(graph, None, config_map("b", ref("a")))
    assert told == ["delete a"]
    assert graph.nodes["uid-a"].virtual
    gg.process_update(graph, None, config_map("a"))
    assert not graph.nodes["uid-a"].virtual
    assert links(graph) == {("uid-a", "uid-b")}


def test_foreground_wakes_the_dependents_and_the_owner_once() -> None:
    graph, told = new_graph()
    owner = config_map("a")
    gg.process_update(graph, None, owner)
    gg.process_update(graph, None, config_map("b", ref("a", block=True)))
    going = config_map("a", deletion_timestamp=NOW, finalizers=("foregroundDeletion",))
    gg.process_update(graph, owner, going)
    assert told == ["delete b", "delete a"]
    gg.process_update(graph, going, going)
    assert told == ["delete b", "delete a"]
    assert [n.identity.name for n in gg.blocking_dependents(graph.nodes["uid-a"])] == ["b"]


def test_orphan_wakes_the_orphan_queue_only() -> None:
    graph, told = new_graph()
    gg.process_update(graph, None, config_map("b", ref("a")))
    told.clear()
    gg.process_update(graph, None, config_map("a", deletion_timestamp=NOW, finalizers=("orphan",)))
    assert told == ["orphan a"]


def test_an_owner_is_woken_when_a_blocking_reference_stops_blocking() -> None:
    for after in ((), (ref("a"),), (ref("a", block=False),)):
        graph, told = new_graph()
        gg.process_update(graph, None, config_map("a"))
        before = config_map("b", ref("a", block=True))
        gg.process_update(graph, None, before)
        gg.process_update(graph, before, config_map("b", *after))
        assert told == ["delete a"], after


def test_an_owner_in_another_namespace_is_reported_and_checked() -> None:
    graph, told = new_graph()
    gg.process_update(graph, None, config_map("a", namespace="other"))
    gg.process_update(graph, None, config_map("b", ref("a")))
    assert told == ["invalid b->a", "delete b"]


def test_a_reference_with_wrong_coordinates_is_checked() -> None:
    graph, told = new_graph()
    gg.process_update(graph, None, config_map("a"))
    gg.process_update(graph, None, config_map("b", ref("a", kind="Secret")))
    assert told == ["delete b"]


def test_a_cluster_scoped_owner_serves_every_namespace() -> None:
    graph, told = new_graph()
    node = Node(metadata=ObjectMeta(name="n", uid="uid-n"))
    gg.process_update(graph, None, node)
    gg.process_update(graph, None, config_map("b", ref("n", kind="Node")))
    assert told == []


def test_a_virtual_delete_with_two_descriptions_tries_the_other_one() -> None:
    graph, told = new_graph()
    gg.process_update(graph, None, config_map("b", ref("a")))
    gg.process_update(graph, None, config_map("c", ref("a", kind="Secret")))
    told.clear()
    absent = graph.nodes["uid-a"].identity
    gg.process_delete(graph, absent, virtual=True)
    assert told == ["delete b", "retry a"]
    assert absent in graph.absent
    assert graph.nodes["uid-a"].identity.kind == "Secret"


def test_a_virtual_delete_never_removes_an_object_that_a_watch_showed_otherwise() -> None:
    graph, told = new_graph()
    gg.process_update(graph, None, config_map("a", namespace="real"))
    wrong = gg.Identity("ConfigMap", "v1", "ns", "a", "uid-a")
    gg.process_delete(graph, wrong, virtual=True)
    assert "uid-a" in graph.nodes
    assert told == []


def test_the_memory_of_absent_owners_is_bounded() -> None:
    graph, _ = new_graph()
    for i in range(gg.ABSENT_OWNERS + 10):
        gg.remember_absent(graph, gg.Identity("ConfigMap", "v1", "ns", f"n{i}", f"u{i}"))
    assert len(graph.absent) == gg.ABSENT_OWNERS
    assert gg.Identity("ConfigMap", "v1", "ns", "n0", "u0") not in graph.absent
