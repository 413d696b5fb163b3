"""The published scenarios, made of the real packs, against their papers and against Pillow."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from PIL import Image

from perdure.data import load
from perdure.record import InputError
from perdure.scenarios import SCENARIOS, SETTINGS, chain_datasets, find_scenario, make_scenario

from .cli_helpers import environment, run
from .run_helpers import named, real_data
from .test_scenarios import judged

M2I = ("mnist", "omniglot-magi", "fashion-mnist", "svhn", "cifar10", "tiny-imagenet-10")
TASKS = {
    "split-digits": 5, "split-mnist": 5, "split-fashion-mnist": 5, "split-cifar10": 5,
    "split-cifar100": 10, "split-mini-imagenet": 20, "split-tiny-imagenet": 100,
    "rotated-mnist-10": 3, "rotated-mnist-30": 3, "rotated-mnist-60": 3, "rotated-mnist-80": 3,
    "m2i": 6, "i2m": 6, "split-m2i": 35,
}  # fmt: skip


def test_every_promised_name_is_there() -> None:
    assert {name: SCENARIOS[name].tasks for name in TASKS} == TASKS
    assert "permuted-mnist" in SCENARIOS


@pytest.mark.parametrize("name", ["m2i", "i2m"])
def test_the_set_up_of_m2i(name: str) -> None:
    set_up = SCENARIOS[name].defaults
    assert (set_up.batch, set_up.optimizer, set_up.lr, set_up.epochs) == (128, "sgd", 0.001, 50)
    answer = run("run", name, "--device", "nowhere")  # described without being run
    assert answer.code == 2
    from perdure.training import make_config

    assert make_config(name, "replay").optimizer_options["momentum"] == 0.9


@pytest.mark.parametrize("what", ["scenarios", "strategies", "models"])
def test_lists_name_everything_and_load_no_torch(what: str) -> None:
    from perdure.models import MODELS
    from perdure.strategies import STRATEGIES

    names = {"scenarios": [*SCENARIOS], "strategies": [*STRATEGIES], "models": [*MODELS]}[what]
    answer = run("list", what)
    assert answer.code == 0
    assert answer.err == ""
    table = answer.out.partition("\n\n")[0]
    assert [line.split()[0] for line in table.splitlines()[1:]] == names


def test_listing_needs_no_torch() -> None:
    code = """
import sys
from perdure.cli import app
for what in ("scenarios", "strategies", "models"):
    app(["list", what], result_action="return_value")
print("torch" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True
    )
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", ["split-digits", "split-cifar10", "split-fashion-mnist"])
def test_split_in_all_settings(name: str, setting: Any) -> None:
    with real_data():
        scenario = make_scenario(name, setting=setting)
        data = load(SCENARIOS[name].data[0])
    judged(scenario)
    for number, task in enumerate(scenario.tasks):
        first = 0 if setting == "domain" else 2 * number
        for part, rows, y in (
            (data.train, task.train, scenario.train.y),
            (data.test, task.test, scenario.test.y),
        ):
            assert np.array_equal(np.flatnonzero(part.y // 2 == number), np.sort(rows))
            assert np.array_equal(y[rows], part.y[rows] % 2 + first)
    incomplete = name != "split-digits" and len(data.train.x) < 50_000
    assert bool(scenario.deviations) == incomplete


@pytest.mark.parametrize("phi", [10, 30, 60, 80])
def test_rotated_mnist_is_pillows_rotation(phi: int) -> None:
    with real_data():
        scenario = make_scenario(f"rotated-mnist-{phi}")
        mnist = load("mnist")
    assert scenario.setting == "domain"
    assert scenario.outputs == 10
    rng = np.random.default_rng(phi)
    for k, task in enumerate(scenario.tasks):
        assert len(task.train) == 60_000
        assert len(task.test) == 10_000
        assert np.array_equal(scenario.train.y[task.train], mnist.train.y)
        for part, rows, images in (
            (mnist.train, task.train, scenario.train), (mnist.test, task.test, scenario.test),
        ):  # fmt: skip
            for at in rng.choice(len(part.x), 40, replace=False):
                expected = Image.fromarray(part.x[at, 0]).rotate(-90 + k * phi)
                assert np.array_equal(images.x[rows[at], 0], np.asarray(expected))


def test_permuted_mnist() -> None:
    with real_data():
        mnist = load("mnist")
    small = mnist.test.x[:200]
    from perdure.scenarios import make_permutations
    from perdure.scenarios.one_dataset import apply_pixel_map

    for pixels in make_permutations((28, 28), SCENARIOS["permuted-mnist"].tasks).values():
        moved = apply_pixel_map(small, pixels)
        assert np.array_equal(np.sort(moved.reshape(200, -1)), np.sort(small.reshape(200, -1)))


@pytest.mark.parametrize("name", ["m2i", "i2m"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_m2i_in_all_settings(name: str, setting: Any) -> None:
    scenario = named(name, setting, 16)
    judged(scenario)
    order = M2I if name == "m2i" else M2I[::-1]
    assert tuple(task.name for task in scenario.tasks) == order
    assert scenario.outputs == (10 if setting == "domain" else 60)
    assert scenario.heads == ([10] * 6 if setting == "task" else None)
    assert scenario.shape == (3, 16, 16)
    normal = {
        "mnist": (0.1307, 0.3081), "fashion-mnist": (0.1307, 0.3081),
        "cifar10": (0.9221, 0.2681), "omniglot-magi": (0.9221, 0.2681),
        "svhn": (0.0, 1.0), "tiny-imagenet-10": (0.0, 1.0),
    }  # fmt: skip
    assert scenario.mean == tuple((normal[each][0],) * 3 for each in order)
    assert scenario.std == tuple((normal[each][1],) * 3 for each in order)
    for k, task in enumerate(scenario.tasks):
        first = 0 if setting == "domain" else 10 * k
        with real_data():
            data = load(order[k])
        for part, rows, y, which in (
            (data.train, task.train, scenario.train.y, "training"),
            (data.test, task.test, scenario.test.y, "test"),
        ):
            expected = [min(500, int((part.y == c).sum())) for c in range(10)]
            found = [int((y[rows] == first + c).sum()) for c in range(10)]
            assert found == expected
            short = any(each < 500 for each in expected)
            said = [
                s for s in scenario.deviations if s.startswith(f"{order[k]}: ") and "per class" in s
            ]
            assert any(which in s for s in said) == short
        if order[k] == "omniglot-magi":
            assert (len(task.train), len(task.test)) == (160, 40)
            assert len(data.classes) == 20
        else:
            assert len(task.train) == 5000


def test_m2i_images_are_64_by_64_and_the_first_of_each_class() -> None:
    with real_data():
        scenario = chain_datasets([*M2I], max_per_class=3)
        packs = [load(name) for name in M2I]
    assert scenario.shape == (3, 64, 64)
    for task, data in zip(scenario.tasks, packs, strict=True):
        labels = scenario.train.y[task.train] - task.classes[0]
        of_class = [np.flatnonzero(data.train.y == c)[:3] for c in range(len(data.classes))]
        in_order = data.train.y[np.sort(np.concatenate(of_class))]
        assert labels.tolist() == in_order.tolist()
        for c in range(10):
            rows = task.train[labels == c]
            for row, at in zip(rows, np.flatnonzero(data.train.y == c), strict=False):
                image = data.train.x[at]
                for channel in range(3):
                    plane = Image.fromarray(image[channel % len(image)])
                    expected = plane.resize((64, 64), Image.Resampling.BILINEAR)
                    off = scenario.train.x[row, channel].astype(int) - np.asarray(expected)
                    assert abs(off).max() <= 1


@pytest.mark.slow
def test_m2i_as_it_is_published() -> None:
    scenario = named("m2i")
    judged(scenario)
    assert scenario.shape == (3, 64, 64)
    assert scenario.setting == "class"


def test_unknown_scenarios_name_the_near_ones() -> None:
    with pytest.raises(InputError, match=r"split-mnits.*split-mnist"):
        find_scenario("split-mnits")
    with pytest.raises(InputError, match=r"rotated-mnist-20.*rotated-mnist-"):
        find_scenario("rotated-mnist-20")


def test_options_of_other_scenarios_are_refused() -> None:
    with real_data():
        for name in ("permuted-mnist", "rotated-mnist-30", "m2i"):
            with pytest.raises(InputError, match="order"):
                make_scenario(name, order=3)
        with pytest.raises(InputError, match="size"):
            make_scenario("split-mnist", size=16)
