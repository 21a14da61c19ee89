"""Vectors of selectors, int-or-percent, names, defaulting and validation."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from kcm_lite.api.errors import Cause
from kcm_lite.api.intstr import get_scaled_value_from_int_or_percent
from kcm_lite.api.meta import LabelSelector, Object, replace
from kcm_lite.api.names import safe_encode_string
from kcm_lite.api.scheme import BY_KIND
from kcm_lite.api.selectors import (
    SelectorError,
    format_label_selector,
    label_selector_as_selector,
    parse_selector,
)
from kcm_lite.api.serial import DecodeError, decode, encode
from kcm_lite.api.strategy import STRATEGIES
from kcm_lite.api.validation.field import aggregate
from tests.vectors import Skip


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


UID = "11111111-2222-3333-4444-555555555555"
NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
NAMESPACE_MISMATCH = (
    "the namespace of the provided object does not match the namespace sent on the request"
)


def read(raw: dict[str, Any]) -> Object:
    """Decode and default, as a request's body is before anything else."""
    if (raw["apiVersion"], raw["kind"]) not in BY_KIND:
        raise Skip("kind not in the scheme")
    obj = decode(raw)
    return STRATEGIES[type(obj)].default(obj)


def other(error: DecodeError) -> dict[str, Any]:
    """A decoding error in Go's words: its type names are ours."""
    kind = {str: "string", bool: "bool", list: "array", dict: "object"}.get(type(error.value))
    got = kind or f"number {error.value}" if kind or error.expected == "int32" else "number"
    path = re.sub(r"\[\d+\]", "", error.path)
    where = f"{error.owner}.{path}"
    text = f"json: cannot unmarshal {got} into Go struct field {where} of type {error.expected}"
    return {"error": {"message": f"decode: {text}", "reason": "Other"}}


def refused(obj: Object, causes: list[Cause]) -> dict[str, Any]:
    """The status error of an invalid object."""
    group = obj.API_VERSION.rpartition("/")[0]
    kind = f"{obj.KIND}.{group}" if group else obj.KIND
    return {
        "error": {
            "causes": [msgspec.to_builtins(cause) for cause in causes],
            "code": 422,
            "message": f'{kind} "{obj.metadata.name}" is invalid: {aggregate(causes)}',
            "reason": "Invalid",
        }
    }


def bad_request(message: str) -> dict[str, Any]:
    """A status error without causes."""
    return {"error": {"causes": [], "code": 400, "message": message, "reason": "BadRequest"}}


def accepted(obj: Object) -> dict[str, Any]:
    """The stored object; empty parts are left out of the vectors."""
    wire = encode(obj)
    return {"object": {key: value for key, value in wire.items() if value != {}}}


def validate_create(given: dict[str, Any]) -> dict[str, Any]:
    """A create in the namespace ns."""
    try:
        obj = read(given["manifest"])
    except DecodeError as error:
        return other(error)
    strategy = STRATEGIES[type(obj)]
    meta = obj.metadata
    if meta.namespace not in ("", "ns"):
        return bad_request(NAMESPACE_MISMATCH)
    meta = replace(meta, namespace="ns", uid=UID, creation_timestamp=NOW)
    obj = strategy.prepare_for_create(replace(obj, metadata=meta))
    causes = strategy.validate(obj)
    return refused(obj, causes) if causes else accepted(obj)


def validate_update(given: dict[str, Any]) -> dict[str, Any]:
    """An update of a stored object."""
    try:
        old, new = read(given["old"]), read(given["new"])
    except DecodeError as error:
        return other(error)
    strategy = STRATEGIES[type(new)]
    was = old.metadata
    if new.metadata.namespace not in ("", "ns"):
        return bad_request(NAMESPACE_MISMATCH)
    meta = replace(
        new.metadata,
        namespace="ns",
        uid=new.metadata.uid or was.uid,
        generation=was.generation,
        creation_timestamp=was.creation_timestamp,
    )
    new = strategy.prepare_for_update(replace(new, metadata=meta), old)
    causes = strategy.validate_update(new, old)
    return refused(new, causes) if causes else accepted(new)


ADAPTERS = {
    "validate_create": validate_create,
    "validate_update": validate_update,
    "label_selector_as_selector": as_selector,
    "label_selector_parse": parse,
    "get_scaled_value_from_int_or_percent": scaled_value,
    "safe_encode_string": lambda given: {"out": safe_encode_string(given["s"])},
}
