"""Tables 3 and 4 of Faber et al. 2023 next to ours: published, as published on a GPU, narrow.

python studies/m2i/tables.py narrow=runs/m2i gpu=runs/m2i_gpu   # Markdown; results_NAME.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import perdure
from perdure.record import list_runs
from perdure.reproduction import find_published_result

STRATEGIES = (
    "naive", "cumulative", "replay", "gem", "agem", "ewc", "si", "mas", "lwf", "gdumb", "cwr-star",
)  # fmt: skip
IDS = {
    "class": ("acc.lower", "bwt.consecutive", "bwt.all"),
    "task": ("acc.lower", "bwt.consecutive", "bwt.all", "fwt.upper"),
    "domain": ("acc.lower", "bwt.consecutive", "bwt.all", "fwt.upper"),
}
PAPER = {"acc.lower": "ACC", "bwt.consecutive": "BWT", "fwt.upper": "FWT"}
Results = dict[str, dict[str, float]]  # by "scenario setting strategy", then by id


def measure(store: Path) -> Results:
    """Return the metrics of every finished run of a store, and its duration."""
    results: Results = {}
    for folder in list_runs(store):
        if not folder.is_finished():
            continue
        run = perdure.open_run(folder.path)
        config = run.metadata.config
        metrics = run.summary().metrics
        ids = (*IDS[config["setting"]], "ms", "ms.copies", "sss", "ce")
        row = {id_: float(metrics[id_]) for id_ in ids}
        row["seconds"] = float(run.costs.column("seconds_train").sum()) if run.costs else 0.0
        results[f"{config['scenario']} {config['setting']} {config['strategy']}"] = row
    return results


def main() -> None:
    """Print a table per scenario and setting."""
    results: dict[str, Results] = {}
    for argument in sys.argv[1:]:
        name, _, store = argument.partition("=")
        file = Path(__file__).parent / f"results_{name}.json"
        if store:
            file.write_text(json.dumps(measure(Path(store)), indent=1) + "\n")
        results[name] = json.loads(file.read_text())
    published = {
        (row.scenario, row.setting, row.strategy): row
        for row in find_published_result("faber-vgg9").published
    }
    for scenario in ("m2i", "i2m"):
        for setting, ids in IDS.items():
            printed = [id_ for id_ in PAPER if id_ in ids]
            header = [f"paper: {PAPER[id_]}" for id_ in printed]
            header += [f"{name}: {id_}" for name in results for id_ in ids]
            print(f"\n## {scenario.upper()}, {setting}-incremental\n")
            print(f"| strategy | {' | '.join(header)} |")
            print(f"|---|{'---:|' * len(header)}")
            for strategy in STRATEGIES:
                # What the paper calls task-incremental has one head for all tasks.
                as_printed = "task" if setting == "domain" else setting
                paper = published[scenario, as_printed, strategy]
                cells = [shorten(paper.mean_and_sd(id_)[0]) for id_ in printed]
                for measured in results.values():
                    row = measured.get(f"{scenario} {setting} {strategy}", {})
                    cells += [shorten(row[id_]) if id_ in row else "" for id_ in ids]
                print(f"| {strategy} | {' | '.join(cells)} |")


def shorten(value: float) -> str:
    """Return a number as the paper prints it, without the 0.

    Example:
        >>> shorten(-0.0412)
        '-.041'
    """
    return f"{value:.3f}".replace("0.", ".", 1)


if __name__ == "__main__":
    main()
