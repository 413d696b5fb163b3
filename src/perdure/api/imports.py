"""import_results: other tools' results as recorded runs, in one call."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ..importers import (
    ImportOptions,
    choose_reader,
    read_object,
    read_runs,
    write_runs,
)
from ..record import open_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..record import Run

__all__ = ["import_results"]


def import_results(
    source: object,
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    *,
    output: str | os.PathLike[str],
    order: Sequence[str] = (),
    control: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    metric: str | None = None,
    percent: bool | None = None,
    lower_is_better: bool = False,
    config: Mapping[str, object] | None = None,
    force: bool = False,
) -> list[Run]:
    """Turn another tool's results into run folders, and return the runs.

    What the files do not say (sizes of test sets, the number of iterations) is a note of the run;
    nothing is guessed.

    Args:
        source: name of a reader (`perdure import --list`), "auto" to recognize the files, or an
            object of the tool: a `Logger` of continuum, an `OCLMetrics` of CapyMOA.
        paths: files or folders that the tool wrote; none for an object.
        output: the run folder to write. Several runs become folders below it.
        order: tasks or checkpoints in the order of learning, where the files do not say it.
        control: tasks that are evaluated but never trained.
        columns: names of columns in the file by our names, such as {"step": "iter"}.
        metric: which score to read, if the files have several.
        percent: whether scores are in percent, where the reader cannot know it.
        lower_is_better: the scores in a table or a tracker are losses or errors.
        config: entries of the config, such as {"seed": 3}; they replace those in the files.
        force: replace the run that is already in the folder.
    """
    options = ImportOptions(
        order=tuple(order), control=tuple(control), columns=dict(columns or {}), metric=metric,
        percent=percent, lower_is_better=lower_is_better, config=dict(config or {}),
    )  # fmt: skip
    if not isinstance(source, str):
        if paths:
            raise ValueError("paths is not used with an object of a tool; omit it")
        runs = read_object(source, options)
    else:
        listed = [paths] if isinstance(paths, str | os.PathLike) else paths
        files = [Path(path) for path in listed]
        name = choose_reader(files).name if source == "auto" else source
        runs = read_runs(name, files, options)
    return [open_run(folder) for folder in write_runs(runs, Path(output), force=force)]
