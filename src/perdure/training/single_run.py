"""One run: from its config to its record."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar

import torch

from ..evaluation.costs.readings import reset_peak_memory
from ..record import RunFolder
from .changes import check_resumable
from .checkpoint import Checkpointer, load_resumption
from .config import CHECKPOINT_SECONDS
from .loop import count_steps, list_phases, train
from .monitoring import EarlyStopping
from .setup import build_evaluator, build_learner, load_scenario, prepare_scenario

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Generator, Iterator
    from typing import Unpack

    from ..evaluation.live import Live
    from ..models import Network
    from ..scenarios import Scenario
    from ..strategies import Strategy
    from .config import RunConfig

__all__ = ["deterministic_cudnn", "exhaust", "hash_weights", "run", "run_stepwise"]

T = TypeVar("T")


def run(
    config: RunConfig, folder: str | os.PathLike[str], **options: Unpack[RunArguments]
) -> Strategy:
    """Return the learner of a finished run, whose record is in `folder`.

    PyTorch's global generator is seeded, and its number of threads set. The options are those of
    `run_stepwise`.

    Example:
        >>> import tempfile
        >>> from perdure.training import make_config
        >>> short = make_config("split-digits", "naive", epochs=1, every=20)
        >>> folder = tempfile.mkdtemp() + "/run"
        >>> strategy = run(short, folder)
        >>> import perdure
        >>> perdure.open_run(folder).finished
        True
    """
    with deterministic_cudnn():
        return exhaust(run_stepwise(config, folder, **options))


class RunArguments(TypedDict, total=False):
    """The options of `run`."""

    overwrite: bool | Literal["unfinished"]
    resume: bool
    force: bool
    scenario: Scenario | None
    on_progress: Callable[[float, Live], None] | None
    checkpoint_every: float
    on_checkpoint: Callable[[], None] | None
    together: int


def run_stepwise(
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
    together: int = 1,
) -> Generator[int, None, Strategy]:
    """Yield how many training steps of a run were taken, one or several; return the learner.

    Args:
        config: What to run.
        folder: Of the record.
        overwrite: Replace an existing record; "unfinished" replaces no finished one.
        resume: Resume from the checkpoint of a run that was stopped; without one, start.
        force: Resume even if data or versions have changed; the result may not be bit-identical.
        scenario: Your own scenario; the config then gives the rest.
        on_progress: Called after every step with the fraction that is done and the live numbers.
        checkpoint_every: Seconds between two checkpoints; tasks also end with one.
        on_checkpoint: Called after each checkpoint.
        together: How many runs take turns in this process.
    """
    torch.set_num_threads(config.threads)
    reset_peak_memory(config.device)
    scenario = prepare_scenario(config, scenario or load_scenario(config))
    strategy, plan = build_learner(config, scenario)
    stopping, record = EarlyStopping(plan.patience), RunFolder(folder)
    checkpoint = record.checkpoint_path
    start, state, changes = None, None, list[str]()
    if resume and record.has_checkpoint() and not record.is_finished():
        changes = check_resumable(record.path, config, scenario.data, force=force)
        start, state = load_resumption(checkpoint, strategy, stopping)
    if resume and not overwrite:
        overwrite = "unfinished"
    with build_evaluator(
        config, scenario, folder, strategy, overwrite=overwrite, resume=state
    ) as evaluator:
        if together > 1:
            evaluator.note(
                f"{together} seeds were trained together in one process: seconds and peak memory "
                "are those of all of them"
            )
        if changes and start is not None:
            evaluator.warn(f"resumed after step {start.step} with changes: {'; '.join(changes)}")
        checkpointer = Checkpointer(
            checkpoint, strategy, evaluator, stopping, every=checkpoint_every,
            on_checkpoint=on_checkpoint,
        )  # fmt: skip
        phases, taken = len(list_phases(scenario, plan)), start.step if start is not None else 0
        for position in train(
            scenario, strategy, plan, evaluator, gradients=config.gradients, start=start,
            stopping=stopping, checkpointer=checkpointer,
        ):  # fmt: skip
            if on_progress is not None and position.rows is not None:
                fraction = min(position.done / count_steps(position.rows, plan), 1.0)
                on_progress((position.phase + fraction) / phases, evaluator.live)
            if not evaluator.costs.counts_step:  # all operations in this process are being counted
                yield position.step - taken
                taken = position.step
        results: dict[str, Any] = {"weights": hash_weights(strategy.model)}
        if plan.patience:
            results["held_out_accuracy"] = stopping.held_out_accuracy
        evaluator.close(**results)
    checkpointer.remove()
    return strategy


def exhaust(steps: Generator[object, None, T]) -> T:
    """Take all steps; return what the generator returns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def hash_weights(model: Network) -> str:
    """Return the SHA-256 of a model's state: equal for the same bits."""
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


@contextmanager
def deterministic_cudnn() -> Iterator[None]:
    """Have cuDNN choose algorithms that give the same bits every time."""
    before = torch.backends.cudnn.deterministic
    torch.backends.cudnn.deterministic = True
    try:
        yield
    finally:
        torch.backends.cudnn.deterministic = before
