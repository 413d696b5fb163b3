"""MLflow: the SQLite database of a tracking store, read without mlflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...record import InputError
from ...record.io.text import visible
from ..files import find_files
from .database import is_database, open_database, query
from .rows import TrackerRow, make_run

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from pathlib import Path

    from ..imported import ImportedRun
    from ..options import ImportOptions

__all__ = ["read", "recognize"]

TABLES = ("runs", "metrics", "params")
MAX_RUNS = 10_000
FILE_STORE = (
    "a file store of MLflow is not read: names of metrics are paths in it, and its runs are "
    "described in YAML; convert it to a database with `mlflow migrate-filestore`"
)


def recognize(path: Path) -> str | None:
    """Return why a path looks like a store of MLflow, None if it does not."""
    files = [path] if path.is_file() else sorted(path.glob("*.db"))
    if any(is_database(file, TABLES) for file in files[:1]):
        return f"{files[0].name} is a database of MLflow"
    if _is_file_store(path):
        return "meta.yaml is of a file store of MLflow"
    return None


def _is_file_store(path: Path) -> bool:
    return path.is_dir() and any(
        next(path.glob(pattern), None)
        for pattern in ("meta.yaml", "*/meta.yaml", "mlruns/*/meta.yaml")
    )


def read(paths: Sequence[Path], options: ImportOptions) -> list[ImportedRun]:
    """Return the runs of a database that were not deleted."""
    for path in paths:
        if _is_file_store(path) and not list(path.glob("*.db")):
            raise InputError(f"{path}: {FILE_STORE}")
    return [run for path in find_files(paths, "*.db") for run in _read_store(path, options)]


def _read_store(path: Path, options: ImportOptions) -> list[ImportedRun]:
    with open_database(path, "MLflow", TABLES) as connection:
        sql = "SELECT run_uuid, name, lifecycle_stage FROM runs ORDER BY start_time, run_uuid"
        found = list(query(connection, sql))
        if len(found) > MAX_RUNS:
            raise InputError(f"{path}: {len(found)} runs, expected at most {MAX_RUNS}")
        active = [(str(run), str(name or run)) for run, name, stage in found if stage == "active"]
        if not active:
            raise InputError(f"{path}: no runs, expected at least one that is not deleted")
        notes = []
        if len(active) < len(found):
            notes.append(f"{path}: {len(found) - len(active)} deleted runs were left out")
        return [_read_run(connection, *run, path, options, notes) for run in active]


def _read_run(
    connection: sqlite3.Connection,
    run: str,
    name: str,
    path: Path,
    options: ImportOptions,
    notes: Sequence[str],
) -> ImportedRun:
    where = f"{path}: run {visible(name)}"
    sql = (
        "SELECT key, value, step FROM metrics WHERE run_uuid = ? AND NOT is_nan "
        "ORDER BY step, timestamp"
    )
    rows = (
        TrackerRow(where, step, {visible(str(key)): value})
        for key, value, step in query(connection, sql, [run])
    )
    params = query(connection, "SELECT key, value FROM params WHERE run_uuid = ?", [run])
    config = {visible(str(key)): _parse_parameter(str(value)) for key, value in params}
    return make_run(
        rows, options, tool="MLflow", files=[path], label=visible(name), config=config, notes=notes
    )


def _parse_parameter(text: str) -> object:
    """Return a parameter as a number if it is one: MLflow stores text."""
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return visible(text)
