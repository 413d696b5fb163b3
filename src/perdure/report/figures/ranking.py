"""Mean ranks of methods, with bars that join indistinguishable ones: after Demšar (2006)."""

from __future__ import annotations

import math
from textwrap import fill
from typing import TYPE_CHECKING, Literal, NamedTuple

from ...metrics import common_seeds, compare_methods, find_metric, options_for
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
from ..filtering import drop_other_task_counts, drop_unusable
from ..load import index_by_seed
from .drawing.panels import shorten
from .drawing.paper import SIZES, new_figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ...metrics import MethodsComparison, ScoreScale, Summary
    from ...record import ScoreInput
    from ...stats import PairTestName
    from ..load import RunsByMethod
    from .drawing.paper import Size

    Seed = int | str
    Values = dict[str, dict[Seed, float]]

__all__ = ["ranks"]

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
    test: PairTestName | Literal["nemenyi"] = "t",
    unpaired: bool = False,
    alpha: float = 0.05,
) -> Figure:
    """Return mean ranks over seeds, 1 is best; a bar joins methods that the test cannot separate.

    A bar joins the methods at its dots; the letters are those of `perdure compare`.

    Args:
        methods: runs of two or more methods that have two or more seeds in common.
        size: a column or a page of a paper, or a slide.
        metric: id of the metric to rank by.
        test: pairwise test, with Holm's correction; or nemenyi, the critical difference of ranks.
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
    values, scale = _get_values(methods, metric, unpaired=unpaired)
    comparison = compare_methods(
        metric, values, scale=scale, alpha=alpha, test="t" if test == "nemenyi" else test,
        unpaired=unpaired,
    )  # fmt: skip
    mean = dict(sorted(comparison.ranks.items(), key=lambda item: item[1]))
    if test == "nemenyi":
        grouped = _group_by_nemenyi(values, comparison, alpha)
    else:
        grouped = _group_by_test(values, comparison, test, unpaired=unpaired, alpha=alpha)
    about = f"{metric}: mean ranks over {len(comparison.seeds)} seeds, alpha = {alpha:g}"
    title = "\n".join(fill(line, _letters_per_line(size)) for line in [about, *grouped.reasons])
    above = 1.2 if grouped.difference is None else 2.6  # the ruler, in lines of text
    lines = above + BAR_STEP * len(grouped.groups) + len(mean) / 2 + title.count("\n")
    with new_figure(size, _height(lines, size)) as figure:
        axes = figure.axes[0]
        colours = {name: style.colour for name, style in choose_styles(methods).items()}
        tags = {name: _tag(name, grouped.letters, MAX_NAME_LETTERS[size]) for name in mean}
        _draw_names(axes, mean, tags, colours, 0.6 + BAR_STEP * len(grouped.groups))
        _draw_bars(axes, grouped.groups, mean)
        _draw_ruler(axes, len(mean), grouped.difference, _tick_step(list(tags.values()), size))
        axes.set_ylim(top=above)
        axes.set_title(title)
        figure.draw_without_rendering()  # names move with the axis: the layout takes two rounds
    return figure


def _group_by_test(
    values: Values,
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
    seeds = max(map(len, values.values()))
    least = min_attainable_p(seeds, comparisons=len(comparison.pairs), test=test, unpaired=unpaired)
    if least >= alpha:
        reasons.append(f"which cannot go below p = {least:.3g} with {seeds} seeds")
    return _RankGroups(groups, comparison.letters, reasons)


def _group_by_nemenyi(values: Values, comparison: MethodsComparison, alpha: float) -> _RankGroups:
    methods, seeds = len(values), len(comparison.seeds)
    difference = critical_difference(methods, seeds, alpha=alpha)
    p = friedman_p([[own[seed] for own in values.values()] for seed in comparison.seeds])
    reasons = [] if p is None else [f"Friedman's test of equal ranks: p = {p:.3g}"]
    if difference > methods - 1:
        reasons.append(f"{seeds} seeds cannot separate any two of {methods} methods with this test")
    return _RankGroups(
        indistinguishable_groups(comparison.ranks, difference), {}, reasons, difference
    )


def _get_values(methods: RunsByMethod, metric: str, *, unpaired: bool) -> tuple[Values, ScoreScale]:
    """Return the metric of each run by method and seed, and the scale of the scores."""
    if len(methods) < 2:
        raise InputError(f"{len(methods)} method(s), expected two or more to rank")
    try:
        find_metric(metric)
    except ValueError as error:
        raise InputError(f"metric: {error}") from None
    options = options_for([metric])

    def find_problem(run: ScoreInput) -> str:
        summary = run.summary(options)
        reason = summary.undefined.get(metric, "not computed")
        return "" if metric in summary.metrics else f"{metric} is undefined: {reason}"

    every = index_by_seed(methods, unpaired=unpaired)  # before runs are dropped: order may pair
    usable = drop_other_task_counts(drop_unusable(methods, find_problem), together=True)
    if len(usable) < 2:
        raise InputError("1 method is left, expected two or more to rank")
    indices = {
        name: {seed: k for seed, k in every[name].items() if methods[name][k] in runs}
        for name, runs in usable.items()
    }
    common = common_seeds(indices)
    if len(common) < 2:
        raise InputError(
            f"{len(common)} seed(s) in common, expected two or more to average ranks over"
        )
    values: Values = {}
    first: tuple[str, Summary] | None = None
    for name, own in indices.items():
        values[name] = {}
        for seed in own if unpaired else common:
            summary = methods[name][own[seed]].summary(options)
            first = first or (name, summary)
            _check_comparable(first, (name, summary))
            values[name][seed] = summary.metrics[metric]
    assert first is not None
    return values, first[1].scale


def _check_comparable(one: tuple[str, Summary], other: tuple[str, Summary]) -> None:
    counts = [len(summary.tasks) for _, summary in (one, other)]
    if counts[0] != counts[1]:
        raise InputError(
            f"{one[0]} has {counts[0]} tasks and {other[0]} has {counts[1]}, expected equally many "
            "for all methods"
        )
    if one[1].scale != other[1].scale:
        raise InputError(
            f"{other[0]} has scores of another range or direction than {one[0]}, expected the same "
            "kind of score everywhere"
        )


def _height(lines: float, size: Size) -> float:
    width, points = SIZES[size] if size in SIZES else SIZES["page"]
    return 1.5 * (lines + 3) * points / 72 / width


def _letters_per_line(size: Size) -> int:
    """Return how many letters fit on a line of the title."""
    width, points = SIZES[size] if size in SIZES else SIZES["page"]
    return int(72 * width / (0.62 * points))


def _tag(name: str, letters: Mapping[str, str], most: int) -> str:
    suffix = f" ({letters[name]})" if letters else ""
    return shorten(name, max(most - len(suffix), 4)) + suffix


def _tick_step(tags: Sequence[str], size: Size) -> int:
    """Return the step between labelled ranks, so that their numbers do not overlap."""
    width, points = SIZES[size]
    letters = max(map(len, tags)) + 7  # with its rank
    inches = max(width - 2 * 0.6 * letters * points / 72, 0.3)
    return math.ceil(2 * points / 72 * len(tags) / inches)


def _draw_names(
    axes: Axes,
    mean: Mapping[str, float],
    tags: Mapping[str, str],
    colours: Mapping[str, str],
    below: float,
) -> None:
    """Write the better half at the left and the others at the right, each with a line to its rank.

    The outermost names are highest, so that no line crosses another.
    """
    names = list(mean)
    half = -(-len(names) // 2)
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
