"""Stores of small runs, written by hand, for the tests of `perdure compare`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from .cli_helpers import run, strict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def points(first: float, then: float, second: float, tasks: Sequence[str] = ("a", "b")) -> str:
    """Return the points.csv of two tasks: the first when learned, after the second, the second."""
    a, b = tasks
    return (
        "step,trained,tested,kind,score\n"
        f"1,{a},{a},probe,{first}\n2,{a},{a},probe,{first}\n2,{a},{a},full,{first}\n"
        f"3,{b},{a},probe,{then / 2}\n4,{b},{a},probe,{then}\n4,{b},{b},probe,{second}\n"
        f"4,{b},{a},full,{then}\n4,{b},{b},full,{second}\n"
    )


def made(
    folder: Path,
    acc: float,
    described: Mapping[str, Any] | None = None,
    *,
    done: bool = True,
    tasks: Sequence[str] = ("a", "b"),
    **run: Any,
) -> Path:
    """Return a run folder whose acc is as given: the first task ends there, the second too."""
    folder.mkdir(parents=True)
    said = {"setting": "class", "classes": [2, 2], **run}
    if described is not None:
        said["config"] = dict(described)
    (folder / "run.json").write_text(json.dumps(said))
    (folder / "points.csv").write_text(points(0.9, acc, acc, tasks))
    if done:
        (folder / "done.json").write_text("{}")
    return folder


def store(folder: Path, methods: Mapping[str, Mapping[int, float]], **described: Any) -> Path:
    """Return a folder with a run for every strategy and seed, given its acc."""
    for strategy, accs in methods.items():
        for seed, acc in accs.items():
            said = {
                "scenario": "split-x", "setting": "class", "strategy": strategy, "seed": seed,
                "epochs": 1, "options": {f"of_{strategy}": 1}, "tasks": [strategy, seed],
                **described,
            }  # fmt: skip
            made(folder / f"split-x-{strategy}-s{seed}", acc, said)
    return folder


def spread(level: float, seeds: int, step: float = 0.01) -> dict[int, float]:
    """Return an acc for every seed, all different."""
    return {seed: round(level + step * seed + 0.001 * seed * seed, 6) for seed in range(seeds)}


def printed(*arguments: str | Path) -> str:
    """Return what `perdure compare` prints, without a note or an error."""
    answer = run("compare", *arguments)
    assert (answer.code, answer.err) == (0, "")
    return answer.out


def found(*arguments: str | Path) -> dict[str, Any]:
    """Return what it prints as JSON."""
    return strict(printed(*arguments, "--format", "json"))
