"""Error rates of `perdure check` at the limit, and its power: the tables of docs/check.md.

The first table is computed, not simulated: the probability of every outcome of one paired
comparison is added up. The second one simulates runs and decides them with the code that the
command uses.

    python benchmarks/verdicts.py [--repeats 400] [--only rates|runs]
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln, ndtr

from perdure.metrics import PerExample, ScoreMatrix
from perdure.record import ScoreInput
from perdure.stats import (
    MAX_EXACT_PAIRS,
    accuracy_bounds,
    add_bounds,
    exact_drop_p,
    tango_score,
)
from perdure.stats.one_sided_bounds import SURE
from perdure.verdict import CheckedRun, CheckInputs, TaskScore, decide, parse_requirements

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perdure.verdict import Requirement

ALPHA = 0.05
SIZES = (30, 100, 300, 1000, 3000, 10_000)
DISCORDANCES = (0.01, 0.05, 0.1, 0.2, 0.5)
REQUIREMENTS = (1, 3, 10)


def outcomes(n: int, losing: float, gaining: float) -> NDArray[np.float64]:
    """Return lost, gained and probability of all outcomes that are not negligible."""
    ranges = []
    for chance in (losing, gaining):
        reach = 6 * (n * chance * (1 - chance)) ** 0.5 + 12
        ranges.append(
            np.arange(max(0, int(n * chance - reach)), min(n, int(n * chance + reach)) + 1)
        )
    lost, gained = (part.ravel() for part in np.meshgrid(*ranges, indexing="ij"))
    possible = lost + gained <= n
    lost, gained = lost[possible], gained[possible]
    rest = n - lost - gained
    logs = gammaln(n + 1) - gammaln(lost + 1) - gammaln(gained + 1) - gammaln(rest + 1)
    chances = (losing, gaining, 1 - losing - gaining)
    for count, chance in zip((lost, gained, rest), chances, strict=True):
        logs = logs + count * (np.log(chance) if chance > 0 else -1e9)
    return np.array([lost, gained, np.exp(logs)])


def rate(
    n: int, limit: float, alpha: float, drop: float, share: float, *, wrong_side: bool
) -> float:
    """Return the probability of PASS, or of FAIL (`wrong_side`), for a true drop."""
    table = outcomes(n, (share + drop) / 2, (share - drop) / 2)
    table = table[:, table[2] > 1e-9]
    lost, gained = (table[1], table[0]) if wrong_side else (table[0], table[1])
    margin = -limit if wrong_side else limit
    p = ndtr(tango_score(lost, gained, n, margin, skewness=True))
    few = (lost + gained <= MAX_EXACT_PAIRS) & (p < 0.3)
    for k in np.flatnonzero(few):
        p[k] = exact_drop_p(int(lost[k]), int(gained[k]), n, margin, sure=SURE * alpha)
    return float(table[2][p <= alpha].sum())


def unpaired_power(n: int, limit: float, share: float, rng: np.random.Generator) -> float:
    """Return how often two equal models pass without pairing, at an accuracy of .9."""
    passed = 0
    for _ in range(400):
        both = rng.multinomial(n, [0.9 - share / 2, share / 2, share / 2, 0.1 - share / 2])
        before = accuracy_bounds(int(both[0] + both[1]), n, alpha=ALPHA)
        after = accuracy_bounds(int(both[0] + both[2]), n, alpha=ALPHA)
        passed += add_bounds([before, after], [1, -1]).high <= limit
    return passed / 400


def print_rates() -> None:
    print("| n | discordant | limit | wrong PASS | wrong FAIL, 1 requirement | 3 | 10 "
          "| PASS if nothing dropped | the same, unpaired |")  # fmt: skip
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    worst = [0.0] * 4
    rng = np.random.default_rng(0)
    for n in SIZES:
        for share in DISCORDANCES:
            limit = min(0.02, share / 2)
            wrong = [rate(n, limit, ALPHA, limit, share, wrong_side=False)]
            for count in REQUIREMENTS:
                one = rate(n, limit, ALPHA / count, limit, share, wrong_side=True)
                wrong.append(1 - (1 - one) ** count)  # all at the limit, the worst case
            worst = [max(pair) for pair in zip(worst, wrong, strict=True)]
            power = rate(n, limit, ALPHA, 0.0, share, wrong_side=False)
            unpaired = f"{unpaired_power(n, limit, share, rng):.2f}" if share <= 0.2 else ""
            cells = " | ".join(f"{value:.4f}" for value in wrong)
            print(
                f"| {n} | {share:g} | {limit:g} | {cells} | {power:.2f} | {unpaired} |", flush=True
            )
    print(f"| largest | | | {' | '.join(f'{value:.4f}' for value in worst)} | | |")


def simulate_run(
    n: int, before: float, drops: NDArray[np.float64], share: float, rng: np.random.Generator
) -> tuple[CheckedRun, CheckedRun]:
    """Return a baseline and a run whose tasks have these true drops; both saw the same examples."""
    tasks = [f"task {k}" for k in range(len(drops))]
    old: dict[str, PerExample] = {}
    new: dict[str, PerExample] = {}
    for task, drop in zip(tasks, drops, strict=True):
        losing, gaining = (share + drop) / 2, (share - drop) / 2
        first = rng.random(n) < before
        flip = rng.random(n) < np.where(first, losing / before, gaining / (1 - before))
        for scores, right in ((old, first), (new, first ^ flip)):
            scores[task] = PerExample.pack([len(drops) - 1], right[None], ids=np.arange(n))
    return _run("old", old, n), _run("new", new, n)


def _run(name: str, ends: dict[str, PerExample], n: int) -> CheckedRun:
    last = {task: TaskScore(float(mine.accuracy()[0]), n, mine) for task, mine in ends.items()}
    scores = np.full((len(ends), len(ends)), np.nan)
    scores[-1] = [score.score for score in last.values()]
    np.fill_diagonal(scores, scores[-1])
    matrix = ScoreMatrix(scores, tuple(ends), sizes=np.full(len(ends), float(n)), upper="measured")
    return CheckedRun(name, ScoreInput(matrix, per_example_at_ends=ends), last)


def print_runs(repeats: int) -> None:
    print("| requirement | tasks | n | discordant | wrong PASS | wrong FAIL "
          "| PASS if nothing dropped |")  # fmt: skip
    print("|---|---:|---:|---:|---:|---:|---:|")
    for text in ("acc >= base - .02", "no task drops more than .02"):
        requirements = parse_requirements([text])
        for tasks in (1, 5):
            for n in (30, 100, 1000):
                for share in (0.05, 0.2):
                    rates = _simulate(requirements, text, tasks, n, share, repeats)
                    cells = " | ".join(f"{value:.3f}" for value in rates)
                    print(f"| {text} | {tasks} | {n} | {share:g} | {cells} |", flush=True)


def _simulate(
    requirements: list[Requirement], text: str, tasks: int, n: int, share: float, repeats: int
) -> list[float]:
    """Return the rates of a wrong PASS, of a wrong FAIL and of a right PASS."""
    rng = np.random.default_rng(0)
    at_limit = np.full(tasks, 0.02)
    violated = at_limit.copy()
    if text.startswith("no task"):
        violated[1:] = -share  # one task at its limit, the others safe: the worst case for PASS
    rates = []
    for drops, decision in (
        (violated, "PASS"), (at_limit, "FAIL"), (np.zeros(tasks), "PASS"),
    ):  # fmt: skip
        count = 0
        for _ in range(repeats):
            old, new = simulate_run(n, 0.9 if share < 0.2 else 0.7, drops, share, rng)
            verdict = decide(requirements, CheckInputs([new], [old]))
            count += verdict.decision == decision
        rates.append(count / repeats)
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--only", choices=("rates", "runs"))
    options = parser.parse_args()
    if options.only != "runs":
        print_rates()
    if options.only != "rates":
        print()
        print_runs(options.repeats)


if __name__ == "__main__":
    main()
