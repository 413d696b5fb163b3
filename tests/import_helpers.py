"""Reading the files that other tools wrote, and what the tools printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import perdure
from perdure.importers import ImportOptions, read_runs, write_run
from perdure.metrics import TOOLS, as_tool

if TYPE_CHECKING:
    from perdure.importers import ImportedRun
    from perdure.record import Points

FIXTURES = Path(__file__).parent / "fixtures" / "import"


def matrix(run: ImportedRun) -> list[list[float | None]]:
    """Return the last score of each task, in percent, while each was trained."""
    tasks = run.tasks
    rows: list[list[float | None]] = [[None] * len(tasks) for _ in tasks]
    for entry in run.evaluations:
        if entry.trained is not None:
            correct = entry.correct
            score = entry.score if correct is None else sum(correct) / len(correct)
            assert score is not None
            rows[tasks.index(entry.trained)][tasks.index(entry.tested)] = round(100 * score, 6)
    return rows


def read(reader: str, *paths: Path | str, **options: Any) -> list[ImportedRun]:
    return read_runs(reader, [FIXTURES / path for path in paths], ImportOptions(**options))


def points_of(folder: Path) -> Points:
    points = perdure.open_run(folder).points
    assert points is not None
    return points


def tool_values(run: ImportedRun, folder: Path, **fields: Any) -> dict[str, float | None]:
    """Return what `perdure score --as` prints for an imported run."""
    write_run(run, folder)
    assert run.metrics in TOOLS
    rows = as_tool(points_of(folder).matrix(**fields), run.metrics)
    return {row.name: row.value for row in rows}


def printed(text: str, pattern: str) -> list[float]:
    """Return the numbers that a tool printed after a name."""
    return [float(number) for number in re.findall(pattern + r"[^-\d\n]*(-?\d+\.\d+)", text)]
