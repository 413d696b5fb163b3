"""The runs of a published result, or some of them, on one GPU.

python studies/gpu.py runs/cifar10 delange-cifar10 --variants n-1000 --set resample=false
python studies/gpu.py runs/m2i faber-vgg9 --settings domain --seeds 1 --set precision=bfloat16

What to run is in the result's TOML file (perdure reproduce lists the results); --set changes an
option or a hyperparameter of every run, which the comparison lists as a deviation. Seeds take turns
in one process if their steps become CUDA graphs, other runs follow one another. Finished runs are
not run again, and one that was interrupted (Ctrl-C, or timeout -s INT) resumes from its last
checkpoint. At the end, everything in the store that belongs to the result is compared with the
paper; --output also writes that comparison as JSON, and as Markdown next to it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import tomllib
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from perdure.execution import ExitEvent, Job, RunEvent, run_serially, run_together, suits_together
from perdure.record import InputError
from perdure.report.tables.study import claims_table, comparison_table
from perdure.reproduction import (
    ReproductionReport,
    collect_measurements,
    find_missing_data,
    find_published_result,
)
from perdure.reproduction.claims import check_claims
from perdure.reproduction.comparison import compare_with_published
from perdure.studies import Study, make_study, run_study, study_status

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perdure.training import RunConfig

SELECTED = {"scenarios": "scenario", "settings": "setting", "strategies": "strategy"}


def parse_arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("store", type=Path, help="folder in which runs are stored")
    parser.add_argument("name", help="published result, for example faber-vgg9")
    for factor in (*SELECTED, "variants"):
        parser.add_argument(f"--{factor}", nargs="+", help="run only these")
    parser.add_argument("--seeds", type=int, help="number of seeds; the result's if not given")
    parser.add_argument("--device", default="cuda")
    parser.add_argument(
        "--together", action="store_true", help="let runs of different cells take turns, too"
    )
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="KEY=VALUE", help="options of every run"
    )
    parser.add_argument("--note", nargs="+", default=[], help="lines to add, such as the machine")
    parser.add_argument("--dry-run", action="store_true", help="run nothing, only compare")
    parser.add_argument("--output", type=Path, help="JSON file with the comparison")
    return parser.parse_args()


def parse_options(arguments: argparse.Namespace) -> dict[str, object]:
    """Return the options given by --set, with values as in TOML."""
    options: dict[str, object] = {}
    for assignment in arguments.set:
        key, _, text = assignment.partition("=")
        try:
            options |= tomllib.loads(f"{key} = {text}")
        except tomllib.TOMLDecodeError:  # text without quotes
            options[key] = text
    return options


def build_study(arguments: argparse.Namespace, *, only_selected: bool) -> Study:
    """Return the study of a result as it is run on a GPU, or the selected part of it."""
    result, options = find_published_result(arguments.name), parse_options(arguments)
    scenarios = (only_selected and arguments.scenarios) or result.scenarios()
    missing = find_missing_data(scenarios)
    if len(missing) == len(scenarios):
        names = " ".join(sorted({name for names in missing.values() for name in names}))
        raise InputError(f"no data for {', '.join(scenarios)}: perdure data fetch {names}")
    plain = result.study_dict(without=list(missing), run={"device": arguments.device, **options})
    for factor, table in SELECTED.items():
        if only_selected and getattr(arguments, factor):
            plain[factor] = getattr(arguments, factor)
        overrides, names = plain.get(table, {}), plain.get(factor, [])
        assert isinstance(overrides, dict)
        assert isinstance(names, list)
        plain[table] = {
            name: {key: options.get(key, value) for key, value in values.items()}
            for name, values in overrides.items()
            if name in names
        }
    variants = plain.get("variant", {})
    assert isinstance(variants, dict)
    chosen = (only_selected and arguments.variants) or list(variants)
    plain["variant"] = {name: {**variants[name], **options} for name in chosen}
    plain["seeds"] = arguments.seeds or plain["seeds"]
    return make_study(plain, arguments.name)


def without_seed(job: Job) -> RunConfig:
    """Return what the runs of one cell have in common."""
    return msgspec.structs.replace(job.config, seed=0)


def execute(
    jobs: Sequence[Job], on_event: Callable[[Job, RunEvent], None], *, together: bool
) -> None:
    """Do all jobs: the seeds of a cell in turns where that is faster, the rest one by one."""
    for _, group in groupby(jobs, (lambda _: None) if together else without_seed):
        seeds = list(group)
        (run_together if suits_together(seeds) else run_serially)(seeds, on_event)


def compare(arguments: argparse.Namespace) -> ReproductionReport:
    """Return how the finished runs of the store compare with the paper."""
    result = find_published_result(arguments.name)
    study = build_study(arguments, only_selected=False)
    done, wanted = study_status(study, arguments.store).done, len(study.seed_list)
    runs = collect_measurements(result, done)
    deviations = [*result.deviations, *runs.deviations]
    deviations += [f"Other than above: {k} = {v}" for k, v in parse_options(arguments).items()]
    versions = {str(runs.run(cell.folders[0]).metadata.versions["torch"]) for cell in runs.cells}
    deviations += [f"PyTorch {', '.join(sorted(versions))}, {arguments.device}", *arguments.note]
    fewer = {cell: len(folders) for cell, folders in done.items() if 0 < len(folders) < wanted}
    deviations += [f"{cell}: {count} of {wanted} seeds" for cell, count in fewer.items()]
    rows = [row for row in compare_with_published(runs) if row.values]
    return ReproductionReport(
        result, quick=False, rows=rows, claims=check_claims(runs), deviations=deviations,
        figures=[], missing_data={}, failed={},
    )  # fmt: skip


def main() -> None:
    """Run what is missing, then compare."""
    arguments = parse_arguments()
    start = time.perf_counter()

    def print_end(job: Job, event: RunEvent) -> None:
        if isinstance(event, ExitEvent):
            seconds = time.perf_counter() - start
            print(f"{seconds:6.0f} s  {job.folder.name}: {job.error or 'finished'}", flush=True)

    if not arguments.dry_run:
        study = build_study(arguments, only_selected=True)
        run_study(study, arguments.store, partial(execute, together=arguments.together), print_end)
    report = compare(arguments)
    claims = [claim for claim in report.claims if claim.holds is not None]
    page = [f"# {report.result.name}", "", f"{report.result.paper}: {report.result.tables}", ""]
    if report.rows:
        shared = set.intersection(*(set(row.cell.items()) for row in report.rows))
        page += [f"All rows: {', '.join(map(' '.join, sorted(shared)))}.", ""] if shared else []
    page += [comparison_table(report.rows, report.result.digits).markdown(), ""]
    page += [claims_table(claims).markdown(), ""] if claims else []
    page += [f"{report.agreement}.", "", "Not as published:", ""]
    page += [f"- {line}" for line in report.deviations]
    print("\n".join(page))
    if arguments.output:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        text = "\n".join(page) + "\n"
        arguments.output.with_suffix(".md").write_text(text, encoding="utf-8")
        text = json.dumps(report.to_dict(), indent=1, allow_nan=False)
        arguments.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit("interrupted; the same command resumes") from None
    except InputError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
