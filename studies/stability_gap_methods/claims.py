"""The claims of De Lange et al. 2023 about GEM, LwF, EWC and SI, checked on the runs of run.sh.

python studies/stability_gap_methods/claims.py runs/stability_gap_methods   # Markdown, results.json
"""

from __future__ import annotations

import csv
import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path

import perdure
from perdure.record import list_runs

COLUMNS = {
    "ACC": "acc", "FORG": "forgetting.learned", "min-ACC": "min_acc", "WC-ACC": "wc_acc",
    "WF10": "wf10", "gap depth": "gap.depth",
}  # fmt: skip
ZOOMED_UPDATES = 50  # updates of a task that the paper's figures zoom in on
Numbers = dict[str, list[float]]  # one value per seed


def main() -> None:
    """Print tables and claims, and write the value of every seed."""
    store, here = Path(sys.argv[1]), Path(__file__).parent
    results: dict[str, Numbers] = defaultdict(lambda: defaultdict(list))
    hyperparameters: dict[str, dict[str, object]] = {}
    for run in (run for run in list_runs(store) if run.is_finished()):
        config = run.metadata().config
        label = f"{config['scenario']} {config['setting']} {config['strategy']}"
        if config["every"] > 1:
            label = f"all {label}"
        options = {
            **config["options"],
            **config["optimizer_options"],
            "iterations": config["iterations"],
        }
        if hyperparameters.setdefault(label, options) != options:
            raise SystemExit(f"{label}: runs differ in their hyperparameters; split the store")
        for name, value in measure(run.path).items():
            results[label][name].append(value)
    (here / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    print_tables(results)
    print("\n## The claims\n\n| holds | claim | measured |\n|---|---|---|")
    for holds, claim, measured in check_claims(results):
        print(f"| {'yes' if holds else '**no**'} | {claim} | {measured} |")


def measure(folder: Path) -> dict[str, float]:
    """Return the metrics of a run in percent, and its gradient norms at task switches."""
    metrics = perdure.open_run(folder).summary().metrics
    row = {name: 100 * metrics[id_] for name, id_ in COLUMNS.items() if id_ in metrics}
    if (folder / "gradients.csv").exists():
        row |= measure_norms(folder / "gradients.csv") | measure_recovery(folder / "points.csv")
    return row


def measure_norms(path: Path) -> dict[str, float]:
    """Return gradient norms after the first task, means over tasks."""
    tasks: dict[str, list[tuple[float, float]]] = defaultdict(list)
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            tasks[row["trained"]].append((float(row["plasticity"]), float(row["stability"])))
    rows: Numbers = defaultdict(list)
    for number, task_norms in enumerate(tasks.values()):
        if number == 0:
            continue
        plasticity, stability = zip(*task_norms, strict=True)
        rows["plasticity, 1st update"].append(plasticity[0])
        rows["stability, 1st update"].append(stability[0])
        if number == 1:  # with two penalties the first update of task 3 has a stability gradient
            rows["stability, 1st update of task 2"].append(stability[0])
        rows["stability, 2nd update"].append(stability[1])
        rows["stability, highest of 50"].append(max(stability[:ZOOMED_UPDATES]))
        rows["stability, 2nd half"].append(statistics.median(stability[len(stability) // 2 :]))
    return {name: statistics.fmean(values) for name, values in rows.items()}


def measure_recovery(path: Path) -> dict[str, float]:
    """Return how deep older tasks dip and how much of that recovers, in percent."""
    scores: dict[tuple[str, str], list[float]] = defaultdict(list)
    order: list[str] = []
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["kind"] == "probe":
                scores[row["trained"], row["tested"]].append(float(row["score"]))
                if row["trained"] not in order:
                    order.append(row["trained"])
    lost = recovered = 0.0
    early_dips = []
    for number, task in enumerate(order[1:], start=1):
        for old in order[:number]:
            before, during = scores[order[number - 1], old][-1], scores[task, old]
            low = min(during)
            lost, recovered = lost + before - low, recovered + during[-1] - low
            early_dips.append(before - min(during[:ZOOMED_UPDATES]))
    depth = {"deepest in 50": 100 * statistics.fmean(early_dips)}
    return depth | ({"dips recovered": 100 * recovered / lost} if lost else {})


def print_tables(results: dict[str, Numbers]) -> None:
    """Print a table per figure."""
    groups = {
        "Figures 4 and 10: class-incremental Split-MNIST": "split-mnist class",
        "Figure 5 a-d: task-incremental Split-MNIST": "split-mnist task",
        "Figure 5 e-f: Rotated-MNIST, 80 degrees": "rotated-mnist-80 domain",
        "Class-incremental Split-MNIST, all strategies (evaluated every 50 updates)": "all",
    }
    for title, start in groups.items():
        rows = {k: v for k, v in results.items() if k.startswith(start + " ")}
        names = list(dict.fromkeys(name for row in rows.values() for name in row))
        if start == "all":
            names = ["ACC", "FORG"]
        metrics = [n for n in names if n in COLUMNS or "dips" in n or "deepest" in n]
        for part in (metrics, [n for n in names if n not in metrics]):
            if not part or not rows:
                continue
            print(f"\n## {title}{'' if part is metrics else ': gradient norms'}\n")
            print(f"| strategy | {' | '.join(part)} |\n|---|{'---|' * len(part)}")
            for label, row in rows.items():
                cells = [
                    format_values(row.get(n, []), ".1f" if part is metrics else ".2g") for n in part
                ]
                print(f"| {label.split()[-1]} | {' | '.join(cells)} |")


def format_values(values: list[float], spec: str) -> str:
    """Return mean and SD."""
    if not values:
        return ""
    mean = f"{statistics.fmean(values):{spec}}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):{spec}}"


def check_claims(results: dict[str, Numbers]) -> list[tuple[bool, str, str]]:
    """Return whether each claim holds for the means over seeds, its text, and the numbers."""

    def mean(label: str, name: str) -> float:
        return statistics.fmean(results[label][name])

    gem, er = "split-mnist class gem", "split-mnist class replay"
    rows: list[tuple[bool, str, str]] = []

    def compare(text: str, low: float, high: float) -> None:
        rows.append((low < high, text, f"{low:.3g} < {high:.3g}"))

    compare("the gap of GEM is larger than that of ER (min-ACC)",
            mean(gem, "min-ACC"), mean(er, "min-ACC"))  # fmt: skip
    compare("at a switch GEM's stability norm is larger than ER's",
            mean(er, "stability, 1st update"), mean(gem, "stability, 1st update"))  # fmt: skip
    compare("later in a task ER's is larger than GEM's (Fig. 10)",
            mean(gem, "stability, 2nd half"), mean(er, "stability, 2nd half"))  # fmt: skip
    compare("ER: the first stability norm of a task is under a tenth of its plasticity norm",
            mean(er, "stability, 1st update"),
            mean(er, "plasticity, 1st update") / 10)  # fmt: skip
    for where in ("split-mnist task", "rotated-mnist-80 domain"):
        for strategy in ("lwf", "ewc", "si"):
            label = f"{where} {strategy}"
            named = f"{strategy} on {where.split()[0]}"
            compare(f"{named}: stability norm of task 2's first update under 1% of its highest",
                    mean(label, "stability, 1st update of task 2"),
                    mean(label, "stability, highest of 50") / 100)  # fmt: skip
            compare(f"{named}: older tasks dip by more than a point in the first "
                    f"{ZOOMED_UPDATES} updates", 1.0, mean(label, "deepest in 50"))  # fmt: skip
            compare(f"{named}: more than half of the dips recovers",
                    50.0, mean(label, "dips recovered"))  # fmt: skip
    naive = "split-mnist task naive"
    for strategy in ("ewc", "si", "mas", "lwf"):
        compare(f"task-incremental, {strategy} forgets less than naive: FORG is less than half",
                mean(f"split-mnist task {strategy}", "FORG"), mean(naive, "FORG") / 2)  # fmt: skip
    for strategy in ("ewc", "si", "mas", "lwf"):
        compare(f"class-incremental, {strategy} alone stays near naive: ACC below 30",
                mean(f"all split-mnist class {strategy}", "ACC"), 30.0)  # fmt: skip
    compare("class-incremental, GDumb's memory helps: ACC above 60", 60.0,
            mean("all split-mnist class gdumb", "ACC"))  # fmt: skip
    for label, name in ((er, "replay"), (gem, "gem")):
        compare(f"class-incremental, {name}'s memory helps: ACC above 60", 60.0,
                mean(label, "ACC"))  # fmt: skip
    return rows


if __name__ == "__main__":
    main()
