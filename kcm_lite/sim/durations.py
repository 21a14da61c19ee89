"""Spans of time as people write and read them."""

from __future__ import annotations

import re

from kcm_lite.sim.check import Problem, show

UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}
PATTERN = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?", re.ASCII)
ALLOWED = "seconds or a duration such as 90, 90s, 5m, 1h30m"


def parse_duration(text: str) -> float:
    """Return the seconds in ``90``, ``90s``, ``1.5``, ``5m``, ``1h30m``.

    Raises:
        ValueError: The text is none of these.
    """
    found = PATTERN.fullmatch(text.strip())
    if not found or not any(found.groups()):
        raise ValueError(f"got {show(text)}, want {ALLOWED}")
    return sum(float(n) * unit for n, unit in zip(found.groups(), UNITS.values(), strict=True) if n)


def duration(value: object, path: str, problems: list[Problem]) -> float:
    """Check for a duration, as a number of seconds or as text."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9:
        return float(value)
    if isinstance(value, str):
        try:
            return parse_duration(value)
        except ValueError:
            pass
    problems.append(Problem(path, f"got {show(value)}, want {ALLOWED}"))
    return 0.0


def stamp(seconds: float) -> str:
    """Return a time of a run for people: ``00:02.0``, ``1:02:03.4``."""
    tenths = round(seconds * 10)
    minutes, tenths = divmod(tenths, 600)
    hours, minutes = divmod(minutes, 60)
    head = f"{hours}:{minutes:02d}" if hours else f"{minutes:02d}"
    return f"{head}:{tenths // 10:02d}.{tenths % 10}"


def age(seconds: float) -> str:
    """Return an age as kubectl shows it: ``5s``, ``2m10s``, ``12m``, ``3h5m``, ``2d``."""
    s = int(seconds)
    if s < 120:
        return f"{s}s"
    minutes, rest = divmod(s, 60)
    if minutes < 10:
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    if hours < 8:
        return f"{hours}h{minutes}m" if minutes else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    return f"{hours // 24}d"
