"""`perdure reproduce`: published tables and figures, next to our measurements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from ...report.tables import TextTable
from ...report.tables.study import claims_table, comparison_table
from ...scenarios import find_scenario
from .._option_groups import DEFAULT_EXECUTION_OPTIONS, ExecutionOptions
from .._options import Flag, require_training
from .._output import (
    print_json,
    print_lines,
    print_section,
    print_stderr,
    print_tables,
    print_wrapped,
    render_options,
)
from . import render_failures, run_with_progress

if TYPE_CHECKING:
    from ...reproduction import PublishedResult, ReproductionReport

__all__ = ["reproduce"]


def reproduce(
    names: list[str] | None = None,
    /,
    *,
    quick: Flag = False,
    store: Path = Path("runs/reproduce"),
    execution: ExecutionOptions = DEFAULT_EXECUTION_OPTIONS,
    device: str = "auto",
    format_: Annotated[Literal["text", "json", "markdown"], Parameter("--format")] = "text",
    output: Annotated[Path | None, Parameter(["--output", "-o"])] = None,
) -> int:
    """Rerun published tables and figures, and print published and measured numbers side by side.

    Without names, the published results are listed with the data they need and the time they take.
    Runs that are finished in the store are not run again. Exits with code 1 if something could not
    be run.

    Args:
        names: Names of published results. With --quick, all of them by default.
        quick: Run a small version of each on data that is present. Its numbers are not comparable
            with the papers.
        store: Folder in which runs are stored.
        execution: How to execute the runs.
        device: Device to train on: cpu, cuda, cuda:1, mps, or auto.
        format_: Output format.
        output: Folder for the tables as JSON and the data of figures as CSV. Defaults to
            STORE/tables.
    """
    from ... import reproduction, studies, training

    results = [reproduction.find_published_result(name) for name in dict.fromkeys(names or [])]
    if not results and not quick:
        _list(format_)
        return 0
    require_training()
    device = training.resolve_device(device)
    reports = []
    for result in results or list(reproduction.load_published_results().values()):
        study, missing = reproduction.build_study(result, quick=quick, device=device)
        _print_missing(result, missing)
        status = studies.StudyStatus()
        if study is not None:
            print_stderr(f"{study.name}: {result.quick_about if quick else result.tables}")
            status = run_with_progress(
                study, store, studies.study_status(study, store), execution,
                show=format_ != "json",
            )  # fmt: skip
        report = reproduction.write_report(
            reproduction.collect_measurements(result, status.done),
            output or store / "tables",
            quick=quick,
            missing_data=missing,
            failed=render_failures(status),
        )
        reports.append(report)
        if format_ != "json":
            _print_report(report, format_)
    if format_ == "json":
        print_json([report.to_dict() for report in reports])
    return 0 if all(report.complete for report in reports) else 1


def _list(format_: str) -> None:
    from ... import reproduction

    rows, plain = [], []
    for result in reproduction.load_published_results().values():
        scenarios = result.scenarios()
        needed = {data: None for name in scenarios for data in find_scenario(name).data}
        by_scenario = reproduction.find_missing_data(scenarios)
        missing = {data for names in by_scenario.values() for data in names}
        shown = "all" if missing == set(needed) else ", ".join(sorted(missing))
        gpu = f", GPU {_time(result.gpu_hours)}" if result.gpu_hours else ""
        rows.append(
            [result.name, f"{result.authors}: {result.tables}", ", ".join(needed), shown,
             _time(result.hours) + gpu]
        )  # fmt: skip
        plain.append(
            {"name": result.name, "paper": result.paper, "tables": result.tables,
             "about": result.about, "data": list(needed), "missing_data": sorted(missing),
             "hours": result.hours, "gpu_hours": result.gpu_hours}
        )  # fmt: skip
    table = TextTable(["name", "tables", "data", "missing data", "time on two cores"], rows)
    if format_ == "json":
        print_json(plain)
        return
    print_tables([table], format_)
    if format_ == "text":
        print_lines("", "Run one: perdure reproduce NAME")
        print_lines("Run a quick version of all: perdure reproduce --quick")


def _time(hours: float) -> str:
    """Return a duration as text.

    Example:
        >>> _time(0.4), _time(30), _time(500)
        ('24 min', '30 h', '21 days')
    """
    if hours < 1:
        return f"{60 * hours:.0f} min"
    return f"{hours:.0f} h" if hours < 72 else f"{hours / 24:.0f} days"


def _print_missing(result: PublishedResult, missing: dict[str, list[str]]) -> None:
    data = dict.fromkeys(name for names in missing.values() for name in names)
    if data:
        skipped = ", ".join(missing)
        print_stderr(f"{result.name}: {skipped} not run: perdure data fetch {' '.join(data)}")


def _print_report(report: ReproductionReport, format_: str) -> None:
    result, quick = report.result, report.quick
    title = f"{result.name}: {result.about if quick else result.tables}"
    print_lines(*([f"## {title}", ""] if format_ == "markdown" else [title]))
    unit = "percent" if result.unit == "percent" else "fractions"
    small = f"Quick version, not comparable with the paper: {result.quick_about}"
    print_wrapped(f"{small if quick else result.paper}; {unit}", "  ", format_)
    print_lines()
    for table in (
        comparison_table(report.rows, result.digits, quick=quick),
        claims_table(report.claims),
    ):
        if table.rows:
            print_tables([table], format_)
            print_lines()
    if not quick and any(report.agreement):  # some results have claims, but no numbers
        print_lines(f"{report.agreement}.", "")
    errors = [f"{name}: {render_options(error)}" for name, error in report.failed.items()]
    mark = "- " if format_ == "markdown" else "  "
    for heading, lines in (
        ("failed, and not in the means", errors),
        ("not as published", report.deviations),
        ("data of figures", report.figures),
    ):
        if lines:
            print_section(f"{heading}:", [f"{mark}{line}" for line in lines], format_)
