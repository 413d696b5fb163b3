"""Scoring in one call: every metric of an array, a file or a run folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from ..metrics import ScoreMatrix, Stream
from ..metrics import summary as summarize
from ..record import InputError, InputOptions
from ..record.run_index import find_runs, refs_of_array
from .grouped_scores import score_group
from .score_options import make_options, make_scale, resolve_metrics, select_metrics

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from numpy.typing import ArrayLike

    from ..metrics import RunsSummary, Setting, Summary
    from ..record.run_index import RunRef

__all__ = ["score"]


def score(
    source: str | Path | ArrayLike | ScoreMatrix | Stream,
    *,
    metrics: str | Sequence[str] | None = None,
    transposed: bool | None = None,
    percent: bool | None = None,
    upper: Literal["measured"] | None = None,
    classes: Sequence[float] | None = None,
    setting: Setting | None = None,
    initial: Sequence[float] | None = None,
    joint: Sequence[float] | None = None,
    single: Sequence[float] | None = None,
    offline: Sequence[float] | None = None,
    sizes: Sequence[float] | None = None,
    control: Sequence[str] | None = None,
    range: tuple[float, float] | None = None,  # noqa: A002  (as the option is called)
    lower_is_better: bool = False,
    costs: str | Path | None = None,
    per_example: str | Path | None = None,
    weights: Mapping[str, float] | None = None,
    epsilon: float = 1.0,
    window: int | Sequence[int | None] = (10, 100, None),
    subsample: int = 1,
    beta: int = 10,
) -> Summary | RunsSummary:
    """Return every metric that an array, a file or a run supports and, for the rest, why not.

    Args:
        source: A score matrix as an array or a file (row i is measured after learning task i), a
            points.csv, or a run folder. An array of shape (seeds, T, T), or a file with the
            matrices of several seeds, gives means over the seeds.
        metrics: Ids of the metrics to compute, or patterns such as "acc.*"; all if None.
        transposed: Rows are evaluated tasks and columns are trained tasks. If None, that is assumed
            only of a matrix without a score below the diagonal, with a note.
        percent: The scores of the matrix or log are percentages. If None, that is assumed only
            where nothing else is plausible, with a note.
        upper: "measured" if zeros that fill the upper triangle of a matrix are measured scores.
        classes: Number of classes that each task introduces.
        setting: What is incremental: "class", "task" or "domain".
        initial: Scores of the untrained model, one per task.
        joint: Scores of a model trained on all tasks at once, one per task.
        single: Scores of models trained on a single task each, one per task.
        offline: Scores of models trained offline on the tasks so far: after each task, the mean
            over these tasks.
        sizes: Number of test examples per task.
        control: Names of the tasks in a points.csv that are evaluated but never trained.
        range: Lowest and highest possible score, for scores that are not accuracies.
        lower_is_better: The scores are losses or errors.
        costs: A costs.csv.
        per_example: A folder of per-example results.
        weights: Weights of the criteria of clscore, by the names of the paper or by id.
        epsilon: Factor of ce.
        window: Evaluations in the windows of wf and wp; None is all of them.
        subsample: Use only every n-th evaluation of a points.csv.
        beta: Number of batches per task that lca considers.

    Example:
        >>> scores = score([[0.90, 0.10], [0.60, 0.85]], metrics=["acc", "bwt"])
        >>> scores.metrics["acc"], round(scores.metrics["bwt"], 3)
        (0.725, -0.3)
        >>> score([[90, 10], [60, 85]]).notes[0]  # doctest: +ELLIPSIS
        'array: scores up to 90 are read as percent (losses need ...'
    """
    metrics, aliases = resolve_metrics(metrics)
    window = [window] if isinstance(window, int) else window
    options = make_options(metrics, window=window, beta=beta, epsilon=epsilon, weights=weights)
    inputs = InputOptions(
        transposed=transposed, percent=percent, setting=setting,
        scale=make_scale(range, lower_is_better=lower_is_better),
        classes=_list_numbers("classes", classes), sizes=_list_numbers("sizes", sizes),
        initial=_list_numbers("initial", initial), joint=_list_numbers("joint", joint),
        single=_list_numbers("single", single), offline=_list_numbers("offline", offline),
        subsample=subsample, upper=upper,
        control=None if control is None else list(control),
    )  # fmt: skip
    summary: Summary | RunsSummary
    if isinstance(source, Stream):
        _check_unused(inputs, "a Stream", costs=costs, per_example=per_example)
        summary = summarize(None, stream=source, options=options)
    elif isinstance(source, ScoreMatrix):
        _check_unused(inputs, "a ScoreMatrix", costs=costs, per_example=per_example)
        summary = summarize(source, options=options)
    else:
        if not isinstance(source, str | Path):
            log_only = InputOptions(subsample=inputs.subsample)
            _check_unused(log_only, "an array", costs=costs, per_example=per_example)
        files = {"costs": costs, "per_example": per_example}
        extras = {name: Path(path) for name, path in files.items() if path is not None}
        refs = _find_one_method(source)
        summary = score_group(refs, inputs, options, extras={refs[0].path: extras}).summary
    select_metrics(summary, metrics or ())
    summary.notes += aliases
    return summary


def _check_unused(inputs: InputOptions, kind: str, **files: object) -> None:
    """Raise InputError if something is given that has no effect on this kind of source."""
    defaults = InputOptions()
    names = {field.name: field.name for field in fields(inputs)} | {"scale": "range"}
    given = [n for f, n in names.items() if getattr(inputs, f) != getattr(defaults, f)]
    given += [name for name, value in files.items() if value is not None]
    if given:
        raise InputError(f"`{given[0]}=` has no effect on {kind}; leave it out, or score a file")


def _find_one_method(source: str | Path | ArrayLike) -> list[RunRef]:
    """Return the matrix, the run, or the seeds of one method that a source holds."""
    name = os.fspath(source) if isinstance(source, str | Path) else "array"
    refs = find_runs(name) if isinstance(source, str | Path) else refs_of_array(source)
    methods = list(dict.fromkeys(ref.method for ref in refs))
    files = {ref.path for ref in refs}
    if len(methods) > 1 or len(files) > 1:
        named = f"the methods {', '.join(map(str, methods[:5]))}" if len(methods) > 1 else ""
        what = named or f"{len(files)} runs"
        raise InputError(
            f"{name}: {what}, expected one; `perdure.score_groups` "
            "averages seeds and `perdure.compare` compares methods"
        )
    return refs


def _list_numbers(name: str, values: Sequence[float] | None) -> list[float] | None:
    """Return an argument that has a number per task as a list; raise InputError for others."""
    if values is None:
        return None
    try:
        numbers = [] if isinstance(values, Mapping) else list(values)
        if [float(number) for number in numbers]:
            return numbers
    except (TypeError, ValueError):
        pass
    raise InputError(
        f"`{name}=` is {values!r:.60}, expected a list of numbers, one per task in their order"
    )
