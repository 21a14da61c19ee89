"""Times and shares that are drawn by lot: ``5s..20s``, ``20%``. The same seed draws the same.

Every place that draws has random numbers of its own, so that another range in one place changes
nothing in the others.
"""

from __future__ import annotations

import random
from fractions import Fraction
from math import exp, log
from typing import Any

from kcm_lite.api.meta import Struct
from kcm_lite.sim.check import Problem, number, record, show
from kcm_lite.sim.durations import ALLOWED, parse_duration


class Range(Struct, frozen=True):
    """From ``low`` to ``high`` seconds, all equally likely."""

    low: float
    high: float


class Exponential(Struct, frozen=True):
    """Short as a rule and long now and then; ``mean`` seconds."""

    mean: float


class LogNormal(Struct, frozen=True):
    """Half of them up to ``median`` seconds, one in a hundred above ``p99``."""

    median: float
    p99: float


Times = float | Range | Exponential | LogNormal
"""Seconds that are the same each time, or that vary."""


def draw(times: Times, rng: random.Random) -> float:
    """Return one of the times, to the microsecond."""
    match times:
        case Range(low, high):
            seconds = rng.uniform(low, high)
        case Exponential(mean):
            seconds = rng.expovariate(1 / mean) if mean else 0.0
        case LogNormal(median, p99):
            sigma = log(p99 / median) / 2.3263478740408408  # the normal distribution's 99 %
            seconds = median * exp(rng.gauss(0.0, sigma))
        case constant:
            return constant
    return round(seconds, 6)


class Chance:
    """The lots of a run.

    Args:
        seed: Decides all of them.
    """

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._random: dict[str, random.Random] = {}
        self._urns: dict[str, tuple[int, int]] = {}  # how many winning lots are left, and all

    def _of(self, place: str) -> random.Random:
        if place not in self._random:
            self._random[place] = random.Random(f"{self._seed}/{place}")
        return self._random[place]

    def seconds(self, place: str, values: Range) -> float:
        """Draw a time, to the millisecond."""
        return round(self._of(place).uniform(values.low, values.high), 3)

    def wins(self, place: str, share: Fraction) -> bool:
        """Draw a lot, of which a share wins; it is not put back until all are drawn.

        So of any five in a row that begin a round exactly one wins at 20 %, at random.
        """
        winning, left = self._urns.get(place, (0, 0))
        if left == 0:
            winning, left = share.numerator, share.denominator
        won = self._of(place).randrange(left) < winning
        self._urns[place] = winning - won, left - 1
        return won


def parse_span(text: str) -> float | Range:
    """Return the seconds in ``5s``, or the range in ``5s..20s``.

    Raises:
        ValueError: It is neither, or it goes backwards.
    """
    low, dots, high = text.partition("..")
    try:
        if not dots:
            return parse_duration(text)
        both = Range(parse_duration(low), parse_duration(high))
    except ValueError:
        raise ValueError(f"got {show(text)}, want {ALLOWED}, or a range: 5s..20s") from None
    if both.low > both.high:
        raise ValueError(f"got {show(text)}, want a range from the smaller to the larger")
    return both if both.low < both.high else both.low


def parse_share(text: str) -> Fraction:
    """Return the share in ``20%`` or ``0.2``.

    Raises:
        ValueError: It is neither, or not from 0 to 100 %.
    """
    number, percent, rest = text.strip().partition("%")
    plain = number.replace(".", "", 1)
    if rest or not (plain.isascii() and plain.isdigit() and len(plain) < 10):
        raise ValueError(f"got {show(text)}, want a share from 0% to 100%, such as 20%")
    part = Fraction(number) / (100 if percent else 1)
    if part > 1:
        raise ValueError(f"got {show(text)}, want a share from 0% to 100%, such as 20%")
    return part


def span(value: Any, path: str, problems: list[Problem]) -> float | Range:
    """Check for a time or a range of times."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9:
        return float(value)
    try:
        return parse_span(value if isinstance(value, str) else "")
    except ValueError as error:
        text = str(error)
        if not isinstance(value, str):
            text = f"got {show(value)}, want seconds >= 0, or a range: 5s..20s"
        problems.append(Problem(path, text))
        return 0.0


def share(value: Any, path: str, problems: list[Problem]) -> Fraction:
    """Check for a share: ``20%``, ``0.2``."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        return parse_share(str(value) if plain or isinstance(value, str) else "")
    except ValueError:
        text = f"got {show(value)}, want a share from 0% to 100%, such as 20%"
        problems.append(Problem(path, text))
        return Fraction(0)


def rate(value: Any, path: str, problems: list[Problem]) -> float:
    """Check for a share that is a probability."""
    return float(share(value, path, problems))


def times(value: Any, path: str, problems: list[Problem]) -> Times:
    """Check for times: ``2``, ``2s..5s``, ``[2, 5]``, ``{mean: 2}``, ``{median: 1, p99: 9}``."""
    if isinstance(value, Range | Exponential | LogNormal):
        return value
    if isinstance(value, list | tuple) and len(value) == 2:
        low, high = (number(v, f"{path}[{i}]", problems) for i, v in enumerate(value))
        if low > high:
            problems.append(Problem(path, f"got {show(value)}, want the smaller one first"))
        return Range(low, high)
    if not isinstance(value, dict):
        return span(value, path, problems)
    before, tailed = len(problems), "mean" not in value
    names = ("median", "p99") if tailed else ("mean",)
    given = record(dict.fromkeys(names, number), required=names)(value, path, problems)
    if len(problems) > before:
        return 0.0
    if not tailed:
        return Exponential(given["mean"])
    if not 0 < given["median"] <= given["p99"]:
        problems.append(Problem(path, f"got {show(value)}, want 0 < median <= p99"))
        return 0.0
    return LogNormal(given["median"], given["p99"])
