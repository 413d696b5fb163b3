"""Parquet files in, batches of uint8 images and int64 labels out."""

from __future__ import annotations

import glob
import io
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..record import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from ._table import DatasetInfo

__all__ = ["ParquetFile", "batches", "needs", "open_table"]

BATCH = 512  # images held at a time
MAX_PIXELS = 1 << 26  # of one image
# Of a file that unpacks to more than it seems, DuckDB refuses the rest and writes nothing.
BOUNDED = {"threads": 1, "memory_limit": "1GB", "temp_directory": ""}
Batch = tuple["NDArray[np.uint8]", "NDArray[np.int64]"]


class ParquetFile(NamedTuple):
    """One Parquet file: how many rows, its two columns, and its class names if it has them."""

    path: Path
    rows: int
    image: str
    label: str
    classes: tuple[str, ...] | None


def needs(package: str) -> InputError:
    """Return the error for a package that is not installed."""
    return InputError(f"reading datasets needs {package}: pip install 'perdure[train]'")


def open_table(path: Path) -> ParquetFile:
    """Return what a Parquet file holds, without its images."""
    duckdb = _duckdb()
    name = _literal(path)
    try:
        connection = duckdb.connect(config=BOUNDED)
        about = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", name).fetchall()
        (rows,) = connection.execute("SELECT count(*) FROM read_parquet(?)", name).fetchall()[0]
        said = connection.execute(
            "SELECT value FROM parquet_kv_metadata(?) WHERE key = 'huggingface'::BLOB", name
        ).fetchall()
    except duckdb.Error as error:
        raise _unreadable(path, error) from None
    kinds = {str(row[0]): str(row[1]) for row in about}
    image = _column(path, kinds, ("image", "img"))
    label = _column(path, kinds, ("label", "fine_label"))
    if not kinds[image].startswith("STRUCT(bytes BLOB"):
        raise InputError(
            f"{path}: column {image} is {kinds[image]}, expected STRUCT(bytes BLOB, path VARCHAR)"
        )
    if not rows:
        raise InputError(f"{path}: has no rows, expected images")
    return ParquetFile(path, int(rows), image, label, _names(said, label))


def batches(table: ParquetFile, info: DatasetInfo, classes: int) -> Iterator[Batch]:
    """Yield the images, as (n, C, H, W), and labels of a file in their order."""
    duckdb = _duckdb()
    query = (  # a window at a time: one query for all would hold the whole file in memory
        f'SELECT "{table.image}".bytes, "{table.label}"::BIGINT '  # noqa: S608
        "FROM read_parquet(?, file_row_number = true) "
        "WHERE file_row_number >= ? AND file_row_number < ?"
    )
    try:
        connection = duckdb.connect(config=BOUNDED)
        for first in range(0, table.rows, BATCH):
            window = [*_literal(table.path), first, first + BATCH]
            rows = connection.execute(query, window).fetchall()
            yield _decoded(table.path, first, rows, info, classes)
    except duckdb.Error as error:
        raise _unreadable(table.path, error) from None


def _decoded(
    path: Path, first: int, rows: list[tuple[Any, ...]], info: DatasetInfo, classes: int
) -> Batch:
    x = np.empty((len(rows), *info.shape), dtype=np.uint8)
    y = np.empty(len(rows), dtype=np.int64)
    for k, (data, label) in enumerate(rows):
        if label is None or not 0 <= label < classes:
            raise InputError(
                f"{path}, row {first + k}: label is {label}, expected 0 to {classes - 1}"
            )
        y[k] = label
        try:
            x[k] = _image(data, info)
        except Exception as error:  # Pillow's decoders raise what they like
            raise InputError(
                f"{path}, row {first + k}: not an image that can be read ({error}), "
                "expected PNG or JPEG; get the file again"
            ) from None
    return x, y


def _image(data: bytes | None, info: DatasetInfo) -> NDArray[np.uint8]:
    """Return one image as (C, H, W)."""
    from PIL import Image

    if data is None:
        raise ValueError("no bytes")
    channels, height, width = info.shape
    image: Image.Image = Image.open(io.BytesIO(data), formats=("PNG", "JPEG"))
    if image.width * image.height > MAX_PIXELS:  # known from the header: nothing is decoded yet
        raise ValueError(f"{image.width} x {image.height} pixels")
    mode = "L" if channels == 1 else "RGB"
    if image.mode != mode:
        image = image.convert(mode)
    if image.size != (width, height):
        size = (width, height) if info.fit == "stretch" else _shorter_side(image.size, height)
        image = image.resize(size, Image.Resampling.BILINEAR)  # Pillow smooths as it shrinks
        left, top = (image.width - width) // 2, (image.height - height) // 2
        image = image.crop((left, top, left + width, top + height))
    pixels = np.asarray(image)
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)


def _shorter_side(size: tuple[int, int], to: int) -> tuple[int, int]:
    width, height = size
    shorter = min(size)
    return to * width // shorter, to * height // shorter


def _column(path: Path, kinds: dict[str, str], names: tuple[str, ...]) -> str:
    for name in names:
        if name in kinds:
            return name
    raise InputError(f"{path}: columns are {', '.join(kinds):.100}, expected {' or '.join(names)}")


def _names(said: list[tuple[Any, ...]], label: str) -> tuple[str, ...] | None:
    """Return the class names of the huggingface metadata, or None where it has none."""
    try:
        names = json.loads(said[0][0])["info"]["features"][label]["names"]
    except (IndexError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return tuple(map(str, names)) if isinstance(names, list) else None


def _literal(path: Path) -> list[str]:
    """Return a path as an argument for DuckDB, which takes stars and brackets for a pattern."""
    return [glob.escape(str(path))]


def _unreadable(path: Path, error: Exception) -> InputError:
    why = str(error).splitlines()[0]
    return InputError(f"{path}: not a Parquet file that can be read ({why:.200}); get it again")


def _duckdb() -> Any:
    try:
        import duckdb
        import PIL  # noqa: F401  (missing Pillow is said before anything is decoded)
    except ImportError as error:
        raise needs("Pillow" if error.name == "PIL" else "duckdb") from None
    return duckdb
