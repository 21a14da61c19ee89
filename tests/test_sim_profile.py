from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm_lite.api.core import Container, Pod, PodSpec
from kcm_lite.api.meta import Condition, ObjectMeta, OwnerReference
from kcm_lite.sim.chance import Chance, parse_share, parse_span
from kcm_lite.sim.check import BadInput
from kcm_lite.sim.profile import COMPLETION_INDEX, Behaviour, Exit, behaviour_of, parse_profile

LOTS = Chance("0")


def pod(name: str = "web-1", *, image: str = "app:1", **meta: Any) -> Pod:
    spec = PodSpec(containers=(Container(name="c", image=image),))
    return Pod(metadata=ObjectMeta(name=name, **meta), spec=spec)


def test_an_empty_profile_has_the_documented_defaults() -> None:
    nothing: list[dict[str, Any] | None] = [None, {}]
    for empty in nothing:
        profile = parse_profile(empty)
        assert profile.gap == 0
        assert profile.default == Behaviour(
            schedule_after=0, start_after=1, ready_after=1, termination_grace=1
        )
        assert profile.default.termination_exit_code == 143


def test_every_key_arrives_in_the_behaviour() -> None:
    profile = parse_profile(
        {
            "scheduleAfter": 0.5,
            "neverSchedule": True,
            "node": 2,
            "startAfter": 3,
            "neverStart": True,
            "readyAfter": 0,
            "neverReady": True,
            "exit": {
                "after": 4,
                "code": 7,
                "podConditions": [{"type": "DisruptionTarget", "status": "True"}],
            },
            "restarts": -1,
            "initialRestartCount": 5,
            "terminationGrace": 6,
            "terminationExitCode": 0,
            "gap": 0.3,
        }
    )
    assert profile.gap == 0.3
    condition = Condition(type="DisruptionTarget", status="True")
    assert profile.default == Behaviour(
        schedule_after=0.5,
        never_schedule=True,
        node=2,
        start_after=3,
        never_start=True,
        ready_after=0,
        never_ready=True,
        exit=Exit(after=4, code=7, pod_conditions=(condition,)),
        restarts=-1,
        initial_restart_count=5,
        termination_grace=6,
        termination_exit_code=0,
    )


@pytest.mark.parametrize(
    ("match", "chosen", "other"),
    [
        ({"index": 2}, (pod(), 2), (pod(), 3)),
        ({"index": [1, 3]}, (pod(), 3), (pod(), 2)),
        ({"indexFrom": 4}, (pod(), 9), (pod(), 3)),
        ({"labels": {"a": "b"}}, (pod(labels={"a": "b", "c": "d"}), 1), (pod(labels={}), 1)),
        ({"name": "web-1"}, (pod(), 1), (pod("web-2"), 1)),
        ({"image": "app:2"}, (pod(image="app:2"), 1), (pod(), 1)),
        (
            {"jobIndex": 0},
            (pod(annotations={COMPLETION_INDEX: "0"}), 1),
            (pod(annotations={COMPLETION_INDEX: "1"}), 1),
        ),
        ({"jobIndex": [0, 2]}, (pod(annotations={COMPLETION_INDEX: "2"}), 1), (pod(), 1)),
        ({"index": 1, "image": "app:2"}, (pod(image="app:2"), 1), (pod(image="app:2"), 2)),
        ({}, (pod(), 1), None),
    ],
)
def test_an_override_is_for_the_pods_that_match(
    match: dict[str, Any], chosen: tuple[Pod, int], other: tuple[Pod, int] | None
) -> None:
    profile = parse_profile({"overrides": [{"match": match, "neverReady": True}]})
    assert behaviour_of(profile, *chosen, LOTS).never_ready
    if other is not None:
        assert not behaviour_of(profile, *other, LOTS).never_ready


def test_later_overrides_win_and_null_takes_an_exit_away() -> None:
    profile = parse_profile(
        {
            "exit": {"after": 1},
            "overrides": [
                {"match": {"indexFrom": 2}, "readyAfter": 5, "exit": None},
                {"match": {"index": 3}, "readyAfter": 7},
            ],
        }
    )
    assert behaviour_of(profile, pod(), 1, LOTS).exit == Exit(after=1)
    assert behaviour_of(profile, pod(), 2, LOTS) == Behaviour(ready_after=5)
    assert behaviour_of(profile, pod(), 3, LOTS) == Behaviour(ready_after=7)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (
            {"readyAftr": 1},
            'profile.readyAftr: unknown key "readyAftr" (did you mean "readyAfter"?)',
        ),
        ({"startAfter": -1}, "profile.startAfter: got -1, want seconds >= 0"),
        ({"startAfter": "soon"}, 'profile.startAfter: got "soon", want seconds or a duration'),
        ({"startAfter": True}, "profile.startAfter: got true, want seconds >= 0, or a range"),
        ({"startAfter": [1, 2]}, "profile.startAfter: got [1, 2], want seconds >= 0, or a range"),
        ({"readyAfter": "9s..2s"}, 'got "9s..2s", want a range from the smaller to the larger'),
        ({"exit": {"after": "1..x"}}, 'profile.exit.after: got "1..x", want seconds or a'),
        ({"terminationGrace": float("inf")}, "terminationGrace: got Infinity, want seconds >= 0"),
        ({"overrides": [{"match": {"share": "120%"}}]}, 'match.share: got "120%", want a share'),
        ({"overrides": [{"match": {"share": 20}}]}, "match.share: got 20, want a share from 0%"),
        ({"overrides": [{"match": {"share": True}}]}, "match.share: got true, want a share"),
        ({"share": "20%"}, 'profile.share: unknown key "share"'),
        ({"gap": float("nan")}, "profile.gap: got NaN, want seconds >= 0"),
        ({"neverStart": 1}, "profile.neverStart: got 1, want true or false"),
        ({"node": 0}, "profile.node: got 0, want a whole number >= 1"),
        ({"restarts": -2}, "profile.restarts: got -2, want a whole number >= -1"),
        ({"terminationExitCode": 256}, "terminationExitCode: got 256, want a whole number >= 0"),
        ({"exit": 3}, "profile.exit: got 3, want a mapping"),
        ({"exit": {"code": 1}}, "profile.exit.after: is missing"),
        ({"exit": {"after": 1, "podConditions": [{"type": "X", "status": "yes"}]}}, "status: got"),
        ({"overrides": {}}, "profile.overrides: got {}, want a list"),
        ({"overrides": [{"readyAfter": 1}]}, "profile.overrides[0].match: is missing"),
        ({"overrides": [{"match": {"idx": 1}}]}, 'overrides[0].match.idx: unknown key "idx"'),
        ({"overrides": [{"match": {}, "gap": 1}]}, 'overrides[0].gap: unknown key "gap"'),
        ({"overrides": [{"match": {"index": [0]}}]}, "match.index[0]: got 0, want a whole"),
        ({"overrides": [{"match": {"labels": {"a": 1}}}]}, "labels.a: got 1, want a text"),
        ([], "profile: got [], want a mapping"),
    ],
)
def test_what_is_wrong_is_named_with_place_and_remedy(raw: Any, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_profile(raw)
    assert message in str(caught.value)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(BadInput) as caught:
        parse_profile({"startAfter": -1, "neverReady": "no", "speed": 3})
    assert [p.path for p in caught.value.problems] == [
        "profile.startAfter",
        "profile.neverReady",
        "profile.speed",
    ]


def test_a_range_is_drawn_for_each_pod() -> None:
    raw = {
        "startAfter": "5s..20s",
        "readyAfter": "1m",
        "terminationGrace": "2..2",
        "exit": {"after": "1m..2m", "code": 3},
    }
    profile = parse_profile(raw)
    lots = Chance("1")
    found = [behaviour_of(profile, pod(), n, lots) for n in range(1, 101)]
    starts = [b.start_after for b in found]
    ends = [b.exit.after for b in found if b.exit]
    assert all(5 <= t <= 20 for t in starts) and all(60 <= t <= 120 for t in ends)
    assert len(set(starts)) > 90 and max(starts) > 18 and min(starts) < 7
    assert len(set(ends)) > 90
    assert {(b.ready_after, b.termination_grace) for b in found} == {(60.0, 2.0)}
    assert {b.exit.code for b in found if b.exit} == {3}


def test_a_range_in_an_override_is_drawn_for_the_pods_that_match() -> None:
    override = {"match": {"image": "slow:1"}, "startAfter": "50s..60s"}
    profile = parse_profile({"overrides": [override]})
    assert behaviour_of(profile, pod(), 1, LOTS).start_after == 1
    assert 50 <= behaviour_of(profile, pod(image="slow:1"), 2, LOTS).start_after <= 60


def test_images_are_those_of_the_containers_named() -> None:
    spec = PodSpec(
        init_containers=(Container(name="i", image="i:1"),),
        containers=(Container(name="a", image="a:1"), Container(name="b", image="b:2")),
    )
    many = Pod(metadata=ObjectMeta(name="many"), spec=spec)
    for images, holds in (
        ({"b": "b:2"}, True),
        ({"i": "i:1", "a": "a:1"}, True),
        ({"a": "b:2"}, False),
        ({"x": "b:2"}, False),
    ):
        raw = {"overrides": [{"match": {"images": images}, "neverReady": True}]}
        assert behaviour_of(parse_profile(raw), many, 1, LOTS).never_ready == holds


def test_an_owner_is_a_kind_or_one_of_its_name() -> None:
    ref = OwnerReference(api_version="batch/v1", kind="Job", name="a", uid="1", controller=True)
    owned = pod(owner_references=(ref,))
    for owner, holds in (("Job", True), ("Job/a", True), ("Job/b", False), ("ReplicaSet", False)):
        profile = parse_profile({"overrides": [{"match": {"owner": owner}, "neverReady": True}]})
        assert behaviour_of(profile, owned, 1, LOTS).never_ready == holds
        assert not behaviour_of(profile, pod(), 1, LOTS).never_ready


def chosen(share: str, count: int, seed: str) -> list[bool]:
    profile = parse_profile({"overrides": [{"match": {"share": share}, "neverReady": True}]})
    lots = Chance(seed)
    return [behaviour_of(profile, pod(), n, lots).never_ready for n in range(1, count + 1)]


@given(st.integers(0, 100), st.integers(1, 5), st.text(max_size=3))
def test_a_share_is_exact(percent: int, rounds: int, seed: str) -> None:
    length = Fraction(percent, 100).denominator
    found = chosen(f"{percent}%", rounds * length, seed)
    for i in range(rounds):
        part = found[i * length : (i + 1) * length]
        assert sum(part) == percent * length / 100
    assert found == chosen(f"{percent}%", rounds * length, seed)


def test_a_share_is_drawn_by_lot() -> None:
    every = {tuple(chosen("20%", 5, str(seed))) for seed in range(60)}
    assert len(every) == 5  # each of the five places


def test_the_share_counts_only_pods_for_which_the_rest_holds() -> None:
    override = {"match": {"image": "new:1", "share": "50%"}, "neverReady": True}
    profile, lots = parse_profile({"overrides": [override]}), Chance("0")
    new = []
    for n in range(1, 41):
        assert not behaviour_of(profile, pod(image="old:1"), 2 * n, lots).never_ready
        new.append(behaviour_of(profile, pod(image="new:1"), 2 * n + 1, lots).never_ready)
    assert sum(new) == 20


def test_one_range_more_changes_nothing_elsewhere() -> None:
    """Each place has random numbers of its own."""
    override = {"match": {"share": "30%"}, "neverReady": True}
    one = parse_profile({"readyAfter": "1..9", "overrides": [override]})
    two = parse_profile({"readyAfter": "1..9", "startAfter": "5..7", "overrides": [override]})
    a, b = Chance("0"), Chance("0")
    for n in range(1, 50):
        x, y = behaviour_of(one, pod(), n, a), behaviour_of(two, pod(), n, b)
        assert (x.ready_after, x.never_ready) == (y.ready_after, y.never_ready)


@pytest.mark.parametrize(
    ("text", "value"),
    [("20%", "1/5"), ("0.2", "1/5"), ("0", "0"), ("100%", "1"), ("1", "1"), ("12.5%", "1/8")],
)
def test_shares_are_percentages_or_parts(text: str, value: str) -> None:
    assert parse_share(text) == Fraction(value)


@pytest.mark.parametrize("text", ["", "%", "-5%", "101%", "2", "20%%", "a%", "1e-3", ".", "٣%"])
def test_what_is_no_share(text: str) -> None:
    with pytest.raises(ValueError, match="want a share from 0% to 100%, such as 20%"):
        parse_share(text)


@pytest.mark.parametrize("text", ["", "..", "5..", "..5", "a..b", "-1..2", "1..2..3", "9..1"])
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(ValueError, match=r"^got .*, want "):
        parse_span(text)
