"""The outputs do not depend on chance: run again with another hash seed, they are the same."""

import json
import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.tools_support import ROOT

pytestmark = pytest.mark.book

NOTEBOOKS = sorted(path.name for path in (ROOT / "book").glob("*.ipynb"))


def outputs(notebook: Any) -> list[list[str]]:
    """What each code cell shows; streams of one cell joined, as the kernel cuts them at will."""
    shown = []
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        text: dict[str, str] = {}
        for output in cell.outputs:
            if output.output_type == "stream":
                text[output.name] = text.get(output.name, "") + output.text
        rest = [output.data for output in cell.outputs if "data" in output]
        streams = {name: content.rstrip() for name, content in text.items()}
        shown.append([json.dumps(part, sort_keys=True) for part in (streams, rest) if part])
    return shown


@pytest.mark.parametrize("name", NOTEBOOKS)
@pytest.mark.filterwarnings("ignore")  # of the kernel's client, not of the notebooks
def test_a_second_run_shows_the_same(site: Path, name: str) -> None:
    built = nbformat.read(site.parent / "jupyter_execute/book" / name, as_version=4)
    again = nbformat.read(ROOT / "book" / name, as_version=4)
    client = NotebookClient(
        again, timeout=300, kernel_name="python3", resources={"metadata": {"path": ROOT / "book"}}
    )
    seeds = {"PYTHONHASHSEED": "12345", "KCM_STATIC_BOOK": "1"}
    client.execute(env={**os.environ, **seeds})
    for cell, (first, second) in enumerate(zip(outputs(built), outputs(again), strict=True)):
        assert first == second, f"code cell {cell}"
