"""`perdure run`: trains a strategy on a scenario and prints the metrics."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from msgspec import to_builtins

from .._display import count_of
from ..api.recorded_runs import list_replicates
from ..metrics import RunsSummary
from ..metrics.runs import describe_components
from ..record import InputError, RunFolder
from ..record.group_names import count_replicates, format_order, format_seeds
from ..report.tables import make_headline_table, make_task_table
from ..scenarios import SCENARIOS
from ..strategies import STRATEGIES, resolve_strategy
from ..training.config import count_tasks
from ._option_groups import EvaluationOptions, StreamOptions, TrainingOptions
from ._options import (
    Flag,
    PositiveInt,
    ScenarioName,
    Seeds,
    StrategyName,
    TextFormat,
    parse_pairs,
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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..api.runs import RunResult
    from ..execution import Job
    from ..metrics import Summary
    from ..training import RunConfig

__all__ = ["describe_config", "run"]

STREAM, TRAINING, EVALUATION = StreamOptions(), TrainingOptions(), EvaluationOptions()


def run(
    scenario: ScenarioName = "split-digits",
    strategy: StrategyName = "replay",
    *,
    seeds: Seeds = 3,
    orders: PositiveInt | None = None,
    set_: Annotated[list[str] | None, Parameter("--set", negative="", metavar="NAME=VALUE")] = None,
    stream: StreamOptions = STREAM,
    training: TrainingOptions = TRAINING,
    evaluation: EvaluationOptions = EVALUATION,
    jobs: PositiveInt | None = None,
    seeds_together: Literal["auto", "yes", "no"] = "auto",
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
    the scenario; `--dry-run --format json` prints them.

    Example: `perdure run split-mnist replay --seeds 5 --epochs 2 --lr 0.05`

    Args:
        scenario: Name of the scenario, see `perdure list scenarios`; or your own data: a folder of
            images (a folder per class, or train/ and test/ of such), an .npz or .parquet file, or
            `module:function` of your own that returns a scenario.
        strategy: Name of the strategy, see `perdure list strategies`, or `module:Class` of your
            own.
        seeds: Number of seeds (5 means the seeds 0 to 4), or a list of seeds such as 0,3,5.
        orders: Number of task orders, drawn at random; each is run with every seed. The table then
            says how much the metrics vary over orders and how much over seeds.
        set_: Set a hyperparameter of the strategy, the optimizer or the model, for example
            `--set lr=.01 --set alpha=.3`; `perdure explain STRATEGY` lists those of a strategy.
        stream: Options of the stream of tasks.
        training: Options of the training loop.
        evaluation: Options of the evaluation during training.
        jobs: Number of seeds to run in parallel processes. Defaults to what the CPU cores allow.
        seeds_together: Train all seeds in turns in one process, which pays for start-up and data
            once: `auto` does on a CUDA device, for strategies whose steps can be captured in CUDA
            graphs.
        store: Folder in which runs are stored.
        restart: Restart every seed from scratch, finished or not; earlier results are replaced.
            (`perdure study run --restart` keeps finished runs.)
        resume: Do not start new runs: only resume interrupted ones, and fail if one cannot be
            resumed. (By default, `run` does both.)
        force: Resume even if the data or software versions have changed. The result may then not
            be bit-identical.
        checkpoint_every: Seconds between checkpoints. A checkpoint is also written at the end of
            each task.
        dry_run: Print what would run, and where it would be stored, without running it; with
            `--format json`, the complete configuration of each run.
        format_: Output format.
    """
    strategy = _resolve_names(scenario, strategy)
    from ..api.recorded_runs import note_own_data
    from ..api.runs import make_configs
    from ..api.runs import run as run_seeds

    options = asdict(stream) | asdict(training) | asdict(evaluation)
    options["settings"] = parse_pairs(set_ or (), "--set", like=" like lr=.01")
    if dry_run:
        configs = make_configs(scenario, strategy, seeds=seeds, orders=orders, **options)
        print_stderr(*note_own_data(configs[0]))
        if format_ == "json":
            print_json([{"folder": str(store / c.folder), **to_builtins(c)} for c in configs])
        else:
            _print_plan(configs, store)
        return 0
    require_training()
    with SeedProgressView(show=format_ != "json") as progress:
        result = run_seeds(
            scenario, strategy, seeds=seeds, orders=orders, store=store, jobs=jobs,
            seeds_together=seeds_together, restart=restart, resume=resume, force=force,
            checkpoint_every=checkpoint_every,
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
            _print_result(result, result.summary)
    _print_failures(result.failed)
    return max((2 if job.code == 2 else 1 for job in result.failed), default=0)


def _resolve_names(scenario: str, strategy: str) -> str:
    """Return the strategy that a name stands for; raise if it is where the scenario belongs."""
    taken = resolve_strategy(scenario)
    if scenario not in SCENARIOS and taken in STRATEGIES and not Path(scenario).exists():
        if strategy in SCENARIOS or Path(strategy).exists():
            hint = f"`perdure run {strategy} {taken}`"
        else:
            hint = (
                f"`perdure run {next(iter(SCENARIOS))} {taken}` trains it on digits; "
                "`perdure list scenarios` lists the others"
            )
        raise InputError(f"{scenario!r:.60} is a strategy, and the scenario comes first: {hint}")
    taken = resolve_strategy(strategy)
    if taken != strategy:
        print_stderr(f"note: {strategy} means {taken}")
    return taken


MAX_FOLDERS = 10  # listed by --dry-run


def _print_result(result: RunResult, summary: Summary | RunsSummary) -> None:
    config, count = result.configs[0], len(result.folders)
    replicates = [c.order_and_seed for c in result.configs]
    orders = len({order for order, _ in replicates})
    seeds = ("mean of " if count > 1 else "") + count_replicates(replicates)
    title = f"{config.scenario}, {config.strategy}, {config.setting}-incremental, {seeds}"
    print_wrapped(title, "  ")
    print_wrapped(describe_config(config), "  ")
    print_lines()
    tasks = make_task_table(summary)
    if len(tasks.header) > 1:
        tasks.show(sys.stdout)
        print_lines()
    make_headline_table(summary).show(sys.stdout)
    over = "test examples" if count == 1 else "task orders and seeds" if orders > 1 else "seeds"
    print_lines(f"intervals: over {over}")
    if isinstance(summary, RunsSummary) and summary.components:
        print_wrapped(describe_components(summary), "  ")
    for warning in result.warnings:
        print_wrapped(warning, "  ")
    if result.deviations:
        print_lines("", "not as published:")
        for text in result.deviations:
            print_wrapped(f"  {text}", "    ")
    print_lines("", "record:", *(f"  {folder}" for folder in result.folders))
    print_lines(f"all metrics: perdure score {shlex.join(map(str, result.folders))}")


def _print_plan(configs: Sequence[RunConfig], store: Path) -> None:
    """Print what would run: the method, its seeds and task orders, evaluations and folders."""
    first, done = configs[0], [RunFolder(store / c.folder).is_finished() for c in configs]
    replicates = [c.order_and_seed for c in configs]
    orders = list(dict.fromkeys(order for order, _ in replicates))
    title = f"{first.scenario}, {first.strategy}, {first.setting}-incremental"
    print_wrapped(f"{title}: {count_replicates(replicates)}, none is started", "  ")
    print_wrapped(describe_config(first), "  ")
    print_lines(f"seeds       {format_seeds(dict.fromkeys(seed for _, seed in replicates))}")
    if orders != [None]:
        print_wrapped(f"task orders {'; '.join(map(format_order, orders))}", " " * 12)
    print_wrapped(f"evaluations {_describe_evaluations(first)}", " " * 12)
    print_lines(f"finished    {sum(done)} of {count_of(len(done), 'run')}", "", "folders:")
    print_lines(*(f"  {store / c.folder}" for c in configs[:MAX_FOLDERS]))
    if len(configs) > MAX_FOLDERS:
        print_lines(f"  … and {len(configs) - MAX_FOLDERS} more")
    print_wrapped("every setting of each run: the same command with --format json", "  ")


def _describe_evaluations(config: RunConfig) -> str:
    """Return how often a run is evaluated, and on what; in all if the iterations are known."""
    every = config.every
    often = f"{every} of the time" if isinstance(every, str) else f"every {every} iterations"
    often = "every iteration" if every == 1 else often
    examples = "all" if config.subset is None else f"up to {config.subset}"
    tasks = "every task" if config.unseen else "each task seen so far"
    text = f"{often}, {examples} test examples of {tasks}; whole test sets when a task ends"
    if config.iterations is None or isinstance(every, str):
        return text
    count = count_tasks(config)
    return f"{text}: {count * config.iterations // every} and {count} per run"


def _print_failures(failed: Sequence[Job]) -> None:
    """Print each error once: seeds often fail alike."""
    for error in dict.fromkeys(job.error for job in failed):
        alike = [job for job in failed if job.error == error]
        print_stderr(*alike[0].traceback.splitlines(), prefix="")
        print_stderr(f"{list_replicates(job.config for job in alike)} failed: {error}")


def _describe_schedule(config: RunConfig) -> str:
    warmup = config.schedule_options.get("warmup")
    decay = "" if config.schedule == "constant" else f" {config.schedule}"
    return decay + (f" warmup {warmup}" if warmup else "")


def describe_config(config: RunConfig) -> str:
    """Return in one line how a run is trained."""
    unit, count = (
        ("epoch", config.epochs) if config.iterations is None else ("iteration", config.iterations)
    )
    parts = [
        config.model,
        f"{config.optimizer} lr {config.optimizer_options['lr']:g}{_describe_schedule(config)}",
        f"batch {config.batch}",
        f"{count_of(count, unit)} per task",
    ]
    parts += [f"{name} {value}" for name, value in config.options.items() if value is not None]
    parts += [f"order {config.order}"] if config.order is not None else []
    parts += [f"images {config.image_size}x{config.image_size}"] if config.image_size else []
    parts += ["unseen classes masked"] if config.mask_unseen else []
    parts += (
        [f"boundaries {config.boundaries} ({config.blur:g})"]
        if config.boundaries != "sharp"
        else []
    )
    parts += [f"patience {config.patience}"] if config.patience else []
    parts += [config.precision] if config.precision != "default" else []
    parts += ["channels last"] if config.channels_last else []
    return ", ".join(parts)
