"""The API reference: a page for each room, every module on it, so that no list can go stale."""

from __future__ import annotations

import pkgutil
import re
from typing import Any

import msgspec
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.ext.autodoc import ClassDocumenter, DataDocumenter
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import nested_parse_with_titles

import kcm_lite


def module_names(rooms: list[str]) -> list[str]:
    """The modules of some rooms, with the packages that say something themselves."""
    found = pkgutil.walk_packages(kcm_lite.__path__, f"{kcm_lite.__name__}.")
    return sorted(
        module.name
        for module in found
        if module.name.split(".")[1] in rooms and not module.name.rpartition(".")[2].startswith("_")
    )


class PackageModules(SphinxDirective):
    """``.. package-modules:: clock trace``: a section for each module, filled by autodoc."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Write the sections as reStructuredText and parse them."""
        lines = StringList()
        for name in module_names(self.arguments[0].split()):
            title = f"``{name}``"
            text = [title, "-" * len(title), "", f".. automodule:: {name}", "   :members:", ""]
            lines.extend(StringList(text, source=f"module {name}"))
        parent = nodes.section()
        parent.document = self.state.document
        nested_parse_with_titles(self.state, lines, parent, self.content_offset)
        return list(parent.children)


class StructDocumenter(ClassDocumenter):
    """Documents a frozen struct by its fields and defaults.

    Python's own signature of a struct evaluates its annotations, which may name what only a type
    checker imports.
    """

    objtype = "struct"
    directivetype = "class"
    priority = ClassDocumenter.priority + 1

    @classmethod
    def can_document_member(cls, member: Any, membername: str, isattr: bool, parent: Any) -> bool:
        """Whether a member is a struct."""
        return isinstance(member, type) and issubclass(member, msgspec.Struct)

    def format_signature(self, **kwargs: Any) -> str:
        """Name every field, with its default: ``(name, replicas=None)``."""
        names = self.object.__struct_fields__
        defaults = self.object.__struct_defaults__
        required = len(names) - len(defaults)
        shown = [*names[:required], *map(with_default, names[required:], defaults)]
        return f"({', '.join(shown)})"


class ConstantDocumenter(DataDocumenter):
    """Documents a constant, with its value only if that fits into a line."""

    def should_suppress_value_header(self) -> bool:
        """Whether to leave the value out; a table is for its source to show."""
        return super().should_suppress_value_header() or len(repr(self.object)) > 80


def with_default(name: str, default: Any) -> str:
    """A field as its definition has it; a default that is made anew each time shows its maker."""
    if default is msgspec.NODEFAULT:
        return name
    factory = getattr(default, "factory", None)
    return f"{name}={factory.__name__}()" if factory else f"{name}={default!r}"


def readable(
    _app: object, _what: str, _name: str, _obj: object, _options: object, args: str | None, to: str
) -> tuple[str | None, str]:
    """Replace ``<factory>`` and the like: Sphinx cannot parse them and shows every type in full."""
    return args and re.sub(r"<(?:[^<>]|<[^<>]*>)*>", "...", args), to
