"""What the server says about Jobs: updates, and statuses that do not fit together."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kcm_lite.api.batch import Job, UncountedTerminatedPods
from kcm_lite.api.meta import Condition, replace
from kcm_lite.api.serial import convert, decode
from kcm_lite.api.strategy import STRATEGIES
from kcm_lite.api.validation.field import text_of
from kcm_lite.api.validation.job_policies import check_indexes, overlap_of
from tests.sim_support import job as manifest

START = datetime(2026, 1, 1, tzinfo=UTC)
UID = "11111111-2222-3333-4444-555555555555"
STRATEGY = STRATEGIES[Job]


def stored(**spec: Any) -> Job:
    """A Job as the server keeps it."""
    job: Job = STRATEGY.default(decode(manifest(**spec), Job))
    meta = replace(job.metadata, namespace="ns", uid=UID, resource_version="1")
    job = STRATEGY.prepare_for_create(replace(job, metadata=meta))
    assert not STRATEGY.validate(job)
    return job


def conditions(*types: str) -> tuple[Condition, ...]:
    return tuple(Condition(type=t, status="True", last_transition_time=START) for t in types)


def told(new: Job, old: Job) -> list[str]:
    """What a status update is refused for, in one line each."""
    return [
        text_of(cause).removeprefix("status.")
        for cause in STRATEGY.validate_status_update(new, old)
    ]


def changed(job: Job, **fields: Any) -> Job:
    return replace(job, status=replace(job.status, **fields))


DONE: dict[str, Any] = {
    "conditions": conditions("SuccessCriteriaMet", "Complete"),
    "start_time": START,
    "completion_time": START + timedelta(seconds=5),
}
FAILED: dict[str, Any] = {"conditions": conditions("FailureTarget", "Failed"), "start_time": START}


@pytest.mark.parametrize("fields", [DONE, FAILED, {"active": 2, "ready": 2, "failed": 1}])
def test_what_the_controller_writes_is_accepted(fields: dict[str, Any]) -> None:
    assert told(changed(stored(), **fields), stored()) == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"active": -1}, "active: Invalid value: -1: must be greater than or equal to 0"),
        ({"ready": 1}, "ready: Invalid value: 1: cannot set more ready pods than active"),
        (
            {"uncounted_terminated_pods": UncountedTerminatedPods(succeeded=("a",), failed=("a",))},
            'uncountedTerminatedPods.failed[0]: Duplicate value: "a"',
        ),
        (
            {"uncounted_terminated_pods": UncountedTerminatedPods(failed=("",))},
            'uncountedTerminatedPods.failed[0]: Invalid value: "": must not be empty',
        ),
        (
            {**DONE, "conditions": conditions("Complete")},
            "conditions: Invalid value: cannot set Complete=True condition"
            " without the SuccessCriteriaMet=true condition",
        ),
        (
            {**FAILED, "conditions": conditions("Failed")},
            "conditions: Invalid value: cannot set Failed=True condition"
            " without the FailureTarget=true condition",
        ),
        (
            {**DONE, "conditions": (*DONE["conditions"], *FAILED["conditions"])},
            "conditions: Invalid value: cannot set Complete=True and Failed=true conditions",
        ),
        (
            {**DONE, "completion_time": None},
            "completionTime: Required value: completionTime is required for Complete jobs",
        ),
        (
            {"completion_time": START},
            'completionTime: Invalid value: "2026-01-01T00:00:00Z": cannot set completionTime'
            " when there is no Complete=True condition",
        ),
        (
            {**DONE, "completion_time": START - timedelta(seconds=1)},
            'completionTime: Invalid value: "2025-12-31T23:59:59Z": must be equal to or after'
            " `startTime`",
        ),
        ({**FAILED, "active": 1}, "active: Invalid value: 1: active>0 is invalid for finished job"),
        (
            {**FAILED, "terminating": 1},
            "terminating: Invalid value: 1: terminating>0 is invalid for finished job",
        ),
        (
            {**FAILED, "start_time": None},
            "startTime: Required value: startTime is required for finished job",
        ),
        (
            {**FAILED, "uncounted_terminated_pods": UncountedTerminatedPods(failed=("a",))},
            'uncountedTerminatedPods: Invalid value: {"failed":["a"]}: must be empty for finished'
            " job",
        ),
        (
            {"completed_indexes": "0"},
            'completedIndexes: Invalid value: "0": cannot set non-empty completedIndexes when'
            " non-indexed completion mode",
        ),
        (
            {"failed_indexes": "0"},
            'failedIndexes: Invalid value: "0": cannot set non-null failedIndexes when'
            " backoffLimitPerIndex is null",
        ),
    ],
)
def test_a_status_that_does_not_fit_is_refused(fields: dict[str, Any], message: str) -> None:
    assert message in told(changed(stored(), **fields), stored())


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            {"failed": 2},
            {"failed": 1},
            "failed: Invalid value: 1: cannot decrease the failed counter",
        ),
        (
            {"succeeded": 2},
            {"succeeded": 1},
            "succeeded: Invalid value: 1: cannot decrease the succeeded counter",
        ),
        (
            FAILED,
            {"start_time": START, "conditions": ()},
            "conditions: Invalid value: cannot disable the terminal Failed=True condition",
        ),
        (
            DONE,
            {**DONE, "completion_time": START + timedelta(seconds=9)},
            'completionTime: Invalid value: "2026-01-01T00:00:09Z": field is immutable',
        ),
        (
            {"start_time": START},
            {"start_time": START + timedelta(seconds=1)},
            'startTime: Invalid value: "2026-01-01T00:00:01Z": field is immutable for unsuspended'
            " job once set",
        ),
        (
            {"conditions": conditions("SuccessCriteriaMet")},
            {"conditions": ()},
            "conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
        ),
    ],
)
def test_what_was_said_stays_said(
    before: dict[str, Any], after: dict[str, Any], message: str
) -> None:
    assert message in told(changed(stored(), **after), changed(stored(), **before))


def test_an_old_fault_does_not_hinder_another_write() -> None:
    odd = changed(stored(), ready=3, completed_indexes="0")
    assert told(changed(odd, failed=1), odd) == []


def test_an_elastic_indexed_job_may_lose_successes() -> None:
    job = stored(completionMode="Indexed", completions=3, parallelism=3)
    before = changed(job, succeeded=3, completed_indexes="0-2")
    assert told(changed(job, succeeded=2, completed_indexes="0,1"), before) == []


def test_indexes_cannot_be_done_and_failed() -> None:
    job = stored(completionMode="Indexed", completions=9, backoffLimitPerIndex=1)
    new = changed(job, completed_indexes="0-3,7", failed_indexes="5,7")
    assert told(new, job) == [
        'failedIndexes: Invalid value: "5,7":'
        " failedIndexes and completedIndexes overlap at index: 7"
    ]
    assert overlap_of("0-3,x,5", "4,5", 9) == 5
    assert overlap_of("0-3", "4,5", 9) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("3,1", "non-increasing order, previous: 3, current: 1"),
        ("2-2", "non-increasing order, previous: 2, current: 2"),
        ("9", 'too large index: "9"'),
        ("1-2-3", "at most two parts"),
        ("one", 'cannot convert string to integer for index: "one"'),
    ],
)
def test_indexes_are_read_strictly(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        check_indexes(text, 9)
    assert problem in str(caught.value)
    assert check_indexes("0,2-4", 9) == 4


# ---- updates of the spec


def updated(old: Job, **spec: Any) -> list[str]:
    new = replace(old, spec=replace(old.spec, **spec))
    new = STRATEGY.prepare_for_update(new, old)
    return [cause.field for cause in STRATEGY.validate_update(new, old)]


def with_image(job: Job, image: str) -> Any:
    spec = job.spec.template.spec
    container = replace(spec.containers[0], image=image)
    return replace(job.spec.template, spec=replace(spec, containers=(container,)))


def test_a_suspended_job_lets_the_scheduler_be_told_something_else() -> None:
    running, resting = stored(), stored(suspend=True)
    for job, refused in ((running, ["spec.template"]), (resting, [])):
        template = job.spec.template
        moved = replace(template, spec=replace(template.spec, node_selector={"disk": "ssd"}))
        assert updated(job, template=moved) == refused


def test_of_a_suspended_job_the_resources_may_change_and_the_image_may_not() -> None:
    job = stored(suspend=True)
    template = job.spec.template
    container = convert(
        {"name": "c", "image": "app:1", "resources": {"limits": {"cpu": "1"}}},
        type(template.spec.containers[0]),
    )
    first = template.spec.containers[0]
    more = replace(first, resources=container.resources)
    bigger = replace(template, spec=replace(template.spec, containers=(more,)))
    assert updated(job, template=bigger) == []
    assert updated(job, template=with_image(job, "app:2")) == ["spec.template.spec"]


def test_a_job_that_still_has_active_pods_is_not_at_rest() -> None:
    job = changed(
        stored(suspend=True), start_time=START, active=1, conditions=conditions("Suspended")
    )
    assert updated(job, template=with_image(job, "app:2")) == ["spec.template"]


def test_only_completions_and_parallelism_together_are_elastic() -> None:
    job = stored(completionMode="Indexed", completions=5, parallelism=5)
    assert updated(job, completions=3, parallelism=3) == []
    assert updated(job, completions=3) == ["spec.completions"]


def test_generated_labels_reach_a_job_that_took_its_template_s() -> None:
    raw = manifest()
    raw["spec"]["template"]["metadata"] = {"labels": {"app": "a"}}
    job: Job = STRATEGY.default(decode(raw, Job))
    job = STRATEGY.prepare_for_create(replace(job, metadata=replace(job.metadata, uid=UID)))
    assert job.metadata.labels == job.spec.template.metadata.labels
    assert job.metadata.labels["batch.kubernetes.io/job-name"] == "batch"
