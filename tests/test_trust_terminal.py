"""Whatever files say, a terminal shows it: nothing in a name drives it or forges a line."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from perdure._display import escape_line

from .cli_helpers import run
from .study_helpers import flat, made_run

if TYPE_CHECKING:
    from pathlib import Path

# Clear the screen, set its title, go back and write over, forge lines, turn text around.
EVIL = "x\x1b[2J\x1b]0;owned\x07\rFORGED\nFORGED\x85FORGED"
EVIL += "\u2028FORGED\u202eback\u2066\x9b31m\x7f\udc80"
IN_A_PATH = EVIL.replace("\udc80", "").replace("/", "")
OURS = re.compile(r"\x1b\[[0-9;]*m")  # how Rich writes bold and colours


def drives(text: str) -> list[str]:
    """Return what in a text a terminal would obey, and lines that somebody has forged."""
    plain = OURS.sub("", text)
    odd = [each for each in plain if not (each.isprintable() or each in "\n\xa0")]
    return odd + [line for line in plain.split("\n") if line.startswith("FORGED")]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs whose folders, tasks, descriptions, notes and failures all say it."""
    store = tmp_path_factory.mktemp("evil") / "runs"
    for seed in range(2):
        for k in range(2):
            folder = store / f"{IN_A_PATH}{k}-s{seed}"
            made_run(folder, flat(0.5 + k / 10 + seed / 100))
            points = folder / "points.csv"
            task = f'"{EVIL}"'.encode(errors="replace").decode()
            points.write_text(points.read_text().replace(",a,", f",{task},"), newline="")
            said = json.loads((folder / "run.json").read_text())
            more = {
                "config": {"strategy": f"{EVIL}{k}", "scenario": EVIL, "seed": seed, EVIL: EVIL},
                "notes": [EVIL], "score": EVIL,
            }  # fmt: skip
            (folder / "run.json").write_text(json.dumps(said | more))
    failed = store / f"{IN_A_PATH}failed"
    failed.mkdir()
    (failed / "failed.json").write_text(json.dumps({"error": EVIL, "code": 2}))
    (failed / "run.json").write_text(json.dumps({"config": {"strategy": EVIL}}))
    return store


FORMS: tuple[tuple[str, ...], ...] = (
    (),
    *(("--format", name) for name in ("json", "csv", "markdown", "latex")),
)


def commands(store: Path, folder: Path) -> list[list[Any]]:
    runs = sorted(path for path in store.iterdir() if path.name.endswith(("-s0", "-s1")))
    evil = folder / f"{IN_A_PATH}.csv"
    evil.write_text("0.9,\n0.6,0.8\n")
    bad = folder / f"{IN_A_PATH}bad.csv"
    bad.write_text(f"{EVIL},{EVIL}".encode(errors="replace").decode() + "\n0.9,0.8\n")
    study = folder / f"{IN_A_PATH}.toml"
    about = json.dumps(EVIL.replace("\udc80", "")).replace("\\u007f", "\x7f")
    study.write_text(
        f'about = {about}\nscenarios = ["split-digits"]\nstrategies = ["naive"]\nseeds = 1\n'
    )
    return [
        *(["score", store, *form] for form in FORMS),
        *(["score", runs[0], *form] for form in FORMS),
        *(["score", evil, *form] for form in FORMS),
        ["score", bad],
        ["score", store / f"{IN_A_PATH}failed"],
        ["score", folder / IN_A_PATH],
        *(["compare", store, *form] for form in FORMS),
        ["compare", f"{IN_A_PATH}={runs[0]}", f"b={runs[2]}"],
        ["plot", "curves", store, "-o", folder / f"{IN_A_PATH}.png"],
        ["plot", IN_A_PATH, store],
        ["report", store, "-o", folder / f"{IN_A_PATH}.html"],
        ["plan", "--from-run", runs[0]],
        ["study", "status", study, "--store", store],
        ["study", "status", study, "--store", store, "--format", "json"],
        ["study", "report", study, "--store", store],
        ["study", "run", study, "--store", store, "--dry-run"],
        ["run", IN_A_PATH, "naive"],
        ["run", "split-digits", IN_A_PATH],
        ["run", "split-digits", f"{IN_A_PATH}:x"],
        ["explain", IN_A_PATH],
        ["data", "where", IN_A_PATH],
        ["watch", folder / IN_A_PATH],
    ]


@pytest.mark.parametrize("terminal", [False, True])
def test_nothing_from_a_file_drives_the_terminal(
    terminal: bool, store: Path, tmp_path: Path
) -> None:
    shown = 0
    for arguments in commands(store, tmp_path):
        answer = run(*arguments, terminal=terminal)
        assert answer.code in (0, 1, 2), (arguments, answer.err)
        assert "Traceback" not in answer.err, (arguments, answer.err)
        assert drives(answer.out + answer.err) == [], arguments
        shown += "owned" in answer.out + answer.err
    assert shown > 20  # it was there to be seen


def test_what_is_printable_stays() -> None:
    for text in ("größer ± 1", "任务 一", "задача", "a\xa0b", "  indented", "↑ 🙂"):
        assert escape_line(text) == text
    assert escape_line("a\r\n\tb") == "a b"
    assert escape_line("\x00\x1b\x9b\u200e\ufeff\udcff") == r"\x00\x1b\x9b\u200e\ufeff\udcff"
