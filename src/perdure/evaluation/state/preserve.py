"""A model as one module, whatever it consists of; restoring it and random states bit for bit.

Private parts of PyTorch are used where there is no public way: `_parameters`, `_buffers` and
`_version` of modules and tensors, the cache of `parametrize`, and one function of the autograd
engine. tests/test_private_torch.py fails when one of them is gone.
"""
# ruff: noqa: SLF001 - see above

from __future__ import annotations

import copy
import gc
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from types import MethodType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as module_hooks
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrize

from .reachable import (
    GENERATORS,
    RandomGenerator,
    RandomStates,
    preserve_generators,
    reachable,
    unregistered_objects,
)
from .tensors import copy_into, model_device, submodules

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "CombinedModel",
    "ModelParts",
    "has_lazy_parameters",
    "pause_garbage_collection",
    "preserve_rng_and_buffers",
    "preserve_state",
    "refuse_unknown_modules",
    "user_model",
]


class CombinedModel(nn.Module):
    """A model together with the modules and generators that it uses but does not register.

    It is never called: score and forward functions are passed `user_model`.
    """

    def __init__(
        self,
        model: object,
        functions: Sequence[object],
        parts: Sequence[nn.Module],
        generators: list[RandomGenerator],
    ) -> None:
        super().__init__()
        self.user_model, self.parts = model, nn.ModuleList(parts)
        self.functions, self.generators = functions, generators

    def consists_of(
        self, model: object, parts: Sequence[nn.Module], generators: Sequence[object]
    ) -> bool:
        """Return whether it is made of this model and these parts."""
        own: object = self.user_model
        same = own is model or (isinstance(model, MethodType) and own == model)
        own_parts = [*self.parts, *self.generators]
        return same and [*map(id, own_parts)] == [*map(id, (*parts, *generators))]

    def __deepcopy__(self, memo: dict[int, object]) -> CombinedModel:
        model = copy.deepcopy(self.user_model, memo)
        parts = [copy.deepcopy(part, memo) for part in self.parts]
        originals = {id(module) for module in self.modules()}
        objects = reachable([model, *self.functions], (nn.Module, *GENERATORS))
        if any(id(obj) in originals for obj in objects):
            raise TypeError("a function would still refer to the modules of the original")
        generators = [obj for obj in objects if isinstance(obj, GENERATORS)]
        return CombinedModel(model, self.functions, parts, generators)


class ModelParts:
    """Finds what belongs to a model besides its submodules.

    Args:
        functions: the user's score and forward; what they refer to is part of every model.
        modules: modules that the user declares part of the model; a list may grow later.
    """

    def __init__(self, functions: Iterable[object], modules: object) -> None:
        self._functions = [function for function in functions if function is not None]
        self._modules = list(modules) if isinstance(modules, Iterator) else modules
        self._last: CombinedModel | None = None
        self._declared_modules()

    def combine(self, model: object) -> object:
        """Return the model with its parts as one module; the model itself if it has them all."""
        if isinstance(model, DistributedDataParallel):
            model = model.module  # the wrapper's forward waits for the other processes
        modules = submodules(model)
        referenced = [obj for module in modules for obj in unregistered_objects(module)]
        roots = [*referenced, *self._functions] if modules else [model, *self._functions]
        if not roots and self._modules is None:
            _check_supported(model, modules)
            return model
        own = set(map(id, modules))
        objects = reachable(roots, (nn.Module, *GENERATORS)) + self._declared_modules()
        others = {id(obj): obj for obj in objects if id(obj) not in own}.values()
        parts = [obj for obj in others if isinstance(obj, nn.Module)]
        generators = [obj for obj in others if isinstance(obj, GENERATORS)]
        if parts or generators:
            if self._last is None or not self._last.consists_of(model, parts, generators):
                self._last = CombinedModel(model, self._functions, parts, generators)
            model = self._last
        _check_supported(model, submodules(model))
        return model

    def _declared_modules(self) -> list[nn.Module]:
        declared: list[nn.Module] = []
        modules: object = () if self._modules is None else self._modules
        if isinstance(modules, nn.Module) or not isinstance(modules, Iterable):
            modules = [modules]
        for module in modules:
            if not isinstance(module, nn.Module):
                raise TypeError(
                    f"modules has {type(module).__name__}, expected torch.nn.Module: a list of "
                    "those that the model uses besides its own"
                )
            declared.append(module)
        return declared


class UnknownModuleError(TypeError):
    """Raised when an evaluation calls a module that is not part of the model."""


def user_model(model: object) -> object:
    """Return the model as the user's functions know it."""
    return model.user_model if isinstance(model, CombinedModel) else model


@contextmanager
def refuse_unknown_modules(model: object) -> Iterator[None]:
    """Raise when a module with tensors is called that is not part of `model`.

    Nothing would put it into evaluation mode or into a snapshot. Modules that a forward pass
    creates are exempt.
    """
    known = set(map(id, submodules(model)))
    thread = threading.get_ident()

    def on_registration(module: nn.Module, *_: object) -> None:
        known.add(id(module))

    def on_call(module: nn.Module, _: object) -> None:
        if id(module) in known or threading.get_ident() != thread:
            return
        if any(t is not None for t in (*module._parameters.values(), *module._buffers.values())):
            raise UnknownModuleError(
                f"the evaluation calls {type(module).__name__}, which is not part of the model: it "
                "would be evaluated in training mode; name it: Evaluator(…, modules=[it, …])"
            )

    with ExitStack() as stack, warnings.catch_warnings():
        # OptimizedModule warns about global hooks, which it calls twice: that is harmless here.
        warnings.filterwarnings("ignore", message="Using `torch.compile.module.` when there are")

        stack.enter_context(
            module_hooks.register_module_parameter_registration_hook(on_registration)
        )
        stack.enter_context(module_hooks.register_module_buffer_registration_hook(on_registration))
        stack.enter_context(module_hooks.register_module_forward_pre_hook(on_call))
        yield


@cache
def _is_script(kind: type) -> bool:
    return issubclass(kind, torch.jit.ScriptModule)


def _check_supported(model: object, modules: Sequence[nn.Module]) -> None:
    """Raise for a model whose values are not here, or whose training evaluation would change."""
    if any(map(_is_script, set(map(type, modules)))):
        raise TypeError(
            "the model has a part in TorchScript, which trains to other bits after other calls, "
            "those of an evaluation too; train the model before torch.jit.script or trace"
        )
    if model_device(model).type == "meta":
        raise ValueError(
            "the model is on the meta device, where tensors have no values; load it before the "
            "first task: model.to_empty(device=…) and load_state_dict"
        )
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        tensors = [tensor for module in modules for tensor in module._parameters.values()]
        kinds = {type(part).__name__ for part in (*modules, *tensors)}
        if any(hasattr(tensor, "ds_id") for tensor in tensors):  # of DeepSpeed's ZeRO, stage 3
            kinds.add("DTensor")
        if kinds & {"FullyShardedDataParallel", "DTensor"}:
            raise TypeError(
                "the model is sharded over processes (FSDP, ZeRO-3), and each has only a part of "
                "it to evaluate; use DistributedDataParallel (or ZeRO-2), or evaluate a full copy "
                "on rank 0"
            )


@contextmanager
def preserve_state(model: object) -> Iterator[None]:
    """Put `model` into evaluation mode without gradients, and restore everything at the end.

    Restored are the random states of Python, NumPy and PyTorch (CPU and CUDA) and of generators
    that the model refers to, the mode and the buffers of each module, gradients and
    `requires_grad`. Autocast is off inside, and compiled models run uncompiled: compiling for
    other shapes or modes could change what the training step compiles to.
    """
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    modes = [(module, module.training) for module in modules]
    parameters = [p for module in modules for p in module._parameters.values() if p is not None]
    gradients = [(p, p.requires_grad, p.grad) for p in parameters]
    try:
        for module in modules:
            module.training = False  # not eval(), which a module may have overridden
        for parameter, _, gradient in gradients:
            if gradient is not None and _can_be_restored(gradient, parameter):
                parameter.grad = None  # a score may call backward
        with (
            preserve_generators(model.generators if isinstance(model, CombinedModel) else ()),
            preserve_rng_and_buffers(modules),
            torch.no_grad(),
            _eager_full_precision(parameters),
        ):
            yield
    finally:
        for module, mode in modes:
            module.training = mode
        for parameter, flag, gradient in gradients:
            if parameter.requires_grad != flag:
                parameter.requires_grad_(flag)
            if parameter.grad is not gradient:
                parameter.grad = gradient


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Collect no garbage in this block; references that end still free what they refer to."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def has_lazy_parameters(model: object) -> bool:
    """Return whether a model has lazy parameters, which its first forward pass initialises."""
    return isinstance(model, nn.Module) and any(is_lazy(p) for p in model.parameters())


@contextmanager
def preserve_rng_and_buffers(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Restore random states and buffers at the end."""
    buffers = [(module._buffers, dict(module._buffers)) for module in modules]
    tensors = [b for _, before in buffers for b in before.values() if b is not None]
    tensors += [  # an embedding with max_norm writes to its weight, also without gradients
        module.weight
        for module in modules
        if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.max_norm is not None
    ]
    values = [(tensor, tensor.detach().clone()) for tensor in tensors]
    versions = [None if tensor.is_inference() else tensor._version for tensor in tensors]
    random_states = RandomStates()
    try:
        yield
    finally:
        random_states.restore()
        for now, before in buffers:
            now.clear()
            now.update(before)
        for (tensor, value), version in zip(values, versions, strict=True):
            copy_into(tensor.data, value)
            if version is not None and tensor._version != version:
                _set_version(tensor, version)


def _set_version(tensor: Tensor, version: int) -> None:
    """Hide that a tensor was written to: a graph that awaits its backward may have saved it."""
    set_version: Any = torch._C._autograd._unsafe_set_version_counter
    try:
        set_version((tensor,), (version,))
    except TypeError:  # PyTorch 2.6 took one tensor
        set_version(tensor, version)


def _can_be_restored(gradient: Tensor, parameter: Tensor) -> bool:
    """Return whether PyTorch would accept this gradient again: not if `.data` has grown."""
    return (gradient.shape, gradient.dtype, gradient.device) == (
        parameter.shape,
        parameter.dtype,
        parameter.device,
    )


@contextmanager
def _eager_full_precision(parameters: Sequence[Tensor]) -> Iterator[None]:
    """Switch off autocast, compilation and the caches of weights that training has filled."""
    with ExitStack() as stack:
        for device in ("cpu", "cuda", "mps"):
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        if _inside_autocast():
            # A forward with its own autocast would find the casts of the training step's weights,
            # and leave casts without gradients to it. Only parameters that require a gradient
            # are cached, and clearing the cache would change the rest of the step.
            for parameter in parameters:
                if parameter.is_leaf:
                    parameter.requires_grad = False
        if parametrize._cache_enabled:
            stack.enter_context(_no_parametrization_cache())
        if "torch._dynamo" in sys.modules:  # it is imported before anything is compiled
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        yield


def _inside_autocast() -> bool:
    """Return whether an autocast block, enabled or not, is open: it caches casts until it ends."""
    inside = torch.autocast_increment_nesting() > 1
    torch.autocast_decrement_nesting()
    return inside


@contextmanager
def _no_parametrization_cache() -> Iterator[None]:
    """Recompute parametrized weights, and keep those that training has cached."""
    before = parametrize._cache_enabled, parametrize._cache
    parametrize._cache_enabled, parametrize._cache = 0, {}
    try:
        yield
    finally:
        parametrize._cache_enabled, parametrize._cache = before
