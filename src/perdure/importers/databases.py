"""MLflow and trackio: their SQLite databases, read without these tools and without trust."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

from ..record import InputError
from ..record.io.files import open_regular, parse_json
from ..record.io.text import visible
from .files import find_files
from .tracker_rows import TrackerRow, make_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from .imported import ImportedRun, ImportOptions

__all__ = ["read_mlflow", "read_trackio", "recognize_mlflow", "recognize_trackio"]

MAGIC = b"SQLite format 3\x00"
MAX_FILE = 4 << 30  # bytes
MAX_ROWS = 5_000_000
MAX_VALUE = 16 << 20  # bytes
MAX_OPERATIONS = 20_000  # times 100,000 instructions of a query; a damaged file may never end

MLFLOW_TABLES = ("runs", "metrics", "params")
MAX_RUNS = 10_000
FILE_STORE = (
    "a file store of MLflow is not read: names of metrics are paths in it, and its runs are "
    "described in YAML; convert it to a database with `mlflow migrate-filestore`"
)

TRACKIO_TABLES = ("configs", "metrics")


def is_database(path: Path, tables: Sequence[str]) -> bool:
    """Return whether a file is a SQLite database with these tables."""
    try:
        with open_database(path, "", tables):
            return True
    except (OSError, InputError):
        return False


@contextmanager
def open_database(path: Path, tool: str, tables: Sequence[str]) -> Iterator[sqlite3.Connection]:
    """Open the database of a tool, which has these tables, or raise InputError.

    Nothing next to it is read or written: a program that is still writing keeps newer rows in a
    file ending in -wal.
    """
    try:
        with open_regular(path, MAX_FILE) as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise InputError(f"{path}: not a SQLite database")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:
        raise InputError(
            f"{path}: {log.name} has rows that are not in it yet; end the program that has it "
            "open, or run: sqlite3 FILE 'PRAGMA wal_checkpoint'"
        )
    uri = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            connection.text_factory = lambda data: data.decode("utf-8", "replace")
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
            connection.execute("PRAGMA trusted_schema = OFF")
            calls = iter(range(MAX_OPERATIONS))
            connection.set_progress_handler(lambda: next(calls, None) is None, 100_000)
            found = {
                name
                for (name,) in connection.execute(
                    "SELECT name FROM sqlite_master WHERE type = 'table'"
                )
            }
            if missing := set(tables) - found:
                raise InputError(
                    f"{path}: no table {min(missing)!r}, expected a database of {tool}"
                )
            yield connection
    except (sqlite3.Error, UnicodeDecodeError) as error:  # of a name in a damaged schema
        raise InputError(f"{path}: not a readable SQLite database ({error})") from None


def query(
    connection: sqlite3.Connection, sql: str, values: Sequence[object] = ()
) -> Iterator[tuple[object, ...]]:
    """Yield the rows of a query, up to a limit."""
    for number, row in enumerate(connection.execute(sql, values)):
        if number == MAX_ROWS:
            raise InputError(f"more than {MAX_ROWS} rows, expected fewer")
        yield row


def recognize_mlflow(path: Path) -> str | None:
    """Return why a path looks like a store of MLflow, None if it does not."""
    files = [path] if path.is_file() else sorted(path.glob("*.db"))
    if any(is_database(file, MLFLOW_TABLES) for file in files[:1]):
        return f"{files[0].name} is a database of MLflow"
    if _is_file_store(path):
        return "meta.yaml is of a file store of MLflow"
    return None


def _is_file_store(path: Path) -> bool:
    return path.is_dir() and any(
        next(path.glob(pattern), None)
        for pattern in ("meta.yaml", "*/meta.yaml", "mlruns/*/meta.yaml")
    )


def read_mlflow(paths: Sequence[Path], options: ImportOptions) -> list[ImportedRun]:
    """Return the runs of a database that were not deleted."""
    for path in paths:
        if _is_file_store(path) and not list(path.glob("*.db")):
            raise InputError(f"{path}: {FILE_STORE}")
    return [run for path in find_files(paths, "*.db") for run in _read_store(path, options)]


def _read_store(path: Path, options: ImportOptions) -> list[ImportedRun]:
    with open_database(path, "MLflow", MLFLOW_TABLES) as connection:
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


def recognize_trackio(path: Path) -> str | None:
    """Return why a path looks like a project of trackio, None if it does not."""
    files = [path] if path.is_file() else sorted(path.glob("*.db"))
    if any(is_database(file, TRACKIO_TABLES) for file in files[:1]):
        return f"{files[0].name} is a project of trackio"
    return None


def read_trackio(paths: Sequence[Path], options: ImportOptions) -> list[ImportedRun]:
    """Return the runs of the projects."""
    return [run for path in find_files(paths, "*.db") for run in _read_project(path, options)]


def _read_project(path: Path, options: ImportOptions) -> list[ImportedRun]:
    rows: dict[str, list[TrackerRow]] = {}
    with open_database(path, "trackio", TRACKIO_TABLES) as connection:
        for name, step, metrics in query(
            connection, "SELECT run_name, step, metrics FROM metrics ORDER BY id"
        ):
            label = visible(str(name))
            where = f"{path}: run {label}"
            values = _parse_object(metrics, where)
            rows.setdefault(label, []).append(TrackerRow(where, step, values))
        configs = {
            visible(str(name)): _parse_object(config, f"{path}: config of {name!s:.60}")
            for name, config in query(connection, "SELECT run_name, config FROM configs")
        }
    if not rows:
        raise InputError(f"{path}: nothing was logged, expected at least one run")
    return [
        make_run(
            mine, options, tool="trackio", files=[path], label=label,
            config={k: v for k, v in configs.get(label, {}).items() if not k.startswith("_")},
        )
        for label, mine in rows.items()
    ]  # fmt: skip


def _parse_object(text: object, where: str) -> dict[str, object]:
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    values = parse_json(str(text), where)
    if not isinstance(values, dict):
        raise InputError(f"{where}: expected an object with values by name")
    return {visible(name): value for name, value in values.items()}
