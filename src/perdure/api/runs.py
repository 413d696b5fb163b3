"""Training in one call: a strategy on a scenario, for several seeds, with metrics at the end."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec import structs

from .._display import count_of, format_block, list_some
from ..metrics import SummaryOptions, summary_of_runs
from ..record import InputError, open_run
from ..stats.schedules import ENOUGH_EVALUATIONS, describe_budget
from .recorded_runs import note_changes, note_last_run, note_own_data, note_progress
from .scores import check_seeds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Unpack

    from ..execution import Job, RunEvent
    from ..metrics import RunsSummary, Summary
    from ..record import Run
    from ..training import RunConfig
    from .options import ConfigOptions

__all__ = ["RunPlan", "RunResult", "make_configs", "run"]


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

    def __repr__(self) -> str:
        rows = [(name, list_some(getattr(self, name), 3)) for name in ("folders", "notes")]
        rows += [(name, str(len(getattr(self, name)))) for name in ("failed", "deviations")]
        title = f"RunResult of {len(self.folders)} finished runs"
        block = format_block(title, [(name, text) for name, text in rows if text not in ("", "0")])
        return block if self.summary is None else f"{block}\n{self.summary!r}"

    def to_dict(self) -> dict[str, object]:
        """Return summary, folders, notes and deviations, ready for JSON."""
        return {
            "summary": None if self.summary is None else self.summary.to_dict(),
            "folders": [str(folder) for folder in self.folders],
            "notes": self.notes,
            "deviations": self.deviations,
            "warnings": self.warnings,
        }


def run(
    scenario: str = "split-digits",
    strategy: str = "replay",
    *,
    seeds: int | Sequence[int] = 3,
    orders: int | None = None,
    store: str | Path = "runs",
    jobs: int | None = None,
    seeds_together: Literal["auto", "yes", "no"] = "auto",
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
        scenario: One of `perdure.scenarios.SCENARIOS`, the path of your own data (a folder of
            images, .npz or .parquet), or "module:function" that returns a scenario.
        strategy: One of `perdure.strategies.STRATEGIES`, or "module:Class" of your own.
        seeds: Number of seeds, or a list of seeds.
        orders: Number of task orders, drawn at random, each run with every seed; None for the
            scenario's own order.
        store: Folder in which runs are stored.
        jobs: Number of seeds to run in parallel processes; None for what the CPU cores allow.
        seeds_together: Train all seeds in turns in one process: "yes", "no", or "auto", where they
            share a CUDA device and the strategy's steps can be captured in CUDA graphs.
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

    if seeds_together not in ("auto", "yes", "no"):
        raise InputError(f"`seeds_together=` is {seeds_together!r:.40}, expected auto, yes or no")
    if seeds_together == "yes" and jobs is not None:
        raise InputError("`seeds_together='yes'` and `jobs=` exclude each other; give one")
    if not checkpoint_every >= 0:
        raise InputError(f"`checkpoint_every=` is {checkpoint_every:g}, expected 0 or more seconds")
    configs = make_configs(scenario, strategy, seeds=seeds, orders=orders, **options)
    store = Path(store)
    finished, waiting = execution.plan_jobs(configs, store, restart=restart)
    for job in waiting:
        job.force, job.checkpoint_every = force, checkpoint_every
    if resume:
        _check_resumable(waiting, restart=restart)
    provenance = training.load_provenance(configs[0], fetch=bool(waiting))
    notes = [
        *(
            f"{strategy} means {name}"
            for name in {config.strategy for config in configs} - {strategy}
        ),
        *note_own_data(configs[0]),
        *note_changes(finished, provenance),
        *note_last_run(waiting, provenance, store),
        *note_progress(finished, waiting),
    ]
    if on_plan is not None:
        on_plan(RunPlan(finished, waiting, notes))
    if waiting:
        together = seeds_together == "yes" or (
            seeds_together == "auto" and jobs is None and execution.suits_together(waiting)
        )
        if together:
            execution.run_together(waiting, on_event or _ignore)
        else:
            execution.run_in_processes(waiting, on_event or _ignore, max_parallel=jobs)
    notes += [f"{job.config.replicate}: {note}" for job in waiting for note in job.notes]
    done = [*finished, *(job for job in waiting if job.error is None)]
    failed = [job for job in waiting if job.error is not None]
    place = {config.folder: k for k, config in enumerate(configs)}
    done.sort(key=lambda job: place[job.config.folder])
    return _make_result(done, failed, notes)


def make_configs(
    scenario: str = "split-digits",
    strategy: str = "replay",
    *,
    seeds: int | Sequence[int] = 3,
    orders: int | None = None,
    **options: Unpack[ConfigOptions],
) -> list[RunConfig]:
    """Return the config of each seed in each order, with the defaults of options that are not set.

    Example:
        >>> [config.seed for config in make_configs("split-digits", "naive", seeds=2)]
        [0, 1]
    """
    from .. import training

    chosen = check_seeds(seeds)
    if "seed" in options:
        raise InputError("`seed=` is for a single run, expected a list of them in `seeds=`")
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
    for seed in chosen:
        if not 0 <= seed < 2**32:
            raise InputError(f"seed is {seed}, expected 0 or more, below 2**32")
    first = training.make_config(scenario, strategy, seed=chosen[0], device=device, **options)
    permutations = [first.task_order] if orders is None else _draw_orders(first, orders)
    return [
        structs.replace(first, seed=seed, task_order=order)
        for order in permutations
        for seed in chosen
    ]


def _draw_orders(config: RunConfig, orders: int) -> list[list[int] | None]:
    from ..scenarios import draw_task_orders
    from ..training.config import count_tasks

    if config.task_order is not None:
        raise InputError("`orders=` and `task_order=` exclude each other; give one")
    return draw_task_orders(count_tasks(config), orders)


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


def _make_result(done: Sequence[Job], failed: list[Job], notes: list[str]) -> RunResult:
    summary: Summary | RunsSummary | None = None
    deviations: list[str] = []
    warnings: list[str] = []
    if done:
        records = [open_run(job.folder) for job in done]
        options = SummaryOptions(intervals=len(done) == 1)  # those of seeds come from the seeds
        summaries = [record.summary(options) for record in records]
        replicates = [job.config.order_and_seed for job in done]
        summary = (
            summaries[0]
            if len(summaries) == 1
            else summary_of_runs(summaries, replicates=replicates)
        )
        deviations = records[0].metadata.deviations
        warnings = _warn_if_sparse(records[0], done[0].config.every) + _note_budget(records)
    folders = [job.folder for job in done]
    return RunResult(
        summary, folders, [job.config for job in done], failed, notes, deviations, warnings
    )


def _note_budget(records: Sequence[Run]) -> list[str]:
    """Return the share of the time that evaluation took, where the runs had a budget of it."""
    uses = [use for record in records if (use := record.metadata.budget) is not None]
    notes = [f"evaluation took {describe_budget(uses)}"] if uses else []
    fewest = min((use.fewest for use in uses if use.fewest is not None), default=None)
    if fewest is not None and fewest < ENOUGH_EVALUATIONS:
        notes.append(
            f"a task was evaluated only {count_of(fewest, 'time')} while it was learned, and "
            f"minima and windows (min_acc, wf10) need about {ENOUGH_EVALUATIONS}; use a larger "
            "share in `every=`, or a smaller `subset=`"
        )
    return notes


def _warn_if_sparse(record: Run, every: int | str) -> list[str]:
    """Return a warning if a task was not evaluated while it was learned."""
    if isinstance(every, str):  # the first step of a task is always evaluated
        return []
    ends = [0, *(last for _, last in record.points.spans())] if record.points is not None else []
    shortest = min((end - start for start, end in pairwise(ends)), default=every)
    if shortest >= every:
        return []
    length = count_of(shortest, "iteration")
    reason = f"a task has {length} but is evaluated every {every} iterations"
    return [f"{reason}, so drops within a task are not seen; use a smaller `every=`"]
