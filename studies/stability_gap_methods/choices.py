"""Dips at switches at each strength and learning rate of choices.sh, and how much recovers.

Writes choices.json as well, in which choices without finished runs in the store stay as they are:
python studies/stability_gap_methods/choices.py runs/stability_gap_methods_choices
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path

from claims import measure_recovery

import perdure
from perdure.record import list_runs

VARIED = ("lr", "strength", "alpha", "temperature")
NAMED = ("implementation", "mode")  # where the implementation is not ours
METRICS = ("acc", "gap.depth", "gap.recovered")


def main() -> None:
    """Print a table per scenario with one row per choice, and write the value of every seed."""
    measured: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in (run for run in list_runs(Path(sys.argv[1])) if run.is_finished()):
        config, metrics = run.metadata().config, perdure.open_run(run.path).summary().metrics
        options = {**config["optimizer_options"], **config["options"]}
        varied = ", ".join(f"{name} {options[name]:g}" for name in VARIED if name in options)
        choice = f"{config['scenario']} {config['strategy']}: {varied}"
        if options.get("implementation", "perdure") != "perdure":
            choice = ", ".join([choice, *(options[name] for name in NAMED if name in options)])
        values = {id_: 100 * metrics[id_] for id_ in METRICS}
        for name, value in {**values, **measure_recovery(run.path / "points.csv")}.items():
            measured[choice][name].append(value)
    output = Path(__file__).parent / "choices.json"
    choices = {**json.loads(output.read_text()), **measured}
    means = {
        choice: {name: statistics.fmean(values) for name, values in row.items()}
        for choice, row in choices.items()
    }
    ordered = sorted(means, key=lambda choice: (choice.split(":")[0], -means[choice]["acc"]))
    text = json.dumps({choice: choices[choice] for choice in ordered}, indent=1)
    output.write_text(text + "\n")
    names = list(means[ordered[0]])
    print(f"| choice | seeds | {' | '.join(names)} |\n|---|{'---:|' * (len(names) + 1)}")
    for choice in ordered:
        cells = [f"{means[choice][name]:.1f}" for name in names]
        print(f"| {choice} | {len(choices[choice]['acc'])} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
