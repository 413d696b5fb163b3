"""SQLite files of trackers, opened read-only and without trusting what is in them."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

from ...record import InputError
from ...record.io.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = ["is_database", "open_database", "query"]

MAGIC = b"SQLite format 3\x00"
MAX_FILE = 4 << 30  # bytes
MAX_ROWS = 5_000_000
MAX_VALUE = 16 << 20  # bytes
MAX_OPERATIONS = 20_000  # times 100,000 instructions of a query; a damaged file may never end


def is_database(path: Path, tables: Sequence[str]) -> bool:
    """Return whether a file is a SQLite database with these tables."""
    try:
        with open_regular(path) as file:
            if file.read(len(MAGIC)) != MAGIC:
                return False
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
