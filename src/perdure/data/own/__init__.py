"""A user's own data: a folder of images, an .npz or a .parquet file, as a dataset."""

from .read import INPUT_KINDS, OwnData, ReadOptions, read_own_data

__all__ = ["INPUT_KINDS", "OwnData", "ReadOptions", "read_own_data"]
