"""What runs that are compared must have in common, and what they note about themselves."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from .io.text import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..metrics import ScoreScale, Summary
    from .run_index import RunRef

    Seed = int | str
    ByMethod = Mapping[str, Mapping[Seed, Summary]]
    Runs = Mapping[str, Mapping[Seed, RunRef]]

__all__ = ["missing", "notes_of", "same_scores", "same_tasks"]


def same_scores(found: ByMethod, runs: Runs) -> ScoreScale:
    """Return range and direction of all scores, or refuse where they are not the same."""
    first: tuple[ScoreScale, str] | None = None
    for name, mine in found.items():
        for seed, run in mine.items():
            path = runs[name][seed].path
            first = first or (run.scale, path)
            if run.scale != first[0]:
                raise InputError(
                    f"{path}: scores of another range or direction than in {first[1]}, expected "
                    "the same kind of score everywhere"
                )
    assert first is not None
    return first[0]


def same_tasks(found: ByMethod, runs: Runs, *, force: bool) -> list[str]:
    """Return what to note where tasks differ, or refuse.

    All must have as many tasks, and runs that are paired the same: their order may change from
    seed to seed.
    """
    first = next(iter(found))
    some = next(iter(found[first]))
    for name, mine in found.items():
        for seed, run in mine.items():
            many = len(run.tasks) != len(found[first][some].tasks)
            at = some if many or seed not in found[first] else seed
            other = found[first][at]
            named = seed == at and _named(run) and _named(other)
            if many or (named and run.tasks != other.tasks):
                what = (
                    f"{runs[name][seed].path}: tasks {_listed(run)}, and {_listed(other)} in "
                    f"{runs[first][at].path}"
                )
                if not force:
                    raise InputError(f"{what}; expected the same tasks, or --force")
                return [what]
    return []


def _named(run: Summary) -> bool:
    """Return whether tasks have names of their own; a bare matrix has none."""
    return run.tasks != tuple(f"task {k}" for k in range(len(run.tasks)))


def _listed(run: Summary) -> str:
    return f"{', '.join(run.tasks[:10]):.80} ({len(run.tasks)})"


def missing(id_: str, found: ByMethod, runs: Runs) -> str | None:
    """Return why not all runs have a metric."""
    if id_ == "clstability":
        return "is one number for all runs of a method, without a test; see `perdure score`"
    for name, mine in found.items():
        for seed, run in mine.items():
            if id_ not in run.metrics:
                reason = run.undefined.get(id_, "not computed")
                everywhere = all(id_ not in r.metrics for m in found.values() for r in m.values())
                return reason if everywhere else f"in {runs[name][seed].path}: {reason}"
    return None


def notes_of(runs: Sequence[Summary]) -> list[str]:
    """Return what runs note about themselves, once, and of how many it holds."""
    counts = Counter(note for run in runs for note in dict.fromkeys(run.notes))
    return [
        note if count == len(runs) else f"{note} ({count} of {len(runs)} runs)"
        for note, count in counts.items()
    ]
