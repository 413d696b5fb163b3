"""What the tests of figures share: methods from plain numbers, and drawn values read back."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from perdure.metrics import ScoreMatrix
from perdure.record import Run, ScoreInput
from perdure.report.load import open_methods

from .report_helpers import store

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

FIVE = Path(__file__).parents[1] / "examples" / "five_tasks.json"
R5 = np.array(json.loads(FIVE.read_text())["matrix"])


@cache
def real() -> dict[str, list[ScoreInput]]:
    """Return real runs of four strategies on two seeds."""
    return open_methods([str(store())])[0]


def source(scores: Any, **fields: Any) -> ScoreInput:
    """Return a source with nothing but a matrix."""
    return ScoreInput(ScoreMatrix(scores, **fields))


def five() -> dict[str, list[ScoreInput]]:
    """Return the example of five tasks."""
    return open_methods([str(FIVE)])[0]


def scores_of(sources: list[ScoreInput]) -> NDArray[np.float64]:
    """Return the matrices of runs, from the lines of their points.csv by hand."""
    found = []
    for each in sources:
        assert isinstance(each, Run)
        rows = [line.split(",") for line in (each.folder / "points.csv").read_text().split()[1:]]
        last = {(row[1], row[2]): float(row[4]) for row in rows if row[3] == "full"}
        tasks = list(dict.fromkeys(trained for trained, _ in last))
        found.append([[last.get((i, j), np.nan) for j in tasks] for i in tasks])
    return np.array(found)


def image_of(axes: Axes) -> NDArray[np.float64]:
    """Return the numbers behind an image, NaN where it shows nothing."""
    (image,) = axes.get_images()
    return np.ma.asarray(image.get_array()).filled(np.nan)


def line(axes: Axes, k: int = 0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return x and y of a drawn line."""
    return np.asarray(axes.lines[k].get_xdata()), np.asarray(axes.lines[k].get_ydata())


def texts(axes: Axes) -> dict[tuple[float, float], str]:
    """Return texts by their places."""
    return {text.get_position(): text.get_text() for text in axes.texts}
