"""FORG against windowed forgetting: points and correlation, computed here by hand."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import stats

from perdure.metrics import ScoreMatrix, ScoreScale, Stream, forgetting_pairs
from perdure.record import InputError, ScoreInput
from perdure.report.figures import forgetting

from . import cli_helpers
from .figure_helpers import check_files, curve, ends, folders, real, rows, tasks_of
from .report_helpers import store

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("replay", "gem")


def points(folder: Path, window: int) -> list[tuple[float, float]]:
    """Return WF and FORG of every older task after each task, by going through every pair."""
    tasks, last = tasks_of(folder), ends(folder)
    whole = {
        (row["trained"], row["tested"]): float(row["score"])
        for row in rows(folder)
        if row["kind"] == "full"
    }
    found = []
    for k in range(1, len(tasks)):
        for j in range(k):
            scores = [score for step, score in curve(folder, tasks[j]).items() if step <= last[k]]
            drops = [
                max(scores[max(0, n - window + 1) : n + 1]) - scores[n] for n in range(len(scores))
            ]
            lost = whole[tasks[j], tasks[j]] - whole[tasks[k], tasks[j]]
            found.append((max(drops), lost))
    return found


@pytest.mark.parametrize("window", [2, 10])
def test_points_and_rho_are_those_of_the_files(window: int) -> None:
    figure = forgetting(real(*NAMES), window=window)
    for axes, name in zip(figure.axes, NAMES, strict=True):
        each = np.array([points(folder, window) for folder in folders(name)])
        light, bold = (np.asarray(part.get_offsets()) for part in axes.collections)
        np.testing.assert_allclose(light, each.reshape(-1, 2), atol=1e-12)
        np.testing.assert_allclose(bold, each.mean(axis=0), atol=1e-12)
        rho = stats.pearsonr(*each.mean(axis=0).T).statistic
        assert axes.get_title() == f"{name}\nρ = {rho:.2f}".replace("-", "−")
        assert axes.collections[0].get_alpha() == 0.25
        low, high = axes.get_xlim()
        assert low <= light[:, 0].min()
        assert high >= light[:, 0].max()
    assert f"WF{window}" in figure.get_supxlabel()


def test_losses_are_forgotten_when_they_rise() -> None:
    scale = ScoreScale(0, 10, lower_is_better=True)
    stream = Stream(
        {"a": ([1, 2, 3], [1.0, 7.0, 3.0]), "b": ([3], [2.0])}, [("a", 1), ("b", 3)], scale=scale
    )
    matrix = ScoreMatrix([[1.0, 9.0], [3.0, 2.0]], ["a", "b"], scale=scale)
    assert forgetting_pairs(matrix, stream) == {(1, 0): (2.0, 6.0)}
    [axes] = forgetting({"mine": [ScoreInput(matrix, stream)]}).axes
    [bold] = axes.collections  # one run: no light points
    assert np.asarray(bold.get_offsets()).tolist() == [[6.0, 2.0]]
    assert axes.get_title() == "mine\nρ is undefined"


def test_a_task_tested_once_takes_no_part_in_rho() -> None:
    tasks = {"a": ([1, 2, 3, 4], [1.0, 0.5, 0.9, 0.6]), "b": ([2, 3, 4], [0.9, 0.4, 0.5])}
    tasks |= {"c": ([3], [0.7]), "d": ([4], [0.8])}
    stream = Stream(tasks, [("a", 1), ("b", 2), ("c", 3), ("d", 4)])
    scores = np.full((4, 4), 0.5)
    scores[:, 0] = [1.0, 0.5, 0.9, 0.6]
    pairs = forgetting_pairs(ScoreMatrix(scores), stream)
    assert pairs[3, 0] == pytest.approx((0.4, 0.5))
    assert pairs[3, 2][1] == 0.0
    [axes] = forgetting({"mine": [ScoreInput(ScoreMatrix(scores), stream)]}).axes
    known = np.array([pair for pair in pairs.values() if not math.isnan(pair[1])])
    assert axes.get_title().endswith(f"{stats.pearsonr(*known.T).statistic:.2f}".replace("-", "−"))


def test_files_and_refusals(tmp_path: Path) -> None:
    methods = real(*NAMES)
    check_files(lambda: forgetting(methods), tmp_path)
    stream = Stream({"a": ([1, 2], [0.5, 0.1])}, [("a", 2)])
    for run, said in (
        (ScoreInput(ScoreMatrix([[0.5]])), "no stream of evaluations"),
        (ScoreInput(stream=stream), "no score matrix"),
        (ScoreInput(ScoreMatrix([[0.1]]), stream), "no older task"),
    ):
        with pytest.raises(InputError, match=f"mine: {said}"):
            forgetting({"mine": [run]})
    with pytest.raises(InputError, match="window is 1"):
        forgetting(real("gem"), window=1)
    gem = f"gem={store()}/*gem*"
    target = tmp_path / "x.png"
    assert cli_helpers.run("plot", "forgetting", gem, "-o", target, "--window", "5").code == 0
    answer = cli_helpers.run("plot", "forgetting", gem, "-o", target, "--window", "all")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
