"""perdure.Log: a record written without PyTorch says what was added, and refuses contradictions."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import perdure
from perdure.metrics import ScoreScale

if TYPE_CHECKING:
    from pathlib import Path


def log_matrix(folder: Path, right: np.ndarray, ids: np.ndarray | None = None) -> None:
    """Log (T, T, n) results of every task at the end of each."""
    with perdure.Log(folder, config={"strategy": "mine", "seed": 0}) as log:
        for i, row in enumerate(right):
            for j, correct in enumerate(row):
                log.add(10 * (i + 1), f"t{i}", f"t{j}", correct=correct, ids=ids, kind="full")


def test_metrics_and_intervals_come_from_what_was_added(tmp_path: Path) -> None:
    right = np.random.default_rng(0).random((3, 3, 200)) < 0.7
    log_matrix(tmp_path / "a", right, ids=np.arange(1000, 1200))
    summary = perdure.score(tmp_path / "a")
    matrix = right.mean(axis=2)
    assert summary.metrics["acc"] == pytest.approx(matrix[-1].mean())
    expected = np.mean([matrix[-1, j] - matrix[j, j] for j in range(2)])
    assert summary.metrics["bwt"] == pytest.approx(expected)
    low, high = summary.intervals["bwt"]
    assert low < expected < high
    run = perdure.open_run(tmp_path / "a")
    assert run.finished
    at_ends = run.per_example_at_ends["t0"]
    np.testing.assert_array_equal(at_ends.ids, np.arange(1000, 1200))
    np.testing.assert_array_equal(at_ends[:], right[:, 0])


def test_no_pytorch_and_nothing_lost_when_killed(tmp_path: Path) -> None:
    code = f"""
import os, sys, perdure
log = perdure.Log({str(tmp_path / "run")!r})
log.add(1, "a", "a", score=0.5, n=10, kind="full")
log.add(2, "b", "a", score=0.25, n=10, kind="full")
log.add(2, "b", "b", score=0.75, n=10, kind="full")
assert "torch" not in sys.modules
os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    summary = perdure.score(tmp_path / "run")
    assert summary.metrics["bwt"] == -0.25
    assert any("unfinished" in note for note in summary.notes)


def test_other_scores_have_their_direction_and_name(tmp_path: Path) -> None:
    scale = ScoreScale(0, np.inf, lower_is_better=True, name="perplexity")
    with perdure.Log(tmp_path / "run", scale=scale) as log:
        log.add(1, "a", "a", 8.0, kind="full")
        log.add(2, "b", "a", 12.0, kind="full")
        log.add(2, "b", "b", 9.0, kind="full")
        log.note("seen  by\neye")
    run = perdure.open_run(tmp_path / "run")
    assert run.summary().metrics["bwt"] == -4.0  # higher is better inside
    assert run.matrix is not None
    assert run.matrix.scale.label == "perplexity"
    assert "seen by eye" in run.notes


A, B = ({"trained": task, "tested": task} for task in "ab")


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        ([{"step": 1, **A}], "no score of task 'a'"),
        ([{"step": 1, **A, "score": 70}], "'a' at step 1 is 70, expected 0 to 1"),
        ([{"step": 1, **A, "score": float("nan")}], "nan"),
        ([{"step": 1, **A, "score": 0.5, "n": 0}], "n is 0"),
        ([{"step": 1, **A, "score": 0.5, "correct": [True]}], "omit"),
        ([{"step": 1, **A, "correct": [0.3, 0.9]}], "one true or false value per example"),
        ([{"step": 1, **A, "score": 0.5, "ids": [1]}], "`ids` needs `correct=`"),
        ([{"step": 1, **A, "correct": [True], "ids": ["x"]}], "expected 1 integers"),
        ([{"step": 1, **A, "score": 0.5, "kind": "end"}], "kind is 'end'"),
        ([{"step": 1, "trained": "a", "tested": "", "score": 0.5}], "tested is ''"),
        ([{"step": 2, **A, "score": 0.5}, {"step": 1, **A, "score": 0.5}], "never decrease"),
        ([{"step": 2, **A, "score": 0.5}] * 2, "a second probe evaluation of 'a' at step 2"),
        (
            [{"step": 2, **A, "score": 0.5}, {"step": 2, **B, "score": 1}],
            "at which 'a' was trained",
        ),
        (
            [{"step": 1, **A, "correct": [True]}, {"step": 2, **A, "correct": [True, False]}],
            "other examples of task 'a' than before",
        ),
    ],
)  # fmt: skip
def test_contradictions_are_refused_and_what_was_added_is_kept(
    calls: list[dict[str, Any]], message: str, tmp_path: Path
) -> None:
    log = perdure.Log(tmp_path / "run")
    for call in calls[:-1]:
        log.add(**call)
    before = (tmp_path / "run" / "points.csv").read_bytes()
    with pytest.raises(ValueError, match=message):
        log.add(**calls[-1])
    log.close()
    assert (tmp_path / "run" / "points.csv").read_bytes() == before


def test_a_run_that_is_there_is_not_replaced_unasked(tmp_path: Path) -> None:
    right = np.ones((2, 2, 8), dtype=bool)
    log_matrix(tmp_path, right)
    with pytest.raises(perdure.RecordError, match="overwrite=True"):
        perdure.Log(tmp_path)
    perdure.Log(tmp_path, overwrite=True).close()
    with pytest.raises(perdure.InputError, match="no evaluations"):
        perdure.score(tmp_path)


def test_a_log_is_resumed_from_its_last_save(tmp_path: Path) -> None:
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    right = np.random.default_rng(2).random((3, 20)) < 0.5
    with perdure.Log(whole, config={"seed": 0}) as log:
        for step in range(3):
            log.add(step, "a", "a", correct=right[step], ids=np.arange(5, 25))
    for step in range(3):
        log = perdure.Log(resumed, config={"seed": 0}, resume=True)
        assert log.state == ({} if step == 0 else {"done": step - 1})
        log.add(step, "a", "a", correct=right[step], ids=np.arange(5, 25))
        log.save({"done": step})
        if step < 2:
            log.add(step, "a", "b", score=0.5)  # after the save: dropped
        log.close(finished=step == 2)
    for name in ("points.csv", "per_example/0.bin", "per_example/0.npy"):
        assert (resumed / name).read_bytes() == (whole / name).read_bytes(), name
    with pytest.raises(ValueError, match="other examples of task 'a' than before"):
        perdure.Log(resumed, config={"seed": 0}, resume=True).add(9, "a", "a", correct=[True])


def test_only_what_was_saved_with_the_same_config_is_resumed(tmp_path: Path) -> None:
    with perdure.Log(tmp_path / "a", config={"seed": 0}) as log:
        log.add(1, "a", "a", score=0.5)
    with pytest.raises(perdure.RecordError, match="a record that was never saved"):
        perdure.Log(tmp_path / "a", config={"seed": 0}, resume=True)
    with perdure.Log(tmp_path / "b", config={"seed": 0}) as log:
        log.save({})
    with pytest.raises(perdure.RecordError, match="a record with another config"):
        perdure.Log(tmp_path / "b", config={"seed": 1}, resume=True)
