"""The stability gap of the runs of run.sh, checked as numbers.

python studies/stability_gap_sequences/claims.py STORE     # Markdown, results.json
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path

import perdure
from perdure.record import list_runs

IDS = {
    "ACC": "acc", "FORG": "forgetting.learned", "min-ACC": "min_acc", "WC-ACC": "wc_acc",
    "WF10": "wf10", "gap depth": "gap.depth", "dips recovered": "gap.recovered",
}  # fmt: skip


def main() -> None:
    """Print the table and the claims, and write the value of every seed."""
    results: dict[str, list[float]] = defaultdict(list)
    for run in (run for run in list_runs(Path(sys.argv[1])) if run.is_finished()):
        metrics = perdure.open_run(run.path).summary().metrics
        for name, id_ in IDS.items():
            results[name].append(100 * metrics[id_])
    here = Path(__file__).parent
    (here / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    print("| " + " | ".join(IDS) + " |\n|" + "---:|" * len(IDS))
    print("| " + " | ".join(show(results[name]) for name in IDS) + " |")
    print("\n| holds | claim | measured |\n|---|---|---|")
    for text, low, high in check_claims({name: statistics.fmean(results[name]) for name in IDS}):
        print(f"| {'yes' if low < high else '**no**'} | {text} | {low:.3g} < {high:.3g} |")


def check_claims(means: dict[str, float]) -> list[tuple[str, float, float]]:
    """Return claims that hold if the first number is below the second, in percent."""
    return [
        ("older tasks dip by more than a point when a new one is learned", 1, means["gap depth"]),
        ("the dips are deeper than what is lost in the end", means["FORG"], means["gap depth"]),
        ("evaluating only after each task hides it: WC-ACC is below ACC by more than a point",
         means["WC-ACC"] + 1, means["ACC"]),
        ("more than half of the dips recover", 50, means["dips recovered"]),
    ]  # fmt: skip


def show(values: list[float]) -> str:
    """Return mean and SD over the seeds."""
    mean = f"{statistics.fmean(values):.1f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.1f}"


if __name__ == "__main__":
    main()
