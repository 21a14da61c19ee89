"""The book's Sphinx extension: pages that need neither a kernel nor another site.

- ``cells``: the badge of exported cells; plotly figures and Explorers as HTML
- ``mathml``: formulas as MathML, which browsers draw themselves
- ``repository``: where the project lives in public, and the launch links that follow from it
- ``reference``: the API reference, one entry for each module
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

import plotly
from myst_nb.core import render
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util.fileutil import copy_asset_file

import kcm_lite
from kcm_book import cells, mathml, reference, repository

HERE = Path(__file__).parent
PACKAGE = Path(kcm_lite.__file__).parent


def digest_of(*folders: Path) -> str:
    """A hash of every file of some folders, names included."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"{path.relative_to(folder).as_posix()}\0".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12]


def cache_by_package(app: Sphinx, config: Config) -> None:
    """Run the notebooks anew when the package or what they read changes.

    jupyter-cache looks at their cells only.

    The path is part of Sphinx's environment, so pages that Sphinx would keep are built anew too.
    """
    build = Path(app.outdir).parent
    book = Path(app.srcdir) / "book"
    read = digest_of(PACKAGE, book / "data", book / "cases")
    current = build / f".jupyter_cache-{read}"
    for old in build.glob(".jupyter_cache-*"):
        if old != current:
            shutil.rmtree(old)
    config.nb_execution_cache_path = str(current)


def show_version(app: Sphinx, config: Config) -> None:
    """Say on every page which version of the package its cells ran with."""
    config.version = config.release = kcm_lite.__version__
    config.html_theme_options["extra_footer"] = (
        f'<p class="kcm-version">kcm-lite {kcm_lite.__version__}; every output on this page '
        "was made by running its cell.</p>"
    )


def add_static_files(app: Sphinx, config: Config) -> None:
    """Serve the page script, the style sheet and the icon.

    They live here because Jupyter Book loads everything in a ``_static`` folder on every page.
    """
    config.html_static_path.append(str(HERE / "static"))
    config.html_favicon = str(HERE / "static" / "icon.svg")


FRONT_DOOR = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{title}</title>
<link rel="icon" href="_static/icon.svg">
<meta http-equiv="refresh" content="0; url={page}">
<p><a href="{page}">{title}</a></p>
"""


def finish_site(app: Sphinx, exception: Exception | None) -> None:
    """Add plotly's script, beside the page script that loads it, and a page that leads inside."""
    if exception is None and app.builder.format == "html":
        source = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
        copy_asset_file(str(source), str(Path(app.outdir) / "_static"))
        page = FRONT_DOOR.format(title=app.config.html_title, page=f"{app.config.root_doc}.html")
        (Path(app.outdir) / "index.html").write_text(page, encoding="utf-8")


def drop_thebe(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    """Leave out the scripts of sphinx-thebe, which fetch from another site."""
    context["script_files"] = [
        script
        for script in context["script_files"]
        if "thebe" not in str(getattr(script, "filename", script))
        and "THEBE" not in str(getattr(script, "attributes", {}).get("body"))
    ]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register everything with Sphinx."""
    os.environ["KCM_STATIC_BOOK"] = "1"  # the kernels inherit it; Explorer asks for it
    render.coalesce_streams = cells.join_streams
    if cells.FigureMime not in render.load_mime_renders():
        render.load_mime_renders().append(cells.FigureMime)
    app.add_post_transform(cells.ExportBadge)
    app.add_html_math_renderer("kcm_mathml", (mathml.inline, None), (mathml.block, None))
    app.add_role("launch-links", repository.launch_links)
    app.setup_extension("sphinx.ext.autodoc")
    app.add_autodocumenter(reference.StructDocumenter)
    app.add_autodocumenter(reference.ConstantDocumenter, override=True)
    app.connect("autodoc-process-signature", reference.readable)
    app.add_directive("package-modules", reference.PackageModules)
    app.add_js_file("kcm_book.js", loading_method="defer")
    app.add_css_file("kcm_book.css")
    for listener in (cache_by_package, show_version, add_static_files, repository.configure):
        app.connect("config-inited", listener)
    app.connect("html-page-context", drop_thebe, priority=900)
    app.connect("build-finished", finish_site, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
