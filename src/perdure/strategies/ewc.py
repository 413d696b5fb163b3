"""EWC, elastic weight consolidation, with separate penalties or online."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from typing_extensions import override

from .._devices import widest_float
from .._random_streams import random_stream
from ..evaluation.state.preserve import preserve_state
from ..record import InputError
from ._base import Batch, Examples, LossCallback, Network, Rows, Strategy
from ._importance import (
    add_penalty_gradient,
    empty_buffers,
    estimate_batch_importance,
    estimate_importance,
    iterate_batches,
    penalty_gradient,
    trainable_weights,
)
from .registry import check_ranges, follows_avalanche

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch.optim import Optimizer

__all__ = ["EWC", "fisher_diagonal"]

MODES, LABELS = ("separate", "online"), ("sampled", "data")


class EWC(Strategy):
    """Penalizes changes of weights in proportion to how much the old tasks depend on them.

    The loss is the loss of the batch + strength / 2 x the sum of F (weight - anchor)^2, where F is
    the diagonal of the Fisher matrix, computed from all examples of a task at its end. The
    plasticity term is the loss of the batch, the stability term half that sum, without `strength`.
    The gradient of the penalty is computed in closed form, without autograd.

    `separate` has one penalty per task, each with its own anchor (Kirkpatrick et al. 2017). Up to a
    constant, their sum is a single penalty around the mean of the anchors weighted by F. Only this
    penalty is stored, so that memory and time do not grow with the number of tasks. `online` has
    one penalty around the latest weights, whose F is decay x the old one + the new one (Schwarz et
    al. 2018).

    F is computed with BatchNorm in evaluation mode. The head of a task takes part for examples of
    that task only, and masked classes are never sampled. A new head or class is not penalized until
    the end of its task.

    With `implementation="avalanche-0.2.1"` the strategy computes what that version of Avalanche
    does: F is the mean over batches of the squared gradient of the batch's mean loss, with the
    labels of the data and batches of the training batch size in the order of the dataset, and the
    penalty is not halved. F is smaller by about the batch size: to penalize equally, its lambda is
    about half a batch size times that of EWC.

    Args:
        model: the network to train.
        optimizer: the optimizer of the model's parameters.
        examples: the training examples of all tasks.
        seed: the seed of the sampled labels.
        strength: lambda, the weight of the penalty; 0 is naive.
        mode: `separate` or `online`.
        decay: gamma, the factor of the old importances; for `online` only.
        labels: `sampled` from the model's predictions (the Fisher matrix), or those of the `data`
            (the empirical Fisher matrix), which Avalanche always uses.
        implementation: `perdure`, as in the paper, or `avalanche-0.2.1`.
    """

    capturable = True

    requires_boundaries: ClassVar[bool] = True
    penalty_weight: ClassVar[str | None] = "strength"

    def __init__(
        self,
        model: Network,
        optimizer: Optimizer,
        examples: Examples,
        *,
        seed: int = 0,
        strength: float = 1000.0,
        mode: Literal["separate", "online"] = "separate",
        decay: float = 1.0,
        labels: Literal["sampled", "data"] = "sampled",
        implementation: Literal["perdure", "avalanche-0.2.1"] = "perdure",
    ) -> None:
        super().__init__(model, optimizer, examples, seed=seed)
        check_ranges("ewc", {"strength": strength, "decay": decay})
        if decay != 1 and mode == "separate":
            raise InputError(f"decay is {decay:g}, which only mode=online uses; leave it out")
        if mode not in MODES:
            raise InputError(f"mode is {mode!r}, expected {' or '.join(MODES)}")
        if labels not in LABELS:
            raise InputError(f"labels is {labels!r}, expected {' or '.join(LABELS)}")
        self.strength, self.mode, self.decay, self.labels = strength, mode, decay, labels
        self._avalanche = follows_avalanche(implementation)
        self.batch_size = 1  # the largest so far
        self.importance: list[Tensor] = []
        self.anchor: list[Tensor] = []
        self._weights = trainable_weights(model)
        self._buffers = empty_buffers(self._weights)

    @override
    def select_rows(self, new: Rows) -> tuple[Rows, ...]:
        self.batch_size = max(self.batch_size, len(new))
        return (new,)

    @override
    def step(self, new: Batch, *others: Batch, on_loss_terms: LossCallback | None = None) -> Tensor:
        loss = cross_entropy(self.model(new.x, new.task), new.y)
        if on_loss_terms is not None:
            penalty = penalty_gradient(self._weights, self.importance, self.anchor)
            on_loss_terms(loss, [2 * part for part in penalty] if self._avalanche else penalty)
        self.optimizer.zero_grad()
        loss.backward()
        if self.importance and self.strength:
            strength = 2 * self.strength if self._avalanche else self.strength
            add_penalty_gradient(
                self._weights, self.importance, self.anchor, strength, self._buffers
            )
        self.optimizer.step()
        return loss.detach()

    @override
    def end_task(self, task: int, rows: Rows) -> None:
        fisher = self._estimate_fisher(task, rows)
        now = [weight.detach() for weight in self._weights]
        if not self.importance:
            self.importance, self.anchor = fisher, [weight.clone() for weight in now]
            return
        for importance, new, anchor, weight in zip(
            self.importance, fisher, self.anchor, now, strict=True
        ):
            if self.mode == "online":
                importance.mul_(self.decay).add_(new)
                anchor.copy_(weight)
            else:
                importance.add_(new)
                anchor.lerp_(weight, torch.where(importance > 0, new / importance, 1.0))

    def _estimate_fisher(self, task: int, rows: Rows) -> list[Tensor]:
        """Return the importances of one task."""
        if self._avalanche:
            with preserve_state(self.model):
                batches = iterate_batches(self.examples, np.sort(rows), self.batch_size)
                return estimate_batch_importance(self.model, batches, _losses, power=2)
        label_rng = None
        if self.labels == "sampled":
            label_rng = random_stream("fisher_labels", self.seed, task)
        return fisher_diagonal(self.model, self.examples, rows, label_rng)

    @override
    def regularizer_state(self) -> Sequence[Tensor]:
        return [*self.importance, *self.anchor]


def fisher_diagonal(
    model: Network, examples: Examples, rows: Rows, label_rng: np.random.Generator | None
) -> list[Tensor]:
    """Return the mean over `rows` of the squared gradient of the log-likelihood, per weight.

    `label_rng` samples the labels from the model's predictions; None uses the true labels.
    """

    def batches() -> Iterator[Batch]:
        for batch in iterate_batches(examples, rows):
            if label_rng is None:
                yield batch
                continue
            with torch.no_grad():
                scores = model(batch.x, batch.task)
                cumulative = scores.to(widest_float(scores.device)).softmax(1).cumsum(1)
            uniform = torch.tensor(label_rng.random((len(batch.y), 1))).to(cumulative)
            label = torch.searchsorted(
                cumulative, uniform * cumulative[:, -1:], right=True
            ).squeeze(1)
            yield batch._replace(y=label)

    return estimate_importance(model, batches(), _losses, power=2)


def _losses(scores: Tensor, y: Tensor) -> Tensor:
    return cross_entropy(scores, y, reduction="none")
