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


@pytest.mark.slow
def test_the_gate_says_pass_fail_and_inconclusive(tmp_path: Path) -> None:
    """Train, freeze, retrain as well, retrain worse, and evaluate on too few examples."""
    pytest.importorskip("torch")
    gate = ROOT / "examples" / "gate"

    def call(*words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-W", "error", *map(str, words)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PERDURE_QUIET": "1"},
            cwd=tmp_path,
        )

    def train(name: str, *options: str) -> Path:
        shown = call(gate / "train.py", tmp_path / name, *options)
        assert (shown.returncode, shown.stderr) == (0, "")
        return tmp_path / name

    def check(name: str, baseline: str | Path) -> tuple[int, str]:
        shown = call("-m", "perdure", "check", name, "--baseline", baseline, "--requirements",
                     gate / "requirements.toml")  # fmt: skip
        return shown.returncode, shown.stdout.partition(":")[0]

    train("base")
    assert call("-m", "perdure", "freeze", "base", "-o", "baseline.json").returncode == 0
    train("equal", "--seed", "1")
    assert check("equal", "baseline.json") == (0, "PASS")
    train("worse", "--seed", "1", "--memory", "0")
    assert check("worse", "baseline.json") == (1, "FAIL")
    train("small", "--evaluate", "20")
    train("small-new", "--evaluate", "20", "--seed", "1")
    assert check("small-new", "small") == (3, "INCONCLUSIVE")
    assert check("small-new", "baseline.json")[0] == 2  # other examples
