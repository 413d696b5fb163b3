"""`perdure study`: many runs from one file, and their tables."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from ...record import InputError
from ...report.tables.study import study_tables
from .._options import (
    DEFAULT_EXECUTION_OPTIONS,
    ExecutionOptions,
    Flag,
    MetricIds,
    TableFormat,
    TextFormat,
    require_training,
)
from .._output import (
    print_json,
    print_lines,
    print_stderr,
    render_options,
)
from .._progress import StudyProgressView
from .output import format_counts, print_report, print_runs, render_failures

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...report.tables import TextTable
    from ...studies import Study, StudyStatus

__all__ = ["run_with_progress", "study_app"]

study_app = App(name="study", help="Run many runs from one file, and print their tables.")
Store = Annotated[Path, Parameter("--store")]


@study_app.command(name="run")
def run_(
    file: Path,
    *,
    store: Store = Path("runs"),
    execution: ExecutionOptions = DEFAULT_EXECUTION_OPTIONS,
    checkpoint_every: float = 120.0,
    dry_run: Flag = False,
    estimate: Flag = False,
    format_: TextFormat = "text",
) -> int:
    """Run the unfinished runs of a study, select hyperparameters, and print the tables.

    You can interrupt it at any time; the same command resumes. A run that fails is recorded and
    does not stop the others.

    Args:
        file: Study file (TOML); see docs/studies.md.
        store: Folder in which runs are stored.
        execution: How to execute the runs.
        checkpoint_every: Seconds between checkpoints of a run.
        dry_run: Print the runs and which of them are done, without running any.
        estimate: Print the runs and how long they take, measured on a few steps of each kind.
        format_: Output format.
    """
    from ... import studies, training

    study = studies.read_study(file)
    print_stderr(*(f"note: {note}" for note in study.notes))
    if dry_run or estimate:
        print_runs(study, store, execution, format_, measure=estimate)
        return 0
    require_training()
    _check_execution(execution)
    status = studies.study_status(study, store)
    if execution.ray is None:  # nodes of a cluster may have devices that this machine lacks
        for device in {config.device for _, config in status.planned}:
            training.resolve_device(device)
    if status.waiting or status.undecided:  # missing data is an error before anything starts
        for config in {config.scenario: config for _, config in status.planned}.values():
            training.load_provenance(config)
    status = run_with_progress(
        study, store, status, execution, show=format_ != "json",
        checkpoint_every=checkpoint_every,
    )  # fmt: skip
    print_report(study, store, status, format_, [])
    return 0 if status.successful else 1


@study_app.command(name="status")
def status_(file: Path, *, store: Store = Path("runs"), format_: TextFormat = "text") -> int:
    """Print how many runs of a study are done, running, failed and waiting.

    Args:
        file: Study file (TOML).
        store: Folder in which runs are stored.
        format_: Output format.
    """
    from ... import studies

    study = studies.read_study(file)
    status = studies.study_status(study, store)
    running = [folder.name for folder in status.running]
    waiting = status.remaining - len(running)
    if format_ == "json":
        plain = {
            "total": status.total, "done": status.finished, "searched": status.searched,
            "failed": render_failures(status),
            "running": running, "waiting": waiting, "undecided": len(status.undecided),
        }  # fmt: skip
        print_json(plain)
        return 0
    counts = format_counts(
        status.finished, status.searched, len(running), len(status.failed), waiting
    )
    print_lines(f"{study.name}: {counts}")
    if status.undecided:
        print_lines(f"{len(status.undecided)} of {len(study.cells)} cells wait for their search")
    for name in running:
        print_lines(f"running: {name}")
    for folder, error in status.failed.items():
        print_lines(f"failed: {folder.name}: {render_options(error)}")
    return 0


@study_app.command
def report(
    file: Path,
    *,
    store: Store = Path("runs"),
    metrics: MetricIds | None = None,
    format_: TableFormat = "text",
    ids: Flag = False,
) -> int:
    """Print the tables of the finished runs, the selected hyperparameters and the guidelines met.

    Args:
        file: Study file (TOML).
        store: Folder in which runs are stored.
        metrics: Metrics to print: ids, or a pattern such as 'forgetting.*'.
        format_: Output format. LaTeX tables use booktabs and the symbols of metrics.
        ids: In LaTeX, print the ids of metrics instead of their symbols.
    """
    from ... import studies

    study = studies.read_study(file)
    status = studies.study_status(study, store)
    print_report(study, store, status, format_, metrics or [], ids=ids)
    return 0


def run_with_progress(
    study: Study,
    store: Path,
    before: StudyStatus,
    options: ExecutionOptions,
    *,
    show: bool,
    checkpoint_every: float = 120.0,
) -> StudyStatus:
    """Run a study, show its progress, and return its status."""
    from ... import execution, studies

    _check_execution(options)
    execute: Callable[..., None] = partial(
        execution.run_in_processes, max_parallel=options.jobs, retries=1
    )
    max_parallel = options.jobs or execution.default_max_parallel(1)
    if options.serial:
        execute, max_parallel = execution.run_serially, 1
    elif options.ray is not None:
        execute = partial(
            execution.run_on_ray, address=options.ray, gpus_per_run=options.gpus_per_run
        )

    def make_tables() -> Sequence[TextTable]:
        status = studies.study_status(study, store, before)  # a run is summarized once
        return study_tables(studies.build_rows(study, status))

    with StudyProgressView(before, max_parallel, make_tables, show=show) as progress:
        return studies.run_study(
            study, store, execute, progress.on_event, on_round=progress.on_round,
            retry_failed=options.retry_failed, restart=options.restart, force=options.force,
            checkpoint_every=checkpoint_every,
        )  # fmt: skip


def _check_execution(options: ExecutionOptions) -> None:
    if sum((options.serial, options.ray is not None, options.jobs is not None)) > 1:
        raise InputError("--serial, --jobs and --ray exclude each other; give one")
    if options.ray is not None and not options.gpus_per_run > 0:
        raise InputError(
            f"--gpus-per-run is {options.gpus_per_run:g}, expected a share of a GPU like .25"
        )
