"""The home page and the tutorials do what they say, from an empty folder."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from .page_blocks import PageError, execute_page, read_blocks

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [DOCS / "index.md", *sorted((DOCS / "tutorials").glob("*.md"))]


def parameter(path: Path) -> object:
    """Return a page as a parameter, marked as slow if its first line says so."""
    slow = path.read_text(encoding="utf-8").startswith("<!-- test: slow")
    return pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if slow else [])


def needs(page: str) -> list[str]:
    """Return the packages without which a page is not executed, as its first line says."""
    listed = re.match(r"<!-- test: .*?needs (.+) -->", page)
    return listed[1].split(", ") if listed else []


@pytest.mark.parametrize("path", [parameter(path) for path in PAGES])
def test_a_page_does_what_it_says(path: Path, tmp_path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    for package in needs(page):
        if find_spec(package) is None:
            pytest.skip(f"docs/{path.relative_to(DOCS)} needs {package}, which is not installed")
    typed = execute_page(page, tmp_path)
    assert typed >= 2 or path.parent.name + path.name == "tutorialsindex.md"


def test_what_pages_need_is_installed_by_make_test() -> None:
    lock = (
        (DOCS.parent / "requirements.lock").read_text().lower().replace("scikit-learn", "sklearn")
    )
    for path in PAGES:
        for package in needs(path.read_text(encoding="utf-8")):
            assert f"\n{package}==" in lock, f"{path.name}: {package}"


def test_tutorials_are_short_and_listed() -> None:
    index = (DOCS / "tutorials" / "index.md").read_text(encoding="utf-8")
    for path in PAGES[2:]:
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 120, path.name
        assert f"({path.name})" in index or path.name == "index.md"


@pytest.mark.parametrize(
    ("page", "error"),
    [
        ("```console\n$ echo one\ntwo\n```\n", "echo one prints\none\n"),
        ("```console\n$ false\n```\n", "exit code 1"),
        ("```console\n$ printf 'a\\nb\\n'\na\n```\n", "prints"),
        ("```python\nraise SystemExit(3)\n```\n", "exit code 3"),
    ],
)
def test_a_page_that_is_wrong_is_found(page: str, error: str, tmp_path: Path) -> None:
    with pytest.raises(PageError, match=re.escape(error)):
        execute_page(page, tmp_path)


def test_what_a_page_may_leave_out(tmp_path: Path) -> None:
    page = (
        '```text title="a.txt"\n1\n```\n```console\n$ cat a.txt; echo x; echo y z\n1\n…\ny …\n```\n'
    )
    assert execute_page(page, tmp_path) == 1
    assert [block.title for block in read_blocks(page)] == ["a.txt", None]


def test_decimals_may_differ_only_where_a_page_trains(tmp_path: Path) -> None:
    page = "```console\n$ echo 'acc   0.91  n 3'\nacc -0.5 n 3\n```\n"
    execute_page(f"<!-- test: slow, needs torch -->\n{page}", tmp_path / "trains")
    for number, wrong in enumerate(
        (page, f"<!-- test: slow -->\n{page.replace('-0.5 n 3', '.5 n 4')}")
    ):
        with pytest.raises(PageError):
            execute_page(wrong, tmp_path / str(number))
