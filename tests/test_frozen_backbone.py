"""A pretrained network with frozen parts: no strategy changes them, and they are saved once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from perdure.record import InputError
from perdure.strategies import STRATEGIES
from perdure.training import (
    build_learner,
    load_checkpoint,
    load_scenario,
    make_config,
    save_checkpoint,
    train,
)
from perdure.training.single_run import hash_weights

if TYPE_CHECKING:
    from pathlib import Path

    from perdure.training import RunConfig

MODULE = """
from pathlib import Path
from safetensors.torch import load_file
from torch import nn

def backbone():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())

def pretrained(shape, outputs, *, frozen: bool = True):
    body = backbone()
    body.load_state_dict(load_file(Path(__file__).with_name("backbone.safetensors")))
    if frozen:
        body.requires_grad_(False)
        body.eval()  # BatchNorm keeps its statistics
    return nn.Sequential(body, nn.Linear(144, 16), nn.ReLU(), nn.Linear(16, outputs))

def all_frozen(shape, outputs):
    return pretrained(shape, outputs).requires_grad_(False)
"""
TRAINED = sorted(set(STRATEGIES) - {"random"})


@pytest.fixture(scope="module", autouse=True)
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("pretrained")
    (folder / "frozen_backbone_module.py").write_text(MODULE)
    torch.manual_seed(3)
    body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
    body(torch.randn(50, 1, 8, 8))  # statistics other than those of a new layer
    save_file(body.state_dict(), folder / "backbone.safetensors")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield body.state_dict()


def config_of(strategy: str, **options: Any) -> RunConfig:
    settings = {"passes": 2} if strategy == "gdumb" else {}
    chosen = {"iterations": 3, "batch": 16, "settings": settings, **options}
    return make_config(
        "split-digits", strategy, model="frozen_backbone_module:pretrained", **chosen
    )


@pytest.mark.parametrize("setting", ["class", "task"])
@pytest.mark.parametrize("strategy", TRAINED)
def test_no_strategy_changes_frozen_parts(strategy: str, setting: str, pretrained: Any) -> None:
    config = config_of(strategy, setting=setting, optimizer="adamw" if setting == "task" else "sgd")
    scenario = load_scenario(config)
    learner, plan = build_learner(config, scenario)
    before = {name: value.clone() for name, value in learner.model.state_dict().items()}
    modes = [module.training for module in learner.model.modules()]
    for _ in train(scenario, learner, plan):
        pass
    after = learner.model.state_dict()
    frozen = {name for name in after if name.startswith("body.0.")}
    assert len(frozen) == len(pretrained) == 7
    for name in frozen:
        assert torch.equal(after[name], before[name]), name
        assert torch.equal(after[name], pretrained[name.removeprefix("body.0.")]), name
    assert not torch.equal(after["body.1.weight"], before["body.1.weight"])
    assert [module.training for module in learner.model.modules()] == modes
    assert False in modes
    own = [value for name, value in vars(learner).items() if name not in ("initial", "teacher")]
    sizes = {weight.shape for weight in learner.model.body.get_submodule("0").parameters()}
    kept = [
        t.shape
        for value in own
        if isinstance(value, list)
        for t in value
        if isinstance(t, torch.Tensor)
    ]
    assert not sizes.intersection(kept)  # no importance of what cannot change


@pytest.mark.parametrize("strategy", ["lwf", "gdumb", "cumulative", "ewc", "gem"])
def test_frozen_parts_are_saved_once_and_runs_resume(
    strategy: str, tmp_path: Path, pretrained: Any
) -> None:
    config = config_of(strategy)
    scenario = load_scenario(config)
    whole, plan = build_learner(config, scenario)
    for _ in train(scenario, whole, plan):
        pass
    stopped, _ = build_learner(config, scenario)
    for position in train(scenario, stopped, plan):
        if position.step == 8:
            save_checkpoint(tmp_path, stopped, position)
            break
    with safe_open(tmp_path / "state.safetensors", framework="pt") as file:
        saved = [file.get_tensor(name) for name in file.keys()]  # noqa: SIM118
    weight = pretrained["0.weight"]
    assert sum(t.shape == weight.shape and torch.equal(t, weight) for t in saved) == 1
    resumed, _ = build_learner(config, scenario)
    start = load_checkpoint(tmp_path, resumed)
    for _ in train(scenario, resumed, plan, start=start):
        pass
    assert hash_weights(resumed.model) == hash_weights(whole.model)


def test_without_freezing_the_backbone_is_trained(pretrained: Any) -> None:
    config = config_of("naive", settings={"frozen": False})
    scenario = load_scenario(config)
    learner, plan = build_learner(config, scenario)
    for _ in train(scenario, learner, plan):
        pass
    assert not torch.equal(learner.model.state_dict()["body.0.0.weight"], pretrained["0.weight"])


def test_a_model_that_is_frozen_throughout_is_one_line() -> None:
    config = make_config("split-digits", "naive", model="frozen_backbone_module:all_frozen")
    with pytest.raises(InputError, match="all parameters are frozen"):
        build_learner(config, load_scenario(config))
