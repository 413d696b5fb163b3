"""`perdure reproduce`: the papers' tables and figures, run again."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from ..record import BadInput
from ..report import Grid
from ..report.reproduced import lines_as_dicts, lines_grid, statements_grid
from ..scenarios import find_scenario
from ._options import whole_of
from .score import Flag  # noqa: TC001 - the parser reads it

if TYPE_CHECKING:
    from ..experiments.entries import Entry
    from ..experiments.jobs import Job
    from ..experiments.reproduce import Reproduced

__all__ = ["reproduce"]


def reproduce(
    names: list[str] | None = None,
    /,
    *,
    quick: Flag = False,
    store: Path = Path("runs/reproduce"),
    jobs: str | None = None,
    device: str = "auto",
    format: Literal["text", "markdown", "json"] = "text",  # noqa: A002 - as it is on the line
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
        device: cpu, cuda, cuda:1, or auto.
        format: of what is printed.
        out: folder for tables as JSON and for the data behind figures as CSV; STORE/tables if not
            given.
    """
    room = _room()
    most = None if jobs is None else whole_of(jobs, "--jobs", 1)
    chosen = [room.find_entry(name) for name in dict.fromkeys(names or [])]
    if not chosen and not quick:
        _list(room, format)
        return 0
    where = room.device_of(device)
    execute = room.run_serially if most == 1 else partial(room.run_side_by_side, most=most)
    written, complete = [], True
    for entry in chosen or list(room.entries().values()):
        counter = _Counter(entry.name)
        made = room.reproduce(
            entry, store, execute, counter.told, quick=quick, device=where, planned=counter.planned
        )
        _say_what_lacks(entry, made)
        complete = complete and not made.missing and not made.failed
        folder = out or store / "tables"
        plain = _written(room, entry, made, folder, quick=quick)
        written.append(plain)
        if format != "json":
            _show(room, entry, made, plain, format, quick=quick)
    if format == "json":
        print(json.dumps(written, indent=1, allow_nan=False))
    return 0 if complete else 1


def _room() -> Any:
    """Return the room that trains, or say what it needs."""
    try:
        from .. import experiments
    except ModuleNotFoundError as error:
        said = f"perdure reproduce needs {error.name}: pip install 'perdure[train]'"
        raise BadInput(said) from None
    return experiments


def _list(room: Any, format_: str) -> None:
    rows, plain = [], []
    for entry in room.entries().values():
        scenarios = entry.study["scenarios"]
        needed = {name: None for each in scenarios for name in find_scenario(each).data}
        lacking = {name for each in room.missing_data(scenarios).values() for name in each}
        data = [name + (" (not at hand)" if name in lacking else "") for name in needed]
        took = _time(entry.hours) + (f", GPU {_time(entry.gpu_hours)}" if entry.gpu_hours else "")
        rows.append([entry.name, f"{entry.authors}: {entry.tables}", ", ".join(data), took])
        plain.append(
            {"entry": entry.name, "paper": entry.paper, "tables": entry.tables,
             "about": entry.about, "data": list(needed), "not_at_hand": sorted(lacking),
             "hours": entry.hours, "gpu_hours": entry.gpu_hours}
        )  # fmt: skip
    grid = Grid(["entry", "what", "data", "two cores take about"], rows)
    if format_ == "json":
        print(json.dumps(plain, indent=1))
    elif format_ == "markdown":
        print(grid.markdown())
    else:
        grid.show(sys.stdout)
        print("\nrun one: perdure reproduce NAME; all of them small: perdure reproduce --quick")


def _time(hours: float) -> str:
    """Return a time in words.

    Example:
        >>> _time(0.4), _time(30), _time(500)
        ('24 min', '30 h', '21 days')
    """
    if hours < 1:
        return f"{60 * hours:.0f} min"
    return f"{hours:.0f} h" if hours < 72 else f"{hours / 24:.0f} days"


def _say_what_lacks(entry: Entry, made: Reproduced) -> None:
    data = dict.fromkeys(name for each in made.missing.values() for name in each)
    if data:
        which = ", ".join(made.missing)
        _say(f"{entry.name}: {which} not run: perdure data fetch {' '.join(data)}")
    for folder, why in made.failed.items():
        _say(f"{entry.name}: {folder.name} failed: {why}")


def _written(
    room: Any, entry: Entry, made: Reproduced, folder: Path, *, quick: bool
) -> dict[str, Any]:
    """Return what was found as plain data; it and the data behind figures are written down."""
    name = f"{entry.name}-quick" if quick else entry.name
    figures = room.write_figures(made.found, folder, name)
    lines = _lines(room, made, quick=quick)
    said = [] if quick else room.statements(made.found)
    plain = {
        "entry": entry.name, "paper": entry.paper, "tables": entry.tables, "quick": quick,
        "stand_in": entry.stand_in if quick else None, "unit": entry.unit,
        "numbers": lines_as_dicts(lines, quick=quick),
        "statements": [each._asdict() for each in said],
        "deviations": [*([] if quick else entry.deviations), *made.found.deviations],
        "figures": [str(path) for path in figures],
        "not_at_hand": {name: list(data) for name, data in made.missing.items()},
        "failed": {str(path): why for path, why in made.failed.items()},
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(plain, indent=1, allow_nan=False)
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    return plain


def _lines(room: Any, made: Reproduced, *, quick: bool) -> Any:
    found = made.found
    return room.measured_lines(found, found.entry.ids) if quick else room.lines_of(found)


def _show(
    room: Any, entry: Entry, made: Reproduced, plain: dict[str, Any], format_: str, *, quick: bool
) -> None:
    markdown = format_ == "markdown"
    title = f"{entry.name}: {entry.about}" if quick else f"{entry.name}: {entry.tables}"
    print(f"## {title}\n" if markdown else title)
    if quick:
        print(f"small: {entry.stand_in}; not to be compared with the paper\n")
    else:
        print(f"{entry.paper}; {'percent' if entry.unit == 'percent' else 'shares'}\n")
    grids = [lines_grid(_lines(room, made, quick=quick), entry.digits, quick=quick)]
    if not quick:
        grids.append(statements_grid(room.statements(made.found)))
    for grid in grids:
        if grid.rows and markdown:
            print(grid.markdown() + "\n")
        elif grid.rows:
            grid.show(sys.stdout)
            print()
    start = "- " if markdown else "  "
    if plain["deviations"]:
        print("not as published:\n", *[f"{start}{each}\n" for each in plain["deviations"]], sep="")
    if plain["figures"]:
        print("data behind figures:\n", *[f"{start}{each}\n" for each in plain["figures"]], sep="")


class _Counter:
    """Says how many runs of an entry have ended: on a terminal in one line that changes."""

    def __init__(self, name: str) -> None:
        self.name, self.total, self.ended = name, 0, 0

    def planned(self, jobs: list[Job]) -> None:
        self.total += len(jobs)
        _say(f"{self.name}: {len(jobs)} runs to do")

    def told(self, job: Job, message: dict[str, Any]) -> None:  # noqa: ARG002
        if "ended" not in message:
            return
        self.ended += 1
        if sys.stderr.isatty():
            end = "\n" if self.ended == self.total else "\r"
            sys.stderr.write(f"perdure: {self.name}: {self.ended} of {self.total} ended{end}")


def _say(message: str) -> None:
    sys.stderr.write(f"perdure: {' '.join(message.split())}\n")
