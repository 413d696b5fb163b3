"""Series over one value: found, put in order, drawn where the files say."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from perdure.metrics import Stream
from perdure.record import JSON, InputError, Run, RunMetadata, ScoreInput
from perdure.report.figures import series
from perdure.report.labels import find_series_parameter
from perdure.report.load import open_methods
from perdure.training import make_config, run

from . import cli_helpers
from .figure_helpers import check_files, curve, data, ends, parts, rows, spread, tasks_of

_FOLDER = TemporaryDirectory(prefix="perdure-series-")
MEMORIES = (80, 5, 20)


@cache
def store() -> Path:
    """Return real runs of replay with three memories, two seeds each."""
    folder = Path(_FOLDER.name)
    for memory in MEMORIES:
        for seed in range(2):
            what = make_config(
                "split-digits", "replay", seed=seed, iterations=6, every=1,
                settings={"hidden": 16, "memory": memory},
            )  # fmt: skip
            run(what, folder / what.folder)
    return folder


def folders(memory: int) -> list[Path]:
    said = {each: json.loads((each / "run.json").read_text()) for each in store().iterdir()}
    return sorted(f for f, one in said.items() if one["config"]["options"]["memory"] == memory)


def low(folder: Path) -> float:
    """Return min-ACC: the mean over tasks left behind of their lowest score since."""
    tasks, last = tasks_of(folder), ends(folder)
    lows = [
        min(score for step, score in curve(folder, task).items() if step > last[k])
        for k, task in enumerate(tasks[:-1])
    ]
    return float(np.mean(lows))


def final(folder: Path) -> float:
    last = tasks_of(folder)[-1]
    whole = [row for row in rows(folder) if (row["trained"], row["kind"]) == (last, "full")]
    return float(np.mean([float(row["score"]) for row in whole]))


def test_curves_and_metrics_of_real_runs_in_the_order_of_memory() -> None:
    methods, _ = open_methods([str(store())])
    figure = series(methods, tasks=2)
    first, second, metrics = (axes for axes in figure.axes if axes.get_visible())
    tasks = tasks_of(folders(5)[0])
    for axes, task in ((first, tasks[0]), (second, tasks[1])):
        for at, memory in enumerate(sorted(MEMORIES)):
            steps, mean, _ = spread([curve(each, task) for each in folders(memory)])
            assert parts(axes).curves[at][:, 0].tolist() == steps
            np.testing.assert_allclose(parts(axes).curves[at][:, 1], mean, atol=1e-12)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[:3] == ["memory 5", "memory 20", "memory 80"]
    assert metrics.get_xlabel() == "memory"
    assert metrics.get_legend_handles_labels()[1] == ["acc", "min_acc"]
    for container, metric in zip(metrics.containers, (final, low), strict=True):
        table = np.array([[metric(each) for each in folders(m)] for m in sorted(MEMORIES)])
        line, _, [bars] = container
        assert data(line)[:, 0].tolist() == [5, 20, 80]
        np.testing.assert_allclose(data(line)[:, 1], table.mean(axis=1), atol=1e-12)
        reach = np.array([segment[:, 1] for segment in bars.get_segments()])
        sd = table.std(axis=1, ddof=1)
        np.testing.assert_allclose(np.diff(reach)[:, 0], 2 * sd, atol=1e-12)


def test_colours_run_from_dark_to_light_with_the_value() -> None:
    methods, _ = open_methods([str(store())])
    figure = series(methods, tasks=1)
    curves = [line for line in figure.axes[0].lines if len(data(line)) > 5]
    shades = [sum(int(str(line.get_color())[k : k + 2], 16) for k in (1, 3, 5)) for line in curves]
    assert len(shades) == 3
    assert shades == sorted(shades)


def method(low: float, **description: JSON) -> list[ScoreInput]:
    stream = Stream({"a": ([1, 2], [0.9, low]), "b": ([2], [0.8])}, spans=[("a", 1), ("b", 2)])
    return [Run(stream=stream, metadata=RunMetadata(config=description))]


def test_values_far_apart_stand_at_even_distances() -> None:
    methods = {f"er {m}": method(m / 1e5) for m in (60_000, 500, 2000)}
    axes = series(methods, metrics=["min_acc"]).axes[-1]
    assert data(axes.lines[0]).tolist() == [[0, 0.005], [1, 0.02], [2, 0.6]]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["500", "2000", "60000"]


@pytest.mark.parametrize(
    ("methods", "name", "values"),
    [
        ({"one": {"options": {"memory": 9}}, "two": {"options": {"memory": 5}}}, "memory", [5, 9]),
        ({"a": {"scenario": "rotated-mnist-30"}, "b": {"scenario": "rotated-mnist-10"}},
         "rotated-mnist", [10, 30]),
        ({"lr=1e-3": {}, "lr=0.01": {}}, "lr", [0.001, 0.01]),
        ({"-90": {}, "45": {}}, None, None),
        ({"1000": {}, "20": {}}, "value", [20, 1000]),
    ],
)  # fmt: skip
def test_the_value_is_found(
    methods: dict[str, dict[str, JSON]], name: str | None, values: list[float] | None
) -> None:
    made = {each: method(0.5, **said) for each, said in methods.items()}
    if name is None:
        with pytest.raises(InputError, match="do not differ in exactly one number"):
            find_series_parameter(made)
        return
    found = find_series_parameter(made)
    assert (found.name, list(found.values.values())) == (name, values)


def test_what_is_no_series_is_refused() -> None:
    er, gem = method(0.5, strategy="replay", lr=1), method(0.5, strategy="gem", lr=1)
    with pytest.raises(InputError, match="methods are gem, replay, expected one"):
        series({"er": er, "gem": gem}, metrics=["min_acc"])
    with pytest.raises(InputError, match="at least 2 methods, got 1"):
        series({"er": er}, metrics=["min_acc"])
    two = method(0.5, strategy="replay", lr=2, batch=3)
    with pytest.raises(InputError, match="do not differ in exactly one number"):
        series({"er": er, "other": two}, metrics=["min_acc"])
    one = {"er 1": method(0.5), "er 2": method(0.6)}
    with pytest.raises(InputError, match=r"er 1: no acc: .*; choose others with `metrics=`"):
        series(one)
    with pytest.raises(ValueError, match="no metric has the id 'accuracy'"):
        series(one, metrics=["accuracy"])
    with pytest.raises(InputError, match="no metrics to draw"):
        series(one, metrics=[])
    with pytest.raises(InputError, match="tasks is 0"):
        series(one, tasks=0)


def test_files_and_the_command(tmp_path: Path) -> None:
    methods, _ = open_methods([str(store())])
    check_files(lambda: series(methods, tasks=1), tmp_path)
    target = tmp_path / "x.svg"
    answer = cli_helpers.run(
        "plot", "series", store(), "-o", target, "--tasks", "1", "--metrics", "acc,wf10"
    )
    assert (answer.code, answer.err.count("\n"), answer.err[:18]) == (0, 1, "perdure: caption: ")
    text = target.read_text()
    for said in ("memory", "wf10", "acc"):
        assert f">{said}</text>" in text
    answer = cli_helpers.run("plot", "series", store(), "-o", target, "--zoom", "5")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "--zoom is not for series, which takes --tasks, --metrics" in answer.err
