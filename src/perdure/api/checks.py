"""Verdicts in one call: `perdure.check`, `perdure.freeze` and `perdure.flips`."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from ..record import InputError
from ..record.io.files import find_matches, unreadable
from ..verdict import (
    CheckInputs,
    decide,
    find_flips,
    freeze_run,
    measure_noise,
    parse_requirements,
    read_baseline,
    read_checked_run,
    read_settings,
    write_baseline,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..verdict import CheckedRun, CheckSettings, Flips, Verdict

    Path = str | os.PathLike[str]

__all__ = ["check", "flips", "freeze"]

DEFAULT_LEVEL = 0.95


def check(
    run: Path | Sequence[Path],
    require: str | Sequence[str] = (),
    *,
    baseline: Path | Sequence[Path] | None = None,
    noise: Path | None = None,
    level: float | None = None,
    inconclusive: Literal["pass", "fail"] | None = None,
    requirements: Path | CheckSettings | None = None,
    point_values: bool = False,
) -> Verdict:
    """Return whether a run keeps requirements, with stated confidence.

    PASS: every requirement is kept. FAIL: one is violated. Each of these is wrong with probability
    1 - level at most. INCONCLUSIVE: there are too few examples to say; `examples_needed` says how
    many would decide. UNDEFINED: a requirement cannot be checked, with the reason.

    Args:
        run: A run folder, points.csv or score matrix; several are seeds of one method.
        require: Requirements such as "forgetting.learned <= .05", "acc >= base - .01" or "no task
            drops more than .02".
        baseline: A file of `freeze`, or a run folder; several seeds for several runs.
        noise: The same model evaluated again, which measures the noise of the scorer.
        level: Confidence level; .95 by default.
        inconclusive: What an inconclusive verdict counts as: "pass" or "fail".
        requirements: A TOML file with `require`, and perhaps `baseline`, `level` and
            `inconclusive`, for what the arguments do not say.
        point_values: Decide by values alone where there is no interval.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> matrix = Path(tempfile.mkdtemp()) / "scores.json"
        >>> _ = matrix.write_text('{"matrix": [[0.9], [0.5, 0.9]], "sizes": [1000, 1000]}')
        >>> verdict = check(matrix, ["acc >= .6", "forgetting.learned <= .1"])
        >>> verdict.decision, [one.decision for one in verdict.requirements]
        ('FAIL', ['PASS', 'FAIL'])
    """
    settings = requirements
    if isinstance(settings, str | os.PathLike):
        settings = read_settings(settings)
    lines = [require] if isinstance(require, str) else list(require)
    if settings is not None:
        lines += [line for line in settings.require if line not in lines]
        baseline = settings.baseline if baseline is None else baseline
        level = settings.level if level is None else level
        inconclusive = settings.inconclusive if inconclusive is None else inconclusive
    parsed = parse_requirements(lines)
    runs = [_read(path) for path in _list_paths(run)]
    if not runs:
        raise InputError("no run to check, expected a run folder")
    if noise is not None and len(runs) > 1:
        raise InputError("`noise=` is for one run, expected one; seeds already differ by it")
    inputs = CheckInputs(
        runs,
        [_read(path) for path in _list_paths(baseline)],
        None if noise is None else measure_noise(runs[0], _read(noise)),
        point_values,
    )
    verdict = decide(parsed, inputs, level=DEFAULT_LEVEL if level is None else level)
    return replace(verdict, inconclusive=inconclusive)


def freeze(run: Path, path: Path | None = None) -> dict[str, object]:
    """Return the scores and per-example results of a finished run, and write them to `path`.

    The file is what `check` takes as `baseline=`. It needs neither the run nor the model.
    """
    import msgspec

    try:
        frozen = freeze_run(run)
    except OSError as error:
        raise unreadable(run, error) from None
    if path is not None:
        write_baseline(frozen, path)
    plain: dict[str, object] = msgspec.to_builtins(frozen)
    return plain


def flips(run: Path, against: Path | None = None) -> Flips:
    """Return which examples a run has lost, when, and whether they came back.

    Args:
        run: A run folder with per-example results.
        against: An earlier run, or a file of `freeze`, on the same examples. By default the run is
            compared with itself when each task was learned.
    """
    return find_flips(_read(run), None if against is None else _read(against))


def _list_paths(paths: Path | Sequence[Path] | None) -> list[str]:
    """Return paths as text; a pattern stands for what it matches."""
    if paths is None:
        return []
    several = [paths] if isinstance(paths, str | os.PathLike) else paths
    named: list[str] = []
    for each in several:
        path = os.fspath(each)
        is_pattern = any(character in path for character in "*?[") and not os.path.lexists(path)
        matches = find_matches(path) if is_pattern else [path]
        if not matches:
            raise InputError(f"{path}: nothing matches, expected run folders")
        named += matches
    return named


def _read(path: Path) -> CheckedRun:
    """Return a run, or the run in a baseline file."""
    name = os.fspath(path)
    try:
        if name.endswith(".json") and not os.path.isdir(name) and _is_baseline(name):  # noqa: PTH112
            return read_baseline(name)
        return read_checked_run(name)
    except FileNotFoundError:
        raise InputError(f"{name}: no such file or folder, expected a run folder") from None
    except OSError as error:
        raise unreadable(name, error) from None


def _is_baseline(name: str) -> bool:
    """Return whether a JSON file begins as a baseline does; a score matrix has no schema."""
    from ..record import open_regular

    with open_regular(name) as file:
        return b'"schema"' in file.read(4096)
