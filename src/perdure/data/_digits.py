"""The digits that come with scikit-learn: no download, runs anywhere."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from ._parquet import needs

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["digits"]


def digits() -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.bool_], str, str]:
    """Return images (1797, 1, 8, 8), labels, which are for testing, version, and SHA-256.

    There is no official split: every fifth image of each class is for testing.
    """
    try:
        import sklearn  # type: ignore[import-untyped]
        from sklearn.datasets import load_digits  # type: ignore[import-untyped]
    except ImportError:
        raise needs("scikit-learn") from None
    found = load_digits()
    x = (found.images * 255 / 16).round().astype(np.uint8)[:, None]
    y = found.target.astype(np.int64)
    test = np.zeros(len(y), dtype=bool)
    for label in range(10):
        test[np.flatnonzero(y == label)[4::5]] = True
    hashed = hashlib.sha256(x.tobytes() + y.tobytes()).hexdigest()
    return x, y, test, f"scikit-learn {sklearn.__version__}", hashed
