"""Requirements from a TOML file, or from the table [tool.perdure.check] of a pyproject.toml."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from ..record import InputError
from ..record.io.toml import read_toml
from .requirement import parse_requirement

__all__ = ["CheckSettings", "find_settings", "read_settings"]

TABLE = ("tool", "perdure", "check")
EXPECTED = 'requirements in TOML: require = ["acc >= .9"]'


class CheckSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a file may say about a check; None where it says nothing.

    Args:
        require: The requirements.
        baseline: Path of the baseline, relative to the file.
        level: Confidence level.
        inconclusive: What an inconclusive verdict counts as.
    """

    require: list[str] = []
    baseline: str | None = None
    level: Annotated[float, msgspec.Meta(gt=0.5, lt=1)] | None = None
    inconclusive: Literal["pass", "fail"] | None = None


def find_settings(folder: str | os.PathLike[str] = ".") -> CheckSettings | None:
    """Return the settings in the pyproject.toml of a folder, None if it has none."""
    path = Path(folder) / "pyproject.toml"
    if not path.exists():
        return None
    table = _find_table(read_toml(path, EXPECTED))
    return None if table is None else _convert(table, path, f"[{'.'.join(TABLE)}]")


def read_settings(path: str | os.PathLike[str]) -> CheckSettings:
    """Return the settings in a TOML file: at its top level, or in [tool.perdure.check]."""
    contents = read_toml(path, EXPECTED)
    table = _find_table(contents)
    if table is None:
        return _convert(contents, path, "the file")
    return _convert(table, path, f"[{'.'.join(TABLE)}]")


def _find_table(contents: dict[str, object]) -> dict[str, object] | None:
    table: object = contents
    for name in TABLE:
        table = table.get(name) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else None


def _convert(table: object, path: str | os.PathLike[str], where: str) -> CheckSettings:
    try:
        settings = msgspec.convert(table, CheckSettings)
    except msgspec.ValidationError as error:
        raise InputError(
            f"{path}: {where}: {error}; expected require, baseline, level or inconclusive"
        ) from None
    for line in settings.require:
        try:
            parse_requirement(line)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
    if settings.baseline is None:
        return settings
    baseline = os.fspath(Path(path).parent / settings.baseline)
    return msgspec.structs.replace(settings, baseline=baseline)
