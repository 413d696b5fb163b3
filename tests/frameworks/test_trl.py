"""TRL's SFTTrainer with LoRA: weights as without a callback, and what is forgotten."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import perdure

from .helpers import OWN, check_law, needs, record_of, replay, weights
from .toy_language import TASKS, llama, rows, sentences, tokenizer

if TYPE_CHECKING:
    from pathlib import Path

trl = needs("trl", "trl.trainer.sft_trainer")
peft = needs("peft")
datasets = needs("datasets")
transformers = needs("transformers")
ContinualEvaluation = needs("perdure.adapters.transformers").ContinualEvaluation
Snapshots = needs("tests.frameworks.test_transformers").Snapshots
pytestmark = pytest.mark.filterwarnings("default", "error::perdure.EvaluationWarning")
transformers.logging.set_verbosity_error()
datasets.disable_progress_bars()


def learn(folder: Path, callbacks: Any = (), **options: Any) -> Any:
    """Return the adapted model after three tasks."""
    quiet: dict[str, Any] = {
        "output_dir": str(folder), "report_to": "none", "disable_tqdm": True, "use_cpu": True,
        "logging_strategy": "no", "save_strategy": "no", "learning_rate": 5e-3, "bf16": False,
        "per_device_train_batch_size": 8, "num_train_epochs": 1, "dataloader_pin_memory": False,
        "gradient_checkpointing": False, "max_length": 16,
    }  # fmt: skip
    model, adapter = llama(), peft.LoraConfig(
        r=8, lora_alpha=32, lora_dropout=0.1, target_modules="all-linear", task_type="CAUSAL_LM"
    )  # fmt: skip
    for task in TASKS:
        for callback in callbacks:
            callback.task = task
        texts = datasets.Dataset.from_dict({"text": sentences(task) * 4})
        trainer = trl.SFTTrainer(
            model, trl.SFTConfig(**(quiet | options)), train_dataset=texts, eval_dataset=texts,
            processing_class=tokenizer(), callbacks=[*callbacks], peft_config=adapter,
        )  # fmt: skip
        trainer.train()
        model, adapter = trainer.model, None
    return model


def evaluation_data() -> dict[str, Any]:
    return {task: rows(task) for task in TASKS}


def train(mode: str, folder: Path) -> dict[str, Any]:
    if mode == "perdure":
        with ContinualEvaluation(evaluation_data(), score="exact_match") as evaluation:
            return weights(learn(folder, [evaluation]))
    return weights(
        learn(folder, **({"eval_strategy": "steps", "eval_steps": 1} if mode == OWN else {}))
    )


def test_weights_are_those_of_a_training_without_evaluation(tmp_path: Path) -> None:
    check_law(partial(train, folder=tmp_path))


def test_the_record_is_that_of_a_plain_loop(tmp_path: Path) -> None:
    options = {"score": "nll"}
    with ContinualEvaluation(evaluation_data(), record=tmp_path / "run", **options) as evaluation:
        learn(tmp_path, [evaluation])
    snapshots = Snapshots()
    model = learn(tmp_path, [snapshots])
    replay(tmp_path / "loop", model, snapshots.states, evaluation_data(), **options)
    assert record_of(tmp_path / "run") == record_of(tmp_path / "loop")


def test_three_tasks_are_learned_and_forgotten(tmp_path: Path) -> None:
    evaluation = ContinualEvaluation(
        evaluation_data(), record=tmp_path / "run", score="exact_match", every=5
    )
    with evaluation:
        learn(tmp_path, [evaluation], num_train_epochs=20)
    matrix = perdure.open_run(tmp_path / "run").matrix
    assert matrix is not None
    assert matrix.scores.diagonal().min() > 0.8
    assert matrix.scores[2, :2].max() < 0.3  # the answers contradict each other
