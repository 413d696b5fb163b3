"""How much an objective depends on each weight: powers of the gradients of single examples."""

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

    from ..data.examples import Batch, Examples
    from ..models import Network
    from ._base import Rows

__all__ = ["importances", "parts", "weights_of"]

Objective: TypeAlias = "Callable[[Tensor, Tensor], Tensor]"

HELD = {"cpu": 2**26, "cuda": 2**30}  # numbers that gradients of examples may take at a time


def weights_of(model: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that are trained.

    Example:
        >>> [tuple(weight.shape) for weight in weights_of(nn.Linear(3, 2))]
        [(2, 3), (2,)]
    """
    return [weight for weight in model.parameters() if weight.requires_grad]


def parts(examples: Examples, rows: Rows, size: int = 500) -> Iterator[tuple[Rows, Batch]]:
    """Yield rows and their examples in portions; a task's number where all are of one.

    Args:
        examples: what the rows stand for.
        rows: all of them.
        size: of a portion.
    """
    tasks = set(examples.tasks[rows].tolist())
    only = tasks.pop() if len(tasks) == 1 else None
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        yield part, examples.take(part, only)


def importances(
    model: Network, batches: Iterable[Batch], objective: Objective, *, power: int
) -> list[Tensor]:
    """Return for each weight the mean over examples of |gradient of the example's objective|^power.

    Examples go through in batches, the model as in a test: BatchNorm with its running statistics
    (with those of a batch an example has no gradient of its own), no dropout. Nothing is written
    to the model or its gradients.

    Where every weight is in a dense layer, the gradient of an example is an outer product of what
    goes in and what comes back, and the mean of its powers is one matrix product: as fast as a
    step. Otherwise the gradients of some examples are held at a time.

    Args:
        model: the network.
        batches: the examples; y is what the objective needs.
        objective: one number for each example, from scores and y.
        power: 2 for the diagonal of a Fisher matrix, 1 for sensitivities.

    Example:
        >>> from perdure.data.examples import Batch
        >>> from perdure.models import Network
        >>> model = Network(nn.Identity(), nn.Linear(2, 1, bias=False), 1)
        >>> batch = Batch(torch.tensor([[1.0, 2.0], [3.0, 0.0]]), torch.zeros(2))
        >>> importances(model, [batch], lambda scores, y: scores[:, 0], power=2)[0]
        tensor([[5., 2.]])
    """
    weights = weights_of(model)
    dense = all(type(m) is nn.Linear for m in model.modules() if list(m.parameters(recurse=False)))
    total, count = [torch.zeros_like(weight) for weight in weights], 0
    with preserve_state(model), torch.enable_grad():
        for batch in batches:
            found = _of_dense(model, weights, batch, objective, power) if dense else None
            if found is None:
                dense = False  # a layer was used otherwise than by calling it once
                found = _of_any(model, weights, batch, objective, power)
            for sum_, part in zip(total, found, strict=True):
                sum_ += part
            count += len(batch.x)
    return [sum_.div_(max(count, 1)).detach() for sum_ in total]


def _of_dense(
    model: Network,
    weights: Sequence[nn.Parameter],
    batch: Batch,
    objective: Objective,
    power: int,
) -> list[Tensor] | None:
    """Return the sums over a batch for dense layers, or None if they cannot be had so."""
    passed: dict[nn.Linear, tuple[Tensor, Tensor]] = {}  # what went in, and what came back
    plain = True

    def note(layer: nn.Linear, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal plain
        plain &= len(inputs) == 1 and inputs[0].dim() == 2 and len(inputs[0]) == len(batch.x)
        if plain and output.requires_grad:
            went_in = inputs[0].detach()
            output.register_hook(lambda back: passed.__setitem__(layer, (went_in, back)))

    hooks = [m.register_forward_hook(note) for m in model.modules() if type(m) is nn.Linear]
    try:
        value = objective(model(batch.x, batch.task), batch.y).sum()
    finally:
        for hook in hooks:
            hook.remove()
    uses = _uses(value)
    if not plain or any(uses[id(weight)] > 1 for weight in weights):
        return None
    torch.autograd.grad(value, weights, allow_unused=True)
    found: dict[int, Tensor] = {}
    for layer, (went_in, back) in passed.items():
        size = back.abs().pow_(power)
        found[id(layer.weight)] = size.T @ went_in.abs().pow_(power)
        found[id(layer.bias)] = size.sum(0)
    if any(uses[id(weight)] and id(weight) not in found for weight in weights):
        return None  # used, and not by its layer
    return [found.get(id(weight), torch.zeros_like(weight)) for weight in weights]


def _uses(value: Tensor) -> Counter[int]:
    """Return how many operations that led to `value` took each weight, by the weight's id."""
    found, seen, waiting = Counter[int](), set[Node](), [value.grad_fn]
    while waiting:
        node = waiting.pop()
        for before, _ in node.next_functions if node is not None else ():
            weight = getattr(before, "variable", None)
            if weight is not None:
                found[id(weight)] += 1
            elif before is not None and before not in seen:
                seen.add(before)
                waiting.append(before)
    return found


def _of_any(
    model: Network,
    weights: Sequence[nn.Parameter],
    batch: Batch,
    objective: Objective,
    power: int,
) -> list[Tensor]:
    """Return the sums over a batch for any network, from the gradients of its examples."""
    trained = {id(weight) for weight in weights}
    named = {k: p.detach() for k, p in model.named_parameters() if id(p) in trained}
    each_task = isinstance(batch.task, Tensor)

    def one(named: dict[str, Tensor], x: Tensor, y: Tensor, task: Tensor | int | None) -> Tensor:
        of = task[None] if isinstance(task, Tensor) else task
        return objective(functional_call(model, named, (x[None], of)), y[None])[0]

    gradients = vmap(grad(one), in_dims=(None, 0, 0, 0 if each_task else None))
    held = HELD.get(batch.x.device.type, HELD["cpu"])
    size = max(1, min(256, held // max(1, sum(weight.numel() for weight in weights))))
    total = [torch.zeros_like(weight) for weight in weights]
    for start in range(0, len(batch.x), size):
        part = slice(start, start + size)
        of = batch.task[part] if isinstance(batch.task, Tensor) else batch.task
        try:
            found = gradients(named, batch.x[part], batch.y[part], of)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:  # what a forward decides by its data cannot be done for many at once
            return _one_by_one(model, weights, batch, objective, power)
        for sum_, each in zip(total, found.values(), strict=True):
            sum_ += each.abs().pow(power).sum(0)
    return total


def _one_by_one(
    model: Network,
    weights: Sequence[nn.Parameter],
    batch: Batch,
    objective: Objective,
    power: int,
) -> list[Tensor]:
    """Return the sums over a batch, an example at a time: slow, and right for every network."""
    total = [torch.zeros_like(weight) for weight in weights]
    for row in range(len(batch.x)):
        one = slice(row, row + 1)
        of = batch.task[one] if isinstance(batch.task, Tensor) else batch.task
        value = objective(model(batch.x[one], of), batch.y[one]).sum()
        found = torch.autograd.grad(value, weights, allow_unused=True, materialize_grads=True)
        for sum_, each in zip(total, found, strict=True):
            sum_ += each.abs().pow(power)
    return total
