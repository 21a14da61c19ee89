"""Workload objects of the ``batch`` group. See: k8s.io/api ``batch/v1``."""

from __future__ import annotations

from typing import ClassVar

from kcm_lite.api.core import PodTemplateSpec
from kcm_lite.api.meta import Condition, Int32, LabelSelector, Object, Struct, Time

INDEXED, NON_INDEXED = "Indexed", "NonIndexed"
TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED_FAILURE_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"
CONTROLLER_UID, LEGACY_CONTROLLER_UID = "batch.kubernetes.io/controller-uid", "controller-uid"
JOB_NAME, LEGACY_JOB_NAME = "batch.kubernetes.io/job-name", "job-name"
JOB_CONTROLLER = "kubernetes.io/job-controller"
"""The value of ``managedBy`` that means the controller of this package."""


class OnExitCodes(Struct, frozen=True, kw_only=True):
    """Exit codes of one container, or of any, that a rule is about; 0 never counts."""

    KEPT: ClassVar[tuple[str, ...]] = ("operator", "values")

    container_name: str | None = None
    operator: str = ""  # In or NotIn
    values: tuple[Int32, ...] = ()


class OnPodCondition(Struct, frozen=True, kw_only=True):
    """A condition of a pod that a rule is about."""

    KEPT: ClassVar[tuple[str, ...]] = ("type", "status")

    type: str = ""
    status: str = ""


class PodFailurePolicyRule(Struct, frozen=True, kw_only=True):
    """What to do about a failed pod: FailJob, FailIndex, Ignore or Count."""

    KEPT: ClassVar[tuple[str, ...]] = ("action",)

    action: str = ""
    on_exit_codes: OnExitCodes | None = None
    on_pod_conditions: tuple[OnPodCondition, ...] = ()


class PodFailurePolicy(Struct, frozen=True, kw_only=True):
    """Rules for failed pods; the first that matches counts."""

    KEPT: ClassVar[tuple[str, ...]] = ("rules",)

    rules: tuple[PodFailurePolicyRule, ...] = ()


class SuccessPolicyRule(Struct, frozen=True, kw_only=True):
    """Which indexes, or how many of them, are enough."""

    succeeded_indexes: str | None = None
    succeeded_count: Int32 | None = None


class SuccessPolicy(Struct, frozen=True, kw_only=True):
    """Rules by which an Indexed Job is a success before all indexes are done."""

    KEPT: ClassVar[tuple[str, ...]] = ("rules",)

    rules: tuple[SuccessPolicyRule, ...] = ()


class JobSpec(Struct, frozen=True, kw_only=True):
    """What to run, how often, how many at once, and when to give up."""

    parallelism: Int32 | None = None
    completions: Int32 | None = None
    active_deadline_seconds: int | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    backoff_limit: Int32 | None = None
    backoff_limit_per_index: Int32 | None = None
    max_failed_indexes: Int32 | None = None
    selector: LabelSelector | None = None
    manual_selector: bool | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    ttl_seconds_after_finished: Int32 | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    pod_replacement_policy: str | None = None
    managed_by: str | None = None


class UncountedTerminatedPods(Struct, frozen=True, kw_only=True):
    """UIDs of pods that have ended and are on their way into the counts."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobStatus(Struct, frozen=True, kw_only=True):
    """What the controller last saw and counted."""

    conditions: tuple[Condition, ...] = ()
    start_time: Time | None = None
    completion_time: Time | None = None
    active: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    terminating: Int32 | None = None
    completed_indexes: str = ""
    failed_indexes: str | None = None
    uncounted_terminated_pods: UncountedTerminatedPods | None = None
    ready: Int32 | None = None


class Job(Object, frozen=True, kw_only=True):
    """Pods that run to their end, until enough have succeeded or too many have failed."""

    API_VERSION: ClassVar[str] = "batch/v1"
    KEPT: ClassVar[tuple[str, ...]] = ("status",)

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


def is_condition_true(job: Job, type: str) -> bool:
    """Whether a condition of this type says True."""
    return any(c.type == type and c.status == "True" for c in job.status.conditions)


def is_job_finished(job: Job) -> bool:
    """Whether the Job is Complete or Failed; nothing more will become of it."""
    return is_condition_true(job, "Complete") or is_condition_true(job, "Failed")


def is_indexed(job: Job) -> bool:
    """Whether each pod works on an index of its own."""
    return job.spec.completion_mode == INDEXED
