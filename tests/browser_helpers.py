"""A real Chromium for the tests of pages: what it drew, what it complained of, where it went.

Import `browser` and `page` into a test file to use them as fixtures. Without Chromium the tests
are skipped with a message, but where PERDURE_BROWSER=required they fail.
"""

from __future__ import annotations

import io
import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Locator, Page

__all__ = ["Visit", "browser", "colours_of", "open_visit", "serious_faults", "visit"]

NAMES = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run", "--disable-dev-shm-usage",
)  # fmt: skip


@dataclass
class Visit:
    """An open page, with what went wrong on it: console errors, and requests to other machines."""

    page: Page
    errors: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)

    def is_clean(self) -> bool:
        """Say whether nothing was complained of and nothing left the machine."""
        assert not self.errors, self.errors
        assert not self.strangers, self.strangers
        return True


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        message = "no Chromium on this machine: install it (apt install chromium) to test pages"
        if os.environ.get("PERDURE_BROWSER") == "required":
            pytest.fail(message)
        pytest.skip(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=list(QUIET))
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """A fresh page in a fresh context: no cookies, nothing cached."""
    with open_visit(browser) as found:
        yield found


@contextmanager
def open_visit(browser: Browser) -> Iterator[Visit]:
    """Open a page as `visit` does."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    found = Visit(context.new_page())
    found.page.on("console", lambda said: _note(found, said))
    found.page.on("pageerror", lambda error: found.errors.append(str(error)))
    found.page.on("request", lambda request: _check(found, request.url))
    yield found
    context.close()


def _note(found: Visit, said: Any) -> None:
    if said.type == "error":
        found.errors.append(said.text)


def _check(found: Visit, url: str) -> None:
    if urlparse(url).scheme in ("http", "https") and urlparse(url).hostname not in (
        "127.0.0.1",
        "localhost",
    ):
        found.strangers.append(url)


def colours_of(part: Locator) -> dict[str, int]:
    """Return how many pixels of a part of the page have each colour, as #rrggbb."""
    from PIL import Image

    with Image.open(io.BytesIO(part.screenshot())) as image:
        pixels = np.asarray(image.convert("RGB")).reshape(-1, 3)
    values, counts = np.unique(pixels, axis=0, return_counts=True)
    return {f"#{r:02x}{g:02x}{b:02x}": int(n) for (r, g, b), n in zip(values, counts, strict=True)}


def serious_faults(page: Page) -> list[str]:
    """Return what axe-core finds of serious or critical accessibility faults."""
    from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]

    found = Axe().run(page).response["violations"]
    return [
        f"{fault['id']}: {fault['help']}: {fault['nodes'][0]['html'][:200]}"
        for fault in found
        if fault["impact"] in ("serious", "critical")
    ]
