"""The page of a run, as ``kcm-lite simulate --html`` writes it, in headless Chromium."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from kcm_lite.viz.report import page
from tests.sim_support import deployment, job, pod, replica_set, run

pytestmark = pytest.mark.book


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    result = run(
        title="one of each",
        objects=[
            replica_set(60),
            replica_set(3, name="a-set-with-quite-a-long-name"),
            pod(),
            deployment(4, "shop"),
            deployment(2, "a-deployment-with-quite-a-long-name"),
            job(completions=2),
        ],
        actions=[
            {"at": 9, "do": "scale", "kind": "rs", "name": "web", "replicas": 5},
            {"at": 9, "do": "setImage", "kind": "deploy", "name": "shop", "image": "app:2"},
        ],
        expect=[{"pods": {"ready": True}, "count": 9}, {"pods": {}, "count": 0}],
    )
    path = tmp_path_factory.mktemp("page") / "run.html"
    path.write_text(page(result), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [1280, 380])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_draws_fits_and_asks_for_nothing(
    browser: Browser, report: Path, width: int, scheme: str
) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,  # type: ignore[arg-type]
    )
    tab = context.new_page()
    errors: list[str] = []
    requests: list[str] = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.on("console", lambda message: errors.append(message.text))
    tab.on("request", lambda request: requests.append(request.url))
    tab.goto(report.as_uri())
    tab.wait_for_function("document.querySelectorAll('.plot .main-svg').length >= 7")
    assert errors == []
    assert [url for url in requests if not url.startswith(("data:", "blob:"))] == [report.as_uri()]
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    ink = tab.evaluate("getComputedStyle(document.querySelector('#pods .xtick text')).fill")
    assert ink == ("rgb(28, 36, 48)" if scheme == "light" else "rgb(230, 233, 238)")
    context.close()


def test_the_plots_follow_a_change_of_the_colour_scheme(browser: Browser, report: Path) -> None:
    tab = browser.new_page(color_scheme="light")
    tab.goto(report.as_uri())
    tab.wait_for_function("document.querySelectorAll('.plot .main-svg').length >= 7")
    tab.emulate_media(color_scheme="dark")
    ink = "getComputedStyle(document.querySelector('#pods .xtick text')).fill"
    tab.wait_for_function(f"{ink} === 'rgb(230, 233, 238)'")
    tab.close()
