"""What is measured of examples, of tokens or of a whole set, and the score computed from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from .._devices import widest_float
from .._display import count_of
from .._suggestions import suggest_names
from ..metrics import ACCURACY, ScoreScale
from ..metrics.score_matrix import MAX_NAME_LENGTH
from .arguments import check_parameters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .engine.eval_batches import Values

    ScoreName = Literal["accuracy", "nll", "perplexity", "token_accuracy", "exact_match"]

__all__ = [
    "TOKEN_SCALES",
    "Score",
    "TokenScore",
    "WholeSetMetric",
    "as_score",
    "is_metric_object",
]

TOKEN_SCALES = {
    "nll": ScoreScale(0, math.inf, lower_is_better=True, name="nll"),
    "perplexity": ScoreScale(1, math.inf, lower_is_better=True, name="perplexity"),
    "token_accuracy": ScoreScale(name="token_accuracy"),
    "exact_match": ScoreScale(name="exact_match"),
}
CHUNK = 1 << 22  # logits that are normalised at a time; a vocabulary may have 2**18 tokens


class TokenScore:
    """One of the scores in `TOKEN_SCALES`; its arguments are those of `Score`."""

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
                inputs: Any = x.get("input_ids") if isinstance(x, Mapping) else x
                alike = isinstance(inputs, Tensor) and inputs.shape == y.shape
                self.shifted[task] = alike and bool((inputs[counted] == y[counted]).all())
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
            flat = logits.flatten(0, -2), labels.flatten()
            losses = cross_entropy(*flat, reduction="none", ignore_index=self.ignore_index)
            values = losses.view(labels.shape)
        else:
            classes = logits.argmax(-1, keepdim=True)
            # argmax takes NaN for the largest: outputs that are no numbers predict nothing.
            is_number = logits.gather(-1, classes).isnan().logical_not().squeeze(-1)
            values = (classes.squeeze(-1) == labels) & is_number & counted
        if self.name == "exact_match":
            return (values == counted).flatten(1).all(1) & counted.flatten(1).any(1)
        pair = (values.flatten(1).to(wide).sum(1), counted.flatten(1).to(wide).sum(1))
        return torch.stack(pair, dim=1)


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
        is_object = is_metric_object(self.metric)
        if isinstance(self.metric, type) or not (callable(self.metric) or is_object):
            raise TypeError(
                f"metric is {self.metric!r:.40}, expected a function of (outputs, labels) or an "
                "object with update, compute and reset"
            )
        if callable(self.metric) and not is_object:
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
        mean = total / tokens if tokens else math.nan
        if self.function != "perplexity" or not tokens:
            return float(mean)
        return math.exp(mean) if mean < math.log(1e308) else math.inf


def as_score(score: object) -> Score:
    """Return a score from a name, a function or None (accuracy)."""
    return score if isinstance(score, Score) else Score(score)  # type: ignore[arg-type]


def _check_name(name: object) -> None:
    """Raise for a name that no table can show."""
    readable = isinstance(name, str) and name.strip() and name.isprintable()
    if not readable or len(str(name)) > MAX_NAME_LENGTH:
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


def is_metric_object(metric: object) -> bool:
    """Return whether a metric has `update`, `compute` and `reset`, as those of torchmetrics."""
    return all(callable(getattr(metric, name, None)) for name in ("update", "compute", "reset"))


class WholeSetMetric:
    """Computes a metric from the outputs and labels of a whole set, as `Score` describes it.

    A function is passed all of them at once, on the CPU; an object a batch at a time.
    """

    def __init__(self, metric: Any) -> None:
        self._metric = metric

    def compute(self, batches: Iterable[tuple[Tensor, object]], task: str) -> float:
        """Return the metric of the outputs and labels of all batches."""
        if is_metric_object(self._metric):
            value = self._update(batches)
        else:
            outputs, labels = zip(*batches, strict=True)
            if not all(isinstance(part, Tensor) for part in labels):
                raise TypeError(f"labels of task {task!r} are no tensor, which metric= needs")
            shapes = list(dict.fromkeys(tuple(part.shape[1:]) for part in outputs))
            if len(shapes) > 1:
                raise ValueError(
                    f"outputs of task {task!r} have the shapes {shapes[0]} and {shapes[1]} in "
                    "different batches, which a function is not passed at once; use a metric "
                    "with update(), compute() and reset(), or pad all examples to one length"
                )
            joined = [torch.cat([p.cpu() for p in part]) for part in (outputs, labels)]
            value = self._metric(*joined)
        score = float(value)
        if not math.isfinite(score):
            raise ValueError(f"metric of task {task!r} is {score}, expected a finite number")
        return score

    def _update(self, batches: Iterable[tuple[Tensor, object]]) -> Any:
        metric = self._metric
        distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
        if distributed and getattr(metric, "sync_on_compute", False):
            raise ValueError(
                f"{type(metric).__name__} would wait for the other processes, which do not "
                "evaluate; create it with sync_on_compute=False"
            )
        device = getattr(metric, "device", "cpu")
        metric.reset()
        for outputs, labels in batches:
            labels = labels.to(device) if isinstance(labels, Tensor) else labels
            metric.update(outputs.to(device), labels)
        value = metric.compute()
        metric.reset()
        return value
