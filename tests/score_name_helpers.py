"""Runs whose score is a loss with a name of its own, small enough to be read by eye."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from perdure import ScoreScale

if TYPE_CHECKING:
    from pathlib import Path

NAME = "perplexity"
LOSS = ScoreScale(0, float("inf"), lower_is_better=True, name=NAME)
# Task a is learned to 2, rises to 8 while b is learned, and ends at 4; b is learned to 3.
POINTS = """step,trained,tested,kind,score,n
1,a,a,probe,5.0,10
2,a,a,probe,2.0,10
2,a,a,full,2.0,10
3,b,a,probe,8.0,10
3,b,b,probe,6.0,10
4,b,a,probe,4.0,10
4,b,b,probe,3.0,10
4,b,a,full,4.0,10
4,b,b,full,3.0,10
"""


def loss_run(folder: Path, *, seed: int = 0, name: str = NAME) -> Path:
    """Make a finished run whose score is better when lower, and return its folder."""
    folder.mkdir(parents=True)
    scale = {"low": 0, "high": None, "lower_is_better": True, "name": name}
    said = {"config": {"strategy": "naive", "seed": seed}, "scale": scale}
    (folder / "run.json").write_text(json.dumps(said))
    (folder / "points.csv").write_text(POINTS)
    (folder / "done.json").write_text("{}")
    return folder
