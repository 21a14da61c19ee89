"""The arithmetic of rollouts: limits, steps, shares, numbers of revisions."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm_lite.api.apps import (
    Deployment,
    DeploymentSpec,
    DeploymentStatus,
    DeploymentStrategy,
    ReplicaSet,
    ReplicaSetSpec,
    ReplicaSetStatus,
    RollingUpdateDeployment,
)
from kcm_lite.api.core import Container, PodSpec, PodTemplateSpec
from kcm_lite.api.intstr import IntOrString
from kcm_lite.api.meta import LabelSelector, ObjectMeta, replace
from kcm_lite.api.names import ALPHABET
from kcm_lite.controllers.deployment_history import by_revision, rollback_to
from kcm_lite.controllers.deployment_revisions import (
    DESIRED_REPLICAS,
    LAST_APPLIED,
    MAX_REPLICAS,
    REVISION,
    REVISION_HISTORY,
    last_revision,
    max_revision,
    next_revision,
    number_of,
    revision,
    set_new_replica_set_annotations,
    with_revision,
)
from kcm_lite.controllers.deployment_templates import (
    HASH_LABEL,
    compute_hash,
    equal_ignore_hash,
    find_new_replica_set,
    new_replica_set,
)
from kcm_lite.controllers.proportions import (
    find_active_or_latest,
    is_saturated,
    proportional_sizes,
    replica_set_fraction,
)
from kcm_lite.controllers.rollout import (
    by_creation,
    deployment_complete,
    deployment_progressing,
    fenceposts,
    int32,
    max_surge,
    max_unavailable,
    min_available,
    new_rs_new_replicas,
    resolve_fenceposts,
    scale_down_steps,
    total,
    wanted,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
QUARTER = "25%"


def template(image: str = "app:1", **labels: str) -> PodTemplateSpec:
    spec = PodSpec(containers=(Container(name="c", image=image),))
    return PodTemplateSpec(metadata=ObjectMeta(labels={"app": "web", **labels}), spec=spec)


def deployment(
    replicas: int = 10,
    surge: IntOrString | None = QUARTER,
    unavailable: IntOrString | None = QUARTER,
    kind: str = "RollingUpdate",
    **meta: Any,
) -> Deployment:
    rolling = RollingUpdateDeployment(max_surge=surge, max_unavailable=unavailable)
    strategy = DeploymentStrategy(type=kind, rolling_update=rolling if kind[:1] != "Re" else None)
    return Deployment(
        metadata=ObjectMeta(name="web", namespace="ns", uid="d", generation=1, **meta),
        spec=DeploymentSpec(
            replicas=replicas,
            strategy=strategy,
            selector=LabelSelector(match_labels={"app": "web"}),
            template=template(),
        ),
    )


def replica_set(
    replicas: int, available: int = 0, age: int = 0, name: str = "", **annotations: str
) -> ReplicaSet:
    """A set of so many pods, made ``age`` seconds before the start."""
    named = {
        k if "/" in k else f"deployment.kubernetes.io/{k.replace('_', '-')}": v
        for k, v in annotations.items()
    }
    return ReplicaSet(
        metadata=ObjectMeta(
            name=name or f"web-{age}",
            uid=f"uid-{name or age}",
            creation_timestamp=START - timedelta(seconds=age),
            annotations=named,
        ),
        spec=ReplicaSetSpec(replicas=replicas, template=template()),
        status=ReplicaSetStatus(available_replicas=available),
    )


# --- limits


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable"),
    [(0, 0, 1), (1, 1, 0), (2, 1, 0), (3, 1, 0), (4, 1, 1), (5, 2, 1), (10, 3, 2), (15, 4, 3)],
)
def test_surge_rounds_up_and_unavailable_down(replicas: int, surge: int, unavailable: int) -> None:
    assert resolve_fenceposts(QUARTER, QUARTER, replicas) == (surge, unavailable)


@pytest.mark.parametrize(
    ("surge", "unavailable"), [(0, 0), ("0%", "0%"), (0, "1%"), (None, None), (0, QUARTER)]
)
def test_two_zeros_become_one_pod_that_may_be_missing(
    surge: IntOrString | None, unavailable: IntOrString | None
) -> None:
    assert resolve_fenceposts(surge, unavailable, 1) == (0, 1)


@pytest.mark.parametrize("bad", ["ten", "10", "", "%", "1.5%"])
def test_what_is_no_percentage_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="invalid value for IntOrString"):
        resolve_fenceposts(bad, 1, 10)
    with pytest.raises(ValueError, match="invalid value for IntOrString"):
        resolve_fenceposts(1, bad, 10)
    assert fenceposts(deployment(10, bad, 1)) == (0, 0)


def test_unavailable_is_at_most_everything() -> None:
    assert max_unavailable(deployment(3, 0, 7)) == 3
    assert min_available(deployment(3, 0, 7)) == 0
    assert max_unavailable(deployment(0, 0, 7)) == 0


def test_recreate_has_no_limits() -> None:
    d = deployment(3, kind="Recreate")
    assert (max_surge(d), max_unavailable(d), min_available(d)) == (0, 0, 0)
    assert new_rs_new_replicas(d, [replica_set(3), replica_set(0)], replica_set(0)) == 3


def test_numbers_wrap_around_as_32_bits_do() -> None:
    assert [int32(n) for n in (2**31 - 1, 2**31, -(2**31) - 1)] == [2**31 - 1, -(2**31), 2**31 - 1]
    huge = deployment(2**31 - 1, QUARTER, QUARTER)
    assert new_rs_new_replicas(huge, [replica_set(5)], replica_set(5)) == 5


# --- the next step


def test_the_new_set_fills_the_room_under_the_limit() -> None:
    d, old = deployment(10), replica_set(10, age=9)
    new = replica_set(0)
    assert new_rs_new_replicas(d, [old, new], new) == 3
    assert new_rs_new_replicas(d, [replica_set(4), new], new) == 9
    assert new_rs_new_replicas(d, [replica_set(1), new], new) == 10  # no more than are wanted
    full = replica_set(3)
    assert new_rs_new_replicas(d, [old, full], full) == 3
    beyond = replica_set(5)
    assert new_rs_new_replicas(d, [old, beyond], beyond) == 5  # over the limit: not smaller


@pytest.mark.parametrize("kind", ["", "Bogus"])
def test_an_unknown_strategy_is_refused(kind: str) -> None:
    with pytest.raises(ValueError, match=f"deployment type {kind} isn't supported"):
        new_rs_new_replicas(deployment(3, kind=kind), [], replica_set(0))


def steps(d: Deployment, old: list[ReplicaSet], new: ReplicaSet) -> list[tuple[str, int]]:
    return [(old[i].metadata.name, size) for i, size, _ in scale_down_steps(d, old, new)]


def test_old_pods_go_down_to_the_floor() -> None:
    d = deployment(10)
    assert steps(d, [replica_set(10, 10, 9)], replica_set(3)) == [("web-9", 8)]
    assert steps(d, [replica_set(8, 8, 9)], replica_set(5)) == []
    assert steps(d, [replica_set(8, 8, 9)], replica_set(5, 2)) == [("web-9", 6)]


def test_pods_that_are_not_available_go_first_and_from_the_oldest_set() -> None:
    d = deployment(10)
    old = [replica_set(4, 3, 9), replica_set(6, 4, 5)]
    assert steps(d, old, replica_set(3, 3)) == [("web-9", 3), ("web-5", 4), ("web-9", 1)]


def test_the_unavailable_pods_of_the_new_set_do_not_help() -> None:
    """Ten wanted, eight promised: a stuck new set of five, and one of the eight old ones breaks."""
    assert steps(deployment(10), [replica_set(8, 7, 9)], replica_set(5)) == []


def test_a_set_that_reports_too_much_stops_the_step_but_not_what_was_done() -> None:
    old = [replica_set(4, 3, 9), replica_set(2, 5, 5), replica_set(3, 1, 3)]
    taken = []
    with pytest.raises(ValueError, match="web-5 has 3 pods more than it wants"):
        for step in scale_down_steps(deployment(3), old, replica_set(3, 3)):
            taken.append(step[:2])
    assert taken == [(0, 3)]


def test_once_nothing_more_may_go_the_later_sets_are_not_looked_at() -> None:
    old = [replica_set(4, 0, 9), replica_set(2, 5, 5)]
    assert steps(deployment(5, 0, 0), old, replica_set(0)) == [("web-9", 2), ("web-9", 1)]


sizes = st.integers(0, 12)


@st.composite
def rollouts(draw: st.DrawFn) -> tuple[Deployment, list[ReplicaSet], ReplicaSet]:
    """A Deployment in the middle of anything, its old sets and its new one."""
    limit = st.one_of(st.integers(0, 5), st.integers(0, 100).map("{}%".format))
    d = deployment(draw(sizes), draw(limit), draw(limit))

    def some_set(age: int) -> ReplicaSet:
        size = draw(sizes)
        return replica_set(size, draw(st.integers(0, size)), age)

    old = [rs for rs in map(some_set, range(9, 9 - draw(st.integers(0, 4)), -1)) if wanted(rs)]
    return d, old, some_set(0)


@given(rollouts())
def test_no_step_takes_an_available_pod_below_the_floor(
    state: tuple[Deployment, list[ReplicaSet], ReplicaSet],
) -> None:
    d, old, new = state
    before = sum(rs.status.available_replicas for rs in [*old, new])
    after = [wanted(rs) for rs in old]
    for i, size, why in scale_down_steps(d, old, new):
        assert 0 <= size < after[i]
        assert why
        after[i] = size
    left = [min(n, rs.status.available_replicas) for n, rs in zip(after, old, strict=True)]
    floor = wanted(d) - max_unavailable(d)
    assert sum(left) + new.status.available_replicas >= min(before, floor)


@given(rollouts())
def test_the_new_set_never_brings_the_total_over_the_limit(
    state: tuple[Deployment, list[ReplicaSet], ReplicaSet],
) -> None:
    d, old, new = state
    size = new_rs_new_replicas(d, [*old, new], new)
    if wanted(new) <= wanted(d):
        assert wanted(new) <= size <= wanted(d)
    limit = wanted(d) + max_surge(d)
    assert total(old) + size <= max(limit, total([*old, new]))


@given(rollouts())
def test_healthy_pods_always_get_to_the_end(
    state: tuple[Deployment, list[ReplicaSet], ReplicaSet],
) -> None:
    """Whatever the limits: if every pod gets available, no rollout stands still."""
    d, old, new = state
    for _ in range(200):
        old = [resized(rs, wanted(rs)) for rs in old if wanted(rs)]
        size = min(new_rs_new_replicas(d, [*old, new], new), wanted(d))
        moved = size != wanted(new)
        new = resized(new, size)
        if not moved:
            for i, left, _ in scale_down_steps(d, old, new):
                old[i] = replace(old[i], spec=replace(old[i].spec, replicas=left))
                moved = True
        if not moved:
            break
    assert [rs for rs in old if wanted(rs)] == []
    assert wanted(new) == wanted(d)


def resized(rs: ReplicaSet, size: int) -> ReplicaSet:
    status = replace(rs.status, available_replicas=size)
    return replace(rs, spec=replace(rs.spec, replicas=size), status=status)


# --- done, under way


def test_complete_means_all_new_all_available_no_other_and_seen() -> None:
    d = deployment(3)
    done = DeploymentStatus(
        replicas=3, updated_replicas=3, available_replicas=3, observed_generation=1
    )
    assert deployment_complete(d, done)
    for field in ("replicas", "updated_replicas", "available_replicas"):
        assert not deployment_complete(d, replace(done, **{field: 2}))
        assert not deployment_complete(d, replace(done, **{field: 4}))
    assert not deployment_complete(d, replace(done, observed_generation=0))


@pytest.mark.parametrize(
    ("change", "progress"),
    [
        ({}, False),
        ({"updated_replicas": 3, "replicas": 6}, True),  # one more new pod
        ({"replicas": 4}, True),  # one old pod less
        ({"ready_replicas": 4}, True),
        ({"available_replicas": 4}, True),
        ({"ready_replicas": 2, "available_replicas": 2}, False),
        ({"replicas": 6}, False),  # one old pod more
    ],
)
def test_progress_is_more_of_the_new_or_less_of_the_old(
    change: dict[str, int], progress: bool
) -> None:
    before = DeploymentStatus(
        replicas=5, updated_replicas=2, ready_replicas=3, available_replicas=3
    )
    d = replace(deployment(5), status=before)
    assert deployment_progressing(d, replace(before, **change)) is progress


# --- templates


def test_the_hash_label_and_empty_lists_do_not_count() -> None:
    a = template()
    assert equal_ignore_hash(a, template(**{HASH_LABEL: "abc"}))
    spec = replace(a.spec, extra={"imagePullSecrets": []})
    assert equal_ignore_hash(a, replace(a, spec=spec))
    assert not equal_ignore_hash(a, template("app:2"))
    assert not equal_ignore_hash(a, replace(a, spec=replace(a.spec, security_context={})))


def test_equal_templates_have_one_hash_and_a_collision_another() -> None:
    digest = compute_hash(template(), None)
    assert digest == compute_hash(template(**{HASH_LABEL: "abc"}), None)
    others = {compute_hash(template(), n) for n in range(5)} | {compute_hash(template("b"), None)}
    assert len(others | {digest}) == 7
    assert set(digest) <= set(ALPHABET) and 1 <= len(digest) <= 10


def test_the_hash_is_the_same_in_every_process() -> None:
    code = (
        "from kcm_lite.api.core import PodTemplateSpec\n"
        "from kcm_lite.controllers.deployment_templates import compute_hash\n"
        "print(compute_hash(PodTemplateSpec(), None))"
    )
    ours = compute_hash(PodTemplateSpec(), None)
    for seed in ("1", "2"):
        env = {"PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
        assert done.stdout.strip() == ours, done.stderr


def test_of_several_equal_sets_the_oldest_is_the_new_one() -> None:
    sets = by_creation([replica_set(1, age=1), replica_set(0, age=5), replica_set(2, age=3)])
    found = find_new_replica_set(deployment(), sets)
    assert found is not None and found.metadata.name == "web-5"
    assert find_new_replica_set(deployment(), []) is None


def test_a_new_set_belongs_to_its_deployment_and_starts_with_what_fits() -> None:
    rs = new_replica_set(deployment(10), [replica_set(10)])
    digest = rs.metadata.labels[HASH_LABEL]
    assert rs.metadata.name == f"web-{digest}"
    assert rs.spec.replicas == 3
    assert rs.spec.selector == LabelSelector(match_labels={"app": "web", HASH_LABEL: digest})
    assert rs.spec.template.metadata.labels == {"app": "web", HASH_LABEL: digest}
    assert [ref.uid for ref in rs.metadata.owner_references] == ["d"]


# --- revisions


def test_revisions_that_are_no_numbers_do_not_count() -> None:
    sets = [replica_set(0, revision=text) for text in ("3", "x", "7", "", "-2", "5")]
    assert [revision(rs) for rs in sets] == [3, None, 7, None, -2, 5]
    assert (max_revision(sets), next_revision(sets), last_revision(sets)) == (7, "8", 5)
    assert (max_revision([]), next_revision([]), last_revision([])) == (0, "1", 0)
    assert last_revision(sets[:1]) == 0
    assert next_revision([replica_set(0, revision=str(2**63 - 1))]) == str(-(2**63))


def test_a_set_that_becomes_the_new_one_again_keeps_its_former_numbers() -> None:
    d = deployment(2, annotations={"team": "a", LAST_APPLIED: "{}", REVISION: "9"})
    rs = replica_set(0, revision="1", revision_history="x,0")
    annotations, changed = set_new_replica_set_annotations(d, rs, "3", exists=True)
    assert changed
    assert annotations == {REVISION: "3", REVISION_HISTORY: "x,0,1", "team": "a"}
    again = replace(rs, metadata=replace(rs.metadata, annotations=annotations))
    kept, changed = set_new_replica_set_annotations(d, again, "2", exists=True)
    assert kept is annotations and not changed


def test_a_set_that_is_about_to_be_made_learns_the_size() -> None:
    annotations, _ = set_new_replica_set_annotations(
        deployment(10), replica_set(0), "1", exists=False
    )
    assert annotations == {REVISION: "1", DESIRED_REPLICAS: "10", MAX_REPLICAS: "13"}


def test_a_number_that_somebody_broke_is_left_alone() -> None:
    d = deployment(annotations={"team": "a"})
    annotations, changed = set_new_replica_set_annotations(
        d, replica_set(0, revision="mine"), "2", exists=True
    )
    assert (annotations[REVISION], annotations["team"], changed) == ("mine", "a", False)


@pytest.mark.parametrize(
    ("history", "old", "limit", "longer"),
    [
        ("", "1", 10, "1"),
        ("1,2", "3", 5, "1,2,3"),
        ("1,2", "3", 4, "2,3"),
        ("1,2", "30", 2, "30"),
        ("1,2", "30", 1, "1,2"),
    ],
)
def test_the_list_of_former_numbers_has_a_limit(
    history: str, old: str, limit: int, longer: str
) -> None:
    assert with_revision(history, old, limit) == longer


@pytest.mark.parametrize(
    ("text", "number"),
    [("5", 5), ("007", 7), ("-1", None), ("+1", None), ("x", None), ("", None), ("9" * 50, None),
     (str(2**31), None), (str(2**31 - 1), 2**31 - 1)],
)  # fmt: skip
def test_sizes_in_annotations_are_plain_numbers(text: str, number: int | None) -> None:
    assert number_of(replica_set(0, max_replicas=text), MAX_REPLICAS) == number


def test_sorting_by_revision_falls_back_to_age() -> None:
    sets = [
        replica_set(0, age=1, revision="2"),
        replica_set(0, age=3, revision="2"),
        replica_set(0, age=2, revision="1"),
    ]
    assert [rs.metadata.name for rs in by_revision(sets)] == ["web-2", "web-3", "web-1"]
    broken = [replica_set(0, age=n, revision=text) for n, text in ((1, "1"), (5, "x"))]
    assert [rs.metadata.name for rs in by_revision(broken)] == ["web-5", "web-1"]


@pytest.mark.parametrize(("text", "wish"), [("0", 0), ("4", 4), ("", None), ("x", None)])
def test_a_wish_for_a_rollback_is_a_number(text: str, wish: int | None) -> None:
    d = deployment(annotations={"deprecated.deployment.rollback.to": text})
    assert rollback_to(d) == wish


# --- shares


def shares(d: Deployment, *sets: ReplicaSet) -> dict[str, int]:
    return {rs.metadata.name: size for rs, size in proportional_sizes(d, sets)}


def test_a_stuck_rollout_is_scaled_in_proportion() -> None:
    """As recorded: 10 (surge 3) to 15 and then to 6, with 8 old and 5 new pods."""
    old, new = replica_set(8, 8, 9, max_replicas="13"), replica_set(5, 0, 1, max_replicas="13")
    grown = shares(deployment(15, 3, 2), old, new)
    assert grown == {"web-9": 11, "web-1": 7}
    old, new = replica_set(11, 8, 9, max_replicas="18"), replica_set(7, 0, 1, max_replicas="18")
    assert shares(deployment(6, 3, 2), old, new) == {"web-9": 5, "web-1": 4}


def test_the_largest_gets_what_is_left_and_of_equals_the_newer_grows_the_older_shrinks() -> None:
    sets = [replica_set(3, age=n, max_replicas="10") for n in (9, 5, 1)]
    assert shares(deployment(11, 0, 1), *sets) == {"web-1": 5, "web-5": 3, "web-9": 3}
    assert shares(deployment(7, 0, 1), *sets) == {"web-9": 2, "web-5": 2, "web-1": 3}


def test_nothing_is_wanted_nothing_stays() -> None:
    sets = [replica_set(3, age=n) for n in (9, 5)]
    assert shares(deployment(0), *sets) == {"web-9": 0, "web-5": 0}
    assert shares(deployment(5, 1, 0), *sets) == {"web-9": 3, "web-5": 3}
    assert shares(deployment(5)) == {}


def test_without_the_annotation_the_status_tells_the_former_size() -> None:
    d = replace(deployment(20, 0, 1), status=DeploymentStatus(replicas=10))
    assert replica_set_fraction(d, replica_set(4)) == 4
    assert replica_set_fraction(d, replica_set(4, max_replicas="0")) == 4
    assert replica_set_fraction(deployment(20, 0, 1), replica_set(4)) == 0


@given(rollouts())
def test_no_share_goes_the_wrong_way_and_growth_adds_up(
    state: tuple[Deployment, list[ReplicaSet], ReplicaSet],
) -> None:
    """Shrinking may stop short: where many small sets round up, the largest alone pays for it."""
    d, old, new = state
    sizes = [wanted(rs) for rs in [*old, new] if wanted(rs)]
    known = {MAX_REPLICAS: str(sum(sizes))}
    sets = [replica_set(size, 0, i, **known) for i, size in enumerate(sizes)]
    out = proportional_sizes(d, sets)
    limit, after = wanted(d) + max_surge(d) if wanted(d) else 0, [size for _, size in out]
    if limit >= sum(sizes) and sets:
        assert all(size >= wanted(rs) for rs, size in out)
        assert sum(after) == limit
    else:
        assert all(0 <= size <= wanted(rs) for rs, size in out)
        assert sum(after) >= limit or not sets


def test_the_only_set_with_pods_or_the_latest_is_scaled_alone() -> None:
    def name(new: ReplicaSet | None, *old: ReplicaSet) -> str | None:
        found = find_active_or_latest(new, old)
        return None if found is None else found.metadata.name

    new = replica_set(0, age=1)
    assert name(None) is None
    assert name(None, replica_set(0, age=9), replica_set(0, age=5)) == "web-5"
    assert name(new, replica_set(0, age=9)) == "web-1"
    assert name(new, replica_set(2, age=9), replica_set(0, age=5)) == "web-9"
    assert name(replica_set(1, age=1), replica_set(2, age=9)) is None


@pytest.mark.parametrize(
    ("size", "available", "desired", "saturated"),
    [
        (3, 3, "3", True),
        (3, 2, "3", False),
        (2, 2, "3", False),
        (3, 3, "4", False),
        (3, 3, "x", False),
    ],
)
def test_saturated_means_full_available_and_knowing_it(
    size: int, available: int, desired: str, saturated: bool
) -> None:
    rs = replica_set(size, available, desired_replicas=desired)
    assert is_saturated(deployment(3), rs) is saturated
    assert not is_saturated(deployment(3), None)
