"""The policies of Jobs, and the indexes that they name.

See: kubernetes ``pkg/apis/batch/validation``.
"""

from __future__ import annotations

from collections.abc import Sized
from functools import partial

from kcm_lite.api.batch import (
    INDEXED,
    JobSpec,
    OnExitCodes,
    OnPodCondition,
    PodFailurePolicy,
    PodFailurePolicyRule,
    SuccessPolicy,
    SuccessPolicyRule,
)
from kcm_lite.api.golang import parse_int, quote
from kcm_lite.api.validation.content import is_qualified_name
from kcm_lite.api.validation.field import (
    Causes,
    duplicate,
    each,
    invalid,
    not_supported,
    omitted,
    one_of,
    required,
    too_long,
    too_many,
)
from kcm_lite.api.validation.meta import all_invalid, nonnegative
from kcm_lite.api.validation.podspecdiff import show_internal

ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
OPERATORS = ("In", "NotIn")
CONDITION_STATUSES = ("False", "True", "Unknown")
REPLACEMENT_POLICIES = ("Failed", "TerminatingOrFailed")
MOST_RULES = MOST_PATTERNS = 20
MOST_EXIT_CODES = 255
LONGEST_INDEXES = 64 * 1024


def _one_of(value: str, allowed: tuple[str, ...], path: str) -> Causes:
    """Check a value that must be there; the message for a missing one lists what can be."""
    return one_of(value, allowed, path, f"valid values: [{' '.join(map(quote, allowed))}]")


def _at_most(items: Sized, limit: int, path: str) -> Causes:
    return [too_many(path, len(items), limit)] if len(items) > limit else []


def validate_pod_failure_policy(spec: JobSpec, policy: PodFailurePolicy) -> Causes:
    """Check what is to become of failed pods."""
    path = "spec.podFailurePolicy.rules"
    causes = _at_most(policy.rules, MOST_RULES, path)
    return causes + each(policy.rules, partial(_validate_rule, spec), path)


def _validate_rule(spec: JobSpec, rule: PodFailurePolicyRule, path: str) -> Causes:
    causes: Causes = []
    if rule.action != "FailIndex":
        causes += _one_of(rule.action, ACTIONS, f"{path}.action")
    elif spec.backoff_limit_per_index is None:
        detail = "requires the backoffLimitPerIndex to be set"
        causes.append(invalid(f"{path}.action", rule.action, detail))
    codes, conditions = rule.on_exit_codes, rule.on_pod_conditions
    if codes is not None:
        causes += _validate_exit_codes(spec, codes, f"{path}.onExitCodes")
    if conditions:
        causes += _validate_conditions(conditions, f"{path}.onPodConditions")
    if codes is not None and conditions:
        detail = "specifying both OnExitCodes and OnPodConditions is not supported"
        causes.append(omitted(path, detail))
    if codes is None and not conditions:
        detail = "specifying one of OnExitCodes and OnPodConditions is required"
        causes.append(omitted(path, detail))
    return causes


def _validate_conditions(patterns: tuple[OnPodCondition, ...], path: str) -> Causes:
    causes = _at_most(patterns, MOST_PATTERNS, path)
    for i, pattern in enumerate(patterns):
        name = pattern.type
        causes += all_invalid(f"{path}[{i}].type", name, is_qualified_name(name))
        causes += _one_of(pattern.status, CONDITION_STATUSES, f"{path}[{i}].status")
    return causes


def _validate_exit_codes(spec: JobSpec, codes: OnExitCodes, path: str) -> Causes:
    causes = _one_of(codes.operator, OPERATORS, f"{path}.operator")
    pod = spec.template.spec
    names = {container.name for container in (*pod.containers, *pod.init_containers)}
    if codes.container_name is not None and codes.container_name not in names:
        detail = "must be one of the container or initContainer names in the pod template"
        causes.append(invalid(f"{path}.containerName", codes.container_name, detail))
    path, values = f"{path}.values", codes.values
    if not values:
        causes.append(invalid(path, values, "at least one value is required"))
    causes += _at_most(values, MOST_EXIT_CODES, path)
    for i, value in enumerate(values):
        if codes.operator == "In" and value == 0:
            causes.append(invalid(f"{path}[{i}]", value, "must not be 0 for the In operator"))
        if value in values[:i]:
            causes.append(duplicate(f"{path}[{i}]", value))
    if list(values) != sorted(values):
        causes.append(invalid(path, values, "must be ordered"))
    return causes


def validate_pod_replacement_policy(spec: JobSpec) -> Causes:
    """Check when a pod on its way out is replaced; with a failure policy only Failed will do."""
    policy, path = spec.pod_replacement_policy, "spec.podReplacementPolicy"
    allowed = REPLACEMENT_POLICIES if spec.pod_failure_policy is None else ("Failed",)
    if policy is None or policy in allowed:
        return []
    return [not_supported(path, policy, allowed)]


def validate_success_policy(spec: JobSpec, policy: SuccessPolicy) -> Causes:
    """Check what is enough of a success; only Indexed Jobs can say that."""
    path = "spec.successPolicy"
    if spec.completion_mode != INDEXED:
        shown = show_internal(policy, "SuccessPolicy")
        return [invalid(path, shown, "requires indexed completion mode")]
    path = f"{path}.rules"
    causes: Causes = []
    if not policy.rules:
        detail = "at least one rules must be specified when the successPolicy is specified"
        causes.append(required(path, detail))
    causes += _at_most(policy.rules, MOST_RULES, path)
    return causes + each(policy.rules, partial(_validate_success_rule, spec), path)


def _validate_success_rule(spec: JobSpec, rule: SuccessPolicyRule, path: str) -> Causes:
    causes: Causes = []
    count, indexes, completions = rule.succeeded_count, rule.succeeded_indexes, spec.completions
    if count is None and indexes is None:
        detail = "at least one of succeededCount or succeededIndexes must be specified"
        causes.append(required(path, detail))
    total = 0
    if indexes is not None:
        if len(indexes.encode()) > LONGEST_INDEXES:
            causes.append(too_long(f"{path}.succeededIndexes", LONGEST_INDEXES))
        try:
            total = check_indexes(indexes, completions or 0)
        except ValueError as error:
            detail = f"error parsing succeededIndexes: {error}"
            causes.append(invalid(f"{path}.succeededIndexes", indexes, detail))
    if count is not None:
        path = f"{path}.succeededCount"
        causes += nonnegative(count, path)
        for limit, what in (
            (completions or 0, "the number of specified completions"),
            (total, "the number of indexes in the specified succeededIndexes field"),
        ):
            if count > limit and (indexes is not None or what.endswith("completions")):
                detail = f"must be less than or equal to {limit} ({what})"
                causes.append(invalid(path, count, detail))
    return causes


def check_indexes(text: str, completions: int) -> int:
    """Return how many indexes a text such as ``1,3-5`` names.

    Raises:
        ValueError: It is not in order, not numbers, or an index is too large.
    """
    total, last = 0, -(2**31)
    for part in text.split(",") if text else ():
        first, end = index_interval(part, completions)
        if last >= first:
            raise ValueError(f"non-increasing order, previous: {last}, current: {first}")
        total, last = total + end - first + 1, end
    return total


def index_interval(text: str, completions: int) -> tuple[int, int]:
    """Return the ends of ``3-5``, or ``3`` twice.

    Raises:
        ValueError: See `check_indexes`.
    """
    parts = text.split("-")
    if len(parts) > 2:
        raise ValueError(
            f"the fragment {quote(text)} violates the requirement that an index interval can have"
            " at most two parts separated by '-'"
        )
    ends = []
    for part in parts:
        try:
            ends.append(parse_int(part))
        except ValueError:
            raise ValueError(f"cannot convert string to integer for index: {quote(part)}") from None
        if ends[-1] >= completions:
            raise ValueError(f"too large index: {quote(part)}")
    if len(ends) == 2 and ends[0] >= ends[1]:
        raise ValueError(f"non-increasing order, previous: {ends[0]}, current: {ends[1]}")
    return ends[0], ends[-1]


def overlap_of(completed: str, failed: str, completions: int) -> int | None:
    """Return the first index that both texts name; intervals that cannot be read are skipped."""

    def intervals(text: str) -> list[tuple[int, int]]:
        found = []
        for part in text.split(","):
            try:
                found.append(index_interval(part, completions))
            except ValueError:
                continue
        return found

    done, bad = intervals(completed), intervals(failed)
    i = j = 0
    while i < len(done) and j < len(bad):
        if done[i][0] <= bad[j][1] and bad[j][0] <= done[i][1]:
            return max(done[i][0], bad[j][0])
        if done[i][0] <= bad[j][0]:
            i += 1
        else:
            j += 1
    return None
