"""Code blocks of a Markdown page, executed as a reader would: save the files, type the commands.

A block with a title is a file to save. In a `console` block, what follows a command is what it
prints, where … on a line of its own stands for any lines and elsewhere for any text; a command
whose exit code is not shown must succeed. A `python` block without a title is a program. Blocks of
`bash` are not executed: they need another machine, a browser or a checkout.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

__all__ = ["Block", "PageError", "execute_page", "read_blocks"]

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
SNIPPET = re.compile(r"^--8<--\n(.+)\n--8<--\n", re.MULTILINE)


class PageError(AssertionError):
    """A page says what is not so."""


class Block(NamedTuple):
    """A fenced block: its language, the file to save it under, and its text."""

    language: str
    title: str | None
    text: str


def read_blocks(page: str) -> list[Block]:
    """Return the blocks of a page, with the files that they include."""
    blocks = [Block(language, title or None, text) for language, title, text in BLOCK.findall(page)]
    return [
        block._replace(text=SNIPPET.sub(lambda m: (ROOT / m[1]).read_text(), block.text))
        for block in blocks
    ]


def execute_page(page: str, folder: Path) -> int:
    """Execute every block of a page in a folder, and return how many commands were typed."""
    _write_programs(folder / "bin")
    typed, work = 0, folder / "work"
    work.mkdir()
    for block in read_blocks(page):
        if block.title is not None:
            (work / block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "console":
            for command, expected in _commands(block.text):
                _type(command, expected, work, folder / "bin")
                typed += 1
        elif block.language == "python":
            (folder / "block.py").write_text(block.text, encoding="utf-8")
            _type(f"python {folder / 'block.py'}", "…\n", work, folder / "bin")
            typed += 1
    return typed


def _commands(text: str) -> list[tuple[str, str]]:
    """Return each command of a console block and what it prints."""
    parts = re.split(r"^\$ (.+)\n", text, flags=re.MULTILINE)
    assert not parts[0], f"a console block begins with a command, not with {parts[0]!r}"
    return list(zip(parts[1::2], parts[2::2], strict=True))


def _type(command: str, expected: str, work: Path, programs: Path) -> None:
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    quiet = {"PERDURE_QUIET": "1", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    answer = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=work,
        env={**os.environ, **quiet, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if answer.returncode != 0:
        raise PageError(f"{command}: exit code {answer.returncode}\n{answer.stdout}{answer.stderr}")
    if not re.fullmatch(_pattern(expected), answer.stdout):
        raise PageError(f"{command} prints\n{answer.stdout}and not\n{expected}")


def _pattern(expected: str) -> str:
    lines = expected.splitlines()
    return "".join(
        "(?:.*\n)*" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + "\n"
        for line in lines
    )


def _write_programs(folder: Path) -> None:
    """Write `python` and `perdure` as a reader has them after installation."""
    folder.mkdir(parents=True)
    for name, options in (("python", ""), ("perdure", "-m perdure")):
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {options} "$@"\n')
        program.chmod(0o755)
