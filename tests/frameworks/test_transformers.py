"""Hugging Face Trainer: weights as without a callback, and the record of a plain loop."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import perdure

from ..evaluator_helpers import lines
from .helpers import OWN, check_law, needs, record_of, replay, run_recipe, same, weights
from .toy_language import TASKS, examples, llama, rows

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

transformers = needs("transformers", "accelerate")
ContinualEvaluation = needs("perdure.adapters.transformers").ContinualEvaluation
pytestmark = pytest.mark.filterwarnings("default", "error::perdure.EvaluationWarning")
transformers.logging.set_verbosity_error()
States = list[tuple[str, list[dict[str, "Tensor"]]]]


def evaluation_data() -> dict[str, dict[str, Tensor]]:
    return {task: rows(task) for task in TASKS}


class Snapshots(transformers.TrainerCallback):  # type: ignore[misc, name-defined]
    """Keeps the weights before the first and after each step of the optimizer."""

    def __init__(self) -> None:
        self.states: States = []

    def on_train_begin(self, *args: Any, model: Any, **kwargs: Any) -> None:
        self.states.append((list(TASKS)[len(self.states)], [weights(model)]))

    def on_step_end(self, *args: Any, model: Any, **kwargs: Any) -> None:
        self.states[-1][1].append(weights(model))


def trainer(model: Any, task: str, folder: Path, callbacks: list[Any], **options: Any) -> Any:
    quiet: dict[str, Any] = {
        "output_dir": str(folder), "report_to": "none", "disable_tqdm": True, "use_cpu": True,
        "logging_strategy": "no", "save_strategy": "no", "learning_rate": 1e-2,
        "per_device_train_batch_size": 8, "num_train_epochs": 1, "dataloader_pin_memory": False,
    }  # fmt: skip
    args = transformers.TrainingArguments(**(quiet | options))
    return transformers.Trainer(
        model, args, train_dataset=examples(task), eval_dataset=examples(task, 1),
        callbacks=callbacks,
    )  # fmt: skip


def learn(folder: Path, evaluation: Any = None, others: Any = (), **options: Any) -> dict[str, Any]:
    """Return the weights after three tasks."""
    model = llama()
    for task in TASKS:
        callbacks = [*others]
        if evaluation is not None:
            evaluation.task = task
            callbacks.append(evaluation)
        trainer(model, task, folder, callbacks, **options).train()
    return weights(model)


def train(mode: str, folder: Path, **options: Any) -> dict[str, Any]:
    """Return the weights after three tasks, with one way to evaluate meanwhile."""
    if mode == "perdure":
        with ContinualEvaluation(evaluation_data(), score="exact_match") as evaluation:
            return learn(folder, evaluation, **options)
    own = {"eval_strategy": "steps", "eval_steps": 1} if mode == OWN else {}
    return learn(folder, **options, **own)


def test_weights_are_those_of_a_training_without_evaluation(tmp_path: Path) -> None:
    check_law(partial(train, folder=tmp_path))


@pytest.mark.parametrize("option", ["bf16", "activation_checkpointing"])
def test_options_of_the_trainer_change_nothing_about_that(tmp_path: Path, option: str) -> None:
    alone = train("none", tmp_path, **{option: True})
    assert same(train("perdure", tmp_path, **{option: True}), alone)
    assert not same(train("none", tmp_path), alone) or option != "bf16"


def test_the_record_is_that_of_a_plain_loop(tmp_path: Path) -> None:
    options = {"score": "exact_match"}
    with ContinualEvaluation(evaluation_data(), record=tmp_path / "run", **options) as evaluation:
        trained = learn(tmp_path, evaluation, gradient_accumulation_steps=2)
    snapshots = Snapshots()
    alone = learn(tmp_path, others=[snapshots], gradient_accumulation_steps=2)
    assert same(trained, alone)
    replay(tmp_path / "loop", llama(), snapshots.states, evaluation_data(), **options)
    assert record_of(tmp_path / "run") == record_of(tmp_path / "loop")
    assert max(line.step for line in lines(tmp_path / "run")) == 6  # steps of the optimizer
    assert perdure.open_run(tmp_path / "run").finished


def test_the_page_shows_a_program_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = llama()
    names: dict[str, Any] = {
        "transformers": transformers, "model": model, "test_sets": evaluation_data(),
        "args": trainer(model, "next", tmp_path / "out", []).args,
        "train_sets": {task: examples(task) for task in TASKS},
    }  # fmt: skip
    run_recipe("Hugging Face: Trainer, PEFT, TRL", names)
    assert perdure.open_run("runs/trainer").finished


def test_three_tasks_are_learned_and_forgotten(tmp_path: Path) -> None:
    evaluation = ContinualEvaluation(
        evaluation_data(), record=tmp_path / "run", score="exact_match", every=5
    )
    with evaluation:
        learn(tmp_path, evaluation, num_train_epochs=10, learning_rate=3e-2)
    matrix = perdure.open_run(tmp_path / "run").matrix
    assert matrix is not None
    assert matrix.scores.diagonal().min() > 0.8
    assert matrix.scores[2, :2].max() < 0.3  # the answers contradict each other


def test_a_checkpoint_resumes_training_and_record(tmp_path: Path) -> None:
    saves = {"save_strategy": "steps", "save_steps": 2, "max_steps": 4}

    def run(name: str, **options: Any) -> Any:
        evaluation = ContinualEvaluation(
            evaluation_data(), task="next", record=tmp_path / f"run {name}", score="exact_match"
        )
        found = trainer(llama(), "next", tmp_path / name, [evaluation], **(saves | options))
        return found, evaluation

    whole, _ = run("whole")
    whole.train()
    stopped, evaluation = run("stopped")
    stopped.add_callback(Stop(3))
    with pytest.raises(KeyError):
        stopped.train()
    del stopped
    evaluation.evaluator.close(finished=False)
    resumed, _ = run("stopped")
    resumed.train(resume_from_checkpoint=True)
    assert same(weights(resumed.model), weights(whole.model))
    assert record_of(tmp_path / "run stopped") == record_of(tmp_path / "run whole")
    elsewhere, _ = run("elsewhere")
    with pytest.raises(FileNotFoundError, match=r"perdure\.json: no state of the evaluation"):
        elsewhere.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-2"))


class Stop(transformers.TrainerCallback):  # type: ignore[misc, name-defined]
    """Raises an error before a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_begin(self, args: Any, state: Any, *rest: Any, **kwargs: Any) -> None:
        if state.global_step == self.step:
            raise KeyError("no such thing")
