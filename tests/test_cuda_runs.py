"""Whole runs on a GPU: the same examples in the same order as on the CPU, and steps that a graph
can capture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from perdure.scenarios import make_scenario
from perdure.strategies import STRATEGIES
from perdure.training import (
    build_learner,
    load_checkpoint,
    make_config,
    run,
    save_checkpoint,
    train,
)
from perdure.training.step_graph import CapturedStep

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from perdure.training import RunConfig

pytestmark = pytest.mark.cuda

SMALL = {"hidden": "32"}


def short(strategy: str, device: str) -> RunConfig:
    return make_config("split-digits", strategy, settings=SMALL, epochs=2, every=5, device=device)


@pytest.mark.parametrize("fill", ["end", "reservoir"])
def test_order_and_memory_are_those_of_the_cpu(fill: str) -> None:
    seen = {}
    for device in ("cpu", "cuda"):
        what = make_config(
            "split-digits", "replay", settings={**SMALL, "fill": fill}, epochs=2, device=device
        )
        scenario = make_scenario("split-digits")
        strategy, plan = build_learner(what, scenario)
        rows: list[list[int]] = []
        choose = strategy.select_rows

        def noted(
            new: np.ndarray,
            choose: object = choose,
            rows: list[list[int]] = rows,
        ) -> tuple[np.ndarray, ...]:
            chosen: tuple[np.ndarray, ...] = choose(new)  # type: ignore[operator]
            rows.append([int(row) for part in chosen for row in part])
            return chosen

        strategy.select_rows = noted  # type: ignore[method-assign]
        for _ in train(scenario, strategy, plan):
            pass
        seen[device] = rows, strategy.memory_rows().tolist()
    assert seen["cpu"] == seen["cuda"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_run_repeats_itself_and_nears_the_cpu(strategy: str, tmp_path: Path) -> None:
    found = {}
    for name, device in (("a", "cuda"), ("b", "cuda"), ("c", "cpu")):
        learned = run(short(strategy, device), tmp_path / name)
        found[name] = [value.cpu() for value in learned.model.state_dict().values()]
    assert all(torch.equal(x, y) for x, y in zip(found["a"], found["b"], strict=True))
    points = [(tmp_path / name / "points.csv").read_bytes() for name in "ab"]
    assert points[0] == points[1]
    for x, y in zip(found["a"], found["c"], strict=True):
        torch.testing.assert_close(x, y, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_checkpoint_goes_on_bit_for_bit(strategy: str, tmp_path: Path) -> None:
    scenario, what = make_scenario("split-digits"), short(strategy, "cuda")
    whole, plan = build_learner(what, scenario)
    saved = False
    for at in train(scenario, whole, plan):
        if at.step >= 30 and not saved:  # several steps may be taken at once
            save_checkpoint(tmp_path, whole, at)
            saved = True
    torch.manual_seed(99)
    other, _ = build_learner(what, scenario)
    place = load_checkpoint(tmp_path, other)
    for _ in train(scenario, other, plan, start=place):
        pass
    mine, theirs = whole.model.state_dict(), other.model.state_dict()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


# GEM solves its program on the CPU; GDumb and guessing have nothing to do in a step.
CAPTURED = [name for name in STRATEGIES if name not in ("gem", "gdumb", "random")]
SETTINGS: dict[str, dict[str, Any]] = {
    "class": {},
    "task": {"setting": "task"},
    "batch norm": {"model": "resnet18-slim", "settings": {"filters": "4", "lr": "0.01"}},
    "bfloat16": {
        "model": "resnet18-slim", "settings": {"filters": "4", "lr": "0.01"},
        "precision": "bfloat16", "channels_last": True,
    },
    "tf32": {"precision": "tf32"},
    "Adam": {"optimizer": "adam"},
}  # fmt: skip


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_captured_steps_train_as_eager_ones(
    strategy: str, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = setting == "task" and strategy == "agem"  # for the GPU, to learn about heads
    replays = captured_and_eager(strategy, SETTINGS[setting], monkeypatch)
    assert bool(replays) == (strategy in CAPTURED and setting != "Adam" and not waits)


@pytest.mark.parametrize("strategy", ["ewc", "si", "mas", "lwf"])
def test_captured_steps_of_avalanche_train_as_eager_ones(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"filters": "4", "lr": "0.01", "implementation": "avalanche-0.2.1"}
    options = {"model": "resnet18-slim", "settings": settings}
    assert captured_and_eager(strategy, options, monkeypatch) > 0


def captured_and_eager(
    strategy: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> int:
    """Return how many steps were replayed; raise unless they train as without graphs."""
    replays = []
    replay = CapturedStep.replay

    def count(captured: CapturedStep) -> None:
        replays.append(1)
        replay(captured)

    monkeypatch.setattr(CapturedStep, "replay", count)
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    scenario = make_scenario("split-digits", setting=options.get("setting"))
    weights = []
    for capture in (True, False):
        what = make_config("split-digits", strategy, epochs=3, device="cuda", **options)
        learned, plan = build_learner(what, scenario)
        for _ in train(scenario, learned, plan._replace(capture=capture)):
            pass
        weights.append(learned.model.state_dict())
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    return len(replays)
