"""Every command that a Markdown file of the repository prints exists, and has those options."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from perdure.cli import Command, app

from .test_document_links import ROOT, markdown_files

if TYPE_CHECKING:
    from pathlib import Path

EVERYWHERE = {"--help", "--version"}
SPAN = re.compile(r"`(perdure [^`]+)`")
LINE = re.compile(r"^(?:\$ )?(perdure .*)$", re.MULTILINE)
FENCE = re.compile(r"^```(?!python)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def commands(text: str) -> list[str]:
    """Return the commands of a page, in the text and in blocks, up to a pipe or a comment."""
    blocks = "\n".join(FENCE.findall(text)).replace("\\\n", " ")
    found = LINE.findall(blocks) + SPAN.findall(FENCE.sub("", text))
    return [re.split(r"[;|>#]|&&", command)[0].replace("\n", " ") for command in found]


def mistakes(text: str) -> list[str]:
    """Return the commands of a page that do not exist or lack one of their options."""
    wrong = []
    for line in commands(text):
        words = line.split()[1:]
        command = Command(words, app)
        unknown = set(re.findall(r"(?<!\S)--[a-z][a-z-]*", line)) - command.options - EVERYWHERE
        if unknown or (command.words == "perdure" and not words[0].startswith("-")):
            wrong.append(line)
    return wrong


@pytest.mark.parametrize("path", markdown_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_commands(path: Path) -> None:
    assert mistakes(path.read_text(encoding="utf-8")) == []


def test_a_mistake_is_found() -> None:
    page = "`perdure socre x`, `perdure score x --as mammoth`\n```sh\nperdure run --fast | cat\n```"
    assert mistakes(page) == ["perdure run --fast ", "perdure socre x"]
