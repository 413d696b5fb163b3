"""Lightning: weights as without a callback, and the record of a plain loop."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import perdure

from ..evaluator_helpers import Net, lines, rows
from .helpers import (
    OWN,
    TASKS,
    check_law,
    evaluation_data,
    needs,
    record_of,
    run_recipe,
    train_data,
    weights,
)

L = needs("lightning.pytorch")
ContinualEvaluation = needs("perdure.adapters.lightning").ContinualEvaluation
pytestmark = pytest.mark.filterwarnings("default", "error::perdure.EvaluationWarning")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
QUIET: dict[str, Any] = {
    "accelerator": "cpu", "logger": False, "enable_checkpointing": False,
    "enable_progress_bar": False, "enable_model_summary": False, "num_sanity_val_steps": 0,
}  # fmt: skip


class Module(L.LightningModule):  # type: ignore[misc, name-defined]
    """A small net with dropout and batch statistics."""

    def __init__(self, fails_at: int | None = None) -> None:
        super().__init__()
        self.net, self.fails_at = Net(), fails_at

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)  # type: ignore[no-any-return]

    def training_step(self, batch: tuple[Tensor, Tensor], index: int) -> Tensor:
        if self.global_step == self.fails_at:
            raise KeyError("no such thing")
        return cross_entropy(self(batch[0]), batch[1])

    def validation_step(self, batch: tuple[Tensor, Tensor], index: int) -> None:
        self.log("loss", cross_entropy(self(batch[0]), batch[1]))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.3, momentum=0.9)


def loader(task: str) -> DataLoader[Any]:
    return DataLoader(TensorDataset(*train_data(task)), batch_size=8, shuffle=True)


def fit(
    model: Any, task: str, callbacks: list[Any], ckpt_path: str | None = None, **options: Any
) -> None:
    options = QUIET | {"max_epochs": 2, "limit_val_batches": 0} | options
    held_out = DataLoader(TensorDataset(*rows(16, seed=20)), batch_size=8)
    trainer = L.Trainer(**options, callbacks=callbacks)
    trainer.fit(model, loader(task), held_out, ckpt_path=ckpt_path)


def train(mode: str, folder: Path | None = None, **options: Any) -> dict[str, Tensor]:
    """Return the weights after two tasks, with one way to evaluate meanwhile."""
    torch.manual_seed(0)
    model, evaluation = Module(), ContinualEvaluation(evaluation_data(), record=folder)
    own: dict[str, Any] = {"val_check_interval": 2, "limit_val_batches": None}
    for task in TASKS:
        evaluation.task = task
        callbacks = [evaluation] if mode == "perdure" else []
        fit(model, task, callbacks, **options, **(own if mode == OWN else {}))
    evaluation.close()
    return weights(model)


def test_weights_are_those_of_a_training_without_evaluation() -> None:
    check_law(train)


def test_accumulated_batches_count_once(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "accumulate_grad_batches": 3
    }  # the last of four batches is a step of its own
    alone = train("none", **options)
    assert all(
        torch.equal(value, alone[name])
        for name, value in train("perdure", tmp_path / "run", **options).items()
    )
    assert max(line.step for line in lines(tmp_path / "run")) == 8


def test_the_record_is_that_of_a_plain_loop(tmp_path: Path) -> None:
    trained = train("perdure", tmp_path / "callback")
    torch.manual_seed(0)
    model = Module()
    with perdure.Evaluator(evaluation_data(), record=tmp_path / "loop") as evaluator:
        for task in TASKS:
            data, optimizer = loader(task), model.configure_optimizers()
            with evaluator.task(task, model):
                for x, y in (batch for _ in range(2) for batch in data):
                    model.train()
                    optimizer.zero_grad()
                    cross_entropy(model(x), y).backward()
                    optimizer.step()
                    evaluator.step(model)
    assert all(torch.equal(value, trained[name]) for name, value in weights(model).items())
    assert record_of(tmp_path / "callback") == record_of(tmp_path / "loop")
    assert perdure.open_run(tmp_path / "callback").finished


def test_the_page_shows_a_program_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {
        "lightning": SimpleNamespace(Trainer=partial(L.Trainer, **QUIET)), "module": Module(),
        "test_sets": evaluation_data(), "loaders": {task: loader(task) for task in TASKS},
    }  # fmt: skip
    run_recipe("Lightning", names)
    assert perdure.open_run("runs/lightning").finished


def test_a_function_names_the_task_of_each_batch(tmp_path: Path) -> None:
    evaluation = ContinualEvaluation(
        evaluation_data(),
        task=lambda trainer: TASKS[trainer.current_epoch],
        record=tmp_path / "run",
    )
    fit(Module(), "a", [evaluation])
    probes = [line for line in lines(tmp_path / "run") if line.kind == "probe"]
    spans = {task: [line.step for line in probes if line.trained == task] for task in TASKS}
    assert spans == {"a": [1, 2, 3, 4], "b": [5, 5, 6, 6, 7, 7, 8, 8]}
    assert perdure.open_run(tmp_path / "run").finished  # closed by the end of fit
    with pytest.raises(RuntimeError, match=r"closed when training ended.* assign evaluation\.task"):
        fit(Module(), "a", [evaluation])


def test_a_task_has_to_be_named() -> None:
    with pytest.raises(ValueError, match=r"evaluation\.task = 'a'"):
        fit(Module(), "a", [ContinualEvaluation(evaluation_data())])
    with pytest.raises(ValueError, match=r"task 'c' has no evaluation data"):
        fit(Module(), "a", [ContinualEvaluation(evaluation_data(), task="c")])


def test_a_stream_without_boundaries(tmp_path: Path) -> None:
    fit(Module(), "a", [ContinualEvaluation(evaluation_data(), task="", record=tmp_path / "run")])
    found = lines(tmp_path / "run")
    assert {line.trained for line in found} == {""}
    assert len(found) == 16  # eight steps, both tasks


def test_an_error_in_training_leaves_what_was_evaluated(tmp_path: Path) -> None:
    evaluation = ContinualEvaluation(evaluation_data(), task="a", record=tmp_path / "run")
    with pytest.raises(KeyError):
        fit(Module(fails_at=3), "a", [evaluation])
    assert [line.step for line in lines(tmp_path / "run")] == [0, 1, 2, 3]
    assert not perdure.open_run(tmp_path / "run").finished


def test_a_checkpoint_resumes_the_record(tmp_path: Path) -> None:
    """Lightning loads the state of a callback after it is constructed, before training begins."""

    def run(name: str, fails_at: int | None = None, ckpt_path: str | None = None) -> Any:
        torch.manual_seed(0)
        evaluation = ContinualEvaluation(evaluation_data(), task="a", record=tmp_path / name)
        save = L.callbacks.ModelCheckpoint(
            tmp_path / f"{name} saved", "{step}", every_n_train_steps=2, save_top_k=-1
        )
        try:
            fit(Module(fails_at), "a", [evaluation, save], ckpt_path, enable_checkpointing=True)
        finally:
            evaluation.evaluator.close(finished=False)
        return lines(tmp_path / name)

    whole = run("whole")
    with pytest.raises(KeyError):
        run("stopped", fails_at=7)
    resumed = run("stopped", ckpt_path=str(tmp_path / "stopped saved" / "step=4.ckpt"))
    assert [line[:4] for line in resumed] == [line[:4] for line in whole]  # each step once
    assert resumed[:5] == whole[:5]  # the evaluation at the beginning, and four steps
    assert perdure.open_run(tmp_path / "stopped").finished


def test_without_a_folder_there_is_nothing_to_resume() -> None:
    with pytest.warns(perdure.EvaluationWarning, match=r"starts over: it has no record; pass "):
        ContinualEvaluation(evaluation_data(), task="a").load_state_dict({"step": 3})


@pytest.mark.slow
def test_two_processes_where_rank_0_evaluates(tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        answer = subprocess.run(
            [sys.executable, str(Path(__file__).with_name("two_processes.py")), *arguments],
            capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )  # fmt: skip
        assert answer.returncode == 0, answer.stderr
        (line,) = [line for line in answer.stdout.splitlines() if line.startswith("weights ")]
        return line

    assert run(str(tmp_path / "run")) == run()
    assert [line.step for line in lines(tmp_path / "run")] == [0, 1, 2, 3, 4, 4]
    assert perdure.open_run(tmp_path / "run").finished


def test_other_ranks_record_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "1")
    ContinualEvaluation(evaluation_data(), task="a", record=tmp_path / "run").close()
    assert not (tmp_path / "run").exists()
