"""The options of `perdure.run` and of `perdure.score`, and how the latter summarizes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, TypedDict

from ..metrics import ScoreScale, SummaryOptions, criteria_weights, parse_id, select_metric_ids
from ..record import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..metrics import RunsSummary, Summary

__all__ = ["ConfigOptions", "make_options", "make_scale", "resolve_metrics", "select_metrics"]


class ConfigOptions(TypedDict, total=False):
    """Options of a run; those that are not set default to the values published for the scenario.

    Attributes:
        settings: Hyperparameters of the strategy, the optimizer and the model by name.
        model: Name of the network, or "module:factory" of your own.
        optimizer: "sgd" (with momentum 0.9), "adam" or "adamw".
        lr: Learning rate, as in `settings`.
        schedule: How the learning rate changes in each task: "constant", "cosine" or "step".
        epochs: Number of epochs per task.
        iterations: Number of iterations per task, instead of epochs.
        online: Train for a single epoch per task.
        batch: Number of new examples per iteration.
        setting: What is incremental: "class", "task" or "domain".
        mask_unseen: Mask the outputs of classes that have not been seen yet.
        order: Order of the classes: a seed to shuffle them, or all classes.
        task_order: Order of the tasks, as a permutation of their numbers from 0.
        num_tasks: Number of tasks that the classes are divided into.
        input: What the examples of your own arrays are: "images", "features" or "tokens".
        channels: Where the channels of your own arrays are: "first" or "last".
        image_size: Height and width of the images of m2i, i2m, split-m2i and your own folder of
            images.
        boundaries: Task boundaries: "sharp", "blurred" or "none".
        blur: Fraction of examples that blurred tasks share, or by which tasks overlap.
        patience: Number of epochs without a better score after which a task stops.
        early_stopping_split: Fraction of each task's training data held out for early stopping.
        validation_split: Fraction of the training data to evaluate on instead of the test set.
        every: Number of iterations between evaluations, or a share of the time, "10%".
        subset: Number of test examples per task in each evaluation; None for all.
        resample: Draw a new subset for every evaluation.
        unseen: Also evaluate tasks that have not been learned yet.
        evaluate_train: Also evaluate on training examples, which no metric uses.
        per_example: Record which examples were classified correctly.
        gradients: Number of iterations between records of the gradient norms.
        threads: Number of CPU threads per run.
        device: "cpu", "cuda", "cuda:1", "mps", or "auto".
        precision: Precision of training: "default" (PyTorch's), "float32", "tf32" or "bfloat16".
        channels_last: Store the weights of convolutions with their channels last.
    """

    settings: Mapping[str, object]
    model: str | None
    optimizer: Literal["sgd", "adam", "adamw"] | None
    lr: float | None
    schedule: Literal["constant", "cosine", "step"]
    epochs: int | None
    iterations: int | None
    online: bool
    batch: int | None
    setting: Literal["class", "task", "domain"] | None
    mask_unseen: bool
    order: int | Sequence[int] | None
    task_order: Sequence[int] | None
    num_tasks: int | None
    input: Literal["images", "features", "tokens"] | None
    channels: Literal["first", "last"] | None
    image_size: int | None
    boundaries: Literal["sharp", "blurred", "none"]
    blur: float
    patience: int | None
    early_stopping_split: float
    validation_split: float
    every: int | str
    subset: int | None
    resample: bool
    unseen: bool
    evaluate_train: bool
    per_example: bool
    gradients: int | None
    threads: int
    device: str
    precision: Literal["default", "float32", "tf32", "bfloat16"]
    channels_last: bool


def make_options(
    metrics: Sequence[str] | None = None,
    *,
    window: Sequence[int | None] = (10, 100, None),
    beta: int = 10,
    epsilon: float = 1.0,
    weights: Mapping[str, float] | None = None,
) -> SummaryOptions:
    """Return how to summarize for the given metrics; see `score` for the arguments.

    Example:
        >>> make_options(["wf5"]).windows
        (5, 10, 100, None)
    """
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise InputError(f"`epsilon=` is {epsilon:g}, expected a positive number")
    windows = [w for id_ in metrics or () if (w := parse_id(id_).arguments.get("window"))]
    only = None
    if metrics:
        # clstability is made of the spread over runs of each criterion, not of their score.
        criteria = criteria_weights(weights) if "clstability" in metrics else ()
        only = frozenset(metrics).union(criteria)
    return SummaryOptions(
        tuple(dict.fromkeys((*windows, *window))), beta, epsilon, weights, only=only
    )


def resolve_metrics(metrics: str | Sequence[str] | None) -> tuple[list[str] | None, list[str]]:
    """Return the ids that names, aliases and patterns stand for, and a note per alias.

    Example:
        >>> resolve_metrics(["aa", "bwt"]), resolve_metrics(None)
        ((['acc', 'bwt'], ['aa means acc']), (None, []))
    """
    if metrics is None:
        return None, []
    ids, _, notes = select_metric_ids([metrics] if isinstance(metrics, str) else metrics)
    return ids, notes


def make_scale(
    limits: tuple[float, float] | None, *, lower_is_better: bool = False
) -> ScoreScale | None:
    """Return the scale of scores, or None if nothing is stated: a run knows its own.

    Example:
        >>> make_scale((0, 10)).high
        10
    """
    if limits is None:
        return ScoreScale(-math.inf, math.inf, lower_is_better=True) if lower_is_better else None
    return ScoreScale(*limits, lower_is_better=lower_is_better)


def select_metrics(summary: Summary | RunsSummary, metrics: Sequence[str]) -> None:
    """Drop all but the given metrics; one that was not computed is undefined with a reason."""
    if metrics:
        summary.keep_only(metrics)
        for id_ in metrics:
            if id_ not in summary.metrics:
                summary.undefined.setdefault(id_, "not computed: see `beta=` and `window=`")
