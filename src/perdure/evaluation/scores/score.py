"""What is measured per example, and how the score of a set is computed from that."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..._suggestions import suggest_names
from ...metrics import ACCURACY, ScoreScale
from ...metrics.score_matrix import MAX_NAME_LENGTH
from ..arguments import check_parameters
from .tokens import TOKEN_SCALES, TokenScore
from .whole_set import WholeSetMetric, is_metric_object

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from ..engine.eval_batches import Values

    ScoreName = Literal["accuracy", "nll", "perplexity", "token_accuracy", "exact_match"]

__all__ = ["Score", "as_score"]


@dataclass(frozen=True)
class Score:
    """A score other than accuracy, with its range, direction and name.

    Args:
        function: `function(model, x, y)` returns one value per example; None for accuracy. If it
            has a parameter named `task`, it is passed the name of the task. Booleans are
            accuracies. Or a name: `"nll"`, `"perplexity"`, `"token_accuracy"`, `"exact_match"`.
        scale: range and direction of the values; unbounded by default.
        lower_is_better: whether the score is a loss.
        name: what tables, figures and pages call the score; by default the function's name.
        ignore_index: the label of tokens that do not count, for a score by name.
        shift: whether outputs predict the label of the next token, for a score by name. None
            shifts if the labels are the input ids, as those of causal language models are.
        metric: in place of a function, a metric of whole sets, which is computed at task ends
            only: `metric(outputs, labels)`, or an object with `update`, `compute` and `reset`.

    Example:
        >>> Score(None).named_scale.label
        'accuracy'
        >>> Score(max, lower_is_better=True).named_scale.label
        'max'
        >>> Score("perplexity").named_scale.lower_is_better
        True
    """

    function: Callable[..., torch.Tensor] | ScoreName | None = None
    scale: ScoreScale | None = None
    lower_is_better: bool = False
    name: str | None = None
    ignore_index: int = -100
    shift: bool | None = None
    metric: object = None

    def __post_init__(self) -> None:
        if self.function == "accuracy":
            object.__setattr__(self, "function", None)
        if isinstance(self.function, str):
            self._check_named(self.function)
        elif self.function is not None and not callable(self.function):
            raise TypeError(
                f"score is {self.function!r:.40}, expected a function of (model, x, y) or one of "
                f"{', '.join(TOKEN_SCALES)}"
            )
        elif self.function is not None:
            check_parameters("score", self.function, "model", "x", "y")
        elif self.metric is not None:
            self._check_metric()
        elif self.lower_is_better:
            raise ValueError("lower_is_better=True needs a score function; accuracy is not a loss")
        if isinstance(self.ignore_index, bool) or not isinstance(self.ignore_index, int):
            raise TypeError(f"ignore_index is {self.ignore_index!r:.40}, expected an integer")
        if not isinstance(self.function, str) and (self.shift, self.ignore_index) != (None, -100):
            raise ValueError(
                f"ignore_index and shift are for {', '.join(TOKEN_SCALES)}; other scores are "
                "passed the labels"
            )
        if self.function is not None and self.metric is not None:
            raise ValueError("Score has a function and a metric, expected one of them")
        if self.lower_is_better and self.scale is not None and not self.scale.lower_is_better:
            raise ValueError(
                f"lower_is_better=True and scale={self.scale} contradict each other; say it in "
                "scale"
            )
        if self.name is not None:
            _check_name(self.name)

    def _check_named(self, name: str) -> None:
        if name not in TOKEN_SCALES:
            known = ["accuracy", *TOKEN_SCALES]
            raise ValueError(
                f"score is {name!r:.40}, {suggest_names(name, known)}expected a function or one of "
                f"{', '.join(known)}"
            )
        if self.scale is not None or self.lower_is_better:
            raise ValueError(f"range and direction of {name!r} are known; leave them out")

    def _check_metric(self) -> None:
        if isinstance(self.metric, type) or not (
            callable(self.metric) or is_metric_object(self.metric)
        ):
            raise TypeError(
                f"metric is {self.metric!r:.40}, expected a function of (outputs, labels) or an "
                "object with update, compute and reset"
            )
        if callable(self.metric) and not is_metric_object(self.metric):
            check_parameters("metric", self.metric, "outputs", "labels")

    @property
    def named_scale(self) -> ScoreScale:
        """Range, direction and name of the values."""
        if isinstance(self.function, str):
            scale = TOKEN_SCALES[self.function]
        elif self.scale is not None:
            scale = self.scale
        elif self.function is None and self.metric is None:
            scale = ACCURACY
        else:
            falls = self.lower_is_better or getattr(self.metric, "higher_is_better", None) is False
            scale = ScoreScale(-math.inf, math.inf, lower_is_better=falls)
        if self.name is not None:
            return replace(scale, name=self.name.strip())
        measured = self.function if self.metric is None else self.metric
        return scale if scale.name or measured is None else replace(scale, name=_name_of(measured))

    @property
    def boolean_scale(self) -> ScoreScale | None:
        """The scale if a function turns out to return booleans; None if the scale is stated."""
        is_open = callable(self.function) and self.scale is None and not self.lower_is_better
        return replace(ACCURACY, name=self.named_scale.name) if is_open else None

    def to_json(self) -> dict[str, object]:
        """Return what run.json says about the score."""
        measured = self.function if self.metric is None else self.metric
        if isinstance(measured, str):
            return {"score": measured, "ignore_index": self.ignore_index, "shift": self.shift}
        if measured is None:
            return {"score": "accuracy"}
        name = getattr(measured, "__qualname__", None)
        return {"score": name or (_name_of(measured) if self.metric else repr(measured))}

    def make(self) -> Callable[..., object] | TokenScore | WholeSetMetric | None:
        """Return what a Scorer computes; None for accuracy."""
        if isinstance(self.function, str):
            return TokenScore(self.function, self.ignore_index, self.shift)
        return self.function if self.metric is None else WholeSetMetric(self.metric)

    def aggregate(self, values: Values) -> list[float]:
        """Return the score of a set at each evaluation, from a row with the values of its examples.

        Two values per example are a sum and the number of tokens it was taken over.
        """
        if values.dtype == np.bool_ and self.metric is None:
            shares: list[float] = (np.count_nonzero(values, axis=1) / values.shape[1]).tolist()
            return shares
        return [self._aggregate(row) for row in values]

    def _aggregate(self, values: Values) -> float:
        if self.metric is not None:
            return float(values[0])  # each example has that of the whole set
        if values.ndim == 1:
            return float(values.astype(np.float64).mean())
        total, tokens = values.astype(np.float64).sum(0).tolist()
        if not tokens:
            return math.nan
        mean = total / tokens
        if self.function != "perplexity":
            return float(mean)
        return math.exp(mean) if mean < math.log(1e308) else math.inf


def as_score(score: object) -> Score:
    """Return a score from a name, a function or None (accuracy)."""
    return score if isinstance(score, Score) else Score(score)  # type: ignore[arg-type]


def _check_name(name: object) -> None:
    """Raise for a name that no table can show."""
    readable = isinstance(name, str) and name.strip() and name.isprintable()
    if not isinstance(name, str) or not readable or len(name) > MAX_NAME_LENGTH:
        raise ValueError(
            f"the score's name is {name!r:.80}, expected printable text of at most "
            f"{MAX_NAME_LENGTH} characters, like 'perplexity'"
        )


def _name_of(measured: object) -> str:
    """Return the name of a function or metric, or "score" where it has none, as lambdas do."""
    name = getattr(measured, "__name__", "")
    if not name and is_metric_object(measured):
        name = type(measured).__name__
    name = str(name).strip("_")
    return name[:MAX_NAME_LENGTH] if name.isidentifier() else "score"
