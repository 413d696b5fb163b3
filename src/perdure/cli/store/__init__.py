"""`perdure runs`: list, remove, archive and extract the runs of a store."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from ..._display import count_of
from ...record import InputError, RecordError
from ...record.group_names import format_order
from ...record.store import (
    extract_archive,
    find_stored_runs,
    finish_removals,
    list_stored_runs,
    remove_stored_run,
    write_archive,
)
from ...report.tables import TextTable
from ...strategies import resolve_strategy
from .._options import Flag, PathText, ScenarioName, StrategyName, TextFormat
from .._output import print_json, print_lines, print_stderr

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...record.store import StoredRun

__all__ = ["runs_app"]

runs_app = App(name="runs", help="List, remove, archive and extract recorded runs.")


@Parameter(name="*", group="Selection")
@dataclass(frozen=True, kw_only=True)
class SelectionOptions:
    """Which of the runs in a folder of runs.

    Attributes:
        status: Only runs of this status.
        strategy: Only runs of this strategy.
        scenario: Only runs of this scenario.
    """

    status: Literal["finished", "failed", "running", "interrupted"] | None = None
    strategy: StrategyName | None = None
    scenario: ScenarioName | None = None

    def select(self, runs: Sequence[StoredRun]) -> list[StoredRun]:
        """Return the runs that meet all conditions."""
        strategy = self.strategy and resolve_strategy(self.strategy)
        return [
            run
            for run in runs
            if self.status in (None, run.state)
            and strategy in (None, run.strategy)
            and self.scenario in (None, run.scenario)
        ]


EVERY = SelectionOptions()


@runs_app.command(name="list")
def list_(
    store: Path = Path("runs"),
    *,
    selection: SelectionOptions = EVERY,
    sort: Literal["name", "size", "time"] = "name",
    format_: TextFormat = "text",
) -> None:
    """List the runs in a folder with their status and what each takes on disk.

    Args:
        store: Folder in which runs are stored.
        selection: Which runs.
        sort: Sort by name, or by size or time with the largest or newest last.
        format_: Output format.
    """
    runs = selection.select(list_stored_runs(store))
    keys: dict[str, Callable[[StoredRun], tuple[object, ...]]] = {
        "name": lambda run: (run.name,),
        "size": lambda run: (run.size, run.name),
        "time": lambda run: (run.changed_at, run.name),
    }
    runs.sort(key=keys[sort])
    if format_ == "json":
        print_json({"runs": [_as_dict(run) for run in runs], "size": sum(r.size for r in runs)})
        return
    if runs:
        _make_table(runs).show(sys.stdout)
    print_lines(*([""] if runs else []), _total(runs))


@runs_app.command
def rm(
    *runs: PathText,
    selection: SelectionOptions = EVERY,
    all_: Annotated[bool, Parameter("--all", negative="", show_default=False)] = False,
    yes: Flag = False,
) -> int:
    """Delete run folders, after asking.

    `perdure runs rm runs --status failed` deletes the failed runs in a folder of runs. A run that
    is running is not deleted, nor anything that is not a run folder; links are not followed. A run
    is either there or deleted as a whole, also after an interruption.

    Args:
        runs: Run folders, patterns, or a folder of runs together with a selection.
        selection: Which runs of a folder of runs.
        all_: All runs of a folder of runs.
        yes: Do not ask, for scripts.
    """
    if not runs:
        raise InputError("nothing to delete; name run folders, or a folder of runs and --status")
    targets = selection.select(find_stored_runs(runs, stores=all_ or selection != EVERY))
    running = [run for run in targets if run.state == "running"]
    targets = [run for run in targets if run not in running]
    for run in running:
        print_stderr(f"{run.path}: is running, so it is not deleted; stop it first")
    if targets and not (yes or _confirm(targets)):
        print_stderr("nothing was deleted")
        return 1
    failed = _remove(targets)
    deleted = [run for run in targets if run not in failed]
    print_lines(f"deleted {_total(deleted)}")
    return 1 if failed or running else 0


@runs_app.command
def archive(
    *runs: PathText,
    output: Annotated[Path, Parameter(("--output", "-o"))],
    selection: SelectionOptions = EVERY,
    force: Flag = False,
) -> int:
    """Write runs into one ZIP file; `perdure runs extract` reads it.

    The runs stay where they are. Runs that are running are left out.

    Args:
        runs: Run folders, folders of runs, or patterns.
        output: File to write.
        selection: Which runs.
        force: Replace the file if it exists.
    """
    if not runs:
        raise InputError("nothing to archive; name run folders, or a folder of runs")
    targets = selection.select(find_stored_runs(runs, stores=True))
    for run in targets:
        if run.state == "running":
            print_stderr(f"{run.path}: is running, so it is left out")
    targets = [run for run in targets if run.state != "running"]
    if not targets:
        raise InputError("no run is left to archive")
    with _ProgressLine("archiving", _total(targets), sum(run.size for run in targets)) as progress:
        write_archive([run.path for run in targets], output, overwrite=force, on_bytes=progress.add)
    print_lines(f"{output}: {count_of(len(targets), 'run')}, {format_size(output.stat().st_size)}")
    return 0


@runs_app.command
def extract(file: Path, *, store: Path = Path("runs")) -> None:
    """Extract the runs of an archive into a folder of runs, where they can be scored.

    A run that is there already is not replaced. Nothing outside of the folder is written.

    Args:
        file: ZIP file that `perdure runs archive` has written.
        store: Folder in which runs are stored.
    """
    with _ProgressLine("extracting", str(file), 0) as progress:
        folders = extract_archive(file, store, on_bytes=progress.add)
    print_lines(
        f"extracted {count_of(len(folders), 'run')}:", *(f"  {folder}" for folder in folders)
    )


def format_size(size: int) -> str:
    """Return a number of bytes for people.

    Example:
        >>> format_size(4096), format_size(2_500_000)
        ('4.1 kB', '2.5 MB')
    """
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def _make_table(runs: Sequence[StoredRun]) -> TextTable:
    columns = {
        "run": [run.name for run in runs],
        "status": [run.state for run in runs],
        "on disk": [format_size(run.size) for run in runs],
        "last written": [_format_time(run.changed_at) for run in runs],
    }
    if any(run.order for run in runs):
        columns["task order"] = [format_order(run.order) for run in runs]
    if not all(run.name.startswith(f"{run.scenario}-{run.strategy}-s{run.seed}") for run in runs):
        columns |= {
            "scenario": [run.scenario for run in runs],
            "strategy": [run.strategy for run in runs],
            "seed": ["" if run.seed is None else str(run.seed) for run in runs],
        }
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    return TextTable(list(columns), rows, right={"seed", "on disk"})


def _as_dict(run: StoredRun) -> dict[str, object]:
    return {
        "name": run.name, "path": str(run.path), "scenario": run.scenario,
        "strategy": run.strategy, "seed": run.seed, "task_order": run.order, "status": run.state,
        "changed_at": run.changed_at, "size": run.size,
    }  # fmt: skip


def _total(runs: Sequence[StoredRun]) -> str:
    return f"{count_of(len(runs), 'run')}, {format_size(sum(run.size for run in runs))}"


def _format_time(seconds: float) -> str:
    """Return a time as `ls` does: with the year instead of the hour if it is not this year."""
    when, now = datetime.fromtimestamp(seconds), datetime.now()  # noqa: DTZ005, DTZ006
    return when.strftime("%b %d %H:%M" if when.year == now.year else "%b %d  %Y") if seconds else ""


def _confirm(runs: Sequence[StoredRun]) -> bool:
    if not sys.stdin.isatty():
        raise InputError(f"deleting {_total(runs)} needs an answer; add --yes in scripts")
    _make_table(runs).show(sys.stdout)
    sys.stdout.write(f"\nDelete {_total(runs)}? [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _remove(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """Return the runs that could not be deleted, each with a line that says why."""
    failed = []
    for run in runs:
        try:
            remove_stored_run(run.path)
        except (InputError, RecordError, OSError) as error:
            print_stderr(str(error))
            failed.append(run)
    for store in {run.path.parent for run in runs}:
        if count := finish_removals(store):
            print_stderr(f"note: interrupted before and finished now: {count_of(count, 'removal')}")
    return failed


class _ProgressLine:
    """A line on standard error that says how far a copy is; in a pipe, once."""

    def __init__(self, what: str, subject: str, total: int) -> None:
        self._what, self._subject, self._total = what, subject, total
        self._done, self._shown = 0, -1

    def add(self, size: int) -> None:
        if not self._done:  # what is refused before the first byte has only its own line
            print_stderr(f"{self._what} {self._subject}")
        self._done += size
        step = self._done >> 23  # every 8 MiB
        if sys.stderr.isatty() and step != self._shown:
            self._shown = step
            of = f" of {format_size(self._total)}" if self._total else ""
            sys.stderr.write(f"\r{self._what}: {format_size(self._done)}{of}\x1b[K")
            sys.stderr.flush()

    def __enter__(self) -> _ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown >= 0:
            sys.stderr.write("\r\x1b[K")
