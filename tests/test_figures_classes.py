"""Results by class: counts from files against loops, what is drawn, and what is missing."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

import perdure
from perdure.record import InputError, Run, RunFolder
from perdure.record.formats.tables import read_confusion
from perdure.report.figure_data import count_classes
from perdure.report.figures import classes, confusion, get_caption

from .cli_helpers import refused, run, says
from .figure_helpers import check_files, folders, rows
from .matrix_figure_helpers import FIVE, image_of, real, source
from .report_helpers import store

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "step,trained,tested,label,predicted,count\n"
SMALL = HEADER + (
    "5,a,a,0,0,3\n5,a,a,0,9,1\n5,a,a,1,1,4\n5,a,b,2,0,5\n"  # b is not learned yet
    "9,b,a,0,0,1\n9,b,a,0,2,3\n9,b,a,1,1,4\n9,b,b,2,2,2\n"
)


def accuracy_of(folder: Path, step: int, label: int, tasks: set[str]) -> float:
    """Return the accuracy on a class after a step, from the lines of confusion.csv by hand."""
    right, total = 0, 0
    for row in rows(folder, "confusion.csv"):
        if int(row["step"]) == step and int(row["label"]) == label and row["tested"] in tasks:
            total += int(row["count"])
            right += int(row["count"]) * (row["label"] == row["predicted"])
    return right / total if total else float("nan")


def test_small_counts_by_hand() -> None:
    results = count_classes(read_confusion(SMALL, "confusion.csv"))
    assert results.classes == (0, 1, 2)
    assert results.outputs == (0, 1, 2, 9)
    assert results.learned.tolist() == [0, 0, 1]
    np.testing.assert_array_equal(results.accuracy, [[0.75, 1, np.nan], [0.25, 1, 1]])
    np.testing.assert_array_equal(results.forgetting(), [0.5, 0, np.nan])
    assert results.predictions.tolist() == [[1, 0, 3, 0], [0, 4, 0, 0], [0, 0, 2, 0]]
    after_one = count_classes(read_confusion(SMALL, "confusion.csv"), tasks=1)
    assert after_one.predictions.tolist() == [[3, 0, 1], [0, 4, 0]]
    assert np.isnan(after_one.forgetting()).all()


def test_counts_of_a_run_add_up_to_its_points() -> None:
    for folder in folders("gem"):
        counts: Counter[tuple[str, str, str]] = Counter()
        right: Counter[tuple[str, str, str]] = Counter()
        for row in rows(folder, "confusion.csv"):
            key = row["step"], row["trained"], row["tested"]
            counts[key] += int(row["count"])
            right[key] += int(row["count"]) * (row["label"] == row["predicted"])
        points = [row for row in rows(folder) if row["kind"] == "full"]
        assert len(points) == len(counts) == 15
        for row in points:
            key = row["step"], row["trained"], row["tested"]
            assert counts[key] == int(row["n"])
            assert right[key] / counts[key] == pytest.approx(float(row["score"]))


def test_points_are_means_over_seeds() -> None:
    methods = real()
    accuracy, forgotten = classes(methods).axes[:2]
    for k, runs in enumerate(methods.values()):
        final, lost = [], []
        for one in runs:
            assert isinstance(one, Run)
            lines = rows(one.folder, "confusion.csv")
            steps = sorted({int(row["step"]) for row in lines})
            tasks = [next(r["trained"] for r in lines if int(r["step"]) == s) for s in steps]
            table = [
                [accuracy_of(one.folder, s, c, set(tasks[: i + 1])) for c in range(10)]
                for i, s in enumerate(steps)
            ]
            final.append(table[-1])
            lost.append(
                [max(table[i][c] for i in range(c // 2, 4)) - table[-1][c] for c in range(8)]
            )
        drawn = np.asarray(accuracy.lines[k].get_ydata(), dtype=float)
        assert drawn == pytest.approx(np.mean(final, axis=0))
        drawn = np.asarray(forgotten.lines[k].get_ydata(), dtype=float)
        assert drawn[:8] == pytest.approx(np.mean(lost, axis=0))
        assert np.isnan(drawn[8:]).all()  # learned last
    assert "bars one SD" in get_caption(classes(methods))


def test_confusion_shows_the_fractions_of_each_class() -> None:
    methods = real()
    figure = confusion(methods)
    for axes, (name, runs) in zip(figure.axes, methods.items(), strict=False):
        assert axes.get_title() == name
        tables = []
        for one in runs:
            assert isinstance(one, Run)
            table, last = np.zeros((10, 10)), rows(one.folder, "confusion.csv")[-1]["step"]
            for row in rows(one.folder, "confusion.csv"):
                if row["step"] == last:
                    table[int(row["label"]), int(row["predicted"])] += int(row["count"])
            tables.append(table / table.sum(axis=1, keepdims=True))
        assert image_of(axes) == pytest.approx(np.mean(tables, axis=0))
        assert image_of(axes).sum(axis=1) == pytest.approx(1)
    assert image_of(confusion(methods, tasks=2).axes[0]).shape[0] == 4


def test_an_evaluator_records_what_its_model_predicts(tmp_path: Path) -> None:
    x, y = torch.eye(4), torch.tensor([0, 0, 1, 1])
    predicted = [0, 1, 1, 1]
    model = torch.nn.Linear(4, 2, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.nn.functional.one_hot(torch.tensor(predicted), 2).T)
    for name, record in (("with", True), ("without", False)):
        options = perdure.Record(tmp_path / name, per_example=record)
        evaluator = perdure.Evaluator({"a": (x, y)}, record=options, count_flops=False)
        with evaluator, evaluator.task("a", model):
            evaluator.step(model)
    found = RunFolder(tmp_path / "with").confusion()
    assert found is not None
    cells = zip(found.label.tolist(), found.predicted.tolist(), found.count.tolist(), strict=True)
    assert list(cells) == [(0, 0, 1), (0, 1, 1), (1, 1, 2)]
    assert not (tmp_path / "without" / "confusion.csv").exists()


def test_what_is_missing_is_said_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="scores only, expected labels and predicted classes"):
        classes({"mine": [source([[0.5]])]})
    assert "scores only" in refused("plot", "confusion", FIVE, "-o", tmp_path / "x.pdf")
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "points.csv").write_text("step,trained,tested,score\n1,a,a,0.5\n")
    (bare / "run.json").write_text("{}")
    (bare / "done.json").write_text("{}")
    message = refused("plot", "classes", bare, "-o", tmp_path / "x.pdf")
    assert "no confusion.csv" in message


@pytest.mark.parametrize(
    "line", ["5,a,a,0,0,x", "5,a,a,0,0,1e9", "5,a,a,0,0", f"5,a,a,0,{'9' * 30},1", "5,a,a,0.5,0,1"]
)
def test_broken_lines_are_named(line: str) -> None:
    with pytest.raises(InputError, match=r"confusion\.csv line 2"):
        read_confusion(f"{HEADER}{line}\n5,a,a,0,0,1\n", "confusion.csv")


def test_too_many_classes_are_refused_before_they_take_memory() -> None:
    lines = "".join(f"5,a,a,{k},0,1\n" for k in range(3000))
    with pytest.raises(InputError, match="3000 classes, expected at most 2000"):
        count_classes(read_confusion(HEADER + lines, "confusion.csv"))


def test_commands_and_files(tmp_path: Path) -> None:
    for kind in ("classes", "confusion"):
        result = run("plot", kind, store(), "-o", tmp_path / f"{kind}.svg", "--size", "column")
        assert result.code == 0
        assert "caption: " in result.err
    check_files(lambda: classes(real()), tmp_path)


@pytest.mark.parametrize("kind", ["classes", "confusion"])
def test_runs_of_several_orders_are_not_drawn_under_the_names_of_one(
    kind: str, tmp_path: Path
) -> None:
    x, y = torch.eye(4), torch.tensor([0, 1, 2, 3])
    data = {"a": (x[:2], y[:2]), "b": (x[2:], y[2:])}
    model = torch.nn.Linear(4, 4)
    for order in ("ab", "ba"):
        record = tmp_path / "runs" / order
        with perdure.Evaluator(data, record=record, count_flops=False) as evaluator:
            for name in order:
                with evaluator.task(name, model):
                    evaluator.step(model)
    paths = [f"{order}={tmp_path / 'runs' / order}" for order in ("ab", "ba")]
    says(refused("plot", kind, *paths, "-o", tmp_path / "x.svg"), "'a, b' and 'b, a'")
