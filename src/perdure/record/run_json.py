"""run.json: what scoring needs of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ._text import BadInput, read_limited

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["described"]

MAX_BYTES = 16 << 20


class Description(msgspec.Struct):
    """What scoring needs of run.json; the rest of it is for people and for running again."""

    setting: Literal["class", "task", "domain"] | None = None
    classes: list[int] | None = None


def described(path: Path, tasks: int) -> dict[str, Any]:
    """Return what run.json says about setting and class counts, for the tasks learned so far."""
    try:
        with path.open("rb") as file:
            data = read_limited(file, str(path), MAX_BYTES)
        run = msgspec.json.decode(data, type=Description)
    except msgspec.MsgspecError as error:
        raise BadInput(f"{path}: {error}") from None
    said: dict[str, Any] = {} if run.setting is None else {"setting": run.setting}
    if run.classes is not None:
        if len(run.classes) < tasks or min(run.classes, default=1) < 1:
            raise BadInput(
                f"{path}: class counts are {run.classes}, expected 1 or more for each of "
                f"{tasks} tasks"
            )
        said["classes"] = run.classes[:tasks]
    return said
