"""Takes pictures of the report and of the live page: python docs/screenshots.py STORE FOLDER.

Needs playwright and Chromium, as the tests of the pages do.
"""

import argparse
import shutil
import tempfile
import threading
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from perdure.report.live import LiveServer, open_port
from perdure.report.load import open_methods
from perdure.report.page import render_page

NAMES = ("chromium", "chromium-browser", "google-chrome")


def open_page(browser: Browser, address: str, height: int) -> Page:
    """Return an open page in light colours, as wide as on a desk; its pictures are smaller."""
    viewport = {"width": 1280, "height": height}
    page = browser.new_page(viewport=viewport, device_scale_factor=0.6, color_scheme="light")
    page.goto(address)
    return page


def take_report(browser: Browser, store: Path, folder: Path) -> None:
    """Write report.png, the top of the page, and report-curves.png, its curves."""
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary, "report.html")
        file.write_text(render_page(open_methods([str(store)])[0]), "utf-8")
        page = open_page(browser, file.as_uri(), 1240)
        page.wait_for_selector("html[data-drawn=yes]")
        page.screenshot(path=folder / "report.png")
        page.locator("#curves").screenshot(path=folder / "report-curves.png")


def take_live_page(browser: Browser, store: Path, folder: Path) -> None:
    """Write watch.png: all runs of the store compared."""
    server = LiveServer(store, open_port("127.0.0.1", None))
    thread = threading.Thread(target=server.serve_here)
    thread.start()
    try:
        page = open_page(browser, server.address, 880)
        page.wait_for_function(
            "() => [...document.querySelectorAll('.run .acc')].some((acc) => acc.innerText)"
        )
        page.get_by_role("button", name="Tick all listed").click()
        page.locator("#shown-title", has_text="compared").wait_for()
        page.wait_for_timeout(2000)  # until the last curve is drawn
        page.screenshot(path=folder / "watch.png")
    finally:
        server.end()
        thread.join()


def main() -> None:
    """Take all screenshots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path, help="a folder of runs")
    parser.add_argument("folder", type=Path, help="where the pictures are written")
    given = parser.parse_args()
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise SystemExit("no Chromium on this machine; install it (apt install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        take_report(browser, given.store, given.folder)
        take_live_page(browser, given.store, given.folder)
        browser.close()


if __name__ == "__main__":
    main()
