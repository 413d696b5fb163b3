"""What `perdure run` prints."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

from ...api.run_notes import list_replicates
from ...metrics import RunsSummary
from ...metrics.runs import describe_components
from ...record.group_names import count_replicates
from ...report.tables import make_headline_table, make_task_table
from .._output import print_lines, print_stderr, print_wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...api.runs import RunResult
    from ...execution import Job
    from ...metrics import Summary
    from ...training import RunConfig

__all__ = ["describe_config", "print_failures", "print_result"]


def print_result(result: RunResult, summary: Summary | RunsSummary) -> None:
    """Print the tables of finished runs, and where they are recorded."""
    config, count = result.configs[0], len(result.folders)
    replicates = [c.order_and_seed for c in result.configs]
    orders = len({order for order, _ in replicates})
    seeds = ("mean of " if count > 1 else "") + count_replicates(replicates)
    print_lines(f"{config.scenario}, {config.strategy}, {config.setting}-incremental, {seeds}")
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
        f"{count} {unit}{'' if count == 1 else 's'} per task",
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
    return ", ".join(parts)
