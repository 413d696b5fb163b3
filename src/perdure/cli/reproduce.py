"""`perdure reproduce`: the papers' tables and figures, run again."""

from __future__ import annotations

import json as json_
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from ..report.tables import TextTable
from ..report.tables.reproduction import claims_grid, comparison_grid, rows_as_dicts
from ..scenarios import find_scenario
from ._options import Flag, PositiveInt, require_training
from ._output import print_json, print_lines, print_stderr, print_tables
from .study import executor, show_study

if TYPE_CHECKING:
    from ..reproduction.measurements import Measurements
    from ..reproduction.published import PublishedResult

__all__ = ["reproduce"]


def reproduce(
    names: list[str] | None = None,
    /,
    *,
    quick: Flag = False,
    store: Path = Path("runs/reproduce"),
    jobs: PositiveInt | None = None,
    serial: Flag = False,
    ray: str | None = None,
    gpus_per_run: float = 1.0,
    retry_failed: Flag = False,
    restart: Flag = False,
    device: str = "auto",
    format_: Annotated[Literal["text", "json", "markdown"], Parameter("--format")] = "text",
    out: Annotated[Path | None, Parameter(["--out", "-o"])] = None,
) -> int:
    """Run published tables and figures again, and print published and measured side by side.

    Without names it lists what there is: what data each needs and how long it takes. What is
    finished in the store is not run again. Ends with 1 if something could not be run.

    Args:
        names: which ones; with --quick all if none is named.
        quick: a small version of each, on data at hand; nothing is compared with the papers.
        store: folder of the runs.
        jobs: runs side by side; as many as the cores hold if not given.
        serial: one run after the other, in this process.
        ray: `auto` starts Ray on this machine, an address joins a cluster.
        gpus_per_run: of a run on CUDA, with --ray: .25 lets four share one.
        retry_failed: run again what has failed.
        restart: start unfinished and failed runs from scratch; finished ones are kept.
        device: cpu, cuda, cuda:1, or auto.
        format_: how to print the result.
        out: folder for tables as JSON and for the data behind figures as CSV; STORE/tables if not
            given.
    """
    require_training()
    from .. import reproduction, studies, training

    chosen = [reproduction.find_published_result(name) for name in dict.fromkeys(names or [])]
    if not chosen and not quick:
        _list(format_)
        return 0
    where = training.device_of(device)
    execute, at_once = executor(jobs, serial=serial, ray=ray, gpus_per_run=gpus_per_run)
    written, complete = [], True
    for entry in chosen or list(reproduction.published_results().values()):
        study, missing = reproduction.build_study(entry, quick=quick, device=where)
        _say_what_lacks(entry, missing)
        done, failed = {}, {}
        if study is not None:
            print_stderr(f"{study.name}: {entry.stand_in if quick else entry.tables}")
            found = show_study(
                study,
                store,
                execute,
                at_once,
                studies.study_status(study, store),
                show=format_ != "json",
                retry_failed=retry_failed,
                restart=restart,
            )
            done, failed = found.done, found.failed
        made = _Made(entry, reproduction.collect_measurements(entry, done), quick=quick)
        complete = complete and not missing and not failed
        written.append(made.write(out or store / "tables", missing, failed))
        if format_ != "json":
            made.show(written[-1], markdown=format_ == "markdown")
    if format_ == "json":
        print_json(written)
    return 0 if complete else 1


def _list(format_: str) -> None:
    from .. import reproduction

    rows, plain = [], []
    for entry in reproduction.published_results().values():
        scenarios = entry.study["scenarios"]
        needed = {name: None for each in scenarios for name in find_scenario(each).data}
        lacking = {
            name for each in reproduction.find_missing_data(scenarios).values() for name in each
        }
        missing = "all" if lacking == set(needed) else ", ".join(sorted(lacking))
        took = _time(entry.hours) + (f", GPU {_time(entry.gpu_hours)}" if entry.gpu_hours else "")
        rows.append(
            [entry.name, f"{entry.authors}: {entry.tables}", ", ".join(needed), missing, took]
        )
        plain.append(
            {"entry": entry.name, "paper": entry.paper, "tables": entry.tables,
             "about": entry.about, "data": list(needed), "not_at_hand": sorted(lacking),
             "hours": entry.hours, "gpu_hours": entry.gpu_hours}
        )  # fmt: skip
    grid = TextTable(["entry", "what", "data", "not at hand", "two cores take about"], rows)
    if format_ == "json":
        print_json(plain)
    elif format_ == "markdown":
        print_tables([grid], "markdown")
    else:
        print_tables([grid], "text")
        print_lines(
            "", "run one: perdure reproduce NAME; all of them small: perdure reproduce --quick"
        )


def _time(hours: float) -> str:
    """Return a time in words.

    Example:
        >>> _time(0.4), _time(30), _time(500)
        ('24 min', '30 h', '21 days')
    """
    if hours < 1:
        return f"{60 * hours:.0f} min"
    return f"{hours:.0f} h" if hours < 72 else f"{hours / 24:.0f} days"


def _say_what_lacks(entry: PublishedResult, missing: dict[str, list[str]]) -> None:
    data = dict.fromkeys(name for each in missing.values() for name in each)
    if data:
        which = ", ".join(missing)
        print_stderr(f"{entry.name}: {which} not run: perdure data fetch {' '.join(data)}")


class _Made:
    """What was found for an entry: numbers and claims, written down and shown."""

    def __init__(self, entry: PublishedResult, found: Measurements, *, quick: bool) -> None:
        from .. import reproduction

        self.entry, self.found, self.quick = entry, found, quick
        self.lines = (
            reproduction.list_measured_rows(found, entry.ids)
            if quick
            else reproduction.compare_with_published(found)
        )
        self.said = [] if quick else reproduction.check_claims(found)

    def write(
        self, folder: Path, missing: dict[str, list[str]], failed: dict[Path, str]
    ) -> dict[str, Any]:
        """Return all of it as plain data; it and the data behind figures are written down."""
        from .. import reproduction

        entry, quick = self.entry, self.quick
        name = f"{entry.name}-quick" if quick else entry.name
        plain = {
            "entry": entry.name, "paper": entry.paper, "tables": entry.tables, "quick": quick,
            "stand_in": entry.stand_in if quick else None, "unit": entry.unit,
            "numbers": rows_as_dicts(self.lines, quick=quick),
            "claims": [each._asdict() for each in self.said],
            "deviations": [*([] if quick else entry.deviations), *self.found.deviations],
            "figures": [str(path) for path in reproduction.write_figures(self.found, folder, name)],
            "not_at_hand": missing,
            "failed": {path.name: why for path, why in failed.items()},
        }  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        text = json_.dumps(plain, indent=1, allow_nan=False)
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        return plain

    def show(self, plain: dict[str, Any], *, markdown: bool) -> None:
        """Print the tables, and what is not as published."""
        entry, quick = self.entry, self.quick
        title = f"{entry.name}: {entry.about if quick else entry.tables}"
        print_lines(*([f"## {title}", ""] if markdown else [title]))
        unit = "percent" if entry.unit == "percent" else "shares"
        small = f"small: {entry.stand_in}; not to be compared with the paper"
        print_lines(f"{small if quick else entry.paper}; {unit}", "")
        grids = [comparison_grid(self.lines, entry.digits, quick=quick), claims_grid(self.said)]
        for grid in grids:
            if grid.rows:
                print_tables([grid], "markdown" if markdown else "text")
                print_lines()
        mark = "- " if markdown else "  "
        if plain["failed"]:
            why = [f"{mark}{name}: {said}" for name, said in plain["failed"].items()]
            print_lines("failed, and not in the means:", *why, "")
        for what, key in (("not as published", "deviations"), ("data behind figures", "figures")):
            if plain[key]:
                print_lines(f"{what}:", *(f"{mark}{each}" for each in plain[key]), "")
