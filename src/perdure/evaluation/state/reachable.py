"""Search for modules and random generators that something refers to; states of generators."""

from __future__ import annotations

import dis
import random
import sys
from collections import deque
from contextlib import contextmanager, suppress
from functools import cache, lru_cache, partial
from itertools import chain
from types import BuiltinMethodType, CodeType, FunctionType, MethodType, SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["GENERATORS", "RandomStates", "preserve_generators", "reachable", "unregistered_objects"]

T = TypeVar("T")
RandomGenerator = (
    torch.Generator
    | np.random.Generator
    | np.random.BitGenerator
    | np.random.RandomState
    | random.Random
)
GENERATORS: tuple[type[RandomGenerator], ...] = get_args(RandomGenerator)
MAX_CONTAINER = 1000  # a longer list holds data, not parts of a model
MAX_OBJECTS = 2000  # inspected, the nearest first: every evaluation does this
ATOMS = frozenset(
    {bool, int, float, complex, str, bytes, type(None), torch.Tensor, nn.Parameter, torch.dtype}
    | {torch.device, torch.Size, np.ndarray, type, CodeType}
)
# Objects of these packages hold no modules of the user, with the exceptions below.
LIBRARIES = sys.stdlib_module_names | {"torch", "numpy"}
CONTAINERS = (Dataset, Sampler, DataLoader, SimpleNamespace)
MODULE_ATTRIBUTES = frozenset(vars(nn.Module()))  # which every module has
CALL_HOOKS = ("_forward_hooks", "_forward_pre_hooks")  # those of them that a call uses
OWN_PACKAGE = __name__.rpartition(".")[0]


def reachable(roots: Iterable[object], types: tuple[type[T], ...]) -> list[T]:
    """Return the objects of these types that `roots` are or refer to, each once.

    The search follows attributes, elements of containers, the object of a bound method, the
    arguments of a partial, and the closure, defaults and named globals of a function.

    Example:
        >>> head = nn.Linear(2, 2)
        >>> reachable([{"heads": [head]}, partial(max, key=head.forward)], (nn.Module,)) == [head]
        True
    """
    waiting, matches = deque(roots), []
    seen: dict[int, Any] = {}
    while waiting and len(seen) < MAX_OBJECTS:
        thing = waiting.popleft()
        if type(thing) in ATOMS or id(thing) in seen:
            continue
        seen[id(thing)] = thing  # a reference keeps the id unique
        with suppress(Exception):  # a proxy may refuse to be inspected
            if isinstance(thing, types):
                matches.append(thing)
            waiting.extend(_references(thing))
    return matches


@contextmanager
def preserve_generators(generators: Sequence[RandomGenerator]) -> Iterator[None]:
    """Restore the states of these generators at the end."""
    states = [_generator_state(generator) for generator in generators]
    try:
        yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            _set_generator_state(generator, state)


def _references(thing: object) -> Iterable[object]:
    """Return the objects that an object refers to."""
    if isinstance(thing, nn.Module):
        return [*thing._modules.values(), *unregistered_objects(thing)]  # noqa: SLF001
    if isinstance(thing, dict):
        return thing.values() if len(thing) <= MAX_CONTAINER else ()
    if isinstance(thing, list | tuple | set | frozenset | deque):
        return thing if len(thing) <= MAX_CONTAINER else ()
    if isinstance(thing, MethodType):
        return thing.__self__, thing.__func__
    if isinstance(thing, BuiltinMethodType):  # generator.random, say
        return (thing.__self__,)
    if isinstance(thing, partial):
        return thing.func, thing.args, thing.keywords
    if isinstance(thing, FunctionType):
        return _function_references(thing)
    kind: type = thing.__class__  # not type(thing): a proxy names the class it stands for
    return _attributes(thing) if _is_searched(kind) else ()


def unregistered_objects(module: nn.Module) -> list[object]:
    """Return the objects a module refers to besides its submodules, parameters and buffers.

    Every evaluation calls this for every module, so it has to be fast.
    """
    attributes = vars(module)
    names = _extra_attributes(tuple(attributes))
    objects = [value for name in names if type(value := attributes[name]) not in ATOMS]
    objects += [attributes[name] for name in CALL_HOOKS if attributes[name]]
    return objects


@lru_cache(maxsize=10_000)
def _extra_attributes(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(names) - MODULE_ATTRIBUTES))


def _function_references(function: FunctionType) -> list[object]:
    if _is_library(function.__module__):
        return []
    references = [function.__defaults__, function.__kwdefaults__, function.__dict__]
    for cell in function.__closure__ or ():
        try:
            references.append(cell.cell_contents)
        except ValueError:  # it is still empty
            continue
    names = sorted(_global_names(function.__code__))
    return references + [
        function.__globals__[name] for name in names if name in function.__globals__
    ]


@cache
def _global_names(code: CodeType) -> frozenset[str]:
    """Return the names of the globals that code, or code nested in it, reads."""
    instructions = dis.get_instructions(code)
    names = {step.argval for step in instructions if step.opname == "LOAD_GLOBAL"}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _global_names(constant)
    return frozenset(names)


def _attributes(thing: object) -> list[object]:
    kind: type = thing.__class__
    references = list(getattr(thing, "__dict__", {}).values())
    return references + [getattr(thing, name) for name in _slots(kind) if hasattr(thing, name)]


@cache
def _slots(kind: type) -> tuple[str, ...]:
    declared = [vars(base).get("__slots__", ()) for base in kind.__mro__]
    slots = [(names,) if isinstance(names, str) else names for names in declared]
    return tuple(chain.from_iterable(slots))


@cache
def _is_searched(kind: type) -> bool:
    return issubclass(kind, CONTAINERS) or not _is_library(kind.__module__)


def _is_library(module: str | None) -> bool:
    """Return whether a module belongs to Python, PyTorch, NumPy or this package."""
    name = module or ""
    return name.partition(".")[0] in LIBRARIES or name.startswith(OWN_PACKAGE)


def _generator_state(generator: RandomGenerator) -> object:
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    if isinstance(generator, np.random.BitGenerator):
        return generator.state
    return generator.getstate() if isinstance(generator, random.Random) else generator.get_state()


def _set_generator_state(generator: RandomGenerator, state: Any) -> None:
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, np.random.BitGenerator):
        generator.state = state
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    elif isinstance(generator, np.random.RandomState):  # noqa: SIM114
        generator.set_state(state)
    # Setting even the same state may change what cuDNN draws: see RandomStates.
    elif not torch.equal(generator.get_state(), state):
        generator.set_state(state)


class RandomStates:
    """The states of the global generators of Python, NumPy and PyTorch at its creation.

    Example:
        >>> states = RandomStates()
        >>> a = torch.rand(3)
        >>> states.restore()
        >>> torch.equal(a, torch.rand(3))
        True
    """

    def __init__(self) -> None:
        self._python, self._numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
        self._cpu = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        self._mps = torch.mps.get_rng_state() if torch.backends.mps.is_available() else None

    def restore(self) -> None:
        """Set all generators to these states."""
        random.setstate(self._python)
        np.random.set_state(self._numpy)  # noqa: NPY002
        torch.set_rng_state(self._cpu)
        if self._mps is not None:
            torch.mps.set_rng_state(self._mps)
        for device, state in enumerate(self._cuda):
            # Setting even the same state makes cuDNN draw other dropout for recurrent layers.
            if not torch.equal(torch.cuda.get_rng_state(device), state):
                torch.cuda.set_rng_state(state, device)
