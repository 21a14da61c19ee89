# Generated from book/02b_names_and_gates.ipynb by tools/tangle.py; edit it there.

"""Feature gates: which behaviour is on, by release, and what ``--feature-gates`` may change.

The table beside this module holds every gate that a v1.36 process knows. What an older release had
and v1.36 has forgotten is not in it. See: chapter *Names and gates*; upstream
``k8s.io/component-base/featuregate`` and ``pkg/features``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from kcm_lite.api.golang import aggregate, parse_bool, quote

# %% book/02b_names_and_gates.ipynb#782f697f
Release = tuple[int, int]
"""A minor release, such as ``(1, 36)``."""

TODAY: Release = (1, 36)
PRE_ALPHA = "PRE-ALPHA"
"""The stage of a gate in the releases before it came."""


class Spec(NamedTuple):
    """What holds for a gate from one release on."""

    since: Release
    stage: str
    default: bool
    locked: bool = False


class Gate(NamedTuple):
    """A gate's life, oldest first, and the gates that it needs to be on."""

    specs: tuple[Spec, ...]
    needs: tuple[str, ...] = ()

    def at(self, release: Release) -> Spec:
        """Return what holds in a release."""
        found = [spec for spec in self.specs if spec.since <= release]
        return found[-1] if found else Spec((0, 0), PRE_ALPHA, False)


# %% book/02b_names_and_gates.ipynb#6b577588
VERSION = re.compile(r"\s*v?([0-9]+(?:\.[0-9]+)*).*", re.DOTALL)


def parse_version(text: str) -> tuple[int, ...]:
    """Read a version such as ``1.36`` or ``v1.36.2``.

    Raises:
        ValueError: It is none; with upstream's words.
    """
    found = VERSION.fullmatch(text)
    if not found:
        raise ValueError(f"could not parse {quote(text)} as version")
    numbers = found[1].split(".")
    if len(numbers) < 2:
        raise ValueError(f"illegal version string {quote(text)}")
    if len(numbers[0]) > 1 and numbers[0][0] == "0":
        part = quote(numbers[0])
        raise ValueError(f"illegal zero-prefixed version component {part} in {quote(text)}")
    return tuple(map(int, numbers))


def text_of(release: Release) -> str:
    """Return ``1.36``."""
    return f"{release[0]}.{release[1]}"


# %% book/02b_names_and_gates.ipynb#fa3d7a35
def parse_release(text: str) -> Release:
    """Read a version and return its minor release."""
    major, minor, *_ = parse_version(text)
    return major, minor


def read_gate(row: str) -> Gate:
    """Read ``1.21 ALPHA off, 1.22 BETA on locked; needs Other``."""
    life, _, needs = row.partition("; needs ")
    words = [step.split() for step in life.split(", ")]
    specs = [Spec(parse_release(w[0]), w[1], w[2] == "on", "locked" in w) for w in words]
    return Gate(tuple(specs), tuple(needs.split()))


@cache
def known_gates() -> Mapping[str, Gate]:
    """Return the gates of v1.36 by name."""
    rows = json.loads(files(__package__).joinpath("feature_gates.json").read_text("utf-8"))
    return {name: read_gate(row) for name, row in rows.items()}


# %% book/02b_names_and_gates.ipynb#0f0cc842
ALL = {"ALPHA": "AllAlpha", "BETA": "AllBeta"}


@dataclass(frozen=True)
class FeatureGates:
    """A release's defaults and what was set on top; ``GateError`` if that is impossible.

    ``minimum`` is the oldest release to get along with; only messages name it.
    """

    release: Release = TODAY
    settings: Mapping[str, bool] = field(default_factory=dict)
    minimum: Release = (1, 35)

    def __post_init__(self) -> None:
        if problems := find_refusals(self):
            raise GateError(problems)

    @classmethod
    def for_release(cls, release: str, settings: Mapping[str, bool] | None = None) -> FeatureGates:
        """Return the gates of a release up to v1.36, with some of them set."""
        major, minor = parse_release(release)
        if not (1, 0) <= (major, minor) <= TODAY:
            raise ValueError(f"release {release} is not between [1.0, {text_of(TODAY)}]")
        return cls((major, minor), settings or {}, (major, max(minor - 1, 0)))

    def enabled(self, name: str) -> bool:
        """Whether a gate is on; a name that is no gate's raises ``KeyError``."""
        spec = known_gates()[name].at(self.release)
        default = self.settings.get(ALL.get(spec.stage, ""), spec.default)
        return self.settings.get(name, default)

    def since(self, release: str) -> bool:
        """Whether these are the gates of ``release`` or later; for what never had a gate."""
        return self.release >= parse_release(release)

    def set(self, text: str) -> FeatureGates:
        """Return these gates with what ``--feature-gates`` says on top."""
        return replace(self, settings={**self.settings, **parse_settings(text)})


# %% book/02b_names_and_gates.ipynb#fb5da1bb
class GateError(ValueError):
    """Gates that cannot be set.

    Attributes:
        problems: The reasons, in upstream's words.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__(aggregate(problems))
        self.problems = tuple(problems)


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


# %% book/02b_names_and_gates.ipynb#3a08e043
def find_refusals(gates: FeatureGates) -> list[str]:
    """Return what is wrong with the settings of some gates."""
    known, problems = known_gates(), []
    for name, value in gates.settings.items():
        spec = known[name].at(gates.release) if name in known else None
        what = f"cannot set feature gate {name} to {str(value).lower()}, feature is"
        if spec is None:
            problems.append(f"unrecognized feature gate: {name}")
        elif spec.locked and value != spec.default:
            problems.append(f"{what} locked to {str(spec.default).lower()}")
        elif spec.stage == PRE_ALPHA:
            problems.append(
                f"{what} PreAlpha at emulated version {text_of(gates.release)}, "
                f"min compatibility version {text_of(gates.minimum)}"
            )
    for name, gate in {} if problems else known.items():
        missing = [need for need in gate.needs if not gates.enabled(need)]
        if missing and gates.enabled(name):
            text = f"{name} is enabled, but depends on features that are disabled"
            problems.append(f"{text}: [{' '.join(missing)}]")
    return problems


def open_gates(gates: FeatureGates) -> list[str]:
    """Return the gates that can be set, each with its stage and default, as the help does."""
    found = ((name, gate.at(gates.release)) for name, gate in known_gates().items())
    return [
        f"{name}=true|false ({spec.stage} - default={str(spec.default).lower()})"
        for name, spec in found
        if spec.stage in ALL
    ]
