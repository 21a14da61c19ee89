"""Every page of the built book, in a browser: quiet, self-contained, readable, alive."""

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, ViewportSize

import kcm_lite
from tests.browser.conftest import Watched, built_pages

pytestmark = pytest.mark.book

PAGE_BUDGET = 1_500_000
"""Bytes that a page may weigh without the scripts and styles that all pages share."""
TERMS = (
    "expectations",
    "reflector",
    "tombstone",
    "workqueue",
    "finalizer",
    "resourceVersion",
    "slow start",
    "adoption",
    "backoff",
    "ownerReferences",
)
"""What a reader may look up; each must lead to a page (Sphinx stems words: plurals do too)."""


def test_on_a_desktop(context: BrowserContext, site: Path, page_path: str) -> None:
    """No error, nothing from elsewhere; plots follow the theme; every control works by keyboard.

    All that without a server, from the file system.
    """
    watched = Watched(context.new_page(), site.as_uri() + "/")
    watched.open(page_path)
    plots_follow_the_theme(watched)
    explorers = watched.page.locator("figure.kcm-explorer")
    for explorer in explorers.all():
        fields = explorer.locator("input, select").all()
        assert fields
        start = [field.input_value() for field in fields]
        for field in fields:
            if not move(explorer, field):  # where the others stand now; where they began, it must
                for each, at in zip(fields, start, strict=True):
                    each.select_option(at) if each.get_attribute("type") is None else each.fill(at)
                assert move(explorer, field), f"{label_of(field)}: nothing ever changes"
    watched.check()


def test_on_a_phone(phone: Watched, page_path: str) -> None:
    """From a server: no error, nothing from elsewhere; no sideways scroll; text that stands out."""
    phone.open(page_path)
    assert phone.page.evaluate(WIDTH) <= 380
    for slider in phone.page.locator(".kcm-controls input[type=range]").all():
        assert slider.evaluate("(slider) => slider.offsetWidth") >= 60  # a finger's room
    for scheme in ("light", "dark"):
        phone.page.emulate_media(color_scheme=scheme)
        phone.page.wait_for_function(
            "(scheme) => document.documentElement.dataset.theme === scheme", arg=scheme
        )
        phone.page.wait_for_timeout(300)  # colours fade in
        for selector in ("article p", "article pre", ".kcm-controls label", ".xtick text"):
            for ratio in phone.page.evaluate(CONTRASTS, selector):
                assert ratio >= 4.5, f"{selector} ({scheme})"
    phone.check()


def test_sources_on_a_phone(phone: Watched, site: Path) -> None:
    """The highlighted source of each module, which a reference links to."""
    paths = [path for path in built_pages(site) if path.startswith("_modules/")]
    for path in paths:
        phone.page.goto(phone.origin + path)
        assert phone.page.evaluate(WIDTH) <= 380, path
    phone.check()


@pytest.fixture
def phone(browser: Browser, address: str) -> Iterator[Watched]:
    size: ViewportSize = {"width": 380, "height": 800}
    with browser.new_context(viewport=size, has_touch=True, color_scheme="light") as context:
        yield Watched(context.new_page(), address)


WIDTH = "Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)"
CONTRASTS = """
(selector) => {
  const parse = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => [r, g, b]
    .map((c) => c / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const [r, g, b, a = 1] = parse(getComputedStyle(node).backgroundColor);
      if (a > 0.5) return [r, g, b];
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll(selector)].slice(0, 20).map((node) => {
    const style = getComputedStyle(node);
    const colour = node instanceof SVGElement ? style.fill : style.color;
    const [a, b] = [light(parse(colour)), light(behind(node))].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  });
}
"""


def plots_follow_the_theme(watched: Watched) -> None:
    """Switch the theme: the first plot's colours change, the reader's zoom does not."""
    plots = watched.page.locator(".kcm-plot")
    if not plots.count():
        return
    plot = plots.first.element_handle()
    state = "(plot) => [plot._fullLayout.font.color, plot._fullLayout.xaxis?.range?.[0]]"
    watched.page.evaluate("(plot) => Plotly.relayout(plot, {'xaxis.range': [0.25, 1]})", plot)
    colour, zoom = watched.page.evaluate(state, plot)
    watched.page.evaluate(
        "document.documentElement.dataset.theme = "
        "document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark'"
    )
    watched.page.wait_for_function(
        "([plot, colour]) => plot._fullLayout.font.color !== colour", arg=[plot, colour]
    )
    assert watched.page.evaluate(state, plot)[1] == zoom


def label_of(field: Locator) -> str:
    return str(field.evaluate("(field) => field.labels[0].firstElementChild.textContent"))


def move(explorer: Locator, field: Locator) -> bool:
    """Go through a control's values by keyboard; report whether anything else changed."""
    label = label_of(field)
    assert label
    before = appearance(explorer)
    field.focus()
    is_range = field.get_attribute("type") == "range"
    field.press("Home")
    values = [value(field)]
    key = "ArrowRight" if is_range else "ArrowDown"
    steps = int(field.get_attribute("max") or 0) if is_range else field.locator("option").count()
    changed = appearance(explorer) != before
    for _ in range(steps):
        field.press(key)
        values.append(value(field))
        changed = changed or appearance(explorer) != before
    assert len(set(values)) > 1, f"{label}: the keyboard does not move it"
    if is_range:
        shown = field.evaluate("(field) => field.nextElementSibling.textContent")
        assert field.get_attribute("aria-valuetext") == shown == values[-1]
    return changed


def value(field: Locator) -> str:
    return str(
        field.evaluate(
            "(field) => field.type === 'range' ? field.getAttribute('aria-valuetext') : field.value"
        )
    )


def appearance(explorer: Locator) -> str:
    """What the reader sees of an Explorer: the drawn data and the text."""
    explorer.page.wait_for_timeout(30)
    return str(
        explorer.evaluate(
            """(root) => {
              const plot = root.querySelector(".kcm-plot");
              const layers = plot ? [...plot.querySelectorAll("svg.main-svg")] : [];
              const text = root.querySelector(".kcm-readout")?.textContent;
              return JSON.stringify([text, layers.map((layer) => layer.innerHTML)]);
            }"""
        )
    )


def test_the_page_is_light_and_says_its_version(site: Path, page_path: str) -> None:
    content = (site / page_path).read_bytes()
    assert len(content) <= PAGE_BUDGET
    if page_path.startswith("book/"):
        assert f"kcm-lite {kcm_lite.__version__};" in content.decode()


class Links(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors = {""}
        self.feed(content)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        self.anchors |= {values.get("id") or "", (values.get("name") if tag == "a" else "") or ""}
        for name in ("href", "src"):
            if link := values.get(name):
                self.links.append(link)


def test_no_link_within_the_site_is_dead(site: Path) -> None:
    pages = {path: Links((site / path).read_text(encoding="utf-8")) for path in built_pages(site)}
    pages["index.html"] = Links((site / "index.html").read_text(encoding="utf-8"))
    dead = []
    for path, page in pages.items():
        for link in page.links:
            target, fragment = urldefrag(urljoin(f"http://site/{path}", link))
            if not target.startswith("http://site/"):
                continue
            name = unquote(target.removeprefix("http://site/")).partition("?")[0]
            if not (site / name).is_file():
                dead.append(f"{path}: {link}")
            elif name in pages and unquote(fragment) not in pages[name].anchors:
                dead.append(f"{path}: {link} (no such place)")
    assert dead == []
    assert sum(len(page.links) for page in pages.values()) > len(pages)


def test_the_first_address_leads_to_the_book(watched: Watched) -> None:
    watched.page.goto(watched.origin)
    watched.page.wait_for_url("**/book/index.html")
    watched.check()


@pytest.mark.parametrize("term", TERMS)
def test_the_search_finds(watched: Watched, term: str) -> None:
    watched.page.goto(f"{watched.origin}search.html?q={term.replace(' ', '+')}")
    result = watched.page.locator("#search-results ul.search li a").first
    result.wait_for(timeout=10_000)
    target = result.get_attribute("href") or ""
    assert re.match(r"book/", target)
    watched.check()


def test_the_search_does_not_find_nonsense(watched: Watched) -> None:
    watched.page.goto(f"{watched.origin}search.html?q=quuxfrobnicate")
    watched.page.get_by_text("did not match any documents").wait_for()
    watched.check()


def test_figures_say_what_they_show(site: Path, page_path: str) -> None:
    """Alt text for every plot, a caption for every Explorer."""
    content = (site / page_path).read_text(encoding="utf-8")
    labels = re.findall(r'<div class="kcm-plot" role="img" aria-label="([^"]*)"', content)
    assert "" not in labels and "Figure" not in labels
    for figure in re.findall(r'<figure class="kcm-explorer">(.*?)</figure>', content, re.DOTALL):
        assert "<figcaption>" in figure
        data = re.search(r'<script type="application/json">(.*?)</script>', figure, re.DOTALL)
        assert data is not None and json.loads(data[1])["points"]
