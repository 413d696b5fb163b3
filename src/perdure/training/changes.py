"""What has changed since a run was started: data, versions, the config itself."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import torch

from .. import __version__
from ..record import InputError, read_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ..scenarios import Provenance
    from .config import RunConfig

__all__ = [
    "ResumeError",
    "check_resumable",
    "find_data_changes",
    "find_version_changes",
    "is_finished",
]


class ResumeError(InputError):
    """A run that was stopped cannot go on to the same bits."""


def is_finished(folder: Path) -> bool:
    """Return whether a run in `folder` has come to its end."""
    return all(os.path.exists(f"{folder}/{name}") for name in ("done.json", "run.json"))  # noqa: PTH110 - asked of ten thousand


def find_data_changes(folder: Path, data: Mapping[str, Provenance]) -> list[str]:
    """Return what differs between the bytes that a run used and those of today."""
    path = folder / "run.json"
    try:
        used = read_json(path)["config"]["data"]
        before = {name: dict(each["sha256"]) for name, each in used.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise InputError(
            f"{path} does not say which data was used; --restart runs it anew"
        ) from None
    said = []
    for name, each in data.items():
        for file, digest in each["sha256"].items():
            old = before.get(name, {}).get(file)
            if old != digest:
                was = f"{old:.12}…" if old else "not there"
                said.append(f"{name}: {file} is {digest:.12}… now, and was {was}")
    return said


def find_version_changes(folder: Path) -> list[str]:
    """Return which versions a run was made with that are others now."""
    now = {"perdure": __version__, "torch": torch.__version__, "numpy": np.__version__}
    try:
        used = read_json(folder / "run.json")["versions"]
        return [f"{k} {used[k]}" for k in now if used[k] != now[k]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def check_resumable(
    folder: Path, config: RunConfig, data: Mapping[str, Provenance], *, force: bool
) -> list[str]:
    """Return what differs from before where `force` allows it; raise unless a run can go on.

    Args:
        folder: of the run that was stopped.
        config: of the run that is to go on.
        data: its scenario's.
        force: go on with other data or versions.
    """
    path = folder / "run.json"
    try:
        said = read_json(path)
        before = said["config"]
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{path} does not say what was run; --restart starts anew") from None
    now = msgspec.to_builtins(config)
    named = ("scenario", "setting")  # a scenario of one's own has its own
    other = [key for key in now if key not in named and before.get(key, 0.0) != now[key]]
    if other:
        was = ", ".join(f"{key} {before.get(key)!r:.60}" for key in other)
        raise InputError(
            f"{folder}: a run with {was}, expected the one described; --restart replaces"
        )
    differ = find_data_changes(folder, data) + [
        f"made with {each}" for each in find_version_changes(folder)
    ]
    cpu = torch.backends.cpu.get_cpu_capability()
    if said.get("cpu", cpu) != cpu:
        differ.append(f"made on a processor with {said['cpu']}, this one has {cpu}")
    if differ and not force:
        raise ResumeError(
            f"{folder} was begun otherwise ({'; '.join(differ)}), so it would not end with the "
            "same bits; --restart starts it anew, --force goes on"
        )
    return differ
