"""Steps that wait to be replayed together end in the same record and weights as one by one."""

from __future__ import annotations

import json
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from perdure import training
from perdure.evaluation.engine.cuda_graph import GraphPool
from perdure.training import make_config, single_run, step_graph
from perdure.training.setup import build_learner, load_scenario, prepare_scenario

from .test_training_resume import Stopped, stops_after

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from perdure.training import RunConfig
    from perdure.training.step_graph import StepGraphs


class Replayed:
    """Takes the steps of a queue as a CUDA graph would, without one."""

    def __init__(self, graphs: StepGraphs, sizes: Sequence[int], task: int | None) -> None:
        self._take = partial(graphs._take_step, sizes=sizes, task=task)
        self._losses: list[torch.Tensor] = []

    def queue(self, rows: np.ndarray) -> None:
        assert 1 <= len(rows) <= step_graph.MAX_QUEUED
        self._rows, self._losses = list(torch.from_numpy(rows)), []

    def replay(self) -> None:
        self._losses.append(self._take(self._rows.pop(0)))

    def losses(self, count: int) -> torch.Tensor:
        assert not self._rows
        return torch.stack(self._losses[:count])


@pytest.fixture
def queued(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have every kind of step replayed from its third on; return how many steps each queue had."""
    counts: list[int] = []
    known: dict[StepGraphs, dict[Any, Any]] = {}

    class Counted(Replayed):
        def queue(self, rows: np.ndarray) -> None:
            counts.append(len(rows))
            super().queue(rows)

    def find(graphs: StepGraphs, batches: Sequence[np.ndarray], task: int | None) -> Any:
        sizes = [len(rows) for rows in batches]
        seen = known.setdefault(graphs, {}).setdefault((task, *sizes), [])
        seen.append(1)
        if len(seen) == 3:
            seen.append(Counted(graphs, sizes, task))
        return seen[3] if len(seen) > 3 else None

    monkeypatch.setattr(step_graph.StepGraphs, "find", find)
    monkeypatch.setattr(step_graph, "MAX_QUEUED", 4)
    return counts


def config(strategy: str = "replay", **options: Any) -> RunConfig:
    short: dict[str, Any] = {"epochs": 3, "batch": 32, "every": 1, "settings": {"hidden": "16"}}
    return make_config("split-digits", strategy, **{**short, **options})


def contents(folder: Path) -> dict[str, bytes]:
    """Return the points, the results of every example and the hash of the weights."""
    files = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    others = ("run.json", "done.json", "costs.csv")
    weights: str = json.loads(files["done.json"].read_text())["weights"]
    kept = {name: path.read_bytes() for name, path in files.items() if name not in others}
    return kept | {"weights": weights.encode()}


def flops_train(folder: Path) -> list[float]:
    header, *rows = (line.split(",") for line in (folder / "costs.csv").read_text().splitlines())
    return [float(row[header.index("flops_train")]) for row in rows]


CASES: dict[str, dict[str, Any]] = {
    "replay": {},
    "every 3": {"every": 3},
    "memory that changes in every step": {"settings": {"hidden": "16", "fill": "reservoir"}},
    "early stopping": {"patience": 1, "epochs": 8},
    "a head per task": {"setting": "task"},
}


@pytest.mark.parametrize("case", CASES)
def test_the_record_is_that_of_single_steps(case: str, tmp_path: Path, request: Any) -> None:
    training.run(config(**CASES[case]), tmp_path / "single")
    queued = request.getfixturevalue("queued")
    training.run(config(**CASES[case]), tmp_path / "queued")
    assert contents(tmp_path / "queued") == contents(tmp_path / "single")
    # Other steps are counted: the shorter last batches of epochs stand for more or fewer of them.
    single = flops_train(tmp_path / "single")
    assert flops_train(tmp_path / "queued") == pytest.approx(single, rel=0.1)
    assert max(queued) == (1 if case == "early stopping" else 4)
    assert min(queued) == 1  # the last batch of an epoch is a shorter one


@pytest.mark.parametrize("strategy", ["lwf", "ewc", "agem", "si", "mas", "cwr-star"])
def test_every_strategy_may_select_rows_ahead(strategy: str, tmp_path: Path, request: Any) -> None:
    """As `Strategy.capturable` requires."""
    training.run(config(strategy), tmp_path / "single")
    request.getfixturevalue("queued")
    training.run(config(strategy), tmp_path / "queued")
    assert contents(tmp_path / "queued") == contents(tmp_path / "single")


@pytest.mark.usefixtures("queued")
def test_a_run_that_was_stopped_resumes_to_the_same_bits(tmp_path: Path) -> None:
    """A checkpoint is only saved when no step is waiting, whose rows have been selected."""
    training.run(config(), tmp_path / "whole")
    for after in (5, 14):
        folder = tmp_path / str(after)
        with pytest.raises(Stopped):
            training.run(config(), folder, checkpoint_every=0, on_checkpoint=stops_after(after))
        training.run(config(), folder, resume=True)
        assert contents(folder) == contents(tmp_path / "whole")


@pytest.mark.usefixtures("queued")
@pytest.mark.parametrize("options", [{}, {"batch": 1000, "epochs": 30}, {"patience": 30}])
def test_other_seeds_get_their_turn(options: dict[str, Any], tmp_path: Path) -> None:
    """Also if each epoch is one batch, so that no shorter one ends the queue."""
    steps = list(single_run.run_stepwise(config(**options), tmp_path))
    last = (tmp_path / "points.csv").read_text().splitlines()[-1]
    total = int(last.split(",")[0])
    assert total - 3 <= sum(steps) <= total  # there is no pause while operations are counted
    assert max(steps) <= 4 + 3


@pytest.mark.filterwarnings("ignore:task:perdure.EvaluationWarning")
def test_a_schedule_by_time_decides_after_every_step(tmp_path: Path, queued: list[int]) -> None:
    training.run(config(every="50%"), tmp_path)
    assert set(queued) == {1}


def test_after_a_failed_capture_no_graph_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random numbers come from another generator then, which earlier graphs do not know."""

    class Captured:
        def __init__(self, size: int, pool: GraphPool) -> None:
            self._size = size

        def capture(self, take_step: object) -> None:
            if self._size == 4:
                raise RuntimeError("out of memory")

        def queue(self, rows: np.ndarray) -> None: ...

        def replay(self) -> None: ...

        def losses(self, count: int) -> torch.Tensor:
            return torch.zeros(count)

    monkeypatch.setattr(step_graph, "CapturedStep", Captured)
    monkeypatch.setattr(step_graph, "switch_stream", lambda _: nullcontext())
    monkeypatch.setattr(step_graph, "release_generator", lambda _: None)
    monkeypatch.setattr(GraphPool, "stream", None)
    plan = config("naive")
    strategy, _ = build_learner(plan, prepare_scenario(plan, load_scenario(plan)))
    strategy.model.open(0, [0, 1])
    graphs = step_graph.StepGraphs(strategy, pool=GraphPool(torch.device("cpu")))
    long, short = [np.arange(8)], [np.arange(4)]
    for _ in range(2):
        graphs.step(long, 0, None)
    assert graphs.find(long, 0) is not None
    graphs.step(short, 0, None)
    with pytest.warns(UserWarning, match="not captured in a CUDA graph: out of memory"):
        graphs.step(short, 0, None)
    assert graphs.find(long, 0) is None
    assert not graphs.replayed
