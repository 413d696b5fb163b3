"""`perdure study`: hundreds of runs from one file, and their tables."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from ..record import InputError
from ..report.tables.study import study_tables
from ._options import Flag, MetricIds, PositiveInt, TableFormat, TextFormat, require_training
from ._output import print_json, print_lines, print_stderr, print_tables
from ._study_known import recall, remember
from ._study_plan import dry_run as dry_run_
from ._study_view import StudyView

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..report.tables import TextTable
    from ..studies import GuidelineCheck, Study, StudyRow, StudyStatus

__all__ = ["executor", "show_study", "study_app"]

study_app = App(name="study", help="Run many runs from one file, and make their tables.")
Store = Annotated[Path, Parameter("--store")]


@study_app.command(name="run")
def run_(
    file: Path,
    *,
    store: Store = Path("runs"),
    jobs: PositiveInt | None = None,
    serial: Flag = False,
    ray: str | None = None,
    gpus_per_run: float = 1.0,
    retry_failed: Flag = False,
    restart: Flag = False,
    force: Flag = False,
    checkpoint_every: float = 120.0,
    dry_run: Flag = False,
    format_: TextFormat = "text",
) -> int:
    """Run what a study has not finished, choose where there is a grid, and print the tables.

    It can be stopped at any time: the same command goes on. A run that fails is written down and
    does not stop the others.

    Args:
        file: the study, a TOML file; docs/studies.md says what may stand in it.
        store: folder of the runs.
        jobs: runs side by side; as many as the cores hold if not given.
        serial: one run after the other, in this process.
        ray: `auto` starts Ray on this machine, an address joins a cluster.
        gpus_per_run: of a run on CUDA, with --ray: .25 lets four share one.
        retry_failed: run again what has failed.
        restart: start unfinished and failed runs from scratch; finished ones are kept.
        force: go on with unfinished runs though data or versions are others.
        checkpoint_every: seconds between two checkpoints of a run.
        dry_run: list the runs and about how long they take, measured on a few steps of each kind.
        format_: how to print the result.
    """
    require_training()
    from .. import studies, training

    study = studies.read_study(file)
    if dry_run:
        return dry_run_(study, store, jobs, retry=retry_failed, json=format_ == "json")
    execute, max_parallel = executor(jobs, serial=serial, ray=ray, gpus_per_run=gpus_per_run)
    before = studies.study_status(study, store)
    if ray is None:  # its nodes may have what this machine has not
        for device in {config.device for _, config in before.planned}:
            training.resolve_device(device)
    _fetch(study, before)
    found = show_study(
        study, store, execute, max_parallel, before, show=format_ != "json",
        retry_failed=retry_failed, restart=restart, force=force, checkpoint_every=checkpoint_every,
    )  # fmt: skip
    remember(file, store, study, found)
    _report(study, store, found, format_, [])
    return 0 if found.successful else 1


@study_app.command
def status(file: Path, *, store: Store = Path("runs"), format_: TextFormat = "text") -> int:
    """Print how far a study is: runs done, running, failed and waiting, and what was chosen.

    Args:
        file: the study.
        store: folder of the runs.
        format_: how to print the result.
    """
    if format_ != "json" and (known := recall(file, store)) is not None:
        print_lines(f"{file.stem}: {_counts(known['finished'], known['searched'])}")
        return 0
    require_training()
    from .. import studies

    study = studies.read_study(file)
    found = studies.study_status(study, store)
    running = [folder.name for folder in found.running]
    waiting = found.remaining - len(running)
    if format_ == "json":
        said = {
            "total": found.total, "done": found.finished, "searched": found.searched,
            "failed": {folder.name: error for folder, error in found.failed.items()},
            "running": running, "waiting": waiting, "undecided": len(found.undecided),
        }  # fmt: skip
        print_json(said)
        return 0
    counts = _counts(found.finished, found.searched, len(running), len(found.failed), waiting)
    print_lines(f"{study.name}: {counts}")
    if found.undecided:
        print_lines(f"{len(found.undecided)} of {len(study.cells)} cells wait for their search")
    for name in running:
        print_lines(f"running: {name}")
    for folder, error in found.failed.items():
        print_lines(f"failed: {folder.name}: {error}")
    return 0


def _counts(done: int, searched: int, running: int = 0, failed: int = 0, waiting: int = 0) -> str:
    """Return a study's runs by state in words; the states add up to the total.

    Example:
        >>> _counts(5, 2, 1, 0, 3)
        '5 of 9 runs done (2 of them of the search), 1 running, 0 failed, 3 waiting'
    """
    search = f" ({searched} of them of the search)" if searched else ""
    total = done + running + failed + waiting
    rest = f"{running} running, {failed} failed, {waiting} waiting"
    return f"{done} of {total} runs done{search}, {rest}"


@study_app.command
def report(
    file: Path,
    *,
    store: Store = Path("runs"),
    metrics: MetricIds | None = None,
    format_: TableFormat = "text",
) -> int:
    """Print the tables of what is finished, what was chosen, and which guidelines are met.

    Args:
        file: the study.
        store: folder of the runs.
        metrics: the metrics to print, by id.
        format_: how to print the tables; LaTeX uses booktabs.
    """
    require_training()
    from .. import studies

    study = studies.read_study(file)
    _report(study, store, studies.study_status(study, store), format_, metrics or [])
    return 0


def executor(
    jobs: int | None, *, serial: bool, ray: str | None, gpus_per_run: float
) -> tuple[Callable[..., None], int]:
    """Return who does the runs, and how many at a time."""
    from .. import execution

    if sum((serial, ray is not None, jobs is not None)) > 1:
        raise InputError("--serial, --jobs and --ray exclude each other; give one")
    if serial:
        return execution.run_serially, 1
    if ray is not None:
        if not gpus_per_run > 0:
            raise InputError(
                f"--gpus-per-run is {gpus_per_run:g}, expected a share of a GPU like .25"
            )
        on_ray = execution.run_on_ray
        return partial(
            on_ray, address=ray, gpus_per_run=gpus_per_run
        ), execution.default_max_parallel(1)
    side_by_side = partial(execution.run_in_processes, max_parallel=jobs, retries=1)
    return side_by_side, jobs or execution.default_max_parallel(1)


def show_study(
    study: Study,
    store: Path,
    execute: Callable[..., None],
    max_parallel: int,
    before: StudyStatus,
    *,
    show: bool,
    **how: Any,
) -> StudyStatus:
    """Run a study with a view of it, and return where it is then."""
    from .. import studies

    def tables() -> Sequence[TextTable]:
        status = studies.study_status(study, store, before)  # a run is summarised once
        return study_tables(studies.build_rows(study, status))

    view = StudyView(before, max_parallel, tables, show=show)
    try:
        with view:
            found: StudyStatus = studies.run_study(
                study, store, execute, view.on_event, on_round=view.planned, **how
            )
    except KeyboardInterrupt:
        print_stderr(
            f"interrupted; {view.ended['done']} runs are done. The same command goes on with the "
            "others from their last checkpoints"
        )
        raise
    return found


def _fetch(study: Study, before: StudyStatus) -> None:
    """Have the data at hand before anything starts: a missing pack is a mistake of now."""
    from .. import training

    if before.waiting or before.undecided:
        for scenario in study.scenarios:
            training.load_provenance(scenario)


def _report(study: Study, store: Path, status: StudyStatus, format_: str, ids: list[str]) -> None:
    from .. import studies

    rows = studies.build_rows(study, status)
    tables = study_tables(rows, ids, together=format_ in ("latex", "csv"))
    searched = any(selection.trials for selection in status.selections.values())
    checks = studies.check_guidelines(rows, study.select.on if searched else None)
    if format_ == "json":
        print_json(_as_json(study, rows, status, checks))
        return
    if format_ in ("latex", "csv"):
        print_tables(tables, format_)
        return
    print_lines(f"{study.name}: {study.about}".rstrip(": "))
    print_tables(tables, format_)
    print_lines("", "mean ± SD over seeds; `perdure explain ID` prints a definition", "")
    mark = "- " if format_ == "markdown" else "  "
    selected = [f"{mark}{row.cell}: {row.selected}" for row in rows if row.selected]
    if selected:
        data = "the test set" if study.select.on == "test" else "validation data"
        print_lines(f"selected by {study.select.metric} on {data}:", *selected, "")
    if status.failed:
        errors = [f"{mark}{folder.name}: {error}" for folder, error in status.failed.items()]
        print_lines("failed:", *errors, "")
    if status.remaining:
        print_lines(f"not finished: {status.remaining} runs; `perdure study run` resumes them", "")
    print_lines("reporting guidelines:")
    for check in checks:
        print_lines(f"{mark}{'met' if check.met else 'not met'}: {check}")
    print_lines("", f"runs: {store}")


def _as_json(
    study: Study,
    rows: Sequence[StudyRow],
    status: StudyStatus,
    checks: Sequence[GuidelineCheck],
) -> dict[str, object]:
    return {
        "study": study.name,
        "cells": [
            {
                **row.cell._asdict(), "seeds": row.seeds, "selected": row.selected,
                "runs": [run._asdict() for run in row.runs],
            }
            for row in rows
        ],
        "failed": {folder.name: error for folder, error in status.failed.items()},
        "waiting": [folder.name for folder in status.waiting],
        "undecided": [str(cell) for cell in status.undecided],
        "guidelines": [
            {"guideline": check.guideline, "met": check.met, "violations": list(check.violations)}
            for check in checks
        ],
    }  # fmt: skip
