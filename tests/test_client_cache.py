from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm_lite.api.apps import ReplicaSet
from kcm_lite.api.core import Node, Pod
from kcm_lite.api.errors import NotFound
from kcm_lite.api.meta import ObjectMeta, object_key, split_key
from kcm_lite.api.selectors import selector_from_set
from kcm_lite.client.cache import (
    CONTROLLER_UID_INDEX,
    NAMESPACE_INDEX,
    Indexer,
    Lister,
    Tombstone,
    index_by_controller_uid,
    index_by_namespace,
    key_of,
    last_state,
)
from tests.client_fakes import pod


def test_keys_have_a_namespace_only_if_the_object_has_one() -> None:
    assert object_key(pod("a")) == "ns/a"
    assert object_key(Node(metadata=ObjectMeta(name="node-1"))) == "node-1"


def test_a_tombstone_keeps_its_own_key() -> None:
    grave: Tombstone[Pod] = Tombstone("ns/other", pod("a"))
    assert (key_of(grave), key_of(pod("a"))) == ("ns/other", "ns/a")
    assert last_state(grave) == last_state(pod("a")) == pod("a")


def test_keys_split_again() -> None:
    assert split_key("ns/a") == ("ns", "a")
    assert split_key("node-1") == ("", "node-1")
    assert split_key("") == ("", "")


@pytest.mark.parametrize("key", ["a/b/c", "a//b", "///"])
def test_a_malformed_key_is_an_error(key: str) -> None:
    with pytest.raises(ValueError, match=f'unexpected key format: "{key}"'):
        split_key(key)


def labels_index(obj: Any) -> tuple[str, ...]:
    return tuple(obj.metadata.labels.values())


def make_indexer() -> Indexer[Pod]:
    return Indexer(
        {
            NAMESPACE_INDEX: index_by_namespace,
            CONTROLLER_UID_INDEX: index_by_controller_uid,
            "labels": labels_index,
        }
    )


steps = st.lists(
    st.tuples(
        st.sampled_from(["put", "remove", "replace"]),
        st.sampled_from("ab"),
        st.sampled_from(["n1", "n2"]),
        st.sampled_from(["", "u1", "u2"]),
        st.lists(st.sampled_from("xyz"), max_size=3),
    ),
    max_size=30,
)


@given(steps)
def test_indexes_are_always_true(ops: list[tuple[str, str, str, str, list[str]]]) -> None:
    indexer, model = make_indexer(), dict[str, Pod]()
    for op, name, namespace, owner, labels in ops:
        obj = pod(name, namespace, owner=owner, **{f"l{i}": v for i, v in enumerate(labels)})
        key = object_key(obj)
        if op == "put":
            assert indexer.put(key, obj) is model.get(key)
            model[key] = obj
        elif op == "remove":
            assert indexer.remove(key) is model.pop(key, None)
        else:
            model = {key: obj}
            indexer.replace([obj], "7")
            assert indexer.resource_version == "7"
        assert indexer.list() == list(model.values())
        assert len(indexer) == len(model)
        for name_, function in (
            (NAMESPACE_INDEX, index_by_namespace),
            (CONTROLLER_UID_INDEX, index_by_controller_uid),
            ("labels", labels_index),
        ):
            groups = indexer.indices[name_].groups
            wanted: dict[str, dict[str, Pod]] = {}
            for other, found in model.items():
                for value in function(found):
                    wanted.setdefault(value, {})[other] = found
            assert groups == wanted
            for value, members in wanted.items():
                assert sorted(map(object_key, indexer.by_index(name_, value))) == sorted(members)


def test_add_update_and_delete_go_by_the_objects_key() -> None:
    indexer = make_indexer()
    indexer.add(pod("a", owner="u1"))
    indexer.update(pod("a", owner="u2"))
    assert indexer.by_index(CONTROLLER_UID_INDEX, "u1") == []
    assert [p.metadata.name for p in indexer.by_index(CONTROLLER_UID_INDEX, "u2")] == ["a"]
    indexer.delete(Tombstone("ns/a", pod("a")))
    indexer.delete(pod("a"))  # a second time: no harm
    assert indexer.list() == [] and "ns/a" not in indexer


def test_an_orphan_is_in_no_owner_group() -> None:
    indexer = make_indexer()
    indexer.add(pod("a"))
    assert indexer.by_index(CONTROLLER_UID_INDEX, "") == []


def test_a_late_index_covers_what_is_there() -> None:
    indexer: Indexer[Pod] = Indexer()
    indexer.add(pod("a", owner="u1"))
    indexer.add_indexer(CONTROLLER_UID_INDEX, index_by_controller_uid)
    assert indexer.by_index(CONTROLLER_UID_INDEX, "u1") == indexer.list()


def test_index_names_are_unique() -> None:
    indexer = make_indexer()
    indexer.add_indexer(NAMESPACE_INDEX, index_by_namespace)  # the same again is fine
    with pytest.raises(ValueError, match="indexer conflict: namespace"):
        indexer.add_indexer(NAMESPACE_INDEX, labels_index)
    with pytest.raises(KeyError, match="Index with name nope does not exist"):
        indexer.by_index("nope", "x")


def test_lists_are_copies() -> None:
    indexer = make_indexer()
    indexer.add(pod("a"))
    indexer.list().clear()
    indexer.by_index(NAMESPACE_INDEX, "ns").clear()
    assert len(indexer) == 1 and len(indexer.by_index(NAMESPACE_INDEX, "ns")) == 1


def test_cached_objects_cannot_be_changed() -> None:
    indexer = make_indexer()
    indexer.add(pod("a"))
    found = indexer.get("ns/a")
    assert found is not None
    with pytest.raises(AttributeError, match="immutable"):
        found.metadata.name = "b"  # type: ignore[misc]


HAS_APP = selector_from_set({"app": "x"})


def test_a_lister_reads_the_cache() -> None:
    indexer = make_indexer()
    for obj in (pod("a", "n1", app="x"), pod("b", "n1"), pod("c", "n2", app="x")):
        indexer.add(obj)
    lister = Lister(indexer, Pod)
    assert lister.get("n1", "a").metadata.name == "a"
    names = [[p.metadata.name for p in found] for found in (
        lister.list(), lister.list("n1"), lister.list("n2", HAS_APP), lister.list("", HAS_APP),
        lister.list("n3"),
    )]  # fmt: skip
    assert names == [["a", "b", "c"], ["a", "b"], ["c"], ["a", "c"], []]


def test_a_lister_without_the_namespace_index_looks_at_everything() -> None:
    indexer: Indexer[Pod] = Indexer()
    indexer.add(pod("a", "n1"))
    indexer.add(pod("b", "n2"))
    assert [p.metadata.name for p in Lister(indexer, Pod).list("n2")] == ["b"]


def test_what_the_cache_lacks_is_not_found_in_the_words_of_upstream() -> None:
    nodes: Indexer[Node] = Indexer()
    nodes.add(Node(metadata=ObjectMeta(name="n")))
    assert Lister(nodes, Node).get("", "n").metadata.name == "n"
    sets: Indexer[ReplicaSet] = Indexer()
    with pytest.raises(NotFound) as caught:
        Lister(sets, ReplicaSet).get("ns", "web")
    assert caught.value.message == 'replicaset.apps "web" not found'
    with pytest.raises(NotFound, match='pod "a" not found'):
        Lister(make_indexer(), Pod).get("ns", "a")
