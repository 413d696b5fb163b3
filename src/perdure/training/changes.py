"""What has changed since a run was started: data, versions, the config itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
import torch

from .. import __version__
from ..record import InputError, RunFolder, RunMetadata

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
]


class ResumeError(InputError):
    """A run that was stopped cannot go on to the same bits."""


def find_data_changes(folder: Path, data: Mapping[str, Provenance]) -> list[str]:
    """Return what differs between the bytes that a run used and those of today."""
    run = RunFolder(folder)
    digests = _read_metadata(run).data_digests()
    before = {name: each for name, each in digests.items() if isinstance(each, dict)}
    if not before:
        raise InputError(
            f"{run.metadata_path} does not say which data was used. Use `restart=True` to start "
            "over."
        )
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
    used = _read_metadata(RunFolder(folder)).versions
    return [f"{k} {used[k]}" for k in now if k in used and used[k] != now[k]]


def _read_metadata(run: RunFolder) -> RunMetadata:
    """Return what run.json says, nothing if it cannot be read."""
    try:
        return run.metadata()
    except (OSError, ValueError):
        return RunMetadata()


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
    run = RunFolder(folder)
    metadata = _read_metadata(run)
    before = metadata.config
    if not before:
        raise InputError(
            f"{run.metadata_path} does not say what was run. Use `restart=True` to start over."
        )
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
    if metadata.cpu not in ("", cpu):
        differ.append(f"made on a processor with {metadata.cpu}, this one has {cpu}")
    if differ and not force:
        raise ResumeError(
            f"{folder} was begun otherwise ({'; '.join(differ)}), so it would not end with the "
            "same bits; --restart starts it anew, --force goes on"
        )
    return differ
