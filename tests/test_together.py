"""Runs that take turns in one process end as they would alone, whatever happens to the others."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from msgspec import structs

import perdure
from perdure import execution
from perdure.evaluation.state.reachable import RandomStates
from perdure.execution import ExitEvent, Job, NoteEvent, run_serially, run_together, together
from perdure.record import InputError
from perdure.strategies import STRATEGIES
from perdure.training import make_config, single_run

from .cli_helpers import run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from perdure.execution import RunEvent

CUDA = pytest.mark.cuda
DEVICES = ["cpu", pytest.param("cuda", marks=CUDA)]
ON_CPU = [("cpu", strategy) for strategy in ("replay", "lwf", "gem")]
ON_CUDA = [pytest.param("cuda", strategy, marks=CUDA) for strategy in STRATEGIES]


def make_jobs(store: Path, strategy: str = "replay", seeds: int = 3, **options: Any) -> list[Job]:
    short: dict[str, Any] = {"iterations": 6, "batch": 32, "every": 5, "settings": {"hidden": "16"}}
    options = short | options
    configs = [make_config("split-digits", strategy, seed=seed, **options) for seed in range(seeds)]
    return [Job(config, store / config.folder, resume=True) for config in configs]


def results(jobs: Sequence[Job]) -> list[tuple[str, str]]:
    """Return the digest of the weights of each run, and its points."""
    assert [job.error for job in jobs] == [None] * len(jobs)
    return [
        (
            json.loads((job.folder / "done.json").read_text())["weights"],
            (job.folder / "points.csv").read_text(),
        )
        for job in jobs
    ]


def ignore(job: Job, event: RunEvent) -> None:
    pass


@pytest.mark.parametrize(("device", "strategy"), [*ON_CPU, *ON_CUDA])
def test_together_is_the_same_as_alone(device: str, strategy: str, tmp_path: Path) -> None:
    pieces = []
    for execute in (run_serially, run_together):
        jobs = make_jobs(tmp_path / execute.__name__, strategy, device=device)
        execute(jobs, ignore)
        pieces.append(results(jobs))
    assert pieces[0] == pieces[1]


@pytest.mark.parametrize(
    ("device", "width", "iterations"), [("cpu", 32, 6), pytest.param("cuda", 8192, 80, marks=CUDA)]
)
def test_random_numbers_are_those_of_a_run_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, width: int, iterations: int
) -> None:
    """A model that draws from PyTorch's global generator in every step: dropout.

    On a GPU it is so large that its steps are still at work when it is another run's turn.
    """
    (tmp_path / "dropping.py").write_text(
        "from torch import nn\n"
        "def make(shape, outputs, **options):\n"
        f"    body = [nn.Flatten(), nn.Linear(64, {width}), nn.ReLU(), nn.Dropout(0.5)]\n"
        f"    body += [nn.Linear({width}, {width}), nn.ReLU(), nn.Dropout(0.5)]\n"
        f"    return nn.Sequential(nn.Sequential(*body), nn.Linear({width}, outputs))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(together, "STEPS", 3 if device == "cpu" else 32)
    given: dict[str, Any] = {"model": "dropping:make", "settings": {}, "iterations": iterations}
    pieces = []
    for execute in (run_serially, run_together):
        jobs = make_jobs(tmp_path / execute.__name__, "naive", device=device, **given)
        execute(jobs, ignore)
        pieces.append(results(jobs))
    assert pieces[0] == pieces[1]
    assert len({weights for weights, _ in pieces[0]}) == 3


@pytest.mark.parametrize("device", DEVICES)
def test_an_interrupt_ends_all_and_all_resume(device: str, tmp_path: Path) -> None:
    alone = make_jobs(tmp_path / "alone", iterations=40, device=device)
    run_serially(alone, ignore)

    def interrupt(job: Job, event: RunEvent) -> None:
        if isinstance(event, execution.ProgressEvent) and event.fraction > 0.5:
            raise KeyboardInterrupt

    jobs = make_jobs(tmp_path / "both", iterations=40, device=device)
    for job in jobs:
        job.checkpoint_every = 0.0
    with pytest.raises(KeyboardInterrupt):
        run_together(jobs, interrupt)
    assert not any((job.folder / "done.json").exists() for job in jobs)
    assert all((job.folder / "checkpoint").is_dir() for job in jobs)
    again = make_jobs(tmp_path / "both", iterations=40, device=device)
    run_together(again, ignore)
    assert results(again) == results(alone)


def fail_at(seed: int, error: Exception, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have the run of a seed raise in its first attempt; return the seeds in order of starting."""
    started: list[int] = []
    module: Any = single_run
    original: Callable[..., Any] = module.build_learner

    def build(config: Any, scenario: Any) -> Any:
        started.append(config.seed)
        if config.seed == seed and started.count(seed) == 1:
            raise error
        return original(config, scenario)

    monkeypatch.setattr(single_run, "build_learner", build)
    return started


def test_of_many_runs_only_some_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "MAX_RUNS", 2)
    monkeypatch.setattr(together, "STEPS", 3)
    ends: list[tuple[int, str]] = []
    jobs = make_jobs(tmp_path, "naive", seeds=5)
    run_together(jobs, lambda job, event: ends.append((job.config.seed, type(event).__name__)))
    assert [seed for seed, event in ends if event == "ExitEvent"] == [0, 1, 2, 3, 4]
    assert ends.index((2, "ProgressEvent")) > ends.index((1, "ExitEvent"))
    assert ends.index((1, "ProgressEvent")) < ends.index((0, "ExitEvent"))
    assert all((job.folder / "done.json").exists() for job in jobs)


def test_a_run_that_fails_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_at(1, ValueError("no such learner"), monkeypatch)
    jobs = make_jobs(tmp_path)
    run_together(jobs, ignore)
    assert [job.code for job in jobs] == [0, 2, 0]
    assert [job.error for job in jobs] == [None, "no such learner", None]


def test_a_run_without_memory_waits_for_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = fail_at(1, torch.OutOfMemoryError("CUDA out of memory"), monkeypatch)
    events: list[tuple[int, type[object]]] = []
    jobs = make_jobs(tmp_path)
    run_together(jobs, lambda job, event: events.append((job.config.seed, type(event))))
    assert started == [0, 1, 2, 1]
    assert [job.error for job in jobs] == [None] * 3
    exits = [seed for seed, kind in events if kind is ExitEvent]
    assert exits == [0, 2, 1]
    assert (1, NoteEvent) in events
    assert "resumes later" in jobs[1].notes[0]


def test_a_restart_that_waits_for_memory_does_not_return_the_earlier_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_serially(make_jobs(tmp_path), ignore)
    started = fail_at(1, torch.OutOfMemoryError("CUDA out of memory"), monkeypatch)
    jobs = make_jobs(tmp_path)
    for job in jobs:
        job.overwrite, job.resume = True, False
    run_together(jobs, ignore)
    assert started == [0, 1, 2, 1]
    assert [job.error for job in jobs] == [None] * 3


def test_the_record_says_that_times_are_shared(tmp_path: Path) -> None:
    jobs = make_jobs(tmp_path, seeds=2)
    run_together(jobs, ignore)
    for job in jobs:
        notes: Any = json.loads((job.folder / "run.json").read_text())["notes"]
        assert "2 seeds were trained together" in notes[0]
        costs = (job.folder / "costs.csv").read_text().splitlines()
        column = costs[0].split(",").index("flops_train")
        assert all(float(line.split(",")[column]) > 0 for line in costs[1:])


def test_random_states() -> None:
    def draw() -> tuple[float, ...]:
        return random.random(), np.random.rand(), float(torch.rand(()))  # noqa: NPY002

    states = RandomStates()
    drawn = [draw() for _ in range(2)]
    states.restore()
    assert draw() == drawn[0] != drawn[1]


def test_what_is_trained_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def suits(gpus: int = 1, seeds: int = 2, strategy: str = "replay", **options: Any) -> bool:
        monkeypatch.setattr(together, "count_gpus", lambda: gpus)
        jobs = make_jobs(tmp_path, strategy, seeds, **options)
        for job in jobs:
            job.config = structs.replace(job.config, device=options.get("device", "cuda"))
        return together.suits_together(jobs)

    assert suits()
    assert not suits(seeds=1)
    assert not suits(device="cpu")
    assert not suits(strategy="gem")  # it decides on the CPU
    assert not suits(optimizer="adam")
    assert not suits(gpus=2)  # processes use all of them


def test_options_that_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="exclude each other"):
        perdure.run("split-digits", seeds=2, seeds_together="yes", jobs=2, store=tmp_path)
    with pytest.raises(InputError, match="expected auto, yes or no"):
        perdure.run("split-digits", seeds=2, seeds_together="maybe", store=tmp_path)  # type: ignore[arg-type]


def test_from_the_command_line(tmp_path: Path) -> None:
    with patch.object(execution, "run_in_processes", side_effect=AssertionError):
        options = ["--seeds", "2", "--seeds-together", "yes", "--store", str(tmp_path)]
        answer = run("run", "split-digits", "naive", "--iterations", "3", *options)
    assert answer.code == 0, answer.err
    assert "mean of 2 seeds" in answer.out
