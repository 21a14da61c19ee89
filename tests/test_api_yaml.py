"""Manifests in and out."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm_lite.api.apps import ReplicaSet
from kcm_lite.api.serial import DecodeError, decode
from kcm_lite.api.yaml import ManifestError, dump, load_documents, read_path


def raws(text: str) -> list[Any]:
    return [document.raw for document in load_documents(text)]


def test_documents_know_where_they_are() -> None:
    text = "# only a comment\n---\n---\na: 1\n---\n\nb:\n  - c: 2\n"
    first, second = load_documents(text, "x.yaml")
    assert (first.index, first.line, first.raw) == (2, 4, {"a": 1})
    assert (second.index, second.line, second.raw) == (3, 7, {"b": [{"c": 2}]})
    assert second.where == "x.yaml: document 3, line 7"
    assert second.line_of("b[0].c") == 8
    assert second.line_of("b") == 7
    assert second.line_of("b[7].c") == 7
    assert second.line_of("nothing") == 7
    assert first.line_of("a.b.c") == 4


def test_scalars_are_read_as_kubernetes_reads_them() -> None:
    text = """
yes: yes
on: on
off: Off
n: n
t: true
f: FALSE
quoted: "true"
date: 2026-01-01
time: 2026-01-01T00:00:00Z
clock: 12:30:45
version: 1.20
text: 1.2.3
mode: 0644
octal: 0o17
hex: 0x1F
exp: 1e3
null: ~
empty:
1: one
=: =
inf: .inf
"""
    assert raws(text) == [
        {
            "yes": "yes",
            "on": "on",
            "off": "Off",
            "n": "n",
            "t": True,
            "f": False,
            "quoted": "true",
            "date": "2026-01-01",
            "time": "2026-01-01T00:00:00Z",
            "clock": "12:30:45",
            "version": 1.2,
            "text": "1.2.3",
            "mode": 420,
            "octal": 15,
            "hex": 31,
            "exp": 1000.0,
            "null": None,
            "empty": None,
            "1": "one",
            "=": "=",
            "inf": ".inf",
        }
    ]


def test_anchors_and_merges() -> None:
    text = "a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}\n"
    assert raws(text) == [{"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 3}}]


def test_lists_are_taken_apart() -> None:
    text = """
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata: {name: a}
- apiVersion: apps/v1
  kind: ReplicaSetList
  items:
  - metadata:
      name: b
---
apiVersion: example.com/v1
kind: PlayList
songs: []
"""
    pod, rs, other = load_documents(text)
    assert pod.raw["metadata"] == {"name": "a"}
    assert (rs.raw["apiVersion"], rs.raw["kind"]) == ("apps/v1", "ReplicaSet")
    assert (rs.index, rs.line, rs.line_of("metadata.name")) == (1, 11, 12)
    assert decode(rs.raw, ReplicaSet).metadata.name == "b"
    assert other.raw["kind"] == "PlayList"  # a kind of that name, not a list of "Play"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\nb: 2\na: 3\n", 'document 1, line 3: key "a" occurs twice (first in line 1)'),
        ("x: 1\n---\ny:\n  z: 1\n  z: 2\n", 'document 2, line 5: key "z" occurs twice'),
        ('{"a": 1,\n "a": 2}', 'document 1, line 2: key "a" occurs twice (first in line 1)'),
        ("a: b: c", "document 1, line 1: "),
        ("ok: 1\n---\na: [1\n", "document 2, line 4: "),
        ("a: 1\n\tb: 2\n", "document 1, line 2: "),
        ("- a", "document 1, line 1: expected a map, got list"),
        ("a: 1\n---\n\ntext", "document 2, line 4: expected a map, got str"),
        ("[1]", "document 1, line 1: expected a map, got list"),
        ("kind: PodList\nitems:\n- x\n", "document 1, line 3: expected a map, got str"),
        ("a: 1\nb: \x01", "document 1, line 2: a character that YAML does not allow"),
        ("a: \ud800", "document 1, line 1: a character that YAML does not allow (#xd800)"),
        ("# x\n---\na: 1\n---\nb: \x01", "document 2, line 5: a character that YAML"),
        ("a: 1\n---\nb: \x01", "document 2, line 3: a character that YAML"),
        ("a: !!python/object/apply:os.getcwd []", "is not allowed"),
        ("a: !Ref x", 'tag "!Ref" is not allowed'),
        ("a: !!int x", '"x" is not a value of type int'),
        ("a: 1e999", '"1e999" is not a value of type float'),
        ("? [a]\n: 1", "expected text as a key, found a sequence"),
        ("a: *nope", "document 1, line 1: "),
        ("a: &x [*x]", "document 1, line 1: "),
        ("a: " + "[" * 5000, "document 1"),
        ('{"a":' * 5000, "document 1"),
        ("%YAML 3.0\n---\na: 1", "document 1, line 1: "),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(ManifestError) as caught:
        load_documents(text, "web.yaml")
    assert str(caught.value).startswith("web.yaml: ")
    assert problem in str(caught.value)


def test_json_is_accepted_also_with_tabs_and_several_documents() -> None:
    first, second = load_documents('{\n\t"a": [1.5, null, "yes"]\n}\n\n{"b": {}}', "x.json")
    assert first.raw == {"a": [1.5, None, "yes"]}
    assert (second.index, second.line, second.line_of("b")) == (2, 5, 5)
    assert raws('{"kind": "PodList", "apiVersion": "v1", "items": [{}]}') == [
        {"apiVersion": "v1", "kind": "Pod"}
    ]
    assert raws("{a: 1}") == [{"a": 1}]  # flow style YAML begins like JSON


def test_paths(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("b: 1")
    (tmp_path / "a.yml").write_text("\ufeffa: 1", encoding="utf-8")
    (tmp_path / "c.json").write_text('{"c": 1}')
    (tmp_path / "notes.txt").write_text("{")
    (tmp_path / "sub.yaml").mkdir()
    assert [d.raw for d in read_path(str(tmp_path))] == [{"a": 1}, {"b": 1}, {"c": 1}]
    (document,) = read_path(str(tmp_path / "b.yaml"))
    assert document.where == f"{tmp_path / 'b.yaml'}: document 1, line 1"
    (document,) = read_path("-", io.StringIO("x: 1"))
    assert (document.source, document.raw) == ("-", {"x": 1})


def test_paths_that_lead_nowhere(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="No such file"):
        read_path(str(tmp_path / "absent.yaml"))
    with pytest.raises(ManifestError, match="no file named"):
        read_path(str(tmp_path))
    binary = tmp_path / "x.yaml"
    binary.write_bytes(b"a: \xff")
    with pytest.raises(ManifestError, match="not UTF-8"):
        read_path(str(binary))


def test_a_type_error_can_be_told_with_its_line() -> None:
    text = "apiVersion: apps/v1\nkind: ReplicaSet\nspec:\n  replicas: many\n"
    (document,) = load_documents(text)
    with pytest.raises(DecodeError) as caught:
        decode(document.raw)
    assert document.line_of(caught.value.path) == 4


texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)
TRICKY = (
    "yes on null ~ true 1e3 0644 0x1 1_0 12:30:45 2026-01-01 - # & * ! | > % @ ` : ? = << .5 +1"
)
SPACED = ["", " ", "a: b", "a #b", " x", "x ", "x\n", "\nx", "a\n  b\n", "a\n\nb", "\t", "'", '"']
tricky = st.sampled_from([*TRICKY.split(), "---", "...", "a\\b", *SPACED])
scalars = st.none() | st.booleans() | st.integers() | st.floats(-1e9, 1e9) | texts | tricky
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts | tricky, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(texts | tricky, values, max_size=4))
def test_what_is_written_reads_back(raw: dict[str, Any]) -> None:
    assert raws(dump(raw)) == [raw]


@given(st.dictionaries(texts, values, max_size=4))
def test_json_text_reads_back(raw: dict[str, Any]) -> None:
    assert raws(json.dumps(raw)) == [raw]


def test_objects_are_written_head_first() -> None:
    raw = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web", "annotations": {"note": "two\nlines\n"}},
        "spec": {"replicas": 0},
    }
    text = dump(decode(raw), raw)
    assert text.startswith("apiVersion: apps/v1\nkind: ReplicaSet\nmetadata:\n  name: web\n")
    assert "    note: |\n      two\n      lines\n" in text
    written, same = raws(text)
    assert same == raw
    assert written == {**raw, "status": {"replicas": 0}}


def test_yaml_is_imported_only_when_it_is_used() -> None:
    code = (
        "import sys, kcm_lite.api.yaml as y; assert 'yaml' not in sys.modules;"
        "y.load_documents('{}'); assert 'yaml' not in sys.modules;"
        "y.load_documents('a: 1'); assert 'yaml' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "text", ["kind: List\nitems:\n", "kind: List", "kind: PodList\nitems: null"]
)
def test_a_list_of_nothing_is_nothing(text: str) -> None:
    assert load_documents(text) == []


@pytest.mark.parametrize("errors", ["surrogateescape", "strict"])
def test_standard_input_that_is_no_text(errors: str) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b"kind: \xff"), "utf-8", errors=errors)
    with pytest.raises(ManifestError, match=r"^-: not UTF-8 text \(position 6\)"):
        read_path("-", stdin)


def test_standard_input_that_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert read_path("-") == []
