"""Ways to spoil a file: its bytes, its meaning, its header, or what kind of file it is."""

from __future__ import annotations

import json
import os
import re
import shutil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from random import Random

__all__ = ["mutate"]

NUMBERS = (
    b"nan", b"inf", b"-inf", b"NaN", b"Infinity", b"-1", b"0", b"1", b"-0.0", b"1e999", b"-1e-999",
    b"1e308", b"100000000", b"4294967296", b"9223372036854775807", b"9223372036854775808", b"1_0",
    b"0x10", b"1e400", b"1.5", b"true", b"null", b'""', b'"a"', b"[]", b"{}", b"9" * 400,
    b"9" * 5000, b"", b"\xd9\xa1",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 1e308, 10**30, "", "a", "\x1b[2J", "\ud800", "x" * 5000, [], {},
    [[]], [None], {"a": {}}, [1, "a", None], float("nan"), float("inf"),
)  # fmt: skip
SHAPES = (
    b"(1000000000, 1000000000)", b"(0, 0)", b"(-1, 4)", b"()", b"(2,)", b"(1, 1, 1)",
    b"(3000, 3000)", b"(True, 3)", b"(1.5, 2)", b"'x'", b"(" * 60, b"(16000000,)",
)  # fmt: skip
KINDS = (b"'|O'", b"'<i8'", b"'<U4'", b"'>f8'", b"'<c16'", b"'|V8'", b"'x'", b"[('a', '<f8')]")


def mutate(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """Spoil the file at `path`, and return in words how; `others` lend their bytes."""
    if rng.random() < 0.2:
        special = rng.choice(SPECIAL)
        path.unlink(missing_ok=True)
        special(path, rng)
        return f"{path.name}: {special.__name__}"
    data = path.read_bytes()
    said = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        change = rng.choice(BYTES)
        data = change(data, rng) if change is not splice else splice(data, rng, others)
        said.append(change.__name__)
    path.write_bytes(data[: 4 << 20])
    return f"{path.name}: {', '.join(said)}"


def flip(data: bytes, rng: Random) -> bytes:
    changed = bytearray(data or b"\0")
    for _ in range(rng.choice((1, 1, 4, 32))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def truncate(data: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def remove(data: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + data[at + rng.choice((1, 1, 8, 100)) :]


def repeat(data: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    piece = data[at : at + rng.choice((1, 8, 100, 1000))]
    return data[:at] + piece * rng.choice((2, 2, 3, 200)) + data[at:]


def insert(data: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    odd = (
        b"\0",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b'"',
        b"\r",
        b"\n",
        b",",
        b"\x1b]0;x\x07",
        b"\xe2\x80\xae",
    )
    return data[:at] + rng.choice(odd) * rng.choice((1, 1, 300)) + data[at:]


def splice(data: bytes, rng: Random, others: Sequence[Path]) -> bytes:
    other = rng.choice(others).read_bytes()
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def number(data: bytes, rng: Random) -> bytes:
    found = list(re.finditer(rb"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?", data[: 1 << 16]))
    for match in sorted(
        rng.sample(found, min(len(found), rng.choice((1, 1, 3)))), key=lambda m: -m.start()
    ):
        data = data[: match.start()] + rng.choice(NUMBERS) + data[match.end() :]
    return data


def every_number(data: bytes, rng: Random) -> bytes:
    chosen = rng.choice(NUMBERS)
    return re.sub(rb"(?<=[,\[ =])-?\d+(?:\.\d+)?", lambda _: chosen, data[: 1 << 16])


def line(data: bytes, rng: Random) -> bytes:
    """Repeat, drop or move a line: keys and rows that stand twice, or nowhere."""
    lines = data.splitlines(keepends=True) or [b""]
    at = rng.randrange(len(lines))
    how = rng.randrange(4)
    if how == 0:
        lines.insert(rng.randrange(len(lines) + 1), lines[at])
    elif how == 1:
        del lines[at]
    elif how == 2:
        rng.shuffle(lines)
    else:
        lines[at:at] = [lines[at]] * 3000
    return b"".join(lines)


def nest(data: bytes, rng: Random) -> bytes:
    """Put something in brackets, a few or very many."""
    deep = rng.choice((3, 60, 200, 900, 5000, 100_000))
    open_, close = rng.choice(((b"[", b"]"), (b'{"a":', b"}"), (b"(", b")"), (b"a.", b"")))
    found = list(re.finditer(rb'\d+(?:\.\d+)?|"[^"\n]*"', data[: 1 << 16]))
    if not found:
        return open_ * deep + data + close * deep
    match = rng.choice(found)
    inside = open_ * deep + match[0] + close * rng.choice((deep, deep, 0))
    return data[: match.start()] + inside + data[match.end() :]


def tree(data: bytes, rng: Random) -> bytes:
    """Replace, drop, rename or repeat a value of JSON."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return number(data, rng)
    places: list[tuple[Any, Any]] = []
    walk = [value]
    while walk:
        each = walk.pop()
        if isinstance(each, dict | list):
            keys = list(each) if isinstance(each, dict) else list(range(len(each)))
            places += [(each, key) for key in keys]
            walk += [each[key] for key in keys]
    if not places or rng.random() < 0.1:
        return json.dumps(rng.choice(VALUES)).encode()
    for holder, key in rng.sample(places, min(len(places), rng.choice((1, 1, 2, 5)))):
        if rng.random() < 0.15 and isinstance(holder, dict):
            holder.pop(key, None)
        elif isinstance(holder, dict) or key < len(holder):
            holder[key] = rng.choice(VALUES)
    return json.dumps(value).encode()


def header(data: bytes, rng: Random) -> bytes:
    """Have the header of a NumPy file, also in an archive, promise something else."""
    if b"'shape': " in data:
        if rng.random() < 0.6:
            return re.sub(rb"'shape': \([^)]*\)", b"'shape': " + rng.choice(SHAPES), data)
        return re.sub(rb"'descr': '[^']*'", b"'descr': " + rng.choice(KINDS), data)
    start = data.find(b"PK\x01\x02" if rng.random() < 0.7 else b"PK\x03\x04")
    if start < 0 or len(data) < start + 60:
        return flip(data[:200], rng) + data[200:]
    changed = bytearray(data)
    at = start + rng.choice((8, 10, 16, 20, 24, 28, 30, 42))
    changed[at : at + 4] = rng.choice(
        (b"\xff\xff\xff\x7f", b"\0\0\0\0", b"\x01\0\0\0", rng.randbytes(4))
    )
    return bytes(changed)


def empty(data: bytes, rng: Random) -> bytes:
    return rng.choice((b"", b"\n", b" ", b"{}", b"[]", b"null", b"0", b"PK", b"\x93NUMPY", b"PAR1"))


def noise(data: bytes, rng: Random) -> bytes:
    return rng.randbytes(rng.choice((1, 30, 3000)))


def pipe(path: Path, rng: Random) -> None:
    os.mkfifo(path)


def folder(path: Path, rng: Random) -> None:
    path.mkdir()


def link_to_device(path: Path, rng: Random) -> None:
    path.symlink_to(rng.choice(("/dev/zero", "/dev/null", "/dev/random", "/dev/full")))


def link_to_itself(path: Path, rng: Random) -> None:
    path.symlink_to(path.name)


def link_to_nothing(path: Path, rng: Random) -> None:
    path.symlink_to("nothing")


def link_to_folder(path: Path, rng: Random) -> None:
    path.symlink_to(rng.choice((".", "..")))


def hole(path: Path, rng: Random) -> None:
    """Leave a file that is huge, and takes no room on the disk."""
    path.write_bytes(rng.choice((b"", b"step,tested,score\n", b"[", b"\x93NUMPY\x01\0\x76\0{")))
    os.truncate(path, rng.choice((1 << 20, 64 << 20, 2 << 30, 1 << 40)))


def gone(path: Path, rng: Random) -> None:
    """Leave nothing there."""


def of_another(path: Path, rng: Random) -> None:
    """Put a file beside it in its place."""
    beside = [each for each in sorted(path.parent.iterdir()) if each.is_file()]
    if beside:
        shutil.copyfile(rng.choice(beside), path)


BYTES: tuple[Callable[..., bytes], ...] = (
    flip, truncate, remove, repeat, insert, splice, number, number, every_number, line, line, nest,
    tree, tree, header, header, empty, noise,
)  # fmt: skip
SPECIAL: tuple[Callable[[Path, Random], None], ...] = (
    pipe, folder, link_to_device, link_to_itself, link_to_nothing, link_to_folder, hole, gone,
    of_another,
)  # fmt: skip
