"""Manifests: YAML and JSON text to documents, and objects to YAML text.

Scalars are read as Kubernetes reads them: only ``true`` and ``false`` are booleans, timestamps are
text, keys are text. A key that occurs twice is refused. Every error says in which file, which
document and which line. PyYAML is imported when it is needed.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TextIO

from kcm_lite.api.golang import quote
from kcm_lite.api.meta import Object
from kcm_lite.api.serial import encode, to_wire

SUFFIXES = (".yaml", ".yml", ".json")


class ManifestError(ValueError):
    """A manifest that cannot be read; the message begins with where."""


@dataclass(frozen=True, slots=True)
class Document:
    """One object of a file, as it is written.

    Attributes:
        source: The file's name; ``-`` is the standard input.
        index: Which document of the file, from 1.
        line: Where it begins, from 1.
        raw: Its content; for the members of a list, of the member.
    """

    source: str
    index: int
    line: int
    raw: Mapping[str, Any]
    _node: Any = field(default=None, repr=False, compare=False)

    @property
    def where(self) -> str:
        """Which document this is, for messages."""
        return f"{self.source}: document {self.index}, line {self.line}"

    def line_of(self, path: str) -> int:
        """Return the line of a field such as ``spec.containers[0].name``, or of what holds it."""
        node, line = self._node, self.line
        for key in re.findall(r"[^.\[\]]+", path):
            named, node = _child(node, key)
            if named is None:
                break
            line = named.start_mark.line + 1
        return line


def _child(node: Any, key: str) -> tuple[Any, Any]:
    """Return the node that names a child, and the child."""
    if node is None or isinstance(node.value, str):
        return None, None
    if node.id == "sequence":
        found = node.value[int(key)] if key.isdigit() and int(key) < len(node.value) else None
        return found, found
    return next((pair for pair in node.value if pair[0].value == key), (None, None))


# --- reading ------------------------------------------------------------------------------------


def read_path(path: str, stdin: TextIO | None = None) -> list[Document]:
    """Read a file, all manifests of a directory (by name), or ``-``, the standard input.

    Raises:
        ManifestError: Nothing there, not readable, or not a manifest.
    """
    if path == "-":
        return load_documents(_read_all(stdin or sys.stdin), "-")
    files = [Path(path)]
    if files[0].is_dir():
        files = sorted(f for f in files[0].iterdir() if f.suffix in SUFFIXES and f.is_file())
        if not files:
            raise ManifestError(f"{path}: no file named *{', *'.join(SUFFIXES)} in this directory")
    documents = []
    for file in files:
        try:
            text = file.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise ManifestError(f"{file}: not UTF-8 text (byte {error.start})") from None
        except OSError as error:
            raise ManifestError(f"{file}: {error.strerror}") from None
        documents += load_documents(text, str(file))
    return documents


def _read_all(stdin: TextIO | None) -> str:
    """Return what the standard input holds; it is None if the caller closed it."""
    try:
        text = "" if stdin is None else stdin.read()
        text.encode()  # Python passes on bytes that are no text, and they end here
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        raise ManifestError(f"-: not UTF-8 text (position {error.start})") from None
    return text


def load_documents(text: str | TextIO, source: str = "file") -> list[Document]:
    """Read all documents of a text; empty ones are left out, lists are taken apart.

    Raises:
        ManifestError: Not YAML, a key twice, or a document that is no map.
    """
    if not isinstance(text, str):
        text = text.read()
    if text.lstrip().startswith("{"):
        found = _load_json(text, source)
        if found is not None:
            return found
    return _load_yaml(text, source)


def _load_json(text: str, source: str) -> list[Document] | None:
    """Read one or more JSON documents; None if it is not JSON after all (or has a key twice)."""
    decoder = json.JSONDecoder(object_pairs_hook=_unique)
    documents: list[Document] = []
    at, index = 0, 0
    while match := re.compile(r"\s*(\S)").match(text, at):
        start = match.start(1)
        try:
            raw, at = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            return None
        index += 1
        line = text.count("\n", 0, start) + 1
        documents += _flatten(Document(source, index, line, _as_map(raw, source, index, line)))
    return documents


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("duplicate key")  # read again as YAML, which knows the lines
    return out


def _load_yaml(text: str, source: str) -> list[Document]:
    import yaml

    documents: list[Document] = []
    index, line = 0, 1
    loader = None
    try:
        loader = _loader_class()(text)
        while loader.check_node():
            node: Any = loader.get_node()
            index, line = index + 1, node.start_mark.line + 1
            raw = loader.construct_document(node)
            if raw is not None:
                raw = _as_map(raw, source, index, line)
                documents += _flatten(Document(source, index, line, raw, node))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else line
        # an error of the syntax ends the document that was about to be read
        number = index if isinstance(error, yaml.constructor.ConstructorError) else index + 1
        problem = error.problem or error.context or "not YAML"
        where = f"{source}: document {number}, line {line}"
        raise ManifestError(f"{where}: {problem}") from None
    except yaml.reader.ReaderError as error:
        raise _bad_character(text, error.position, source) from None
    except UnicodeEncodeError as error:  # the same, from the reader written in C
        raise _bad_character(text, error.start, source) from None
    except RecursionError:
        where = f"{source}: document {index + 1}"
        raise ManifestError(f"{where}: nested too deeply") from None
    finally:
        if loader is not None:
            loader.dispose()
    return documents


def _bad_character(text: str, position: int, source: str) -> ManifestError:
    before = text[:position]
    marks = len(re.findall("^---", before, re.MULTILINE))
    headed = re.match(r"(?:\s*(?:#.*)?\n)*---", text) is not None
    where = f"{source}: document {marks + (not headed)}, line {before.count(chr(10)) + 1}"
    problem = f"a character that YAML does not allow (#x{ord(text[position]):04x})"
    return ManifestError(f"{where}: {problem}")


def _as_map(raw: Any, source: str, index: int, line: int) -> Mapping[str, Any]:
    if isinstance(raw, Mapping):
        return raw
    kind = type(raw).__name__
    raise ManifestError(f"{source}: document {index}, line {line}: expected a map, got {kind}")


def _flatten(document: Document) -> Iterator[Document]:
    """Yield the members of a list kind (``List``, ``PodList``), or the document itself."""
    raw = document.raw
    kind, items = raw.get("kind"), raw.get("items", [] if raw.get("kind") == "List" else ())
    items = [] if items is None else items  # as an empty list is written at times
    if not (isinstance(kind, str) and kind.endswith("List") and isinstance(items, list)):
        yield document
        return
    inherited = {}
    if kind != "List":  # the members of a typed list need not repeat what they are
        inherited = {"apiVersion": raw.get("apiVersion"), "kind": kind.removesuffix("List")}
    _, nodes = _child(document._node, "items")
    for i, item in enumerate(items):
        node = nodes.value[i] if nodes is not None else None
        line = node.start_mark.line + 1 if node is not None else document.line
        item = _as_map(item, document.source, document.index, line)
        member = Document(document.source, document.index, line, {**inherited, **item}, node)
        yield from _flatten(member)


_INT = re.compile(r"[-+]?(?:0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_BOOL = re.compile("true|True|TRUE|false|False|FALSE")
_NULL = re.compile("~|null|Null|NULL|")
_RARE_BREAK = re.compile("[\x85\u2028\u2029]")  # YAML 1.1 ends a line there
_TAG = "tag:yaml.org,2002:"


def _parse_int(text: str) -> int:
    text = text.replace("_", "")
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("+-")
    if digits.startswith("0") and digits.isdigit():
        return sign * int(digits, 8)  # as in a file mode: 0644
    return sign * int(digits, 0)


def _parse_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):  # too large: JSON could not say it
        raise ValueError(text)
    return number


@cache
def _loader_class() -> Any:
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    error = yaml.constructor.ConstructorError

    class Loader(base):  # type: ignore[misc]
        """Reads what JSON can say, as Kubernetes does; keys must be unique, and become text."""

        yaml_implicit_resolvers: ClassVar[dict[Any, Any]] = {}
        yaml_constructors: ClassVar[dict[Any, Any]] = {}
        yaml_multi_constructors: ClassVar[dict[Any, Any]] = {}

    def key_of(node: Any) -> str:
        if not isinstance(node, yaml.ScalarNode):
            problem = f"expected text as a key, found a {node.id}"
            raise error(None, None, problem, node.start_mark)
        return str(node.value)

    def construct_map(loader: Any, node: Any) -> dict[str, Any]:
        if not isinstance(node, yaml.MappingNode):
            raise error(None, None, f"expected a map, found a {node.id}", node.start_mark)
        lines: dict[str, int] = {}
        for key_node, _ in node.value:
            key = key_of(key_node)
            if key in lines:
                problem = f"key {quote(key)} occurs twice (first in line {lines[key]})"
                raise error(None, None, problem, key_node.start_mark)
            lines[key] = key_node.start_mark.line + 1
        loader.flatten_mapping(node)
        return {key_of(k): loader.construct_object(v, deep=True) for k, v in node.value}

    def construct_list(loader: Any, node: Any) -> Any:
        return loader.construct_sequence(node, deep=True)

    def scalar(parse: Callable[[str], Any]) -> Callable[[Any, Any], Any]:
        def construct(loader: Any, node: Any) -> Any:
            text = loader.construct_scalar(node)
            try:
                return parse(text)
            except (ValueError, KeyError):
                problem = f"{quote(text)} is not a value of type {node.tag.removeprefix(_TAG)}"
                raise error(None, None, problem, node.start_mark) from None

        return construct

    def refuse(loader: Any, node: Any) -> Any:
        raise error(None, None, f"tag {quote(node.tag)} is not allowed", node.start_mark)

    for tag, construct in {
        "map": construct_map,
        "seq": construct_list,
        "int": scalar(_parse_int),
        "float": scalar(_parse_float),
        "bool": scalar(lambda text: {"true": True, "false": False}[text.lower()]),
        "null": lambda loader, node: None,
        **dict.fromkeys(("str", "timestamp", "binary", "merge"), scalar(str)),
    }.items():
        Loader.add_constructor(_TAG + tag, construct)
    Loader.add_constructor(None, refuse)
    Loader.add_implicit_resolver(_TAG + "merge", re.compile("<<$"), ["<"])
    _add_resolvers(Loader)
    return Loader


def _add_resolvers(target: Any) -> None:
    for tag, pattern, first in (
        ("bool", _BOOL, "tTfF"),
        ("null", _NULL, ["~", "n", "N", ""]),
        ("int", _INT, "-+0123456789"),
        ("float", _FLOAT, "-+.0123456789"),
    ):
        target.add_implicit_resolver(_TAG + tag, re.compile(f"(?:{pattern.pattern})$"), list(first))


# --- writing ------------------------------------------------------------------------------------


@cache
def _dumper_class() -> Any:
    import yaml

    class Dumper(yaml.SafeDumper):
        """Quotes what our reader or another YAML reader would take for something else."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    def represent_text(dumper: Any, text: str) -> Any:
        style = "|" if "\n" in text else None
        if _RARE_BREAK.search(text):
            style = '"'
        return dumper.represent_scalar(_TAG + "str", text, style=style)

    Dumper.add_representer(str, represent_text)
    _add_resolvers(Dumper)
    return Dumper


def dump(*objects: Object | Mapping[str, Any]) -> str:
    """Return objects, or wire documents, as YAML text, one document each."""
    import yaml

    raws = [encode(o) if isinstance(o, Object) else to_wire(o) for o in objects]
    text: str = yaml.dump_all(
        raws,
        Dumper=_dumper_class(),
        default_flow_style=False,
        allow_unicode=True,
        sort_keys=False,
        width=10_000,
    )
    return text
