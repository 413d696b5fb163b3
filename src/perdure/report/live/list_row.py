"""What the list shows of a run: who it is, how it stands, how well it does."""

from __future__ import annotations

import json
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ...metrics import ACCURACY, ScoreScale
from ...metrics.score_matrix import MAX_NAME_LENGTH
from ...record import is_locked
from .safe_paths import read_file, stat_file

if TYPE_CHECKING:
    from collections.abc import Container

__all__ = [
    "FILES",
    "MAX_JSON",
    "MAX_TEXT",
    "ListRow",
    "RunHeader",
    "escape_name",
    "get_state",
    "make_row_fields",
    "read_failure",
    "read_header",
    "read_scale",
]

FILES = ("run.json", "points.csv", "done.json", "failed.json", "lock")
MAX_JSON = 4 << 20
MAX_LOCK = 4096
RECENT = 60.0  # seconds: a log of another tool has no lock, it runs while it grows
MAX_TEXT = 200  # letters of anything that a file says


class ListRow(msgspec.Struct, frozen=True):
    """One line of the list. `rev` grows with every change of any line."""

    name: str
    state: str = "interrupted"  # running | finished | failed | interrupted
    scenario: str = ""
    strategy: str = ""
    model: str = ""
    setting: str = ""
    seed: int | None = None
    tasks: int | None = None  # that have ended
    of: int | None = None  # that there will be
    step: int | None = None
    acc: float | None = None  # mean over the tasks learned so far
    min_acc: float | None = None  # mean of the worst since each was learned
    score: str = ACCURACY.label  # what the score is called
    lower: bool = False  # lower scores are better
    changed: float = 0.0  # seconds since 1970
    problem: str = ""
    rev: int = 0


def escape_name(name: str) -> str:
    r"""Return a name from a disk as text that can be sent: what is no letter is written out.

    Example:
        >>> escape_name("a\nb"), escape_name("\udcff")
        ('a\\nb', '\\udcff')
    """
    if name.isascii() and name.isprintable():
        return name
    plain = name.encode("utf-8", "backslashreplace").decode()
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", _written_out, plain)


def _written_out(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def get_state(folder: int, path: str, there: Container[str], changed: float) -> str:
    """Return how a run stands, by the files that are there."""
    if "done.json" in there:
        return "finished"
    if "failed.json" in there:
        return "failed"
    if "lock" in there:
        size = stat_file(folder, "lock")
        alive = size is not None and size[1] <= MAX_LOCK and is_locked(Path(path))
        return "running" if alive else "interrupted"
    foreign = "run.json" not in there
    return "running" if foreign and abs(time.time() - changed) < RECENT else "interrupted"


class RunHeader(msgspec.Struct):
    """What the list needs of run.json; nothing is taken for what it should be."""

    config: msgspec.Raw = msgspec.Raw()
    setting: Any = None
    tasks: Any = None
    scale: Any = None


class _What(msgspec.Struct):
    scenario: Any = None
    strategy: Any = None
    model: Any = None
    setting: Any = None
    seed: Any = None
    tasks: Any = None


def read_header(folder: int) -> tuple[RunHeader, str]:
    """Return what run.json says, and what is wrong with it."""
    try:
        return _SAID.decode(read_file(folder, "run.json", MAX_JSON)), ""
    except FileNotFoundError:
        return RunHeader(), ""
    except (OSError, ValueError, RecursionError) as error:
        return RunHeader(), escape_name(f"run.json cannot be read: {error}")[:MAX_TEXT]


def make_row_fields(said: RunHeader) -> dict[str, Any]:
    """Return the fields of a ListRow that run.json decides; what is not as expected is left out.

    Example:
        >>> text = '{"config": {"strategy": "gem", "seed": 2, "tasks": ["a", "b"]}}'
        >>> make_row_fields(msgspec.json.decode(text, type=RunHeader))["of"]
        2
        >>> odd = msgspec.json.decode('{"config": ["<b>"]}', type=RunHeader)
        >>> make_row_fields(odd)["strategy"]
        ''
    """
    what = _What()
    if bytes(said.config):
        with suppress(ValueError, RecursionError):
            what = _WHAT.decode(said.config)
    fields: dict[str, Any] = {
        name: _text(getattr(what, name)) for name in ("scenario", "strategy", "model", "setting")
    }
    fields["setting"] = fields["setting"] or _text(said.setting)
    seed, tasks = what.seed, what.tasks
    whole = isinstance(seed, int) and not isinstance(seed, bool) and abs(seed) < 2**53
    fields["seed"] = seed if whole else None
    fields["of"] = len(tasks) if isinstance(tasks, list) and tasks else None
    return fields


_SAID, _WHAT = msgspec.json.Decoder(RunHeader), msgspec.json.Decoder(_What)


def read_scale(said: RunHeader) -> ScoreScale:
    """Return range, direction and name of a run's scores, accuracies where it does not say.

    Example:
        >>> read_scale(RunHeader(scale={"lower_is_better": True})).lower_is_better
        True
    """
    scale = said.scale
    if not isinstance(scale, dict):
        return ACCURACY
    low, high = scale.get("low"), scale.get("high")
    lower, name = scale.get("lower_is_better") is True, _text(scale.get("name"))[:MAX_NAME_LENGTH]
    with suppress(ValueError, TypeError, OverflowError):
        return ScoreScale(
            float("-inf") if low is None else float(low),
            float("inf") if high is None else float(high),
            lower_is_better=lower,
            name=name,
        )
    return ACCURACY


def read_failure(folder: int) -> str:
    """Return why a run has failed."""
    try:
        said = json.loads(read_file(folder, "failed.json", MAX_JSON))
        return escape_name(str(said["error"]))[:MAX_TEXT]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "it failed, and the reason cannot be read"


def _text(value: object) -> str:
    return escape_name(value)[:MAX_TEXT] if isinstance(value, str) else ""
