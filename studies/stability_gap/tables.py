"""The tables of De Lange et al. (2023) beside ours, from the runs of run.sh.

python studies/stability_gap/tables.py runs/stability_gap    # prints Markdown, writes results.json
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

from perdure.record import Given, read_source

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


def main() -> None:
    """Print all tables of the store named on the command line."""
    runs = read_runs(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/stability_gap"))
    results: dict[str, Row] = {}

    def found(label: str, thin: int = 1, **wanted: Any) -> Row:
        mine = [run for run in runs if matches(run, wanted)]
        row: Row = {name: [] for name in IDS}
        for run in sorted(mine, key=lambda run: run["seed"]):
            metrics = read_source(str(run["folder"]), given=Given(thin=thin)).summary().metrics
            for name, id_ in IDS.items():
                if id_ in metrics:
                    row[name].append(100 * metrics[id_])
        results[label] = row
        return row

    er: dict[str, Any] = {
        "scenario": "split-mnist", "strategy": "replay", "epochs": 10, "memory": 2000,
        "fill": "end",
    }  # fmt: skip
    redrawn = {"subset": 1000, "redraw": True}
    print("## Table 3: evaluation periodicity, experience replay on Split-MNIST\n")
    rows = []
    for rho, paper in TABLE_3.items():
        rows.append((f"{rho}", "paper", published(paper, SHORT)))
        rows.append(("", "redrawn", found(f"table 3, rho {rho}, redrawn", rho, **er, **redrawn)))
        fixed = {"subset": 1000, "redraw": False}
        rows.append(("", "fixed", found(f"table 3, rho {rho}, fixed", rho, **er, **fixed)))
    table("rho", SHORT, rows)

    print("## Table 4: how many examples are tested\n")
    rows = []
    for size, paper in TABLE_4.items():
        rows.append((size, "paper", published(paper, SHORT)))
        number = None if size == "all" else int(size)
        for redraw in (False,) if number is None else (True, False):
            how = "redrawn" if redraw else "whole sets" if number is None else "fixed"
            row = found(f"table 4, {size}, {how}", **er, subset=number, redraw=redraw)
            rows.append(("", how, row))
    table("n", SHORT, rows)

    print("## Tables 5 and 6: online replay, and fine-tuning\n")
    online = er | redrawn | {"epochs": 1}
    naive = {"scenario": "split-mnist", "strategy": "naive", "epochs": 10, **redrawn}
    rows = [
        ("online", "paper", published(TABLE_5, LONG)),
        ("", "ours", found("table 5, online", **online)),
        ("fine-tuning", "paper", published(TABLE_6, LONG)),
        ("", "ours", found("table 6, fine-tuning", **naive)),
    ]
    table("", LONG, rows)

    print("## Figure 7: memory sizes, and a memory filled while streaming\n")
    rows = []
    for memory in (500, 1000, 2000, 60000):
        row = found(f"figure 7, memory {memory}", **(er | redrawn | {"memory": memory}))
        rows.append((f"{memory}", "ours", row))
    row = found("class reservoir", **(er | redrawn | {"fill": "reservoir"}))
    rows.append(("2000, class reservoir", "ours", row))
    table("memory", LONG, rows)

    print("## Table 2: Rotated-MNIST, memory 1000\n")
    rows = []
    for phi, paper in TABLE_2.items():
        rows.append((f"{phi}°", "paper", published(paper, LONG)))
        for epochs in (1, 10):
            wanted = {"scenario": f"rotated-mnist-{phi}", "epochs": epochs, **redrawn}
            row = found(f"table 2, {phi} degrees, {epochs} epochs", **wanted)
            rows.append(("", f"{epochs} epoch{'s'[: epochs > 1]}", row))
    table("phi", LONG, rows)
    kept = {label: {k: [round(v, 3) for v in vs] for k, vs in row.items()}
            for label, row in results.items()}  # fmt: skip
    Path(__file__).with_name("results.json").write_text(json.dumps(kept, indent=1) + "\n")


def read_runs(store: Path) -> list[dict[str, Any]]:
    """Return what every finished run of the store says of itself."""
    runs = []
    for done in sorted(store.glob("*/done.json")):
        said = json.loads((done.parent / "run.json").read_text())["describe"]
        runs.append(said | said["options"] | {"folder": done.parent})
    return runs


def matches(run: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Return whether a run is described as wanted."""
    return all(run.get(key) == value for key, value in wanted.items())


def published(text: str, names: tuple[str, ...]) -> dict[str, tuple[float, float]]:
    """Return mean and SD by metric, from a line of a table."""
    numbers = [float(part) for part in text.split()]
    return {name: (numbers[2 * k], numbers[2 * k + 1]) for k, name in enumerate(names)}


def table(first: str, names: tuple[str, ...], rows: list[tuple[str, str, Any]]) -> None:
    """Print a Markdown table; cells that lie within the paper's SD of its mean are bold."""
    print(f"| {first} | | {' | '.join(names)} |\n|---|---|{'---|' * len(names)}")
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
