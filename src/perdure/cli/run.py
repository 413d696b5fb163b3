"""`perdure run`: from data to record with one command."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from msgspec import to_builtins

from ..metrics import summary_of_runs
from ..record import InputError, open_run, read_input
from ..report.tables import make_headline_table, make_task_table
from ._options import (
    Flag,
    IntOrAll,
    Order,
    PositiveInt,
    Seeds,
    TextFormat,
    require_training,
)
from ._output import print_json, print_lines, print_stderr
from ._progress import SeedBars

if TYPE_CHECKING:
    from ..execution.jobs import Job
    from ..metrics import RunsSummary, Summary
    from ..training.config import RunConfig

__all__ = ["run"]

Pairs = Annotated[list[str] | None, Parameter("--set", negative="")]


def run(
    scenario: str = "split-digits",
    strategy: str = "replay",
    *,
    model: str | None = None,
    seeds: Seeds = 3,
    every: PositiveInt = 1,
    subset: IntOrAll = 1000,
    resample: Flag = False,
    unseen: Flag = False,
    per_example: Annotated[bool, Parameter(negative="--no-per-example")] = True,
    gradients: PositiveInt | None = None,
    epochs: PositiveInt | None = None,
    iterations: PositiveInt | None = None,
    online: Flag = False,
    batch: PositiveInt | None = None,
    optimizer: Literal["sgd", "adam"] | None = None,
    setting: Literal["class", "task", "domain"] | None = None,
    set_: Pairs = None,
    mask_unseen: Flag = False,
    order: Order | None = None,
    image_size: PositiveInt | None = None,
    boundaries: Literal["sharp", "blurred", "none"] = "sharp",
    blur: float = 0.1,
    patience: PositiveInt | None = None,
    early_stopping_split: float = 0.1,
    validation_split: float = 0.0,
    threads: PositiveInt = 1,
    device: str = "auto",
    jobs: PositiveInt | None = None,
    store: Path = Path("runs"),
    restart: Flag = False,
    resume: Flag = False,
    force: Flag = False,
    checkpoint_every: float = 120.0,
    dry_run: Flag = False,
    format_: TextFormat = "text",
) -> int:
    """Train a strategy on a scenario, evaluate it while it learns, and print the metrics.

    Without arguments, `perdure run` trains `replay` on `split-digits` with three seeds. A seed that
    is already finished in the store is not run again; one that was interrupted resumes from its
    last checkpoint and ends with the same weights, bit for bit. Options you do not set default to
    the values published for the scenario.

    Args:
        scenario: Name of the scenario; see `perdure list scenarios`.
        strategy: Name of the strategy, see `perdure list strategies`, or `module:Class` of your
            own.
        model: Name of the network, see `perdure list models`, or `module:factory` of your own.
        seeds: Number of seeds, or a list of seeds such as 0,3,5.
        every: Evaluate every INT iterations.
        subset: Number of test examples per task in each evaluation, or `all`. The whole test set
            is evaluated at the end of each task in any case.
        resample: Draw a new subset for every evaluation instead of a fixed one. This biases
            minima.
        unseen: Also evaluate tasks that have not been learned yet.
        per_example: Record which examples were classified correctly; intervals need it.
        gradients: Record the gradient norms of both loss terms every INT iterations.
        epochs: Number of epochs per task.
        iterations: Number of iterations per task, instead of epochs.
        online: Train for a single epoch per task.
        batch: Number of new examples per iteration.
        optimizer: Optimizer: SGD with momentum 0.9, or Adam.
        setting: What is incremental: classes (one shared head), tasks (one head per task) or
            domains.
        set_: Set a hyperparameter of the strategy, the optimizer or the model, for example
            `--set lr=.01 --set alpha=.3`.
        mask_unseen: Mask the outputs of classes that have not been seen yet.
        order: Order of the classes: a seed to shuffle them, or all classes listed, as in 3,1,4,…
        image_size: Height and width of the images of m2i and i2m, for small trials.
        boundaries: Task boundaries: `sharp`, `blurred` (neighbouring tasks share examples), or
            `none` (a stream without boundaries).
        blur: Fraction of examples that blurred tasks share, or by which the tasks of a stream
            overlap.
        patience: Stop a task after INT epochs without a better score on its early-stopping data.
        early_stopping_split: Fraction of each task's training data held out for early stopping.
        validation_split: Fraction of the training data to evaluate on instead of the test set, for
            choosing hyperparameters.
        threads: Number of CPU threads per run.
        device: Device to train on: cpu, cuda, cuda:1, or auto.
        jobs: Number of seeds to run in parallel. Defaults to what the CPU cores allow.
        store: Folder in which runs are stored.
        restart: Restart every seed from scratch, finished or not.
        resume: Only resume interrupted runs; fail if there is nothing to resume.
        force: Resume even if the data or software versions have changed. The result may then not
            be bit-identical.
        checkpoint_every: Seconds between checkpoints. A checkpoint is also written at the end of
            each task.
        dry_run: Print the complete configuration of each run without running it.
        format_: Output format.
    """
    if sum((epochs is not None, iterations is not None, online)) > 1:
        raise InputError("--epochs, --iterations and --online exclude each other; give one")
    settings = _settings(set_)
    numbers = list(range(seeds)) if isinstance(seeds, int) else seeds
    require_training()
    from .. import execution, training

    runs = [
        training.make_config(
            scenario, strategy, settings=settings, model=model, optimizer=optimizer,
            setting=setting, seed=seed, mask_unseen=mask_unseen, order=order, resample=resample,
            unseen=unseen, per_example=per_example, boundaries=boundaries, blur=blur,
            early_stopping_split=early_stopping_split, validation_split=validation_split,
            device=training.resolve_device(device), epochs=1 if online else epochs,
            iterations=iterations, batch=batch, every=every, gradients=gradients,
            patience=patience, threads=threads, image_size=image_size, subset=subset,
        )
        for seed in numbers
    ]  # fmt: skip
    if dry_run:
        shown = [{"folder": str(store / each.folder), **to_builtins(each)} for each in runs]
        print_json(shown)
        return 0
    if not checkpoint_every >= 0:
        raise InputError(f"--checkpoint-every is {checkpoint_every:g}, expected 0 or more seconds")
    finished, waiting = execution.plan_jobs(runs, store, restart=restart)
    for job in waiting:
        job.force, job.checkpoint_every = force, checkpoint_every
    if resume:
        _insist(waiting, restart=restart)
    data = training.load_provenance(scenario, fetch=bool(waiting))
    notes = _notes(finished, waiting, data, store)
    if format_ != "json":
        for note in notes:
            print_stderr(note)
    if waiting:
        _do(waiting, jobs, show=format_ != "json")
    notes += [f"seed {job.config.seed}: {note}" for job in waiting for note in job.notes]
    done = [*finished, *(job for job in waiting if job.error is None)]
    failed = [job for job in waiting if job.error is not None]
    if done:
        _print(sorted(done, key=lambda job: job.config.seed), notes, json=format_ == "json")
    for error in dict.fromkeys(job.error for job in failed):  # seeds often fail alike: said once
        alike = [job for job in failed if job.error == error]
        print_stderr(*alike[0].traceback.splitlines(), prefix="")
        print_stderr(f"seed {', '.join(str(job.config.seed) for job in alike)} failed: {error}")
    return max((2 if job.code == 2 else 1 for job in failed), default=0)


def _settings(pairs: list[str] | None) -> dict[str, str]:
    settings: dict[str, str] = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not (name.strip() and equals and value.strip()):
            raise InputError(f"--set has {pair!r:.40}, expected NAME=VALUE like lr=.01")
        if name.strip() in settings:
            raise InputError(f"--set has {name.strip()!r:.40} twice, expected each name once")
        settings[name.strip()] = value.strip()
    return settings


def _notes(finished: list[Job], waiting: list[Job], data: Any, store: Path) -> list[str]:
    from .. import execution, training

    notes = []
    for job in finished:
        if changed := training.find_data_changes(job.folder, data):
            notes.append(
                f"{job.folder}: the data has changed since ({'; '.join(changed)}); this is the "
                "old result, --restart runs it anew"
            )
        if others := training.find_version_changes(job.folder):
            notes.append(
                f"{job.folder}: made with {', '.join(others)}; this is the old result, --restart "
                "runs it anew"
            )
    last = execution.find_last_run(waiting[0].config.scenario, store) if waiting else None
    if last is not None and (changed := training.find_data_changes(last, data)):
        notes.append(f"the data is not that of {last} ({'; '.join(changed)})")
    if finished and not waiting:
        notes.append(f"finished before, read from {finished[0].folder.parent}; --restart runs anew")
    elif finished:
        known = ", ".join(str(job.config.seed) for job in finished)
        notes.append(f"finished before: seed {known}")
    stopped = [job for job in waiting if job.folder.exists()]
    for said, jobs in (
        ("starting again", [job for job in stopped if not execution.can_resume(job)]),
        ("going on from a checkpoint", [job for job in stopped if execution.can_resume(job)]),
    ):
        if jobs:
            notes.append(f"{said}: seed {', '.join(str(job.config.seed) for job in jobs)}")
    return notes


def _insist(waiting: list[Job], *, restart: bool) -> None:
    """Raise unless every run that is not finished can go on."""
    from .. import execution

    if restart:
        raise InputError("--restart starts anew and --resume goes on; give one of them")
    for job in waiting:
        if not execution.can_resume(job):
            raise InputError(
                f"{job.folder}: no checkpoint to go on from; leave --resume out to start it"
            )


def _do(waiting: list[Job], most: int | None, *, show: bool) -> None:
    from .. import execution

    bars = SeedBars(waiting, show=show)
    try:
        with bars:
            execution.run_in_processes(waiting, bars.on_event, max_parallel=most)
    except KeyboardInterrupt:
        done = sum(job.code == 0 for job in waiting)
        kept = [str(job.folder) for job in waiting if job.code != 0 and job.folder.exists()]
        print_stderr(
            f"interrupted; {done} of {len(waiting)} seeds finished. The same command goes on: it "
            "keeps what is finished and goes on with the others from their last checkpoints"
        )
        if kept:
            print_stderr(f"what was recorded so far: perdure score {kept[0]}")
        raise


def _print(done: list[Job], notes: list[str], *, json: bool) -> None:
    found: list[Summary] = []
    for job in done:
        source = read_input(str(job.folder))
        found.append(source.summary())
    both: Summary | RunsSummary = found[0] if len(found) == 1 else summary_of_runs(found)
    folders = [str(job.folder) for job in done]
    deviations = open_run(done[0].folder).description["config"].get("deviations", [])
    if json:
        plain = {
            "runs": folders, "notes": notes, "deviations": deviations, "summary": both.as_dict()
        }  # fmt: skip
        print_json(plain)
        return
    seeds = "1 seed" if len(done) == 1 else f"mean of {len(done)} seeds"
    first = done[0].config
    print_lines(f"{first.scenario}, {first.strategy}, {first.setting}-incremental, {seeds}")
    print_lines(_in_words(first), "")
    kept = make_task_table(both)
    if len(kept.header) > 1:
        kept.show(sys.stdout)
        print_lines()
    make_headline_table(
        both, names=not sys.stdout.isatty() or get_terminal_size().columns >= 90
    ).show(sys.stdout)
    print_lines(f"intervals: over {'test examples' if len(done) == 1 else 'seeds'}")
    for line in _too_sparse(done[0]):
        print_lines(line)
    if deviations:
        print_lines("", "not as published:", *(f"  {each}" for each in deviations))
    print_lines("", "record:", *(f"  {each}" for each in folders))
    print_lines(f"everything: perdure score {' '.join(folders)}")


def _in_words(run: RunConfig) -> str:
    """Return how a run is trained, in one line."""
    long = f"{run.epochs} epochs" if run.iterations is None else f"{run.iterations} iterations"
    rates = run.optimizer_options
    parts = [
        run.model,
        f"{run.optimizer} lr {rates['lr']:g}",
        f"batch {run.batch}",
        f"{long} a task",
    ]
    parts += [f"{name} {value}" for name, value in run.options.items()]
    parts += [f"order {run.order}"] if run.order is not None else []
    parts += [f"images {run.image_size}x{run.image_size}"] if run.image_size else []
    parts += ["unseen classes masked"] if run.mask_unseen else []
    parts += [f"boundaries {run.boundaries} ({run.blur:g})"] if run.boundaries != "sharp" else []
    parts += [f"patience {run.patience}"] if run.patience else []
    return ", ".join(parts)


def _too_sparse(job: Job) -> list[str]:
    """Return a warning where no task was tested on the way."""
    points = open_run(job.folder).points
    ends = [0, *(last for _, last in points.spans())] if points is not None else []
    shortest = min((b - a for a, b in pairwise(ends)), default=job.config.every)
    if shortest >= job.config.every:
        return []
    said = f"a task has {shortest} iterations and every {job.config.every}th is tested"
    return [f"{said}: what was lost on the way is not seen; give a smaller --every"]
