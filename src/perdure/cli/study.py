"""`perdure study`: hundreds of runs from one file, and their tables."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from ..record import InputError, is_locked, load_summary, read_json
from ..report.tables.study import StudyRow, guidelines, study_grids
from ._options import Flag, MetricIds, PositiveInt, TableFormat, TextFormat, require_training
from ._output import print_json, print_lines, print_stderr, print_tables
from ._study_known import recall, remember
from ._study_plan import dry_run as dry_run_
from ._study_view import StudyView

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..studies import Study, StudyStatus

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
    execute, at_once = executor(jobs, serial=serial, ray=ray, gpus_per_run=gpus_per_run)
    before = studies.study_status(study, store)
    if ray is None:  # its nodes may have what this machine has not
        for device in {each.device for _, each in studies.plan_study(study, store)}:
            training.device_of(device)
    _fetch(study, before)
    found = show_study(
        study, store, execute, at_once, show=format_ != "json", retry=retry_failed,
        restart=restart, force=force,
        checkpoint_every=checkpoint_every,
    )  # fmt: skip
    remember(file, store, study, found)
    _report(study, store, found, format_, [])
    return 0 if found.whole else 1


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
    running = [folder.name for folder in found.waiting if is_locked(folder)]
    searched = found.finished - len({each for folders in found.done.values() for each in folders})
    waiting = len(found.waiting) - len(running) + found.later
    if format_ == "json":
        said = {
            "total": found.total, "done": found.finished, "searched": searched,
            "failed": {folder.name: error for folder, error in found.failed.items()},
            "running": running, "waiting": waiting, "undecided": len(found.undecided),
        }  # fmt: skip
        print_json(said)
        return 0
    counts = _counts(found.finished, searched, len(running), len(found.failed), waiting)
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
    side_by_side = partial(execution.run_in_processes, most=jobs, retries=1)
    return side_by_side, jobs or execution.default_max_parallel(1)


def show_study(
    study: Study,
    store: Path,
    execute: Callable[..., None],
    at_once: int,
    *,
    show: bool,
    **how: Any,
) -> StudyStatus:
    """Run a study with a view of it, and return where it is then."""
    from .. import studies

    before = studies.study_status(study, store)
    tables = lambda: study_grids(_lines(study, studies.study_status(study, store)))  # noqa: E731
    view = StudyView(before, at_once, tables, show=show)
    try:
        with view:
            found: StudyStatus = studies.run_study(
                study, store, execute, view.told, planned=view.planned, **how
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
            training.data_of(scenario)


def _lines(study: Study, found: StudyStatus) -> list[StudyRow]:
    lines = []
    for cell in study.cells:
        folders = found.done[cell]
        choice = found.selections.get(cell)
        note = "" if choice is None or not choice.trials else _chosen(choice.point)
        described = [_described(folder) for folder in folders]
        data = [_data_of(said) for said in described]
        scores = [load_summary(folder) for folder in folders]
        networks = [_network_of(said) for said in described]
        lines.append(StudyRow(*cell, len(study.seed_list), scores, data, note, networks))
    return lines


def _chosen(point: dict[str, Any] | None) -> str:
    if point is None:
        return "no point of the grid has a score"
    return ", ".join(f"{name} = {value}" for name, value in point.items())


def _data_of(said: dict[str, Any]) -> str:
    """Return in words what a run learned from: data, order of classes, sizes of tasks."""
    data = said.get("data")
    used = sorted(data.items()) if isinstance(data, dict) else []
    hashes = [f"{name} {each.get('sha256')}" for name, each in used if isinstance(each, dict)]
    return f"order {said.get('order')}, {said.get('examples')}, {', '.join(hashes)}"


def _network_of(said: dict[str, Any]) -> str:
    """Return in words what a run's network is."""
    options = said.get("model_options")
    options = options if isinstance(options, dict) else {}
    return " ".join([str(said.get("model")), *(f"{k}={v}" for k, v in sorted(options.items()))])


def _described(folder: Path) -> dict[str, Any]:
    """Return what run.json says of the run."""
    plain = read_json(folder / "run.json")
    said = plain.get("config") if isinstance(plain, dict) else None
    return said if isinstance(said, dict) else {}


def _report(study: Study, store: Path, found: StudyStatus, format_: str, ids: list[str]) -> None:
    lines = _lines(study, found)
    grids = study_grids(lines, ids, together=format_ in ("latex", "csv"))
    chosen_on = study.select.on if any(c.trials for c in found.selections.values()) else None
    judged = guidelines(lines, chosen_on)
    if format_ == "json":
        print_json(_as_json(study, lines, found, judged))
        return
    if format_ in ("latex", "csv"):
        print_tables(grids, format_)
        return
    print_lines(f"{study.name}: {study.about}".rstrip(": "))
    print_tables(grids, format_)
    print_lines("", "mean ± SD over seeds; `perdure explain ID` has each definition", "")
    mark = "- " if format_ == "markdown" else "  "
    notes = [f"{_name(line)}: {line.note}" for line in lines if line.note]
    if notes:
        by = f"by {study.select.by} on {'the test set' if chosen_on == 'test' else 'held-out data'}"
        print_lines(f"chosen {by}:", *(f"{mark}{note}" for note in notes), "")
    if found.failed:
        said = [f"{mark}{folder.name}: {why}" for folder, why in found.failed.items()]
        print_lines("failed:", *said, "")
    if found.waiting or found.undecided:
        left = len(found.waiting) + found.later
        print_lines(f"not finished: {left} runs; `perdure study run` goes on", "")
    print_lines("reporting guidelines:")
    for met, what in judged:
        print_lines(f"{mark}{'met' if met else 'not met'}: {what}")
    print_lines("", f"runs: {store}")


def _name(line: StudyRow) -> str:
    return " ".join(part for part in line[:5] if part)


def _as_json(
    study: Study, lines: list[StudyRow], found: StudyStatus, judged: Any
) -> dict[str, Any]:
    return {
        "study": study.name,
        "cells": [
            {
                "scenario": line.scenario, "setting": line.setting, "model": line.model,
                "strategy": line.strategy, "variant": line.variant, "wanted": line.wanted,
                "chosen": line.note, "runs": [run._asdict() for run in line.runs],
            }
            for line in lines
        ],
        "failed": {folder.name: error for folder, error in found.failed.items()},
        "waiting": [folder.name for folder in found.waiting],
        "undecided": [str(cell) for cell in found.undecided],
        "guidelines": [{"met": met, "what": what} for met, what in judged],
    }  # fmt: skip
