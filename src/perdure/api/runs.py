"""Training in one call: a strategy on a scenario, for several seeds, with metrics at the end."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict

from ..metrics import summary_of_runs
from ..record import InputError, open_run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Unpack

    from ..execution import Job, RunEvent
    from ..metrics import RunsSummary, Summary
    from ..record import Run
    from ..scenarios.scenario import Provenance
    from ..training import RunConfig

__all__ = ["ConfigOptions", "RunPlan", "RunResult", "make_configs", "run"]


class ConfigOptions(TypedDict, total=False):
    """Options of a run; those that are not set default to the values published for the scenario.

    Attributes:
        settings: Hyperparameters of the strategy, the optimizer and the model by name.
        model: Name of the network, or "module:factory" of your own.
        optimizer: "sgd" (with momentum 0.9), "adam" or "adamw".
        lr: Learning rate, as in `settings`.
        schedule: How the learning rate changes in each task: "constant", "cosine" or "step".
        epochs: Number of epochs per task.
        iterations: Number of iterations per task, instead of epochs.
        online: Train for a single epoch per task.
        batch: Number of new examples per iteration.
        setting: What is incremental: "class", "task" or "domain".
        mask_unseen: Mask the outputs of classes that have not been seen yet.
        order: Order of the classes: a seed to shuffle them, or all classes.
        image_size: Height and width of the images of m2i and i2m.
        boundaries: Task boundaries: "sharp", "blurred" or "none".
        blur: Fraction of examples that blurred tasks share, or by which tasks overlap.
        patience: Number of epochs without a better score after which a task stops.
        early_stopping_split: Fraction of each task's training data held out for early stopping.
        validation_split: Fraction of the training data to evaluate on instead of the test set.
        every: Number of iterations between evaluations.
        subset: Number of test examples per task in each evaluation; None for all.
        resample: Draw a new subset for every evaluation.
        unseen: Also evaluate tasks that have not been learned yet.
        per_example: Record which examples were classified correctly.
        gradients: Number of iterations between records of the gradient norms.
        threads: Number of CPU threads per run.
        device: "cpu", "cuda", "cuda:1", or "auto".
    """

    settings: Mapping[str, object]
    model: str | None
    optimizer: Literal["sgd", "adam", "adamw"] | None
    lr: float | None
    schedule: Literal["constant", "cosine", "step"]
    epochs: int | None
    iterations: int | None
    online: bool
    batch: int | None
    setting: Literal["class", "task", "domain"] | None
    mask_unseen: bool
    order: int | Sequence[int] | None
    image_size: int | None
    boundaries: Literal["sharp", "blurred", "none"]
    blur: float
    patience: int | None
    early_stopping_split: float
    validation_split: float
    every: int
    subset: int | None
    resample: bool
    unseen: bool
    per_example: bool
    gradients: int | None
    threads: int
    device: str


class RunPlan(NamedTuple):
    """What `run` is about to do: finished runs, runs to do, and what the user should know."""

    finished: list[Job]
    waiting: list[Job]
    notes: list[str]


class RunResult(NamedTuple):
    """What `run` returns.

    Attributes:
        summary: Metrics of the run, or means over seeds; None if no seed has finished.
        folders: Run folder of each finished seed.
        configs: Config of each finished seed.
        failed: Jobs that failed, with their errors.
        notes: What happened on the way, such as finished runs that were not run again.
        deviations: How the runs deviate from what was published.
        warnings: What limits how far the metrics can be trusted.
    """

    summary: Summary | RunsSummary | None
    folders: list[Path]
    configs: list[RunConfig]
    failed: list[Job]
    notes: list[str]
    deviations: list[str]
    warnings: list[str]


def run(
    scenario: str = "split-digits",
    strategy: str = "replay",
    *,
    seeds: int | Sequence[int] = 3,
    store: str | Path = "runs",
    jobs: int | None = None,
    restart: bool = False,
    resume: bool = False,
    force: bool = False,
    checkpoint_every: float = 120.0,
    on_plan: Callable[[RunPlan], None] | None = None,
    on_event: Callable[[Job, RunEvent], None] | None = None,
    **options: Unpack[ConfigOptions],
) -> RunResult:
    """Return the metrics and folders of a strategy trained on a scenario with several seeds.

    A seed that is already finished in the store is not run again; one that was interrupted resumes
    from its last checkpoint.

    Args:
        scenario: One of `perdure.scenarios.SCENARIOS`.
        strategy: One of `perdure.strategies.STRATEGIES`, or "module:Class" of your own.
        seeds: Number of seeds, or a list of seeds.
        store: Folder in which runs are stored.
        jobs: Number of seeds to run in parallel; None for what the CPU cores allow.
        restart: Restart every seed from scratch, finished or not.
        resume: Only resume interrupted runs; raise if there is nothing to resume.
        force: Resume even if the data or software versions have changed.
        checkpoint_every: Seconds between checkpoints.
        on_plan: Called once before training.
        on_event: Called with every event of every run.
        options: The options of a run, see `ConfigOptions`.

    Example:
        >>> import tempfile
        >>> result = run("split-digits", "naive", seeds=1, iterations=2, store=tempfile.mkdtemp())
        >>> "acc" in result.summary.metrics, len(result.folders)
        (True, 1)
    """
    from .. import execution, training

    if not checkpoint_every >= 0:
        raise InputError(f"`checkpoint_every=` is {checkpoint_every:g}, expected 0 or more seconds")
    configs = make_configs(scenario, strategy, seeds=seeds, **options)
    store = Path(store)
    finished, waiting = execution.plan_jobs(configs, store, restart=restart)
    for job in waiting:
        job.force, job.checkpoint_every = force, checkpoint_every
    if resume:
        _check_resumable(waiting, restart=restart)
    provenance = training.load_provenance(scenario, fetch=bool(waiting))
    notes = [
        *(f"{strategy}: {name}" for name in {config.strategy for config in configs} - {strategy}),
        *_notes_on_changes(finished, provenance),
        *_notes_on_last_run(waiting, provenance, store),
        *_notes_on_progress(finished, waiting),
    ]
    if on_plan is not None:
        on_plan(RunPlan(finished, waiting, notes))
    if waiting:
        execution.run_in_processes(waiting, on_event or _ignore, max_parallel=jobs)
    notes += [f"seed {job.config.seed}: {note}" for job in waiting for note in job.notes]
    done = [*finished, *(job for job in waiting if job.error is None)]
    failed = [job for job in waiting if job.error is not None]
    return _make_result(sorted(done, key=lambda job: job.config.seed), failed, notes)


def make_configs(
    scenario: str = "split-digits",
    strategy: str = "replay",
    *,
    seeds: int | Sequence[int] = 3,
    **options: Unpack[ConfigOptions],
) -> list[RunConfig]:
    """Return the config of each seed, with every option that is not set at its default.

    Example:
        >>> [config.seed for config in make_configs("split-digits", "naive", seeds=2)]
        [0, 1]
    """
    from .. import training

    chosen = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if not chosen or len(set(chosen)) < len(chosen):
        raise InputError(f"`seeds=` is {seeds!r:.40}, expected a number from 1, or each seed once")
    online = options.pop("online", False)
    device = training.resolve_device(options.pop("device", "auto"))
    if sum((options.get("epochs") is not None, options.get("iterations") is not None, online)) > 1:
        raise InputError("`epochs=`, `iterations=` and `online=True` exclude each other; give one")
    if online:
        options["epochs"] = 1
    if (lr := options.pop("lr", None)) is not None:
        if "lr" in (options.get("settings") or {}):
            raise InputError("`lr=` and `settings={'lr': …}` set the same; give one")
        options["settings"] = {**(options.get("settings") or {}), "lr": lr}
    return [
        training.make_config(scenario, strategy, seed=seed, device=device, **options)
        for seed in chosen
    ]


def _ignore(job: Job, event: RunEvent) -> None:
    pass


def _check_resumable(waiting: Sequence[Job], *, restart: bool) -> None:
    """Raise unless every run that is not finished can resume."""
    from ..execution import can_resume

    if restart:
        raise InputError("`restart=True` and `resume=True` exclude each other; give one")
    for job in waiting:
        if not can_resume(job):
            raise InputError(
                f"{job.folder}: no checkpoint to resume from; leave out `resume=True` to start it"
            )


def _notes_on_changes(finished: Sequence[Job], provenance: Mapping[str, Provenance]) -> list[str]:
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


def _notes_on_last_run(
    waiting: Sequence[Job], provenance: Mapping[str, Provenance], store: Path
) -> list[str]:
    from .. import execution, training

    last = execution.find_last_run(waiting[0].config.scenario, store) if waiting else None
    if last is None or not (changes := training.find_data_changes(last, provenance)):
        return []
    return [f"the data differs from that of {last} ({'; '.join(changes)})"]


def _notes_on_progress(finished: Sequence[Job], waiting: Sequence[Job]) -> list[str]:
    from ..execution import can_resume

    notes = []
    if finished and not waiting:
        store = finished[0].folder.parent
        notes.append(f"finished before, read from {store}; use `restart=True` to run again")
    elif finished:
        notes.append(f"finished before: seed {_seeds(finished)}")
    begun = [job for job in waiting if job.folder.exists()]
    if restarted := [job for job in begun if not can_resume(job)]:
        notes.append(f"starting from scratch: seed {_seeds(restarted)}")
    if resumed := [job for job in begun if can_resume(job)]:
        notes.append(f"resuming from a checkpoint: seed {_seeds(resumed)}")
    return notes


def _seeds(jobs: Sequence[Job]) -> str:
    return ", ".join(str(job.config.seed) for job in jobs)


def _make_result(done: Sequence[Job], failed: list[Job], notes: list[str]) -> RunResult:
    summary: Summary | RunsSummary | None = None
    deviations: list[str] = []
    warnings: list[str] = []
    if done:
        records = [open_run(job.folder) for job in done]
        summaries = [record.summary() for record in records]
        summary = summaries[0] if len(summaries) == 1 else summary_of_runs(summaries)
        deviations = records[0].metadata.deviations
        warnings = _warn_if_sparse(records[0], done[0].config.every)
    folders = [job.folder for job in done]
    return RunResult(
        summary, folders, [job.config for job in done], failed, notes, deviations, warnings
    )


def _warn_if_sparse(record: Run, every: int) -> list[str]:
    """Return a warning if a task was not evaluated while it was learned."""
    ends = [0, *(last for _, last in record.points.spans())] if record.points is not None else []
    shortest = min((end - start for start, end in pairwise(ends)), default=every)
    if shortest >= every:
        return []
    reason = f"a task has {shortest} iterations but is evaluated every {every} iterations"
    return [f"{reason}, so drops within a task are not seen; use a smaller `every=`"]
