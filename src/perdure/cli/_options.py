"""Words of the command line as values, each judged before anything is read."""

from __future__ import annotations

import math
import os
import re

from ..metrics import ScoreScale, criteria_weights, find_metric
from ..record import InputError, read_vector

__all__ = [
    "check_percent",
    "ids_of",
    "require_training",
    "scale_of",
    "values_of",
    "weights_of",
    "whole_of",
    "windows_of",
]


def require_training() -> None:
    """Raise unless everything that training needs is installed."""
    try:
        from .. import training  # noqa: F401
    except ModuleNotFoundError as error:
        raise InputError(f"perdure run needs {error.name}: pip install 'perdure[train]'") from None


def values_of(text: str | None, option: str) -> list[float] | None:
    """Return numbers from `0.1,0.2` or from the file of that name."""
    if text is None:
        return None
    try:
        return [float(part) if part.strip() else math.nan for part in text.split(",")]
    except ValueError:
        if not os.path.lexists(text):
            raise InputError(
                f"{option} is {text!r:.60}, expected numbers like 0.1,0.2 or a file with them"
            ) from None
    try:
        return read_vector(text)
    except InputError as error:
        raise InputError(f"{option}: {error}") from None


def scale_of(range_: str | None, lower_is_better: bool) -> ScoreScale | None:
    """Return range and direction as given; None where nothing was: a run says it itself."""
    if range_ is None:
        return ScoreScale(-math.inf, math.inf, lower_is_better=True) if lower_is_better else None
    try:
        ends = [float(end) for end in range_.split(",")]
    except ValueError:
        ends = []
    if len(ends) != 2 or any(math.isnan(end) for end in ends):
        raise InputError(f"--range is {range_!r:.40}, expected LO,HI like 0,10 or 0,inf")
    return ScoreScale(ends[0], ends[1], lower_is_better=lower_is_better)


def check_percent(scale: ScoreScale, path: str) -> None:
    """Refuse to print a run's scores in percent if they are not fractions."""
    if scale.low < 0 or scale.high > 1:
        raise InputError(
            f"{path}: scores run from {scale.low:g} to {scale.high:g}, expected 0 to 1 for "
            "--percent; drop the option"
        )


def windows_of(text: str, wanted: list[str]) -> tuple[int | None, ...]:
    """Return the windows asked for by --window, and by --only wf5."""
    windows: list[int | None] = [int(id_[2:]) for id_ in wanted if re.fullmatch(r"w[fp]\d+", id_)]
    for part in text.split(","):
        if part.strip() == "all":
            windows.append(None)
        elif part.strip().isdecimal() and int(part) >= 1:
            windows.append(int(part))
        else:
            raise InputError(f"--window has {part!r}, expected whole numbers of at least 1, or all")
    return tuple(dict.fromkeys(windows))


def weights_of(text: str | None) -> dict[str, float] | None:
    if text is None:
        return None
    from fractions import Fraction  # imported here: it brings decimal

    weights: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        try:
            weight = float(Fraction(value))
        except (ValueError, ZeroDivisionError):
            raise InputError(
                f"--weights has {part!r}, expected NAME=WEIGHT like A=.4 or A=1/6"
            ) from None
        if name.strip() in weights:
            raise InputError(f"--weights has {name.strip()!r} twice, expected each name once")
        weights[name.strip()] = weight
    try:
        criteria_weights(weights)  # judged before anything is read
    except ValueError as error:
        raise InputError(f"--weights: {error}") from None
    return weights


def ids_of(text: str | None) -> list[str]:
    ids = [part.strip() for part in text.split(",")] if text else []
    for id_ in ids:
        find_metric(id_)
    return ids


def whole_of(text: str, option: str, least: int) -> int:
    # The parser would take 2.5 for 2.
    if not text.strip().isdecimal() or int(text) < least:
        raise InputError(f"{option} is {text!r:.40}, expected a whole number of at least {least}")
    return int(text)
