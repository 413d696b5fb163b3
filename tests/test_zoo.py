"""The zoo: the law over every row of the table, for every executor, and the table in the docs."""

from __future__ import annotations

from pathlib import Path

import pytest

from .evaluator_loops import bounded
from .zoo_loop import EXECUTORS, LIMIT, ON_CUDA, REFUSED, Row, check
from .zoo_table import ZOO, page


def often(row: Row, executor: str) -> bool:
    """Return whether a cell is tried with the fast tests: one row in two, in six with a worker."""
    one_in = {"inline": 2, "worker": 6}
    return executor in one_in and ZOO.index(row) % one_in[executor] == 0


CELLS = [
    pytest.param(
        row,
        executor,
        id=f"{executor}: {row.group}: {row.name}",
        marks=[] if often(row, executor) else pytest.mark.slow,
    )
    for row in ZOO
    for executor in EXECUTORS
]


@pytest.mark.parametrize(("row", "executor"), CELLS)
def test_the_law(row: Row, executor: str, tmp_path: Path) -> None:
    with bounded():
        check(row, executor, EXECUTORS[executor], tmp_path / "run")


def test_every_deviation_has_a_reason() -> None:
    assert len(ZOO) >= 80
    for row in ZOO:
        assert set(row.verdicts) <= {*EXECUTORS, *ON_CUDA, "all"}
        assert set(row.verdicts.values()) <= {REFUSED, LIMIT}
        assert bool(row.verdicts) == bool(row.why), row.name


def test_the_docs_print_the_table() -> None:
    docs = Path(__file__).parent.parent / "docs" / "zoo.md"
    assert docs.read_text(encoding="utf-8") == page()
