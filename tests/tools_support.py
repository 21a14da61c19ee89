"""A notebook, and a tiny book, laid out for a test."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent


def write_notebook(path: Path, cells: list[dict[str, Any]]) -> None:
    """Write a notebook; each cell needs ``source``, and is code unless ``cell_type`` differs."""
    full = [{"cell_type": "code", "metadata": {}, **cell} for cell in cells]
    for cell in full:
        if cell["cell_type"] == "code":
            cell |= {"outputs": [], "execution_count": None}
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": kernel},
        "cells": full,
    }
    path.write_text(json.dumps(content), encoding="utf-8")


def code(cell_id: str, source: str, *tags: str) -> dict[str, Any]:
    """A code cell."""
    return {"id": cell_id, "source": source, "metadata": {"tags": list(tags)}}


def text(cell_id: str, source: str) -> dict[str, Any]:
    """A Markdown cell."""
    return {"id": cell_id, "source": source, "cell_type": "markdown"}


PAGE = [
    text(
        "t0", "# A page\n\n{launch-links}`page` · 5 minutes\n\nMath $\\frac{a}{b}$ and\n\n$$2^n$$"
    ),
    code("c1", "#| export room.thing\n\n\ndef exported() -> int:\n    return 1 < 2"),
    code(
        "c2",
        "import plotly.graph_objects as go\n"
        "from kcm_lite.viz.explorer import Control, Explorer\n"
        "from kcm_lite.viz.show import captioned, expect_error, table\n"
        "captioned(go.Figure(go.Scatter(y=[1, 2]), {'title': '</script>'}), 'It <grows>.')",
    ),
    code("c3", "go.Figure(go.Scatter(y=[1, 2]), {'title': 'Untitled & plain', 'height': 250})"),
    code(
        "c4",
        "Explorer(\n"
        "    lambda n, mode: go.Figure(go.Scatter(y=[n, 2 * n], mode=mode), {'height': 300}),\n"
        "    {'n': Control(range(5), label='how many', unit='ms'), 'mode': ['lines', 'markers']},\n"
        "    start={'n': 2},\n"
        "    caption='More is <more>.',\n"
        "    readout=lambda n, mode: f'{n} by {mode}\\nsecond line',\n"
        ")",
    ),
    code(
        "c5",
        "Explorer(None, {'x': ['a', 'b']}, caption='Text.', readout=lambda x: f'only text: {x}')",
    ),
    code(
        "c6", "with expect_error(ZeroDivisionError):\n    1 / 0\ntable([{'pod': 'web-1', 'n': 2}])"
    ),
    code("c7", "print('folded away')", "hide-cell"),
    code(
        "c8",
        "import sys, time\n"
        "for piece in ('one li', 'ne', '\\n', 'another\\n\\n', 'last'):\n"
        "    sys.stdout.write(piece); sys.stdout.flush(); time.sleep(0.05)\n",
    ),
]
INDEX = "# The start\n\nA word to look up: expectations. See [the page](page.ipynb).\n"


def lay_book(root: Path, page: list[dict[str, Any]] | None = None, index: str = INDEX) -> Path:
    """Lay a book of two pages, with this project's own configuration."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    config["sphinx"]["local_extensions"] = {"kcm_book": str(ROOT / "_ext")}
    (root / "book").mkdir()
    (root / "_config.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    toc = "format: jb-book\nroot: book/index\nchapters:\n- file: book/page\n"
    (root / "_toc.yml").write_text(toc, encoding="utf-8")
    (root / "book/index.md").write_text(index, encoding="utf-8")
    write_notebook(root / "book/page.ipynb", PAGE if page is None else page)
    return root


def build_book(root: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Build a book as ``make book`` does."""
    command = [
        str(Path(sys.executable).with_name("jupyter-book")),
        *["build", str(root), "-W", "-n", "--keep-going"],
    ]
    env = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False)
