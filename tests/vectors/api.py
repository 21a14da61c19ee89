"""Vectors of selectors, int-or-percent and names."""

from __future__ import annotations

from typing import Any

import msgspec

from kcm_lite.api.intstr import get_scaled_value_from_int_or_percent
from kcm_lite.api.meta import LabelSelector
from kcm_lite.api.names import safe_encode_string
from kcm_lite.api.selectors import (
    SelectorError,
    format_label_selector,
    label_selector_as_selector,
    parse_selector,
)


def as_selector(given: dict[str, Any]) -> dict[str, Any]:
    """A spec's selector: its text, its verdicts."""
    spec = msgspec.convert(given["selector"], LabelSelector | None)
    try:
        selector = label_selector_as_selector(spec)
    except SelectorError as error:
        return {"error": str(error)}
    return {
        "string": str(selector),
        "empty": selector.empty,
        "format": format_label_selector(spec),
        "matches": [selector.matches(labels) for labels in given["label_sets"]],
    }


def parse(given: dict[str, Any]) -> dict[str, Any]:
    """A request's selector: its text again, its verdicts."""
    try:
        selector = parse_selector(given["selector"])
    except SelectorError as error:
        return {"error": str(error)}
    return {
        "string": str(selector),
        "empty": selector.empty,
        "matches": [selector.matches(labels) for labels in given["label_sets"]],
    }


def scaled_value(given: dict[str, Any]) -> dict[str, Any]:
    """A number, or a percentage of a total."""
    try:
        value = get_scaled_value_from_int_or_percent(
            given["int_or_percent"], given["total"], given["round_up"]
        )
    except ValueError as error:
        return {"error": str(error)}
    return {"value": value}


ADAPTERS = {
    "label_selector_as_selector": as_selector,
    "label_selector_parse": parse,
    "get_scaled_value_from_int_or_percent": scaled_value,
    "safe_encode_string": lambda given: {"out": safe_encode_string(given["s"])},
}
