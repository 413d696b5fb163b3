"""The README tells the truth: its table, its example and its length."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from perdure.metrics import as_tool
from perdure.record import read_input

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
TOOL_OF = {
    "Avalanche": "avalanche",
    "Avalanche, CLEAR": "avalanche-clear",
    "Mammoth": "mammoth",
    "Renate": "renate",
    "CapyMOA": "capymoa",
    "M2I/I2M tables": "m2i",
    "FACIL": "facil",
    "PyCIL": "pycil",
    "continuum": "continuum",
}


def test_table_of_conflicts_is_what_score_prints() -> None:
    matrix = read_input(str(ROOT / "examples" / "five_tasks.json")).matrix
    assert matrix is not None
    checked = 0
    for line in README.splitlines():
        name, *cells = (cell.strip(" *") for cell in line.strip("|").split("|"))
        if name not in TOOL_OF:
            continue
        printed = as_tool(matrix, TOOL_OF[name])
        for cell in filter(None, cells):
            told = re.fullmatch(r"(-?\.\d+)(?:\*\*)?(?: `(.*)`| \(a bug\))", cell)
            assert told, cell
            values = [row.value for row in printed if row.id == told[2]]
            assert any(
                value is not None and abs(value - float(told[1])) <= 0.000501 for value in values
            )
            checked += 1
    assert checked == 29


def test_example_prints_what_stands_there(tmp_path: Path) -> None:
    block = README.partition("$ cat results.csv\n")[2].partition("```")[0]
    numbers, _, session = block.partition("$ ")
    command, _, expected = session.partition("\n")
    (tmp_path / "results.csv").write_text(numbers)
    shown = subprocess.run(
        [sys.executable, "-m", *command.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert shown.stdout == expected
    assert shown.returncode == 1  # fwt.gem was asked for and is undefined


def test_python_example_gives_what_its_comments_say() -> None:
    code = README.partition("```python\n")[2].partition("```")[0]
    names: dict[str, object] = {}
    checked = 0
    for line in code.splitlines():
        statement, _, comment = line.partition("#")
        if not comment:
            exec(statement, names)
            if not statement.startswith("bwt("):
                continue
        value = eval(statement, names)
        shown = f"{value:.6g}" if isinstance(value, float) else repr(value)
        assert shown == comment.strip()
        checked += 1
    assert checked == 3


def test_readme_is_short_and_starts_with_the_two_commands() -> None:
    assert len(README.splitlines()) <= 150
    assert README.index("make demo") < README.index("make test") < README.index("## ")
