"""Feature gates: which behaviour is on, by release, and what ``--feature-gates`` may change.

>>> FeatureGates.for_release("1.22").enabled("PodDeletionCost")
True
>>> FeatureGates.for_release("1.36").set("LogarithmicScaleDown=false")
Traceback (most recent call last):
kcm_lite.manager.featuregates.GateError: cannot set feature gate LogarithmicScaleDown to false, \
feature is locked to true

The table beside this module holds the defaults of every gate that a v1.36 process knows. What an
older release had and v1.36 has forgotten is not in it. See: chapter *Options to config*; upstream
``k8s.io/component-base/featuregate`` and ``pkg/features``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from kcm_lite.api.golang import aggregate, parse_bool, quote

Release = tuple[int, int]
"""A minor release, such as ``(1, 36)``."""

TODAY: Release = (1, 36)

PRE_ALPHA = "PRE-ALPHA"
"""The stage of a gate in the releases before it came."""

_ALL = {"AllAlpha": "ALPHA", "AllBeta": "BETA"}
"""Gates that stand for all of a stage that nobody has set by name."""

_VERSION = re.compile(r"\s*v?([0-9]+(?:\.[0-9]+)*).*", re.DOTALL)


class GateError(ValueError):
    """Gates that cannot be set, each with its reason.

    Attributes:
        problems: The reasons, in upstream's words.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__(aggregate(problems))
        self.problems = tuple(problems)


class Spec(NamedTuple):
    """What holds for a gate from one release on."""

    since: Release
    stage: str
    default: bool
    locked: bool = False


class Gate(NamedTuple):
    """A gate's life, oldest first, and the gates that it needs to be on."""

    specs: tuple[Spec, ...]
    needs: tuple[str, ...]

    def at(self, release: Release) -> Spec:
        """Return what holds in a release."""
        for spec in reversed(self.specs):
            if spec.since <= release:
                return spec
        return Spec((0, 0), PRE_ALPHA, False)


@cache
def known_gates() -> Mapping[str, Gate]:
    """Return the gates of v1.36 by name."""
    rows = json.loads(files(__package__).joinpath("feature_gates.json").read_text("utf-8"))
    return {name: _gate(row) for name, row in rows.items()}


def _gate(row: str) -> Gate:
    """Read ``1.21 ALPHA off, 1.22 BETA on locked; needs Other``."""
    life, _, needs = row.partition("; needs ")
    specs = [Spec(parse_release(w[0]), w[1], w[2] == "on", w[3:] == ["locked"])
             for w in map(str.split, life.split(", "))]  # fmt: skip
    return Gate(tuple(specs), tuple(needs.split()))


def parse_version(text: str) -> tuple[int, ...]:
    """Read a version such as ``1.36``, ``v1.36.2``; what follows the numbers does not matter.

    Raises:
        ValueError: It has fewer than two numbers; in upstream's words.
    """
    found = _VERSION.fullmatch(text)
    if not found:
        raise ValueError(f"could not parse {quote(text)} as version")
    numbers = found[1].split(".")
    if len(numbers) < 2:
        raise ValueError(f"illegal version string {quote(text)}")
    if numbers[0].startswith("0") and numbers[0] != "0":
        part = quote(numbers[0])
        raise ValueError(f"illegal zero-prefixed version component {part} in {quote(text)}")
    return tuple(map(int, numbers))


def parse_release(text: str) -> Release:
    """Read a version and return its minor release.

    Raises:
        ValueError: As `parse_version`.
    """
    major, minor, *_ = parse_version(text)
    return major, minor


def text_of(release: Release) -> str:
    """Return ``1.36``."""
    return f"{release[0]}.{release[1]}"


@dataclass(frozen=True)
class FeatureGates:
    """Which gates are on: a release's defaults and what was set on top of them.

    Attributes:
        release: Whose defaults hold.
        minimum: The oldest release to get along with; only messages name it.
        settings: What was set by name.

    Raises:
        GateError: A setting is impossible in this release.
    """

    release: Release = TODAY
    settings: Mapping[str, bool] = field(default_factory=dict)
    minimum: Release = (1, 35)
    _enabled: Mapping[str, bool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        enabled, problems = _resolve(self)
        if problems:
            raise GateError(problems)
        object.__setattr__(self, "_enabled", enabled)

    @classmethod
    def for_release(cls, release: str, settings: Mapping[str, bool] | None = None) -> FeatureGates:
        """Return the gates of a release up to v1.36, with some of them set.

        Raises:
            ValueError: No such release, or a setting is impossible in it.
        """
        found = parse_release(release)
        if not (1, 0) <= found <= TODAY:
            raise ValueError(f"release {release} is not between [1.0, {text_of(TODAY)}]")
        return cls(found, settings or {}, (found[0], max(found[1] - 1, 0)))

    def enabled(self, name: str) -> bool:
        """Whether a gate is on.

        Raises:
            KeyError: There is no such gate.
        """
        value = self._enabled.get(name)
        return known_gates()[name].at(self.release).default if value is None else value

    def open(self) -> list[str]:
        """Return the gates that can be set, each with its stage and default, as the help does."""
        found = ((name, gate.at(self.release)) for name, gate in known_gates().items())
        return [
            f"{name}=true|false ({spec.stage} - default={str(spec.default).lower()})"
            for name, spec in found
            if spec.stage in _ALL.values()
        ]

    def since(self, release: str) -> bool:
        """Whether these are the gates of ``release`` or a later one; for what never had a gate."""
        return self.release >= parse_release(release)

    def with_settings(self, settings: Mapping[str, bool]) -> FeatureGates:
        """Return these gates with more of them set.

        Raises:
            GateError: A setting is impossible.
        """
        return FeatureGates(self.release, {**self.settings, **settings}, self.minimum)

    def set(self, text: str) -> FeatureGates:
        """Return these gates with what ``--feature-gates`` says: ``A=true,B=false``.

        Raises:
            GateError: A setting cannot be read, or is impossible.
        """
        return self.with_settings(parse_settings(text))


def parse_settings(text: str) -> dict[str, bool]:
    """Read ``A=true,B=false``.

    Raises:
        GateError: A part has no value, or one that is no truth value.
    """
    out = {}
    for part in filter(None, text.split(",")):
        name, equals, value = (p.strip() for p in part.partition("="))
        if not equals:
            raise GateError([f"missing bool value for {name}"])
        try:
            out[name] = parse_bool(value)
        except ValueError as error:
            raise GateError([f"invalid value of {name}={value}, err: {error}"]) from None
    return out


def _resolve(gates: FeatureGates) -> tuple[dict[str, bool], list[str]]:
    """Return what the settings switch, and what is wrong with them."""
    known, release = known_gates(), gates.release
    problems = [p for item in gates.settings.items() for p in _refusals(gates, *item)]
    enabled = {name: value for name, value in gates.settings.items() if name in known}
    for special, stage in _ALL.items():
        if special in enabled:
            for name, gate in known.items():
                if name not in _ALL and gate.at(release).stage == stage:
                    enabled.setdefault(name, enabled[special])

    def on(name: str) -> bool:
        return enabled.get(name, known[name].at(release).default)

    if not problems:
        for name, gate in known.items():
            missing = [n for n in gate.needs if not on(n)]
            if missing and on(name):
                text = f"{name} is enabled, but depends on features that are disabled"
                problems.append(f"{text}: [{' '.join(missing)}]")
    return enabled, problems


def _refusals(gates: FeatureGates, name: str, value: bool) -> Iterator[str]:
    """Say why a gate cannot be set."""
    if name not in known_gates():
        yield f"unrecognized feature gate: {name}"
        return
    spec = known_gates()[name].at(gates.release)
    what = f"cannot set feature gate {name} to {str(value).lower()}, feature is"
    if spec.locked and value != spec.default:
        yield f"{what} locked to {str(spec.default).lower()}"
    elif spec.stage == PRE_ALPHA:
        yield (
            f"{what} PreAlpha at emulated version {text_of(gates.release)}, "
            f"min compatibility version {text_of(gates.minimum)}"
        )
