"""Scores of language models and classifiers by name, from logits and labels."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ..._devices import widest_float
from ..._display import count_of
from ...metrics import ScoreScale

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TOKEN_SCALES", "TokenScore", "decoder_inputs"]

TOKEN_SCALES = {
    "nll": ScoreScale(0, inf, lower_is_better=True, name="nll"),
    "perplexity": ScoreScale(1, inf, lower_is_better=True, name="perplexity"),
    "token_accuracy": ScoreScale(name="token_accuracy"),
    "exact_match": ScoreScale(name="exact_match"),
}
CHUNK = 1 << 22  # logits that are normalised at a time; a vocabulary may have 2**18 tokens


class TokenScore:
    """One of the scores in `TOKEN_SCALES`.

    Args:
        name: which one.
        ignore_index: the label of tokens that do not count.
        shift: whether the outputs at a position predict the label of the next one; None for tasks
            whose labels are the inputs themselves.
    """

    def __init__(self, name: str, ignore_index: int, shift: bool | None) -> None:
        self.name, self.ignore_index, self._shift = name, ignore_index, shift
        self.shifted: dict[str, bool] = {}  # by task, as far as it is known

    def check(self, x: object, y: object, outputs: int, task: str) -> str | None:
        """Check the labels of a task and see whether they are shifted; return what to warn of."""
        if not isinstance(y, Tensor) or y.is_floating_point():
            return None  # `values` raises
        counted = y != self.ignore_index
        if counted.any():
            self._check_range(y[counted], outputs, task)
            if self._shift is None and y.dim() == 2 and task not in self.shifted:
                # Labels that are the inputs belong to the position before: to predict them where
                # they are is to copy them.
                inputs = x.get("input_ids") if isinstance(x, Mapping) else x
                self.shifted[task] = (
                    isinstance(inputs, Tensor)
                    and inputs.shape == y.shape
                    and bool((inputs[counted] == y[counted]).all())
                )
        empty = int((~counted.flatten(1).any(1)).sum()) if y.dim() > 1 else 0
        if self.name != "exact_match" or not empty:
            return None
        return (
            f"{count_of(empty, 'example')} of {task!r} have no label to match and count as wrong: "
            f"all are {self.ignore_index}, which is ignored"
        )

    def _check_range(self, counted: Tensor, outputs: int, task: str) -> None:
        """Raise for labels that no output stands for; these would stop a GPU for good."""
        low, high = (int(end) for end in counted.aminmax())
        if low < 0 or high >= outputs:
            raise ValueError(
                f"task {task!r} has label {low if low < 0 else high}, but the model has {outputs} "
                f"outputs, expected labels from 0 to {outputs - 1}; labels to be ignored: "
                f"Score({self.name!r}, ignore_index=…), which is {self.ignore_index}"
            )

    def values(self, logits: Tensor, y: object, task: str) -> Tensor:
        """Return per row whether it matches, or the sum over its tokens and their number."""
        if not isinstance(y, Tensor) or y.is_floating_point() or y.shape != logits.shape[:-1]:
            got = f"{tuple(y.shape)} of {y.dtype}" if isinstance(y, Tensor) else type(y).__name__
            raise TypeError(
                f"labels of task {task!r} are {got} for outputs {tuple(logits.shape)}, expected a "
                f"token or class number for each of {tuple(logits.shape[:-1])}: {self.name} needs "
                "outputs (rows, tokens, vocabulary) or (rows, classes), forward= can return them"
            )
        labels = y.long()
        if logits.dim() == 2:  # one label per row
            logits, labels = logits.unsqueeze(1), labels.unsqueeze(1)
        elif self._shift or self.shifted.get(task):
            logits, labels = logits[:, :-1], labels[:, 1:]
        rows = max(1, CHUNK // max(1, logits[0].numel()))
        pairs = zip(logits.split(rows), labels.split(rows), strict=True)
        return torch.cat([self._chunk_values(*pair) for pair in pairs])

    def _chunk_values(self, logits: Tensor, labels: Tensor) -> Tensor:
        counted, wide = labels != self.ignore_index, widest_float(labels.device)
        if self.name in ("nll", "perplexity"):
            logits = logits if logits.dtype == torch.float64 else logits.float()
            values = cross_entropy(
                logits.flatten(0, -2), labels.flatten(), reduction="none",
                ignore_index=self.ignore_index,
            ).view(labels.shape)  # fmt: skip
        else:
            classes = logits.argmax(-1, keepdim=True)
            # argmax takes NaN for the largest: outputs that are no numbers predict nothing.
            is_number = logits.gather(-1, classes).isnan().logical_not().squeeze(-1)
            values = (classes.squeeze(-1) == labels) & is_number & counted
        if self.name == "exact_match":
            return (values == counted).flatten(1).all(1) & counted.flatten(1).any(1)
        pair = (values.flatten(1).to(wide).sum(1), counted.flatten(1).to(wide).sum(1))
        return torch.stack(pair, dim=1)


def decoder_inputs(model: object, x: object, y: object) -> object:
    """Return the inputs of an encoder-decoder with those of its decoder, made from the labels.

    Hugging Face's models make them themselves where they are passed labels, and say how.
    """
    make: Callable[..., object] | None = getattr(
        model, "prepare_decoder_input_ids_from_labels", None
    )
    if make is None or not isinstance(x, Mapping) or "decoder_input_ids" in x:
        return x
    return {**x, "decoder_input_ids": make(labels=y)}
