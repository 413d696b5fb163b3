"""Groups of options that commands share or that belong together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from cyclopts import Parameter

from ..api.options import make_scale
from ..record import InputOptions
from ._options import Every, Flag, IntOrAll, ModelName, Names, Order, PositiveInt, Range, Values

__all__ = [
    "DEFAULT_EXECUTION_OPTIONS",
    "DEFAULT_FILE_OPTIONS",
    "DEFAULT_TASK_OPTIONS",
    "EvaluationOptions",
    "ExecutionOptions",
    "FileOptions",
    "StreamOptions",
    "TaskOptions",
    "TrainingOptions",
]


@Parameter(name="*", group="Scores in files")
@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """How to read and show the scores in matrices and logs.

    Attributes:
        percent: Print tables in percent (JSON and CSV never are), and read matrices and logs as
            percent if any of their scores is above 1. A run states its own scale. By default,
            scores are read as percent only if nothing else is plausible, with a note.
        transposed: In matrices, rows are evaluated tasks and columns are trained tasks. By default,
            they are swapped only if no score is below the diagonal, with a note.
        upper: Set to `measured` if zeros that fill the upper triangle of a matrix are measured
            scores. They otherwise count as not measured.
        range_: Lowest and highest possible score in files whose scores are not accuracies; `inf`
            is allowed.
        lower_is_better: The scores in files are losses or errors.
    """

    percent: Flag = False
    transposed: Annotated[bool | None, Parameter(show_default=False)] = None
    upper: Literal["measured"] | None = None
    range_: Annotated[Range | None, Parameter("--range")] = None
    lower_is_better: Flag = False

    def make(self) -> InputOptions:
        """Return these options for `read_input`."""
        scale = make_scale(self.range_, lower_is_better=self.lower_is_better)
        return InputOptions(
            percent=self.percent or None, or_fractions=True, transposed=self.transposed,
            upper=self.upper, scale=scale,
        )  # fmt: skip


@Parameter(name="*", group="Tasks")
@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """What is known about the tasks next to their scores.

    Attributes:
        classes: Number of classes that each task introduces, as in 2,2,2.
        setting: Continual learning setting: class-incremental (no task id at test time),
            task-incremental (the task id is given) or domain-incremental (the same classes, new
            inputs). By default, metrics that depend on it assume `class`.
        initial: Scores of the untrained model, one per task.
        joint: Scores of a model trained on all tasks at once, one per task.
        single: Scores of models trained on a single task each, one per task.
        offline: Scores of models trained offline on the tasks so far: after each task, the mean
            over these tasks.
        sizes: Number of test examples per task.
        control: Names of the tasks in a points.csv that are evaluated but never trained. A run
            names its own.
    """

    classes: Values | None = None
    setting: Literal["class", "task", "domain"] | None = None
    initial: Values | None = None
    joint: Values | None = None
    single: Values | None = None
    offline: Values | None = None
    sizes: Values | None = None
    control: Names | None = None

    def add_to(self, inputs: InputOptions) -> InputOptions:
        """Return how to read scores, with what is known about the tasks."""
        return replace(inputs, **vars(self))


@Parameter(name="*", group="Execution")
@dataclass(frozen=True, kw_only=True)
class ExecutionOptions:
    """How to execute the runs of a study.

    Attributes:
        jobs: Number of runs in parallel. Defaults to what the CPU cores allow.
        serial: Run one after the other in this process.
        ray: Run on Ray: `auto` starts Ray on this machine, an address joins a cluster.
        gpus_per_run: GPUs per run on CUDA with --ray; .25 lets four runs share a GPU.
        retry_failed: Run failed runs again.
        restart: Start unfinished and failed runs from scratch. Finished runs are kept, unlike with
            `perdure run --restart`; to repeat one, delete its folder.
        force: Resume unfinished runs even if the data or software versions have changed. The
            results may then not be bit-identical.
    """

    jobs: PositiveInt | None = None
    serial: Flag = False
    ray: Annotated[str | None, Parameter(metavar="auto|ADDRESS")] = None
    gpus_per_run: float = 1.0
    retry_failed: Flag = False
    restart: Flag = False
    force: Flag = False


DEFAULT_FILE_OPTIONS = FileOptions()
DEFAULT_TASK_OPTIONS = TaskOptions()
DEFAULT_EXECUTION_OPTIONS = ExecutionOptions()


@Parameter(name="*", group="Stream of tasks")
@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """Options of the stream of tasks.

    Attributes:
        setting: What is incremental: `class` (one shared head), `task` (one head per task) or
            `domain`.
        order: Order of the classes: a seed to shuffle them, or all classes listed by their numbers
            from 0, as in 3,1,4,…
        boundaries: Task boundaries: `sharp`, `blurred` (neighboring tasks share examples), or
            `none` (a stream without boundaries).
        blur: With `--boundaries blurred`, the fraction of examples that neighboring tasks share;
            with `none`, the fraction of a task during which the next one fades in.
        task_order: Order of the tasks by their numbers from 0, as in 2,0,1; `--orders` draws
            several.
        num_tasks: Number of tasks that the classes are divided into.
        image_size: Height and width of the images of the scenarios m2i, i2m and split-m2i, for
            small trials, and of your own images.
        input: What your own arrays are, if their shape allows several: images, features or tokens.
        channels: Where the channels of your own images are, if their shape allows both.
    """

    setting: Literal["class", "task", "domain"] | None = None
    order: Order | None = None
    boundaries: Literal["sharp", "blurred", "none"] = "sharp"
    blur: float = 0.1
    task_order: Order | None = None
    num_tasks: Annotated[PositiveInt | None, Parameter(name=("--num-tasks", "--tasks"))] = None
    image_size: PositiveInt | None = None
    input: Literal["images", "features", "tokens"] | None = None
    channels: Literal["first", "last"] | None = None


@Parameter(name="*", group="Training")
@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Options of the training loop.

    Attributes:
        model: Name of the network, see `perdure list models`, or `module:factory` of your own.
        optimizer: Optimizer: SGD with momentum 0.9, Adam or AdamW (with weight decay 0.01). Set
            its other hyperparameters with `--set weight_decay=0.05`.
        lr: Learning rate.
        schedule: How the learning rate changes in each task: `constant`; `cosine`, down to 0; or
            `step`, times 0.1 (`--set gamma=0.1`) every `--set decay_every=INT` iterations. With
            `--set warmup=INT`, it first grows linearly for INT iterations.
        epochs: Number of epochs per task.
        iterations: Number of iterations (training steps) per task, instead of epochs.
        online: Train for a single epoch per task, the same as `--epochs 1`.
        batch: Number of new examples per iteration.
        mask_unseen: Mask the outputs of classes that have not been seen yet.
        patience: Stop a task early after INT epochs without a better score on its early-stopping
            data. Off by default.
        early_stopping_split: Fraction of each task's training data held out for early stopping,
            only used with `--patience`.
        threads: Number of CPU threads per run.
        device: Device to train on: cpu, cuda, cuda:1, mps, or auto.
        precision: Precision of training: `default` (PyTorch's: on CUDA, convolutions in TF32 and
            matrix products in float32), `float32`, `tf32` or `bfloat16` (autocast). Evaluations
            predict as float32 does in any case.
        channels_last: Store the weights of convolutions with their channels last, which is faster
            on CUDA.
    """

    model: Annotated[ModelName | None, Parameter(metavar="NAME")] = None
    optimizer: Literal["sgd", "adam", "adamw"] | None = None
    lr: float | None = None
    schedule: Literal["constant", "cosine", "step"] = "constant"
    epochs: PositiveInt | None = None
    iterations: PositiveInt | None = None
    online: Flag = False
    batch: Annotated[PositiveInt | None, Parameter(name=("--batch-size", "--batch"))] = None
    mask_unseen: Flag = False
    patience: PositiveInt | None = None
    early_stopping_split: float = 0.1
    threads: PositiveInt = 1
    device: Annotated[str, Parameter(metavar="DEVICE")] = "auto"
    precision: Literal["default", "float32", "tf32", "bfloat16"] = "default"
    channels_last: Flag = False


@Parameter(name="*", group="Evaluation")
@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """Options of the evaluation during training.

    Attributes:
        every: Evaluate every INT iterations or, for example `10%`, as often as that share of the
            time allows; which iterations are evaluated then depends on time, training does not.
        subset: Number of test examples per task in each evaluation, or `all`. The whole test set
            is evaluated at the end of each task in any case.
        resample: Draw a new subset for every evaluation instead of a fixed one. The minima of
            noisy scores are then too low.
        unseen: Also evaluate tasks that have not been learned yet.
        evaluate_train: Also evaluate on training examples of each task, and on all of them at the
            end of each task. They are recorded apart, in train_points.csv, and no metric uses
            them.
        per_example: Record which examples were classified correctly, as confidence intervals
            require.
        gradients: Record the gradient norms of the loss on new data and of the loss that protects
            earlier tasks every INT iterations.
        validation_split: Fraction of the training data to evaluate on instead of the test set, for
            choosing hyperparameters.
    """

    every: Every = 1
    subset: IntOrAll = 1000
    resample: Flag = False
    unseen: Flag = False
    evaluate_train: Flag = False
    per_example: Annotated[bool, Parameter(negative="--no-per-example")] = True
    gradients: PositiveInt | None = None
    validation_split: float = 0.0
