"""Tables 3 and 4 of Faber et al. beside ours: published, as published on a GPU, narrow.

python studies/m2i/tables.py narrow=runs/m2i gpu=runs/m2i_gpu   # Markdown; results_NAME.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import perdure

ORDER = (
    "naive", "cumulative", "replay", "gem", "agem", "ewc", "si", "mas", "lwf", "gdumb", "cwr-star",
)  # fmt: skip
# ACC, BWT; ACC, BWT, FWT of the class- and of the task-incremental setting, as printed.
PUBLISHED = {
    "m2i": {
        "agem": ".188 -.241 .472 -.161 .101", "cumulative": ".868 .004 .819 .012 .102",
        "cwr-star": ".324 -.044 .356 -.019 .094", "ewc": ".220 -.271 .395 -.224 .102",
        "gem": ".572 -.074 .613 -.053 .099", "gdumb": ".304 -.040 .235 -.071 .092",
        "lwf": ".222 -.270 .349 -.083 .096", "mas": ".215 -.260 .440 -.212 .100",
        "naive": ".213 -.261 .411 -.228 .093", "replay": ".755 -.038 .730 -.086 .101",
        "si": ".206 -.255 .419 -.219 .107",
    },
    "i2m": {
        "agem": ".175 -.180 .345 -.094 .131", "cumulative": ".735 .012 .663 .018 .120",
        "cwr-star": ".079 -.037 .202 -.011 .107", "ewc": ".190 -.202 .340 -.161 .126",
        "gem": ".297 -.031 .269 .005 .117", "gdumb": ".155 -.052 .147 .000 .085",
        "lwf": ".216 -.238 .262 -.105 .088", "mas": ".223 -.241 .342 -.148 .130",
        "naive": ".199 -.215 .334 -.160 .131", "replay": ".550 -.047 .571 -.061 .135",
        "si": ".205 -.223 .323 -.170 .134",
    },
}  # fmt: skip
IDS = {
    "class": ("acc.lower", "bwt.consecutive", "bwt.all"),
    "task": ("acc.lower", "bwt.consecutive", "bwt.all", "fwt.upper"),
}
Results = dict[str, dict[str, float]]  # by "scenario setting strategy", then by id


def measured(store: Path) -> Results:
    """Return the metrics of every finished run of a store, and how long it took."""
    found: Results = {}
    for done in sorted(store.glob("*/done.json")):
        read = perdure.open_run(done.parent)
        said = json.loads((done.parent / "run.json").read_text())["describe"]
        metrics = read.summary().metrics
        row = {id_: float(metrics[id_]) for id_ in IDS[said["setting"]]}
        row |= {id_: float(metrics[id_]) for id_ in ("ms", "ms.copies", "sss", "ce")}
        row["seconds"] = float(read.costs.column("seconds_train").sum()) if read.costs else 0.0
        found[f"{said['scenario']} {said['setting']} {said['strategy']}"] = row
    return found


def main() -> None:
    """Print a table for each scenario and setting."""
    results: dict[str, Results] = {}
    for argument in sys.argv[1:]:
        name, _, store = argument.partition("=")
        kept = Path(__file__).parent / f"results_{name}.json"
        if store:
            kept.write_text(json.dumps(measured(Path(store)), indent=1) + "\n")
        results[name] = json.loads(kept.read_text())
    for scenario, published in PUBLISHED.items():
        for setting, ids in IDS.items():
            head = [f"{name}: {id_}" for name in results for id_ in ids]
            paper = ["paper: ACC", "paper: BWT", *(["paper: FWT"] if setting == "task" else [])]
            print(f"\n## {scenario.upper()}, {setting}-incremental\n")
            print(f"| strategy | {' | '.join([*paper, *head])} |")
            print(f"|---|{'---:|' * len([*paper, *head])}")
            for strategy in ORDER:
                given = published[strategy].split()
                cells = given[2:] if setting == "task" else given[:2]
                for found in results.values():
                    row = found.get(f"{scenario} {setting} {strategy}", {})
                    cells += [short(row[id_]) if id_ in row else "" for id_ in ids]
                print(f"| {strategy} | {' | '.join(cells)} |")


def short(value: float) -> str:
    """Return a number as the paper prints it, without the 0.

    Example:
        >>> short(-0.0412)
        '-.041'
    """
    return f"{value:.3f}".replace("0.", ".", 1)


if __name__ == "__main__":
    main()
