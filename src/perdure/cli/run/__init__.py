"""`perdure run`: trains a strategy on a scenario and prints the metrics."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from msgspec import to_builtins

from ...record import InputError
from ...scenarios import SCENARIOS
from ...strategies import STRATEGIES, resolve_strategy
from .._options import (
    Flag,
    PositiveInt,
    Seeds,
    TextFormat,
    require_training,
)
from .._output import print_json, print_stderr, render_all, render_options
from .._progress import SeedProgressView
from ..reference.names import ScenarioName, StrategyName
from .options import EvaluationOptions, StreamOptions, TrainingOptions
from .output import print_failures, print_plan, print_result

__all__ = ["run"]


STREAM, TRAINING, EVALUATION = StreamOptions(), TrainingOptions(), EvaluationOptions()


def run(
    scenario: ScenarioName = "split-digits",
    strategy: StrategyName = "replay",
    *,
    seeds: Seeds = 3,
    orders: PositiveInt | None = None,
    set_: Annotated[list[str] | None, Parameter("--set", negative="", metavar="NAME=VALUE")] = None,
    stream: StreamOptions = STREAM,
    training: TrainingOptions = TRAINING,
    evaluation: EvaluationOptions = EVALUATION,
    jobs: PositiveInt | None = None,
    seeds_together: Literal["auto", "yes", "no"] = "auto",
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
    last checkpoint and ends with the same weights, bit for bit. Options without a default below
    (setting, model, optimizer, epochs, batch, hyperparameters) default to the values published for
    the scenario; `--dry-run --format json` prints them.

    Example: `perdure run split-mnist replay --seeds 5 --epochs 2 --lr 0.05`

    Args:
        scenario: Name of the scenario, see `perdure list scenarios`; or your own data: a folder of
            images (a folder per class, or train/ and test/ of such), an .npz or .parquet file, or
            `module:function` of your own that returns a scenario.
        strategy: Name of the strategy, see `perdure list strategies`, or `module:Class` of your
            own.
        seeds: Number of seeds (5 means the seeds 0 to 4), or a list of seeds such as 0,3,5.
        orders: Number of task orders, drawn at random; each is run with every seed. The table then
            says how much the metrics vary over orders and how much over seeds.
        set_: Set a hyperparameter of the strategy, the optimizer or the model, for example
            `--set lr=.01 --set alpha=.3`; `perdure explain STRATEGY` lists those of a strategy.
        stream: Options of the stream of tasks.
        training: Options of the training loop.
        evaluation: Options of the evaluation during training.
        jobs: Number of seeds to run in parallel processes. Defaults to what the CPU cores allow.
        seeds_together: Train all seeds in turns in one process, which pays for start-up and data
            once: `auto` does on a CUDA device, for strategies whose steps can be captured in CUDA
            graphs.
        store: Folder in which runs are stored.
        restart: Restart every seed from scratch, finished or not; earlier results are replaced.
            (`perdure study run --restart` keeps finished runs.)
        resume: Do not start new runs: only resume interrupted ones, and fail if one cannot be
            resumed. (By default, `run` does both.)
        force: Resume even if the data or software versions have changed. The result may then not
            be bit-identical.
        checkpoint_every: Seconds between checkpoints. A checkpoint is also written at the end of
            each task.
        dry_run: Print what would run, and where it would be stored, without running it; with
            `--format json`, the complete configuration of each run.
        format_: Output format.
    """
    strategy = _resolve_names(scenario, strategy)
    from ...api.run_notes import note_own_data
    from ...api.runs import make_configs
    from ...api.runs import run as run_seeds

    options = asdict(stream) | asdict(training) | asdict(evaluation)
    options["settings"] = _parse_settings(set_)
    if dry_run:
        configs = make_configs(scenario, strategy, seeds=seeds, orders=orders, **options)
        print_stderr(*note_own_data(configs[0]))
        if format_ == "json":
            print_json([{"folder": str(store / c.folder), **to_builtins(c)} for c in configs])
        else:
            print_plan(configs, store)
        return 0
    require_training()
    with SeedProgressView(show=format_ != "json") as progress:
        result = run_seeds(
            scenario, strategy, seeds=seeds, orders=orders, store=store, jobs=jobs,
            seeds_together=seeds_together, restart=restart, resume=resume, force=force,
            checkpoint_every=checkpoint_every,
            on_plan=progress.on_plan, on_event=progress.on_event, **options,
        )  # fmt: skip
    if result.summary is not None:
        if format_ == "json":
            render_all(result.summary)
            print_json(
                {
                    "runs": [str(folder) for folder in result.folders],
                    "notes": [render_options(note) for note in result.notes],
                    "deviations": result.deviations,
                    "summary": result.summary.to_dict(),
                }
            )
        else:
            print_result(result, result.summary)
    print_failures(result.failed)
    return max((2 if job.code == 2 else 1 for job in result.failed), default=0)


def _resolve_names(scenario: str, strategy: str) -> str:
    """Return the strategy that a name stands for; raise if it is where the scenario belongs."""
    taken = resolve_strategy(scenario)
    if scenario not in SCENARIOS and taken in STRATEGIES and not Path(scenario).exists():
        if strategy in SCENARIOS or Path(strategy).exists():
            hint = f"`perdure run {strategy} {taken}`"
        else:
            hint = (
                f"`perdure run {next(iter(SCENARIOS))} {taken}` trains it on digits; "
                "`perdure list scenarios` lists the others"
            )
        raise InputError(f"{scenario!r:.60} is a strategy, and the scenario comes first: {hint}")
    taken = resolve_strategy(strategy)
    if taken != strategy:
        print_stderr(f"note: {strategy} means {taken}")
    return taken


def _parse_settings(pairs: list[str] | None) -> dict[str, str]:
    settings: dict[str, str] = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not (name.strip() and equals and value.strip()):
            raise InputError(f"--set has {pair!r:.40}, expected NAME=VALUE like lr=.01")
        if name.strip() in settings:
            raise InputError(f"--set has {name.strip()!r:.40} twice, expected each name once")
        settings[name.strip()] = value.strip()
    return settings
