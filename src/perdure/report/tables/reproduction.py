"""Published numbers beside measured ones, as tables."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from .text_table import TextTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...reproduction.claim import Claim
    from ...reproduction.comparison import ComparisonRow

__all__ = ["claims_grid", "comparison_grid", "rows_as_dicts"]


def comparison_grid(
    lines: Sequence[ComparisonRow], digits: int, *, quick: bool = False
) -> TextTable:
    """Return a row a number: published, measured, and the difference in SDs.

    Args:
        lines: the numbers.
        digits: after the point.
        quick: leave out everything that is the paper's.
    """
    names = varying([line.cell for line in lines])
    ours = not quick and any(line.ours for line in lines)
    header = ["table", "of", "id", "published", "measured", "difference", "in SDs"]
    header += ["by our definition"] if ours else []
    rows = []
    for line in lines:
        label = " ".join(line.cell[name] for name in names if name in line.cell)
        row = [line.table, f"{label} {line.how}".strip(), line.id, *_numbers(line, digits)]
        row += [f"{statistics.fmean(line.ours):.{digits}f}" if line.ours else ""] if ours else []
        rows.append(row)
    if quick:
        header = ["of", "id", "measured"]
        rows = [[row[1], row[2], row[4]] for row in rows]
    right = {"published", "measured", "difference", "in SDs", "by our definition"}
    return TextTable(header, rows, right=right)


def varying(cells: Sequence[Mapping[str, str]]) -> list[str]:
    """Return which factors take more than one value, in order.

    Example:
        >>> varying([{"model": "mlp", "strategy": "ewc"}, {"model": "mlp", "strategy": "si"}])
        ['strategy']
    """
    names = dict.fromkeys(name for cell in cells for name in cell)
    return [name for name in names if len({cell[name] for cell in cells if name in cell}) > 1]


def _numbers(line: ComparisonRow, digits: int) -> list[str]:
    def shown(mean: float | None, sd: float | None) -> str:
        if mean is None:
            return ""
        return f"{mean:.{places}f}" + (f" ± {sd:.{places}f}" if sd is not None else "")

    places = 0 if line.id == "rank" else digits
    deviation = line.deviation
    return [
        shown(line.published, line.sd),
        shown(line.mean, line.own_sd) if line.values else f"not measured: {line.missing}",
        f"{line.difference:+.{places}f}" if line.difference is not None else "",
        f"{deviation[0]:+.1f} ({deviation[1]})" if deviation else "",
    ]


def claims_grid(said: Sequence[Claim]) -> TextTable:
    """Return a row per claim: whether it holds, and by which numbers."""
    holds = {True: "yes", False: "NO", None: "?"}
    rows = [[holds[each.holds], each.text, each.numbers] for each in said]
    return TextTable(["holds", "claim", "measured"], rows)


def rows_as_dicts(lines: Sequence[ComparisonRow], *, quick: bool = False) -> list[dict[str, Any]]:
    """Return the numbers as plain data, ready for JSON."""
    rows = []
    for line in lines:
        deviation = line.deviation or (None, None)
        row = {
            **line.cell, "id": line.id, "how": line.how, "measured": line.mean,
            "own_sd": line.own_sd, "values": list(line.values),
        }  # fmt: skip
        paper = {
            "table": line.table, "published": line.published, "sd": line.sd,
            "difference": line.difference, "deviation": deviation[0], "sds_of": deviation[1],
            "by_our_definition": list(line.ours), "missing": line.missing,
        }  # fmt: skip
        rows.append(row if quick else row | paper)
    return rows
