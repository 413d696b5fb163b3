"""`perdure report`: one HTML file to look at, from runs, matrices or logs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from ..record import InputError, InputOptions
from ..stats import PairTestName
from ._options import Flag, Range, score_scale
from ._output import print_lines, print_stderr
from ._shown import opened

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["report"]


def report(
    *sources: str,
    output: Annotated[Path, Parameter(("--output", "-o"))] = Path("report.html"),
    title: str | None = None,
    store: Path = Path("runs"),
    pool: Flag = False,
    transposed: Flag = False,
    upper: Literal["measured"] | None = None,
    percent: Flag = False,
    range_: Annotated[Range | None, Parameter("--range")] = None,
    lower_is_better: Flag = False,
    test: PairTestName = "t",
    unpaired: Flag = False,
    alpha: float = 0.05,
) -> int:
    """Write one HTML file that shows everything, opens without a network, and prints well.

    `perdure report runs` takes a folder of runs apart by itself: runs that differ in the seed only
    are one method. `perdure report er=runs/a-* ewc=runs/b-*` names them.

    Args:
        sources: NAME=PATH,PATH… or PATH: run folders, folders of them, score matrices, points.csv,
            or patterns of such, or the TOML file of a study. A path belongs to the name before
            it.
        output: the file to write.
        title: of the page.
        store: folder of a study's runs.
        pool: average runs under one NAME that differ in more than the seed.
        transposed: in matrices, rows are tested tasks, columns trained ones.
        upper: `measured` if zeros in all of a matrix's upper triangle are scores.
        percent: show scores in percent. Matrices and logs are read as percent; a run states its
            own scale.
        range_: LO,HI of scores in files that are not accuracies; inf is allowed.
        lower_is_better: the scores in files are losses or errors.
        test: of every two methods, as in `perdure compare`.
        unpaired: the test does not pair runs by seed.
        alpha: methods are distinguishable where p after Holm's correction is below it.
    """
    if not sources:
        raise InputError("nothing to report; name a folder of runs, a matrix or a points.csv")
    if not 0 < alpha < 1:
        raise InputError(f"--alpha is {alpha:g}, expected a number between 0 and 1")
    if not output.parent.is_dir():
        raise InputError(f"{output}: there is no folder {output.parent}; make it first")
    if output.is_dir():
        raise InputError(
            f"{output} is a folder, expected a file; name one: -o {output}/report.html"
        )
    try:
        from ..report.page import render_page
        from ..report.page.significance import PairTestOptions
    except ModuleNotFoundError as error:
        raise InputError(
            f"{error.name} is not installed, expected it for pages; pip install 'perdure[report]'"
        ) from None
    given = InputOptions(
        transposed=transposed,
        percent=percent,
        scale=score_scale(range_, lower_is_better=lower_is_better),
        upper=upper,
    )
    methods, notes = opened(sources, given, store, pool=pool)
    again = _arguments(
        sources, output=None if output == Path("report.html") else output, title=title,
        store=None if store == Path("runs") else store, pool=pool, transposed=transposed,
        upper=upper, percent=percent, lower_is_better=lower_is_better,
        range=None if range_ is None else "{:g},{:g}".format(*range_),
        test=None if test == "t" else test, unpaired=unpaired,
        alpha=None if alpha == 0.05 else alpha,
    )  # fmt: skip
    told = _Counter(sum(map(len, methods.values())))
    how = PairTestOptions(test, unpaired, alpha)
    text = render_page(methods, command=again, left_out=notes, title=title, told=told, how=how)
    output.write_text(text, encoding="utf-8")
    for note in notes:
        print_stderr(f"note: {note}")
    print_lines(f"wrote {output} ({len(text) / 1e6:.1f} MB); open it in a browser")
    return 0


def _arguments(sources: Sequence[str], **options: object) -> list[str]:
    """Return what was asked for as arguments, so that the page can say how to make it again."""
    words = list(sources)
    for name, value in options.items():
        if value is not None and value is not False:
            words.append(f"--{name.replace('_', '-')}")
            words += [] if value is True else [str(value)]
    return words


class _Counter:
    """Says on a terminal how many runs are summarised: many take a while."""

    def __init__(self, total: int) -> None:
        self.total = total

    def __call__(self, done: int) -> None:
        if sys.stderr.isatty() and self.total > 1:
            end = "\r\x1b[K" if done == self.total else ""
            sys.stderr.write(f"\rperdure: {done} of {self.total} runs{end}")
            sys.stderr.flush()
