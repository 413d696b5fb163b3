"""Training in a precision of one's choice: reproducible, recorded, and without traces elsewhere."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch

import perdure
from perdure.record import InputError
from perdure.training import make_config
from perdure.training.loop import TrainingPlan, train
from perdure.training.setup import build_evaluator, build_learner, load_scenario
from perdure.training.single_run import hash_weights, run
from perdure.training.step_graph import StepGraphs, compute_in

if TYPE_CHECKING:
    from pathlib import Path

PRECISIONS = ["default", "float32", "bfloat16"]  # that a CPU has
CPU = torch.device("cpu")


def config(**more: Any) -> Any:
    settings = {"filters": 2, "memory": 20}
    return make_config(
        "split-digits", "replay", model="resnet18-slim", settings=settings, iterations=3, batch=8,
        subset=20, every=2, **more,
    )  # fmt: skip


def weights(**more: Any) -> str:
    """Return the hash of the weights after training without an evaluator."""
    what = config(**more)
    scenario = load_scenario(what)
    strategy, plan = build_learner(what, scenario)
    for _ in train(scenario, strategy, plan):
        pass
    return hash_weights(strategy.model)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_evaluation_leaves_training_in_every_precision_alone(
    precision: str, tmp_path: Path
) -> None:
    strategy = run(config(precision=precision, channels_last=True), tmp_path)
    assert hash_weights(strategy.model) == weights(precision=precision, channels_last=True)
    recorded = json.loads((tmp_path / "run.json").read_text())["config"]
    assert (recorded["precision"], recorded["channels_last"]) == (precision, True)


def test_only_bfloat16_changes_what_a_cpu_computes() -> None:
    found = {precision: weights(precision=precision) for precision in PRECISIONS}
    assert found["default"] == found["float32"] != found["bfloat16"]


def test_weights_are_float32_and_channels_last_on_request() -> None:
    what = config(precision="bfloat16", channels_last=True)
    strategy, _ = build_learner(what, load_scenario(what))
    kernels = [weight for weight in strategy.model.parameters() if weight.dim() == 4]
    assert {weight.dtype for weight in kernels} == {torch.float32}
    assert all(weight.is_contiguous(memory_format=torch.channels_last) for weight in kernels)
    plain, _ = build_learner(config(), load_scenario(what))
    pairs = zip(strategy.model.parameters(), plain.model.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_evaluations_are_in_float32_whatever_training_is_in(tmp_path: Path) -> None:
    what = config(precision="bfloat16")
    scenario = load_scenario(what)
    strategy, plan = build_learner(what, scenario)
    evaluator = build_evaluator(what, scenario, tmp_path, strategy)
    types: dict[bool, set[torch.dtype]] = {True: set(), False: set()}  # by whether in training
    hook = strategy.model.head.register_forward_hook(
        lambda module, _, out: types[module.training].add(out.dtype)
    )
    with evaluator:
        for _ in train(scenario, strategy, plan, evaluator):
            pass
    hook.remove()
    assert types[False] == {torch.float32}
    assert torch.bfloat16 in types[True]


@pytest.mark.parametrize("precision", ["tf32", "float32", "bfloat16"])
def test_settings_are_restored_after_a_step_that_raises(
    precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    what = config()
    strategy, _ = build_learner(what, load_scenario(what))
    seen = []

    def settings() -> tuple[bool, bool, bool]:
        cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
        return cudnn.allow_tf32, matmul.allow_tf32, torch.is_autocast_enabled("cpu")

    def fail(*_: object, **__: object) -> None:
        seen.append(settings())
        raise KeyError

    monkeypatch.setattr(strategy, "step", fail)
    before = settings()
    graphs = StepGraphs(strategy, lambda: compute_in(precision, CPU), pool=None)
    rows = load_scenario(what).tasks[0].train[:4]
    with pytest.raises(KeyError):
        graphs.step([rows, rows], 0, None)
    assert settings() == before
    expected = {
        "tf32": (True, True, False), "float32": (False, False, False),
        "bfloat16": (*before[:2], True),
    }  # fmt: skip
    assert seen == [expected[precision]]


def test_precisions_that_a_device_lacks_or_nobody_has_are_refused() -> None:
    with pytest.raises(InputError, match="precision is 'tf32', which cpu does not have"):
        config(precision="tf32")
    with pytest.raises(InputError, match="precision is 'half', expected default or float32"):
        config(precision="half")
    assert TrainingPlan().precision == "default"


def test_runs_in_other_precisions_are_other_methods(tmp_path: Path) -> None:
    names = {config(precision=precision).folder for precision in PRECISIONS}
    assert len(names | {config(channels_last=True).folder}) == 4
    for precision in ("default", "bfloat16"):
        run(config(precision=precision), tmp_path / precision)
    assert len(perdure.score_groups(tmp_path).groups) == 2
