"""`perdure compare`: several methods, seed by seed, with tests of their differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from ..api.comparison import compare as compare_groups
from ..record import InputError
from ..record.group_names import format_seeds
from ..report.load import check_percent
from ..report.tables import make_comparison_tables
from ..report.tables.comparison import describe_comparison
from ..report.tables.comparison_tables import (
    MAX_DETAILED_PAIRS,
    describe_example_comparison,
    make_example_tables,
)
from ..report.tables.scores import group_reasons
from ..report.tables.study import COLUMNS
from ..stats import PairTestName
from ._option_groups import DEFAULT_FILE_OPTIONS, FileOptions
from ._options import Flag, MetricIds, NonNegativeInt, PathText, TableFormat, check_paths
from ._output import (
    NEEDS_BOOKTABS,
    print_json,
    print_lines,
    print_notes,
    print_stderr,
    print_tables,
    print_wrapped,
    render_all,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..report.tables import ComparisonReport, TextTable

__all__ = ["compare"]


def compare(
    *groups: PathText,
    metrics: MetricIds | None = None,
    test: PairTestName = "t",
    unpaired: Flag = False,
    against: Annotated[str | None, Parameter(metavar="METHOD")] = None,
    alpha: float = 0.05,
    interval: Literal["t", "bca"] = "t",
    level: float = 0.95,
    digits: NonNegativeInt | None = None,
    details: Flag = False,
    format_: TableFormat = "text",
    ids: Flag = False,
    finished: Flag = False,
    unfinished: Flag = False,
    force: Flag = False,
    pool: Flag = False,
    inputs: FileOptions = DEFAULT_FILE_OPTIONS,
) -> int:
    """Compare several methods: print means over seeds, ranks and a test of every pair.

    `perdure compare runs` groups the runs in a folder by itself: runs that differ only in the seed
    are seeds of one method. `perdure compare er=runs/a-* ewc=runs/b-*` names the methods. Seeds are
    paired by their numbers if every run or file states one, and otherwise by the order of the
    files. If there are at most five methods with one run each, the models are also compared example
    by example.

    Args:
        groups: NAME=PATH,PATH… or PATH: run folders, folders of runs, score matrices, points.csv
            files, or patterns of such. A path without a name belongs to the name before it. A file
            may hold several methods: {"er": matrices, "ewc": matrices}, or a column `method`.
        metrics: Compare by these metrics only: ids, or a pattern such as 'forgetting.*'. Exits with
            code 1 if one that is named is undefined, or all that match a pattern.
        test: Test of every pair, paired by seed: Student's t-test, a sign permutation test, or
            Wilcoxon's signed-rank test; `welch` is the unpaired t-test. See docs/statistics.md.
        unpaired: Do not pair runs by seed: `t` becomes Welch's test, `permutation` the two-sample
            permutation test, and `wilcoxon` the Mann-Whitney test.
        against: Compare all other methods with this one only, which corrects for fewer pairs.
        alpha: Significance level: methods are distinguishable if p after Holm's correction is
            below it.
        interval: Confidence interval over seeds: Student's t, or the BCa bootstrap.
        level: Confidence level of the intervals of means and differences.
        digits: Number of decimals. Defaults to 4, or to 2 in percent.
        details: Print more tables: intervals, ranks, p-values and differences in Markdown, LaTeX
            and CSV, and the differences of more than 10 pairs in text.
        format_: Output format. LaTeX tables use booktabs and the symbols of metrics, with the best
            mean in bold and the second best underlined.
        ids: In LaTeX, print the ids of metrics instead of their symbols.
        finished: Leave unfinished runs out.
        unfinished: Include unfinished runs with the tasks they have finished so far.
        force: Compare runs of different scenarios, settings or tasks, or unequal numbers of files.
        pool: Average runs under one NAME that differ in more than the seed.
        inputs: How to read and show the scores.
    """
    if not groups:
        raise InputError("nothing to compare; name a folder of runs, or groups: er=PATH ewc=PATH")
    check_paths(groups)
    report = compare_groups(
        *groups, metrics=metrics, test=test, unpaired=unpaired, against=against, alpha=alpha,
        interval=interval, level=level, finished=finished, unfinished=unfinished, force=force,
        pool=pool, inputs=inputs.make(),
    )  # fmt: skip
    if inputs.percent and report.run_folder is not None:
        check_percent(report.scale, report.run_folder)
    render_all(report)
    decimals = digits if digits is not None else 2 if inputs.percent else 4
    if format_ == "json":
        print_json(report.to_dict())
    else:
        options = {"percent": inputs.percent, "details": details, "ids": ids}
        _print(report, format_, digits=decimals, **options)
        _print_examples(report, metrics or COLUMNS, format_, digits=decimals, **options)
    missing = metrics.missing(report.metrics) if metrics else not report.metrics
    return 1 if report.undefined and missing else 0


def _print(
    report: ComparisonReport, format_: str, *, percent: bool, digits: int, details: bool, ids: bool
) -> None:
    text = [f"{report.subject}: {len(report.runs)} methods", *describe_comparison(report)]
    if report.paired_by == "seed" and not report.unpaired:
        text[0] += f", seed{'s' if len(report.seeds) > 1 else ''} {format_seeds(report.seeds)}"
    if format_ == "text" and report.comparisons > MAX_DETAILED_PAIRS and not details:
        text.append("differences with intervals and effects: --details, or --against METHOD")
    tables = make_comparison_tables(
        report, format_, percent=percent, digits=digits, details=details
    )
    if format_ == "latex":
        _print_latex(tables, text, ids=ids)
    elif format_ == "csv":
        print_tables(tables, format_)
    else:
        if format_ == "text":
            print_wrapped(text.pop(0), "  ")
            print_lines()
        print_tables(tables, format_)
        if tables:
            print_lines()
        for line in text:
            print_wrapped(f"- {line}" if format_ == "markdown" else line, "  ")
    for line in group_reasons(report.undefined):
        if format_ == "text":
            print_wrapped(f"undefined: {line}", "  ")
        else:
            print_stderr(f"undefined: {line}")
    print_notes(report.notes, format_)


def _print_latex(tables: Sequence[TextTable], text: Sequence[str], *, ids: bool) -> None:
    """Print tables below comments with what they rest on, so that a paper can include the file."""
    print_lines(*(f"% {line}" for line in text), NEEDS_BOOKTABS)
    for table in tables:
        if table.title:
            print_lines("", f"% {table.title}")
        print_tables([table], "latex", ids=ids)


def _print_examples(
    report: ComparisonReport,
    metrics: Sequence[str],
    format_: str,
    *,
    percent: bool,
    digits: int,
    details: bool,
    ids: bool,
) -> None:
    """Print how the models of single runs differ on the examples that both were evaluated on."""
    if format_ == "csv" and not details:
        return
    for pair in report.example_comparisons:
        tables = make_example_tables(
            pair, metrics, report.scale, percent=percent and format_ != "csv",
            digits=None if format_ == "csv" else digits + 2 * percent, per_task=details,
        )  # fmt: skip
        text = describe_example_comparison(pair)
        if tables:
            print_lines()
        if format_ == "latex":
            for table in tables:
                print_lines(f"% {table.title}")
                print_tables([table], format_, ids=ids)
            print_lines(f"% {text}")
        elif format_ == "csv":
            print_tables(tables, format_)
            print_stderr(f"note: {text}")
        else:
            print_tables(tables, format_)
            print_wrapped(f"- {text}" if format_ == "markdown" else text, "  ")
