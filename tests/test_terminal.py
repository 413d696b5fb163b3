"""Tables on a terminal: every number whole at any width, plain text in pipes."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.report.tables import TextTable
from perdure.report.tables.terminal import split_columns

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


@given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.integers(10, 100), st.data())
def test_every_column_stands_in_one_part(
    widths: list[int], width: int, data: st.DataObject
) -> None:
    header = [f"c{k}".ljust(wide, "x") for k, wide in enumerate(widths)]
    right = data.draw(st.sets(st.sampled_from(header)))
    blocks = split_columns([header, ["1"] * len(header)], right, width)
    assert [k for block in blocks for k in block if k] == list(range(1, len(header)))
    assert all(block[0] == 0 for block in blocks)
    for block in blocks:
        least = [len(header[k]) if header[k] in right or not k else 12 for k in block]
        room = sum(min(a, len(header[k])) for a, k in zip(least, block, strict=True))
        assert room + 2 * (len(block) - 1) <= width or len(block) <= 2
