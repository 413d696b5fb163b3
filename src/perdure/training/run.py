"""One run: from its config to its record."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import torch

from ..data import load
from ..data.examples import Examples
from ..evaluation import EvalTask, Evaluator, Record, Subset
from ..evaluation.costs.memory import reset_peak_memory
from ..models import build
from ..record import InputError, RunFolder
from ..scenarios import (
    blur_boundaries,
    find_scenario,
    get_provenance,
    hold_out_validation,
    make_scenario,
)
from ..strategies import find_strategy
from .changes import check_resumable
from .checkpoint import has_checkpoint, load_checkpoint, load_record_state
from .checkpointer import CHECKPOINT_SECONDS, Checkpointer
from .early_stopping import EarlyStopping
from .loop import TrainingPlan, count_steps, list_phases, train

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from torch import Tensor

    from ..evaluation.live import Live
    from ..models import Network
    from ..scenarios import Scenario, Setting
    from ..strategies import Rows, Strategy
    from .config import RunConfig

__all__ = [
    "build_evaluator",
    "build_learner",
    "hash_weights",
    "load_provenance",
    "load_scenario",
    "prepare_scenario",
    "resolve_device",
    "run",
]


def load_provenance(scenario: str, *, fetch: bool = True) -> dict[str, Any]:
    """Return which bytes a scenario is made of, by dataset.

    They are fetched and decoded if they were not yet; without `fetch` those that are not at hand
    are left out.
    """
    found = []
    for name in find_scenario(scenario).data:
        try:
            found.append(load(name, fetch=fetch))
        except InputError:
            if fetch:
                raise
    return get_provenance(*found)


def resolve_device(name: str) -> str:
    """Return the device that is meant, or raise where there is no such one.

    Example:
        >>> resolve_device("cpu")
        'cpu'
    """
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f"device is {name!r:.40}, expected cpu, cuda, cuda:1 or auto") from None
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        have = torch.cuda.device_count()
        raise InputError(
            f"device is {name!r}, and {have} CUDA devices are at hand; try --device cpu"
        )
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"device is {name!r:.40}, expected cpu, cuda, cuda:1 or auto")
    return name


def run(
    config: RunConfig,
    folder: str | os.PathLike[str],
    *,
    overwrite: bool | Literal["unfinished"] = False,
    resume: bool = False,
    force: bool = False,
    scenario: Scenario | None = None,
    on_progress: Callable[[float, Live], None] | None = None,
    checkpoint_every: float = CHECKPOINT_SECONDS,
    on_checkpoint: Callable[[], None] | None = None,
) -> Strategy:
    """Return the learner of a finished run, whose record is in `folder`.

    PyTorch's global generator is seeded for it, and its number of threads set.

    Args:
        config: what to run.
        folder: of the record.
        overwrite: replace a record that is there; "unfinished" replaces no finished one.
        resume: go on from the checkpoint of a run that was stopped, or start where there is none.
        force: go on even if data or versions are others than before: other bits may come out.
        scenario: one of your own; the config then only gives the set-up.
        on_progress: told after every step which share is done, and the live numbers.
        checkpoint_every: seconds between two checkpoints; also at the ends of tasks.
        on_checkpoint: called after each.

    Example:
        >>> import tempfile
        >>> from perdure.training import make_config
        >>> short = make_config("split-digits", "naive", epochs=1, every=20)
        >>> folder = tempfile.mkdtemp() + "/run"
        >>> learned = run(short, folder)
        >>> import perdure
        >>> perdure.open_run(folder).finished
        True
    """
    torch.set_num_threads(config.threads)
    torch.backends.cudnn.deterministic = True
    reset_peak_memory(config.device)
    scenario = prepare_scenario(config, scenario or load_scenario(config))
    strategy, plan = build_learner(config, scenario)
    stopping, saved = EarlyStopping(plan.patience), RunFolder(folder).checkpoint_path
    start, state, differ = None, None, list[str]()
    if resume and has_checkpoint(saved) and not RunFolder(folder).is_finished():
        differ = check_resumable(Path(folder), config, scenario.data, force=force)
        start, state = load_checkpoint(saved, strategy, stopping), load_record_state(saved)
    replace: bool | Literal["unfinished"] = overwrite or ("unfinished" if resume else False)
    with build_evaluator(
        config, scenario, folder, strategy, overwrite=replace, resume=state
    ) as evaluator:
        if differ and start is not None:
            what = "; ".join(differ)
            evaluator.warn(f"begun otherwise, and gone on after step {start.step}: {what}")
        checkpointer = Checkpointer(
            saved, strategy, evaluator, stopping, every=checkpoint_every, saved=on_checkpoint
        )
        count = len(list_phases(scenario, plan))
        for at in train(
            scenario, strategy, plan, evaluator, gradients=config.gradients, start=start,
            stopping=stopping, checkpointer=checkpointer,
        ):  # fmt: skip
            if on_progress is not None and at.rows is not None:
                share = at.done / count_steps(at.rows, plan)
                on_progress((at.phase + min(share, 1.0)) / count, evaluator.live)
        evaluator.close(weights=hash_weights(strategy.model))
    checkpointer.remove()
    return strategy


def hash_weights(model: Network) -> str:
    """Return the sha256 of everything in a model's state: the same for the same bits."""
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


def load_scenario(config: RunConfig) -> Scenario:
    """Return the scenario of a run, the last one again where it is the same."""
    order = config.order
    return _made(
        config.scenario,
        config.setting,
        tuple(order) if isinstance(order, list) else order,
        config.image_size,
    )


@lru_cache(maxsize=1)  # one at a time: images take memory
def _made(
    name: str, setting: Setting, order: tuple[int, ...] | int | None, size: int | None
) -> Scenario:
    return make_scenario(name, setting=setting, order=order, size=size)


def prepare_scenario(config: RunConfig, scenario: Scenario) -> Scenario:
    """Return the scenario as a run has it: without its test set, or blurred, where it says so."""
    if config.validation_split:
        scenario = hold_out_validation(scenario, config.validation_split, config.seed)
    if config.boundaries == "blurred":
        scenario = blur_boundaries(scenario, config.blur, config.seed)
    return scenario


def build_learner(config: RunConfig, scenario: Scenario) -> tuple[Strategy, TrainingPlan]:
    """Return a strategy with its network as they are before the first step, and how they learn."""
    plan = TrainingPlan(
        batch=config.batch,
        epochs=config.epochs,
        iterations=config.iterations,
        seed=config.seed,
        patience=config.patience,
        early_stopping_split=config.early_stopping_split,
        boundaries=config.boundaries != "none",
        blur=config.blur,
    )
    torch.manual_seed(config.seed)
    network = build(
        config.model,
        scenario.shape,
        scenario.outputs,
        heads=scenario.heads,
        mask_unseen=config.mask_unseen,
        **config.model_options,
    ).to(config.device)
    examples = Examples(
        *scenario.train,
        mean=scenario.mean,
        std=scenario.std,
        heads=scenario.heads is not None,
        device=config.device,
    )
    strategy = find_strategy(config.strategy)(
        network,
        _optimizer(config, network),
        examples,
        seed=config.seed,
        **config.options,
    )
    return strategy, plan


def _optimizer(config: RunConfig, network: Network) -> torch.optim.Optimizer:
    options: dict[str, Any] = dict(config.optimizer_options)
    # Fused: one pass over the weights a step.
    if config.optimizer == "adam":
        return torch.optim.Adam(network.parameters(), **options, fused=True)
    # Fused SGD fails where a weight has its first gradient after others: the next task's head.
    return torch.optim.SGD(network.parameters(), **options, fused=network.opened is None)


def build_evaluator(
    config: RunConfig,
    scenario: Scenario,
    folder: str | os.PathLike[str],
    strategy: Strategy,
    *,
    overwrite: bool | Literal["unfinished"] = False,
    resume: dict[str, Any] | None = None,
) -> Evaluator:
    """Return who tests: every task of the scenario, its images normalised once."""
    heads = scenario.heads is not None
    test = Examples(*scenario.test, mean=scenario.mean, std=scenario.std, device=config.device)
    names = [task.name for task in scenario.tasks]

    def forward(model: Network, x: Tensor, task: str) -> Tensor:
        scores: Tensor = model(x, names.index(task))
        return scores

    def data(rows: Rows) -> Callable[[], tuple[Tensor, Tensor]]:
        return lambda: test.take(rows)[:2]

    return Evaluator(
        {
            task.name: EvalTask(data(task.test), classes=task.classes if heads else None)
            for task in scenario.tasks
        },
        every=config.every,
        subset=Subset(config.subset, seed=config.seed, resample=config.resample),
        unseen=config.unseen,
        initial="all" if config.unseen else "entered",
        forward=forward if heads else None,
        record=Record(folder, overwrite=overwrite, resume=resume, per_example=config.per_example),
        # A guesser has no weights, and no operations to count.
        count_flops=any(True for _ in strategy.model.parameters()),
        progress=False,
        config={
            **msgspec.to_builtins(config),
            "scenario": scenario.name,
            "setting": scenario.setting,
            "tasks": names,
            "task_classes": {task.name: list(task.classes) for task in scenario.tasks},
            "examples": {task.name: [len(task.train), len(task.test)] for task in scenario.tasks},
            "normalised_by": {"mean": scenario.mean, "std": scenario.std},
            "data": scenario.data,
            "deviations": list(scenario.deviations),
        },
    )
