from __future__ import annotations

from typing import Any

import pytest

from kcm_lite.api.core import Container, Pod, PodSpec
from kcm_lite.api.meta import Condition, ObjectMeta
from kcm_lite.sim.check import BadInput
from kcm_lite.sim.profile import COMPLETION_INDEX, Behaviour, Exit, behaviour_of, parse_profile


def pod(name: str = "web-1", *, image: str = "app:1", **meta: Any) -> Pod:
    spec = PodSpec(containers=(Container(name="c", image=image),))
    return Pod(metadata=ObjectMeta(name=name, **meta), spec=spec)


def test_an_empty_profile_has_the_documented_defaults() -> None:
    for empty in (None, {}):
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
    assert behaviour_of(profile, *chosen).never_ready
    if other is not None:
        assert not behaviour_of(profile, *other).never_ready


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
    assert behaviour_of(profile, pod(), 1).exit == Exit(after=1)
    assert behaviour_of(profile, pod(), 2) == Behaviour(ready_after=5)
    assert behaviour_of(profile, pod(), 3) == Behaviour(ready_after=7)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (
            {"readyAftr": 1},
            'profile.readyAftr: unknown key "readyAftr" (did you mean "readyAfter"?)',
        ),
        ({"startAfter": -1}, "profile.startAfter: got -1, want seconds >= 0"),
        ({"startAfter": "1s"}, 'profile.startAfter: got "1s", want a number of seconds'),
        ({"startAfter": True}, "profile.startAfter: got true, want a number of seconds"),
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
