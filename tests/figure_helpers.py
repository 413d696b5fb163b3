"""What a figure shows, taken apart, and what it should show, read from the files by hand."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib.collections import PolyCollection

from perdure.report.figures import save
from perdure.report.load import open_methods

from .report_helpers import store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from numpy.typing import NDArray

    from perdure.record import ScoreInput

MAGIC = {"pdf": b"%PDF-", "svg": b"<?xml", "png": b"\x89PNG"}
Curve = dict[int, float]  # score by step


class Parts(NamedTuple):
    """The artists of a panel, told apart by how they lie."""

    curves: list[NDArray[np.float64]]  # (points, 2) each
    upright: list[float]
    level: list[float]
    diamonds: list[NDArray[np.float64]]


def folders(strategy: str) -> list[Path]:
    """Return the real runs of a strategy, by seed."""
    return sorted(store().glob(f"*-{strategy}-s*"))


def real(*strategies: str) -> dict[str, list[ScoreInput]]:
    """Return real runs by strategy, as a user names them."""
    return open_methods([f"{s}={','.join(map(str, folders(s)))}" for s in strategies])[0]


def data(line: Line2D) -> NDArray[np.float64]:
    """Return the points of a line, one a row."""
    return np.asarray(line.get_xydata(), dtype=float)


def parts(axes: Axes) -> Parts:
    found = Parts([], [], [], [])
    for line in axes.lines:
        drawn = data(line)
        if line.get_marker() == "D":
            found.diamonds.append(drawn)
        elif line.get_transform() == axes.get_xaxis_transform(which="grid"):  # from edge to edge
            found.upright.append(float(drawn[0, 0]))
        elif line.get_transform() == axes.get_yaxis_transform(which="grid"):
            found.level.append(float(drawn[0, 1]))
        else:
            found.curves.append(drawn)
    return found


def edges(axes: Axes, k: int = 0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return lowest and highest y of a band at each of its x."""
    bands = [drawn for drawn in axes.collections if isinstance(drawn, PolyCollection)]
    vertices = np.asarray(bands[k].get_paths()[0].vertices)
    at = np.unique(vertices[:, 0])
    both = [vertices[vertices[:, 0] == x, 1] for x in at]
    low = np.column_stack([at, [ys.min() for ys in both]])
    return low, np.column_stack([at, [ys.max() for ys in both]])


def rows(folder: Path, name: str = "points.csv") -> list[dict[str, str]]:
    with (folder / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def tasks_of(folder: Path) -> list[str]:
    return list(dict.fromkeys(row["trained"] for row in rows(folder) if row["kind"] != "initial"))


def ends(folder: Path) -> list[int]:
    """Return the last step of every task."""
    last = {row["trained"]: int(row["step"]) for row in rows(folder) if row["kind"] != "initial"}
    return sorted(last.values())


def curve(folder: Path, task: str, thin: int = 1) -> Curve:
    """Return the score on a task by step: every thin-th probe, else the whole set."""
    probed = sorted({int(r["step"]) for r in rows(folder) if r["kind"] == "probe"})[
        thin - 1 :: thin
    ]
    mine = [row for row in rows(folder) if row["tested"] == task]
    whole = {int(r["step"]): float(r["score"]) for r in mine if r["kind"] == "full"}
    probes = {int(r["step"]): float(r["score"]) for r in mine if r["kind"] == "probe"}
    return dict(sorted((whole | {t: a for t, a in probes.items() if t in probed}).items()))


def spread(several: Sequence[Curve]) -> tuple[list[int], NDArray[np.float64], NDArray[np.float64]]:
    """Return the steps all curves have, and mean and SD over curves there."""
    steps = sorted(set.intersection(*(set(each) for each in several)))
    table = np.array([[each[step] for step in steps] for each in several])
    return steps, table.mean(axis=0), table.std(axis=0, ddof=1)


def check_files(draw: Callable[[], Figure], folder: Path) -> None:
    """Check that a figure drawn twice is the same bytes as PDF, SVG and PNG, and what it says."""
    for form, magic in MAGIC.items():
        one, two = (save(draw(), folder / f"{k}.{form}", 40).read_bytes() for k in "ab")
        assert one.startswith(magic), form
        assert len(one) > 1000
        assert one == two, form
