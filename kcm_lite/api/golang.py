"""How Go prints and parses the values that error messages quote.

Messages carry over verbatim, so their quoting does too. See: Go ``strconv`` and ``encoding/json``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}
_PLAIN = re.compile(r"[ !#-\[\]-~]*")  # printable ASCII without the two characters to escape
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)


def quote(text: str) -> str:
    """Return the text in double quotes, escaped as Go's ``%q`` does."""
    if _PLAIN.fullmatch(text):
        return f'"{text}"'
    return '"' + "".join(map(_quote_char, text)) + '"'


def _quote_char(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def to_json(value: Any, indent: int | None = None) -> str:
    """Return JSON as Go's ``json.Marshal`` writes it: compact, HTML characters escaped."""
    separators = (",", ":") if indent is None else (",", ": ")
    text = json.dumps(value, ensure_ascii=False, separators=separators, indent=indent)
    for char in "<>&\u2028\u2029":
        if char in text:
            text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def parse_int(text: str, bits: int = 64, function: str = "ParseInt") -> int:
    """Parse a decimal integer as ``strconv.ParseInt(text, 10, bits)`` (or ``Atoi``) does.

    Raises:
        ValueError: Not a number, or one that does not fit; with Go's words.
    """
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"strconv.{function}: parsing {quote(text)}: invalid syntax")
    value = int(text) if len(text) < 40 else 1 << 99  # any number that long is out of range
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError(f"strconv.{function}: parsing {quote(text)}: value out of range")
    return value


_BOOLS = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


def parse_bool(text: str) -> bool:
    """Parse a truth value as ``strconv.ParseBool`` does.

    Raises:
        ValueError: None of the twelve words that Go takes; with Go's words.
    """
    if text not in _BOOLS:
        raise ValueError(f"strconv.ParseBool: parsing {quote(text)}: invalid syntax")
    return _BOOLS[text]


def aggregate(messages: Iterable[str]) -> str:
    """Return several errors as one text, each once, as apimachinery's ``Aggregate`` prints them."""
    distinct = list(dict.fromkeys(messages))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
