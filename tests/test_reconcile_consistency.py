"""The read-your-writes guard."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm_lite.reconcile import consistency as module
from kcm_lite.reconcile.consistency import ConsistencyError, ConsistencyStore

OWNER = "default/web"


class Caches:
    """Two caches that have read so far."""

    def __init__(self, pods: str = "", sets: str = "") -> None:
        self.pods, self.sets = pods, sets

    def store(self) -> ConsistencyStore:
        return ConsistencyStore({"pods": lambda: self.pods, "replicasets.apps": lambda: self.sets})


def test_the_modules_example() -> None:
    results = doctest.testmod(module)
    assert results.attempted > 0
    assert results.failed == 0


def test_a_cache_that_is_behind_is_an_error_with_both_versions() -> None:
    caches = Caches(pods="9", sets="11")
    store = caches.store()
    store.wrote_at(OWNER, "u", "pods", "10")
    with pytest.raises(ConsistencyError) as caught:
        store.ensure_ready(OWNER)
    error = caught.value
    assert (error.read, error.wrote, error.resource) == ("9", "10", "pods")
    assert str(error) == (
        "read version: 9 is not as new as written version: 10 for group resource pods"
    )
    caches.pods = "10"  # by number, not by text
    store.ensure_ready(OWNER)


def test_only_the_newest_write_of_each_kind_counts() -> None:
    caches = Caches(pods="20", sets="5")
    store = caches.store()
    for version in ("12", "20", "13"):
        store.wrote_at(OWNER, "u", "pods", version)
    store.wrote_at(OWNER, "u", "replicasets.apps", "6")
    with pytest.raises(ConsistencyError, match=r"group resource replicasets\.apps"):
        store.ensure_ready(OWNER)
    caches.sets = "7"
    store.ensure_ready(OWNER)


def test_being_ready_once_forgets_the_writes() -> None:
    caches = Caches(pods="10")
    store = caches.store()
    store.wrote_at(OWNER, "u", "pods", "10")
    store.ensure_ready(OWNER)
    caches.pods = "1"  # a relist may bring an older state; what was seen was seen
    store.ensure_ready(OWNER)


def test_another_uid_is_another_owner() -> None:
    store = Caches(pods="1").store()
    store.wrote_at(OWNER, "old", "pods", "99")
    store.wrote_at(OWNER, "new", "pods", "1")
    store.ensure_ready(OWNER)
    store.wrote_at(OWNER, "new", "pods", "50")
    store.clear(OWNER, "old")
    with pytest.raises(ConsistencyError):
        store.ensure_ready(OWNER)
    store.clear(OWNER, "new")
    store.ensure_ready(OWNER)


def test_owners_do_not_wait_for_each_other() -> None:
    store = Caches(pods="1").store()
    store.wrote_at(OWNER, "u", "pods", "2")
    store.ensure_ready("default/other")
    store.clear(OWNER)
    store.ensure_ready(OWNER)


@pytest.mark.parametrize(
    ("read", "wrote"), [("", "5"), ("1", ""), ("1", "x"), ("x", "5"), ("1", "-5")]
)
def test_what_is_no_version_blocks_nobody(read: str, wrote: str) -> None:
    store = Caches(pods=read).store()
    store.wrote_at(OWNER, "u", "pods", wrote)
    store.ensure_ready(OWNER)


def test_without_a_cache_for_it_a_kind_is_never_waited_for() -> None:
    store = ConsistencyStore({})
    store.wrote_at(OWNER, "u", "pods", "5")
    store.ensure_ready(OWNER)


@given(st.lists(st.integers(1, 50), min_size=1), st.integers(1, 60))
def test_ready_exactly_when_the_cache_has_the_last_write(writes: list[int], read: int) -> None:
    store = Caches(pods=str(read)).store()
    for write in writes:
        store.wrote_at(OWNER, "u", "pods", str(write))
    try:
        store.ensure_ready(OWNER)
        ready = True
    except ConsistencyError:
        ready = False
    assert ready == (read >= max(writes))
