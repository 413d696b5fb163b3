"""What a model, a function or a set of data refers to, and the random generators among it."""

from __future__ import annotations

import dis
import random
import sys
from collections import deque
from contextlib import contextmanager, suppress
from functools import cache, partial
from itertools import chain
from types import BuiltinMethodType, CodeType, FunctionType, MethodType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["GENERATORS", "keep_generators", "reachable", "unregistered"]

GENERATORS = (
    torch.Generator,
    np.random.Generator,
    np.random.BitGenerator,
    np.random.RandomState,
    random.Random,
)
LONGEST = 1000  # a longer list holds data, not parts of a model
MOST = 2000  # objects that are looked at, the nearest first: this is done at every evaluation
ATOMS = frozenset(
    {bool, int, float, complex, str, bytes, type(None), torch.Tensor, nn.Parameter, torch.dtype}
    | {torch.device, torch.Size, np.ndarray, type, CodeType}
)
# Objects of these packages hold nothing of the user's, with the exceptions below.
LIBRARIES = sys.stdlib_module_names | {"torch", "numpy"}
HOLDERS = (Dataset, Sampler, DataLoader, SimpleNamespace)
STANDARD = frozenset(vars(nn.Module()))  # attributes that every module has
HOOKS = ("_forward_hooks", "_forward_pre_hooks")  # those of them that a call uses
OWN = __name__.rpartition(".")[0]


def reachable(roots: Iterable[Any], kinds: tuple[type, ...]) -> list[Any]:
    """Return the objects of `kinds` that `roots` are or refer to, each once.

    References are attributes, elements, the object of a bound method, the arguments of a partial,
    and what a function closes over, has for defaults, or names among its globals.

    Example:
        >>> head = nn.Linear(2, 2)
        >>> reachable([{"heads": [head]}, partial(max, key=head.forward)], (nn.Module,)) == [head]
        True
    """
    waiting, found = deque(roots), []
    seen: dict[int, Any] = {}
    while waiting and len(seen) < MOST:
        thing = waiting.popleft()
        if type(thing) in ATOMS or id(thing) in seen:
            continue
        seen[id(thing)] = thing  # held: an id is one object's only as long as it lives
        with suppress(Exception):  # a proxy may refuse to be looked at
            if isinstance(thing, kinds):
                found.append(thing)
            waiting.extend(_held(thing))
    return found


@contextmanager
def keep_generators(generators: Sequence[Any]) -> Iterator[None]:
    """Put back the states of these generators at the end."""
    states = [_state(generator) for generator in generators]
    try:
        yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            _set_state(generator, state)


def _held(thing: Any) -> Iterable[Any]:
    """Return what an object refers to."""
    if isinstance(thing, nn.Module):
        return [*thing._modules.values(), *unregistered(thing)]  # noqa: SLF001
    if isinstance(thing, dict):
        return thing.values() if len(thing) <= LONGEST else ()
    if isinstance(thing, list | tuple | set | frozenset | deque):
        return thing if len(thing) <= LONGEST else ()
    if isinstance(thing, MethodType):
        return thing.__self__, thing.__func__
    if isinstance(thing, BuiltinMethodType):  # generator.random, say
        return (thing.__self__,)
    if isinstance(thing, partial):
        return thing.func, thing.args, thing.keywords
    if isinstance(thing, FunctionType):
        return _of_function(thing)
    return _attributes(thing) if _may_hold(thing.__class__) else ()


def unregistered(module: nn.Module) -> list[Any]:
    """Return what a module refers to besides its submodules, parameters and buffers.

    Quickly: this is asked of each module at every evaluation.
    """
    attributes = vars(module)
    names = sorted(attributes.keys() - STANDARD)
    held = [value for name in names if type(value := attributes[name]) not in ATOMS]
    held += [attributes[name] for name in HOOKS if attributes[name]]
    return held


def _of_function(function: FunctionType) -> list[Any]:
    if _is_library(function.__module__):
        return []
    held = [function.__defaults__, function.__kwdefaults__, function.__dict__]
    for cell in function.__closure__ or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # nothing is in it yet
            continue
    names = sorted(_globals_named(function.__code__))
    return held + [function.__globals__[name] for name in names if name in function.__globals__]


@cache
def _globals_named(code: CodeType) -> frozenset[str]:
    """Return the names of globals that code reads, or code inside of it."""
    names = {each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL"}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _globals_named(constant)
    return frozenset(names)


def _attributes(thing: Any) -> list[Any]:
    held = list(getattr(thing, "__dict__", {}).values())
    return held + [getattr(thing, name) for name in _slots(thing.__class__) if hasattr(thing, name)]


@cache
def _slots(kind: type) -> tuple[str, ...]:
    given = [vars(base).get("__slots__", ()) for base in kind.__mro__]
    slots = [(names,) if isinstance(names, str) else names for names in given]
    return tuple(chain.from_iterable(slots))


@cache
def _may_hold(kind: type) -> bool:
    return issubclass(kind, HOLDERS) or not _is_library(kind.__module__)


def _is_library(module: str | None) -> bool:
    """Return whether a module is Python's, PyTorch's, NumPy's or the evaluator's own."""
    name = module or ""
    return name.partition(".")[0] in LIBRARIES or name.startswith(OWN)


def _state(generator: Any) -> Any:
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    if isinstance(generator, np.random.BitGenerator):
        return generator.state
    return generator.getstate() if isinstance(generator, random.Random) else generator.get_state()


def _set_state(generator: Any, state: Any) -> None:
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, np.random.BitGenerator):
        generator.state = state
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    # Setting what it is already may change what cuDNN draws: see _untouched.
    elif isinstance(state, tuple) or not torch.equal(generator.get_state(), state):
        generator.set_state(state)
