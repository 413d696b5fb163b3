"""Mini-DomainNet, spoken words and the small M2I: datasets that few have, made up here."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np
import pytest

from perdure.record import InputError
from perdure.scenarios import SCENARIOS, make_scenario
from perdure.training import make_config

from .data_helpers import grey, picture, write_parquet
from .run_helpers import made_up, named

if TYPE_CHECKING:
    from pathlib import Path

    from perdure.data import Dataset


def domain(name: str, **_: object) -> Dataset:
    """Return four classes in colour; the others of a domain are its own images."""
    made = made_up(4, 40, (3, 96, 96), name)
    seed = sum(map(ord, name))
    x = np.random.default_rng(seed).integers(0, 256, made.train.x.shape, dtype=np.uint8)
    return replace(made, train=made.train._replace(x=x))


def test_the_domains_share_their_classes_and_come_in_the_papers_order() -> None:
    with patch("perdure.scenarios.make.load", domain):
        scenario = make_scenario("mini-domainnet")
    assert [task.name for task in scenario.tasks] == [
        f"mini-domainnet-{each}" for each in ("clipart", "painting", "real", "sketch")
    ]
    assert scenario.setting == "domain"
    assert scenario.outputs == 4
    assert {task.classes for task in scenario.tasks} == {(0, 1, 2, 3)}
    assert scenario.shape == (3, 96, 96)
    assert len(scenario.train.x) == 4 * 40  # all of them, where M2I takes 500 a class
    assert set(scenario.mean) == {(0.4914, 0.4822, 0.4465)}  # CIFAR-10's, as in the paper's code
    assert set(scenario.std) == {(0.2023, 0.1994, 0.2010)}
    first = domain("mini-domainnet-clipart").train
    assert (scenario.train.x[:40] == first.x).all()  # in the order of the dataset


def test_domains_with_other_classes_are_refused() -> None:
    def other(name: str) -> Dataset:
        made = domain(name)
        return replace(made, classes=("z", *made.classes[1:])) if "real" in name else made

    with (
        patch("perdure.scenarios.make.load", other),
        pytest.raises(InputError, match="mini-domainnet: the datasets have different classes"),
    ):
        make_scenario("mini-domainnet")


def test_the_set_ups_are_the_papers() -> None:
    domains, speech = SCENARIOS["mini-domainnet"], SCENARIOS["split-speech-commands"]
    assert (domains.defaults.iterations, domains.defaults.batch, domains.defaults.lr) == (
        300,
        128,
        0.1,
    )
    assert domains.defaults.strategies["replay"] == {"alpha": 0.3, "memory": 1000}
    assert domains.defaults.strategies["lwf"] == {"alpha": 1.0, "temperature": 2.0}
    assert (speech.tasks, speech.defaults.model) == (10, "speech-mlp")
    assert (speech.defaults.iterations, speech.defaults.batch) == (200, 256)
    assert (speech.defaults.optimizer, speech.defaults.lr) == ("adam", 0.0001)


@pytest.mark.parametrize(
    ("name", "shape"), [("split-cifar10", (3, 32, 32)), ("split-mini-imagenet", (3, 84, 84))]
)
def test_colour_images_are_normalized_as_in_the_papers_code(
    name: str, shape: tuple[int, int, int]
) -> None:
    data = made_up(2 * SCENARIOS[name].tasks, 80, shape)
    with patch("perdure.scenarios.one_dataset.load", lambda _: data):
        scenario = make_scenario(name)
    assert scenario.mean == ((0.4914, 0.4822, 0.4465),)
    assert scenario.std == ((0.2023, 0.1994, 0.2010),)


def test_words_are_learned_two_at_a_time_in_the_order_of_cossu_et_al(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["bed", "bird", "cat", "dog", "down", "eight", "five", "four", "go", "happy", "house",
             "left", "marvel", "nine", "no", "off", "on", "one", "right", "seven", "sheila", "six",
             "stop", "three", "tree", "two", "up", "wow", "yes", "zero"]  # fmt: skip
    clips = [picture(clip) for clip in grey(60, size=(40, 101))]
    for part in ("train", "test"):
        path = tmp_path / "synthetic-speech-commands" / f"{part}.parquet"
        write_parquet(path, clips, [k % 30 for k in range(60)], names=words)
    monkeypatch.setenv("PERDURE_DATA", str(tmp_path))
    scenario = make_scenario("split-speech-commands")
    assert [task.name for task in scenario.tasks][:3] == ["house, left", "marvel, nine", "no, off"]
    assert len(scenario.tasks) == 10
    assert [len(task.train) for task in scenario.tasks] == [4] * 10
    assert scenario.shape == (1, 40, 101)


def several(name: str) -> Dataset:
    """Return made-up datasets of 10 or 20 classes; two of them share their class names."""
    made = made_up(20 if "omniglot" in name else 10, 40, (1, 6, 6), name)
    if name in ("mnist", "svhn"):
        return made
    return replace(made, classes=tuple(f"{name} {label}" for label in made.classes))


def test_the_long_stream_has_every_class_of_six_datasets_once() -> None:
    with patch("perdure.scenarios.make.load", several):
        scenario = make_scenario("split-m2i", order=0, size=4)
        packs = [several(name) for name in SCENARIOS["m2i"].data]
    assert len(scenario.tasks) == 35
    assert scenario.outputs == len(set(scenario.class_names)) == 70
    assert {"mnist c3", "svhn c3", "cifar10 c3"} <= set(scenario.class_names)
    assert list(scenario.data) == [data.name for data in packs]
    assert scenario.deviations[0] == "images of 4x4, where the benchmark has 32x32"
    assert "mnist: made up" in scenario.deviations
    assert {len(task.train) for task in scenario.tasks} <= {4, 6, 8}  # 4 of 10, 2 of 20 classes
    svhn = packs[3]
    output = scenario.class_names.index("svhn c3")
    rows = np.flatnonzero(scenario.train.y == output)
    darkness = [float(x.mean()) for x in svhn.train.x[svhn.train.y == 3]]
    assert np.allclose([x.mean() for x in scenario.train.x[rows]], darkness, atol=12)


def test_the_long_stream_can_be_divided_otherwise() -> None:
    with patch("perdure.scenarios.make.load", several):
        scenario = make_scenario("split-m2i", tasks=7, size=4)
    assert [len(task.classes) for task in scenario.tasks] == [10] * 7
    assert make_config("split-m2i", "replay", num_tasks=70, image_size=16).num_tasks == 70
    with pytest.raises(InputError, match="70 classes"):
        make_config("split-m2i", "replay", num_tasks=71)


def test_the_small_m2i_has_ten_images_a_class() -> None:
    small, back = named("m2i-small"), named("i2m-small")
    assert [task.name for task in small.tasks] == [task.name for task in back.tasks][::-1]
    assert small.shape == (3, 32, 32)
    assert [len(task.train) for task in small.tasks] == [100] * 6
    assert [len(task.test) for task in small.tasks] == [100, 40, 100, 100, 100, 100]
    assert not any("32x32" in said for said in small.deviations)
