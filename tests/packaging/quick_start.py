"""The quick start of the README, word for word, in an environment with nothing else."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from .environments import ROOT, output_of

if TYPE_CHECKING:
    from pathlib import Path

README = ROOT / "README.md"
CHECK = """\
def check(value, expected):
    shown = f"{value:.6g}" if isinstance(value, float) else repr(value)
    assert shown == expected, f"{shown} instead of {expected}"
"""


def follow(programs: Path, folder: Path) -> int:
    """Type every command of the README's sessions, and run its first Python; return how many."""
    text = README.read_text(encoding="utf-8")
    commands = [step for block in _blocks(text, "console") for step in _read_session(block)]
    for command, expected in commands:
        if command.startswith("cat "):  # the file that the reader has
            (folder / command.removeprefix("cat ")).write_text(expected)
        done = output_of(programs, command, folder)
        if done.stdout != expected:
            raise SystemExit(
                f"$ {command}\n{done.stdout}{done.stderr}\nThe README says:\n{expected}"
            )
    program = _with_checks(_blocks(text, "python")[0])
    done = output_of(programs, f"python -c {shlex.quote(program)}", folder)
    if done.returncode:
        raise SystemExit(f"{program}\n{done.stderr}")
    return len(commands)


def _blocks(markdown: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", markdown, flags=re.DOTALL | re.MULTILINE)


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
