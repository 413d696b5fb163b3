"""The law of the zoo, checked for one subject and one executor, with a truth of its own.

Training is bit for bit what it is without an evaluator, and what is recorded is what a process
finds that is forked after the same step, evaluates, and is thrown away.
"""

from __future__ import annotations

import json
import os
import warnings
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everyone writes it
from torch.nn.utils import parametrize
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

import perdure

from .evaluator_helpers import lines
from .evaluator_loops import State, batch_of, changed, data, seeded, state_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

SAME, REFUSED, LIMIT = "same bits", "refused", "limit"
EXECUTORS: dict[str, dict[str, Any]] = {
    "inline": {},
    "worker": {"executor": perdure.Worker(queue=2, verify_every=3)},
    "latest": {"executor": perdure.Worker(mode="latest")},
    "half precision": {"executor": perdure.Inline(precision="screened")},
}
ON_CUDA: dict[str, dict[str, Any]] = {
    "CUDA graph": {"executor": perdure.Inline(verify_every=3)},
    "side stream": {"executor": perdure.Worker(queue=2, verify_every=3)},
}
ALIKE = {"CUDA graph": "inline", "side stream": "worker"}  # for want of a verdict of its own
CPU_ONLY = {
    "quantized buffer",
    "buffer on the meta device, unused",
    "model on the meta device",
    "lazy layers",  # the truth, which cannot be forked there, would initialise them
    "sparse gradients",  # training itself adds them in another order each time
}
UNDISTURBED = {  # on CUDA the truth is found in place, which the pending backward would notice
    "the same, buffers written",
    "the same, a buffer that backward needs",
    "the same, tied embeddings with `max_norm`",
}
DRAWS = "the forward pass draws random numbers in evaluation too: evaluation draws other ones"
BATCHES = "outputs depend on the batch, and tasks are evaluated together; training keeps its bits"
SNAPSHOT = "a snapshot has parameters and buffers, this is neither; verification notices it"
TASKS, STEPS = "ab", 2
PLACE = {"device": "cpu"}  # where subjects are trained


def device() -> str:
    return PLACE["device"]


@dataclass
class Subject:
    """What a loop trains, and what it hands to an evaluator."""

    modules: list[nn.Module]  # all that is trained, or moves
    model: Any = None  # for the evaluator; the first module if not given
    call: Callable[..., Any] | None = None  # class scores of (x, task); the first module's
    options: dict[str, Any] = field(default_factory=dict)  # of the evaluator
    data: Any = None  # evaluation data by task
    draw: Callable[[str], tuple[Tensor, Tensor]] | None = None  # a batch to train on
    entry: dict[str, Any] = field(default_factory=dict)  # given to evaluator.task
    generators: list[Any] = field(default_factory=list)  # watched as well
    optimizer: Callable[[Any], torch.optim.Optimizer] = lambda p: torch.optim.SGD(p, 0.3)
    around: Callable[[], AbstractContextManager[Any]] = nullcontext  # a whole step, test included
    inside: Callable[[], AbstractContextManager[Any]] = nullcontext  # the forward
    pending: bool = False  # the test comes between forward and backward
    after: Callable[[int], None] | None = None  # what the loop does after each step

    def scores(self, x: Tensor, task: str) -> Any:
        return self.modules[0](x) if self.call is None else self.call(x, task)


class Row(NamedTuple):
    """A model or a situation. What differs from `same bits` is said by executor, and why."""

    group: str
    name: str
    make: Callable[[], Subject]
    verdicts: dict[str, str] = {}  # noqa: RUF012 - never written to
    why: str = ""

    def verdict(self, executor: str) -> str:
        """Return what the law says of an executor; nothing where it is not tried."""
        if executor in ON_CUDA and executor not in self.verdicts and self.name in CPU_ONLY:
            return ""
        alike = self.verdicts.get(ALIKE.get(executor, ""), self.verdicts.get("all", SAME))
        return self.verdicts.get(executor, alike)


class Run(NamedTuple):
    """What a loop left: the state after each step, and true scores by step, kind and task."""

    states: list[State]
    truth: dict[tuple[int, bool], dict[str, float]]  # whether it is of a probe


def run(subject: Subject, evaluator: perdure.Evaluator | None = None, *, told: bool = False) -> Run:
    """Train; with `told` the truth is looked up after each step."""
    everything = nn.ModuleList(subject.modules)
    if device() != "cpu":
        everything.to(device())
    descent = subject.optimizer([p for p in everything.parameters() if p.requires_grad])
    model = subject.modules[0] if subject.model is None else subject.model
    states: list[State] = []
    truth = {(0, False): true_scores(subject)} if told else {}

    def tested(step: int) -> None:
        if evaluator is not None:
            evaluator.step(model)
        if told:
            truth[step, True] = true_scores(subject)

    step = 0
    for task in TASKS:
        with evaluator.task(task, model, **subject.entry) if evaluator else nullcontext():
            for _ in range(STEPS):
                step += 1
                x, y = batch_of(*here(task)) if subject.draw is None else subject.draw(task)
                with subject.around():
                    with subject.inside():
                        loss = F.cross_entropy(subject.scores(x, task), y)
                    if subject.pending:
                        tested(step)
                    descent.zero_grad()
                    if loss.requires_grad:
                        loss.backward()
                        descent.step()
                    del loss  # a graph knows the shapes of before
                    if subject.after is not None:
                        subject.after(step)
                    if not subject.pending:
                        tested(step)
                states.append(_state(subject, nn.ModuleList(subject.modules), descent))
            if told:
                truth[step, False] = true_scores(subject) if subject.pending else truth[step, True]
    return Run(states, truth)


def here(task: str) -> tuple[Tensor, Tensor]:
    x, y = data()[task]
    return x.to(device()), y.to(device())


def _state(subject: Subject, everything: nn.Module, descent: torch.optim.Optimizer) -> State:
    state = state_of(everything, descent)
    for k, generator in enumerate(subject.generators):
        read = getattr(generator, "get_state", None) or getattr(generator, "getstate", None)
        state[f"generator {k}"] = str(read() if read else generator.bit_generator.state)
    return state


def true_scores(subject: Subject) -> dict[str, float]:
    """Return the accuracy on each task, found in a process that is thrown away."""
    if device() != "cpu":
        return _put_back(subject)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, json.dumps(_scores_here(subject)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        found: dict[str, float] = json.loads(file.read())
    os.waitpid(child, 0)
    return found


def _put_back(subject: Subject) -> dict[str, float]:
    """Return the same where no process can be forked, with all tensors and modes put back."""
    modules = [part for module in subject.modules for part in module.modules()]
    modes = [module.training for module in modules]
    before = [
        (part._buffers, dict(part._buffers), [(b, b.clone()) for b in part.buffers(recurse=False)])
        for part in modules
    ]
    weights = [(p, p.detach().clone()) for module in modules for p in module.parameters()]
    drawn = torch.get_rng_state(), torch.cuda.get_rng_state()
    found = _scores_here(subject)
    torch.set_rng_state(drawn[0])
    torch.cuda.set_rng_state(drawn[1])
    for module, mode in zip(modules, modes, strict=True):
        module.training = mode
    for p, value in weights:
        p.data.copy_(value)
    for now, names, values in before:
        now.clear()
        now.update(names)
        for buffer, value in values:
            buffer.data.copy_(value)
    return found


def _scores_here(subject: Subject) -> dict[str, float]:
    torch.clear_autocast_cache()
    parametrize._cache_enabled, parametrize._cache = 0, {}
    for module in subject.modules:
        for part in module.modules():
            part.training = False
    found = {}
    with torch.no_grad(), torch.autocast(device(), enabled=False):
        for task in TASKS:
            x, y = here(task)
            outputs = subject.scores(x.clone(), task)
            found[task] = sum(
                int(row.argmax()) == int(k) for row, k in zip(outputs, y, strict=True)
            ) / len(y)
    return found


@cache
def alone(make: Callable[[], Subject]) -> Run:
    """Return the loop without an evaluator, and the truth of each step."""
    if device() == "cpu":
        return quiet(make, None, told=True)
    return Run(quiet(make, None).states, quiet(make, None, told=True).truth)


def quiet(make: Callable[[], Subject], options: Mapping[str, Any] | None, **how: Any) -> Run:
    """Return the loop with an evaluator, or without one, whatever is said meanwhile."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    seeded()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            subject = make()
            if options is None:
                return run(subject, **how)
            tasks = data(TASKS) if subject.data is None else subject.data
            with perdure.Evaluator(tasks, **{**subject.options, **options}) as evaluator:
                return run(subject, evaluator, **how)
    finally:
        torch.set_num_threads(threads)
        assert not _get_current_dispatch_mode_stack()


def wrong_lines(folder: Path, truth: Mapping[tuple[int, bool], Mapping[str, float]]) -> list[Any]:
    """Return the recorded lines that are not true; raise if hardly any is recorded."""
    recorded = lines(folder)
    assert {line.step for line in recorded} >= {STEPS, len(TASKS) * STEPS}
    return [
        line
        for line in recorded
        if line.score != truth[line.step, line.kind == "probe"][line.tested]
    ]


def check(row: Row, executor: str, options: Mapping[str, Any], folder: Path) -> None:
    """Raise unless what the table says of a cell is so."""
    verdict = row.verdict(executor)
    if verdict == REFUSED:
        with pytest.raises((TypeError, ValueError)) as refusal:
            quiet(row.make, {**options, "record": folder})
        message = str(refusal.value)
        assert "\n" not in message
        assert all(words in message for words in row.why.strip("`").split(" … ")), message
        assert not folder.exists() or not [line for line in lines(folder) if line.step]
        return
    found = quiet(row.make, {**options, "record": folder})
    if executor in ON_CUDA and row.name in UNDISTURBED:
        assert not changed(found.states, quiet(row.make, None).states)
        return
    expected = alone(row.make)
    if verdict == SAME or row.why in (DRAWS, BATCHES, SNAPSHOT):
        assert not changed(found.states, expected.states)
    if verdict == SAME:
        assert not wrong_lines(folder, expected.truth)
