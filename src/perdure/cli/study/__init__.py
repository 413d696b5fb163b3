"""`perdure study`: many runs from one file, and their tables."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from ...record import InputError
from ...report.tables.study import study_tables, study_to_dict
from .._option_groups import DEFAULT_EXECUTION_OPTIONS, ExecutionOptions
from .._options import Flag, MetricIds, TableFormat, TextFormat, require_training
from .._output import (
    print_json,
    print_lines,
    print_section,
    print_stderr,
    print_tables,
    print_wrapped,
    render_options,
)
from .._progress import StudyProgressView, format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...report.tables import TextTable
    from ...studies import Study, StudyStatus

__all__ = ["render_failures", "run_with_progress", "study_app"]

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
        _print_runs(study, store, execution, format_, measure=estimate)
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
    _print_report(study, store, status, format_, [])
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
    counts = _format_counts(
        status.finished, status.searched, len(running), len(status.failed), waiting
    )
    print_lines(f"{study.name}: {counts}")
    if status.undecided:
        print_lines(f"{len(status.undecided)} of {len(study.cells)} cells wait for their search")
    for name in running:
        print_lines(f"running: {name}")
    for name, error in render_failures(status).items():
        print_lines(f"failed: {name}: {error}")
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
    _print_report(study, store, status, format_, metrics or [], ids=ids)
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


def _format_counts(
    done: int, searched: int, running: int = 0, failed: int = 0, waiting: int = 0
) -> str:
    """Return the number of runs per state as text; they add up to the total.

    Example:
        >>> _format_counts(5, 2, 1, 0, 3)
        '5 of 9 runs done (2 of them in the search), 1 running, 0 failed, 3 waiting'
    """
    search = f" ({searched} of them in the search)" if searched else ""
    total = done + running + failed + waiting
    rest = f"{running} running, {failed} failed, {waiting} waiting"
    return f"{done} of {total} runs done{search}, {rest}"


def _print_runs(
    study: Study, store: Path, options: ExecutionOptions, format_: str, *, measure: bool
) -> None:
    """Print the runs of a study: which are done and, if measured, how long the others take."""
    from ... import execution, studies

    if measure:
        require_training()
        print_stderr("measuring a few steps of each kind of run")
    runs = studies.estimate_runs(
        study, store, retry_failed=options.retry_failed, measure=measure,
        on_measure=lambda cell: None if format_ == "json" else print_stderr(f"measuring {cell}"),
    )  # fmt: skip
    total = sum(run.seconds or 0.0 for run in runs)
    if format_ == "json":
        plain = [{**run._asdict(), "done": run.state == "done"} for run in runs]
        print_json({"runs": plain, "seconds": total if measure else None})
        return
    for run in runs:
        timed = run.state == "waiting" and measure
        print_lines(f"{run.folder}  {format_seconds(run.seconds) if timed else run.state}")
    max_parallel = options.jobs or execution.default_max_parallel(1)
    count = Counter(run.state for run in runs)
    duration = (
        f"about {format_seconds(total)} one after the other, "
        f"{format_seconds(total / max_parallel)} with {max_parallel} in parallel"
        if measure
        else "--estimate measures how long they take"
    )
    print_lines(
        f"{len(runs)} runs: {count['done']} done, {count['failed']} failed, "
        f"{count['waiting']} to do; {duration}"
    )


def _print_report(
    study: Study,
    store: Path,
    status: StudyStatus,
    format_: str,
    metrics: list[str],
    *,
    ids: bool = False,
) -> None:
    from ... import studies

    rows = studies.build_rows(study, status)
    tables = study_tables(rows, metrics, together=format_ in ("latex", "csv"))
    searched = any(selection.trials for selection in status.selections.values())
    checks = studies.check_guidelines(rows, study.select.on if searched else None)
    if format_ == "json":
        plain = study_to_dict(study, rows, status, checks)
        print_json(plain | {"failed": render_failures(status)})
        return
    if format_ in ("latex", "csv"):
        print_tables(tables, format_, ids=ids)
        return
    print_wrapped(f"{study.name}: {study.about}".rstrip(": "), "  ", format_)
    print_tables(tables, format_)
    print_lines("")
    over = "seeds" if study.orders is None else "task orders and seeds"
    print_wrapped(f"mean ± SD over {over}; `perdure explain ID` prints a definition", "", format_)
    for row in rows:
        if spread := row.describe_orders((metrics or ["acc"])[0]):
            print_wrapped(spread, "  ", format_)
    print_lines()
    mark = "- " if format_ == "markdown" else "  "
    selected = [f"{mark}{row.cell}: {row.selected}" for row in rows if row.selected]
    if selected:
        data = "the test set" if study.select.on == "test" else "validation data"
        print_section(f"selected by {study.select.metric} on {data}:", selected, format_)
    if status.failed:
        errors = [f"{mark}{name}: {error}" for name, error in render_failures(status).items()]
        print_section("failed:", errors, format_)
    if status.remaining:
        text = f"not finished: {status.remaining} runs; `perdure study run` resumes them"
        print_section(text, [], format_)
    lines = [f"{mark}{'met' if check.met else 'not met'}: {check}" for check in checks]
    print_section("reporting guidelines:", lines, format_)
    print_lines(f"runs: {store}")


def render_failures(status: StudyStatus) -> dict[str, str]:
    """Return the errors of failed runs by the name of the run."""
    return {folder.name: render_options(error) for folder, error in status.failed.items()}
