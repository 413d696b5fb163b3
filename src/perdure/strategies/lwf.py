"""Learning without forgetting: old outputs on new examples are kept (Li & Hoiem 2017)."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, log_softmax
from typing_extensions import override

from ..evaluation.state.preserve import preserve_state
from ..record import InputError
from ._base import NOTHING, Strategy
from ._importance import parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..data.examples import Batch, Examples
    from ..models import Network
    from ._base import LossCallback, Rows

__all__ = ["LwF"]


class LwF(Strategy):
    """Learns each batch, and goes on to say about it what the model said before the task.

    The loss is that of the batch + alpha x KL(old || new), both softened by the temperature.
    Plasticity is the first term, stability the second without its alpha. As in the paper, old
    outputs are recorded once, before the task's first step (BatchNorm as in a test), for every
    example of the task: they do not change while it is learned, so no old network has to be kept
    or asked again.

    With heads each old head is distilled by itself, and their divergences are added up. With one
    head the distribution is over the classes of earlier tasks: new and hidden ones take no part.
    Gradients are not multiplied by the squared temperature. The paper first trains a new head
    alone; here it learns from the first step on with the rest.

    Args:
        model: the network to train.
        optimizer: an optimizer over its parameters.
        examples: what the rows stand for.
        seed: not used.
        alpha: weight of the old outputs, lambda; 0 is naive.
        temperature: above 1 softens the distributions.
    """

    requires_boundaries: ClassVar[bool] = True
    penalty: ClassVar[str | None] = "alpha"

    def __init__(
        self,
        model: Network,
        optimizer: torch.optim.Optimizer,
        examples: Examples,
        *,
        seed: int = 0,
        alpha: float = 1.0,
        temperature: float = 2.0,
    ) -> None:
        super().__init__(model, optimizer, examples, seed=seed)
        if not 0 <= alpha < inf:
            raise InputError(f"alpha is {alpha:g}, expected 0 or more")
        if not 0 < temperature < inf:
            raise InputError(f"temperature is {temperature:g}, expected more than 0")
        self.alpha, self.temperature = alpha, temperature
        self.tasks: list[int] = []  # learned before
        self.classes = torch.zeros(0, dtype=torch.int64, device=examples.device)  # of those
        self.rows = NOTHING  # of this task, sorted
        self.recorded: list[Tensor] = []  # log-probabilities for them, one tensor a head
        self._at = torch.zeros(0, dtype=torch.int64, device=examples.device)

    @override
    def begin_task(self, task: int, rows: Rows) -> Rows:
        self.recorded = []
        if self.alpha and self.tasks:
            self.rows = np.unique(rows)
            with preserve_state(self.model):
                found = []
                for _, batch in parts(self.examples, self.rows):
                    features = self.model.body(batch.x)
                    scores = self.model.classify(features, batch.task)
                    found.append(self._of_old(features, scores))
            self.recorded = [torch.cat(each) for each in zip(*found, strict=True)]
        return rows

    @override
    def select_rows(self, new: Rows) -> tuple[Rows, ...]:
        if self.recorded:
            if len(self._at) < len(new):
                self._at = self._at.new_empty(len(new))
            at = torch.from_numpy(np.searchsorted(self.rows, new))
            self._at[: len(new)].copy_(at, non_blocking=True)
        return (new,)

    @override
    def step(self, new: Batch, *others: Batch, on_loss_terms: LossCallback | None = None) -> Tensor:
        features = self.model.body(new.x)
        scores = self.model.classify(features, new.task)
        loss = plasticity = cross_entropy(scores, new.y)
        stability: Tensor | None = None
        if self.recorded:
            at = self._at[: len(new.y)]
            stability = torch.stack(
                [
                    kl_div(now, before[at], reduction="batchmean", log_target=True)
                    for now, before in zip(
                        self._of_old(features, scores), self.recorded, strict=True
                    )
                ]
            ).sum()
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
        classes = {*self.classes.tolist(), *self.examples.labels[rows].tolist()}
        self.classes = torch.tensor(sorted(classes), device=self.examples.device)

    @override
    def auxiliary_tensors(self) -> Sequence[Tensor]:
        return self.recorded

    def _of_old(self, features: Tensor, scores: Tensor) -> list[Tensor]:
        """Return the log-probabilities of the classes learned before, one tensor a head."""
        if self.model.opened is None:
            groups = [scores.index_select(1, self.classes)]
        else:
            groups = []
            for task in self.tasks:
                columns = self.model.columns(task)
                of_task = self.model.classify(features, task)
                groups.append(of_task[:, columns.start : columns.stop])
        return [log_softmax(group / self.temperature, 1) for group in groups]
