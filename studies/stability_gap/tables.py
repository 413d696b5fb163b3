"""The tables of De Lange et al. (2023) beside ours, from the runs of run.sh.

python studies/stability_gap/tables.py runs/stability_gap    # prints Markdown, writes results.json
"""

from __future__ import annotations

import csv
import json
import statistics
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from perdure.record import InputOptions, read_input

IDS = {
    "ACC": "acc", "FORG": "forgetting.learned", "WC-ACC": "wc_acc", "min-ACC": "min_acc",
    "WF10": "wf10", "WF100": "wf100", "WP10": "wp10", "WP100": "wp100",
}  # fmt: skip
SHORT = ("WC-ACC", "min-ACC", "WF10", "WF100", "WP10", "WP100")
LONG = ("ACC", "WC-ACC", "min-ACC", "FORG", "WF10", "WF100", "WP10", "WP100")

# Mean and SD in percent, as printed in the paper.
TABLE_2 = {
    10: "96.6 0.3  95.3 0.3  94.3 0.3  0.7 0.3  3.5 0.3  3.6 0.2  20.9 0.9  30.7 1.5",
    30: "93.7 0.5  91.8 0.4  89.3 0.6  4.6 0.6  5.1 0.7  6.0 0.4  28.2 1.1  41.3 1.6",
    60: "90.6 0.6  83.5 0.8  77.3 1.5  8.7 0.8  12.8 1.4  13.5 1.2  50.8 1.0  67.2 0.9",
    80: "90.0 0.5  78.4 1.4  69.2 2.2  9.8 0.6  17.8 2.0  18.6 1.7  57.3 1.7  75.6 1.8",
}
TABLE_3 = {
    1: "77.7 3.5  73.0 4.4  18.4 3.7  21.2 3.7  84.9 1.5  95.5 1.5",
    10: "81.3 0.9  77.4 1.1  16.4 1.1  17.2 1.1  94.5 1.2  97.5 1.4",
    100: "92.3 0.2  91.3 0.2  4.6 0.3  6.0 0.3  97.1 1.4  97.2 1.5",
    1000: "92.3 0.2  91.3 0.2  4.6 0.3  6.0 0.3  97.1 1.4  97.2 1.5",
}
TABLE_4 = {
    "all": "77.2 1.4  72.3 1.8  18.2 1.6  20.8 1.3  85.3 1.3  95.0 1.4",
    "1000": TABLE_3[1],
    "100": "75.1 2.8  69.4 3.6  25.0 3.4  27.8 3.3  86.9 1.6  98.0 1.2",
}
TABLE_5 = "91.6 0.8  58.9 7.4  50.8 8.7  5.3 1.3  39.9 7.4  40.5 7.5  86.7 2.0  95.8 1.6"
TABLE_6 = "19.5 0.1  19.7 0.1  0.0 0.0  99.7 0.1  86.1 3.5  86.3 3.6  77.8 4.4  96.9 3.4"

Row = dict[str, list[float]]  # a metric's value for every seed
ER: dict[str, Any] = {
    "scenario": "split-mnist", "strategy": "replay", "epochs": 10, "lr": 0.01, "alpha": 0.3,
    "memory": 2000, "fill": "end",
}  # fmt: skip
REDRAWN = {"subset": 1000, "resample": True}
FIXED = {"subset": 1000, "resample": False}


class Store:
    """The finished runs of a folder, and the metrics that were asked for."""

    def __init__(self, folder: Path) -> None:
        self.results: dict[str, Row] = {}
        self.made = Counter[str]()  # what the runs were made with
        self.runs = []
        for done in sorted(folder.glob("*/done.json")):
            whole = json.loads((done.parent / "run.json").read_text())
            said = whole["describe"] | {"torch": whole["versions"]["torch"]}
            said |= said["options"] | said["optimizer_options"] | {"folder": done.parent}
            self.runs.append(said)

    def row(self, label: str, *, rho: int = 1, papers: bool = False, **wanted: Any) -> Row:
        """Return the metrics of the runs described as wanted, in percent.

        `papers` counts as the paper's code does: see `papers_points`.
        """
        row: Row = {name: [] for name in IDS}
        found = [run for run in self.runs if all(run.get(k) == v for k, v in wanted.items())]
        if len({run["seed"] for run in found}) < len(found):
            raise SystemExit(f"{label}: a seed twice, expected one run of each; take a store apart")
        self.made.update(f"torch {run['torch']}, {run['device']}" for run in found)
        for run in sorted(found, key=lambda run: run["seed"]):
            if papers:
                with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
                    file.write(papers_points(run["folder"] / "points.csv", rho))
                    file.flush()
                    metrics = read_input(file.name).summary().metrics
            else:
                metrics = read_input(str(run["folder"]), InputOptions(thin=rho)).summary().metrics
            for name, id_ in IDS.items():
                if id_ in metrics:
                    row[name].append(100 * metrics[id_])
        self.results[label] = row
        return row


def papers_points(path: Path, rho: int) -> str:
    """Return a points.csv as the paper's code would have made it.

    It tests the task it enters before the first update, and counts that as any other test; and
    it tests after the updates 1, 1 + rho, 1 + 2 rho … of each task.
    """
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    began: dict[str, int] = {}
    for row in rows:
        if row["kind"] == "probe":
            began.setdefault(row["trained"], int(row["step"]))
    kept = ["step,trained,tested,kind,score,n"]
    for row in rows:
        # Steps are doubled to make room for the test before the first one of a task.
        step = 2 * int(row["step"]) + (row["kind"] == "initial")
        if row["kind"] == "probe" and (int(row["step"]) - began[row["trained"]]) % rho:
            continue
        kind = "probe" if row["kind"] == "initial" else row["kind"]
        kept.append(f"{step},{row['trained']},{row['tested']},{kind},{row['score']},{row['n']}")
    return "\n".join(kept) + "\n"


def main() -> None:
    """Print all tables of the store named on the command line, and write results.json."""
    store = Store(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/stability_gap"))
    periodicity(store)
    sample_sizes(store)
    online_and_naive(store)
    memory_sizes(store)
    rotated(store)
    kept = {
        label: {name: [round(v, 2) for v in values] for name, values in row.items()}
        for label, row in store.results.items()
    }
    all_ = {"made with": dict(store.made), "percent": kept}
    Path(__file__).with_name("results.json").write_text(json.dumps(all_) + "\n")


def periodicity(store: Store) -> None:
    """Print Table 3."""
    rows = []
    for rho, paper in TABLE_3.items():
        rows.append((f"{rho}", "paper", published(paper, SHORT)))
        for how, wanted in (("redrawn", REDRAWN), ("fixed", FIXED)):
            row = store.row(f"table 3, rho {rho}, {how}", rho=rho, **ER, **wanted)
            rows.append(("", how, row))
        row = store.row(f"table 3, rho {rho}, counted so", rho=rho, papers=True, **ER, **REDRAWN)
        rows.append(("", "redrawn, counted as the paper does", row))
    table("Table 3: evaluation periodicity, experience replay on Split-MNIST", "rho", SHORT, rows)


def sample_sizes(store: Store) -> None:
    """Print Table 4."""
    rows = []
    for size, paper in TABLE_4.items():
        rows.append((size, "paper", published(paper, SHORT)))
        number = None if size == "all" else int(size)
        for resample in (False,) if number is None else (True, False):
            how = "redrawn" if resample else "whole sets" if number is None else "fixed"
            row = store.row(f"table 4, {size}, {how}", **ER, subset=number, resample=resample)
            rows.append(("", how, row))
    table("Table 4: how many examples are tested", "n", SHORT, rows)


def online_and_naive(store: Store) -> None:
    """Print Tables 5 and 6."""
    rows = []
    naive = {"scenario": "split-mnist", "strategy": "naive", "epochs": 10}
    for label, paper, wanted in (
        ("online", TABLE_5, ER | {"epochs": 1}),
        ("fine-tuning", TABLE_6, naive),
    ):
        rows.append((label, "paper", published(paper, LONG)))
        for lr in (0.01, 0.1):
            mine = wanted | REDRAWN | {"lr": lr}
            rows.append(("", f"lr {lr:g}", store.row(f"{label}, lr {lr:g}", **mine)))
        row = store.row(f"{label}, lr {lr:g}, counted so", papers=True, **mine)
        rows.append(("", f"lr {lr:g}, counted as the paper does", row))
    table("Tables 5 and 6: online replay, and fine-tuning", "", LONG, rows)


def memory_sizes(store: Store) -> None:
    """Print what stands behind Figure 7."""
    rows = []
    for memory in (500, 1000, 2000, 60000):
        row = store.row(f"figure 7, memory {memory}", **(ER | REDRAWN | {"memory": memory}))
        rows.append((f"{memory}", "ours", row))
    row = store.row("class reservoir", **(ER | REDRAWN | {"fill": "reservoir"}))
    rows.append(("2000, filled while streaming", "ours", row))
    table("Figure 7: memory sizes, and a memory filled while streaming", "memory", LONG, rows)


def rotated(store: Store) -> None:
    """Print Table 2."""
    rows = []
    for phi, paper in TABLE_2.items():
        rows.append((f"{phi}°", "paper", published(paper, LONG)))
        for lr, alpha in ((0.1, 0.5), (0.01, 0.3)):
            for epochs in (1, 10):
                wanted = {"scenario": f"rotated-mnist-{phi}", "lr": lr, "alpha": alpha, **REDRAWN}
                name = f"lr {lr:g}, alpha {alpha:g}, {epochs} epoch{'s'[: epochs > 1]}"
                row = store.row(f"table 2, {phi} degrees, {name}", epochs=epochs, **wanted)
                rows.append(("", name, row))
    table("Table 2: Rotated-MNIST, memory 1000", "phi", LONG, rows)


def published(text: str, names: tuple[str, ...]) -> dict[str, tuple[float, float]]:
    """Return mean and SD by metric, from a line of a table."""
    numbers = [float(part) for part in text.split()]
    return {name: (numbers[2 * k], numbers[2 * k + 1]) for k, name in enumerate(names)}


def table(title: str, first: str, names: tuple[str, ...], rows: list[tuple[str, str, Any]]) -> None:
    """Print a Markdown table; cells that lie within the paper's SD of its mean are bold."""
    print(f"## {title}\n\n| {first} | | {' | '.join(names)} |\n|---|---|{'---|' * len(names)}")
    paper: dict[str, tuple[float, float]] = {}
    for label, who, row in rows:
        cells = []
        if who == "paper":
            paper = row
        for name in names:
            if who == "paper":
                mean, sd = row[name]
                cells.append(f"{mean:.1f} ± {sd:.1f}")
                continue
            values = row[name]
            if not values:
                cells.append("missing")
                continue
            mean = statistics.mean(values)
            sd = statistics.stdev(values) if len(values) > 1 else float("nan")
            cell = f"{mean:.1f} ± {sd:.1f}"
            near = name in paper and abs(mean - paper[name][0]) <= paper[name][1]
            cells.append(f"**{cell}**" if near else cell)
        print(f"| {label} | {who} | {' | '.join(cells)} |")
    print()


if __name__ == "__main__":
    main()
