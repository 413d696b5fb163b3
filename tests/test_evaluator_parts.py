"""What belongs to a model: what is found, what must be named, and what is said otherwise."""

from __future__ import annotations

import copy
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, SequentialSampler, TensorDataset

import perdure
from perdure.evaluation.state.preserve import CombinedModel, ModelParts
from perdure.evaluation.state.reachable import GENERATORS, MAX_CONTAINER, reachable

from .evaluator_helpers import lines, quietly
from .evaluator_loops import CLASSES, WORKER, data
from .evaluator_models import normed
from .zoo_callables import Registry, Wrapper, from_registry

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MODULES = (nn.Module,)


def test_long_lists_and_libraries_are_not_searched() -> None:
    part = nn.Linear(1, 1)
    assert reachable([[part] * MAX_CONTAINER], MODULES) == [part]
    assert reachable([[part] * (MAX_CONTAINER + 1)], MODULES) == []
    assert reachable([torch.optim.SGD(part.parameters(), 0.1), torch, nn.Linear], MODULES) == []


def test_an_object_that_refers_to_itself_is_searched_once() -> None:
    wrapper = Wrapper(nn.Linear(1, 1))
    wrapper.net.wrapper = wrapper
    assert reachable([wrapper.predict], MODULES) == [wrapper.net]


def test_a_variable_that_has_no_value_yet_is_passed_over() -> None:
    def model(x: Tensor) -> Any:
        return later(x)

    assert reachable([model], MODULES) == []
    later = nn.Linear(1, 1)
    assert reachable([model], MODULES) == [later]


class Shy:
    """Refuses to be looked at."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


def test_an_object_that_refuses_to_be_looked_at_is_passed_over() -> None:
    part = nn.Linear(1, 1)
    assert reachable([[Shy(), part]], MODULES) == [part]


def test_modules_are_read_again_at_every_evaluation() -> None:
    heads: list[nn.Module] = []
    net, parts = normed(), ModelParts((), heads)
    assert parts.combine(net) is net
    heads.append(nn.Linear(1, 1))
    for found in (parts, ModelParts((), iter(heads)), ModelParts((), heads[0])):
        combined = found.combine(net)
        assert isinstance(combined, nn.Module)
        assert heads[0] in list(combined.modules())


def test_a_plain_model_stays_itself_and_a_combined_one_the_same_object() -> None:
    net = normed()
    parts = ModelParts((None, None), None)
    assert parts.combine(net) is net
    whole = parts.combine(net.forward)
    assert isinstance(whole, CombinedModel)
    assert parts.combine(net.forward) is whole  # another bound method: no new process for a worker
    assert parts.combine(normed().forward) is not whole


def test_a_copy_that_would_refer_to_the_original_is_refused() -> None:
    net = normed()
    copied = copy.deepcopy(ModelParts((), None).combine(Wrapper(net)))
    assert isinstance(copied, nn.Module)
    assert not {*map(id, copied.modules())} & {*map(id, net.modules())}
    with pytest.raises(TypeError, match="still refer"):
        copy.deepcopy(ModelParts((), None).combine(lambda x: net(x)))


@pytest.mark.parametrize("modules", [[normed], normed, 3, [None]])
def test_modules_that_are_none(modules: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"modules has \w+, expected torch.nn.Module"):
        perdure.Evaluator(data(), modules=modules, record=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("initial", ["entered", "none"])
def test_an_unknown_module_is_refused_and_nothing_moves(initial: Any, tmp_path: Path) -> None:
    Registry.nets["net"] = net = normed()
    before = copy.deepcopy(net.state_dict())
    with (
        pytest.raises(TypeError, match=r"calls Linear, .*modules=") as refusal,
        perdure.Evaluator(data(), initial=initial, record=tmp_path / "run") as evaluator,
        evaluator.task("a", from_registry),
    ):
        evaluator.step(from_registry)
    assert "\n" not in str(refusal.value)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert all(module.training for module in net.modules())
    assert not lines(tmp_path / "run")


def odd(tensor: Tensor) -> nn.Module:
    net = normed()
    net.register_buffer("odd", tensor)
    return net


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: torch.eye(2).to_sparse(), "sparse_coo"),
        (lambda: torch.eye(2).to_sparse_csr(), "sparse_csr"),
        (lambda: torch.zeros(2, device="meta"), "meta"),
    ],
)
def test_a_worker_says_what_it_cannot_be_given(make: Callable[[], Tensor], kind: str) -> None:
    model = odd(make())

    def run() -> int:
        with perdure.Evaluator(data(), count_flops=False, **WORKER) as evaluator:
            with evaluator.task("a", model):
                for _ in range(3):
                    evaluator.step(model)
            return evaluator.live.step

    steps, (said,) = quietly(run, "Sparse CSR tensor support is in beta")
    assert f"cannot be shared with a process ({kind})" in said
    assert steps == 3


class Counted(Dataset[tuple[Tensor, int]]):
    """Draws noise for each example, and counts how often each is read."""

    def __init__(self, pair: tuple[Tensor, Tensor], generator: torch.Generator) -> None:
        self.pair, self.generator, self.reads = pair, generator, [0] * len(pair[0])

    def __len__(self) -> int:
        return len(self.reads)

    def __getitem__(self, k: int) -> tuple[Tensor, int]:
        self.reads[k] += 1
        x, y = self.pair
        return x[k] + torch.randn((), generator=self.generator), int(y[k])


def test_a_dataset_with_a_generator_of_its_own_is_read_once(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(1)
    tasks = {name: Counted(pair, generator) for name, pair in data("ab").items()}
    before, model = generator.get_state(), normed()
    with perdure.Evaluator(
        tasks, record=tmp_path / "run", subset=7, count_flops=False
    ) as evaluator:
        for name in tasks:
            with evaluator.task(name, model):
                evaluator.step(model)
    assert all(reads == [1] * 20 for reads in (task.reads for task in tasks.values()))
    assert torch.equal(generator.get_state(), before)
    ends = {
        line.score for line in lines(tmp_path / "run") if line.kind == "full" if line.tested == "a"
    }
    assert len(ends) == 1  # the same rows, and the same model


def watch(task: Any, model: Any, folder: Path | None = None, **options: Any) -> None:
    with (
        perdure.Evaluator({"a": task}, record=folder, count_flops=False, **options) as evaluator,
        evaluator.task("a", model),
    ):
        evaluator.step(model)


@pytest.mark.parametrize(
    "how",
    [
        {"batch_sampler": [[3, 1], [7], [1, 9]]},
        {"batch_sampler": BatchSampler([3, 1, 7, 1, 9], 2, drop_last=False)},
        {"sampler": [[3, 1], [7], [1, 9]], "batch_size": None},
        {"sampler": [3, 1, 7, 1, 9], "batch_size": None},
    ],
    ids=["batches", "plain batches", "lists", "no batches"],
)
def test_a_loader_with_batches_of_its_own_is_their_examples(
    how: dict[str, Any], tmp_path: Path
) -> None:
    loader = DataLoader(TensorDataset(*data()["a"]), **how)
    watch(loader, normed(), tmp_path / "run")
    assert {line.n for line in lines(tmp_path / "run")} == {4}


@pytest.mark.parametrize("own", [False, True])
def test_a_loader_of_tensors_is_collated_as_it_says(own: bool, tmp_path: Path) -> None:
    x, y = data()["a"]

    def collate(items: list[Any]) -> Any:
        return torch.stack([item[0] for item in items]), torch.zeros(len(items), dtype=torch.long)

    plain = BatchSampler(SequentialSampler(x), 5, drop_last=False)
    how: dict[str, Any] = {"batch_sampler": plain} if own else {"batch_size": 5}
    loader = DataLoader(TensorDataset(x, y + 1), collate_fn=collate, **how)
    watch(loader, first_class, tmp_path / "run")
    assert {(line.n, line.score) for line in lines(tmp_path / "run")} == {(20, 1.0)}


def first_class(x: Tensor) -> Tensor:
    return torch.eye(CLASSES)[0].expand(len(x), -1)


def test_generators_are_found_wherever_they_are() -> None:
    generator = torch.Generator()
    holders: list[Any] = [
        partial(torch.rand, 3, generator=generator),
        lambda: generator,
        Wrapper({"noise": [generator]}),
        generator.get_state,
    ]
    assert all(reachable([holder], GENERATORS) == [generator] for holder in holders)


def test_a_model_without_tensors_is_tested_inline_by_a_worker() -> None:
    _, (said,) = quietly(lambda: watch(data()["a"], first_class, **WORKER))
    assert "no tensors" in said
