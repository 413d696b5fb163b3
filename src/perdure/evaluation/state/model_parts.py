"""A model as one module, whatever it consists of: a function, a wrapper, heads in a plain list."""

from __future__ import annotations

import copy
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from types import MethodType
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn.modules import module as module_hooks
from torch.nn.parallel import DistributedDataParallel

from .reachable import GENERATORS, RandomGenerator, reachable, unregistered_objects
from .tensors import model_device, submodules

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CombinedModel", "ModelParts", "refuse_unknown_modules", "user_model"]


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
        if any(t is not None for t in (*module._parameters.values(), *module._buffers.values())):  # noqa: SLF001
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
        tensors = [tensor for module in modules for tensor in module._parameters.values()]  # noqa: SLF001
        kinds = {type(part).__name__ for part in (*modules, *tensors)}
        if any(hasattr(tensor, "ds_id") for tensor in tensors):  # of DeepSpeed's ZeRO, stage 3
            kinds.add("DTensor")
        if kinds & {"FullyShardedDataParallel", "DTensor"}:
            raise TypeError(
                "the model is sharded over processes (FSDP, ZeRO-3), and each has only a part of "
                "it to evaluate; use DistributedDataParallel (or ZeRO-2), or evaluate a full copy "
                "on rank 0"
            )
