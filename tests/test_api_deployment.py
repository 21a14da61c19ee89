"""Deployments in the API: defaults, generations, and validation beyond the vectors."""

from __future__ import annotations

from typing import Any

import pytest

from kcm_lite.api.apps import Deployment
from kcm_lite.api.defaults import default_deployment
from kcm_lite.api.meta import replace
from kcm_lite.api.serial import decode, encode
from kcm_lite.api.strategy import STRATEGIES
from kcm_lite.api.validation.field import aggregate

RULES = STRATEGIES[Deployment]
ROLLBACK = "deprecated.deployment.rollback.to"


def deployment(annotations: dict[str, str] | None = None, **spec: Any) -> Deployment:
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "app:1"}]},
    }
    raw = {
        "metadata": {
            "name": "web", "namespace": "ns", "uid": "u", "resourceVersion": "7",
            "labels": labels, "annotations": annotations or {},
        },
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }  # fmt: skip
    return RULES.default(decode(raw, Deployment))  # type: ignore[no-any-return]


def wrong(d: Deployment) -> str:
    return aggregate(RULES.validate(d)) if RULES.validate(d) else ""


def with_status(d: Deployment, **status: Any) -> Deployment:
    return replace(d, status=replace(d.status, **status))


def test_defaults_fill_what_is_open_and_leave_a_full_one_alone() -> None:
    spec = encode(deployment())["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert (spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (10, 600)
    full = deployment()
    assert default_deployment(full) is full
    half = deployment(strategy={"rollingUpdate": {"maxSurge": 0}}).spec.strategy.rolling_update
    assert half is not None and (half.max_surge, half.max_unavailable) == (0, "25%")
    assert deployment(strategy={"type": "Recreate"}).spec.strategy.rolling_update is None


@pytest.mark.parametrize(
    ("annotation", "problem"),
    [
        ("0", ""),
        ("3", ""),
        ("-1", "spec.rollback.version: Invalid value: -1: must be greater than or equal to 0"),
        ("x", 'Invalid value: "x": strconv.ParseInt: parsing "x": invalid syntax'),
    ],
)
def test_a_wish_for_a_rollback_is_checked(annotation: str, problem: str) -> None:
    found = wrong(deployment({ROLLBACK: annotation}))
    assert problem in found if problem else not found


@pytest.mark.parametrize("zero", [0, "0%", "00%"])
def test_a_rollout_that_could_never_move_is_refused(zero: Any) -> None:
    limits = {"rollingUpdate": {"maxSurge": zero, "maxUnavailable": zero}}
    assert "may not be 0 when `maxSurge` is 0" in wrong(deployment(strategy=limits))


def test_an_unknown_strategy_is_shown_as_the_server_knows_it() -> None:
    strategy = {"type": "Bogus", "rollingUpdate": {"maxSurge": "10%"}}
    assert (
        'Unsupported value: {"Type":"Bogus","RollingUpdate":{"MaxUnavailable":0,"MaxSurge":"10%"}}'
        in wrong(deployment(strategy=strategy))
    )


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        ({"replicas": 3, "updated_replicas": 3, "ready_replicas": 2, "available_replicas": 2}, ""),
        ({"updated_replicas": 1}, "updatedReplicas: Invalid value: 1: cannot be greater than"),
        ({"replicas": 2, "ready_replicas": 3}, "readyReplicas: Invalid value: 3"),
        (
            {"replicas": 2, "ready_replicas": 1, "available_replicas": 2},
            "availableReplicas: Invalid value: 2: cannot be greater than readyReplicas",
        ),
        ({"terminating_replicas": -1}, "terminatingReplicas: Invalid value: -1"),
        ({"unavailable_replicas": -1}, "unavailableReplicas: Invalid value: -1"),
        ({"collision_count": 1}, "collisionCount: Invalid value: 1: cannot be decremented"),
        ({}, "collisionCount: Invalid value: 0: cannot be decremented"),
    ],
)
def test_the_counts_of_a_status_must_fit(status: dict[str, int], problem: str) -> None:
    old = with_status(deployment(), collision_count=2)
    if not problem or "collision" not in problem:
        status = {"collision_count": 2, **status}
    causes = RULES.validate_status_update(with_status(deployment(), **status), old)
    assert problem in aggregate(causes) if problem else causes == []


def test_spec_and_annotations_raise_the_generation_labels_do_not() -> None:
    old = deployment()
    old = replace(old, metadata=replace(old.metadata, generation=4))

    def generation(new: Deployment) -> int:
        new = replace(new, metadata=replace(new.metadata, generation=4))
        return int(RULES.prepare_for_update(new, old).metadata.generation)

    assert generation(deployment()) == 4
    assert generation(deployment(replicas=2)) == 5
    assert generation(deployment({"team": "blue"})) == 5
    assert generation(deployment({"team": "blue"}, replicas=2)) == 5
    relabelled = replace(old, metadata=replace(old.metadata, labels={"app": "x"}))
    assert generation(relabelled) == 4


def test_a_status_update_changes_annotations_but_neither_spec_nor_labels() -> None:
    old = deployment()
    new = deployment({"note": "x"}, replicas=9)
    new = replace(new, metadata=replace(new.metadata, labels={"app": "x"}))
    kept = RULES.prepare_for_status_update(with_status(new, replicas=2), old)
    assert (kept.spec, kept.metadata.labels) == (old.spec, old.metadata.labels)
    assert (kept.metadata.annotations, kept.status.replicas) == ({"note": "x"}, 2)
    assert RULES.prepare_for_update(with_status(old, replicas=5), old).status == old.status


def test_the_selector_cannot_change() -> None:
    old = deployment()
    new = replace(old, spec=replace(old.spec, selector=None))
    assert "spec.selector: Invalid value: null: field is immutable" in aggregate(
        RULES.validate_update(new, old)
    )
