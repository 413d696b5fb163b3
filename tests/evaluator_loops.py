"""A loop that draws from every global generator, the state it leaves bit for bit, its record."""

from __future__ import annotations

import csv
import multiprocessing
import random
import signal
import time
import warnings
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everyone writes it
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

import perdure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

Tasks = dict[str, tuple[Tensor, Tensor]]
State = dict[str, Any]
FEATURES, CLASSES, ROWS = 6, 4, 20
WORKER: dict[str, Any] = {"executor": perdure.Worker()}
LATEST: dict[str, Any] = {"executor": perdure.Worker(mode="latest")}
SETTINGS: dict[str, dict[str, Any]] = {
    "every step": {},
    "every 3": {"every": 3},
    "burst": {"every": perdure.burst(first=2, then=3)},
    "worker": WORKER,
    "worker, one slot": {"executor": perdure.Worker(queue=1, verify_every=2)},
    "latest": LATEST,
    "no meter": {"count_flops": False},
    "half precision": {"executor": perdure.Inline(precision="screened")},
    "half precision in a worker": {"executor": perdure.Worker(precision="screened")},
    "all before": {"initial": "all", "unseen": True, "subset": None},
    "none before": {
        "initial": "none",
        "subset": 7,
        "executor": perdure.Inline(batch_size=4),
    },
    "resampled": {"subset": perdure.Subset(7, resample=True)},
}


def data(tasks: str = "abc", rows: int = ROWS, features: int = FEATURES) -> Tasks:
    """Return fresh data for each task; it can be learned, so that scores move."""
    found = {}
    for k, name in enumerate(tasks):
        own = torch.Generator().manual_seed(k)
        x = torch.randn(rows, features, generator=own)
        found[name] = x, (x @ torch.randn(features, CLASSES, generator=own)).argmax(1)
    return found


def seeded() -> None:
    torch.manual_seed(3)
    random.seed(4)
    np.random.seed(5)  # noqa: NPY002 - the global state is what is watched


def batch_of(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return a batch that Python, NumPy and PyTorch draw together."""
    order = torch.randperm(len(x))[np.random.permutation(len(x))]  # noqa: NPY002
    chosen = order[random.sample(range(len(x)), 8)]
    return x[chosen], y[chosen]


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, 0.3, momentum=0.9)


def train(
    make: Callable[[], nn.Module],
    evaluator: Any = None,
    *,
    tasks: Mapping[str, tuple[Tensor, Tensor]] | None = None,
    order: str = "ab",
    steps: int = 4,
    optimizer: Callable[[Any], torch.optim.Optimizer] = sgd,
    accumulate: int = 1,
    around: Callable[[], AbstractContextManager[Any]] = nullcontext,
    forward: Callable[[], AbstractContextManager[Any]] = nullcontext,
    norms: bool = False,
    change: Callable[[Any, int], None] | None = None,
    watch: Callable[[str, int], None] | None = None,
    threads: int = 1,
    **given: Any,
) -> list[State]:
    """Return the state of everything after each step of a plain loop, and after the last task."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    seeded()
    model, states, step = make(), [], 0
    descent = optimizer([p for p in model.parameters() if p.requires_grad])
    try:
        with around():
            for name in order:
                with evaluator.task(name, model, **given) if evaluator else nullcontext():
                    for _ in range(steps):
                        step += 1
                        x, y = batch_of(*(tasks or data())[name])
                        with forward():
                            loss = F.cross_entropy(model(x), y)
                        if evaluator and norms:
                            evaluator.record_gradients(model, loss, loss * 0.5)
                        loss.backward()
                        if step % accumulate == 0:  # zeroed after it: what is added later shows
                            descent.step()
                            descent.zero_grad(set_to_none=accumulate == 1)
                        if change is not None:
                            change(model, step)
                        if evaluator:
                            evaluator.step(model)
                        if watch is not None:
                            watch(name, step)
                        states.append(state_of(model, descent))
            states.append(state_of(model, descent))
    finally:
        torch.set_num_threads(before)
    return states


@cache
def alone(make: Callable[[], nn.Module], **how: Any) -> list[State]:
    """Return the states of a loop without an evaluator."""
    return train(make, **how)


def watched(make: Callable[[], nn.Module], setting: Mapping[str, Any], **how: Any) -> list[State]:
    """Return the states of the same loop with one, whatever it has to say."""
    options = {"tasks": data(), **setting}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", perdure.EvaluationWarning)
        with perdure.Evaluator(options.pop("tasks"), **options) as evaluator:
            states = train(make, evaluator, **how)
    assert not _get_current_dispatch_mode_stack()
    return states


def state_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> State:
    """Return everything an evaluator has to leave alone, by name."""
    state: State = {}
    for name, module in model.named_modules():
        state[f"{name} is in training"] = module.training
        for key, buffer in module._buffers.items():
            state[f"buffer {name}.{key}"] = bits(buffer)
    for name, parameter in model.named_parameters():
        state[f"parameter {name}"] = bits(parameter)
        state[f"gradient of {name}"] = bits(parameter.grad)
        state[f"{name} requires a gradient"] = parameter.requires_grad
    for k, own in optimizer.state_dict()["state"].items():
        for key, value in own.items():
            state[f"optimizer {k} {key}"] = bits(value) if isinstance(value, Tensor) else value
    _, words, *numpy = np.random.get_state()  # noqa: NPY002
    return state | {
        "random of Python": random.getstate(),
        "random of NumPy": (np.asarray(words).tobytes(), *numpy),
        "random of PyTorch": bits(torch.get_rng_state()),
        "random of CUDA": bits(torch.cuda.get_rng_state()) if torch.cuda.is_available() else None,
        "autocast": (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")),
        "autocast cache": torch.is_autocast_cache_enabled(),
        "gradients are on": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "threads": torch.get_num_threads(),
        "default type": torch.get_default_dtype(),
    }


def bits(tensor: Tensor | None) -> tuple[Any, ...] | None:
    if tensor is None:
        return None
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    if tensor.layout is not torch.strided or tensor.is_meta:
        tensor = torch.zeros(0) if tensor.is_meta else tensor.to_dense()
    plain = tensor.detach().cpu().contiguous()
    return plain.dtype, tuple(plain.shape), plain.flatten().view(torch.uint8).numpy().tobytes()


def changed(found: list[State], expected: list[State]) -> list[str]:
    """Return what differs first, with the step."""
    for step, (one, other) in enumerate(zip(found, expected, strict=True), 1):
        names = [k for k in one | other if one.get(k, "missing") != other.get(k, "missing")]
        if names:
            return [f"step {step}", *names]
    return []


@contextmanager
def bounded(seconds: float = 120) -> Iterator[None]:
    """Raise in what waits for ever, and then in each of its ways out that does."""

    def stop(*_: object) -> None:
        raise RuntimeError(f"still waiting after {seconds:g} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 2)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Record(NamedTuple):
    """What a run left: the lines of points.csv, and every file of its hits."""

    lines: list[str]
    hits: dict[str, bytes]

    @property
    def steps(self) -> set[int]:
        """The steps that have a probe."""
        return {int(line.split(",")[0]) for line in self.lines if ",probe," in line}


def read(folder: Path) -> Record:
    with (folder / "points.csv").open() as file:
        rows = list(csv.DictReader(file))
    steps = [int(row["step"]) for row in rows]
    assert steps == sorted(steps)
    lines = (folder / "points.csv").read_text().splitlines()
    return Record(lines, {path.name: path.read_bytes() for path in folder.glob("per_example/*")})


def recorded(folder: Path, make: Callable[[], nn.Module], **given: Any) -> Record:
    """Return the record of a run; what the evaluator does not know goes to the loop."""
    loop = {k: given.pop(k) for k in ("order", "steps", "change", "watch", "threads") if k in given}
    tasks = given.pop("tasks", None) or data()
    with perdure.Evaluator(tasks, record=folder, count_flops=False, **given) as evaluator:
        train(make, evaluator, tasks=tasks, **loop)
    assert not multiprocessing.active_children()
    return read(folder)


def right(model: Any, x: Tensor, y: Tensor) -> Tensor:
    return torch.as_tensor(model(x).argmax(1) == y)


def slow(model: Any, x: Tensor, y: Tensor) -> Tensor:
    time.sleep(0.01)
    return right(model, x, y)


def loss(model: Any, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(model(x), y, reduction="none")
