"""The pages before they are built: nothing that is not there, and every part that must be."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml

ROOT = Path(__file__).parents[1]
BOOK = ROOT / "book"
NOTEBOOKS: dict[str, Any] = {
    path.stem: nbformat.read(path, as_version=4) for path in sorted(BOOK.glob("*.ipynb"))
}
PARTS = (
    "**You will be able to**",
    "## Synopsis",
    "## In Kubernetes",
    "## Contract",
    "## Quiz",
    "## Exercises",
    "## Lessons",
)
"""What a chapter must have; its order is in CONTRIBUTING."""
WITHOUT = {
    "09c_rollout_surprises": {"## In Kubernetes"},  # its neighbours say it
    "12_cases": {"## In Kubernetes", "## Contract", "## Exercises"},  # a collection
    "91_pods": {"## Quiz", "## Exercises"},  # an appendix
}
FIGURES = {"10_expectations": 4, "11a_garbage_collection": 4}
"""How many figures a page may have where it is more than three."""


def cells(page: str, kind: str) -> list[str]:
    return [cell.source for cell in NOTEBOOKS[page].cells if cell.cell_type == kind]


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
    """Terms in order, each above an indented line and below an empty one."""
    body = (BOOK / "glossary.md").read_text(encoding="utf-8").split(":::")[1].splitlines()[1:]
    terms, meanings, between = body[::3], body[1::3], body[2::3]
    assert len(terms) == len(meanings) == len(between) + 1 > 100 and not any(between)
    assert [x.lower() for x in terms] == sorted({x.lower() for x in terms})
    assert not [x for x in terms if x.startswith((" ", ":"))]
    for line in meanings:
        assert re.match(r"  [^ .:][^.]*", line) and re.match(r"[^.]*[\u4e00-\u9fff]", line), line
        (chapter,) = re.findall(r"See \[[^\]]+\]\((\w+)\)\.$", line)
        assert (BOOK / f"{chapter}.ipynb").exists(), line
        assert chapter not in terms, f"a link to {chapter} could mean the term"


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


@pytest.mark.parametrize("page", sorted(NOTEBOOKS.keys() - {"index", "fidelity"}))
def test_a_chapter_has_all_its_parts(page: str) -> None:
    text = "\n" + "\n".join(cells(page, "markdown"))
    assert {part for part in PARTS if f"\n{part}" not in text} == WITHOUT.get(page, set())


@pytest.mark.parametrize("page", NOTEBOOKS)
def test_a_page_opens_itself_and_says_how_long_it_takes(page: str) -> None:
    first = cells(page, "markdown")[0]
    assert re.findall(r"\{launch-links\}`(\w+)`", first) == [page]
    assert re.search(r"\d+ minutes", first)


@pytest.mark.parametrize("page", NOTEBOOKS)
def test_no_cell_echoes_a_docstring(page: str) -> None:
    """A notebook shows the value of a cell's last line: the string below a constant, too."""
    for source in cells(page, "code"):
        last = ast.parse(source).body[-1]
        assert not (isinstance(last, ast.Expr) and isinstance(last.value, ast.Constant)), source


@pytest.mark.parametrize("page", NOTEBOOKS)
def test_a_page_has_few_figures_and_each_states_its_finding(page: str) -> None:
    calls = [
        node
        for source in cells(page, "code")
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("captioned", "Explorer")
    ]
    assert len(calls) <= FIGURES.get(page, 3)
    for call in calls:
        named = [keyword.value for keyword in call.keywords if keyword.arg == "caption"]
        caption = ast.unparse((named or call.args[1:])[0])
        assert re.search(r"""\w+ .*\.['"]$""", caption), f"no sentence: {caption}"


@pytest.mark.parametrize("page", NOTEBOOKS)
def test_no_line_of_a_figure_is_nearly_black(page: str) -> None:
    """On a dark page it would vanish; dark text in a light box may stay."""
    for source in cells(page, "code"):
        code = re.sub(r"""font["']?[=:] ?\{[^}]*\}""", "", source)
        assert not re.search(r"""["'](black|#000|#000000|#333|#333333|#444|#444444)["']""", code)


@pytest.mark.parametrize("page", NOTEBOOKS)
def test_a_dollar_is_a_formula_or_code(page: str) -> None:
    """Two dollars in a line of prose make a formula of what stands between them."""
    for text in cells(page, "markdown"):
        prose = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)
        for formula in re.findall(r"\$([^$]*)\$", prose):
            assert not re.search(r"[a-z]{3,} [a-z]{2,}", formula), formula
        assert prose.count("$") % 2 == 0
