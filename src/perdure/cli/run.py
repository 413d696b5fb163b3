"""`perdure run`: trains a strategy on a scenario and prints the metrics."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from msgspec import to_builtins

from ..record import InputError
from ..report.tables import make_headline_table, make_task_table
from ..scenarios import SCENARIOS
from ..strategies import STRATEGIES, resolve_strategy
from ._options import (
    Every,
    Flag,
    IntOrAll,
    Order,
    PositiveInt,
    Seeds,
    TextFormat,
    require_training,
)
from ._output import (
    print_json,
    print_lines,
    print_stderr,
    print_wrapped,
    render_all,
    render_options,
)
from ._progress import SeedProgressView
from .reference.names import ModelName, ScenarioName, StrategyName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..api.runs import RunResult
    from ..execution import Job
    from ..metrics import RunsSummary, Summary
    from ..training import RunConfig

__all__ = ["run"]


@Parameter(name="*", group="Stream of tasks")
@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """Options of the stream of tasks.

    Attributes:
        setting: What is incremental: `class` (one shared head), `task` (one head per task) or
            `domain`.
        order: Order of the classes: a seed to shuffle them, or all classes listed, as in 3,1,4,…
        boundaries: Task boundaries: `sharp`, `blurred` (neighboring tasks share examples), or
            `none` (a stream without boundaries).
        blur: With `--boundaries blurred`, the fraction of examples that neighboring tasks share;
            with `none`, the fraction of a task during which the next one fades in.
        num_tasks: Number of tasks that the classes are divided into.
        image_size: Height and width of the images of the scenarios m2i and i2m, for small trials,
            and of your own images.
        input: What your own arrays are, if their shape allows several: images, features or tokens.
        channels: Where the channels of your own images are, if their shape allows both.
    """

    setting: Literal["class", "task", "domain"] | None = None
    order: Order | None = None
    boundaries: Literal["sharp", "blurred", "none"] = "sharp"
    blur: float = 0.1
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
        device: Device to train on: cpu, cuda, cuda:1, or auto.
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
    per_example: Annotated[bool, Parameter(negative="--no-per-example")] = True
    gradients: PositiveInt | None = None
    validation_split: float = 0.0


STREAM, TRAINING, EVALUATION = StreamOptions(), TrainingOptions(), EvaluationOptions()


def run(
    scenario: ScenarioName = "split-digits",
    strategy: StrategyName = "replay",
    *,
    seeds: Seeds = 3,
    set_: Annotated[list[str] | None, Parameter("--set", negative="", metavar="NAME=VALUE")] = None,
    stream: StreamOptions = STREAM,
    training: TrainingOptions = TRAINING,
    evaluation: EvaluationOptions = EVALUATION,
    jobs: PositiveInt | None = None,
    store: Path = Path("runs"),
    restart: Flag = False,
    resume: Flag = False,
    force: Flag = False,
    checkpoint_every: float = 120.0,
    dry_run: Flag = False,
    format_: TextFormat = "text",
) -> int:
    """Train a strategy on a scenario, evaluate it while it learns, and print the metrics.

    Without arguments, `perdure run` trains `replay` on `split-digits` with three seeds. A seed that
    is already finished in the store is not run again; one that was interrupted resumes from its
    last checkpoint and ends with the same weights, bit for bit. Options without a default below
    (setting, model, optimizer, epochs, batch, hyperparameters) default to the values published for
    the scenario; `--dry-run` prints them.

    Example: `perdure run split-mnist replay --seeds 5 --epochs 2 --lr 0.05`

    Args:
        scenario: Name of the scenario, see `perdure list scenarios`; or your own data: a folder of
            images (a folder per class, or train/ and test/ of such), an .npz or .parquet file, or
            `module:function` of your own that returns a scenario.
        strategy: Name of the strategy, see `perdure list strategies`, or `module:Class` of your
            own.
        seeds: Number of seeds (5 means the seeds 0 to 4), or a list of seeds such as 0,3,5.
        set_: Set a hyperparameter of the strategy, the optimizer or the model, for example
            `--set lr=.01 --set alpha=.3`; `perdure explain STRATEGY` lists those of a strategy.
        stream: Options of the stream of tasks.
        training: Options of the training loop.
        evaluation: Options of the evaluation during training.
        jobs: Number of seeds to run in parallel. Defaults to what the CPU cores allow.
        store: Folder in which runs are stored.
        restart: Restart every seed from scratch, finished or not; earlier results are replaced.
            (`perdure study run --restart` keeps finished runs.)
        resume: Do not start new runs: only resume interrupted ones, and fail if one cannot be
            resumed. (By default, `run` does both.)
        force: Resume even if the data or software versions have changed. The result may then not
            be bit-identical.
        checkpoint_every: Seconds between checkpoints. A checkpoint is also written at the end of
            each task.
        dry_run: Print the complete configuration of each run without running it.
        format_: Output format.
    """
    strategy = _resolve_names(scenario, strategy)
    from ..api.runs import make_configs
    from ..api.runs import run as run_seeds

    options = asdict(stream) | asdict(training) | asdict(evaluation)
    options["settings"] = _parse_settings(set_)
    if dry_run:
        configs = make_configs(scenario, strategy, seeds=seeds, **options)
        print_json([{"folder": str(store / c.folder), **to_builtins(c)} for c in configs])
        return 0
    require_training()
    with SeedProgressView(show=format_ != "json") as progress:
        result = run_seeds(
            scenario, strategy, seeds=seeds, store=store, jobs=jobs, restart=restart,
            resume=resume, force=force, checkpoint_every=checkpoint_every,
            on_plan=progress.on_plan, on_event=progress.on_event, **options,
        )  # fmt: skip
    if result.summary is not None:
        if format_ == "json":
            render_all(result.summary)
            print_json(
                {
                    "runs": [str(folder) for folder in result.folders],
                    "notes": [render_options(note) for note in result.notes],
                    "deviations": result.deviations,
                    "summary": result.summary.to_dict(),
                }
            )
        else:
            _print(result, result.summary)
    _print_failures(result.failed)
    return max((2 if job.code == 2 else 1 for job in result.failed), default=0)


def _resolve_names(scenario: str, strategy: str) -> str:
    """Return the strategy that a name stands for; raise if it is where the scenario belongs."""
    taken = resolve_strategy(scenario)
    if scenario not in SCENARIOS and taken in STRATEGIES and not Path(scenario).exists():
        default = next(iter(SCENARIOS))
        raise InputError(
            f"{scenario!r:.60} is a strategy, and the scenario comes first: `perdure run {default} "
            f"{taken}` trains it on digits; `perdure list scenarios` lists the others"
        )
    taken = resolve_strategy(strategy)
    if taken != strategy:
        print_stderr(f"note: {strategy}: {taken}")
    return taken


def _parse_settings(pairs: list[str] | None) -> dict[str, str]:
    settings: dict[str, str] = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not (name.strip() and equals and value.strip()):
            raise InputError(f"--set has {pair!r:.40}, expected NAME=VALUE like lr=.01")
        if name.strip() in settings:
            raise InputError(f"--set has {name.strip()!r:.40} twice, expected each name once")
        settings[name.strip()] = value.strip()
    return settings


def _print(result: RunResult, summary: Summary | RunsSummary) -> None:
    config, count = result.configs[0], len(result.folders)
    seeds = "1 seed" if count == 1 else f"mean of {count} seeds"
    print_lines(f"{config.scenario}, {config.strategy}, {config.setting}-incremental, {seeds}")
    print_wrapped(_describe_config(config), "  ")
    print_lines()
    tasks = make_task_table(summary)
    if len(tasks.header) > 1:
        tasks.show(sys.stdout)
        print_lines()
    make_headline_table(summary).show(sys.stdout)
    print_lines(f"intervals: over {'test examples' if count == 1 else 'seeds'}")
    for warning in result.warnings:
        print_wrapped(warning, "  ")
    if result.deviations:
        print_lines("", "not as published:")
        for text in result.deviations:
            print_wrapped(f"  {text}", "    ")
    print_lines("", "record:", *(f"  {folder}" for folder in result.folders))
    print_lines(f"all metrics: perdure score {' '.join(map(str, result.folders))}")


def _print_failures(failed: Sequence[Job]) -> None:
    """Print each error once: seeds often fail alike."""
    for error in dict.fromkeys(job.error for job in failed):
        alike = [job for job in failed if job.error == error]
        print_stderr(*alike[0].traceback.splitlines(), prefix="")
        print_stderr(f"seed {', '.join(str(job.config.seed) for job in alike)} failed: {error}")


def _describe_schedule(config: RunConfig) -> str:
    warmup = config.schedule_options.get("warmup")
    decay = "" if config.schedule == "constant" else f" {config.schedule}"
    return decay + (f" warmup {warmup}" if warmup else "")


def _describe_config(config: RunConfig) -> str:
    """Return in one line how a run is trained."""
    length = (
        f"{config.epochs} epochs"
        if config.iterations is None
        else f"{config.iterations} iterations"
    )
    parts = [
        config.model,
        f"{config.optimizer} lr {config.optimizer_options['lr']:g}{_describe_schedule(config)}",
        f"batch {config.batch}",
        f"{length} per task",
    ]
    parts += [f"{name} {value}" for name, value in config.options.items()]
    parts += [f"order {config.order}"] if config.order is not None else []
    parts += [f"images {config.image_size}x{config.image_size}"] if config.image_size else []
    parts += ["unseen classes masked"] if config.mask_unseen else []
    parts += (
        [f"boundaries {config.boundaries} ({config.blur:g})"]
        if config.boundaries != "sharp"
        else []
    )
    parts += [f"patience {config.patience}"] if config.patience else []
    return ", ".join(parts)
