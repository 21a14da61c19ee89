"""Numbers or percentages, as rollout limits and disruption budgets have them.

See: kubernetes ``pkg/apis/apps/validation``.
"""

from __future__ import annotations

from kcm_lite.api.intstr import IntOrString
from kcm_lite.api.validation.content import is_valid_percent
from kcm_lite.api.validation.field import Causes, invalid
from kcm_lite.api.validation.meta import all_invalid, nonnegative


def validate_positive_int_or_percent(value: IntOrString, path: str) -> Causes:
    """A number that is not negative, or a percentage."""
    if isinstance(value, int):
        return nonnegative(value, path)
    return all_invalid(path, value, is_valid_percent(value))


def validate_not_more_than_100_percent(value: IntOrString, path: str) -> Causes:
    """A percentage must not be of more than everything; numbers may be as large as they like."""
    if isinstance(value, int) or is_valid_percent(value):
        return []
    digits = value[:-1].lstrip("0")
    too_much = len(digits) > 3 or int(digits or "0") > 100
    return [invalid(path, value, "must not be greater than 100%")] if too_much else []
