"""Whether runs can be compared: the same scenario, tasks and scores, and which are paired."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Literal

from ..metrics.runs import note_equal_runs
from .group_names import differing_keys, format_order, format_seeds
from .grouping import Groups, pooling_notes
from .io.files import InputError
from .run_folder import holds_training_examples

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..metrics import ScoreScale, Summary
    from .run_index import RunRef

    Seed = int | str
    Runs = Mapping[str, Mapping[Seed, RunRef]]
    Summaries = Mapping[str, Mapping[Seed, Summary]]

__all__ = [
    "SELECT_PART",
    "check_same_scale",
    "check_same_tasks",
    "describe_differences",
    "explain_missing",
    "explain_mixture",
    "merge_notes",
    "pair_runs",
    "select_finished",
]

SELECT_PART = "expected one: name a part by a pattern such as 'runs/NAME-*'"

DIGEST = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{56}\b")  # SHA-256, of which 8 digits are enough


def select_finished(groups: Groups) -> tuple[Groups, list[str]]:
    """Return the groups without their unfinished runs, and the paths of those."""
    kept = {name: [run for run in runs if run.finished] for name, runs in groups.items()}
    left = [run.path for runs in groups.values() for run in runs if not run.finished]
    return {name: runs for name, runs in kept.items() if runs}, left


def explain_mixture(runs: Sequence[RunRef]) -> str | None:
    """Return why the runs are not of one scenario, setting and test set; None if they are."""
    for what, values in (
        ("scenarios", [run.scenario for run in runs]),
        ("settings", [run.setting for run in runs]),
        ("kinds", [_evaluation_data(run) for run in runs]),
    ):
        counts = Counter(value for value in values if value is not None)
        if len(counts) > 1:
            listed = ", ".join(f"{value} ({count})" for value, count in counts.most_common(5))
            return f"the runs are of {len(counts)} {what}: {listed}"
    on_train = sum(holds_training_examples(run.path) for run in runs)
    if 0 < on_train < len(runs):
        return f"{on_train} of {len(runs)} are evaluations of training examples, not of test sets"
    return None


def _evaluation_data(run: RunRef) -> str | None:
    if not run.config:
        return None
    held_out = "tested on held-out training data"
    return held_out if run.on_validation_split else "tested on the test set"


def pair_runs(
    groups: Groups, *, force: bool = False
) -> tuple[dict[str, dict[Seed, RunRef]], Literal["seed", "file order"]]:
    """Return the runs of each group by seed, and what pairs them: the seed or the file order.

    Raises InputError where that is not clear: a seed twice, none in common, or different numbers
    of files per group (`force` pairs the first of them).
    """
    by_seed: dict[str, dict[Seed, RunRef]] = {name: {} for name in groups}
    if all(run.seed is not None for runs in groups.values() for run in runs):
        for name, runs in groups.items():
            for run in runs:
                assert run.replicate is not None
                if run.replicate in by_seed[name]:
                    raise _repeated_seed(name, by_seed[name][run.replicate], run)
                by_seed[name][run.replicate] = run
        first, *others = by_seed.values()
        if not set(first).intersection(*others):
            orders = any(run.order for runs in groups.values() for run in runs)
            listed = "; ".join(
                f"{name} has {_list_seeds(runs, orders=orders)}" for name, runs in groups.items()
            )
            what, where = (
                ("no pair of seed and task order", " in the same task orders (`orders=`)")
                if orders
                else ("no seed", "")
            )
            raise InputError(
                f"{what} is in all groups: {listed:.400}; expected runs of the same seeds{where}; "
                "use `unpaired=True` to compare them without pairing"
            )
        return by_seed, "seed"
    counts = {name: len(runs) for name, runs in groups.items()}
    if len(set(counts.values())) > 1 and not force:
        listed = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise InputError(
            f"runs and files without a stated seed are paired by their order, and {listed:.400}; "
            "expected as many in each group; name the seeds of a method NAME=PATH,PATH…, use "
            f"`unpaired=True`, or `force=True` for the first {min(counts.values())}"
        )
    return {name: dict(enumerate(runs)) for name, runs in groups.items()}, "file order"


def _list_seeds(runs: Sequence[RunRef], *, orders: bool) -> str:
    """Return the seeds of a group and, if asked for, the task orders in which they were run."""
    by_order: dict[str, list[Seed]] = {}
    for run in runs:
        assert run.seed is not None
        by_order.setdefault(format_order(run.order), []).append(run.seed)
    if not orders:
        return ", ".join(map(format_seeds, by_order.values()))
    by_seeds: dict[str, list[str]] = {}
    for order, seeds in by_order.items():
        by_seeds.setdefault(format_seeds(seeds), []).append(order)
    return ", ".join(
        f"seeds {seeds} (task order {' and '.join(several)})" for seeds, several in by_seeds.items()
    )


def _repeated_seed(name: str, first: RunRef, second: RunRef) -> InputError:
    keys = differing_keys([first.config, second.config])
    differ = f"their {', '.join(keys[:3])} differ: " if keys else ""
    return InputError(
        f"group {name!r} has seed {first.seed} twice, {first.name} and {second.name}, expected "
        f"each seed once; {differ}give each its own NAME=PATH"
    )


def describe_differences(groups: Groups) -> list[str]:
    """Return notes on what else differs between groups or within one, by their configs."""
    notes = []
    runs = [run for several in groups.values() for run in several]
    without_seed = [run.name for run in runs if run.seed is None]
    if 0 < len(without_seed) < len(runs):
        notes.append(f"{without_seed[0]}: no seed is stated, so no run is paired by its seed")
    notes += pooling_notes(groups) + _unnamed_differences(groups)
    digests = [run.data_digests for run in runs if run.data_digests]
    if any(other != digests[0] for other in digests[1:]):
        notes.append("the runs did not all use the same bytes of data (sha256 in run.json)")
    return notes


def _unnamed_differences(groups: Groups) -> list[str]:
    """Return what differs between groups besides the method and what their names say."""
    configs = {name: runs[0].config for name, runs in groups.items() if runs[0].config}
    notes = []
    for key in differing_keys(list(configs.values())):
        if key.startswith(("options.", "code.")) or key in ("strategy", "scenario", "setting"):
            continue
        label = key.rpartition(".")[2]
        named = any(f"{label}={config.get(key)}" in name for name, config in configs.items())
        if named or all(str(config.get(key)) in name for name, config in configs.items()):
            continue
        names_by_value: dict[str, list[str]] = {}
        for name, config in configs.items():
            value = DIGEST.sub(r"\1…", str(config.get(key)))
            names_by_value.setdefault(value, []).append(name)
        listed = "; ".join(f"{v} ({', '.join(names)})" for v, names in names_by_value.items())
        notes.append(f"groups differ in {key} too: {listed:.300}")
    return notes


def check_same_scale(summaries: Summaries, runs: Runs) -> ScoreScale:
    """Return range and direction of all scores, or raise InputError if they differ."""
    (first, path), *others = (
        (summary.scale, runs[name][seed].name)
        for name, mine in summaries.items()
        for seed, summary in mine.items()
    )
    for scale, other in others:
        if scale != first:
            raise InputError(
                f"{other}: scores of another range or direction than in {path}, expected "
                "the same kind of score everywhere"
            )
    return first


def check_same_tasks(summaries: Summaries, runs: Runs, *, force: bool) -> list[str]:
    """Return notes on where tasks differ if `force` allows it; raise InputError otherwise.

    All runs must have the same number of tasks, and paired runs the same tasks: their order may
    change from seed to seed.
    """
    first = next(iter(summaries))
    some = next(iter(summaries[first]))
    for name, mine in summaries.items():
        for seed, summary in mine.items():
            count_differs = len(summary.tasks) != len(summaries[first][some].tasks)
            at = some if count_differs or seed not in summaries[first] else seed
            other = summaries[first][at]
            named = seed == at and _has_task_names(summary) and _has_task_names(other)
            if count_differs or (named and summary.tasks != other.tasks):
                difference = (
                    f"{runs[name][seed].name}: tasks {_list_tasks(summary)}, and "
                    f"{_list_tasks(other)} in {runs[first][at].name}"
                )
                if not force:
                    raise InputError(
                        f"{difference}; expected the same tasks; use `force=True` to compare anyway"
                    )
                return [difference]
    return []


def _has_task_names(summary: Summary) -> bool:
    """Return whether tasks have names of their own; a bare matrix has none."""
    return summary.tasks != tuple(f"task {k}" for k in range(len(summary.tasks)))


def _list_tasks(summary: Summary) -> str:
    return f"{', '.join(summary.tasks[:10]):.80} ({len(summary.tasks)})"


def explain_missing(id_: str, summaries: Summaries, runs: Runs) -> str | None:
    """Return why not all runs have a metric; None if they do."""
    if id_ == "clstability":
        return "is one number for all runs of a method, without a test; see `perdure score`"
    for name, mine in summaries.items():
        for seed, summary in mine.items():
            if id_ not in summary.metrics:
                reason = summary.undefined.get(id_, "not computed")
                several = (other for others in summaries.values() for other in others.values())
                if all(id_ not in other.metrics for other in several):
                    return reason
                return f"in {runs[name][seed].name}: {reason}"
    return None


def merge_notes(summaries: Summaries) -> list[str]:
    """Return the notes of the runs, each once with how many have it, and on runs that are equal."""
    runs = [summary for mine in summaries.values() for summary in mine.values()]
    counts = Counter(note for summary in runs for note in dict.fromkeys(summary.notes))
    merged = [
        note if count == len(runs) else f"{note} ({count} of {len(runs)} runs)"
        for note, count in counts.items()
    ]
    for name, mine in summaries.items():
        merged += [f"{name}: {note}" for note in note_equal_runs(list(mine.values()))]
    return merged
