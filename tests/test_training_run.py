"""What a run leaves behind: streams, settings, costs and gradient norms in its record."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

import perdure
from perdure import Evaluator
from perdure.record import InputError
from perdure.scenarios import make_scenario
from perdure.strategies import find_strategy
from perdure.training import run, train

from .strategy_helpers import ALL, GUESSES, blobs, finish, held_for, made, short_config

if TYPE_CHECKING:
    from pathlib import Path


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", [n for n in ALL if n not in GUESSES])
def test_a_stream_without_boundaries_tests_all_tasks(name: str, tmp_path: Path) -> None:
    stream: dict[str, Any] = {
        "boundaries": "none",
        "blur": 0.2,
        "epochs": 1,
        "batch": 100,
        "every": 5,
    }
    if find_strategy(name).requires_boundaries:
        with pytest.raises(InputError, match=f"{name} requires task boundaries"):
            short_config(name, **stream)
        return
    if name == "replay":
        with pytest.raises(InputError, match=r"use `settings=\{'fill': 'reservoir'\}`"):
            short_config(name, **stream)
        stream["settings"] = {"fill": "reservoir"}
    what = short_config(name, **stream)
    learned = run(what, tmp_path / "run")
    points = table(tmp_path / "run" / "points.csv")
    assert {line["trained"] for line in points} == {""}
    steps = sorted({int(line["step"]) for line in points})
    assert steps == [5, 10, 15]
    for step in steps:
        tested = [line["tested"] for line in points if int(line["step"]) == step]
        assert sorted(tested) == ["0-1", "2-3", "4-5", "6-7", "8-9"]
    assert perdure.open_run(tmp_path / "run").finished
    assert learned is not None


def test_a_blurred_stream_keeps_its_tasks(tmp_path: Path) -> None:
    what = short_config("replay", boundaries="blurred", blur=0.5, epochs=1, batch=60, every=5)
    run(what, tmp_path / "run")
    points = table(tmp_path / "run" / "points.csv")
    entered = list(dict.fromkeys(line["trained"] for line in points))
    assert entered == ["0-1", "2-3", "4-5", "6-7", "8-9"]
    seen = {line["trained"]: line["tested"] for line in points if line["kind"] == "full"}
    assert set(seen) == set(entered)


@pytest.mark.parametrize("setting", ["class", "task", "domain"])
@pytest.mark.parametrize("name", ["naive", "replay"])
def test_every_setting_is_recorded(name: str, setting: Any, tmp_path: Path) -> None:
    """The last full scores are those of the weights, computed by hand."""
    what = short_config(name, setting=setting, epochs=2, batch=60, every=10, mask_unseen=True)
    learned = run(what, tmp_path / "run")
    scenario = make_scenario("split-digits", setting=setting)
    points = table(tmp_path / "run" / "points.csv")
    last = max(int(line["step"]) for line in points)
    full = {
        line["tested"]: float(line["score"])
        for line in points
        if line["kind"] == "full" and int(line["step"]) == last
    }
    assert len(full) == 5
    (mean,), (std,) = scenario.mean[0], scenario.std[0]
    for number, task in enumerate(scenario.tasks):
        x = (torch.tensor(scenario.test.x[task.test]).double() / 255 - mean) / std
        with torch.no_grad():
            scores = learned.model(x.float(), number)
        if setting == "task":
            assert set(scores.argmax(1).tolist()) <= set(task.classes)
        right = (scores.argmax(1).numpy() == scenario.test.y[task.test]).mean()
        assert full[task.name] == pytest.approx(right)


def test_memory_and_data_in_the_costs(tmp_path: Path) -> None:
    """Bytes of pixels and labels: what the task brings, and what is kept as it begins."""
    each = 8 * 8 + 8
    scenario = make_scenario("split-digits")
    sizes = [len(task.train) for task in scenario.tasks]
    kept = {
        "naive": [0, 0, 0, 0, 0],
        "single": [0, 0, 0, 0, 0],
        "replay": [0, 13, 13, 13, 13],
        "cumulative": np.cumsum([0, *sizes[:-1]]).tolist(),
        "joint": [sum(sizes)] * 5,
    }
    for name, rows in kept.items():
        run(short_config(name, epochs=1, batch=150, every=50), tmp_path / name)
        costs = table(tmp_path / name / "costs.csv")
        assert [float(line["data_bytes"]) for line in costs] == [each * n for n in sizes]
        assert [float(line["stored_bytes"]) for line in costs] == [each * n for n in rows]


def test_recorded_gradient_norms_are_those_of_the_unweighted_terms(tmp_path: Path) -> None:
    scenario = blobs()
    strategy, plan = made("replay", scenario, settings={"alpha": "0.2"})
    expected: list[tuple[float, float]] = []
    step = strategy.step

    def norm(batch: Any) -> float:
        loss = cross_entropy(strategy.model(batch.x), batch.y)
        found = torch.autograd.grad(loss, list(strategy.model.parameters()))
        return float(torch.cat([g.flatten() for g in found]).double().norm())

    def watched(*parts: Any, **more: Any) -> torch.Tensor:
        pull = norm(parts[0])
        expected.append((pull, norm(parts[1]) if len(parts) > 1 else 0.0))
        return step(*parts, **more)

    vars(strategy)["step"] = watched
    with Evaluator(held_for(scenario), every=10, record=tmp_path / "run") as evaluator:
        finish(train(scenario, strategy, plan, evaluator, gradients=3))
    found = table(tmp_path / "run" / "gradients.csv")
    assert [int(line["step"]) for line in found] == list(range(3, 31, 3))
    for line in found:
        plasticity, stability = expected[int(line["step"]) - 1]
        assert float(line["plasticity"]) == pytest.approx(plasticity, rel=1e-4)
        assert float(line["stability"]) == pytest.approx(stability, rel=1e-4, abs=1e-12)
        assert line["trained"] == scenario.tasks[(int(line["step"]) - 1) // 10].name


def test_progress_goes_from_nothing_to_all(tmp_path: Path) -> None:
    shares: list[float] = []
    what = short_config("replay", epochs=1, batch=100, every=10)
    run(what, tmp_path / "run", on_progress=lambda share, _: shares.append(share))
    assert shares == sorted(shares)
    assert 0 < shares[0] <= 0.1
    assert shares[-1] == 1
