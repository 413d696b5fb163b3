"""What the list shows: rows of runs, their details, and the progress of studies."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections import Counter
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from ...metrics import ACCURACY, ScoreScale
from ...metrics.score_matrix import MAX_NAME_LENGTH
from ...record import RunMetadata, read_costs
from ...record.io.folder import open_folder, read_file
from ...record.run_metadata import method_config

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ...record import JSON, RunFolder

__all__ = [
    "MAX_TEXT",
    "ListRow",
    "StudyProgress",
    "StudyRuns",
    "count_progress",
    "escape_name",
    "find_studies",
    "make_row",
    "read_details",
    "read_metadata",
    "read_scale",
    "read_task_costs",
]

MAX_TEXT = 200  # letters of any text from a file
MAX_OPTIONS = 40  # per run
MAX_OPTION_TEXT = 60
SHOWN_KEYS = ("scenario", "strategy", "model", "setting")  # have fields of their own


class ListRow(msgspec.Struct, frozen=True):
    """A row of the list. `rev` grows with every change of any row."""

    name: str
    state: str = "interrupted"  # running | finished | failed | interrupted
    scenario: str = ""
    strategy: str = ""
    model: str = ""
    setting: str = ""
    seed: int | None = None
    tasks: int | None = None  # finished
    of: int | None = None  # in total
    step: int | None = None
    acc: float | None = None  # mean over the tasks learned so far
    min_acc: float | None = None  # mean of the worst score of each since it was learned
    score: str = ACCURACY.label  # name of the score
    lower: bool = False  # lower is better
    changed: float = 0.0  # seconds since 1970
    problem: str = ""
    alarm: str = ""  # the latest one
    group: str = ""  # equal for runs that differ in nothing but the seed; empty if that is unknown
    options: dict[str, str] = {}  # hyperparameters and other choices
    rev: int = 0


def escape_name(name: str) -> str:
    r"""Return a name from the disk as printable text, with control characters escaped.

    Example:
        >>> escape_name("a\nb"), escape_name("\udcff")
        ('a\\nb', '\\udcff')
    """
    if name.isascii() and name.isprintable():
        return name
    plain = name.encode("utf-8", "backslashreplace").decode()
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", _escape, plain)


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def read_metadata(run: RunFolder) -> tuple[RunMetadata, str]:
    """Return the metadata of a run, and the problem if it cannot be read."""
    try:
        return run.metadata(), ""
    except FileNotFoundError:
        return RunMetadata(), ""
    except (OSError, ValueError, RecursionError) as error:
        return RunMetadata(), escape_name(f"run.json cannot be read: {error}")[:MAX_TEXT]


def make_row(name: str, metadata: RunMetadata, scale: ScoreScale, problem: str = "") -> ListRow:
    """Return a row with the fields that run.json decides; unexpected values are left out.

    Example:
        >>> make_row("a", RunMetadata({"seed": 2, "tasks": ["a", "b"]}), ACCURACY).of
        2
        >>> make_row("a", RunMetadata({"strategy": ["<b>"]}), ACCURACY).strategy
        ''
    """
    config, seed = metadata.config, metadata.seed
    tasks = config.get("tasks")
    group, options = _describe_method(metadata)
    return ListRow(
        name,
        scenario=_to_text(config.get("scenario")),
        strategy=_to_text(config.get("strategy")),
        model=_to_text(config.get("model")),
        setting=_to_text(config.get("setting")) or _to_text(metadata.setting),
        seed=seed if isinstance(seed, int) and abs(seed) < 2**53 else None,
        of=len(tasks) if isinstance(tasks, list) and tasks else None,
        score=scale.label,
        lower=scale.lower_is_better,
        problem=problem,
        alarm=_find_alarm(metadata.notes),
        group=group,
        options=options,
    )


def _describe_method(metadata: RunMetadata) -> tuple[str, dict[str, str]]:
    """Return what identifies the method of a run, and its options; nothing if it has no seed."""
    config = method_config(metadata)
    if not config or not isinstance(metadata.seed, int):
        return "", {}
    return _list_options(json.dumps(config, sort_keys=True))


@lru_cache(maxsize=1024)
def _list_options(config: str) -> tuple[str, dict[str, str]]:
    """Return a digest of a config, and its options; runs of one method share them."""
    digest = hashlib.sha256(config.encode()).hexdigest()[:16]
    stated = [(key, value) for key, value in json.loads(config).items() if value is not None]
    chosen = [(key, value) for key, value in stated if key not in SHOWN_KEYS]
    return digest, {
        escape_name(key)[:MAX_OPTION_TEXT]: escape_name(_to_json(value))[:MAX_OPTION_TEXT]
        for key, value in chosen[:MAX_OPTIONS]
    }


def _to_json(value: JSON) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _find_alarm(notes: Sequence[JSON]) -> str:
    alarms = [note for note in notes if isinstance(note, str) and note.startswith("alarm at step ")]
    return _to_text(alarms[-1]) if alarms else ""


def read_scale(metadata: RunMetadata | None = None) -> ScoreScale:
    """Return the range, direction and name of a run's scores; accuracy if not stated.

    Example:
        >>> read_scale(RunMetadata(scale={"lower_is_better": True})).lower_is_better
        True
    """
    scale = metadata.scale if metadata is not None else {}
    if not scale:
        return ACCURACY
    low, high = scale.get("low"), scale.get("high")
    with suppress(ValueError, TypeError, OverflowError):
        return ScoreScale(
            float("-inf") if low is None else float(low),  # type: ignore[arg-type]
            float("inf") if high is None else float(high),  # type: ignore[arg-type]
            lower_is_better=scale.get("lower_is_better") is True,
            name=_to_text(scale.get("name"))[:MAX_NAME_LENGTH],
        )
    return ACCURACY


def _to_text(value: object) -> str:
    return escape_name(value)[:MAX_TEXT] if isinstance(value, str) else ""


MAX_COSTS = 4 << 20
MAX_LINES = 40
MAX_TASKS = 200
GROUPS = ("options", "optimizer_options", "model_options")
FIELDS = (
    "scenario", "setting", "strategy", "options", "model", "model_options", "optimizer",
    "optimizer_options", "seed", "epochs", "iterations", "batch", "every", "subset", "device",
    "threads",
)  # fmt: skip


def read_details(run: RunFolder) -> list[tuple[str, str]]:
    """Return the details in run.json; none if it cannot be read."""
    try:
        return list_details(run.metadata())
    except (OSError, ValueError, RecursionError):
        return []


def list_details(metadata: RunMetadata) -> list[tuple[str, str]]:
    """Return the details of a run, one name and value per line.

    Example:
        >>> config = {"strategy": "gem", "options": {"memory": 400}, "epochs": None}
        >>> list_details(RunMetadata(config))
        [('strategy', 'gem'), ('memory', '400')]
    """
    lines = list(_list_config(metadata.config))
    if metadata.created:
        lines.append(("started", metadata.created))
    if metadata.versions:
        named = [f"{k} {v}" for k, v in metadata.versions.items() if isinstance(v, str)]
        lines.append(("versions", ", ".join(named[:8])))
    return [
        (escape_name(name)[:80], escape_name(value)[:MAX_TEXT]) for name, value in lines[:MAX_LINES]
    ]


def _list_config(config: Mapping[str, JSON]) -> Iterator[tuple[str, str]]:
    for name in FIELDS:
        value = config.get(name)
        if name in GROUPS and isinstance(value, dict):
            yield from ((str(k), _format(v)) for k, v in list(value.items())[:MAX_LINES])
        elif isinstance(value, str | int | float):
            yield name, _format(value)


def _format(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(item) for item in value[:20] if isinstance(item, str | int | float))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if isinstance(value, str | int | float) else "…"


def read_task_costs(run: RunFolder) -> list[dict[str, float | None]]:
    """Return the costs of each finished task, in order; none if they cannot be read."""
    try:
        costs, _ = read_costs(run.read_costs_text(MAX_COSTS), "costs.csv", ours=True)
    except (OSError, ValueError):
        return []
    rows = []
    for row in range(min(len(costs.tasks), MAX_TASKS)):
        values = {name: float(column[row]) for name, column in costs.columns.items()}
        rows.append({name: None if math.isnan(v) else v for name, v in values.items()})
    return rows


MAX_JSON = 16 << 20
MAX_STUDIES = 50
STUDY = ".study.json"


class StudyRuns(msgspec.Struct, frozen=True):
    """The runs of a study that are known so far, and how many more will follow."""

    name: str
    runs: tuple[str, ...]
    later: int = 0


class StudyProgress(msgspec.Struct, frozen=True):
    """The number of runs of a study by status."""

    name: str
    done: int
    running: int
    failed: int
    waiting: int


class _StudyFile(msgspec.Struct):
    runs: list[str] = []
    later: int = 0


def find_studies(path: str, prefix: str = "") -> list[StudyRuns]:
    """Return the studies in a folder; `prefix` is put before the names of its runs."""
    studies: dict[str, StudyRuns] = {}
    try:
        with open_folder(path) as folder, os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.name.endswith(STUDY)]
            for file in sorted(names)[: 2 * MAX_STUDIES]:
                name = prefix + escape_name(file.removesuffix(STUDY))
                study = _read_study(folder, file, name, prefix)
                if study.runs or study.later:
                    studies[name] = study
    except OSError:
        return []
    return list(studies.values())[:MAX_STUDIES]


def _read_study(folder: int, file: str, name: str, prefix: str) -> StudyRuns:
    try:
        contents = msgspec.json.decode(read_file(folder, file, MAX_JSON), type=_StudyFile)
    except (OSError, ValueError, RecursionError):
        return StudyRuns(name, ())
    runs = tuple(dict.fromkeys(prefix + escape_name(run) for run in contents.runs))
    return StudyRuns(name, runs, min(max(contents.later, 0), 10**6))


def count_progress(study: StudyRuns, listing: Mapping[str, ListRow]) -> StudyProgress:
    """Return the number of a study's runs by status.

    Example:
        >>> listing = {"a": ListRow("a", state="finished")}
        >>> count_progress(StudyRuns("s", ("a", "b"), later=3), listing)
        StudyProgress(name='s', done=1, running=0, failed=0, waiting=4)
    """
    rows = [listing.get(run) for run in study.runs]
    count = Counter("interrupted" if row is None else row.state for row in rows)
    return StudyProgress(
        study.name, count["finished"], count["running"], count["failed"],
        count["interrupted"] + study.later,
    )  # fmt: skip
