"""Fields of objects by their path in a manifest, and how a value compares with what is wanted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from kcm_lite.sim.check import Problem, show

COMPARISONS = ("equals", "notEquals", "atLeast", "atMost", "contains", "matches")

STEP = re.compile(r"\.?([A-Za-z_][\w-]*)|\[(\d+)\]|\[([\w-]+)=([^\]]*)\]|\['([^']+)'\]")
Step = str | int | tuple[str, str]
"""A key of a mapping, an index of a list, or (key, value) of the item of a list that has it."""


def steps_of(text: str, path: str, problems: list[Problem]) -> list[Step]:
    """Return the steps of a path such as ``status.conditions[type=Ready].status``."""
    out: list[Step] = []
    at = 0
    while at < len(text):
        found = STEP.match(text, at)
        if found is None:
            want = "want a path such as spec.replicas"
            problems.append(Problem(path, f'got {show(text)}: cannot read "{text[at:]}"; {want}'))
            return out
        name, index, key, value, quoted = found.groups()
        out.append(name or quoted or ((key, value) if key else int(index)))
        at = found.end()
    return out


def walk(value: Any, steps: Iterable[Step]) -> Any:
    """Return the field of a wire document that the steps lead to, or None if it is not there."""
    for step in steps:
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, Mapping) else None
        elif isinstance(step, int):
            value = value[step] if isinstance(value, list) and step < len(value) else None
        else:
            key, wanted = step
            items = value if isinstance(value, list) else ()
            same = (v for v in items if isinstance(v, Mapping) and str(v.get(key)) == wanted)
            value = next(same, None)
    return value


def holds(word: str, wanted: Any, found: Any) -> bool:
    """Report whether a value compares as wanted; an absent one counts as 0 beside a number.

    Args:
        word: One of `COMPARISONS`.
        wanted: For ``matches`` a compiled pattern.
        found: The value, None if there is none.
    """
    if found is None and isinstance(wanted, int | float) and not isinstance(wanted, bool):
        found = 0
    match word:
        case "equals":
            return bool(found == wanted)
        case "notEquals":
            return bool(found != wanted)
        case "atLeast":
            return isinstance(found, int | float) and found >= wanted
        case "atMost":
            return isinstance(found, int | float) and found <= wanted
        case "contains" if isinstance(found, str):
            return isinstance(wanted, str) and wanted in found
        case "contains":
            return isinstance(found, list | Mapping) and wanted in list(found)
        case _:
            return isinstance(found, str) and wanted.search(found) is not None
