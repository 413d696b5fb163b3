"""What the arguments of the evaluator may be."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from numbers import Integral
from typing import Any

from ..metrics import ACCURACY, ScoreScale
from ..metrics.score_matrix import LONGEST_NAME

__all__ = ["as_json", "check_arguments", "check_state", "check_whole", "named_tasks", "scale_of"]

WORDS: dict[str, tuple[str | None, ...]] = {
    "initial": ("entered", "all", "none"),
    "where": ("inline", "worker"),
    "mode": ("exact", "latest"),
    "on_alarm": ("warn", "stop"),
    "setting": (None, "class", "task", "domain"),
}


LEAST = {"subset": 1, "every": 1, "audit": 1, "queue": 1, "batch": 1, "seed": 0}
MAY_BE_NONE = ("subset", "batch")


def check_arguments(**given: Any) -> None:
    """Raise for an argument that is none of the words, numbers or collections it may be.

    Example:
        >>> check_arguments(where="worker", subset=None, audit=100)
        >>> check_arguments(where="gpu")
        Traceback (most recent call last):
        ValueError: where is 'gpu', expected inline or worker
    """
    for name, value in given.items():
        if name in WORDS and value not in WORDS[name]:
            words = " or ".join(str(word) for word in WORDS[name])
            raise ValueError(f"{name} is {value!r}, expected {words}")
        if name in LEAST and not (value is None and name in MAY_BE_NONE):
            check_whole(name, value, LEAST[name])
    windows, classes = given.get("windows", ()), given.get("classes")
    if not isinstance(windows, list | tuple):
        raise TypeError(f"windows is {windows!r}, expected a list of whole numbers like (10, 100)")
    for window in windows:
        check_whole("windows: a window", window, 1)
    if classes is not None and not isinstance(classes, Mapping):
        raise TypeError(
            f"classes is {classes!r:.60}, expected classes by task like {{'a': [0, 1]}}"
        )


def named_tasks(tasks: Any) -> list[tuple[Any, Any]]:
    """Return name and data of each task; a list's tasks are numbered.

    Example:
        >>> named_tasks({"a": 1}), named_tasks([1, 2])
        ([('a', 1)], [(0, 1), (1, 2)])
    """
    if isinstance(tasks, Mapping):
        return list(tasks.items())
    pair = isinstance(tasks, tuple) and any(hasattr(part, "dtype") for part in tasks)
    if tasks is not None and (pair or not isinstance(tasks, list | tuple)):
        raise TypeError(f"tasks is {type(tasks).__name__}, expected data by name: {{name: (x, y)}}")
    return list(enumerate(tasks or ()))


def check_state(state: Mapping[str, Any], tasks: Collection[str]) -> None:
    """Raise unless `state` is an evaluator's, and all it was about is among `tasks`.

    Example:
        >>> check_state({"learned": ["a"], "always": [], "record": {}}, ["a", "b"])
        >>> check_state({"learned": ["c"], "always": [], "record": {}}, ["a", "b"])
        Traceback (most recent call last):
        ValueError: resume is of a run that tests ['c'], expected evaluation data for it
    """
    lacks = [name for name in ("learned", "always", "record") if name not in state]
    if lacks:
        raise ValueError(f"resume has no {lacks[0]!r}, expected what state_dict() returned")
    missing = [n for n in (*state["learned"], *state["always"]) if n not in tasks]
    if missing:
        raise ValueError(
            f"resume is of a run that tests {missing}, expected evaluation data for it"
        )


def check_whole(name: str, value: Any, least: int) -> None:
    """Raise for anything but a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise ValueError(f"{name} is {value!r}, expected a whole number of at least {least}")


def scale_of(
    score: object, scale: ScoreScale | None, *, lower_is_better: bool, name: object = None
) -> ScoreScale:
    """Return range, direction and name of the scores, or raise if the arguments contradict.

    Example:
        >>> scale_of(None, None, lower_is_better=False).label
        'accuracy'
        >>> scale_of(max, None, lower_is_better=True).label
        'max'
    """
    if lower_is_better and score is None:
        raise ValueError("lower_is_better=True is for a score= of your own; accuracy is not a loss")
    if lower_is_better and scale is not None and not scale.lower_is_better:
        raise ValueError(
            f"lower_is_better=True and scale={scale} contradict each other; say it in scale"
        )
    if scale is None and score is None:
        scale = ACCURACY
    elif scale is None:
        scale = ScoreScale(-math.inf, math.inf, lower_is_better=lower_is_better)
    if name is None:
        return scale if scale.name or score is None else replace(scale, name=_own_name(score))
    readable = isinstance(name, str) and name.strip() and name.isprintable()
    if not isinstance(name, str) or not readable or len(name) > LONGEST_NAME:
        raise ValueError(
            f"score_name is {name!r:.80}, expected printable text of at most {LONGEST_NAME} "
            "characters, like 'perplexity'"
        )
    return replace(scale, name=name.strip())


def _own_name(score: object) -> str:
    """Return what a function is called; score where it has no name of its own."""
    name = getattr(score, "__name__", "").strip("_")
    return name[:LONGEST_NAME] if name.isidentifier() else "score"


def as_json(describe: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what can be written to run.json, or raise naming the entry that cannot.

    Example:
        >>> as_json({"lr": 0.1})
        {'lr': 0.1}
    """
    for key, value in (describe or {}).items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            raise ValueError(
                f"describe[{key!r}] is {value!r:.60}, expected text, numbers, lists and dicts"
            ) from None
    return {str(key): value for key, value in (describe or {}).items()}
