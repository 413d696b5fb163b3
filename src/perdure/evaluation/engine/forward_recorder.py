"""Recording the operations of a forward pass, so that they can be repeated without the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from ..state.tensors import leaves, map_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import torch

__all__ = ["NotRecordableError", "RecordedCall", "RecordedValue", "Recording", "record"]

# What a model does with the results of these is not recorded, or what it writes by them.
READERS = ("__bool__", "__float__", "__index__", "__int__", "item", "numpy", "tolist")
WRITERS = ("__set__", "__setitem__")


class NotRecordableError(RuntimeError):
    """Raised when a forward pass cannot be repeated from its operations; the message says why."""


@dataclass(frozen=True)
class RecordedValue:
    """An input of the forward pass or the result of an operation, by number."""

    number: int


class RecordedCall:
    """An operation: a function of PyTorch, with values in place of tensors that were computed.

    Args:
        function: of PyTorch.
        arguments: by position.
        options: by name.
        results: a value, or a tree of them.
        overwritten: values whose memory it writes to.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Any,
        options: Any,
        results: Any,
        overwritten: set[int],
    ) -> None:
        self.function, self.arguments, self.options = function, arguments, options
        self.results, self.overwritten = results, overwritten
        parts = [*leaves(arguments), *leaves(options)]
        self.inputs = [part.number for part in parts if isinstance(part, RecordedValue)]
        self.outputs = [part.number for part in leaves(results) if isinstance(part, RecordedValue)]


class Recording(NamedTuple):
    """The operations that lead from inputs to an output, in their order."""

    calls: list[RecordedCall]
    inputs: list[RecordedValue]
    output: RecordedValue
    shapes: dict[int, torch.Size]  # of all values


def record(
    forward: Callable[[Any], Tensor], inputs: object, tensors: Iterable[Tensor]
) -> tuple[Recording, Tensor]:
    """Return the operations of `forward(inputs)`, and its result.

    Args:
        forward: computes the outputs of a model.
        inputs: its argument, a tree of tensors.
        tensors: the weights and buffers of the model: what is computed from them is recorded, too.
    """
    recorder = _Recorder(tensors)
    values = [recorder.add(leaf) for leaf in leaves(inputs) if isinstance(leaf, Tensor)]
    with recorder:
        result = forward(inputs)
    output = recorder.values.get(result)
    if output is None:
        raise NotRecordableError("its outputs do not come from PyTorch's functions")
    calls = _needed_calls(recorder.calls, output.number)
    return Recording(calls, values, output, recorder.shapes), result


class _Recorder(TorchFunctionMode):
    """Notes every function of PyTorch whose result depends on the inputs or the weights."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        super().__init__()
        self.calls: list[RecordedCall] = []
        self.shapes: dict[int, torch.Size] = {}
        self.values: Any = WeakIdKeyDictionary()  # by tensor, while it is alive
        self._weights: Any = WeakIdKeyDictionary()
        for tensor in tensors:
            self._weights[tensor] = True

    def add(self, tensor: Tensor) -> RecordedValue:
        """Return a new value for a tensor, also if it had one: its content was overwritten."""
        value = self.values[tensor] = RecordedValue(len(self.shapes))
        self.shapes[value.number] = tensor.shape
        return value

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        kwargs = kwargs or {}
        before = [leaf for leaf in leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if not any(leaf in self.values or leaf in self._weights for leaf in before):
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if name in READERS or name in WRITERS or "out" in kwargs:
            raise NotRecordableError(f"it uses `{name}` of a tensor, which cannot be recorded")
        arguments, options = map_tree(self._as_value, (args, kwargs))
        result = func(*args, **kwargs)
        if any(isinstance(leaf, Tensor) for leaf in leaves(result)):
            known = {self.values[leaf].number for leaf in leaves(result) if self._is_value(leaf)}
            results = map_tree(lambda a: self.add(a) if isinstance(a, Tensor) else a, result)
            self.calls.append(RecordedCall(func, arguments, options, results, known))
        return result

    def _is_value(self, leaf: object) -> bool:
        return isinstance(leaf, Tensor) and leaf in self.values

    def _as_value(self, leaf: object) -> object:
        return self.values[leaf] if self._is_value(leaf) else leaf


def _needed_calls(calls: list[RecordedCall], output: int) -> list[RecordedCall]:
    """Return the calls without those that do not contribute to the output."""
    needed, kept = {output}, []
    for call in reversed(calls):
        if not needed.isdisjoint(call.outputs):
            needed.update(call.inputs)
            kept.append(call)
    return kept[::-1]
