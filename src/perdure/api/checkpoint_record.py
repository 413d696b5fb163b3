"""A record of saved models: every checkpoint evaluated on every task, in the order of training.

A `CheckpointLoader` says how a checkpoint becomes a model with scores, here or in other processes.
"""

from __future__ import annotations

import inspect
import os
import pickle
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import torch

from .._display import list_some
from ..evaluation import EvalTask
from ..evaluation.arguments import named_tasks, task_name
from ..metrics import ACCURACY
from ..record import InputError, Log, RunFolder
from .checkpoint_files import CheckpointFile, find_checkpoints, load_weights, read_weights
from .evaluate import TaskScores, add_scores, evaluate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ..evaluation import Score
    from .checkpoint_files import Order

__all__ = ["CheckpointLoader", "EvaluatedCheckpoint", "evaluate_all", "evaluate_checkpoints"]

Stamp = list[str | int | None]  # name, trained task, step, size and time
FACTORY_MODEL = "model"  # as `initial`: the model as the factory returns it


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


class EvaluatedCheckpoint(NamedTuple):
    """A checkpoint with its scores, or with None if an earlier call has evaluated it."""

    checkpoint: CheckpointFile
    number: int  # from 1
    total: int
    result: TaskScores | None


def evaluate_checkpoints(
    checkpoints: str | Sequence[str],
    record: str | os.PathLike[str],
    loader: CheckpointLoader,
    *,
    order: Order | None = None,
    trained: Sequence[str] | Callable[[Path], str] | None = None,
    initial: str | os.PathLike[str] | None = None,
    control: Sequence[str] = (),
    config: Mapping[str, object] | None = None,
    jobs: int = 1,
    restart: bool = False,
) -> Iterator[EvaluatedCheckpoint]:
    """Evaluate saved models and record them; yield each checkpoint as it is recorded.

    The same call continues a record that was interrupted, and evaluates only checkpoints that are
    not in it yet.

    Args:
        checkpoints: paths or patterns like `ckpt-*`: safetensors files, folders of Hugging Face,
            checkpoints of Lightning.
        record: the folder of the record.
        loader: how a checkpoint becomes a model.
        order: see `find_checkpoints`.
        trained: the task that each checkpoint was trained on last, or a function of its path;
            None for a stream without task boundaries.
        initial: the checkpoint before any training, or "model" for the model as the factory
            returns it; a checkpoint of step 0 is one, too.
        control: names of tasks that are evaluated but never trained, in addition to those whose
            data says so.
        config: the configuration of the run, for run.json.
        jobs: how many processes evaluate checkpoints.
        restart: evaluate all checkpoints again.
    """
    files, words = find_checkpoints(checkpoints, order)
    if initial is not None:
        files = [CheckpointFile(Path(initial), 0), *(file for file in files if file.step)]
        if os.fspath(initial) != FACTORY_MODEL and not Path(initial).exists():
            raise InputError(f"initial is {os.fspath(initial)!r:.80}, and there is no such file")
    names = _name_trained(files, trained)
    tasks = loader.read_tasks()
    chosen = _list_control(tasks, control, names)
    stamps = [_stamp(file, name) for file, name in zip(files, names, strict=True)]
    done = _count_evaluated(RunFolder(record), stamps, config or {}, restart=restart)
    with _open_log(record, config, chosen, loader, resume=done > 0) as log:
        if not done:
            log.save({"evaluated": []})
            log.note(f"order of the checkpoints: {words}")
            if trained is None:
                log.note("no task boundaries: which task each checkpoint learned is not stated")
        total = len(files)
        for number, file in enumerate(files[:done], start=1):
            yield EvaluatedCheckpoint(file, number, total, None)
        rest = files[done:]
        paths = [None if str(file.path) == FACTORY_MODEL else file.path for file in rest]
        for file, result in zip(rest, evaluate_all(paths, loader, tasks, jobs), strict=True):
            number = files.index(file)
            add_scores(
                log, result, step=file.step, trained=names[number],
                kind="initial" if file.step == 0 else "full",
            )  # fmt: skip
            log.save({"evaluated": stamps[: number + 1]})
            yield EvaluatedCheckpoint(file, number + 1, total, result)


@contextmanager
def _open_log(
    record: str | os.PathLike[str],
    config: Mapping[str, object] | None,
    control: Sequence[str],
    loader: CheckpointLoader,
    *,
    resume: bool,
) -> Iterator[Log]:
    """Yield the log, which is finished if no error occurs."""
    scale = ACCURACY if loader.score is None else loader.score.named_scale
    log = Log(
        record, config=config, control=control, scale=scale, overwrite=not resume, resume=resume
    )  # fmt: skip
    finished = False
    try:
        yield log
        finished = True
    finally:
        log.close(finished=finished)


def _count_evaluated(
    folder: RunFolder, stamps: Sequence[Stamp], config: Mapping[str, object], *, restart: bool
) -> int:
    """Return how many checkpoints a record has, or raise unless they are the first ones now."""
    if not folder.is_run():
        return 0
    metadata = folder.metadata() if folder.has_metadata() else None
    state = None if metadata is None else metadata.log.get("state")
    if metadata is None or not isinstance(state, dict) or "evaluated" not in state:
        raise InputError(f"{folder.path}: holds a run of something else; choose another folder")
    try:
        evaluated = msgspec.convert(state["evaluated"], list[Stamp])
    except msgspec.ValidationError as error:
        raise InputError(f"{folder.metadata_path}: log: {error}") from None
    if restart or not evaluated:
        return 0
    again = "choose another folder, or `restart=True` evaluates everything again"
    for name in dict.fromkeys([*metadata.config, *config]):
        old, new = metadata.config.get(name), config.get(name)
        if old != new:
            raise InputError(f"{folder.path}: was made with {name} {old}, not {new}; {again}")
    for number, before in enumerate(evaluated):
        now: Stamp = stamps[number] if number < len(stamps) else ["nothing", None]
        if before != now:
            raise InputError(
                f"{folder.path}: checkpoint {number + 1} was {_describe(before)} and is now "
                f"{_describe(now)}{' with other contents' * (before[:2] == now[:2])}; {again}"
            )
    return len(evaluated)


def _describe(stamp: Stamp) -> str:
    name, trained = stamp[:2]
    return f"{name} (trained on {trained})" if trained else f"{name}"


def _stamp(file: CheckpointFile, trained: str | None) -> Stamp:
    if str(file.path) == FACTORY_MODEL:
        return [FACTORY_MODEL, trained]
    stat = file.path.stat()
    return [file.name, trained, file.step, stat.st_size, stat.st_mtime_ns]


def _name_trained(
    files: Sequence[CheckpointFile], trained: Sequence[str] | Callable[[Path], str] | None
) -> list[str | None]:
    """Return the task that each checkpoint learned; the one before training counts to the first."""
    if trained is None:
        return [None] * len(files)
    later = [file for file in files if file.step]
    if callable(trained):
        names = [str(trained(file.path)) for file in later]
    else:
        names = list(trained)
        if len(names) != len(later):
            raise InputError(
                f"trained is {list_some(names)} for {list_some([one.name for one in later])}: "
                f"{len(names)} tasks for {len(later)} checkpoints, expected one per checkpoint"
            )
    return [*names[:1] * (len(files) - len(later)), *names]


def _list_control(
    tasks: Mapping[str, object], control: Sequence[str], trained: Sequence[str | None]
) -> list[str]:
    """Return the names of the control tasks, or raise if one is unknown or trained."""
    known = ", ".join(tasks)
    for what, names in (("control", control), ("trained", trained)):
        if unknown := [name for name in names if name is not None and name not in tasks]:
            raise InputError(f"{what} is {unknown[0]!r:.60}, expected one of the tasks: {known}")
    stated = [name for name, data in tasks.items() if isinstance(data, EvalTask) and data.control]
    chosen = list(dict.fromkeys([*stated, *control]))
    if both := [name for name in chosen if name in trained]:
        raise InputError(f"control is {both[0]!r:.60}, which is trained as well; expected never")
    return chosen
