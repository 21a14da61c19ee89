"""Objects from and to their wire form: the dicts that JSON and YAML files hold.

Reading is strict about types and names the path of what does not fit. The decoder and encoder of
a type are built once, from its fields. See: k8s.io/apimachinery ``pkg/runtime/serializer/json``.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeVar, Union, overload

import msgspec

from kcm_lite.api.carried import CARRIED
from kcm_lite.api.errors import BadRequest
from kcm_lite.api.golang import quote
from kcm_lite.api.meta import MICROSECONDS, QUANTITY, Object, OpenStruct
from kcm_lite.api.quantity import parse_quantity
from kcm_lite.api.scheme import BY_KIND

T = TypeVar("T", bound=msgspec.Struct)
O = TypeVar("O", bound=Object)  # noqa: E741 - an object

Decoder = Callable[[Any], Any]

_TIMESTAMP = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE
)


class DecodeError(BadRequest):
    """A value that does not fit its field.

    Attributes:
        path: Where, such as ``spec.template.spec.containers[0].name``.
        owner: The type that has the field.
        expected: What belongs there, in Go's words (``int32``).
        value: What was found.
        choices: The names that are allowed where an unknown one is.
    """

    def __init__(
        self,
        problem: str,
        *,
        expected: str = "",
        value: Any = None,
        keys: tuple[str, ...] = (),
        choices: Iterable[str] = (),
    ) -> None:
        self.path = "".join(keys).lstrip(".")
        self.owner = ""
        self.expected = expected
        self.value = value
        self.choices = choices
        self.problem = problem
        super().__init__(self._text())

    def _text(self) -> str:
        return f"{self.path}: {self.problem}" if self.path else self.problem

    def inside(self, key: str, owner: str = "") -> DecodeError:
        """Return the error as seen one level further out."""
        self.path = f"{key}.{self.path}" if self.path and self.path[0] != "[" else key + self.path
        self.owner = self.owner or owner
        self.message = self._text()
        self.args = (self.message,)
        return self


def _mismatch(expected: str, value: Any, go_type: str = "") -> DecodeError:
    got = "map" if isinstance(value, Mapping) else type(value).__name__
    problem = f"expected {expected}, got {'null' if value is None else got}"
    return DecodeError(problem, expected=go_type or expected, value=value)


# --- reading ------------------------------------------------------------------------------------


@overload
def decode(raw: Any, kind: type[O], *, strict: bool = False) -> O: ...
@overload
def decode(raw: Any, kind: None = None, *, strict: bool = False) -> Object: ...
def decode(raw: Any, kind: type[Object] | None = None, *, strict: bool = False) -> Object:
    """Build an object from its wire form.

    Unknown fields are dropped, as the API server does, except where a type carries what it does
    not name (`OpenStruct`).

    Args:
        raw: A mapping as JSON or YAML gives it.
        kind: The type to build; by default ``apiVersion`` and ``kind`` say which.
        strict: Refuse fields that Kubernetes does not have, as ``kubectl apply`` does.

    Raises:
        BadRequest: No such kind, or a value that does not fit; the message names the path.
    """
    if not isinstance(raw, Mapping):
        raise _mismatch("map", raw)
    version, name = raw.get("apiVersion"), raw.get("kind")
    for field, text in (("apiVersion", version), ("kind", name)):
        if not isinstance(text, str | None):
            raise _mismatch("str", text, "string").inside(field)
    if kind is None:
        if not name or not version:
            missing = "kind" if not name else "apiVersion"
            raise BadRequest(f"{missing}: missing; it says what the object is")
        resource = BY_KIND.get((version, name))
        if resource is None:
            raise BadRequest(f"no matches for kind {quote(name)} in version {quote(version)}")
        kind = resource.type
    elif (version or kind.API_VERSION, name or kind.KIND) != (kind.API_VERSION, kind.KIND):
        expected = f"{kind.KIND} of {kind.API_VERSION}"
        raise BadRequest(f"expected {expected}, got {name or kind.KIND} of {version}")
    result: Object = _struct_decoder(kind, strict)(raw)
    return result


def convert(raw: Any, kind: type[T]) -> T:
    """Build a part of an object, such as a `LabelSelector`, from its wire form.

    Raises:
        DecodeError: A value does not fit.
    """
    result: T = _struct_decoder(kind, False)(raw)
    return result


@cache
def _struct_decoder(cls: type[msgspec.Struct], strict: bool) -> Decoder:
    is_open = issubclass(cls, OpenStruct)
    allowed = CARRIED.get(cls, frozenset())
    if issubclass(cls, Object):
        allowed |= {"apiVersion", "kind"}
    plan: dict[str, tuple[str, Decoder]] = {}
    for field in msgspec.structs.fields(cls):
        if field.name != "extra" or not is_open:
            plan[field.encode_name] = (field.name, _decoder(field.type, strict))
    empty = cls()

    def decode_struct(raw: Any) -> Any:
        if raw is None:
            return empty
        if not isinstance(raw, Mapping):
            raise _mismatch("map", raw, cls.__name__)
        values: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        for key, value in raw.items():
            known = plan.get(key)
            if known is not None:
                if value is not None:  # null is the same as not given
                    try:
                        values[known[0]] = known[1](value)
                    except DecodeError as error:
                        raise error.inside(key, cls.__name__) from None
            elif not isinstance(key, str):
                raise _mismatch("str as a name", key)
            elif strict and key not in allowed:
                names = (*plan, *allowed)
                raise DecodeError("unknown field", choices=names).inside(key, cls.__name__)
            elif is_open and value is not None:
                extra[key] = value
        if extra:
            values["extra"] = extra
        return cls(**values) if values else empty

    return decode_struct


def _decoder(annotation: Any, strict: bool) -> Decoder:
    """Return the function that reads a value of this type."""
    marks: tuple[Any, ...] = ()
    if typing.get_origin(annotation) is typing.Annotated:
        annotation, *rest = typing.get_args(annotation)
        marks = tuple(rest)
    if QUANTITY in marks:
        return _decode_quantity
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (Union, types.UnionType):
        options = [a for a in args if a is not type(None)]
        if len(options) == 1:
            return _decoder(options[0], strict)
        return _scalar_decoder(tuple(options))
    if origin is tuple:
        return _list_decoder(_decoder(args[0], strict), args[0])
    if origin is not None and issubclass(origin, Mapping):
        return _map_decoder(_decoder(args[1], strict), args[1])
    if annotation is Any:
        return lambda raw: raw
    if annotation is datetime:
        return _parse_time if MICROSECONDS in marks else _decode_time
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return lambda raw: _struct_decoder(annotation, strict)(raw)  # late: types may be recursive
    if annotation is int:
        return _int_decoder(32 if marks else 64)
    return _scalar_decoder((annotation,))


def _scalar_decoder(options: tuple[type, ...]) -> Decoder:
    expected = " or ".join(option.__name__ for option in options)
    go_type = {"str": "string"}.get(expected, expected)
    only = options[0] if len(options) == 1 else None

    def decode_scalar(raw: Any) -> Any:
        if type(raw) is only or type(raw) in options:
            return raw
        raise _mismatch(expected, raw, go_type)

    return decode_scalar


def _int_decoder(bits: int) -> Decoder:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1

    def decode_int(raw: Any) -> int:
        if type(raw) is float and raw.is_integer():
            raw = int(raw)
        if type(raw) is not int:
            raise _mismatch("int", raw, f"int{bits}")
        if not low <= raw <= high:
            problem = f"expected a number between {low} and {high}, got {raw}"
            raise DecodeError(problem, expected=f"int{bits}", value=raw)
        return raw

    return decode_int


def _decode_quantity(raw: Any) -> str:
    if type(raw) not in (str, int, float):
        raise _mismatch("quantity", raw)
    try:
        return str(parse_quantity(raw))
    except ValueError as error:
        raise DecodeError(str(error), expected="quantity", value=raw) from None


def _parse_time(raw: Any) -> datetime:
    if not isinstance(raw, str):
        raise _mismatch("timestamp", raw, "Time")
    try:
        if not _TIMESTAMP.fullmatch(raw):
            raise ValueError(raw)
        return datetime.fromisoformat(raw.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        problem = f"expected a timestamp such as 2026-01-01T00:00:00Z, got {quote(raw)}"
        raise DecodeError(problem, expected="Time", value=raw) from None


def _decode_time(raw: Any) -> datetime:
    return _parse_time(raw).replace(microsecond=0)


def _zero(annotation: Any) -> Any:
    """Return what null stands for inside a list or a map."""
    if typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    return annotation() if annotation in (str, int, bool, float) else None


def _list_decoder(item: Decoder, annotation: Any) -> Decoder:
    zero = _zero(annotation)

    def decode_list(raw: Any) -> tuple[Any, ...]:
        if not isinstance(raw, list | tuple):
            raise _mismatch("list", raw, "[]")
        out = []
        for i, value in enumerate(raw):
            try:
                out.append(zero if value is None and zero is not None else item(value))
            except DecodeError as error:
                raise error.inside(f"[{i}]") from None
        return tuple(out)

    return decode_list


def _map_decoder(item: Decoder, annotation: Any) -> Decoder:
    zero = _zero(annotation)

    def decode_map(raw: Any) -> dict[str, Any]:
        if not isinstance(raw, Mapping):
            raise _mismatch("map", raw, "map")
        out = {}
        for key, value in raw.items():
            if not isinstance(key, str):
                raise _mismatch("str as a name", key).inside(f"[{key}]")
            try:
                out[key] = zero if value is None and zero is not None else item(value)
            except DecodeError as error:
                raise error.inside(f"[{key}]") from None
        return out

    return decode_map


# --- writing ------------------------------------------------------------------------------------


def encode(obj: Object) -> dict[str, Any]:
    """Return an object's wire form: ``apiVersion`` and ``kind`` first, defaults left out.

    A field whose zero the API always writes (a ReplicaSet status's ``replicas``) is kept. The
    result shares nothing with the object.
    """
    head = {"apiVersion": obj.API_VERSION, "kind": obj.KIND}
    return head | _encode_struct(obj)


def to_wire(value: Any) -> Any:
    """Return the wire form of any part of an object: structs, maps by key, lists, scalars."""
    if isinstance(value, msgspec.Struct):
        return _encode_struct(value)
    if isinstance(value, Mapping):
        return {key: to_wire(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [to_wire(item) for item in value]
    if isinstance(value, datetime):
        return format_time(value)
    return value


def format_time(time: datetime) -> str:
    """Return a UTC time as the API writes it: ``2026-01-01T00:00:00Z``."""
    return time.isoformat()[:19] + "Z"


def format_micro_time(time: datetime) -> str:
    """Return a UTC time with microseconds: ``2026-01-01T00:00:00.000000Z``."""
    return f"{time.isoformat()[:19]}.{time.microsecond:06d}Z"


@cache
def _encode_plan(cls: type[msgspec.Struct]) -> tuple[tuple[str, str, Any, bool, bool], ...]:
    """Return (attribute, wire name, default, always written, microseconds) of each field."""
    kept: tuple[str, ...] = getattr(cls, "KEPT", ())
    plan = []
    for field in msgspec.structs.fields(cls):
        if field.name == "extra" and issubclass(cls, OpenStruct):
            continue
        default = field.default
        if default is msgspec.NODEFAULT and field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        micro = repr(MICROSECONDS) in repr(field.type)
        plan.append((field.name, field.encode_name, default, field.name in kept, micro))
    return tuple(plan)


def _encode_struct(struct: msgspec.Struct) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, wire, default, kept, micro in _encode_plan(type(struct)):
        value = getattr(struct, name)
        kind = type(value)
        if kind is str or kind is int or kind is bool or value is None:
            if kept or value != default:
                out[wire] = value
        elif kept or value != default:
            out[wire] = format_micro_time(value) if micro else to_wire(value)
    if isinstance(struct, OpenStruct):
        for name, value in struct.extra.items():
            out[name] = to_wire(value)
    return out
