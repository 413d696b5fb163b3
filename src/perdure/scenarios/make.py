"""A scenario by its name, or of the user's own data: what is known about it, and its data."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .._suggestions import suggest_names
from ..data import load
from ..data.own import ReadOptions
from ..record import InputError
from .one_dataset import make_permutations, make_rotations, map_domains, split
from .own import EXPECTED, is_own, locate_own, make_own_scenario, read_own
from .registry import MNIST_SIZE, SCENARIOS, ScenarioSpec, TrainingDefaults
from .scenario import get_provenance
from .sequences import DatasetTask, chain_datasets, merge_datasets

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from ..data import Dataset
    from .own import OwnScenario
    from .registry import HyperparameterValue
    from .scenario import Scenario, Setting

__all__ = ["find_scenario", "make_scenario"]

MIN_CONV_SIDE = 10  # of zenke-conv

# Mean and std as in the benchmark's released code, which does not normalize the last two.
_M2I_NORMAL = {
    "mnist": (0.1307, 0.3081),
    "fashion-mnist": (0.1307, 0.3081),
    "cifar10": (0.9221, 0.2681),
    "omniglot-magi": (0.9221, 0.2681),
    "svhn": (0.0, 1.0),
    "tiny-imagenet-10": (0.0, 1.0),
}


def find_scenario(name: str, options: ReadOptions | None = None) -> ScenarioSpec:
    """Return what is known about a scenario, or raise an error that suggests similar names.

    Args:
        name: one of `SCENARIOS`, the path of your own data, or "module:function".
        options: how to read your own data.

    Example:
        >>> find_scenario("split-mnist").tasks
        5
    """
    if is_own(name, SCENARIOS):
        return _describe_own(read_own(locate_own(name), options or ReadOptions()))
    if name not in SCENARIOS:
        raise InputError(
            f"scenario {name!r:.60} is not known; {suggest_names(name, SCENARIOS)}"
            f"`perdure list scenarios` lists them, and your own data is {EXPECTED}"
        )
    return SCENARIOS[name]


def _describe_own(own: OwnScenario) -> ScenarioSpec:
    """Return the spec of your own data, with a network that fits it."""
    model = "mlp"
    options: dict[str, HyperparameterValue] = {}
    if own.kind == "tokens":
        model, options = "embedding-bag", {"vocabulary": own.vocabulary}
    elif own.kind == "images" and min(own.shape[1:]) >= MIN_CONV_SIDE:
        model = "zenke-conv"
    tenth = max(2 * own.tasks, own.examples // 10)
    per_task = {"memory": max(1, tenth // own.tasks)}
    defaults = TrainingDefaults(
        model, batch=32, optimizer="adam", lr=0.001, model_options=options,
        strategies={"replay": {"memory": tenth}, "gdumb": {"memory": tenth}, "gem": per_task,
                    "agem": per_task},
    )  # fmt: skip
    return ScenarioSpec("your own data", "own", (), own.setting, defaults, own.tasks, own=own)


def make_scenario(
    name: str,
    *,
    setting: Setting | None = None,
    order: Sequence[int] | int | None = None,
    size: int | None = None,
    tasks: int | None = None,
    options: ReadOptions | None = None,
) -> Scenario:
    """Return the named scenario with its data loaded, and downloaded if necessary.

    Args:
        name: one of `SCENARIOS`, the path of your own data, or "module:function".
        setting: what is incremental; None for the published setting.
        order: the order of the classes, for scenarios that are split by class.
        size: height and width of the images, for scenarios of several datasets; None for the
            published size.
        tasks: the number of tasks, for scenarios that are split by class.
        options: how to read your own data.

    Example:
        >>> make_scenario("split-digits").tasks[0].classes
        (0, 1)
    """
    if is_own(name, SCENARIOS):
        options = (options or ReadOptions())._replace(image_size=size)
        source = locate_own(name)
        title = read_own(source, options).name
        return make_own_scenario(
            source, options, name=title, tasks=tasks, setting=setting, order=order
        )
    spec = find_scenario(name)
    setting = setting or spec.setting
    if tasks is not None and spec.kind != "split":
        raise InputError(f"{name} is not split by class, so tasks does not apply; leave it out")
    if order is not None and spec.kind != "split":
        raise InputError(f"{name} is not split by class, so order does not apply; leave it out")
    if size is not None and "size" not in spec.options:
        raise InputError(f"{name} has images of a fixed size; leave size out")
    if spec.kind == "split":
        parts = [load(dataset) for dataset in spec.data] if len(spec.data) > 1 else []
        dataset = _merge(spec, parts, size, name) if parts else spec.data[0]
        scenario = split(dataset, tasks or spec.tasks, order=order, setting=setting, name=name)
        if parts:
            scenario = _note_size(replace(scenario, data=get_provenance(*parts)), spec, size)
        if tasks not in (None, spec.tasks):
            note = f"{tasks} tasks, where the benchmark has {spec.tasks}"
            scenario = replace(scenario, deviations=(note, *scenario.deviations))
    elif spec.kind == "sequence":
        scenario = _make_sequence(spec, setting, size, name)
    else:
        scenario = map_domains(spec.data[0], _make_maps(spec), setting=setting, name=name)
    if spec.normalization is None:
        return scenario
    mean, std = spec.normalization
    count = len(scenario.mean)  # one for all tasks, or one per task
    return replace(scenario, mean=(mean,) * count, std=(std,) * count)


def _make_maps(spec: ScenarioSpec) -> dict[str, NDArray[np.int64]]:
    if spec.kind == "permuted":
        return make_permutations(MNIST_SIZE, spec.tasks)
    return make_rotations(MNIST_SIZE, [-90 + k * spec.options["phi"] for k in range(spec.tasks)])


def _merge(spec: ScenarioSpec, parts: Sequence[Dataset], size: int | None, name: str) -> Dataset:
    side = size or spec.options["size"]
    return merge_datasets(
        parts, size=(side, side), max_per_class=spec.options["max_per_class"], name=name
    )


def _make_sequence(spec: ScenarioSpec, setting: Setting, size: int | None, name: str) -> Scenario:
    side = size or spec.options["size"]
    members = [
        DatasetTask(data, 10, *_M2I_NORMAL[data])
        if data in _M2I_NORMAL
        else DatasetTask(load(data))
        for data in spec.data
    ]
    classes = [m.dataset.classes for m in members if not isinstance(m.dataset, str)]
    if any(names != classes[0] for names in classes):
        raise InputError(f"{name}: the datasets have different classes, expected the same in order")
    scenario = chain_datasets(
        members,
        size=(side, side),
        channels=3,
        max_per_class=spec.options.get("max_per_class"),
        setting=setting,
        name=name,
    )
    return _note_size(scenario, spec, size)


def _note_size(scenario: Scenario, spec: ScenarioSpec, size: int | None) -> Scenario:
    """Return the scenario with a note if its images do not have the published size."""
    published = spec.options.get("size")
    if size in (None, published):
        return scenario
    note = f"images of {size}x{size}, where the benchmark has {published}x{published}"
    return replace(scenario, deviations=(note, *scenario.deviations))
