"""A budget of time: evaluation keeps to its share, training to its bits."""

from __future__ import annotations

import json
import statistics
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import perdure
from perdure import EvaluationWarning
from perdure.evaluation.costs import meter
from perdure.evaluation.schedules import Budget, as_schedule
from perdure.stats.schedules import parse_share

from .cli_helpers import run

if TYPE_CHECKING:
    from pathlib import Path

X, Y = torch.eye(4), torch.tensor([0, 0, 1, 1])
EXPENSIVE = pytest.mark.filterwarnings("ignore:task 'a' was evaluated after")


class Clock:
    """The time that training and evaluation take, as the test says."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Let the cost meter read a clock of the test's."""
    mine = Clock()
    monkeypatch.setattr(meter, "time", mine)
    return mine


def make(clock: Clock, folder: Path, every: int | str, cost: float, **more: Any) -> Any:
    def score(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        clock.now += cost
        return torch.as_tensor(model(x).argmax(1) == y).float()

    tasks = {"a": (X, Y), "b": (X, 1 - Y)}
    record = perdure.Record(folder, overwrite=True, **more)
    return perdure.Evaluator(tasks, every=every, score=score, record=record, count_flops=False)


def train(
    evaluator: Any, clock: Clock, model: nn.Module, tasks: str = "ab", steps: int = 200
) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for task in tasks:
        with evaluator.task(task, model):
            for _ in range(steps):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(X), Y if task == "a" else 1 - Y).backward()
                optimizer.step()
                clock.now += 1.0
                evaluator.step(model)


def model_and_record(folder: Path, clock: Clock, every: int | str, cost: float) -> Any:
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    with make(clock, folder, every, cost) as evaluator:
        train(evaluator, clock, model)
    return model, perdure.open_run(folder)


def probes(folder: Path) -> list[int]:
    lines = (folder / "points.csv").read_text().splitlines()[1:]
    return sorted({int(line.split(",")[0]) for line in lines if line.split(",")[3] == "probe"})


@EXPENSIVE
@pytest.mark.parametrize("cost", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("share", [0.1, 0.3])
def test_evaluation_keeps_to_its_share(
    cost: float, share: float, tmp_path: Path, clock: Clock
) -> None:
    model_and_record(tmp_path / "r", clock, f"{share:.0%}", cost)
    rows = (tmp_path / "r" / "costs.csv").read_text().splitlines()
    columns = rows[0].split(",")
    seconds = [
        sum(float(row.split(",")[columns.index(name)]) for row in rows[1:])
        for name in ("seconds_train", "seconds_eval")
    ]
    taken = seconds[1] / sum(seconds)
    assert seconds[0] == pytest.approx(400)
    assert taken <= share + 3 * 2 * cost / sum(seconds)  # the last evaluations are whole
    every_step = cost / (1 + cost)  # tasks are evaluated together
    assert taken >= min(share, every_step) - 3 * 2 * cost / sum(seconds)
    told = json.loads((tmp_path / "r" / "run.json").read_text())["evaluation"]
    assert told["every"] == f"{share:.0%}"
    assert told["budget"]["reached"] == pytest.approx(taken, abs=1e-3)
    steps = probes(tmp_path / "r")
    gaps = [after - before for before, after in pairwise(steps)]
    assert told["budget"]["spacing"] == [min(gaps), statistics.median(gaps), max(gaps)]
    assert (told["budget"]["evaluations"], told["budget"]["steps"]) == (len(steps), 400)
    assert {1, 201} <= {*steps}  # after the first step of each task


@EXPENSIVE
def test_training_is_bit_identical_and_the_note_says_what_is_not(
    tmp_path: Path, clock: Clock
) -> None:
    slow, record = model_and_record(tmp_path / "slow", clock, "10%", 9.0)
    fast, _ = model_and_record(tmp_path / "fast", clock, "10%", 0.5)
    fixed, _ = model_and_record(tmp_path / "fixed", clock, 1, 1.0)
    for other in (fast, fixed):
        for mine, theirs in zip(slow.parameters(), other.parameters(), strict=True):
            assert torch.equal(mine, theirs)
    assert probes(tmp_path / "slow") != probes(tmp_path / "fast")
    assert any(
        "not exactly reproducible; training itself is" in note for note in record.summary().notes
    )
    text = (tmp_path / "slow" / "points.csv").read_text()
    assert text.count(",full,") == 3  # whole sets at both ends, as ever


def test_the_share_and_the_spacing_are_shown(tmp_path: Path, clock: Clock) -> None:
    torch.manual_seed(0)
    with make(clock, tmp_path / "r", "20%", 2.0) as evaluator:
        train(evaluator, clock, nn.Linear(4, 2))
    steps = probes(tmp_path / "r")
    gaps = [after - before for before, after in pairwise(steps)]
    line = next(line for line in repr(evaluator).splitlines() if "evaluation" in line)
    assert f"of the time (requested: 20%), {len(steps)} of 400 steps" in line
    apart = f"{min(gaps)} to {max(gaps)} steps apart (median {statistics.median(gaps):g})"
    assert apart in line
    assert any(apart.replace("steps", "iterations") in note for note in evaluator.summary().notes)


def test_a_task_with_too_few_evaluations(tmp_path: Path, clock: Clock) -> None:
    """Both tasks have too few, which is said once, and not again when the run is resumed."""
    torch.manual_seed(0)
    model, state = nn.Linear(4, 2), None
    for task in "ab":
        evaluator = make(clock, tmp_path / "r", "10%", 50.0, resume=state)
        if state is None:
            with pytest.warns(EvaluationWarning, match=r"'a' was evaluated after \d of its 200 st"):
                train(evaluator, clock, model, task)
            state = json.loads(json.dumps(evaluator.state_dict()))
            evaluator.close(finished=False)
        else:
            train(evaluator, clock, model, task)  # warnings are errors
    assert sum("need about 10 evaluations" in note for note in evaluator.notes) == 1
    with make(clock, tmp_path / "short", "10%", 0.0) as short:
        train(short, clock, model, steps=3)  # all of them


@EXPENSIVE
def test_a_resumed_run_continues_its_budget(tmp_path: Path, clock: Clock) -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    evaluator = make(clock, tmp_path / "r", "10%", 3.0)
    train(evaluator, clock, model, "a")
    state = json.loads(json.dumps(evaluator.state_dict()))
    evaluator.close(finished=False)
    before = probes(tmp_path / "r")
    clock.now += 1e6  # the pause is neither training nor evaluation
    with make(clock, tmp_path / "r", "10%", 3.0, resume=state) as resumed:
        train(resumed, clock, model, "b")
    told = json.loads((tmp_path / "r" / "run.json").read_text())["evaluation"]["budget"]
    steps = probes(tmp_path / "r")
    assert steps[: len(before)] == before
    assert told["evaluations"] == len(steps)
    assert told["reached"] == pytest.approx(0.1, abs=0.06)


@pytest.mark.parametrize("text", ["10", "0%", "100%", "-5%", "ten%", "%", "nan%"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a number of steps, or a share"):
        as_schedule(text)
    assert isinstance(as_schedule("2.5 %"), Budget)
    assert parse_share("2.5 %") == 0.025


def test_the_command_takes_a_share(tmp_path: Path) -> None:
    plan = ("run", "split-digits", "naive", "--every", "10%", "--dry-run")
    assert "10% of the time" in run(*plan).out
    shown = json.loads(run(*plan, "--format", "json").out)
    assert {config["every"] for config in shown} == {"10%"}
    answer = run("run", "--every", "200%", "--dry-run")
    assert (answer.code, answer.out) == (2, "")
    assert "--every is '200%', expected above 0% and below 100%" in answer.err
    study = 'scenarios = ["split-digits"]\nstrategies = ["naive"]\n[run]\nevery = "110%"\n'
    (tmp_path / "s.toml").write_text(study)
    answer = run("study", "run", tmp_path / "s.toml", "--dry-run")
    assert answer.code == 2
    assert "every is '110%'" in answer.err
    times = ["--iterations", "100", "--tasks", "3", "--train-ms", "1", "--example-us", "10"]
    answer = run("plan", *times, "--n", "100", "--every", "20%,1", "--format", "json")
    share, single = json.loads(answer.out)["plans"]
    assert share["every"] > single["every"] == 1
    assert share["share"] <= 0.2
    denser = run(
        "plan", *times, "--n", "100", "--every", str(share["every"] - 1), "--format", "json"
    )
    assert json.loads(denser.out)["plans"][0]["share"] > 0.2
    answer = run("plan", *times[:4], "--every", "20%")
    assert answer.code == 2
    assert "--every is 20%, which needs the times" in answer.err
