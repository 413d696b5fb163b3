"""Evaluation on training examples: recorded apart, equal to an own evaluation, in no metric."""

from __future__ import annotations

import csv
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import Tensor

import perdure
from perdure import EvalTask, Evaluator, Record, Subset
from perdure.reproduction import CellRuns, Measurements, find_published_result
from perdure.reproduction.comparison import compare_with_published
from perdure.training import make_config
from perdure.training import run as train

from .cli_helpers import run as run_command
from .evaluator_helpers import Line, accuracy, learn, lines, net, rows, sets, watch
from .reproduce_helpers import HEAD, finished

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PLAN = [("a", 3), ("b", 2), ("c", 2)]
TEST = sets()
TRAIN = {name: rows(30 + k, seed=50 + k) for k, name in enumerate("abc")}
SAME = ("points.csv", "confusion.csv", "per_example")


def read_train(folder: Path) -> list[Line]:
    """Return the lines of train_points.csv, read without the package."""
    with (folder / "train_points.csv").open(newline="") as file:
        return [
            Line(int(row["step"]), row["trained"], row["tested"], row["kind"],
                 float(row["score"]), int(row["n"]))
            for row in csv.DictReader(file)
        ]  # fmt: skip


def content(folder: Path) -> dict[str, bytes]:
    """Return the bytes of the files that metrics are computed from."""
    paths = [path for name in SAME for path in [folder / name, *(folder / name).glob("*")]]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths if path.is_file()}


def record(
    folder: Path, *, train: bool, **options: Any
) -> tuple[dict[int, torch.nn.Module], dict[str, float | None]]:
    """Train on three tasks; return copies of the model by step, and the live metrics."""
    task_options = options.pop("task", {})
    tasks = {
        name: EvalTask(TEST[name], train=TRAIN[name] if train else None, **task_options)
        for name in "abc"
    }
    with Evaluator(tasks, record=Record(folder), progress=False, **options) as evaluator:
        return watch(evaluator, net(classes=5), PLAN), evaluator.live.to_dict()


def by_task(model: torch.nn.Module, x: Tensor, task: str) -> Tensor:
    """Return outputs that depend on the task: those of a task's own name."""
    outputs: Tensor = model(x)
    return outputs.roll("abc".index(task), 1)


OPTIONS: dict[str, dict[str, Any]] = {
    "all examples": {"subset": None},
    "a fixed subset": {"subset": 10, "every": 2},
    "a resampled subset": {"subset": Subset(10, resample=True)},
    "unseen tasks": {"unseen": True, "initial": "all"},
    "classes": {"task": {"classes": [0, 1, 2]}},
    "a forward of tasks": {"forward": by_task},
    "a worker": {"executor": perdure.Worker(), "forward": by_task},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_no_metric_changes(name: str, tmp_path: Path) -> None:
    without, with_ = tmp_path / "without", tmp_path / "with"
    _, live = record(without, train=False, **OPTIONS[name])
    _, other_live = record(with_, train=True, **OPTIONS[name])
    assert content(without) == content(with_)
    assert live == other_live
    one, other = (perdure.open_run(folder) for folder in (without, with_))
    for part in ("metrics", "per_task", "curves", "undefined"):
        assert getattr(one.summary(), part) == getattr(other.summary(), part)
    assert one.train_points is None
    assert other.train_points is not None


def test_commands_print_the_same(tmp_path: Path) -> None:
    printed = []
    for train_too in (False, True):
        folder = tmp_path / "run"
        shutil.rmtree(folder, ignore_errors=True)
        record(folder, train=train_too)
        commands = (["score", folder, "--per-task"], ["plot", "curves", folder, "-o", tmp_path])
        printed.append([run_command(*map(str, command)).out for command in commands])
    assert printed[0] == printed[1]


def test_the_file_by_itself_says_what_it_is_and_is_not_compared_with_test_sets(
    tmp_path: Path,
) -> None:
    for seed in (0, 1):
        record(tmp_path / f"s{seed}", train=True, config={"seed": seed})
    file = tmp_path / "s0" / "train_points.csv"
    scored = run_command("score", str(file))
    assert scored.code == 0
    assert "evaluated on training examples, not on test sets" in scored.out + scored.err
    runs = f"{tmp_path / 's0'},{tmp_path / 's1'}"
    files = f"{file},{tmp_path / 's1' / 'train_points.csv'}"
    compared = run_command("compare", f"tests={runs}", f"training={files}")
    assert compared.code == 2
    assert "2 of 4 are evaluations of training examples, not of test sets" in compared.err


@pytest.mark.parametrize("name", ["all examples", "unseen tasks", "a worker"])
def test_scores_are_those_of_an_own_evaluation(name: str, tmp_path: Path) -> None:
    options = {"subset": None, **OPTIONS[name]}
    copies, _ = record(tmp_path, train=True, **options)
    own = lines(tmp_path)
    theirs = read_train(tmp_path)
    # Evaluated whenever the test sets are.
    assert sorted(line[:4] for line in theirs) == sorted(line[:4] for line in own)
    forward = options.get("forward")
    for line in theirs:
        x, y = TRAIN[line.tested]
        assert line.n == len(y)
        called: Callable[..., Tensor] | None = None
        if forward is not None:
            called = lambda model, x, task=line.tested: by_task(model, x, task)  # noqa: E731
        assert line.score == accuracy(copies[line.step], x, y, called), line
    points = perdure.open_run(tmp_path).train_points
    assert points is not None
    assert points.score.tolist() == [line.score for line in theirs]
    assert points.names[:3] == ("a", "b", "c")


def test_classes_are_masked_for_them_too(tmp_path: Path) -> None:
    copies, _ = record(tmp_path, train=True, subset=None, task={"classes": [0, 1, 2]})

    def masked(model: torch.nn.Module, x: Tensor) -> Tensor:
        outputs: Tensor = model(x)
        outputs[:, 3:] = float("-inf")
        return outputs

    for line in read_train(tmp_path):
        x, y = TRAIN[line.tested]
        assert line.score == accuracy(copies[line.step], x, y, masked)


def test_a_resumed_run_has_each_line_once(tmp_path: Path) -> None:
    tasks = {name: EvalTask(TEST[name], train=TRAIN[name]) for name in "abc"}
    whole, model = tmp_path / "whole", net()
    with Evaluator(tasks, record=Record(whole), progress=False) as evaluator:
        watch(evaluator, model, PLAN)
    stopped, model = tmp_path / "stopped", net()
    evaluator = Evaluator(tasks, record=Record(stopped), progress=False)
    copies = watch(evaluator, model, PLAN[:1])
    state, rng = evaluator.state_dict(), torch.get_rng_state()  # of dropout
    with evaluator.task("b", model):  # lost
        learn(model)
        evaluator.step(model)
    evaluator.close(finished=False)
    model = copies[3]  # type: ignore[assignment]
    torch.set_rng_state(rng)
    with Evaluator(tasks, record=Record(stopped, resume=state), progress=False) as evaluator:
        step = 3
        for task, steps in PLAN[1:]:
            with evaluator.task(task, model):
                for _ in range(steps):
                    learn(model, rows(16, seed=1000 + step))
                    step += 1
                    evaluator.step(model)
    for name in ("points.csv", "train_points.csv"):
        assert (stopped / name).read_bytes() == (whole / name).read_bytes()


def test_the_log_names_them_apart() -> None:
    seen: dict[str, float] = {}
    tasks = {"a": EvalTask(TEST["a"], train=TRAIN["a"])}
    log = Record(None, log=lambda values, step: seen.update(values))
    with Evaluator(tasks, record=log, progress=False) as evaluator:
        watch(evaluator, net(), [("a", 1)])
    assert {"probe/a", "probe/a (train)"} <= set(seen)


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="a control task is never trained"):
        EvalTask(TEST["a"], control=True, train=TRAIN["a"])
    tasks = {"a": EvalTask(TEST["a"], train=TRAIN["a"])}
    evaluator = Evaluator(tasks, progress=False)
    with pytest.raises(ValueError, match=r"task 'a \(train\)' already exists"):
        evaluator.add_task("a (train)", TEST["b"])
    with pytest.raises(TypeError, match=r"task 'b \(train\)': data is int"):
        evaluator.add_task("b", EvalTask(TEST["b"], train=3))
    evaluator.add_task("b", TEST["b"])  # what failed is not there
    evaluator.close(finished=False)


# Runs.


def test_runs_with_and_without_have_the_same_record(tmp_path: Path) -> None:
    plain, both = (
        make_config("split-digits", "naive", epochs=1, every=5, subset=50, evaluate_train=on)
        for on in (False, True)
    )
    for config, name in ((plain, "plain"), (both, "both")):
        train(config, tmp_path / name)
    assert content(tmp_path / "plain") == content(tmp_path / "both")
    assert not (tmp_path / "plain" / "train_points.csv").exists()
    run = perdure.open_run(tmp_path / "both")
    assert run.train_points is not None
    assert run.points is not None
    sizes = run.metadata.config["examples"]
    assert isinstance(sizes, dict)
    full = run.train_points.kind == 2
    tested = [run.train_points.names[code] for code in run.train_points.tested[full]]
    assert run.train_points.n[full].tolist() == [sizes[name][0] for name in tested]  # type: ignore[index]
    assert np.array_equal(run.train_points.step, run.points.step)
    assert plain.folder != both.folder


# Published results.


def test_a_published_row_on_training_examples_is_measured_on_them(tmp_path: Path) -> None:
    points = [
        (0, "a", "a", "initial", 0.1), (1, "a", "a", "probe", 0.5), (2, "a", "a", "probe", 0.7),
        (2, "a", "a", "full", 0.6), (3, "b", "a", "probe", 0.3), (3, "b", "b", "probe", 0.4),
        (4, "b", "a", "probe", 0.6), (4, "b", "b", "probe", 0.8), (4, "b", "a", "full", 0.6),
        (4, "b", "b", "full", 0.8),
    ]  # fmt: skip
    folder = finished(tmp_path / "run", points)
    halves = [f"{step},{a},{b},{kind},{score / 2},50\n" for step, a, b, kind, score in points]
    (folder / "train_points.csv").write_text(HEAD + "".join(halves))
    result = find_published_result("delange-mnist")
    cells = [CellRuns({"variant": "train"}, [folder])]
    measured = [row for row in compare_with_published(Measurements(result, cells)) if row.values]
    assert {row.details for row in measured} == {"training examples"}
    values = {row.id: row.values for row in measured}
    assert values["min_acc"] == pytest.approx([100 * 0.3 / 2])
    assert values["wc_acc"] == pytest.approx([100 * (0.8 + 0.3) / 2 / 2])
    assert values["wf10"] == pytest.approx([100 * (0.7 - 0.3) / 2 / 2])
