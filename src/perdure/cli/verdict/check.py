"""`perdure check`: whether a run keeps requirements, with stated confidence."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from ...api.checks import check as check_runs
from ...record import InputError
from ...report.tables.verdict import describe_verdict, make_verdict_tables
from ...report.verdict_formats import format_github, format_junit, format_markdown
from ...verdict import find_settings, read_settings
from .._options import Flag, check_paths
from .._output import (
    print_json,
    print_lines,
    print_notes,
    print_stderr,
    print_tables,
    print_wrapped,
    render_options,
)
from ..reference.names import PathText

if TYPE_CHECKING:
    from ...verdict import Verdict

__all__ = ["check"]

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
