"""Baselines and bounds that belong to no paper: naive, joint, single, cumulative, random."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from typing_extensions import override

from .._devices import widest_float
from .._random_streams import random_stream
from ._base import NO_ROWS, Batch, Examples, LossCallback, Network, Rows, Strategy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch.optim import Optimizer

__all__ = ["Cumulative", "Guesser", "Joint", "Naive", "Random", "Single"]

SEEN_CLASSES = ("unseen", "opened")  # buffers of `Network` that are not learned
PRIME = 2**31 - 1


def copy_initial_state(model: nn.Module) -> dict[str, Tensor]:
    """Return a copy of a model's weights and buffers, except for which classes it has seen."""
    return {
        name: value.detach().clone()
        for name, value in model.state_dict().items()
        if name not in SEEN_CLASSES
    }


def reset_model(model: nn.Module, optimizer: Optimizer, state: dict[str, Tensor]) -> None:
    """Load `state` into a model in place and clear the state of its optimizer."""
    model.load_state_dict({**model.state_dict(), **state})
    optimizer.state.clear()


class Naive(Strategy):
    """Fine-tuning: gradient descent on the current batch and nothing against forgetting.

    The lower bound. Plasticity is the loss of the batch; there is no stability term (De Lange et
    al. 2023, section 5).
    """

    capturable = True

    @override
    def step(self, new: Batch, *others: Batch, on_loss_terms: LossCallback | None = None) -> Tensor:
        loss = cross_entropy(self.model(new.x, new.task), new.y)
        if on_loss_terms is not None:
            on_loss_terms(loss, [])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


class Joint(Naive):
    """Trains on the examples of all tasks throughout: the upper bound.

    The stream keeps its length: during each of the T tasks it trains as many epochs on all
    examples, T times as many steps in total. The last row of its accuracy matrix is the upper bound
    of each task.
    """

    capturable = True

    trains_on_all_tasks: ClassVar[bool] = True
    requires_boundaries: ClassVar[bool] = True

    @override
    def begin_task(self, task: int, rows: Rows) -> Rows:
        return self.memory_rows()

    @override
    def memory_rows(self) -> Rows:
        return np.flatnonzero(self.examples.labels >= 0)


class Single(Naive):
    """Trains on each task alone, always from the same initial weights.

    The diagonal R[k, k] of its accuracy matrix is the single-task accuracy that forward transfer
    and intransigence compare with.
    """

    capturable = True

    requires_boundaries: ClassVar[bool] = True

    def __init__(
        self, model: Network, optimizer: Optimizer, examples: Examples, *, seed: int = 0
    ) -> None:
        super().__init__(model, optimizer, examples, seed=seed)
        self.initial = copy_initial_state(model)

    @override
    def begin_task(self, task: int, rows: Rows) -> Rows:
        reset_model(self.model, self.optimizer, self.initial)
        return rows

    @override
    def auxiliary_tensors(self) -> Sequence[Tensor]:
        return list(self.initial.values())


class Cumulative(Naive):
    """Trains on the examples of the current task together with those of all earlier tasks.

    Args:
        model: the network to train.
        optimizer: the optimizer of the model's parameters.
        examples: the training examples of all tasks.
        seed: not used.
        restart: start every task from the initial weights, as Diaz-Rodriguez et al. (2018) do;
            False continues from the current weights, as the code of M2I does.
    """

    capturable = True

    requires_boundaries: ClassVar[bool] = True

    def __init__(
        self,
        model: Network,
        optimizer: Optimizer,
        examples: Examples,
        *,
        seed: int = 0,
        restart: bool = True,
    ) -> None:
        super().__init__(model, optimizer, examples, seed=seed)
        self.restart = restart
        self.initial = copy_initial_state(model) if restart else {}
        self.seen = NO_ROWS

    @override
    def begin_task(self, task: int, rows: Rows) -> Rows:
        if self.restart:
            reset_model(self.model, self.optimizer, self.initial)
        return np.concatenate([self.seen, rows])

    @override
    def end_task(self, task: int, rows: Rows) -> None:
        self.seen = np.concatenate([self.seen, rows])

    @override
    def memory_rows(self) -> Rows:
        return self.seen

    @override
    def auxiliary_tensors(self) -> Sequence[Tensor]:
        return list(self.initial.values())


class Guesser(nn.Module):
    """A model that predicts one of the seen classes at random, each equally often.

    A prediction is a hash of the image and of the number of steps rather than a draw: evaluating
    it changes no generator, and integer arithmetic gives the same result on every device.

    Example:
        >>> guesser = Guesser(64, outputs=10, seed=0)
        >>> guesser.see(range(4))
        >>> sorted(set(guesser(torch.rand(200, 1, 8, 8)).argmax(1).tolist()))
        [0, 1, 2, 3]
    """

    mix: Tensor
    turn: Tensor
    seen: Tensor
    steps: Tensor

    def __init__(self, pixels: int, outputs: int, seed: int) -> None:
        super().__init__()
        rng = random_stream("guesses", seed)
        self.register_buffer("mix", torch.tensor(rng.integers(1, PRIME, pixels)))
        self.register_buffer("turn", torch.tensor(rng.integers(1, PRIME, (2, outputs))))
        self.register_buffer("seen", torch.zeros(outputs, dtype=torch.bool))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor, _task: int | Tensor | None = None) -> Tensor:
        """Return a number from 0 to 1 for each seen class and -1 for the others."""
        pixels = (x.flatten(1) * 64).long()
        image = (pixels * self.mix).sum(1, keepdim=True) % PRIME
        mixed = (image * self.turn[0] + (self.steps + 1) * self.turn[1]) % PRIME
        mixed = mixed * mixed % PRIME  # else the difference of two classes is the same everywhere
        return torch.where(self.seen, mixed.to(widest_float(x.device)) / PRIME, -1.0)

    def open(self, task: int, classes: Iterable[int]) -> None:
        """Do nothing: only classes of examples that were seen are predicted."""

    def see(self, classes: Iterable[int]) -> None:
        """Predict these classes as well from now on."""
        self.seen[list(classes)] = True


class Random(Strategy):
    """Guesses among the seen classes, the reference of rescaled accuracy (Michel et al. 2023).

    The given network and optimizer stay unchanged.
    """

    def __init__(
        self, model: Network, optimizer: Optimizer, examples: Examples, *, seed: int = 0
    ) -> None:
        guesser = Guesser(int(np.prod(examples.shape)), model.outputs, seed).to(examples.device)
        super().__init__(cast("Network", guesser), optimizer, examples, seed=seed)
        self.guesser = guesser

    @override
    def select_rows(self, new: Rows) -> tuple[Rows, ...]:
        self.guesser.see(np.unique(self.examples.labels[new]).tolist())
        return (new,)

    @override
    def step(self, new: Batch, *others: Batch, on_loss_terms: LossCallback | None = None) -> Tensor:
        self.guesser.steps += 1
        if on_loss_terms is not None:
            on_loss_terms([], [])
        return torch.zeros(())
