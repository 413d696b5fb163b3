"""Lines that lie on each other: the ones below are drawn wider, so that each stays visible."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    Line = tuple[NDArray[np.int64], NDArray[np.float64]]  # x and y

__all__ = ["choose_widths", "list_overlaps"]

NEAR = 0.012  # of the height of all lines: about the width of one
WIDER = 1.4  # in line widths, per line that lies on it
WIDEST = 5.0
SHARE = 0.75  # of the points of a panel
MAX_LINES = 12  # among more, lines cannot be told apart by their widths
MAX_LISTED = 3


def choose_widths(panels: Sequence[Mapping[str, Line]]) -> dict[str, float]:
    """Return the width of each line relative to the usual one; later lines are drawn on top.

    Args:
        panels: lines by name, as they are drawn in each panel.

    Example:
        >>> x, y = np.arange(3), np.array([0.5, 0.6, 0.9])
        >>> choose_widths([{"naive": (x, y), "ewc": (x, y), "gem": (x, y - 0.2)}])
        {'naive': 2.4, 'ewc': 1.0, 'gem': 1.0}
    """
    names = list(dict.fromkeys(name for lines in panels for name in lines))
    near = find_overlaps(panels)
    above = {name: sum(name == lower for lower, _ in near) for name in names}
    step = min(WIDER, (WIDEST - 1) / max([1, *above.values()]))
    return {name: 1 + step * count for name, count in above.items()}


def find_overlaps(panels: Sequence[Mapping[str, Line]]) -> list[tuple[str, str]]:
    """Return pairs of lines that lie on each other in half of the panels, the lower one first."""
    values = [y[np.isfinite(y)] for lines in panels for _, y in lines.values()]
    every = np.concatenate(values) if values else np.empty(0)
    tolerance = NEAR * (float(np.ptp(every)) if len(every) else 0.0) + 1e-12
    names = list(dict.fromkeys(name for lines in panels for name in lines))
    if len(names) > MAX_LINES:
        return []
    return [
        (one, other)
        for k, one in enumerate(names)
        for other in names[k + 1 :]
        if _is_half_true(
            _lie_together(lines[one], lines[other], tolerance)
            for lines in panels
            if one in lines and other in lines
        )
    ]


def list_overlaps(panels: Sequence[Mapping[str, Line]]) -> str:
    """Return in words which lines lie on each other, an empty string if none do.

    Example:
        >>> x, y = np.arange(3), np.array([0.5, 0.6, 0.9])
        >>> list_overlaps([{"naive": (x, y), "ewc": (x, y)}])
        'naive is drawn wider where ewc lies on it'
    """
    upper: dict[str, list[str]] = {}
    for lower, other in find_overlaps(panels):
        upper.setdefault(lower, []).append(other)
    listed = [f"{name} is drawn wider where {_join(upper[name])} on it" for name in upper]
    more = [f"and {len(listed) - MAX_LISTED} more"] if len(listed) > MAX_LISTED else []
    return "; ".join([*listed[:MAX_LISTED], *more])


def _join(names: Sequence[str]) -> str:
    *rest, last = names
    return f"{', '.join(rest)} and {last} lie" if rest else f"{last} lies"


def _is_half_true(answers: Iterable[bool]) -> bool:
    several = list(answers)
    return len(several) > 0 and 2 * sum(several) >= len(several)


def _lie_together(one: Line, other: Line, tolerance: float) -> bool:
    """Return whether two lines are within `tolerance` at most of the x that both have."""
    _, at_one, at_other = np.intersect1d(one[0], other[0], return_indices=True)
    distance = np.abs(one[1][at_one] - other[1][at_other])
    distance = distance[np.isfinite(distance)]
    return len(distance) > 0 and float(np.mean(distance <= tolerance)) >= SHARE
