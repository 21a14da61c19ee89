"""The package as a whole: importing it changes nothing, and it says its version."""

import importlib.metadata
import subprocess
import sys

import kcm_lite
from tests.tools_support import ROOT


def run(*arguments: str) -> str:
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stderr == ""
    return done.stdout


def test_the_version_is_the_distributions() -> None:
    assert importlib.metadata.version("kcm-lite") == kcm_lite.__version__


def test_importing_any_module_is_silent_and_changes_nothing() -> None:
    count, _, complaints = run("tests/import_all.py").partition(" modules, ")
    assert complaints == "0 complaints\n"
    assert int(count) > 50


def test_importing_the_package_loads_no_room() -> None:
    code = "import sys, kcm_lite; print([m for m in sys.modules if m.startswith('kcm_lite.')])"
    assert run("-c", code) == "[]\n"


def test_importing_a_controller_does_not_load_the_rooms_above() -> None:
    code = (
        "import sys, kcm_lite.controllers.replicaset\n"
        "above = ('sim', 'viz', 'manager', 'cli', 'apiserver')\n"
        "print([m for m in sys.modules if m.startswith('kcm_lite.') and m.split('.')[1] in above])"
    )
    assert run("-c", code) == "[]\n"
