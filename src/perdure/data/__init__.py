"""Images as uint8 arrays: from the cache, a local mirror, or the Hugging Face hub."""

from ._fetch import Fetched, fetch
from ._inspect import Check, Place, verify, where
from ._load import Dataset, Split, load
from ._table import DATASETS, Info

__all__ = [
    "DATASETS",
    "Check",
    "Dataset",
    "Fetched",
    "Info",
    "Place",
    "Split",
    "fetch",
    "load",
    "verify",
    "where",
]
