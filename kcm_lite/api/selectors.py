"""Label selectors: which objects are meant.

A label selector comes as an object (`LabelSelector`, in specs) or as text (``app in (a,b),!gone``,
in requests); both become a `Selector`, whose ``matches`` is built once to be fast.
See: k8s.io/apimachinery ``pkg/labels`` and ``apis/meta/v1`` (helpers).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from kcm_lite.api.golang import parse_int, quote
from kcm_lite.api.memo import by_identity
from kcm_lite.api.meta import LabelSelector, Struct
from kcm_lite.api.validation.content import is_label_value, is_qualified_name
from kcm_lite.api.validation.field import Causes, aggregate, invalid

Labels = Mapping[str, str]

IN, NOT_IN, EXISTS, DOES_NOT_EXIST = "in", "notin", "exists", "!"
EQUALS, DOUBLE_EQUALS, NOT_EQUALS, GREATER_THAN, LESS_THAN = "=", "==", "!=", "gt", "lt"

_OPERATORS = {"In": IN, "NotIn": NOT_IN, "Exists": EXISTS, "DoesNotExist": DOES_NOT_EXIST}
_SIGNS = {
    EQUALS: "=",
    DOUBLE_EQUALS: "==",
    NOT_EQUALS: "!=",
    GREATER_THAN: ">",
    LESS_THAN: "<",
    IN: " in ",
    NOT_IN: " notin ",
}


class SelectorError(ValueError):
    """A selector that cannot be read; the text is upstream's."""


class Requirement(Struct, frozen=True, kw_only=True):
    """One condition on one label."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the condition as text that `parse_selector` reads again."""
        if self.operator == EXISTS:
            return self.key
        if self.operator == DOES_NOT_EXIST:
            return "!" + self.key
        values = ",".join(sorted(self.values))
        sign = _SIGNS[self.operator]
        return f"{self.key}{sign}({values})" if sign[0] == " " else f"{self.key}{sign}{values}"


class Selector:
    """A conjunction of requirements on labels.

    Attributes:
        requirements: Sorted by key; None for the selector that matches nothing.
        matches: Whether a set of labels satisfies all of them.
    """

    __slots__ = ("matches", "requirements")

    def __init__(self, requirements: tuple[Requirement, ...] | None) -> None:
        self.requirements = requirements
        self.matches: Callable[[Labels], bool] = _matcher(requirements)

    @property
    def empty(self) -> bool:
        """Whether the selector restricts nothing."""
        return self.requirements == ()

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements or ()))

    def __repr__(self) -> str:
        return f"Selector({'nothing' if self.requirements is None else str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selector) and self.requirements == other.requirements

    def __hash__(self) -> int:
        return hash(str(self))


def _matcher(requirements: tuple[Requirement, ...] | None) -> Callable[[Labels], bool]:
    """Build the function that a selector matches with; exact matches get a short one."""
    if requirements is None:
        return lambda labels: False
    if not requirements:
        return lambda labels: True
    if all(r.operator in (EQUALS, DOUBLE_EQUALS, IN) and len(r.values) == 1 for r in requirements):
        pairs = tuple((r.key, r.values[0]) for r in requirements)
        if len(pairs) == 1:
            ((key, value),) = pairs
            return lambda labels: labels.get(key) == value

        def match_pairs(labels: Labels) -> bool:
            for key, value in pairs:  # noqa: SIM110 - twice as fast as all() over a generator
                if labels.get(key) != value:
                    return False
            return True

        return match_pairs
    tests = tuple(_test(r) for r in requirements)
    return lambda labels: all(test(labels) for test in tests)


def _test(requirement: Requirement) -> Callable[[Labels], bool]:
    key, operator, values = requirement.key, requirement.operator, frozenset(requirement.values)
    if operator in (EQUALS, DOUBLE_EQUALS, IN):
        return lambda labels: labels.get(key) in values
    if operator in (NOT_EQUALS, NOT_IN):
        return lambda labels: labels.get(key) not in values
    if operator == EXISTS:
        return lambda labels: key in labels
    if operator == DOES_NOT_EXIST:
        return lambda labels: key not in labels
    bound = parse_int(requirement.values[0])

    def compare(labels: Labels) -> bool:
        try:
            number = parse_int(labels[key])
        except (KeyError, ValueError):  # a label that is no number matches neither way
            return False
        return number > bound if operator == GREATER_THAN else number < bound

    return compare


NOTHING = Selector(None)


def new_requirement(key: str, operator: str, values: Iterable[str] = ()) -> Requirement:
    """Return a checked requirement.

    Raises:
        SelectorError: Key, values or their number do not fit; every cause is named.
    """
    values = tuple(values)
    causes: Causes = []
    if errs := is_qualified_name(key):
        causes.append(invalid("key", key, "; ".join(errs)))
    if operator in (IN, NOT_IN):
        if not values:
            detail = "for 'in', 'notin' operators, values set can't be empty"
            causes.append(invalid("values", None, detail))
    elif operator in (EXISTS, DOES_NOT_EXIST):
        if values:
            detail = "values set must be empty for exists and does not exist"
            causes.append(invalid("values", values, detail))
    elif operator in (GREATER_THAN, LESS_THAN):
        for i, value in enumerate(values):
            try:
                parse_int(value)
            except ValueError:
                detail = "for 'Gt', 'Lt' operators, the value must be an integer"
                causes.append(invalid(f"values[{i}]", value, detail))
    for i, value in enumerate(values):
        if errs := is_label_value(value):
            causes.append(invalid(f"values[{i}][{key}]", value, "; ".join(errs)))
    if causes:
        raise SelectorError(aggregate(causes))
    return Requirement(key=key, operator=operator, values=values)


def _selector(requirements: list[Requirement]) -> Selector:
    return Selector(tuple(sorted(requirements, key=lambda r: r.key)))


@by_identity
def label_selector_as_selector(selector: LabelSelector | None) -> Selector:
    """Return the matcher of a spec's selector: None matches nothing, an empty one everything.

    Specs are shared, so the result is remembered for the object itself.

    Raises:
        SelectorError: It has an unknown operator, or keys or values that are no labels.
    """
    if selector is None:
        return NOTHING
    requirements = [
        new_requirement(key, EQUALS, (value,))
        for key, value in sorted(selector.match_labels.items())
    ]
    for expression in selector.match_expressions:
        operator = _OPERATORS.get(expression.operator)
        if operator is None:
            name = quote(expression.operator)
            raise SelectorError(f"{name} is not a valid label selector operator")
        requirements.append(new_requirement(expression.key, operator, expression.values))
    return _selector(requirements)


def selector_from_set(labels: Labels) -> Selector:
    """Return the selector for exactly these labels, unchecked; none at all match everything."""
    return _selector(
        [Requirement(key=key, operator=EQUALS, values=(value,)) for key, value in labels.items()]
    )


def format_label_selector(selector: LabelSelector | None) -> str:
    """Return a spec's selector as text; ``<none>`` if there is nothing to say."""
    try:
        return str(label_selector_as_selector(selector)) or "<none>"
    except SelectorError:
        return "<error>"


# --- text ---------------------------------------------------------------------------------------

_TOKEN = re.compile(r"==|!=|[=!(),<>]|[^=!(),<> \t\r\n]+")
_SYMBOLS = {"==", "!=", "=", "!", "(", ")", ",", "<", ">", ""}
_BINARY = {
    "in": IN,
    "notin": NOT_IN,
    "=": EQUALS,
    "==": DOUBLE_EQUALS,
    "!=": NOT_EQUALS,
    ">": GREATER_THAN,
    "<": LESS_THAN,
}


class _Parser:
    """A cursor over the tokens; the end is the empty token, which no text can contain."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = [*_TOKEN.findall(text), ""]
        self.position = 0

    @property
    def next(self) -> str:
        return self.tokens[min(self.position, len(self.tokens) - 1)]

    def take(self) -> str:
        token = self.next
        self.position += 1
        return token


def parse_selector(text: str) -> Selector:
    """Read a label selector as requests carry it, such as ``app=web,tier in (a,b),!gone``.

    Raises:
        SelectorError: With upstream's text, which says what was found and what was expected.
    """
    parser = _Parser(text)
    requirements: list[Requirement] = []
    while parser.next:
        if parser.next in _SYMBOLS and parser.next != "!":
            raise SelectorError(
                f"found '{parser.next}', expected: !, identifier, or 'end of string'"
            )
        try:
            requirements.append(_parse_requirement(parser))
        except SelectorError as error:
            raise SelectorError(f"unable to parse requirement: {error}") from None
        token = parser.take()
        if token not in (",", ""):
            raise SelectorError(f"found '{token}', expected: ',' or 'end of string'")
        if token == "," and parser.next in _SYMBOLS and parser.next != "!":
            raise SelectorError(f"found '{parser.next}', expected: identifier after ','")
    return _selector(requirements)


def _parse_requirement(parser: _Parser) -> Requirement:
    negated = parser.next == "!"
    if negated:
        parser.take()
    key = parser.take()
    if key in _SYMBOLS:
        raise SelectorError(f"found '{key}', expected: identifier")
    if errs := is_qualified_name(key):
        raise SelectorError(f"<nil>: Invalid value: {quote(key)}: {'; '.join(errs)}")
    if negated:
        return new_requirement(key, DOES_NOT_EXIST)
    if parser.next in (",", ""):
        return new_requirement(key, EXISTS)
    token = parser.take()
    operator = _BINARY.get(token)
    if operator is None:
        expected = "in, notin, =, ==, !=, gt, lt"
        raise SelectorError(f"found '{token}', expected: {expected}")
    values = _parse_values(parser) if operator in (IN, NOT_IN) else {_parse_exact_value(parser)}
    return new_requirement(key, operator, sorted(values))


def _parse_exact_value(parser: _Parser) -> str:
    if parser.next in (",", ""):
        return ""
    token = parser.take()
    if token in _SYMBOLS:
        raise SelectorError(f"found '{token}', expected: identifier")
    return token


def _parse_values(parser: _Parser) -> set[str]:
    token = parser.take()
    if token != "(":
        raise SelectorError(f"found '{token}' expected: '('")
    first = parser.next
    if first == ")":
        parser.take()
        return {""}
    if first in _SYMBOLS and first != ",":
        raise SelectorError(f"found '{first}', expected: ',', ')' or identifier")
    values = _parse_identifiers(parser)
    parser.take()  # the closing parenthesis, which ends the list of identifiers
    return values


def _parse_identifiers(parser: _Parser) -> set[str]:
    """Read ``a,b`` up to the closing parenthesis; nothing between commas is the empty value."""
    values: set[str] = set()
    while True:
        token = parser.take()
        if token == ",":
            if not values or parser.next in (",", ")"):
                values.add("")
            if parser.next == ")":
                return values
        elif token in _SYMBOLS:
            raise SelectorError(f"found '{token}', expected: ',', or identifier")
        else:
            values.add(token)
            if parser.next == ")":
                return values
            if parser.next != ",":
                raise SelectorError(f"found '{parser.next}', expected: ',' or ')'")
