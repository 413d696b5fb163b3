"""A row of the list: what a run is, its status, and its scores."""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from ...metrics import ACCURACY, ScoreScale
from ...metrics.score_matrix import MAX_NAME_LENGTH
from ...record import RunMetadata
from ...record.run_metadata import method_config

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...record import JSON, RunFolder

__all__ = [
    "MAX_TEXT",
    "ListRow",
    "escape_name",
    "make_row",
    "read_metadata",
    "read_scale",
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
    """Return the latest alarm among the notes of a run, an empty string if there was none."""
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
    lower, name = (
        scale.get("lower_is_better") is True,
        _to_text(scale.get("name"))[:MAX_NAME_LENGTH],
    )
    with suppress(ValueError, TypeError, OverflowError):
        return ScoreScale(
            float("-inf") if low is None else float(low),  # type: ignore[arg-type]
            float("inf") if high is None else float(high),  # type: ignore[arg-type]
            lower_is_better=lower,
            name=name,
        )
    return ACCURACY


def _to_text(value: object) -> str:
    return escape_name(value)[:MAX_TEXT] if isinstance(value, str) else ""
