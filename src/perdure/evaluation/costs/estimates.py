"""Operations per example, counted on a few examples outside of training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from ..state.preserve import preserve_state
from ..state.tensors import model_device
from ..state.trees import first_tensor, map_tree
from .flops import FlopCounter

if TYPE_CHECKING:
    from ..engine.scoring import Rows, Scorer
    from ..eval_set import EvalSet

__all__ = ["evaluation_flops", "training_pass_flops"]

EXAMPLES = 2  # enough to count the operations of one


def evaluation_flops(model: object, task: EvalSet, scorer: Scorer) -> float:
    """Return the operations of evaluating one example of a task."""
    with preserve_state(model):
        rows = _few_rows(model, task, scorer)
        with FlopCounter() as flops:
            scorer.values(model, rows) if scorer.metric is None else scorer.outputs(model, rows)
    return _per_example(flops, rows)


def training_pass_flops(model: object, task: EvalSet, scorer: Scorer) -> float:
    """Return the operations of a forward and a backward pass of one example of a task.

    Gradients are returned, not accumulated: those of the model stay as they are.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"the model is {type(model).__name__}, expected a torch.nn.Module")
    trainable = [p for p in model.parameters() if p.requires_grad]
    with preserve_state(model):
        rows = _few_rows(model, task, scorer)
        for parameter in trainable:
            parameter.requires_grad_()
        with torch.enable_grad(), FlopCounter() as flops:
            output = first_tensor(scorer.call_forward(model, rows, rows.x, rows.y))
            torch.autograd.grad(output.sum(), trainable, allow_unused=True)
    return _per_example(flops, rows)


def _few_rows(model: object, task: EvalSet, scorer: Scorer) -> Rows:
    part = task.fixed_rows(scorer.part_size(task))[0]
    few = map_tree(lambda a: a[:EXAMPLES] if isinstance(a, torch.Tensor) else a, part)
    (rows,) = scorer.group([(task.name, *few)], model_device(model))
    return rows


def _per_example(flops: FlopCounter, rows: Rows) -> float:
    if flops.problem:
        raise ValueError(flops.problem)
    return float(flops.total) / len(rows)
