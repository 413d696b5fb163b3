"""Code blocks of a Markdown page, executed as a reader would: save the files, type the commands.

A block with a title is a file to save. In a `console` block, what follows a command is what it
prints, where … on a line of its own stands for any lines and elsewhere for any text; a command
whose exit code is not shown must succeed. Decimals may differ on a page that trains, where they
depend on the processor. A `python` block without a title is a program. Blocks of `bash` are not
executed: they need another machine, a browser or a checkout.
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
    typed, work, trains = 0, folder / "work", page.startswith("<!-- test: slow")
    work.mkdir()
    for block in read_blocks(page):
        if block.title is not None:
            (work / block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "console":
            for command, expected in _commands(block.text):
                _compare(command, expected, _type(command, work, folder / "bin"), trains=trains)
                typed += 1
        elif block.language == "python":
            (folder / "block.py").write_text(block.text, encoding="utf-8")
            _type(f"python {folder / 'block.py'}", work, folder / "bin")
            typed += 1
    return typed


def _commands(text: str) -> list[tuple[str, str]]:
    """Return each command of a console block and what it prints."""
    parts = re.split(r"^\$ (.+)\n", text, flags=re.MULTILINE)
    assert not parts[0], f"a console block begins with a command, not with {parts[0]!r}"
    return list(zip(parts[1::2], parts[2::2], strict=True))


def _type(command: str, work: Path, programs: Path) -> str:
    """Return what a command prints to standard output; it must succeed."""
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
    return answer.stdout


def _compare(command: str, expected: str, printed: str, *, trains: bool) -> None:
    lines = (_without_numbers if trains else str)(expected).splitlines()
    pattern = "".join(
        "(?:.*\n)*" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + "\n"
        for line in lines
    )
    if not re.fullmatch(pattern, (_without_numbers if trains else str)(printed)):
        raise PageError(f"{command} prints\n{printed}and not\n{expected}")


def _without_numbers(text: str) -> str:
    """Return a text with 0 for every decimal and one space for several."""
    return re.sub(" +", " ", re.sub(r"[-+]?\d*\.\d+\*?", "0", text))


def _write_programs(folder: Path) -> None:
    """Write `python` and `perdure` as a reader has them after installation."""
    folder.mkdir(parents=True)
    for name, options in (("python", ""), ("perdure", "-m perdure")):
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {options} "$@"\n')
        program.chmod(0o755)
