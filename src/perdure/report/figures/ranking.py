"""Mean ranks of methods with their critical difference: Demšar's (2006) diagram."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...metrics import (
    better_of,
    common_seeds,
    critical_difference,
    find_metric,
    friedman_p,
    not_apart,
    options_for,
)
from ...metrics.compare import ranks as ranked
from ...record import BadInput
from ..colours import looks
from ..opened import described
from ..usable import as_many_tasks, usable
from ._panels import short
from ._paper import SIZES, drawing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ...metrics import Summary
    from ...record import Source
    from ..opened import Methods
    from ._paper import Size

    Seed = int | str
    Values = dict[str, dict[Seed, float]]

__all__ = ["ranks"]

STEP = 0.45  # between bars, in lines of text
LETTERS = {"column": 13, "page": 36, "slide": 26}  # of a method's name


def ranks(
    methods: Methods, *, size: Size = "page", metric: str = "acc", alpha: float = 0.05
) -> Figure:
    """Return mean ranks over seeds, 1 the best, with Nemenyi's critical difference.

    A bar joins methods whose mean ranks differ by less than that: the seeds cannot tell them apart.

    Args:
        methods: two or more, with two or more seeds in common.
        size: column, page or slide.
        metric: the id to rank by.
        alpha: how often a difference may be found where there is none.

    Example:
        >>> from perdure.metrics import ScoreMatrix
        >>> from perdure.record import Source
        >>> one = lambda last: Source(ScoreMatrix([[0.9, 0.1], [last, 0.8]]))
        >>> figure = ranks({"er": [one(0.7), one(0.8)], "naive": [one(0.1), one(0.2)]})
        >>> [text.get_text() for text in figure.axes[0].texts][:2]
        ['er  1.00 ', ' 2.00  naive']
    """
    if not 0 < alpha < 1:
        raise BadInput(f"alpha is {alpha:g}, expected a number between 0 and 1")
    values, better = _values(methods, metric)
    seeds = common_seeds(values)
    mean = _mean_ranks(values, seeds, lower_is_better=better == "lower")
    difference = critical_difference(len(mean), len(seeds), alpha=alpha)
    p = friedman_p([[_plain(values[name][seed]) for name in values] for seed in seeds])
    joined = not_apart(mean, difference)
    with drawing(size, _height(len(mean), len(joined), size)) as figure:
        axes = figure.axes[0]
        colours = {name: look.colour for name, look in looks(methods).items()}
        _names(axes, mean, colours, 0.6 + STEP * len(joined), LETTERS[size])
        _bars(axes, joined, mean)
        _ruler(axes, len(mean), difference, _every(list(mean), size))
        lines = [f"{metric}: mean ranks over {len(seeds)} seeds, alpha = {alpha:g}"]
        if p is not None:
            lines.append(f"Friedman's test of equal ranks: p = {p:.3g}")
        if difference > len(mean) - 1:
            lines.append(f"{len(seeds)} seeds cannot tell any two of {len(mean)} apart this way")
        axes.set_title("\n".join(lines))
        figure.draw_without_rendering()  # names move with the axis: the layout takes two rounds
    return figure


def _values(methods: Methods, metric: str) -> tuple[Values, str]:
    """Return the metric of every run by method and seed, and which way it is better."""
    if len(methods) < 2:
        raise BadInput(f"{len(methods)} method(s), expected two or more: ranks are among methods")
    try:
        find_metric(metric)
    except ValueError as error:
        raise BadInput(f"metric: {error}") from None
    options = options_for([metric])

    def lacks(run: Source) -> str:
        found = run.summary(options)
        reason = found.undefined.get(metric, "not computed")
        return "" if metric in found.metrics else f"{metric} is undefined: {reason}"

    seeds = _seeds(methods)  # before any is left out: some are paired by their order
    kept = as_many_tasks(usable(methods, lacks), together=True)
    if len(kept) < 2:
        raise BadInput("1 method is left, expected two or more: ranks are among methods")
    values: Values = {}
    seen: tuple[str, Summary] | None = None
    for name, runs in _by_seed(methods, seeds, kept).items():
        values[name] = {}
        for seed, run in runs.items():
            found = run.summary(options)
            seen = seen or (name, found)
            _refuse_other(seen, (name, found))
            values[name][seed] = found.metrics[metric]
    assert seen is not None
    return values, better_of(metric, seen[1].scale)


def _refuse_other(one: tuple[str, Summary], other: tuple[str, Summary]) -> None:
    if one[1].scale != other[1].scale:
        raise BadInput(
            f"{other[0]} has scores of another range or direction than {one[0]}, expected the same "
            "kind of score everywhere"
        )


def _by_seed(
    methods: Methods, seeds: Mapping[str, Sequence[Seed]], kept: Methods
) -> dict[str, dict[Seed, Source]]:
    """Return the runs that were kept of the seeds that all methods have, by seed."""
    runs: dict[str, dict[Seed, Source]] = {}
    for name, several in kept.items():
        if len(set(seeds[name])) < len(seeds[name]):
            raise BadInput(
                f"{name} has a seed twice, expected each seed once; give each its own NAME=PATH"
            )
        ours = {id(run) for run in several}
        both = zip(seeds[name], methods[name], strict=True)
        runs[name] = {seed: run for seed, run in both if id(run) in ours}
    common = common_seeds(runs)
    if len(common) < 2:
        raise BadInput(
            f"{len(common)} seed(s) in common, expected two or more: ranks are averaged over seeds"
        )
    return {name: {seed: mine[seed] for seed in common} for name, mine in runs.items()}


def _seeds(methods: Methods) -> dict[str, list[Seed]]:
    """Return the seeds that runs say they have, or their places where any says none."""
    said: dict[str, list[Seed]] = {name: [] for name in methods}
    for name, runs in methods.items():
        for run in runs:
            seed = described(run).get("seed")
            said[name] += [seed] if isinstance(seed, int | str) else []
    if all(len(said[name]) == len(runs) for name, runs in methods.items()):
        return said
    counts = {name: len(runs) for name, runs in methods.items()}
    if len(set(counts.values())) > 1:
        each = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise BadInput(
            f"runs that say no seed are paired by their order, and {each:.300}; "
            "expected as many of each method"
        )
    return {name: list(range(len(runs))) for name, runs in methods.items()}


def _plain(value: float) -> float:
    return float(f"{value:.12g}")  # what is left of rounding is no difference


def _mean_ranks(
    values: Values, seeds: Sequence[Seed], *, lower_is_better: bool
) -> dict[str, float]:
    """Return the mean rank of each method, the best first."""
    each = [
        ranked(
            {name: _plain(mine[seed]) for name, mine in values.items()},
            lower_is_better=lower_is_better,
        )
        for seed in seeds
    ]
    mean = {name: sum(rank[name] for rank in each) / len(each) for name in values}
    return dict(sorted(mean.items(), key=lambda item: item[1]))


def _height(methods: int, bars: int, size: Size) -> float:
    width, points = SIZES[size] if size in SIZES else SIZES["page"]
    lines = 6.5 + STEP * bars + -(-methods // 2)
    return 1.5 * lines * points / 72 / width


def _every(names: Sequence[str], size: Size) -> int:
    """Return of which ranks to write the number, every one or every so many, beside the names."""
    width, points = SIZES[size]
    letters = max(len(short(name, LETTERS[size])) for name in names) + 7  # with its rank
    inches = max(width - 2 * 0.6 * letters * points / 72, 0.3)
    return math.ceil(2 * points / 72 * len(names) / inches)


def _names(
    axes: Axes,
    mean: Mapping[str, float],
    colours: Mapping[str, str],
    below: float,
    letters: int,
) -> None:
    """Write the better half at the left and the others at the right, each with a line to its rank.

    The outermost stand highest, so that no line crosses another.
    """
    names = list(mean)
    half = -(-len(names) // 2)
    margin = 0.06 * (len(names) - 1)
    left = [(name, k) for k, name in enumerate(names[:half])]
    right = [(name, k) for k, name in enumerate(reversed(names[half:]))]
    for name, k in left:
        y, end = -below - k, 1 - margin
        _stem(axes, mean[name], y, end, colours[name])
        axes.text(end, y, f"{short(name, letters)}  {mean[name]:.2f} ", ha="right", va="center")
    for name, k in right:
        y, end = -below - k, len(names) + margin
        _stem(axes, mean[name], y, end, colours[name])
        axes.text(end, y, f" {mean[name]:.2f}  {short(name, letters)}", ha="left", va="center")
    axes.set_ylim(-below - half + 0.4, 2.6)


def _stem(axes: Axes, rank: float, y: float, end: float, colour: str) -> None:
    axes.plot([rank, rank, end], [0, y, y], color=colour, clip_on=False)


def _bars(axes: Axes, joined: Sequence[Sequence[str]], mean: Mapping[str, float]) -> None:
    """Draw a bar over the ranks of methods that cannot be told apart."""
    room = 0.02 * (len(mean) - 1)
    for k, group in enumerate(joined):
        y = -0.4 - STEP * k
        axes.plot(
            [mean[group[0]] - room, mean[group[-1]] + room], [y, y],
            color="black", linewidth=3, solid_capstyle="butt", zorder=3, clip_on=False,
        )  # fmt: skip


def _ruler(axes: Axes, methods: int, difference: float, every: int) -> None:
    """Draw the axis of ranks and, above it, the critical difference."""
    axes.set_axis_off()
    axes.set_xlim(1, max(methods, 1 + difference))
    axes.plot([1, methods], [0, 0], color="black", linewidth=1)
    for rank in range(1, methods + 1):
        axes.plot([rank, rank], [0, 0.2], color="black", linewidth=1)
        if (rank - 1) % every == 0:
            axes.text(rank, 0.3, f"{rank}", ha="center", va="bottom")
    axes.plot([1, 1 + difference], [1.6, 1.6], color="black", linewidth=1.5, marker="|")
    axes.text(1 + difference / 2, 1.7, f"CD = {difference:.3g}", ha="center", va="bottom")
