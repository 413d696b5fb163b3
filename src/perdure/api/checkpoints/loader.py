"""How a checkpoint becomes a model with scores, here or in other processes."""

from __future__ import annotations

import inspect
import pickle
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import TYPE_CHECKING, NamedTuple

import torch

from ...evaluation.arguments import named_tasks, task_name
from ...record import InputError
from ..evaluate import TaskScores, evaluate
from .files import load_weights, read_weights

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from ...evaluation import Score

__all__ = ["CheckpointLoader", "evaluate_all"]


class CheckpointLoader(NamedTuple):
    """How a checkpoint becomes a model with scores; picklable if its functions are.

    Args:
        model: returns a model without weights, or with one parameter the model saved at a path.
        tasks: evaluation data by task, or a function that returns it.
        score: what is measured; accuracy by default.
        prefix: of the names of weights that belong to the model, such as `model.`.
        allow_pickle: also read pickles, of which only tensors and plain values are created.
        device: where the model is evaluated.
        batch_size: examples per forward pass.
    """

    model: Callable[..., object]
    tasks: object
    score: Score | None = None
    prefix: str = ""
    allow_pickle: bool = False
    device: str = "cpu"
    batch_size: int | None = None

    def read_tasks(self) -> dict[str, object]:
        """Return the evaluation data by task."""
        tasks = self.tasks
        if callable(tasks) and not isinstance(tasks, type):
            tasks = tasks()
        return {task_name(name): data for name, data in named_tasks(tasks)}

    def load(self, path: Path | None) -> Callable[..., object]:
        """Return the model saved at `path`; None for the model as the factory returns it."""
        takes_path = _takes_path(self.model)
        if takes_path and path is None:
            raise InputError(
                "`initial=model` needs a factory without parameters; name a checkpoint instead"
            )
        model = self.model(path) if takes_path else self.model()
        if not callable(model):
            raise InputError(f"the factory returned {type(model).__name__}, expected a model")
        if not takes_path and path is not None:
            if not isinstance(model, torch.nn.Module):
                raise InputError(
                    f"the factory returned {type(model).__name__}, expected a torch.nn.Module; "
                    "other models need a factory with a parameter: factory(path)"
                )
            weights = read_weights(path, allow_pickle=self.allow_pickle)
            load_weights(model, weights, self.prefix, path.name)
        return model.to(self.device) if isinstance(model, torch.nn.Module) else model

    def evaluate(self, path: Path | None, tasks: Mapping[str, object]) -> TaskScores:
        """Return the scores of the model saved at `path`."""
        return evaluate(self.load(path), tasks, score=self.score, batch_size=self.batch_size)


def _takes_path(factory: Callable[..., object]) -> bool:
    """Return whether a factory must be called with the path of a checkpoint."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except ValueError:
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(p.kind in kinds and p.default is inspect.Parameter.empty for p in parameters)


def evaluate_all(
    paths: Sequence[Path | None], loader: CheckpointLoader, tasks: Mapping[str, object],
    jobs: int,
) -> Iterator[TaskScores]:  # fmt: skip
    """Yield the scores of each checkpoint, in order; None is the model of the factory."""
    if jobs == 1 or len(paths) < 2:
        for path in paths:
            yield _evaluate_one(loader, path, tasks)
        return
    try:
        pickle.dumps(loader)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(
            f"jobs is {jobs}, and other processes cannot be given the model or the tasks "
            f"({error}); name functions of a module that return them, or use `jobs=1`"
        ) from None
    count = min(jobs, len(paths))
    threads = max(1, torch.get_num_threads() // count)
    # A forked child of a process that has used PyTorch's threads may hang.
    with ProcessPoolExecutor(
        count, get_context("spawn"), initializer=_start_worker, initargs=(loader, threads)
    ) as pool:
        try:
            yield from pool.map(_evaluate_in_worker, paths)
        except BrokenProcessPool:
            raise InputError(
                f"jobs is {jobs}, and one of the processes ended abruptly, perhaps for lack of "
                "memory; use fewer, the same command continues"
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


_worker: tuple[CheckpointLoader, dict[str, object]] | None = None  # of a process of the pool


def _start_worker(loader: CheckpointLoader, threads: int) -> None:
    global _worker
    torch.set_num_threads(threads)
    _worker = loader, loader.read_tasks()


def _evaluate_in_worker(path: Path | None) -> TaskScores:
    assert _worker is not None
    loader, tasks = _worker
    return _evaluate_one(loader, path, tasks)


def _evaluate_one(
    loader: CheckpointLoader, path: Path | None, tasks: Mapping[str, object]
) -> TaskScores:
    """Return the scores of a checkpoint, or raise InputError that names it."""
    try:
        return loader.evaluate(path, tasks)
    except InputError:
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        name = "the factory's model" if path is None else path.name
        raise InputError(f"{name}: evaluating it failed: {reason}") from error
