"""The notebooks in a real JupyterLab: every cell runs, and Explorers recompute in Python."""

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page

from tests.tools_support import ROOT, code, write_notebook

pytestmark = pytest.mark.book

NOTEBOOKS = sorted(path.name for path in (ROOT / "book").glob("*.ipynb"))
SMALL = [
    code(
        "a",
        "import plotly.graph_objects as go\n"
        "from kcm_lite.viz.explorer import Explorer\n"
        "Explorer(\n"
        "    lambda n, mode: go.Figure(go.Scatter(y=[n, 2 * n], mode=mode), {'title': f'n={n}'}),\n"
        "    {'n': range(5), 'mode': ['lines', 'markers']},\n"
        "    caption='It grows.',\n"
        "    readout=lambda n, mode: f'readout {n} {mode}',\n"
        ")",
    )
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A JupyterLab of its own, over a copy of the notebooks; yields its address."""
    home = tmp_path_factory.mktemp("lab")
    notebooks = home / "book"
    shutil.copytree(ROOT / "book", notebooks)
    write_notebook(notebooks / "small.ipynb", SMALL)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(8)
    settings = home / "settings/@jupyterlab/notebook-extension/tracker.jupyterlab-settings"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"windowingMode": "none"}')  # keep every cell in the page
    environment = {**os.environ, "HOME": str(home), "JUPYTER_NO_CONFIG": "1"}
    environment["JUPYTERLAB_SETTINGS_DIR"] = str(home / "settings")
    environment.pop("KCM_STATIC_BOOK", None)
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1"),
        *(f"--port={port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}"),
        *(f"--ServerApp.root_dir={notebooks}", "--expose-app-in-browser"),
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.news_url=None",
    ]
    with (home / "log").open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            wait_for(f"http://127.0.0.1:{port}/api?token={token}", server, home / "log")
            yield f"http://127.0.0.1:{port}/lab?token={token}&reset"
        finally:
            server.terminate()
            server.wait(timeout=20)


def wait_for(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the server answers."""
    for _ in range(300):
        assert server.poll() is None, log.read_text()
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise TimeoutError(log.read_text())


@pytest.fixture(scope="module")
def page(browser: Browser, lab: str) -> Iterator[Page]:
    """JupyterLab in a browser; loaded once, the notebooks come one after the other."""
    with browser.new_context(viewport={"width": 1400, "height": 1000}) as context:
        context.set_default_timeout(60_000)
        page = context.new_page()
        page.goto(lab)
        page.locator(".jp-Launcher").wait_for()
        yield page


@pytest.fixture
def run_all(page: Page) -> Iterator[Callable[[str], None]]:
    """Opens a notebook and runs its cells, all without an error; closes it after the test."""

    def run(name: str) -> None:
        page.evaluate(OPEN, name)
        page.locator(".jp-NotebookPanel").wait_for()
        assert page.evaluate(RUN) == []

    yield run
    page.evaluate(CLOSE)


OPEN = """
async (path) => {
  const panel = await jupyterapp.commands.execute("docmanager:open", { path, factory: "Notebook" });
  await panel.context.ready;
  await panel.sessionContext.ready;
  jupyterapp.shell.activateById(panel.id);
}
"""
RUN = """
async () => {
  await jupyterapp.commands.execute("notebook:run-all-cells");
  const cells = [...jupyterapp.shell.currentWidget.content.model.cells];
  return cells.filter((cell) => cell.type === "code").flatMap((cell) => {
    const outputs = cell.sharedModel.outputs ?? [];
    const errors = outputs.filter((output) => output.output_type === "error");
    if (cell.executionCount === null && cell.sharedModel.source.trim())
      errors.push({ ename: "NotRun", evalue: cell.id });
    return errors.map((error) => `${error.ename}: ${error.evalue}`);
  });
}
"""
CLOSE = """
async () => {
  const panel = jupyterapp.shell.currentWidget;
  await panel.sessionContext.shutdown();
  panel.dispose();
}
"""


def press(page: Page, slider: Locator, key: str) -> bool:
    """Move a slider by keyboard; report, when the kernel has answered, whether it moved."""
    handle = slider.locator(".noUi-handle")
    handle.scroll_into_view_if_needed()
    before = handle.get_attribute("aria-valuenow")
    handle.focus()
    handle.press(key)
    page.evaluate(ANSWERED)
    return handle.get_attribute("aria-valuenow") != before


ANSWERED = "() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.requestKernelInfo()"


def test_a_live_explorer_recomputes(page: Page, run_all: Callable[[str], None]) -> None:
    run_all("small.ipynb")
    output = page.locator(".jp-OutputArea")
    title = output.locator(".gtitle")
    title.filter(has_text="n=0").wait_for()
    path = "document.querySelector('.jp-OutputArea .scatterlayer .js-line').getAttribute('d')"
    before = page.evaluate(path)
    assert press(page, output.locator(".widget-hslider"), "ArrowRight")
    title.filter(has_text="n=1").wait_for()
    page.wait_for_function(f"(before) => {path} !== before", arg=before)
    output.get_by_text("readout 1 lines").wait_for()
    output.locator("select").select_option("markers")
    output.get_by_text("readout 1 markers").wait_for()
    output.locator(".scatterlayer .point").first.wait_for()
    output.get_by_text("It grows.").wait_for()


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_notebook_runs_and_its_explorers_recompute(
    page: Page, run_all: Callable[[str], None], name: str
) -> None:
    run_all(name)
    explorers = page.locator(".jp-OutputArea .widget-vbox")
    assert explorers.count() == page.evaluate(WIDGETS)
    for explorer in explorers.all():
        explorer.scroll_into_view_if_needed()
        before = explorer.evaluate(RESULT)
        sliders, choices = explorer.locator(".widget-hslider"), explorer.locator("select")
        assert sliders.count() + choices.count()
        if sliders.count():
            assert press(page, sliders.first, "Home") or press(page, sliders.first, "End")
        else:
            choices.first.select_option(index=1)
        page.wait_for_function(
            f"([explorer, before]) => ({RESULT})(explorer) !== before",
            arg=[explorer.element_handle(), before],
        )


WIDGETS = """
[...jupyterapp.shell.currentWidget.content.model.cells]
  .flatMap((cell) => cell.sharedModel.outputs ?? [])
  .filter((output) => output.data?.["application/vnd.jupyter.widget-view+json"])
  .filter((output) => `${output.data["text/plain"]}`.startsWith("VBox")).length
"""
RESULT = """
(explorer) => [...explorer.querySelectorAll(".js-plotly-plot svg, .widget-html-content")]
  .map((part) => part.innerHTML).join("|")
"""
