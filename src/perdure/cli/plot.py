"""`perdure plot`: a figure for a paper or a slide, from runs, matrices or logs."""

from __future__ import annotations

import warnings
from dataclasses import replace
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from cyclopts import Parameter

from .._extras import install_hint
from .._suggestions import suggest_names
from ..record import InputError
from ..report import check_output
from ..report.load import open_sources
from ..stats import PairTestName
from ._option_groups import DEFAULT_FILE_OPTIONS, FileOptions
from ._options import (
    Flag,
    IntList,
    MetricIds,
    MetricName,
    PathText,
    PositiveInt,
    Values,
    check_paths,
    name_type,
)
from ._output import print_lines, print_stderr, print_wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.figure import Figure

__all__ = ["KINDS", "plot"]

# The kinds of figures; the function of that name in report.figures draws each.
KINDS: dict[str, str] = {
    "averages": "average accuracy and forgetting after each task, a line per method with its band",
    "curves": "scores per task during training, with task switches, min-ACC and task ends",
    "gradients": "gradient norms of the stability term and of the plasticity term",
    "forgetting": "final forgetting against the largest drop on the way, with Pearson's rho",
    "series": "one strategy at several values of a hyperparameter: curves, and metrics against it",
    "panels": "one method: score matrix, learned against retained, forgetting, scores per task",
    "heatmaps": "score matrices by method, with one colour scale",
    "changes": "how learning each task changed the score on every task, by method",
    "classes": "accuracy and forgetting of every class after the last task, by method",
    "confusion": "which classes were predicted for each class after the last task, by method",
    "rescaled": "AA next to RAA and AF next to RAF after each task (needs class counts)",
    "guessing": "the factors of RAA and RAF, from the accuracy of guessing (needs class counts)",
    "spider": "seven criteria by method, with naive and cumulative as bounds",
    "fixed": "accuracy over all tasks, learned or not, after each task",
    "early-stopping": "accuracy on held-out examples after each epoch, and where tasks ended",
    "ranks": "mean ranks over seeds or scenarios; bars join what the test cannot separate",
}

if TYPE_CHECKING:
    KindName: TypeAlias = str
else:
    KindName = name_type(*KINDS)

MAX_DPI = 2400  # a slide of more would take gigabytes


def plot(
    kind: KindName | None = None,
    *sources: PathText,
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
    finished: Flag = False,
    inputs: FileOptions = DEFAULT_FILE_OPTIONS,
    classes: Values | None = None,
    setting: Literal["class", "task", "domain"] | None = None,
    method: str | None = None,
    metric: MetricName | None = None,
    test: PairTestName | Literal["nemenyi"] | None = None,
    unpaired: Flag = False,
    alpha: float | None = None,
) -> int:
    """Draw a figure of runs, matrices, logs or studies and write it as PDF, SVG or PNG.

    Without a kind, the kinds of figures are listed. `perdure plot curves runs -o curves.pdf` draws
    the runs in a folder; runs that differ only in the seed are seeds of one method.
    `er=runs/a-* ewc=runs/b-*` names the methods.

    Args:
        kind: Kind of figure.
        sources: NAME=PATH,PATH… or PATH: run folders, folders of runs, score matrices, points.csv
            files, or patterns of such, or the TOML file of a study. A path without a name belongs
            to the name before it.
        output: File to write; its suffix determines the format.
        size: Size: for a column or a page of a paper, or for a slide.
        dpi: Resolution of a PNG in dots per inch.
        title: Title above the figure.
        store: Folder in which the runs of a study are stored.
        tasks: For curves, series and early-stopping: draw only the first INT tasks. For classes and
            confusion: show the results after INT tasks.
        subsample: For curves: use only every INT-th evaluation; 1,10,100 draws one method at each
            of these rates.
        zoom: For curves: draw only the first INT iterations after each task switch. For gradients:
            draw them below the whole curve.
        term: For gradients: the term of the loss. Defaults to stability.
        window: For forgetting: number of evaluations within which a drop counts. Defaults to 10.
        metrics: For averages and series: metrics to draw. Defaults to acc,forgetting.best and to
            acc,min_acc.
        pool: Average runs under one NAME that differ in more than the seed.
        finished: Leave unfinished runs out.
        inputs: How to read and show the scores.
        classes: Number of classes that each task introduces, as in 2,2,2, for files that do not
            state it.
        setting: What is incremental, for files that do not state it.
        method: For panels: the method to draw if there are several.
        metric: For ranks: the metric to rank by. Defaults to acc.
        test: For ranks: the test that separates methods, as in `perdure compare` (t by default), or
            `nemenyi`, the critical difference of mean ranks (the default over scenarios).
        unpaired: For ranks: do not pair runs by seed.
        alpha: For ranks: significance level. Defaults to 0.05.
    """
    if kind is None:
        _list()
        return 0
    path = _check_arguments(kind, sources, output, dpi, window)
    draw = _find_function(kind)
    options = _select_options(
        kind, draw, tasks=tasks, subsample=subsample, zoom=zoom, term=term, window=window,
        metrics=metrics, method=method, metric=metric, test=test,
        unpaired=unpaired or None, alpha=alpha,
    )  # fmt: skip
    input_options = replace(inputs.make(), classes=classes, setting=setting)
    methods, notes = open_sources(sources, input_options, store, pool=pool, finished=finished)
    from ..report.figures import add_title, get_caption, save

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            figure = draw(methods, size=size, **options)
            if title is not None:
                add_title(figure, title)
            save(figure, path, dpi)
        except InputError:  # runs that were left out may be the reason
            _print_notes([note for note in notes if note.startswith("left out: ")], caught)
            raise
    _print_notes(notes, caught)
    if caption := get_caption(figure):
        print_stderr(f"caption: {caption}")
    print_lines(f"wrote {path}")
    return 0


def _check_arguments(
    kind: str, sources: Sequence[str], output: str | None, dpi: int, window: int | None
) -> Path:
    """Return the file to write; raise InputError for what can be refused before runs are read."""
    if kind not in KINDS:
        raise InputError(
            f"{kind!r:.40} is no figure; {suggest_names(kind, KINDS)}there are {', '.join(KINDS)}"
        )
    if not sources:
        raise InputError("nothing to draw; name a folder of runs, a matrix or a points.csv")
    if output is None:
        raise InputError(f"no file to write; name one: -o {kind}.pdf")
    if not 10 <= dpi <= MAX_DPI:
        raise InputError(f"--dpi is {dpi}, expected 10 to {MAX_DPI}; a PDF is sharp at any size")
    if window is not None and window < 2:
        raise InputError(f"--window is {window}, expected a whole number of at least 2")
    check_paths(sources)
    return check_output(output)


def _print_notes(notes: Sequence[str], caught: Sequence[warnings.WarningMessage]) -> None:
    for note in [*notes, *(str(warning.message) for warning in caught)]:
        print_stderr(f"note: {note}")


def _list() -> None:
    width = max(map(len, KINDS))
    print_lines("perdure plot KIND SOURCE… -o FILE.pdf", "")
    for kind, about in KINDS.items():
        print_wrapped(f"{kind:{width}}  {about}", " " * (width + 2))


def _find_function(kind: str) -> Callable[..., Figure]:
    try:
        figures = import_module("perdure.report.figures")
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise InputError(
            f"matplotlib is not installed, expected it for figures; {install_hint('report')}"
        ) from None
    function: Callable[..., Figure] = getattr(figures, kind.replace("-", "_"))
    return function


def _select_options(kind: str, draw: Callable[..., Figure], **options: object) -> dict[str, object]:
    """Return the options that were set; raise if this kind of figure does not have one of them."""
    accepted = [name for name in options if name in signature(draw).parameters]
    selected = {name: value for name, value in options.items() if value is not None}
    for name in selected:
        if name not in accepted:
            listed = ", ".join(f"--{name}" for name in accepted) or "no such option"
            raise InputError(f"--{name} is not for {kind}, which takes {listed}")
    return selected
