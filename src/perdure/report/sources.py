"""What figures and reports are made from: runs and files, or the runs of a study file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..record import InputError, Run, open_run
from .filtering import summarize_reasons
from .load import open_methods

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..metrics import ScoreScale
    from ..record import InputOptions, ScoreInput

__all__ = ["check_percent", "open_sources"]


def open_sources(
    sources: Sequence[str],
    inputs: InputOptions,
    store: Path,
    *,
    pool: bool = False,
    finished: bool = False,
) -> tuple[dict[str, list[ScoreInput]], list[str]]:
    """Return methods by name, each with its runs, and notes on what was left out.

    Args:
        sources: As `open_methods` takes them; FILE.toml is a study with its runs in `store`.
        inputs: How to read files that are not run folders.
        store: Folder in which the runs of studies are stored.
        pool: Let runs under one name differ in more than the seed.
        finished: Leave unfinished runs out, as is always done for a study.
    """
    for source in sources:
        if source.endswith(".toml") and "=" in source and not Path(source).exists():
            raise InputError(
                f"{source!r:.60}: a study names its methods itself, expected FILE.toml"
            )
    files = [source for source in sources if source.endswith(".toml")]
    others = [source for source in sources if source not in files]
    methods: dict[str, list[ScoreInput]] = {}
    notes: list[str] = []
    if others:
        methods, notes = open_methods(others, inputs, pool=pool, finished=finished)
    for file in files:
        study_methods, study_notes = _open_study(Path(file), store)
        if twice := study_methods.keys() & methods.keys():
            raise InputError(f"{file}: two methods are called {min(twice)!r}, expected other names")
        methods |= study_methods
        notes += study_notes
    if inputs.percent:
        for run in (run for runs in methods.values() for run in runs):
            if isinstance(run, Run) and run.points is not None:
                check_percent(run.points.scale, str(run.folder))
            run.show_percent()
    return methods, notes


def check_percent(scale: ScoreScale, path: str) -> None:
    """Raise if scores are to be shown in percent but are not fractions."""
    if scale.low < 0 or scale.high > 1:
        raise InputError(
            f"{path}: scores run from {scale.low:g} to {scale.high:g}, expected 0 to 1 for "
            "`percent=True`; drop it"
        )


def _open_study(file: Path, store: Path) -> tuple[dict[str, list[ScoreInput]], list[str]]:
    """Return the finished runs of a study, named by what distinguishes its cells."""
    from .. import studies

    study = studies.read_study(file)
    status = studies.study_status(study, store)
    done = {cell: folders for cell, folders in status.done.items() if folders}
    if not done:
        raise InputError(
            f"{file}: no finished run of it in {store}; `perdure study run {file}` first"
        )
    fields = next(iter(done))._fields
    differing = [f for f in fields if len({getattr(cell, f) for cell in done}) > 1] or ["strategy"]
    methods: dict[str, list[ScoreInput]] = {}
    broken = [
        f"{folder}: the run failed: {' '.join(error.split())}"
        for folder, error in status.failed.items()
    ]
    for cell, folders in done.items():
        name = " ".join(str(getattr(cell, f)) for f in differing if getattr(cell, f))
        for folder in folders:
            try:
                run = open_run(folder, per_example=len(folders) == 1)
            except InputError as error:
                broken.append(str(error))
            else:
                methods.setdefault(name, []).append(run)
    if not methods:
        raise InputError(summarize_reasons(broken))
    notes = []
    if status.remaining:
        notes.append(f"{file}: {status.remaining} runs of the study are not finished")
    return methods, [*notes, *(f"left out: {reason}" for reason in broken)]
