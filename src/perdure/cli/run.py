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
from ._options import require_training, whole_of
from ._output import Flag, print_json, say, tell
from ._progress import SeedBars

if TYPE_CHECKING:
    from ..execution.jobs import Job
    from ..metrics import RunsSummary, Summary
    from ..training.config import RunConfig

__all__ = ["run"]

MAX_SEEDS = 100_000
Pairs = Annotated[list[str] | None, Parameter("--set", negative="")]


def run(
    scenario: str = "split-digits",
    strategy: str = "replay",
    *,
    model: str | None = None,
    seeds: str = "3",
    every: str = "1",
    subset: str = "1000",
    subset_redraw: Flag = False,
    unseen: Flag = False,
    hits: Annotated[bool, Parameter(negative="--no-hits")] = True,
    gradients: str | None = None,
    epochs: str | None = None,
    iterations: str | None = None,
    online: Flag = False,
    batch: str | None = None,
    optimizer: Literal["sgd", "adam"] | None = None,
    setting: Literal["class", "task", "domain"] | None = None,
    set_: Pairs = None,
    mask: Flag = False,
    order: str | None = None,
    image_size: str | None = None,
    boundaries: Literal["sharp", "blurred", "none"] = "sharp",
    blur: float = 0.1,
    patience: str | None = None,
    held_out: float = 0.1,
    validate: float = 0.0,
    threads: str = "1",
    device: str = "auto",
    jobs: str | None = None,
    store: Path = Path("runs"),
    fresh: Flag = False,
    resume: Flag = False,
    even_if_changed: Flag = False,
    checkpoint_every: float = 120.0,
    dry_run: Flag = False,
    json: Flag = False,
) -> int:
    """Train a strategy on a scenario, test it while it learns, and print what was kept and lost.

    With no arguments: split-digits, replay, three seeds. A seed that is finished in the store is
    not run again, and one that was stopped goes on from its last checkpoint, to the same bits.
    What is not given is as the scenario's paper has it.

    Args:
        scenario: `perdure list scenarios` names them.
        strategy: `perdure list strategies` names them, or module:Class of your own.
        model: `perdure list models` names them, or module:factory of your own.
        seeds: how many, or which ones: 0,3,5.
        every: test after every so many iterations.
        subset: examples of each task tested each time, or all; whole sets at task ends.
        subset_redraw: draw the subset anew at every test, which biases minima.
        unseen: also test tasks that were not learned yet.
        hits: record which examples were right, for intervals.
        gradients: record the gradient norms of both loss terms every so many iterations.
        epochs: passes over each task.
        iterations: iterations of each task, instead of epochs.
        online: one pass.
        batch: new examples in an iteration.
        optimizer: sgd (with momentum .9) or adam.
        setting: what is incremental: classes (one head), tasks (a head each), or domains.
        set_: a hyperparameter of strategy, optimizer or model: --set lr=.01 --set alpha=.3
        mask: hide the outputs of classes that were not seen yet.
        order: of the classes: a seed to shuffle them, or all of them: 3,1,4,…
        image_size: height and width of m2i and i2m, for small trials.
        boundaries: sharp tasks, tasks that share some examples, or a stream without any.
        blur: the share of examples that blurred tasks share, or how far a stream's tasks overlap.
        patience: stop a task after so many epochs without a better score on a held-out part.
        held_out: that part of the task's training examples.
        validate: test on this share of the training data instead of the test set, to choose by it.
        threads: of each run.
        device: cpu, cuda, cuda:1, or auto.
        jobs: seeds side by side; as many as the cores hold if not given.
        store: folder of the runs.
        fresh: run again what is finished, and from its start what is not.
        resume: refuse to start anything: only go on with what was stopped.
        even_if_changed: go on with other data or versions than before; other bits may come out.
        checkpoint_every: seconds between two checkpoints; there is one at the end of each task too.
        dry_run: print every choice, given or by default, and run nothing.
        json: print JSON.
    """
    if sum((epochs is not None, iterations is not None, online)) > 1:
        raise InputError("--epochs, --iterations and --online exclude each other; give one")
    settings = _settings(set_)
    numbers = _seeds(seeds)
    counts: dict[str, Any] = {
        name: None if text is None else whole_of(text, f"--{name.replace('_', '-')}", 1)
        for name, text in (
            ("epochs", "1" if online else epochs), ("iterations", iterations), ("batch", batch),
            ("every", every), ("gradients", gradients), ("patience", patience),
            ("threads", threads), ("image_size", image_size),
            ("subset", None if subset == "all" else subset),
        )
    }  # fmt: skip
    most = None if jobs is None else whole_of(jobs, "--jobs", 1)
    require_training()
    from .. import execution, training

    runs = [
        training.make_config(
            scenario, strategy, settings=settings, model=model, optimizer=optimizer,
            setting=setting, seed=seed, mask_unseen=mask, order=_order(order),
            resample=subset_redraw, unseen=unseen, per_example=hits, boundaries=boundaries,
            blur=blur, early_stopping_split=held_out, validation_split=validate,
            device=training.device_of(device), **counts,
        )
        for seed in numbers
    ]  # fmt: skip
    if dry_run:
        shown = [{"folder": str(store / each.folder), **to_builtins(each)} for each in runs]
        print_json(shown)
        return 0
    if not checkpoint_every >= 0:
        raise InputError(f"--checkpoint-every is {checkpoint_every:g}, expected 0 or more seconds")
    finished, waiting = execution.jobs_for(runs, store, restart=fresh)
    for job in waiting:
        job.force, job.checkpoint_every = even_if_changed, checkpoint_every
    if resume:
        _insist(waiting, fresh=fresh)
    data = training.data_of(scenario, fetch=bool(waiting))
    notes = _notes(finished, waiting, data, store)
    if not json:
        for note in notes:
            tell(note)
    if waiting:
        _do(waiting, most, show=not json)
    notes += [f"seed {job.config.seed}: {note}" for job in waiting for note in job.notes]
    done = [*finished, *(job for job in waiting if job.error is None)]
    failed = [job for job in waiting if job.error is not None]
    if done:
        _print(sorted(done, key=lambda job: job.config.seed), notes, json=json)
    for error in dict.fromkeys(job.error for job in failed):  # seeds often fail alike: said once
        alike = [job for job in failed if job.error == error]
        tell(*alike[0].detail.splitlines(), start="")
        tell(f"seed {', '.join(str(job.config.seed) for job in alike)} failed: {error}")
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


def _seeds(text: str) -> list[int]:
    """Return the seeds 0 to N - 1, or those listed."""
    if "," not in text:
        count = whole_of(text, "--seeds", 1)
        if count > MAX_SEEDS:
            raise InputError(f"--seeds is {text:.40}, expected at most {MAX_SEEDS}")
        return list(range(count))
    seeds = [whole_of(part, "--seeds", 0) for part in text.split(",") if part.strip()]
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError(f"--seeds is {text!r:.40}, expected each seed once")
    return seeds


def _order(text: str | None) -> int | list[int] | None:
    if text is None:
        return None
    if "," not in text:
        return whole_of(text, "--order", 0)
    return [whole_of(part, "--order", 0) for part in text.split(",")]


def _notes(finished: list[Job], waiting: list[Job], data: Any, store: Path) -> list[str]:
    from .. import execution, training

    notes = []
    for job in finished:
        if changed := training.data_changed(job.folder, data):
            notes.append(
                f"{job.folder}: the data has changed since ({'; '.join(changed)}); this is the "
                "old result, --fresh runs it anew"
            )
        if others := training.versions_changed(job.folder):
            notes.append(
                f"{job.folder}: made with {', '.join(others)}; this is the old result, --fresh "
                "runs it anew"
            )
    last = execution.last_of(waiting[0].config.scenario, store) if waiting else None
    if last is not None and (changed := training.data_changed(last, data)):
        notes.append(f"the data is not that of {last} ({'; '.join(changed)})")
    if finished and not waiting:
        notes.append(f"finished before, read from {finished[0].folder.parent}; --fresh runs anew")
    elif finished:
        known = ", ".join(str(job.config.seed) for job in finished)
        notes.append(f"finished before: seed {known}")
    stopped = [job for job in waiting if job.folder.exists()]
    for said, jobs in (
        ("starting again", [job for job in stopped if not execution.can_go_on(job)]),
        ("going on from a checkpoint", [job for job in stopped if execution.can_go_on(job)]),
    ):
        if jobs:
            notes.append(f"{said}: seed {', '.join(str(job.config.seed) for job in jobs)}")
    return notes


def _insist(waiting: list[Job], *, fresh: bool) -> None:
    """Raise unless every run that is not finished can go on."""
    from .. import execution

    if fresh:
        raise InputError("--fresh starts anew and --resume goes on; give one of them")
    for job in waiting:
        if not execution.can_go_on(job):
            raise InputError(
                f"{job.folder}: no checkpoint to go on from; leave --resume out to start it"
            )


def _do(waiting: list[Job], most: int | None, *, show: bool) -> None:
    from .. import execution

    bars = SeedBars(waiting, show=show)
    try:
        with bars:
            execution.run_in_processes(waiting, bars.told, most=most)
    except KeyboardInterrupt:
        done = sum(job.code == 0 for job in waiting)
        kept = [str(job.folder) for job in waiting if job.code != 0 and job.folder.exists()]
        tell(
            f"interrupted; {done} of {len(waiting)} seeds finished. The same command goes on: it "
            "keeps what is finished and goes on with the others from their last checkpoints"
        )
        if kept:
            tell(f"what was recorded so far: perdure score {kept[0]}")
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
    say(f"{first.scenario}, {first.strategy}, {first.setting}-incremental, {seeds}")
    say(_in_words(first), "")
    kept = make_task_table(both)
    if len(kept.header) > 1:
        kept.show(sys.stdout)
        say()
    make_headline_table(
        both, names=not sys.stdout.isatty() or get_terminal_size().columns >= 90
    ).show(sys.stdout)
    say(f"intervals: over {'test examples' if len(done) == 1 else 'seeds'}")
    for line in _too_sparse(done[0]):
        say(line)
    if deviations:
        say("", "not as published:", *(f"  {each}" for each in deviations))
    say("", "record:", *(f"  {each}" for each in folders))
    say(f"everything: perdure score {' '.join(folders)}")


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
