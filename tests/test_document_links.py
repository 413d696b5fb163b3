"""Every link in a Markdown file of the repository leads to a file, and to a heading in it."""

from __future__ import annotations

import os
import re
from importlib import import_module
from pathlib import Path

import pytest

sources = import_module("docs.scripts.sources")
ROOT = Path(__file__).parents[1]
FOLDERS = ("benchmarks", "conformance", "docs", "examples", "studies", "tests")
SKIPPED = {".docs", ".venv", ".venv-docs", ".venv-frameworks", ".venv-peers", "runs", "site"}
GENERATED = ("docs/api/", "docs/reference/")  # by docs/scripts/; `make docs` checks links to them


def markdown_files() -> list[Path]:
    """Return the Markdown files, without those of environments and built pages."""
    found = [*ROOT.glob("*.md")]
    for folder in FOLDERS:
        found += (ROOT / folder).rglob("*.md")
    return [path for path in found if not SKIPPED & set(path.relative_to(ROOT).parts)]


def slugs(text: str) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub makes them."""
    plain = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+?)(?: \{ #.+ \})?$", plain, flags=re.MULTILINE)
    words = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.strip().replace(" ", "-") for heading in words}


@pytest.mark.parametrize("path", markdown_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    outside = re.sub(r"^```.*?^```|`[^`\n]*`(?!\])", "", text, flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", outside):
        link, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        file = path if not link else Path(os.path.normpath(path.parent / link))
        if file.relative_to(ROOT).as_posix().startswith(GENERATED):
            continue
        assert file.exists(), f"{target}: no such file"
        if anchor and file.suffix == ".md":
            assert anchor in slugs(file.read_text(encoding="utf-8")), f"{target}: no such heading"


def test_headings_in_code_are_none() -> None:
    assert slugs("# What `perdure score` reads\n```\n# no heading\n```\n") == {
        "what-perdure-score-reads"
    }


def test_links_on_the_site_lead_to_pages() -> None:
    text = (
        "[a](../examples/own_loop.py) [b](check.md#x) [c](../Makefile) [d](https://e.org) [e](#f)\n"
    )
    assert sources.rewrite_links(text, "docs/x.md", "x.md") == (
        "[a](examples/own_loop.md) [b](check.md#x) c (`Makefile`) [d](https://e.org) [e](#f)\n"
    )
    link = "[benchmarks](../../benchmarks/RESULTS.md)"
    page = sources.rewrite_links(link, "docs/tutorials/x.md", "tutorials/x.md")
    assert page == "[benchmarks](../performance.md)"
    fenced = "```\n[a](../Makefile)\n```\n"
    assert sources.rewrite_links(fenced, "docs/x.md", "x.md") == fenced
