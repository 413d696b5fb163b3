"""A study before it runs: its runs, and about how long each takes here."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ._output import print_json, print_lines, print_stderr
from ._study_view import in_words

if TYPE_CHECKING:
    from pathlib import Path

    from ..studies import Study

__all__ = ["dry_run"]


def dry_run(study: Study, store: Path, jobs: int | None, *, retry: bool, json: bool) -> int:
    """List the runs and about how long each takes here, and return the exit code."""
    from .. import execution, studies, training

    seconds: dict[bytes, float] = {}
    runs: list[dict[str, Any]] = []
    status = studies.study_status(study, store)
    states = dict.fromkeys((folder.name for folder in status.waiting), "waiting")
    states |= {folder.name: "waiting" if retry else "failed" for folder in status.failed}
    states |= {run.config.folder: "waiting" for run in status.after_selection}
    for cell, config in (*status.planned, *status.after_selection):
        state = states.get(config.folder, "done")
        kind = training.make_duration_key(config)
        if state == "waiting" and kind not in seconds:
            if not json:
                print_stderr(f"measuring {cell}")
            seconds[kind] = training.estimate_seconds(config)
        takes = seconds[kind] if state == "waiting" else 0
        runs.append(
            {"folder": config.folder, "done": state == "done", "state": state,
             "seconds": takes}
        )  # fmt: skip
    total = sum(run["seconds"] for run in runs)
    if json:
        print_json({"runs": runs, "seconds": total})
        return 0
    for run in runs:
        waits = run["state"] == "waiting"
        print_lines(f"{run['folder']}  {in_words(run['seconds']) if waits else run['state']}")
    max_parallel = jobs or execution.default_max_parallel(1)
    count = Counter(run["state"] for run in runs)
    print_lines(
        f"{len(runs)} runs: {count['done']} done, {count['failed']} failed, "
        f"{count['waiting']} to do; about {in_words(total)} one after the other, "
        f"{in_words(total / max_parallel)} with {max_parallel} at a time"
    )
    return 0
