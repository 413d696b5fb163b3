"""What `perdure compare` finds with few seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .cli_helpers import run, strict
from .compare_helpers import store

if TYPE_CHECKING:
    from pathlib import Path

REPLAY = dict(enumerate([0.81, 0.79, 0.83, 0.80, 0.82]))
NAIVE = dict(enumerate([0.21, 0.22, 0.18, 0.20, 0.19]))


def test_five_seeds_find_an_obvious_difference(tmp_path: Path) -> None:
    runs = store(tmp_path, {"replay": REPLAY, "naive": NAIVE})
    answer = strict(run("compare", runs, "--only", "acc", "--json").out)
    (pair,) = answer["metrics"]["acc"]["pairs"]
    assert pair["distinguishable"]
    assert pair["p"] < 1e-4
