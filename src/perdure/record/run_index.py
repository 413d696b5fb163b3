"""Finding runs: those in a folder, and those that a path or a pattern matches.

The first bytes of a file say whether it is a log or a matrix, and so how long it may be.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._display import MAX_ROWS, count_of, format_block
from .._suggestions import suggest_names
from .formats.matrix import parse_matrices, split_contents
from .formats.matrix_text import MAX_LINE
from .formats.points import looks_like_points
from .group_names import name_replicate
from .io.files import InputError, find_matches, is_inherited, open_stream, read_limited, unreadable
from .io.text import visible
from .run_folder import MAX_TABLE, RunFolder
from .run_metadata import method_config

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

    from numpy.typing import ArrayLike

    from ..metrics import Summary
    from .formats.matrix_entry import MatrixEntry
    from .run_metadata import JSON, RunMetadata

__all__ = [
    "MAX_MATRIX",
    "RunRef",
    "find_runs",
    "is_log",
    "list_matrices",
    "list_runs",
    "read_bytes",
    "refs_of_array",
]

MAX_MATRIX = 128 << 20  # bytes
HEADER = 1000  # bytes in which the header of a log is looked for

MAX_SUGGESTED_FROM = 1000  # names in a folder


def is_log(data: bytes) -> bool:
    r"""Return whether data begins with the header of a points.csv.

    Example:
        >>> is_log(b"step,tested,score\n1,a,0.5\n"), is_log(b"0.9,0.1\n")
        (True, False)
    """
    first = data[:HEADER].decode("utf-8", errors="replace").lstrip("\ufeff").splitlines()[:1]
    return bool(first) and looks_like_points(first[0])


def read_unless_log(path: str, pipe: BinaryIO | None = None) -> bytes | None:
    """Return the bytes of a file, or None if it is a log that can be read again.

    `-` is `pipe`. A pipe can be read only once, so a log is returned as well.
    """
    if path == "-":
        if pipe is None:
            raise InputError("standard input: nothing to read")
        return read_bytes(pipe, "standard input")
    with open_stream(path) as file:
        head = file.read(HEADER)
        if is_log(head) and not is_inherited(path):
            return None
        return read_bytes(file, path, head)


def read_bytes(file: BinaryIO, name: str, head: bytes = b"") -> bytes:
    """Return `head` and the rest of a file, up to the limit for what its first bytes show."""
    head += file.read(2 * MAX_LINE)
    log = is_log(head)
    text = head.lstrip()[:1] not in (b"[", b"{") and head[:2] not in (b"\x93N", b"PK")
    if text and not log and len(head) >= 2 * MAX_LINE and not {10, 13} & set(head):
        raise InputError(
            f"{name} line 1: more than {MAX_LINE} characters, expected a row of scores"
        )
    return read_limited(file, name, MAX_TABLE if log else MAX_MATRIX, head)


@dataclass(frozen=True)
class RunRef:
    """One run or file. `config` has nested names joined by dots, and not the seed.

    `config` is empty where a run states nothing about itself but, perhaps, its seed. `ours` says
    that a run.json is there; only such a run can be unfinished. `matrix` is that of a file, which
    may hold several: of other methods, or of other seeds. `log` holds what a pipe gave, `summary`
    the metrics of what was scored before.
    """

    path: str
    ours: bool = False
    finished: bool = True
    seed: int | str | None = None
    setting: str | None = None
    order: tuple[int, ...] | None = None  # of the tasks, where groups contain several
    config: dict[str, JSON] = field(default_factory=dict)
    data_digests: dict[str, JSON] = field(default_factory=dict)
    method: str | None = None
    part: str = ""
    matrix: MatrixEntry | None = field(default=None, compare=False, repr=False)
    log: bytes | None = field(default=None, compare=False, repr=False)
    summary: Summary | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The path and, of a file with several matrices, which of them."""
        path = "standard input" if self.path == "-" else self.path
        return f"{path}: {self.part}" if self.part else path

    @property
    def is_folder(self) -> bool:
        """Whether it is a run folder, not a file."""
        in_memory = (self.matrix, self.log, self.summary)
        return all(part is None for part in in_memory) and Path(self.path).is_dir()

    @property
    def scenario(self) -> str | None:
        """The name of the scenario, None if the config states none."""
        name = self.config.get("scenario")
        return name if isinstance(name, str) else None

    @property
    def replicate(self) -> int | str | None:
        """What tells runs of one method apart: the seed and, in several orders, the order."""
        if self.seed is None or self.order is None:
            return self.seed
        return name_replicate(self.seed, self.order)

    @property
    def on_validation_split(self) -> bool:
        """Whether it was evaluated on a part of the training data, to select hyperparameters."""
        return "validation_split" in self.config


class RunFolders(list[RunFolder]):
    """Run folders, which `print` shows with their status."""

    def __repr__(self) -> str:
        rows = [[run.name, run.status().state] for run in self[: MAX_ROWS + 1]]
        rows += [["", ""]] * (len(self) - len(rows))  # counted, but not shown
        return format_block(count_of(len(self), "run"), rows)


def list_runs(store: str | os.PathLike[str]) -> RunFolders:
    """Return the runs in a folder of runs, sorted by name; a run is a list of itself.

    Raises InputError if there are none, and OSError if the folder cannot be listed.

    Example:
        >>> import tempfile
        >>> store = Path(tempfile.mkdtemp())
        >>> for seed in (0, 1):
        ...     (store / f"s{seed}").mkdir()
        ...     _ = (store / f"s{seed}" / "run.json").write_text("{}")
        >>> [run.name for run in list_runs(store)]
        ['s0', 's1']
    """
    itself = RunFolder(store)
    if itself.is_run():
        return RunFolders([itself])
    if not itself.path.exists():
        raise InputError(
            f"{store}: no such folder, expected a run or a folder of runs; `perdure run` records "
            "runs in runs/"
        )
    with os.scandir(itself.path) as entries:
        names = sorted(e.name for e in entries if not e.name.startswith(".") and _is_folder(e))
    folders = (RunFolder(itself.path / name) for name in names)
    runs = RunFolders(folder for folder in folders if folder.is_run())
    if not runs:
        raise InputError(
            f"{store}: no runs in it, expected a run or a folder of runs; `perdure run` records "
            f"some; name files by a pattern: '{Path(store) / '*.csv'}'"
        )
    return runs


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def find_runs(text: str) -> list[RunRef]:
    r"""Return the runs and files that a path or a pattern matches; a store matches all its runs.

    Example:
        >>> import tempfile
        >>> store = Path(tempfile.mkdtemp())
        >>> for seed in (0, 1):
        ...     (store / f"s{seed}").mkdir()
        ...     text = '{"config": {"seed": %d}}' % seed
        ...     _ = (store / f"s{seed}" / "run.json").write_text(text)
        >>> [run.seed for run in find_runs(str(store))]
        [0, 1]
    """
    # A folder may be called a[1]: what is there is no pattern. Path raises for odd names.
    try:
        matches = [text] if os.path.lexists(text) else find_matches(text)
        runs = [run for match in matches for run in _runs_at(Path(match))]
    except OSError as error:
        raise unreadable(text, error) from None
    if not runs:
        if glob.has_magic(text):
            raise InputError(f"{text!r:.200}: no file or folder matches this pattern")
        raise InputError(f"{text!r:.200}: no such file or folder{_suggest(text)}")
    return runs


def _suggest(path: str) -> str:
    folder, name = os.path.split(path)
    try:
        names = [entry.name for entry in islice(os.scandir(folder or "."), MAX_SUGGESTED_FROM)]
    except (OSError, ValueError):
        return ""
    suggestion = suggest_names(name, names).strip()
    return f"; {suggestion}" if suggestion else ""


def _runs_at(path: Path) -> list[RunRef]:
    parent = RunFolder(path.parent)
    if path == parent.points_path and parent.metadata_path.is_file():
        return [_make_ref(parent)]
    if not path.is_dir():
        if path == parent.metadata_path:
            raise InputError(f"{path}: has no scores, expected its run folder: {path.parent}")
        if path.suffix == ".toml":
            raise InputError(
                f"{path}: has no scores, expected a matrix, a log or a run; `perdure study report "
                f"{path}` prints the tables of a study"
            )
        return list_matrices(str(path))
    return [_make_ref(folder) for folder in list_runs(path)]


def list_matrices(path: str, pipe: BinaryIO | None = None) -> list[RunRef]:
    """Return the matrices in a file, or the file itself if it is a log or cannot be read.

    Whoever reads it reports what is wrong with it. A pipe (`-` is `pipe`) can be read only once.
    """
    try:
        data = read_unless_log(path, pipe)
        if data is None:  # a log, perhaps a long one
            return [RunRef(path)]
        if is_log(data):
            return [RunRef(path, log=data)]
        name = "standard input" if path == "-" else path
        return _split(parse_matrices(data, name), path)
    except (InputError, OSError):
        if path == "-" or is_inherited(path):
            raise
        return [RunRef(path)]


def refs_of_array(scores: ArrayLike | Mapping[str, object], name: str = "array") -> list[RunRef]:
    """Return the matrices in an array (T, T) or (seeds, T, T), nested lists, or a mapping.

    Example:
        >>> [ref.method for ref in refs_of_array({"er": [[0.9]], "ewc": [[0.8]]})]
        ['er', 'ewc']
    """
    contents: object = scores
    if not isinstance(scores, Mapping):
        try:
            contents = np.asarray(scores, dtype=np.float64)
        except (ValueError, TypeError):  # rows of growing length, or None for not measured
            contents = scores
    return _split(split_contents(contents, name), name)


def _split(entries: Sequence[MatrixEntry], path: str) -> list[RunRef]:
    return [
        RunRef(path, seed=entry.seed, method=entry.method, part=entry.part, matrix=entry)
        for entry in entries
    ]


def _make_ref(folder: RunFolder) -> RunRef:
    path = str(folder.path)
    if not folder.metadata_path.is_file():
        return RunRef(path)
    try:
        metadata = folder.metadata()
    except InputError:  # whoever reads the run reports what is wrong with it
        return RunRef(path, ours=True)
    return make_ref(path, metadata, finished=folder.is_finished())


def make_ref(path: str, metadata: RunMetadata, *, finished: bool = True) -> RunRef:
    """Return the reference to a run with such metadata."""
    setting = metadata.config.get("setting", metadata.setting or None)
    return RunRef(
        path,
        ours=True,
        finished=finished,
        seed=metadata.seed,
        setting=visible(setting) if isinstance(setting, str) else None,
        config=method_config(metadata),
        data_digests=metadata.data_digests(),
    )
