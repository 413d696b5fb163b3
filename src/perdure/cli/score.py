"""`perdure score`: every metric of a file, a run, or several seeds."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from cyclopts import Parameter

from ..metrics import (
    RunsSummary,
    Summary,
    SummaryOptions,
    ToolRow,
    as_tool,
    criteria_weights,
    summary_of_runs,
)
from ..record import InputError, InputOptions, ScoreInput, read_input
from ..record.grouping import find_groups, seeds_note
from ..record.run_index import RunRef
from ..report.tables import make_score_tables, make_tool_table
from ..report.tables.scores import group_reasons, stack_tables
from ._options import (
    Flag,
    MetricIds,
    NonNegativeInt,
    PositiveInt,
    Range,
    TableFormat,
    Values,
    Weights,
    Windows,
    check_percent,
    score_scale,
    windows_of_ids,
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
    from collections.abc import Iterator, Mapping, Sequence

    from ..record.grouping import Groups
    from ..report.tables import TextTable
    from ..stats import IntervalMethod

__all__ = ["score"]

Paths = Annotated[list[Path] | None, Parameter(negative="")]


def score(
    *files: str,
    pool: Flag = False,
    transposed: Flag = False,
    percent: Flag = False,
    upper: Literal["measured"] | None = None,
    classes: Values | None = None,
    setting: Literal["class", "task", "domain"] | None = None,
    initial: Values | None = None,
    joint: Values | None = None,
    single: Values | None = None,
    sizes: Values | None = None,
    range_: Annotated[Range | None, Parameter("--range")] = None,
    lower_is_better: Flag = False,
    costs: Paths = None,
    per_example: Paths = None,
    weights: Weights | None = None,
    epsilon: float = 1.0,
    window: Windows = (10, 100, None),
    subsample: PositiveInt = 1,
    beta: NonNegativeInt = 10,
    interval: Literal["t", "bca"] = "t",
    metrics: MetricIds | None = None,
    as_: Annotated[str | None, Parameter("--as")] = None,
    per_task: Flag = False,
    format_: TableFormat = "text",
) -> int:
    """Print every metric that the numbers support and, for the rest, why not.

    Several matrices or logs are seeds of one method: mean, SD and interval are printed. Runs are
    grouped by their config, with a table per group: runs that differ in the seed alone are seeds
    of one method. `er=runs/a-* ewc=runs/b-*` names the groups.

    Args:
        files: a score matrix (CSV, TSV, JSON, NPY, NPZ; row i is measured after learning task i),
            a points.csv, a run folder, a folder of runs, or - for standard input.
        pool: average runs that differ in more than the seed.
        transposed: rows are tested tasks, columns trained ones.
        percent: print tables in percent (JSON and CSV never are). Matrices and logs are read as
            percent; a run states its own scale.
        upper: `measured` if a matrix has measured zeros in all of its upper triangle, which
            otherwise counts as never measured.
        classes: how many classes each task brings: 2,2,2 or a file.
        setting: what is incremental. Unstated, nothing is refused because of it.
        initial: scores of the untrained model, one a task: values or a file.
        joint: scores of a model trained on all tasks at once: values or a file.
        single: scores of models trained on one task each: values or a file.
        sizes: test examples of each task: values or a file.
        range_: LO,HI of scores that are not accuracies; inf is allowed.
        lower_is_better: the scores are losses or errors.
        costs: a costs.csv, one for each file.
        per_example: a per_example/ folder, one for each file.
        weights: of the criteria of clscore: A=.4,REM=.6 or A=1/6,… (names of the paper, or ids).
        epsilon: factor of ce.
        window: evaluations in the windows of wf and wp: numbers and all.
        subsample: use only every so many evaluations of a points.csv.
        beta: batches of each task that lca looks at.
        interval: over seeds: Student's t, or the BCa bootstrap.
        metrics: print these ids only; exit code 1 if one is undefined.
        as_: print what another tool or paper would: avalanche, mammoth, continuum, … (see
            `perdure list tools`).
        per_task: also print each task's values and the values after each task.
        format_: how to print the tables; LaTeX uses booktabs.
    """
    if not files:
        raise ValueError(
            "no file to score; name a matrix, a points.csv, a run folder, or - (stdin)"
        )
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise InputError(f"--epsilon is {epsilon:g}, expected a positive number")
    wanted = metrics or []
    options = SummaryOptions(
        tuple(dict.fromkeys((*windows_of_ids(wanted), *window))), beta, epsilon, weights,
        only=_computed(wanted, weights),
    )  # fmt: skip
    if wanted and as_ is not None:
        raise InputError("--metrics and --as exclude each other; choose one")
    given = InputOptions(
        transposed=transposed, percent=percent,
        scale=score_scale(range_, lower_is_better=lower_is_better),
        setting=setting, classes=classes, sizes=sizes, initial=initial, joint=joint,
        single=single, thin=subsample, upper=upper,
    )  # fmt: skip
    groups, notes = _grouped(files, pool=pool)
    extras = _extras(files, costs or [], per_example or [])
    scored: dict[str, Scored] = {}
    for name, members in groups.items():
        try:
            scored[name] = _scored(members, given, options, extras, interval)
        except InputError as error:
            if len(groups) == 1:
                raise
            notes.append(f"left out: {error}")
    if not scored:
        raise InputError(f"nothing to score; {notes[-1]}")
    for each in scored.values():
        if percent and each.members[0].ours:
            check_percent(each.runs[0].scale, each.members[0].path)
        _keep_only(each.found, wanted)
    in_percent = percent and format_ != "csv"
    if as_ is not None:
        _print_as(scored, as_, format_, notes, percent=in_percent)
        return 0
    _print_scored(scored, format_, notes, percent=in_percent, per_task=per_task)
    for name, each in scored.items():
        missing = [id_ for id_ in wanted if id_ not in each.found.metrics]
        if missing and format_ in ("markdown", "latex", "csv"):
            where = f"{name}: " if len(scored) > 1 else ""
            for line in group_reasons({id_: each.found.undefined[id_] for id_ in missing}):
                print_stderr(f"undefined: {where}{line}")
    return int(any(id_ not in each.found.metrics for each in scored.values() for id_ in wanted))


def _computed(wanted: Sequence[str], weights: Mapping[str, float] | None) -> frozenset[str] | None:
    """Return the ids to compute of each run for those that are wanted; None for all."""
    if not wanted:
        return None
    # The spread over runs of each criterion is needed, not the score that is made of them.
    criteria = criteria_weights(weights) if "clstability" in wanted else ()
    return frozenset(wanted).union(criteria)


class Scored(NamedTuple):
    """A group of runs or files: what was read, each one's summary, and that of all of them."""

    members: list[RunRef]
    sources: list[ScoreInput]
    runs: list[Summary]
    found: Summary | RunsSummary


def _grouped(files: Sequence[str], *, pool: bool) -> tuple[Groups, list[str]]:
    """Return what is to be scored by group; files without a name are seeds of one method."""
    if STDIN in files:
        if len(files) > 1:
            raise InputError("- is standard input, expected it alone; write it to a file first")
        return {STDIN: [RunRef("-")]}, []
    named = any("=" in file for file in files)
    return find_groups(
        ["pooled=", *files] if pool and not named else files, pool=pool, files_together=True
    )


def _extras(
    files: Sequence[str], costs: Sequence[Path], hits: Sequence[Path]
) -> dict[str, dict[str, Path]]:
    """Return the costs.csv and per_example/ that were given for each file, by its path."""
    found: dict[str, dict[str, Path]] = {}
    for name, extra in (("costs", costs), ("per_example", hits)):
        if extra and len(extra) != len(files):
            raise InputError(
                f"--{name.replace('hits', 'per-example')} is given {len(extra)} time(s), expected "
                f"{len(files)}: one for each file"
            )
        for file, path in zip(files, extra, strict=False):
            given = Path(file)
            if given.name == "points.csv" and (given.parent / "run.json").is_file():
                given = given.parent  # as `find_runs` names the run
            found.setdefault("-" if file == STDIN else str(given), {})[name] = path
    return found


def _scored(
    members: Sequence[RunRef],
    given: InputOptions,
    options: SummaryOptions,
    extras: Mapping[str, dict[str, Path]],
    interval: IntervalMethod,
) -> Scored:
    """Return the summary of a run, or the mean over several; those unfinished are left out."""
    finished = [member for member in members if member.finished]
    kept = list(finished if len(members) > 1 and finished else members)
    sources = [
        read_input(m.path, given, pipe=sys.stdin.buffer, **extras.get(m.path, {})) for m in kept
    ]
    runs = [source.summary(options) for source in sources]
    for member, run in zip(kept, runs, strict=True):
        if len(run.tasks) != len(runs[0].tasks):
            raise InputError(
                f"{member.path}: {len(run.tasks)} task(s), expected {len(runs[0].tasks)} as in "
                f"{kept[0].path}"
            )
        if run.scale != runs[0].scale:
            raise InputError(
                f"{member.path}: scores of another range or direction than in {kept[0].path}, "
                "expected seeds of one method; score them apart"
            )
    if len(runs) == 1:
        found: Summary | RunsSummary = runs[0]
    else:
        found = summary_of_runs(runs, weights=options.weights, method=interval)
        found.notes.insert(0, f"mean over {seeds_note(kept)}")
    if left := [member.path for member in members if member not in kept]:
        found.notes.append(f"unfinished and left out of the mean: {', '.join(left)}")
    return Scored(kept, sources, runs, found)


def _print_scored(
    scored: Mapping[str, Scored],
    format_: str,
    notes: Sequence[str],
    *,
    percent: bool,
    per_task: bool,
) -> None:
    """Print one group as it is, several under their names."""
    if format_ == "json":
        plain = {name: each.found.as_dict() for name, each in scored.items()}
        if len(plain) == 1:
            (only,) = plain.values()
            only["notes"] += notes
        whole = only if len(plain) == 1 else {"groups": plain, "notes": list(notes)}
        print_json(whole)
        return
    digits = None if format_ == "csv" else 4
    grids = {
        name: make_score_tables(each.found, percent=percent, per_task=per_task, digits=digits)
        for name, each in scored.items()
    }
    for name in _print_tables(grids, format_):
        found = scored[name].found
        if format_ == "text" and found.undefined:
            print_lines("", "undefined")
            for line in group_reasons(found.undefined):
                print_wrapped(f"  {line}", "    ")
        where = f"{name}: " if len(scored) > 1 and format_ != "text" else ""
        print_notes([where + note for note in found.notes], format_)
    if len(scored) > 1 and notes and format_ == "text":
        print_lines()
    print_notes(notes, format_)


def _print_tables(grids: Mapping[str, list[TextTable]], format_: str) -> Iterator[str]:
    """Print the tables of each group under its name, and yield the name after them."""
    if format_ == "csv":
        print_tables(_one_each(grids), format_)
        yield from grids
        return
    start = {"markdown": "### ", "latex": "% "}.get(format_, "")
    for k, (name, mine) in enumerate(grids.items()):
        if len(grids) > 1:
            print_lines(*[""] * (k > 0), start + name, *[""] * (format_ != "latex"))
        print_tables(mine, format_)
        yield name


def _one_each(grids: Mapping[str, list[TextTable]]) -> list[TextTable]:
    """Return each table once for all groups, with their names in its first column."""
    if len(grids) == 1:
        return next(iter(grids.values()))
    return [
        stack_tables(dict(zip(grids, same, strict=True)))
        for same in zip(*grids.values(), strict=True)
    ]


def _tool_rows(scored: Scored, tool: str) -> list[ToolRow]:
    each = []
    for member, source, run in zip(scored.members, scored.sources, scored.runs, strict=True):
        if source.matrix is None:
            raise InputError(f"{member.path}: {source.no_matrix}")
        each.append(as_tool(source.matrix, tool, run))
    if len(each) == 1:
        return each[0]
    rows = []
    for same in zip(*each, strict=True):
        values = [row.value for row in same if row.value is not None]
        mean = math.fsum(values) / len(values) if len(values) == len(same) else None
        if mean is None and same[0].id in scored.found.metrics:
            mean = scored.found.metrics[same[0].id]  # what only several runs have: CLstability
        id_ = same[0].id if len({row.id for row in same}) == 1 else None
        note = f"mean of {len(same)} runs" if mean is not None else same[0].note
        rows.append(ToolRow(same[0].name, id_, mean, note))
    return rows


def _print_as(
    scored: Mapping[str, Scored], tool: str, format_: str, notes: Sequence[str], *, percent: bool
) -> None:
    """Print what another tool would, for one group as it is, for several under their names."""
    rows = {name: _tool_rows(each, tool) for name, each in scored.items()}
    if format_ == "json":
        plain = {name: [row._asdict() for row in each] for name, each in rows.items()}
        one = next(iter(plain.values())) if len(plain) == 1 else None
        found = {"rows": one} if one is not None else {"groups": plain}
        print_json({"tool": tool, **found})
        return
    digits = None if format_ == "csv" else 4
    grids = {
        n: [make_tool_table(each, tool, percent=percent, digits=digits)] for n, each in rows.items()
    }
    for name in _print_tables(grids, format_):
        print_notes([note for source in scored[name].sources for note in source.notes], format_)
    print_notes(notes, format_)


def _keep_only(found: Summary | RunsSummary, wanted: list[str]) -> None:
    if wanted:
        found.keep_only(wanted)
        for id_ in wanted:
            if id_ not in found.metrics:
                found.undefined.setdefault(id_, "not computed: see --beta and --window")
