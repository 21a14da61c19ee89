"""The causes of an ``Invalid`` answer: a field path, a reason, and a message in upstream's words.

See: k8s.io/apimachinery ``pkg/util/validation/field``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from kcm_lite.api import golang
from kcm_lite.api.errors import Cause
from kcm_lite.api.golang import quote, to_json
from kcm_lite.api.serial import to_wire

T = TypeVar("T")

Causes = list[Cause]
"""What a validation function returns: everything that is wrong, in upstream's order."""


class Shown(str):
    """A bad value as a message shows it, worked out already."""


def show(value: Any) -> str:
    """Return a bad value as a message shows it: strings quoted, the rest as JSON."""
    if isinstance(value, Shown):
        return value
    if isinstance(value, str):
        return quote(value)
    return to_json(to_wire(value))


def _cause(path: str, reason: str, body: str, detail: str) -> Cause:
    message = f"{body}: {detail}" if detail else body
    return Cause(reason=reason, message=message, field=path)


def required(path: str, detail: str = "") -> Cause:
    """A value is missing."""
    return _cause(path, "FieldValueRequired", "Required value", detail)


def invalid(path: str, value: Any, detail: str = "") -> Cause:
    """A value is malformed or out of bounds."""
    return _cause(path, "FieldValueInvalid", f"Invalid value: {show(value)}", detail)


def duplicate(path: str, value: Any, detail: str = "") -> Cause:
    """A value that must be unique occurs twice."""
    return _cause(path, "FieldValueDuplicate", f"Duplicate value: {show(value)}", detail)


def not_supported(path: str, value: Any, supported: Iterable[str] = ()) -> Cause:
    """A value is not one of those allowed."""
    names = ", ".join(quote(name) for name in supported)
    detail = f"supported values: {names}" if names else ""
    return _cause(path, "FieldValueNotSupported", f"Unsupported value: {show(value)}", detail)


def one_of(value: str, allowed: tuple[str, ...], path: str, missing: str = "") -> Causes:
    """A value must be there, and one of those allowed; ``missing`` is said if there is none."""
    if not value:
        return [required(path, missing)]
    return [] if value in allowed else [not_supported(path, value, allowed)]


def each(items: Iterable[T], rule: Callable[[T, str], Causes], path: str) -> Causes:
    """What a rule says of every item of a list."""
    return [cause for i, item in enumerate(items) for cause in rule(item, f"{path}[{i}]")]


def forbidden(path: str, detail: str) -> Cause:
    """A well-formed value that is not allowed here."""
    return _cause(path, "FieldValueForbidden", "Forbidden", detail)


def omitted(path: str, detail: str) -> Cause:
    """A value that is wrong and is not shown."""
    return _cause(path, "FieldValueInvalid", "Invalid value", detail)


def too_many(path: str, count: int, limit: int) -> Cause:
    """A list has too many items."""
    detail = f"must have at most {limit} {'item' if limit == 1 else 'items'}"
    return _cause(path, "FieldValueTooMany", f"Too many: {count}", detail)


def too_long(path: str, limit: int) -> Cause:
    """A value has too many bytes; the message leaves it out."""
    unit = "byte" if limit == 1 else "bytes"
    return _cause(path, "FieldValueTooLong", "Too long", f"may not be more than {limit} {unit}")


def text_of(cause: Cause) -> str:
    """Return a cause in one line: ``spec.replicas: Invalid value: -1: ...``."""
    return f"{cause.field}: {cause.message}"


def aggregate(causes: Iterable[Cause]) -> str:
    """Return several causes as one text, repeated ones once, in brackets if more than one."""
    return golang.aggregate(map(text_of, causes))
