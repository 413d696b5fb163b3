"""Finding a factory by its name, and calling it, with errors that say what went wrong."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from torch import nn

from .._user_modules import describe_module, import_user_module
from ..record import InputError
from .registry import MODELS, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["called", "factory_of"]


def factory_of(name: str) -> Callable[..., Any]:
    """Return the factory of a known model, or the user's own from "module:name".

    Example:
        >>> factory_of("torch.nn:Linear").__name__
        'Linear'
    """
    module, _, attribute = MODELS.get(name, name).partition(":")
    if not (module and attribute):
        raise unknown(name)
    where = import_user_module(module, f"model {name!r}")
    found: Any = where
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise InputError(
                f"model {name!r}: {describe_module(where)} has no {attribute!r}, expected a factory"
            )
        found = getattr(found, part)
    if not callable(found):
        raise InputError(
            f"model {name!r} is {type(found).__name__}, expected a function or class to call"
            " with (shape, outputs)"
        )
    return found  # type: ignore[no-any-return]


def called(
    factory: Callable[..., Any],
    name: str,
    shape: tuple[int, int, int],
    outputs: int,
    options: Mapping[str, Any],
) -> nn.Module:
    """Return the network that a factory makes, or raise if it cannot be called so."""
    try:
        inspect.signature(factory).bind(shape, outputs, **options)
    except TypeError as error:
        given = ", ".join(["shape", "outputs", *(f"{key}=" for key in options)])
        raise InputError(
            f"model {name!r} is called with ({given}): {error}; it takes {_takes(factory)}"
        ) from None
    except ValueError:
        pass  # written in C: nobody can say what it takes
    network = factory(shape, outputs, **options)
    if not isinstance(network, nn.Module):
        raise InputError(
            f"model {name!r} returns {type(network).__name__}, expected a torch.nn.Module"
        )
    return network


def _takes(factory: Callable[..., Any]) -> str:
    """Return what a factory takes, without types: names and defaults."""
    parts = [
        part.replace(annotation=inspect.Parameter.empty)
        for part in inspect.signature(factory).parameters.values()
    ]
    return str(inspect.Signature(parts))
