"""`perdure compare`: several methods, seed by seed: who differs, and what the seeds can tell."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from .._suggestions import suggest_names
from ..metrics import compare_methods, options_for
from ..record import InputError, InputOptions, read_input
from ..record.comparability import missing, notes_of, same_scores, same_tasks
from ..record.grouping import find_groups, in_words
from ..record.pairing import only_finished, paired, remarks, same_scenario
from ..report.tables import ComparisonReport, make_comparison_tables
from ..report.tables.comparison import comparison_to_dict, describe_comparison
from ..report.tables.comparison_tables import MAX_DETAILED_PAIRS
from ..report.tables.scores import group_reasons
from ..report.tables.study import COLUMNS
from ..stats import PairTestName, find_pair_test
from ._example_differences import example_differences, print_example_differences
from ._options import (
    Flag,
    MetricIds,
    NonNegativeInt,
    Range,
    TableFormat,
    check_percent,
    score_scale,
)
from ._output import (
    STDIN,
    print_json,
    print_lines,
    print_notes,
    print_stderr,
    print_tables,
    print_wrapped,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..metrics import Summary
    from ..record.grouping import Groups
    from ..record.run_index import RunRef
    from ..report.tables import TextTable

    ByMethod = dict[str, dict[int | str, Summary]]
    Runs = dict[str, dict[int | str, RunRef]]

__all__ = ["compare"]


def compare(
    *groups: str,
    metrics: MetricIds | None = None,
    test: PairTestName = "t",
    unpaired: Flag = False,
    against: str | None = None,
    alpha: float = 0.05,
    interval: Literal["t", "bca"] = "t",
    level: float = 0.95,
    percent: Flag = False,
    digits: NonNegativeInt | None = None,
    details: Flag = False,
    finished: Flag = False,
    unfinished: Flag = False,
    force: Flag = False,
    pool: Flag = False,
    transposed: Flag = False,
    upper: Literal["measured"] | None = None,
    range_: Annotated[Range | None, Parameter("--range")] = None,
    lower_is_better: Flag = False,
    format_: TableFormat = "text",
) -> int:
    """Print means over seeds, ranks and tests of several methods.

    `perdure compare runs` takes a folder of runs apart by itself: runs that differ in the seed
    alone are seeds of one method. `perdure compare er=runs/a-* ewc=runs/b-*` names them. Seeds are
    paired by run.json where every run has one that says its seed, else by file order. If each
    of up to five methods is a single run, the models are also compared example by example.

    Args:
        groups: NAME=PATH,PATH… or PATH: run folders, folders of them, score matrices, points.csv,
            or patterns of such. A path belongs to the name before it.
        metrics: compare by these ids only; exit code 1 if one is undefined.
        test: paired by seed: Student's t, a permutation of signs, or Wilcoxon's signed ranks; welch
            is the unpaired t. docs/statistics.md says which one when.
        unpaired: do not pair runs by seed: t becomes Welch's, permutation that of two samples,
            wilcoxon the Mann-Whitney test.
        against: compare the other methods with this one only, and correct for fewer pairs.
        alpha: methods are distinguishable where p after Holm's correction is below it.
        interval: over seeds: Student's t, or the BCa bootstrap.
        level: confidence of the intervals, of means and of differences.
        percent: print tables in percent (JSON and CSV never are). Matrices and logs are read as
            percent; a run states its own scale.
        digits: after the point; 4, or 2 in percent.
        details: print more tables: in Markdown, LaTeX and CSV intervals, ranks, p-values and
            differences; else differences also of more than 10 pairs.
        finished: leave unfinished runs out.
        unfinished: take them as far as they are.
        force: compare what is of several scenarios, settings or tasks, or not as many files.
        pool: average runs under one NAME that differ in more than the seed.
        transposed: in matrices, rows are tested tasks, columns trained ones.
        upper: `measured` if zeros in all of a matrix's upper triangle are scores.
        range_: LO,HI of scores in files that are not accuracies; inf is allowed.
        lower_is_better: the scores in files are losses or errors.
        format_: how to print the tables; LaTeX uses booktabs.
    """
    places = digits if digits is not None else 2 if percent else 4
    wanted = metrics or []
    for name, value in (("--alpha", alpha), ("--level", level)):
        if not 0 < value < 1:
            raise InputError(f"{name} is {value:g}, expected a number between 0 and 1")
    if finished and unfinished:
        raise InputError("--finished and --unfinished exclude each other; choose one")
    given = InputOptions(
        transposed=transposed,
        percent=percent,
        scale=score_scale(range_, lower_is_better=lower_is_better),
        upper=upper,
    )
    named, notes = _chosen(groups, finished=finished, unfinished=unfinished, force=force, pool=pool)
    _check_baseline(against, named)
    unpaired = not find_pair_test(test, unpaired=unpaired).paired
    runs, by = _unpaired(named) if unpaired else paired(named, force=force)
    found = {
        name: {seed: _read(run, given, wanted or COLUMNS) for seed, run in mine.items()}
        for name, mine in runs.items()
    }
    scale = same_scores(found, runs)
    ours = next((m.path for several in named.values() for m in several if m.ours), None)
    if percent and ours is not None:
        check_percent(scale, ours)
    notes += same_tasks(found, runs, force=force) + remarks(named)
    notes += notes_of([run for mine in found.values() for run in mine.values()])
    notes += _too_narrow(min(map(len, runs.values()))) if interval == "bca" else []
    compared = ComparisonReport(
        {}, {name: {seed: run.path for seed, run in mine.items()} for name, mine in runs.items()},
        by, alpha, interval, level, scale, test, unpaired, against, notes=notes,
    )  # fmt: skip
    _compare(compared, found, runs, wanted or COLUMNS)
    compared.on_examples = example_differences(runs, level=level)
    _print(
        compared, format_, _of_what(named, found), percent=percent, digits=places, details=details
    )
    print_example_differences(
        compared.on_examples, wanted or COLUMNS, scale, format_, percent=percent, digits=places,
        details=details,
    )  # fmt: skip
    return 1 if compared.undefined and (wanted or not compared.metrics) else 0


def _compare(compared: ComparisonReport, found: ByMethod, runs: Runs, ids: Sequence[str]) -> None:
    """Add every metric to the comparison, or why it is not in it."""
    for id_ in ids:
        if reason := missing(id_, found, runs):
            compared.undefined[id_] = reason
            continue
        values = {
            name: {seed: run.metrics[id_] for seed, run in mine.items()}
            for name, mine in found.items()
        }
        compared.metrics[id_] = compare_methods(
            id_,
            values,
            scale=compared.scale,
            alpha=compared.alpha,
            interval=compared.interval,
            level=compared.level,
            test=compared.test,
            unpaired=compared.unpaired,
            against=compared.against,
        )


def _check_baseline(against: str | None, groups: Groups) -> None:
    if against is not None and against not in groups:
        raise InputError(
            f"--against is {against!r:.60}; {suggest_names(against, groups)}expected one of "
            f"the methods: {', '.join(groups)}"
        )


def _unpaired(groups: Groups) -> tuple[Runs, str]:
    """Return the runs of each group by seed, or by keys that no two groups share."""
    each = {name: paired({name: members}) for name, members in groups.items()}
    if all(by == "run.json" for _, by in each.values()):
        return {name: runs[name] for name, (runs, _) in each.items()}, "run.json"
    return {
        name: {f"{name} {k}": run for k, run in enumerate(runs[name].values())}
        for name, (runs, _) in each.items()
    }, "file order"


def _chosen(
    words: Sequence[str], *, finished: bool, unfinished: bool, force: bool, pool: bool
) -> tuple[Groups, list[str]]:
    """Return the groups to compare and what to note about them, or refuse."""
    if not words:
        raise ValueError("nothing to compare; name a folder of runs, or groups: er=PATH ewc=PATH")
    if any(word.endswith(STDIN) for word in words):
        raise InputError(
            "- is standard input, expected files or folders: a comparison needs several"
        )
    groups, notes = find_groups(words, pool=pool)
    done, left = only_finished(groups)
    if left and not (finished or unfinished):
        raise InputError(
            f"unfinished: {_some(left)}; expected finished runs; --finished leaves them out, "
            "--unfinished takes them as far as they are"
        )
    if left and finished:
        notes.append(f"unfinished and left out: {_some(left)}")
        groups = done
    if len(groups) < 2:
        what = "; ".join(f"{name}, {len(runs)} run(s)" for name, runs in groups.items()) or "none"
        raise InputError(
            f"one group only ({what}), expected two or more methods; name them: er=PATH ewc=PATH, "
            "or see `perdure score` for one"
        )
    mixed = same_scenario(groups)
    if mixed and not force:
        raise InputError(
            f"{mixed}; expected one: name a part by a pattern such as 'runs/NAME-*', or use --force"
        )
    return groups, [*notes, *([mixed] if mixed else [])]


def _some(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return ", ".join(paths[:3]) + more


def _read(run: RunRef, given: InputOptions, ids: Sequence[str]) -> Summary:
    given = replace(given, scale=None) if run.ours else given  # a run states its own
    source = read_input(run.path, given, per_example=False)
    return source.summary(options_for(ids))


def _too_narrow(seeds: int) -> list[str]:
    few = f"BCa intervals of {seeds} seeds are too narrow; it takes about ten"
    return [few] if seeds < 10 else []


def _of_what(groups: Groups, found: ByMethod) -> str:
    """Return scenario, setting and number of tasks in one line, as far as they are known."""
    members = [member for several in groups.values() for member in several]
    scenarios = dict.fromkeys(member.scenario for member in members if member.scenario)
    settings = dict.fromkeys(member.setting for member in members if member.setting)
    tasks = sorted({len(run.tasks) for mine in found.values() for run in mine.values()})
    parts = [*scenarios, *(f"{setting}-incremental" for setting in settings)]
    return ", ".join([*parts, f"{' or '.join(map(str, tasks))} tasks"])


def _print(
    found: ComparisonReport, format_: str, title: str, *, percent: bool, digits: int, details: bool
) -> None:
    if format_ == "json":
        print_json(comparison_to_dict(found))
        return
    words = [f"{title}: {len(found.runs)} methods", *describe_comparison(found)]
    if found.paired_by == "run.json" and not found.unpaired:
        words[0] += f", seeds {in_words(found.seeds)}"
    if format_ == "text" and found.comparisons > MAX_DETAILED_PAIRS and not details:
        words.append("differences with intervals and effects: --details, or --against METHOD")
    grids = make_comparison_tables(found, format_, percent=percent, digits=digits, details=details)
    if format_ == "latex":
        _print_latex(grids, words)
    elif format_ == "csv":
        print_tables(grids, format_)
    else:
        if format_ == "text":
            print_lines(words.pop(0), "")
        print_tables(grids, format_)
        if grids:
            print_lines()
        for line in words:
            print_wrapped(f"- {line}" if format_ == "markdown" else line, "  ")
    for line in group_reasons(found.undefined):
        if format_ == "text":
            print_wrapped(f"undefined: {line}", "  ")
        else:
            print_stderr(f"undefined: {line}")
    print_notes(found.notes, format_)


def _print_latex(grids: Sequence[TextTable], words: Sequence[str]) -> None:
    """Print tables under what they rest on, in comments: a file of it can be read by a paper."""
    for line in [*words, r"needs \usepackage{booktabs}"]:
        print_lines(f"% {line}")
    for grid in grids:
        print_lines(*(["", f"% {grid.title}"] if grid.title else []), *grid.latex().split("\n"))
