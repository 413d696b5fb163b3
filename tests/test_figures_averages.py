"""Metrics after each task: the lines against loops over the matrices, bands, names, refusals."""

from __future__ import annotations

import json
import re
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pytest
from matplotlib.collections import LineCollection

from perdure.metrics import ScoreScale
from perdure.record import InputError
from perdure.report.colours import HUES, choose_styles
from perdure.report.figures import averages, get_caption
from perdure.report.figures.drawing.by_task import choose_widths, list_overlaps

from .cli_helpers import refused, run
from .figure_helpers import check_files, edges
from .matrix_figure_helpers import line, real, scores_of, source

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


SEEDS = (("a", 0), ("b", 10))  # the first seed of each method


def make_matrix(tasks: int, seed: int) -> NDArray[np.float64]:
    """Return random scores, not measured above the diagonal."""
    r = np.random.default_rng(seed).uniform(size=(tasks, tasks))
    r[np.triu_indices(tasks, 1)] = np.nan
    return r


def accuracy(r: NDArray[np.float64]) -> list[float]:
    return [sum(r[k][j] for j in range(k + 1)) / (k + 1) for k in range(len(r))]


def forgetting(r: NDArray[np.float64]) -> list[float]:
    """Return Michel et al. 2023, eq. 2, after each task, by loops."""
    values = [float("nan")]
    for k in range(1, len(r)):
        lost = [max(r[i][j] for i in range(j, k)) - r[k][j] for j in range(k)]
        values.append(sum(lost) / k)
    return values


@pytest.mark.parametrize("size", ["column", "page", "slide"])
@pytest.mark.parametrize("tasks", [2, 5, 20])
def test_lines_are_means_over_seeds_of_loops_over_the_matrices(tasks: int, size: str) -> None:
    several = {
        name: [make_matrix(tasks, 10 * k + s) for s in range(3)] for k, name in enumerate("ab")
    }
    figure = averages({name: [source(r) for r in rs] for name, rs in several.items()}, size=size)  # type: ignore[arg-type]
    for axes, curve in zip(figure.axes, (accuracy, forgetting), strict=True):
        for k, rs in enumerate(several.values()):
            values = np.array([curve(r) for r in rs])
            x, y = line(axes, k)
            assert x.tolist() == list(range(1, tasks + 1))
            assert y == pytest.approx(values.mean(axis=0), nan_ok=True)
            known = values[:, ~np.isnan(values[0])]
            low, high = edges(axes, k)
            assert low[:, 1] == pytest.approx(known.mean(axis=0) - known.std(axis=0, ddof=1))
            assert high[:, 1] == pytest.approx(known.mean(axis=0) + known.std(axis=0, ddof=1))
    assert figure.axes[-1].get_xlabel() == "tasks learned"


def test_real_runs_need_no_class_counts() -> None:
    methods = real()
    acc, lost = averages(methods).axes
    for k, runs in enumerate(methods.values()):
        rs = scores_of(runs)
        assert line(acc, k)[1] == pytest.approx(np.mean([accuracy(r) for r in rs], axis=0))
        assert line(lost, k)[1][1:] == pytest.approx(
            np.mean([forgetting(r)[1:] for r in rs], axis=0)
        )


def test_any_metric_that_has_a_value_after_each_task() -> None:
    r = make_matrix(4, 0)
    figure = averages({"a": [source(r)]}, metrics=["bwt"])
    (axes,) = figure.axes
    loops = [sum(r[k][j] - r[j][j] for j in range(k)) / k for k in range(1, 4)]
    assert line(axes)[1][1:] == pytest.approx(loops)
    assert axes.get_title(loc="right") == "bwt"
    assert not axes.collections  # one seed: no band


def test_the_caption_states_definitions_and_bands() -> None:
    methods = {"er": [source(make_matrix(3, s)) for s in range(4)]}
    caption = get_caption(averages(methods))
    assert "acc: average accuracy" in caption
    assert "forgetting.best: forgetting from the best score before the end" in caption
    assert "means over 4 runs, bands one SD" in caption
    assert "one run per method" in get_caption(averages({"er": methods["er"][:1]}))


def test_one_task_has_an_accuracy_and_says_why_no_forgetting() -> None:
    acc, lost = averages({"er": [source([[0.9]])]}).axes
    assert line(acc)[1].tolist() == [0.9]
    assert not lost.lines
    assert "needs at least 2 tasks" in lost.texts[0].get_text().replace("\n", " ")


def test_losses_keep_their_direction() -> None:
    loss = ScoreScale(0, np.inf, lower_is_better=True, name="loss")
    acc, lost = averages({"er": [source([[2.0, np.nan], [5.0, 1.0]], scale=loss)]}).axes
    assert line(acc)[1].tolist() == [2.0, 3.0]
    assert line(lost)[1].tolist()[1:] == [3.0]  # a loss that rises is forgotten
    assert acc.get_ylabel() == "average loss"


def test_a_single_point_has_its_sd() -> None:
    values = np.array([0.5, 0.7, 0.8])
    figure = averages({"a": [source([[value]]) for value in values]}, metrics=["acc"])
    [bar] = [drawn for drawn in figure.axes[0].collections if isinstance(drawn, LineCollection)]
    mean, sd = values.mean(), values.std(ddof=1)
    assert bar.get_segments()[0] == pytest.approx(np.array([[1, mean - sd], [1, mean + sd]]))
    low, high = figure.axes[0].get_ylim()
    assert low < mean - sd < mean + sd < high


def test_methods_need_one_kind_of_score() -> None:
    with pytest.raises(InputError, match="b has scores of another range"):
        averages({"a": [source([[0.5]])], "b": [source([[5.0]], scale=ScoreScale(0, 9))]})


def test_lines_on_each_other_stay_visible_and_are_named() -> None:
    r = make_matrix(5, 0)
    other = np.clip(r - 0.5, 0, 1)
    figure = averages({"naive": [source(r)], "ewc": [source(r)], "gem": [source(other)]})
    naive, ewc, gem = figure.axes[0].lines
    assert naive.get_linewidth() > 2 * ewc.get_linewidth()
    assert ewc.get_linewidth() == gem.get_linewidth()
    assert "naive is drawn wider where ewc lies on it" in get_caption(figure)


def test_only_lines_that_are_close_count_as_overlapping() -> None:
    x, y = np.arange(100), np.linspace(0, 1, 100)
    near, crossing = y + 0.005, 1 - y
    assert choose_widths([{"a": (x, y), "b": (x, near)}])["a"] > 1
    assert set(choose_widths([{"a": (x, y), "b": (x, crossing)}]).values()) == {1.0}
    assert set(choose_widths([{"a": (x, y), "b": (x + 1000, y)}]).values()) == {1.0}
    assert list_overlaps([{"a": (x, y), "b": (x, crossing)}]) == ""
    same, apart = {"a": (x, y), "b": (x, near)}, {"a": (x, y), "b": (x, crossing)}
    assert choose_widths([same, apart])["a"] > 1
    assert choose_widths([same, apart, apart])["a"] == 1


def test_every_pair_of_styles_differs_in_grey() -> None:
    names = ["naive", "joint", "cumulative", "replay", "gdumb", "gem", "agem", "ewc", "si", "mas"]
    styles = choose_styles({name: [] for name in [*names, "mine", "yours"]})
    for one, other in combinations(styles.values(), 2):
        assert (one.marker, one.dashes) != (other.marker, other.dashes)
    assert len({style.marker for style in styles.values()}) == len(HUES)


def test_the_command_takes_files_of_several_seeds(tmp_path: Path) -> None:
    for name in ("er", "ewc"):
        for seed in range(2):
            r = make_matrix(3, seed + 5 * (name == "er"))
            text = "\n".join(
                ",".join("" if np.isnan(v) else repr(float(v)) for v in row) for row in r
            )
            (tmp_path / f"{name}{seed}.csv").write_text(text)
    out = tmp_path / "a.svg"
    result = run(
        "plot", "averages", f"er={tmp_path}/er*", f"ewc={tmp_path}/ewc*", "-o", out, "--metrics",
        "acc",
    )  # fmt: skip
    assert result.code == 0
    assert "caption: acc: average accuracy" in result.err
    assert re.search("mean ± SD, 2 runs", out.read_text())
    message = refused("plot", "averages", tmp_path / "er0.csv", "-o", out, "--metrics", "min_acc")
    assert "min_acc is undefined: needs a stream" in message
    assert "clstability" in refused(
        "plot", "averages", tmp_path / "er0.csv", "-o", out, "--metrics", "clstability"
    )


def test_stream_metrics_of_runs_after_each_task() -> None:
    (axes,) = averages(real(), metrics=["min_acc"]).axes
    assert len(axes.lines) == len(real())


def test_the_same_figure_is_the_same_bytes(tmp_path: Path) -> None:
    check_files(lambda: averages(real()), tmp_path)


def test_json_of_a_matrix_with_names(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"matrix": [[0.9, 0.1], [0.6, 0.8]], "tasks": ["a", "b"]}))
    assert run("plot", "averages", path, "-o", tmp_path / "x.pdf").code == 0


def test_finished_leaves_out_runs_that_still_train(tmp_path: Path) -> None:
    for seed, finished in enumerate((True, True, False)):
        folder = tmp_path / "store" / f"s{seed}"
        folder.mkdir(parents=True)
        config = {"config": {"strategy": "er", "seed": seed}}
        (folder / "run.json").write_text(json.dumps(config))
        (folder / "points.csv").write_text(
            "step,trained,tested,kind,score,n\n1,a,a,full,0.5,9\n2,b,a,full,0.4,9\n2,b,b,full,0.9,9\n"
        )
        if finished:
            (folder / "done.json").write_text("{}")
    for option, runs in (((), 3), (("--finished",), 2)):
        out = tmp_path / "x.svg"
        result = run("plot", "averages", tmp_path / "store", "-o", out, "--metrics", "acc", *option)
        assert result.code == 0
        assert f"mean ± SD, {runs} runs" in out.read_text()
    assert "unfinished run" in result.err
