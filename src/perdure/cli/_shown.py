"""What is to be shown: runs and files, or all that a study's file stands for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..record import InputError, Run, open_run
from ..report.filtering import summarize_reasons
from ..report.load import open_methods
from ._options import check_percent, require_training
from ._output import STDIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..record import InputOptions, ScoreInput

__all__ = ["opened"]


def opened(
    sources: Sequence[str], given: InputOptions, store: Path, *, pool: bool = False
) -> tuple[dict[str, list[ScoreInput]], list[str]]:
    """Return methods by name, each with its runs, and notes on what was left out.

    Args:
        sources: as `open_methods` takes them; FILE.toml is a study with its runs in `store`.
        given: what the user says about files that are no runs of ours.
        store: the folder of the studies' runs.
        pool: let runs under one name differ in more than the seed.
    """
    for source in sources:
        if source.endswith(STDIN):
            raise InputError(
                "- is standard input, expected files or folders; write it to a file first"
            )
        if source.endswith(".toml") and "=" in source and not Path(source).exists():
            raise InputError(
                f"{source!r:.60}: a study names its methods itself, expected FILE.toml"
            )
    files = [source for source in sources if source.endswith(".toml")]
    rest = [source for source in sources if source not in files]
    methods, notes = open_methods(rest, given, pool=pool) if rest else ({}, [])
    for file in files:
        found, more = _study(Path(file), store)
        if twice := found.keys() & methods.keys():
            raise InputError(f"{file}: two methods are called {min(twice)!r}, expected other names")
        methods |= found
        notes += more
    if given.percent:
        for run in (run for runs in methods.values() for run in runs):
            if isinstance(run, Run) and run.points is not None:
                check_percent(run.points.scale, str(run.folder))
            run.show_percent()
    return methods, notes


def _study(file: Path, store: Path) -> tuple[dict[str, list[ScoreInput]], list[str]]:
    """Return the finished runs of a study, by what tells its cells apart."""
    require_training()
    from .. import studies

    study = studies.read_study(file)
    status = studies.study_status(study, store)
    done = {cell: folders for cell, folders in status.done.items() if folders}
    if not done:
        raise InputError(
            f"{file}: no finished run of it in {store}; `perdure study run {file}` first"
        )
    fields = next(iter(done))._fields
    apart = [f for f in fields if len({getattr(cell, f) for cell in done}) > 1] or ["strategy"]
    methods: dict[str, list[ScoreInput]] = {}
    broken = [
        f"{folder}: the run failed: {' '.join(why.split())}"
        for folder, why in status.failed.items()
    ]
    for cell, folders in done.items():
        name = " ".join(str(getattr(cell, f)) for f in apart if getattr(cell, f))
        for folder in folders:
            try:
                run = open_run(folder, per_example=len(folders) == 1)
            except InputError as error:
                broken.append(str(error))
            else:
                methods.setdefault(name, []).append(run)
    if not methods:
        raise InputError(summarize_reasons(broken))
    left = status.remaining
    notes = [f"{file}: {left} runs of the study are not finished"] if left else []
    return methods, [*notes, *(f"left out: {each}" for each in broken)]
