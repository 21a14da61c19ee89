"""The picture of the ownership graph."""

from __future__ import annotations

from datetime import UTC, datetime

from kcm_lite.api.core import ConfigMap
from kcm_lite.api.meta import ObjectMeta, OwnerReference
from kcm_lite.controllers.garbagegraph import Graph, process_update
from kcm_lite.viz.graphs import GOING, LIVE, VIRTUAL, ownership

LATER = datetime(2026, 1, 1, tzinfo=UTC)


def thing(name: str, *owners: str, going: bool = False) -> ConfigMap:
    refs = tuple(
        OwnerReference(api_version="v1", kind="ConfigMap", name=owner, uid=f"uid-{owner}")
        for owner in owners
    )
    meta = ObjectMeta(
        name=name,
        namespace="default",
        uid=f"uid-{name}",
        owner_references=refs,
        deletion_timestamp=LATER if going else None,
    )
    return ConfigMap(metadata=meta)


def graph_of(*objects: ConfigMap) -> Graph:
    graph = Graph(lambda _: None, lambda _: None, lambda _: None, lambda _, __: None)
    for obj in objects:
        process_update(graph, None, obj)
    return graph


def test_owners_stand_above_and_an_arrow_goes_to_each() -> None:
    graph = graph_of(thing("a"), thing("b", "a"), thing("c", "a", "b"))
    figure = ownership(graph.nodes.values())
    [dots] = figure.data
    height = dict(zip(dots.text, dots.y, strict=True))
    assert height["a"] > height["b"] > height["c"]
    place = dict(zip(dots.text, zip(dots.x, dots.y, strict=True), strict=True))
    arrows = {((x.ax, x.ay), (x.x, x.y)) for x in figure.layout.annotations}
    pairs = [("b", "a"), ("c", "a"), ("c", "b")]
    assert arrows == {(place[dependent], place[owner]) for dependent, owner in pairs}


def test_colours_tell_what_is_there_what_goes_and_what_nobody_has_seen() -> None:
    graph = graph_of(thing("a"), thing("b", "a", going=True), thing("c", "ghost"))
    [dots] = ownership(graph.nodes.values()).data
    colours = dict(zip(dots.text, dots.marker.color, strict=True))
    assert colours == {"a": LIVE, "b": GOING, "c": LIVE, "ghost": VIRTUAL}


def test_short_names_stand_inside_and_long_ones_where_no_arrow_goes() -> None:
    [dots] = ownership(graph_of(thing("abcdef"), thing("b", "abcdef")).nodes.values()).data
    assert dots.textposition == "middle center"
    long = graph_of(thing("abcdefg"), thing("b", "abcdefg"), thing("c", "b"))
    [dots] = ownership(long.nodes.values()).data
    places = dict(zip(dots.text, dots.textposition, strict=True))
    assert places == {"abcdefg": "top center", "b": "middle right", "c": "bottom center"}


def test_a_circle_can_be_drawn() -> None:
    figure = ownership(graph_of(thing("a", "b"), thing("b", "a")).nodes.values())
    assert len(figure.layout.annotations) == 2
