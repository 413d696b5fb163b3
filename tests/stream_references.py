"""The stream metrics of the definitions, one loop per symbol, and random streams to try them on.

A log holds for each task its score by step. `None` stands for undefined. A task that returns is
left behind for the first time when its first span ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from perdure.metrics import ScoreScale, Stream, UndefinedMetricError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Log = dict[str, dict[int, float]]
Spans = list[tuple[str, int]]
Parts = dict[str, float]

law = settings(max_examples=100)
SCORES = st.integers(0, 20).map(lambda k: k / 20)


@dataclass
class Case:
    """A log with its spans, as the loops below take it and as the package does."""

    log: Log
    spans: Spans
    before: Parts
    order: list[str]

    def stream(self, scale: ScoreScale | None = None) -> Stream:
        return Stream(
            {name: (list(self.log[name]), list(self.log[name].values())) for name in self.order},
            self.spans,
            before=self.before,
            scale=scale or ScoreScale(),
        )

    def cut(self, span: int) -> Case:
        """Return what was known when span number `span` ended."""
        end = self.spans[span][1]
        log = {name: {t: a for t, a in rows.items() if t <= end} for name, rows in self.log.items()}
        return Case(log, self.spans[: span + 1], self.before, self.order)


@st.composite
def cases(
    draw: st.DrawFn, *, boundaries: bool = True, returns: bool = True, every_step: bool = False
) -> Case:
    """Tasks that appear over time, tested at irregular steps, some never, some never learned."""
    learned = [f"t{k}" for k in range(draw(st.integers(1, 4)))]
    sequence = list(learned)
    if returns and draw(st.booleans()):
        again = draw(st.sampled_from(learned))
        if again != sequence[-1]:
            sequence.append(again)
        if draw(st.booleans()):
            learned.append("late")
            sequence.append("late")
    spans: Spans = []
    end = 0
    for name in sequence:
        end += draw(st.integers(1, 4))
        spans.append((name, end))
    extra = [f"x{k}" for k in range(draw(st.integers(0, 2)))]
    log: Log = {}
    for name in [*learned, *extra]:
        steps = range(end + 1) if every_step else sorted(draw(st.sets(st.integers(0, end))))
        log[name] = {t: draw(SCORES) for t in steps}
    before = {name: draw(SCORES) for name in learned if draw(st.booleans())}
    order = draw(st.permutations(list(log)))
    return Case(log, spans if boundaries else [], before, order)


def outcome(metric: Callable[[], float]) -> float | None:
    """Return a metric's number, or None if it is undefined."""
    try:
        return float(metric())
    except UndefinedMetricError:
        return None


def same(found: float | None, expected: float | None) -> bool:
    if found is None or expected is None or math.isnan(found):
        return found is expected or (found is not None and math.isnan(found) and expected is None)
    return found == pytest.approx(expected, abs=1e-12)


def check_parts(stream: Stream, per_task: Iterable[float], expected: Parts) -> None:
    """Assert the value of each task, NaN for one that takes no part."""
    for name, found in zip(stream.names, per_task, strict=True):
        assert same(found, expected.get(name)), (name, found, expected)


def mean(values: Iterable[float]) -> float | None:
    kept = list(values)
    return sum(kept) / len(kept) if kept else None


def drop_by_pairs(scores: Sequence[float], window: int | None) -> float:
    """Return max over m < n with n - m < w of A_m - A_n, 0 if there is no drop."""
    best = 0.0
    for n in range(len(scores)):
        for m in range(n):
            if window is None or n - m < window:
                best = max(best, scores[m] - scores[n])
    return best


def rise_by_pairs(scores: Sequence[float], window: int | None) -> float:
    best = 0.0
    for n in range(len(scores)):
        for m in range(n):
            if window is None or n - m < window:
                best = max(best, scores[n] - scores[m])
    return best


def windowed(
    case: Case, window: int | None, change: Callable[[Sequence[float], int | None], float]
) -> Parts:
    """Return the largest change of every task that was tested; none if no task was tested twice."""
    if all(len(rows) < 2 for rows in case.log.values()):
        return {}
    return {name: change(list(rows.values()), window) for name, rows in case.log.items() if rows}


def first_ends(spans: Spans) -> dict[str, int]:
    ends: dict[str, int] = {}
    for task, last in spans:
        if task not in ends:
            ends[task] = last
    return ends


def lowest(case: Case) -> Parts | None:
    """Return min of A(E_i, f_n), n > t_i, of every task i left behind; None if one has none."""
    if not case.spans:
        return None
    now = case.spans[-1][0]
    lows = {}
    for task, end in first_ends(case.spans).items():
        if task != now:
            later = [a for t, a in case.log[task].items() if t > end]
            if not later:
                return None
            lows[task] = min(later)
    return lows


def min_acc_by_loops(case: Case) -> float | None:
    lows = lowest(case)
    return mean(lows.values()) if lows else None


def current_by_loops(case: Case) -> float | None:
    """Return the last score of the task being learned that was taken while it was learned."""
    if not case.spans:
        return None
    task, end = case.spans[-1]
    start = case.spans[-2][1] if len(case.spans) > 1 else -1
    during = [a for t, a in case.log[task].items() if start < t <= end]
    return during[-1] if during else None


def wc_acc_by_loops(case: Case) -> float | None:
    """Return A(E_k, f_t)/k + (1 - 1/k) min_acc."""
    lows, now = lowest(case), current_by_loops(case)
    if lows is None or now is None:
        return None
    k = len(lows) + 1
    return now / k + (1 - 1 / k) * (mean(lows.values()) or 0.0)


def seen_scores(case: Case) -> dict[int, Parts]:
    """Return at each step the scores of the tasks that training had reached by then."""
    starts: dict[str, int] = {}
    start = -1
    for task, last in case.spans:
        starts.setdefault(task, start)
        start = last
    steps = sorted({t for rows in case.log.values() for t in rows})
    table = {}
    for t in steps:
        at = {
            name: rows[t]
            for name, rows in case.log.items()
            if t in rows and (not case.spans or (name in starts and t > starts[name]))
        }
        if at:
            table[t] = at
    return table


def aaa_by_loops(case: Case) -> float | None:
    return mean(sum(at.values()) / len(at) for at in seen_scores(case).values())


def lca_by_loops(case: Case, beta: int) -> Parts | None:
    """Return the mean over b = 0..beta of each task's score after b of its own batches."""
    areas: Parts = {}
    start = 0
    for task, last in case.spans:
        if task not in areas:
            rows = case.log[task]
            first = case.before.get(task, rows.get(start))
            after = [rows.get(start + b) for b in range(1, beta + 1)]
            if first is None or None in after or start + beta > last:
                return None
            areas[task] = sum([first, *(a for a in after if a is not None)]) / (beta + 1)
        start = last
    return areas or None


def dips_by_loops(case: Case) -> list[tuple[int, str, float, float, float | None]]:
    """Return switch, task, depth, area and recovery (None: never) of each dip."""
    found = []
    for k in range(1, len(case.spans)):
        switch, (new, last) = case.spans[k - 1][1], case.spans[k]
        for task in first_ends(case.spans[:k]):
            past = [a for t, a in case.log[task].items() if t <= switch]
            during = {t: a for t, a in case.log[task].items() if switch < t <= last}
            if task == new or not past or not during:
                continue
            value, low = past[-1], min(during.values())
            area, before = 0.0, switch
            for t, a in during.items():
                area += max(0.0, value - a) * (t - before)
                before = t
            recovery: float | None = 0.0
            if low < 0.95 * value:
                bottom = next(t for t, a in during.items() if a == low)
                back = [t for t, a in during.items() if t >= bottom and a >= 0.95 * value]
                recovery = float(back[0] - switch) if back else None
            found.append((switch, task, value - low, area, recovery))
    return found


def median_with_censored(times: Sequence[float | None]) -> float | None:
    """Return the median where None is longer than any number, None if that is not known."""
    if not times:
        return None
    ordered = sorted(t for t in times if t is not None) + [None] * times.count(None)
    lower, upper = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return None if lower is None or upper is None else (lower + upper) / 2
