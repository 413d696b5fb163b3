"""Elastic weight consolidation (Kirkpatrick et al. 2017), also online (Schwarz et al. 2018)."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from typing_extensions import override

from ..record import InputError
from ._base import Strategy
from ._importance import importances, parts, weights_of
from ._penalty import add_penalty_gradient, empty_buffers, penalty_gradient

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..data.examples import Batch, Examples
    from ..models import Network
    from ._base import LossCallback, Rows

__all__ = ["EWC", "fisher_diagonal"]

MODES, LABELS = ("separate", "online"), ("drawn", "given")


class EWC(Strategy):
    """Pulls each weight towards its old values, as hard as the old tasks depended on it.

    The loss is that of the batch + strength / 2 x sum of F (weight - anchor)^2, F the diagonal of
    the Fisher matrix after a task, over all of its examples. Plasticity is the first term,
    stability half the sum, without its strength; its gradient is written out.

    `separate` has a penalty for each task, each with its own anchor. Their sum is, but for a
    constant, one penalty around the mean of the anchors weighted by F: this is what is kept, so
    ten tasks take no more memory or time than two. `online` has one penalty around the last
    weights, whose F is decay x the old one + the new one.

    The Fisher pass has BatchNorm as in a test, with its running statistics. A head takes part for
    the examples of its own task; hidden classes are never drawn. A new head or class is free: its
    F is 0 until its task ends.

    Args:
        model: the network to train.
        optimizer: an optimizer over its parameters.
        examples: what the rows stand for.
        seed: of the labels that are drawn.
        strength: lambda, weight of the penalty; 0 is naive.
        mode: `separate` or `online`.
        decay: of the old importances, gamma; for `online`.
        labels: `drawn` from the model's own predictions (the Fisher matrix), or as `given` in the
            data (the empirical one). Avalanche takes the latter, squares the gradients of whole
            batches instead of single examples, and does not halve: for the same pull its lambda is
            about half a batch size times ours.
    """

    requires_boundaries: ClassVar[bool] = True
    penalty: ClassVar[str | None] = "strength"

    def __init__(
        self,
        model: Network,
        optimizer: torch.optim.Optimizer,
        examples: Examples,
        *,
        seed: int = 0,
        strength: float = 1000.0,
        mode: Literal["separate", "online"] = "separate",
        decay: float = 1.0,
        labels: Literal["drawn", "given"] = "drawn",
    ) -> None:
        super().__init__(model, optimizer, examples, seed=seed)
        if not 0 <= strength < inf:
            raise InputError(f"strength is {strength:g}, expected 0 or more")
        if not 0 <= decay <= 1:
            raise InputError(f"decay is {decay:g}, expected a factor from 0 to 1")
        if decay != 1 and mode == "separate":
            raise InputError(f"decay is {decay:g}, which only mode=online uses; leave it out")
        if mode not in MODES:
            raise InputError(f"mode is {mode!r}, expected {' or '.join(MODES)}")
        if labels not in LABELS:
            raise InputError(f"labels is {labels!r}, expected {' or '.join(LABELS)}")
        self.strength, self.mode, self.decay, self.labels = strength, mode, decay, labels
        self.importance: list[Tensor] = []
        self.anchor: list[Tensor] = []
        self._weights = weights_of(model)
        self._room = empty_buffers(self._weights)

    @override
    def step(self, new: Batch, *others: Batch, on_loss_terms: LossCallback | None = None) -> Tensor:
        loss = cross_entropy(self.model(new.x, new.task), new.y)
        if on_loss_terms is not None:
            pull = penalty_gradient(self._weights, self.importance, self.anchor)
            on_loss_terms(loss, pull)
        self.optimizer.zero_grad()
        loss.backward()
        if self.importance and self.strength:
            strength = self.strength
            add_penalty_gradient(self._weights, self.importance, self.anchor, strength, self._room)
        self.optimizer.step()
        return loss.detach()

    @override
    def end_task(self, task: int, rows: Rows) -> None:
        drawn = np.random.default_rng([self.seed, 7, task]) if self.labels == "drawn" else None
        fisher = fisher_diagonal(self.model, self.examples, rows, drawn)
        now = [weight.detach() for weight in self._weights]
        if not self.importance:
            self.importance, self.anchor = fisher, [weight.clone() for weight in now]
            return
        for old, more, anchor, weight in zip(
            self.importance, fisher, self.anchor, now, strict=True
        ):
            if self.mode == "online":
                old.mul_(self.decay).add_(more)
                anchor.copy_(weight)
            else:
                old.add_(more)
                anchor.lerp_(weight, torch.where(old > 0, more / old, 1.0))

    @override
    def regularizer_state(self) -> Sequence[Tensor]:
        return [*self.importance, *self.anchor]


def fisher_diagonal(
    model: Network, examples: Examples, rows: Rows, drawn: np.random.Generator | None
) -> list[Tensor]:
    """Return for each weight the mean over `rows` of the squared gradient of log-likelihood.

    Args:
        model: the network.
        examples: what the rows stand for.
        rows: of the task.
        drawn: labels come from the model's predictions by this generator; None takes those given.
    """

    def batches() -> Iterator[Batch]:
        for part, batch in parts(examples, rows):
            if drawn is None:
                yield batch
                continue
            with torch.no_grad():
                chances = model(batch.x, batch.task).double().softmax(1).cumsum(1)
            dice = torch.tensor(drawn.random((len(part), 1)), device=chances.device)
            label = torch.searchsorted(chances, dice * chances[:, -1:], right=True).squeeze(1)
            yield batch._replace(y=label)

    return importances(
        model, batches(), lambda scores, y: cross_entropy(scores, y, reduction="none"), power=2
    )
