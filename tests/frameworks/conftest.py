"""What every test inside a framework finds."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module", autouse=True)
def frozen() -> Iterator[None]:
    """Spare the frameworks' own modules: the Trainer collects garbage after every training."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
