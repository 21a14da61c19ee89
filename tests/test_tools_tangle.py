"""The exporter: what the notebooks say becomes the package, or is refused by name and cell."""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tools_support import write_notebook
from tools import tangle

Project = Callable[..., Path]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Lay a project of notebooks, each a list of code cells (the ids are c0, c1, ...)."""

    def lay(toc: str = "", **notebooks: list[str]) -> Path:
        (tmp_path / "book").mkdir(exist_ok=True)
        (tmp_path / "kcm_lite").mkdir(exist_ok=True)
        (tmp_path / "kcm_lite/__init__.py").write_text('"""The package."""\n')
        files = "".join(f"  - file: book/{name}\n" for name in notebooks)
        (tmp_path / "_toc.yml").write_text(
            toc or f"format: jb-book\nroot: book/index\nchapters:\n{files}"
        )
        for name, cells in notebooks.items():
            write_notebook(
                tmp_path / f"book/{name}.ipynb",
                [{"id": f"c{i}", "source": source} for i, source in enumerate(cells)],
            )
        return tmp_path

    return lay


def module(root: Path, name: str) -> str:
    return tangle.tangle(root)[tangle.module_path(name)]


def refusal(root: Path) -> str:
    with pytest.raises(tangle.Refused) as caught:
        tangle.tangle(root)
    return str(caught.value)


def run(root: Path, *arguments: str) -> int:
    return tangle.main(["--root", str(root), *arguments])


# What comes out


def test_a_module_has_header_docstring_imports_and_marked_cells(project: Project) -> None:
    root = project(
        a=[
            '#| export room.thing\n"""What it is."""\nimport os\n\n\ndef f() -> str:\n'
            "    return os.sep\n",
            "print('not exported')",
            "#| export room.thing\nX = 1",
        ]
    )
    assert module(root, "room.thing") == (
        "# Generated from book/a.ipynb by tools/tangle.py; edit it there.\n\n"
        '"""What it is."""\n\nimport os\n\n\n'
        "# %% book/a.ipynb#c0\ndef f() -> str:\n    return os.sep\n\n\n"
        "# %% book/a.ipynb#c2\nX = 1\n"
    )


def test_the_docstring_is_the_modules_own(project: Project) -> None:
    root = project(a=['#| export m\n"""What it is."""\nX = 1'])
    assert ast.get_docstring(ast.parse(module(root, "m"))) == "What it is."


def test_the_source_may_be_a_list_of_lines(project: Project) -> None:
    root = project(a=[])
    write_notebook(root / "book/a.ipynb", [{"id": "x", "source": ["#| export m\n", "X = 1"]}])
    assert "X = 1" in module(root, "m")


def test_order_is_the_tables_not_the_names(project: Project) -> None:
    toc = (
        "format: jb-book\nroot: book/z\nparts:\n- caption: One\n  chapters:\n"
        "  - file: book/y\n    sections:\n    - file: book/b\n- caption: Two\n"
        "  chapters:\n  - file: book/a.ipynb\n"
    )
    root = project(toc, **{name: [f"#| export m\nN = '{name}'"] for name in ("a", "b", "y", "z")})
    code = module(root, "m")
    assert [line[-2] for line in code.splitlines() if line.startswith("N =")] == list("zyba")
    assert "Generated from book/z.ipynb, book/y.ipynb, book/b.ipynb, book/a.ipynb by" in code


def test_several_modules_of_one_notebook(project: Project) -> None:
    root = project(a=["#| export m\nX = 1", "#| export room.n\nY = 2", "#| export m\nZ = 3"])
    assert {path.as_posix() for path in tangle.tangle(root)} == {
        "kcm_lite/__init__.py",
        "kcm_lite/m.py",
        "kcm_lite/room/__init__.py",
        "kcm_lite/room/n.py",
    }
    assert "Z = 3" in module(root, "m") and "Y" not in module(root, "m")


def test_imports_are_hoisted_merged_and_sorted(project: Project) -> None:
    root = project(
        a=["#| export m\nfrom heapq import heappush\nX = 1", "#| export m\nimport ast\nY = 2"],
        b=["#| export m\nfrom heapq import heappop, heappush\nimport ast\nZ = 3"],
    )
    before, _, after = module(root, "m").partition("# %%")
    assert before.split("\n\n")[1:] == ["import ast\nfrom heapq import heappop, heappush", ""]
    assert "import" not in after


def test_a_future_import_comes_first(project: Project) -> None:
    root = project(
        a=[
            "#| export m\nimport ast\nX = 1",
            "#| export m\nfrom __future__ import annotations\nY = 1",
        ]
    )
    compile(module(root, "m"), "m", "exec")


def test_comments_move_with_their_import(project: Project) -> None:
    root = project(
        a=[
            "#| export m\nX = 1\n\n# heaps\n# are fast\nfrom heapq import heappush\n"
            "import ast  # syntax\n\n# about Y\nY = 2"
        ]
    )
    before, _, after = module(root, "m").partition("# %%")
    assert "# heaps\n# are fast\nfrom heapq import heappush" in before
    assert "import ast  # syntax" in before
    assert "# about Y\nY = 2" in after and "heaps" not in after


def test_a_string_that_looks_like_a_comment_stays_whole(project: Project) -> None:
    root = project(a=['#| export m\nX = """\n# no comment"""\nimport ast\nY = 1'])
    assert 'X = """\n# no comment"""' in module(root, "m")


def test_multi_line_imports_move_whole(project: Project) -> None:
    root = project(a=["#| export m\nfrom heapq import (\n    heappop,\n    heappush,\n)\nX = 1"])
    before, _, after = module(root, "m").partition("# %%")
    assert "from heapq import (\n    heappop,\n    heappush,\n)\n" in before
    assert after == " book/a.ipynb#c0\nX = 1\n"


def test_imports_for_type_checkers_are_merged_too(project: Project) -> None:
    guard = "#| export m\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    "
    root = project(
        a=[
            guard + "from kcm_lite.z import Z\n    from kcm_lite.m import X\nX = 1",
            guard + "# why\n    from kcm_lite.a import A\nY = 2",
        ]
    )
    before, _, after = module(root, "m").partition("# %%")
    assert (
        "if TYPE_CHECKING:\n    # why\n    from kcm_lite.a import A\n    from kcm_lite.z import Z\n"
        in before
    )
    assert "TYPE_CHECKING" not in after and "kcm_lite.m" not in before


def test_self_imports_are_dropped(project: Project) -> None:
    root = project(
        a=["#| export room.m\nX = 1", "#| export room.m\nfrom kcm_lite.room.m import X\nY = X"]
    )
    assert "import" not in module(root, "room.m")


def test_imports_in_functions_stay(project: Project) -> None:
    root = project(a=["#| export m\ndef f():\n    import ast\n    return ast"])
    assert "def f():\n    import ast" in module(root, "m")


def test_names_may_repeat_in_different_modules(project: Project) -> None:
    root = project(a=["#| export m\ndef f(): ...", "#| export n\ndef f(): ..."])
    assert "def f" in module(root, "m") and "def f" in module(root, "n")


def test_ruff_uses_the_projects_settings(project: Project) -> None:
    root = project(a=["#| export m\nX = [" + ", ".join(["111111"] * 12) + "]"])
    assert "X = [\n" in module(root, "m")
    (root / "pyproject.toml").write_text("[tool.ruff]\nline-length = 100\n")
    assert "X = [111111" in module(root, "m")


# Writing and checking


def test_write_then_check_is_clean_and_writing_again_changes_nothing(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    root = project(a=["#| export room.deep.m\nX = 1"])
    assert run(root, "--check") == 1
    assert not (root / "kcm_lite/room").exists(), "a check writes nothing"
    assert run(root) == 0
    assert (root / "kcm_lite/room/deep/__init__.py").read_text() == ""
    assert (root / "kcm_lite/room/__init__.py").exists()
    assert (root / "kcm_lite/__init__.py").read_text() == '"""The package."""\n'
    capsys.readouterr()
    assert run(root) == run(root, "--check") == 0
    assert capsys.readouterr().out == ""


def test_check_prints_a_diff(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    root = project(a=["#| export m\nX = 1"])
    run(root)
    path = root / "kcm_lite/m.py"
    path.write_text(path.read_text().replace("X = 1", "X = 2"))
    capsys.readouterr()
    assert run(root, "--check") == 1
    out = capsys.readouterr().out
    assert "-X = 2\n+X = 1\n" in out and "kcm_lite/m.py" in out
    assert "X = 2" in path.read_text()


def test_a_generated_module_without_cells_is_stale(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    root = project(a=["#| export m\nX = 1", "#| export n\nY = 1"])
    (root / "kcm_lite/by_hand.py").write_text("Z = 1\n")
    run(root)
    project(a=["#| export m\nX = 1"])
    assert run(root, "--check") == 1
    assert "kcm_lite/n.py: stale" in capsys.readouterr().out
    assert run(root) == 0
    assert not (root / "kcm_lite/n.py").exists()
    assert (root / "kcm_lite/by_hand.py").exists()
    assert run(root, "--check") == 0


def test_a_missing_init_is_drift(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    root = project(a=["#| export room.m\nX = 1"])
    run(root)
    (root / "kcm_lite/room/__init__.py").unlink()
    assert run(root, "--check") == 1
    assert "kcm_lite/room/__init__.py: missing" in capsys.readouterr().out


def test_nothing_is_written_when_anything_is_refused(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    root = project(a=["#| export m\nX = 1", "#| export n\nX = ("])
    assert run(root) == run(root, "--check") == 2
    assert not (root / "kcm_lite/m.py").exists()
    assert "book/a.ipynb#c1: line 1" in capsys.readouterr().err


# What is refused

FIRST = "#| export ok\nX = 1"


@pytest.mark.parametrize(
    ("cell", "complaint"),
    [
        ("#| export m\nimport ast; x = 1", "line 1: an import shares its line"),
        ("#| export m\nx = 1; import ast", "line 1: an import shares its line"),
        ("#| export m\nimport ast; import os", "line 1: an import shares its line"),
        ("#| export m\nX = 1\nfrom heapq import (\n heappop); y = 1", "line 2: an import shares"),
        (
            "#| export m\nif TYPE_CHECKING:\n    import ast; import os",
            "line 1: an import shares its line",
        ),
        ("#| export m\ndef f(:\n    pass", "line 1: invalid syntax"),
        ("#| export m\n%timeit 1", "line 1: invalid syntax"),
        ("#| export m\nawait f()", "'await' outside function"),
        ("#| export m\nreturn 1", "'return' outside function"),
        ("#| export", "'#| export' is no directive here"),
        ("#| export a b\nX = 1", "'#| export a b' is no directive here"),
        ("#| exports m\nX = 1", "'#| exports m' is no directive here"),
        ("# | export m\nX = 1", "'# | export m' is no directive here"),
        ("#| Export m\nX = 1", "'#| Export m' is no directive here"),
        ("#| hide\nX = 1", "'#| hide' is no directive here"),
        ("X = 1\n#| export m", "'#| export m' is no directive here"),
        ("\n#| export m\nX = 1", "'#| export m' is no directive here"),
        ("#| export m\n#| export n\nX = 1", "'#| export n' is no directive here"),
        ("#| export ../m\nX = 1", "'#| export ../m' is no directive here"),
        ("#| export .m\nX = 1", "'#| export .m' is no directive here"),
        ("#| export a..m\nX = 1", "'#| export a..m' is no directive here"),
        ("#| export a/m\nX = 1", "'#| export a/m' is no directive here"),
        ("#| export /tmp/m\nX = 1", "'#| export /tmp/m' is no directive here"),
        ("#| export client.__init__\nX = 1", "is no directive here"),
        ("#| export kcm_lite.m\nX = 1", "leave out 'kcm_lite.'"),
        ("#| export room.class\nX = 1", "outside kcm_lite: no import can name it"),
        ("#| export by_hand\nX = 1", "kcm_lite/by_hand.py is written by hand"),
        ("#| export by_hand.m\nX = 1", "would lie below the module kcm_lite/by_hand.py"),
        ("#| export ok.m\nX = 1", "would lie below the module kcm_lite/ok.py"),
        ("#| export here\nX = 1", "kcm_lite/here.py would hide the package kcm_lite/here/"),
        ("#| export m\nimport kcm_lite.m", "import cycle: kcm_lite.m (book/a.ipynb#c1) imports"),
        ("#| export m\nfrom kcm_lite.m import X as Y", "import cycle: kcm_lite.m"),
        ("#| export a.m\nfrom kcm_lite.a import m", "import cycle: kcm_lite.a.m"),
    ],
)
def test_refused_with_notebook_and_cell(project: Project, cell: str, complaint: str) -> None:
    root = project(a=[FIRST, cell])
    (root / "kcm_lite/by_hand.py").write_text("Y = 1\n")
    (root / "kcm_lite/here").mkdir()
    message = refusal(root)
    assert complaint in message
    assert "book/a.ipynb#c1" in message
    assert "#c0" not in message
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize(
    ("cells", "complaint"),
    [
        ([{"id": "a", "source": ""}, {"source": "X = 1"}], "book/a.ipynb, cell 1: no id"),
        ([{"id": "", "source": "X = 1"}], "book/a.ipynb, cell 0: no id"),
        (
            [{"id": "a", "source": ""}, {"id": "a", "source": FIRST}],
            "book/a.ipynb#a: the id of cell 1 is taken already",
        ),
        ([{"cell_type": "markdown", "source": "# Title"}], "book/a.ipynb, cell 0: no id"),
    ],
)
def test_cell_ids_are_there_and_unique(
    project: Project, cells: list[dict[str, object]], complaint: str
) -> None:
    root = project(a=[])
    write_notebook(root / "book/a.ipynb", cells)
    assert refusal(root) == complaint


def test_every_problem_is_told_at_once(project: Project) -> None:
    root = project(a=["#| export m\nX = ("], b=["#| exprot n\nX = 1"])
    assert [line.split(":")[0] for line in refusal(root).splitlines()] == [
        "book/b.ipynb#c0",
        "book/a.ipynb#c0",
    ]


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"cells": [{"source": 1}]}'])
def test_a_file_that_is_no_notebook(project: Project, content: str) -> None:
    root = project(a=[])
    (root / "book/a.ipynb").write_text(content)
    assert refusal(root).startswith("book/a.ipynb: not a notebook")


@pytest.mark.parametrize("toc", ["chapters: [", None])
def test_no_table_of_contents(
    project: Project, toc: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    root = project(toc or "")
    if toc is None:
        (root / "_toc.yml").unlink()
    assert run(root) == 2
    assert capsys.readouterr().err.startswith("_toc.yml: ")


def test_a_notebook_that_the_table_of_contents_forgot(project: Project) -> None:
    root = project("format: jb-book\nroot: book/index\n", a=[FIRST], b=["X = 1"])
    assert refusal(root) == "book/a.ipynb: exports code, but _toc.yml does not list it"


def test_a_definition_in_two_cells_of_a_module(project: Project) -> None:
    root = project(a=["#| export m\nclass C: ..."], b=["#| export m\nclass C: ..."])
    assert refusal(root) == "book/b.ipynb#c0: C is defined already, in book/a.ipynb#c0"


def test_an_import_cycle_over_three_modules(project: Project) -> None:
    root = project(
        a=["#| export m\nfrom kcm_lite.room.n import X", "#| export room.n\nimport kcm_lite.hand"]
    )
    (root / "kcm_lite/hand.py").write_text("try:\n    from kcm_lite import m\nfinally:\n    pass\n")
    assert refusal(root) == (
        "import cycle: kcm_lite.m (book/a.ipynb#c0) imports kcm_lite.room.n (book/a.ipynb#c1) "
        "imports kcm_lite.hand (kcm_lite/hand.py) imports kcm_lite.m"
    )


def test_late_and_typing_imports_make_no_cycle(project: Project) -> None:
    root = project(
        a=[
            "#| export m\nfrom kcm_lite.n import X",
            "#| export n\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n"
            "    from kcm_lite.m import Y\nX = 1\ndef f():\n    import kcm_lite.m",
        ]
    )
    assert "from kcm_lite.n import X" in module(root, "m")
