"""A recorded forward pass repeated for inference: in another precision, its layers fused.

Weights are read from where they are, so their current values count, and a repetition can be
captured in a CUDA graph. A convolution, the BatchNorm after it, an addition and a ReLU become one
operation, channels last and with the number of channels rounded up to a multiple of 8, as is
fastest on a GPU.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from ..state.tensors import leaves, map_tree
from .forward_recorder import RecordedCall, RecordedValue

if TYPE_CHECKING:
    from collections.abc import Callable

    from .forward_recorder import Recording

__all__ = ["InferenceForward", "RoundedWeights"]

MULTIPLE = 8  # of channels
RELU = (functional.relu, torch.relu, torch.relu_, Tensor.relu, Tensor.relu_)
ADD = (torch.add, Tensor.add, Tensor.add_)
KEEP_ZEROS = (  # a channel that was 0 is 0 afterwards
    *RELU, Tensor.clone, functional.max_pool2d, torch.max_pool2d, functional.avg_pool2d,
    functional.adaptive_avg_pool2d, functional.silu, functional.gelu, functional.dropout,
)  # fmt: skip


class RoundedWeights:
    """The weights of one evaluation in its precision: each is converted once."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self._rounded: dict[int, Tensor] = {}
        self._folded: dict[object, tuple[Tensor, Tensor | None]] = {}

    def round(self, tensor: Tensor) -> Tensor:
        """Return a tensor in this precision, if it has floating-point numbers."""
        return tensor.to(self.dtype) if tensor.is_floating_point() else tensor

    def constant(self, tensor: Tensor) -> Tensor:
        """Return a tensor of the model in this precision."""
        if id(tensor) not in self._rounded:
            self._rounded[id(tensor)] = self.round(tensor)
        return self._rounded[id(tensor)]

    def folded(self, layer: FusedConvolution, channels: int) -> tuple[Tensor, Tensor | None]:
        """Return the weight and bias of a convolution for inputs of so many channels."""
        key = layer.key, channels
        if key not in self._folded:
            weight, bias = layer.fold()
            if layer.padded:
                weight = _pad(_pad(weight, 1, channels), 0)
                bias = None if bias is None else _pad(bias, 0)
            weight = self.round(weight).contiguous(memory_format=torch.channels_last)
            self._folded[key] = weight, None if bias is None else self.round(bias)
        return self._folded[key]


class FusedConvolution:
    """A convolution with the BatchNorm, the addition and the ReLU after it, where they are.

    Args:
        call: of `conv2d`.
        norm: of `batch_norm`.
        addend: what is added.
        relu: whether a ReLU follows.
        output: the value of the result.
    """

    def __init__(
        self,
        call: RecordedCall,
        norm: RecordedCall | None,
        addend: int | None,
        output: int,
        *,
        relu: bool,
    ) -> None:
        names = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
        given = {**dict(zip(names, call.arguments, strict=False)), **call.options}
        self._input: int = given["input"].number
        self._weight, self._bias = given["weight"], given.get("bias")
        self._geometry = [given.get(name, default) for name, default in (
            ("stride", 1), ("padding", 0), ("dilation", 1), ("groups", 1),
        )]  # fmt: skip
        self._norm = norm.options if norm is not None else None
        self._statistics: tuple[Tensor, ...] = norm.arguments[1:3] if norm is not None else ()
        self._addend, self._relu = addend, relu
        self.inputs = [self._input] if addend is None else [self._input, addend]
        self.outputs = [output]
        self.channels = len(self._weight)
        self.key = tuple(map(id, (self._weight, self._bias, *self._statistics)))
        self.padded = self._geometry[3] == 1

    def fold(self) -> tuple[Tensor, Tensor | None]:
        """Return weight and bias with the BatchNorm in them, in their own precision."""
        if self._norm is None:
            return self._weight, self._bias
        norm, (mean, variance) = self._norm, self._statistics
        factor = torch.rsqrt(variance + norm["eps"])
        if norm["weight"] is not None:
            factor = factor * norm["weight"]
        bias = (-mean if self._bias is None else self._bias - mean) * factor
        if norm["bias"] is not None:
            bias = bias + norm["bias"]
        return self._weight * factor.view(-1, 1, 1, 1), bias

    def run(self, values: dict[int, Tensor], weights: RoundedWeights) -> Tensor:
        """Return the result."""
        x = weights.round(values[self._input])
        if not self.padded:
            x = x[:, : self._weight.shape[1] * self._geometry[3]]
        weight, bias = weights.folded(self, x.shape[1])
        addend = None if self._addend is None else weights.round(values[self._addend])
        if addend is not None and addend.shape[1] != len(weight):
            addend = addend[:, : self.channels]
            addend = _pad(addend, 1) if self.padded else addend
        if x.is_cuda and self._relu and self.padded and not isinstance(self._geometry[1], str):
            return self._run_fused(x, weight, bias, addend)
        out = functional.conv2d(x, weight, bias, *self._geometry)
        out = out if addend is None else out.add_(addend)
        return out.relu_() if self._relu else out

    def _run_fused(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, addend: Tensor | None
    ) -> Tensor:
        """Return the result of cuDNN's operation for all of it."""
        *geometry, groups = self._geometry
        pairs: list[Any] = [(n, n) if isinstance(n, int) else tuple(n) for n in geometry]
        bias = weight.new_zeros(len(weight)) if bias is None else bias
        stride, padding, dilation = pairs
        if addend is None:
            return torch.cudnn_convolution_relu(x, weight, bias, stride, padding, dilation, groups)
        return torch.cudnn_convolution_add_relu(
            x, weight, addend, 1.0, bias, stride, padding, dilation, groups
        )


class InferenceForward:
    """The operations of a forward pass, fused."""

    def __init__(self, recording: Recording) -> None:
        self._inputs = [value.number for value in recording.inputs]
        self._output = recording.output.number
        self._steps = _fuse(recording)
        self._last_use = {n: k for k, step in enumerate(self._steps) for n in step.inputs}
        self._channels = self._padded_channels(recording)

    def _padded_channels(self, recording: Recording) -> dict[int, int]:
        """Return how many channels values have that are computed with more, which are 0."""
        channels: dict[int, int] = {}
        for n in self._inputs:
            users = [step for step in self._steps if n in step.inputs]
            if users and len(recording.shapes[n]) == 4 and all(map(_allows_zeros, users)):
                channels[n] = recording.shapes[n][1]
        for step in self._steps:
            if isinstance(step, FusedConvolution):
                if step.padded:
                    channels[step.outputs[0]] = step.channels
            elif _keeps_zeros(step, recording, channels):
                channels[step.outputs[0]] = channels[step.inputs[0]]
        return {n: count for n, count in channels.items() if count % MULTIPLE}

    def prepare(self, inputs: object, dtype: torch.dtype) -> list[Tensor]:
        """Return inputs as `run` takes them."""
        prepared = []
        tensors = [leaf for leaf in leaves(inputs) if isinstance(leaf, Tensor)]
        for n, tensor in zip(self._inputs, tensors, strict=True):
            tensor = RoundedWeights(dtype).round(tensor)
            if n in self._channels:
                tensor = _pad(tensor, 1).contiguous(memory_format=torch.channels_last)
            prepared.append(tensor)
        return prepared

    def run(self, inputs: list[Tensor], weights: RoundedWeights) -> Tensor:
        """Return the output for prepared inputs."""
        values = dict(zip(self._inputs, inputs, strict=True))
        for k, step in enumerate(self._steps):
            if isinstance(step, FusedConvolution):
                values[step.outputs[0]] = step.run(values, weights)
            else:
                results = leaves(self._call(step, values, weights))
                for value, result in zip(leaves(step.results), results, strict=True):
                    if isinstance(value, RecordedValue) and isinstance(result, Tensor):
                        values[value.number] = result
            for n in step.inputs:
                if self._last_use[n] == k:
                    values.pop(n, None)
        return self._cut(self._output, values)

    def _call(
        self, call: RecordedCall, values: dict[int, Tensor], weights: RoundedWeights
    ) -> object:
        keeps_zeros = call.outputs[0] in self._channels

        def resolve(leaf: object) -> object:
            if isinstance(leaf, RecordedValue):
                n = leaf.number
                return weights.round(values[n] if keeps_zeros else self._cut(n, values))
            if not isinstance(leaf, Tensor) or call.function is functional.batch_norm:
                return leaf  # a BatchNorm may have weights of another precision
            return weights.constant(leaf)

        return call.function(*map_tree(resolve, call.arguments), **map_tree(resolve, call.options))

    def _cut(self, n: int, values: dict[int, Tensor]) -> Tensor:
        """Return a value without additional channels."""
        return values[n][:, : self._channels[n]] if n in self._channels else values[n]


def _allows_zeros(step: RecordedCall | FusedConvolution) -> bool:
    """Return whether the input of a step may have additional channels."""
    if isinstance(step, FusedConvolution):
        return step.padded and len(step.inputs) == 1
    return step.function in KEEP_ZEROS


def _keeps_zeros(call: RecordedCall, recording: Recording, channels: dict[int, int]) -> bool:
    """Return whether additional channels that are 0 may stay in an operation."""
    if len(call.outputs) != 1 or not all(n in channels for n in call.inputs):
        return False
    shapes = {recording.shapes[n] for n in call.inputs}
    is_sum = call.function in ADD and len(call.inputs) == 2 and len(shapes) == 1
    return is_sum or (call.function in KEEP_ZEROS and len(call.inputs) == 1)


def _fuse(recording: Recording) -> list[RecordedCall | FusedConvolution]:
    """Return the operations with those fused that can be, each where its last part was."""
    calls = recording.calls
    users = Counter(n for call in calls for n in call.inputs)
    users[recording.output.number] += 1
    only_user = {n: call for call in calls for n in call.inputs if users[n] == 1}
    position = {id(call): k for k, call in enumerate(calls)}
    fused: dict[int, FusedConvolution] = {}  # by the last call of each
    taken: set[int] = set()

    def follower(
        call: RecordedCall, accepts: Callable[[RecordedCall], bool]
    ) -> RecordedCall | None:
        after = only_user.get(call.outputs[0])
        fits = after is not None and id(after) not in taken and accepts(after)
        return after if fits else None

    for call in calls:
        if not _is_convolution(call, recording):
            continue
        chain = [call]
        norm = follower(call, _is_batch_norm)
        chain += [norm] if norm is not None else []
        total = follower(chain[-1], lambda after: _is_sum(after, recording))
        relu = follower(chain[-1] if total is None else total, lambda after: after.function in RELU)
        addend = None
        if total is not None and relu is not None:
            (addend,) = (n for n in total.inputs if n != chain[-1].outputs[0])
            chain.append(total)
        elif total is not None:
            relu = None
        chain += [relu] if relu is not None else []
        between = calls[position[id(call)] + 1 : position[id(chain[-1])]]
        read = {call.inputs[0], addend}
        if any(read & other.overwritten for other in between if other not in chain):
            continue
        taken.update(map(id, chain))
        output = chain[-1].outputs[0]
        layer = FusedConvolution(call, norm, addend, output, relu=relu is not None)
        fused[id(chain[-1])] = layer
    kept = [call for call in calls if id(call) in fused or id(call) not in taken]
    return [fused.get(id(call), call) for call in kept]


def _is_convolution(call: RecordedCall, recording: Recording) -> bool:
    """Return whether a call is a convolution of images, its weights being those of the model."""
    if call.function is not torch.conv2d or len(call.inputs) != 1:
        return False
    images = call.arguments[0] if call.arguments else call.options.get("input")
    return isinstance(images, RecordedValue) and len(recording.shapes[images.number]) == 4


def _is_batch_norm(call: RecordedCall) -> bool:
    """Return whether a call is a BatchNorm by running statistics."""
    if call.function is not functional.batch_norm or len(call.inputs) != 1:
        return False
    return not call.options["training"] and isinstance(call.arguments[1], Tensor)


def _is_sum(call: RecordedCall, recording: Recording) -> bool:
    shapes = {recording.shapes[n] for n in (*call.inputs, *call.outputs)}
    plain = call.function in ADD and len(call.inputs) == 2 and not call.options
    return plain and len({*call.inputs}) == 2 and len(shapes) == 1


def _pad(tensor: Tensor, dim: int, size: int | None = None) -> Tensor:
    """Return a tensor with zeros appended: up to a size, or to the next multiple."""
    missing = (size or -(-tensor.shape[dim] // MULTIPLE) * MULTIPLE) - tensor.shape[dim]
    if missing == 0:
        return tensor
    return functional.pad(tensor, [0, 0] * (tensor.dim() - 1 - dim) + [0, missing])
