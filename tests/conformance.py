"""Writes conformance/*.json: inputs, and every metric of them by the references in plain loops.

python -m tests.conformance        # rewrites the files; a test compares them with the package
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from perdure.metrics import METRICS
from perdure.metrics.registry import parse_id

from . import references as matrix_references
from . import stream_references as ref
from .references import REFERENCES, B, R

if TYPE_CHECKING:
    from collections.abc import Callable

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


def define(ids: list[str]) -> dict[str, dict[str, str]]:
    """Return name and formula of each id; the row of `wf` defines `wf3`."""
    rows = {id_: METRICS[parse_id(id_).base] for id_ in ids}
    return {id_: {"name": row.name, "formula": row.formula} for id_, row in rows.items()}


def matrix_cases() -> list[matrix_references.Case]:
    """Return the matrix of docs, one without forgetting, and random ones of two to six tasks."""
    rng = np.random.default_rng(0)
    cases = [
        matrix_references.Case(
            np.array(R), B, [0.9, 0.8, 0.85, 0.95, 0.93], [0.85, 0.8, 0.8, 0.92, 0.94],
            [2, 2, 2, 2, 2], [100, 200, 100, 300, 100],
        )
    ]  # fmt: skip
    for tasks in (2, 3, 6):
        matrix, vectors = (
            rng.integers(0, 101, (tasks, tasks)) / 100,
            rng.integers(5, 20, (1, tasks)),
        )
        cases.append(
            matrix_references.Case(
                matrix, (vectors[0] / 100).tolist(), (rng.integers(60, 99, tasks) / 100).tolist(),
                (rng.integers(60, 99, tasks) / 100).tolist(), rng.integers(1, 9, tasks).tolist(),
                rng.integers(10, 500, tasks).tolist(),
            )
        )  # fmt: skip
    return cases


def stream_cases() -> list[ref.Case]:
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
    return [
        ref.Case(log, spans, before, names),
        ref.Case(sparse, spans, {}, names),
        ref.Case(returned, back, before, names),
    ]


# A class-incremental model cannot name classes that it has not learned; guessing within the classes
# of a domain does not forget.
UNDEFINED = {
    "class": ("fwt.upper", "fwt.gem", "fwt.next"),
    "domain": ("raf", "uraf"),
}


def matrix_vectors() -> dict[str, object]:
    """Return the contents of matrix.json: each case in two settings."""
    names = ("initial", "joint", "single", "classes", "sizes")
    rows = []
    for case in matrix_cases():
        given = {name: getattr(case, name) for name in names}
        for setting, undefined in UNDEFINED.items():
            values = {
                id_: None
                if id_ in undefined
                else round(reference(replace(case, setting=setting))[0], 12)
                for id_, reference in REFERENCES.items()
            }
            scores = np.asarray(case.matrix).tolist()
            rows.append({"scores": scores, **given, "setting": setting, "expected": values})
    return {"definitions": define(list(REFERENCES)), "cases": rows}


def stream_vectors() -> dict[str, object]:
    """Return the contents of stream.json."""
    rows = []
    for case in stream_cases():
        values = {id_: reference(case) for id_, reference in STREAM_REFERENCES.items()}
        rows.append(
            {
                "scores": {name: list(case.log[name].items()) for name in case.order},
                "spans": case.spans,
                "before": case.before,
                "expected": {
                    k: None if v is None or math.isnan(v) else round(v, 12)
                    for k, v in values.items()
                },
            }
        )
    return {"definitions": define(list(STREAM_REFERENCES)), "cases": rows}


def dumps(vectors: dict[str, object]) -> str:
    """Return the text of a file."""
    return json.dumps(vectors, indent=1, ensure_ascii=False) + "\n"


FILES = {"matrix.json": matrix_vectors, "stream.json": stream_vectors}


def main() -> None:
    """Rewrite the files."""
    for name, make in FILES.items():
        (FOLDER / name).write_text(dumps(make()), encoding="utf-8")


if __name__ == "__main__":
    main()
