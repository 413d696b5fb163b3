"""`perdure plot`: a figure for a paper or a slide, from runs, matrices or logs."""

from __future__ import annotations

import warnings
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from .._suggestions import suggest_names
from ..record import InputError, InputOptions
from ..stats import PairTestName
from ._options import Flag, IntList, MetricIds, PositiveInt, Range, Values, score_scale
from ._output import print_lines, print_stderr
from ._shown import opened

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.figure import Figure

__all__ = ["KINDS", "plot"]

# What each kind shows; the function of that name in report.figures draws it.
KINDS: dict[str, str] = {
    "curves": "scores on each task while training goes on, switches, min-ACC, task ends",
    "gradients": "gradient norms of what holds on to old tasks and of what learns new ones",
    "forgetting": "what stays forgotten against the largest drop on the way, Pearson's rho",
    "series": "one strategy at several values, memory sizes say: curves, and metrics against it",
    "panels": "one method: its matrix, learned against kept, forgetting, each task's course",
    "heatmaps": "score matrices by method, one colour scale",
    "changes": "what learning each task did to the score on every task, by method",
    "rescaled": "AA beside RAA and AF beside RAF after each task (needs class counts)",
    "guessing": "the factors of RAA and RAF, from how a guesser does (needs class counts)",
    "spider": "seven criteria by method, naive and cumulative as bounds",
    "fixed": "accuracy over all tasks, learned or not, after each task",
    "ranks": "mean ranks over seeds; bars join what the test of compare cannot separate",
}

MOST_DOTS = 2400  # an inch: a slide of more would take gigabytes


def plot(
    kind: str | None = None,
    *sources: str,
    output: Annotated[str | None, Parameter(("--output", "-o"))] = None,
    size: Literal["column", "page", "slide"] = "page",
    dpi: PositiveInt = 200,
    title: str | None = None,
    store: Path = Path("runs"),
    tasks: PositiveInt | None = None,
    subsample: IntList | None = None,
    zoom: PositiveInt | None = None,
    term: Literal["stability", "plasticity", "both"] | None = None,
    window: PositiveInt | None = None,
    metrics: MetricIds | None = None,
    pool: Flag = False,
    transposed: Flag = False,
    upper: Literal["measured"] | None = None,
    percent: Flag = False,
    range_: Annotated[Range | None, Parameter("--range")] = None,
    lower_is_better: Flag = False,
    classes: Values | None = None,
    setting: Literal["class", "task", "domain"] | None = None,
    method: str | None = None,
    metric: str | None = None,
    test: PairTestName | Literal["nemenyi"] | None = None,
    unpaired: Flag = False,
    alpha: float | None = None,
) -> int:
    """Draw a figure and write it as PDF, SVG or PNG.

    Without a kind, say which there are. `perdure plot curves runs -o curves.pdf` draws the runs in
    a folder, those that differ in the seed only together; `er=runs/a-* ewc=runs/b-*` names them.

    Args:
        kind: what to draw.
        sources: NAME=PATH,PATH… or PATH: run folders, folders of them, score matrices, points.csv,
            or patterns of such, or the TOML file of a study. A path belongs to the name before
            it.
        output: the file to write; its ending says the format.
        size: for a column or a page of a paper, or a slide.
        dpi: dots per inch of a PNG.
        title: above the figure.
        store: folder of a study's runs.
        tasks: in curves and series, so many tasks, from the first on.
        subsample: in curves, keep every so many evaluations; 1,10,100 draws one method at each.
        zoom: in curves and gradients, only so many iterations after each switch.
        term: in gradients, of which part of the loss; stability where not said.
        window: in forgetting, within how many evaluations a drop counts; 10 where not said.
        metrics: in series, ids of the metrics to draw; acc,min_acc where not said.
        pool: average runs under one NAME that differ in more than the seed.
        transposed: in matrices, rows are tested tasks, columns trained ones.
        upper: `measured` if zeros in all of a matrix's upper triangle are scores.
        percent: show scores in percent. Matrices and logs are read as percent; a run states its
            own scale.
        range_: LO,HI of scores in files that are not accuracies; inf is allowed.
        lower_is_better: the scores in files are losses or errors.
        classes: how many classes each task brings, of files that do not say it: 2,2,2 or a file.
        setting: what is incremental, of files that do not say it.
        method: in panels, which of several methods.
        metric: in ranks, the id to rank by; acc where not said.
        test: in ranks, which test separates methods, as in `perdure compare` (t where not said), or
            nemenyi, the critical difference of mean ranks.
        unpaired: in ranks, the test does not pair runs by seed.
        alpha: in ranks, of the test; 0.05 where not said.
    """
    if kind is None:
        _list()
        return 0
    if kind not in KINDS:
        raise InputError(
            f"{kind!r:.40} is no figure; {suggest_names(kind, KINDS)}there are {', '.join(KINDS)}"
        )
    if not sources:
        raise InputError("nothing to draw; name a folder of runs, a matrix or a points.csv")
    if output is None:
        raise InputError(f"no file to write; name one: -o {kind}.pdf")
    if not 10 <= dpi <= MOST_DOTS:
        raise InputError(f"--dpi is {dpi}, expected 10 to {MOST_DOTS}; a PDF is sharp at any size")
    if window is not None and window < 2:
        raise InputError(f"--window is {window}, expected a whole number of at least 2")
    draw = _function(kind)
    options = _fitting(
        kind, draw, tasks=tasks, subsample=subsample, zoom=zoom, term=term, window=window,
        metrics=metrics, method=method, metric=metric, test=test,
        unpaired=unpaired or None, alpha=alpha,
    )  # fmt: skip
    given = InputOptions(
        transposed=transposed, percent=percent, upper=upper,
        scale=score_scale(range_, lower_is_better=lower_is_better), classes=classes,
        setting=setting,
    )  # fmt: skip
    methods, notes = opened(sources, given, store, pool=pool)
    from ..report.figures import add_title, save

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            figure = draw(methods, size=size, **options)
            if title is not None:
                add_title(figure, title)
            path = save(figure, output, dpi)
        except InputError:  # what was left out may be why
            _say([note for note in notes if note.startswith("left out: ")], told)
            raise
    _say(notes, told)
    print_lines(f"wrote {path}")
    return 0


def _say(notes: Sequence[str], told: Sequence[warnings.WarningMessage]) -> None:
    for note in [*notes, *(str(each.message) for each in told)]:
        print_stderr(f"note: {note}")


def _list() -> None:
    width = max(map(len, KINDS))
    print_lines("perdure plot KIND SOURCE… -o FILE.pdf", "")
    for kind, about in KINDS.items():
        print_lines(f"{kind:{width}}  {about}")


def _function(kind: str) -> Callable[..., Figure]:
    try:
        figures = import_module("perdure.report.figures")
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise InputError(
            "matplotlib is not installed, expected it for figures; pip install 'perdure[report]'"
        ) from None
    function: Callable[..., Figure] = getattr(figures, kind)
    return function


def _fitting(kind: str, draw: Callable[..., Figure], **options: Any) -> dict[str, Any]:
    """Return the options that were given, or refuse one that this kind does not have."""
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in signature(draw).parameters:
            takes = [f"--{each}" for each in options if each in signature(draw).parameters]
            raise InputError(
                f"--{name} is not for {kind}, which takes {', '.join(takes) or 'no such option'}"
            )
    return given
