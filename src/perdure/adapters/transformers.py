"""A callback for the Hugging Face Trainer that evaluates every task while it trains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from ..record import read_json
from ._base import FrameworkEvaluation

if TYPE_CHECKING:
    from torch import nn

__all__ = ["ContinualEvaluation"]

STATE_FILE = "perdure.json"  # in a checkpoint folder of the Trainer


class ContinualEvaluation(FrameworkEvaluation[TrainerState], TrainerCallback):  # type: ignore[misc]
    """Evaluates every task while a `Trainer` trains, and leaves training bit-identical.

    It works with every Trainer, such as TRL's SFTTrainer. A step is one of the optimizer, so
    accumulated batches count once. The Trainer's checkpoints contain the state of the evaluation,
    and `train(resume_from_checkpoint=True)` resumes its record.

    Args:
        tasks: evaluation data by task name, as for `perdure.Evaluator`.
        task: the task that `train` learns, or a function of the `TrainerState` that returns it,
            called before every step: `lambda state: f"task {int(state.epoch)}"`. The record is
            closed when `train` ends. For several calls of `train`, leave it out, assign it before
            each (`evaluation.task = "b"`), and call `close` at the end.
        options: further arguments of `perdure.Evaluator`: `every`, `score`, `record`, …
    """

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl,
        model: nn.Module | None = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        """Begin the task, and resume the record if the Trainer resumes."""
        if not state.is_world_process_zero or model is None:
            return
        if state.global_step > 0:
            path = _checkpoint(args, state) / STATE_FILE
            if not path.is_file():
                raise FileNotFoundError(
                    f"{path}: no state of the evaluation to resume; resume from a checkpoint that "
                    "was saved with ContinualEvaluation in this output_dir"
                )
            self.load_state_dict(read_json(path))
        self.begin_training(model, state)

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl,
        model: nn.Module | None = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        """Begin another task if the function says so."""
        if state.is_world_process_zero and model is not None and callable(self.task):
            self.enter_task(model, state)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl,
        model: nn.Module | None = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        """Count a step of the optimizer."""
        if state.is_world_process_zero and model is not None:
            self.evaluator.step(model)

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Add the state of the evaluation to a checkpoint."""
        folder = _checkpoint(args, state)
        if state.is_world_process_zero and folder.is_dir():
            content = json.dumps(self.state_dict())
            (folder / STATE_FILE).write_text(content, encoding="utf-8")

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """End the task."""
        if state.is_world_process_zero:
            self.end_training()


def _checkpoint(args: TrainingArguments, state: TrainerState) -> Path:
    """Return the folder of the Trainer's checkpoint at the current step."""
    return Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
