"""The rules of Jobs: sets of indexes, back-off, policies; each against something simpler."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm_lite.api.batch import (
    COMPLETION_INDEX,
    INDEX_FAILURE_COUNT,
    INDEXED,
    TRACKING_FINALIZER,
    Job,
    JobSpec,
    JobStatus,
    OnExitCodes,
    PodFailurePolicy,
    PodFailurePolicyRule,
    SuccessPolicy,
    SuccessPolicyRule,
)
from kcm_lite.api.core import (
    Container,
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
)
from kcm_lite.api.meta import ObjectMeta, replace
from kcm_lite.controllers.job_backoff import (
    BackoffRecord,
    finished_time,
    next_record,
    remaining_time,
    remaining_time_of,
    remaining_time_per_index,
)
from kcm_lite.controllers.job_indexes import (
    UNKNOWN,
    Intervals,
    completion_index,
    first_pending,
    format_indexes,
    has_index,
    merge,
    parse_indexes,
    total,
    with_indexes,
)
from kcm_lite.controllers.job_manage import (
    ENV,
    active_pods_for_removal,
    pod_generate_name,
    pod_template,
)
from kcm_lite.controllers.job_pods import (
    deadline_of,
    is_pod_failed,
    new_finished_pods,
    past_backoff_limit_on_failure,
)
from kcm_lite.controllers.job_policies import match_pod_failure_policy, match_success_policy

START = datetime(2026, 1, 1, tzinfo=UTC)
INDEXES = st.sets(st.integers(0, 40))


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def members(intervals: Intervals) -> set[int]:
    return {i for first, last in intervals for i in range(first, last + 1)}


def pod(
    name: str = "p",
    phase: str = "Running",
    *,
    index: object = None,
    end: float | None = None,
    code: int = 1,
    deleted: float | None = None,
    tracked: bool = True,
    created: float = 0,
    failures: int | None = None,
) -> Pod:
    annotations = {} if index is None else {COMPLETION_INDEX: str(index)}
    if failures is not None:
        annotations[INDEX_FAILURE_COUNT] = str(failures)
    terminated = None
    if end is not None:
        terminated = ContainerStateTerminated(exit_code=code, finished_at=at(end))
    status = ContainerStatus(name="c", state=ContainerState(terminated=terminated))
    return Pod(
        metadata=ObjectMeta(
            namespace="ns",
            name=name,
            uid=f"uid-{name}",
            annotations=annotations,
            creation_timestamp=at(created),
            deletion_timestamp=None if deleted is None else at(deleted),
            finalizers=(TRACKING_FINALIZER,) if tracked else (),
        ),
        spec=PodSpec(node_name="n"),
        status=PodStatus(phase=phase, container_statuses=(status,)),
    )


# ---- indexes


@given(INDEXES, INDEXES)
def test_intervals_are_sets_of_numbers(a: set[int], b: set[int]) -> None:
    left, right = with_indexes((), a), with_indexes((), b)
    both = merge(left, right)
    assert members(both) == a | b
    assert both == with_indexes(left, b)
    assert total(both) == len(a | b)
    assert [i for i in range(-1, 45) if has_index(both, i)] == sorted(a | b)
    assert all(x[1] + 1 < y[0] for x, y in itertools.pairwise(both))


@given(INDEXES, st.integers(0, 45))
def test_a_text_of_indexes_comes_back_up_to_the_completions(a: set[int], completions: int) -> None:
    text = format_indexes(with_indexes((), a))
    assert members(parse_indexes(text, completions)) == {i for i in a if i < completions}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("x", ""),
        ("1,x,3", "1,3"),
        ("1-x", ""),
        ("0,1,2", "0-2"),
        ("7-99", "7-9"),
        ("-1", ""),
    ],
)
def test_what_cannot_be_read_is_skipped(text: str, shown: str) -> None:
    assert format_indexes(parse_indexes(text, 10)) == shown


@given(INDEXES, st.integers(0, 50), st.integers(0, 50))
def test_pending_indexes_are_the_first_that_are_free(
    taken: set[int], count: int, completions: int
) -> None:
    free = [i for i in range(completions) if i not in taken]
    assert first_pending(with_indexes((), taken), count, completions) == free[:count]


@pytest.mark.parametrize("index", [None, "", "x", "-1", "1.5", "99999999999999999999"])
def test_a_pod_with_a_bad_index_has_none(index: object) -> None:
    assert completion_index(pod(index=index)) == UNKNOWN


# ---- back-off


def test_the_wait_doubles_from_ten_seconds_to_ten_minutes() -> None:
    assert [remaining_time(n, 0) for n in range(9)] == [0, 10, 20, 40, 80, 160, 320, 600, 600]
    assert remaining_time(3, 15.5) == 24.5
    assert remaining_time(1, 10.0) == 0
    assert remaining_time(10**6, 0) == 600


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 50)), max_size=12))
def test_failures_count_since_the_last_success(ends: list[tuple[bool, int]]) -> None:
    good = [pod(f"g{i}", "Succeeded", end=t) for i, (ok, t) in enumerate(ends) if ok]
    bad = [pod(f"b{i}", "Failed", end=t) for i, (ok, t) in enumerate(ends) if not ok]
    last_good = max((t for ok, t in ends if ok), default=-1)
    since = [t for ok, t in ends if not ok and t > last_good]
    record = next_record(BackoffRecord(), good, bad)
    assert record.failures == len(since)
    assert record.last_failure == (at(max(since)) if since else None)


def test_without_a_success_failures_add_up() -> None:
    record = next_record(BackoffRecord(2, at(1)), [], [pod("a", "Failed", end=9)])
    assert record == BackoffRecord(3, at(9))
    assert remaining_time_of(record, at(20)) == 29
    assert next_record(record, [], []) == record
    assert next_record(record, [pod("b", "Succeeded", end=3)], []) == BackoffRecord()


def test_when_a_pod_ended_is_told_by_the_best_witness_there_is() -> None:
    assert finished_time(pod(end=7, deleted=9)) == at(7)
    gone = pod(deleted=40)
    grace = replace(gone.metadata, deletion_grace_period_seconds=30)
    assert finished_time(replace(gone, metadata=grace)) == at(10)
    assert finished_time(pod(created=3)) == at(3)


def test_an_index_waits_by_its_own_failures() -> None:
    assert remaining_time_per_index(None, at(0)) == 0
    assert remaining_time_per_index(pod(index=1, end=5, failures=2), at(10)) == 35


# ---- policies


def policy(*rules: tuple[str, str, tuple[int, ...]]) -> PodFailurePolicy:
    return PodFailurePolicy(
        rules=tuple(
            PodFailurePolicyRule(action=a, on_exit_codes=OnExitCodes(operator=o, values=v))
            for a, o, v in rules
        )
    )


def test_the_first_rule_that_matches_counts() -> None:
    rules = policy(("Ignore", "In", (1, 2)), ("FailJob", "NotIn", (3,)))
    assert match_pod_failure_policy(rules, pod(end=1, code=2)).action == "Ignore"
    match = match_pod_failure_policy(rules, pod("x", end=1, code=9))
    assert match.message == (
        "Container c for pod ns/x failed with exit code 9 matching FailJob rule at index 1"
    )
    assert match_pod_failure_policy(rules, pod(end=1, code=3)).action == ""
    assert match_pod_failure_policy(rules, pod(end=1, code=0)).action == ""  # 0 never matches
    assert match_pod_failure_policy(rules, pod()).action == ""  # nothing has ended
    assert match_pod_failure_policy(None, pod(end=1)).counts


@given(INDEXES, INDEXES, st.integers(0, 10))
def test_a_success_rule_wants_indexes_or_so_many_of_them(
    wanted: set[int], done: set[int], count: int
) -> None:
    text = format_indexes(with_indexes((), wanted))
    met = match_success_policy(
        SuccessPolicy(rules=(SuccessPolicyRule(succeeded_indexes=text, succeeded_count=count),)),
        100,
        with_indexes((), done),
    )
    enough = wanted <= done or len(wanted & done) >= count
    assert bool(met) == bool(done and wanted and enough)


# ---- predicates


@pytest.mark.parametrize(
    ("policy", "phase", "deleted", "failed"),
    [
        ("TerminatingOrFailed", "Failed", None, True),
        ("TerminatingOrFailed", "Running", 1, True),
        ("TerminatingOrFailed", "Succeeded", 1, False),
        ("TerminatingOrFailed", "Running", None, False),
        ("Failed", "Running", 1, False),
        ("Failed", "Failed", 1, True),
    ],
)
def test_a_pod_that_is_going_has_failed_unless_only_failed_ones_are_replaced(
    policy: str, phase: str, deleted: float | None, failed: bool
) -> None:
    job = Job(spec=JobSpec(pod_replacement_policy=policy))
    assert is_pod_failed(pod("p", phase, deleted=deleted), job) is failed


def test_pods_are_new_until_a_status_mentions_them_or_their_finalizer_is_off() -> None:
    job = Job(spec=JobSpec(completion_mode=INDEXED, completions=3))
    pods = [
        pod("new", "Succeeded", index=0),
        pod("counted", "Succeeded", index=1),
        pod("freed", "Succeeded", index=2),
        pod("untracked", "Succeeded", index=2, tracked=False),
        pod("beyond", "Failed", index=3),
        pod("bad", "Failed", index=2),
    ]
    good, bad = new_finished_pods(job, pods, ("uid-counted",), (), ("uid-freed",))
    assert [p.metadata.name for p in good] == ["new"]
    assert [p.metadata.name for p in bad] == ["bad"]


def test_restarts_in_place_count_only_for_on_failure() -> None:
    template = PodTemplateSpec(spec=PodSpec(restart_policy="OnFailure"))
    job = Job(spec=JobSpec(backoff_limit=2, template=template))
    status = PodStatus(phase="Running", container_statuses=(ContainerStatus(restart_count=2),))
    assert past_backoff_limit_on_failure(job, [Pod(status=status)])
    assert not past_backoff_limit_on_failure(job, [Pod(status=replace(status, phase="Failed"))])
    never = replace(job, spec=replace(job.spec, template=PodTemplateSpec()))
    assert not past_backoff_limit_on_failure(never, [Pod(status=status)])
    zero = replace(job, spec=replace(job.spec, backoff_limit=0))
    assert not past_backoff_limit_on_failure(zero, [])


def test_a_deadline_counts_from_the_start_and_rests_while_suspended() -> None:
    job = Job(spec=JobSpec(active_deadline_seconds=5), status=JobStatus(start_time=START))
    assert deadline_of(job) == at(5)
    assert deadline_of(replace(job, spec=replace(job.spec, suspend=True))) is None
    assert deadline_of(replace(job, status=JobStatus())) is None
    assert deadline_of(replace(job, spec=replace(job.spec, active_deadline_seconds=2**60))) is None


# ---- pods to make and to remove


def test_long_names_are_cut_and_indexes_are_not() -> None:
    assert pod_generate_name("j", 7) == "j-7-"
    name = pod_generate_name("x" * 70, 12345)
    assert len(name) == 58 and name.endswith("x-12345-")


def test_an_index_is_handed_to_the_containers_once() -> None:
    template = PodTemplateSpec(spec=PodSpec(containers=()))
    own = {"name": "JOB_COMPLETION_INDEX", "value": "mine"}
    containers = (Container(name="a"), Container(name="b", extra={"env": [own]}))
    template = replace(template, spec=replace(template.spec, containers=containers))
    mould = pod_template(template, True, True)
    assert mould.metadata.finalizers == (TRACKING_FINALIZER,)
    assert [c.extra["env"] for c in mould.spec.containers] == [[ENV], [own]]
    assert pod_template(template, False, False).spec is template.spec


def test_pods_without_use_go_before_those_too_many() -> None:
    job = Job(spec=JobSpec(completion_mode=INDEXED, completions=3))
    pods = [
        pod("none"),
        pod("zero", index=0, created=1),
        pod("again", index=0, created=2),
        pod("one", index=1, created=3),
        pod("beyond", index=3),
    ]
    gone = [p.metadata.name for p in active_pods_for_removal(job, pods, 0)]
    assert sorted(gone) == ["again", "beyond", "none"]
    gone = [p.metadata.name for p in active_pods_for_removal(job, pods, 4)]
    assert gone[-1] == "one"  # the younger one of those that are left
