"""What run.json says about a run: written, read leniently for lists, strictly for scoring."""

from __future__ import annotations

import json
import math
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Literal, TypeAlias

import msgspec
import numpy as np

from ..metrics import ScoreScale
from ..metrics.score_matrix import MAX_NAME_LENGTH
from ..stats.schedules import BudgetUse
from .io.files import InputError
from .io.text import visible
from .points import MatrixFields

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"

__all__ = [
    "JSON",
    "RunMetadata",
    "ScoringMetadata",
    "config_as_json",
    "describe_program",
    "flatten_config",
    "method_config",
    "parse_held_out_accuracy",
    "parse_metadata",
    "scale_as_json",
]

SCHEMA = 3  # of run.json

# Keys of a config that follow from the others, or may differ between seeds.
DERIVED_KEYS = (
    "seed", "tasks", "task_classes", "class_names", "examples", "normalised_by", "data",
    "data_path", "deviations", "evaluate_train",
)  # fmt: skip
TEST_SET = ("validation_split", 0)  # evaluated on the test set, as most runs: not worth naming
# How a run was evaluated, as far as it changes the numbers; where and in what batches does not.
EVALUATION_KEYS = ("every", "subset", "resample", "unseen", "initial", "score")
INEXACT_PRECISIONS = ("tf32", "float16", "bfloat16")  # others predict as float32 does


@dataclass(frozen=True)
class RunMetadata:
    """The contents of run.json; a field of an unexpected type has its default value."""

    config: dict[str, JSON] = field(default_factory=dict)
    evaluation: dict[str, JSON] = field(default_factory=dict)
    scale: dict[str, JSON] = field(default_factory=dict)
    versions: dict[str, JSON] = field(default_factory=dict)
    notes: list[JSON] = field(default_factory=list)
    control: list[JSON] = field(default_factory=list)
    log: dict[str, JSON] = field(default_factory=dict)  # where a Log may be resumed
    setting: str = ""
    created: str = ""
    cpu: str = ""

    @property
    def seed(self) -> int | str | None:
        """The seed of the run, None if run.json states none."""
        seed = self.config.get("seed")
        if isinstance(seed, str):
            return visible(seed)
        return seed if isinstance(seed, int) and not isinstance(seed, bool) else None

    @property
    def control_tasks(self) -> tuple[str, ...]:
        """The names of the tasks that are evaluated but never trained."""
        return tuple(name for name in self.control if isinstance(name, str))

    @property
    def budget(self) -> BudgetUse | None:
        """What a share of the time was used for, None if evaluation had none."""
        try:
            return msgspec.convert(self.evaluation.get("budget"), BudgetUse | None)
        except msgspec.ValidationError:
            return None

    @property
    def class_names(self) -> dict[int, str]:
        """The names of classes by their label; empty if the run states none."""
        names = self.config.get("class_names")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            return {}
        return {label: visible(str(name)) for label, name in enumerate(names)}

    @property
    def deviations(self) -> list[str]:
        """The differences from the published set-up that the run states."""
        stated = self.config.get("deviations")
        return [str(deviation) for deviation in stated] if isinstance(stated, list) else []

    def data_digests(self) -> dict[str, JSON]:
        """Return the SHA-256 digests of the data files that were used, by dataset."""
        data = self.config.get("data")
        entries = data.items() if isinstance(data, dict) else ()
        return {name: entry.get("sha256") for name, entry in entries if isinstance(entry, dict)}


def config_as_json(config: Mapping[str, object] | None) -> dict[str, object]:
    """Return `config` with text keys, or raise naming the entry that JSON cannot hold.

    Example:
        >>> config_as_json({"lr": 0.1})
        {'lr': 0.1}
    """
    config = {} if config is None else config
    if not isinstance(config, Mapping):
        raise TypeError(f"config is {config!r:.60}, expected a dict like {{'lr': 0.1, 'seed': 0}}")
    for key, value in config.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            raise ValueError(
                f"config[{key!r}] is {value!r:.60}, expected text, numbers, lists and dicts"
            ) from None
    setting = config.get("setting")
    if setting not in (None, "class", "task", "domain"):
        raise ValueError(f"config['setting'] is {setting!r:.60}, expected class, task or domain")
    names = config.get("class_names", [])
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ValueError(
            f"config['class_names'] is {names!r:.60}, expected a list with the name of each class, "
            "like ['cat', 'dog']"
        )
    return {str(key): value for key, value in config.items()}


def describe_program(versions: Mapping[str, str]) -> dict[str, object]:
    """Return when, by which program and with which versions a run is made, for run.json."""
    from .. import __version__

    ours = {"perdure": __version__, "python": platform.python_version(), "numpy": np.__version__}
    return {
        "schema": SCHEMA,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "program": sys.argv[0],
        "versions": {**ours, **versions},
    }


def scale_as_json(scale: ScoreScale) -> dict[str, object]:
    """Return range, direction and name of the scores, for run.json; an infinite end is null.

    Example:
        >>> scale_as_json(ScoreScale(0, math.inf, lower_is_better=True, name="loss"))
        {'lower_is_better': True, 'name': 'loss', 'low': 0, 'high': None}
    """
    ends = {"low": scale.low, "high": scale.high}
    finite = {name: end if math.isfinite(end) else None for name, end in ends.items()}
    return {"lower_is_better": scale.lower_is_better, "name": scale.label, **finite}


def parse_metadata(contents: object, source: object) -> RunMetadata:
    """Return the metadata in the contents of a run.json, or raise InputError if it is no object.

    Example:
        >>> parse_metadata({"config": {"seed": 3}, "setting": 7}, "run.json").seed
        3
    """
    if not isinstance(contents, dict):
        raise InputError(f"{source}: {contents!r:.40}, expected an object with names and values")
    return RunMetadata(**{
        name: contents[name]
        for name, default in vars(RunMetadata()).items()
        if isinstance(contents.get(name), type(default))
    })  # fmt: skip


class ScaleFields(msgspec.Struct):
    """Range, direction and name of the scores; an end that is not stated is infinite."""

    low: float | None = None
    high: float | None = None
    lower_is_better: bool = False
    name: str = ""


class ScoringMetadata(msgspec.Struct):
    """The fields of run.json that scoring depends on. A wrong type is an error."""

    setting: Literal["class", "task", "domain"] | None = None
    classes: list[int] | None = None
    control: list[str] = []  # tasks that are evaluated but never trained
    scale: ScaleFields | None = None
    notes: list[str] = []
    evaluation_data: dict[str, str] = {}  # fingerprints by task

    @classmethod
    def parse(cls, contents: object, source: object) -> ScoringMetadata:
        """Return the fields in the contents of a run.json, or raise InputError."""
        try:
            return msgspec.convert(contents, cls)
        except msgspec.MsgspecError as error:
            raise InputError(f"{source}: {error}") from None

    def score_scale(self, source: object) -> ScoreScale | None:
        """Return range, direction and name of the scores, None if they are not stated."""
        if self.scale is None:
            return None
        low = -math.inf if self.scale.low is None else self.scale.low
        high = math.inf if self.scale.high is None else self.scale.high
        try:
            name = visible(self.scale.name)[:MAX_NAME_LENGTH]
            return ScoreScale(low, high, lower_is_better=self.scale.lower_is_better, name=name)
        except ValueError as error:
            raise InputError(f"{source}: {error}") from None

    def task_fields(self, source: object, tasks: int) -> MatrixFields:
        """Return setting and class counts of the tasks learned so far, where they are stated."""
        fields = MatrixFields()
        if self.setting is not None:
            fields["setting"] = self.setting
        if self.classes is not None:
            if len(self.classes) < tasks or min(self.classes, default=1) < 1:
                raise InputError(
                    f"{source}: class counts are {self.classes}, expected 1 or more for each of "
                    f"{tasks} tasks"
                )
            fields["classes"] = self.classes[:tasks]
        return fields


class _Results(msgspec.Struct):
    """What done.json says that is read again."""

    held_out_accuracy: dict[str, list[Annotated[float, msgspec.Meta(ge=0, le=1)]]] = {}


def parse_held_out_accuracy(contents: object, source: object) -> dict[str, list[float]]:
    """Return the accuracy after each epoch of each task that early stopping saw, if any.

    Example:
        >>> parse_held_out_accuracy({"held_out_accuracy": {"a": [0.5]}}, "done.json")
        {'a': [0.5]}
    """
    try:
        return msgspec.convert(contents, _Results).held_out_accuracy
    except msgspec.ValidationError as error:
        raise InputError(f"{source}: {error}") from None


def method_config(metadata: RunMetadata) -> dict[str, JSON]:
    """Return what sets a run apart from other methods: its config, and how it was evaluated.

    Runs for which it is the same differ in the seed alone.
    """
    config = flatten_config(metadata.config)
    if not config:
        return {}
    evaluation, executor = metadata.evaluation, metadata.evaluation.get("executor")
    measured = {key: evaluation[key] for key in EVALUATION_KEYS if key in evaluation}
    if isinstance(executor, dict):
        measured |= {"mode": executor["mode"]} if "mode" in executor else {}
        if executor.get("precision") in INEXACT_PRECISIONS:
            measured["evaluation_precision"] = executor["precision"]
    if metadata.setting:
        measured["setting"] = metadata.setting
    if metadata.scale:  # its name is a label
        measured["scale"] = {k: v for k, v in metadata.scale.items() if k != "name"}
    others = {k: v for k, v in measured.items() if v is not None and k not in metadata.config}
    return config | _flatten(others)


def flatten_config(config: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the entries of a config that define the method, nested names joined by dots.

    Example:
        >>> flatten_config({"strategy": "replay", "options": {"memory": 500}, "seed": 3})
        {'strategy': 'replay', 'options.memory': 500}
    """
    return _flatten(
        {k: v for k, v in config.items() if k not in DERIVED_KEYS and (k, v) != TEST_SET}
    )


def _flatten(entries: Mapping[str, JSON], prefix: str = "") -> dict[str, JSON]:
    flat: dict[str, JSON] = {}
    for name, value in entries.items():
        if isinstance(value, dict):
            flat |= _flatten(value, f"{prefix}{name}.")
        else:
            flat[visible(prefix + name)] = visible(value) if isinstance(value, str) else value
    return flat
