"""Mean ranks of methods, with bars that join indistinguishable ones: after Demšar (2006)."""

from __future__ import annotations

import math
import sys
from textwrap import fill
from typing import TYPE_CHECKING, Literal, NamedTuple

from ...metrics import compare_methods, display_name, find_metric
from ...record import InputError
from ...stats import (
    critical_difference,
    find_pair_test,
    friedman_p,
    indistinguishable_groups,
    letter_groups,
    min_attainable_p,
)
from ..colours import choose_styles
from ..figure_data import get_rank_values
from .drawing import SIZES, new_figure, set_caption
from .drawing.panels import shorten

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ...metrics import MethodsComparison
    from ...stats import PairTestName
    from ..figure_data import RankValues
    from ..load import RunsByMethod
    from .drawing import Size

__all__ = ["ranks"]

RANK_LETTERS = 7  # of a rank next to a name
BAR_STEP = 0.45  # between bars, in lines of text
MAX_NAME_LETTERS = {"column": 13, "page": 36, "slide": 26}


class _RankGroups(NamedTuple):
    """Groups of indistinguishable methods, their letters, and the test in words.

    `difference` is the critical difference of Nemenyi's test.
    """

    groups: list[list[str]]
    letters: dict[str, str]
    reasons: list[str]
    difference: float | None = None


def ranks(
    methods: RunsByMethod,
    *,
    size: Size = "page",
    metric: str = "acc",
    test: PairTestName | Literal["nemenyi"] | None = None,
    unpaired: bool = False,
    alpha: float = 0.05,
) -> Figure:
    """Return mean ranks over seeds, 1 is best; a bar joins methods that the test cannot separate.

    A bar joins the methods at its dots; the letters are those of `perdure compare`. Runs of several
    scenarios are ranked once per scenario, by their means over seeds: seeds of one scenario are
    not independent evidence about others (Demšar 2006).

    Args:
        methods: runs of two or more methods that have two or more seeds, or scenarios, in common.
        size: a column or a page of a paper, or a slide.
        metric: id of the metric to rank by.
        test: pairwise test, with Holm's correction; or nemenyi, the critical difference of ranks.
            By default t over seeds and nemenyi over scenarios.
        unpaired: do not pair runs by seed in the test.
        alpha: significance level.

    Example:
        >>> from perdure.metrics import ScoreMatrix
        >>> from perdure.record import ScoreInput
        >>> one = lambda last: ScoreInput(ScoreMatrix([[0.9, 0.1], [last, 0.8]]))
        >>> figure = ranks({"er": [one(0.7), one(0.8)], "naive": [one(0.1), one(0.21)]})
        >>> [text.get_text() for text in figure.axes[0].texts][:2]
        ['er (a)  1.00 ', ' 2.00  naive (b)']
    """
    if not 0 < alpha < 1:
        raise InputError(f"alpha is {alpha:g}, expected a number between 0 and 1")
    if test == "nemenyi" and unpaired:
        raise InputError("Nemenyi's test ranks methods seed by seed; leave out `unpaired=True`")
    unpaired = unpaired or test == "welch"
    values = get_rank_values(methods, metric, unpaired=unpaired)
    test = test or ("nemenyi" if values.unit == "scenarios" else "t")
    comparison = compare_methods(
        metric, values.by_method, scale=values.scale, alpha=alpha,
        test="t" if test == "nemenyi" else test, unpaired=unpaired,
    )  # fmt: skip
    mean = dict(sorted(comparison.ranks.items(), key=lambda item: item[1]))
    if test == "nemenyi":
        grouped = _group_by_nemenyi(values, comparison, alpha)
    else:
        grouped = _group_by_test(values, comparison, test, unpaired=unpaired, alpha=alpha)
    about = f"{metric}: mean ranks over {len(comparison.seeds)} {values.unit}, alpha = {alpha:g}"
    title = "\n".join(fill(line, _letters_per_line(size)) for line in [about, *grouped.reasons])
    above = 1.2 if grouped.difference is None else 2.6  # the ruler, in lines of text
    most = MAX_NAME_LETTERS.get(size, 36)
    sides = 2 if max(len(_tag(name, grouped.letters)) for name in mean) <= most else 1
    most = most if sides == 2 else 2 * (most + 4) + RANK_LETTERS
    lines = above + BAR_STEP * len(grouped.groups) + len(mean) / sides + title.count("\n")
    with new_figure(size, _height(lines, size)) as figure:
        axes = figure.axes[0]
        styles = choose_styles(values.methods)
        colours = {name: style.colour for name, style in styles.items()}
        tags = {name: _tag(name, grouped.letters, most) for name in mean}
        _draw_names(axes, mean, tags, colours, 0.6 + BAR_STEP * len(grouped.groups), sides)
        _draw_bars(axes, grouped.groups, mean)
        step = _tick_step(list(tags.values()), sides, size)
        _draw_ruler(axes, len(mean), grouped.difference, step)
        axes.set_ylim(top=above)
        axes.set_title(title, loc="center" if sides == 2 else "right")
        figure.draw_without_rendering()  # names move with the axis: the layout takes two rounds
    letters = "methods that share a letter are not distinguishable" if grouped.letters else ""
    set_caption(
        figure,
        f"{metric}: {display_name(find_metric(metric), values.scale)}, rank 1 is best",
        letters,
    )
    return figure


def _group_by_test(
    values: RankValues,
    comparison: MethodsComparison,
    test: PairTestName,
    *,
    unpaired: bool,
    alpha: float,
) -> _RankGroups:
    """Return the groups behind the letters of `perdure compare`."""
    different = [names for names, pair in comparison.pairs.items() if pair.distinguishable]
    order = sorted(comparison.ranks, key=comparison.ranks.__getitem__)
    groups = [
        sorted(group, key=order.index)
        for group in letter_groups(comparison.best_first, different)
        if len(group) > 1
    ]
    name = find_pair_test(test, unpaired=unpaired).name
    reasons = [f"a bar joins (at its dots) what the {name} with Holm's correction cannot separate"]
    blocks = max(map(len, values.by_method.values()))
    pairs = len(comparison.pairs)
    least = min_attainable_p(blocks, comparisons=pairs, test=test, unpaired=unpaired)
    if least >= alpha:
        reasons.append(f"which cannot go below p = {least:.3g} with {blocks} {values.unit}")
    return _RankGroups(groups, comparison.letters, reasons)


def _group_by_nemenyi(
    values: RankValues, comparison: MethodsComparison, alpha: float
) -> _RankGroups:
    methods, blocks = len(values.by_method), len(comparison.seeds)
    difference = critical_difference(methods, blocks, alpha=alpha)
    p = friedman_p([[own[b] for own in values.by_method.values()] for b in comparison.seeds])
    reasons = [] if p is None else [f"Friedman's test of equal ranks: p = {p:.3g}"]
    if difference > methods - 1:
        reasons.append(
            f"{blocks} {values.unit} cannot separate any two of {methods} methods with this test"
        )
    return _RankGroups(
        indistinguishable_groups(comparison.ranks, difference), {}, reasons, difference
    )


def _height(lines: float, size: Size) -> float:
    width, points = SIZES[size] if size in SIZES else SIZES["page"]
    return 1.5 * (lines + 3) * points / 72 / width


def _letters_per_line(size: Size) -> int:
    width, points = SIZES[size] if size in SIZES else SIZES["page"]
    return int(72 * width / (0.62 * points))


def _tag(name: str, letters: Mapping[str, str], most: int = sys.maxsize) -> str:
    suffix = f" ({letters[name]})" if letters else ""
    return shorten(name, max(most - len(suffix), 4)) + suffix


def _tick_step(tags: Sequence[str], sides: int, size: Size) -> int:
    """Return the step between labelled ranks, so that their numbers do not overlap."""
    width, points = SIZES[size]
    letters = max(map(len, tags)) + RANK_LETTERS
    inches = max(width - sides * 0.6 * letters * points / 72, 0.3)
    return math.ceil(2 * points / 72 * len(tags) / inches)


def _draw_names(
    axes: Axes,
    mean: Mapping[str, float],
    tags: Mapping[str, str],
    colours: Mapping[str, str],
    below: float,
    sides: int,
) -> None:
    """Write the better half at the left and the others at the right, each with a line to its rank.

    Long names need the width: all of them are at the left, on one of `sides`. The outermost names
    are highest, so that no line crosses another.
    """
    names = list(mean)
    half = -(-len(names) // sides)
    margin = 0.06 * (len(names) - 1)
    left = [(name, k) for k, name in enumerate(names[:half])]
    right = [(name, k) for k, name in enumerate(reversed(names[half:]))]
    for name, k in left:
        y, end = -below - k, 1 - margin
        _draw_stem(axes, mean[name], y, end, colours[name])
        axes.text(end, y, f"{tags[name]}  {mean[name]:.2f} ", ha="right", va="center")
    for name, k in right:
        y, end = -below - k, len(names) + margin
        _draw_stem(axes, mean[name], y, end, colours[name])
        axes.text(end, y, f" {mean[name]:.2f}  {tags[name]}", ha="left", va="center")
    axes.set_ylim(bottom=-below - half + 0.4)


def _draw_stem(axes: Axes, rank: float, y: float, end: float, colour: str) -> None:
    axes.plot([rank, rank, end], [0, y, y], color=colour, clip_on=False)


def _draw_bars(axes: Axes, groups: Sequence[Sequence[str]], mean: Mapping[str, float]) -> None:
    """Draw one bar per group, with a dot at the rank of each of its methods."""
    room = 0.02 * (len(mean) - 1)
    for k, group in enumerate(groups):
        y, at = -0.4 - BAR_STEP * k, [mean[name] for name in group]
        axes.plot(
            [at[0] - room, at[-1] + room], [y, y],
            color="black", linewidth=2, solid_capstyle="butt", zorder=3, clip_on=False,
        )  # fmt: skip
        axes.plot(at, [y] * len(at), "o", color="black", markersize=5, zorder=3, clip_on=False)


def _draw_ruler(axes: Axes, methods: int, difference: float | None, every: int) -> None:
    """Draw the axis of ranks and, above it, the critical difference if there is one."""
    axes.set_axis_off()
    axes.set_xlim(1, max(methods, 1 + (difference or 0)))
    axes.plot([1, methods], [0, 0], color="black", linewidth=1)
    for rank in range(1, methods + 1):
        axes.plot([rank, rank], [0, 0.2], color="black", linewidth=1)
        if (rank - 1) % every == 0:
            axes.text(rank, 0.3, f"{rank}", ha="center", va="bottom")
    if difference is not None:
        axes.plot([1, 1 + difference], [1.6, 1.6], color="black", linewidth=1.5, marker="|")
        axes.text(1 + difference / 2, 1.7, f"CD = {difference:.3g}", ha="center", va="bottom")
