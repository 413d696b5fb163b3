"""Tables on a terminal: every number whole at any width, plain text in pipes."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.report.tables import TextTable
from perdure.report.tables.text_table import choose_parts

from .cli_helpers import run

if TYPE_CHECKING:
    from pathlib import Path

HEADER = ["strategy", "acc", "forgetting.learned", "min_acc", "name"]
ROWS = [
    ["replay", "0.824 ± 0.011", "0.196 ± 0.012", "0.412", "what replay of old examples keeps"],
    ["naive", "0.324 ± 0.011", "-0.796 ± 0.012", "0.012", "nothing"],
]
NUMBERS = {"acc", "forgetting.learned", "min_acc"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(width: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    TextTable(HEADER, ROWS, title="a title", right=NUMBERS).show(out)
    return re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).splitlines()


@pytest.mark.parametrize("width", [200, 100, 80, 60, 40, 30])
def test_no_number_is_cut_and_no_line_too_long(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(width, monkeypatch)
    assert max(map(len, lines)) <= width
    for row in ROWS:
        for k in (1, 2, 3):
            mine = [line for line in lines if line.startswith(row[0])]
            assert any(re.search(rf"(?<!\S){re.escape(row[k])}(?!\S)", line) for line in mine)
    words = " ".join(lines)
    assert all(word in words for word in ROWS[0][4].split())


def test_wide_terminals_have_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sum(line.startswith("strategy") for line in shown(200, monkeypatch)) == 1
    assert sum(line.startswith("strategy") for line in shown(40, monkeypatch)) > 1


def test_pipes_get_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    out = io.StringIO()
    TextTable(HEADER, ROWS, right=NUMBERS).show(out)
    assert "\x1b" not in out.getvalue()
    assert len(out.getvalue().splitlines()) == 3


@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.integers(20, 200), st.data())
def test_every_column_is_in_one_part_that_fits(
    widths: list[int], width: int, data: st.DataObject
) -> None:
    header = [f"c{k}".ljust(wide, "x") for k, wide in enumerate(widths)]
    right = data.draw(st.sets(st.sampled_from(header)))
    parts = choose_parts([header, ["1"] * len(header)], right, width)
    if parts is None:  # a list: too wide, and text to wrap or a part that would not fit
        assert sum(widths) + 2 * (len(widths) - 1) > width
        return
    assert [k for part in parts for k in part if k] == list(range(1, len(header)))
    assert all(part[0] == 0 for part in parts)
    for part in parts:
        least = [len(header[k]) if header[k] in right or not k else 12 for k in part]
        room = sum(min(a, len(header[k])) for a, k in zip(least, part, strict=True))
        assert room + 2 * (len(part) - 1) <= width


def test_text_becomes_a_list_with_one_block_per_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    out = Terminal()
    rows = [["ewc", "\u2191", "penalizes changes of weights", "Kirkpatrick et al. 2017"], ["b"] * 4]
    TextTable(["name", "", "what it does", "paper"], rows).show(out)
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in out.getvalue().splitlines()]
    assert lines == [
        "ewc \u2191",
        "  what it does  penalizes changes of",
        "                weights",
        "  paper         Kirkpatrick et al. 2017",
        "",
        "b b",
        "  what it does  b",
        "  paper         b",
    ]


# Every command that prints a table


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two methods of two seeds, and a study file whose runs are not there."""
    folder = tmp_path_factory.mktemp("widths")
    for strategy in ("replay", "a strategy with a name that takes much of a line"):
        for seed in (0, 1):
            make_run(folder / "runs" / f"{strategy}-{seed}", strategy, seed)
    study = 'scenarios = ["split-digits"]\nstrategies = ["naive", "replay"]\nseeds = 1\n'
    (folder / "mine.toml").write_text(study)
    return folder


def make_run(folder: Path, strategy: str, seed: int) -> None:
    folder.mkdir(parents=True)
    config = {"strategy": strategy, "seed": seed, "scenario": "split-digits"}
    run_json = {"schema": 3, "tasks": list("abcde"), "config": config}
    (folder / "run.json").write_text(json.dumps(run_json))
    lines = ["step,trained,tested,kind,score,n"]
    for t, trained in enumerate("abcde"):
        for step in (2 * t + 1, 2 * t + 2):
            for k, tested in enumerate("abcde"[: t + 1]):
                score = (97 * step + 31 * k + 13 * seed + len(strategy)) % 100 / 100
                lines.append(f"{step},{trained},{tested},probe,{score},500")
    (folder / "points.csv").write_text("\n".join(lines) + "\n")
    (folder / "done.json").write_text("{}")


LISTS = ["metrics", "tools", "scenarios", "strategies", "models"]
TABLES = [
    "data list",
    "reproduce",
    "score runs --per-task",
    "score runs --as mammoth",
    "compare runs --metrics acc,bwt,min_acc,wc_acc,wf10,wp10,forgetting.learned,acc.learning",
    "plan --iterations 100,100,100 --train-ms 2 --example-us 1",
    "study report mine.toml",
    "explain avalanche forgetting ewc split-mnist",
    "run split-digits replay --orders 2 --seeds 3 --dry-run",
]


def test_a_name_is_wrapped_before_numbers_are_split() -> None:
    """The table of `perdure run` is one table at 80 columns."""
    header = ["id", "", "value", "SD", "95% interval", "name"]
    row = ["forgetting.learned", "↓", "-0.0833", "0.1443", "-0.4419 to 0.2752",
           "forgetting since learning"]  # fmt: skip
    right = {"value", "SD", "95% interval"}
    assert choose_parts([header, row], right, 80) == [[0, 1, 2, 3, 4, 5]]
    assert choose_parts([header, row], right, 70) == [[0, 1, 2, 3, 4], [0, 5]]


@pytest.mark.parametrize(
    ("command", "width"),
    [
        *((f"list {kind}", width) for kind in LISTS for width in (60, 80, 120, 200)),
        *((command, width) for command in TABLES for width in (60, 80)),
    ],
)
def test_tables_of_all_commands_fit_and_lose_no_word(
    command: str, width: int, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(store)
    monkeypatch.setenv("COLUMNS", str(width))
    piped, shown = (run(*command.split(), terminal=terminal) for terminal in (False, True))
    assert (piped.code, piped.code) == (shown.code, 0), piped.err
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown.out)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= width
    assert text.count("\u2026") == piped.out.count("\u2026")  # no cell is cut off
    blocks = piped.out.strip().split("\n\n")
    headings = {word for block in blocks for word in block.splitlines()[0].split()}
    squeezed = "".join(text.split())
    words = {*piped.out.split()} - headings
    assert [word for word in words if word not in squeezed] == []
