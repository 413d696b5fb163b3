"""What pages cost: a report of 100 runs in a browser, and the live page over 10,000 runs.

python benchmarks/pages.py          # both, some minutes; needs Chromium
python benchmarks/pages.py report   # or live
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from playwright.sync_api import sync_playwright

from perdure.report.live.store_watcher import StoreWatcher

if TYPE_CHECKING:
    from collections.abc import Iterator

TASKS, STEPS = 5, 10_000
RUNS, VIEWERS, APPENDED = 10_000, 100, 20
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
    return {"schema": 3, "config": said, "setting": "class", "classes": [2] * TASKS,
            "tasks": [f"t{k}" for k in range(TASKS)], "notes": [],
            "scale": {"low": 0.0, "high": 1.0, "lower_is_better": False}}  # fmt: skip


def report(folder: Path) -> None:
    """Time a report of 100 runs: made, opened until it is drawn, and drawn again."""
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
            for label in ("m0: all tasks", "task t0: all methods"):
                begin = time.perf_counter()
                page.select_option("#view", label=label)
                page.evaluate("new Promise(requestAnimationFrame)")
                changed.append(time.perf_counter() - begin)
            page.close()
        drawn, view = statistics.median(opened), 1e3 * statistics.median(changed)
        print(f"open until drawn {drawn:.2f} s, another view {view:.0f} ms")
        browser.close()


def live(folder: Path) -> None:
    """Time the live page over 10,000 runs, one of them growing, with 100 who look at it."""
    store = folder / "runs"
    made(store, methods=RUNS // 10, seeds=10, steps=20)
    growing = store / "made-m0-s0"
    (growing / "done.json").unlink()
    begin = time.perf_counter()
    with watched(store) as (server, address):
        with urllib.request.urlopen(f"{address}api/runs") as answer:
            found = len(json.load(answer)["runs"])
        print(f"{found} runs: listed {time.perf_counter() - begin:.1f} s after the start")
        while any(row["acc"] is None for row in listed(address)):
            time.sleep(5)
        print(f"all of them summed up after {time.perf_counter() - begin:.1f} s")
        before, since = seconds_of(server.pid), time.perf_counter()
        waits = asyncio.run(looked_at(address, growing))
        share = (seconds_of(server.pid) - before) / (time.perf_counter() - since)
        print(
            f"a point until {VIEWERS} viewers have it: median {statistics.median(waits):.2f} s, "
            f"worst {max(waits):.2f} s; server {share:.0%} of a core, {memory_of(server.pid)} MB"
        )
        drawn_after(address)
    watching = StoreWatcher(store)
    polls = []
    for _ in range(120):
        begin = time.perf_counter()
        watching.poll(["made-m0-s0"], read_others=False)
        polls.append(1e3 * (time.perf_counter() - begin))
    print(f"a poll: median {statistics.median(polls):.0f} ms, worst {max(polls):.0f} ms")


@contextmanager
def watched(store: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`perdure watch` over a store, and its address."""
    command = [sys.executable, "-m", "perdure", "watch", str(store), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        said = re.search(r"http://\S+", server.stdout.readline())
        assert said is not None
        try:
            yield server, said[0]
        finally:
            server.terminate()


def listed(address: str) -> list[dict[str, Any]]:
    """Return the rows of the list."""
    with urllib.request.urlopen(f"{address}api/runs") as answer:
        return list(json.load(answer)["runs"])


async def looked_at(address: str, run: Path) -> list[float]:
    """Return how long each of many appended points took to each viewer, in seconds."""
    found = re.search(r"//([^:/]+):(\d+)", address)
    assert found is not None
    appended: dict[int, float] = {}
    waits: list[float] = []
    first = int((run / "points.csv").read_text().splitlines()[-1].split(",")[0]) + 1

    async def view() -> None:
        reader, writer = await asyncio.open_connection(found[1], int(found[2]), limit=1 << 24)
        asked = f"GET /events?run={run.name} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        writer.write(asked.encode())
        while (line := await reader.readline()) and len(appended) <= APPENDED:
            if line.startswith(b"data: ") and b'"mean"' in line:
                now, steps = time.perf_counter(), json.loads(line[6:])["points"]["mean"]["steps"]
                waits.extend(now - appended[step] for step in steps)
        writer.close()

    viewers = [asyncio.create_task(view()) for _ in range(VIEWERS)]
    await asyncio.sleep(2)
    for step in range(first, first + APPENDED):
        with (run / "points.csv").open("a") as file:
            file.write(f"{step},t{TASKS - 1},t0,probe,0.5,1000\n")
        appended[step] = time.perf_counter()
        await asyncio.sleep(1 + 0.037 * (step % 10))
    await asyncio.sleep(1)
    for viewer in viewers:
        viewer.cancel()
    await asyncio.gather(*viewers, return_exceptions=True)
    assert len(waits) == VIEWERS * APPENDED, len(waits)
    return waits


def seconds_of(process: int) -> float:
    """Return the processor time that a process has had."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_of(process: int) -> int:
    """Return the memory of a process in MB."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) // 1000


def drawn_after(address: str) -> None:
    """Print how long Chromium takes to show the list and to draw the curves of a run."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        lists, times = [], []
        for _ in range(5):
            page = browser.new_context().new_page()
            begin = time.perf_counter()
            page.goto(address, wait_until="commit")
            page.wait_for_selector("#runs .run:nth-child(200)", state="attached")
            lists.append(time.perf_counter() - begin)
            page.wait_for_selector("#chart .curve", state="attached")
            times.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        page.fill("#words", "m77-")
        page.wait_for_function("() => document.getElementById('runs').children.length === 10")
        filtered = 1e3 * (time.perf_counter() - begin)
        listed_, drawn = statistics.median(lists), statistics.median(times)
        print(f"open until listed {listed_:.2f} s, drawn {drawn:.2f} s; a filter {filtered:.0f} ms")
        browser.close()


if __name__ == "__main__":
    parts = {"report": report, "live": live}
    wanted = sys.argv[1:] or list(parts)
    for name in wanted:
        with tempfile.TemporaryDirectory() as where:
            parts[name](Path(where))
