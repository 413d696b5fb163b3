"""Finished runs written by hand, for the tests of `perdure reproduce`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

HEAD = "step,trained,tested,kind,score,n\n"


def finished(
    folder: Path,
    points: Iterable[tuple[int, str, str, str, float]],
    *,
    setting: str = "class",
    classes: Sequence[int] | None = None,
    deviations: Sequence[str] = (),
    gradients: str = "",
    costs: str = "",
) -> Path:
    """Return the folder of a finished run with these points."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [f"{step},{a},{b},{kind},{score},100\n" for step, a, b, kind, score in points]
    (folder / "points.csv").write_text(HEAD + "".join(rows))
    said: dict[str, Any] = {"setting": setting, "config": {"deviations": list(deviations)}}
    said |= {"classes": list(classes)} if classes else {}
    (folder / "run.json").write_text(json.dumps(said))
    (folder / "done.json").write_text("{}")
    for name, text in (("gradients.csv", gradients), ("costs.csv", costs)):
        if text:
            (folder / name).write_text(text)
    return folder


def of_matrix(matrix: Sequence[Sequence[float]]) -> list[tuple[int, str, str, str, float]]:
    """Return the points of a run that was tested at task ends only."""
    return [
        (10 * (i + 1), f"t{i}", f"t{j}", "full", score)
        for i, row in enumerate(matrix)
        for j, score in enumerate(row)
    ]
