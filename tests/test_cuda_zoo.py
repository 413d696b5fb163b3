"""The zoo on a GPU: the CUDA columns of the table; `pytest tests/test_cuda*.py` runs them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .zoo_loop import ON_CUDA, PLACE, Row, alone, check
from .zoo_table import ZOO

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.cuda
CELLS = [
    pytest.param(row, executor, id=f"{executor}: {row.group}: {row.name}")
    for row in ZOO
    for executor in ON_CUDA
    if row.verdict(executor)
]


@pytest.fixture(autouse=True)
def _on_gpu() -> Iterator[None]:
    PLACE["device"] = "cuda"
    alone.cache_clear()
    yield
    PLACE["device"] = "cpu"
    alone.cache_clear()


@pytest.mark.parametrize(("row", "executor"), CELLS)
def test_the_law(row: Row, executor: str, tmp_path: Path) -> None:
    check(row, executor, ON_CUDA[executor], tmp_path / "run")
