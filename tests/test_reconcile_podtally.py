"""The tally of pods: always what counting one by one would give."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from kcm_lite.api.core import Pod, PodStatus
from kcm_lite.api.meta import Condition, ObjectMeta, OwnerReference, controller_of, object_key
from kcm_lite.client.cache import Indexer
from kcm_lite.reconcile.podtally import ACTIVE, ENDED, TERMINATING, PodTally, state_of
from kcm_lite.reconcile.podutil import (
    POD_CONTROLLER_INDEX,
    filter_active_pods,
    filter_pods_by_owner,
    filter_terminating_pods,
    index_by_pod_controller,
    is_pod_available,
    is_pod_ready,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OWNERS = {
    "": None,
    "a": OwnerReference(kind="ReplicaSet", name="a", uid="ua", controller=True),
    "b": OwnerReference(kind="ReplicaSet", name="b", uid="ub", controller=True),
    "job": OwnerReference(kind="Job", name="a", uid="ua", controller=True),
    "no controller": OwnerReference(kind="ReplicaSet", name="a", uid="ua"),
}


def pod(
    name: str, namespace: str, owner: str, app: str, phase: str, ready: int, going: bool
) -> Pod:
    status = {-2: "False", -1: "Unknown"}.get(ready, "True")
    since = None if ready == 0 else NOW - timedelta(seconds=ready)
    conditions = (Condition(type="Ready", status=status, last_transition_time=since),)
    ref = OWNERS[owner]
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            labels={"app": app} if app else {},
            owner_references=(ref,) if ref else (),
            deletion_timestamp=NOW if going else None,
        ),
        status=PodStatus(phase=phase, conditions=() if ready == -3 else conditions),
    )


PODS = st.builds(
    pod,
    name=st.sampled_from(["p1", "p2", "p3", "p4"]),
    namespace=st.sampled_from(["ns", "other"]),
    owner=st.sampled_from(sorted(OWNERS)),
    app=st.sampled_from(["", "x", "y"]),
    phase=st.sampled_from(["", "Pending", "Running", "Succeeded", "Failed"]),
    ready=st.integers(-3, 2),
    going=st.booleans(),
)


@given(st.lists(st.tuples(st.booleans(), PODS), max_size=25))
def test_after_any_events_the_tally_is_the_count(events: list[tuple[bool, Pod]]) -> None:
    tally, cache = PodTally("ReplicaSet"), Indexer[Pod]()
    for gone, one in events:
        if gone:
            tally.remove(object_key(one))
            cache.delete(one)
        else:
            tally.put(one)
            cache.add(one)
    for namespace in ("ns", "other"):
        for ref in (None, OWNERS["a"], OWNERS["b"]):
            pods = [p for p in cache.list() if p.metadata.namespace == namespace]
            mine = [p for p in pods if controller_of(p) == ref]
            assert tally.of(namespace, ref) == Counter(map(state_of, mine))
    assert tally.of("ns", OWNERS["job"]) == {}


@given(PODS)
def test_a_state_says_what_the_questions_about_a_pod_say(one: Pod) -> None:
    state = state_of(one)
    assert (state.phase == ACTIVE) == (filter_active_pods([one]) == [one])
    assert (state.phase == TERMINATING) == (filter_terminating_pods([one]) == [one])
    assert (state.phase == ENDED) == (one.status.phase in ("Succeeded", "Failed"))
    assert state.ready == is_pod_ready(one)
    assert is_pod_available(one, 0, NOW) == state.ready
    for wait in (1, 2, 3):
        available = state.since is not None and state.since + timedelta(seconds=wait) <= NOW
        assert is_pod_available(one, wait, NOW) == available
    assert dict(state.labels) == one.metadata.labels


@given(st.lists(PODS, max_size=10, unique_by=object_key))
def test_the_index_finds_the_owners_pods_and_the_orphans(pods: list[Pod]) -> None:
    from kcm_lite.api.apps import ReplicaSet

    cache = Indexer[Pod]({POD_CONTROLLER_INDEX: index_by_pod_controller})
    for one in pods:
        cache.add(one)
    owner = ReplicaSet(metadata=ObjectMeta(name="a", namespace="ns", uid="ua"))
    here = [p for p in pods if p.metadata.namespace == "ns"]
    mine = [p for p in here if controller_of(p) == OWNERS["a"]]
    free = [p for p in here if controller_of(p) is None]
    assert filter_pods_by_owner(cache, owner, orphans=False) == mine
    assert filter_pods_by_owner(cache, owner, orphans=True) == mine + free
