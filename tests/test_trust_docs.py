"""docs/security.md says of every command what it reads, writes and executes."""

from __future__ import annotations

import re
from pathlib import Path

from perdure.cli import app

SECURITY = Path(__file__).parents[1] / "docs" / "security.md"


def test_every_command_is_in_the_table() -> None:
    table = SECURITY.read_text().split("## What each command does")[1].split("##")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall("`([a-z]+)`", row)}
    assert named == {name for name in app if not name.startswith("-")}
