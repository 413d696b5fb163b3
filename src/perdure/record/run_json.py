"""run.json: what scoring needs of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ..metrics import ScoreScale
from ..metrics.score_matrix import MAX_NAME_LENGTH
from .io.files import InputError, read_json
from .run_index import visible

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Description", "described", "description_of", "read_description", "scale_of"]


class Scale(msgspec.Struct):
    """Range, direction and name of the scores; an end that is not stated is infinite."""

    low: float | None = None
    high: float | None = None
    lower_is_better: bool = False
    name: str = ""


class Description(msgspec.Struct):
    """What scoring needs of run.json; the rest of it is for people and for running again."""

    setting: Literal["class", "task", "domain"] | None = None
    classes: list[int] | None = None
    scale: Scale | None = None
    notes: list[str] = []
    evaluation_data: dict[str, str] = {}  # fingerprints by task


def read_description(path: Path) -> Description:
    """Return what run.json says, or raise InputError."""
    return description_of(read_json(path), path)


def description_of(plain: Any, path: Path) -> Description:
    """Return what scoring needs of the contents of a run.json, or raise InputError."""
    try:
        return msgspec.convert(plain, Description)
    except msgspec.MsgspecError as error:
        raise InputError(f"{path}: {error}") from None


def scale_of(run: Description, path: Path) -> ScoreScale | None:
    """Return range, direction and name of a run's scores, None where it does not say."""
    if run.scale is None:
        return None
    low = -math.inf if run.scale.low is None else run.scale.low
    high = math.inf if run.scale.high is None else run.scale.high
    try:
        name = visible(run.scale.name)[:MAX_NAME_LENGTH]
        return ScoreScale(low, high, lower_is_better=run.scale.lower_is_better, name=name)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None


def described(run: Description, path: Path, tasks: int) -> dict[str, Any]:
    """Return what run.json says about setting and class counts, for the tasks learned so far."""
    said: dict[str, Any] = {} if run.setting is None else {"setting": run.setting}
    if run.classes is not None:
        if len(run.classes) < tasks or min(run.classes, default=1) < 1:
            raise InputError(
                f"{path}: class counts are {run.classes}, expected 1 or more for each of "
                f"{tasks} tasks"
            )
        said["classes"] = run.classes[:tasks]
    return said
