"""Repeating a function of your own with several seeds: its metrics with intervals over seeds."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ..metrics import RunsSummary, ScoreMatrix, Stream, Summary
from ..metrics import summary as summarize
from ..record import InputError, detect_options, read_ref
from ..record.group_names import format_seeds
from ..record.run_index import RunRef, find_runs, refs_of_array
from .grouped_scores import combine_seeds
from .score_options import make_options, resolve_metrics, select_metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..metrics import SummaryOptions
    from ..record import InputOptions
    from ..stats import IntervalMethod

__all__ = ["RepeatError", "check_seeds", "repeat"]

EXPECTED = "a score matrix, an Evaluator or the path of a run folder"


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
