"""`perdure freeze`: the scores and results of a run as a file to check later runs against."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ..._display import count_of
from ...record import InputError
from ...verdict import freeze_run, write_baseline
from .._options import check_paths
from .._output import print_lines, print_notes
from ..reference.names import PathText

__all__ = ["freeze"]


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
