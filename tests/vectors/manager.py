"""The tables of flags, controllers, arguments and feature gates."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

from kcm_lite.manager.checks import validate
from kcm_lite.manager.command import answer
from kcm_lite.manager.featuregates import FeatureGates, known_gates, text_of
from kcm_lite.manager.flags import FlagError, flags_of, parse
from kcm_lite.manager.groups import SECTIONS
from kcm_lite.manager.options import new_options
from kcm_lite.manager.registry import (
    KNOWN_NAMES,
    disabled_by_default,
    new_controller_descriptors,
)
from kcm_lite.manager.validation import InvalidOptions
from tests.vectors import Part, Skip

NOT_UPSTREAM = "OpenShift only"
NOT_A_RELEASE = "an artifact of the recording"
NOT_OURS = "service-ca-certificate-publisher-controller"
"""A controller of OpenShift's only."""
NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)


def _skip(reason: str) -> Any:
    raise Skip(reason)


def equal(label: str, want: Any, got: Any) -> Part:
    """A part whose values are there."""
    return label, lambda: want, lambda: got


def skipped(label: str, reason: str) -> Part:
    """A part that a rule leaves out."""
    return label, partial(_skip, reason), lambda: None


def options(data: dict[str, Any]) -> Iterator[Part]:
    """Take the table of options apart: sections, flags, controllers, arguments."""
    yield equal("sections", data["flag_sections"], SECTIONS)
    ours = {f"--{name}": _flag(flag) for name, flag in flags_of(new_options()).items()}
    for row in data["flags"]:
        if row["openshift_only"]:
            yield skipped(row["flag"], NOT_UPSTREAM)
        else:
            want = {key: row[key] for key in row if key not in ("flag", "summary")}
            yield equal(row["flag"], want, ours.pop(row["flag"], None))
    yield equal("further flags", [], list(ours))
    yield from _controllers(data)
    for case in data["argument_cases"]:
        yield from _arguments(case)


def _flag(flag: Any) -> dict[str, Any]:
    setting = flag.setting
    return {
        "section": setting.section,
        "type": setting.kind.name,
        "default": flag.default,
        "no_opt_default": setting.kind.bare,
        "shorthand": setting.short,
        "hidden": setting.hidden,
        "deprecated": setting.hidden,
        "openshift_only": False,
    }


def _controllers(data: dict[str, Any]) -> Iterator[Part]:
    ours = new_controller_descriptors()
    names = [name for name in data["known_controllers"] if name != NOT_OURS]
    aliases = {old: new for old, new in data["controller_aliases"].items() if new != NOT_OURS}
    off = data["controllers_disabled_by_default"]
    yield equal("known controllers", names, KNOWN_NAMES.known)
    yield equal("aliases", aliases, KNOWN_NAMES.aliases)
    yield equal("disabled by default", off, disabled_by_default(ours))
    for row in data["controller_descriptors"]:
        name = row["name"]
        if name == NOT_OURS:
            yield skipped(name, NOT_UPSTREAM)
            continue
        descriptor = ours[name]
        got = {
            "name": descriptor.name,
            "aliases": descriptor.aliases,
            "required_feature_gates": descriptor.required_feature_gates,
            "disabled_by_default": descriptor.disabled_by_default,
            "cloud_provider_controller": descriptor.cloud_provider,
            "requires_special_handling": descriptor.special_handling,
        }
        yield equal(name, row, got)


def _arguments(case: dict[str, Any]) -> Iterator[Part]:
    args, label = case["args"], " ".join(case["args"])
    if "openshift_deviation" in case or "artifact" in case:
        yield skipped(label, NOT_UPSTREAM if "openshift_deviation" in case else NOT_A_RELEASE)
        return
    if case["out"] is None:
        pass
    elif any(arg.startswith("--vmodule") for arg in args):
        yield skipped(label, "klog's own --vmodule, which the command replaces")
    else:
        yield label, lambda: case["out"], lambda: _stages(args)
    yield f"command {label}", lambda: _without_panic(case["command"]), lambda: _command(args)


def _stages(args: list[str]) -> dict[str, Any]:
    """What the option structs say: an error of parsing, an error of validation, or nothing."""
    ours = new_options()
    try:
        rest = parse(flags_of(ours), args)
        validate(ours, KNOWN_NAMES)
    except FlagError as error:
        return {"stage": "parse", "error": str(error)}
    except InvalidOptions as error:
        return {"stage": "validate", "error": str(error)}
    return {"stage": None, "error": None} | ({"positional": rest} if rest else {})


def _command(args: list[str]) -> dict[str, Any]:
    """What the command says before it runs; recorded without a port, so that needs no file."""
    try:
        answer(["--secure-port=0", *args], now=NOW)
    except (FlagError, InvalidOptions) as error:
        return {"exit_code": 1, "message": str(error)}
    return {"exit_code": None, "message": None}


def _without_panic(want: dict[str, Any]) -> dict[str, Any]:
    """Durations of the election that upstream's process dies of are refused by ours."""
    if want["exit_code"] != 2:
        return want
    message = want["message"].removeprefix("panic: ").removesuffix(" [recovered, repanicked]")
    return {"exit_code": 1, "message": message}


def feature_gates(data: dict[str, Any]) -> Iterator[Part]:
    """Take the table of gates apart."""
    today, known = FeatureGates(), dict(known_gates())
    for name, row in (data["gates_used_by_controllers"] | data["all_gates"]).items():
        if row.get("openshift_only"):
            yield skipped(name, NOT_UPSTREAM)
            continue
        gate = known.pop(name)
        specs = [
            {
                "since": text_of(spec.since),
                "stage": spec.stage,
                "default": spec.default,
                "locked_to_default": spec.locked,
            }
            for spec in gate.specs
        ]
        got = {"specs": specs, "enabled_1_36": today.enabled(name), "depends_on": gate.needs}
        yield equal(name, {key: row[key] for key in got}, got)
    yield equal("further gates", [], list(known))


TABLES = {"options": options, "feature_gates": feature_gates}
