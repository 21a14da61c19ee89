# Generated from book/02_options.ipynb by tools/tangle.py; edit it there.

"""A setting: a field of a configuration, with its flag, its default and its type."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar, get_type_hints

from kcm_lite.manager.govalues import DURATION, Kind

# %% book/02_options.ipynb#dd4873db
T = TypeVar("T")
G = TypeVar("G", bound="Group")


@dataclass(eq=False)
class Setting(Generic[T]):
    """A field of a `Group`: one row of the table of flags.

    Without a name for the flag, no flag sets it. A hidden flag works, and the help is silent.
    """

    kind: Kind[T]
    flag: str
    default: T
    help: str = ""
    section: str = field(default="", kw_only=True)
    short: str = field(default="", kw_only=True)
    hidden: bool = field(default=False, kw_only=True)

    def __set_name__(self, owner: type[Group], name: str) -> None:
        self.name = name

    def __get__(self, group: Group | None, owner: Any) -> T:
        return self if group is None else group.__dict__[self.name]  # type: ignore[return-value]

    def __set__(self, group: Group, value: T) -> None:
        group.__dict__[self.name] = value


# %% book/02_options.ipynb#c4f1eabf
class Group:
    """Settings that belong together, and groups inside of it.

    >>> class Web(Group, section="web"):
    ...     replicas = Setting(INT32, "replicas", 2, "How many")
    >>> Web().replicas
    2
    """

    section: ClassVar[str] = ""

    def __init_subclass__(cls, section: str = "") -> None:
        cls.section = section
        for setting in cls.settings():
            setting.section = setting.section or section

    def __init__(self) -> None:
        for setting in self.settings():
            self.__dict__[setting.name] = copy.copy(setting.default)
        for name, kind in self.parts().items():
            self.__dict__[name] = kind()

    @classmethod
    def settings(cls) -> list[Setting[Any]]:
        """Return its own settings, in the table's order."""
        return [value for value in vars(cls).values() if isinstance(value, Setting)]

    @classmethod
    @cache
    def parts(cls) -> dict[str, type[Group]]:
        """Return the groups inside of it: its annotated attributes."""
        found = get_type_hints(cls)
        return {name: found[name] for name in found if name != "section"}

    def walk(self) -> Iterator[tuple[Group, Setting[Any]]]:
        """Yield every setting with its group, those inside included."""
        yield from ((self, setting) for setting in self.settings())
        for name in self.parts():
            yield from getattr(self, name).walk()


# %% book/02_options.ipynb#9cacded3
ACRONYMS = "API CA CIDR CIDRs CPU CSR GC HPA IPAM IPv4 IPv6 NFS PV QPS RC RS SA TTL"
SPELLED = {word.lower(): word for word in ACRONYMS.split()}


def go_name(name: str) -> str:
    """Return a field's name as Go spells it: ``concurrent_rs_syncs`` is ``ConcurrentRSSyncs``."""
    return "".join(SPELLED.get(word, word.capitalize()) for word in name.split("_"))


def to_wire(setting: Setting[Any], value: Any) -> Any:
    """Return a value as the versioned form has it: durations are texts."""
    return setting.kind.format(value) if setting.kind is DURATION else copy.copy(value)


def set_defaults(kind: type[Group], versioned: Mapping[str, Any]) -> dict[str, Any]:
    """Return a versioned configuration with what it leaves open filled in."""
    out = dict(versioned)
    for setting in kind.settings():
        out.setdefault(go_name(setting.name), to_wire(setting, setting.default))
    for name, part in kind.parts().items():
        out[go_name(name)] = set_defaults(part, out.get(go_name(name), {}))
    return out


# %% book/02_options.ipynb#15e45843
def to_internal(kind: type[G], versioned: Mapping[str, Any]) -> G:
    """Return the internal form of a versioned configuration that is complete."""
    group = kind()
    for setting in kind.settings():
        value = versioned[go_name(setting.name)]
        value = setting.kind.parse(value) if setting.kind is DURATION else copy.copy(value)
        group.__dict__[setting.name] = value
    for name, part in kind.parts().items():
        group.__dict__[name] = to_internal(part, versioned[go_name(name)])
    return group


def to_versioned(group: Group) -> dict[str, Any]:
    """Return the versioned form, which ``/configz`` serves."""
    out = {go_name(s.name): to_wire(s, getattr(group, s.name)) for s in group.settings()}
    return out | {go_name(name): to_versioned(getattr(group, name)) for name in group.parts()}
