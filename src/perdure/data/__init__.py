"""Images as uint8 arrays: from the cache, a local mirror, or the Hugging Face hub."""

from ._fetch import FetchResult, fetch
from ._inspect import DatasetLocation, FileCheck, locate, verify
from ._load import Dataset, Split, load
from ._table import DATASETS, DatasetInfo

__all__ = [
    "DATASETS",
    "Dataset",
    "DatasetInfo",
    "DatasetLocation",
    "FetchResult",
    "FileCheck",
    "Split",
    "fetch",
    "load",
    "locate",
    "verify",
]
