"""Runs written by hand for tests of checks: points and per-example results, without our writer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Right = NDArray[np.bool_]


def answers(right: int, n: int) -> Right:
    """Return n results of which the first ones are right."""
    return np.arange(n) < right


def changed(before: Right, lost: int, gained: int) -> Right:
    """Return results after some that were right were lost and some that were wrong gained."""
    after = before.copy()
    after[np.flatnonzero(before)[:lost]] = False
    after[np.flatnonzero(~before)[:gained]] = True
    return after


def write_run(
    folder: Path,
    ends: Mapping[tuple[str, str], Right],
    *,
    initial: Mapping[str, Right] | None = None,
    ids: Mapping[str, Sequence[int]] | None = None,
    per_example: bool = True,
    sizes: bool = True,
) -> Path:
    """Write evaluations (trained, tested) in the order given; one step per trained task.

    An empty trained name is a run without a training order.
    """
    folder.mkdir(parents=True)
    order = list(dict.fromkeys(trained for trained, _ in ends))
    tasks = list(dict.fromkeys([*(tested for _, tested in ends), *(initial or {})]))
    rows: list[tuple[int, str, str, str, Right]] = [
        (0, "", task, "initial", right) for task, right in (initial or {}).items()
    ]
    rows += [
        (order.index(trained) + 1, trained, tested, "full", right)
        for (trained, tested), right in ends.items()
    ]
    lines = [
        f"{step},{trained},{tested},{kind},{right.mean():.8f}" + (f",{len(right)}" if sizes else "")
        for step, trained, tested, kind, right in rows
    ]
    header = "step,trained,tested,kind,score" + (",n" if sizes else "")
    (folder / "points.csv").write_text("\n".join([header, *lines]) + "\n")
    if per_example:
        _write_results(folder / "per_example", tasks, rows, ids or {})
    return folder


def _write_results(
    folder: Path,
    tasks: list[str],
    rows: list[tuple[int, str, str, str, Right]],
    ids: Mapping[str, Sequence[int]],
) -> None:
    folder.mkdir()
    (folder / "tasks.json").write_text(json.dumps(tasks))
    for number, task in enumerate(tasks):
        own = [(step, kind, right) for step, _, tested, kind, right in rows if tested == task]
        numbers = ids.get(task, range(len(own[0][2])))
        # Results before training are of whole sets, as those of control tasks.
        name = f"{number}.full" if any(kind == "initial" for _, kind, _ in own) else str(number)
        np.save(folder / f"{name}.npy", np.array(numbers, dtype=np.int64))
        bits = [(np.int64(step), np.packbits(right)) for step, _, right in own]
        records = b"".join(step.tobytes() + row.tobytes() for step, row in bits)
        (folder / f"{name}.bin").write_bytes(records)


def two_tasks(
    folder: Path,
    n: int = 1000,
    *,
    forgot: int = 0,
    first: Right | None = None,
    second: Right | None = None,
    per_example: bool = True,
    sizes: bool = True,
) -> Path:
    """Write a run that learns a, then b, and has lost some examples of a."""
    learned = answers(n * 9 // 10, n) if first is None else first
    other = answers(n * 8 // 10, n) if second is None else second
    ends = {
        ("a", "a"): learned,
        ("b", "a"): changed(learned, forgot, 0),
        ("b", "b"): other,
    }
    return write_run(folder, ends, per_example=per_example, sizes=sizes)
