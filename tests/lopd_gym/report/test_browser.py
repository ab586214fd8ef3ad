"""The pages in headless Chromium: opened, clicked through, and attacked."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lopd_gym.report.comparison_page import comparison_page
from lopd_gym.report.episode_view import Token, episode_view
from lopd_gym.report.run_page import run_page
from lopd_gym.report.tokens import TaughtStep
from tests.lopd_gym.report.comparisons import LABELS, comparison
from tests.lopd_gym.report.runs import HOSTILE, finished_run, hostile_episode

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
PHONE = {"width": 360, "height": 740}
SIZES = [PHONE, {"width": 1200, "height": 900}]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = next(filter(None, map(shutil.which, names)), None)
    with playwright.sync_playwright() as driver:
        path = found or driver.chromium.executable_path
        if not Path(path).exists():
            pytest.skip("no Chromium: install it, or run 'playwright install chromium'")
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = driver.chromium.launch(executable_path=path, args=sandbox)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = finished_run(tmp_path_factory.mktemp("runs") / "run", extra=[hostile_episode()])
    tokens = {0: [Token("good", -0.1, -3.0), Token(HOSTILE, -6.0, -1.0), Token("\n", -1.0, -1.0)]}
    view = episode_view(hostile_episode(), "train", 0, [], tokens, HOSTILE)
    page = run_page(run, TaughtStep(2, 1, [view]))
    (run / "report.html").write_text(page, encoding="utf-8")
    return run


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = comparison(tmp_path_factory.mktemp("compare"))
    own = folder / "lopd-seed-0"
    (own / "report.html").write_text(run_page(own), encoding="utf-8")
    (folder / "report.html").write_text(comparison_page(folder), encoding="utf-8")
    return folder


class Opened:
    """A page of a file; whatever it complained of or loaded is noted."""

    def __init__(self, browser: Any, file: Path, **options: Any) -> None:
        self.page = browser.new_page(**options)
        self.complaints: list[str] = []
        self.loaded: list[str] = []
        self.page.on("console", lambda said: self.complaints.append(said.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.loaded.append(request.url))
        self.page.goto(file.as_uri())


@pytest.fixture(params=["run", "compared"])
def file(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.getfixturevalue(request.param)
    return folder / "report.html"


@pytest.mark.parametrize("size", SIZES, ids=["phone", "desk"])
def test_it_fits_the_screen_complains_of_nothing_and_loads_nothing(
    browser: Any, file: Path, size: Any
) -> None:
    opened = Opened(browser, file, viewport=size)
    assert opened.complaints == []
    assert opened.loaded == [file.as_uri()]
    for details in opened.page.locator("details:not(details details) > summary").all():
        details.click()
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    for link in opened.page.locator("nav a").all():
        link.click()
        target = opened.page.locator(link.get_attribute("href"))
        assert target.locator("h2").is_visible()
    opened.page.close()


def ground(page: Any) -> int:
    """Lightness of the page's ground, 0 to 765."""
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(int(part) for part in colour.strip("rgb()").split(",")[:3])


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_colours_follow_the_reader_until_the_button_is_used(
    browser: Any, file: Path, scheme: str
) -> None:
    page = Opened(browser, file, color_scheme=scheme).page
    button = page.get_by_role("button", name="colours")
    assert (ground(page) < 200) is (scheme == "dark")
    button.click()
    assert button.text_content() == "colours: light"
    assert ground(page) > 700
    button.press("Enter")
    assert button.text_content() == "colours: dark"
    assert ground(page) < 200
    page.reload()
    assert ground(page) < 200
    button.click()
    assert (ground(page) < 200) is (scheme == "dark")
    page.close()


def test_episodes_are_filtered_and_opened(browser: Any, run: Path) -> None:
    page = Opened(browser, run / "report.html").page
    visible = page.locator("#episodes details.episode:visible")
    everything = visible.count()
    page.get_by_role("button", name="worst", exact=True).click()
    assert 0 < visible.count() < everything
    assert all("worst" in (e.get_attribute("data-tags") or "").split("|") for e in visible.all())
    page.get_by_role("button", name="open all").click()
    assert visible.locator(".messages").first.is_visible()
    page.get_by_role("button", name="all", exact=True).click()
    assert visible.count() == everything
    page.close()


def test_episodes_are_reached_by_keys(browser: Any, run: Path) -> None:
    page = Opened(browser, run / "report.html").page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    second = page.locator("#episodes details.episode").nth(1)
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert not second.locator(".messages").is_visible()
    page.keyboard.press("Enter")
    assert second.locator(".messages").is_visible()
    page.goto((run / "report.html").as_uri() + "#student-sampled-0")
    assert page.locator("#student-sampled-0 .messages").is_visible()
    page.close()


def test_a_touched_token_shows_its_numbers(browser: Any, run: Path) -> None:
    page = Opened(browser, run / "report.html", viewport=PHONE, has_touch=True).page
    good, bad = page.locator("#tokens .messages .a4"), page.locator("#tokens .messages .a-4")
    good.tap()
    said = page.locator("#token-numbers")
    assert said.text_content() == '"good": log q -0.10, log p -3.00, advantage +2.90'
    assert said.is_visible()
    colours = [
        x.evaluate("node => getComputedStyle(node).backgroundColor") for x in (good, bad.first)
    ]
    assert len(set(colours)) == 2
    page.close()


def test_hostile_text_runs_nothing(browser: Any, run: Path) -> None:
    opened = Opened(browser, run / "report.html")
    page = opened.page
    page.get_by_role("button", name="open all").click()
    assert page.title() == "lopd in envscaler:starter"
    assert page.locator("main img, main script").count() == 0
    assert page.get_by_text('<script>document.title="owned"</script>').count() >= 8
    # Even what gets past the escaping is stopped by the page's own policy.
    attack = "<img src=x onerror=\"document.title='owned'\">"
    page.evaluate("html => document.body.insertAdjacentHTML('beforeend', html)", attack)
    page.evaluate("document.body.append(Object.assign(document.createElement('script'), "
                  "{textContent: \"document.title = 'owned'\"}))")  # fmt: skip
    page.wait_for_timeout(100)
    assert page.title() == "lopd in envscaler:starter"
    assert any("Content Security Policy" in said for said in opened.complaints)
    page.close()


def test_without_scripts_everything_can_be_read(browser: Any, run: Path) -> None:
    page = Opened(browser, run / "report.html", java_script_enabled=False).page
    episode = page.locator("#episodes details.episode").first
    episode.locator("summary").first.click()
    assert episode.locator(".messages").is_visible()
    assert not page.locator("#theme").is_visible()
    page.close()


def test_a_comparison_leads_to_its_runs(browser: Any, compared: Path) -> None:
    page = Opened(browser, compared / "report.html").page
    (verdict,) = page.locator(".verdicts li").all_inner_texts()
    assert "no difference to lopd shown" in verdict
    assert all(label in verdict for label in LABELS[1:])
    assert page.locator("#curves svg[role=img]").count() == 2
    task = page.locator("#episodes details.episode")
    assert task.count() == 12
    page.get_by_role("link", name="lopd-seed-0").click()
    assert page.title() == "lopd in envscaler:starter"
    page.close()
