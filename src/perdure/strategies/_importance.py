"""The importance of weights, and quadratic penalties on changes of the weights by it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node
from torch.func import functional_call, grad, vmap

from ..evaluation.state.preserve import preserve_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ._base import Batch, Examples, Network, Rows

__all__ = [
    "add_penalty_gradient",
    "empty_buffers",
    "estimate_batch_importance",
    "estimate_importance",
    "iterate_batches",
    "penalty_gradient",
    "trainable_weights",
]

Objective: TypeAlias = "Callable[[Tensor, Tensor], Tensor]"

MAX_GRADIENT_ELEMENTS = {"cpu": 2**26, "cuda": 2**30}  # of per-example gradients held at a time


def trainable_weights(model: nn.Module) -> list[nn.Parameter]:
    """Return the parameters of a model that require gradients.

    Example:
        >>> [tuple(weight.shape) for weight in trainable_weights(nn.Linear(3, 2))]
        [(2, 3), (2,)]
    """
    return [weight for weight in model.parameters() if weight.requires_grad]


def iterate_batches(examples: Examples, rows: Rows, size: int = 500) -> Iterator[Batch]:
    """Yield the examples of `rows` in order, in batches of `size`.

    A single example left over belongs to the last batch, as in training: alone, it has no batch
    statistics.
    """
    tasks = set(examples.tasks[rows].tolist())
    task = tasks.pop() if len(tasks) == 1 else None  # then only its head has to be computed
    starts = range(0, len(rows) - (size < len(rows)), size)
    for start in starts:
        stop = len(rows) if start == starts[-1] else start + size
        yield examples.take(rows[start:stop], task)


def estimate_importance(
    model: Network, batches: Iterable[Batch], objective: Objective, *, power: int
) -> list[Tensor]:
    """Return the mean over examples of |gradient of the example's objective|^power, per weight.

    The model is in evaluation mode, without dropout and with BatchNorm's running statistics: with
    the statistics of a batch, a single example has no gradient of its own. The model and its
    gradients are left unchanged.

    In a dense layer, the gradient of an example is the outer product of the layer's input and the
    gradient of its output, so the mean of its powers is one matrix product. If all layers are dense
    this is as fast as a training step. Otherwise per-example gradients are computed.

    Args:
        model: the network.
        batches: the examples; y is passed to the objective.
        objective: maps scores and y to one number per example.
        power: 2 for the diagonal of a Fisher matrix, 1 for sensitivities.

    Example:
        >>> from perdure.data.examples import Batch
        >>> from perdure.models import Network
        >>> model = Network(nn.Identity(), nn.Linear(2, 1, bias=False), 1)
        >>> batch = Batch(torch.tensor([[1.0, 2.0], [3.0, 0.0]]), torch.zeros(2))
        >>> estimate_importance(model, [batch], lambda scores, y: scores[:, 0], power=2)[0]
        tensor([[5., 2.]])
    """
    weights = trainable_weights(model)
    dense = all(type(m) is nn.Linear for m in model.modules() if list(m.parameters(recurse=False)))
    total, count = [torch.zeros_like(weight) for weight in weights], 0
    with preserve_state(model), torch.enable_grad():
        for batch in batches:
            sums = _sum_over_dense(model, weights, batch, objective, power) if dense else None
            if sums is None:
                dense = False  # a layer was used in another way than by calling it once
                sums = _sum_over_any(model, weights, batch, objective, power)
            for accumulated, part in zip(total, sums, strict=True):
                accumulated += part
            count += len(batch.x)
    return [accumulated.div_(max(count, 1)).detach() for accumulated in total]


def estimate_batch_importance(
    model: Network, batches: Iterable[Batch], objective: Objective, *, power: int
) -> list[Tensor]:
    """Return the mean over batches of |gradient of the batch's mean objective|^power, per weight.

    This is what Avalanche 0.2.1 computes in place of `estimate_importance`: within a batch, the
    gradients of examples cancel. The model is in the mode in which it is passed; in training mode
    the running statistics of BatchNorm change. Gradients are left unchanged.

    Example:
        >>> from perdure.data.examples import Batch
        >>> from perdure.models import Network
        >>> model = Network(nn.Identity(), nn.Linear(2, 1, bias=False), 1)
        >>> batch = Batch(torch.tensor([[1.0, 2.0], [3.0, 0.0]]), torch.zeros(2))
        >>> estimate_batch_importance(model, [batch], lambda scores, y: scores[:, 0], power=2)[0]
        tensor([[4., 1.]])
    """
    weights = trainable_weights(model)
    with torch.enable_grad():
        total, count = _sum_over_batches(model, weights, batches, objective, power)
    return [accumulated.div_(max(count, 1)).detach() for accumulated in total]


def _sum_over_batches(
    model: Network, weights: Sequence[nn.Parameter], batches: Iterable[Batch], objective: Objective,
    power: int,
) -> tuple[list[Tensor], int]:  # fmt: skip
    """Return the sums of the powers of the gradients of batches, and the number of batches."""
    total, count = [torch.zeros_like(weight) for weight in weights], 0
    for batch in batches:
        value = objective(model(batch.x, batch.task), batch.y).mean()
        gradients = torch.autograd.grad(value, weights, allow_unused=True)
        for accumulated, gradient in zip(total, gradients, strict=True):
            if gradient is not None:  # a head of another task has none
                accumulated += gradient.abs().pow_(power)
        count += 1
    return total, count


def _sum_over_dense(
    model: Network, weights: Sequence[nn.Parameter], batch: Batch, objective: Objective, power: int
) -> list[Tensor] | None:
    """Return the sums over a batch for dense layers, or None if the model needs another way."""
    recorded: dict[nn.Linear, tuple[Tensor, Tensor]] = {}  # input and gradient of the output
    is_plain = True

    def record(layer: nn.Linear, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal is_plain
        is_plain &= len(inputs) == 1 and inputs[0].dim() == 2 and len(inputs[0]) == len(batch.x)
        if is_plain and output.requires_grad:
            x = inputs[0].detach()
            output.register_hook(lambda gradient: recorded.__setitem__(layer, (x, gradient)))

    hooks = [m.register_forward_hook(record) for m in model.modules() if type(m) is nn.Linear]
    try:
        value = objective(model(batch.x, batch.task), batch.y).sum()
    finally:
        for hook in hooks:
            hook.remove()
    uses = _count_uses(value)
    if not is_plain or any(uses[id(weight)] > 1 for weight in weights):
        return None
    torch.autograd.grad(value, weights, allow_unused=True)
    sums: dict[int, Tensor] = {}
    for layer, (x, gradient) in recorded.items():
        powers = gradient.abs().pow_(power)
        sums[id(layer.weight)] = powers.T @ x.abs().pow_(power)
        sums[id(layer.bias)] = powers.sum(0)
    if any(uses[id(weight)] and id(weight) not in sums for weight in weights):
        return None  # used, but not by its layer
    return [sums.get(id(weight), torch.zeros_like(weight)) for weight in weights]


def _count_uses(value: Tensor) -> Counter[int]:
    """Return how many operations that led to `value` used each weight, by the weight's id."""
    uses, seen, pending = Counter[int](), set[Node](), [value.grad_fn]
    while pending:
        node = pending.pop()
        for parent, _ in node.next_functions if node is not None else ():
            weight = getattr(parent, "variable", None)
            if weight is not None:
                uses[id(weight)] += 1
            elif parent is not None and parent not in seen:
                seen.add(parent)
                pending.append(parent)
    return uses


def _sum_over_any(
    model: Network, weights: Sequence[nn.Parameter], batch: Batch, objective: Objective, power: int
) -> list[Tensor]:
    """Return the sums over a batch for any network, from per-example gradients."""
    trained = {id(weight) for weight in weights}
    named = {k: p.detach() for k, p in model.named_parameters() if id(p) in trained}

    def one(named: dict[str, Tensor], x: Tensor, y: Tensor, task: Tensor | int | None) -> Tensor:
        tasks = task[None] if isinstance(task, Tensor) else task
        return objective(functional_call(model, named, (x[None], tasks)), y[None])[0]

    gradients = vmap(grad(one), in_dims=(None, 0, 0, 0 if isinstance(batch.task, Tensor) else None))
    limit = MAX_GRADIENT_ELEMENTS.get(batch.x.device.type, MAX_GRADIENT_ELEMENTS["cpu"])
    size = max(1, min(256, limit // max(1, sum(weight.numel() for weight in weights))))
    total = [torch.zeros_like(weight) for weight in weights]
    for start in range(0, len(batch.x), size):
        part = _take_part(batch, slice(start, start + size))
        try:
            per_example = gradients(named, part.x, part.y, part.task)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:  # a forward pass that branches on its data cannot be vectorized
            singles = (_take_part(batch, slice(k, k + 1)) for k in range(len(batch.x)))
            return _sum_over_batches(model, weights, singles, objective, power)[0]
        for accumulated, gradient in zip(total, per_example.values(), strict=True):
            accumulated += gradient.abs().pow(power).sum(0)
    return total


def _take_part(batch: Batch, part: slice) -> Batch:
    tasks = batch.task[part] if isinstance(batch.task, Tensor) else batch.task
    return batch._replace(x=batch.x[part], y=batch.y[part], task=tasks)


def empty_buffers(weights: Sequence[Tensor]) -> list[Tensor]:
    """Return a buffer per weight for intermediate results; allocating them per step is slower.

    Example:
        >>> empty_buffers([torch.ones(2, requires_grad=True)])
        [tensor([0., 0.])]
    """
    return [torch.zeros_like(weight.detach()) for weight in weights]


@torch.no_grad()
def add_penalty_gradient(
    weights: Sequence[Tensor],
    importance: Sequence[Tensor],
    anchor: Sequence[Tensor],
    strength: float,
    buffers: Sequence[Tensor],
) -> None:
    """Add strength x importance x (weight - anchor) to the gradients of the weights.

    A weight without a gradient, such as the head of an earlier task, took no part in the step and
    is skipped. The gradient is written out because automatic differentiation would pass over the
    weights three times as often.

    Example:
        >>> weight = torch.tensor([3.0])
        >>> weight.grad = torch.tensor([1.0])
        >>> two, one = torch.tensor([2.0]), torch.tensor([1.0])
        >>> add_penalty_gradient([weight], [two], [one], 10, empty_buffers([weight]))
        >>> weight.grad
        tensor([41.])
    """
    for weight, factor, target, drift in zip(weights, importance, anchor, buffers, strict=True):
        if weight.grad is not None:
            torch.sub(weight, target, out=drift)
            weight.grad.addcmul_(factor, drift, value=strength)


@torch.no_grad()
def penalty_gradient(
    weights: Sequence[Tensor], importance: Sequence[Tensor], anchor: Sequence[Tensor]
) -> list[Tensor]:
    """Return importance x (weight - anchor) as new tensors; empty before the first task ends.

    Example:
        >>> penalty_gradient([torch.tensor([3.0])], [torch.tensor([2.0])], [torch.tensor([1.0])])
        [tensor([4.])]
    """
    triples = zip(weights, importance, anchor, strict=False)
    return [factor * (weight - target) for weight, factor, target in triples]
