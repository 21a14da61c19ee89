"""The API reference: every module of the package, so that no list can go stale."""

from __future__ import annotations

import pkgutil

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import nested_parse_with_titles

import kcm_lite


def module_names() -> list[str]:
    """The importable modules of the package, private ones left out."""
    found = pkgutil.walk_packages(kcm_lite.__path__, f"{kcm_lite.__name__}.")
    names = sorted(module.name for module in found)
    return [name for name in names if not any(part.startswith("_") for part in name.split("."))]


class PackageModules(SphinxDirective):
    """``.. package-modules::``, a section for each module, filled by autodoc."""

    def run(self) -> list[nodes.Node]:
        """Write the sections as reStructuredText and parse them."""
        lines = StringList()
        for name in module_names():
            title = f"``{name}``"
            text = [title, "-" * len(title), "", f".. automodule:: {name}", "   :members:", ""]
            lines.extend(StringList(text, source=f"module {name}"))
        parent = nodes.section()
        parent.document = self.state.document
        nested_parse_with_titles(self.state, lines, parent, self.content_offset)
        return list(parent.children)
