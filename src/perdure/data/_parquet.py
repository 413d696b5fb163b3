"""Reading Parquet files as batches of uint8 images and int64 labels."""

from __future__ import annotations

import glob
import io
import json
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._extras import install_hint
from ..record import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import ModuleType

    from numpy.typing import NDArray

    from .registry import DatasetInfo

__all__ = [
    "DUCKDB_LIMITS",
    "MAX_PIXELS",
    "ImageBatch",
    "ParquetFile",
    "class_names",
    "escape_glob",
    "import_duckdb",
    "missing_package",
    "open_parquet",
    "read_images",
    "read_schema",
    "unreadable",
]

BATCH_SIZE = 512  # images in memory at a time
MAX_PIXELS = 1 << 26  # per image
# A file may unpack to far more than its size: DuckDB then fails and writes no temporary files.
DUCKDB_LIMITS = {"threads": 1, "memory_limit": "1GB", "temp_directory": ""}
ImageBatch = tuple["NDArray[np.uint8]", "NDArray[np.int64]"]


class ParquetFile(NamedTuple):
    """A Parquet file: its number of rows, its two columns, and its class names if it has any."""

    path: Path
    rows: int
    image: str
    label: str
    classes: tuple[str, ...] | None


def missing_package(package: str) -> InputError:
    """Return the error for a package that is not installed."""
    return InputError(f"reading datasets needs {package}: {install_hint('train')}")


def open_parquet(path: Path) -> ParquetFile:
    """Return the description of a Parquet file without reading its images."""
    types, rows, metadata = read_schema(path)
    image = _find_column(path, types, ("image", "img"))
    label = _find_column(path, types, ("label", "fine_label"))
    if not types[image].startswith("STRUCT(bytes BLOB"):
        raise InputError(
            f"{path}: column {image} is {types[image]}, expected STRUCT(bytes BLOB, path VARCHAR)"
        )
    if not rows:
        raise InputError(f"{path}: has no rows, expected images")
    return ParquetFile(path, rows, image, label, class_names(metadata, label))


def read_schema(
    path: Path, fix: str = "download it again"
) -> tuple[dict[str, str], int, list[tuple[bytes]]]:
    """Return the types of the columns by name, the number of rows, and the huggingface metadata.

    `fix` says what to do about a file that cannot be read.
    """
    duckdb = import_duckdb()
    name = escape_glob(path)
    try:
        connection = duckdb.connect(config=DUCKDB_LIMITS)
        columns = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", name).fetchall()
        (rows,) = connection.execute("SELECT count(*) FROM read_parquet(?)", name).fetchall()[0]
        metadata = connection.execute(
            "SELECT value FROM parquet_kv_metadata(?) WHERE key = 'huggingface'::BLOB", name
        ).fetchall()
    except duckdb.Error as error:
        raise unreadable(path, error, fix) from None
    return {str(row[0]): str(row[1]) for row in columns}, int(rows), metadata


def read_images(file: ParquetFile, info: DatasetInfo, classes: int) -> Iterator[ImageBatch]:
    """Yield the images (n, C, H, W) and labels of a file in order."""
    duckdb = import_duckdb()
    query = (  # one window at a time: a single query would hold the whole file in memory
        f'SELECT "{file.image}".bytes, "{file.label}"::BIGINT '  # noqa: S608
        "FROM read_parquet(?, file_row_number = true) "
        "WHERE file_row_number >= ? AND file_row_number < ?"
    )
    try:
        connection = duckdb.connect(config=DUCKDB_LIMITS)
        for first in range(0, file.rows, BATCH_SIZE):
            window = [*escape_glob(file.path), first, first + BATCH_SIZE]
            rows = connection.execute(query, window).fetchall()
            yield _decode_rows(file.path, first, rows, info, classes)
    except duckdb.Error as error:
        raise unreadable(file.path, error) from None


def _decode_rows(
    path: Path,
    first: int,
    rows: Sequence[tuple[bytes | None, int | None]],
    info: DatasetInfo,
    classes: int,
) -> ImageBatch:
    x = np.empty((len(rows), *info.shape), dtype=np.uint8)
    y = np.empty(len(rows), dtype=np.int64)
    for k, (data, label) in enumerate(rows):
        if label is None or not 0 <= label < classes:
            raise InputError(
                f"{path}, row {first + k}: label is {label}, expected 0 to {classes - 1}"
            )
        y[k] = label
        try:
            x[k] = _decode_image(data, info)
        except Exception as error:  # Pillow's decoders raise many kinds of errors
            raise InputError(
                f"{path}, row {first + k}: cannot decode the image ({error}), "
                "expected PNG or JPEG; download the file again"
            ) from None
    return x, y


def _decode_image(data: bytes | None, info: DatasetInfo) -> NDArray[np.uint8]:
    """Return one image as (C, H, W)."""
    from PIL import Image

    if data is None:
        raise ValueError("no bytes")
    channels, height, width = info.shape
    image: Image.Image = Image.open(io.BytesIO(data), formats=("PNG", "JPEG"))
    if image.width * image.height > MAX_PIXELS:  # from the header, before decoding
        raise ValueError(f"{image.width} x {image.height} pixels")
    mode = "L" if channels == 1 else "RGB"
    if image.mode != mode:
        image = image.convert(mode)
    if image.size != (width, height):
        size = (width, height) if info.fit == "stretch" else _scale_shorter_side(image.size, height)
        image = image.resize(size, Image.Resampling.BILINEAR)  # antialiased
        left, top = (image.width - width) // 2, (image.height - height) // 2
        image = image.crop((left, top, left + width, top + height))
    pixels = np.asarray(image)
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)


def _scale_shorter_side(size: tuple[int, int], length: int) -> tuple[int, int]:
    width, height = size
    shorter = min(size)
    return length * width // shorter, length * height // shorter


def _find_column(path: Path, types: dict[str, str], names: tuple[str, ...]) -> str:
    for name in names:
        if name in types:
            return name
    raise InputError(f"{path}: columns are {', '.join(types):.100}, expected {' or '.join(names)}")


def class_names(metadata: Sequence[tuple[bytes]], label: str) -> tuple[str, ...] | None:
    """Return the class names in the huggingface metadata, or None."""
    try:
        names = json.loads(metadata[0][0])["info"]["features"][label]["names"]
    except (IndexError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return tuple(map(str, names)) if isinstance(names, list) else None


def escape_glob(path: Path) -> list[str]:
    """Return a path as a query parameter; DuckDB would expand stars and brackets."""
    return [glob.escape(str(path))]


def unreadable(path: Path, error: Exception, fix: str = "download it again") -> InputError:
    reason = str(error).splitlines()[0]
    return InputError(f"{path}: cannot be read as a Parquet file ({reason:.200}); {fix}")


def import_duckdb() -> ModuleType:
    try:
        import duckdb
        import PIL  # noqa: F401 - a missing Pillow is reported before decoding
    except ImportError as error:
        raise missing_package("Pillow" if error.name == "PIL" else "duckdb") from None
    return duckdb
