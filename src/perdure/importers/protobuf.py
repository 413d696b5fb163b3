"""Fields of protocol buffer messages, without their schema: event files and W&B files hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["BYTES", "FIXED32", "FIXED64", "VARINT", "Field", "as_signed", "read_fields"]

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types; groups (3, 4) are not in use
MAX_VARINT = 10  # bytes


class Field(NamedTuple):
    """A field of a message: its number, its wire type, and its bytes, or a VARINT's value."""

    number: int
    wire: int
    data: bytes
    value: int = 0


def read_fields(message: bytes) -> Iterator[Field]:
    """Yield the fields of a message in their order, or raise ValueError if it is not one.

    Example:
        >>> list(read_fields(bytes([0x10, 0x96, 0x01])))  # field 2 is 150
        [Field(number=2, wire=0, data=b'', value=150)]
    """
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            value, at = _read_varint(message, at)
            yield Field(number, wire, b"", value)
            continue
        if wire == BYTES:
            size, at = _read_varint(message, at)
        elif wire in (FIXED32, FIXED64):
            size = 4 if wire == FIXED32 else 8
        else:
            raise ValueError(f"wire type {wire}, expected 0, 1, 2 or 5")
        if size > len(message) - at:
            raise ValueError("a field is cut off")
        yield Field(number, wire, message[at : at + size])
        at += size


def as_signed(value: int) -> int:
    """Return a VARINT as the signed number of 64 bits that it stands for."""
    return value - (1 << 64) if value >> 63 else value


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    """Return a number and the position after it."""
    value = 0
    for k in range(MAX_VARINT):
        if at + k >= len(message):
            raise ValueError("a number is cut off")
        byte = message[at + k]
        value |= (byte & 0x7F) << (7 * k)
        if byte < 0x80:
            return value & ((1 << 64) - 1), at + k + 1
    raise ValueError("a number has more than 64 bits")
