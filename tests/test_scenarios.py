"""Scenarios against brute force over labels and pixels, on data made up here."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from PIL import Image

from perdure.data.examples import Examples
from perdure.record import InputError
from perdure.scenarios import (
    SETTINGS,
    DatasetTask,
    Scenario,
    blur_boundaries,
    chain_datasets,
    make_permutations,
    make_rotations,
    map_domains,
    order_drifting_stream,
    split,
)

from .run_helpers import made_up

if TYPE_CHECKING:
    from perdure.data import Dataset, Split


def judged(scenario: Scenario) -> None:
    """Fail unless every image belongs to exactly one task, and all numbers fit each other."""
    for images, part in ((scenario.train, "train"), (scenario.test, "test")):
        rows = [getattr(task, part) for task in scenario.tasks]
        assert sorted(np.concatenate(rows)) == list(range(len(images.x)))
        assert len(images.x) == len(images.y) == len(images.task)
        for number, (mine, task) in enumerate(zip(rows, scenario.tasks, strict=True)):
            assert (images.task[mine] == number).all()
            assert set(images.y[mine]) == set(task.classes)
    everything = [c for task in scenario.tasks for c in task.classes]
    assert sorted(set(everything)) == list(range(scenario.outputs))
    if scenario.setting != "domain":
        assert everything == list(range(scenario.outputs))
    own = [len(task.classes) for task in scenario.tasks]
    assert scenario.heads == (own if scenario.setting == "task" else None)
    assert len({task.name for task in scenario.tasks}) == len(scenario.tasks)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("order", [None, [5, 3, 1, 0, 2, 4], 7])
@pytest.mark.parametrize("tasks", [1, 2, 3, 6])
def test_split_by_class(setting: Any, order: Any, tasks: int) -> None:
    data = made_up()
    scenario = split(data, tasks, order=order, setting=setting)
    judged(scenario)
    again = split(data, tasks, order=order, setting=setting)
    listed = order if isinstance(order, list) else list(range(6)) if order is None else None
    each = 6 // tasks
    assert scenario.outputs == (each if setting == "domain" else 6)
    seen: list[int] = []
    for number, task in enumerate(scenario.tasks):
        assert np.array_equal(task.train, again.tasks[number].train)
        for part, rows, y in (
            (data.train, task.train, scenario.train.y),
            (data.test, task.test, scenario.test.y),
        ):
            mine = sorted({int(part.y[row]) for row in rows})
            assert len(mine) == each
            # one label here for one class there, and all rows of that class are in this task
            pairs = {(int(part.y[row]), int(y[row])) for row in rows}
            assert len(pairs) == each
            assert sum(int((part.y == k).sum()) for k in mine) == len(rows)
            if listed is not None:
                first = 0 if setting == "domain" else number * each
                group = listed[number * each : (number + 1) * each]
                assert pairs == {(k, first + place) for place, k in enumerate(group)}
        seen += sorted({int(data.train.y[row]) for row in task.train})
    assert sorted(seen) == list(range(6))
    assert np.array_equal(scenario.train.x, data.train.x)
    assert scenario.deviations == data.notes
    assert scenario.data["made-up"]["sha256"] == data.sha256


def test_an_order_by_seed_shuffles() -> None:
    names = {tuple(task.name for task in split(made_up(), 3, order=k).tasks) for k in range(8)}
    assert len(names) > 4


@pytest.mark.parametrize("setting", SETTINGS)
def test_domains_pixel_by_pixel(setting: Any) -> None:
    data = made_up(shape=(3, 4, 5))
    rng = np.random.default_rng(0)
    maps = {f"d{k}": rng.integers(-1, 20, (4, 5)) for k in range(3)}
    scenario = map_domains(data, maps, setting=setting)
    judged(scenario)
    assert scenario.outputs == (6 if setting == "domain" else 18)
    for number, (task, pixels) in enumerate(zip(scenario.tasks, maps.values(), strict=True)):
        first = 0 if setting == "domain" else 6 * number
        for part, rows, images in (
            (data.train, task.train, scenario.train),
            (data.test, task.test, scenario.test),
        ):
            assert (images.y[rows] == part.y + first).all()
            for k, row in enumerate(rows):
                for h, w in np.ndindex(4, 5):
                    at = int(pixels[h, w])
                    expected = part.x[k, :, at // 5, at % 5] if at >= 0 else 0
                    assert (images.x[row, :, h, w] == expected).all()


def test_permutations_are_permutations_and_the_same_every_time() -> None:
    maps = make_permutations((28, 28), 10)
    flat = [tuple(each.ravel().tolist()) for each in maps.values()]
    assert all(sorted(each) == list(range(784)) for each in flat)
    assert len(set(flat)) == 10
    assert flat[0] == tuple(range(784))
    again = make_permutations((28, 28), 10)
    assert all(np.array_equal(maps[name], again[name]) for name in maps)
    fewer = make_permutations((28, 28), 3)
    assert all(np.array_equal(maps[name], fewer[name]) for name in fewer)
    other = make_permutations((28, 28), 10, seed=1)
    assert not np.array_equal(maps["permutation 1"], other["permutation 1"])


@pytest.mark.parametrize("angle", [-90, -80, -37.5, 0, 10, 45, 90, 180, 270, 359])
@pytest.mark.parametrize("size", [(28, 28), (7, 7), (5, 9)])
def test_rotations_are_pillows(angle: float, size: tuple[int, int]) -> None:
    (pixels,) = make_rotations(size, [angle]).values()
    image = np.random.default_rng(3).integers(1, 256, size, dtype=np.uint8)
    expected = np.asarray(Image.fromarray(image).rotate(angle))
    found = np.where(pixels < 0, 0, image.ravel()[pixels])
    assert np.array_equal(found, expected)


def _first(part: Split, classes: int, most: int | None) -> list[int]:
    """Return the rows that are meant: of each class the first ones, in the order of the dataset."""
    rows: list[int] = []
    for label in range(classes):
        mine = [row for row, y in enumerate(part.y) if y == label]
        rows += mine[:most]
    return sorted(rows)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("most", [None, 4])
def test_sequence_of_datasets(setting: Any, most: int | None) -> None:
    grey, colour = made_up(6, 60, (1, 5, 7)), made_up(4, 40, (3, 9, 6), name="other")
    members: list[Dataset | DatasetTask] = [DatasetTask(grey, 3, 0.25, 0.5), colour, grey]
    scenario = chain_datasets(members, size=(8, 8), max_per_class=most, setting=setting)
    judged(scenario)
    sizes = [3, 4, 6]
    assert scenario.outputs == (6 if setting == "domain" else 13)
    assert scenario.shape == (3, 8, 8)
    sources: list[Dataset] = [grey, colour, grey]
    for k, (task, data) in enumerate(zip(scenario.tasks, sources, strict=True)):
        first = 0 if setting == "domain" else sum(sizes[:k])
        for part, rows, images in (
            (data.train, task.train, scenario.train),
            (data.test, task.test, scenario.test),
        ):
            expected = _first(part, sizes[k], most)
            assert (images.y[rows] == part.y[expected] + first).all()
            for row, source in zip(rows, expected, strict=True):
                for channel in range(3):
                    image = part.x[source, channel % part.x.shape[1]]
                    near = _pillow(image, (8, 8))
                    assert abs(images.x[row, channel].astype(int) - near).max() <= 1
    assert scenario.mean == ((0.25,) * 3, (0.0,) * 3, (0.0,) * 3)
    assert scenario.std == ((0.5,) * 3, (1.0,) * 3, (1.0,) * 3)


def _pillow(image: np.ndarray[Any, Any], size: tuple[int, int]) -> np.ndarray[Any, Any]:
    resized = Image.fromarray(image).resize((size[1], size[0]), Image.Resampling.BILINEAR)
    return np.asarray(resized).astype(int)


def test_a_sequence_says_what_there_is_less_of() -> None:
    data = made_up(6, 60)
    scenario = chain_datasets([data], size=(4, 4), max_per_class=8)
    assert "made-up: made up" in scenario.deviations  # what the data itself says
    said = " ".join(scenario.deviations)
    assert "only 5 test images per class" in said
    assert "8" in said
    assert "training" not in said  # there are ten


@pytest.mark.parametrize("per_task", [False, True])
def test_images_are_normalised_as_the_scenario_says(per_task: bool) -> None:
    members = [DatasetTask(made_up(), None, 0.2, 0.5), DatasetTask(made_up(4, 40), None, 0.9, 0.3)]
    scenario = chain_datasets(members if per_task else members[:1], size=(4, 4), channels=1)
    examples = Examples(*scenario.train, mean=scenario.mean, std=scenario.std)
    rows = np.random.default_rng(0).permutation(len(scenario.train.x))[:20]
    batch = examples.take(rows)
    for k, row in enumerate(rows):
        mean, std = ((0.2, 0.5), (0.9, 0.3))[scenario.train.task[row]]
        expected = (scenario.train.x[row].astype(np.float64) / 255 - mean) / std
        torch.testing.assert_close(
            batch.x[k].double(), torch.from_numpy(expected), atol=1e-5, rtol=0
        )


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_blurred_tasks_share_examples(share: float) -> None:
    sharp = split(made_up(6, 600), 3)
    soft = blur_boundaries(sharp, share, seed=3)
    assert sorted(np.concatenate([task.train for task in soft.tasks])) == list(range(600))
    for before, after in zip(sharp.tasks, soft.tasks, strict=True):
        assert len(after.train) == len(before.train)
        assert np.array_equal(after.test, before.test)
        moved = np.isin(after.train, before.train, invert=True).mean()
        # of the share that is dealt out, two thirds go to another task
        assert abs(moved - share * 2 / 3) < 0.12
    assert np.array_equal(soft.train.y, sharp.train.y)
    same, other = blur_boundaries(sharp, share, seed=3), blur_boundaries(sharp, share, seed=4)
    assert all(
        np.array_equal(a.train, b.train) for a, b in zip(soft.tasks, same.tasks, strict=True)
    )
    if share:
        assert not np.array_equal(soft.tasks[0].train, other.tasks[0].train)
    else:
        assert all(
            np.array_equal(a.train, b.train) for a, b in zip(soft.tasks, sharp.tasks, strict=True)
        )


def test_a_stream_drifts_from_task_to_task() -> None:
    scenario = split(made_up(6, 600), 3)
    sharp = order_drifting_stream(scenario, 0, passes=2)
    assert np.array_equal(np.bincount(sharp), np.full(600, 2))
    assert (np.diff(scenario.train.task[sharp]) >= 0).all()
    soft = scenario.train.task[order_drifting_stream(scenario, 0.3, passes=1)]
    assert (np.diff(soft) < 0).any()
    means = [part.mean() for part in np.array_split(soft, 3)]
    assert means == sorted(means)
    assert np.array_equal(
        order_drifting_stream(scenario, 0.3, passes=1),
        order_drifting_stream(scenario, 0.3, passes=1),
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: split(made_up(), 4), ["6 classes", "tasks is 4", "[1, 2, 3, 6]"]),
        (lambda: split(made_up(), 0), ["tasks is 0"]),
        (lambda: split(made_up(), 12), ["tasks is 12"]),
        (lambda: split(made_up(), 3, order=[0, 1, 2]), ["order is [0, 1, 2]", "0 to 5"]),
        (lambda: split(made_up(), 3, order=[0, 1, 2, 3, 4, 4]), ["order", "once"]),
        (lambda: split(made_up(), 3, setting="both"), ["setting is 'both'", "domain"]),  # type: ignore[arg-type]
        (lambda: split("nothing", 3), ["nothing"]),
        (lambda: map_domains(made_up(), {}), ["maps is empty"]),
        (lambda: map_domains(made_up(), make_permutations((5, 5), 2)), ["(5, 5)", "(4, 4)"]),
        (lambda: chain_datasets([]), ["no datasets"]),
        (lambda: chain_datasets([made_up(shape=(2, 4, 4))]), ["made-up has 2 channels"]),
        (lambda: blur_boundaries(split(made_up(), 3), 1.5), ["1.5", "0 to 1"]),
        (lambda: blur_boundaries(split(made_up(), 3), float("nan")), ["nan"]),
        (lambda: order_drifting_stream(split(made_up(), 3), -0.1, passes=1), ["-0.1"]),
    ],
)  # fmt: skip
def test_mistakes_are_named(call: Any, words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


def test_a_class_without_test_images_is_an_error() -> None:
    data = made_up(2, 4)
    empty = data.test._replace(x=data.test.x[data.test.y == 0], y=data.test.y[data.test.y == 0])
    with pytest.raises(InputError, match="c1"):
        split(replace(data, test=empty), 2)
