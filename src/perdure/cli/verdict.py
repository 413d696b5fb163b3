"""Commands that decide: check, freeze and flips."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from .._display import count_of
from ..api.checks import check as check_runs
from ..api.checks import flips as find_flips
from ..record import InputError
from ..report.tables.verdict import (
    describe_verdict,
    format_github,
    format_junit,
    format_markdown,
    make_flip_tables,
    make_verdict_tables,
)
from ..verdict import find_settings, freeze_run, read_settings, write_baseline
from ._options import Flag, PathText, TableFormat, check_paths
from ._output import (
    print_json,
    print_lines,
    print_notes,
    print_stderr,
    print_tables,
    print_wrapped,
    render_options,
)

if TYPE_CHECKING:
    from ..verdict import Verdict

__all__ = ["check", "flips", "freeze"]

Require = Annotated[
    list[str] | None, Parameter(metavar="TEXT", negative="", allow_leading_hyphen=True)
]
Paths = Annotated[list[str] | None, Parameter(metavar="PATH", negative="")]
VerdictFormat = Annotated[
    Literal["text", "json", "markdown", "junit", "github"], Parameter("--format")
]


def check(
    *runs: PathText,
    require: Require = None,
    requirements: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    baseline: Paths = None,
    noise: Annotated[str | None, Parameter(metavar="PATH")] = None,
    level: float | None = None,
    inconclusive: Literal["pass", "fail"] | None = None,
    point_values: Flag = False,
    details: Flag = False,
    format_: VerdictFormat = "text",
) -> int:
    """Decide whether a run keeps requirements, with stated confidence.

    PASS (exit code 0): every requirement is kept. FAIL (1): one is violated. Each is wrong with
    probability 1 - level at most. INCONCLUSIVE (3): there are too few examples to say; the number
    that would decide is printed. Invalid input, or a requirement that cannot be checked: 2.

    Requirements: 'forgetting.learned <= .05', 'acc >= base - .01' (any metric of `perdure list
    metrics`) and 'no task drops more than .02'. A drop is measured against the baseline or, without
    one, against the task's score when it was learned. docs/check.md explains the statistics.

    Args:
        runs: Run folder, points.csv or score matrix. Several are seeds of one method: the verdict
            is then about other seeds, not about other examples.
        require: A requirement. Repeat the option for each.
        requirements: TOML file with `require = ["…"]`, and perhaps `baseline`, `level` and
            `inconclusive`. Defaults to the table [tool.perdure.check] of ./pyproject.toml.
        baseline: File written by `perdure freeze`, or a run folder. Repeat the option for seeds.
        noise: The same model evaluated again: measures the noise of the scorer, and widens the
            bounds by it.
        level: Confidence level, 0.95 by default.
        inconclusive: Exit as for PASS or FAIL if the verdict is INCONCLUSIVE.
        point_values: Decide by values alone where there is no interval.
        details: Also print the decision on each task.
        format_: Output format. `github` prints annotations for GitHub Actions and appends a summary
            to $GITHUB_STEP_SUMMARY.
    """
    if not runs:
        raise InputError("no run to check; name a run folder")
    check_paths([*runs, *(baseline or ()), *([noise] if noise else ())])
    settings = find_settings() if requirements is None else read_settings(requirements)
    verdict = check_runs(
        runs, require or (), baseline=baseline, noise=noise, level=level,
        inconclusive=inconclusive, requirements=settings, point_values=point_values,
    )  # fmt: skip
    if requirements is None and settings is not None and settings.require:
        note = f"{len(settings.require)} requirements are those of ./pyproject.toml"
        verdict = replace(verdict, notes=[*verdict.notes, note])
    _print(verdict, format_, details=details)
    return verdict.exit_code


def _print(verdict: Verdict, format_: str, *, details: bool) -> None:
    if format_ == "json":
        print_json(verdict.to_dict())
    elif format_ == "junit":
        print_lines(*map(render_options, format_junit(verdict).split("\n")))
    elif format_ == "markdown":
        print_lines(*map(render_options, format_markdown(verdict).split("\n")))
    elif format_ == "github":
        print_lines(*map(render_options, format_github(verdict)))
        _append_summary(render_options(format_markdown(verdict)))
    else:
        first, *others = describe_verdict(verdict)
        print_lines(first, "")
        print_tables(make_verdict_tables(verdict, details=details), format_)
        print_lines()
        for line in others:
            print_wrapped(line, "  ")
        print_notes(verdict.notes, format_)
        return
    if format_ != "json":
        print_stderr(describe_verdict(verdict)[0])


def _append_summary(text: str) -> None:
    """Append Markdown to the summary of the step of GitHub Actions that runs this, if any."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")


def freeze(
    run: PathText,
    *,
    output: Annotated[Path, Parameter(("--output", "-o"), metavar="FILE")] = Path("baseline.json"),
) -> None:
    """Write the scores of a finished run, and its results per example, to a baseline file.

    `perdure check RUN --baseline baseline.json` compares later runs with it, example by example.
    The file needs neither the run nor the model; keep it in the repository.

    Args:
        run: Run folder, points.csv or score matrix.
        output: File to write. A file of that name is replaced.
    """
    check_paths([run])
    if output.suffix != ".json":
        raise InputError(f"--output is {output}, expected a file name that ends in .json")
    frozen = freeze_run(run)
    write_baseline(frozen, output)
    with_examples = sum(bool(task.evaluations) for task in frozen.tasks)
    tasks = count_of(len(frozen.tasks), "task")
    print_lines(f"{output}: {tasks} of {frozen.run}, {with_examples} with per-example results")
    if with_examples < len(frozen.tasks):
        note = (
            "tasks without per-example results are compared unpaired, which takes many more "
            "examples; record them with `per_example=True`"
        )
        print_notes([note], "text")


def flips(
    run: PathText,
    *,
    against: Annotated[str | None, Parameter(metavar="PATH")] = None,
    all_examples: Annotated[bool, Parameter(("--all",), negative="", show_default=False)] = False,
    format_: TableFormat = "text",
) -> None:
    """Print which examples were lost, when, and whether they came back.

    Per task: how many examples were right first and wrong last (lost), wrong first and right last
    (gained), lost in between and right last (came back), and McNemar's exact test of lost against
    gained. Below, the lost examples by their id.

    Args:
        run: Run folder with per-example results.
        against: Earlier run, or file of `perdure freeze`, on the same examples. By default the run
            is compared with itself when each task was learned.
        all_examples: Print every lost example, not only the first 20 of each task.
        format_: Output format. JSON has every example.
    """
    check_paths([run, *([against] if against else ())])
    result = find_flips(run, against)
    if format_ == "json":
        print_json(result.to_dict())
        return
    everything = all_examples or format_ == "csv"
    if format_ == "text":
        since = f"against {result.against}" if result.against else "since each task was learned"
        print_lines(f"{result.run}: examples lost {since}", "")
    print_tables(make_flip_tables(result, all_examples=everything), format_)
    print_notes(result.notes, format_)
