"""What the commands of a study print."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ...report.tables.study import study_tables, study_to_dict
from .._options import require_training
from .._output import (
    print_json,
    print_lines,
    print_section,
    print_stderr,
    print_tables,
    print_wrapped,
    render_options,
)
from .._progress import format_seconds

if TYPE_CHECKING:
    from pathlib import Path

    from ...studies import Study, StudyStatus
    from .._options import ExecutionOptions

__all__ = ["format_counts", "print_report", "print_runs", "render_failures"]


def format_counts(
    done: int, searched: int, running: int = 0, failed: int = 0, waiting: int = 0
) -> str:
    """Return the number of runs per state as text; they add up to the total.

    Example:
        >>> format_counts(5, 2, 1, 0, 3)
        '5 of 9 runs done (2 of them in the search), 1 running, 0 failed, 3 waiting'
    """
    search = f" ({searched} of them in the search)" if searched else ""
    total = done + running + failed + waiting
    rest = f"{running} running, {failed} failed, {waiting} waiting"
    return f"{done} of {total} runs done{search}, {rest}"


def print_runs(
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


def print_report(
    study: Study,
    store: Path,
    status: StudyStatus,
    format_: str,
    metrics: list[str],
    *,
    ids: bool = False,
) -> None:
    """Print the tables of a study, what was selected, what failed, and the guidelines met."""
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
        errors = [
            f"{mark}{folder.name}: {render_options(error)}"
            for folder, error in status.failed.items()
        ]
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
