"""`perdure score`: every metric of a file, a run, or several seeds."""

from __future__ import annotations

import json as json_
import math
import shutil
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from ..metrics import (
    Options,
    RunsSummary,
    Summary,
    ToolRow,
    as_tool,
    summary_of_runs,
)
from ..record import BadInput, Given, Source, read_source
from ..report import scores_grids, tool_grid
from ..report.scores import reasons
from ._options import ids_of, scale_of, values_of, weights_of, whole_of, windows_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..report import Grid

__all__ = ["STDIN", "score"]

STDIN = "<stdin>"  # what a bare - becomes: the parser takes it for an option
Flag = Annotated[bool, Parameter(negative="", show_default=False)]
Paths = Annotated[list[Path] | None, Parameter(negative="")]
Signed = Annotated[str | None, Parameter(allow_leading_hyphen=True)]


def score(
    *files: str,
    transposed: Flag = False,
    percent: Flag = False,
    classes: str | None = None,
    setting: Literal["class", "task", "domain"] | None = None,
    initial: Signed = None,
    joint: Signed = None,
    single: Signed = None,
    sizes: str | None = None,
    range_: Annotated[str | None, Parameter("--range", allow_leading_hyphen=True)] = None,
    lower_is_better: Flag = False,
    costs: Paths = None,
    hits: Paths = None,
    weights: str | None = None,
    epsilon: float = 1.0,
    window: str = "10,100,all",
    thin: str = "1",
    beta: str = "10",
    interval: Literal["t", "bca"] = "t",
    only: str | None = None,
    as_: Annotated[str | None, Parameter("--as")] = None,
    per_task: Flag = False,
    json: Flag = False,
    markdown: Flag = False,
    latex: Flag = False,
    csv: Flag = False,
) -> int:
    """Print every metric that the numbers support and, for the rest, why not.

    Several files are several seeds of one method: mean, SD and interval are printed.

    Args:
        files: a score matrix (CSV, TSV, JSON, NPY, NPZ; row i is measured after learning task i),
            a points.csv, a run folder, or - for standard input.
        transposed: rows are tested tasks, columns trained ones.
        percent: the input is in percent; tables are printed in percent too, JSON and CSV never are.
        classes: how many classes each task brings: 2,2,2 or a file.
        setting: what is incremental. Unstated, nothing is refused because of it.
        initial: scores of the untrained model, one a task: values or a file.
        joint: scores of a model trained on all tasks at once: values or a file.
        single: scores of models trained on one task each: values or a file.
        sizes: test examples of each task: values or a file.
        range_: LO,HI of scores that are not accuracies; inf is allowed.
        lower_is_better: the scores are losses or errors.
        costs: a costs.csv, one for each file.
        hits: a hits/ folder, one for each file.
        weights: of the criteria of clscore: A=.4,REM=.6 (names of the paper, or ids).
        epsilon: factor of ce.
        window: evaluations in the windows of wf and wp: numbers and all.
        thin: use only every so many evaluations of a points.csv.
        beta: batches of each task that lca looks at.
        interval: over seeds: Student's t, or the BCa bootstrap.
        only: print these ids only; exit code 1 if one is undefined.
        as_: print what another tool or paper would: avalanche, mammoth, continuum, … (see
            `perdure list tools`).
        per_task: also print each task's values and the values after each task.
        json: print JSON.
        markdown: print Markdown.
        latex: print LaTeX (booktabs).
        csv: print CSV.
    """
    if not files:
        raise ValueError(
            "no file to score; name a matrix, a points.csv, a run folder, or - (stdin)"
        )
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise BadInput(f"--epsilon is {epsilon:g}, expected a positive number")
    wanted = ids_of(only)
    options = Options(
        windows_of(window, wanted), whole_of(beta, "--beta", 0), epsilon, weights_of(weights)
    )
    if wanted and as_ is not None:
        raise BadInput("--only and --as exclude each other; choose one")
    given = Given(
        transposed=transposed, percent=percent, scale=scale_of(range_, lower_is_better),
        setting=setting, classes=values_of(classes, "--classes"), sizes=values_of(sizes, "--sizes"),
        initial=values_of(initial, "--initial"), joint=values_of(joint, "--joint"),
        single=values_of(single, "--single"), thin=whole_of(thin, "--thin", 1),
    )  # fmt: skip
    sources = _read(files, given, costs or [], hits or [])
    runs = [source.summary(options) for source in sources]
    for file, run in zip(files, runs, strict=True):
        if len(run.tasks) != len(runs[0].tasks):
            raise BadInput(
                f"{file}: {len(run.tasks)} task(s), expected {len(runs[0].tasks)} as in {files[0]}"
            )
        if run.scale != runs[0].scale:
            raise BadInput(
                f"{file}: scores of another range or direction than in {files[0]}, expected seeds "
                "of one method; score them apart"
            )
    several = len(runs) > 1
    found: Summary | RunsSummary = (
        summary_of_runs(runs, weights=options.weights, method=interval) if several else runs[0]
    )
    _keep_only(found, wanted)
    form = _form(json=json, markdown=markdown, latex=latex, csv=csv)
    if as_ is not None:
        rows = _tool_rows(sources, runs, found, as_, files)
        _print_tool(rows, as_, form, percent and form != "csv")
        _print_notes([note for source in sources for note in source.notes], form)
        return 0
    _print(found, form, percent=percent and form != "csv", per_task=per_task)
    missing = [id_ for id_ in wanted if id_ not in found.metrics]
    if missing and form in ("markdown", "latex", "csv"):
        for line in reasons({id_: found.undefined[id_] for id_ in missing}):
            sys.stderr.write(f"perdure: undefined: {line}\n")
    return 1 if missing else 0


def _read(files: Sequence[str], given: Given, costs: list[Path], hits: list[Path]) -> list[Source]:
    for name, extra in (("--costs", costs), ("--hits", hits)):
        if extra and len(extra) != len(files):
            raise BadInput(
                f"{name} is given {len(extra)} time(s), expected {len(files)}: one for each file"
            )
    sources = []
    for k, file in enumerate(files):
        sources.append(
            read_source(
                "-" if file == STDIN else file,
                given,
                pipe=sys.stdin.buffer,
                costs=costs[k] if costs else None,
                hits=hits[k] if hits else None,
            )
        )
    return sources


def _tool_rows(
    sources: Sequence[Source],
    runs: Sequence[Summary],
    found: Summary | RunsSummary,
    tool: str,
    files: Sequence[str],
) -> list[ToolRow]:
    each = []
    for file, source, run in zip(files, sources, runs, strict=True):
        if source.matrix is None:
            raise BadInput(f"{file}: {source.no_matrix}")
        each.append(as_tool(source.matrix, tool, run))
    if len(each) == 1:
        return each[0]
    rows = []
    for same in zip(*each, strict=True):
        values = [row.value for row in same if row.value is not None]
        mean = math.fsum(values) / len(values) if len(values) == len(same) else None
        if mean is None and same[0].id in found.metrics:
            mean = found.metrics[same[0].id]  # what only several runs have: CLstability
        id_ = same[0].id if len({row.id for row in same}) == 1 else None
        note = f"mean of {len(same)} runs" if mean is not None else same[0].note
        rows.append(ToolRow(same[0].name, id_, mean, note))
    return rows


def _print(found: Summary | RunsSummary, form: str, *, percent: bool, per_task: bool) -> None:
    if form == "json":
        print(json_.dumps(found.as_dict(), allow_nan=False, indent=1))
        return
    digits = None if form == "csv" else 4
    grids = scores_grids(found, percent=percent, per_task=per_task, digits=digits)
    _print_grids(grids, form)
    if form == "people" and found.undefined:
        print("\nundefined")
        for line in reasons(found.undefined):
            _print_wrapped(f"  {line}", "    ")
    _print_notes(found.notes, form)


def _print_notes(notes: Sequence[str], form: str) -> None:
    """Print what a reader should know; beside a table for a paper it goes to standard error."""
    for note in notes if form != "json" else ():
        if form == "people":
            _print_wrapped(f"note: {note}", "  ")
        else:
            sys.stderr.write(f"perdure: note: {note}\n")


def _print_wrapped(line: str, indent: str) -> None:
    """Print a line, folded to a terminal's width and left whole in a pipe."""
    if sys.stdout.isatty():
        width = max(40, shutil.get_terminal_size().columns)
        line = textwrap.fill(line, width, subsequent_indent=indent, break_on_hyphens=False)
    print(line)


def _print_tool(rows: list[ToolRow], tool: str, form: str, percent: bool) -> None:
    if form == "json":
        printed = [{"name": r.name, "id": r.id, "value": r.value, "note": r.note} for r in rows]
        print(json_.dumps({"tool": tool, "rows": printed}, allow_nan=False, indent=1))
    else:
        digits = None if form == "csv" else 4
        _print_grids([tool_grid(rows, tool, percent=percent, digits=digits)], form)


def _print_grids(grids: Sequence[Grid], form: str) -> None:
    for k, grid in enumerate(grids):
        if k:
            print()
        if form == "people":
            grid.show(sys.stdout)
        else:
            print(getattr(grid, form)())


def _keep_only(found: Summary | RunsSummary, wanted: list[str]) -> None:
    if wanted:
        found.keep_only(wanted)
        for id_ in wanted:
            if id_ not in found.metrics:
                found.undefined.setdefault(id_, "not computed: see --beta and --window")


def _form(**asked: bool) -> str:
    chosen = [name for name, yes in asked.items() if yes]
    if len(chosen) > 1:
        raise ValueError(f"--{' and --'.join(chosen)} exclude each other; choose one")
    return chosen[0] if chosen else "people"
