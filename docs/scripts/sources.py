"""Which files of the repository are pages of the site, and the links between them."""

from __future__ import annotations

import os
import re
from pathlib import Path

__all__ = ["ROOT", "example_pages", "page_of", "rewrite_links", "source_pages"]

ROOT = Path(__file__).parents[2]
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CODE_OF_CONDUCT.md": "code_of_conduct.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security_policy.md",
    "benchmarks/RESULTS.md": "performance.md",
    "conformance/README.md": "conformance/index.md",
}
EXAMPLES = ("*.py", "*.toml", "*.json", "*.csv", "gate/*.py", "gate/*.toml")
LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json", ".csv": "csv"}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
FENCED = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)


def source_pages() -> dict[str, Path]:
    """Return the Markdown files of the repository by the page that they become."""
    files = [ROOT / name for name in PAGES if name != "README.md"]
    files += [*ROOT.glob("docs/*.md"), *ROOT.glob("docs/tutorials/*.md")]
    files += [*ROOT.glob("studies/*/*.md"), ROOT / "examples/gate/README.md"]
    found = ((page_of(path.relative_to(ROOT).as_posix()), path) for path in files if path.exists())
    return {page: path for page, path in found if page is not None}


def example_pages() -> dict[str, str]:
    """Return the examples as pages that show their code."""
    pages = {}
    for path in sorted(path for pattern in EXAMPLES for path in ROOT.glob(f"examples/{pattern}")):
        name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        lines = text.splitlines()
        if len(lines) > 200:
            text = "\n".join([*lines[:20], f"… {len(lines) - 20} more lines", ""])
        fence = f'```{LANGUAGES[path.suffix]} title="{path.name}"'
        pages[_example_page(name)] = f"# {name}\n\n{fence}\n{text}```\n"
    return pages


def page_of(name: str) -> str | None:
    """Return the page that shows a file of the repository; None if there is none.

    Example:
        >>> page_of("docs/check.md"), page_of("studies/m2i/README.md"), page_of("Makefile")
        ('check.md', 'studies/m2i/index.md', None)
    """
    if name in PAGES:
        return PAGES[name]
    if name.startswith("docs/"):
        return name.removeprefix("docs/").replace(".ipynb", ".md")
    if name.startswith(("studies/", "examples/")) and name.endswith(".md"):
        return name.replace("README.md", "index.md")
    if name.startswith("examples/") and Path(name).suffix in LANGUAGES:
        return _example_page(name)
    return None


def _example_page(name: str) -> str:
    stem, _, suffix = name.rpartition(".")
    return f"{stem}.md" if suffix != "csv" else f"{stem}_csv.md"


def rewrite_links(text: str, source: str, page: str) -> str:
    """Return the text of a page with its links pointing to pages.

    A link to a file that is not on the site becomes its text and the name of the file.

    Args:
        text: Markdown.
        source: The file that it is from, relative to the root of the repository.
        page: The page that it becomes, relative to the root of the site.
    """

    def rewrite(match: re.Match[str]) -> str:
        image, label, target = match.groups()
        path, _, anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return match[0]
        name = os.path.normpath(Path(source).parent / path).replace(os.sep, "/")
        if (found := page_of(name)) is None:
            return label if name in label else f"{label} (`{name}`)"
        relative = os.path.relpath(found, Path(page).parent).replace(os.sep, "/")
        return f"{image}[{label}]({relative}{'#' * bool(anchor)}{anchor})"

    parts = FENCED.split(text)
    return "".join(part if k % 2 else LINK.sub(rewrite, part) for k, part in enumerate(parts))
