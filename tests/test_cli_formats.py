"""What `perdure score` prints: four forms of the same numbers, other tools' names, seeds."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats

from perdure.metrics import TOOLS

from .cli_helpers import (
    COSTS,
    KNOWN,
    POINTS,
    B,
    R,
    refused,
    run,
    says,
    scored,
    strict,
    table,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

FORMS = ["text", "markdown", "latex", "csv"]
NASTY = ["[red]x[/red]", "[/nope]", "<b>|&", "_a_ %", "\\x{y}", 'say "so", ok', "~^$#*`é"]
NASTY_MATRIX = json.dumps({"matrix": [[0.5] * len(NASTY)] * len(NASTY), "tasks": NASTY}).encode()


def printed(form: str, *arguments: str | Path, stdin: bytes = b"") -> str:
    """Return what is printed in a form; LaTeX by id, as symbols are in test_latex.py."""
    ids = ["--ids"] if form == "latex" else []
    answer = run("score", *arguments, "--format", form, *ids, stdin=stdin)
    assert answer.code == 0
    assert all(line.startswith("perdure: note: ") for line in answer.err.splitlines())
    return answer.out


def cells(form: str, text: str) -> list[list[list[str]]]:
    """Return every table in `text` as rows of cells, read back from the given form."""
    tables: list[list[list[str]]] = []
    for block in re.split(r"\n\n+", text.strip()):
        lines = block.splitlines()
        if form == "text":
            split = [re.split(r"\s{2,}", line.strip()) for line in lines]
            tables.append([row for row in split if len(row) > 1])  # without the headings
        elif form == "markdown":
            split = [re.split(r"(?<!\\)\|", line.strip("|")) for line in lines]
            tables.append([[cell.strip() for cell in row] for row in (split[0], *split[2:])])
        elif form == "latex":
            rows = [line.removesuffix(r" \\") for line in lines if line.endswith(r" \\")]
            tables.append([re.split(r"(?<!\\)&", row) for row in rows])
            tables[-1] = [[cell.strip() for cell in row] for row in tables[-1]]
        else:
            tables.append(list(csv.reader(io.StringIO(block))))
    return tables


def plain(form: str, cell: str) -> str:
    """Return what a reader of the rendered table sees in a cell."""
    if form == "markdown":
        cell = re.sub(r"\\(.)", r"\1", cell)
        return cell.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    if form == "latex":
        for code, sign in (("textbackslash", "\\"), ("textasciitilde", "~"), ("textless", "<"),
                           ("textasciicircum", "^"), ("textgreater", ">"), ("textbar", "|"),
                           ("textasteriskcentered", "*")):  # fmt: skip
            cell = cell.replace(rf"\{code}{{}}", f"\0{ord(sign)};")
        cell = re.sub(r"\\([&%$#_{}])", r"\1", cell).replace("$-$", "-")
        return re.sub(r"\0(\d+);", lambda found: chr(int(found[1])), cell)
    return cell


def near(form: str, value: Any) -> Any:
    """Return what a printed number must equal: all digits in CSV, four elsewhere."""
    return pytest.approx(value, abs=1e-15 if form == "csv" else 5.01e-5)


def values(form: str, text: str) -> dict[str, str]:
    """Return the value column of the headline table by id."""
    head, *rows = cells(form, text)[0]
    named = [plain(form, cell).partition(" ")[0] for cell in head if cell or form != "text"]
    at = named.index("value")  # or value (%)
    # A terminal's table has no cell for the blank header over the arrows.
    place = at + 1 if form == "text" else at
    return {plain(form, row[0]): plain(form, row[place]) for row in rows}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_prints_the_numbers_of_json(form: str) -> None:
    given = ("-", "--initial", B, "--classes", "2,2,2,2,2")
    found = scored(*given, stdin=table().encode())["metrics"]
    shown = values(form, printed(form, *given, stdin=table().encode()))
    assert list(shown) == list(found)
    for id_, value in found.items():
        assert float(shown[id_]) == near(form, value), id_


@pytest.mark.parametrize("form", FORMS)
def test_percent_is_printed_for_people_only(form: str) -> None:
    rows = table(rows=[[f"{100 * cell:.10g}" for cell in row] for row in R]).encode()
    text = printed(form, "-", "--percent", "--classes", "2,2,2,2,2", stdin=rows)
    shown = values(form, text)
    once, squared = (1, 1) if form == "csv" else (100, 10_000)
    found = {id_: float(value) for id_, value in shown.items()}
    assert found["acc"] == pytest.approx(0.662 * once)
    assert found["bwt"] == pytest.approx(-0.165 * once)
    assert found["memory_stability"] == pytest.approx(0.018118854 * squared, rel=1e-4)
    assert found["uraa"] == pytest.approx(6.62)  # a ratio is no percentage


@pytest.mark.parametrize("form", FORMS)
def test_per_task_adds_each_task_and_the_curves(form: str) -> None:
    text = "a,b,c,d,e\n" + table()
    found = scored("-", stdin=text.encode())
    out = printed(form, "-", "--per-task", stdin=text.encode())
    assert len(cells(form, printed(form, "-", stdin=text.encode()))[0]) == len(found["metrics"]) + 1
    if form == "text":
        says(out, "each task", "after each task", "-0.3800", "0.6867")
        return
    _, each, after = cells(form, out)
    for grid, name in ((each, "per_task"), (after, "curves")):
        assert grid[0][1:] == list("abcde")
        shown = {plain(form, row[0]): row[1:] for row in grid[1:]}
        for key, numbers in found[name].items():
            id_ = {"aa": "acc", "af": "forgetting.best"}.get(key, key)
            for cell, number in zip(shown[id_], numbers, strict=True):
                assert (float(plain(form, cell)) if cell else None) == (
                    number and near(form, number)
                )


@pytest.mark.parametrize("form", ["markdown", "latex", "csv"])
def test_names_with_markup_come_out_unharmed(form: str) -> None:
    text = printed(form, "-", "--per-task", stdin=NASTY_MATRIX)
    for grid in cells(form, text)[1:]:
        assert [plain(form, cell) for cell in grid[0][1:]] == NASTY


def test_markdown_shows_underscores_and_tags_as_they_are() -> None:
    head = cells("markdown", printed("markdown", "-", "--per-task", stdin=NASTY_MATRIX))[1][0]
    assert not any("<" in cell for cell in head)
    assert not any(re.search(r"(?<![\\\w])_", cell) for cell in head), "_a_ would be in italics"


def test_latex_escapes_what_would_be_a_command() -> None:
    head = cells("latex", printed("latex", "-", "--per-task", stdin=NASTY_MATRIX))[1][0]
    assert not any(re.search(r"(?<!\\)[_%#$~^]", cell) for cell in head), head
    says(printed("latex", "-", stdin=table().encode()), r"memory\_stability", r"$\uparrow$")


def test_latex_has_no_signs_that_its_default_font_prints_as_others() -> None:
    assert not re.search("[<>|]", printed("latex", "-", "--per-task", stdin=NASTY_MATRIX))


@pytest.mark.parametrize("terminal", [False, True])
def test_names_with_markup_in_a_terminal(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    answer = run("score", "-", "--per-task", stdin=NASTY_MATRIX, terminal=terminal)
    assert (answer.code, answer.err) == (0, "")
    says(re.sub(r"\x1b\[[\d;]*m", "", answer.out), *NASTY)


def test_a_terminal_shows_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    piped = run("score", "-", stdin=table().encode()).out
    shown = run("score", "-", stdin=table().encode(), terminal=True).out
    words = re.sub(r"\x1b\[[\d;]*m", "", shown).split()
    assert words == piped.split()
    remarks = run("score", "-", "--as", "mammoth", stdin=table().encode(), terminal=True)
    says(remarks.out, "R[j-1, j]")  # no markup either
    answer = run("list", "metrics", terminal=True)
    assert (answer.code, answer.err) == (0, "")
    says(answer.out, "forgetting.best")


TOOL_ANSWERS = {
    "avalanche": {"acc.pooled": 0.662, "forgetting.learned": 0.165, "bwt": -0.165, "fwt.gem": 0.25},
    "avalanche-clear": {"acc.lower": 0.682, "acc.below": 0.626, "fwt.upper": 0.2},
    "mammoth": {"acc": 0.662, "bwt": -0.165, "fwt.gem": 0.25, "forgetting.peak": 0.225},
    "continuum": {"acc.lower": 0.682},
    "pycil": {"acc.incremental": 0.69773, "forgetting.peak": 0.225},
    "pilot": {"acc.incremental": 0.69773, "forgetting.peak": 0.225},
    "renate": {"acc": 0.662, "acc.pooled": 0.662, "forgetting.any": 0.2175, "bwt": -0.165},
    "facil": {"acc": 0.662},
    "capymoa": {"acc.all": 0.4892, "acc": 0.662, "bwt.all": -0.124, "fwt.upper": 0.2},
    "m2i": {"acc.lower": 0.682, "bwt.consecutive": -0.066, "fwt.upper": 0.2},
    "michel2023": {"acc": 0.662, "forgetting.best": 0.2, "raa": 0.662, "raf": 0.2},
    "diaz2018": {"acc.lower": 0.682, "rem": 0.876, "bwt.positive": 0, "ms": 0.6, "ce": 0.1},
    "delange2023": {"acc": 0.662, "forgetting.learned": 0.165},
    "faber2023": {"acc.lower": 0.682, "bwt.all": -0.124, "bwt.consecutive": -0.066},
    "tutorial": {"acc": 0.662, "acc.learning": 0.794, "bwt": -0.165, "forgetting.peak": 0.225},
}


@pytest.mark.parametrize("tool", TOOLS)
def test_every_tools_names_stand_beside_our_ids(tool: str, tmp_path: Path) -> None:
    costs = write(tmp_path, "costs.csv", COSTS)
    given = ("-", "--initial", B, "--classes", "2,2,2,2,2", "--costs", costs)
    answer = run("score", *given, "--as", tool, "--format", "json", stdin=table().encode())
    assert (answer.code, answer.err) == (0, "")
    found = strict(answer.out)
    rows = {row["id"]: row["value"] for row in found["rows"]}
    assert [row["name"] for row in found["rows"]] == [row.name for row in TOOLS[tool]]
    expected = TOOL_ANSWERS[tool]
    assert {id_: rows[id_] for id_ in expected} == pytest.approx(expected, abs=1e-5)
    ours = scored(*given, "--sizes", "7,7,7,7,7", stdin=table().encode())
    for row in found["rows"]:
        if row["id"] in ours["metrics"]:
            assert row["value"] == pytest.approx(ours["metrics"][row["id"]]), row
        elif row["id"] is None:
            assert row["note"]  # a number that is none of our metrics says what it is
        else:
            assert row["value"] is None
            assert row["note"] == ours["undefined"][row["id"]]
    for form in ("markdown", "latex", "csv"):
        lines = cells(form, printed(form, *given, "--as", tool, stdin=table().encode()))[0]
        for line, row in zip(lines[1:], found["rows"], strict=True):
            assert plain(form, line[0]) == row["name"]
            assert plain(form, line[2]) == (row["id"] or "none")
            shown = None if line[1] == "undefined" else float(plain(form, line[1]))
            assert shown == (row["value"] if shown is None else near(form, row["value"]))


def test_a_tool_reads_a_stream_sizes_and_seeds_too(tmp_path: Path) -> None:
    found = strict(
        run("score", "-", "--as", "delange2023", "--format", "json", stdin=POINTS.encode()).out
    )
    assert {row["name"]: row["value"] for row in found["rows"]}["WC-ACC"] == pytest.approx(0.45)
    sized = ("score", "-", "--as", "avalanche", "--sizes", "100,100,200,100,50", "--format", "json")
    pooled = strict(run(*sized, stdin=table().encode()).out)["rows"][0]
    assert (pooled["id"], pooled["value"]) == ("acc.pooled", pytest.approx(360 / 550))
    half = write(tmp_path, "h.csv", table(rows=[[cell / 2 for cell in row] for row in R]))
    both = run("score", write(tmp_path, "m.csv", table()), half, "--as", "m2i", "--format", "json")
    assert strict(both.out)["rows"][0]["value"] == pytest.approx(0.682 * 3 / 4)
    both = run("score", half, tmp_path / "m.csv", "--as", "tutorial")
    says(both.out, "mean of 2 runs")
    says(refused("score", half, "--as", "tutorial", "--lower-is-better"), "tutorial", "accuracies")


def seeds(folder: Path, count: int = 4) -> list[Path]:
    rng = np.random.default_rng(0)
    noise = [rng.uniform(-0.05, 0.05, (5, 5)) for _ in range(count)]
    return [
        write(folder, f"seed{k}.csv", table(rows=(np.array(R) + each).tolist()))
        for k, each in enumerate(noise)
    ]


def test_several_files_are_seeds(tmp_path: Path) -> None:
    files = seeds(tmp_path)
    found = scored(*files)
    assert {"metrics", "sd", "undefined", "curves", "per_task", "intervals", "runs"} <= found.keys()
    assert found["runs"] == [scored(file) for file in files]
    for id_, mean in found["metrics"].items():
        each = np.array([run_["metrics"][id_] for run_ in found["runs"]])
        assert mean == pytest.approx(each.mean())
        assert found["sd"][id_] == pytest.approx(each.std(ddof=1))
        if each.std() > 0:
            ends = stats.t.interval(0.95, len(each) - 1, each.mean(), stats.sem(each))
            assert found["intervals"][id_] == pytest.approx(list(ends))
    curves = np.array([run_["curves"]["aa"] for run_ in found["runs"]])
    assert found["curves"]["aa"] == pytest.approx(curves.mean(axis=0))
    assert found["curves"]["bwt"][0] is None
    bca = scored(*files, "--interval", "bca")["intervals"]["acc"]
    each = np.array([run_["metrics"]["acc"] for run_ in found["runs"]])
    assert each.min() <= bca[0] < each.mean() < bca[1] <= each.max()


@pytest.mark.parametrize("form", FORMS)
def test_seeds_are_printed_with_sd_and_interval(form: str, tmp_path: Path) -> None:
    files = seeds(tmp_path)
    found = scored(*files)
    head, *rows = cells(form, printed(form, *files))[0]
    if form == "text":
        head.insert(1, "")
    named = [plain(form, cell) for cell in head]
    acc = dict(zip(named, next(row for row in rows if row[0] == "acc"), strict=True))
    assert float(acc["value"]) == near(form, found["metrics"]["acc"])
    assert float(acc["SD"]) == near(form, found["sd"]["acc"])
    both = [acc["low"], acc["high"]] if form == "csv" else acc["95% interval"].split(" to ")
    ends = [float(end) for end in both]
    assert ends == near(form, found["intervals"]["acc"])


def test_stability_over_runs_and_costs_for_each(tmp_path: Path) -> None:
    files, costs = seeds(tmp_path, 2), write(tmp_path, "costs.csv", COSTS)
    cheap = write(tmp_path, "cheap.csv", COSTS.replace(",200,", ",100,"))
    found = scored(*files, "--costs", costs, "--costs", cheap)
    assert [each["metrics"]["ms"] for each in found["runs"]] == pytest.approx([0.6, 1.0])
    names = ("acc.lower", "rem", "bwt.positive", "fwt.upper", "ms", "sss", "ce")
    assert found["metrics"]["clscore"] == pytest.approx(sum(found["metrics"][i] for i in names) / 7)
    assert found["metrics"]["clstability"] == pytest.approx(
        1 - sum(found["sd"][i] for i in names) / 7
    )
    assert found["metrics"]["acc"] == pytest.approx(KNOWN["acc"], abs=0.05)
