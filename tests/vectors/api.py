"""Vectors of selectors, int-or-percent, names, defaulting and validation."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from kcm_lite.api.carried import CARRIED
from kcm_lite.api.core import Container, PodSpec
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
    defaulted: Object = STRATEGIES[type(obj)].default(obj)
    return defaulted


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
    wire = {key: value for key, value in encode(obj).items() if value != {}}
    return {"object": modelled(wire)}


# What nothing here reads of a pod is carried as it is: neither defaulted nor checked.
CARRIED_AS_DATA = {
    PodSpec: {*CARRIED[PodSpec], "volumes", "affinity", "securityContext"},
    Container: CARRIED[Container],
}


def wire_names(kind: type[msgspec.Struct]) -> set[str]:
    """The fields of a type that are modelled."""
    names = {field.encode_name for field in msgspec.structs.fields(kind)}
    return names - CARRIED_AS_DATA[kind] - {"extra"}


POD_FIELDS, CONTAINER_FIELDS = wire_names(PodSpec), wire_names(Container)
INTERNALS = re.compile(
    rf"(^|\.)spec\.({'|'.join(sorted(CARRIED_AS_DATA[PodSpec]))})\b"
    rf"|(c|initC|ephemeralC)ontainers(\[\d+\])?\.({'|'.join(sorted(CARRIED[Container]))})\b"
)


def modelled(value: Any) -> Any:
    """A wire object without what is only carried in its pod specs."""
    if isinstance(value, list):
        return [modelled(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "containers" in value:
        value = {key: item for key, item in value.items() if key in POD_FIELDS}
        for name in ("containers", "initContainers"):
            if name in value:
                value[name] = [
                    {key: item for key, item in container.items() if key in CONTAINER_FIELDS}
                    for container in value[name]
                ]
        return value
    return {key: modelled(item) for key, item in value.items()}


def expected(out: dict[str, Any]) -> dict[str, Any]:
    """A recorded answer without the causes that lie in pod internals."""
    if "object" in out:
        return {"object": modelled(out["object"])}
    error = out["error"]
    causes = error.get("causes") or []
    if not causes:
        if INTERNALS.search(error["message"]):
            raise Skip("causes only in pod internals")
        return out
    kept = [cause for cause in causes if not INTERNALS.search(cause["field"])]
    if not kept:
        raise Skip("causes only in pod internals")
    if kept == causes:
        return out
    head = error["message"].split(" is invalid: ")[0]
    text = aggregate([msgspec.convert(cause, Cause) for cause in kept])
    return {"error": {**error, "causes": kept, "message": f"{head} is invalid: {text}"}}


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

EXPECTED = {"validate_create": expected, "validate_update": expected}
