"""Which of a model's outputs are its class scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["class_scores"]


def class_scores(output: object) -> Tensor:
    """Return the tensor of class scores in what a model returned, or raise."""
    if not isinstance(output, Tensor):
        if hasattr(output, "logits"):
            output = output.logits
        elif isinstance(output, dict) and "logits" in output:
            output = output["logits"]
        elif isinstance(output, tuple | list) and output:
            _check_single_output(output)
            output = output[0]
    if not isinstance(output, Tensor) or output.dim() < 2 or output.shape[1] < 2:
        got = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        got = f"a dict with {', '.join(map(repr, output)):.60}" if isinstance(output, dict) else got
        raise TypeError(
            f"the model returned {got}, expected (rows, classes) for accuracy; pass score=, or "
            "forward= that returns class scores: forward=lambda model, x: model(x)[…]"
        )
    return output


def _check_single_output(output: Sequence[object]) -> None:
    """Raise if several outputs could be the class scores: features, say, before the logits."""
    tensors = [part for part in output if isinstance(part, Tensor) and part.dim() > 1]
    shapes = [str(tuple(part.shape)) for part in tensors if len(part) == len(tensors[0])]
    if len(shapes) > 1:
        raise TypeError(
            f"the model returned {len(output)} outputs of shapes {' and '.join(shapes)}, expected "
            "class scores alone; say which: forward=lambda model, x: model(x)[0] for the first"
        )
