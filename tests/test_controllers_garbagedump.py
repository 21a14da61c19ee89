"""The collector's graph in DOT."""

from __future__ import annotations

from kcm_lite.api.core import ConfigMap
from kcm_lite.api.meta import ObjectMeta, OwnerReference
from kcm_lite.controllers.garbagedump import answer
from kcm_lite.controllers.garbagegraph import Graph, process_update

NOBODY: dict[str, list[str]] = {}


def config_map(name: str, *owners: str) -> ConfigMap:
    refs = tuple(
        OwnerReference(api_version="v1", kind="ConfigMap", name=o, uid=f"u-{o}") for o in owners
    )
    return ConfigMap(
        metadata=ObjectMeta(namespace="ns", name=name, uid=f"u-{name}", owner_references=refs)
    )


def graph(*objects: ConfigMap) -> Graph:
    made = Graph(lambda node: None, lambda node: None, lambda node: None, lambda node, ref: None)
    for obj in objects:
        process_update(made, None, obj)
    return made


def dot(made: Graph, *uids: str) -> str:
    found = answer(made, "/graph", {"uid": list(uids)} if uids else NOBODY)
    assert found is not None and found[0] == "text/vnd.graphviz"
    return found[1]


def test_an_empty_graph() -> None:
    assert dot(graph()) == "strict digraph full {\n}\n"
    assert dot(graph(config_map("alone"))) == "strict digraph full {\n}\n"


def test_a_node_says_what_is_known_of_it() -> None:
    assert dot(graph(config_map("a"), config_map("b", "a"))) == (
        """strict digraph full {
  // Node definitions.
  "u-a" [
    label="uid=u-a\\nnamespace=ns\\nConfigMap.v1/a\\n"
    group=""
    version="v1"
    kind="ConfigMap"
    namespace="ns"
    name="a"
    uid="u-a"
    missing="false"
    beingDeleted="false"
    deletingDependents="false"
    virtual="false"
  ];
  "u-b" [
    label="uid=u-b\\nnamespace=ns\\nConfigMap.v1/b\\n"
    group=""
    version="v1"
    kind="ConfigMap"
    namespace="ns"
    name="b"
    uid="u-b"
    missing="false"
    beingDeleted="false"
    deletingDependents="false"
    virtual="false"
  ];
  // Edge definitions.
  "u-b" -> "u-a";
}
"""
    )


def test_what_no_watch_has_shown_is_virtual() -> None:
    text = dot(graph(config_map("b", "a")))
    assert 'virtual="true"' in text and "ConfigMap.v1/a\\nvirtual\\n" in text


def test_one_object_and_what_hangs_together_with_it() -> None:
    made = graph(config_map("a"), config_map("b", "a"), config_map("c", "b"), config_map("x", "y"))
    for uid in ("u-a", "u-b", "u-c"):
        text = dot(made, uid)
        assert text == dot(made, "u-a", "u-nobody") and "u-x" not in text
        assert '"u-c" -> "u-b";' in text and '"u-b" -> "u-a";' in text
    assert dot(made, "u-nobody") == dot(graph())


def test_an_owner_outside_of_what_is_shown_is_missing() -> None:
    made = graph(config_map("a"), config_map("b", "a"))
    del made.nodes["u-a"]
    text = dot(made)
    assert 'missing="true"' in text and "ConfigMap.v1/a\\nmissingFromGraph\\n" in text


def test_there_is_no_other_path() -> None:
    for path in ("", "/", "/graphs", "/graph/"):
        assert answer(graph(), path, NOBODY) is None
