"""Quantities of resources: ``500m``, ``1Gi``, ``12e6``; exact, comparable, canonical as text.

See: k8s.io/apimachinery ``pkg/api/resource``. Precision is one billionth, rounded away from zero.
"""

from __future__ import annotations

import functools
import re
from fractions import Fraction

_FORM = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_BY_EXPONENT = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_BY_EXPONENT = {exponent: suffix for suffix, exponent in _BINARY.items()}
_NANO = 10**9
_BINARY_MAXIMUM = (1 << 63) - 1

_FORMAT_WRONG = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


@functools.total_ordering
class Quantity:
    """An amount of something, in billionths, with the kind of suffix that it is written in.

    Attributes:
        nanos: The exact amount times 10^9.
        style: ``decimal`` (1k), ``binary`` (1Ki) or ``exponent`` (1e3).
    """

    __slots__ = ("nanos", "style")

    def __init__(self, nanos: int, style: str = "decimal") -> None:
        self.nanos = nanos
        self.style = style

    def value(self) -> int:
        """Return the amount in whole units, rounded up."""
        return -(-self.nanos // _NANO)

    def milli_value(self) -> int:
        """Return the amount in thousandths, rounded up."""
        return -(-self.nanos // 10**6)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos + other.nanos, self.style if self.nanos else other.style)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos - other.nanos, self.style if self.nanos else other.style)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nanos == other.nanos

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __str__(self) -> str:
        """Return the canonical form: no fraction, the largest suffix that needs none."""
        if not self.nanos:
            return "0"
        units, rest = divmod(self.nanos, _NANO)
        if self.style == "binary" and not rest and abs(units) >= 1024:
            exponent = 0
            while units % 1024 == 0 and exponent < 60:
                units, exponent = units // 1024, exponent + 10
            return f"{units}{_BINARY_BY_EXPONENT.get(exponent, '')}"
        number, exponent = self.nanos, -9
        highest = 18 if self.style != "exponent" else 999
        while number % 1000 == 0 and exponent < highest:
            number, exponent = number // 1000, exponent + 3
        if self.style == "exponent":
            return f"{number}e{exponent}" if exponent else f"{number}"
        return f"{number}{_DECIMAL_BY_EXPONENT[exponent]}"


def parse_quantity(value: str | int | float) -> Quantity:
    """Read a quantity as a manifest has it; numbers count as their text.

    Raises:
        ValueError: With upstream's text, which does not name the value.
    """
    text = value if isinstance(value, str) else _number_text(value)
    match = _FORM.fullmatch(text)
    if match is None or not text:
        raise ValueError(_FORMAT_WRONG)
    sign, whole, fraction, suffix = match[1], match[2], match[3] or "", match[4]
    if suffix in _DECIMAL:
        style, scale = "decimal", Fraction(10) ** _DECIMAL[suffix]
    elif suffix in _BINARY:
        style, scale = "binary", Fraction(2) ** _BINARY[suffix]
    elif re.fullmatch(r"[eE][+-]?[0-9]+", suffix):
        style, scale = "exponent", Fraction(10) ** max(min(int(suffix[1:]), 400), -400)
    else:
        raise ValueError("unable to parse quantity's suffix")
    amount = Fraction(int(f"0{whole}{fraction}"), 10 ** len(fraction)) * scale
    if style == "binary":
        amount = min(amount, Fraction(_BINARY_MAXIMUM))
        if 0 < amount < 1:
            style = "decimal"
    exact = amount * _NANO
    nanos = -(-exact.numerator // exact.denominator)  # something small is not nothing
    return Quantity(-nanos if sign == "-" else nanos, style)


def _number_text(value: int | float) -> str:
    if isinstance(value, bool):
        raise ValueError(_FORMAT_WRONG)
    return format(value, "d") if isinstance(value, int) else repr(value)
