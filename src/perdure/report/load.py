"""Loading runs for a report: methods by name, from runs and files or from a study file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from ..record import InputError, Run, RunFolder, detect_options, open_run, read_ref
from ..record.comparability import select_finished
from ..record.grouping import find_groups, pooling_notes
from .filtering import summarize_reasons

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..metrics import ScoreScale
    from ..record import JSON, InputOptions, ScoreInput
    from ..record.run_index import RunRef

    Seed = int | str
    RunsByMethod = Mapping[str, Sequence[ScoreInput]]  # the runs of a method are its seeds

__all__ = [
    "check_percent",
    "get_config",
    "get_strategy",
    "index_by_seed",
    "open_methods",
    "open_sources",
    "split_scenario",
]


def open_methods(
    arguments: Sequence[str],
    options: InputOptions | None = None,
    *,
    pool: bool = False,
    finished: bool = False,
) -> tuple[dict[str, list[ScoreInput]], list[str]]:
    r"""Return methods by name, each with its runs, and notes on runs that were left out.

    Args:
        arguments: NAME=PATH,PATH… or PATH: runs, folders of runs, score matrices, points.csv.
            Unnamed runs that differ only in the seed form one method.
        options: how to read files that are not run folders.
        pool: allow runs under one name to differ in more than the seed.
        finished: leave unfinished runs out.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "mine.csv"
        >>> _ = path.write_text("0.9,\n0.6,0.8\n")
        >>> methods, notes = open_methods([str(path)])
        >>> methods["mine"][0].matrix.scores[1, 0]
        np.float64(0.6)
    """
    groups, notes = find_groups(arguments, pool=pool)
    if finished:
        groups, unfinished = select_finished(groups)
        notes += _unfinished_notes(unfinished, nothing_left=not groups)
    notes += pooling_notes(groups)
    methods: dict[str, list[ScoreInput]] = {}
    reasons: list[str] = []
    for name, references in groups.items():
        alone = len(references) == 1  # several seeds give an interval without per-example results
        inputs = detect_options(references, options)
        notes += inputs.notes
        for reference in references:
            try:
                run = (
                    open_run(reference.path, per_example=alone)
                    if reference.ours
                    else read_ref(reference, inputs)
                )
            except InputError as error:
                reasons.append(_explain_failure(reference, error))
            else:
                methods.setdefault(name, []).append(run)
    if not methods:
        raise InputError(summarize_reasons(reasons))
    notes += [f"left out: {reason}" for reason in reasons]
    return methods, [*notes, *_failure_notes(methods)]


def _unfinished_notes(paths: Sequence[str], *, nothing_left: bool) -> list[str]:
    """Return a note on the unfinished runs; raise if there are no others."""
    if nothing_left:
        raise InputError(
            f"{paths[0]}: not finished, and no other run is either; expected a finished run; "
            "drop `finished=True` to show what there is"
        )
    runs = "1 unfinished run" if len(paths) == 1 else f"{len(paths)} unfinished runs"
    return [f"left out: {runs}: {', '.join(paths[:3])}{', …' * (len(paths) > 3)}"] if paths else []


def _failure_notes(methods: RunsByMethod) -> list[str]:
    return [
        f"{run.folder}: {note}"
        for runs in methods.values()
        for run in runs
        if isinstance(run, Run) and not run.finished
        for note in run.notes
        if note.startswith("the run failed")
    ]


def _explain_failure(run: RunRef, error: InputError) -> str:
    """Return why a run cannot be shown: the reason it failed, or what is wrong with its files."""
    failure = RunFolder(run.path).failure() if run.is_folder else None
    text = "" if failure is None else " ".join(failure.split())
    return f"{run.path}: the run failed: {text}" if text else str(error)


def get_config(run: ScoreInput) -> dict[str, JSON]:
    """Return the config of a run, empty for a file that has none.

    Example:
        >>> from perdure.record import ScoreInput
        >>> get_config(ScoreInput())
        {}
    """
    return run.metadata.config if isinstance(run, Run) else {}


def split_scenario(name: str, run: ScoreInput) -> tuple[str, str]:
    """Return what a run learned, its scenario and setting, and the name of its method without them.

    Example:
        >>> from perdure.record import ScoreInput
        >>> split_scenario("er", ScoreInput())
        ('', 'er')
    """
    config = get_config(run)
    stated = [config.get(key) for key in ("scenario", "setting")]
    words = [word for word in stated if isinstance(word, str)]
    for word in words:
        name = name.removeprefix(f"{word} ")
    return " ".join(words), name


def get_strategy(name: str, runs: Sequence[ScoreInput]) -> str:
    """Return the strategy of a method: from its runs' config, or the first word of its name.

    Example:
        >>> get_strategy("GEM lr=0.1", [])
        'gem'
    """
    for run in runs:
        strategy = get_config(run).get("strategy")
        if isinstance(strategy, str):
            return strategy
    return re.split(r"[\s,=]", name.strip().lower(), maxsplit=1)[0]


def index_by_seed(methods: RunsByMethod, *, unpaired: bool = False) -> dict[str, dict[Seed, int]]:
    """Return the index of each seed in the runs of each method.

    If any run does not record its seed, runs are paired by their order. If `unpaired`, such runs
    have no seed in common.
    """
    seeds = {
        name: [get_config(run).get("seed", run.seed) for run in runs]
        for name, runs in methods.items()
    }
    known = {
        name: {seed: k for k, seed in enumerate(several) if isinstance(seed, int | str)}
        for name, several in seeds.items()
    }
    if not all(isinstance(seed, int | str) for several in seeds.values() for seed in several):
        return _index_by_order(methods, unpaired=unpaired)
    for name, indices in known.items():
        if len(indices) < len(methods[name]):
            raise InputError(
                f"{name} has a seed twice, expected each seed once; give each its own NAME=PATH"
            )
    return known


def _index_by_order(methods: RunsByMethod, *, unpaired: bool) -> dict[str, dict[Seed, int]]:
    if unpaired:
        return {
            name: {f"{name} {k}": k for k in range(len(runs))} for name, runs in methods.items()
        }
    counts = {name: len(runs) for name, runs in methods.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise InputError(
            f"runs that do not record their seed are paired by their order, and {listed:.300}; "
            "expected equally many of each method, or `unpaired=True`"
        )
    return {name: {k: k for k in range(len(runs))} for name, runs in methods.items()}


def open_sources(
    sources: Sequence[str],
    inputs: InputOptions,
    store: Path,
    *,
    pool: bool = False,
    finished: bool = False,
) -> tuple[dict[str, list[ScoreInput]], list[str]]:
    """Return methods by name, each with its runs, and notes on what was left out.

    Args:
        sources: As `open_methods` takes them; FILE.toml is a study with its runs in `store`.
        inputs: How to read files that are not run folders.
        store: Folder in which the runs of studies are stored.
        pool: Let runs under one name differ in more than the seed.
        finished: Leave unfinished runs out, as is always done for a study.
    """
    for source in sources:
        if source.endswith(".toml") and "=" in source and not Path(source).exists():
            raise InputError(
                f"{source!r:.60}: a study names its methods itself, expected FILE.toml"
            )
    files = [source for source in sources if source.endswith(".toml")]
    others = [source for source in sources if source not in files]
    methods: dict[str, list[ScoreInput]] = {}
    notes: list[str] = []
    if others:
        methods, notes = open_methods(others, inputs, pool=pool, finished=finished)
    for file in files:
        study_methods, study_notes = _open_study(Path(file), store)
        if twice := study_methods.keys() & methods.keys():
            raise InputError(f"{file}: two methods are called {min(twice)!r}, expected other names")
        methods |= study_methods
        notes += study_notes
    if inputs.percent:
        for run in (run for runs in methods.values() for run in runs):
            if isinstance(run, Run) and run.points is not None:
                check_percent(run.points.scale, str(run.folder))
            run.show_percent()
    return methods, notes


def check_percent(scale: ScoreScale, path: str) -> None:
    """Raise if scores are to be shown in percent but are not fractions."""
    if scale.low < 0 or scale.high > 1:
        raise InputError(
            f"{path}: scores run from {scale.low:g} to {scale.high:g}, expected 0 to 1 for "
            "`percent=True`; drop it"
        )


def _open_study(file: Path, store: Path) -> tuple[dict[str, list[ScoreInput]], list[str]]:
    """Return the finished runs of a study, named by what distinguishes its cells."""
    from .. import studies

    study = studies.read_study(file)
    status = studies.study_status(study, store)
    done = {cell: folders for cell, folders in status.done.items() if folders}
    if not done:
        raise InputError(
            f"{file}: no finished run of it in {store}; `perdure study run {file}` first"
        )
    fields = next(iter(done))._fields
    differing = [f for f in fields if len({getattr(cell, f) for cell in done}) > 1] or ["strategy"]
    methods: dict[str, list[ScoreInput]] = {}
    broken = [
        f"{folder}: the run failed: {' '.join(error.split())}"
        for folder, error in status.failed.items()
    ]
    for cell, folders in done.items():
        name = " ".join(str(getattr(cell, f)) for f in differing if getattr(cell, f))
        for folder in folders:
            try:
                run = open_run(folder, per_example=len(folders) == 1)
            except InputError as error:
                broken.append(str(error))
            else:
                methods.setdefault(name, []).append(run)
    if not methods:
        raise InputError(summarize_reasons(broken))
    notes = []
    if status.remaining:
        notes.append(f"{file}: {status.remaining} runs of the study are not finished")
    return methods, [*notes, *(f"left out: {reason}" for reason in broken)]
