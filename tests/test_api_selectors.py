"""Label and field selectors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm_lite.api.apps import ReplicaSet
from kcm_lite.api.core import Event, EventSource, Node, NodeSpec, Pod, PodSpec, PodStatus
from kcm_lite.api.errors import BadRequest
from kcm_lite.api.fieldselectors import parse_field_selector
from kcm_lite.api.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from kcm_lite.api.selectors import (
    DOES_NOT_EXIST,
    DOUBLE_EQUALS,
    EQUALS,
    EXISTS,
    GREATER_THAN,
    IN,
    LESS_THAN,
    NOT_EQUALS,
    NOT_IN,
    NOTHING,
    Requirement,
    Selector,
    SelectorError,
    format_label_selector,
    label_selector_as_selector,
    new_requirement,
    parse_selector,
    selector_from_set,
)

keys = st.sampled_from(["app", "tier", "a/b", "example.com/x", "n", "in", "notin"])
OPERATORS = [IN, NOT_IN, EXISTS, DOES_NOT_EXIST, EQUALS, DOUBLE_EQUALS, NOT_EQUALS]
OPERATORS += [GREATER_THAN, LESS_THAN]
values = st.sampled_from(["", "x", "y", "10", "in", "notin", "a.b_c"])


@st.composite
def requirements(draw: st.DrawFn) -> Requirement:
    operator = draw(st.sampled_from(OPERATORS))
    if operator in (EXISTS, DOES_NOT_EXIST):
        wanted: tuple[str, ...] = ()
    elif operator in (IN, NOT_IN):
        wanted = tuple(sorted(draw(st.sets(values, min_size=1))))
    elif operator in (GREATER_THAN, LESS_THAN):
        wanted = (str(draw(st.integers(0, 20))),)
    else:
        wanted = (draw(values),)
    return new_requirement(draw(keys), operator, wanted)


labels = st.dictionaries(keys, values)


@given(st.lists(requirements()), labels)
def test_text_round_trip(wanted: list[Requirement], of: dict[str, str]) -> None:
    selector = Selector(tuple(sorted(wanted, key=lambda r: r.key)))
    again = parse_selector(str(selector))
    assert again == selector
    assert str(again) == str(selector)
    assert again.matches(of) == selector.matches(of)
    assert selector.empty == (not wanted)


@given(labels, labels)
def test_a_set_selects_its_supersets(wanted: dict[str, str], of: dict[str, str]) -> None:
    spec = LabelSelector(match_labels=wanted)
    expected = wanted.items() <= of.items()
    assert label_selector_as_selector(spec).matches(of) == expected
    assert selector_from_set(wanted).matches(of) == expected
    assert str(selector_from_set(wanted)) == str(label_selector_as_selector(spec))


def test_equal_selectors_are_remembered_by_object_not_by_address() -> None:
    for i in range(10_000):  # more than the memory holds, addresses are reused meanwhile
        spec = LabelSelector(match_labels={"app": str(i)})
        assert label_selector_as_selector(spec).matches({"app": str(i)})
        assert label_selector_as_selector(spec) is label_selector_as_selector(spec)


def test_none_matches_nothing_and_says_so() -> None:
    assert label_selector_as_selector(None) is NOTHING
    assert not NOTHING.matches({})
    assert not NOTHING.empty
    assert format_label_selector(None) == "<none>"
    bad = LabelSelector(match_expressions=(LabelSelectorRequirement(key="a", operator="Like"),))
    assert format_label_selector(bad) == "<error>"
    with pytest.raises(SelectorError, match='"Like" is not a valid label selector operator'):
        label_selector_as_selector(bad)


@pytest.mark.parametrize(
    "text", ["a in", "a in (", "a in (b", "!", "!!a", "a b c", "a=(", "<", "a<"]
)
def test_bad_text_is_refused(text: str) -> None:
    with pytest.raises(SelectorError):
        parse_selector(text)


pod = Pod(
    metadata=ObjectMeta(name="a", namespace="ns"),
    spec=PodSpec(node_name="node-1", host_network=True),
    status=PodStatus(phase="Running", pod_ip="10.0.0.1"),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("metadata.name=a", True),
        ("metadata.name==a,metadata.namespace=ns", True),
        ("metadata.name!=a", False),
        ("spec.nodeName=node-1,status.phase!=Failed", True),
        ("spec.nodeName=", False),
        ("status.podIP=10.0.0.1", True),
        ("spec.hostNetwork=true", True),
        ("spec.hostNetwork=True", False),
    ],
)
def test_fields_of_pods(text: str, expected: bool) -> None:
    selector = parse_field_selector(text)
    selector.check(Pod)
    assert selector.matches(pod) is expected


def test_fields_of_other_kinds() -> None:
    assert parse_field_selector("spec.unschedulable=false").matches(Node())
    assert parse_field_selector("spec.unschedulable=true").matches(
        Node(spec=NodeSpec(unschedulable=True))
    )
    by_component = Event(source=EventSource(component="kubelet"), reporting_component="x")
    assert parse_field_selector("source=kubelet").matches(by_component)
    assert parse_field_selector("source=x").matches(Event(reporting_component="x"))
    event = Event(reason="a,b=c\\")
    assert parse_field_selector(r"reason=a\,b\=c\\").matches(event)


@given(st.text(st.sampled_from("ab,=\\!"), max_size=8))
def test_field_values_round_trip(value: str) -> None:
    selector = parse_field_selector("metadata.name=x")
    selector = type(selector)(terms=(("reason", True, value),))
    assert parse_field_selector(str(selector)) == selector


def test_unknown_fields_are_refused_per_kind() -> None:
    with pytest.raises(BadRequest, match=r"field label not supported: spec\.image"):
        parse_field_selector("spec.image=x").check(Pod)
    with pytest.raises(BadRequest, match=r'"status\.phase" is not a known field selector: only'):
        parse_field_selector("status.phase=x").check(ReplicaSet)
    with pytest.raises(BadRequest):
        parse_field_selector("metadata.namespace=x").check(Node)


@pytest.mark.parametrize("text", ["a", "a=b=c", "a=b,c", r"a=\x", "a=b\\", "=,x"])
def test_bad_field_selectors_are_refused(text: str) -> None:
    with pytest.raises(SelectorError):
        parse_field_selector(text)
