"""Import every module of the installed package, each as if it were the first; say what is wrong.

Run by itself it needs nothing but the package: ``python tests/import_all.py``. Exit code 1 if an
import prints, seeds the global generator, starts a thread, or needs what only ``viz`` may need.
"""

import contextlib
import importlib
import io
import pkgutil
import random
import sys
import threading
import warnings

import kcm_lite

HEAVY = {"IPython", "anywidget", "ipywidgets", "numpy", "pandas", "plotly"}
LAZY = {"yaml"}
"""A dependency, but only whoever reads or writes YAML waits for it."""


def complaints(name: str) -> list[str]:
    """What is wrong with importing the module ``name``."""
    for loaded in [module for module in sys.modules if module.startswith("kcm_lite.")]:
        del sys.modules[loaded]
    drawing = name.startswith("kcm_lite.viz")
    state = random.getstate()
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            importlib.import_module(name)
    except ModuleNotFoundError as error:
        return [] if drawing and error.name in HEAVY else [str(error)]
    wrong = [f"says {said.getvalue()!r}"] if said.getvalue() else []
    if not drawing and (early := sorted((HEAVY | LAZY) & set(sys.modules))):
        wrong.append(f"imports {early}")
    if random.getstate() != state:
        wrong.append("seeds the global generator")
    if threading.active_count() > 1:
        wrong.append("starts a thread")
    return wrong


def main() -> int:
    """Try all modules, the drawing ones last: what they load stays loaded."""
    warnings.simplefilter("error")
    found = [module.name for module in pkgutil.walk_packages(kcm_lite.__path__, "kcm_lite.")]
    names = sorted(found, key=lambda name: (name.startswith("kcm_lite.viz"), name))
    wrong = [f"{name} {complaint}" for name in names for complaint in complaints(name)]
    print("\n".join([*wrong, f"{len(names)} modules, {len(wrong)} complaints"]))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
