"""Whole runs on a GPU: the same examples in the same order as on the CPU, and steps that a graph
can capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
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

if TYPE_CHECKING:
    from pathlib import Path

    from perdure.training import RunConfig

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")

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
    for at in train(scenario, whole, plan):
        if at.step == 30:
            save_checkpoint(tmp_path, whole, at)
    torch.manual_seed(99)
    other, _ = build_learner(what, scenario)
    place = load_checkpoint(tmp_path, other)
    for _ in train(scenario, other, plan, start=place):
        pass
    mine, theirs = whole.model.state_dict(), other.model.state_dict()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


# GEM solves its program on the CPU; GDumb and guessing have nothing to do in a step.
CAPTURED = [name for name in STRATEGIES if name not in ("gem", "gdumb", "random")]


@pytest.mark.parametrize("strategy", CAPTURED)
def test_a_step_can_be_captured(strategy: str) -> None:
    """A step captured in the second task, replayed on the loop's batches, ends where it does."""
    scenario = make_scenario("split-digits")
    what = make_config("split-digits", strategy, settings={**SMALL, "momentum": "0"}, device="cuda")
    pair = []
    for _ in range(2):
        learned, plan = build_learner(what, scenario)
        for at in train(scenario, learned, plan):
            if at.phase == 1 and at.done == 3:
                break
        pair.append(learned)
    plain, caught = pair
    rng = np.random.default_rng(0)
    pieces = [rng.permutation(scenario.tasks[1].train)[:32] for _ in range(8)]

    held = [caught.examples.take(rows) for rows in caught.select_rows(pieces[0])]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # captured, not run
        caught.step(*held)
    begun = [value.clone() for value in plain.model.parameters()]
    for number, piece in enumerate(pieces):
        plain.step(*(plain.examples.take(rows) for rows in plain.select_rows(piece)))
        for place, rows in zip(held, caught.select_rows(piece) if number else (), strict=False):
            fresh = caught.examples.take(rows)
            place.x.copy_(fresh.x)
            place.y.copy_(fresh.y)
        graph.replay()
    torch.cuda.synchronize()
    pairs = zip(begun, plain.model.parameters(), strict=True)
    assert any(not torch.equal(before, after) for before, after in pairs)
    for mine, theirs in zip(plain.model.parameters(), caught.model.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
