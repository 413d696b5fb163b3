"""`python -m docs.scripts.build`: collects the pages in .docs/ and builds the site in site/."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from .api_pages import api_pages
from .command_pages import command_pages
from .metric_pages import metric_pages
from .notebook_pages import notebook_page
from .sources import ROOT, example_pages, rewrite_links, source_pages

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["collect_pages", "existing_pages", "with_title"]

PAGES = ROOT / ".docs"
CONFIG = ROOT / ".mkdocs.yml"
ASSETS = ("*.png", "*.svg", "*.gif", "*.webp", "*.css", "*.js")


def collect_pages(folder: Path) -> None:
    """Write every page and picture of the site to a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    for path in (path for pattern in ASSETS for path in ROOT.glob(f"docs/**/{pattern}")):
        target = folder / path.relative_to(ROOT / "docs")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    for page, path in source_pages().items():
        source = path.relative_to(ROOT).as_posix()
        text = rewrite_links(path.read_text(encoding="utf-8"), source, page)
        _write(folder / page, with_title(text, path.parent.name))
    for path in ROOT.glob("docs/notebooks/*.ipynb"):
        page = f"notebooks/{path.stem}.md"
        text = notebook_page(path, folder / "notebooks")
        _write(folder / page, rewrite_links(text, f"docs/{page}", page))
    generated = {
        ".": example_pages(), "reference/metrics": metric_pages(),
        "reference/commands": command_pages(), "api": api_pages(),
    }  # fmt: skip
    for place, pages in generated.items():
        for name, text in pages.items():
            _write(folder / place / name, text)


def existing_pages(config: str, folder: Path) -> str:
    """Return the configuration without the pages that do not exist (yet) in its navigation."""
    entry = re.compile(r"^ *- (?:[^:\n]+: )?([\w./-]+(?:\.md|/))\n", re.MULTILINE)
    return entry.sub(lambda m: m[0] if (folder / m[1]).exists() else "", config)


def with_title(text: str, name: str) -> str:
    """Return a page that has a title: its first heading, or else a name."""
    if re.search(r"^# ", text, re.MULTILINE):
        return text
    if text.startswith("## "):
        return text[1:]
    return f"# {name.capitalize()}\n\n{text}"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _main() -> None:
    collect_pages(PAGES)
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    CONFIG.write_text(existing_pages(config, PAGES), encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "-f", CONFIG.name]
    sys.exit(subprocess.run(command, cwd=ROOT, check=False).returncode)  # noqa: S603


if __name__ == "__main__":
    _main()
