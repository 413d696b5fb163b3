"""Coverage of the intervals of retention, on simulated control tasks with a known truth.

Each example is right before training with the task's accuracy; training then loses a fraction of
the right answers and wins a fraction of the wrong ones. Printed as the table of docs/intervals.md:
the fraction of 95% intervals that contain the truth, with their mean width in brackets.
"""

from __future__ import annotations

import argparse

import numpy as np

from perdure.metrics import ControlScores, PerExample, control_intervals

IDS = ("retention", "retention.worst", "retention.relative")
CHANGES = {  # accuracies before training, and the fractions that are lost and won
    "nothing": ([0.9, 0.6, 0.5, 0.3], [0.0, 0.0, 0.0, 0.0], 0.0),
    "few lost": ([0.9, 0.6, 0.5, 0.3], [0.01, 0.01, 0.02, 0.01], 0.0),
    "all alike": ([0.6, 0.6, 0.6, 0.6], [0.1, 0.1, 0.1, 0.1], 0.1),
    "one collapsed": ([0.9, 0.6, 0.5, 0.3], [0.02, 0.9, 0.02, 0.02], 0.02),
    "mixed": ([0.9, 0.6, 0.5, 0.3], [0.1, 0.15, 0.05, 0.2], 0.05),
}


def simulate(change: str, examples: int, rng: np.random.Generator) -> list[tuple[float, float]]:
    """Return for each id whether its interval contains the truth, and how wide it is."""
    right, lost = (np.array(part)[:, None] for part in CHANGES[change][:2])
    won = CHANGES[change][2]
    before = rng.random((len(right), examples)) < right
    draws = rng.random(before.shape)
    after = np.where(before, draws >= lost, draws < won)
    names = [f"c{k}" for k in range(len(right))]
    pairs = {name: PerExample.pack([0, 1], [before[k], after[k]]) for k, name in enumerate(names)}
    control = ControlScores(names, before.mean(axis=1), [after.mean(axis=1)], pairs)
    final = right * (1 - lost) + (1 - right) * won
    truth = ((final - right).mean(), (final - right).min(), (final / right).mean())
    intervals = control_intervals(control, IDS)
    return [
        (float(intervals[id_][0][0] <= value <= intervals[id_][0][1]), np.ptp(intervals[id_][0]))
        for id_, value in zip(IDS, truth, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=2000)
    args = parser.parse_args()
    print(f"| change | n | {' | '.join(IDS)} |")
    print(f"|---|---:|{'---|' * len(IDS)}")
    for at, change in enumerate(CHANGES):
        for examples in (100, 1000):
            rng = np.random.default_rng([at, examples])
            rows = [simulate(change, examples, rng) for _ in range(args.replications)]
            shown = " | ".join(f"{held:.3f} ({width:.4f})" for held, width in np.mean(rows, axis=0))
            print(f"| {change} | {examples} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
