"""The generated pages of the site: every metric, command, option and name of the API is there."""

from __future__ import annotations

import base64
import json
import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import perdure
from perdure.cli import app, options_of
from perdure.metrics import METRICS, TOOLS

if TYPE_CHECKING:
    from cyclopts import App

ROOT = Path(__file__).parents[1]
build = import_module("docs.scripts.build")
METRIC_PAGES: dict[str, str] = import_module("docs.scripts.metric_pages").metric_pages()
COMMAND_PAGES: dict[str, str] = import_module("docs.scripts.command_pages").command_pages()
API_PAGES: dict[str, str] = import_module("docs.scripts.api_pages").api_pages()


def section_of(id_: str) -> str:
    """Return the section of a metric, which exists once."""
    whole = "\n".join(page for name, page in METRIC_PAGES.items() if name != "index.md")
    (section,) = re.findall(
        rf"^## {re.escape(id_)} .*?(?=^## |\Z)", whole, re.DOTALL | re.MULTILINE
    )
    assert isinstance(section, str)
    return section


@pytest.mark.parametrize("id_", METRICS)
def test_a_metric_has_its_formula_interpretation_example_and_names(id_: str) -> None:
    metric, section = METRICS[id_], section_of(id_)
    assert f"$${metric.symbol} = {metric.formula}$$" in section
    plain = re.sub(r"\[`([^`]+)`\]\([^)]*\)|`([^`]+)`", r"\1\2", section).replace("\\", "")
    for text in (metric.interpretation, metric.rule_of_thumb, metric.distinction, metric.source):
        assert text.replace("`", "").replace("\\", "") in plain
    code, _, result = section.partition("```pycon\n>>> ")[2].partition("\n```")[0].rpartition("\n")
    assert code
    assert re.search(r"\d", result), "the example ends with a number"
    for tool, metrics in TOOLS.items():
        for printed in metrics:
            if printed.id == id_:
                assert re.search(rf"`{re.escape(printed.name)}` by [^;]*\b{tool}\b", section)
    assert f"#{id_})" in METRIC_PAGES["index.md"]


def test_values_are_those_of_the_readme() -> None:
    """The table of the README is checked against the tools themselves."""
    for id_, value in {"bwt": "-0.1650", "acc.below": "0.6260", "fwt.gem": "0.2500"}.items():
        assert f"**Value.** {value} for" in section_of(id_)


def commands(program: App, words: str = "perdure") -> dict[str, App]:
    """Return every command and subcommand by its words."""
    found = {}
    for name in (name for name in program if not name.startswith("-")):
        found[f"{words} {name}"] = program[name]
        found |= commands(program[name], f"{words} {name}")
    return found


def test_every_command_and_option_has_its_place() -> None:
    for words, command in commands(app).items():
        page = COMMAND_PAGES[f"{words.split()[1]}.md"]
        assert re.search(rf"^##? {words}$", page, re.MULTILINE), words
        for option in options_of(command):
            assert re.search(rf"[` ]{option}\b", page), f"{words} {option}"
        assert f"({words.split()[1]}.md)" in COMMAND_PAGES["index.md"]
    assert set(COMMAND_PAGES) == {"index.md", *(f"{name}.md" for name in app if name[0] != "-")}


def test_the_pages_of_commands_show_nothing_of_how_they_were_made() -> None:
    for page in COMMAND_PAGES.values():
        assert not re.search(r"docs\.scripts|pytest|Table of Contents|__main__", page)
        assert not re.search(r"choices: [^\]]{300}", page)


def test_every_public_name_is_described_once() -> None:
    described = re.findall(r"^::: (\S+)$", "\n".join(API_PAGES.values()), re.MULTILINE)
    assert len(described) == len(set(described))
    packages = {name for name in dir(perdure) if name in perdure._SUBPACKAGES}
    names = {f"perdure.{name}" for name in dir(perdure) if name not in packages | {"__version__"}}
    assert names <= set(described)
    for name in ("metrics.bwt", "stats.compare_pair", "strategies.EWC", "strategies.Strategy"):
        assert f"perdure.{name}" in described


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "pages"
    build.collect_pages(folder)
    return folder


def test_every_page_is_in_the_navigation(pages: Path) -> None:
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    entries = re.findall(r"^ *- (?:[^:\n]+: )?([\w./-]+(?:\.md|/))$", config, re.MULTILINE)
    for path in pages.rglob("*.md"):
        page = path.relative_to(pages).as_posix()
        listed = any(
            page == entry or (entry[-1] == "/" and page.startswith(entry)) for entry in entries
        )
        assert listed, f"{page} is not in the navigation: add it to `nav` in mkdocs.yml"


def test_every_page_has_one_title_and_it_comes_first(pages: Path) -> None:
    for path in pages.rglob("*.md"):
        text = re.sub(r"^```.*?^```|^<!--.*?-->\n", "", path.read_text(), flags=re.DOTALL | re.M)
        headings = re.findall(r"^(#+) ", text, re.MULTILINE)
        assert headings[:1] == ["#"], path.relative_to(pages)
        assert headings.count("#") == 1, path.relative_to(pages)


def test_pages_that_do_not_exist_yet_are_left_out(pages: Path) -> None:
    config = (
        "nav:\n  - index.md\n  - A: no_such_page.md\n  - B: reference/metrics/\n  - C: nothing/\n"
    )
    kept = build.existing_pages(config, pages)
    assert kept == "nav:\n  - index.md\n  - B: reference/metrics/\n"


def test_what_the_configuration_promises() -> None:
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "font: false" in config
    assert "http" not in re.sub(r"^ *#.*$", "", config, flags=re.MULTILINE)


def test_a_notebook_becomes_a_page(tmp_path: Path) -> None:
    picture = base64.b64encode(b"picture").decode()
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {"cell_type": "code", "source": ["1 + 1"], "outputs": [
            {"data": {"text/plain": ["2"]}}, {"data": {"image/png": picture, "text/plain": "x"}},
            {"data": {"text/html": "<p>\n\nhello</p>"}}, {"text": ["printed\n"]},
        ]},
    ]  # fmt: skip
    (tmp_path / "n.ipynb").write_text(json.dumps({"cells": cells}))
    page = import_module("docs.scripts.notebook_pages").notebook_page(
        tmp_path / "n.ipynb", tmp_path
    )
    assert page == (
        "# Title\ntext\n\n```python\n1 + 1\n```\n\n```text\n2\n```\n\n![output](n-1-1.png)\n\n"
        "<p>\nhello</p>\n\n```text\nprinted\n```\n"
    )
    assert (tmp_path / "n-1-1.png").read_bytes() == b"picture"
