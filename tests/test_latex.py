"""LaTeX tables: well formed, whatever names are in them, and headed by symbols."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from matplotlib.mathtext import MathTextParser

from perdure.metrics import METRICS, SummaryOptions, find_metric, metric_symbol
from perdure.report.tables import TextTable

from .cli_helpers import R, run, table, write

if TYPE_CHECKING:
    from pathlib import Path

IDS = [id_ for base in METRICS for id_ in SummaryOptions().ids_of(base)]
BODY = re.compile(
    r"\\begin\{tabular\}\{([lr]+)\}\n\\toprule\n(.*?) \\\\\n\\midrule\n(.*?)\\bottomrule\n"
    r"\\end\{tabular\}", re.DOTALL,
)  # fmt: skip
# Commands of LaTeX itself and of booktabs: nothing that a paper may not have loaded.
KNOWN = {
    "textbf", "underline", "textsuperscript", "textbackslash", "textasciitilde", "textasciicircum",
    "textless", "textgreater", "textbar", "dots", "pm", "uparrow", "downarrow", "le", "mathrm",
    "overline", "int", "min", "max", "Delta", "Omega", "rho",
}  # fmt: skip


def check_latex(text: str) -> list[list[str]]:
    """Return the cells of the tables, after checking that LaTeX would take them."""
    rows: list[list[str]] = []
    tables = BODY.findall(text)
    assert tables
    for columns, head, body in tables:
        for line in [head, *(line.removesuffix(r" \\") for line in body.strip().split("\n"))]:
            cells = re.split(r"(?<!\\)&", line)
            assert len(cells) == len(columns), line
            for cell in cells:
                check_cell(cell)
            rows.append([cell.strip() for cell in cells])
    return rows


def check_cell(cell: str) -> None:
    assert set(re.findall(r"\\([a-zA-Z]+)", cell)) <= KNOWN, cell
    bare = re.sub(r"\\.", "", cell)
    assert bare.count("$") % 2 == 0, cell
    assert bare.count("{") == bare.count("}"), cell
    for part in bare.split("$")[::2]:  # outside of formulas
        assert not set("_^#%&~") & set(part), cell


@pytest.mark.parametrize("id_", IDS)
def test_every_symbol_is_a_formula_that_can_be_set(id_: str) -> None:
    latex = TextTable([f"{id_} (%) ↑"], [["1"]], ids={(-1, 0): id_}).latex()
    ((heading,), _) = check_latex(latex)
    assert heading.endswith(r"(\%) $\uparrow$")
    for formula in re.findall(r"(?<!\\)\$.*?(?<!\\)\$", heading):
        MathTextParser("path").parse(formula)


def test_no_two_metrics_share_a_symbol() -> None:
    symbols = [metric_symbol(id_) for id_ in IDS]
    assert len(set(symbols)) == len(symbols)


def test_score_prints_symbols_and_ids_on_request(tmp_path: Path) -> None:
    path = write(tmp_path, "r.csv", table())
    rows = check_latex(run("score", path, "--per-task", "--format", "latex").out)
    assert rows[0][0] == "metric"
    first = [row[0] for row in rows]
    assert r"$\mathrm{BWT}$" in first
    assert "bwt" not in first
    rows = check_latex(run("score", path, "--per-task", "--format", "latex", "--ids").out)
    assert rows[0][0] == "id"
    assert {"bwt", "forgetting.best"} <= {row[0] for row in rows}


def test_compare_heads_its_columns_with_symbols(tmp_path: Path) -> None:
    for name, shift in (("a_1", 0.0), ("50%&#", 0.01)):
        for seed in range(3):
            rows = [[max(0.0, x - shift * (seed + 1)) for x in row] for row in R]
            write(tmp_path, f"{name}/{seed}.csv", table(rows=rows))
    groups = [f"{name}={tmp_path}/{name}/*.csv" for name in ("a_1", "50%&#")]
    words = ["compare", *groups, "--metrics", "acc,bwt", "--format", "latex", "--details"]
    heads = [row for row in check_latex(run(*words).out) if row[0] in ("method", "pair")]
    assert heads[0][1:] == [r"$\mathrm{ACC}$ $\uparrow$", r"$\mathrm{BWT}$ $\uparrow$"]
    assert [r"$\mathrm{ACC}$", r"$\mathrm{BWT}$"] in [head[1:] for head in heads]
    heads = check_latex(run(*words, "--ids").out)
    assert heads[0][1:] == [r"acc $\uparrow$", r"bwt $\uparrow$"]


def test_a_long_table_is_grouped_and_loses_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, "r.csv", table())
    lines = run("score", path).out.split("\n\n")[0].splitlines()[1:]
    values = {line.split()[0]: line.split()[2] for line in lines if line.startswith("  ")}
    headings = [line for line in lines if not line.startswith("  ")]
    assert headings == ["accuracy", "transfer", "forgetting and retention"]
    short = run("score", path, "--metrics", "acc,bwt").out.splitlines()[1:]
    for line in short:
        assert values[line.split()[0]] == line.split()[2]
    assert not any(line.startswith(" ") for line in short)
    assert all(find_metric(id_) for id_ in values)
    csv = run("score", path, "--format", "csv").out
    assert len(csv.splitlines()) - 1 == len(values)
