"""Tables 3 and 4 of Faber et al. 2023 next to ours: published, as published on a GPU, narrow.

python studies/m2i/tables.py narrow=runs/m2i gpu=runs/m2i_gpu   # Markdown; results_NAME.json

The runs of a store are added to results_NAME.json, those of seed 1 to results_NAME_seed1.json.
Runs with another network, or with options of the strategy that are not the scenario's, are left
out: studies/gpu.py compares them. Keep runs with other epochs in a store of their own.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import perdure
from perdure.record import list_runs
from perdure.reproduction import find_published_result
from perdure.training import make_config

FOLDER = Path(__file__).parent
STRATEGIES = (
    "naive", "cumulative", "replay", "gem", "agem", "ewc", "si", "mas", "lwf", "gdumb", "cwr-star",
)  # fmt: skip
IDS = {
    "class": ("acc.lower", "bwt.consecutive", "bwt.all"),
    "domain": ("acc.lower", "bwt.consecutive", "bwt.all", "fwt.upper"),
    "task": ("acc.lower", "bwt.consecutive", "bwt.all", "fwt.upper"),
}
# What the paper prints as task-incremental has one head for all tasks.
PRINTED = {"class": "class", "domain": "domain", "task": "domain"}
PAPER = {"acc.lower": "ACC", "bwt.consecutive": "BWT", "fwt.upper": "FWT"}
Results = dict[str, dict[str, float]]  # by "scenario setting strategy", then by id


def measure(store: Path) -> dict[int, Results]:
    """Return the metrics of every finished run of a store and its duration, by seed."""
    results: dict[int, Results] = defaultdict(dict)
    for folder in list_runs(store):
        if not folder.is_finished():
            continue
        run = perdure.open_run(folder.path)
        config: dict[str, Any] = dict(run.metadata.config)
        usual = make_config(config["scenario"], config["strategy"], setting=config["setting"])
        options = {**usual.options, **config["options"]}
        initialization = {
            known.get("initialization", "pytorch")
            for known in (config["model_options"], usual.model_options)
        }
        if (config["model"], options) != (usual.model, usual.options) or len(initialization) > 1:
            continue
        metrics = run.summary().metrics
        ids = (*IDS[config["setting"]], "ms", "ms.copies", "sss", "ce")
        row = {id_: float(metrics[id_]) for id_ in ids}
        row["seconds"] = float(run.costs.column("seconds_train").sum()) if run.costs else 0.0
        name = f"{config['scenario']} {config['setting']} {config['strategy']}"
        results[config["seed"]][name] = row
    return results


def add_results(name: str, store: Path) -> None:
    """Add the runs of a store to the files of results."""
    for seed, results in measure(store).items():
        file = FOLDER / (f"results_{name}_seed{seed}.json" if seed else f"results_{name}.json")
        known = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps(dict(sorted((known | results).items())), indent=1) + "\n")


def main() -> None:
    """Print a table per scenario and setting, and how ACC correlates with the paper's."""
    results: dict[str, Results] = {}
    for argument in sys.argv[1:]:
        name, _, store = argument.partition("=")
        if store:
            add_results(name, Path(store))
        results[name] = json.loads((FOLDER / f"results_{name}.json").read_text())
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
            accuracies = defaultdict[str, list[tuple[float, float]]](list)  # the paper's and ours
            for strategy in STRATEGIES:
                paper = published[scenario, PRINTED[setting], strategy]
                cells = [shorten(paper.mean_and_sd(id_)[0]) for id_ in printed]
                for name, measured in results.items():
                    row = measured.get(f"{scenario} {setting} {strategy}", {})
                    cells += [shorten(row[id_]) if id_ in row else "" for id_ in ids]
                    if row:
                        pair = paper.mean_and_sd("acc.lower")[0], row["acc.lower"]
                        accuracies[name].append(pair)
                print(f"| {strategy} | {' | '.join(cells)} |")
            for name, pairs in accuracies.items():
                r = shorten(statistics.correlation(*zip(*pairs, strict=True)))
                print(f"\nCorrelation with the paper's ACC, {name}, {len(pairs)} strategies: {r}")


def shorten(value: float) -> str:
    """Return a number as the paper prints it, without the 0.

    Example:
        >>> shorten(-0.0412)
        '-.041'
    """
    return f"{value:.3f}".replace("0.", ".", 1)


if __name__ == "__main__":
    main()
