"""Where the project lives in public, and the links that follow from it.

One setting. The first of these that is set counts:

1. the environment variable ``KCM_LITE_REPOSITORY``, as ``https://github.com/OWNER/NAME``
2. the git remote ``origin``, if it is on a public forge
3. ``repository.url`` in ``_config.yml``

While none is, a page tells how to run it locally instead of showing links that lead nowhere.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst.states import Inliner
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ConfigError

FORGES = {"github.com": "gh", "gitlab.com": "gl"}
"""Public forges, with Binder's abbreviation of each."""
ADDRESS = re.compile(
    r"(?:https://(?:[^@/\s]*@)?|(?:ssh://)?git@)"
    r"(?P<forge>[\w.-]+)[/:](?P<owner>[\w.-]+)/(?P<name>[\w.-]+?)(?:\.git)?/?"
)


@dataclass(frozen=True)
class Repository:
    """A public repository, and its addresses."""

    forge: str
    owner: str
    name: str
    branch: str = "main"

    @property
    def url(self) -> str:
        """The repository's own page."""
        return f"https://{self.forge}/{self.owner}/{self.name}"

    def source(self, path: str) -> str:
        """The page that shows a file."""
        return f"{self.url}{'/-' if self.forge == 'gitlab.com' else ''}/blob/{self.branch}/{path}"

    def binder(self, path: str) -> str:
        """Where Binder opens a notebook in JupyterLab."""
        project = f"{self.owner}{'%2F' if self.forge == 'gitlab.com' else '/'}{self.name}"
        kind = FORGES[self.forge]
        return f"https://mybinder.org/v2/{kind}/{project}/{self.branch}?urlpath=lab/tree/{path}"

    def colab(self, path: str) -> str | None:
        """Where Colab opens a notebook; it knows GitHub only."""
        if self.forge != "github.com":
            return None
        project = f"{self.owner}/{self.name}"
        return f"https://colab.research.google.com/github/{project}/blob/{self.branch}/{path}"


def parse(address: str, branch: str = "main") -> Repository | None:
    """The repository that an address names, as a browser or git writes it; no credentials.

    ``None`` if it is not on a forge that the public reaches.
    """
    match = ADDRESS.fullmatch(address.strip())
    if match is None or match["forge"] not in FORGES:
        return None
    return Repository(match["forge"], match["owner"], match["name"], branch)


def find(root: Path, configured: str, branch: str) -> Repository | None:
    """The project's public repository, or ``None`` while there is none.

    Raises:
        ConfigError: An address was set by hand, but it is none that the links can follow.
    """
    by_hand = os.environ.get("KCM_LITE_REPOSITORY", "")
    if not by_hand and (found := parse(remote(root), branch)):
        return found
    address = by_hand or configured
    found = parse(address, branch)
    if address and found is None:
        raise ConfigError(f"repository {address!r}: expected https://github.com/OWNER/NAME")
    return found


def remote(root: Path) -> str:
    """The address of git's ``origin``, empty if there is none."""
    try:
        command = ["git", "-C", str(root), "remote", "get-url", "origin"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:  # no git: a downloaded archive
        return ""


def configure(app: Sphinx, config: Config) -> None:
    """Find the repository, once; the theme's own links follow."""
    options: dict[str, Any] = config.html_theme_options
    found = find(
        Path(app.confdir),
        options.get("repository_url") or "",
        options.get("repository_branch") or "main",
    )
    options["repository_url"] = found.url if found else ""
    options["use_repository_button"] = found is not None
    config.add("kcm_repository", found, "env", ())
    config["kcm_repository"] = found


def launch_links(
    name: str,
    rawtext: str,
    text: str,
    lineno: int,
    inliner: Inliner,
    options: dict[str, Any] | None = None,
    content: list[str] | None = None,
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """The role ``{launch-links}`NN_name```: every way to run the notebook ``book/NN_name``."""
    env = inliner.document.settings.env
    path = f"book/{text}.ipynb"
    if not (Path(env.srcdir) / path).exists():
        message = inliner.reporter.warning(f"launch-links: there is no {path}", line=lineno)
        return [nodes.literal(rawtext, text)], [message]
    repository: Repository | None = env.config.kcm_repository
    depth = env.docname.count("/")
    links = [("Download the notebook", "../" * depth + f"_sources/{path}")]
    if repository:
        colab = repository.colab(path)
        links = [
            ("Run on Binder", repository.binder(path)),
            *([("Open in Colab", colab)] if colab else []),
            *links,
            ("Source", repository.source(path)),
        ]
    shown: list[nodes.Node] = []
    for label, address in links:
        shown += [nodes.reference("", label, refuri=address), nodes.Text(" · ")]
    if repository:
        shown.pop()
    else:
        shown += [nodes.Text("run it: "), nodes.literal("", "make lab"), nodes.Text(" in a clone")]
    return [nodes.inline("", "", *shown, classes=["kcm-launch"])], []
