# Generated from book/02b_names_and_gates.ipynb by tools/tangle.py; edit it there.

"""Which controllers there are, by today's names and by those of 1.22, and which of them run.

See: chapter *Names and gates*; upstream ``controller_descriptor.go``, ``controllermanager.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kcm_lite.controllers.context import CONTROLLERS, ControllerContext, Run
from kcm_lite.manager.descriptors import TABLE
from kcm_lite.manager.featuregates import FeatureGates
from kcm_lite.manager.validation import Names


# %% book/02b_names_and_gates.ipynb#d2b59a74
@dataclass(frozen=True)
class ControllerDescriptor:
    """What the manager knows of a controller without building it.

    Attributes:
        name: Its name in ``--controllers``, health checks and logs.
        aliases: Older names.
        required_feature_gates: All must be on, or it is not built.
        disabled_by_default: It runs only if it is named.
        cloud_provider: A loop of a cloud: known, never built.
        special_handling: Built before all others (the service-account token controller).
    """

    name: str
    aliases: tuple[str, ...] = ()
    required_feature_gates: tuple[str, ...] = ()
    disabled_by_default: bool = False
    cloud_provider: bool = False
    special_handling: bool = False

    @property
    def constructor(self) -> Callable[[ControllerContext], Run] | None:
        """What builds it; None: kcm_lite knows its name only."""
        return CONTROLLERS.get(self.name)


# %% book/02b_names_and_gates.ipynb#35958e5f
MARKS = {"off": "disabled_by_default", "cloud": "cloud_provider", "special": "special_handling"}


def read_row(line: str) -> ControllerDescriptor:
    """Read a row of the table."""
    name, alias, *rest = line.split()
    return ControllerDescriptor(
        name,
        () if alias == "-" else (alias.lstrip("+"),),
        tuple(word for word in rest if word not in MARKS),
        **{MARKS[word]: True for word in rest if word in MARKS},
    )


def new_controller_descriptors() -> dict[str, ControllerDescriptor]:
    """Return today's controllers by name, in upstream's order; the special one comes first."""
    return {row.name: row for row in map(read_row, TABLE)}


def names_of(descriptors: Mapping[str, ControllerDescriptor]) -> Names:
    """Return the names that ``--controllers`` may have."""
    aliases = {alias: name for name, d in descriptors.items() for alias in d.aliases}
    return Names(tuple(sorted(descriptors)), aliases)


KNOWN_NAMES = names_of(new_controller_descriptors())
"""What ``--controllers`` may name today."""


def disabled_by_default(descriptors: Mapping[str, ControllerDescriptor]) -> list[str]:
    """Return the names that run only if they are named."""
    return sorted(name for name, d in descriptors.items() if d.disabled_by_default)


# %% book/02b_names_and_gates.ipynb#cbfe9fdc
def is_controller_enabled(
    name: str, off_by_default: Iterable[str], controllers: Iterable[str]
) -> bool:
    """Whether a controller runs: the first entry of ``--controllers`` that names it decides.

    Args:
        name: Its name in the table that is in force.
        off_by_default: What ``*`` does not mean.
        controllers: The entries, with full names.
    """
    star = False
    for entry in controllers:
        if entry.removeprefix("-") == name:
            return entry == name
        star = star or entry == "*"
    return star and name not in off_by_default


# %% book/02b_names_and_gates.ipynb#c35bc64c
def new_controller_initializers(
    gates: FeatureGates, *, cloud_loops: bool = True
) -> dict[str, ControllerDescriptor]:
    """Return the controllers of 1.22 by the names that they had then.

    Args:
        gates: What is not switched on is not in the table.
        cloud_loops: Whether the cloud's loops are in it; with an external cloud they are not.
    """
    out = {}
    for line in TABLE:
        row, old = read_row(line), line.split()[1]
        there = all(map(gates.enabled, row.required_feature_gates)) and (
            cloud_loops or not row.cloud_provider
        )
        if there and old[0] not in "-+":
            out[old] = row
    return out
