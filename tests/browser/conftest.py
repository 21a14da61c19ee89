"""The built book, a server for it, and headless Chromium."""

import functools
import http.server
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.tools_support import ROOT

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--site", default=str(ROOT / "_build/html"), help="the built book to check")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give tests of a ``page_path`` one run for each page of the book (but sources)."""
    if "page_path" in metafunc.fixturenames:
        site = Path(metafunc.config.getoption("site"))
        pages = [path for path in built_pages(site) if not path.startswith("_modules/")]
        metafunc.parametrize("page_path", pages or ["(the book is not built: run make book)"])


def built_pages(site: Path) -> list[str]:
    """Every page of the site, relative to it; ``index.html`` at the top only forwards."""
    return sorted(
        path.relative_to(site).as_posix()
        for path in site.rglob("*.html")
        if "_static" not in path.parts and path != site / "index.html"
    )


@pytest.fixture(scope="session")
def site(request: pytest.FixtureRequest) -> Path:
    """The folder of the built book; no book is a failure, not a skip."""
    path = Path(request.config.getoption("site")).resolve()
    assert (path / "index.html").exists(), f"{path}: the book is not built: run make book"
    return path


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """A file server that does not log."""

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    """The book, served on this machine."""
    handler = functools.partial(QuietHandler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@dataclass
class Watched:
    """A page, and everything about it that a reader's console or network tab would show."""

    page: Page
    origin: str
    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("pageerror", lambda error: self.errors.append(f"error: {error}"))
        self.page.on(
            "console",
            lambda message: (
                self.errors.append(f"{message.type}: {message.text}")
                if message.type in ("error", "warning")
                else None
            ),
        )
        self.page.on(
            "requestfailed",
            lambda request: (
                None
                if request.failure == "net::ERR_ABORTED"  # the reader went on to the next page
                else self.errors.append(f"failed: {request.url}: {request.failure}")
            ),
        )
        self.page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith((self.origin, "data:", "blob:"))
                else self.foreign.append(request.url)
            ),
        )

    def open(self, path: str) -> None:
        """Go to a page and draw everything on it, as if it had been scrolled through."""
        self.page.goto(self.origin + path)
        self.page.wait_for_load_state("load")
        plots = self.page.locator(".kcm-plot")
        if plots.count():
            self.page.evaluate("dispatchEvent(new Event('beforeprint'))")
            self.page.wait_for_function(
                "[...document.querySelectorAll('.kcm-plot')].every((plot) => plot.dataset.drawn)"
            )

    def check(self) -> None:
        """Nothing went wrong, and nothing came from elsewhere."""
        assert self.foreign == []
        assert self.errors == []


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        yield context


@pytest.fixture
def watched(context: BrowserContext, address: str) -> Watched:
    return Watched(context.new_page(), address)
