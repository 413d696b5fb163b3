"""The options of `perdure.run` that make up the config of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["ConfigOptions"]


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
