"""trackio: the SQLite database of a project, read without trackio."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...record import InputError
from ...record.io.files import parse_json
from ...record.io.text import visible
from ..files import find_files
from .database import is_database, open_database, query
from .rows import TrackerRow, make_run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ..imported import ImportedRun
    from ..options import ImportOptions

__all__ = ["read", "recognize"]

TABLES = ("configs", "metrics")


def recognize(path: Path) -> str | None:
    """Return why a path looks like a project of trackio, None if it does not."""
    files = [path] if path.is_file() else sorted(path.glob("*.db"))
    if any(is_database(file, TABLES) for file in files[:1]):
        return f"{files[0].name} is a project of trackio"
    return None


def read(paths: Sequence[Path], options: ImportOptions) -> list[ImportedRun]:
    """Return the runs of the projects."""
    return [run for path in find_files(paths, "*.db") for run in _read_project(path, options)]


def _read_project(path: Path, options: ImportOptions) -> list[ImportedRun]:
    rows: dict[str, list[TrackerRow]] = {}
    with open_database(path, "trackio", TABLES) as connection:
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
