# Generated from book/02_options.ipynb by tools/tangle.py; edit it there.

"""Validate: everything that is wrong with the options, found before anything is opened.

See: chapter *Options to config*, *Every error, not the first*; upstream ``Validate``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kcm_lite.api.golang import aggregate, quote, to_json
from kcm_lite.manager.flags import nearest


# %% book/02_options.ipynb#b1b47a1b
@dataclass(frozen=True)
class Problem:
    """Something wrong with the options.

    Attributes:
        message: In upstream's words.
        flag: Whose value it is.
        hint: What was perhaps meant.
        value: What the command line says for the flag.
    """

    message: str
    flag: str = ""
    hint: str = ""
    value: str = ""

    def __str__(self) -> str:
        text = f"--{self.flag}={self.value}: {self.message}" if self.flag else self.message
        return f"{text} ({self.hint})" if self.hint else text


# %% book/02_options.ipynb#bd327b47
class InvalidOptions(ValueError):
    """The options, or what they name, cannot be used; nothing has been started.

    Attributes:
        problems: All that is wrong.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        super().__init__(aggregate(problem.message for problem in self.problems))


@dataclass(frozen=True)
class Names:
    """The controllers' names, as validation needs them.

    Attributes:
        known: Full names.
        aliases: Older name to full name.
    """

    known: Collection[str]
    aliases: Mapping[str, str]

    def canonical(self, entry: str) -> str:
        """Return an entry of ``--controllers`` with the full name; a leading ``-`` stays."""
        sign, name = ("-", entry[1:]) if entry.startswith("-") else ("", entry)
        return sign + self.aliases.get(name, name)


# %% book/02_options.ipynb#f834b57f
Values = Mapping[str, Any]
"""Values by flag."""

Check = Callable[[Values, Names], Iterable[Problem]]


def refuse(flag: str, wrong: Callable[[Any], object], text: str) -> Check:
    """Return a check of one flag.

    Args:
        flag: Whose value is looked at.
        wrong: What is wrong with a value; nothing, if it is false.
        text: The message, with the flag, its value ``v``, as JSON ``q``, and what is ``wrong``.
    """

    def check(values: Values, names: Names) -> Iterator[Problem]:
        value = values[flag]
        if found := wrong(value):
            message = text.format(flag=flag, v=value, q=to_json(value), wrong=found)
            yield Problem(message, flag)

    return check


def positive(flag: str, text: str = "{flag} must be greater than 0, but got {v}") -> Check:
    """Return a check that a flag is at least 1."""
    return refuse(flag, lambda v: v < 1, text)


# %% book/02_options.ipynb#30e61be9
def between(flag: str, most: int) -> Iterator[Check]:
    """Yield checks that a flag is at least 1 and not too large."""
    yield positive(flag, "{flag} must not be less than 1, but got {v}")
    yield refuse(flag, lambda v: v > most, f"{{flag}} must not be more than {most}, but got {{v}}")


def controllers_are_known(values: Values, names: Names) -> Iterator[Problem]:
    """Every entry of ``--controllers`` names a controller, by its old or its new name."""
    for entry in values["controllers"]:
        if entry != "*" and names.canonical(entry).removeprefix("-") not in names.known:
            name = entry.removeprefix("-")
            text = f"{quote(name)} is not in the list of known controllers"
            yield Problem(text, "controllers", nearest(name, [*names.known, *names.aliases]))


def find_problems(checks: Iterable[Check], values: Values, names: Names) -> list[Problem]:
    """Return what every check has to say: all of it, not the first."""
    return [problem for check in checks for problem in check(values, names)]


# %% book/02_options.ipynb#9cb326cb
def insecure_port_is_zero(values: Values, names: Names) -> Iterator[Problem]:
    """1.22's check of a flag that no longer exists."""
    if values["port"] != 0:
        yield Problem(f"invalid port value {values['port']}: only zero is allowed", "port")
