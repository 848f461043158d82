"""The page at /, used as a person would: by keyboard, by day and night, on a phone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.engine import LLM
from paceline.types import SamplingParams
from tests.browser.chromium import Page, browse
from tests.conftest import ALL_DRAFTS
from tests.live_server import Live, live

pytestmark = pytest.mark.browser
SHOTS = os.environ.get("SCREENSHOTS")
PROMPT = "def read_lines(path):"
DONE = "/tokens in/.test(document.getElementById('told').textContent)"


@pytest.fixture(scope="module")
def server() -> Iterator[Live]:
    with live(LLM("mini", draft=ALL_DRAFTS), chat_template=None) as running:
        yield running


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browse(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def page(browser: Page, server: Live) -> Iterator[Page]:
    browser.problems.clear()
    browser.requests.clear()
    browser.size(1280, 900)
    browser.open(server.url)
    browser.until("document.getElementById('drafter').options.length > 1")
    yield browser
    assert browser.problems == []


def shoot(page: Page, name: str) -> None:
    if SHOTS:
        page.screenshot(Path(SHOTS) / f"{name}.png")


def written(page: Page) -> str:
    return str(page.run("document.getElementById('output').textContent"))


def write(page: Page) -> None:
    page.run("document.getElementById('prompt').focus()")
    page.press("Enter", modifiers=2)
    page.until(DONE)


def test_charts_begin_with_the_first_request(browser: Page) -> None:
    charts = "document.getElementById('charts').hidden"
    with live(LLM("mini", draft=ALL_DRAFTS)) as idle:
        browser.size(1280, 900)
        browser.open(idle.url)
        browser.until("document.getElementById('watched').textContent")
        told = "document.getElementById('watched').textContent"
        assert "Nothing has run yet" in browser.run(told)
        assert browser.run(charts) is True
        shoot(browser, "idle")
        write(browser)
        browser.until(f"!{charts}")
        browser.until("/(H100|L100.00,.*)$/.test(document.querySelector('#batch path')"
                      "?.getAttribute('d'))")  # fmt: skip
        browser.until(f"{told}.startsWith('The last ')")
    browser.until(f"{told} === 'The server does not answer.'")


def test_it_writes_with_every_token_coloured_by_its_origin(
    page: Page, server: Live, mini: LLM
) -> None:
    write(page)
    params = SamplingParams(temperature=0, max_tokens=96)
    assert written(page) == PROMPT + mini.generate(PROMPT, params)[0].text
    depths = page.run(
        "[...document.querySelectorAll('#output [data-depth]')].map(s => +s.dataset.depth)"
    )
    usage = server.post("/v1/completions", prompt=PROMPT, temperature=0, max_tokens=96)["usage"]
    assert len(depths) == usage["speculation"]["accepted"] > 0
    colours = page.run(
        "[...new Set([...document.querySelectorAll('#output span')]"
        ".map(s => getComputedStyle(s).backgroundColor))]"
    )
    assert len(colours) >= 3
    assert "target" in page.run("document.getElementById('legend').textContent")
    page.until("document.querySelector('#accept rect') && document.querySelector('#rate path')")
    shoot(page, "light")


def test_the_switch_and_the_drafter(page: Page) -> None:
    write(page)
    drafted = written(page)
    page.run("document.getElementById('drafter').value = 'ngram'")
    page.run("document.getElementById('k').value = '6'")
    write(page)
    assert written(page) == drafted
    assert "ngram" in page.run("document.getElementById('legend').textContent")
    page.run("document.getElementById('enabled').focus()")
    page.press(" ")
    assert page.run("document.getElementById('drafter').disabled") is True
    write(page)
    assert written(page) == drafted
    assert page.run("document.querySelectorAll('#output [data-depth]').length") == 0


def test_metrics_of_several_replicas_are_added_up(page: Page) -> None:
    text = r"""# TYPE a gauge\na{replica="r"} 1\na{replica="s"} 2\nb{replica="r",x="{}"} 3\nc 4"""
    told = page.run(f"Object.fromEntries(series(`{text}`))")
    assert told == {"a": 3, 'b{x="{}"}': 3, "c": 4}


def test_escape_stops(page: Page, server: Live) -> None:
    page.run("document.getElementById('tokens').value = 900")
    page.run("document.getElementById('temperature').value = 1")
    page.run("document.getElementById('prompt').focus()")
    page.press("Enter", modifiers=2)
    page.until("document.querySelectorAll('#output span').length > 3")
    page.press("Escape")
    page.until("document.getElementById('told').textContent === 'Stopped.'")


def test_what_goes_wrong_is_said(page: Page) -> None:
    page.run("document.getElementById('prompt').value = ''")
    page.run("document.getElementById('form').requestSubmit()")
    page.until("document.getElementById('told').className === 'bad'")
    assert "prompt is empty" in page.run("document.getElementById('told').textContent")
    page.problems.clear()  # the browser logs the status 400 itself


def test_tab_reaches_everything(page: Page) -> None:
    page.run("document.activeElement.blur()")
    reached = []
    for _ in range(14):
        page.press("Tab")
        reached.append(page.run("document.activeElement.id"))
    wanted = {"prompt", "enabled", "drafter", "k", "temperature", "seed", "tokens", "run"}
    assert wanted | {"output"} <= set(reached)


@pytest.mark.parametrize(("width", "height"), [(360, 740), (1280, 900)], ids=["phone", "desk"])
@pytest.mark.parametrize("dark", [False, True], ids=["day", "night"])
def test_it_fits_and_can_be_read(page: Page, width: int, height: int, dark: bool) -> None:
    page.size(width, height, dark)
    write(page)
    page.until("document.querySelector('#rate path')")
    shoot(page, f"{width}-{'night' if dark else 'day'}")
    assert page.run("document.documentElement.scrollWidth") <= width
    assert page.run(CONTRAST) >= 4.5


def test_it_asks_nobody_else(page: Page, server: Live) -> None:
    write(page)
    assert page.requests
    assert all(url.startswith((server.url, "data:")) for url in page.requests)


CONTRAST = """(() => {
  const light = text => {
    const c = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    for (const colour of text) { c.fillStyle = colour; c.fillRect(0, 0, 1, 1); }
    const [r, g, b] = [...c.getImageData(0, 0, 1, 1).data].slice(0, 3)
      .map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  return Math.min(...[...document.querySelectorAll(
    'label, #output span, #told, #watched, b, #run, h2, li')]
    .filter(e => e.textContent.trim() && !e.classList.contains('bad')).map(e => {
      const behind = [];
      for (let at = e; at; at = at.parentElement)
        behind.unshift(getComputedStyle(at).backgroundColor);
      const [x, y] = [light([...behind, getComputedStyle(e).color]), light(behind)]
        .sort((a, b) => b - a);
      return (x + 0.05) / (y + 0.05);
    }));
})()"""
