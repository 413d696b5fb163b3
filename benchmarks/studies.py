"""What a study costs in addition to its runs: executors compared, overhead, status.

python benchmarks/studies.py            # all of it, about ten minutes on two cores
python benchmarks/studies.py executors  # or overhead, or status
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.execution import (
    ExitEvent,
    RunEvent,
    default_max_parallel,
    run_in_processes,
    run_on_ray,
    run_serially,
)
from perdure.studies import make_study, read_study, run_study, study_status

if TYPE_CHECKING:
    from perdure.execution import Job
    from perdure.studies import Study

RUN = {"epochs": 20, "every": 5, "hidden": 64}


def study(seeds: int, **run: Any) -> Study:
    """Return a study of short real runs."""
    plain = {
        "scenarios": ["split-digits"], "strategies": ["naive", "replay", "ewc", "gem", "lwf"],
        "seeds": seeds, "run": {**RUN, **run},
    }  # fmt: skip
    return make_study(plain, "short")


def measure_study(what: Study, store: Path, execute: Any) -> tuple[float, float]:
    """Return the seconds that a study took, and those inside its runs."""
    inside = []

    def on_event(job: Job, event: RunEvent) -> None:
        if isinstance(event, ExitEvent):
            assert job.error is None, job.error
            inside.append(job.seconds or 0.0)

    begin = time.perf_counter()
    status = run_study(what, store, execute, on_event)
    assert status.complete
    assert not status.failed
    return time.perf_counter() - begin, sum(inside)


def read_bits(store: Path) -> dict[str, bytes]:
    """Return what each run recorded, and the digest of its weights."""
    return {
        f"{path.parent.name}/{path.name}": path.read_bytes()
        for name in ("points.csv", "done.json")
        for path in store.glob(f"*/{name}")
    }


def executors(folder: Path) -> None:
    """Run 60 short runs through each executor: the same bits, and how long it takes."""
    what = study(seeds=12)
    ways = {"serial": run_serially, "processes": run_in_processes, "ray": run_on_ray}
    seconds, found = {}, {}
    for name, execute in ways.items():
        seconds[name], _ = measure_study(what, folder / name, execute)
        found[name] = read_bits(folder / name)
        print(f"60 runs, {name}: {seconds[name]:.1f} s, x{seconds['serial'] / seconds[name]:.2f}")
    assert len(found["serial"]) == 120
    assert found["serial"] == found["processes"] == found["ray"]
    print("the same bits in all: points and weights")


def overhead(folder: Path) -> None:
    """Run 500 short runs as processes: the share of the cores' time that is not in runs."""
    wall, inside = measure_study(study(seeds=100, epochs=8), folder / "many", run_in_processes)
    share = 1 - inside / (wall * default_max_parallel(1))
    print(
        f"500 runs, {default_max_parallel(1)} at a time: {wall:.1f} s, "
        f"{share:.1%} of it outside of the runs"
    )


def status(folder: Path) -> None:
    """Ask how far a study of 10,000 finished runs is, as a new process."""
    import subprocess

    file, store = folder / "ten.toml", folder / "ten"
    lines = ['scenarios = ["split-digits"]', "seeds = 200"]
    lines.append('strategies = ["naive", "replay", "ewc", "si", "mas"]')
    lines += [f"[variant.v{k}]\nlr = {0.001 * (k + 1):.3f}" for k in range(10)]
    file.write_text("\n".join(lines))
    what = read_study(file)
    for _, config in study_status(what, store).planned:
        run = store / config.folder
        run.mkdir(parents=True)
        (run / "run.json").write_text("{}")
        (run / "done.json").write_text("{}")
    begin = time.perf_counter()
    found = study_status(what, store)
    print(f"where 10,000 runs are: {time.perf_counter() - begin:.2f} s")
    assert found.finished == 10_000
    took = []
    for _ in range(3):
        begin = time.perf_counter()
        command = [sys.executable, "-m", "perdure", "study", "status", str(file), "--store"]
        subprocess.run([*command, str(store)], check=True, stdout=subprocess.DEVNULL)
        took.append(time.perf_counter() - begin)
    print(f"`perdure study status`: {took[0]:.2f} s the first time, then {min(took):.2f} s")


def main() -> None:
    """Run what is named on the command line, or everything."""
    wanted = sys.argv[1:] or ["executors", "overhead", "status"]
    with tempfile.TemporaryDirectory() as folder:
        for name in wanted:
            {"executors": executors, "overhead": overhead, "status": status}[name](Path(folder))


if __name__ == "__main__":
    main()
