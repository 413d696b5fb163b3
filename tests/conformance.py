"""Writes conformance/*.json: inputs, and every metric of them by the references in plain loops.

python -m tests.conformance        # rewrites the files; a test compares them with the package
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from perdure.metrics import METRICS
from perdure.metrics.registry import parse_id, plain_formula

from . import references as matrix_references
from . import stream_references as ref
from .references import REFERENCES, B, R

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]

FOLDER = Path(__file__).parents[1] / "conformance"
STREAM_REFERENCES: dict[str, Callable[[ref.Case], float | None]] = {
    "min_acc": ref.min_acc_by_loops,
    "wc_acc": ref.wc_acc_by_loops,
    "current": ref.current_by_loops,
    "aaa": ref.aaa_by_loops,
    "lca2": lambda case: ref.mean((ref.lca_by_loops(case, 2) or {}).values()),
    "wf3": lambda case: ref.mean(ref.windowed(case, 3, ref.drop_by_pairs).values()),
    "wfall": lambda case: ref.mean(ref.windowed(case, None, ref.drop_by_pairs).values()),
    "wp3": lambda case: ref.mean(ref.windowed(case, 3, ref.rise_by_pairs).values()),
    "wpall": lambda case: ref.mean(ref.windowed(case, None, ref.rise_by_pairs).values()),
    "gap.depth": lambda case: ref.mean(dip[2] for dip in ref.dips_by_loops(case)),
    "gap.area": lambda case: ref.mean(dip[3] for dip in ref.dips_by_loops(case)),
    "gap.recovery": lambda case: ref.median_with_censored(
        [dip[4] for dip in ref.dips_by_loops(case)]
    ),
    "gap.recovered": lambda case: ref.mean(dip[4] is not None for dip in ref.dips_by_loops(case)),
}


# What the keys of a case mean, in the files themselves.
MATRIX_KEYS = {
    "name": "of the case",
    "scores": "scores[i][j]: accuracy on task j after learning task i, R[i+1, j+1] in the formulas",
    "correct": "correct[i][j]: the same as a number of test examples, for tools that count them",
    "sizes": "number of test examples per task",
    "initial": "accuracy of the untrained model per task, b in the formulas",
    "joint": "accuracy of one model trained on all tasks at once, J in the formulas",
    "single": "accuracy of a model trained on that task only, S in the formulas",
    "offline": "mean accuracy on the tasks until that one of a model trained on them offline, O "
    "in the formulas",
    "classes": "number of classes per task",
    "setting": "class (one head, classes are added), task (a head per task) or domain",
    "expected": "value per id; null where the metric is undefined",
}
STREAM_KEYS = {
    "name": "of the case",
    "scores": "per task, in the order of learning: pairs of step and accuracy",
    "spans": "pairs of task and its last step, in the order of training; a task may return",
    "before": "accuracy of a task just before its first update",
    "expected": "value per id; null where the metric is undefined",
}


def define(ids: list[str]) -> dict[str, dict[str, object]]:
    """Return name and formula of each id; the row of `wf` defines `wf3`, with a window of 3."""
    definitions: dict[str, dict[str, object]] = {}
    for id_ in ids:
        base, arguments = parse_id(id_)
        row = METRICS[base]
        definitions[id_] = {"name": row.name, "formula": row.formula}
        definitions[id_] |= {"text": plain_formula(row.formula), "source": row.source}
        if arguments:
            definitions[id_]["arguments"] = arguments
    return definitions


def matrix_cases() -> dict[str, matrix_references.Case]:
    """Return the matrix of docs, and random ones of two, three and six tasks.

    A score times its test set's size is a whole number, so that predictions can be made up.
    """
    rng = np.random.default_rng(0)
    cases = {
        "five tasks": matrix_references.Case(
            np.array(R), B, [0.9, 0.8, 0.85, 0.95, 0.93], [0.85, 0.8, 0.8, 0.92, 0.94],
            [0.88, 0.84, 0.86, 0.88, 0.9], [2, 2, 2, 2, 2], [100, 200, 100, 300, 100],
        )
    }  # fmt: skip
    for tasks, word in ((2, "two"), (3, "three"), (6, "six")):
        sizes = rng.integers(10, 500, tasks)

        def draw(low: float, high: float, shape: tuple[int, ...], n: IntArray = sizes) -> Any:
            return (rng.integers((low * n).astype(int), (high * n).astype(int) + 1, shape)) / n

        cases[f"{word} tasks, random"] = matrix_references.Case(
            draw(0, 1, (tasks, tasks)), draw(0.05, 0.2, (tasks,)).tolist(),
            draw(0.6, 1, (tasks,)).tolist(), draw(0.6, 1, (tasks,)).tolist(),
            np.linspace(0.9, 0.8, tasks).round(2).tolist(),
            rng.integers(1, 9, tasks).tolist(), sizes.tolist(),
        )  # fmt: skip
    return cases


def stream_cases() -> dict[str, ref.Case]:
    """Return three tasks evaluated at every step, at every other one, and with one that returns."""
    rng = np.random.default_rng(1)
    names, length = ["a", "b", "c"], 6
    spans = [(name, length * (k + 1)) for k, name in enumerate(names)]
    log: ref.Log = {
        name: {
            step: int(rng.integers(0, 21)) / 20
            for step in range(length * k + 1, length * len(names) + 1)
        }
        for k, name in enumerate(names)
    }
    before = {"a": 0.1, "b": 0.0, "c": 0.05}
    sparse = {name: {t: a for t, a in rows.items() if t % 2 == 0} for name, rows in log.items()}
    back = [*spans, ("a", 24)]
    returned: ref.Log = {
        name: rows | {t: int(rng.integers(0, 21)) / 20 for t in range(19, 25)}
        for name, rows in log.items()
    }
    return {
        "evaluated at every step": ref.Case(log, spans, before, names),
        "evaluated at every other step": ref.Case(sparse, spans, {}, names),
        "the first task returns": ref.Case(returned, back, before, names),
    }


# A class-incremental model cannot name classes that it has not learned; guessing within the classes
# of a domain does not forget.
UNDEFINED = {
    "class": ("fwt.upper", "fwt.gem", "fwt.next"),
    "domain": ("raf", "uraf"),
}


def matrix_vectors() -> dict[str, object]:
    """Return the contents of matrix.json: each case in two settings."""
    names = ("sizes", "initial", "joint", "single", "offline", "classes")
    rows: list[dict[str, object]] = []
    for title, case in matrix_cases().items():
        given = {name: getattr(case, name) for name in names}
        correct = np.rint(np.asarray(case.matrix) * case.sizes).astype(int).tolist()
        for setting, undefined in UNDEFINED.items():
            values = {
                id_: None
                if id_ in undefined
                else round(reference(replace(case, setting=setting))[0], 12)
                for id_, reference in REFERENCES.items()
            }
            scores = np.asarray(case.matrix).tolist()
            row = {"name": f"{title}, {setting}-incremental", "scores": scores, "correct": correct}
            rows.append(row | given | {"setting": setting, "expected": values})
    return {"keys": MATRIX_KEYS, "definitions": define(list(REFERENCES)), "cases": rows}


def stream_vectors() -> dict[str, object]:
    """Return the contents of stream.json."""
    rows = []
    for title, case in stream_cases().items():
        values = {id_: reference(case) for id_, reference in STREAM_REFERENCES.items()}
        rows.append(
            {
                "name": title,
                "scores": {name: list(case.log[name].items()) for name in case.order},
                "spans": case.spans,
                "before": case.before,
                "expected": {
                    k: None if v is None or math.isnan(v) else round(v, 12)
                    for k, v in values.items()
                },
            }
        )
    return {"keys": STREAM_KEYS, "definitions": define(list(STREAM_REFERENCES)), "cases": rows}


def dumps(vectors: dict[str, object]) -> str:
    """Return the text of a file, with lists of numbers on one line."""
    text = json.dumps(vectors, indent=1, ensure_ascii=False)
    return (
        re.sub(r"\[\s+([^][{}]*?)\s+\]", lambda list_: f"[{_on_one_line(list_[1])}]", text) + "\n"
    )


def _on_one_line(text: str) -> str:
    return re.sub(r",\s+", ", ", text)


FILES = {"matrix.json": matrix_vectors, "stream.json": stream_vectors}


def main() -> None:
    """Rewrite the files."""
    for name, make in FILES.items():
        (FOLDER / name).write_text(dumps(make()), encoding="utf-8")


if __name__ == "__main__":
    main()
