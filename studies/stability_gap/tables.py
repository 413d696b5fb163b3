"""The tables of De Lange et al. 2023 next to ours, from the runs of run.sh.

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

from perdure.record import InputOptions, list_runs, read_input
from perdure.reproduction import find_published_result

IDS = {
    "ACC": "acc", "FORG": "forgetting.learned", "WC-ACC": "wc_acc", "min-ACC": "min_acc",
    "WF10": "wf10", "WF100": "wf100", "WP10": "wp10", "WP100": "wp100",
}  # fmt: skip
SHORT = ("WC-ACC", "min-ACC", "WF10", "WF100", "WP10", "WP100")
LONG = ("ACC", "WC-ACC", "min-ACC", "FORG", "WF10", "WF100", "WP10", "WP100")

Measured = dict[str, list[float]]  # a metric's value for every seed
Published = dict[str, tuple[float, float]]  # mean and SD in percent, by metric
TableRow = tuple[str, str, "Measured | Published"]  # label, source, numbers
PAPER = "paper"
ER: dict[str, object] = {
    "scenario": "split-mnist", "strategy": "replay", "epochs": 10, "lr": 0.01, "alpha": 0.3,
    "memory": 2000, "fill": "end",
}  # fmt: skip
RESAMPLED: dict[str, object] = {"subset": 1000, "resample": True}
FIXED: dict[str, object] = {"subset": 1000, "resample": False}


def published(name: str, table: str, **factors: object) -> Published:
    """Return the row of a published table that has these factors."""
    (row,) = [
        row
        for row in find_published_result(name).published
        if row.table == table
        and row.not_measured is None
        and all(getattr(row, factor) == value for factor, value in factors.items())
    ]
    numbers = {label: row.mean_and_sd(id_) for label, id_ in IDS.items() if id_ in row.values}
    return {label: (mean, sd) for label, (mean, sd) in numbers.items() if sd is not None}


class Store:
    """The finished runs of a folder, and the metrics that were asked for."""

    def __init__(self, folder: Path) -> None:
        self.results: dict[str, Measured] = {}
        self.versions = Counter[str]()  # of PyTorch, and devices
        self.runs = []
        for finished in (run for run in list_runs(folder) if run.is_finished()):
            metadata = finished.metadata()
            run = metadata.config | {"torch": metadata.versions["torch"], "folder": finished.path}
            self.runs.append(run | run["options"] | run["optimizer_options"])

    def measure(
        self, label: str, *, rho: int = 1, as_paper: bool = False, **config: object
    ) -> Measured:
        """Return the metrics of the runs with this config, in percent.

        `as_paper` counts evaluations as the paper's code does: see `papers_points`.
        """
        values: Measured = {name: [] for name in IDS}
        runs = [run for run in self.runs if all(run.get(k) == v for k, v in config.items())]
        if len({run["seed"] for run in runs}) < len(runs):
            raise SystemExit(f"{label}: a seed twice, expected one run per seed; split the store")
        self.versions.update(f"torch {run['torch']}, {run['device']}" for run in runs)
        for run in sorted(runs, key=lambda run: run["seed"]):
            source, options = str(run["folder"]), InputOptions(subsample=rho)
            with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
                if as_paper:
                    file.write(papers_points(run["folder"] / "points.csv", rho, run["epochs"]))
                    file.flush()
                    source, options = file.name, InputOptions()
                metrics = read_input(source, options).summary().metrics
            for name, id_ in IDS.items():
                if id_ in metrics:
                    values[name].append(100 * metrics[id_])
        self.results[label] = values
        return values


def papers_points(path: Path, rho: int, epochs: int) -> str:
    """Return a points.csv as the paper's code would have written it.

    It evaluates after updates 1, 1 + rho, 1 + 2 rho, … of each epoch, and the very first task
    before its first update as well. Evaluations of whole sets at task ends are left out.
    """
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    steps: dict[str, list[int]] = {}
    for row in rows:
        if row["kind"] == "probe":
            steps.setdefault(row["trained"], []).append(int(row["step"]))
    lines = ["step,trained,tested,kind,score,n"]
    for row in rows:
        if row["kind"] == "full" or (row["kind"] == "initial" and int(row["step"]) > 0):
            continue
        # Steps are doubled to make room for the evaluation before the first update.
        step = 2 * int(row["step"]) + (row["kind"] == "initial")
        if row["kind"] == "probe":
            first, last = min(steps[row["trained"]]), max(steps[row["trained"]])
            per_epoch = (last - first + 1) // epochs
            if (int(row["step"]) - first) % per_epoch % rho:
                continue
        lines.append(f"{step},{row['trained']},{row['tested']},probe,{row['score']},{row['n']}")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print all tables of the store named on the command line, and write results.json."""
    store = Store(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/stability_gap"))
    print_periodicity(store)
    print_sample_sizes(store)
    print_online_and_naive(store)
    print_memory_sizes(store)
    print_rotated(store)
    rounded = {
        label: {name: [round(v, 2) for v in values] for name, values in row.items()}
        for label, row in store.results.items()
    }
    results = {"versions": dict(store.versions), "percent": rounded}
    Path(__file__).with_name("results.json").write_text(json.dumps(results) + "\n")


def print_periodicity(store: Store) -> None:
    """Print Table 3."""
    rows: list[TableRow] = []
    for rho in (1, 10, 100, 1000):
        rows.append((f"{rho}", PAPER, published("delange-mnist", "3", subsample=rho)))
        for how, subset in (("resampled", RESAMPLED), ("fixed", FIXED)):
            row = store.measure(f"table 3, rho {rho}, {how}", rho=rho, **ER, **subset)
            rows.append(("", how, row))
        label = f"table 3, rho {rho}, counted as in the paper"
        row = store.measure(label, rho=rho, as_paper=True, **ER, **RESAMPLED)
        rows.append(("", "resampled, counted as in the paper", row))
    title = "Table 3: evaluation periodicity, experience replay on Split-MNIST"
    print_table(title, "rho", SHORT, rows)


def print_sample_sizes(store: Store) -> None:
    """Print Table 4."""
    rows: list[TableRow] = []
    for size in ("all", "1000", "100"):
        rows.append((size, PAPER, published("delange-mnist", "4", variant=f"n-{size}")))
        number = None if size == "all" else int(size)
        for resample in (False,) if number is None else (True, False):
            how = "resampled" if resample else "whole sets" if number is None else "fixed"
            config: dict[str, object] = {**ER, "subset": number, "resample": resample}
            rows.append(("", how, store.measure(f"table 4, {size}, {how}", **config)))
    print_table("Table 4: number of evaluated examples", "n", SHORT, rows)


def print_online_and_naive(store: Store) -> None:
    """Print Tables 5 and 6."""
    rows: list[TableRow] = []
    naive: dict[str, object] = {"scenario": "split-mnist", "strategy": "naive", "epochs": 10}
    for label, paper, config in (
        ("online", published("delange-online", "5", scenario="split-mnist"), ER | {"epochs": 1}),
        ("fine-tuning", published("delange-finetuning", "6", scenario="split-mnist"), naive),
    ):
        rows.append((label, PAPER, paper))
        for lr in (0.01, 0.1):
            config = config | RESAMPLED | {"lr": lr}
            rows.append(("", f"lr {lr:g}", store.measure(f"{label}, lr {lr:g}", **config)))
        name = f"lr {lr:g}, counted as in the paper"
        rows.append(("", name, store.measure(f"{label}, {name}", as_paper=True, **config)))
    print_table("Tables 5 and 6: online replay, and fine-tuning", "", LONG, rows)


def print_memory_sizes(store: Store) -> None:
    """Print the numbers of Figure 7."""
    rows: list[TableRow] = []
    for memory in (500, 1000, 2000, 60000):
        config = ER | RESAMPLED | {"memory": memory}
        rows.append((f"{memory}", "ours", store.measure(f"figure 7, memory {memory}", **config)))
    row = store.measure("class reservoir", **(ER | RESAMPLED | {"fill": "reservoir"}))
    rows.append(("2000, filled while streaming", "ours", row))
    title = "Figure 7: memory sizes, and a memory filled while streaming"
    print_table(title, "memory", LONG, rows)


def print_rotated(store: Store) -> None:
    """Print Table 2."""
    rows: list[TableRow] = []
    for phi in (10, 30, 60, 80):
        scenario = f"rotated-mnist-{phi}"
        rows.append((f"{phi}°", PAPER, published("delange-rotated", "2", scenario=scenario)))
        for lr, alpha in ((0.1, 0.5), (0.01, 0.3)):
            for epochs in (1, 10):
                config = {"scenario": scenario, "lr": lr, "alpha": alpha, "epochs": epochs}
                name = f"lr {lr:g}, alpha {alpha:g}, {epochs} epoch{'s'[: epochs > 1]}"
                row = store.measure(f"table 2, {phi} degrees, {name}", **config, **RESAMPLED)
                rows.append(("", name, row))
    print_table("Table 2: Rotated-MNIST, memory 1000", "phi", LONG, rows)


def print_table(title: str, first: str, names: tuple[str, ...], rows: list[TableRow]) -> None:
    """Print a Markdown table; means within the paper's SD of the paper's mean are bold."""
    print(f"## {title}\n\n| {first} | | {' | '.join(names)} |\n|---|---|{'---|' * len(names)}")
    paper: Published = {}
    for label, source, row in rows:
        cells = []
        for name in names:
            numbers = row[name]
            if isinstance(numbers, tuple):
                paper[name] = numbers
                cells.append(f"{numbers[0]:.1f} ± {numbers[1]:.1f}")
            else:
                cells.append(format_values(numbers, paper.get(name)))
        print(f"| {label} | {source} | {' | '.join(cells)} |")
    print()


def format_values(values: list[float], paper: tuple[float, float] | None) -> str:
    """Return mean and SD, in bold if the mean is within the paper's SD of the paper's mean."""
    if not values:
        return "missing"
    mean = statistics.mean(values)
    sd = statistics.stdev(values) if len(values) > 1 else float("nan")
    cell = f"{mean:.1f} ± {sd:.1f}"
    return f"**{cell}**" if paper and abs(mean - paper[0]) <= paper[1] else cell


if __name__ == "__main__":
    main()
