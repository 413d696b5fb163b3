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
    from collections.abc import Iterable

    from ..engine.scoring import Rows, Scorer
    from ..eval_set import EvalSet

__all__ = ["evaluation_flops", "training_pass_flops"]

EXAMPLES = 2  # enough to count the operations of one


def evaluation_flops(
    model: object, tasks: Iterable[EvalSet], scorer: Scorer
) -> tuple[dict[str, float], list[Exception]]:
    """Return the operations of evaluating one example by task, and errors where they are unknown.

    Tasks that are evaluated together are counted together.
    """
    known, errors = dict[str, float](), list[Exception]()
    with preserve_state(model):
        few = [(task.name, *_few_examples(task, scorer)) for task in tasks]
        for rows in scorer.group(few, model_device(model)):
            try:
                with FlopCounter() as flops:
                    if scorer.metric is None:
                        scorer.values(model, rows)
                    else:
                        scorer.outputs(model, rows)
                known |= dict.fromkeys(
                    [span.task for span in rows.spans], _per_example(flops, rows)
                )
            except Exception as error:  # a score that needs more examples, say
                errors.append(error)
    return known, errors


def training_pass_flops(model: object, task: EvalSet, scorer: Scorer) -> float:
    """Return the operations of a forward and a backward pass of one example of a task.

    Gradients are returned, not accumulated: those of the model stay as they are.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"the model is {type(model).__name__}, expected a torch.nn.Module")
    trainable = [p for p in model.parameters() if p.requires_grad]
    with preserve_state(model):
        examples = (task.name, *_few_examples(task, scorer))
        (rows,) = scorer.group([examples], model_device(model))
        for parameter in trainable:
            parameter.requires_grad_()
        with torch.enable_grad(), FlopCounter() as flops:
            output = first_tensor(scorer.call_forward(model, rows, rows.x, rows.y))
            torch.autograd.grad(output.sum(), trainable, allow_unused=True)
    return _per_example(flops, rows)


def _few_examples(task: EvalSet, scorer: Scorer) -> tuple[object, object]:
    part = task.fixed_rows(scorer.part_size(task))[0]
    return map_tree(lambda a: a[:EXAMPLES] if isinstance(a, torch.Tensor) else a, part)


def _per_example(flops: FlopCounter, rows: Rows) -> float:
    if flops.problem:
        raise ValueError(flops.problem)
    return float(flops.total) / len(rows)
