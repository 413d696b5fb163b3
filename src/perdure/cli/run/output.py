"""What `perdure run` prints."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

from ..._display import count_of
from ...api.run_notes import list_replicates
from ...metrics import RunsSummary
from ...metrics.runs import describe_components
from ...record import RunFolder
from ...record.group_names import count_replicates, format_order, format_seeds
from ...report.tables import make_headline_table, make_task_table
from ...training.config import count_tasks
from .._output import print_lines, print_stderr, print_wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ...api.runs import RunResult
    from ...execution import Job
    from ...metrics import Summary
    from ...training import RunConfig

__all__ = ["describe_config", "print_failures", "print_plan", "print_result"]

MAX_FOLDERS = 10  # listed by --dry-run


def print_result(result: RunResult, summary: Summary | RunsSummary) -> None:
    """Print the tables of finished runs, and where they are recorded."""
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


def print_plan(configs: Sequence[RunConfig], store: Path) -> None:
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


def print_failures(failed: Sequence[Job]) -> None:
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
