"""Checking what people write: every problem at once, each with its place, value and remedy.

A *check* is a function of a raw value, its path and the list of problems so far; it returns the
value to go on with. Records, lists and choices are built from smaller checks.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from kcm_lite.api.yaml import Document

Check = Callable[[Any, str, "list[Problem]"], Any]


class Problem(NamedTuple):
    """Something that is wrong with an input: where, and what."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class BadInput(ValueError):
    """An input that cannot be used; nothing has been done with it.

    Attributes:
        problems: All that is wrong.
        document: Where the paths of the problems lead; None if that is clear without.
    """

    def __init__(self, problems: Iterable[Problem], document: Document | None = None) -> None:
        self.problems = tuple(problems)
        self.document = document
        super().__init__("\n".join(self.lines()))

    def lines(self) -> list[str]:
        """Return one line per problem, each complete in itself."""
        document = self.document
        if document is None:
            return [str(p) for p in self.problems]
        head = f"{document.source}: document {document.index}, line"
        return [f"{head} {document.line_of(p.path)}: {p}" for p in self.problems]


def show(value: Any) -> str:
    """Return a value as it would stand in YAML, shortened."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def nearest(word: str, words: Iterable[str]) -> str:
    """Return ``" (did you mean X?)"`` for the most similar of some words, or nothing."""
    lower = {w.lower(): w for w in words}
    close = difflib.get_close_matches(str(word).lower(), lower, n=1, cutoff=0.6)
    return f' (did you mean "{lower[close[0]]}"?)' if close else ""


def number(value: Any, path: str, problems: list[Problem]) -> float:
    """Check for a number of seconds, zero or more."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        problems.append(Problem(path, f"got {show(value)}, want a number of seconds"))
        return 0.0
    if not (math.isfinite(value) and value >= 0):
        problems.append(Problem(path, f"got {show(value)}, want seconds >= 0"))
        return 0.0
    return float(value)


def offset(value: Any, path: str, problems: list[Problem]) -> float:
    """Check for a number of seconds, less than zero too."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e9:
        problems.append(Problem(path, f"got {show(value)}, want a number of seconds"))
        return 0.0
    return float(value)


def integer(minimum: int = 0, maximum: float = math.inf) -> Check:
    """Return a check for a whole number in a range."""
    allowed = f"a whole number >= {minimum}"
    if maximum < math.inf:
        allowed += f" and <= {maximum}"

    def check(value: Any, path: str, problems: list[Problem]) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            problems.append(Problem(path, f"got {show(value)}, want {allowed}"))
            return minimum
        if not minimum <= value <= maximum:
            problems.append(Problem(path, f"got {value}, want {allowed}"))
        return value

    return check


def boolean(value: Any, path: str, problems: list[Problem]) -> bool:
    """Check for true or false."""
    if not isinstance(value, bool):
        problems.append(Problem(path, f"got {show(value)}, want true or false"))
        return False
    return value


def string(value: Any, path: str, problems: list[Problem]) -> str:
    """Check for a text that is not empty."""
    if not isinstance(value, str) or not value:
        problems.append(Problem(path, f"got {show(value)}, want a text"))
        return ""
    return value


def anything(value: Any, path: str, problems: list[Problem]) -> Any:
    """Accept any value."""
    return value


def mapping(value: Any, path: str, problems: list[Problem]) -> Mapping[str, Any]:
    """Check for a mapping with text keys."""
    if not isinstance(value, Mapping) or not all(isinstance(k, str) for k in value):
        problems.append(Problem(path, f"got {show(value)}, want a mapping"))
        return {}
    return value


def strings(value: Any, path: str, problems: list[Problem]) -> Mapping[str, str]:
    """Check for a mapping of text to text, such as labels."""
    out = mapping(value, path, problems)
    for key, text in out.items():
        if not isinstance(text, str):
            problems.append(Problem(f"{path}.{key}", f"got {show(text)}, want a text (quote it)"))
    return out


def choice(*allowed: str) -> Check:
    """Return a check for one of some words."""

    def check(value: Any, path: str, problems: list[Problem]) -> str:
        if value not in allowed:
            hint = nearest(value, allowed) if isinstance(value, str) else ""
            message = f"got {show(value)}, want one of {', '.join(allowed)}{hint}"
            problems.append(Problem(path, message))
            return allowed[0]
        return str(value)

    return check


def list_of(item: Check) -> Check:
    """Return a check for a list whose items all pass a check; the result is a tuple."""

    def check(value: Any, path: str, problems: list[Problem]) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            problems.append(Problem(path, f"got {show(value)}, want a list"))
            return ()
        return tuple(item(v, f"{path}[{i}]", problems) for i, v in enumerate(value))

    return check


def optional(item: Check) -> Check:
    """Return a check that also takes null, which means "not set"."""
    return lambda value, path, problems: None if value is None else item(value, path, problems)


def one_or_list(item: Check) -> Check:
    """Return a check for one item or a list of them; the result is a tuple."""
    many = list_of(item)

    def check(value: Any, path: str, problems: list[Problem]) -> tuple[Any, ...]:
        if isinstance(value, list | tuple):
            result: tuple[Any, ...] = many(value, path, problems)
            return result
        return (item(value, path, problems),)

    return check


def record(fields: Mapping[str, Check], *, required: Iterable[str] = ()) -> Check:
    """Return a check for a mapping with known keys; absent keys stay absent."""
    needed = tuple(required)

    def check(value: Any, path: str, problems: list[Problem]) -> dict[str, Any]:
        raw = mapping(value, path, problems)
        out: dict[str, Any] = {}
        for key, item in raw.items():
            inner = f"{path}.{key}" if path else key
            if key not in fields:
                problems.append(Problem(inner, unknown_key(key, fields)))
            else:
                out[key] = fields[key](item, inner, problems)
        if isinstance(value, Mapping):
            problems.extend(
                Problem(f"{path}.{key}" if path else key, "is missing")
                for key in needed
                if key not in raw
            )
        return out

    return check


def unknown_key(key: str, allowed: Iterable[str]) -> str:
    """Return the message for a key that means nothing here."""
    words = sorted(allowed)
    return f'unknown key "{key}"{nearest(key, words)}; allowed: {", ".join(words)}'
