"""What De Lange et al. (2023) say of GEM, LwF, EWC and SI, as numbers, from the runs of run.sh.

python studies/stability_gap_methods/shapes.py runs/stability_gap_methods   # Markdown, results.json
"""

from __future__ import annotations

import csv
import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path

import perdure

COLUMNS = {
    "ACC": "acc", "FORG": "forgetting.learned", "min-ACC": "min_acc", "WC-ACC": "wc_acc",
    "WF10": "wf10", "gap depth": "gap.depth",
}  # fmt: skip
FIRST = 50  # updates of a task that the paper's figures zoom in on
Numbers = dict[str, list[float]]  # a value for every seed


def main() -> None:
    """Print tables and statements, and write every seed's value."""
    store, here = Path(sys.argv[1]), Path(__file__).parent
    found: dict[str, Numbers] = defaultdict(lambda: defaultdict(list))
    made: dict[str, dict[str, object]] = {}
    for done in sorted(store.glob("*/done.json")):
        said = json.loads((done.parent / "run.json").read_text())["describe"]
        label = f"{said['scenario']} {said['setting']} {said['strategy']}"
        if said["every"] > 1:
            label = f"all {label}"
        options = {**said["options"], **said["optimizer_options"], "iterations": said["iterations"]}
        if made.setdefault(label, options) != options:
            raise SystemExit(f"{label}: runs differ in their hyperparameters; take a store apart")
        for name, value in numbers(done.parent).items():
            found[label][name].append(value)
    (here / "results.json").write_text(json.dumps(found, indent=1) + "\n")
    tables(found)
    print("\n## The statements\n\n| holds | statement | measured |\n|---|---|---|")
    for holds, statement, measured in statements(found):
        print(f"| {'yes' if holds else '**no**'} | {statement} | {measured} |")


def numbers(folder: Path) -> dict[str, float]:
    """Return the metrics of a run in percent, and the norms of its gradients at the switches."""
    metrics = perdure.open_run(folder).summary().metrics
    row = {name: 100 * metrics[id_] for name, id_ in COLUMNS.items() if id_ in metrics}
    if (folder / "gradients.csv").exists():
        row |= norms(folder / "gradients.csv") | regained(folder / "points.csv")
    return row


def norms(path: Path) -> dict[str, float]:
    """Return norms of the stability gradient after the first task, means over tasks."""
    tasks: dict[str, list[tuple[float, float]]] = defaultdict(list)
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            tasks[row["trained"]].append((float(row["plasticity"]), float(row["stability"])))
    rows: Numbers = defaultdict(list)
    for number, each in enumerate(tasks.values()):
        if number == 0:
            continue
        plasticity, stability = zip(*each, strict=True)
        rows["plasticity, 1st update"].append(plasticity[0])
        rows["stability, 1st update"].append(stability[0])
        if number == 1:  # with two penalties the first update of the third task has a pull
            rows["stability, 1st update of task 2"].append(stability[0])
        rows["stability, 2nd update"].append(stability[1])
        rows["stability, highest of 50"].append(max(stability[:FIRST]))
        rows["stability, 2nd half"].append(statistics.median(stability[len(stability) // 2 :]))
    return {name: statistics.fmean(values) for name, values in rows.items()}


def regained(path: Path) -> dict[str, float]:
    """Return how much of the dips came back: in all switches and older tasks, in percent."""
    scores: dict[tuple[str, str], list[float]] = defaultdict(list)
    order: list[str] = []
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["kind"] == "probe":
                scores[row["trained"], row["tested"]].append(float(row["score"]))
                if row["trained"] not in order:
                    order.append(row["trained"])
    lost = back = 0.0
    soon = []
    for number, task in enumerate(order[1:], start=1):
        for old in order[:number]:
            at, during = scores[order[number - 1], old][-1], scores[task, old]
            low = min(during)
            lost, back = lost + at - low, back + during[-1] - low
            soon.append(at - min(during[:FIRST]))
    found = {"deepest in 50": 100 * statistics.fmean(soon)}
    return found | ({"of the dips regained": 100 * back / lost} if lost else {})


def tables(found: dict[str, Numbers]) -> None:
    """Print a table for each figure."""
    groups = {
        "Figures 4 and 10: class-incremental Split-MNIST": "split-mnist class",
        "Figure 5 a-d: task-incremental Split-MNIST": "split-mnist task",
        "Figure 5 e-f: Rotated-MNIST, 80 degrees": "rotated-mnist-80 domain",
        "Class-incremental Split-MNIST, all strategies (tested every 50 updates)": "all",
    }
    for title, start in groups.items():
        rows = {k: v for k, v in found.items() if k.startswith(start + " ")}
        names = list(dict.fromkeys(name for row in rows.values() for name in row))
        if start == "all":
            names = ["ACC", "FORG"]
        metrics = [n for n in names if n in COLUMNS or "dips" in n or "deepest" in n]
        for part in (metrics, [n for n in names if n not in metrics]):
            if not part or not rows:
                continue
            print(f"\n## {title}{'' if part is metrics else ': norms of gradients'}\n")
            print(f"| strategy | {' | '.join(part)} |\n|---|{'---|' * len(part)}")
            for label, row in rows.items():
                cells = [shown(row.get(n, []), ".1f" if part is metrics else ".2g") for n in part]
                print(f"| {label.split()[-1]} | {' | '.join(cells)} |")


def shown(values: list[float], how: str) -> str:
    """Return mean and SD."""
    if not values:
        return ""
    mean = f"{statistics.fmean(values):{how}}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):{how}}"


def statements(found: dict[str, Numbers]) -> list[tuple[bool, str, str]]:
    """Return whether each statement of the paper holds for the means over seeds, and by what."""

    def mean(label: str, name: str) -> float:
        return statistics.fmean(found[label][name])

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
            compare(f"{named}: older tasks dip by more than a point in the first {FIRST} updates",
                    1.0, mean(label, "deepest in 50"))  # fmt: skip
            compare(f"{named}: they recover: more than half of the dips comes back",
                    50.0, mean(label, "of the dips regained"))  # fmt: skip
    naive = "split-mnist task naive"
    for strategy in ("ewc", "si", "mas", "lwf"):
        compare(f"task-incremental, {strategy} keeps more than naive: FORG less than half",
                mean(f"split-mnist task {strategy}", "FORG"), mean(naive, "FORG") / 2)  # fmt: skip
    for strategy in ("ewc", "si", "mas", "lwf"):
        compare(f"class-incremental, {strategy} alone stays near naive: ACC below 30",
                mean(f"all split-mnist class {strategy}", "ACC"), 30.0)  # fmt: skip
    compare("class-incremental, GDumb's memory does not: ACC above 60", 60.0,
            mean("all split-mnist class gdumb", "ACC"))  # fmt: skip
    for label, name in ((er, "replay"), (gem, "gem")):
        compare(f"class-incremental, {name}'s memory does not: ACC above 60", 60.0,
                mean(label, "ACC"))  # fmt: skip
    return rows


if __name__ == "__main__":
    main()
