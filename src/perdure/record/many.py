"""Many run folders at once, as tables for SQL: DuckDB reads the files, our readers the odd ones.

DuckDB takes for whole what may be half a line, and for a number what is none. So files are looked
through and judged when they are opened. Those that it would read otherwise than `read_input`
does, and those that may still grow, are read by our own readers, once, and held.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ._many_files import Run, find, look, read, texts
from ._many_sql import COLUMNS, JUDGE, REJECTED, REQUIRED, TABLES, VIEWS, holding, scan, view
from .io.text import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from duckdb import DuckDBPyConnection, DuckDBPyRelation

    from ._many_files import Columns, Pattern

__all__ = ["Runs", "open_runs"]

BATCH = 200_000  # rows that wait in NumPy until DuckDB takes them


class Runs:
    """Many runs as tables; `skipped` says why a match is none of them, `notes` what was left out.

    Relations are lazy: each query reads the files of finished runs anew. Unfinished runs are held
    as they stood when they were opened. `connection` is DuckDB's, for all that is not offered here.
    """

    def __init__(
        self,
        connection: DuckDBPyConnection,
        folders: Sequence[Path],
        skipped: Mapping[str, str],
        notes: Sequence[str],
    ) -> None:
        self.connection = connection
        self.folders = tuple(folders)
        self.skipped = dict(skipped)
        self.notes = tuple(notes)

    def __len__(self) -> int:
        return len(self.folders)

    def __iter__(self) -> Iterator[Path]:
        return iter(self.folders)

    def __repr__(self) -> str:
        return f"Runs({len(self)} folders, {len(self.skipped)} skipped, {len(self.notes)} notes)"

    @property
    def points(self) -> DuckDBPyRelation:
        """Every evaluation: run, step, trained, tested, kind, score, n; NULL where not stated."""
        return self.connection.view("points")

    @property
    def costs(self) -> DuckDBPyRelation:
        """What each task cost: run, task and the rest of costs.csv; NULL where not measured."""
        return self.connection.view("costs")

    @property
    def gradients(self) -> DuckDBPyRelation:
        """Norms of the gradient's two terms: run, step, trained, plasticity, stability."""
        return self.connection.view("gradients")

    @property
    def descriptions(self) -> DuckDBPyRelation:
        """What ran: run, finished (NULL for a folder that does not say), description (JSON)."""
        return self.connection.view("runs")

    def query(self, sql: str) -> DuckDBPyRelation:
        """Return the answer to SQL over the views points, costs, gradients, runs, final, acc."""
        return self.connection.sql(sql)

    def final(self) -> DuckDBPyRelation:
        """Return each run's matrix, a row an entry: run, trained, tested, score, n, kind.

        The last whole set of a task while another was trained, or the last probe; of an unfinished
        run, the tasks that have ended. A run that `read_input` finds no matrix in has no rows.
        """
        return self.connection.view("final")

    def acc(self) -> DuckDBPyRelation:
        """Return run, tasks, acc of every run; NULL where `perdure score` says undefined."""
        return self.connection.view("acc")


def open_runs(pattern: Pattern | Iterable[Pattern]) -> Runs:
    r"""Return the runs in all folders that a pattern matches, or several patterns or paths.

    Raises InputError for a broken line, naming file and line, and where there is no run at all.

    Example:
        >>> import tempfile
        >>> store = Path(tempfile.mkdtemp())
        >>> for seed in (1, 2):
        ...     (store / f"s{seed}").mkdir()
        ...     lines = f"step,trained,tested,score\n1,a,a,0.{seed}\n2,a,a,0.7{seed}\n"
        ...     _ = (store / f"s{seed}" / "points.csv").write_text(lines)
        >>> runs = open_runs(store / "*")
        >>> len(runs), runs.query("SELECT min(score), max(step) FROM points").fetchall()
        (2, [(0.1, 2)])
        >>> [acc for _, _, acc in runs.acc().fetchall()]
        [0.71, 0.72]
    """
    try:
        import duckdb
    except ImportError:
        raise InputError(
            "duckdb is not installed, expected it for reading many runs at once; "
            "pip install 'perdure[train]'"
        ) from None
    try:
        runs, skipped = find(pattern)
        connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
        for statement in TABLES:
            connection.execute(statement)
        _describe(connection, runs)
        notes = [note for table in COLUMNS for note in _load(connection, table, runs)]
    except OSError as error:
        what = (error.strerror or "cannot be read").lower()
        raise InputError(f"{error.filename}: {what}") from None
    for statement in VIEWS:
        connection.execute(statement)
    growing = sum(run.finished is False for run in runs)
    if growing:
        notes.append(f"{growing} of {len(runs)} runs are unfinished: held as they stood")
    return Runs(connection, [run.folder for run in runs], skipped, notes)


def _describe(connection: DuckDBPyConnection, runs: Sequence[Run]) -> None:
    rows = {
        "run": texts(str(run.folder) for run in runs),
        "finished": texts(run.finished for run in runs),
        "description": texts(run.description for run in runs),
    }
    _take(connection, "INSERT INTO held.runs FROM rows", rows)


def _load(connection: DuckDBPyConnection, table: str, runs: Sequence[Run]) -> list[str]:
    """Make the view of one file of all runs, and return notes on what was left out."""
    owners, alike, ours = _sort(table, runs)
    _take(
        connection,
        "INSERT INTO held.files FROM rows",
        {
            "file": texts(owners),
            "run": texts(str(run.folder) for run in owners.values()),
            "low": np.array([run.scale.low for run in owners.values()], dtype=np.float64),
            "high": np.array([run.scale.high for run in owners.values()], dtype=np.float64),
        },
    )
    sources = [f"FROM held.{table}"]
    for header, paths in alike.items():
        fit = _fit(connection, table, header, paths)
        ours += [path for path in paths if path not in fit]
        if fit:
            variable = f"{table}_{len(sources)}"
            connection.execute(f"SET VARIABLE {variable} = ?", [sorted(fit)])
            sources.append(scan(table, header, variable))
    notes = _hold(connection, table, {path: owners[path] for path in ours})
    connection.execute(view(table, sources))
    return notes


def _sort(
    table: str, runs: Sequence[Run]
) -> tuple[dict[str, Run], dict[tuple[str, ...], list[str]], list[str]]:
    """Return whose each file is, files for DuckDB by their header, and files for our reader."""
    owners: dict[str, Run] = {}
    alike: dict[tuple[str, ...], list[str]] = {}
    ours: list[str] = []
    for run in runs:
        path = run.folder.absolute() / f"{table}.csv"
        if table != "points" and not path.is_file():
            continue
        glance = run.points if table == "points" else look(path)
        if not glance.has_lines:
            continue
        owners[str(path)] = run
        names = set(glance.header)
        known = len(names) == len(glance.header) and REQUIRED[table] <= names <= set(COLUMNS[table])
        pattern = any(mark in str(path) for mark in "*?[")  # DuckDB would read all that matches
        growing = run.finished is False
        if known and glance.plain and table in JUDGE and not pattern and not growing:
            alike.setdefault(glance.header, []).append(str(path))
        else:
            ours.append(str(path))
    return owners, alike, ours


def _fit(
    connection: DuckDBPyConnection, table: str, header: Sequence[str], paths: Sequence[str]
) -> set[str]:
    """Return the files that DuckDB reads as our reader does."""
    import duckdb

    try:
        connection.execute("SET VARIABLE judged = ?", [paths])
        lines = scan(table, header, "judged", as_text=True)
        connection.execute(f"CREATE OR REPLACE TEMP VIEW lines AS {lines}")
        fit = {path for (path,) in connection.execute(JUDGE[table]).fetchall()}
        fit -= {path for (path,) in connection.execute(REJECTED).fetchall()}
        connection.execute("DROP TABLE reject_errors; DROP TABLE reject_scans; DROP VIEW lines")
    except (duckdb.InvalidInputException, duckdb.IOException):  # our reader finds which, and why
        return set()
    return fit


def _hold(connection: DuckDBPyConnection, table: str, ours: Mapping[str, Run]) -> list[str]:
    """Give DuckDB what our own readers read, to keep; return their warnings."""
    notes: list[str] = []
    waiting: list[Columns] = []
    rows = 0
    for at, (path, run) in enumerate(ours.items(), start=1):
        columns, warning = read(table, Path(path), run)
        notes += [warning] if warning else []
        count = len(next(iter(columns.values())))
        waiting.append({"file": texts([path] * count), **columns})
        rows += count
        if rows >= BATCH or at == len(ours):
            names = waiting[0]
            joined = {name: np.concatenate([part[name] for part in waiting]) for name in names}
            _take(connection, holding(table), joined)
            waiting, rows = [], 0
    return notes


def _take(connection: DuckDBPyConnection, sql: str, rows: Columns) -> None:
    connection.register("rows", rows)
    connection.execute(sql)
    connection.unregister("rows")
