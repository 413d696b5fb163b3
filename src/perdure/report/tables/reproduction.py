"""Published numbers next to measured ones, as tables."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from .text_table import TextTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...reproduction.claim import Claim
    from ...reproduction.comparison import ComparisonRow

__all__ = ["claims_table", "comparison_table"]


def comparison_table(
    rows: Sequence[ComparisonRow], digits: int, *, quick: bool = False
) -> TextTable:
    """Return a table with a row per number: published, measured, and the difference in SDs.

    Args:
        rows: The numbers to show.
        digits: Number of decimals.
        quick: Leave out everything that is the paper's.
    """
    factors = varying_factors([row.cell for row in rows])
    own = not quick and any(row.own_values for row in rows)
    header = ["table", "cell", "id", "published", "measured", "difference", "in SDs"]
    header += ["by our definition"] if own else []
    body = []
    for row in rows:
        label = " ".join(row.cell[name] for name in factors if name in row.cell)
        cells = [row.table, f"{label} {row.details}".strip(), row.id, *_format_numbers(row, digits)]
        if own:
            cells.append(f"{statistics.fmean(row.own_values):.{digits}f}" if row.own_values else "")
        body.append(cells)
    if quick:
        header, body = ["cell", "id", "measured"], [[row[1], row[2], row[4]] for row in body]
    return TextTable(header, body, right={*header} - {"table", "cell", "id"})


def varying_factors(cells: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the factors that take more than one value, in order.

    Example:
        >>> varying_factors([{"model": "mlp", "strategy": "ewc"},
        ...                  {"model": "mlp", "strategy": "si"}])
        ['strategy']
    """
    names = dict.fromkeys(name for cell in cells for name in cell)
    return [name for name in names if len({cell[name] for cell in cells if name in cell}) > 1]


def _format_numbers(row: ComparisonRow, digits: int) -> list[str]:
    places = 0 if row.id == "rank" else digits

    def format_mean(mean: float | None, sd: float | None) -> str:
        if mean is None:
            return ""
        return f"{mean:.{places}f}" + (f" ± {sd:.{places}f}" if sd is not None else "")

    return [
        format_mean(row.published, row.published_sd),
        format_mean(row.mean, row.sd) if row.values else f"not measured: {row.not_measured}",
        f"{row.difference:+.{places}f}" if row.difference is not None else "",
        f"{row.deviation[0]:+.1f} ({row.deviation[1]})" if row.deviation else "",
    ]


def claims_table(claims: Sequence[Claim]) -> TextTable:
    """Return a table with a row per claim: whether it holds, and the numbers that decide it."""
    holds = {True: "yes", False: "NO", None: "?"}
    rows = [[holds[claim.holds], claim.text, claim.numbers] for claim in claims]
    return TextTable(["holds", "claim", "measured"], rows)
