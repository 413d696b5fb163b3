"""Options of an evaluator that are more than plain values: subsets, tasks, scores and records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sized
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Literal

from .._display import count_of, format_block, list_some
from ..metrics import ACCURACY, ScoreScale
from ..metrics.score_matrix import MAX_NAME_LENGTH
from .arguments import check_choice, check_integer, check_parameters

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

__all__ = ["EvalTask", "Record", "Score", "Subset", "as_subset"]


@dataclass(frozen=True)
class Subset:
    """Which examples of a task are evaluated while training.

    Args:
        size: how many examples; None for all of them.
        seed: seed of the random choice, which also depends on the name of the task.
        resample: choose other examples at every evaluation. This biases minima: `perdure plan`
            shows by how much.
    """

    size: int | None = 1000
    seed: int = 0
    resample: bool = False

    def __post_init__(self) -> None:
        if self.size is not None:
            check_integer("subset", self.size, 1)
        check_integer("seed", self.seed, 0)


def as_subset(subset: int | Subset | None) -> Subset:
    """Return a subset from a number of examples (None for all of them) or from a `Subset`.

    Example:
        >>> as_subset(100)
        Subset(size=100, seed=0, resample=False)
    """
    return subset if isinstance(subset, Subset) else Subset(subset)


@dataclass(frozen=True, repr=False)
class EvalTask:
    """Evaluation data of one task, with options that apply to this task only.

    Args:
        data: `(x, y)` as tensors or arrays (x may be a tuple or dict of them), a dict with
            labels, a map-style Dataset, a DataLoader, or a function without arguments that
            returns one of these and is called when the data is first needed.
        classes: the classes a prediction may name (task-incremental learning); the outputs for
            all others are masked.
        ids: one integer per example that identifies it in the record; by default its position.
            Runs are compared example by example where ids and data agree.
        subset: overrides the evaluator's `subset` for this task; `Subset(None)` for all examples.
        control: the task is evaluated but never trained, such as a general ability that a model
            should retain. It is evaluated from the start on, on its whole set before training and
            at the end of each task. `retention` and its variants are computed from that.
    """

    data: object
    classes: Sequence[int] | None = None
    ids: Sequence[int] | None = None
    subset: int | Subset | None = None
    control: bool = False

    def __repr__(self) -> str:
        rows = [("data", _describe_data(self.data))]
        if self.classes is not None:
            rows.append(("classes", list_some(list(self.classes), most=10)))
        if self.ids is not None:
            rows.append(("ids", count_of(len(self.ids), "integer")))
        if self.subset is not None:
            rows.append(("subset", str(as_subset(self.subset))))
        if self.control:
            rows.append(("control", "evaluated but never trained"))
        return format_block("EvalTask", rows)


@dataclass(frozen=True)
class Score:
    """A score other than accuracy, with its range, direction and name.

    Args:
        function: `function(model, x, y)` returns one value per example; None for accuracy. If it
            has a parameter named `task`, it is passed the name of the task.
        scale: range and direction of the values; unbounded by default.
        lower_is_better: whether the score is a loss.
        name: what tables, figures and pages call the score; by default the function's name.

    Example:
        >>> Score(None).named_scale.label
        'accuracy'
        >>> Score(max, lower_is_better=True).named_scale.label
        'max'
    """

    function: Callable[..., torch.Tensor] | None
    scale: ScoreScale | None = None
    lower_is_better: bool = False
    name: str | None = None

    def __post_init__(self) -> None:
        if self.function is not None and not callable(self.function):
            raise TypeError(f"score is {self.function!r:.40}, expected a function of (model, x, y)")
        if self.function is not None:
            check_parameters("score", self.function, "model", "x", "y")
        if self.lower_is_better and self.function is None:
            raise ValueError("lower_is_better=True needs a score function; accuracy is not a loss")
        if self.lower_is_better and self.scale is not None and not self.scale.lower_is_better:
            raise ValueError(
                f"lower_is_better=True and scale={self.scale} contradict each other; say it in "
                "scale"
            )
        if self.name is not None:
            _check_name(self.name)

    @property
    def named_scale(self) -> ScoreScale:
        """Range, direction and name of the values."""
        scale = self.scale
        if scale is None and self.function is None:
            scale = ACCURACY
        elif scale is None:
            scale = ScoreScale(-math.inf, math.inf, lower_is_better=self.lower_is_better)
        if self.name is not None:
            return replace(scale, name=self.name.strip())
        if scale.name or self.function is None:
            return scale
        return replace(scale, name=_function_name(self.function))

    @property
    def recorded_name(self) -> str:
        """The function as run.json names it."""
        if self.function is None:
            return "accuracy"
        return getattr(self.function, "__qualname__", repr(self.function))


@dataclass(frozen=True)
class Record:
    """Where and how a run is recorded.

    Args:
        folder: the run's folder; None keeps the record only as long as the evaluator exists.
        overwrite: replace a run that is already in the folder; `"unfinished"` replaces it only
            if it is not finished.
        resume: `state_dict()` of an evaluator that was stopped: its record continues from there.
        per_example: also record which examples were classified correctly, for fixed subsets and
            for whole sets at task ends, and which classes were predicted at task ends. Confidence
            intervals of a single run and figures of classes need it.
    """

    folder: str | PathLike[str] | None = None
    overwrite: bool | Literal["unfinished"] = False
    resume: Mapping[str, object] | None = None
    per_example: bool = True

    def __post_init__(self) -> None:
        if self.resume is not None and self.folder is None:
            raise ValueError("resuming needs the folder of the record: Record(folder, resume=…)")
        named = isinstance(self.folder, str | PathLike) and str(self.folder).strip()
        if self.folder is not None and not named:
            raise ValueError(f"record is {self.folder!r:.60}, expected a folder like 'runs/mine'")
        if not isinstance(self.overwrite, bool):
            check_choice("overwrite", self.overwrite, ("unfinished",))


def _describe_data(data: object) -> str:
    """Return the shape and type of tensors and arrays, the kind and length of anything else."""
    if isinstance(data, tuple | list) and len(data) <= 4:
        return f"({', '.join(map(_describe_data, data))})"
    if isinstance(data, Mapping):
        return ", ".join(f"{key}: {_describe_data(value)}" for key, value in data.items())
    if hasattr(data, "shape") and hasattr(data, "dtype"):
        return f"{tuple(data.shape)} {str(data.dtype).removeprefix('torch.')}"
    kind = getattr(data, "__name__", type(data).__name__)
    return f"{kind} of length {len(data)}" if isinstance(data, Sized) else kind


def _check_name(name: object) -> None:
    """Raise for a name that no table can show."""
    readable = isinstance(name, str) and name.strip() and name.isprintable()
    if not isinstance(name, str) or not readable or len(name) > MAX_NAME_LENGTH:
        raise ValueError(
            f"the score's name is {name!r:.80}, expected printable text of at most "
            f"{MAX_NAME_LENGTH} characters, like 'perplexity'"
        )


def _function_name(function: object) -> str:
    """Return the name of a function, or "score" where it has none, as lambdas do."""
    name = str(getattr(function, "__name__", "")).strip("_")
    return name[:MAX_NAME_LENGTH] if name.isidentifier() else "score"
