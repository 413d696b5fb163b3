"""Body and heads: which scores are computed, which are hidden, and what gets a gradient."""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from perdure.models import HIDDEN, Network, build
from perdure.record import InputError

from .test_models import images

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = (1, 6, 6)
SIZES = [2, 3, 1]
STARTS = [0, 2, 5]


def net(heads: list[int] | None = None, *, mask_unseen: bool = False, seed: int = 0) -> Network:
    torch.manual_seed(seed)
    return build("mlp", SHAPE, 6, heads=heads, mask_unseen=mask_unseen, hidden=[8])


def opened(network: Network, *tasks: int) -> Network:
    for task in tasks:
        network.open(task, range(STARTS[task], STARTS[task] + SIZES[task]))
    return network


def separate(network: Network, x: Tensor, task: int) -> Tensor:
    """Return the scores of a task from a layer built here with the weights of its head."""
    state = network.state_dict()
    layer = nn.Linear(8, SIZES[task])
    layer.weight.data.copy_(state[f"head.{task}.weight"])
    layer.bias.data.copy_(state[f"head.{task}.bias"])
    scores = torch.full((len(x), 6), -32768.0)
    scores[:, STARTS[task] : STARTS[task] + SIZES[task]] = layer(network.body(x))
    return scores


# --- one head -------------------------------------------------------------------------------------


def test_one_head_gives_all_scores_whatever_the_task() -> None:
    network, x = net(), images(SHAPE, 4)
    assert network.state_dict().keys() == {
        "body.1.weight", "body.1.bias", "head.weight", "head.bias"
    }  # fmt: skip
    for task in (None, 0, 7, torch.zeros(4, dtype=torch.long)):
        assert torch.equal(network(x, task), network.head(network.body(x)))
    network.open(3, [0, 1])
    assert torch.equal(network(x), network.head(network.body(x)))


def test_classes_that_were_not_opened_are_hidden() -> None:
    plain, network, x = net(), net(mask_unseen=True), images(SHAPE, 4)
    assert (network(x) == HIDDEN).all()
    seen: list[int] = []
    for task, classes in enumerate(([3, 1], [], [0, 5])):
        network.open(task, classes)
        seen += classes
        hidden = [c for c in range(6) if c not in seen]
        scores = network(x)
        assert torch.equal(scores[:, seen], plain(x)[:, seen])
        assert (scores[:, hidden] == HIDDEN).all()


def test_opening_again_changes_nothing() -> None:
    network = opened(net(SIZES, mask_unseen=True), 0, 1)
    before = copy.deepcopy(network.state_dict())
    opened(network, 1, 0)
    assert network._open == [0, 1], "each head is computed once"
    assert all(torch.equal(value, before[key]) for key, value in network.state_dict().items())


def test_the_mask_is_changed_in_place() -> None:
    network = opened(net(SIZES, mask_unseen=True))
    assert network.unseen is not None
    assert network.opened is not None
    places = network.unseen.data_ptr(), network.opened.data_ptr()
    opened(network, 0, 2)
    assert (network.unseen.data_ptr(), network.opened.data_ptr()) == places


# --- a head for each task -------------------------------------------------------------------------


def test_every_task_has_a_layer_of_its_own() -> None:
    network = net(SIZES)
    assert isinstance(network.head, nn.ModuleList)
    assert all(type(part) is nn.Linear for part in network.head)
    assert [part.weight.shape for part in network.head] == [(size, 8) for size in SIZES]
    places = {p.data_ptr() for p in network.parameters()}
    assert len(places) == len(list(network.parameters())), "no two share memory"


@pytest.mark.parametrize("task", range(3))
def test_a_task_alone_is_its_head_between_hidden_columns(task: int) -> None:
    network, x = net(SIZES), images(SHAPE, 4)
    assert torch.equal(network(x, task), separate(network, x, task))


@pytest.mark.parametrize("recorded", [True, False])
def test_a_task_for_each_example_is_each_example_with_its_task(*, recorded: bool) -> None:
    network, x = opened(net(SIZES), 0, 1, 2), images(SHAPE, 6)
    tasks = torch.tensor([2, 0, 1, 1, 2, 0])
    with torch.set_grad_enabled(recorded):
        scores = network(x, tasks)
    for row, task in enumerate(tasks.tolist()):
        expected = separate(network, x[row : row + 1], task)
        torch.testing.assert_close(scores[row : row + 1], expected)
        assert torch.equal(scores[row] == HIDDEN, expected[0] == HIDDEN)


def test_heads_begin_with_the_weights_of_the_single_head() -> None:
    assert isinstance(head := net().head, nn.Linear)
    state = net(SIZES).state_dict()
    assert torch.equal(torch.cat([state[f"head.{k}.weight"] for k in range(3)]), head.weight)
    assert torch.equal(torch.cat([state[f"head.{k}.bias"] for k in range(3)]), head.bias)


def gradients(network: Network) -> dict[str, Tensor | None]:
    return {name: p.grad for name, p in network.named_parameters()}


def test_one_task_leaves_the_other_heads_without_a_gradient() -> None:
    network, x = net(SIZES), images(SHAPE, 4)
    cross_entropy(network(x, 1), torch.tensor([2, 3, 4, 2])).backward()
    found = gradients(network)
    assert [k for k, g in found.items() if g is None] == [
        "head.0.weight", "head.0.bias", "head.2.weight", "head.2.bias"
    ]  # fmt: skip
    assert all(g.any() for g in found.values() if g is not None)


def test_a_task_for_each_example_trains_the_opened_heads_only() -> None:
    network, x = opened(net(SIZES), 0, 1), images(SHAPE, 4)
    cross_entropy(network(x, torch.tensor([1, 1, 1, 1])), torch.tensor([2, 3, 4, 2])).backward()
    found = gradients(network)
    assert found["head.2.weight"] is found["head.2.bias"] is None
    assert found["head.0.weight"] is not None
    assert not found["head.0.weight"].any(), "opened, but no example is of it"
    assert found["head.1.weight"] is not None
    assert found["head.1.weight"].any()


def test_gradients_of_mixed_tasks_are_the_sum_of_those_of_each() -> None:
    network, x = opened(net(SIZES), 0, 1, 2).double(), images(SHAPE, 6).double()
    tasks, y = torch.tensor([2, 0, 1, 1, 2, 0]), torch.tensor([5, 1, 4, 2, 5, 0])
    cross_entropy(network(x, tasks), y, reduction="sum").backward()
    mixed = copy.deepcopy(gradients(network))
    network.zero_grad()
    for task in range(3):
        mine = tasks == task
        cross_entropy(network(x[mine], task), y[mine], reduction="sum").backward()
    for name, gradient in gradients(network).items():
        torch.testing.assert_close(mixed[name], gradient, rtol=1e-12, atol=1e-12)


def test_heads_may_be_opened_in_any_order() -> None:
    network, x = opened(net(SIZES), 2, 0), images(SHAPE, 2)
    scores = network(x, torch.tensor([2, 0]))
    torch.testing.assert_close(scores[:1], separate(network, x[:1], 2))
    torch.testing.assert_close(scores[1:], separate(network, x[1:], 0))


def test_a_row_of_a_task_that_was_not_opened() -> None:
    network, x = opened(net(SIZES), 0), images(SHAPE, 2)
    tasks = torch.tensor([0, 1])
    assert (network(x, tasks)[1] == HIDDEN).all()
    with torch.no_grad():  # as when tasks are tested before they are learned
        torch.testing.assert_close(network(x, tasks)[1:], network(x[1:], 1))
        torch.testing.assert_close(net(SIZES)(x, tasks)[1:], network(x[1:], 1))


def test_unseen_classes_of_a_head_are_hidden_too() -> None:
    network, x = net(SIZES, mask_unseen=True), images(SHAPE, 3)
    network.open(1, [2, 4])
    hidden = torch.tensor([True, True, False, True, False, True])
    for task in (1, torch.tensor([1, 1, 1])):
        scores = network(x, task)
        assert torch.equal(scores == HIDDEN, hidden.expand(3, 6))


# --- hidden scores and losses ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_hidden_score_is_exact_and_softmax_gives_it_nothing(dtype: torch.dtype) -> None:
    scores = torch.tensor([[1.5, HIDDEN, -2.0, HIDDEN]], dtype=dtype)
    assert scores[0, 1].item() == -32768.0
    assert scores.softmax(1)[0, [1, 3]].tolist() == [0, 0]
    assert scores.log_softmax(1).isfinite().all()


@pytest.mark.parametrize("way", ["unseen", "task", "tasks"])
def test_the_gradient_of_hidden_classes_is_exactly_zero(way: str) -> None:
    x, y = images(SHAPE, 5), torch.tensor([2, 3, 4, 4, 3])
    network = net(None if way == "unseen" else [2, 3, 1], mask_unseen=way == "unseen")
    network.open(1, [2, 3, 4])
    task = {"unseen": None, "task": 1, "tasks": torch.ones(5, dtype=torch.long)}[way]
    scores = network(x, task)
    scores.retain_grad()
    cross_entropy(scores, y).backward()
    assert scores.grad is not None
    assert not scores.grad[:, [0, 1, 5]].any()
    assert scores.grad[:, 2:5].any()
    if isinstance(network.head, nn.Linear):
        assert isinstance(weight := network.head.weight.grad, Tensor)
        assert isinstance(bias := network.head.bias.grad, Tensor)
        assert not weight[[0, 1, 5]].any()
        assert not bias[[0, 1, 5]].any()
        assert weight[2:5].any(1).all()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("classes", [[], [0], [0, 1, 2], range(6)])
def test_a_loss_is_a_number_whatever_is_hidden(classes: Any, smoothing: float) -> None:
    network, x = net(mask_unseen=True), 1e3 * images(SHAPE, 6)
    network.open(0, classes)
    loss = cross_entropy(network(x), torch.arange(6), label_smoothing=smoothing)
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())
    if not classes:
        assert loss.item() == pytest.approx(math.log(6))


# --- state ----------------------------------------------------------------------------------------


def saved(network: Network, path: Path) -> dict[str, Tensor]:
    save_file(network.state_dict(), path)
    return load_file(path)


@pytest.mark.parametrize("assign", [False, True])
def test_a_stored_network_goes_on_where_it_was(tmp_path: Path, *, assign: bool) -> None:
    first = opened(net(SIZES, mask_unseen=True), 0, 2)
    state = saved(first, tmp_path / "state.safetensors")
    second = net(SIZES, mask_unseen=True, seed=1)
    second.load_state_dict(state, assign=assign)
    x, tasks, y = images(SHAPE, 4), torch.tensor([0, 2, 2, 0]), torch.tensor([0, 5, 5, 1])
    assert torch.equal(first(x, tasks), second(x, tasks))
    for network in (first, second):
        cross_entropy(network(x, tasks), y).backward()
    for (name, mine), theirs in zip(
        gradients(second).items(), gradients(first).values(), strict=True
    ):
        assert (mine is None) is (theirs is None), name
        assert mine is None or theirs is None or torch.equal(mine, theirs)
    assert gradients(second)["head.1.weight"] is None


def test_a_younger_state_closes_what_was_opened_since() -> None:
    network, x = opened(net(SIZES), 0), images(SHAPE, 2)
    before = copy.deepcopy(network.state_dict())
    opened(network, 1, 2)
    network.load_state_dict(before)
    network(x, torch.tensor([0, 0])).sum().backward()
    assert gradients(network)["head.1.weight"] is None
    assert gradients(network)["head.0.weight"] is not None


def test_a_copy_stands_alone() -> None:
    first = opened(net(SIZES, mask_unseen=True), 0)
    second = copy.deepcopy(first)
    opened(second, 1)
    x = images(SHAPE, 2)
    assert (first(x, 1) == HIDDEN).all()
    assert not (second(x, 1) == HIDDEN).all()
    first(x, torch.tensor([0, 0])).sum().backward()
    assert gradients(first)["head.1.weight"] is None


def test_a_copy_that_gets_tensors_only_tests_what_was_opened_since() -> None:
    network = net(SIZES, mask_unseen=True)
    replica = copy.deepcopy(network)
    opened(network, 0, 1)
    for mine, theirs in zip(
        [*replica.parameters(), *replica.buffers()],
        [*network.parameters(), *network.buffers()],
        strict=True,
    ):
        mine.data.copy_(theirs)
    with torch.no_grad():
        x, tasks = images(SHAPE, 4), torch.tensor([1, 0, 0, 1])
        assert torch.equal(replica(x, tasks), network(x, tasks))


# --- ways to run ----------------------------------------------------------------------------------

WAYS: list[Any] = [None, 1, "rows"]


def ready(way: Any) -> tuple[Network, Any]:
    network = opened(net(None if way is None else SIZES, mask_unseen=True), 0, 1)
    return network, torch.tensor([0, 1, 1]) if way == "rows" else way


@pytest.mark.parametrize("way", WAYS)
def test_functional_calls_use_the_tensors_they_are_given(way: Any) -> None:
    network, task = ready(way)
    x = images(SHAPE, 3)
    twice = {name: 2 * p.detach() for name, p in network.named_parameters()}
    other = copy.deepcopy(network)
    for name, p in other.named_parameters():
        p.data.copy_(twice[name])
    assert torch.equal(functional_call(network, twice, (x, task)), other(x, task))

    def loss(parameters: dict[str, Tensor]) -> Tensor:
        return cross_entropy(
            functional_call(network, parameters, (x, task)), torch.tensor([0, 2, 3])
        )

    cross_entropy(other(x, task), torch.tensor([0, 2, 3])).backward()
    for name, gradient in grad(loss)(twice).items():
        expected = gradients(other)[name]
        torch.testing.assert_close(
            gradient, torch.zeros_like(gradient) if expected is None else expected
        )


def test_gradients_of_each_example() -> None:
    network, x, y = opened(net(SIZES), 1), images(SHAPE, 4), torch.tensor([2, 3, 4, 2])
    parameters = {name: p.detach() for name, p in network.named_parameters()}

    def loss(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(functional_call(network, weights, (x[None], 1)), y[None])

    each = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
    cross_entropy(network(x, 1), y).backward()
    weight = gradients(network)["head.1.weight"]
    torch.testing.assert_close(each["head.1.weight"].mean(0), weight)


@pytest.mark.parametrize("way", WAYS)
def test_half_precision_by_autocast(way: Any) -> None:
    network, task = ready(way)
    x = images(SHAPE, 3)
    full = network(x, task)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = network(x, task)
        loss = cross_entropy(half, torch.tensor([0, 2, 3]))
    assert half.dtype == torch.bfloat16
    assert torch.equal(half == HIDDEN, full == HIDDEN)
    torch.testing.assert_close(half.float(), full, rtol=0.05, atol=0.05)
    loss.backward()
    assert loss.isfinite()


def test_autocast_where_the_body_computes_nothing() -> None:
    network, x = opened(build("mlp", SHAPE, 6, heads=SIZES, hidden=[]), 1), images(SHAPE, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert network(x, torch.tensor([1, 1])).dtype == torch.bfloat16


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_precisions(way: Any, dtype: torch.dtype) -> None:
    network, task = ready(way)
    x = images(SHAPE, 3)
    scores = network.to(dtype)(x.to(dtype), task)
    assert scores.dtype == dtype
    assert torch.equal(scores == HIDDEN, ready(way)[0](x, task) == HIDDEN)


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("way", WAYS)
def test_empty_batches_and_batches_of_one(way: Any, n: int) -> None:
    network, task = ready(way)
    task = task[:n] if isinstance(task, Tensor) else task
    assert network.eval()(images(SHAPE, n), task).shape == (n, 6)


def test_channels_last_scores_alike() -> None:
    torch.manual_seed(0)
    network = build("resnet18-slim", (3, 32, 32), 6, heads=SIZES, filters=4).eval()
    x, tasks = images((3, 32, 32), 4), torch.tensor([0, 1, 2, 0])
    with torch.no_grad():
        expected = network(x, tasks)
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        scores = network(x.to(memory_format=torch.channels_last), tasks)
    torch.testing.assert_close(scores, expected, rtol=1e-4, atol=1e-4)


cuda = pytest.mark.cuda


@cuda
@pytest.mark.parametrize("recorded", [True, False])
def test_a_step_with_a_task_for_each_example_can_be_captured(*, recorded: bool) -> None:
    network = opened(net(SIZES, mask_unseen=True), 0, 1).cuda()
    x, tasks, y = images(SHAPE, 4).cuda(), torch.tensor([0, 1, 1, 0]), torch.tensor([0, 2, 3, 1])
    tasks, y = tasks.cuda(), y.cuda()

    def step() -> Tensor:
        with torch.set_grad_enabled(recorded):
            scores = network(x, tasks)
            if recorded:
                cross_entropy(scores, y).backward()
        kept: Tensor = scores.detach()
        return kept

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    network.zero_grad()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    x.copy_(images(SHAPE, 4, seed=1))
    tasks.copy_(torch.tensor([1, 1, 0, 0]))
    graph.replay()
    torch.testing.assert_close(captured, network(x, tasks).detach())
    assert torch.equal(captured == HIDDEN, network(x, tasks) == HIDDEN)
    assert gradients(network)["head.2.weight"] is None


@cuda
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@pytest.mark.parametrize("way", WAYS)
def test_cuda_scores_alike_without_waiting(way: Any) -> None:
    network, task = ready(way)
    x = images(SHAPE, 3)
    expected = network(x, task)
    network, x = network.cuda(), x.cuda()
    task = task.cuda() if isinstance(task, Tensor) else task
    network(x, task)  # libraries start
    torch.cuda.set_sync_debug_mode("error")
    try:
        scores = network(x, task)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.testing.assert_close(scores.cpu(), expected)
    state = {name: tensor.cpu() for name, tensor in network.state_dict().items()}
    network.load_state_dict(state)
    opened(network, 2)
    torch.testing.assert_close(network(x, task)[:, 0].cpu(), expected[:, 0])


# --- mistakes -------------------------------------------------------------------------------------


def refusal(function: Any, *words: str) -> None:
    with pytest.raises(InputError) as caught:
        function()
    line = str(caught.value)
    assert len(line.splitlines()) == 1
    for word in words:
        assert word in line, f"{word!r} is not in {line!r}"


def test_mistakes_with_tasks() -> None:
    network, x = net(SIZES), images(SHAPE, 2)
    refusal(lambda: network(x), "task is None", "its own head")
    refusal(lambda: network(x, 3), "task is 3", "0 to 2")
    refusal(lambda: network(x, -1), "task is -1", "0 to 2")
    refusal(lambda: network(x, torch.tensor([0])), "shape (1,)", "each of 2 examples")
    refusal(lambda: network(x, torch.tensor(0)), "shape ()", "each of 2 examples")
    refusal(lambda: network(x, torch.tensor([0, 1])), "no task is open", "open(task, classes)")


def test_mistakes_when_opening() -> None:
    network = net(SIZES)
    refusal(lambda: network.open(3, [0]), "task is 3", "0 to 2")
    refusal(lambda: network.open(-1, [0]), "open: task is -1", "at least 0")
    refusal(lambda: network.open(1, [0, 1]), "task 1 has class 0", "from 2 to 4", "order of the")
    refusal(lambda: network.open(0, [0.5]), "a class is 0.5", "whole")  # type: ignore[list-item]
    assert network.opened is not None
    assert not network.opened.any(), "a mistake opens nothing"
    refusal(lambda: net(mask_unseen=True).open(0, [6]), "class 6", "from 0 to 5")


@pytest.mark.parametrize(
    ("heads", "words"),
    [
        ([2, 2], ("heads is [2, 2]", "4 classes", "expected 6")),
        ([], ("heads is []", "0 classes", "expected 6")),
        ([6, 0], ("heads is [6, 0]", "from 1")),
        ([3.0, 3], ("heads is [3.0, 3]", "whole numbers")),
    ],
)
def test_mistakes_with_the_sizes_of_heads(heads: Any, words: tuple[str, ...]) -> None:
    refusal(lambda: net(heads), *words)
