"""Write the modules of ``kcm_lite`` from the notebooks' ``#| export MODULE`` cells.

    python tools/tangle.py           write the modules, remove generated ones without cells
    python tools/tangle.py --check   change nothing; print a diff and exit 1 on any drift

A code cell whose first line is ``#| export client.workqueue`` ships to
``kcm_lite/client/workqueue.py``. Notebooks are read in the order of ``_toc.yml``; several
cells, of several notebooks if need be, make one module. Imports are hoisted to the top,
together with their comments, and merged. A cell's import of the very module that it ships to
is dropped. A string at the top of the module's first cell becomes its docstring.

Input that would lose or misplace code is refused, naming notebook and cell, before anything
is written (exit 2).
"""

from __future__ import annotations

import argparse
import ast
import difflib
import io
import json
import keyword
import re
import subprocess
import sys
import textwrap
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "kcm_lite"
DIRECTIVE = re.compile(
    r"#\|[ \t]*export[ \t]+(?P<module>[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*)[ \t]*(?:\n|\Z)"
)
GENERATED = re.compile(r"^# Generated from .*tangle\.py; edit ", re.MULTILINE)
"""The line that tells a generated module from a hand-written one."""
FIRST_IMPORT = "from __future__ import annotations\n"


class Refused(Exception):
    """The notebooks cannot be exported; ``problems`` has one line for each reason."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True)
class Cell:
    """An export cell: what it ships, where to, and where it stands."""

    notebook: str
    id: str
    module: str
    code: str

    @property
    def origin(self) -> str:
        """Notebook and cell id, as in the marker comments and in every complaint."""
        return f"{self.notebook}#{self.id}"


@dataclass
class Module:
    """A module as it grows, cell by cell."""

    name: str
    docstring: str = ""
    imports: list[str] = field(default_factory=list)
    typing_imports: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)
    notebooks: dict[str, None] = field(default_factory=dict)
    needs: dict[str, str] = field(default_factory=dict)
    """Dotted names imported when the module loads, each with the origin of the import."""
    defined: dict[str, str] = field(default_factory=dict)
    """Functions and classes, each with the cell that defines it."""

    def add(self, cell: Cell, tree: ast.Module) -> Iterator[str]:
        """Take in one cell; yield what is wrong with it."""
        lines = cell.code.splitlines()
        comments = comment_lines(cell.code)
        cut = set[int]()

        def lift(node: ast.stmt) -> str:
            """The text of a statement and of the comments right above it."""
            start = node.lineno
            while start - 1 in comments:
                start -= 1
            span = range(start, (node.end_lineno or node.lineno) + 1)
            cut.update(span)
            return textwrap.dedent("\n".join(lines[number - 1] for number in span))

        first = not self.notebooks
        self.notebooks[cell.notebook] = None
        for index, node in enumerate(tree.body):
            imports = imports_in(node)
            if imports is not None:
                others = [other for other in tree.body if other is not node] + imports[1:]
                if any(shares_line(imports[0], other) for other in others):
                    yield f"line {node.lineno}: an import shares its line with another statement"
                    continue
                hoisted = self.imports if imports == [node] else self.typing_imports
                lift(node)
                for statement in imports:
                    if not imports_itself(statement, f"{PACKAGE}.{self.name}"):
                        hoisted.append(lift(statement))
            elif first and index == 0 and is_string(node):
                self.docstring = lift(node)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                before = self.defined.setdefault(node.name, cell.origin)
                if before != cell.origin and node.name != "_":
                    yield f"{node.name} is defined already, in {before}"
        for name in loaded_names(tree, f"{PACKAGE}.{self.name}"):
            self.needs.setdefault(name, cell.origin)
        body = "\n".join(line for i, line in enumerate(lines, 1) if i not in cut).strip("\n")
        if body.strip():
            self.bodies.append(f"# %% {cell.origin}\n{body}")

    def text(self, root: Path) -> str:
        """The module's source, sorted and formatted by the project's own ruff settings."""
        sources = ", ".join(self.notebooks)
        imports = sorted(dict.fromkeys(self.imports), key=lambda text: "__future__" not in text)
        # ruff leaves comments above the first import where they are: let that be one without.
        guard = "" if imports and "__future__" in imports[0] else FIRST_IMPORT
        parts = [
            f"# Generated from {sources} by tools/tangle.py; edit it there.",
            self.docstring,
            guard + "\n".join(imports),
            "if TYPE_CHECKING:\n" + textwrap.indent("\n".join(self.typing_imports), "    ")
            if self.typing_imports
            else "",
            *self.bodies,
        ]
        code = "\n\n".join(part for part in parts if part) + "\n"
        path = module_path(self.name).as_posix()
        code = ruff(["check", "--fix", "--exit-zero", "--select=I"], code, path, root)
        if guard:
            code = re.sub(f"{guard}\n*", "", code, count=1)
        return ruff(["format"], code, path, root)


def ruff(arguments: list[str], code: str, path: str, root: Path) -> str:
    """What ruff makes of ``code``, by the settings for the file at ``path``."""
    command = [sys.executable, "-m", "ruff", *arguments, "--quiet", "--stdin-filename", path, "-"]
    done = subprocess.run(command, input=code, text=True, capture_output=True, cwd=root)
    if done.returncode:
        raise Refused([f"{path}: ruff: {done.stderr.strip()}"])
    return done.stdout


def module_path(name: str) -> Path:
    """Where a module lies, relative to the project's root."""
    return Path(PACKAGE, *name.split(".")).with_suffix(".py")


def is_string(node: ast.stmt) -> bool:
    """Whether a statement is a bare string, as a docstring is."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def is_type_checking(node: ast.AST) -> bool:
    """Whether a node is an ``if TYPE_CHECKING:`` block, which never runs."""
    return isinstance(node, ast.If) and ast.unparse(node.test) in (
        "TYPE_CHECKING",
        "typing.TYPE_CHECKING",
    )


def imports_in(node: ast.stmt) -> list[ast.Import | ast.ImportFrom] | None:
    """The imports to hoist out of a statement: its own, or those of a block for type checkers.

    ``None`` if the statement stays where it is.
    """
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [node]
    if isinstance(node, ast.If) and is_type_checking(node) and not node.orelse:
        inner = [item for item in node.body if isinstance(item, ast.Import | ast.ImportFrom)]
        if len(inner) == len(node.body) and inner[0].lineno > node.lineno:
            return inner
    return None


def shares_line(one: ast.stmt, other: ast.stmt) -> bool:
    """Whether two statements have a line in common (``import a; x = 1``)."""
    return one.lineno <= (other.end_lineno or 0) and other.lineno <= (one.end_lineno or 0)


def comment_lines(code: str) -> set[int]:
    """The numbers of the lines that hold nothing but a comment (a string may look like one)."""
    return {
        token.start[0]
        for token in tokenize.generate_tokens(io.StringIO(code).readline)
        if token.type == tokenize.COMMENT and token.line.lstrip().startswith("#")
    }


def imports_itself(node: ast.Import | ast.ImportFrom, module: str) -> bool:
    """Whether the module's cells import ``module`` from itself, which a notebook has to.

    An import under another name is no such thing: without it, that name would be missing.
    """
    return (
        isinstance(node, ast.ImportFrom)
        and node.module == module
        and all(alias.asname in (None, alias.name) for alias in node.names)
    )


def loaded_names(tree: ast.AST, module: str) -> Iterator[str]:
    """Dotted names of this package that a module imports while it is being loaded.

    An import inside a function comes later, and one for type checkers never. ``from a import b``
    counts as ``a.b``, which may or may not be a module.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not imports_itself(node, module):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif is_type_checking(node) or isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
        ):
            continue
        else:
            yield from loaded_names(node, module)
            continue
        yield from (name for name in names if name.startswith(f"{PACKAGE}."))


def files_of(entry: object) -> Iterator[str]:
    """The files that a (part of a) table of contents names, in its order."""
    if isinstance(entry, dict):
        for key, value in entry.items():
            if key in ("root", "file"):
                yield str(value).removesuffix(".ipynb")
            else:
                yield from files_of(value)
    elif isinstance(entry, list):
        for item in entry:
            yield from files_of(item)


def export_cells(path: Path, notebook: str, problems: list[str]) -> Iterator[Cell]:
    """The export cells of a notebook; what is wrong with any of its cells goes to ``problems``."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        cells = [
            (cell["cell_type"], "".join(cell["source"]), cell.get("id"))
            for cell in content["cells"]
        ]
    except (ValueError, KeyError, TypeError) as error:
        problems.append(f"{notebook}: not a notebook ({type(error).__name__}: {error})")
        return
    seen = set[str]()
    for number, (kind, source, cell_id) in enumerate(cells):
        if not cell_id:
            problems.append(f"{notebook}, cell {number}: no id")
            continue
        if cell_id in seen:
            problems.append(f"{notebook}#{cell_id}: the id of cell {number} is taken already")
        seen.add(cell_id)
        if kind != "code":
            continue
        match = DIRECTIVE.match(source)
        code = source[match.end() :] if match else source
        for line in code.splitlines():
            if re.match(r"\s*#\s*\|", line):
                problems.append(
                    f"{notebook}#{cell_id}: {line.strip()!r} is no directive here; "
                    "a cell begins with '#| export room.module', in lower case, or has none"
                )
        if match:
            yield Cell(notebook, cell_id, match["module"], code)


def parse(cell: Cell) -> ast.Module:
    """The syntax tree of a cell.

    Raises:
        SyntaxError: Also for what only a notebook allows, as ``await`` outside a function.
    """
    compile(cell.code, cell.origin, "exec", dont_inherit=True)
    return ast.parse(cell.code)


def misplaced(name: str, names: set[str], root: Path) -> str | None:
    """Why no notebook may export to the module ``name``, if so."""
    path = module_path(name)
    parts = name.split(".")
    if parts[0] == PACKAGE:
        return f"{name} would be {path}; leave out '{PACKAGE}.'"
    if any(keyword.iskeyword(part) for part in parts):
        return f"{name} is outside {PACKAGE}: no import can name it"
    if (root / path).with_suffix("").is_dir():
        return f"{path} would hide the package {path.with_suffix('')}/"
    for parent in (".".join(parts[:i]) for i in range(1, len(parts))):
        if (root / module_path(parent)).exists() or parent in names:
            return f"{path} would lie below the module {module_path(parent)}"
    if (root / path).exists() and not is_generated(root / path):
        return f"{path} is written by hand (it has no generated header)"
    return None


def is_generated(path: Path) -> bool:
    """Whether this program wrote a file."""
    return bool(GENERATED.search(path.read_text(encoding="utf-8")))


def import_cycle(modules: dict[str, Module], root: Path) -> str | None:
    """A circle of imports within the package, told with the place of each import."""
    needs = {f"{PACKAGE}.{module.name}": module.needs for module in modules.values()}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        where = path.relative_to(root)
        name = ".".join(where.with_suffix("").parts).removesuffix(".__init__")
        if name not in needs and not is_generated(path):
            tree = ast.parse(path.read_text(encoding="utf-8"), where.as_posix())
            needs[name] = dict.fromkeys(loaded_names(tree, name), where.as_posix())

    def target(name: str) -> str:
        return name if name in needs else name.rpartition(".")[0]

    finished = set[str]()

    def visit(name: str, trail: dict[str, str]) -> str | None:
        if name in trail:
            circle = list(trail.items())[list(trail).index(name) :]
            steps = [f"{one} ({place})" for one, place in circle]
            return " imports ".join([*steps, name])
        if name in finished or name not in needs:
            return None
        for needed, place in needs[name].items():
            if found := visit(target(needed), {**trail, name: place}):
                return found
        finished.add(name)
        return None

    return next((found for name in needs if (found := visit(name, {}))), None)


def tangle(root: Path) -> dict[Path, str]:
    """Every file that the notebooks make, path relative to ``root`` and text; writes nothing.

    Raises:
        Refused: Something would be lost, misplaced or impossible to import.
    """
    problems: list[str] = []
    try:
        toc = list(files_of(yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))))
    except (OSError, yaml.YAMLError) as error:
        raise Refused([f"_toc.yml: {error}"]) from error
    cells: list[Cell] = []
    for file in toc:
        if (path := root / f"{file}.ipynb").exists():
            cells += export_cells(path, f"{file}.ipynb", problems)
    for path in sorted((root / "book").glob("*.ipynb")):
        notebook = path.relative_to(root).as_posix()
        if notebook.removesuffix(".ipynb") not in toc and any(export_cells(path, notebook, [])):
            problems.append(f"{notebook}: exports code, but _toc.yml does not list it")

    modules: dict[str, Module] = {}
    names = {cell.module for cell in cells}
    for cell in cells:
        if reason := misplaced(cell.module, names, root):
            problems.append(f"{cell.origin}: {reason}")
            continue
        module = modules.setdefault(cell.module, Module(cell.module))
        try:
            problems += [f"{cell.origin}: {wrong}" for wrong in module.add(cell, parse(cell))]
        except SyntaxError as error:
            problems.append(f"{cell.origin}: line {error.lineno}: {error.msg}")
    if not problems and (circle := import_cycle(modules, root)):
        problems.append(f"import cycle: {circle}")
    if problems:
        raise Refused(list(dict.fromkeys(problems)))

    files = {module_path(module.name): module.text(root) for module in modules.values()}
    packages = {parent for path in files for parent in path.parents if parent.parts}
    for init in sorted(package / "__init__.py" for package in packages):
        files.setdefault(init, read(root / init))
    return files


def read(path: Path) -> str:
    """A file's text, or none if it is not there."""
    return path.read_text(encoding="utf-8") if path.exists() else ""


def main(argv: list[str] | None = None) -> int:
    """Run the command; 0 if all is well, 1 on drift, 2 if the notebooks are refused."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="change nothing, fail on drift")
    parser.add_argument("--root", type=Path, default=ROOT, help="the project's folder")
    options = parser.parse_args(argv)
    root: Path = options.root
    try:
        files = tangle(root)
    except Refused as refused:
        for problem in refused.problems:
            print(problem, file=sys.stderr)
        return 2

    drift = False
    for path, text in files.items():
        if (root / path).exists() and read(root / path) == text:
            continue
        drift = True
        if options.check:
            old, new = read(root / path).splitlines(True), text.splitlines(True)
            print(
                f"{path}: not what the notebooks say"
                if (root / path).exists()
                else f"{path}: missing"
            )
            sys.stdout.writelines(difflib.unified_diff(old, new, path.as_posix(), "the notebooks"))
        else:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
            print(f"wrote {path}")
    for path in sorted((root / PACKAGE).rglob("*.py")):
        if path.relative_to(root) not in files and is_generated(path):
            drift = True
            if options.check:
                print(f"{path.relative_to(root)}: stale, no cell exports it any more")
            else:
                path.unlink()
                print(f"removed {path.relative_to(root)}")
    return int(drift and options.check)


if __name__ == "__main__":
    sys.exit(main())
