"""A folder of runs: what is finished is not run again."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import torch

from .. import __version__
from ..record import BadInput, read_json
from .checkpoint import has_checkpoint
from .jobs import Job

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .description import Description

__all__ = [
    "Changed",
    "can_go_on",
    "check_store",
    "check_unchanged",
    "data_changed",
    "is_finished",
    "jobs_for",
    "last_of",
    "versions_changed",
]


class Changed(BadInput):
    """A run that was stopped cannot go on to the same bits."""


def jobs_for(
    descriptions: Sequence[Description], store: Path, *, fresh: bool = False
) -> tuple[list[Job], list[Job]]:
    """Return the runs that are finished in the store, and those to be done.

    An unfinished run goes on where it was saved; all are done from the start if `fresh`.
    """
    check_store(store)
    finished: list[Job] = []
    waiting: list[Job] = []
    for description in descriptions:
        job = Job(description, store / description.folder)
        job.overwrite, job.resume = fresh and job.folder.exists(), not fresh
        (finished if is_finished(job.folder) and not fresh else waiting).append(job)
    return finished, waiting


def check_store(store: Path) -> None:
    """Raise if a store cannot be a folder."""
    if not (there := next(p for p in (store, *store.absolute().parents) if p.exists())).is_dir():
        raise BadInput(f"store is {str(store)!r}, and {there} is a file, expected a folder")


def can_go_on(job: Job) -> bool:
    """Return whether a run was stopped and has a checkpoint to go on from."""
    return job.resume and has_checkpoint(job.folder / "checkpoint")


def is_finished(folder: Path) -> bool:
    """Return whether a run in `folder` has come to its end."""
    return all(os.path.exists(f"{folder}/{name}") for name in ("done.json", "run.json"))  # noqa: PTH110 - asked of ten thousand


def data_changed(folder: Path, data: dict[str, Any]) -> list[str]:
    """Return what differs between the bytes that a run used and those of today."""
    path = folder / "run.json"
    try:
        used = read_json(path)["describe"]["data"]
        before = {name: dict(each["sha256"]) for name, each in used.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise BadInput(f"{path} does not say which data was used; --fresh runs it anew") from None
    said = []
    for name, each in data.items():
        for file, digest in each["sha256"].items():
            old = before.get(name, {}).get(file)
            if old != digest:
                was = f"{old:.12}…" if old else "not there"
                said.append(f"{name}: {file} is {digest:.12}… now, and was {was}")
    return said


def versions_changed(folder: Path) -> list[str]:
    """Return which versions a run was made with that are others now."""
    now = {"perdure": __version__, "torch": torch.__version__, "numpy": np.__version__}
    try:
        used = read_json(folder / "run.json")["versions"]
        return [f"{k} {used[k]}" for k in now if used[k] != now[k]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def check_unchanged(
    folder: Path, description: Description, data: dict[str, Any], *, changed: bool
) -> list[str]:
    """Return what differs from before where `changed` allows it; raise unless a run can go on.

    Args:
        folder: of the run that was stopped.
        description: of the run that is to go on.
        data: its scenario's.
        changed: go on with other data or versions.
    """
    path = folder / "run.json"
    try:
        said = read_json(path)
        before = said["describe"]
    except (OSError, ValueError, KeyError, TypeError):
        raise BadInput(f"{path} does not say what was run; --fresh starts anew") from None
    now = msgspec.to_builtins(description)
    named = ("scenario", "setting")  # a scenario of one's own has its own
    other = [key for key in now if key not in named and before.get(key, 0.0) != now[key]]
    if other:
        was = ", ".join(f"{key} {before.get(key)!r:.60}" for key in other)
        raise BadInput(f"{folder}: a run with {was}, expected the one described; --fresh replaces")
    differ = data_changed(folder, data) + [f"made with {each}" for each in versions_changed(folder)]
    cpu = torch.backends.cpu.get_cpu_capability()
    if said.get("cpu", cpu) != cpu:
        differ.append(f"made on a processor with {said['cpu']}, this one has {cpu}")
    if differ and not changed:
        raise Changed(
            f"{folder} was begun otherwise ({'; '.join(differ)}), so it would not end with the "
            "same bits; --fresh starts it anew, --even-if-changed goes on"
        )
    return differ


def last_of(scenario: str, store: Path) -> Path | None:
    """Return the newest finished run of a scenario in a store."""
    found = [path.parent for path in store.glob(f"{scenario}-*/done.json")]
    return max(found, key=lambda folder: (folder / "done.json").stat().st_mtime, default=None)
