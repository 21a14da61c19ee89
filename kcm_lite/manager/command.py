"""The command: from arguments to a completed config, in upstream's order.

See: chapter *Options to config*; upstream ``NewControllerManagerCommand``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from kcm_lite.api.golang import quote
from kcm_lite.manager.checks import check_logs, feature_gates
from kcm_lite.manager.config import CompletedConfig, complete, new_config
from kcm_lite.manager.featuregates import TODAY, FeatureGates, open_gates, text_of
from kcm_lite.manager.flags import Flag, FlagError, flags_of, help_lines, parse
from kcm_lite.manager.groups import KubeControllerManagerOptions
from kcm_lite.manager.options import NAME, new_options
from kcm_lite.manager.registry import KNOWN_NAMES, disabled_by_default, new_controller_descriptors
from kcm_lite.manager.validation import InvalidOptions, Problem


@dataclass(frozen=True)
class Answer:
    """What the command does: print some lines, or run."""

    lines: Sequence[str] = ()
    config: CompletedConfig | None = None


def answer(
    args: Sequence[str],
    *,
    now: datetime,
    columns: int = 0,
    usage: Sequence[str] = (),
    more: Mapping[str, Flag] | None = None,
) -> Answer:
    """Read the arguments: flags, then what is no flag, versions and gates, logs, the rest.

    Args:
        args: What follows the command's name.
        now: From when a new certificate holds.
        columns: The terminal's width; 0: unknown.
        usage: What the help begins with.
        more: Flags of the caller's own, which the help does not list.

    Raises:
        FlagError: A flag cannot be read.
        InvalidOptions: Something else is wrong. Nothing has been started.
    """
    options = new_options()
    flags = flags_of(options)
    rest = parse({**flags, **(more or {})}, args, normalize=True)
    if options.global_flags.help:
        return Answer([*usage, *help_lines(flags, columns, _names())])
    if any(rest):
        words = " ".join(map(quote, rest))
        raise FlagError(f"{quote(NAME)} does not take any arguments, got [{words}]")
    try:
        gates = feature_gates(options)
        if options.global_flags.version != "false":
            return Answer([_version(options)])
        check_logs(options, gates)
        return Answer(config=complete(new_config(options, now=now)))
    except InvalidOptions as error:
        raise InvalidOptions(_told(p, flags[p.flag]) for p in error.problems) from None


def _told(problem: Problem, flag: Flag) -> Problem:
    """Return a problem with what the command line says for its flag."""
    given = flag.given if flag.setting.kind.join else flag.given[-1:]
    return replace(problem, value=",".join(given) or flag.default)


def _version(options: KubeControllerManagerOptions) -> str:
    """Return the release that this manager follows, or that it was told to report."""
    wanted, release = options.global_flags.version, f"v{text_of(TODAY)}"
    if wanted == "raw":
        major, minor = TODAY
        return f'version.Info{{Major:"{major}", Minor:"{minor}", GitVersion:"{release}"}}'
    return f"Kubernetes {wanted if wanted.startswith('v') else release}"


def _names() -> dict[str, str]:
    """Return what the help adds: the controllers, and the gates that can be set."""
    off = ", ".join(disabled_by_default(new_controller_descriptors()))
    controllers = f". All controllers: {', '.join(KNOWN_NAMES.known)}. Disabled-by-default: {off}"
    gates = ", ".join(open_gates(FeatureGates()))
    return {"controllers": controllers, "feature-gates": f": {gates}"}
