"""Flags: how a command line is read and explained, as ``spf13/pflag`` does.

>>> options = new_options()
>>> parse(flags_of(options), ["--concurrent-replicaset-syncs=3"])
[]
>>> options.replica_set_controller.concurrent_rs_syncs
3
"""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kcm_lite.api.golang import quote
from kcm_lite.manager.groups import SECTIONS
from kcm_lite.manager.settings import Group, Setting


@dataclass(slots=True)
class Flag:
    """A flag, bound to the field that it sets.

    Attributes:
        default: The value before the command line was read.
        given: What the command line says, as often as it does.
    """

    group: Group
    setting: Setting[Any]
    default: str
    given: tuple[str, ...] = ()

    @property
    def value(self) -> Any:
        """The field's present value."""
        return getattr(self.group, self.setting.name)

    def set(self, text: str) -> None:
        """Set the field; a list that is given twice grows.

        Raises:
            ValueError: The text is no such value.
        """
        kind, value = self.setting.kind, self.setting.kind.parse(text)
        if self.given and kind.join:
            value = kind.join(self.value, value)
        setattr(self.group, self.setting.name, value)
        self.given += (text,)


def flags_of(options: Group) -> dict[str, Flag]:
    """Return the flags of a group by name; their defaults are the present values."""
    return {
        setting.flag: Flag(group, setting, setting.kind.format(getattr(group, setting.name)))
        for group, setting in options.walk()
        if setting.flag
    }


class FlagError(ValueError):
    """The command line cannot be read.

    Attributes:
        hint: What was perhaps meant; empty if nothing is near.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def nearest(word: str, words: Sequence[str], prefix: str = "") -> str:
    """Return ``did you mean X?`` for the most similar of some words, or nothing."""
    close = difflib.get_close_matches(word.lower(), words, n=1, cutoff=0.6)
    return f"did you mean {prefix}{close[0]}?" if close else ""


def parse(flags: Mapping[str, Flag], args: Sequence[str], *, normalize: bool = False) -> list[str]:
    """Set the fields that the command line names.

    Args:
        flags: The flags by name.
        args: The command line, such as ``["--v=2", "--kube-api-qps", "50"]``.
        normalize: Take ``_`` in names for ``-``, as the command does and a bare flag set does not.

    Returns:
        The arguments that are no flags.

    Raises:
        FlagError: A flag is unknown, has no value or a bad one; what came before it is set.
    """
    names = {(name.replace("_", "-") if normalize else name): f for name, f in flags.items()}
    shorts = {flag.setting.short: flag for flag in flags.values() if flag.setting.short}
    rest = list(args)
    out: list[str] = []
    while rest:
        arg = rest.pop(0)
        if arg == "--":
            return out + rest
        if arg.startswith("--"):
            _parse_long(names, arg, rest, normalize)
        elif arg.startswith("-") and arg != "-":
            _parse_short(shorts, arg[1:], rest)
        else:
            out.append(arg)
    return out


def _parse_long(names: Mapping[str, Flag], arg: str, rest: list[str], normalize: bool) -> None:
    name, equals, text = arg[2:].partition("=")
    if not name or name[0] == "-":
        raise FlagError(f"bad flag syntax: {arg}")
    flag = names.get(name.replace("_", "-") if normalize else name)
    if flag is None:
        raise FlagError(f"unknown flag: --{name}", nearest(name, list(names), "--"))
    if not equals:
        text = _value(flag, rest, f"flag needs an argument: --{name}")
    _set(flag, text, name.replace("_", "-") if normalize else name)


def _parse_short(shorts: Mapping[str, Flag], letters: str, rest: list[str]) -> None:
    """Read ``-v=2``, ``-v2``, ``-v 2`` and several letters in one word."""
    while letters:
        flag, where = shorts.get(letters[0]), f"'{letters[0]}' in -{letters}"
        if flag is None:
            raise FlagError(f"unknown shorthand flag: {where}")
        tail, letters = letters[1:], ""
        if tail.startswith("=") and len(tail) > 1:
            text = tail[1:]
        elif flag.setting.kind.bare:
            text, letters = flag.setting.kind.bare, tail
        else:
            text = tail or _value(flag, rest, f"flag needs an argument: {where}")
        _set(flag, text, flag.setting.flag)


def _value(flag: Flag, rest: list[str], problem: str) -> str:
    if flag.setting.kind.bare:
        return flag.setting.kind.bare
    if not rest:
        raise FlagError(problem)
    return rest.pop(0)


def _set(flag: Flag, text: str, name: str) -> None:
    try:
        flag.set(text)
    except ValueError as error:
        shown = f"-{flag.setting.short}, --{name}" if flag.setting.short else f"--{name}"
        raise FlagError(
            f"invalid argument {quote(text)} for {quote(shown)} flag: {error}"
        ) from None


# ---- help

LONG_NAMES = {"bool": "", "stringSlice": "strings", "float64": "float"}
"""How the help calls a type, where it is not pflag's own word."""

ZERO = {"", "0", "0s", "false"}


def help_lines(
    flags: Mapping[str, Flag], columns: int = 0, more: Mapping[str, str] | None = None
) -> list[str]:
    """Return the help: a section after the other, the flags by name.

    Args:
        flags: The flags by name.
        columns: The terminal's width; 0: unknown, nothing is wrapped.
        more: What is to be added to the meaning of some flags, by name.
    """
    wrapper = textwrap.TextWrapper(
        columns, initial_indent=" " * 16, subsequent_indent=" " * 16, break_on_hyphens=False
    )
    out: list[str] = []
    for section in SECTIONS:
        inside = [f for f in flags.values() if f.setting.section == section]
        shown = sorted((f for f in inside if not f.setting.hidden), key=lambda f: f.setting.flag)
        width = max((len(_head(f)) for f in shown), default=0) + 3
        out += ["", f"{section[0].upper()}{section[1:]} flags:", ""] if shown else []
        for flag in shown:
            head, usage = _head(flag), _usage(flag) + (more or {}).get(flag.setting.flag, "")
            out += [head, *wrapper.wrap(usage)] if columns > 24 else [f"{head:{width}}{usage}"]
    return out


def _head(flag: Flag) -> str:
    setting, kind = flag.setting, flag.setting.kind
    short = f"-{setting.short}, " if setting.short else "    "
    name = LONG_NAMES.get(kind.name, kind.name)
    bare = f"[={kind.bare}]" if kind.bare and kind.name != "bool" else ""
    return f"  {short}--{setting.flag} {name}{bare}".rstrip()


def _usage(flag: Flag) -> str:
    kind, default = flag.setting.kind, flag.default
    if default in ZERO or (default == "[]" and kind.name in ("stringSlice", "int32Slice")):
        return flag.setting.help
    return f"{flag.setting.help} (default {quote(default) if kind.name == 'string' else default})"
