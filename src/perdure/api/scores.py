"""Scoring in one call: an array, a file, a run folder, or a function repeated with seeds."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ..metrics import RunsSummary, ScoreMatrix, Stream, Summary
from ..metrics import summary as summarize
from ..record import InputError, InputOptions, detect_options, read_ref
from ..record.group_names import format_seeds
from ..record.run_index import RunRef, find_runs, refs_of_array
from .grouped_scores import combine_seeds, score_group
from .options import make_options, make_scale, resolve_metrics, select_metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Literal

    from numpy.typing import ArrayLike

    from ..metrics import Setting, SummaryOptions
    from ..stats import IntervalMethod

__all__ = ["RepeatError", "check_seeds", "repeat", "score"]

EXPECTED = "a score matrix, an Evaluator or the path of a run folder"


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


class RepeatError(RuntimeError):
    """Raised if the function fails with one seed; the error itself is `__cause__`.

    Attributes:
        seed: The seed that failed.
        summary: The summary of the seeds that had finished, None if none had.
    """

    def __init__(self, seed: int, error: Exception, summary: Summary | RunsSummary | None) -> None:
        kept = "" if summary is None else "; the seeds before it are in the error's `summary`"
        super().__init__(f"seed {seed}: {type(error).__name__}: {error}{kept}")
        self.seed, self.summary = seed, summary


class _ClosableRecord(Protocol):
    """What is used of an Evaluator, which cannot be imported without PyTorch."""

    def close(self) -> None: ...
    def summary(self, options: SummaryOptions | None = None) -> Summary: ...


def repeat(
    fn: Callable[[int], object],
    seeds: int | Sequence[int] = 5,
    *,
    metrics: str | Sequence[str] | None = None,
    interval: IntervalMethod = "t",
    inputs: InputOptions | None = None,
    progress: bool | None = None,
) -> Summary | RunsSummary:
    """Call `fn(seed)` once per seed and return the metrics, with means and intervals over seeds.

    Nothing is seeded for you: `fn` gets the seed and seeds whatever it uses. Seeds run one after
    the other in this process. If you interrupt it (Ctrl+C), the summary of the seeds that have
    finished is returned, with a note; without any, KeyboardInterrupt is raised. To compare methods:
    `perdure.compare({"mine": repeat(train), "baseline": repeat(train_baseline)})`.

    Args:
        fn: A function of the seed that returns a score matrix (row i is measured after learning
            task i), a `perdure.Evaluator` (which is closed), or the path of a run folder.
        seeds: Number of seeds, counted from 0, or a list of seeds.
        metrics: Ids of the metrics to keep; all if None.
        interval: Interval over seeds: Student's t, or the BCa bootstrap.
        inputs: How to read matrices, as a `perdure.InputOptions`.
        progress: Print a line per seed on standard error; None does on a terminal.

    Raises:
        RepeatError: `fn` failed; the error names the seed and has the summary of those before it.

    Example:
        >>> import numpy as np
        >>> def train(seed):
        ...     rng = np.random.default_rng(seed)  # your training goes here
        ...     return [[0.9], [0.6 + rng.normal(0, 0.02), 0.85]]
        >>> result = repeat(train, seeds=5, metrics=["acc"])
        >>> round(result.metrics["acc"], 2), result.seeds
        (0.73, [0, 1, 2, 3, 4])
    """
    chosen = check_seeds(seeds)
    if not callable(fn):
        raise InputError(f"`fn=` is {fn!r:.60}, expected a function of the seed")
    metrics, aliases = resolve_metrics(metrics)
    options = make_options(metrics)
    show = progress if progress is not None else sys.stderr.isatty()
    results: dict[int, Summary | RunRef | ScoreMatrix] = {}

    def combine(note: str = "") -> Summary | RunsSummary:
        summary = _combine(results, inputs, options, interval)
        summary.notes += [*aliases, *([note] if note else [])]
        select_metrics(summary, metrics or ())
        return summary

    start = time.monotonic()
    for seed in chosen:
        try:
            result = _take(fn(seed), seed, options)
            _combine(results | {seed: result}, inputs, options, "t")  # fails now or not at all
        except KeyboardInterrupt:
            if not results:
                raise
            done = f"interrupted in seed {seed}: {len(results)} of {len(chosen)} seeds finished"
            _report(f"{done}, and their summary is returned", show=show)
            return combine(done)
        except Exception as error:
            raise RepeatError(seed, error, combine() if results else None) from error
        results[seed] = result
        _report(_describe_progress(seed, len(results), len(chosen), start), show=show)
    return combine()


def check_seeds(seeds: int | Sequence[int]) -> list[int]:
    """Return a number of seeds, or a list of them, as a list; raise InputError for others."""
    counted = range(seeds) if isinstance(seeds, int) else ()
    chosen = list(seeds if isinstance(seeds, Iterable) else counted)
    whole = all(isinstance(seed, int | np.integer) for seed in chosen)
    if not chosen or not whole or len(set(chosen)) < len(chosen):
        raise InputError(f"`seeds=` is {seeds!r:.40}, expected a number from 1, or each seed once")
    return [int(seed) for seed in chosen]


def _take(value: object, seed: int, options: SummaryOptions) -> Summary | RunRef | ScoreMatrix:
    """Return what the function returned as something that can be scored."""
    if value is None:
        raise InputError(f"the function returned None, expected {EXPECTED}; is `return` missing?")
    if isinstance(value, Summary | ScoreMatrix):
        return value
    if isinstance(value, Stream):
        return summarize(None, stream=value, options=options)
    if (evaluator := _as_evaluator(value)) is not None:
        evaluator.close()  # an open record would be that of an unfinished run
        return evaluator.summary(options)
    if isinstance(value, str | os.PathLike):
        refs = find_runs(os.fspath(value))
        if len(refs) == 1 and refs[0].is_folder:
            return read_ref(refs[0]).summary(options)
    else:
        refs = refs_of_array(value, f"seed {seed}")  # type: ignore[arg-type]
    if len(refs) > 1:
        raise InputError(f"the function returned {len(refs)} matrices or runs, expected {EXPECTED}")
    return replace(refs[0], seed=seed)


def _as_evaluator(value: object) -> _ClosableRecord | None:
    evaluation = sys.modules.get("perdure.evaluation")  # not loaded: there is no Evaluator
    return value if evaluation is not None and isinstance(value, evaluation.Evaluator) else None


def _combine(
    results: dict[int, Summary | RunRef | ScoreMatrix],
    inputs: InputOptions | None,
    options: SummaryOptions,
    interval: IntervalMethod,
) -> Summary | RunsSummary:
    refs = {seed: ref for seed, ref in results.items() if isinstance(ref, RunRef)}
    inputs = detect_options(list(refs.values()), inputs)
    summaries = []
    for result in results.values():
        if isinstance(result, RunRef):
            summaries.append(read_ref(result, inputs).summary(options))
        elif isinstance(result, ScoreMatrix):
            summaries.append(summarize(result, options=options))
        else:
            summaries.append(result)
    named = [refs.get(seed, RunRef(f"seed {seed}", seed=seed)) for seed in results]
    note = f"mean over {len(results)} seeds: {format_seeds(results)}"
    return combine_seeds(named, summaries, options, interval=interval, note=note)


def _describe_progress(seed: int, done: int, total: int, start: float) -> str:
    seconds = (time.monotonic() - start) / done
    left = f", about {seconds * (total - done):.0f} s left" if done < total else ""
    return f"seed {seed} finished, {done} of {total} seeds, {seconds:.1f} s per seed{left}"


def _report(line: str, *, show: bool) -> None:
    if show:
        sys.stderr.write(f"perdure.repeat: {line}\n")
        sys.stderr.flush()
