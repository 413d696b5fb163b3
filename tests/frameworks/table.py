"""The table of docs/frameworks.md: python -m tests.frameworks.table, for what is installed here."""

from __future__ import annotations

import logging
import tempfile
import warnings
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from .helpers import OWN, distance, same

if TYPE_CHECKING:
    from collections.abc import Callable

    Train = Callable[[str], dict[str, torch.Tensor]]

ROWS = [  # module of tests, function, framework, package, its own evaluation
    ("lightning", "train", "Lightning", "lightning", "`val_check_interval=2`"),
    ("transformers", "train", "transformers", "transformers", "`eval_steps=1`"),
    ("trl", "train", "TRL, LoRA", "trl", "`eval_steps=1`"),
    ("avalanche", "train", "Avalanche", "avalanche-lib", "`eval()` after each experience"),
    ("avalanche", "train_periodically", "Avalanche", "avalanche-lib", "`eval_every=2` iterations"),
]


def compare(train: Train, mode: str, alone: dict[str, torch.Tensor]) -> str:
    """Return how the weights compare with those of a training without evaluation."""
    trained = train(mode)
    if same(trained, alone):
        return "bit-identical"
    return f"differ by up to {distance(trained, alone):.2g}"


def main() -> None:
    """Print the rows of the frameworks that are installed here."""
    torch.set_num_threads(1)
    logging.disable(logging.ERROR)
    for module, function, name, package, own in ROWS:
        try:
            train = getattr(import_module(f"tests.frameworks.test_{module}"), function)
        except pytest.skip.Exception:
            continue
        with tempfile.TemporaryDirectory() as folder:
            if module in ("transformers", "trl"):
                train = partial(train, folder=Path(folder))
            alone = train("none")
            theirs, ours = (compare(train, mode, alone) for mode in (OWN, "perdure"))
            print(f"| {name} {version(package)} | {own} | {theirs} | {ours} |")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
