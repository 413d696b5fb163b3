"""The vectors in conformance/ are current, complete, and agree with the package."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure.metrics import METRICS
from perdure.metrics.registry import parse_id

from .conformance import FILES, FOLDER, dumps

if TYPE_CHECKING:
    from pathlib import Path


def load(name: str) -> dict[str, Any]:
    vectors: dict[str, Any] = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    return vectors


def summarize(case: dict[str, Any], ids: list[str]) -> perdure.Summary:
    if "spans" not in case:
        known = {k: v for k, v in case.items() if k not in ("scores", "expected")}
        return perdure.summary(perdure.ScoreMatrix(case["scores"], upper="measured", **known))
    tasks: dict[str, Any] = {
        name: tuple(zip(*rows, strict=True)) for name, rows in case["scores"].items()
    }
    stream = perdure.Stream(tasks, [tuple(s) for s in case["spans"]], before=case["before"])
    windows = [arg["window"] for id_ in ids if "window" in (arg := parse_id(id_).arguments)]
    return perdure.summary(
        stream=stream, options=perdure.SummaryOptions(windows=tuple(windows), beta=2)
    )


@pytest.mark.parametrize("name", FILES)
def test_files_are_what_the_references_give(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == dumps(FILES[name]())


@pytest.mark.parametrize("name", FILES)
def test_the_package_agrees(name: str) -> None:
    for case in load(name)["cases"]:
        expected = case["expected"]
        metrics = summarize(case, list(expected)).metrics
        for id_, value in expected.items():
            if value is None:
                assert id_ not in metrics, id_
            else:
                assert metrics[id_] == pytest.approx(value, abs=1e-9), id_


def test_every_metric_of_a_matrix_or_stream_has_a_vector() -> None:
    defined = {parse_id(id_).base for name in FILES for id_ in load(name)["definitions"]}
    wanted = {id_ for id_, row in METRICS.items() if row.input in ("matrix", "stream")}
    assert defined == wanted


@pytest.mark.parametrize(("shift", "code"), [(0.0, 0), (0.1, 1)])
def test_the_runner_finds_a_wrong_function(shift: float, code: int, tmp_path: Path) -> None:
    text = f"METRICS = {{'acc': lambda c: sum(c['scores'][-1]) / len(c['scores']) + {shift}}}"
    (tmp_path / "mine.py").write_text(text)
    done = subprocess.run(
        [sys.executable, FOLDER / "run.py", "mine"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert ("all values agree" in done.stdout) == (code == 0)
