"""What the options of a model may be."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from ..record import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["fraction", "image", "least_side", "one_line", "whole", "wholes"]


def whole(name: str, value: Any, least: int = 1) -> int:
    """Return a whole number of at least `least`, or raise.

    Example:
        >>> whole("filters", 20)
        20
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise InputError(f"{name} is {value!r}, expected a whole number of at least {least}")
    return int(value)


def wholes(name: str, value: int | str | Sequence[int]) -> tuple[int, ...]:
    """Return whole numbers of at least 1 from a sequence, or from text as a command line gives it.

    Example:
        >>> wholes("hidden", "400,400"), wholes("hidden", "400x300"), wholes("hidden", [20])
        ((400, 400), (400, 300), (20,))
    """
    bad = InputError(f"{name} is {value!r:.60}, expected whole numbers from 1 like 400,400")
    try:
        if isinstance(value, str):
            return tuple(whole(name, int(part)) for part in value.replace("x", ",").split(","))
        parts = [value] if isinstance(value, int) else value
        return tuple(whole(name, part) for part in parts)
    except (TypeError, ValueError):
        raise bad from None


def fraction(name: str, value: Any) -> float:
    """Return a number from 0 to below 1, such as a share of units to drop, or raise.

    Example:
        >>> fraction("dropout", 0.5)
        0.5
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < 1:
        raise InputError(f"{name} is {value!r}, expected a number from 0 to below 1")
    return float(value)


def image(shape: Any) -> tuple[int, int, int]:
    """Return channels, height and width, or raise.

    Example:
        >>> image([1, 28, 28])
        (1, 28, 28)
    """
    try:
        channels, height, width = (whole("shape", size) for size in shape)
    except (TypeError, ValueError):
        raise InputError(
            f"shape is {shape!r:.60}, expected channels, height and width like (1, 28, 28)"
        ) from None
    return channels, height, width


def least_side(name: str, shape: tuple[int, int, int], least: int) -> None:
    """Raise for an image that is smaller than the model can take."""
    if min(shape[1:]) < least:
        raise InputError(
            f"{name}: images are {shape[1]}x{shape[2]}, expected at least {least}x{least};"
            " take another model"
        )


def one_line(error: Exception) -> str:
    """Return kind and message of someone else's error on one line.

    Example:
        >>> one_line(RuntimeError("shapes differ:   2 and 3"))
        'RuntimeError: shapes differ: 2 and 3'
    """
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
