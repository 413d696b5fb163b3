"""The scripts of studies/ that make their tables and claims, on runs written by hand."""

from __future__ import annotations

import json
import runpy
import shutil
import sys
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from perdure.reproduction import CellRuns, Measurements, find_published_result
from perdure.reproduction.claims import check_claims

from .reproduce_helpers import finished, of_matrix

STUDIES = Path(__file__).parents[1] / "studies"


def run_script(path: str, tmp_path: Path, *arguments: str | Path) -> Path:
    """Run a copy of a script, so that it writes its results next to the copy."""
    copy = str(shutil.copy(STUDIES / path, tmp_path))
    with patch.object(sys, "argv", [path, *map(str, arguments)]):
        runpy.run_path(copy, run_name="__main__")
    return tmp_path / "results.json"


def stream_of(tasks: int, accuracy: dict[str, list[list[float]]], tmp_path: Path) -> Measurements:
    """Return runs of strategies, of two classes per task, from their matrices."""
    cells = [
        CellRuns(
            {"scenario": "split-m2i", "strategy": name},
            [finished(tmp_path / name, of_matrix(matrix), classes=[2] * tasks)],
        )
        for name, matrix in accuracy.items()
    ]
    return Measurements(find_published_result("michel-stream"), cells)


@pytest.mark.parametrize("flat", [True, False])
def test_claims_about_the_long_stream(flat: bool, tmp_path: Path) -> None:
    """Naive knows the last task only; the others know everything, or as much as half of it."""
    tasks = 40
    known = [min(k, tasks // 2) if flat else k for k in range(1, tasks + 1)]
    memory = [[0.9] + [n / (k + 1)] * k for k, n in enumerate(known)]
    naive = [[0.0] * k + [1.0] for k in range(tasks)]
    runs = stream_of(tasks, {"naive": naive, "replay": memory, "gdumb": memory}, tmp_path)
    holds = {claim.text.partition(": a tenth")[0]: claim.holds for claim in check_claims(runs)}
    assert holds["replay: RAA levels off"] is flat
    assert holds["replay: RAA rises from the first to the last task"]
    assert holds["naive: RAF rises"]
    assert holds["naive: AF is roughly flat: it changes by less than half of the rise of RAF"]
    text = "naive: RAA is nearly constant: highest minus lowest is below 0.05"
    assert holds[text]
    learner = stream_of(tasks, {"naive": memory, "replay": naive, "gdumb": naive}, tmp_path / "b")
    holds = {claim.text: bool(claim.holds) for claim in check_claims(learner)}
    assert not holds[text]


STRATEGIES = ("naive", "cumulative", "ewc", "lwf", "si")


def test_criteria_next_to_the_numbers_of_the_paper(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    costs = "task,flops_train,flops_one_pass,model_bytes,stored_bytes,data_bytes\n"
    costs += "t0,100,10,100,0,100\nt1,100,10,100,0,100\n"
    for number, name in enumerate(STRATEGIES):
        for seed in (0, 1):
            low = 0.5 + number / 20 + seed / 10
            points = of_matrix([[0.9, 0.5], [low, 0.8]])
            folder = finished(tmp_path / "store" / f"{name}-{seed}", points, costs=costs)
            said = {"setting": "task", "config": {"strategy": name, "deviations": []}}
            (folder / "run.json").write_text(json.dumps(said))
    path = run_script("criteria_cifar10/tables.py", tmp_path, tmp_path / "store")
    expected = [(0.9 + low + 0.8) / 3 for low in (0.5, 0.6)]
    assert json.loads(path.read_text())["naive"]["acc.lower"] == pytest.approx(expected)
    lines = capsys.readouterr().out.splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if "|" in line]
    naive = next(k for k, row in enumerate(rows) if row[0] == "naive")
    assert rows[naive][1:3] == ["0.750 ± 0.024", "0.650 ± 0.071"]  # A and REM
    assert rows[naive + 1][:3] == ["*paper*", "*0.383*", "*0.666*"]
    assert [row[5] for row in rows if row[:2] == ["si", "W2"]] == ["*0.995*"]
    claims = {row[1]: row[0] for row in rows if len(row) == 3}
    assert claims["naive has the lowest REM"] == "yes"
    assert claims["cumulative has the highest A"] == "**no**"  # SI has it in these runs


@pytest.mark.parametrize("low", [0.5, 0.85])
def test_a_gap_in_sequences(low: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    points = [
        (1, "a", "a", "probe", 0.9), (1, "a", "a", "full", 0.9), (2, "b", "a", "probe", low),
        (2, "b", "b", "probe", 0.5), (3, "b", "a", "probe", 0.88), (3, "b", "b", "probe", 0.9),
        (3, "b", "a", "full", 0.85), (3, "b", "b", "full", 0.9),
    ]  # fmt: skip
    finished(tmp_path / "store" / "run", points)
    path = run_script("stability_gap_sequences/claims.py", tmp_path, tmp_path / "store")
    assert json.loads(path.read_text())["gap depth"] == pytest.approx([100 * (0.9 - low)])
    out = capsys.readouterr().out
    deeper = "the dips are deeper than what is lost in the end"
    assert f"| {'yes' if low == 0.5 else '**no**'} | {deeper} |" in out


def test_made_up_words_are_the_same_every_time_and_can_be_told_apart(tmp_path: Path) -> None:
    for name in ("one.npz", "two.npz"):
        script = "stability_gap_sequences/make_words.py"
        run_script(script, tmp_path, tmp_path / name, "3")
    one, two = (np.load(tmp_path / name) for name in ("one.npz", "two.npz"))
    assert all((one[key] == two[key]).all() for key in one)
    assert one["x_train"].shape == (1200, 800)
    assert np.bincount(one["y_test"]).tolist() == [100] * 3
    means = np.stack([one["x_train"][one["y_train"] == word].mean(0) for word in range(3)])
    distances = ((one["x_test"][:, None] - means) ** 2).sum(2)
    assert 0.6 < (distances.argmin(1) == one["y_test"]).mean() <= 1


def test_a_part_of_a_published_result_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """--set replaces what the result says, in its variants too; the device is not tried."""
    command = "gpu.py runs delange-cifar10 --variants n-1000 n-100 --seeds 2 --set resample=false"
    monkeypatch.setattr(sys, "argv", command.split())
    monkeypatch.setattr("perdure.reproduction.find_missing_data", lambda _: {})
    script = runpy.run_path(str(STUDIES / "gpu.py"))
    arguments = script["parse_arguments"]()
    for only_selected, variants in ((True, ["n-1000", "n-100"]), (False, None)):
        study = script["build_study"](arguments, only_selected=only_selected)
        assert [cell.variant for cell in study.cells][:2] == (variants or ["n-1000", "n-all"])
        assert len(study.cells) == (2 if only_selected else 4)
        for cell in study.cells:
            configs = study.make_configs(cell, {})
            assert [config.seed for config in configs] == [0, 1]
            assert {(config.resample, config.device) for config in configs} == {(False, "cuda")}


def test_an_option_replaces_that_of_a_scenario_too(monkeypatch: pytest.MonkeyPatch) -> None:
    command = "gpu.py runs delange-finetuning --set lr=0.01"
    monkeypatch.setattr("perdure.reproduction.find_missing_data", lambda _: {})
    rates = []
    for argv in (command.split()[:3], command.split()):
        monkeypatch.setattr(sys, "argv", argv)
        script = runpy.run_path(str(STUDIES / "gpu.py"))
        study = script["build_study"](script["parse_arguments"](), only_selected=False)
        configs = [study.make_configs(cell, {})[0] for cell in study.cells]
        rates.append({config.scenario: config.optimizer_options["lr"] for config in configs})
    assert rates[0]["split-cifar10"] == 0.001
    assert set(rates[1].values()) == {0.01}
