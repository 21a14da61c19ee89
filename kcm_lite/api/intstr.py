"""Values that are a number or a percentage of one (``maxSurge: 25%``).

See: k8s.io/apimachinery ``pkg/util/intstr``.
"""

from __future__ import annotations

import math

from kcm_lite.api.golang import parse_int, quote

IntOrString = int | str
"""A plain number, or a text that should be a percentage."""


def get_scaled_value_from_int_or_percent(
    value: IntOrString | None, total: int, round_up: bool
) -> int:
    """Return the number itself, or the percentage of ``total``.

    Args:
        value: A number, or a text such as ``25%``.
        total: What the percentage is of.
        round_up: Round a fraction up instead of down.

    Raises:
        ValueError: No value, or a text that is not a percentage.
    """
    if value is None:
        raise ValueError("nil value for IntOrString")
    if isinstance(value, int):
        return value
    if not value.endswith("%"):
        raise ValueError("invalid value for IntOrString: invalid type: string is not a percentage")
    try:
        percent = parse_int(value[:-1], function="Atoi")
    except ValueError as error:
        raise ValueError(
            f"invalid value for IntOrString: invalid value {quote(value)}: {error}"
        ) from None
    exact = float(percent) * float(total) / 100
    return math.ceil(exact) if round_up else math.floor(exact)
