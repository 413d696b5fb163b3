"""Optimizers and learning-rate schedules: as PyTorch's own, per task, and resumed bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch.optim.lr_scheduler import (
    ConstantLR,
    CosineAnnealingLR,
    LinearLR,
    LRScheduler,
    SequentialLR,
    StepLR,
)

from perdure.record import InputError
from perdure.training import (
    RunConfig,
    build_learner,
    load_checkpoint,
    load_scenario,
    make_config,
    save_checkpoint,
    train,
)
from perdure.training.loop import iterate_batches
from perdure.training.single_run import hash_weights

if TYPE_CHECKING:
    from pathlib import Path

    from perdure.strategies import Strategy

STEPS = 12  # per task
CASES: dict[str, dict[str, Any]] = {
    "cosine": {"schedule": "cosine"},
    "cosine-warmup": {"schedule": "cosine", "settings": {"warmup": "4"}},
    "step": {"schedule": "step", "settings": {"decay_every": 5, "gamma": 0.3}},
    "warmup": {"settings": {"warmup": 6}},
    "adamw": {"optimizer": "adamw", "settings": {"weight_decay": "0.1"}},
    "adamw-step": {"optimizer": "adamw", "schedule": "step",
                   "settings": {"decay_every": 3, "warmup": 2}},
}  # fmt: skip


def config_of(case: str) -> RunConfig:
    return make_config("split-digits", "naive", iterations=STEPS, batch=16, **CASES[case])


def reference_scheduler(config: RunConfig, optimizer: torch.optim.Optimizer) -> LRScheduler:
    """Return PyTorch's own scheduler of a task."""
    options = config.schedule_options
    warmup = int(options["warmup"])
    main: LRScheduler = ConstantLR(optimizer, factor=1.0)
    if config.schedule == "cosine":
        main = CosineAnnealingLR(optimizer, T_max=STEPS - warmup)
    if config.schedule == "step":
        main = StepLR(optimizer, step_size=int(options["decay_every"]), gamma=options["gamma"])
    if not warmup:
        return main
    rising = LinearLR(optimizer, start_factor=1 / warmup, total_iters=warmup - 1)
    return SequentialLR(optimizer, [rising, main], milestones=[warmup])


def train_by_hand(config: RunConfig) -> tuple[list[float], Strategy]:
    """Return the learning rates and the learner of a plain loop with PyTorch's scheduler."""
    scenario = load_scenario(config)
    strategy, plan = build_learner(config, scenario)
    kind = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[config.optimizer]
    optimizer: Any = kind(strategy.model.parameters(), **config.optimizer_options)
    rates = []
    for index, task in enumerate(scenario.tasks):
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"] = config.optimizer_options["lr"]
        scheduler = reference_scheduler(config, optimizer)
        for rows in iterate_batches(task.train, plan, index):
            batch = strategy.examples.take(rows)
            loss = torch.nn.functional.cross_entropy(strategy.model(batch.x), batch.y)
            optimizer.zero_grad()
            loss.backward()
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
    return rates, strategy


@pytest.mark.filterwarnings("ignore:The epoch parameter:UserWarning")  # PyTorch's SequentialLR
@pytest.mark.parametrize("case", CASES)
def test_a_run_equals_a_loop_with_pytorchs_scheduler(case: str) -> None:
    config = config_of(case)
    expected, by_hand = train_by_hand(config)
    scenario = load_scenario(config)
    strategy, plan = build_learner(config, scenario)
    rates = [strategy.optimizer.param_groups[0]["lr"] for _ in train(scenario, strategy, plan)]
    np.testing.assert_allclose(rates, expected, rtol=1e-9, atol=1e-15)
    if case != "adamw":
        assert len(set(rates)) > 1
    for weight, other in zip(strategy.model.parameters(), by_hand.model.parameters(), strict=True):
        torch.testing.assert_close(weight, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", ["cosine-warmup", "adamw-step"])
def test_a_schedule_resumes_bit_for_bit_within_a_task(case: str, tmp_path: Path) -> None:
    config = config_of(case)
    scenario = load_scenario(config)
    whole, plan = build_learner(config, scenario)
    for _ in train(scenario, whole, plan):
        pass
    stopped, _ = build_learner(config, scenario)
    for position in train(scenario, stopped, plan):
        if position.step == STEPS + 3:
            save_checkpoint(tmp_path, stopped, position)
            break
    resumed, _ = build_learner(config, scenario)
    start = load_checkpoint(tmp_path, resumed)
    for _ in train(scenario, resumed, plan, start=start):
        pass
    assert hash_weights(resumed.model) == hash_weights(whole.model)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"schedule": "linear"}, ["schedule", "'linear'", "cosine"]),
        ({"schedule": "step"}, ["decay_every", "no default"]),
        ({"schedule": "step", "settings": {"decay_every": 0}}, ["decay_every is 0", "at least 1"]),
        ({"settings": {"warmup": -1}}, ["warmup is -1"]),
        ({"settings": {"decay_every": 3}}, ["decay_every", "schedule constant has warmup"]),
        ({"schedule": "step", "settings": {"decay_every": 3, "gamma": 2}}, ["gamma is 2"]),
        ({"optimizer": "lion"}, ["'lion'", "adamw"]),
    ],
)
def test_a_wrong_schedule_is_one_line(options: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InputError) as error:
        make_config("split-digits", "naive", **options)
    assert all(word in str(error.value) for word in words)
    with pytest.raises(InputError, match="gdumb trains only at the end"):
        make_config("split-digits", "gdumb", schedule="cosine")
