"""Coverage of the intervals of matrix metrics of one and of two simulated runs with known truth.

    python benchmarks/coverage_matrix.py [--replications 400] [--only forget] [--seed 0]

A path gives the true accuracy of every task after every task. Examples of a task are
- `absorbing`: in a fixed order, of which the accuracy is the fraction that is right, so that a
  forgotten example stays forgotten while the accuracy falls;
- `latent`: right if a difficulty plus AR(1) noise (correlation .9, half of the variance each)
  lies below a threshold; another run shares the difficulty;
- `fresh`: right or wrong independently after every task.

Prints a Markdown table: how often the interval contains the truth, and its mean width. `plain` is
bwt ± 1.96 standard errors; `sizes` is acc from the number of examples alone.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from scipy.special import ndtri

from perdure.metrics import METRICS, PerExample, difference_of_runs, matrix_intervals
from perdure.stats import mean_proportion_interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perdure.metrics import Value

    Floats = NDArray[np.float64]


class Cell(NamedTuple):
    """A kind of run: its path, how examples depend on each other over time, T and n."""

    path: str
    kind: str
    tasks: int
    examples: int


CELLS = [
    Cell("const .5", "fresh", 5, 100), Cell("const .5", "latent", 5, 1000),
    Cell("const .5", "latent", 5, 10_000), Cell("const .9", "fresh", 10, 100),
    Cell("const .9", "latent", 10, 1000), Cell("const .99", "latent", 2, 100),
    Cell("const .99", "latent", 5, 100), Cell("const .99", "fresh", 20, 100),
    Cell("const .99", "latent", 5, 1000), Cell("const .998", "latent", 10, 100),
    Cell("const .02", "latent", 5, 100), Cell("const .02", "fresh", 10, 1000),
    Cell("forget .05", "absorbing", 2, 100), Cell("forget .05", "absorbing", 5, 100),
    Cell("forget .05", "latent", 10, 1000), Cell("forget .05", "absorbing", 5, 10_000),
    Cell("collapse .005", "absorbing", 5, 100), Cell("collapse .005", "latent", 10, 1000),
    Cell("slow .02", "absorbing", 5, 100), Cell("slow .02", "latent", 10, 100),
    Cell("slow .02", "absorbing", 20, 1000), Cell("slow .002", "absorbing", 10, 100),
    Cell("rise .02", "latent", 5, 100), Cell("bump .1", "latent", 10, 100),
    Cell("bump .02", "latent", 5, 1000), Cell("mixed .01", "absorbing", 10, 100),
    Cell("mixed .01", "latent", 5, 10_000),
]  # fmt: skip
TARGETS = ["acc", "acc.incremental", "bwt", "bwt.all"]
LARGEST = ["forgetting.best", "forgetting.peak", "forgetting.any"]
COLUMNS = [
    *TARGETS, *LARGEST, "bwt per task", "best per task",
    "acc A-B", "bwt A-B", "best A-B", "plain", "sizes",
]  # fmt: skip


def true_matrix(name: str, tasks: int) -> Floats:
    """Return the true accuracy on each task (columns) after each task (rows)."""
    kind, _, number = name.partition(" ")
    size = float(number)
    r = np.full((tasks, tasks), 0.1)  # before a task is learned
    for j in range(tasks):
        age = np.arange(tasks - j)
        match kind:
            case "const":
                p = np.full(len(age), size)
            case "forget":
                p = size + (0.95 - size) * 0.5**age
            case "collapse":
                p = np.where(age == 0, 0.97, size)
            case "slow":
                p = 0.95 - size * age
            case "rise":
                p = 0.7 + size * age
            case "bump":  # two levels in turn: many task ends compete for the largest score
                p = 0.8 + size * (age % 2)
            case "mixed":
                p = [0.995, 0.9, 0.5][j % 3] - size * age
            case _:
                raise ValueError(name)
        r[j:, j] = np.clip(p, 1e-4, 1 - 1e-4)
    return r


def draw(r: Floats, cell: Cell, rng: np.random.Generator) -> list[dict[str, PerExample]]:
    """Return which examples are right after which task, of two runs with the same truth."""
    runs: list[dict[str, PerExample]] = [{}, {}]
    for j in range(cell.tasks):
        easy = rng.standard_normal(cell.examples)
        for run in runs:
            shape = (cell.tasks, cell.examples)
            if cell.kind == "absorbing":
                noise = np.broadcast_to(rng.standard_normal(cell.examples), shape)
            else:
                noise = rng.standard_normal(shape)
            if cell.kind == "latent":
                for t in range(1, cell.tasks):
                    noise[t] = 0.9 * noise[t - 1] + np.sqrt(1 - 0.81) * noise[t]
            mixed = noise if cell.kind == "fresh" else np.sqrt(0.5) * (noise + easy)
            run[str(j)] = PerExample.pack(range(cell.tasks), mixed < ndtri(r[:, j])[:, None])
    return runs


def held(ends: tuple[float, float], truth: float) -> list[float]:
    return [ends[0] - 1e-9 <= truth <= ends[1] + 1e-9, ends[1] - ends[0]]


def one(r: Floats, cell: Cell, rng: np.random.Generator, seed: int) -> list[list[float]]:
    """Return whether each interval holds the truth, and its width."""
    names = [str(j) for j in range(cell.tasks)]
    first, second = draw(r, cell, rng)
    found = matrix_intervals(first, names, seed=seed)
    truth = {id_: cast("Value", METRICS[id_].function(r)) for id_ in [*TARGETS, *LARGEST]}
    result = [held(found.intervals[id_], float(truth[id_])) for id_ in [*TARGETS, *LARGEST]]
    for id_ in ("bwt", "forgetting.best"):
        pairs = zip(found.per_task[id_], truth[id_].per_task, strict=True)
        each = [held(ends, part) for ends, part in pairs if ends is not None]
        result.append(list(np.mean(each, axis=0)))
    apart = difference_of_runs(first, second, seed=seed)
    result += [held(apart.intervals[id_], 0.0) for id_ in ("acc", "bwt", "forgetting.best")]
    change = [first[name][-1].astype(float) - first[name][j] for j, name in enumerate(names[:-1])]
    half = 1.96 * np.sqrt(sum(each.var() / cell.examples for each in change)) / len(change)
    result.append(
        held((found.values["bwt"] - half, found.values["bwt"] + half), float(truth["bwt"]))
    )
    last = [first[name].accuracy()[-1] for name in names]
    result.append(
        held(mean_proportion_interval(last, [cell.examples] * len(last)), float(truth["acc"]))
    )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=400)
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print(f"| truth | examples | T | n | {' | '.join(COLUMNS)} |")
    print(f"|---|---|---:|---:|{'---|' * len(COLUMNS)}", flush=True)
    lowest: dict[str, float] = {}
    for at, cell in enumerate(CELLS):
        if args.only not in cell.path:
            continue
        r, rng = true_matrix(cell.path, cell.tasks), np.random.default_rng([args.seed, at])
        rows = np.mean([one(r, cell, rng, seed) for seed in range(args.replications)], axis=0)
        for name, (share, _) in zip(COLUMNS, rows, strict=True):
            lowest[name] = min(lowest.get(name, 1.0), float(share))
        shown = " | ".join(f"{share:.3f} ({width:.4f})" for share, width in rows)
        print(
            f"| {cell.path} | {cell.kind} | {cell.tasks} | {cell.examples} | {shown} |", flush=True
        )
    error = np.sqrt(0.95 * 0.05 / args.replications)
    each = ", ".join(f"{name} {share:.3f}" for name, share in lowest.items())
    print(f"\nlowest coverage of {args.replications} replications, nominal .95: {each}")
    print(f"Monte-Carlo standard error at .95: {error:.4f}")


if __name__ == "__main__":
    main()
