"""Counted operations run the kernels that PyTorch runs without a counter, and all are counted."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everyone writes it
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

import perdure
from perdure.evaluation.costs.flops import FlopCounter

from .evaluator_layers import Attention, Llama, Recurrent, SelfAttention

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Seen(TorchDispatchMode):
    """Notes every operation that reaches a kernel."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def convolved(x: Tensor) -> Tensor:
    return F.conv2d(x.unflatten(0, (3, 1)), torch.ones(2, 1, 3, 3))


WHOLE: dict[str, tuple[Callable[[], Callable[[Tensor], Any]], int]] = {
    "linear": (lambda: nn.Linear(16, 5), 2 * 3 * 8 * 16 * 5),
    "matmul": (lambda: lambda x: x @ x.mT, 2 * 3 * 8 * 16 * 8),
    "einsum": (lambda: lambda x: torch.einsum("nld,nmd->nlm", x, x), 2 * 3 * 8 * 16 * 8),
    "conv2d": (lambda: convolved, 2 * 3 * 2 * 9 * 6 * 14),
    "attention": (Attention, 2 * 3 * 8 * 16 * 48 + 2 * (2 * 3 * 2 * 8 * 8 * 8)),
    "MultiheadAttention": (lambda: SelfAttention(16, 2, batch_first=True), 0),
    "LSTM": (lambda: Recurrent(nn.LSTM), 2 * 3 * 8 * 64 * (16 + 16)),
    "GRU": (lambda: Recurrent(nn.GRU), 2 * 3 * 8 * 48 * (16 + 16)),
    "LLaMA": (Llama, 0),
}


@pytest.mark.parametrize("name", WHOLE)
def test_what_arrives_whole_in_inference_mode_is_counted(name: str) -> None:
    """Without autograd an operation is not taken apart before it is counted."""
    make, by_hand = WHOLE[name]
    model, counts = make(), []
    for mode in (torch.no_grad(), torch.inference_mode()):
        with mode, FlopCounter() as flops:
            model(torch.ones(3, 8, 16))
        counts.append(flops.total)
    assert counts[0] == counts[1] > 0
    assert counts[1] == (by_hand or counts[1])


def encoder() -> nn.Module:
    return nn.TransformerEncoderLayer(16, 2, 40, dropout=0, batch_first=True).eval()


def unfused_attention() -> Any:
    return torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)


@contextmanager
def no_fast_path() -> Iterator[None]:
    torch.backends.mha.set_fastpath_enabled(value=False)
    try:
        with unfused_attention():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(value=True)


@contextmanager
def no_onednn() -> Iterator[None]:
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)  # noqa: FBT003 - takes no name; flags() warns
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


FUSED: dict[str, tuple[Callable[[], nn.Module], Callable[[], Any]]] = {
    "attention": (Attention, unfused_attention),
    "MultiheadAttention": (lambda: SelfAttention(16, 2, batch_first=True).eval(), no_fast_path),
    "TransformerEncoderLayer": (encoder, no_fast_path),
    "LSTM": (lambda: Recurrent(nn.LSTM), no_onednn),
    "LSTM of two layers": (lambda: Recurrent(nn.LSTM, num_layers=2), no_onednn),
    "LSTM in both directions": (
        lambda: Recurrent(nn.LSTM, bidirectional=True, bias=False),
        no_onednn,
    ),
}


@pytest.mark.parametrize("name", FUSED)
def test_a_fused_kernel_counts_as_its_parts_do(name: str) -> None:
    make, without = FUSED[name]
    model, counts = make(), []
    for around in (nullcontext, without):
        with torch.no_grad(), around(), FlopCounter() as flops:
            model(torch.ones(3, 8, 16))
        counts.append(flops.total)
    assert counts[0] == counts[1] > 0


def test_the_gradient_of_an_lstm_counts_as_its_parts_do() -> None:
    """With a gradient for the first state: without, the first place has one product less."""
    model, counts = nn.LSTM(16, 16, batch_first=True), []
    for around in (nullcontext, no_onednn):
        x, h, c = (torch.ones(n, m, 16, requires_grad=True) for n, m in ((3, 8), (1, 3), (1, 3)))
        with around(), FlopCounter() as flops:
            model(x, (h, c))[0].sum().backward()
        counts.append(flops.total)
    assert counts[0] == counts[1] == 3 * (2 * 3 * 8 * 64 * 32)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_an_operation_with_a_kernel_is_not_taken_apart(device: str) -> None:
    x = torch.ones(4, device=device, requires_grad=True)
    with Seen() as seen, FlopCounter():
        F.silu(x).sum().backward()
    assert "aten.silu_backward.default" in seen.names
    assert "aten.sigmoid.default" not in seen.names


class Labelled(Tensor):
    """A subclass that sees the operations on itself."""

    seen: list[str]
    inside: Tensor

    @staticmethod
    def __new__(cls, inside: Tensor) -> Labelled:
        made: Labelled = Tensor._make_wrapper_subclass(cls, inside.shape, dtype=inside.dtype)
        made.inside, cls.seen = inside, []
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        cls.seen.append(str(func))
        plain = [a.inside if isinstance(a, Labelled) else a for a in args]
        return func(*plain, **(kwargs or {}))


def test_a_subclass_sees_the_same_operations() -> None:
    found = []
    for mode in (nullcontext(), FlopCounter()):
        with torch.inference_mode():
            x = Labelled(torch.ones(2, 3))
            with mode:
                x @ torch.ones(3, 2)
        found.append(x.seen)
    assert found[0] == found[1] == ["aten.matmul.default"]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors_have_kernels_of_their_own() -> None:
    x = torch.nested.nested_tensor([torch.ones(3, 8), torch.ones(5, 8)], requires_grad=True)
    weight, bias = torch.ones(4, 8, requires_grad=True), torch.ones(4, requires_grad=True)
    with FlopCounter() as flops:
        torch.nested.to_padded_tensor(F.linear(x, weight, bias), 0.0).sum().backward()
    assert flops.total == 3 * (2 * 8 * 8 * 4)  # forward, inputs and weights; eight rows in all
    with torch.inference_mode(), FlopCounter() as flops:
        F.linear(x.detach().reshape(2, -1, 8), weight)
    assert flops.total == 2 * 8 * 8 * 4


def test_an_error_in_a_gradient_leaves_no_counter_behind() -> None:
    with FlopCounter():
        out = torch.ones(3, requires_grad=True).prod() * 2
        out.backward()
    with pytest.raises(RuntimeError, match="second time"), FlopCounter():
        out.backward()
    assert not _get_current_dispatch_mode_stack()


def test_the_gradient_of_a_product_leaves_the_counter_counting() -> None:
    layer = nn.Linear(3, 3)
    with FlopCounter() as flops:
        layer(torch.ones(2, 3)).prod(1).sum().backward()
    assert flops.total == 2 * (2 * 2 * 3 * 3)  # forward, and the weights after the product


def test_flex_attention_is_run_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.nn.attention import flex_attention as flex

    if not hasattr(flex, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"):
        pytest.skip("this PyTorch always compiles it")
    monkeypatch.setattr(flex, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
    monkeypatch.setattr(flex, "_WARNINGS_SHOWN", {"flex_attention_performance"}, raising=False)
    x = torch.ones(1, 2, 16, 8)
    with FlopCounter() as flops:
        flex.flex_attention(x, x, x)
    assert flops.total == 2 * (2 * 2 * 16 * 16 * 8)


@pytest.mark.filterwarnings("ignore:the first step is counted before")
def test_a_formula_that_does_not_fit_stops_no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> int:
        raise AssertionError("shapes are incompatible")

    monkeypatch.setattr("perdure.evaluation.costs.flops.formula", lambda _: refuse)
    with FlopCounter() as flops:
        torch.ones(2, 3) @ torch.ones(3, 4)
    assert "mm" in flops.problem
    assert "shapes are incompatible" in flops.problem
    with pytest.warns(perdure.EvaluationWarning, match="flops.* is not measured"):
        found = _watched_for_two_steps()
    assert found.metrics["acc"] in (0, 1)


def _watched_for_two_steps() -> perdure.Summary:
    model = nn.Linear(3, 2)
    x, y = torch.ones(4, 3), torch.zeros(4, dtype=torch.long)
    with perdure.Evaluator({"a": (x, y)}) as evaluator, evaluator.task("a", model):
        for _ in range(2):
            F.cross_entropy(model(x), y).backward()
            evaluator.step(model)
    return evaluator.summary()
