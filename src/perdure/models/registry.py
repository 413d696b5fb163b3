"""The models by name, and checks of their arguments. Importing this does not import PyTorch."""

from __future__ import annotations

import re
from numbers import Integral, Real
from typing import TYPE_CHECKING

from .._suggestions import suggest_names
from ..record import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = [
    "INITIALIZATIONS",
    "MODELS",
    "check_choice",
    "check_fraction",
    "check_input_shape",
    "check_integer",
    "check_integers",
    "check_min_side",
    "check_options",
    "check_shape",
    "describe_model",
    "unknown_model",
]

INITIALIZATIONS = ("torchvision", "pytorch")
MODELS = {
    "mlp": "perdure.models.architectures:mlp",
    "resnet18-slim": "perdure.models.architectures:resnet18_slim",
    "zenke-conv": "perdure.models.architectures:zenke_conv",
    "wide-vgg9": "perdure.models.architectures:wide_vgg9",
    "efficientnet-b1": "perdure.models.efficientnet_b1:efficientnet_b1",
    "speech-mlp": "perdure.models.architectures:speech_mlp",
    "embedding-bag": "perdure.models.architectures:embedding_bag",
}

ABOUT = {
    "mlp": "two hidden layers of 400 ReLU",
    "resnet18-slim": "ResNet-18 with 20 filters instead of 64 (Lopez-Paz & Ranzato 2017)",
    "zenke-conv": "four convolutions, two dense layers, dropout (Zenke et al. 2017)",
    "wide-vgg9": "VGG with six convolutions, BatchNorm, three dense layers (De Lange et al. 2021)",
    "efficientnet-b1": "inverted bottlenecks with squeeze-excitation (Tan & Le 2019)",
    "speech-mlp": "one hidden layer of 1024 ReLU, for speech features",
    "embedding-bag": "the mean of token embeddings, one hidden layer of 128 ReLU, for text",
}


def describe_model(name: str) -> str:
    """Return a one-line description of a model.

    Example:
        >>> describe_model("mlp")
        'two hidden layers of 400 ReLU'
        >>> describe_model("mine:network")
        'your own, from mine:network'
    """
    if name in ABOUT:
        return ABOUT[name]
    if ":" in name:
        return f"your own, from {name}"
    raise unknown_model(name)


def unknown_model(name: str) -> InputError:
    """Return the error for a name that no model has."""
    known = f"{', '.join(MODELS)}, or your own as module:name"
    return InputError(f"model is {name!r:.60}; {suggest_names(name, MODELS)}expected {known}")


def check_integer(name: str, value: object, minimum: int = 1) -> int:
    """Return an integer of at least `minimum`, or raise.

    Example:
        >>> check_integer("filters", 20)
        20
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < minimum:
        raise InputError(f"{name} is {value!r}, expected a whole number of at least {minimum}")
    return int(value)


def check_integers(name: str, value: int | str | Sequence[int]) -> tuple[int, ...]:
    """Return positive integers from a sequence, or from text such as the command line gives.

    Example:
        >>> check_integers("hidden", "400,400"), check_integers("hidden", "400x300")
        ((400, 400), (400, 300))
    """
    try:
        if isinstance(value, str):
            return tuple(check_integer(name, int(part)) for part in re.split("[x,]", value))
        numbers = [value] if isinstance(value, int) else value
        return tuple(check_integer(name, number) for number in numbers)
    except (TypeError, ValueError):
        raise InputError(
            f"{name} is {value!r:.60}, expected whole numbers from 1 like 400,400"
        ) from None


def check_fraction(name: str, value: object) -> float:
    """Return a number from 0 to below 1, such as a dropout rate, or raise.

    Example:
        >>> check_fraction("dropout", 0.5)
        0.5
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < 1:
        raise InputError(f"{name} is {value!r}, expected a number from 0 to below 1")
    return float(value)


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise unless a value is one of the choices.

    Example:
        >>> check_choice("padding", "same", ("symmetric", "same"))
    """
    if value not in choices:
        raise InputError(f"{name} is {value!r}, expected {' or '.join(choices)}")


OPTIONS: dict[str, Callable[..., object]] = {
    "hidden": check_integers, "filters": check_integer, "dim": check_integer,
    "dropout": check_fraction, "stochastic_depth": check_fraction,
    "batch_norm_momentum": check_fraction, "batch_norm_eps": check_fraction,
}  # fmt: skip


def check_options(model: str, options: Mapping[str, object]) -> None:
    """Raise if an option of a model of ours is out of its range; the model checks the others.

    Example:
        >>> check_options("mlp", {"hidden": "400,400"})
    """
    for name in options.keys() & OPTIONS.keys():
        OPTIONS[name](f"{model}: {name}", options[name])


def check_shape(shape: Sequence[int]) -> tuple[int, int, int]:
    """Return channels, height and width, or raise.

    Example:
        >>> check_shape([1, 28, 28])
        (1, 28, 28)
    """
    try:
        channels, height, width = (check_integer("shape", size) for size in shape)
    except (TypeError, ValueError):
        raise InputError(
            f"shape is {shape!r:.60}, expected channels, height and width like (1, 28, 28); for "
            "features use the model mlp, for tokens embedding-bag"
        ) from None
    return channels, height, width


def check_input_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of an image, or the number of features or tokens, or raise.

    Example:
        >>> check_input_shape([1, 28, 28]), check_input_shape([20])
        ((1, 28, 28), (20,))
    """
    if isinstance(shape, list | tuple) and len(shape) == 1:
        return (check_integer("shape", shape[0]),)
    return check_shape(shape)


def check_min_side(name: str, shape: tuple[int, int, int], minimum: int) -> None:
    """Raise if an image is smaller than a model requires."""
    if min(shape[1:]) < minimum:
        raise InputError(
            f"{name}: images are {shape[1]}x{shape[2]}, expected at least {minimum}x{minimum};"
            " use another model"
        )
