"""A number as somebody has typed it, with the precision that its digits imply."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ..record import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["PERCENT_FACTORS", "TypedNumber"]

PERCENT_FACTORS = {"score": 100.0, "squared score": 10_000.0}  # by unit of a metric

NUMBER = re.compile(
    r"([+-]?)(\d*)(?:[.,](\d*))?(?:e([+-]?\d{1,2}))?\s*(%?)", re.ASCII | re.IGNORECASE
)


class TypedNumber(NamedTuple):
    """A number as somebody has typed it: half a unit of its last digit is its precision."""

    text: str
    value: float
    half_width: float
    in_percent: bool  # it is followed by %
    whole: bool

    @classmethod
    def parse(cls, text: str) -> TypedNumber:
        """Return a number with its precision.

        Example:
            >>> TypedNumber.parse("-0.33").half_width
            0.005
        """
        parts = NUMBER.fullmatch(text.strip())
        if not parts or not (parts[2] or parts[3]):
            raise InputError(
                f"`value=` is {text!r:.40}, expected a number such as -0.33, or -33% for percent"
            )
        sign, whole, decimals, exponent, percent = parts.groups(default="")
        power = int(exponent or 0)
        value = float(f"{sign}{whole or 0}.{decimals or 0}e{power}")
        half = 0.5 * 10.0 ** (power - len(decimals))
        return cls(text.strip(), value, half, bool(percent), power >= len(decimals))

    def readings(self, unit: str, *, percent: bool) -> Iterator[tuple[float, float, bool]]:
        """Yield how the number can be meant for a metric: value, precision, whether in percent."""
        factor = PERCENT_FACTORS.get(unit)
        if not self.in_percent:
            # A whole number of a score is rather exact than anything from 0.5 to 1.5.
            half = self.half_width if unit == "none" or not self.whole else 0.005
            yield self.value, half, False
        if factor and (self.in_percent or percent or self.whole or abs(self.value) > 1):
            yield self.value / factor, self.half_width / factor, True
