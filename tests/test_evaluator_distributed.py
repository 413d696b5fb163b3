"""Models that several processes train: rank 0 evaluates its own copy, and nobody waits for it."""

from __future__ import annotations

import multiprocessing
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import distributed, nn
from torch._C._distributed_c10d import FileStore
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import perdure
from perdure.evaluation.state.preserve import ModelParts

from .evaluator_helpers import lines
from .evaluator_loops import bits, bounded, data
from .evaluator_models import normed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(not distributed.is_available(), reason="PyTorch without processes")


def train(rank: int, ranks: int, folder: Path, *, watched: bool) -> list[Any]:
    """Return the bits of weights and buffers after each step, on this rank."""
    torch.set_num_threads(1)
    store = FileStore(str(folder / "store"), ranks)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    try:
        torch.manual_seed(0)
        model = DistributedDataParallel(normed())
        optimizer, states = torch.optim.SGD(model.parameters(), 0.3), []
        evaluator = None
        if watched and rank == 0:
            evaluator = perdure.Evaluator(data("a"), record=folder / "run")
            block = evaluator.task("a", model)
            block.__enter__()
        x, y = data("a")["a"]
        for _ in range(4):
            optimizer.zero_grad()
            cross_entropy(model(x[rank::ranks]), y[rank::ranks]).backward()
            optimizer.step()
            if evaluator is not None:
                evaluator.step(model)
            states.append([bits(t) for t in (*model.parameters(), *model.buffers())])
        if evaluator is not None:
            block.__exit__(None, None, None)
            evaluator.close()
        return states
    finally:
        distributed.destroy_process_group()


def test_one_process(tmp_path: Path) -> None:
    for name in ("alone", "watched"):
        (tmp_path / name).mkdir()
    alone = train(0, 1, tmp_path / "alone", watched=False)
    assert train(0, 1, tmp_path / "watched", watched=True) == alone
    assert len([line for line in lines(tmp_path / "watched" / "run") if line.kind == "probe"]) == 4


def join(rank: int, folder: Path, watched: bool, queue: Any) -> None:
    queue.put((rank, train(rank, 2, folder, watched=watched)))


@pytest.mark.slow
def test_two_processes_where_one_evaluates(tmp_path: Path) -> None:
    """The broadcast of buffers in the wrapper's forward would wait for the other rank."""
    context = multiprocessing.get_context("spawn")

    def run(*, watched: bool) -> dict[int, list[Any]]:
        folder, queue = tmp_path / str(watched), context.Queue()
        folder.mkdir()
        ranks = [
            context.Process(target=join, args=(rank, folder, watched, queue), daemon=True)
            for rank in range(2)
        ]
        for process in ranks:
            process.start()
        found = dict(queue.get(timeout=100) for _ in ranks)
        for process in ranks:
            process.join(30)
        return found

    with bounded(240):
        assert run(watched=True) == run(watched=False)


@pytest.fixture
def _group(tmp_path: Path) -> Iterator[None]:
    store = FileStore(str(tmp_path / "store"), 1)
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


class FullyShardedDataParallel(nn.Module):
    """Stands for PyTorch's own, which needs an accelerator."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module


def by_deepspeed() -> nn.Module:
    """Return a model whose parameters say that ZeRO's third stage has partitioned them."""
    model = normed()
    for number, parameter in enumerate(model.parameters()):
        parameter.ds_id = number  # type: ignore[attr-defined]
    return model


def by_fully_shard() -> nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = normed()
    fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
    return model


@pytest.mark.usefixtures("_group")
@pytest.mark.parametrize(
    "make",
    [lambda: FullyShardedDataParallel(normed()), by_deepspeed, by_fully_shard],
    ids=["FSDP", "ZeRO-3", "fully_shard"],
)
def test_a_model_that_is_sharded_is_refused_in_words(make: Callable[[], nn.Module]) -> None:
    with pytest.raises(TypeError, match=r"sharded over processes.* rank 0") as refusal:
        ModelParts((), None).combine(make())
    assert "\n" not in str(refusal.value)
