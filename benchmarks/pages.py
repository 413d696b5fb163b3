"""What pages cost: a report of 100 runs in a browser, and the live page over 10,000 runs.

python benchmarks/pages.py          # both, some minutes; needs Chromium
python benchmarks/pages.py report   # or live
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright

TASKS, STEPS = 5, 10_000
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def made(store: Path, methods: int, seeds: int, steps: int = STEPS) -> None:
    """Write finished runs whose older tasks dip at every switch; every task tested each step."""
    rng = np.random.default_rng(0)
    each = steps // TASKS
    for method in range(methods):
        for seed in range(seeds):
            folder = store / f"made-m{method}-s{seed}"
            folder.mkdir(parents=True)
            lines = ["step,trained,tested,kind,score,n"]
            noise = rng.normal(0, 0.01, (steps + 1, TASKS))
            for step in range(1, steps + 1):
                now, since = (step - 1) // each, (step - 1) % each
                for task in range(now + 1):
                    dip = 0.5 * np.exp(-since / 20) if task < now else 0.0
                    score = np.clip(0.95 - 0.02 * (now - task) - dip + noise[step, task], 0, 1)
                    lines.append(f"{step},t{now},t{task},probe,{score:.3f},1000")
            (folder / "points.csv").write_text("\n".join(lines) + "\n")
            (folder / "run.json").write_text(json.dumps(described(f"m{method}", seed)))
            (folder / "done.json").write_text("{}")


def described(strategy: str, seed: int) -> dict[str, Any]:
    """Return the run.json of a made run."""
    said = {"scenario": "made", "strategy": strategy, "seed": seed, "setting": "class"}
    return {"schema": 1, "describe": said, "setting": "class", "classes": [2] * TASKS,
            "tasks": [f"t{k}" for k in range(TASKS)], "notes": [],
            "scale": {"low": 0.0, "high": 1.0, "lower_is_better": False}}  # fmt: skip


def report(folder: Path) -> None:
    """Time a report of 100 runs: made, opened until it is drawn, and drawn anew."""
    made(folder / "runs", methods=10, seeds=10)
    begin = time.perf_counter()
    file = folder / "report.html"
    command = [sys.executable, "-m", "perdure", "report", str(folder / "runs"), "-o", str(file)]
    subprocess.run(command, check=True, capture_output=True)
    print(
        f"100 runs x {STEPS} steps x {TASKS} tasks: made in {time.perf_counter() - begin:.1f} s, ",
        end="",
    )
    print(f"{file.stat().st_size / 1e6:.1f} MB")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        opened, changed = [], []
        for _ in range(5):
            page = browser.new_page()
            begin = time.perf_counter()
            page.goto(file.as_uri())
            page.wait_for_selector("html[data-drawn=yes]")
            opened.append(time.perf_counter() - begin)
            for label in ("m0: every task", "task t0: every method"):
                begin = time.perf_counter()
                page.select_option("#view", label=label)
                page.evaluate("new Promise(requestAnimationFrame)")
                changed.append(time.perf_counter() - begin)
            page.close()
        drawn, view = statistics.median(opened), 1e3 * statistics.median(changed)
        print(f"open until drawn {drawn:.2f} s, another view {view:.0f} ms")
        browser.close()


if __name__ == "__main__":
    wanted = sys.argv[1:] or ["report"]
    for name in wanted:
        with tempfile.TemporaryDirectory() as where:
            {"report": report}[name](Path(where))
