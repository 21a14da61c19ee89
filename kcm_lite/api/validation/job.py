"""Jobs: their spec, and what of it may change.

See: kubernetes ``pkg/apis/batch/validation`` and ``pkg/registry/batch/job``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kcm_lite.api.batch import (
    CONTROLLER_UID,
    INDEXED,
    JOB_NAME,
    LEGACY_CONTROLLER_UID,
    LEGACY_JOB_NAME,
    NON_INDEXED,
    Job,
    JobSpec,
    is_condition_true,
)
from kcm_lite.api.core import PodSpec
from kcm_lite.api.errors import Cause
from kcm_lite.api.meta import ObjectMeta, replace
from kcm_lite.api.selectors import SelectorError, label_selector_as_selector
from kcm_lite.api.validation.content import is_dns1123_label, is_dns1123_subdomain, regex_message
from kcm_lite.api.validation.field import Causes, invalid, not_supported, required, too_long
from kcm_lite.api.validation.job_policies import (
    validate_pod_failure_policy,
    validate_pod_replacement_policy,
    validate_success_policy,
)
from kcm_lite.api.validation.meta import (
    IMMUTABLE,
    all_invalid,
    immutable,
    nonnegative,
    validate_label_selector,
    validate_meta,
    validate_meta_update,
)
from kcm_lite.api.validation.pod import validate_pod_template
from kcm_lite.api.validation.podspecdiff import show_internal, show_template

MOST_PARALLEL = MOST_FAILED_INDEXES = COMPLETIONS_SOFT_LIMIT = 100_000
LIMIT_FOR_HIGH_COMPLETIONS = 10_000
LONGEST_MANAGED_BY = 63
_HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"


def validate_job(job: Job, *, prefixed_labels: bool = True) -> Causes:
    """Check a new Job.

    Args:
        prefixed_labels: Whether the template must have the labels with a domain as well.
    """
    causes = validate_meta(job.metadata)
    causes += _validate_generated_selector(job, prefixed_labels)
    causes += _validate_spec_with_selector(job.spec)
    if job.spec.completion_mode == INDEXED and (job.spec.completions or 0) > 0:
        name = job.metadata.name
        longest = f"{name}-{(job.spec.completions or 0) - 1}"
        if is_dns1123_label(longest):
            detail = f"will not able to create pod with invalid DNS label: {longest}"
            causes.append(invalid("metadata.name", name, detail))
    return causes


def validate_job_update(new: Job, old: Job) -> Causes:
    """Check an update; of the template only little may change, and only while suspended."""
    labels = old.spec.template.metadata.labels
    causes = validate_job(new, prefixed_labels=JOB_NAME in labels and CONTROLLER_UID in labels)
    causes += validate_meta_update(new.metadata, old.metadata)
    causes += _validate_spec_with_selector(new.spec)
    causes += _validate_completions_update(new.spec, old.spec)
    causes += immutable(new.spec.selector, old.spec.selector, "spec.selector")
    causes += _validate_template_update(new, old)
    for name, path, kind in (
        ("completion_mode", "completionMode", ""),
        ("pod_failure_policy", "podFailurePolicy", "PodFailurePolicy"),
        ("backoff_limit_per_index", "backoffLimitPerIndex", ""),
        ("managed_by", "managedBy", ""),
        ("success_policy", "successPolicy", "SuccessPolicy"),
    ):
        now = getattr(new.spec, name)
        if now != getattr(old.spec, name):
            shown = show_internal(now, kind) if kind and now is not None else now
            causes.append(invalid(f"spec.{path}", shown, IMMUTABLE))
    return causes


# ---- selector and labels


def _validate_generated_selector(job: Job, prefixed: bool) -> Causes:
    spec, meta = job.spec, job.metadata
    if spec.manual_selector or spec.selector is None:
        return []
    causes: Causes = [] if meta.uid else [required("metadata.uid")]
    expected = {LEGACY_CONTROLLER_UID: meta.uid, LEGACY_JOB_NAME: meta.name}
    if prefixed:
        expected |= {CONTROLLER_UID: meta.uid, JOB_NAME: meta.name}
    for key, value in expected.items():
        causes += _has_label(spec.template.metadata, key, value)
    try:
        if not label_selector_as_selector(spec.selector).matches(expected):
            detail = "`selector` not auto-generated"
            causes.append(invalid("spec.selector", spec.selector, detail))
    except SelectorError:
        pass  # told by the check of the selector itself
    return causes


def _has_label(meta: ObjectMeta, key: str, value: str) -> Causes:
    path, detail = f"spec.template.metadata.labels[{key}]", f"must be '{value}'"
    if key not in meta.labels:
        return [required(path, detail)]
    return [] if meta.labels[key] == value else [invalid(path, meta.labels, detail)]


def _validate_spec_with_selector(spec: JobSpec) -> Causes:
    causes = _validate_spec(spec)
    if spec.selector is None:
        causes.append(required("spec.selector"))
    else:
        causes += validate_label_selector(spec.selector, "spec.selector")
    try:
        selected = label_selector_as_selector(spec.selector).matches(spec.template.metadata.labels)
    except SelectorError:
        return causes
    if not selected:
        labels = spec.template.metadata.labels or None
        detail = "`selector` does not match template `labels`"
        causes.append(invalid("spec.template.metadata.labels", labels, detail))
    return causes


# ---- spec


def _validate_spec(spec: JobSpec) -> Causes:
    """Check everything but the selector; a CronJob's template is checked so, too."""
    causes: Causes = []
    for value, name in (
        (spec.parallelism, "parallelism"),
        (spec.completions, "completions"),
        (spec.active_deadline_seconds, "activeDeadlineSeconds"),
        (spec.backoff_limit, "backoffLimit"),
        (spec.ttl_seconds_after_finished, "ttlSecondsAfterFinished"),
        (spec.backoff_limit_per_index, "backoffLimitPerIndex"),
        (spec.max_failed_indexes, "maxFailedIndexes"),
    ):
        causes += nonnegative(value, f"spec.{name}")
    if spec.max_failed_indexes is not None and spec.backoff_limit_per_index is None:
        detail = "when maxFailedIndexes is specified"
        causes.append(required("spec.backoffLimitPerIndex", detail))
    if spec.managed_by is not None:
        causes += _validate_managed_by(spec.managed_by)
    causes += _validate_completion_mode(spec)
    if spec.pod_failure_policy is not None:
        causes += validate_pod_failure_policy(spec, spec.pod_failure_policy)
    if spec.success_policy is not None:
        causes += validate_success_policy(spec, spec.success_policy)
    causes += validate_pod_replacement_policy(spec)
    causes += validate_pod_template(spec.template, "spec.template")
    return causes + _validate_restart_policy(spec)


def _validate_managed_by(name: str) -> Causes:
    path = "spec.managedBy"
    host, slash, rest = name.partition("/")
    if not name:
        causes: Causes = [required(path)]
    elif not (host and slash and rest):
        detail = 'must be a domain-prefixed path (such as "acme.io/foo")'
        causes = [invalid(path, name, detail)]
    else:
        causes = all_invalid(path, host, is_dns1123_subdomain(host))
        if not re.fullmatch(_HTTP_PATH, rest):
            causes.append(invalid(path, rest, regex_message("Invalid path", _HTTP_PATH)))
    if len(name.encode()) > LONGEST_MANAGED_BY:
        causes.append(too_long(path, LONGEST_MANAGED_BY))
    return causes


def _validate_completion_mode(spec: JobSpec) -> Causes:
    mode, causes = spec.completion_mode, list[Cause]()
    if mode not in (None, NON_INDEXED, INDEXED):
        causes.append(not_supported("spec.completionMode", mode, (NON_INDEXED, INDEXED)))
    if mode == INDEXED:
        causes += _validate_indexed(spec)
    elif mode in (None, NON_INDEXED):
        for value, name in (
            (spec.backoff_limit_per_index, "backoffLimitPerIndex"),
            (spec.max_failed_indexes, "maxFailedIndexes"),
        ):
            if value is not None:
                detail = "requires indexed completion mode"
                causes.append(invalid(f"spec.{name}", value, detail))
    return causes


def _at_most(value: int | None, limit: int, name: str, when: str = "") -> Causes:
    if value is None or value <= limit:
        return []
    return [invalid(f"spec.{name}", value, f"must be less than or equal to {limit}{when}")]


def _validate_indexed(spec: JobSpec) -> Causes:
    causes: Causes = []
    completions, failed = spec.completions, spec.max_failed_indexes
    if completions is None:
        causes.append(required("spec.completions", f"when completion mode is {INDEXED}"))
    when = f" when completion mode is {INDEXED}"
    causes += _at_most(spec.parallelism, MOST_PARALLEL, "parallelism", when)
    if completions is not None and failed is not None and failed > completions:
        detail = "must be less than or equal to completions"
        causes.append(invalid("spec.maxFailedIndexes", failed, detail))
    causes += _at_most(failed, MOST_FAILED_INDEXES, "maxFailedIndexes")
    if (completions or 0) > COMPLETIONS_SOFT_LIMIT and spec.backoff_limit_per_index is not None:
        if failed is None:
            detail = f"must be specified when completions is above {COMPLETIONS_SOFT_LIMIT}"
            causes.append(required("spec.maxFailedIndexes", detail))
        when = (
            f" when completions are above {COMPLETIONS_SOFT_LIMIT}"
            " and used with backoff limit per index"
        )
        causes += _at_most(spec.parallelism, LIMIT_FOR_HIGH_COMPLETIONS, "parallelism", when)
        causes += _at_most(failed, LIMIT_FOR_HIGH_COMPLETIONS, "maxFailedIndexes", when)
    return causes


def _validate_restart_policy(spec: JobSpec) -> Causes:
    path, policy = "spec.template.spec.restartPolicy", spec.template.spec.restart_policy
    if policy in ("", "Always"):
        return [required(path, 'valid values: "OnFailure", "Never"')]
    if policy not in ("OnFailure", "Never"):
        return [not_supported(path, policy, ("OnFailure", "Never"))]
    if spec.pod_failure_policy is not None and policy != "Never":
        detail = 'only "Never" is supported when podFailurePolicy is specified'
        return [invalid(path, policy, detail)]
    return []


# ---- updates


def _validate_completions_update(new: JobSpec, old: JobSpec) -> Causes:
    path, completions = "spec.completions", new.completions
    if new.completion_mode != INDEXED:
        return immutable(completions, old.completions, path)
    if completions in (old.completions, None) or completions == new.parallelism:
        return []
    detail = "can only be modified in tandem with spec.parallelism"
    return [invalid(path, completions, detail)]


def may_change_template(job: Job) -> bool:
    """Whether a Job is at rest: suspended, without active pods, and known to be so."""
    status = job.status
    known = status.start_time is None or is_condition_true(job, "Suspended")
    return bool(job.spec.suspend) and known and status.active == 0


def _validate_template_update(new: Job, old: Job) -> Causes:
    template, before = new.spec.template, old.spec.template
    if not may_change_template(old):
        if template == before:
            return []
        return [invalid("spec.template", show_template(template), IMMUTABLE)]
    spec = _with_resources(_with_directives(before.spec, template.spec), template.spec)
    if spec == template.spec:
        return []
    shown = show_internal(template.spec, "PodSpec")
    return [invalid("spec.template.spec", shown, IMMUTABLE)]


def _with_directives(old: PodSpec, new: PodSpec) -> PodSpec:
    """Return the old spec with what tells a scheduler where to put pods taken from the new."""
    return replace(
        old,
        affinity=_node_affinity_of(new.affinity, old.affinity),
        node_selector=new.node_selector,
        tolerations=new.tolerations,
        scheduling_gates=new.scheduling_gates,
    )


def _node_affinity_of(
    new: Mapping[str, Any] | None, old: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """Return the old affinity with the new one's node affinity."""
    rest = {k: v for k, v in (old or {}).items() if k != "nodeAffinity"}
    if new is None:
        return rest or None
    return rest | {k: v for k, v in new.items() if k == "nodeAffinity"}


def _with_resources(old: PodSpec, new: PodSpec) -> PodSpec:
    """Return the old spec with the resources of the new one's containers."""
    changes = {}
    for name in ("containers", "init_containers"):
        was, now = getattr(old, name), getattr(new, name)
        if len(was) == len(now):
            changes[name] = tuple(
                replace(a, resources=b.resources) if a.name == b.name else a
                for a, b in zip(was, now, strict=True)
            )
    return replace(old, **changes)
