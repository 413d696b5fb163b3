"""What ran: config, versions and data of a method's runs, and the command that repeats them."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

from ...record import Run, RunMetadata
from ..load import get_config

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .summaries import MethodSummary

__all__ = ["RunsProvenance", "get_provenance", "make_command"]

FACTS = ("scenario", "setting", "strategy", "model", "optimizer", "epochs", "batch")

# Options of `perdure run` that are named after their field, with the value they have by default.
OPTIONS: dict[str, object] = {
    "model": None, "setting": None, "batch": None, "optimizer": None, "schedule": "constant",
    "every": None, "num_tasks": None, "image_size": None, "input": None, "channels": None,
    "boundaries": "sharp", "blur": 0.0, "patience": None,
    "early_stopping_split": 0.0, "validation_split": 0.0, "gradients": None, "threads": 1,
    "device": None, "precision": "default",
}  # fmt: skip
FLAGS = ("mask_unseen", "resample", "unseen", "evaluate_train", "channels_last")


class MethodProvenance(NamedTuple):
    """What a reader needs to repeat the runs of a method: facts, each of several parts."""

    name: str
    facts: dict[str, list[str]]
    command: str | None
    data: list[str]


class RunsProvenance(NamedTuple):
    """What ran: what all methods share, and each method with the rest."""

    facts: dict[str, list[str]]
    data: list[str]
    methods: list[MethodProvenance]


def get_provenance(methods: Sequence[MethodSummary]) -> RunsProvenance:
    """Return what ran; facts that several methods share are stated once."""
    every = [_get_method_provenance(method) for method in methods]
    if len(every) < 2:
        return RunsProvenance({}, [], every)
    first, *others = every
    shared = {
        name: parts
        for name, parts in first.facts.items()
        if name != "runs" and all(other.facts.get(name) == parts for other in others)
    }
    data = first.data if all(other.data == first.data for other in others) else []
    own = [
        method._replace(
            facts={name: parts for name, parts in method.facts.items() if name not in shared},
            data=[] if data else method.data,
        )
        for method in every
    ]
    return RunsProvenance(shared, data, own)


def _get_method_provenance(method: MethodSummary) -> MethodProvenance:
    """Return what ran for a method; config, versions and data are those of its first run."""
    run, config = method.runs[0], get_config(method.runs[0])
    metadata = run.metadata if isinstance(run, Run) else RunMetadata()
    seeds = [get_config(run).get("seed") for run in method.runs]
    facts = {
        "runs": [_describe_seeds(method, [str(seed) for seed in seeds if seed is not None])],
        "tasks": method.tasks,
        **{key: [str(config[key])] for key in FACTS if config.get(key) not in (None, "")},
        "versions": [f"{name} {version}" for name, version in metadata.versions.items()],
        "CPU": [metadata.cpu] if metadata.cpu else [],
        "records": [run.folder.name for run in method.runs if isinstance(run, Run)],
    }
    return MethodProvenance(
        name=method.name,
        facts={name: parts for name, parts in facts.items() if parts},
        command=make_command(config, [seed for seed in seeds if isinstance(seed, int)]),
        data=_list_hashes(config.get("data")),
    )


def _describe_seeds(method: MethodSummary, seeds: Sequence[str]) -> str:
    unfinished = sum(isinstance(run, Run) and not run.finished for run in method.runs)
    parts = [str(len(method.runs))]
    if seeds:
        parts.append(f"seed{'s' if len(seeds) > 1 else ''} {', '.join(seeds)}")
    if unfinished:
        parts.append(f"{unfinished} unfinished")
    return ", ".join(parts)


def make_command(config: Mapping[str, object], seeds: Sequence[int]) -> str | None:
    """Return the `perdure run` command of a config with every choice; None for other programs.

    Example:
        >>> config = {"scenario": "split-digits", "strategy": "replay", "epochs": 5, "batch": 10}
        >>> make_command(config, [0, 1])
        'perdure run split-digits replay --seeds 0,1 --epochs 5 --batch 10'
    """
    if not {"scenario", "strategy", "epochs"} <= config.keys():
        return None
    scenario = config.get("data_path") or config["scenario"]
    words = ["perdure", "run", str(scenario), str(config["strategy"])]
    if seeds:  # a single number would be the number of seeds; a comma makes it a list
        words += _option("seeds", ",".join(map(str, seeds)) + "," * (len(seeds) == 1))
    length = "epochs" if config.get("iterations") is None else "iterations"
    words += _option(length, config[length])
    for field, default in OPTIONS.items():
        if config.get(field) not in (None, default):
            words += _option(field, config[field])
    if "subset" in config:
        words += _option("subset", "all" if config["subset"] is None else config["subset"])
    for order in ("order", "task_order"):
        if config.get(order) is not None:
            words += _option(order, _format(config[order]))
    words += [_flag(field) for field in FLAGS if config.get(field)]
    words += [_flag("no_per_example")] if config.get("per_example") is False else []
    for group in ("optimizer_options", "schedule_options", "options", "model_options"):
        values = config.get(group)
        for name, value in values.items() if isinstance(values, dict) else ():
            words += _option("set", f"{name}={_format(value)}")
    return shlex.join(words)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _option(name: str, value: object) -> list[str]:
    return [_flag(name), str(value)]


def _format(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _list_hashes(data: object) -> list[str]:
    if not isinstance(data, dict):
        return []
    return [
        f"{name} {file} {digest}"
        for name, files in data.items()
        if isinstance(files, dict) and isinstance(files.get("sha256"), dict)
        for file, digest in files["sha256"].items()
    ]
