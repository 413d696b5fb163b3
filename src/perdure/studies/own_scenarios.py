"""Your own data in a study: paths relative to the study file, how to read them, and notes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ..data.own import ReadOptions
from ..scenarios import SCENARIOS, find_scenario, is_own, locate_own

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .study import Study

__all__ = ["describe_own_scenarios", "locate_scenarios"]


def locate_scenarios(plain: Mapping[str, object], folder: Path) -> dict[str, object]:
    """Return the content of a study file with its paths relative to the current directory.

    Args:
        plain: The content, in which paths are relative to the file.
        folder: Of the file.
    """
    located = dict(plain)
    if isinstance(names := plain.get("scenarios"), list):
        located["scenarios"] = [_locate(name, folder) for name in names]
    if isinstance(tables := plain.get("scenario"), dict):
        located["scenario"] = {_locate(name, folder): table for name, table in tables.items()}
    return located


def describe_own_scenarios(study: Study) -> list[str]:
    """Return notes on the user's own data in a study."""
    notes = []
    for name in study.scenarios:
        if is_own(name, SCENARIOS):
            values = study.run | study.scenario.get(name, {})
            own = find_scenario(name, ReadOptions.of(values)).own
            notes += [f"{name}: {note}" for note in own.notes] if own is not None else []
    return notes


def _locate(name: object, folder: Path) -> object:
    if not isinstance(name, str) or not is_own(name, SCENARIOS):
        return name
    if locate_own(name) == name:  # absolute, or module:function
        return name
    path = os.path.relpath(folder / Path(name).expanduser())
    return path if os.sep in path else os.path.join(".", path)  # noqa: PTH118 - Path drops the dot
