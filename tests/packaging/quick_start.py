"""The quick starts of the README and of the site, word for word, where nothing else is."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from .environments import ROOT, output_of

if TYPE_CHECKING:
    from pathlib import Path

PAGES = ("README.md", "docs/index.md")
CHECK = """\
def check(value, expected):
    shown = f"{value:.6g}" if isinstance(value, float) else repr(value)
    assert shown == expected, f"{shown} instead of {expected}"
"""


def follow(programs: Path, folder: Path) -> None:
    """Type every command of the pages' sessions, and run the first Python of the README."""
    for page in PAGES:
        if (ROOT / page).is_file():
            _type_sessions((ROOT / page).read_text(encoding="utf-8"), programs, folder)
    program = _with_checks(_blocks((ROOT / "README.md").read_text(encoding="utf-8"), "python")[0])
    done = output_of(programs, f"python -c {shlex.quote(program)}", folder)
    if done.returncode:
        raise SystemExit(f"{program}\n{done.stderr}")


def _type_sessions(page: str, programs: Path, folder: Path) -> None:
    for name, content in re.findall(r'^```csv title="(.*?)"\n(.*?)^```$', page, flags=re.S | re.M):
        (folder / name).write_text(content)
    commands = [step for block in _blocks(page, "console") for step in _read_session(block)]
    for command, expected in commands:
        if command.startswith("cat "):  # the file that the reader has
            (folder / command.removeprefix("cat ")).write_text(expected)
        done = output_of(programs, command, folder)
        if not _matches(done.stdout, expected):
            message = f"$ {command}\n{done.stdout}{done.stderr}\nThe page says:\n{expected}"
            raise SystemExit(message)


def _matches(output: str, expected: str) -> bool:
    """Return whether this is what a page shows, which may end with an ellipsis."""
    beginning = expected.removesuffix("…\n")
    return output.startswith(beginning) and (output == expected or beginning != expected)


def _blocks(markdown: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", markdown, flags=re.S | re.M)


def _read_session(block: str) -> list[tuple[str, str]]:
    """Return the commands of a session, each with what it prints."""
    steps = block.removeprefix("$ ").split("\n$ ")
    pairs = (step.rstrip("\n").partition("\n") for step in steps)
    return [(command, f"{output}\n") for command, _, output in pairs]


def _with_checks(code: str) -> str:
    """Return a program that compares the value of each line with the comment behind it."""
    lines = (line.partition("  # ") for line in code.splitlines())
    return CHECK + "\n".join(
        f"check({line}, {comment!r})" if comment else line for line, _, comment in lines
    )
