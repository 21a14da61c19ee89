"""The Sphinx extension, on a tiny book: what is on the page, and what fails the build."""

import ast
import json
import re
import sys
from html import unescape
from pathlib import Path
from typing import Any

import msgspec
import pytest
from docutils import nodes
from docutils.core import publish_doctree
from nbformat import NotebookNode, from_dict
from sphinx.errors import ConfigError

import kcm_lite
from tests.tools_support import INDEX, PAGE, ROOT, build_book, code, lay_book, text

sys.path.append(str(ROOT / "_ext"))
from kcm_book import cells, digest_of, reference, repository


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny book, built with a public repository that is known."""
    root = lay_book(tmp_path_factory.mktemp("book"))
    done = build_book(root, KCM_LITE_REPOSITORY="https://github.com/someone/kcm-lite")
    assert done.returncode == 0, done.stderr
    return root / "_build/html"


@pytest.fixture(scope="module")
def page(site: Path) -> str:
    return (site / "book/page.html").read_text(encoding="utf-8")


def specs(page: str, kind: str) -> list[dict[str, Any]]:
    """The data of the page's figures or Explorers."""
    figures = re.findall(rf'<figure class="{kind}">(.*?)</figure>', page, re.DOTALL)
    found = [re.search(r'<script type="application/json">(.*?)</script>', f) for f in figures]
    return [json.loads(match[1]) for match in found if match]


# What is on the page


def test_an_exported_cell_has_a_badge_instead_of_its_directive(page: str) -> None:
    badge = re.search(r'<p class="kcm-export">(.*?)</p>', page)
    assert badge is not None
    assert re.sub("<.*?>", "", badge[1]) == "exported to kcm_lite/room/thing.py"
    assert "github.com/someone/kcm-lite/blob/main/kcm_lite/room/thing.py" in badge[1]
    assert "#| export" not in page and "#|" not in page
    assert page.count('class="kcm-export"') == 1
    assert '<pre><span></span><span class="k">def</span>' in page, "no blank lines are left on top"


def test_a_figure_is_data_in_the_page(page: str) -> None:
    captioned, plain = specs(page, "kcm-figure")
    assert captioned["data"] == [{"y": [1, 2], "type": "scatter"}]
    assert "<figcaption>It &lt;grows&gt;.</figcaption>" in page
    assert 'aria-label="It &lt;grows&gt;." style="height: 380px"' in page
    assert 'aria-label="Untitled &amp; plain" style="height: 250px"' in page
    assert plain["layout"]["title"]["text"] == "Untitled & plain"


def test_a_figure_cannot_end_its_script(page: str) -> None:
    assert specs(page, "kcm-figure")[0]["layout"]["title"]["text"] == "</script>"


def test_a_figure_leaves_most_of_its_template_behind(page: str) -> None:
    layout = specs(page, "kcm-figure")[0]["layout"]
    assert list(layout["template"]) == ["layout"]
    assert len(layout["template"]["layout"]["colorway"]) == 10
    assert len(json.dumps(layout)) < 2000


def test_an_explorer_has_form_fields_with_labels(page: str) -> None:
    assert (
        '<label><span>how many</span><input type="range" min="0" max="4" step="1" value="2" '
        'autocomplete="off" aria-valuetext="2 ms">' in page
    )
    assert (
        '<label><span>mode</span><select autocomplete="off"><option selected>lines</option>'
        "<option>markers</option></select></label>" in page
    )
    assert "<figcaption>More is &lt;more&gt;.</figcaption>" in page
    assert '<pre class="kcm-readout" role="status">2 by lines\nsecond line</pre>' in page


def test_an_explorer_has_a_point_for_every_choice(page: str) -> None:
    spec, text_only = specs(page, "kcm-explorer")
    assert len(spec["points"]) == 10
    point = spec["points"][3 * 2 + 1]  # n = 3, mode = markers
    assert point["readout"].startswith("3 by markers")
    assert spec["traces"][point["data"][0]]["y"] == [3, 6]
    assert spec["layouts"] == [{"height": 300}]
    assert list(spec["template"]) == ["layout"]
    assert [point["readout"] for point in text_only["points"]] == ["only text: a", "only text: b"]


def test_an_explorer_without_figure_has_no_plot(page: str) -> None:
    last = page.rindex('<figure class="kcm-explorer">')
    assert 'class="kcm-plot"' not in page[last:]


def test_formulas_are_mathml(page: str) -> None:
    assert re.search(r"<math [^>]*>\s*<mfrac>\s*<mi>a</mi>", page)
    assert re.search(r'<div class="math"><math [^>]*display="block">', page)


def test_nothing_comes_from_another_site(site: Path) -> None:
    for path in [*(site / "book").glob("*.html"), site / "search.html"]:
        content = path.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|img|iframe)\b[^>]*?\bsrc="([^"]*)"', content)
        loaded += re.findall(
            r'<link\b[^>]*?rel="(?:stylesheet|icon|preload)"[^>]*?href="([^"]*)"', content
        )
        assert loaded
        assert not [address for address in loaded if re.match(r"(?:[a-z]+:)?//", address)]
        assert "mathjax" not in content.lower().replace("mathjax_ignore", "")
        assert "sphinx-thebe.js" not in " ".join(loaded)
    assert (site / "_static/plotly.min.js").stat().st_size > 1_000_000


def test_expected_errors_and_tables_are_text(page: str) -> None:
    assert "ZeroDivisionError: division by zero\npod    n\nweb-1  2\n" in page
    assert "Traceback" not in page


def test_output_that_the_kernel_cut_is_whole(page: str) -> None:
    assert "one line\nanother\n\nlast\n" in page


def test_only_pieces_of_one_stream_that_follow_each_other_are_joined() -> None:
    def out(text: str, name: str = "stdout") -> NotebookNode:
        whole: NotebookNode = from_dict({"output_type": "stream", "name": name, "text": text})
        return whole

    plot = from_dict({"output_type": "display_data", "data": {}, "metadata": {}})
    pieces = [out("a"), out("b"), out("c", "stderr"), out("d"), plot, out("e")]
    assert cells.join_streams(pieces) == [out("ab"), out("c", "stderr"), out("d"), plot, out("e")]
    assert cells.join_streams([]) == []


def test_the_version_is_on_every_page(site: Path) -> None:
    pages = list((site / "book").glob("*.html"))
    assert len(pages) == 2
    for path in pages:
        assert f"kcm-lite {kcm_lite.__version__};" in path.read_text(encoding="utf-8")


def test_launch_links_stand_under_the_title(page: str) -> None:
    links = re.search(r'<p><span class="kcm-launch">(.*?)</span> · 5 minutes', page, re.DOTALL)
    assert links is not None
    addresses = {
        unescape(text): unescape(address)
        for address, text in re.findall(r'href="([^"]*)">([^<]*)</a>', links[1])
    }
    base = "https://github.com/someone/kcm-lite"
    assert addresses == {
        "Run on Binder": "https://mybinder.org/v2/gh/someone/kcm-lite/main"
        "?urlpath=lab/tree/book/page.ipynb",
        "Open in Colab": "https://colab.research.google.com/github/someone/kcm-lite/blob/main/"
        "book/page.ipynb",
        "Download the notebook": "../_sources/book/page.ipynb",
        "Source": f"{base}/blob/main/book/page.ipynb",
    }


def test_the_notebook_to_download_is_there(site: Path) -> None:
    notebook = json.loads((site / "_sources/book/page.ipynb").read_text(encoding="utf-8"))
    assert notebook["cells"][1]["source"].startswith("#| export room.thing")


# What fails the build, and what does not


def test_a_failing_cell_fails_the_build(tmp_path: Path) -> None:
    root = lay_book(tmp_path, [*PAGE[:1], code("bad", "raise RuntimeError('planted')")])
    done = build_book(root)
    assert done.returncode != 0
    assert "planted" in done.stderr + done.stdout


def test_mistakes_fail_the_build_and_unknown_repositories_show_no_dead_link(tmp_path: Path) -> None:
    """One build for several mistakes, each of which warns: a warning is an error."""
    index = INDEX + "\n$\\nosuchcommand{$ {launch-links}`99_missing`\n"
    root = lay_book(tmp_path, [PAGE[0], text("t", "[nowhere](nowhere.md)")], index)
    done = build_book(root, KCM_LITE_REPOSITORY="")
    assert done.returncode != 0
    assert "formula" in done.stderr and "nosuchcommand" in done.stderr
    assert "there is no book/99_missing.ipynb" in done.stderr
    assert "nowhere.md" in done.stderr
    page = (root / "_build/html/book/page.html").read_text(encoding="utf-8")
    assert "mybinder" not in page and "github.com" not in page and "colab" not in page
    assert "run it: make lab in a clone" in re.sub("<.*?>", "", page)
    assert "../_sources/book/page.ipynb" in page


# The parts by themselves


@pytest.mark.parametrize(
    "address",
    [
        "https://github.com/someone/kcm-lite",
        "https://github.com/someone/kcm-lite/",
        "https://github.com/someone/kcm-lite.git",
        "git@github.com:someone/kcm-lite.git",
        "ssh://git@github.com/someone/kcm-lite.git",
        "https://user:secret@github.com/someone/kcm-lite.git\n",
    ],
)
def test_addresses_as_git_writes_them(address: str) -> None:
    found = repository.parse(address)
    assert found is not None
    assert found.url == "https://github.com/someone/kcm-lite"
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "/srv/git/kcm-lite",
        "https://git.example/someone/kcm-lite",
        "https://github.com/someone",
        "http://github.com/someone/x",
        "https://github.com.evil.example/a/b",
        "../kcm-lite",
    ],
)
def test_addresses_that_the_public_does_not_reach(address: str) -> None:
    assert repository.parse(address) is None


def test_gitlab_has_its_own_addresses_and_no_colab() -> None:
    found = repository.parse("https://gitlab.com/someone/kcm-lite", "dev")
    assert found is not None
    assert found.source("a.py") == "https://gitlab.com/someone/kcm-lite/-/blob/dev/a.py"
    assert found.binder("a.ipynb").startswith("https://mybinder.org/v2/gl/someone%2Fkcm-lite/dev?")
    assert found.colab("a.ipynb") is None


def test_the_environment_wins_then_the_remote_then_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = ""
    monkeypatch.setattr(repository, "remote", lambda root: remote)
    monkeypatch.delenv("KCM_LITE_REPOSITORY", raising=False)

    def owner(configured: str = "") -> str | None:
        found = repository.find(tmp_path, configured, "main")
        return found.owner if found else None

    assert owner() is None
    assert owner("https://github.com/config/x") == "config"
    remote = "/srv/mirror"
    assert owner() is None
    assert owner("https://github.com/config/x") == "config"
    remote = "https://github.com/remote/x"
    assert owner("https://github.com/config/x") == "remote"
    monkeypatch.setenv("KCM_LITE_REPOSITORY", "https://github.com/environment/x")
    assert owner("https://github.com/config/x") == "environment"
    monkeypatch.setenv("KCM_LITE_REPOSITORY", "https://intern/x")
    with pytest.raises(ConfigError, match="expected https://"):
        owner()


def test_a_folder_without_git_has_no_remote(tmp_path: Path) -> None:
    assert repository.remote(tmp_path) == ""


def test_the_cache_follows_every_file_of_the_package(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room/a.py").write_text("X = 1\n")
    seen = [digest_of(tmp_path)]
    (tmp_path / "room/a.py").write_text("X = 2\n")
    seen.append(digest_of(tmp_path))
    (tmp_path / "room/a.py").rename(tmp_path / "room/b.py")
    seen.append(digest_of(tmp_path))
    (tmp_path / "room/data.yaml").write_text("x: 1\n")
    seen.append(digest_of(tmp_path))
    assert len(set(seen)) == 4
    (tmp_path / "room/__pycache__").mkdir()
    (tmp_path / "room/__pycache__/b.pyc").write_text("")
    assert digest_of(tmp_path) == seen[-1]
    (tmp_path / "other").mkdir()
    (tmp_path / "other/case.yaml").write_text("y: 1\n")
    assert digest_of(tmp_path / "room", tmp_path / "other") != digest_of(tmp_path / "room")


def test_every_table_of_a_docstring_is_one() -> None:
    """The reference shows it; the book's build would end with the first that is malformed."""
    wrong, tables = [], 0
    for path in sorted(Path(kcm_lite.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                doc = ast.get_docstring(node) or ""
                if re.search(r"^ *={3,} +=", doc, re.MULTILINE):
                    tables += 1
                    wrong += [f"{path}: {error}" for error in table_errors(doc)]
    assert tables
    assert not wrong
    assert table_errors("=== ==\nlong x\n=== ==\n")


def table_errors(text: str) -> list[str]:
    """What docutils has against the tables of a text."""
    quiet = {"report_level": 5, "halt_level": 6}
    messages = publish_doctree(text, settings_overrides=quiet).findall(nodes.system_message)
    return [m.astext() for m in messages if "table" in m.astext()]


def test_the_reference_has_every_module() -> None:
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "book").glob("api_*.md")]
    rooms = " ".join(re.findall(r"package-modules:: (.*)", "".join(pages))).split()
    assert len(rooms) == len(set(rooms))
    modules = {
        path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
        for path in (ROOT / "kcm_lite").rglob("*.py")
        if not path.name.startswith("_")
    }
    assert modules <= set(reference.module_names(rooms))


def test_a_struct_is_shown_by_its_fields_whatever_they_are_annotated_with() -> None:
    class Thing(msgspec.Struct, kw_only=True):
        name: str
        kind: "no_such_name"  # type: ignore[name-defined]  # noqa: F821
        size: int = 3
        labels: dict[str, str] = msgspec.field(default_factory=dict)
        last: str

    documenter = reference.StructDocumenter.__new__(reference.StructDocumenter)
    documenter.object = Thing
    assert documenter.format_signature() == "(name, kind, size=3, labels=dict(), last)"


@pytest.mark.parametrize(("value", "hidden"), [(5, False), (["a long entry"] * 9, True)])
def test_a_constant_shows_a_value_that_fits_into_a_line(value: object, hidden: bool) -> None:
    documenter: Any = reference.ConstantDocumenter.__new__(reference.ConstantDocumenter)
    documenter.object = value
    documenter.analyzer = None
    documenter.directive = None
    documenter.get_doc = lambda: None
    assert documenter.should_suppress_value_header() is hidden


def test_a_signature_is_one_that_sphinx_can_parse() -> None:
    def shown(signature: str | None) -> tuple[str | None, str]:
        return reference.readable(None, "class", "Thing", None, None, signature, "~a.B")

    assert shown("(clock: ~a.Clock, waits: ~a.W = <factory>)") == (
        "(clock: ~a.Clock, waits: ~a.W = ...)",
        "~a.B",
    )
    assert (
        shown("(f: ~a.F = <function M.<lambda>>, n: int = 0)")[0] == "(f: ~a.F = ..., n: int = 0)"
    )
    assert shown(None) == (None, "~a.B")


def test_an_explorers_readout_is_escaped() -> None:
    spec = {
        "caption": "",
        "alt": "",
        "template": None,
        "traces": [],
        "layouts": [],
        "controls": [{"label": "a<b", "kind": "select", "options": ["<x>"], "start": 0}],
        "points": [{"readout": "<script>"}],
    }
    html = cells.explorer_html(spec)
    assert '<pre class="kcm-readout" role="status">&lt;script&gt;</pre>' in html
    assert "<span>a&lt;b</span>" in html and "<option selected>&lt;x&gt;</option>" in html
