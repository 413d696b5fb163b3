"""Datasets as uint8 arrays: from the cache, a local mirror, or the Hugging Face hub."""

from ._load import Dataset, Split, load
from ._location import DatasetLocation, FetchResult, FileCheck, fetch, locate, verify
from .registry import DATASETS, DatasetInfo, find_dataset

__all__ = [
    "DATASETS",
    "Dataset",
    "DatasetInfo",
    "DatasetLocation",
    "FetchResult",
    "FileCheck",
    "Split",
    "fetch",
    "find_dataset",
    "load",
    "locate",
    "verify",
]
