"""Replay recorded inputs and outputs of upstream's own functions against ours.

Each module of this package offers ``ADAPTERS``: a vector file's name and the function that turns
a case's ``in`` into what must equal its ``out``. A case may end in `Skip` with a rule's reason.
A module may also offer ``EXPECTED``: the function that takes from a recorded ``out`` what a rule
leaves out on purpose, or skips the case when nothing is left. A file that is a table and has no
cases has a function in ``TABLES`` instead, which takes it apart.
"""

from __future__ import annotations

import gzip
import importlib
import json
import pkgutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

OWN = Path(__file__).parents[1] / "data" / "vectors"
NOT_BUILT = "not built yet"

Adapter = Callable[[dict[str, Any]], Any]
Part = tuple[str, Callable[[], Any], Callable[[], Any]]
"""A label, and what returns the wanted and the actual value; either may end in `Skip`."""


class Skip(Exception):
    """This case asks for something that is left out on purpose, or not built yet."""


@dataclass
class Score:
    """How one vector file went."""

    name: str
    passed: int = 0
    failed: int = 0
    skipped: Counter[str] = field(default_factory=Counter)  # reason -> cases
    differences: list[str] = field(default_factory=list)  # the first few, in words

    @property
    def line(self) -> str:
        """``name passed/total``, and what was skipped and why."""
        if not self.passed and not self.failed:
            reasons = "; ".join(self.skipped) or NOT_BUILT
            return f"{self.name} skipped: {reasons} ({self.skipped.total()})"
        text = f"{self.name} {self.passed}/{self.passed + self.failed}"
        for reason, cases in sorted(self.skipped.items()):
            text += f" ({cases} skipped: {reason})"
        return text


def adapters(table: str = "ADAPTERS") -> dict[str, Adapter]:
    """Collect the adapters (or another table) of every module of this package."""
    found: dict[str, Adapter] = {}
    for info in pkgutil.iter_modules(__path__):
        if info.name.startswith("_"):
            continue
        module = importlib.import_module(f"{__name__}.{info.name}")
        for name, adapter in getattr(module, table, {}).items():
            if name in found:
                raise ValueError(f"two adapters for {name}")
            found[name] = adapter
    return found


def load(path: Path) -> Any:
    """Read a plain or compressed JSON file."""
    raw = path.read_bytes()
    return json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)


def vector_name(path: Path) -> str:
    """Return a file's name without ``.json`` and ``.gz``."""
    return path.name.removesuffix(".gz").removesuffix(".json")


def files(directory: Path, only: list[str]) -> Iterator[Path]:
    """Yield the vector files of a directory by name.

    Raises:
        FileNotFoundError: No such directory, or nothing in it has a wanted name.
    """
    if not directory.is_dir():
        raise FileNotFoundError(f"no directory {directory}")
    paths = [p for p in directory.iterdir() if p.name.endswith((".json", ".json.gz"))]
    wanted = [p for p in paths if not only or any(fnmatch(vector_name(p), g) for g in only)]
    if not wanted:
        raise FileNotFoundError(f"no vector file in {directory} matches {only or '*.json[.gz]'}")
    yield from sorted(wanted, key=vector_name)


def difference(want: Any, got: Any, path: str = "") -> str:
    """Say where two JSON values first differ."""
    if isinstance(want, dict) and isinstance(got, dict):
        for key in [*(k for k in got if k not in want), *want]:
            if key not in got:
                return f"{path}.{key}: wanted {short(want[key])}, got nothing"
            if key not in want:
                return f"{path}.{key}: wanted nothing, got {short(got[key])}"
            if not same(want[key], got[key]):
                return difference(want[key], got[key], f"{path}.{key}")
    if isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        for i, (a, b) in enumerate(zip(want, got, strict=True)):
            if not same(a, b):
                return difference(a, b, f"{path}[{i}]")
    return f"{path or 'out'}: wanted {short(want)}, got {short(got)}"


def same(a: Any, b: Any) -> bool:
    """Compare JSON values; unlike Python's ``==``, true is not 1."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(v, b[k]) for k, v in a.items())
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def short(value: Any) -> str:
    """A value as JSON, cut to one line."""
    text = json.dumps(value, default=str)
    return text if len(text) <= 160 else text[:157] + "..."


def cases(data: Any, adapter: Adapter, expected: Adapter) -> Iterator[Part]:
    """Yield the cases of a file."""
    for number, case in enumerate(data["cases"]):
        yield f"case {number}", partial(expected, case["out"]), partial(adapter, case["in"])


def replay(path: Path, known: dict[str, Adapter], *, most: int = 3) -> Score:
    """Run every case of one file, or compare every part of a table.

    A file that cannot be used is one failure, and no trouble of the other files.
    """
    score = Score(vector_name(path))
    try:
        _replay(score, load(path), known, most)
    except Exception as error:
        score.failed += 1
        score.differences.append(f"cannot be used: {type(error).__name__}: {error}")
    return score


def _replay(score: Score, data: Any, known: dict[str, Adapter], most: int) -> None:
    name = score.name
    if table := adapters("TABLES").get(name):
        parts = table(data)
    elif name in known and isinstance(data, dict) and isinstance(data.get("cases"), list):
        parts = cases(data, known[name], adapters("EXPECTED").get(name, lambda out: out))
    else:
        found = data.get("cases") if isinstance(data, dict) else None
        score.skipped[NOT_BUILT] = len(found) if isinstance(found, list) else 1
        return
    for label, wanted, actual in parts:
        want = None
        try:
            want = wanted()
            got = json.loads(json.dumps(actual()))
        except Skip as why:
            score.skipped[str(why)] += 1
            continue
        except Exception as error:  # a crash of ours is a failed case, told with the others
            got = {"raised": f"{type(error).__name__}: {error}"}
        if same(want, got):
            score.passed += 1
        else:
            score.failed += 1
            if len(score.differences) < most:
                score.differences.append(f"{label}: {difference(want, got)}")


def score_document(scores: Iterable[Score]) -> str:
    """Return the scores as the book's page on fidelity reads them."""
    rows = {
        s.name: {"passed": s.passed, "failed": s.failed, "skipped": dict(sorted(s.skipped.items()))}
        for s in scores
    }
    return json.dumps(rows, indent=1, sort_keys=True) + "\n"
