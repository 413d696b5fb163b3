"""The runs and files that a user names: found, and what their run.json says of them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .io.files import InputError, find_matches, read_json

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RunRef", "find_runs", "said_in", "visible"]

# What follows from the rest of a description, or may differ from seed to seed.
DERIVED = ("seed", "tasks", "task_classes", "examples", "normalised_by", "data", "deviations")
FAILED = "failed.json"  # why a run has failed; only an unfinished run has it
UNSAID = (
    "validation_split",
    0,
)  # tested on the test set, as all runs were before they could say it
# Of how a loop was evaluated, what changes the numbers; where and in what batches does not.
MEASURED = ("every", "subset", "resample", "unseen", "initial", "score")
EXECUTED = ("mode", "half_precision")  # of the executor


@dataclass(frozen=True)
class RunRef:
    """One run or file. `said` is its config, nested names joined by dots, without the seed.

    `said` is empty where a run states nothing about itself but, perhaps, its seed. `ours` says
    that a run.json is there; only such a run can be unfinished.
    """

    path: str
    ours: bool = False
    finished: bool = True
    seed: int | str | None = None
    setting: str | None = None
    said: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def scenario(self) -> str | None:
        """What its description calls the scenario."""
        name = self.said.get("scenario")
        return name if isinstance(name, str) else None

    @property
    def held_out(self) -> bool:
        """Whether it was tested on a part of the training data, to choose among runs."""
        return "validation_split" in self.said


def find_runs(text: str) -> list[RunRef]:
    r"""Return the runs and files that a path or a pattern stands for; a store is all its runs.

    Example:
        >>> import tempfile
        >>> store = Path(tempfile.mkdtemp())
        >>> for seed in (0, 1):
        ...     (store / f"s{seed}").mkdir()
        ...     described = '{"config": {"seed": %d}}' % seed
        ...     _ = (store / f"s{seed}" / "run.json").write_text(described)
        >>> [member.seed for member in find_runs(str(store))]
        [0, 1]
    """
    # A folder may be called a[1]: what is there is no pattern. Path raises for odd names.
    there = os.path.lexists(text)
    try:
        matches = [text] if there else find_matches(text)
        found = [member for match in matches for member in _at(Path(match))]
    except OSError as error:
        what = (error.strerror or "cannot be read").lower()
        raise InputError(f"{error.filename or text}: {what}") from None
    if not found:
        raise InputError(
            f"{text!r:.200}: no such file or folder, and as a pattern it matches nothing"
        )
    return found


def _at(path: Path) -> list[RunRef]:
    """Return the run or file at a path, or the runs of a store."""
    if path.name == "points.csv" and (path.parent / "run.json").is_file():
        return [_run(path.parent)]
    if not path.is_dir():
        return [RunRef(str(path))]
    if _is_run(path):
        return [_run(path)]
    runs = [_run(each) for each in sorted(path.iterdir()) if each.is_dir() and _is_run(each)]
    if not runs:
        raise InputError(
            f"{path}: no points.csv and no run folders in it, expected a run or a folder of runs; "
            f"name files by a pattern: '{path / '*.csv'}'"
        )
    return runs


def _is_run(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("points.csv", "run.json", FAILED))


def _run(folder: Path) -> RunRef:
    path = folder / "run.json"
    if not path.is_file():
        return RunRef(str(folder))
    try:
        run = read_json(path)
    except InputError:  # whoever reads the run says what is wrong with it
        return RunRef(str(folder), ours=True)
    if not isinstance(run, dict):
        return RunRef(str(folder), ours=True)
    described = run.get("config")
    said: dict[str, Any] = described if isinstance(described, dict) else {}
    seed, setting = said.get("seed"), said.get("setting", run.get("setting"))
    return RunRef(
        str(folder),
        ours=True,
        finished=(folder / "done.json").exists(),
        seed=_seed(seed),
        setting=visible(setting) if isinstance(setting, str) else None,
        said=_config(run, said),
        data=_digests(said.get("data")),
    )


def _config(run: Mapping[str, Any], described: Mapping[str, Any]) -> dict[str, Any]:
    """Return what sets a run apart from other methods: its description, and how it was measured."""
    said = said_in(described)
    if not said:
        return {}
    scale, evaluation = run.get("scale"), run.get("evaluation")
    if isinstance(scale, dict):
        scale = {key: value for key, value in scale.items() if key != "name"}  # a label
    measured = {"setting": run.get("setting"), "scale": scale}
    if isinstance(evaluation, dict):
        measured |= {key: evaluation[key] for key in MEASURED if key in evaluation}
        executor = evaluation.get("executor")
        if isinstance(executor, dict):
            measured |= {key: executor[key] for key in EXECUTED if key in executor}
    others = {k: v for k, v in measured.items() if v is not None and k not in described}
    return said | _flat(others)


def said_in(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a description says of the method: names joined by dots, nothing of the seed.

    Example:
        >>> said_in({"strategy": "replay", "options": {"memory": 500}, "seed": 3})
        {'strategy': 'replay', 'options.memory': 500}
    """
    return _flat({k: v for k, v in described.items() if k not in DERIVED and (k, v) != UNSAID})


def _seed(seed: object) -> int | str | None:
    if isinstance(seed, str):
        return visible(seed)
    return seed if isinstance(seed, int) and not isinstance(seed, bool) else None


def visible(text: str) -> str:
    r"""Return text that steers no terminal and ends no line: names come from files.

    Example:
        >>> visible("a\tb") == "a\ufffdb"
        True
    """
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", "\ufffd", text)


def _flat(said: dict[str, Any], start: str = "") -> dict[str, Any]:
    """Return nested dictionaries as one, names joined by dots."""
    flat: dict[str, Any] = {}
    for name, value in said.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{start}{name}.")
        else:
            flat[visible(start + name)] = visible(value) if isinstance(value, str) else value
    return flat


def _digests(data: object) -> dict[str, Any]:
    """Return the hashes of the bytes that were used, wherever they came from."""
    if not isinstance(data, dict):
        return {}
    return {name: each.get("sha256") for name, each in data.items() if isinstance(each, dict)}
