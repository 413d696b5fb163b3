"""`perdure import`: the results of other tools as run folders."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ..._display import count_of
from ...importers import READERS, ImportOptions, choose_reader, read_runs, write_runs
from ...record import InputError
from ...report.tables import TextTable
from .._options import Flag, PathText, ReaderName, TextFormat, check_paths, parse_pairs
from .._output import print_json, print_lines, print_notes, print_stderr, print_wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...importers import ImportedRun

__all__ = ["import_"]

AUTO = "auto"
Names = Annotated[str | None, Parameter(metavar="NAME,…")]
Pairs = Annotated[list[str] | None, Parameter(negative="", metavar="NAME=VALUE")]


def import_(
    source: ReaderName | None = None,
    /,
    *paths: PathText,
    output: Annotated[Path | None, Parameter(("--output", "-o"))] = None,
    order: Names = None,
    control: Names = None,
    columns: Annotated[str | None, Parameter(metavar="NAME=COLUMN,…")] = None,
    metric: Annotated[str | None, Parameter(metavar="NAME")] = None,
    percent: Annotated[bool | None, Parameter(show_default=False)] = None,
    lower_is_better: Flag = False,
    seed: Annotated[int | None, Parameter(show_default=False)] = None,
    config: Pairs = None,
    force: Flag = False,
    list_: Annotated[bool, Parameter("--list", negative="", show_default=False)] = False,
    format_: TextFormat = "text",
) -> None:
    """Turn the results of another tool into a run folder, which every other command reads.

    `perdure import auto PATH` recognizes what it is given and says why. What the files do not say
    is a note of the run; nothing is guessed. docs/import.md has a section per tool.

    Args:
        source: Name of a reader, see --list, or `auto`.
        paths: Files or folders that the tool wrote.
        output: Run folder to write. Several runs become folders below it. Without it, `auto` only
            says what it recognizes.
        order: Tasks, or checkpoints, in the order of learning, for files that do not say it.
        control: Tasks that are evaluated but never trained.
        columns: For tables of your own, the column for each of step, trained, tested, score and n.
        metric: Which score to read, if the files have several.
        percent: Scores are in percent, for files that do not say it.
        lower_is_better: Scores in tables and trackers are losses or errors.
        seed: Seed of the run, for files that do not say it.
        config: Entry of the run's config, as in strategy=ewc. Repeat the option for each.
        force: Replace the run that is in the folder.
        list_: List the readers.
        format_: Output format.
    """
    if list_:
        _print_readers(format_)
        return
    if source is None:
        raise InputError("nothing to import; name a reader (see --list) or auto, and files")
    options = ImportOptions(
        order=_parse_names(order, "--order"), control=_parse_names(control, "--control"),
        columns=parse_pairs(columns.split(",") if columns else (), "--columns"), metric=metric,
        percent=percent, lower_is_better=lower_is_better, config=_parse_config(config, seed),
    )  # fmt: skip
    check_paths(paths)
    files = [Path(path) for path in paths]
    if source == AUTO:
        source, reason = choose_reader(files)
        recognized = f"{files[0]} is read as {READERS[source].tool} ({source}): {reason}"
        if output is None:
            print_lines(recognized, "", f"next: {_suggest(source, files)}")
            return
        print_stderr(f"note: {recognized}")
    runs = read_runs(source, files, options)
    if output is None:
        raise InputError(
            f"--output is missing, expected the run folder to write: {_suggest(source, files)}"
        )
    folders = write_runs(runs, output, force=force)
    if format_ == "json":
        print_json({"runs": [_as_dict(*pair) for pair in zip(folders, runs, strict=True)]})
        return
    common = [note for note in runs[0].notes if all(note in run.notes for run in runs)]
    for folder, run in zip(folders, runs, strict=True):
        _print_run(folder, run, [note for note in run.notes if note not in common])
    print_notes(common, format_)
    _print_next(output, runs)


def _suggest(reader: str, files: Sequence[Path]) -> str:
    return shlex.join(["perdure", "import", reader, *map(str, files), "-o", f"runs/{reader}"])


def _print_readers(format_: str) -> None:
    if format_ == "json":
        print_json({"readers": {name: reader._asdict() for name, reader in READERS.items()}})
        return
    rows = [
        [name, reader.tool, reader.reads + (" (from Python)" if reader.in_memory else "")]
        for name, reader in READERS.items()
    ]
    TextTable(["reader", "tool", "reads"], rows).show(sys.stdout)


def _print_run(folder: Path, run: ImportedRun, notes: Sequence[str]) -> None:
    tool = f"{run.tool} {run.version}" if run.version else run.tool
    counts = f"{count_of(len(run.tasks), 'task')}, {count_of(len(run.evaluations), 'evaluation')}"
    print_wrapped(f"{folder}: {counts} of {tool}", "  ")
    for note in notes:
        print_wrapped(f"  note: {note}", "    ")


def _print_next(output: Path, runs: Sequence[ImportedRun]) -> None:
    print_lines("", f"next: perdure score {output}")
    for metrics in dict.fromkeys(run.metrics for run in runs if run.scale.is_accuracy):
        if metrics is not None:
            print_lines(f"      perdure score {output} --as {metrics}")


def _as_dict(folder: Path, run: ImportedRun) -> dict[str, object]:
    return {
        "folder": str(folder), "tool": run.tool, "version": run.version, "label": run.label,
        "tasks": run.tasks, "evaluations": len(run.evaluations), "config": run.config,
        "control": list(run.control), "notes": run.notes, "files": [str(f) for f in run.files],
    }  # fmt: skip


def _parse_names(text: str | None, option: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(",")) if text is not None else ()
    if not all(names) or len(set(names)) < len(names):
        raise InputError(f"{option} is {text!r:.60}, expected different names like a,b,c")
    return names


def _parse_config(pairs: list[str] | None, seed: int | None) -> dict[str, object]:
    """Return the entries of a config, numbers and other JSON values as such."""
    config: dict[str, object] = {}
    for name, value in parse_pairs(pairs or [], "--config").items():
        try:
            config[name] = json.loads(value)
        except ValueError:
            config[name] = value
    return config | ({} if seed is None else {"seed": seed})
