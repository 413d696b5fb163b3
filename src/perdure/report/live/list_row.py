"""What the list shows of a run: who it is, how it stands, how well it does."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from ...metrics import ACCURACY, ScoreScale
from ...metrics.score_matrix import MAX_NAME_LENGTH
from ...record import RunMetadata

if TYPE_CHECKING:
    from ...record import RunFolder

__all__ = [
    "MAX_TEXT",
    "ListRow",
    "escape_name",
    "make_row_fields",
    "read_metadata",
    "read_scale",
]

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


def read_metadata(run: RunFolder) -> tuple[RunMetadata, str]:
    """Return what run.json says, and what is wrong with it."""
    try:
        return run.metadata(), ""
    except FileNotFoundError:
        return RunMetadata(), ""
    except (OSError, ValueError, RecursionError) as error:
        return RunMetadata(), escape_name(f"run.json cannot be read: {error}")[:MAX_TEXT]


def make_row_fields(metadata: RunMetadata) -> dict[str, str | int | None]:
    """Return the fields of a ListRow that run.json decides; what is not as expected is left out.

    Example:
        >>> make_row_fields(RunMetadata({"strategy": "gem", "seed": 2, "tasks": ["a", "b"]}))["of"]
        2
        >>> make_row_fields(RunMetadata({"strategy": ["<b>"]}))["strategy"]
        ''
    """
    config = metadata.config
    fields: dict[str, str | int | None] = {
        name: _text(config.get(name)) for name in ("scenario", "strategy", "model", "setting")
    }
    fields["setting"] = fields["setting"] or _text(metadata.setting)
    seed, tasks = metadata.seed, config.get("tasks")
    fields["seed"] = seed if isinstance(seed, int) and abs(seed) < 2**53 else None
    fields["of"] = len(tasks) if isinstance(tasks, list) and tasks else None
    return fields


def read_scale(metadata: RunMetadata) -> ScoreScale:
    """Return range, direction and name of a run's scores, accuracies where it does not say.

    Example:
        >>> read_scale(RunMetadata(scale={"lower_is_better": True})).lower_is_better
        True
    """
    scale = metadata.scale
    if not scale:
        return ACCURACY
    low, high = scale.get("low"), scale.get("high")
    lower, name = scale.get("lower_is_better") is True, _text(scale.get("name"))[:MAX_NAME_LENGTH]
    with suppress(ValueError, TypeError, OverflowError):
        return ScoreScale(
            float("-inf") if low is None else float(low),  # type: ignore[arg-type]
            float("inf") if high is None else float(high),  # type: ignore[arg-type]
            lower_is_better=lower,
            name=name,
        )
    return ACCURACY


def _text(value: object) -> str:
    return escape_name(value)[:MAX_TEXT] if isinstance(value, str) else ""
