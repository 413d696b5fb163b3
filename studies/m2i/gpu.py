"""The runs of a result of Faber et al. 2023, or some of them, on a GPU and one after the other.

python studies/m2i/gpu.py runs/m2i_gpu faber-vgg9 --settings domain --seeds 1
python studies/m2i/gpu.py runs/m2i_gpu faber-vgg9-avalanche --strategies mas si gem --seeds 1

What to run is in the result's TOML file (perdure reproduce lists the results). Finished runs are
not run again, and one that was interrupted (Ctrl-C, or timeout -s INT) resumes from its last
checkpoint. At the end, everything in the store that belongs to the result is compared with the
paper; --output also writes that comparison to NAME.json and NAME.md.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from perdure.execution import ExitEvent, Job, RunEvent, run_serially
from perdure.report.tables.reproduction import claims_table, comparison_table
from perdure.reproduction import (
    ReproductionReport,
    collect_measurements,
    find_published_result,
)
from perdure.reproduction.claims import check_claims
from perdure.reproduction.comparison import compare_with_published
from perdure.studies import Study, make_study, run_study, study_status

SELECTED = {"scenarios": "scenario", "settings": "setting", "strategies": "strategy"}


def parse_arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("store", type=Path, help="folder in which runs are stored")
    parser.add_argument("name", help="published result, for example faber-vgg9")
    for factor in SELECTED:
        parser.add_argument(f"--{factor}", nargs="+", help="run only these")
    parser.add_argument("--seeds", type=int, help="number of seeds; the result's if not given")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="bfloat16")
    parser.add_argument("--iterations", type=int, help="iterations per task, for a trial")
    parser.add_argument("--width", type=float, help="width of wide-vgg9, for a trial")
    parser.add_argument("--dry-run", action="store_true", help="run nothing, only compare")
    parser.add_argument("--output", type=Path, help="folder for NAME.json and NAME.md")
    return parser.parse_args()


def build_study(arguments: argparse.Namespace, *, only_selected: bool) -> Study:
    """Return the study of a result as it is run on a GPU, or the selected part of it."""
    run = {"device": arguments.device, "precision": arguments.precision, "channels_last": True}
    run |= {k: v for k in ("iterations", "width") if (v := getattr(arguments, k))}
    plain = find_published_result(arguments.name).study_dict(run=run)
    for factor, table in SELECTED.items() if only_selected else ():
        names = plain[factor] = getattr(arguments, factor) or plain[factor]
        overrides = plain.get(table, {})
        assert isinstance(names, list)
        assert isinstance(overrides, dict)
        plain[table] = {name: values for name, values in overrides.items() if name in names}
    plain["seeds"] = arguments.seeds or plain["seeds"]
    return make_study(plain, arguments.name)


def compare(arguments: argparse.Namespace) -> ReproductionReport:
    """Return how the finished runs of the store compare with the paper."""
    result = find_published_result(arguments.name)
    status = study_status(build_study(arguments, only_selected=False), arguments.store)
    runs = collect_measurements(result, status.done)
    deviations = [*result.deviations, f"precision {arguments.precision}", *runs.deviations]
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
        run_study(study, arguments.store, run_serially, print_end)
    report = compare(arguments)
    claims = [claim for claim in report.claims if claim.holds is not None]
    page = [f"# {report.result.name}", "", f"{report.result.paper}: {report.result.tables}", ""]
    page += [comparison_table(report.rows, report.result.digits).markdown(), ""]
    page += [claims_table(claims).markdown(), ""] if claims else []
    page += [f"{report.agreement}.", "", "Not as published:", ""]
    page += [f"- {line}" for line in report.deviations]
    print("\n".join(page))
    if arguments.output:
        arguments.output.mkdir(parents=True, exist_ok=True)
        path = arguments.output / report.result.name
        path.with_suffix(".md").write_text("\n".join(page) + "\n", encoding="utf-8")
        text = json.dumps(report.to_dict(), indent=1, allow_nan=False)
        path.with_suffix(".json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit("interrupted; the same command resumes") from None
