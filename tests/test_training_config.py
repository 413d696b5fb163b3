"""Descriptions: everything written down, everything judged, one name for one description."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import NoneType
from typing import Any, Literal, Optional, get_args, get_type_hints

import msgspec
import pytest

import perdure.strategies
from perdure.models import MODELS, find_factory
from perdure.record import InputError
from perdure.scenarios import SCENARIOS, make_scenario
from perdure.strategies import STRATEGIES, find_strategy
from perdure.training import RunConfig, build_learner, make_config, run
from perdure.training.config import OPTIMIZERS
from perdure.training.hyperparameters import list_hyperparameters

from .strategy_helpers import ALL, NORMED, blobs

FIELDS = RunConfig.__struct_fields__


def refused(*arguments: Any, **more: Any) -> str:
    """Return the one line that says why a description is refused."""
    with pytest.raises(InputError) as caught:
        make_config(*arguments, **more)
    said = str(caught.value)
    assert "\n" not in said
    return said


# Defaults.


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("scenario", ["split-digits", "split-mnist", "m2i", "split-cifar100"])
def test_every_default_is_written_down(scenario: str, name: str) -> None:
    found = make_config(scenario, name)
    told = msgspec.to_builtins(found)
    assert set(told) == set(FIELDS)
    signature = inspect.signature(find_strategy(name)).parameters
    own = {k: p.default for k, p in signature.items() if p.kind is p.KEYWORD_ONLY and k != "seed"}
    paper = dict(SCENARIOS[scenario].defaults.strategies.get(name, {}))
    assert found.options == own | paper
    assert set(paper) <= set(own)  # no paper's set-up names what the strategy has not
    assert set(found.optimizer_options) == set(OPTIMIZERS[found.optimizer])
    assert found.optimizer_options["lr"] == SCENARIOS[scenario].defaults.lr


@pytest.mark.parametrize("model", MODELS)
def test_every_option_of_a_network_is_written_down(model: str) -> None:
    settings = {"vocabulary": 9} if model == "embedding-bag" else {}  # it has no default
    found = make_config("split-mnist", "naive", model=model, settings=settings)
    signature = inspect.signature(find_factory(model)).parameters
    own = {k for k, p in signature.items() if p.kind is p.KEYWORD_ONLY}
    assert set(found.model_options) == own
    assert json.loads(msgspec.json.encode(found.model_options)) == found.model_options


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_each_scenario_has_a_description_as_its_paper_has_it(scenario: str) -> None:
    set_up = SCENARIOS[scenario].defaults
    found = make_config(scenario, "replay")
    assert (found.model, found.epochs, found.batch) == (set_up.model, set_up.epochs, set_up.batch)
    assert found.setting == SCENARIOS[scenario].setting


def test_de_langes_and_m2is_hyperparameters() -> None:
    """De Lange et al. 2023, appendix C, and Faber et al. 2023: learning rate, alpha, memory."""
    tables = {
        "split-mnist": (0.01, 0.3, 2000),
        "split-cifar10": (0.1, 0.7, 1000),
        "split-mini-imagenet": (0.1, 0.5, 10_000),
        "m2i": (0.001, None, 200),
        "i2m": (0.001, None, 200),
    }
    for scenario, (lr, alpha, memory) in tables.items():
        found = make_config(scenario, "replay")
        assert found.optimizer_options["lr"] == lr
        assert (found.options["alpha"], found.options["memory"]) == (alpha, memory)
        assert found.optimizer == "sgd"
        assert found.optimizer_options["momentum"] == 0.9


def test_a_papers_learning_rate_is_that_of_its_optimizer() -> None:
    assert make_config("split-cifar10", "naive").optimizer_options["lr"] == 0.1
    adam = make_config("split-cifar10", "naive", optimizer="adam").optimizer_options
    assert adam == {"lr": 0.001, "weight_decay": 0.0}


def test_the_run_writes_all_of_it(tmp_path: Path) -> None:
    what = make_config("split-digits", "replay", epochs=1, batch=200, every=50, seed=3)
    run(what, tmp_path / "run")
    said = json.loads((tmp_path / "run" / "run.json").read_text())["config"]
    told = msgspec.to_builtins(what)
    assert {k: said[k] for k in told} == told
    assert said["tasks"] == ["0-1", "2-3", "4-5", "6-7", "8-9"]
    assert said["data"]["digits"]["sha256"]


def test_options_reach_what_they_are_for() -> None:
    scenario = blobs()
    settings = {"lr": "0.125", "momentum": "0.5", "weight_decay": "0.25", "hidden": "7,5"}
    settings |= {"memory": "3", "alpha": "none", "fill": "reservoir", "replacement": "true"}
    strategy, plan = build_learner(make_config(settings=settings, iterations=4, seed=6), scenario)
    (group,) = strategy.optimizer.param_groups
    assert (group["lr"], group["momentum"], group["weight_decay"]) == (0.125, 0.5, 0.25)
    shapes = [tuple(p.shape) for p in strategy.model.parameters()]
    assert shapes[::2] == [(7, 16), (5, 7), (6, 5)]
    kept = vars(strategy)
    assert (kept["capacity"], kept["alpha"], kept["fill"]) == (3, None, "reservoir")
    assert kept["replacement"] is True
    assert (plan.iterations, plan.seed, strategy.seed) == (4, 6, 6)


# Text to values.


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("memory", "200", 200),
        ("alpha", "0.25", 0.25),
        ("alpha", "1", 1.0),
        ("alpha", "none", None),
        ("alpha", "None", None),
        ("alpha", "null", None),
        ("alpha", "1e-3", 0.001),
        ("replay_batch", "none", None),
        ("replay_batch", "12", 12),
        ("replacement", "true", True),
        ("replacement", "False", False),
        ("replacement", "1", True),
        ("fill", "reservoir", "reservoir"),
        ("balance", "task", "task"),
        ("balance", "none", "none"),  # a word here, not None
    ],
)
def test_values_have_the_type_of_their_parameter(name: str, text: str, value: Any) -> None:
    found = make_config("split-digits", "replay", settings={name: text}).options[name]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("memory", "many", "a whole number"),
        ("memory", "1.5", "a whole number"),
        ("memory", "none", "a whole number"),
        ("memory", "", "a whole number"),
        ("alpha", "half", "a number or none"),
        ("alpha", "nan", "a number or none"),
        ("alpha", "inf", "a number or none"),
        ("replacement", "perhaps", "true or false"),
        ("fill", "always", "end or reservoir"),
        ("balance", "classes", "class or task or none"),
        ("lr", "fast", "a number"),
        ("lr", "-1", "0 or more"),
        ("lr", "nan", "a number"),
    ],
)
def test_values_that_are_refused(name: str, text: str, expected: str) -> None:
    said = refused("split-digits", "replay", settings={name: text})
    assert said.startswith(f"{name} is ")
    assert expected in said


# Names.


@pytest.mark.parametrize(
    ("name", "near"), [("memroy", "memory"), ("alhpa", "alpha"), ("hiden", "hidden")]
)
def test_hyperparameters_nobody_has(name: str, near: str) -> None:
    said = refused("split-digits", "replay", settings={name: "1"})
    assert f"hyperparameter {name!r} is not known" in said
    assert f"did you mean {near}" in said
    for known in ("memory", "alpha", "lr", "momentum", "hidden"):
        assert known in said


def test_hyperparameters_of_another_strategy_are_refused() -> None:
    said = refused("split-digits", "naive", settings={"memory": "10"})
    assert "naive has none" in said
    refused("split-digits", "replay", settings={"restart": "true"})
    refused("split-digits", "replay", optimizer="adam", settings={"momentum": "0.5"})
    refused("split-digits", "replay", settings={"seed": "3"})


@pytest.mark.parametrize(
    ("arguments", "more", "expected"),
    [
        (("split-digit", "naive"), {}, "did you mean split-digits"),
        (("nothing-like-it", "naive"), {}, "perdure list scenarios"),
        (("split-digits", "cumulativ"), {}, "did you mean cumulative"),
        (("split-digits", "naive"), {"optimizer": "rmsprop"}, "expected sgd, adam or adamw"),
        (("split-digits", "naive"), {"model": "mpl"}, "expected mlp"),
    ],
)
def test_names_that_are_not_known(arguments: Any, more: Any, expected: str) -> None:
    assert expected in refused(*arguments, **more)


# Numbers and words that make no sense.


@pytest.mark.parametrize(
    "more",
    [
        {"epochs": 0}, {"epochs": -1}, {"iterations": 0}, {"batch": 0}, {"batch": -3},
        {"every": 0}, {"subset": 0}, {"gradients": 0}, {"threads": 0}, {"seed": -1},
        {"patience": 0}, {"early_stopping_split": 0.0}, {"early_stopping_split": 1.0},
        {"early_stopping_split": float("nan")},
        {"blur": -0.1}, {"blur": 1.1}, {"blur": float("nan")},
        {"boundaries": "none", "mask_unseen": True}, {"boundaries": "none", "iterations": 5},
        {"boundaries": "none", "patience": 2},
        {"boundaries": "sharpish"}, {"setting": "classes"}, {"epochs": 2.5}, {"seed": "3"},
        {"mask_unseen": "no"}, {"device": 3}, {"nobody_has_this": 1},
        {"order": "random"}, {"every": 1.5},
    ],
)  # fmt: skip
def test_fields_that_make_no_sense_are_refused(more: dict[str, Any]) -> None:
    said = refused("split-digits", "naive", **more)
    assert next(iter(more)) in said or "boundaries" in said


def test_words_that_are_not_known_say_which_are() -> None:
    said = refused("split-digits", "naive", boundaries="sharpish")
    assert said == "boundaries is 'sharpish', expected sharp or blurred or none"


# The folder.


def other_value(field: str, now: Any) -> Any:
    """Return another value that a field may have."""
    kind = get_type_hints(RunConfig)[field]
    words = [word for word in get_args(kind) if isinstance(word, str) and word != now]
    if words:
        return words[0]
    if isinstance(now, bool):
        return not now
    if isinstance(now, int | float):
        return now * 2 + 1
    if isinstance(now, str):
        return now + "x"
    if isinstance(now, dict):
        return {**now, "another": 1.0}
    assert now is None
    return 3


@pytest.mark.parametrize("field", [name for name in FIELDS if name != "data_path"])
def test_each_field_changes_the_folder(field: str) -> None:
    base = make_config("split-digits", "replay")
    other = msgspec.structs.replace(base, **{field: other_value(field, getattr(base, field))})
    assert other.folder != base.folder
    assert other.folder.rsplit("-", 1)[1] != base.folder.rsplit("-", 1)[1]


@pytest.mark.parametrize("field", ["options", "optimizer_options", "model_options"])
def test_each_hyperparameter_changes_the_folder(field: str) -> None:
    base = make_config("split-digits", "replay")
    for name, now in getattr(base, field).items():
        changed = {**getattr(base, field), name: "another" if now is None else None}
        assert msgspec.structs.replace(base, **{field: changed}).folder != base.folder


@pytest.mark.parametrize(
    ("strategy", "model", "field", "name", "other"),
    [
        *((s, "mlp", "options", "implementation", "avalanche-0.2.1") for s in ("ewc", "gem")),
        ("naive", "efficientnet-b1", "model_options", "padding", "same"),
        ("naive", "efficientnet-b1", "model_options", "initialization", "pytorch"),
        ("naive", "wide-vgg9", "model_options", "initialization", "torchvision"),
        ("naive", "efficientnet-b1", "model_options", "batch_norm_momentum", 0.01),
    ],
)
def test_an_option_added_later_changes_the_folder_only_if_it_is_used(
    strategy: str, model: str, field: str, name: str, other: object
) -> None:
    """Runs of before are found again."""
    base = make_config("split-digits", strategy, model=model)
    options = getattr(base, field)
    before = {key: value for key, value in options.items() if key != name}
    assert before.keys() != options.keys()
    assert msgspec.structs.replace(base, **{field: before}).folder == base.folder
    changed = make_config("split-digits", strategy, model=model, settings={name: other})
    assert changed.folder != base.folder


def test_the_folder_says_what_ran() -> None:
    base = make_config("split-digits", "replay", seed=7)
    assert re.fullmatch(r"split-digits-replay-s7-[0-9a-f]{8}", base.folder)
    mine = make_config("split-digits", "perdure.strategies.baselines:Naive", model=NORMED)
    assert re.fullmatch(r"[\w.-]+", mine.folder)


def test_order_of_settings_and_ways_to_say_them_make_no_difference() -> None:
    one = make_config(settings={"alpha": "0.5", "memory": "7", "lr": "0.1"})
    other = make_config(settings={"lr": "1e-1", "memory": "7", "alpha": "0.50"})
    default = make_config("split-digits", "replay", settings={"memory": "100"})
    assert one.folder == other.folder
    assert default.folder == make_config().folder
    assert make_config(blur=0).folder == make_config(blur=0.0).folder
    options = dict(reversed(list(one.options.items())))
    assert msgspec.structs.replace(one, options=options).folder == one.folder


def test_the_folder_is_the_same_in_every_process() -> None:
    program = (
        "from perdure.training import make_config\n"
        "print(make_config('split-digits', 'replay', settings={'alpha': '0.1'}, seed=2).folder)\n"
        "print(make_config('m2i', 'cumulative', order=None, device='cuda:1').folder)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONHASHSEED": "12345"}, cwd=Path(__file__).parent,
    ).stdout.split()  # fmt: skip
    assert found == [
        make_config("split-digits", "replay", settings={"alpha": "0.1"}, seed=2).folder,
        make_config("m2i", "cumulative", order=None, device="cuda:1").folder,
    ]


def test_a_description_survives_json() -> None:
    for name in STRATEGIES:
        what = make_config("split-digits", name, order=[9, 8, 7, 6, 5, 4, 3, 2, 1, 0])
        again = msgspec.json.decode(msgspec.json.encode(what), type=RunConfig)
        assert again == what
        assert again.folder == what.folder
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.json.decode(msgspec.json.encode({**told(what), "more": 1}), type=RunConfig)


def told(what: RunConfig) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(what)
    return found


def test_equal_descriptions_begin_with_equal_weights() -> None:
    import torch

    scenario = make_scenario("split-digits")
    states = []
    for _ in range(2):
        torch.rand(5)  # whatever was drawn before
        states.append(build_learner(make_config(seed=4), scenario)[0].model.state_dict())
    assert all(torch.equal(states[0][k], states[1][k]) for k in states[0])


class Halved(find_strategy("ewc")):  # type: ignore[misc]
    """Hands on what it does not know, as examples/own_strategy.py does."""

    def __init__(self, *learner: Any, half: float = 0.5, **options: Any) -> None:
        super().__init__(*learner, **options)
        self.half = half


def test_a_class_that_builds_on_another_has_its_hyperparameters_too() -> None:
    name = "tests.test_training_config:Halved"
    what = make_config("split-digits", name, settings={"half": "0.25", "mode": "online"})
    assert what.options == {
        "half": 0.25, "strength": 1000.0, "mode": "online", "decay": 1.0, "labels": "sampled",
        "implementation": "perdure",
    }  # fmt: skip
    assert perdure.strategies.EWC is find_strategy("ewc")


def annotated(
    *,
    literal: Literal["a", "b"] = "a",
    optional: Optional[int] = None,  # noqa: UP045
    alias: Alias = 1,
    qualified: inspect.Parameter | None = None,
    several: list[int] | str = "1,2",
    unknown: Nowhere = "",  # type: ignore[name-defined]  # noqa: F821
    executed: sys.exit(3) = 0.5,  # type: ignore[valid-type]
) -> None: ...


Alias = int | float


def test_annotations_are_looked_up_and_never_executed() -> None:
    found = {name: kind.types for name, kind in list_hyperparameters(annotated).items()}
    assert found == {
        "literal": (Literal["a", "b"],),
        "optional": (int, NoneType),
        "alias": (int, float),
        "qualified": (inspect.Parameter, NoneType),
        "several": (list, str),
        "unknown": (str,),
        "executed": (str,),
    }


def test_the_setting_has_a_set_up_of_its_own() -> None:
    """Task-incremental Split-MNIST: Adam, batches of 128, 200 iterations (De Lange et al.)."""
    what = make_config("split-mnist", "ewc", setting="task")
    assert (what.optimizer, what.optimizer_options["lr"]) == ("adam", 0.001)
    assert (what.batch, what.iterations, what.options["strength"]) == (128, 200, 1e5)
    assert make_config("split-mnist", "ewc", setting="task", epochs=2).iterations is None
    assert make_config("split-mnist", "ewc", setting="task", patience=2).iterations is None
    plain = make_config("split-mnist", "gem")
    assert (plain.optimizer, plain.epochs, plain.iterations) == ("sgd", 10, None)


@pytest.mark.parametrize(
    ("strategy", "more", "says"),
    [
        ("gdumb", {"patience": 2}, "trains only at the end of a task; leave patience out"),
        ("lwf", {"boundaries": "none"}, "lwf requires task boundaries"),
        ("gem", {"boundaries": "none"}, "choose boundaries=blurred, or naive, or replay with fill"),
    ],
)
def test_what_a_strategy_cannot_do(strategy: str, more: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=re.escape(says)):
        make_config("split-digits", strategy, **more)


def test_settings_of_m2i_are_facts() -> None:
    wanted: dict[str, dict[str, Any]] = {
        "gdumb": {"memory": 200},
        "gem": {"memory": 256, "strength": 0.5},
        "agem": {"memory": 256, "sample": 64},
        "ewc": {"strength": 1.0, "mode": "separate"},
        "si": {"strength": 1.0, "eps": 0.001},
        "mas": {"strength": 1.0, "alpha": 0.5},
        "lwf": {"alpha": 2.0, "temperature": 1.0},
    }
    for scenario in ("m2i", "i2m"):
        for strategy, options in wanted.items():
            what = make_config(scenario, strategy)
            assert options.items() <= what.options.items()
            assert (what.epochs, what.batch, what.optimizer_options["lr"]) == (50, 128, 0.001)
