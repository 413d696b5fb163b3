"""Coverage of the intervals of extremes, on simulated streams with known true accuracies.

    python benchmarks/coverage.py [--replications 400] [--only dip] [--seed 0]

An example is right at step t when its latent unit normal lies below Phi^-1(p(t)). The latent is a
constant difficulty (share `v` of the variance) plus AR(1) noise (correlation `rho` from step to
step; 0 is a subset that is resampled at every step). Prints a Markdown table: how often the
interval contains the truth, on which side it misses, how wide it is, and the coverage of the plain
percentile bootstrap.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.signal import lfilter
from scipy.special import ndtri

from perdure.metrics import PerExample, drops, interval_of_drop, interval_of_minimum, parse_id

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


class Cell(NamedTuple):
    """A kind of stream: its path, N evaluations, n examples, K tasks and the estimated extremes."""

    path: str
    evaluations: int
    examples: int
    tasks: int
    rho: float
    v: float
    targets: str


CELLS = [
    Cell("const .9", 100, 100, 1, 0.9, 0.5, "min wf10 wfall"),
    Cell("const .9", 1000, 300, 4, 0.9, 0.5, "min wc wf100 wfall"),
    Cell("const .9", 1000, 300, 9, 0.0, 0.0, "min wf10"),
    Cell("const .9", 100, 1000, 4, 0.0, 0.0, "min wfall"),
    Cell("const .5", 100, 100, 4, 0.9, 0.5, "min wfall"),
    Cell("const .5", 1000, 300, 1, 0.99, 0.0, "min wf100"),
    Cell("const .995", 1000, 100, 1, 0.9, 0.5, "min wfall"),
    Cell("const .995", 100, 100, 9, 0.0, 0.0, "min wf10"),
    Cell("dip .35", 500, 100, 1, 0.9, 0.5, "min wf10 wfall"),
    Cell("dip .35", 500, 300, 4, 0.9, 0.5, "min wc wf10 wfall"),
    Cell("dip .35", 500, 1000, 1, 0.99, 0.5, "min wf10"),
    Cell("onestep .1", 1000, 100, 4, 0.9, 0.5, "min"),
    Cell("onestep .3", 100, 50, 9, 0.9, 0.5, "min wf10 wfall"),
    Cell("half .03", 1000, 300, 4, 0.99, 0.5, "min wfall"),
    Cell("half .02", 100, 1000, 4, 0.0, 0.0, "min wf10"),
    Cell("broad .05", 100, 300, 4, 0.9, 0.5, "min wfall"),
    Cell("decline .2", 1000, 300, 1, 0.99, 0.5, "min wf100 wfall"),
    Cell("saw .15", 1000, 300, 1, 0.99, 0.0, "min wfall"),
    Cell("fall 0", 100, 100, 4, 0.9, 0.5, "min wc wfall"),
    Cell("fall .003", 1000, 300, 4, 0.9, 0.5, "min wc wfall"),
    Cell("rise .87", 100, 300, 4, 0.9, 0.5, "wf10 wfall"),
    Cell("const .05", 1, 100, 4, 0.0, 0.0, "min"),
]


def true_path(name: str, steps: int) -> Floats:
    """Return the true accuracy at every evaluation."""
    kind, _, number = name.partition(" ")
    size, u = float(number), np.linspace(0, 1, steps)
    match kind:
        case "const":
            return np.full(steps, size)
        case "dip":  # sharp, recovered within 20 evaluations
            since = np.arange(steps) - steps // 2
            return np.where(since < 0, 0.95, 0.95 - size * np.clip(1 - since / 20, 0, 1))
        case "onestep":
            return np.where(np.arange(steps) == steps // 2, 0.9 - size, 0.9)
        case "half":
            return np.where(u < 0.5, 0.9, 0.9 - size)
        case "broad":
            return 0.9 - size * np.sin(np.pi * u) ** 2
        case "decline":
            return 0.95 - size * u
        case "saw":  # five dips of nearly the same depth
            depth = size * (1 - 0.01 * np.floor(5 * u) % 2)
            return 0.9 - depth * np.clip(1 - 4 * ((5 * u) % 1), 0, 1)
        case "fall":  # naive fine-tuning
            return size + (0.95 - size) * np.exp(-np.clip(u - 0.2, 0, None) * 100)
        case "rise":
            return 0.1 + size / (1 + np.exp(-(u - 1 / 3) * 20))
    raise ValueError(name)


def draw(p: Floats, cell: Cell, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return which of n examples are right at each evaluation."""
    noise = rng.standard_normal((len(p), cell.examples))
    if cell.rho:
        noise[1:] *= np.sqrt(1 - cell.rho**2)
        noise = lfilter([1], [1, -cell.rho], noise, axis=0)
    difficulty = rng.standard_normal(cell.examples)
    latent = np.sqrt(1 - cell.v) * noise + np.sqrt(cell.v) * difficulty
    right: NDArray[np.bool_] = latent < ndtri(p)[:, None]
    return right


def extreme(target: str, accuracies: Floats) -> Floats:
    """Return the minimum or the largest drop along the last axis."""
    if target in ("min", "wc"):
        return np.asarray(accuracies.min(axis=-1))
    window = parse_id(target).arguments["window"]
    return np.asarray(np.apply_along_axis(lambda a: drops(a, window).max(), -1, accuracies))


def percentile(target: str, tables: list[NDArray[np.bool_]], rng: np.random.Generator) -> Floats:
    """Return the interval of the plain percentile bootstrap of the mean over tasks."""
    values = np.zeros(200)
    for table in tables:
        n = table.shape[1]
        weights = rng.multinomial(n, np.full(n, 1 / n), size=200) / n
        values += extreme(target, weights @ table.T.astype(np.float64)) / len(tables)
    return np.quantile(values, [0.025, 0.975])


def one(target: str, p: Floats, cell: Cell, rng: np.random.Generator, seed: int) -> list[float]:
    """Return truth below the interval, above it, width, bias, percentile's coverage and width."""
    tables = [draw(p, cell, rng) for _ in range(cell.tasks)]
    truth = float(extreme(target, p))
    observed = float(np.mean([extreme(target, table.mean(axis=1)) for table in tables]))
    results = [PerExample.pack(range(len(p)), table) for table in tables]
    if target == "wc":  # the last evaluation of the current task next to the minima
        now = draw(p[-1:], cell, rng)
        results.append(PerExample.pack([0], now))
        truth = (truth * cell.tasks + p[-1]) / (cell.tasks + 1)
        observed = (observed * cell.tasks + now.mean()) / (cell.tasks + 1)
    if target in ("min", "wc"):
        low, high = interval_of_minimum(results, resamples=400, seed=seed)
    else:
        window = parse_id(target).arguments["window"]
        low, high = interval_of_drop(results, window, resamples=400, seed=seed)
    plain = [np.nan, np.nan]
    if target != "wc" and seed < 100:
        ends = percentile(target, tables, rng)
        plain = [float(ends[0] <= truth <= ends[1]), ends[1] - ends[0]]
    return [truth < low - 1e-9, truth > high + 1e-9, high - low, observed - truth, *plain]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=400)
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print(
        "| truth | N | n | tasks | rho, v | of | bias | coverage | below | above | width | plain |"
    )
    print("|---|---:|---:|---:|---|---|---:|---:|---:|---:|---:|---:|", flush=True)
    worst = 1.0
    for at, cell in enumerate(CELLS):
        p = true_path(cell.path, cell.evaluations)
        for target in cell.targets.split() if args.only in cell.path else ():
            rng = np.random.default_rng([args.seed, at])
            rows = [one(target, p, cell, rng, seed) for seed in range(args.replications)]
            below, above, width, bias = np.mean([row[:4] for row in rows], axis=0)
            plain = np.nanmean([row[4] for row in rows]) if target != "wc" else np.nan
            worst = min(worst, 1 - below - above)
            print(
                f"| {cell.path} | {cell.evaluations} | {cell.examples} | {cell.tasks} "
                f"| {cell.rho:g}, {cell.v:g} | {target} | {bias:+.4f} | {1 - below - above:.3f} "
                f"| {below:.3f} | {above:.3f} | {width:.4f} | {plain:.2f} |".replace("nan", ""),
                flush=True,
            )
    print(f"\nlowest coverage {worst:.3f} of {args.replications} replications, nominal .95")


if __name__ == "__main__":
    main()
