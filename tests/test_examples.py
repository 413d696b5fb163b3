"""The example loop is short, runs, and prints what its record says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import perdure

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "own_loop.py"


def test_own_loop_is_at_most_forty_lines() -> None:
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) <= 40


def test_own_loop_gets_the_record_and_the_summary(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    folder = tmp_path / "run"
    command = [sys.executable, "-W", "error", str(EXAMPLE), str(folder)]
    shown = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        cwd=tmp_path,
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    printed = dict(line.split() for line in shown.stdout.splitlines()[:-1])
    scored = subprocess.run(
        [sys.executable, "-m", "perdure", "score", str(folder), "--format", "json"],
        capture_output=True,
        text=True,
        check=True,
    )
    metrics = json.loads(scored.stdout)["metrics"]
    assert printed == {id_: f"{metrics[id_]:.3f}" for id_ in printed}
    assert len(printed) == 8
    run = perdure.open_run(folder)
    assert run.finished
    assert run.matrix is not None
    assert run.matrix.tasks == ("digits 0-2", "digits 3-5", "digits 6-8")
    assert 0.8 < metrics["acc"] < metrics["acc.learning"] <= 1  # it learns, and forgets something
    assert metrics["min_acc"] < metrics["acc"]  # and forgot more on the way
    assert run.matrix.classes is not None
    assert run.matrix.classes.tolist() == [3, 3, 3]
    assert set(run.per_example) == set(run.matrix.tasks)
    assert "min_acc" in run.summary().intervals
