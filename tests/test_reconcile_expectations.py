"""Expectations: counts, expiry, deletions by key; against a model under random operations."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm_lite.clock import VirtualClock
from kcm_lite.reconcile import expectations as module
from kcm_lite.reconcile.expectations import (
    EXPECTATIONS_TIMEOUT,
    ControllerExpectations,
    UIDTrackingControllerExpectations,
)
from kcm_lite.trace import ExpectationChange, Trace

KEY = "default/web"


def counts(store: ControllerExpectations | UIDTrackingControllerExpectations) -> tuple[int, int]:
    found = store.get(KEY)
    assert found is not None
    return found.add, found.dele


def test_the_modules_example() -> None:
    results = doctest.testmod(module)
    assert results.attempted > 0
    assert results.failed == 0


def test_nothing_expected_is_satisfied_and_observations_of_it_record_nothing() -> None:
    store = ControllerExpectations(VirtualClock())
    store.creation_observed(KEY)
    store.deletion_observed(KEY)
    store.raise_expectations(KEY, 1, 1)
    store.delete_expectations(KEY)
    assert store.get(KEY) is None
    assert store.satisfied_expectations(KEY)


def test_a_new_expectation_replaces_the_old_one_both_counts() -> None:
    store = ControllerExpectations(VirtualClock())
    store.expect_deletions(KEY, 7)
    store.expect_creations(KEY, 2)
    assert counts(store) == (2, 0)
    store.expect_deletions(KEY, 3)
    assert counts(store) == (0, 3)


def test_more_observations_than_expected_go_below_zero_and_hide_later_ones() -> None:
    store = ControllerExpectations(VirtualClock())
    store.expect_creations(KEY, 1)
    for _ in range(3):
        store.creation_observed(KEY)
    assert counts(store) == (-2, 0)
    store.raise_expectations(KEY, 2, 0)
    assert store.satisfied_expectations(KEY)
    store.raise_expectations(KEY, 1, 0)
    assert not store.satisfied_expectations(KEY)


def test_expiry_is_strictly_after_the_timeout_and_does_not_clear_the_counts() -> None:
    clock, trace = VirtualClock(), Trace()
    store = ControllerExpectations(clock, trace=trace, controller="c")
    store.expect_creations(KEY, 2)
    clock.run_for(EXPECTATIONS_TIMEOUT)
    assert not store.satisfied_expectations(KEY)
    clock.run_for(1e-9)
    assert store.satisfied_expectations(KEY)
    assert counts(store) == (2, 0)
    assert [r.op for r in trace.of(ExpectationChange)] == ["expect", "expired"]


def test_an_observation_does_not_prolong_the_wait() -> None:
    clock = VirtualClock()
    store = ControllerExpectations(clock)
    store.expect_creations(KEY, 2)
    clock.run_for(200)
    store.creation_observed(KEY)
    clock.run_for(101)
    assert store.satisfied_expectations(KEY)


def test_a_deletion_seen_twice_counts_once() -> None:
    store = UIDTrackingControllerExpectations(VirtualClock())
    store.expect_deletions(KEY, ["default/a", "default/b", "default/a"])
    assert counts(store) == (0, 2)
    store.deletion_observed(KEY, "default/a")  # the deletion timestamp
    store.deletion_observed(KEY, "default/a")  # the object is gone
    store.deletion_observed(KEY, "default/stranger")
    assert counts(store) == (0, 1)
    assert not store.satisfied_expectations(KEY)
    store.deletion_observed(KEY, "default/b")
    assert store.satisfied_expectations(KEY)
    assert store.get_uids(KEY) == []


def test_delete_expectations_forgets_objects_too() -> None:
    store = UIDTrackingControllerExpectations(VirtualClock())
    store.expect_deletions(KEY, ["default/a"])
    store.delete_expectations(KEY)
    assert store.get(KEY) is None
    assert store.get_uids(KEY) is None
    store.expect_creations(KEY, 1)
    store.deletion_observed(KEY, "default/a")
    assert counts(store) == (1, 0)


def test_the_trace_tells_every_change_and_no_reading() -> None:
    trace = Trace()
    store = UIDTrackingControllerExpectations(VirtualClock(), trace=trace, controller="rs")
    store.expect_creations(KEY, 3)
    store.creation_observed(KEY)
    store.lower_expectations(KEY, 2, 0)
    store.satisfied_expectations(KEY)
    store.expect_deletions(KEY, ["default/a"])
    store.deletion_observed(KEY, "default/a")
    store.deletion_observed(KEY, "default/a")
    store.delete_expectations(KEY)
    store.delete_expectations(KEY)
    told = [(r.controller, r.key, r.op, r.add, r.dele) for r in trace.of(ExpectationChange)]
    assert told == [
        ("rs", KEY, "expect", 3, 0),
        ("rs", KEY, "creation_observed", 2, 0),
        ("rs", KEY, "lower", 0, 0),
        ("rs", KEY, "expect", 0, 1),
        ("rs", KEY, "deletion_observed", 0, 0),
        ("rs", KEY, "delete", 0, 0),
    ]


def test_without_detail_nothing_is_recorded() -> None:
    trace = Trace(detail=False)
    store = ControllerExpectations(VirtualClock(), trace=trace)
    store.expect_creations(KEY, 1)
    assert trace.records == []


@pytest.mark.parametrize("keys", [["a/x"], ["a/x", "b/x"]])
def test_keys_do_not_share_expectations(keys: list[str]) -> None:
    store = ControllerExpectations(VirtualClock())
    store.expect_creations(keys[0], 1)
    assert all(store.satisfied_expectations(key) for key in keys[1:])
    assert not store.satisfied_expectations(keys[0])


OPS = st.lists(
    st.one_of(
        st.tuples(st.just("expect"), st.lists(st.sampled_from("abcd"), max_size=4)),
        st.tuples(st.just("observe"), st.sampled_from("abcde")),
        st.tuples(st.just("forget"), st.none()),
    ),
    max_size=30,
)


@given(OPS)
def test_the_count_is_what_was_expected_and_not_seen(ops: list[tuple[str, object]]) -> None:
    store = UIDTrackingControllerExpectations(VirtualClock())
    model: set[str] | None = None
    for op, value in ops:
        if op == "expect":
            assert isinstance(value, list)
            store.expect_deletions(KEY, value)
            model = set(value)
        elif op == "observe":
            assert isinstance(value, str)
            store.deletion_observed(KEY, value)
            if model is not None:
                model.discard(value)
        else:
            store.delete_expectations(KEY)
            model = None
        found = store.get(KEY)
        assert (found is None) == (model is None)
        if model is not None:
            assert found is not None
            assert found.dele == len(model)
            assert sorted(store.get_uids(KEY) or []) == sorted(model)
        assert store.satisfied_expectations(KEY) == (not model)
