"""Model factories: found by name and called, with errors that say what went wrong."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from torch import nn

from .._user_modules import import_user_attribute
from ..record import InputError
from .registry import MODELS, unknown_model

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["call_factory", "find_factory"]


def find_factory(name: str) -> Callable[..., object]:
    """Return the factory of a named model, or your own for "module:name".

    Example:
        >>> find_factory("torch.nn:Linear").__name__
        'Linear'
    """
    if name not in MODELS and ":" not in name:
        raise unknown_model(name)
    factory = import_user_attribute(MODELS.get(name, name), "model")
    if not callable(factory):
        raise InputError(
            f"model {name!r} is {type(factory).__name__}, expected a function or class to call"
            " with (shape, outputs)"
        )
    return factory


def call_factory(
    factory: Callable[..., object],
    name: str,
    shape: tuple[int, ...],
    outputs: int,
    options: Mapping[str, object],
) -> nn.Module:
    """Return the network that a factory builds; raise if it does not accept the arguments."""
    try:
        inspect.signature(factory).bind(shape, outputs, **options)
    except TypeError as error:
        arguments = ", ".join(["shape", "outputs", *(f"{key}=" for key in options)])
        raise InputError(
            f"model {name!r} is called with ({arguments}): {error}; "
            f"it takes {_format_parameters(factory)}"
        ) from None
    except ValueError:
        pass  # implemented in C: its parameters are not known
    network = factory(shape, outputs, **options)
    if not isinstance(network, nn.Module):
        raise InputError(
            f"model {name!r} returns {type(network).__name__}, expected a torch.nn.Module"
        )
    return network


def _format_parameters(factory: Callable[..., object]) -> str:
    """Return the parameters of a factory with their defaults, but without types."""
    parameters = inspect.signature(factory).parameters.values()
    return str(
        inspect.Signature([p.replace(annotation=inspect.Parameter.empty) for p in parameters])
    )
