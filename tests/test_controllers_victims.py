"""The order of victims: criteria, words, and what holds for any pods."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm_lite.api.core import Container, ContainerStatus, Pod, PodSpec, PodStatus
from kcm_lite.api.meta import Condition, ObjectMeta
from kcm_lite.controllers.victims import (
    DELETION_COST,
    Candidate,
    VictimRules,
    age_ratios,
    candidates,
    compare,
    deletion_cost,
    get_pods_to_delete,
    logarithmic_rank,
    max_container_restarts,
    order_of_victims,
    ranks_of_pods_on_same_node,
    reason,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
RULES = VictimRules(NOW)


def pod(
    name: str = "p",
    *,
    node: str = "n1",
    phase: str = "Running",
    ready: int | None = 60,
    cost: str | None = None,
    restarts: int = 0,
    sidecar_restarts: int = 0,
    age: int | None = 100,
    uid: str = "",
) -> Pod:
    """A pod ready for ``ready`` seconds (None: not ready) and ``age`` seconds old."""
    condition = Condition(type="Ready", status="False")
    if ready is not None:
        since = NOW - timedelta(seconds=ready)
        condition = Condition(type="Ready", status="True", last_transition_time=since)
    return Pod(
        metadata=ObjectMeta(
            name=name,
            uid=uid or name,
            annotations={} if cost is None else {DELETION_COST: cost},
            creation_timestamp=None if age is None else NOW - timedelta(seconds=age),
        ),
        spec=PodSpec(
            node_name=node,
            init_containers=(Container(name="side", restart_policy="Always"),),
        ),
        status=PodStatus(
            phase=phase,
            conditions=(Condition(type="PodScheduled", status="True"), condition),
            container_statuses=(ContainerStatus(name="c", restart_count=restarts),),
            init_container_statuses=(
                ContainerStatus(name="side", restart_count=sidecar_restarts),
                ContainerStatus(name="setup", restart_count=9),
            ),
        ),
    )


def pair(a: Pod, b: Pod, rules: VictimRules = RULES) -> list[Candidate]:
    return candidates([a, b], [0, 0], rules)


FIRST = "a"
CRITERIA = [
    (1, pod(FIRST, node=""), pod("b"), "has no node; b has one"),
    (2, pod(FIRST, phase="Pending"), pod("b"), "is Pending; b is Running"),
    (2, pod(FIRST, phase="Unknown"), pod("b"), "is Unknown; b is Running"),
    (2, pod(FIRST, phase="Pending"), pod("b", phase="Unknown"), "is Pending; b is Unknown"),
    (3, pod(FIRST, ready=None), pod("b"), "is not ready; b is"),
    (4, pod(FIRST, cost="-5"), pod("b"), "deletion cost -5; b costs 0"),
    (6, pod(FIRST, ready=2), pod("b", ready=90), "ready for 2 s; b for 90 s"),
    (7, pod(FIRST, restarts=3), pod("b", restarts=1), "3 restarts; b has 1"),
    (7, pod(FIRST, sidecar_restarts=2), pod("b"), "2 sidecar restarts; b has 0"),
    (8, pod(FIRST, age=3), pod("b", age=500), "alive for 3 s; b for 500 s"),
]


@pytest.mark.parametrize(("number", "first", "second", "text"), CRITERIA)
def test_each_criterion_decides_and_says_so(
    number: int, first: Pod, second: Pod, text: str
) -> None:
    a, b = pair(first, second)
    assert compare(a, b) < 0 < compare(b, a)
    assert (reason(a, b, NOW).criterion, reason(a, b, NOW).text) == (number, text)


def test_an_earlier_criterion_outweighs_all_later_ones() -> None:
    # Worst in everything that comes after, and still the one that stays.
    keeps = pod("z", ready=None, cost="-9", restarts=9, age=1, uid="0")
    goes = pod("a", phase="Pending", ready=3600, cost="99", age=9999, uid="z")
    a, b = pair(goes, keeps)
    assert compare(a, b) < 0


def test_more_related_pods_on_the_node_go_first() -> None:
    pods = [pod("a", node="n1"), pod("b", node="n2"), pod("c", node="n2")]
    gone = pod("d", node="n1", phase="Succeeded")
    ranks = ranks_of_pods_on_same_node(pods, [*pods, gone])
    assert ranks == [1, 2, 2]
    order = order_of_victims(candidates(pods, ranks, RULES))
    assert [c.pod.metadata.name for c in order] == ["b", "c", "a"]
    why = reason(order[1], order[2], NOW)
    assert (why.criterion, why.text) == (5, "2 related pods on its node; a has 1")


def test_times_of_one_rank_are_decided_by_uid_with_the_words_to_say_it() -> None:
    a, b = pair(pod("a", ready=20, uid="2"), pod("b", ready=25, uid="1"))
    assert compare(b, a) < 0
    assert reason(b, a, NOW).text == (
        "ready for 25 s; a for 20 s: the same log2, so the lower UID goes"
    )
    exact = VictimRules(NOW, logarithmic_scale_down=False)
    a, b = pair(pod("a", ready=20, uid="2"), pod("b", ready=25, uid="1"), exact)
    assert compare(a, b) < 0
    assert reason(a, b, NOW).text == "ready for 20 s; b for 25 s"


def test_the_relation_is_not_transitive() -> None:
    # By UID a < b, by restarts b < c, by UID c < a: the sort may give any of three orders.
    a = pod("a", ready=20, uid="1", restarts=0)
    b = pod("b", ready=25, uid="2", restarts=5)
    c = pod("c", ready=25, uid="0", restarts=0)
    ca, cb, cc = candidates([a, b, c], [0, 0, 0], RULES)
    assert compare(ca, cb) < 0
    assert compare(cb, cc) < 0
    assert compare(cc, ca) < 0


def test_a_missing_time_goes_first_and_equal_pods_keep_their_order() -> None:
    a, b = pair(pod("a", age=None), pod("b", age=1))
    assert compare(a, b) < 0
    assert "no time" in reason(a, b, NOW).text
    a, b = pair(pod("a"), pod("b"))
    assert compare(a, b) == compare(b, a) == 0
    assert reason(a, b, NOW).criterion == 0
    assert order_of_victims([b, a]) == [b, a]


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("100", 100),
        ("0", 0),
        ("-1", -1),
        ("-08", -8),
        ("2147483647", 2**31 - 1),
        ("-2147483648", -(2**31)),
        ("2147483648", 0),
        ("-2147483649", 0),
        ("+10", 0),
        ("008", 0),
        ("", 0),
        ("-", 0),
        ("1.5", 0),
        (" 1", 0),
        ("1 ", 0),
        ("1_0", 0),
        ("١", 0),
        ("9" * 5000, 0),
    ],
)
def test_deletion_cost(text: str, cost: int) -> None:
    assert deletion_cost(pod(cost=text)) == cost


def test_gates_switch_criteria_off() -> None:
    off = VictimRules(NOW, pod_deletion_cost=False, sidecar_restarts=False)
    assert compare(*pair(pod("a", cost="-5"), pod("b"), off)) == 0
    assert compare(*pair(pod("a", sidecar_restarts=5), pod("b"), off)) == 0


def test_only_sidecars_count_among_init_containers() -> None:
    assert max_container_restarts(pod(restarts=2, sidecar_restarts=1)) == (2, 1)
    assert max_container_restarts(Pod()) == (0, 0)


@pytest.mark.parametrize(
    ("age", "rank"), [(-5, -1), (0, -1), (1, 0), (2, 1), (3, 1), (1 << 33, 33), ((1 << 33) - 1, 32)]
)
def test_ranks_are_whole_powers_of_two(age: int, rank: int) -> None:
    assert logarithmic_rank(age) == rank


def test_when_all_go_the_order_is_that_of_the_cache() -> None:
    pods = [pod("b"), pod("a", ready=None)]
    assert get_pods_to_delete(pods, [], 2, RULES) == pods
    assert [p.metadata.name for p in get_pods_to_delete(pods, [], 1, RULES)] == ["a"]


PODS = st.lists(
    st.builds(
        pod,
        node=st.sampled_from(["", "n1", "n2"]),
        phase=st.sampled_from(["Pending", "Running", "Unknown"]),
        ready=st.sampled_from([None, 0, 1, 5, 6, 7, 100]),
        cost=st.sampled_from([None, "1", "-1", "x"]),
        restarts=st.integers(0, 2),
        age=st.sampled_from([None, 1, 50, 60, 5000]),
        uid=st.sampled_from("abcdefgh"),
    ),
    max_size=12,
)


@given(PODS, st.integers(0, 12))
def test_no_victim_is_more_useful_than_a_survivor(pods: list[Pod], diff: int) -> None:
    diff = min(diff, len(pods))
    ranks = ranks_of_pods_on_same_node(pods, pods)
    order = order_of_victims(candidates(pods, ranks, RULES))
    assert len(order) == len(pods)
    assert {id(c.pod) for c in order} == {id(p) for p in pods}

    def worth(c: Candidate) -> tuple[object, ...]:  # what UIDs have no say in
        ready_rank = -2 if c.ready_rank is None else c.ready_rank
        return (*c.head, ready_rank)

    for victim in order[:diff]:
        assert all(worth(victim) <= worth(kept) for kept in order[diff:])
    if diff < len(pods):
        assert get_pods_to_delete(pods, pods, diff, RULES) == [c.pod for c in order[:diff]]


@given(PODS)
def test_without_logarithms_every_pair_is_in_order(pods: list[Pod]) -> None:
    rules = VictimRules(NOW, logarithmic_scale_down=False)
    order = order_of_victims(candidates(pods, [0] * len(pods), rules))
    for i, a in enumerate(order):
        for b in order[i + 1 :]:
            assert compare(a, b) <= 0
            assert compare(a, b) == -compare(b, a)
            why = reason(a, b, NOW)
            assert (why.criterion == 0) == (compare(a, b) == 0)


@pytest.mark.parametrize(
    ("ages", "victims", "ratios"),
    [
        ([20, 40, 59], [40, 59], [2, 2]),
        ([20, 40], [20], [1]),
        ([20, None], [20, None], [1]),  # without a time since when it is there
        ([0, 40], [40], []),  # nothing is a multiple of no age
        ([], [], []),
    ],
)
def test_age_ratios(ages: list[int | None], victims: list[int | None], ratios: list[int]) -> None:
    def pods(some: list[int | None]) -> list[Pod]:
        return [pod(age=age) for age in some]

    assert age_ratios(pods(ages), pods(victims), NOW) == ratios
    unready = pod(ready=None, age=1)  # neither a measure nor measured
    assert age_ratios([*pods(ages), unready], [*pods(victims), unready], NOW) == ratios
