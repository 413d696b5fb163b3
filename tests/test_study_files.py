"""Study files: every mistake is one line and code 2, and what a file means by a reference."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.record import InputError
from perdure.studies import Study, make_study, read_study

from .cli_helpers import refused, says, write

if TYPE_CHECKING:
    from pathlib import Path

TWO = 'scenarios = ["split-digits"]\nstrategies = ["naive", "ewc"]\n'
BARE: dict[str, Any] = {"scenarios": ["split-digits"], "strategies": ["naive", "ewc"]}

# What stands in a file after its first two lines, and words of the line that refuses it.
MISTAKES: dict[str, tuple[str, tuple[str, ...]]] = {
    "unknown key": ("strategys = 3", ("'strategys'", "did you mean strategy")),
    "name is no key": ('name = "x"', ("'name'", "expected some of scenarios")),
    "unknown key of select": ("[select]\nsed = 1", ("[select]", "'sed'", "did you mean seeds")),
    "unknown in run": ("[run]\nepoch = 3", ("[run]", "'epoch'", "did you mean epochs")),
    "unknown in grid": ("[grid]\nstrenght = [1]", ("'strenght'", "did you mean strength")),
    "unknown of a strategy": ("[strategy.ewc]\nstregth = 1", ("[strategy.ewc]", "mean strength")),
    "unknown in its grid": ("[strategy.ewc]\ngrid.stregth = [1]", ("[strategy.ewc]", "strength")),
    "unknown of a scenario": ("[scenario.split-digits]\nbach = 1", ("[scenario.", "mean batch")),
    "unknown of a setting": ("[setting.class]\nevry = 1", ("[setting.class]", "mean every")),
    "unknown of a model": ("[model.mlp]\nhiden = 1", ("[model.mlp]", "did you mean hidden")),
    "unknown of a variant": ("[variant.a]\nmomentun = 1", ("[variant.a]", "mean momentum")),
    "another strategy's": ("[strategy.naive]\nstrength = 1", ("[strategy.naive]", "'strength'")),
    "nobody's here": ("[run]\nmemory = 5", ("[run]", "'memory'", "no run here takes")),
    "seed is no option": ("[run]\nseed = 3", ("[run]", "'seed'")),
    "validation_split is no option": (
        "[run]\nvalidation_split = 0.1", ("[run]", "'validation_split'"),
    ),
    "another model's": (
        'models = ["mlp", "resnet18-slim"]\n[model.mlp]\nfilters = 3', ("[model.mlp]", "'filters'"),
    ),
    "unknown model": ('models = ["mpl"]', ("'mpl'", "did you mean mlp")),
    "unknown setting": ('settings = ["clas"]', ("'clas'", "did you mean class", "domain")),
    "override of nothing": ("[strategy.ewx]\nlr = 1", ("[strategy.ewx]", "did you mean ewc")),
    "override of no model": ("[model.mpl]\nlr = 1", ("[model.mpl]", "did you mean mlp")),
    "override of no setting": ("[setting.task]\nlr = 1", ("[setting.task]", "expected class")),
    "override of no scenario": ("[scenario.m2i]\nlr = 1", ("[scenario.m2i]", "split-digits")),
    "fixed and searched": ("[run]\nlr = 1\n[grid]\nlr = [1]", ("[run]", "fixes and searches lr")),
    "both for a strategy": (
        "[strategy.ewc]\nstrength = 1\ngrid.strength = [1]", ("[strategy.ewc]", "strength"),
    ),
    "two lengths": ("[run]\nepochs = 1\niterations = 2", ("[run]", "epochs", "iterations")),
    "two searched": ("[grid]\nepochs = [1]\niterations = [2]", ("epochs", "iterations")),
    "length both ways": ("[run]\nepochs = 1\n[grid]\niterations = [2]", ("[run]", "iterations")),
    "grid in run": ("[run]\ngrid.lr = [1, 2]", ("[run]", "[grid]")),
    "empty list": ("[grid]\nlr = []", ("grid", "list")),
    "empty list of a strategy": ("[strategy.ewc]\ngrid.lr = []", ("[strategy.ewc]", "list")),
    "no list": ("[grid]\nlr = 1", ("grid", "expected a list")),
    "no list of a strategy": ("[strategy.ewc]\ngrid.lr = 1", ("[strategy.ewc]", "list")),
    "grid is a number": ("[strategy.ewc]\ngrid = 5", ("[strategy.ewc]", "list")),
    "grid is a list": ("[variant.a]\ngrid = [5]", ("[variant.a]", "list")),
    "no seeds": ("seeds = 0", ("one seed",)),
    "fewer than none": ("seeds = -1", ("one seed",)),
    "empty seeds": ("seeds = []", ("one seed",)),
    "negative seed": ("seeds = [0, -1]", ("-1", "0 or more")),
    "seed twice": ("seeds = [3, 0, 3]", ("seed", "twice")),
    "large seed": ("seeds = [4294967296]", ("4294967296", "2**32")),
    "very many seeds": ("seeds = 100000000", ("100000000 seeds", "at most 100000 runs")),
    "text for seeds": ('seeds = "5"', ("seeds is '5'", "a number of seeds")),
    "a part of a seed": ("seeds = 2.5", ("seeds is 2.5", "a number of seeds")),
    "true seeds": ("seeds = true", ("seeds is True", "a number of seeds")),
    "model twice": ('models = ["mlp", "mlp"]', ("model", "twice")),
    "setting twice": ('settings = ["task", "task"]', ("setting", "twice")),
    "text for a list": ('models = "mlp"', ("models", "expected a list")),
    "number for a table": ("strategy = 3", ("strategy is 3", "table [strategy.NAME]")),
    "number for a layer": ("strategy.ewc = 3", ("ewc is 3", "table [strategy.NAME]")),
    "number for a variant": ("[variant]\nlr = 1", ("[variant] lr is 1", "a table")),
    "text for a number": ('[run]\nlr = "fast"', ("lr", "'fast'", "a number")),
    "number that is none": ("[run]\nlr = nan", ("lr", "nan")),
    "endless number": ("[grid]\nlr = [0.1, inf]", ("lr", "inf")),
    "list for a number": ("[grid]\nlr = [[0.1]]", ("lr", "[0.1]")),
    "date for a number": ("[run]\nepochs = 2020-01-01", ("epochs",)),
    "part of an epoch": ("[run]\nepochs = 1.5", ("epochs", "1.5")),
    "no epochs": ("[run]\nepochs = 0", ("epochs", "0", "at least 1")),
    "unknown optimizer": ('[run]\noptimizer = "sdg"', ("'sdg'", "sgd, adam or adamw")),
    "list of optimizers": ('[run]\noptimizer = ["sgd"]', ("optimizer", "sgd, adam or adamw")),
    "unknown order": ("[run]\norder = [1, 2]", ("order", "[1, 2]")),
    "unknown mode": ('[strategy.ewc]\nmode = "of"', ("mode", "'of'", "online")),
    "wrong in one point": ("[strategy.ewc]\ngrid.batch = [8, 0]", ("ewc", "batch", "0")),
    "select on": ('[select]\non = "tset"', ("[select]", "'tset'", "did you mean test")),
    "select on a number": ("[select]\non = 3", ("select.on",)),
    "select by": ('[select]\nmetric = "ac"', ("'ac'", "did you mean acc")),
    "select by costs": ('[select]\nmetric = "ms"', ("[select]", "'ms'", "metric of scores")),
    "select by many runs": ('[select]\nmetric = "clstability"', ("[select]", "metric of scores")),
    "select by no window": ('[select]\nmetric = "wf"', ("[select]", "'wf'", "wf10")),
    "select by no such window": ('[select]\nmetric = "wp7"', ("[select]", "'wp7'", "wp100")),
    "select by a number": ("[select]\nmetric = 3", ("select.metric",)),
    "no share": ("[select]\nvalidation_split = 0", ("[select]", "validation_split", "0")),
    "whole share": ("[select]\nvalidation_split = 1", ("[select]", "validation_split", "1")),
    "share that is none": ("[select]\nvalidation_split = nan", ("[select]", "nan")),
    "text for a share": ('[select]\nvalidation_split = "a"', ("select.validation_split",)),
    "no seeds to select by": ("[select]\nseeds = 0", ("[select]", "seeds", "0")),
    "word for seeds": ('[select]\nseeds = "al"', ("select.seeds", "'al'")),
    "select is no table": ("select = 3", ("select is 3", "a table [select]")),
}  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_line_and_nothing_is_written(case: str, tmp_path: Path) -> None:
    said, words = MISTAKES[case]
    file = write(tmp_path, "mine.toml", TWO + said + "\n")
    says(refused("study", "run", file, "--store", tmp_path / "store"), *words)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]


@pytest.mark.parametrize("command", [("status",), ("report",), ("run", "--dry-run")])
def test_every_command_refuses(command: tuple[str, ...], tmp_path: Path) -> None:
    file = write(tmp_path, "mine.toml", TWO + "[run]\nepoch = 3\n")
    says(refused("study", *command, file, "--store", tmp_path / "store"), "did you mean epochs")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]


WHOLE = {
    "text for a list": (
        b'scenarios = "split-digits"\nstrategies = ["naive"]',
        "scenarios is 'split-digits', expected",
    ),
    "a list for a table": (
        b'scenario = ["split-digits"]\nstrategies = ["naive"]',
        "did you mean scenarios?",
    ),
    "no strategies": (b'scenarios = ["split-digits"]', "strategies are missing"),
    "a table of one value": (
        b'run = 3\nscenarios = ["split-digits"]\nstrategies = ["naive"]',
        "expected a table [run]",
    ),
    "a fraction without its zero": (
        b'scenarios = ["split-digits"]\nstrategies = ["naive"]\n[grid]\nlr = [.1]',
        "0.1, not .1",
    ),
    "scenario": (b'scenarios = ["split-digit"]\nstrategies = ["naive"]', "did you mean split-digi"),
    "strategy": (b'scenarios = ["split-digits"]\nstrategies = ["naiv"]', "did you mean naive"),
    "no scenario": (b'scenarios = []\nstrategies = ["naive"]', "one scenario"),
    "twice": (b'scenarios = ["split-digits"]\nstrategies = ["ewc", "ewc"]', "twice"),
    "nothing": (b"", "scenarios"),
    "no TOML": (b"scenarios = [", "cannot be read as TOML"),
    "JSON": (b'{"scenarios": []}', "cannot be read as TOML"),
    "key twice": (b"seeds = 1\nseeds = 2", "cannot be read as TOML"),
    "no UTF-8": (b'about = "\xff"', "cannot be read as TOML"),
    "UTF-16": ("about = 1".encode("utf-16"), "cannot be read as TOML"),
    "nested without end": (b"a = " + b"[" * 100_000, "cannot be read as TOML"),
    "digits without end": (b"seeds = " + b"9" * 5000, "cannot be read as TOML"),
}


@pytest.mark.parametrize("case", WHOLE)
def test_a_file_that_is_no_study(case: str, tmp_path: Path) -> None:
    file = write(tmp_path, "mine.toml", WHOLE[case][0])
    says(refused("study", "run", file, "--store", tmp_path / "store"), WHOLE[case][1])
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]


def test_no_file_and_a_folder_for_one(tmp_path: Path) -> None:
    says(refused("study", "run", tmp_path / "none.toml"), "none.toml", "no such file")
    says(refused("study", "run", tmp_path), "a folder, expected a regular file")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--serial", "--jobs", "2"), ("--serial", "--jobs")),
        (("--jobs", "0"), ("--jobs", "0")),
        (("--jobs", "two"), ("--jobs", "two")),
        (("--ray", "auto", "--gpus-per-run", "0"), ("--gpus-per-run", "0")),
    ],
)
def test_wrong_ways_to_run(
    options: tuple[str, ...], words: tuple[str, ...], tmp_path: Path
) -> None:
    file = write(tmp_path, "mine.toml", TWO)
    says(refused("study", "run", file, "--store", tmp_path / "store", *options), *words)
    assert not (tmp_path / "store").exists()


def test_a_device_that_is_not_there_is_refused_before_anything_runs(tmp_path: Path) -> None:
    file = write(tmp_path, "mine.toml", TWO + '[run]\ndevice = "cuda:99"\n')
    says(refused("study", "run", file, "--store", tmp_path / "store"), "cuda:99", "CUDA devices")
    assert not (tmp_path / "store").exists()


def test_device_auto_is_described_as_the_one_it_means() -> None:
    study = make_study({**BARE, "run": {"device": "auto"}}, "mine")
    described = [study.make_configs(cell, {})[0].device for cell in study.cells]
    assert set(described) <= {"cpu", "cuda"}


def test_a_store_that_is_a_file(tmp_path: Path) -> None:
    file = write(tmp_path, "mine.toml", TWO + "seeds = 1\n[run]\nepochs = 1\n")
    store = write(tmp_path, "store", "mine")
    says(refused("study", "run", file, "--store", store, "--serial"), "store", "folder")
    assert store.read_text() == "mine"


# A reference for what a file means, written from docs/studies.md alone. Layers are given as
# {"fixed": …, "grid": …} in the order of precedence; names are those of the two strategies below.
KNOWN = {
    "naive": {"lr", "momentum", "weight_decay", "hidden"},
    "ewc": {"lr", "momentum", "weight_decay", "hidden", "strength", "mode", "decay", "labels"},
}
OPTION = {"epochs", "iterations", "batch", "every"}
LENGTHS = {"epochs": "iterations", "iterations": "epochs"}
VALUES: dict[str, list[Any]] = {
    "lr": [0.5, 0.25, 0.125], "momentum": [0.0, 0.5], "strength": [1.0, 2.0, 3.0],
    "epochs": [1, 2, 3], "iterations": [4, 5, 6], "batch": [7, 8], "every": [1, 2],
}  # fmt: skip
Layers = list[dict[str, dict[str, Any]]]


def meant(layers: Layers, strategy: str) -> list[dict[str, Any]]:
    """Return the points of a strategy: of each name the last layer that has it decides."""
    last: dict[str, tuple[int, list[Any]]] = {}
    for number, layer in enumerate(layers):
        for name, value in layer["fixed"].items():
            last[name] = (number, [value])
        for name, values in layer["grid"].items():
            last[name] = (number, list(values))
    for name, other in LENGTHS.items():
        if name in last and other in last and last[name][0] < last[other][0]:
            del last[name]
    names = [name for name in last if name in KNOWN[strategy] | OPTION]
    return [
        dict(zip(names, values, strict=True))
        for values in product(*(last[name][1] for name in names))
    ]


@st.composite
def any_layers(draw: st.DrawFn) -> Layers:
    """Six layers: each name fixed, searched or not there; one length at most; ewc's to ewc only."""
    layers = []
    for _ in range(6):
        layer: dict[str, dict[str, Any]] = {"fixed": {}, "grid": {}}
        length = draw(st.sampled_from(["epochs", "iterations", ""]))
        for name, values in VALUES.items():
            if name in LENGTHS and name != length:
                continue
            how = draw(st.sampled_from(["", "", "fixed", "grid"]))
            if how == "fixed":
                layer[how][name] = draw(st.sampled_from(values))
            elif how == "grid":
                size = draw(st.integers(1, 2))
                layer[how][name] = draw(
                    st.lists(st.sampled_from(values), min_size=size, max_size=size, unique=True)
                )
        layers.append(layer)
    return layers


def study_with(layers: Layers, strategy: str) -> Study:
    """Return a study of both strategies whose layers of one are these."""
    run, scenario, setting, model, own, variant = (
        {**layer["fixed"], "grid": layer["grid"]} for layer in layers
    )
    if strategy == "naive":  # its own layer may only have what it knows
        own.pop("strength", None)
        own["grid"] = {name: each for name, each in own["grid"].items() if name != "strength"}
    plain: dict[str, Any] = {
        **BARE, "run": {k: v for k, v in run.items() if k != "grid"}, "grid": run["grid"],
        "scenario": {"split-digits": scenario}, "setting": {"class": setting},
        "model": {"mlp": model}, "strategy": {strategy: own}, "variant": {"one": variant},
    }  # fmt: skip
    return make_study(plain, "mine")


def as_said(description: Any) -> dict[str, Any]:
    """Return what a description says under the names of a file."""
    said = {name: getattr(description, name) for name in OPTION}
    return {**said, **description.optimizer_options, **description.options}


@settings(max_examples=120)
@given(any_layers(), st.sampled_from(["naive", "ewc"]))
def test_the_last_layer_that_says_a_thing_decides(layers: Layers, strategy: str) -> None:
    study = study_with(layers, strategy)
    (cell,) = [cell for cell in study.cells if cell.strategy == strategy]
    expected = meant(layers, strategy)
    found = [study.make_configs(cell, point)[0] for point in study.grid_points(cell)]
    assert len(found) == len(expected)
    for wanted in expected:  # the order of a product's factors is nobody's business
        hits = [
            each for each in found
            if {name: value for name, value in as_said(each).items() if name in wanted} == wanted
        ]  # fmt: skip
        assert hits, wanted
        for each in hits:
            if "epochs" in wanted:
                assert each.iterations is None
            if not {"epochs", "iterations"} & set(wanted):
                assert (each.epochs, each.iterations) == (20, None)  # as published
    assert len({each.folder for each in found}) == len(found)


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from(["split-digits", "split-mnist", "m2i"]), min_size=1, unique=True),
    st.lists(st.sampled_from(["class", "task"]), unique=True),
    st.lists(st.sampled_from(["mlp", "resnet18-slim"]), unique=True),
    st.lists(st.sampled_from(["naive", "replay", "joint"]), min_size=1, unique=True),
    st.lists(st.sampled_from(["a", "b"]), unique=True),
    st.one_of(st.integers(1, 7), st.lists(st.integers(0, 9), min_size=1, unique=True)),
)
def test_cells_are_all_combinations_in_order(
    scenarios: list[str], given_: list[str], models: list[str], strategies: list[str],
    variants: list[str], seeds: int | list[int],
) -> None:  # fmt: skip
    published = {"split-digits": "mlp", "split-mnist": "mlp", "m2i": "wide-vgg9"}
    plain: dict[str, Any] = {
        "scenarios": scenarios, "settings": given_, "models": models, "strategies": strategies,
        "variant": {name: {} for name in variants}, "seeds": seeds,
    }  # fmt: skip
    study = make_study(plain, "mine")
    expected = [
        (scenario, setting, model, strategy, variant)
        for scenario in scenarios
        for setting in given_ or ["class"]
        for model in models or [published[scenario]]
        for strategy in strategies
        for variant in variants or [""]
    ]
    assert [tuple(cell) for cell in study.cells] == expected
    wanted = list(range(seeds)) if isinstance(seeds, int) else seeds
    for cell in study.cells:
        assert [each.seed for each in study.make_configs(cell, {})] == wanted


def test_a_searched_length_replaces_a_fixed_one_and_the_other_way_round() -> None:
    plain: dict[str, Any] = {
        **BARE, "run": {"iterations": 5}, "strategy": {"ewc": {"grid": {"epochs": [2, 3]}}},
        "variant": {"short": {}, "long": {"iterations": 50}},
    }  # fmt: skip
    study = make_study(plain, "mine")
    found = {
        (cell.strategy, cell.variant): [
            (each.epochs, each.iterations)
            for point in study.grid_points(cell)
            for each in study.make_configs(cell, point)[:1]
        ]
        for cell in study.cells
    }
    assert found == {
        ("naive", "short"): [(20, 5)], ("naive", "long"): [(20, 50)],
        ("ewc", "short"): [(2, None), (3, None)], ("ewc", "long"): [(20, 50)],
    }  # fmt: skip


def test_an_optimizer_may_be_searched() -> None:
    plain = {**BARE, "run": {"momentum": 0.5}, "grid": {"optimizer": ["sgd", "adam"]}}
    study = make_study(plain, "mine")
    cell = study.cells[0]
    said = [study.make_configs(cell, point)[0] for point in study.grid_points(cell)]
    assert [each.optimizer for each in said] == ["sgd", "adam"]
    assert said[0].optimizer_options == {"lr": 0.02, "momentum": 0.5, "weight_decay": 0.0}
    assert said[1].optimizer_options == {"lr": 0.001, "weight_decay": 0.0}


def test_the_file_of_the_documentation_means_what_it_says(tmp_path: Path) -> None:
    text = """
        scenarios = ["split-mnist"]
        settings = ["class", "task"]
        strategies = ["naive", "joint", "replay", "ewc"]
        [run]
        epochs = 2
        subset = "all"
        [grid]
        lr = [0.1, 0.01]
        [strategy.ewc]
        mode = "online"
        grid.strength = [100, 1000]
        [setting.task]
        batch = 128
        [variant.small]
        memory = 200
        [variant.large]
        memory = 2000
        """
    study = read_study(write(tmp_path, "docs.toml", text))
    assert study.name == "docs"
    assert (study.seed_list, study.search_seeds) == ([0, 1, 2, 3, 4], [0])
    assert len(study.cells) == 2 * 4 * 2
    for cell in study.cells:
        assert len(study.grid_points(cell)) == (4 if cell.strategy == "ewc" else 2)
        for point in study.grid_points(cell):
            run = study.make_configs(cell, point)[0]
            assert (run.epochs, run.iterations, run.subset) == (2, None, None)
            assert run.batch == (128 if cell.setting == "task" else 256)
            assert run.optimizer_options["lr"] == point["lr"]
            if cell.strategy == "replay":
                assert run.options["memory"] == {"small": 200, "large": 2000}[cell.variant]
            if cell.strategy == "ewc":
                assert run.options["mode"] == "online"
                assert run.options["strength"] == point["strength"]
            search = study.make_configs(cell, point, search=True)
            assert [(each.seed, each.validation_split) for each in search] == [(0, 0.1)]
            assert run.validation_split == 0


def test_plain_data_is_judged_like_a_file() -> None:
    with pytest.raises(InputError, match="did you mean epochs"):
        make_study({**BARE, "run": {"epoch": 2}}, "mine")
