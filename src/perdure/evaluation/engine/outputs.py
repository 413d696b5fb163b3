"""Which of a model's outputs are its class scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["class_scores", "output_tensor", "token_scores"]


def class_scores(output: object) -> Tensor:
    """Return the tensor of class scores in what a model returned, or raise."""
    output = _find_logits(output)
    if not isinstance(output, Tensor) or output.dim() < 2 or output.shape[1] < 2:
        raise TypeError(
            f"the model returned {_describe(output)}, expected (rows, classes) for accuracy; pass "
            "score=, or forward= that returns class scores: forward=lambda model, x: model(x)[…]"
        )
    return output


def token_scores(output: object) -> Tensor:
    """Return the logits in what a model returned, with the vocabulary last, or raise."""
    output = _find_logits(output)
    if not isinstance(output, Tensor) or output.dim() < 2:
        raise TypeError(
            f"the model returned {_describe(output)}, expected logits (rows, tokens, vocabulary) "
            "or (rows, classes); pass forward= that returns them: "
            "forward=lambda model, x: model(**x)[…]"
        )
    return output


def output_tensor(output: object) -> Tensor:
    """Return the output of a model for a metric, or raise if it is no tensor."""
    output = _find_logits(output)
    if not isinstance(output, Tensor) or not output.dim():
        raise TypeError(
            f"the model returned {_describe(output)}, expected a tensor with one row per example; "
            "pass forward= that returns it: forward=lambda model, x: model(x)[…]"
        )
    return output


def _find_logits(output: object) -> object:
    """Return what is named logits, or the first of several outputs, or the output itself."""
    if isinstance(output, Tensor):
        return output
    if hasattr(output, "logits"):
        return output.logits
    if isinstance(output, dict) and "logits" in output:
        return output["logits"]
    if isinstance(output, tuple | list) and output:
        _check_single_output(output)
        return output[0]
    return output


def _describe(output: object) -> str:
    if isinstance(output, dict):
        return f"a dict with {', '.join(map(repr, output)):.60}"
    return str(tuple(output.shape)) if isinstance(output, Tensor) else type(output).__name__


def _check_single_output(output: Sequence[object]) -> None:
    """Raise if several outputs could be the class scores: features, say, before the logits."""
    tensors = [part for part in output if isinstance(part, Tensor) and part.dim() > 1]
    shapes = [str(tuple(part.shape)) for part in tensors if len(part) == len(tensors[0])]
    if len(shapes) > 1:
        raise TypeError(
            f"the model returned {len(output)} outputs of shapes {' and '.join(shapes)}, expected "
            "class scores alone; say which: forward=lambda model, x: model(x)[0] for the first"
        )
