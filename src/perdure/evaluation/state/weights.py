"""Weights that change, or do not, where the record would not show it; norms of gradients."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from ..._devices import widest_float
from .preserve import preserve_rng_and_buffers, user_model

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["LossTerm", "WeightMonitor", "gradient_norm", "gradient_norms", "weight_checksums"]

CHUNK = 1 << 22  # elements that are summed at a time: a sum of integers copies what it adds up
INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes

Checksums = dict[str, tuple[torch.Size, int]]  # by the name of the parameter
LossTerm = Tensor | Iterable[Tensor | None] | None  # a loss, or gradients that are given


class _Snapshot(NamedTuple):
    """What is remembered of a model's weights."""

    model: object
    task: str
    weights: Checksums
    versions: list[int | None]


class WeightMonitor:
    """Compares the weights at the end of a task, at the start of the next and at the first step.

    It warns if the weights of the same model changed unseen, and notes if another took its place.
    """

    def __init__(self, warn: Callable[[str], None], note: Callable[[str], None]) -> None:
        self._warn, self._note = warn, note
        self._begun: _Snapshot | None = None  # before the first step of the run
        self._given: tuple[str, object] | None = None  # the task that began, and its model
        self._ended: _Snapshot | None = None

    def begin_task(
        self, task: str, model: object, *, given: bool, is_first: bool, declared: bool
    ) -> None:
        """Compare with the end of the last task, unless changes in between are `declared`.

        `given` says that the user passed the model, so that its steps have to be of the same one.
        """
        if not declared:
            self._compare(model, f"the start of {task!r}")
        self._ended = None
        self._begun = _snapshot(task, model) if is_first else None
        self._given = (task, model) if given else None

    def end_task(self, task: str, model: object) -> None:
        """Remember the weights that the scores at the end of a task belong to."""
        self._ended = _snapshot(task, model)

    def close(self, *, declared: bool) -> None:
        """Compare the weights at the end of the last task with those of now."""
        if self._ended is not None and not declared:
            self._compare(self._ended.model, "the end of the run")
        self._ended = None

    @property
    def awaits_step(self) -> bool:
        """Whether the next step is the first of a task whose model is known."""
        return self._begun is not None or self._given is not None

    def step(self, model: object) -> None:
        """Raise for another model than the task began with; warn of weights not yet changed."""
        if self._given is not None:
            _check_same_model(*self._given, model)
        self._given = None
        before, self._begun = self._begun, None
        if before is None or before.model is not user_model(model):
            return
        parameters = _plain_parameters(model)
        updated = before.versions != [_version(tensor) for tensor in parameters.values()]
        if updated or not _has_gradients(list(parameters.values())):
            return
        if before.weights == weight_checksums(model):
            self._warn(
                "the first step is counted before the weights have changed, although there are "
                "gradients: call evaluator.step(model) after optimizer.step(), not before it "
                "(otherwise every score belongs to the step before)"
            )

    def _compare(self, model: object, when: str) -> None:
        before = self._ended
        if before is None:
            return
        now = weight_checksums(model)
        shared = [name for name in now if name in before.weights]  # a head may have grown
        if not any(_differs(before.weights[name], now[name]) for name in shared):
            return
        report = self._warn if before.model is user_model(model) else self._note
        report(
            f"the weights changed between the end of {before.task!r} and {when}: the scores at the "
            f"end of {before.task!r} are not those of the model that continues; restore weights "
            "inside the task block (a deliberate change: with evaluator.costs.count_as_training():)"
        )


def _check_same_model(task: str, begun: object, stepped: object) -> None:
    """Raise if two models have no parameter in common; a wrapper shares those of its model."""
    models = (begun, stepped)
    if begun is stepped or not all(isinstance(model, nn.Module) for model in models):
        return
    ids = [{id(p) for p in model.parameters()} for model in models if isinstance(model, nn.Module)]
    if all(ids) and not ids[0] & ids[1]:
        raise ValueError(
            f"step is given another model than task {task!r} began with, expected the same one: "
            f"evaluator.task({task!r}, model) and evaluator.step(model); evaluate two models with "
            "an evaluator each"
        )


def weight_checksums(model: object) -> Checksums:
    """Return the shape and the sum of the bits of every parameter, which is not written to.

    Example:
        >>> weight_checksums(nn.Linear(2, 1))["weight"][0]
        torch.Size([1, 2])
    """
    parameters = _plain_parameters(model)
    sums = [_bit_sum(tensor) for tensor in parameters.values()]
    device = sums[0].device if sums else None  # one transfer, of parameters on one device
    values = torch.stack([total.to(device) for total in sums]).tolist() if sums else []
    named = zip(parameters.items(), values, strict=True)
    return {name: (tensor.shape, value) for (name, tensor), value in named}


def _bit_sum(tensor: Tensor) -> Tensor:
    flat = tensor.detach().reshape(-1)
    flat = torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat
    bits = flat.view(INTEGERS[flat.element_size()])
    return torch.stack([part.sum(dtype=torch.int64) for part in bits.split(CHUNK)]).sum()


def _plain_parameters(model: object) -> dict[str, Tensor]:
    """Return the parameters whose bits can be read, by name."""
    if not isinstance(model, nn.Module):
        return {}
    return {
        name: parameter
        for name, parameter in model.named_parameters()
        if type(parameter) is nn.Parameter
        and parameter.layout is torch.strided
        and not (parameter.is_quantized or parameter.is_nested or parameter.is_meta)
        and parameter.numel()
    }


def _snapshot(task: str, model: object) -> _Snapshot:
    versions = [_version(tensor) for tensor in _plain_parameters(model).values()]
    return _Snapshot(user_model(model), task, weight_checksums(model), versions)


def _version(tensor: Tensor) -> int | None:
    return None if tensor.is_inference() else tensor._version  # noqa: SLF001


def _has_gradients(parameters: list[Tensor]) -> bool:
    """Return whether there are gradients that an optimizer would apply: finite and not zero.

    With infinite ones, mixed-precision training skips the update.
    """
    gradients = [p.grad for p in parameters if p.grad is not None and not p.grad.is_sparse]
    finite = all(bool(gradient.isfinite().all()) for gradient in gradients)
    return finite and any(bool(gradient.any()) for gradient in gradients)


def _differs(before: tuple[torch.Size, int], now: tuple[torch.Size, int]) -> bool:
    """Return whether the weights of a tensor of unchanged shape have changed."""
    return before[0] == now[0] and before[1] != now[1]


def gradient_norm(term: Tensor | Iterable[Tensor | None], parameters: Sequence[Tensor]) -> float:
    """Return the L2 norm of the gradient of a loss term, or of the given gradients.

    The autograd graph is retained, so that `backward` can follow, and `.grad` is not written to.

    Example:
        >>> weight = torch.tensor([3.0, 4.0], requires_grad=True)
        >>> gradient_norm(weight.square().sum() / 2, [weight]), weight.grad
        (5.0, None)
    """
    if isinstance(term, Tensor) and term.requires_grad and term.dim():
        raise ValueError(
            f"a loss term has shape {tuple(term.shape)}, expected one number: take its mean or sum"
        )
    gradients: Iterable[Tensor | None]
    if isinstance(term, Tensor) and term.requires_grad:
        trainable = [parameter for parameter in parameters if parameter.requires_grad]
        gradients = _gradients(term, trainable)
    elif isinstance(term, Tensor):
        gradients = [term] if term.dim() else []  # a constant loss has no gradient
    elif hasattr(term, "__iter__"):
        gradients = term
    else:
        raise TypeError(
            f"a loss term is {term!r:.40}, expected the loss itself as a tensor (before .item()), "
            "gradients, or None"
        )
    norms = [g.detach().to(widest_float(g.device)).norm() for g in gradients if g is not None]
    total = float(torch.stack(norms).norm()) if norms else 0.0
    if not isfinite(total):
        raise ValueError(f"the norm of a gradient is {total}, expected a finite number")
    return total


def _gradients(loss: Tensor, parameters: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
    """Return the gradients of a loss whose graph `backward` has not freed yet."""
    try:
        return torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
    except RuntimeError as error:
        if "second time" not in str(error):
            raise
        raise RuntimeError(
            "record_gradients is called after backward(), which has freed the graph of the loss; "
            "call it before backward(), or use backward(retain_graph=True)"
        ) from None


def gradient_norms(model: nn.Module, terms: Sequence[LossTerm]) -> list[str]:
    """Return the norm of each term as text for the record, empty for None."""
    parameters = list(model.parameters())
    with preserve_rng_and_buffers(
        [*model.modules()]
    ):  # activation checkpointing runs the forward again
        return ["" if term is None else repr(gradient_norm(term, parameters)) for term in terms]
