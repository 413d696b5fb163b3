"""What `perdure.run` says besides its result: data, changes, resumed and interrupted runs."""

from __future__ import annotations

import shlex
from contextlib import suppress
from typing import TYPE_CHECKING

from .._display import count_of
from ..record import RunFolder
from ..record.group_names import count_replicates

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from ..execution import Job
    from ..scenarios.scenario import Provenance
    from ..training import RunConfig

__all__ = [
    "list_replicates",
    "note_changes",
    "note_interrupt",
    "note_last_run",
    "note_own_data",
    "note_progress",
]


def note_changes(finished: Sequence[Job], provenance: Mapping[str, Provenance]) -> list[str]:
    """Return notes on finished runs whose data or versions are not those of today."""
    from .. import training

    notes = []
    for job in finished:
        if changes := training.find_data_changes(job.folder, provenance):
            notes.append(
                f"{job.folder}: the data has changed since ({'; '.join(changes)}); this is the "
                "old result, use `restart=True` to run it again"
            )
        if versions := training.find_version_changes(job.folder):
            notes.append(
                f"{job.folder}: made with {', '.join(versions)}; this is the old result, use "
                "`restart=True` to run it again"
            )
    return notes


def note_last_run(
    waiting: Sequence[Job], provenance: Mapping[str, Provenance], store: Path
) -> list[str]:
    """Return a note if the newest finished run of the scenario used other data."""
    from .. import execution, training

    last = execution.find_last_run(waiting[0].config.scenario, store) if waiting else None
    if last is None or not (changes := training.find_data_changes(last, provenance)):
        return []
    return [f"the data differs from that of {last} ({'; '.join(changes)})"]


def note_own_data(config: RunConfig) -> list[str]:
    """Return what was found out about your own data, and how it is divided into tasks."""
    from ..data.own import ReadOptions
    from ..scenarios import find_scenario

    if config.data_path is None:
        return []
    options = ReadOptions(config.input, config.channels, config.image_size)
    own = find_scenario(config.data_path, options).own
    assert own is not None
    tasks = config.num_tasks or own.tasks
    classes = f", {count_of(own.classes, 'class')}" if own.classes else ""
    counted = f"{own.examples:,} training examples{classes}"
    hint = "" if own.has_tasks or config.num_tasks else "; `num_tasks=` sets another number"
    return [f"{config.scenario}: {counted}, {count_of(tasks, 'task')}{hint}", *own.notes]


def note_progress(finished: Sequence[Job], waiting: Sequence[Job]) -> list[str]:
    """Return notes on which runs are finished, start from scratch or resume."""
    from ..execution import can_resume

    notes = []
    if finished and not waiting:
        store = finished[0].folder.parent
        notes.append(f"finished before, read from {store}; use `restart=True` to run again")
    elif finished:
        notes.append(f"finished before: {_list(finished)}")
    running = [job for job in waiting if RunFolder(job.folder).is_locked()]
    if running:
        notes.append(f"running in another process: {_list(running)}")
    begun = [job for job in waiting if job.folder.exists() and job not in running]
    if restarted := [job for job in begun if not can_resume(job)]:
        notes.append(f"starting from scratch: {_list(restarted)}")
    if resumed := [job for job in begun if can_resume(job)]:
        notes.append(f"resuming from a checkpoint: {_list(resumed)}")
    return notes


def note_interrupt(jobs: Sequence[Job]) -> list[str]:
    """Return what the same command will do after an interrupt, and what was recorded so far."""
    left = [job for job in jobs if job.code != 0]
    resumable = sum(RunFolder(job.folder).checkpoint_path.exists() for job in left)
    done = f"{len(jobs) - len(left)} of {count_of(len(jobs), 'run')} finished"
    if not left:
        rest = "prints their metrics"
    elif resumable == len(left):
        which = "them" if len(left) == len(jobs) else "the others"
        rest = f"resumes {which} from their last checkpoints"
    elif resumable:
        rest = f"resumes {resumable} from the last checkpoint and starts the rest from scratch"
    else:
        rest = "starts from scratch: there is no checkpoint yet"
    notes = [f"interrupted; {done}. The same command {rest}"]
    if recorded := [str(job.folder) for job in left if _has_points(job.folder)]:
        notes.append(f"what was recorded so far: perdure score {shlex.join(recorded)}")
    return notes


def _has_points(folder: Path) -> bool:
    """Return whether a run has evaluated anything yet."""
    with suppress(OSError), RunFolder(folder).points_path.open("rb") as file:
        return file.read(4096).count(b"\n") > 1  # the first line is the header
    return False


def list_replicates(configs: Iterable[RunConfig]) -> str:
    """Return seeds, and in how many task orders, as text."""
    several = list(configs)
    seeds = f"seed {', '.join(map(str, dict.fromkeys(config.seed for config in several)))}"
    replicates = [config.order_and_seed for config in several]
    orders = {order for order, _ in replicates}
    return f"{seeds} ({count_replicates(replicates)})" if len(orders) > 1 else seeds


def _list(jobs: Sequence[Job]) -> str:
    return list_replicates(job.config for job in jobs)
