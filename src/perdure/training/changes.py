"""What has changed since a run was started: data, versions, the processor, the config."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from .. import __version__
from .._devices import torch_version
from ..data import load
from ..data.own import ReadOptions
from ..record import InputError, RunFolder, RunMetadata
from ..scenarios import find_scenario, get_provenance

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
    "load_provenance",
]

RESTART = "use `restart=True` to start over"
OWN_NAMES = ("scenario", "setting")  # of the user's own scenario, which the config does not know


class ResumeError(InputError):
    """A run cannot be resumed with a bit-identical result."""


def load_provenance(config: RunConfig, *, fetch: bool = True) -> dict[str, Provenance]:
    """Return the source and the hashes of the data of a run, by dataset.

    Data is downloaded and decoded if necessary; without `fetch`, datasets that are not on this
    machine are left out.
    """
    options = ReadOptions(config.input, config.channels, config.image_size)
    spec, datasets = find_scenario(config.data_path or config.scenario, options), []
    if spec.own is not None:
        return dict(spec.own.data)
    for name in spec.data:
        try:
            datasets.append(load(name, fetch=fetch))
        except InputError:
            if fetch:
                raise
    return get_provenance(*datasets)


def find_data_changes(folder: Path, data: Mapping[str, Provenance]) -> list[str]:
    """Return what differs between the data that a run used and the data of today.

    Args:
        folder: Of the run.
        data: The data of the run's scenario today.
    """
    run = RunFolder(folder)
    metadata = _read_metadata(run)
    digests = metadata.data_digests()
    before = {name: files for name, files in digests.items() if isinstance(files, dict)}
    # A scenario of the user's own may name no data: {}.
    if len(before) < len(digests) or not isinstance(metadata.config.get("data"), dict):
        raise InputError(f"{run.metadata_path} does not say which data was used; {RESTART}")
    changes = []
    for name, dataset in data.items():
        for file, digest in dataset["sha256"].items():
            old = before.get(name, {}).get(file)
            if old != digest:
                was = f"{old:.12}…" if old else "missing"
                what = name if file == name else f"{name}: {file}"
                changes.append(f"{what} is {digest:.12}… now, and was {was}")
    return changes


def find_version_changes(folder: Path) -> list[str]:
    """Return the versions with which a run was made and that differ from those of today."""
    now = {"perdure": __version__, "torch": torch_version(), "numpy": np.__version__}
    used = _read_metadata(RunFolder(folder)).versions
    return [f"{name} {used[name]}" for name in now if name in used and used[name] != now[name]]


def check_resumable(
    folder: Path, config: RunConfig, data: Mapping[str, Provenance], *, force: bool
) -> list[str]:
    """Return what has changed since a run was started; raise unless it can be resumed.

    Args:
        folder: Of the run.
        config: Of the run to resume.
        data: Of its scenario.
        force: Resume although data, versions or the processor have changed.
    """
    run = RunFolder(folder)
    metadata = _read_metadata(run)
    before = metadata.config
    if not before:
        raise InputError(f"{run.metadata_path} does not say what was run; {RESTART}")
    different = [
        f"{name} {before.get(name)!r:.60}"
        for name, value in msgspec.to_builtins(config).items()
        if name not in OWN_NAMES and before.get(name, 0.0) != value
    ]
    if different:
        raise InputError(f"{folder} is a run with {', '.join(different)}; {RESTART}")
    changes = find_data_changes(folder, data)
    changes += [f"made with {version}" for version in find_version_changes(folder)]
    import torch

    cpu = torch.backends.cpu.get_cpu_capability()
    if metadata.cpu not in ("", cpu):
        changes.append(f"made on a processor with {metadata.cpu}, this one has {cpu}")
    if changes and not force:
        raise ResumeError(
            f"cannot resume {folder}: {'; '.join(changes)}, so the result would not be "
            "bit-identical. Use `restart=True` to start over or `force=True` to resume anyway"
        )
    return changes


def _read_metadata(run: RunFolder) -> RunMetadata:
    """Return what run.json says, nothing if it cannot be read."""
    try:
        return run.metadata()
    except (OSError, ValueError):
        return RunMetadata()
