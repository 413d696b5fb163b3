"""Options of an evaluator that are more than plain values: subsets, tasks and records."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Literal

from .._display import count_of, format_block, list_some
from .arguments import check_choice, check_integer, check_parameters

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["EvalTask", "Record", "Subset", "as_subset"]


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
            labels, a map-style Dataset (of Hugging Face, too), a DataLoader, a short
            IterableDataset, or a function without arguments that returns one of these and is
            called when the data is first needed.
        classes: the classes a prediction may name (task-incremental learning); the outputs for
            all others are masked.
        ids: one integer per example that identifies it in the record; by default its position.
            Runs are compared example by example where ids and data agree.
        subset: overrides the evaluator's `subset` for this task; `Subset(None)` for all examples.
        collate: makes a batch of a list of examples, as the `collate_fn` of a DataLoader does:
            needed to pad examples of unequal length.
        control: the task is evaluated but never trained, such as a general ability that a model
            should retain. It is evaluated from the start on, on its whole set before training and
            at the end of each task. `retention` and its variants are computed from that.
        train: training examples of the task, in any form that `data` may have. They are evaluated
            whenever `data` is, and recorded apart, in train_points.csv: no metric uses them.
    """

    data: object
    classes: Sequence[int] | None = None
    ids: Sequence[int] | None = None
    subset: int | Subset | None = None
    collate: Callable[[list[object]], object] | None = None
    control: bool = False
    train: object = None

    def __post_init__(self) -> None:
        if self.collate is not None and not callable(self.collate):
            raise TypeError(
                f"collate is {self.collate!r:.60}, expected a function of a list of examples, like "
                "transformers.DataCollatorWithPadding(tokenizer)"
            )
        if self.control and self.train is not None:
            raise ValueError("a control task is never trained, so it has no train=; omit one")

    def __repr__(self) -> str:
        rows = [("data", _describe_data(self.data))]
        if self.classes is not None:
            rows.append(("classes", list_some(list(self.classes), most=10)))
        if self.ids is not None:
            rows.append(("ids", count_of(len(self.ids), "integer")))
        if self.subset is not None:
            rows.append(("subset", str(as_subset(self.subset))))
        if self.collate is not None:
            rows.append(("collate", getattr(self.collate, "__name__", type(self.collate).__name__)))
        if self.control:
            rows.append(("control", "evaluated but never trained"))
        if self.train is not None:
            rows.append(("train", _describe_data(self.train)))
        return format_block("EvalTask", rows)


@dataclass(frozen=True)
class Record:
    """Where and how a run is recorded.

    Args:
        folder: the run's folder; None keeps the record only as long as the evaluator exists.
        overwrite: replace a run that is already in the folder; `"unfinished"` replaces it only
            if it is not finished.
        resume: `state_dict()` of an evaluator that was stopped: its record continues from there.
            `"later"` opens the folder when the first task begins, so that
            `evaluator.load_state_dict(state)` can be called until then; if it is not, a new run
            starts.
        per_example: also record which examples were classified correctly, for fixed subsets and
            for whole sets at task ends, and which classes were predicted at task ends. Confidence
            intervals of a single run and figures of classes need it.
        log: `log(values, step)` is called after every evaluation with numbers by name, and with
            the final metrics when the run is closed: `wandb.log`, `mlflow.log_metrics`, or a
            function of your own.
    """

    folder: str | PathLike[str] | None = None
    overwrite: bool | Literal["unfinished"] = False
    resume: Mapping[str, object] | Literal["later"] | None = None
    per_example: bool = True
    log: Callable[[dict[str, float], int], object] | None = None

    def __post_init__(self) -> None:
        if self.log is not None and not callable(self.log):
            raise TypeError(
                f"log is {self.log!r:.60}, expected a function of (values, step) like wandb.log"
            )
        if self.log is not None:
            check_parameters("log", self.log, "values", "step")
        if self.resume is not None and self.folder is None:
            raise ValueError("resuming needs the folder of the record: Record(folder, resume=…)")
        if isinstance(self.resume, str):
            check_choice("resume", self.resume, ("later",))
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
