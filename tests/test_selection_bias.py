"""What a run must say of itself, and what must not pass for something else."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import perdure
from perdure.data import Dataset, Split
from perdure.execution import plan_jobs
from perdure.record import InputError
from perdure.scenarios import split
from perdure.training import make_config, run

from .cli_helpers import says

ROOT = Path(__file__).parent.parent
SHORT: dict[str, Any] = {"epochs": 1, "settings": {"hidden": "16"}}
OWN = """
from perdure.strategies import Naive
class Mine(Naive):
    pass
"""


def own(**changes: Any) -> Dataset:
    rng = np.random.default_rng(0)
    y = np.arange(80) % 4
    x = (rng.integers(0, 60, (80, 1, 4, 4)) + 40 * y[:, None, None, None]).astype(np.uint8)
    made = Dataset("own", Split(x, y), Split(x[:20], y[:20]), ("a", "b", "c", "d"))
    return replace(made, **changes)


def test_an_edited_strategy_of_ones_own_is_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    folders = []
    for text in (OWN, OWN + "# changed\n", OWN):
        (tmp_path / "edited_strategy.py").write_text(text)
        folders.append(make_config("split-digits", "edited_strategy:Mine", **SHORT).folder)
    assert folders[0] == folders[2] != folders[1]


def test_a_hyperparameter_without_default_has_to_be_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    begin = "    def __init__(self, *a, size: int, **k):\n        super().__init__(*a, **k)\n"
    text = OWN.replace("    pass\n", begin)
    (tmp_path / "needy_strategy.py").write_text(text)
    with pytest.raises(
        InputError, match=re.escape("size has no default; set it with `settings={'size': …}`")
    ):
        make_config("split-digits", "needy_strategy:Mine")
    found = make_config("split-digits", "needy_strategy:Mine", settings={"size": "3"})
    assert found.options == {"size": 3}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"boundaries": "none"}, "`settings={'fill': 'reservoir'}`"),
        ({"boundaries": "blurred", "mask_unseen": True}, "needs sharp boundaries"),
        ({"patience": 2, "iterations": 5}, "give one of them"),
        ({"resample": True, "subset": None}, "no subset to resample"),
        ({"order": [3, 1]}, "each class from 0 to 9 once"),
        ({"image_size": 16}, "leave out `image_size=`"),
        ({"seed": 2**32}, "below 2**32"),
        ({"settings": {"memory": 2.7}}, "memory is 2.7, expected a whole number"),
        ({"settings": {"alpha": True}}, "alpha is True, expected a number or none"),
    ],
)
def test_what_would_mean_nothing_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        make_config("split-digits", "replay", **options)


def test_what_changes_nothing_changes_no_folder() -> None:
    plain = make_config("split-digits", "naive")
    assert (
        make_config("split-digits", "naive", blur=0.4, early_stopping_split=0.3).folder
        == plain.folder
    )
    assert make_config("split-digits", "naive", settings={"lr": 0.02}).folder == plain.folder


def test_values_need_not_be_text() -> None:
    given = {"memory": 7, "alpha": None, "replacement": True, "lr": 1}
    found = make_config("split-digits", "replay", settings=given)
    assert found.options["memory"] == 7
    assert found.options["alpha"] is None
    assert found.options["replacement"] is True
    assert found.optimizer_options["lr"] == 1.0


def test_intervals_are_those_of_the_evaluations_that_count(tmp_path: Path) -> None:
    """Sparse tests: minima come from whole sets at task ends too, not only from the subset."""
    run(make_config("split-digits", "single", every=20, subset=20, **SHORT), tmp_path / "sparse")
    found = perdure.open_run(tmp_path / "sparse").summary()
    assert "min_acc" in found.metrics
    assert "min_acc" not in found.intervals
    assert any("no intervals from examples" in note for note in found.notes)
    run(make_config("split-digits", "single", every=1, **SHORT), tmp_path / "dense")
    dense = perdure.open_run(tmp_path / "dense").summary()
    for id_ in ("min_acc", "wc_acc", "wf10"):
        low, high = dense.intervals[id_]
        assert low <= dense.metrics[id_] <= high


def test_a_short_last_batch_is_not_taken_for_the_rest(tmp_path: Path) -> None:
    """Operations of training against the examples that went through the network.

    291 examples in batches of 32 end with one of 3 at step 10, which is counted.
    """
    run(make_config("split-digits", "naive", epochs=4, every=50), tmp_path / "run")
    with (tmp_path / "run" / "costs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    examples = json.loads((tmp_path / "run" / "run.json").read_text())["config"]["examples"]
    each = [float(row["flops_train"]) / (4 * examples[row["task"]][0]) for row in rows]
    assert max(each) / min(each) < 1.15


def test_run_json_says_what_was_learned_from(tmp_path: Path) -> None:
    scenario = split(own(), 2, setting="task")
    run(make_config("split-digits", "replay", **SHORT), tmp_path / "run", scenario=scenario)
    said = json.loads((tmp_path / "run" / "run.json").read_text())
    assert said["config"]["scenario"] == "split-own"
    assert said["config"]["setting"] == said["setting"] == "task"
    assert said["config"]["task_classes"] == {"a, b": [0, 1], "c, d": [2, 3]}
    assert said["config"]["examples"] == {"a, b": [40, 10], "c, d": [40, 10]}
    assert said["config"]["normalised_by"] == {"mean": [[0.0]], "std": [[1.0]]}
    assert perdure.open_run(tmp_path / "run").finished


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda x, y: (x / np.float32(255), y), "train examples are float32 and test"),
        (lambda x, y: (x[:, 0], y), "uint8 from 0 to 255 or float32 of shape (N, C, H, W)"),
        (lambda x, y: (x, y[:-5]), "expected int64 (80,)"),
        (lambda x, y: (x, y.astype(float)), "labels are float64"),
        (lambda x, y: (x, y + 1), "labels go from 1 to 4, expected 0 to 3"),
    ],
)
def test_data_of_ones_own_is_judged(change: Any, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        own(train=Split(*change(*own().train)))


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "perdure", "run", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_dry_run_prints_every_choice_and_runs_nothing(tmp_path: Path) -> None:
    plan = ("split-mnist", "--seeds", "2", "--dry-run", "--store", tmp_path / "runs")
    shown = command(*plan, "--format", "json")
    assert (shown.returncode, shown.stderr) == (0, "")
    first, second = json.loads(shown.stdout)
    assert (first["seed"], second["seed"]) == (0, 1)
    assert first["options"]["memory"] == 2000
    assert first["optimizer_options"] == {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.0}
    readable = command(*plan).stdout
    assert first["folder"] in readable
    assert second["folder"] in readable
    says(readable, "replay", "2 seeds", "lr 0.01", "memory 2000", "0 of 2 runs", "--format json")
    assert len(readable.splitlines()) < 20
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_old_versions_and_other_data_are_said(tmp_path: Path) -> None:
    arguments = ("split-digits", "naive", "--seeds", "1", "--epochs", "1", "--set", "hidden=16")
    what = make_config("split-digits", "naive", **SHORT)
    ((), (job,)) = plan_jobs([what], tmp_path)
    run(what, job.folder)
    path = job.folder / "run.json"
    said = json.loads(path.read_text())
    said["versions"]["torch"] = "1.0"
    said["config"]["deviations"] = ["half of it was missing"]
    said["config"]["data"]["digits"]["sha256"]["digits"] = "0" * 64
    path.write_text(json.dumps(said))
    shown = command(*arguments, "--store", tmp_path)
    assert shown.returncode == 0
    assert "made with torch 1.0; this is the old result" in shown.stderr
    assert "the data has changed since" in shown.stderr
    assert "half of it was missing" in shown.stdout
    other = command(*arguments, "--set", "lr=.5", "--store", tmp_path)
    assert f"the data differs from that of {job.folder}" in other.stderr


def test_the_document_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "runs.md").read_text(), re.DOTALL)
    assert len(blocks) == 3
    for block in blocks[1:]:  # the first reads a file of weights
        exec(block, {})
    assert all(perdure.open_run(path).finished for path in (tmp_path / "runs").iterdir())


@pytest.mark.slow
def test_the_strategy_of_ones_own_runs(tmp_path: Path) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "perdure", "run", "split-digits", "own_strategy:Gentle", "--seeds",
         "1", "--epochs", "1", "--set", "strength=.1", "--gradients", "1", "--store", tmp_path],
        capture_output=True, text=True, check=True, cwd=ROOT / "examples",
    )  # fmt: skip
    assert "strength 0.1" in shown.stdout
    (folder,) = tmp_path.iterdir()
    gradients = perdure.open_run(folder).gradients
    assert gradients is not None
    seen = dict.fromkeys(gradients.trained)
    for number, task in enumerate(seen):  # nothing pulls back in the first task, nor at a start
        stability = gradients.stability[[each == task for each in gradients.trained]]
        assert stability[0] == 0
        assert np.all(stability[1:] > 0) if number else np.all(stability == 0)
