"""The pages without cells: glossary and deviations say nothing that is not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
BOOK = ROOT / "book"


def lines(page: str, start: str) -> list[str]:
    found = [
        x for x in (BOOK / page).read_text(encoding="utf-8").splitlines() if x.startswith(start)
    ]
    assert found
    return found


def test_every_deviation_names_a_test_that_exists() -> None:
    for line in lines("deviations.md", "  Test: "):
        named = re.findall(r"tests/[\w/]+\.py", line)
        assert named, line
        text = "".join((ROOT / path).read_text(encoding="utf-8") for path in named)
        for test in re.findall(r"\btest_\w+", re.sub(r"tests/[\w/]+\.py", "", line)):
            assert f"def {test}(" in text, f"{test} is not in {named}"


def test_every_glossary_entry_has_its_chinese_word_and_a_chapter() -> None:
    for line in lines("glossary.md", ": "):
        assert re.match(r": [^.]*[\u4e00-\u9fff]", line), line
        (chapter,) = re.findall(r"See \[[^\]]+\]\((\w+)\)\.$", line)
        assert (BOOK / f"{chapter}.ipynb").exists(), line


def files(node: object) -> list[str]:
    if isinstance(node, dict):
        own = [v for k, v in node.items() if k in ("root", "file")]
        return own + [f for v in node.values() for f in files(v)]
    return [f for v in node for f in files(v)] if isinstance(node, list) else []


def test_every_page_is_in_the_table_of_contents() -> None:
    toc = files(yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8")))
    pages = {f"book/{p.stem}" for p in BOOK.iterdir() if p.suffix in (".ipynb", ".md")}
    assert set(toc) == pages
    assert len(toc) == len(set(toc))


@pytest.mark.parametrize("page", ["glossary.md", "deviations.md"])
def test_pages_link_only_to_pages_that_exist(page: str) -> None:
    for target in re.findall(r"\]\((\w+)\)", (BOOK / page).read_text(encoding="utf-8")):
        assert (BOOK / f"{target}.ipynb").exists() or (BOOK / f"{target}.md").exists(), target
