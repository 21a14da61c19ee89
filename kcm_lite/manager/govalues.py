"""The values of flags: read and written as Go's ``strconv``, ``time`` and ``pflag`` do.

Errors are ``ValueError`` with Go's words. See: chapter *Options to config*, *A row of the table*.
"""

from __future__ import annotations

import ipaddress
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from kcm_lite.api.golang import parse_bool, quote
from kcm_lite.api.quantity import Quantity, parse_quantity

T = TypeVar("T")


@dataclass(frozen=True)
class Kind(Generic[T]):
    """A type of flag.

    Attributes:
        name: How pflag calls it.
        parse: Reads a value.
        format: Writes one, as the help does.
        join: What a flag that is given again makes of the value before; None: it replaces it.
        bare: The value of a flag that is given without one; empty: it needs one.
    """

    name: str
    parse: Callable[[str], T]
    format: Callable[[T], str] = str
    join: Callable[[T, T], T] | None = None
    bare: str = ""


def _syntax(function: str, text: str, problem: str = "invalid syntax") -> ValueError:
    return ValueError(f"strconv.{function}: parsing {quote(text)}: {problem}")


_INTEGER = re.compile(
    r"[+-]?(0[xX](_?[0-9a-fA-F])+|0[bB](_?[01])+|0[oO](_?[0-7])+|0(_?[0-7])*|[1-9](_?[0-9])*)", re.A
)


def parse_int(text: str, bits: int = 32) -> int:
    """Read ``12``, ``0x1f``, ``017``, ``1_000``: Go's ``ParseInt`` with base 0."""
    if not _INTEGER.fullmatch(text):
        raise _syntax("ParseInt", text)
    value = int(re.sub(r"^([+-]?0)_?(?=[0-7])", r"\1o", text), 0)
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise _syntax("ParseInt", text, "value out of range")
    return value


def parse_level(text: str) -> int:
    """Read a level of the log: Go's ``ParseUint`` with 31 bits."""
    if not re.fullmatch("[0-9]+", text, re.A):
        raise _syntax("ParseUint", text)
    if len(text.lstrip("0")) > 10 or int(text) >= 1 << 31:
        raise _syntax("ParseUint", text, "value out of range")
    return int(text)


_FLOAT = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?)|nan", re.A | re.I)


def parse_float(text: str, single: bool = False) -> float:
    """Read a number; a ``single`` one must fit into 32 bits."""
    if not _FLOAT.fullmatch(text):
        raise _syntax("ParseFloat", text)
    value = float(text)
    try:
        struct.pack("<f" if single else "<d", value)
    except OverflowError:
        value = float("inf")
    if abs(value) == float("inf") and "inf" not in text.lower():
        raise _syntax("ParseFloat", text, "value out of range")
    return value


_NANOSECONDS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9}
_NANOSECONDS |= {"m": 60 * 10**9, "h": 3600 * 10**9}
_SPAN = re.compile(r"(?:(\d+)(?:\.(\d*))?|\.(\d+))([^\d.]*)", re.A)


def parse_duration(text: str) -> float:
    """Read ``1h30m``, ``1.5s``, ``-200ms`` and return seconds."""
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return 0.0
    total, at = 0, 0
    while found := _SPAN.match(rest, at):
        whole, part, unit = found[1] or "0", found[2] or found[3] or "", found[4]
        if unit not in _NANOSECONDS:
            problem = f"unknown unit {quote(unit)}" if unit else "missing unit"
            raise ValueError(f"time: {problem} in duration {quote(text)}")
        total += int(whole + part) * _NANOSECONDS[unit] // 10 ** len(part)
        at = found.end()
    if not rest or at < len(rest) or total >= (1 << 63) + (text[0] == "-"):
        raise ValueError(f"time: invalid duration {quote(text)}")
    return (-total if text[0] == "-" else total) / 1e9


def format_duration(seconds: float) -> str:
    """Write seconds as Go does: ``12h0m0s``, ``1.5s``, ``200ms``."""
    ns, sign = round(abs(seconds) * 1e9), "-" if seconds < 0 else ""
    for unit in ("ns", "µs", "ms"):
        if 0 < ns < _NANOSECONDS[unit] * 1000:
            return f"{sign}{ns / _NANOSECONDS[unit]:.6f}".rstrip("0").rstrip(".") + unit
    minutes, rest = divmod(ns, _NANOSECONDS["m"])
    hours, minutes = divmod(minutes, 60)
    head = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return sign + head + f"{rest / 1e9:.9f}".rstrip("0").rstrip(".") + "s"


def parse_ip(text: str) -> str:
    """Read an address of either family; nothing means any address."""
    if not text:
        return "0.0.0.0"
    try:
        return str(ipaddress.ip_address("" if "%" in text else text.strip()))
    except ValueError:
        raise ValueError(f"failed to parse IP: {quote(text)}") from None


_FIELD = re.compile(r'(?:"((?:[^"]|"")*)"|([^",\n]*))(,|$|\r?\n)')


def parse_csv(text: str) -> list[str]:
    """Read a line of values with commas between; ``"a,b"`` is one value."""
    out: list[str] = []
    at, comma = 0, bool(text)
    while comma:
        found = _FIELD.match(text, at)
        if not found:
            quoted = text[at] == '"'
            problem = 'extraneous or missing " in quoted-field' if quoted else (
                'bare " in non-quoted field')  # fmt: skip
            column = len(text) + 1 if quoted else text.index('"', at) + 1
            raise ValueError(f"parse error on line 1, column {column}: {problem}")
        out.append(found[2] if found[1] is None else found[1].replace('""', '"'))
        at, comma = found.end(), found[3] == ","
    return out


class NamedCertKey(NamedTuple):
    """A certificate's file, its key's, and the server names that it is for."""

    cert_file: str
    key_file: str
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.cert_file},{self.key_file}" + ":" * bool(self.names) + ",".join(self.names)


def parse_named_cert_key(text: str) -> list[NamedCertKey]:
    """Read ``CERT,KEY`` or ``CERT,KEY:NAME,...``."""
    pair, colon, rest = text.partition(":")
    if colon and not rest.strip():
        raise ValueError("empty names list is not allowed")
    names = tuple(name.strip() for name in rest.split(",")) if colon else ()
    files = [part.strip() for part in pair.split(",")]
    if len(files) != 2:
        raise ValueError("expected comma separated certificate and key file paths")
    return [NamedCertKey(files[0], files[1], names)]


def parse_pairs(text: str) -> dict[str, str]:
    """Read ``KEY=VALUE`` pairs with commas between."""
    pairs = [text]
    if "=" in text:
        pairs = parse_csv(text) if text.count("=") > 1 else [text.strip('"')]
    for pair in pairs:
        if "=" not in pair:
            raise ValueError(f"{pair} must be formatted as key=value")
    return dict(pair.split("=", 1) for pair in pairs)


def parse_components(text: str) -> list[tuple[str, str]]:
    """Read ``COMPONENT:VALUE`` pairs; without a component, its name is empty."""
    pairs = [part.partition(":") for part in text.split(",") if part]
    return [(a.strip(), b.strip()) if colon else ("", a.strip()) for a, colon, b in pairs]


def parse_vmodule(text: str) -> dict[str, int]:
    """Read ``PATTERN=LEVEL`` pairs: how much to log, by source file."""
    out = {}
    for part in filter(None, text.split(",")):
        pattern, _, level = part.partition("=")
        if not (pattern and level) or "=" in level:
            raise ValueError(f"{quote(part)} does not have the pattern=N format")
        try:
            out[pattern] = parse_level(level)
        except ValueError as error:
            raise ValueError(f"parsing verbosity in {quote(part)}: {error}") from None
    return out


def parse_version_flag(text: str) -> str:
    """Read ``true``, ``false``, ``raw``, or a version to report."""
    return text if text == "raw" or text.startswith("v") else str(parse_bool(text)).lower()


def _in_brackets(values: Iterable[object]) -> str:
    return f"[{','.join(map(str, values))}]"


def _number(value: float) -> str:
    return repr(value).removesuffix(".0")


def _each(parse: Callable[[str], T]) -> Callable[[str], list[T]]:
    return lambda text: [parse(part) for part in text.split(",")]


BOOL = Kind("bool", parse_bool, lambda value: str(value).lower(), bare="true")
STRING: Kind[str] = Kind("string", str)
INT32 = Kind("int32", parse_int)
INT = Kind("int", partial(parse_int, bits=64))
LEVEL = Kind("Level", parse_level)
FLOAT32 = Kind("float32", partial(parse_float, single=True), _number)
FLOAT64 = Kind("float64", parse_float, _number)
DURATION = Kind("duration", parse_duration, format_duration)
ADDRESS = Kind("ip", parse_ip)
STRINGS = Kind("stringSlice", parse_csv, _in_brackets, list.__add__)
INT32S = Kind("int32Slice", _each(parse_int), _in_brackets, list.__add__)
CERTIFICATES = Kind(
    "namedCertKey", parse_named_cert_key, lambda v: f"[{';'.join(map(str, v))}]", list.__add__
)
COMPONENTS = Kind(
    "colonSeparatedMultimapStringString",
    parse_components,
    lambda value: ",".join(":".join(pair) for pair in sorted(value, key=lambda v: v[0])),
    list.__add__,
)
PAIRS = Kind("stringToString", parse_pairs, lambda value: _in_brackets(_equals(value)), dict.__or__)
VMODULE = Kind("pattern=N,...", parse_vmodule, lambda value: ",".join(_equals(value)), dict.__or__)
QUANTITY: Kind[Quantity] = Kind("quantity", parse_quantity)
VERSION = Kind("version", parse_version_flag, bare="true")


def _equals(value: Mapping[str, object]) -> list[str]:
    return [f"{key}={value[key]}" for key in sorted(value)]
