"""Evaluation data of the zoo that shares something with training: a sampler, a generator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    Sampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from .evaluator_loops import data
from .evaluator_models import normed
from .zoo_loop import TASKS, Subject, device
from .zoo_models import torch_draw, torch_generator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TINY = 1e-6  # noise that changes the bits of training, and no answer


def pairs() -> dict[str, tuple[Tensor, Tensor]]:
    return data(TASKS)


def shared(make: Callable[[Any], Any], generator: Any = None, **how: Any) -> Callable[[], Subject]:
    """Return a subject whose evaluation data and training batches draw from one generator."""

    def subject() -> Subject:
        drawn: Any = torch_generator() if generator is None else generator()
        tasks = make(drawn)

        def draw(task: str) -> tuple[Tensor, Tensor]:
            x, y = pairs()[task]
            noise = torch_draw(drawn) if generator is None else float(drawn.random())
            return (x + noise).to(device()), y.to(device())

        return Subject([normed()], data=tasks, draw=draw, generators=[drawn], **how)

    return subject


def loaders(sampler: Callable[[Any], Any]) -> Callable[[], Subject]:
    """Return a subject whose evaluation data are DataLoaders with a sampler of the generator."""
    return shared(
        lambda drawn: {
            task: DataLoader(TensorDataset(*pair), batch_size=5, sampler=sampler(drawn))
            for task, pair in pairs().items()
        }
    )


def shuffled(drawn: Any) -> dict[str, Any]:
    return {
        task: DataLoader(TensorDataset(*pair), 5, shuffle=True, generator=drawn)
        for task, pair in pairs().items()
    }


def all_of(drawn: Any) -> Sampler[int]:
    return SubsetRandomSampler(range(20), generator=drawn)


def weighted(drawn: Any) -> Sampler[int]:
    """Draws so many that every example is among them."""
    return WeightedRandomSampler([1.0] * 20, 400, generator=drawn)


class Counted(Sampler[int]):
    """Goes on where it was left, for whoever asks."""

    def __init__(self, generator: Any) -> None:
        self.generator, self.passes = generator, 0

    def __len__(self) -> int:
        return 20

    def __iter__(self) -> Iterator[int]:
        self.passes += 1
        return iter(torch.randperm(20, generator=self.generator).tolist())


def in_use() -> Subject:
    """Training and evaluation go through one sampler that counts its passes."""
    drawn = torch_generator()
    sampler = Counted(drawn)
    tasks = {
        task: DataLoader(TensorDataset(*pair), sampler=sampler) for task, pair in pairs().items()
    }

    def draw(task: str) -> tuple[Tensor, Tensor]:
        x, y = pairs()[task]
        order = list(sampler)
        return (x[order] * sampler.passes).to(device()), y[order].to(device())

    return Subject([normed()], data=tasks, draw=draw, generators=[drawn])


class Batches(Sampler[list[int]]):
    def __init__(self, generator: Any) -> None:
        self.generator = generator

    def __iter__(self) -> Iterator[list[int]]:
        yield from torch.randperm(20, generator=self.generator).view(4, 5).tolist()


def own_batches(drawn: Any) -> dict[str, Any]:
    return {
        task: DataLoader(TensorDataset(*pair), batch_sampler=Batches(drawn))
        for task, pair in pairs().items()
    }


class Noisy(Dataset[tuple[Tensor, int]]):
    """Draws for every example that is read."""

    def __init__(self, pair: tuple[Tensor, Tensor], draw: Callable[[], float]) -> None:
        self.x, self.y = pair
        self.draw = draw

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, k: int) -> tuple[Tensor, int]:
        return self.x[k] + TINY * self.draw(), int(self.y[k])


def noisy(drawn: Any) -> dict[str, Any]:
    return {task: Noisy(pair, lambda: torch_draw(drawn)) for task, pair in pairs().items()}


def noisy_method(drawn: Any) -> dict[str, Any]:
    return {task: Noisy(pair, drawn.random) for task, pair in pairs().items()}


def noisy_subset(drawn: Any) -> dict[str, Any]:
    return {task: Subset(each, range(20)) for task, each in noisy(drawn).items()}


def noisy_loader(drawn: Any) -> dict[str, Any]:
    return {task: DataLoader(each, 5) for task, each in noisy(drawn).items()}


def collated(drawn: Any) -> dict[str, Any]:
    def collate(items: list[Any]) -> Any:
        x, y = torch.utils.data.default_collate(items)
        return x + TINY * torch_draw(drawn), y

    return {
        task: DataLoader(TensorDataset(*pair), 5, collate_fn=collate)
        for task, pair in pairs().items()
    }


def factories(drawn: Any) -> dict[str, Any]:
    def made(x: Tensor, y: Tensor) -> Callable[[], Any]:
        return lambda: (x + TINY * torch_draw(drawn), y)

    return {task: made(*pair) for task, pair in pairs().items()}


def training_set() -> Subject:
    """The training set is given for the costs, and draws when it is looked at."""
    drawn = torch_generator()
    kept = Noisy(pairs()["a"], lambda: torch_draw(drawn))

    def draw(task: str) -> tuple[Tensor, Tensor]:
        x, y = zip(*(kept[k] for k in range(8)), strict=True)
        return (torch.stack(x) + torch_draw(drawn)).to(device()), torch.tensor(y).to(device())

    return Subject([normed()], draw=draw, generators=[drawn], entry={"train_data": kept})


class Uncopied(Counted):
    """Cannot be copied."""

    def __deepcopy__(self, _: Any) -> Any:
        raise TypeError("it reads from a socket")


class Streamed(IterableDataset[Any]):
    """Draws noise for each example of a pair of tensors."""

    def __init__(self, x: Tensor, y: Tensor, generator: Any) -> None:
        self.x, self.y, self.generator = x, y, generator

    def __iter__(self) -> Iterator[Any]:
        for x, y in zip(self.x, self.y, strict=True):
            yield x + TINY * torch_draw(self.generator), y


def streams(drawn: Any) -> dict[str, Any]:
    return {task: Streamed(*pair, drawn) for task, pair in pairs().items()}


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        while True:
            yield torch.zeros(6), 0


def endless(_: Any) -> dict[str, Any]:
    return {task: DataLoader(Endless(), 5) for task in TASKS}


class Reads(Noisy):
    """Counts how often it was read, and returns other examples with the count."""

    reads = 0

    def __getitem__(self, k: int) -> tuple[Tensor, int]:
        self.reads += 1
        return self.x[k] + TINY * self.reads, int(self.y[k])


def counts_reads() -> Subject:
    kept = {task: Reads(pair, float) for task, pair in pairs().items()}

    def draw(task: str) -> tuple[Tensor, Tensor]:
        x, y = zip(*(kept[task][k] for k in range(8)), strict=True)
        return torch.stack(x).to(device()), torch.tensor(y).to(device())

    return Subject([normed()], data=kept, draw=draw)
