"""Guessing among the classes seen so far: the reference of rescaled accuracy (Michel et al.)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import override

from ._base import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..data.examples import Batch, Examples
    from ..models import Network
    from ._base import LossCallback, Rows

__all__ = ["Guesser", "Random"]

PRIME = 2**31 - 1


class Guesser(nn.Module):
    """Names for each image one of the classes seen, all equally often, and learns nothing.

    A guess is a hash of the image and of the number of steps, not a draw: testing it changes no
    generator, whole numbers make it the same on every device, and a run can be repeated.

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
        rng = np.random.default_rng([seed, 5])
        self.register_buffer("mix", torch.tensor(rng.integers(1, PRIME, pixels)))
        self.register_buffer("turn", torch.tensor(rng.integers(1, PRIME, (2, outputs))))
        self.register_buffer("seen", torch.zeros(outputs, dtype=torch.bool))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor, _task: int | Tensor | None = None) -> Tensor:
        """Return a number from 0 to 1 for each class seen, -1 for the others."""
        pixels = (x.flatten(1) * 64).long()
        image = (pixels * self.mix).sum(1, keepdim=True) % PRIME
        mixed = (image * self.turn[0] + (self.steps + 1) * self.turn[1]) % PRIME
        mixed = mixed * mixed % PRIME  # without it two classes differ by the same at every image
        return torch.where(self.seen, mixed.double() / PRIME, -1.0)

    def open(self, task: int, classes: Iterable[int]) -> None:
        """Do nothing: what counts is which classes were seen, not which may come."""

    def see(self, classes: Iterable[int]) -> None:
        """Guess these classes as well from now on."""
        self.seen[list(classes)] = True


class Random(Strategy):
    """Guesses; the network and the optimizer stay as they are."""

    def __init__(
        self,
        model: Network,
        optimizer: torch.optim.Optimizer,
        examples: Examples,
        *,
        seed: int = 0,
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
