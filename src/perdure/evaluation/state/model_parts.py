"""A model as one module, whatever it is made of: a function, a wrapper, heads in a plain list."""

from __future__ import annotations

import copy
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import MethodType
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.modules import module as hooks
from torch.nn.parallel import DistributedDataParallel

from ..engine.eval_batches import device_of
from .reachable import GENERATORS, reachable, unregistered

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Combined", "ModelParts", "given", "refuse_unknown"]


class Combined(nn.Module):
    """A model with all that it uses but does not have as submodules: modules and generators.

    It is never called: score and forward functions are handed `given`.
    """

    def __init__(
        self,
        model: Any,
        functions: Sequence[Any],
        parts: Sequence[nn.Module],
        generators: list[Any],
    ) -> None:
        super().__init__()
        self.given, self.parts = model, nn.ModuleList(parts)
        self.functions, self.generators = functions, generators

    def is_of(self, model: Any, parts: Sequence[nn.Module], generators: Sequence[Any]) -> bool:
        """Return whether it is of this model and these parts."""
        same = self.given is model or (isinstance(model, MethodType) and self.given == model)
        mine = [*self.parts, *self.generators]
        return same and [*map(id, mine)] == [*map(id, (*parts, *generators))]

    def __deepcopy__(self, memo: dict[int, Any]) -> Combined:
        model = copy.deepcopy(self.given, memo)
        parts = [copy.deepcopy(part, memo) for part in self.parts]
        mine = {id(module) for module in self.modules()}
        found = reachable([model, *self.functions], (nn.Module, *GENERATORS))
        if any(id(each) in mine for each in found):
            raise TypeError("a function would still refer to the modules of the original")
        drawn = [each for each in found if isinstance(each, GENERATORS)]
        return Combined(model, self.functions, parts, drawn)


class ModelParts:
    """Finds what belongs to a model besides its submodules.

    Args:
        functions: the user's score and forward; what they refer to is part of every model.
        modules: modules that the user says are part of the model; a list may grow.
    """

    def __init__(self, functions: Iterable[Any], modules: Any) -> None:
        self._functions = [function for function in functions if function is not None]
        once = isinstance(modules, Iterator)
        self._modules = list(modules) if once else modules
        self._last: Combined | None = None
        self._listed()

    def whole(self, model: Any) -> Any:
        """Return the model with its parts as one module; the model itself if it has them all."""
        if isinstance(model, DistributedDataParallel):
            model = model.module  # the wrapper's forward waits for the other processes
        own = {id(module): module for module in _modules(model)}
        held = [value for module in own.values() for value in unregistered(module)]
        roots = [*held, *self._functions] if own else [model, *self._functions]
        found = reachable(roots, (nn.Module, *GENERATORS)) + self._listed()
        others = {id(each): each for each in found if id(each) not in own}.values()
        parts = [each for each in others if isinstance(each, nn.Module)]
        generators = [each for each in others if not isinstance(each, nn.Module)]
        if parts or generators:
            if self._last is None or not self._last.is_of(model, parts, generators):
                self._last = Combined(model, self._functions, parts, generators)
            model = self._last
        _check(model)
        return model

    def _listed(self) -> list[nn.Module]:
        given: Any = () if self._modules is None else self._modules
        many = isinstance(given, Iterable) and not isinstance(given, nn.Module)
        listed = list(given) if many else [given]
        for module in listed:
            if not isinstance(module, nn.Module):
                raise TypeError(
                    f"modules has {type(module).__name__}, expected torch.nn.Module: a list of "
                    "those that the model uses besides its own"
                )
        return listed


def given(model: Any) -> Any:
    """Return the model as the user's functions know it."""
    return model.given if isinstance(model, Combined) else model


@contextmanager
def refuse_unknown(model: Any) -> Iterator[None]:
    """Raise when a module with tensors is called that is no part of `model`.

    Nothing would put it into evaluation mode or take it into a snapshot. Modules that are made
    meanwhile, by a forward, are the forward's own business.
    """
    known = set(map(id, _modules(model)))
    thread = threading.get_ident()

    def made(module: nn.Module, *_: Any) -> None:
        known.add(id(module))

    def called(module: nn.Module, _: Any) -> None:
        if id(module) in known or threading.get_ident() != thread:
            return
        if any(t is not None for t in (*module._parameters.values(), *module._buffers.values())):  # noqa: SLF001
            raise TypeError(
                f"the evaluation calls {type(module).__name__}, which is not part of the model: it "
                "would be evaluated in training mode; name it: Evaluator(…, modules=[it, …])"
            )

    with ExitStack() as stack, warnings.catch_warnings():
        # OptimizedModule warns of global hooks: that it calls them twice does no harm.
        warnings.filterwarnings("ignore", message="Using `torch.compile.module.` when there are")
        stack.enter_context(hooks.register_module_parameter_registration_hook(made))
        stack.enter_context(hooks.register_module_buffer_registration_hook(made))
        stack.enter_context(hooks.register_module_forward_pre_hook(called))
        yield


def _check(model: Any) -> None:
    """Raise for a model whose values are not here, or that evaluation would change."""
    modules = _modules(model)
    if any(issubclass(kind, torch.jit.ScriptModule) for kind in set(map(type, modules))):
        raise TypeError(
            "the model has a part in TorchScript, which trains to other bits after other calls, "
            "those of an evaluation too; train the model before torch.jit.script or trace"
        )
    if device_of(model).type == "meta":
        raise ValueError(
            "the model is on the meta device, where tensors have no values; load it before the "
            "first task: model.to_empty(device=…) and load_state_dict"
        )
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        tensors = [tensor for module in modules for tensor in module._parameters.values()]  # noqa: SLF001
        kinds = {type(each).__name__ for each in (*modules, *tensors)}
        if kinds & {"FullyShardedDataParallel", "DTensor"}:
            raise TypeError(
                "the model is sharded over processes, and each has only a part of it to evaluate; "
                "use DistributedDataParallel, or evaluate a full copy on rank 0"
            )


def _modules(model: Any) -> list[nn.Module]:
    """Return a module and its submodules, each once, in a fifth of the time of `modules()`."""
    found: dict[int, nn.Module] = {}
    waiting: list[nn.Module | None] = [model] if isinstance(model, nn.Module) else []
    while waiting:
        module = waiting.pop()
        if module is not None and id(module) not in found:
            found[id(module)] = module
            waiting.extend(module._modules.values())  # noqa: SLF001
    return list(found.values())
