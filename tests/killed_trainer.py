"""A small training loop to be killed by test_evaluator_kills.py: it says how far it has come."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

import perdure

NAMES = ("digits 0, 1", 'say "2"', "数字 4-5")
STEPS = 30  # a task
Task = tuple[torch.Tensor, torch.Tensor]


def data(examples: int, seed: int) -> dict[str, Task]:
    """Return three tasks of two classes each, far from being learned in one step."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(6, 16, generator=torch.Generator().manual_seed(7))
    tasks = {}
    for number, name in enumerate(NAMES):
        y = torch.randint(2 * number, 2 * number + 2, (examples,), generator=generator)
        tasks[name] = centres[y] + 2 * torch.randn(examples, 16, generator=generator), y
    return tasks


class Side:
    """Says what is done; the disk has it when a call returns."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def say(self, mark: str) -> None:
        os.write(self._file, f"{mark}\n".encode())
        os.fsync(self._file)


def train(evaluator: perdure.Evaluator, side: Side, holds: list[str]) -> None:
    """Learn three tasks by gradient descent with a little replay; wait for SIGCONT at `holds`."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(32, 6)
    )
    parameters = list(model.parameters())
    kept: list[Task] = []
    step = 0
    for name, (x, y) in data(STEPS * 16, seed=1).items():
        with evaluator.task(name, model, train_data=(x, y), stored_samples=kept or 0):
            for start in range(0, len(x), 16):
                new = cross_entropy(model(x[start : start + 16]), y[start : start + 16])
                old = sum((cross_entropy(model(xs), ys) for xs, ys in kept), torch.zeros(()))
                evaluator.record_gradients(model, new, old if kept else None)
                pulls = torch.autograd.grad(new + old, parameters)
                with torch.no_grad():
                    for weight, pull in zip(parameters, pulls, strict=True):
                        weight.sub_(pull, alpha=0.05)
                evaluator.step(model)
                step += 1
                side.say(f"step {step}")
                if f"step {step}" in holds:
                    signal.raise_signal(signal.SIGSTOP)
            side.say(f"ends {name}")
        side.say(f"left {name}")
        kept.append((x[:8], y[:8]))


def run(folder: str, side_file: str, where: str, then: str) -> None:
    """Train and close; then stay where a kill can find us, if told to."""
    side = Side(side_file)
    side.say("starting")
    kind = perdure.Worker if where == "worker" else perdure.Inline
    with perdure.Evaluator(
        data(300, seed=2),
        subset=100,
        record=Path(folder),
        executor=kind(verify_every=25),
    ) as evaluator:
        train(evaluator, side, then.split(","))
        side.say("closing")
    side.say("closed")
    if then == "stay":
        time.sleep(60)


def serve() -> None:
    """Start a trainer for each line that asks for one, without importing PyTorch each time.

    A trainer is a process of its own, leads its session, and ends as any Python program does.
    """
    import torch._dynamo  # what counts operations would import it

    import perdure.evaluation

    assert perdure.evaluation.Evaluator is perdure.Evaluator
    torch.set_num_threads(1)
    gc.freeze()  # nothing to look through when a trainer ends
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            _, status = os.waitpid(request["wait"], 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            os.setsid()
            signal.signal(signal.SIGINT, signal.default_int_handler)
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, 0)
            os.dup2(nothing, 1)
            os.dup2(os.open(request["errors"], os.O_WRONLY | os.O_CREAT), 2)
            run(*request["start"])
            return
        print(pid, flush=True)


if __name__ == "__main__":
    serve()
