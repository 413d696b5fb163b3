"""A user's own data in every form, small."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
from PIL import Image

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

RNG_SEED = 0
CLASSES = ("ant", "bee", "cat", "dog")


def pictures(count: int = 40, side: int = 12) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return (N, H, W, 3) images of four classes, and labels from 0."""
    rng = np.random.default_rng(RNG_SEED)
    y = np.arange(count) % 4
    x = rng.integers(0, 60, (count, side, side, 3)) + 45 * y[:, None, None, None]
    return x.astype(np.uint8), y


def table(count: int = 60, features: int = 5) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return (N, F) features far from 0, and labels from 0 to 3."""
    rng = np.random.default_rng(RNG_SEED)
    y = np.arange(count) % 4
    x = rng.normal(size=(count, features)) * 3 + 100
    x[np.arange(count), y] += 30
    return x.astype(np.float32), y


def write_images(folder: Path, *, side: int = 12, per_class: int = 10) -> Path:
    """Write one folder of PNG files per class."""
    x, y = pictures(4 * per_class, side)
    for k, (image, label) in enumerate(zip(x, y, strict=True)):
        target = folder / CLASSES[label]
        target.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(target / f"{k:03}.png")
    return folder


def write_npz(path: Path, **arrays: Any) -> Path:
    """Write an .npz file."""
    np.savez(path, **arrays)
    return path


def write_parquet(path: Path, query: str) -> Path:
    """Write the rows of a query as a Parquet file."""
    duckdb.connect().execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")
    return path
