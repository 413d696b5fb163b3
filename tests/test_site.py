"""The site in Chromium: every page, on a phone and on a desktop, light and dark; `make test-docs`.

The tests read site/, which `make docs` builds, and are skipped without it.
"""

from __future__ import annotations

import functools
import http.server
import re
import threading
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote, urldefrag, urlparse

import pytest

from .browser_helpers import Visit, browser, serious_faults, visit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

__all__ = ["browser", "visit"]  # the fixtures

SITE = Path(__file__).parents[1] / "site"
PAGES = sorted(path for path in SITE.rglob("*.html") if path.name != "404.html")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PAGES, reason="there is no site/: `make docs` builds it"),
]


class Parts(HTMLParser):
    """The links, the ids and the formulas of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name in ("id", "name") and value:
                self.ids.add(value)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def parts() -> dict[Path, Parts]:
    return {path: Parts(path.read_text(encoding="utf-8")) for path in PAGES}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a plain file server, as `python -m http.server` is."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as service:
        threading.Thread(target=service.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{service.server_address[1]}"
        service.shutdown()


def test_every_link_leads_somewhere(parts: dict[Path, Parts]) -> None:
    broken = []
    for path, page in parts.items():
        for link in page.links:
            target, anchor = urldefrag(link)
            if urlparse(link).scheme:
                continue
            file = (path.parent / unquote(target)).resolve() if target else path
            file = file / "index.html" if file.is_dir() else file
            anchor = unquote(anchor)
            if not file.exists() or (anchor and file in parts and anchor not in parts[file].ids):
                broken.append(f"{path.relative_to(SITE)}: {link}")
    assert not broken


def test_pages_load_nothing_from_elsewhere(parts: dict[Path, Parts]) -> None:
    loaded = re.compile(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"?https?://", re.IGNORECASE)
    assert [path for path in PAGES if loaded.search(path.read_text(encoding="utf-8"))] == []


def test_formulas_are_mathml(parts: dict[Path, Parts]) -> None:
    pages = [path for path in PAGES if path.parent.name == "metrics" and path.stem != "index"]
    assert len(pages) >= 7
    for path in pages:
        html = path.read_text(encoding="utf-8")
        formulas = re.findall(r"<math.*?</math>", html, re.DOTALL)
        assert len(formulas) >= html.count('class="formula"') > 0
        assert not any("\\" in formula for formula in formulas), path.name
        assert "$$" not in parts[path].text


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_every_page(
    visit: Visit, server: str, width: int, scheme: Literal["dark", "light"]
) -> None:
    faults = []
    page = visit.page
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    for path in PAGES:
        name = path.relative_to(SITE).as_posix()
        page.goto(f"{server}/{name}")  # axe reads style sheets, which a browser allows only there
        faults += [f"{name}: {fault}" for fault in (*serious_faults(page), *_layout(page))]
        faults += [f"{name}: {fault}" for fault in (*visit.errors, *visit.strangers)]
        visit.errors.clear()
        visit.strangers.clear()
    assert not faults, "\n".join(faults)


def _layout(page: Page) -> list[str]:
    """Return what is wider than the window, and pictures that are not there."""
    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    missing = page.evaluate(
        "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
    )
    return [*([f"{wide} pixels too wide"] if wide > 0 else []), *missing]


def test_search_without_a_server(visit: Visit) -> None:
    visit.page.goto((SITE / "index.html").as_uri())
    _search(visit, "backward transfer", "reference/metrics/transfer.html")


def test_search_with_a_server(visit: Visit, server: str) -> None:
    visit.page.goto(f"{server}/formats.html")
    _search(visit, "windowed forgetting", "reference/metrics/during-training.html")


def _search(visit: Visit, words: str, expected: str) -> None:
    for _ in range(100):  # until the page listens to keys
        visit.page.keyboard.press("Control+k")
        visit.page.wait_for_timeout(200)
        if visit.page.locator("input:focus").count():
            break
    visit.page.keyboard.type(words)
    results = visit.page.locator(f"a[href*='{expected}']:visible")
    results.first.wait_for()
    results.first.click()
    visit.page.wait_for_url(f"**/{expected}*")
    assert visit.is_clean()


def test_the_palette_is_that_of_the_system_and_can_be_changed(visit: Visit) -> None:
    page = visit.page
    page.emulate_media(color_scheme="dark")
    page.goto((SITE / "index.html").as_uri())
    body = page.locator("body")
    assert body.get_attribute("data-md-color-scheme") == "slate"
    page.get_by_title("Switch to light mode").click()
    assert body.get_attribute("data-md-color-scheme") == "default"
    assert visit.is_clean()
