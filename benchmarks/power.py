"""Size and power of the tests of `perdure compare`, on simulated runs with a known difference.

    python benchmarks/power.py [--replications 4000] [--only normal] [--seed 0]

Size is how often a test distinguishes two methods with the same mean at alpha = .05; power is how
often it does if one is better by 1.5 standard deviations of its runs. Every case samples the scores
of two methods on n seeds. Prints Markdown tables; the last one states how often any false
difference among several methods remains after Holm's correction.
"""

from __future__ import annotations

import argparse
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit, logit

from perdure.stats import compare_pairs, find_pair_test, two_sample_permutation

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from perdure.stats import PairTestName

    Floats = NDArray[np.float64]
    Draw = Callable[[np.random.Generator, tuple[int, int], float], tuple[Floats, Floats]]

ALPHA = 0.05
SEEDS = (3, 5, 10)
BETTER = 1.5  # standard deviations of a method's runs
TESTS: list[tuple[PairTestName, bool]] = [
    ("t", False), ("permutation", False), ("wilcoxon", False),
    ("t", True), ("permutation", True), ("wilcoxon", True),
]  # fmt: skip


class Case(NamedTuple):
    """What runs are like: a name, and how the scores of two methods are drawn."""

    name: str
    draw: Draw


def normal(rho: float, spread: float = 1.0) -> Draw:
    """Return normal scores with correlation rho between methods; the second's spread may differ."""

    def draw(
        rng: np.random.Generator, shape: tuple[int, int], better: float
    ) -> tuple[Floats, Floats]:
        shared = np.sqrt(rho) * rng.standard_normal(shape)
        a, b = shared + np.sqrt(1 - rho) * rng.standard_normal((2, *shape))
        return a + better, spread * b

    return draw


def failing(
    rng: np.random.Generator, shape: tuple[int, int], better: float
) -> tuple[Floats, Floats]:
    """Return a method with a long tail of bad seeds and a steady one of the same mean."""
    return better + 1 - rng.exponential(1.0, shape), 0.2 * rng.standard_normal(shape)


def heavy(rng: np.random.Generator, shape: tuple[int, int], better: float) -> tuple[Floats, Floats]:
    """Return scores with outliers on both sides: Student's t with three degrees of freedom."""
    a, b = rng.standard_t(3, (2, *shape)) / np.sqrt(3)
    return a + better, b


def accuracy(level: float, examples: int, between: float = 0.3) -> Draw:
    """Return accuracies near 1, counted over n examples; `between` is in logits."""
    inside = level * (1 - level) * between
    spread = np.sqrt(inside**2 + level * (1 - level) / examples)

    def draw(
        rng: np.random.Generator, shape: tuple[int, int], better: float
    ) -> tuple[Floats, Floats]:
        noise = between * rng.standard_normal((2, *shape))
        low = level - better * spread
        p = expit(np.stack([logit(level) + noise[0], logit(low) + noise[1]]))
        a, b = rng.binomial(examples, p) / examples
        return a, b

    return draw


CASES = [
    Case("normal, seeds share nothing", normal(0.0)),
    Case("normal, seeds correlated .8", normal(0.8)),
    Case("normal, spreads 1 and .2", normal(0.0, 0.2)),
    Case("outliers on both sides", heavy),
    Case("one method with bad seeds", failing),
    Case("accuracy .95 of 1000", accuracy(0.95, 1000)),
    Case("accuracy .98 of 100", accuracy(0.98, 100)),
]


def found(test: PairTestName, unpaired: bool, a: Floats, b: Floats) -> float:
    """Return the share of replications in which the test finds a difference."""
    if test == "permutation" and unpaired and a.shape[1] == 10:
        return float((permuted(a, b) < ALPHA).mean())
    chosen = find_pair_test(test, unpaired=unpaired)
    if chosen.paired:
        return float(np.mean([chosen.compute(d).p < ALPHA for d in a - b]))
    return float(np.mean([chosen.compute(*both).p < ALPHA for both in zip(a, b, strict=True)]))


def permuted(a: Floats, b: Floats) -> Floats:
    """Return the p-values of two-sample permutation tests, all arrangements of many at once."""
    n = a.shape[1]
    # With as many values of each, half of the arrangements mirror the other half.
    places = np.array([(0, *rest) for rest in combinations(range(1, 2 * n), n - 1)])
    chosen = np.zeros((len(places), 2 * n))
    np.put_along_axis(chosen, places, 1.0, axis=1)
    pooled = np.concatenate([a, b], axis=1)
    pooled -= pooled.mean(axis=1, keepdims=True)
    p = []
    for part in np.array_split(pooled, max(len(pooled) // 100, 1)):
        sums = np.abs(chosen @ part.T)
        p.append((sums >= np.abs(part[:, :n].sum(axis=1)) - 1e-9).mean(axis=0))
    result = np.concatenate(p)
    for k in range(2):  # the same as the test that people use
        assert abs(result[k] - two_sample_permutation(a[k], b[k]).p) < 1e-9
    return result


def any_false(methods: int, seeds: int, replications: int, rng: np.random.Generator) -> float:
    """Return how often any two of several equal methods are called distinguishable."""
    wrong = 0
    for scores in rng.standard_normal((replications, methods, seeds)):
        pairs = compare_pairs({str(k): row for k, row in enumerate(scores)}, alpha=ALPHA)
        wrong += any(pair.distinguishable for pair in pairs.values())
    return wrong / replications


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=4000)
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for better, what in ((0.0, "Size"), (BETTER, "Power")):
        names = [find_pair_test(test, unpaired=unpaired).name for test, unpaired in TESTS]
        print(f"\n{what}\n\n| runs | seeds | {' | '.join(names)} |")
        print(f"|---|---:|{'---:|' * len(names)}", flush=True)
        for at, case in enumerate(CASES):
            for n in SEEDS if args.only in case.name else ():
                rng = np.random.default_rng([args.seed, at, n])
                a, b = case.draw(rng, (args.replications, n), better)
                shares = [f"{found(test, unpaired, a, b):.3f}" for test, unpaired in TESTS]
                print(f"| {case.name} | {n} | {' | '.join(shares)} |", flush=True)
    print("\nSize of the paired t-test with 2 seeds\n\n| runs | size |\n|---|---:|")
    for at, case in enumerate(CASES):
        rng = np.random.default_rng([args.seed, at, 2])
        a, b = case.draw(rng, (10 * args.replications, 2), 0.0)
        print(f"| {case.name} | {found('t', unpaired=False, a=a, b=b):.3f} |", flush=True)
    print("\nAny false difference, paired t-test after Holm\n")
    print(f"| methods | {' | '.join(f'{n} seeds' for n in SEEDS)} |\n|---:|---:|---:|---:|")
    for methods in (3, 6):
        rng = np.random.default_rng([args.seed, methods])
        each = [any_false(methods, n, args.replications // 2, rng) for n in SEEDS]
        print(f"| {methods} | {' | '.join(f'{share:.3f}' for share in each)} |", flush=True)
    error = (ALPHA * (1 - ALPHA) / args.replications) ** 0.5
    most = 0.5 / args.replications**0.5
    print(
        f"\n{args.replications} replications per cell (10 times as many with 2 seeds, half as "
        f"many in the last table): standard error {error:.4f} at .05, {most:.3f} at most"
    )


if __name__ == "__main__":
    main()
