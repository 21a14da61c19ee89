"""The package as a whole: importing it changes nothing, and it says its version."""

import importlib.metadata
import subprocess
import sys

import kcm_lite

IMPORT_ALL = """
import contextlib, importlib, io, pkgutil, random, sys, threading, warnings
import kcm_lite

warnings.simplefilter("error")
HEAVY = {"IPython", "anywidget", "ipywidgets", "numpy", "pandas", "plotly", "yaml"}
names = sorted(m.name for m in pkgutil.walk_packages(kcm_lite.__path__, "kcm_lite."))
names = [name for name in names if not name.endswith("__main__")]
state = random.getstate()
for name in sorted(names, key=lambda name: name.startswith("kcm_lite.viz")):
    for loaded in [m for m in sys.modules if m.startswith("kcm_lite.")]:
        del sys.modules[loaded]  # as if it were the first module to be imported
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        importlib.import_module(name)
    if said.getvalue():
        print(name, "says", said.getvalue())
    if not name.startswith("kcm_lite.viz") and HEAVY & set(sys.modules):
        print(name, "imports", HEAVY & set(sys.modules))
    if random.getstate() != state:
        print(name, "seeds the global generator")
    if len(threading.enumerate()) > 1:
        print(name, "starts a thread")
print(len(names) > 50)
"""


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout


def test_the_version_is_the_distributions() -> None:
    assert importlib.metadata.version("kcm-lite") == kcm_lite.__version__


def test_importing_any_module_is_silent_and_changes_nothing() -> None:
    assert run(IMPORT_ALL) == "True\n"


def test_importing_the_package_loads_no_room() -> None:
    code = "import sys, kcm_lite; print([m for m in sys.modules if m.startswith('kcm_lite.')])"
    assert run(code) == "[]\n"


def test_importing_a_controller_does_not_load_the_rooms_above() -> None:
    code = (
        "import sys, kcm_lite.controllers.replicaset\n"
        "above = ('sim', 'viz', 'manager', 'cli', 'apiserver')\n"
        "print([m for m in sys.modules if m.startswith('kcm_lite.') and m.split('.')[1] in above])"
    )
    assert run(code) == "[]\n"
