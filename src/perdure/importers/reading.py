"""From the name of a reader and paths to run folders: the readers, and which of them to take."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from .._suggestions import suggest_names
from ..record import InputError
from .imported import DEFAULT_OPTIONS, ONLY_ENDS, check_output, has_only_ends, write_run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from .imported import ImportedRun, ImportOptions

__all__ = [
    "READERS",
    "Reader",
    "choose_reader",
    "read_object",
    "read_runs",
    "recognize_path",
    "write_runs",
]


class Reader(NamedTuple):
    """A reader: its module, the tool, and what it reads.

    Its functions are `read(paths, options) -> list[ImportedRun]` and `recognize(path) -> str |
    None`, the reason why a file or folder looks like the tool's; `read(value, options)` and
    `recognize(value)` if it reads an object in memory. Those of "module:name" are `read_name` and
    `recognize_name`.

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
    "facil": Reader("frameworks.logs:facil", "FACIL", "raw_log-*.txt, or the matrices acc_*.txt"),
    "clarena": Reader("frameworks.matrices:clarena", "CLArena", "acc.csv"),
    "renate": Reader("frameworks.matrices:renate", "Renate", "metrics_summary_update_*.csv"),
    "continuum": Reader(
        "frameworks.matrices:continuum", "continuum", "a `Logger` object", in_memory=True
    ),
    "capymoa": Reader(
        "frameworks.matrices:capymoa", "CapyMOA", "an `OCLMetrics` object", in_memory=True
    ),
    "pycil": Reader("frameworks.logs:pycil", "PyCIL, PILOT", "logs of training (logs/…/*.log)"),
    "lm-eval": Reader(
        "lm_eval",
        "lm-evaluation-harness",
        "a folder per checkpoint with results_*.json and samples_*.jsonl",
    ),
    "huggingface": Reader(
        "huggingface",
        "Hugging Face scripts",
        "folders <position>-<task> with all_results.json, as O-LoRA writes them",
    ),
    "tensorboard": Reader("tensorboard", "TensorBoard", "event files (*tfevents*) of a run"),
    "wandb": Reader("wandb", "W&B", "offline runs (*.wandb)"),
    "mlflow": Reader("databases:mlflow", "MLflow", "a SQLite store (mlflow.db)"),
    "trackio": Reader("databases:trackio", "trackio", "the SQLite database of a project"),
    "table": Reader("tables", "tables of your own", "CSV with a header, or JSON Lines"),
}


def load_reader(name: str, verb: Literal["read", "recognize"]) -> Callable[..., Any]:
    """Return a function of a reader, or raise InputError with the names there are."""
    if name not in READERS:
        hint = suggest_names(name, READERS)
        raise InputError(f"no reader is named {name!r:.60}; {hint}known: {', '.join(READERS)}")
    path, _, suffix = READERS[name].module.partition(":")
    module = import_module(f"{__package__}.{path}")
    function: Callable[..., Any] = getattr(module, f"{verb}_{suffix}" if suffix else verb)
    return function


def recognize_path(path: Path) -> dict[str, str]:
    """Return the readers that take a file or folder for their tool's, each with the reason."""
    reasons = {}
    for name, reader in READERS.items():
        if not reader.in_memory and (reason := load_reader(name, "recognize")(path)):
            reasons[name] = reason
    return reasons


def recognize_object(value: object) -> str:
    """Return the name of the reader of an object in memory, or raise TypeError."""
    for name, reader in READERS.items():
        if reader.in_memory and load_reader(name, "recognize")(value):
            return name
    known = ", ".join(reader.reads for reader in READERS.values() if reader.in_memory)
    raise TypeError(
        f"source is an object of type {type(value).__name__}, expected the name of a reader "
        f"({', '.join(READERS)}) or one of these objects: {known or 'none'}"
    )


class ReaderChoice(NamedTuple):
    """The reader that `auto` chose, and why."""

    name: str
    reason: str


def choose_reader(paths: Sequence[Path]) -> ReaderChoice:
    """Return the one reader that recognizes every path; none or several raise InputError."""
    if not paths:
        raise InputError("nothing to import; name files or folders")
    for path in paths:
        if not path.exists():
            raise InputError(f"{path}: no such file or folder")
    reasons = [recognize_path(path) for path in paths]
    common = [name for name in reasons[0] if all(name in others for others in reasons)]
    if not common:
        seen = sorted({name for names in reasons for name in names})
        what = f"not all are results of one tool ({', '.join(seen)})" if seen else "not recognized"
        raise InputError(f"{paths[0]}: {what}; name the reader, one of {', '.join(READERS)}")
    if len(common) > 1:
        candidates = "; ".join(f"{name} ({reasons[0][name]})" for name in common)
        raise InputError(f"{paths[0]}: could be {candidates}; name the reader")
    return ReaderChoice(common[0], reasons[0][common[0]])


def read_runs(
    name: str, paths: Sequence[Path], options: ImportOptions = DEFAULT_OPTIONS
) -> list[ImportedRun]:
    """Return the runs that a reader finds in files and folders.

    Options that say something about the run itself, its config and control tasks, apply to every
    run, whichever reader it came from.
    """
    read = load_reader(name, "read")
    if READERS[name].in_memory:
        raise InputError(
            f"{name} reads {READERS[name].reads}, which is in memory; call "
            "perdure.import_results(OBJECT, output=FOLDER) in your program"
        )
    if not paths:
        raise InputError(f"nothing to import; name files or folders with {READERS[name].reads}")
    runs = _apply(options, read(paths, options))
    if not runs:
        chosen = f" of {options.metric!r:.40}" if options.metric else ""
        raise InputError(f"{paths[0]}: no run{chosen} found, expected {READERS[name].reads}")
    return runs


def read_object(value: object, options: ImportOptions = DEFAULT_OPTIONS) -> list[ImportedRun]:
    """Return the runs in an object of another tool, such as a continuum `Logger`."""
    return _apply(options, load_reader(recognize_object(value), "read")(value, options))


def _apply(options: ImportOptions, runs: list[ImportedRun]) -> list[ImportedRun]:
    for run in runs:
        run.config |= options.config
        split = {name.rpartition("/")[0] for name in run.control}  # a task per filter
        named = [task for task in options.control if task not in split]
        run.control = tuple(dict.fromkeys([*run.control, *named]))
        _check_control(run)
        if options.lower_is_better and not run.scale.lower_is_better:
            raise InputError(
                f"scores of {run.tool} are accuracies; `lower_is_better=True` is for losses in "
                "tables and trackers"
            )
        run.notes += [ONLY_ENDS] if has_only_ends(run) else []
    return runs


def _check_control(run: ImportedRun) -> None:
    trained = {evaluation.trained for evaluation in run.evaluations}
    for task in run.control:
        if task in trained:
            raise InputError(f"control has {task!r}, which is trained; expected others")
        if task not in run.tasks:
            raise InputError(
                f"control has {task!r}, which is not evaluated; tasks: {', '.join(run.tasks)}"
            )


def write_runs(runs: Sequence[ImportedRun], output: Path, *, force: bool = False) -> list[Path]:
    """Write one run into `output`, several into folders below it, and return the folders."""
    if len(runs) == 1:
        folders = [output]
    else:
        names = [_folder_name(run.label) or f"run{k}" for k, run in enumerate(runs)]
        repeated = {name for name in names if names.count(name) > 1}
        folders = [
            output / (f"{name}-{k}" if name in repeated else name) for k, name in enumerate(names)
        ]
    for folder in folders:  # before the first is written
        check_output(folder, force=force)
    for run, folder in zip(runs, folders, strict=True):
        write_run(run, folder, force=force)
    return folders


def _folder_name(label: str) -> str:
    """Return a label as the name of a folder, which cannot lead anywhere else.

    Example:
        >>> _folder_name("../seed 1"), _folder_name("nme")
        ('seed-1', 'nme')
    """
    return re.sub(r"[^\w.=+-]+", "-", label).strip("-.")[:100]
