"""The readers of other tools' results, by the name that `perdure import` takes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from .._suggestions import suggest_names
from ..record import InputError

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

__all__ = ["READERS", "Reader", "load_reader", "recognize_object", "recognize_path"]


class Reader(NamedTuple):
    """A reader: its module, the tool, and what it reads.

    A module that reads files has `read(paths, options) -> list[ImportedRun]` and
    `recognize(path) -> str | None`, the reason why a file or folder looks like the tool's. One that
    reads an object in memory has `read_object(value, options)` and `recognize_object(value)`.

    Attributes:
        module: below `perdure.importers`; loaded on first use.
        tool: name of the tool.
        reads: the files in one line.
        in_memory: whether it reads objects of a Python program instead of files.
    """

    module: str
    tool: str
    reads: str
    in_memory: bool = False


READERS: dict[str, Reader] = {
    "avalanche": Reader(
        "frameworks.avalanche", "Avalanche", "eval_results.csv of CSVLogger, or a logger's text"
    ),
    "mammoth": Reader("frameworks.mammoth", "Mammoth", "logs.pyd, or what a run printed"),
    "facil": Reader("frameworks.facil", "FACIL", "raw_log-*.txt, or the matrices acc_*.txt"),
    "clarena": Reader("frameworks.clarena", "CLArena", "acc.csv"),
    "renate": Reader("frameworks.renate", "Renate", "metrics_summary_update_*.csv"),
    "continuum": Reader("frameworks.continuum", "continuum", "a `Logger` object", in_memory=True),
    "capymoa": Reader("frameworks.capymoa", "CapyMOA", "an `OCLMetrics` object", in_memory=True),
    "pycil": Reader("frameworks.pycil", "PyCIL, PILOT", "logs of training (logs/…/*.log)"),
    "lm-eval": Reader(
        "language_models.lm_eval",
        "lm-evaluation-harness",
        "a folder per checkpoint with results_*.json and samples_*.jsonl",
    ),
    "huggingface": Reader(
        "language_models.huggingface",
        "Hugging Face scripts",
        "folders <position>-<task> with all_results.json, as O-LoRA writes them",
    ),
    "tensorboard": Reader("tensorboard", "TensorBoard", "event files (*tfevents*) of a run"),
    "wandb": Reader("trackers.wandb", "W&B", "offline runs (*.wandb)"),
    "mlflow": Reader("trackers.mlflow", "MLflow", "a SQLite store (mlflow.db)"),
    "trackio": Reader("trackers.trackio", "trackio", "the SQLite database of a project"),
    "table": Reader("trackers.tables", "tables of your own", "CSV with a header, or JSON Lines"),
}


def load_reader(name: str) -> ModuleType:
    """Return the module of a reader, or raise InputError with the names there are."""
    if name not in READERS:
        hint = suggest_names(name, READERS)
        raise InputError(f"no reader is named {name!r:.60}; {hint}known: {', '.join(READERS)}")
    return import_module(f"{__package__}.{READERS[name].module}")


def recognize_path(path: Path) -> dict[str, str]:
    """Return the readers that take a file or folder for their tool's, each with the reason."""
    reasons = {}
    for name, reader in READERS.items():
        if not reader.in_memory and (reason := load_reader(name).recognize(path)):
            reasons[name] = reason
    return reasons


def recognize_object(value: object) -> str:
    """Return the name of the reader of an object in memory, or raise TypeError."""
    for name, reader in READERS.items():
        if reader.in_memory and load_reader(name).recognize_object(value):
            return name
    known = ", ".join(reader.reads for reader in READERS.values() if reader.in_memory)
    raise TypeError(
        f"source is an object of type {type(value).__name__}, expected the name of a reader "
        f"({', '.join(READERS)}) or one of these objects: {known or 'none'}"
    )
