"""What the user says about the results that are imported, the same for every reader."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ImportOptions"]


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """What the user says about the results; a reader uses what its files do not say.

    Attributes:
        order: names in the order of learning: tasks, or the checkpoints of a sequence. A reader
            that needs it raises without it: an order is never guessed.
        control: tasks that are evaluated but never trained.
        columns: the name of the column in the file, by our name (step, trained, tested, score, n).
        metric: which score to read, if the files have several.
        percent: whether scores are in percent; None if the reader knows or finds out.
        lower_is_better: the scores in tables and trackers are losses or errors.
        config: entries of the run's config, which replace those found in the files.
    """

    order: tuple[str, ...] = ()
    control: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    metric: str | None = None
    percent: bool | None = None
    lower_is_better: bool = False
    config: Mapping[str, object] = field(default_factory=dict)


DEFAULT_OPTIONS = ImportOptions()
