"""What README and the comments of the examples show is what happens."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from kcm_lite.cli import main

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
CONSOLE = re.findall(r"```console\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def sessions() -> list[tuple[str, list[str]]]:
    """Return the commands of README, each with the lines that it shows."""
    out: list[tuple[str, list[str]]] = []
    for line in "".join(CONSOLE).splitlines():
        if line.startswith("$ "):
            out.append((line[2:], []))
        elif line and line != "...":
            out[-1][1].append(line)
    return out


def simulate(command: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    words = shlex.split(command)
    assert words[:2] == ["kcm-lite", "simulate"]
    assert main(words[1:]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(("command", "lines"), sessions())
def test_readme_shows_what_happens(
    command: str,
    lines: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    found = iter(simulate(command, capsys))
    assert lines
    for line in lines:  # in this order, others between them
        assert line in found, line


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_and_the_commands_in_its_comments_run(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    commands = re.findall(r"^#   (kcm-lite .*)", path.read_text(), re.MULTILINE)
    for command in commands or [f"kcm-lite simulate examples/{path.name}"]:
        assert simulate(command, capsys)


def test_there_are_examples_and_sessions() -> None:
    assert len(EXAMPLES) >= 5 and len(sessions()) >= 4
