"""LwF, learning without forgetting: the previous model's outputs are distilled."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cross_entropy, kl_div, log_softmax
from typing_extensions import override

from ..evaluation.state.preserve import preserve_state
from ..record import InputError
from ._base import NO_ROWS, Batch, Examples, LossCallback, Network, Rows, Strategy
from ._importance import iterate_batches
from .registry import check_ranges, follows_avalanche

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.optim import Optimizer

__all__ = ["LwF"]


class LwF(Strategy):
    """Trains on each batch while preserving the outputs that the model gave before the task.

    The loss is the loss of the batch + alpha x KL(old || new), both softened by the temperature.
    Plasticity is the first term, stability the second without its alpha. As in the paper (Li &
    Hoiem 2017), the old outputs are recorded once for every example of the task, before its first
    step and in evaluation mode, so that no old network has to be stored or evaluated again.

    With one head per task each old head is distilled separately and the divergences are summed.
    With a shared head the distribution is over the classes of earlier tasks, without new and masked
    ones. Gradients are not multiplied by the squared temperature. The paper first trains a new head
    alone; here it is trained with the rest from the first step.

    With `implementation="avalanche-0.2.1"` the strategy computes what that version of Avalanche
    does: the old outputs are those of a copy of the model in training mode, computed for every
    batch with the batch's own statistics in BatchNorm, and with a shared head the distribution is
    over the classes of the previous task alone. It requires a shared head: with one head per task,
    that version's distillation has no gradient.

    Args:
        model: the network to train.
        optimizer: the optimizer of the model's parameters.
        examples: the training examples of all tasks.
        seed: not used.
        alpha: lambda, the weight of the old outputs; 0 is naive.
        temperature: values above 1 soften the distributions.
        implementation: `perdure`, as in the paper, or `avalanche-0.2.1`.
    """

    capturable = True

    requires_boundaries: ClassVar[bool] = True
    penalty_weight: ClassVar[str | None] = "alpha"

    def __init__(
        self,
        model: Network,
        optimizer: Optimizer,
        examples: Examples,
        *,
        seed: int = 0,
        alpha: float = 1.0,
        temperature: float = 2.0,
        implementation: Literal["perdure", "avalanche-0.2.1"] = "perdure",
    ) -> None:
        super().__init__(model, optimizer, examples, seed=seed)
        check_ranges("lwf", {"alpha": alpha, "temperature": temperature})
        self.alpha, self.temperature = alpha, temperature
        self._avalanche = follows_avalanche(implementation)
        if self._avalanche and model.opened is not None:
            raise InputError(
                f"implementation is {implementation!r}, which requires a shared head, not one per "
                "task; use setting class or domain"
            )
        self.teacher: dict[str, Tensor] = {}  # the weights after the previous task, for Avalanche
        self.tasks: list[int] = []  # the tasks learned so far
        self.classes = torch.zeros(
            0, dtype=torch.int64, device=examples.device
        )  # and their classes
        self.rows = examples.rows_on_device(NO_ROWS)  # of the current task, sorted
        self.recorded: list[Tensor] = []  # log-probabilities of these rows, one tensor per head

    @override
    def begin_task(self, task: int, rows: Rows) -> Rows:
        self.recorded = []
        if self.alpha and self.tasks and not self._avalanche:
            rows_once = np.unique(rows)
            self.rows = self.examples.rows_on_device(rows_once)
            with preserve_state(self.model):
                outputs = []
                for batch in iterate_batches(self.examples, rows_once):
                    features = self.model.body(batch.x)
                    scores = self.model.classify(features, batch.task)
                    outputs.append(self._old_log_probabilities(features, scores))
            self.recorded = [torch.cat(parts) for parts in zip(*outputs, strict=True)]
        return rows

    @override
    def step(self, new: Batch, *others: Batch, on_loss_terms: LossCallback | None = None) -> Tensor:
        features = self.model.body(new.x)
        scores = self.model.classify(features, new.task)
        loss = plasticity = cross_entropy(scores, new.y)
        stability: Tensor | None = None
        if before := self._before(new):
            divergences = [
                kl_div(now, old, reduction="batchmean", log_target=True)
                for now, old in zip(
                    self._old_log_probabilities(features, scores), before, strict=True
                )
            ]
            stability = torch.stack(divergences).sum()
            loss = plasticity + self.alpha * stability
        if on_loss_terms is not None:
            on_loss_terms(plasticity, [] if stability is None else stability)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    @override
    def end_task(self, task: int, rows: Rows) -> None:
        self.tasks = sorted({*self.tasks, *self.examples.tasks[rows].tolist()})
        classes = set(self.examples.labels[rows].tolist())
        if self._avalanche:
            self.teacher = {k: v.clone() for k, v in self.model.state_dict().items()}
        else:
            classes.update(self.classes.tolist())
        self.classes = torch.tensor(sorted(classes), device=self.examples.device)

    @override
    def auxiliary_tensors(self) -> Sequence[Tensor]:
        return [*self.recorded, *self.teacher.values()]

    def _before(self, new: Batch) -> list[Tensor]:
        """Return the log-probabilities before the task, as `_old_log_probabilities` orders them."""
        if self.teacher and self.alpha:
            with torch.no_grad():
                scores = functional_call(self.model, self.teacher, (new.x, new.task))
                return self._old_log_probabilities(scores, scores)
        if not self.recorded:
            return []
        assert new.rows is not None
        positions = torch.searchsorted(self.rows, new.rows)
        return [before[positions] for before in self.recorded]

    def _old_log_probabilities(self, features: Tensor, scores: Tensor) -> list[Tensor]:
        """Return the log-probabilities of the classes of earlier tasks, one tensor per head."""
        if self.model.opened is None:
            groups = [scores.index_select(1, self.classes)]
        else:
            groups = []
            for task in self.tasks:
                columns = self.model.columns(task)
                task_scores = self.model.classify(features, task)
                groups.append(task_scores[:, columns.start : columns.stop])
        return [log_softmax(group / self.temperature, 1) for group in groups]
