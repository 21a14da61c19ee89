"""Field selectors: objects by the value of a field, such as ``spec.nodeName=node-1``.

Which fields of a kind can be asked for is in the scheme. See: k8s.io/apimachinery ``pkg/fields``.
"""

from __future__ import annotations

import re

from kcm_lite.api.errors import BadRequest
from kcm_lite.api.golang import quote
from kcm_lite.api.meta import Object, Struct
from kcm_lite.api.scheme import resource_of
from kcm_lite.api.selectors import SelectorError


class FieldSelector(Struct, frozen=True, kw_only=True):
    """A conjunction of (field, whether equal, value)."""

    terms: tuple[tuple[str, bool, str], ...] = ()

    def matches(self, obj: Object) -> bool:
        """Return whether the object's fields satisfy every term."""
        return all((_field_value(obj, name) == value) is equal for name, equal, value in self.terms)

    def check(self, kind: type[Object]) -> None:
        """Refuse fields that this kind cannot be selected by.

        Raises:
            BadRequest: Naming the first such field.
        """
        resource = resource_of(kind)
        known = ("metadata.name", *(("metadata.namespace",) if resource.namespaced else ()))
        for name, _, _ in self.terms:
            if name in known or name in resource.fields:
                continue
            if resource.fields:
                raise BadRequest(f"field label not supported: {name}")
            only = '"metadata.name", "metadata.namespace"'
            raise BadRequest(f"{quote(name)} is not a known field selector: only {only}")

    def __str__(self) -> str:
        return ",".join(
            f"{name}{'=' if equal else '!='}" + re.sub(r"([\\,=])", r"\\\1", value)
            for name, equal, value in self.terms
        )


def _field_value(obj: Object, name: str) -> str:
    if name == "source":  # an event names its source twice
        name = (
            "reportingComponent"
            if not _field_value(obj, "source.component")
            else "source.component"
        )
    if name == "status.successful":
        name = "status.succeeded"
    value: object = obj
    for part in name.split("."):
        value = getattr(value, re.sub("(?<=[a-z])(?=[A-Z])", "_", part).lower(), "")
    return str(value).lower() if isinstance(value, bool) else str(value)


_FIELD_TERM = re.compile(r"(?:\\.|[^,\\])+|\\$", re.DOTALL)
_FIELD_PARTS = re.compile(r"(.*?)(!=|==|=)(.*)", re.DOTALL)


def parse_field_selector(text: str) -> FieldSelector:
    """Read a field selector, such as ``spec.nodeName=node-1,status.phase!=Failed``.

    Raises:
        SelectorError: A term has no operator, or its value a bad escape.
    """
    terms = []
    for part in sorted(_FIELD_TERM.findall(text)):
        match = _FIELD_PARTS.fullmatch(part)
        if match is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
        name, operator, raw = match.groups()
        terms.append((name, operator != "!=", _unescape(raw)))
    return FieldSelector(terms=tuple(terms))


def _unescape(raw: str) -> str:
    out, escaped = [], False
    for char in raw:
        if escaped and char not in "\\,=":
            raise SelectorError(f"invalid field selector: invalid escape sequence: \\{char}")
        if not escaped and char in ",=":
            raise SelectorError(
                f"invalid field selector: unescaped character in value: {ord(char)}"
            )
        escaped = not escaped and char == "\\"
        if not escaped:
            out.append(char)
    if escaped:
        raise SelectorError("invalid field selector: invalid escape sequence: \\")
    return "".join(out)
