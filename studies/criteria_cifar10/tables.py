"""The seven criteria, CLscore and CLstability of the runs of a store, next to the paper's numbers.

python studies/criteria_cifar10/tables.py runs/criteria_cifar10     # Markdown, results.json
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path

from perdure.record import list_runs
from perdure.reproduction import CellRuns, Measurements, find_published_result
from perdure.reproduction.claims import check_claims

CRITERIA = {
    "A": "acc.lower", "REM": "rem", "BWT+": "bwt.positive", "FWT": "fwt.upper", "MS": "ms",
    "SSS": "sss", "CE": "ce",
}  # fmt: skip


def main() -> None:
    """Print the tables and the claims, and write the value of every seed."""
    store, here = Path(sys.argv[1]), Path(__file__).parent
    runs = measure(store)
    strategies = runs.result.strategies
    results = {
        name: {id_: runs.values(id_, {"strategy": name}) for id_ in CRITERIA.values()}
        for name in strategies
    }
    (here / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    print("| strategy | " + " | ".join(CRITERIA) + " |\n|---|" + "---:|" * len(CRITERIA))
    for name in strategies:
        print(f"| {name} | " + " | ".join(show(values) for values in results[name].values()) + " |")
        print(
            "| *paper* | " + " | ".join(printed(runs, name, id_) for id_ in CRITERIA.values()), "|"
        )
    print("\n| strategy | weights | CLscore | *paper* | CLstability | *paper* |")
    print("|---|---|---:|---:|---:|---:|")
    for name in strategies:
        for weights in runs.result.weights:
            cells = []
            for id_ in ("clscore", "clstability"):
                cells += [
                    show(runs.values(id_, {"strategy": name}, weights=weights)),
                    printed(runs, name, id_, weights),
                ]
            print(f"| {name} | {weights} | " + " | ".join(cells) + " |")
    print("\n| holds | claim | measured |\n|---|---|---|")
    for claim in check_claims(runs):
        print(f"| {'yes' if claim.holds else '**no**'} | {claim.text} | {claim.numbers} |")


def measure(store: Path) -> Measurements:
    """Return the numbers of all finished runs, counted as those of the paper's tables."""
    folders = defaultdict(list)
    for run in (run for run in list_runs(store) if run.is_finished()):
        folders[str(run.metadata().config["strategy"])].append(run.path)
    cells = [CellRuns({"strategy": name}, sorted(paths)) for name, paths in folders.items()]
    return Measurements(find_published_result("diaz-icifar100"), cells)


def show(values: list[float]) -> str:
    """Return mean and SD over the seeds."""
    mean = f"{statistics.fmean(values):.3f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.3f}"


def printed(runs: Measurements, strategy: str, id_: str, weights: str = "W1") -> str:
    """Return the number in the paper."""
    for row in runs.result.published:
        if (row.strategy, row.weights) == (strategy, weights) and id_ in row.values:
            return f"*{row.mean_and_sd(id_)[0]:.3f}*"
    return ""


if __name__ == "__main__":
    main()
