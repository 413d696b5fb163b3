"""Which examples of whole sets were right at task ends: recorded, read, resumed, compared."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import perdure
from perdure import EvalTask, Record, Subset
from perdure.metrics import METRICS, difference_of_runs
from perdure.record import InputError, read_input

from .cli_helpers import run
from .evaluator_loops import data

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from perdure.evaluation import Evaluator

ROWS, STEPS = 50, 4


class Killed(Exception):
    """What a kill is to a test."""


def learn(
    folder: Path,
    *,
    seed: int = 3,
    watch: Callable[[Evaluator, nn.Module, int], None] = lambda evaluator, model, step: None,
    **given: Any,
) -> dict[tuple[str, str], np.ndarray]:
    """Train on three tasks; return which examples are right at each task end, by our own hand."""
    torch.manual_seed(seed)
    tasks = given.pop("tasks", None) or data(rows=ROWS)
    model = nn.Linear(6, 4)
    descent = torch.optim.SGD(model.parameters(), 0.5)
    right = {}
    record = Record(folder, per_example=given.pop("per_example", True))
    ids = given.pop("ids", {})
    sets = {name: EvalTask(tasks[name], ids=ids.get(name)) for name in tasks}
    with perdure.Evaluator(sets, record=record, **given) as evaluator:
        for number, (name, (x, y)) in enumerate(tasks.items()):
            with evaluator.task(name, model):
                for step in range(number * STEPS + 1, (number + 1) * STEPS + 1):
                    descent.zero_grad()
                    cross_entropy(model(x), y).backward()
                    descent.step()
                    evaluator.step(model)
                    watch(evaluator, model, step)
            for tested, (rows, labels) in list(tasks.items())[: number + 1]:
                with torch.no_grad():
                    right[name, tested] = (model(rows).argmax(1) == labels).numpy()
    return right


def check(folder: Path, right: dict[tuple[str, str], np.ndarray]) -> None:
    """Compare what is read, example by example, and with the recorded scores."""
    found = perdure.open_run(folder)
    assert found.matrix is not None
    tasks = found.matrix.tasks
    for (trained, tested), expected in right.items():
        hits = found.per_example_at_ends[tested]
        row = list(hits.steps).index(tasks.index(trained))
        np.testing.assert_array_equal(hits[row], expected)
        score = found.matrix.scores[tasks.index(trained), tasks.index(tested)]
        assert hits.accuracy()[row] == pytest.approx(score, abs=1e-12)
    shown = found.summary()
    assert {"bwt", "forgetting.best", "acc", "acc.incremental"} <= set(shown.intervals)
    for id_ in ("bwt", "forgetting.best", "acc"):
        low, high = shown.intervals[id_]
        assert METRICS[id_].low <= low <= shown.metrics[id_] <= high <= METRICS[id_].high


SUBSETS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "smaller": ({"subset": 20}, {"0.bin", "0.full.bin"}),
    "the whole set": ({"subset": None}, {"0.bin"}),
    "no probe at the end": ({"subset": None, "every": 3}, {"0.bin"}),
    "no probes": ({"subset": 20, "every": 100}, {"0.full.bin"}),
    "resampled": ({"subset": Subset(20, resample=True)}, {"0.full.bin"}),
    "resampled whole set": ({"subset": Subset(None, resample=True)}, {"0.full.bin"}),
    "a worker": ({"subset": 20, "executor": perdure.Worker()}, {"0.bin", "0.full.bin"}),
    "the latest": ({"subset": 20, "executor": perdure.Worker(mode="latest")}, {"0.full.bin"}),
    "half precision": (
        {"subset": 20, "executor": perdure.Inline(precision="screened")},
        {"0.bin", "0.full.bin"},
    ),
    "unseen": ({"subset": 20, "unseen": True}, {"0.bin", "0.full.bin"}),
}


@pytest.mark.parametrize("given", SUBSETS)
def test_whole_sets_record_which_examples_were_right(tmp_path: Path, given: str) -> None:
    options, files = SUBSETS[given]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("perdure.evaluation.engine.screening.MAX_SLOWER", 1000)
        check(tmp_path, learn(tmp_path, count_flops=False, **options))
    there = {path.name for path in tmp_path.glob("per_example/0.*bin")}
    assert files <= there <= files | {"0.bin"}
    for path in tmp_path.glob("per_example/*.full.npy"):
        np.testing.assert_array_equal(np.load(path), np.arange(ROWS))


def test_hits_may_be_switched_off(tmp_path: Path) -> None:
    learn(tmp_path, per_example=False, subset=20)
    assert not (tmp_path / "per_example").exists()
    found = perdure.open_run(tmp_path).summary()
    assert "bwt" not in found.intervals
    assert {"acc", "acc.learning"} <= set(found.intervals)  # from the sizes alone


def test_a_whole_set_that_a_probe_has_recorded_is_not_written_twice(tmp_path: Path) -> None:
    learn(tmp_path, subset=None)
    lines = (tmp_path / "points.csv").read_text().splitlines()
    probes = sum(",a,probe," in line for line in lines)
    assert (tmp_path / "per_example/0.bin").stat().st_size == probes * (8 + -(-ROWS // 8))


class Restless(torch.utils.data.Dataset[Any]):
    """Examples that change each time they are read, as with a random transform."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self.x, self.y, self.reads = x, y, 0

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, k: int) -> tuple[torch.Tensor, torch.Tensor]:
        self.reads += 1
        return self.x[k] * (1 if self.reads <= len(self.y) else -1), self.y[k]


def test_a_whole_set_that_differs_from_the_probe_has_its_own_file(tmp_path: Path) -> None:
    x, y = data(rows=ROWS)["a"]
    model = nn.Linear(6, 4)
    evaluator = perdure.Evaluator(
        {"a": Restless(x, y)}, record=tmp_path, subset=None, count_flops=False
    )
    with evaluator, evaluator.task("a"):
        evaluator.step(model)
    found = perdure.open_run(tmp_path)
    assert found.matrix is not None
    assert (tmp_path / "per_example/0.full.bin").exists()
    assert found.per_example_at_ends["a"].accuracy() == pytest.approx(found.matrix.scores[0])
    assert found.matrix.scores[0] != found.per_example["a"].accuracy()


@pytest.mark.parametrize("given", [{"subset": 20}, {"subset": None, "every": 3}, {"subset": None}])
@pytest.mark.parametrize("at", [2, 4, 5, 8, 11])
def test_killed_and_resumed_is_bit_for_bit_the_same(
    tmp_path: Path, at: int, given: dict[str, Any]
) -> None:
    """Saved at any step, also at a task's last one, before its whole sets are tested."""
    learn(tmp_path / "whole", count_flops=False, **given)
    saved: dict[str, Any] = {}

    def save(evaluator: Evaluator, model: nn.Module, step: int) -> None:
        if step == at:
            saved["state"] = json.loads(json.dumps(evaluator.state_dict()))
            saved["weights"] = deepcopy(model.state_dict())
        if step == min(at + 5, 3 * STEPS):
            raise Killed

    with suppress(Killed):
        learn(tmp_path / "killed", count_flops=False, watch=save, **given)
    finish(tmp_path / "killed", at, saved, given)
    for path in sorted((tmp_path / "whole").glob("per_example/*")):
        other = tmp_path / "killed/per_example" / path.name
        assert other.read_bytes() == path.read_bytes(), path.name
    whole = (tmp_path / "whole/points.csv").read_bytes()
    assert (tmp_path / "killed/points.csv").read_bytes() == whole


def finish(folder: Path, at: int, saved: dict[str, Any], given: dict[str, Any]) -> None:
    """Resume after `at` steps; a task saved at its last step is entered and left."""
    tasks = data(rows=ROWS)
    model = nn.Linear(6, 4)
    model.load_state_dict(saved["weights"])
    descent = torch.optim.SGD(model.parameters(), 0.5)
    state = saved["state"]
    record = Record(folder, resume=state)
    with perdure.Evaluator(tasks, record=record, count_flops=False, **given) as evaluator:
        for number, (name, (x, y)) in enumerate(tasks.items()):
            if (number + 1) * STEPS < at:
                continue
            with evaluator.task(name, model):
                for _ in range(max(at, number * STEPS), (number + 1) * STEPS):
                    descent.zero_grad()
                    cross_entropy(model(x), y).backward()
                    descent.step()
                    evaluator.step(model)


def test_training_is_the_same_with_and_without(tmp_path: Path) -> None:
    ends = []
    for name, per_example in (("with", True), ("without", False)):
        weights: list[Any] = []

        def keep(evaluator: Evaluator, model: nn.Module, step: int, kept: Any = weights) -> None:
            kept.append(deepcopy(model.state_dict()))

        learn(tmp_path / name, per_example=per_example, subset=20, watch=keep)
        ends.append(weights[-1])
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of other seeds on the same examples, and one on others."""
    folder = tmp_path_factory.mktemp("runs")
    learn(folder / "a", seed=1, subset=20)
    learn(folder / "b", seed=2, subset=20)
    other = {name: (x + 1, y) for name, (x, y) in data(rows=ROWS).items()}
    learn(folder / "c", seed=2, subset=20, tasks=other)
    return folder


def test_ids_of_ones_own(tmp_path: Path, made: Path) -> None:
    ids = {name: np.arange(ROWS)[::-1] + 1000 for name in "abc"}
    learn(tmp_path, seed=2, subset=20, ids=ids)
    found = perdure.open_run(tmp_path)
    np.testing.assert_array_equal(found.per_example_at_ends["b"].ids, ids["b"])
    subset = np.load(tmp_path / "per_example/1.npy")
    assert set(subset) <= set(ids["b"])
    with pytest.raises(perdure.UndefinedMetricError, match="share 0 of 50 ids"):
        difference_of_runs(
            found.per_example_at_ends, perdure.open_run(made / "b").per_example_at_ends
        )


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (range(3), "task 'a': 3 ids for 50 examples"),
        ([1] * ROWS, "distinct"),
        (np.zeros(ROWS), "one distinct integer per example"),
    ],
)
def test_ids_are_judged(ids: Any, said: str) -> None:
    task = EvalTask(data(rows=ROWS)["a"], ids=ids)
    with pytest.raises(ValueError, match=said):
        perdure.Evaluator({"a": task}).begin("a")


@pytest.mark.parametrize("cut", [1, 8, 14])
def test_a_torn_last_record_costs_its_intervals_only(tmp_path: Path, made: Path, cut: int) -> None:
    shutil.copytree(made / "a", tmp_path / "run")
    path = tmp_path / "run/per_example/0.full.bin"
    data = path.read_bytes()
    path.write_bytes(data[:-cut])
    found = perdure.open_run(tmp_path / "run")
    notes = " ".join(found.notes)
    assert "0.full.bin: the last record is cut off" in notes
    assert "which examples of 'a' were right at the end of 'c'" in notes
    intervals = found.summary().intervals
    assert "bwt" not in intervals
    assert {"acc", "acc.learning"} <= set(intervals)


def test_hits_of_another_run_are_refused(tmp_path: Path, made: Path) -> None:
    shutil.copytree(made / "a", tmp_path / "run")
    path = tmp_path / "run/per_example/1.full.bin"
    data = bytearray(path.read_bytes())
    data[8] ^= 0x80
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"task 'b' at step 8 has .* results of another run"):
        read_input(str(tmp_path / "run"))
    np.save(tmp_path / "run/per_example/1.full.npy", np.arange(ROWS - 10))
    with pytest.raises(InputError, match="per-example"):
        read_input(str(tmp_path / "run"))
    shown = run("compare", f"a={tmp_path / 'run'}", f"b={made / 'b'}")
    assert shown.code == 0
    assert "not compared example by example" in shown.out


def test_a_record_without_whole_sets_says_so(tmp_path: Path, made: Path) -> None:
    shutil.copytree(made / "a", tmp_path / "run")
    for path in (tmp_path / "run/per_example").glob("*.full.*"):
        path.unlink()
    found = perdure.open_run(tmp_path / "run").summary()
    assert any("not all metrics have an interval from examples" in note for note in found.notes)
    assert "bwt" not in found.intervals
    assert "min_acc" in found.intervals


def test_score_shows_them(made: Path) -> None:
    found = json.loads(run("score", made / "a", "--format", "json").out)
    assert len(found["intervals"]["bwt"]) == 2
    assert found["per_task_intervals"]["bwt"][2] is None
    shown = run("score", made / "a", "--per-task").out
    assert "95% interval of each task" in shown
    (line,) = [line for line in shown.splitlines() if line.startswith("  bwt  ")]
    assert " to " in line


def test_compare_shows_paired_differences_of_two_runs(made: Path) -> None:
    words = (f"one={made / 'a'}", f"two={made / 'b'}")
    shown = run("compare", *words)
    assert shown.code == 0
    assert "one - two, on the same examples" in shown.out
    assert "two trained models, not about the methods" in shown.out
    (found,) = json.loads(run("compare", *words, "--format", "json").out)["example_comparisons"]
    one, two = (perdure.open_run(made / name) for name in "ab")
    expected = difference_of_runs(one.per_example_at_ends, two.per_example_at_ends)
    assert found["intervals"]["bwt"] == list(expected.intervals["bwt"])
    first, second = (each.summary().metrics for each in (one, two))
    for id_, value in found["metrics"].items():
        assert value == pytest.approx(first[id_] - second[id_], abs=1e-12), id_
    for form in ("markdown", "latex", "csv"):
        assert "forgetting.best" in run("compare", *words, "--format", form, "--details").out


def test_compare_says_why_runs_on_other_data_are_not_paired(made: Path) -> None:
    shown = run("compare", f"one={made / 'a'}", f"two={made / 'c'}")
    assert shown.code == 0
    assert "not compared example by example: the evaluation data of task 'a' differs" in shown.out
    (found,) = json.loads(
        run("compare", f"one={made / 'a'}", f"two={made / 'c'}", "--format", "json").out
    )["example_comparisons"]
    assert "differs" in found["undefined"]
