"""docs/papers.md: made from the committed results, counted right, and no miss without a cause."""

from __future__ import annotations

import importlib.util
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure.reproduction import find_published_result

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def papers() -> Any:
    """Return studies/papers.py as a module."""
    spec = importlib.util.spec_from_file_location("papers", ROOT / "studies" / "papers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["papers"] = module
    spec.loader.exec_module(module)
    return module


def write_report(folder: Path, name: str, rows: list[dict[str, object]], **more: object) -> None:
    path = folder / "studies" / "x" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = {"name": name, "quick": False, "rows": rows, "claims": [], **more}
    path.write_text(json.dumps(plain))


def report_row(id_: str, values: list[float], **fields: object) -> dict[str, object]:
    plain = {"table": "2", "scenario": "rotated-mnist-10", "id": id_, "details": ""}
    return {**plain, "values": values, "published": 0.0, **fields}


def count(papers: Any, root: Path, name: str, table: str) -> tuple[int, ...]:
    """Return how many numbers of a table are within one SD, two, beyond, and not measured."""
    (one,) = (one for one in papers.load_results(root) if one.result.name == name)
    return tuple(one.count([row for row in one.rows if row.table == table]))


def test_the_committed_page_is_what_the_command_makes(papers: Any) -> None:
    results = papers.load_results(ROOT)
    causes = papers.load_causes(ROOT / "studies" / "causes.toml", results)
    papers.check_causes(results, causes)
    page = papers.make_page(results, causes)
    assert (ROOT / "docs" / "papers.md").read_text("utf-8") == page


def test_counts_are_those_of_the_raw_values(papers: Any) -> None:
    # Counted here from the values of every seed, by the rule as the page states it.
    path = ROOT / "studies" / "reproduce" / "delange-rotated.json"
    sds = []
    for row in json.loads(path.read_text("utf-8"))["rows"]:
        if row["published"] is not None:
            tolerance = row["published_sd"] or statistics.stdev(row["values"])
            sds.append(abs(statistics.fmean(row["values"]) - row["published"]) / tolerance)
    one, two = sum(sd <= 1 for sd in sds), sum(1 < sd <= 2 for sd in sds)
    expected = (one, two, len(sds) - one - two, 0)
    assert count(papers, ROOT, "delange-rotated", "2") == expected


def test_a_number_that_does_not_land_needs_a_cause(papers: Any, tmp_path: Path) -> None:
    write_report(tmp_path, "delange-rotated", [report_row("acc", [1.0, 2.0, 3.0])])
    results = papers.load_results(tmp_path)
    with pytest.raises(SystemExit, match="delange-rotated: scenario rotated-mnist-10, table 2"):
        papers.check_causes(results, [])
    cause = papers.Cause("delange-rotated", "a run", {"id": "acc"}, "its seeds")
    papers.check_causes(results, [cause])
    assert "its seeds Evidence: a run" in papers.make_page(results, [cause])


def test_so_does_a_claim_that_does_not_hold(papers: Any, tmp_path: Path) -> None:
    claim = {"text": "it holds", "holds": False, "numbers": "1 < 0"}
    write_report(tmp_path, "delange-memory", [], claims=[claim])
    results = papers.load_results(tmp_path)
    with pytest.raises(SystemExit, match="claim it holds"):
        papers.check_causes(results, [])
    cause = papers.Cause("delange-memory", "a run", {"claim": "it holds"}, open="the seeds")
    papers.check_causes(results, [cause])
    assert "**Open.** the seeds" in papers.make_page(results, [cause])


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("where = { id = 'acx' }\ncause = 'x'", "fits no number"),
        ("where = { id = 'acc' }", "needs `cause` or `open`"),
        ("where = { id = 'acc' }\ncause = 'x'\nopen = 'y'", "needs `cause` or `open`"),
    ],
)
def test_a_cause_that_explains_nothing_is_refused(
    papers: Any, tmp_path: Path, entry: str, message: str
) -> None:
    path = tmp_path / "causes.toml"
    path.write_text(f"[[cause]]\nresult = 'delange-rotated'\nevidence = 'a run'\n{entry}\n")
    with pytest.raises(SystemExit, match=message):
        papers.load_causes(path, papers.load_results(tmp_path))


def test_two_reports_may_measure_parts_but_not_the_same_number(papers: Any, tmp_path: Path) -> None:
    write_report(tmp_path, "delange-rotated", [report_row("acc", [96.6])])
    other = tmp_path / "studies" / "y"
    other.mkdir()
    rows = [report_row("wf10", [3.5])]
    plain = {"name": "delange-rotated", "quick": False, "rows": rows, "claims": []}
    (other / "gpu.json").write_text(json.dumps(plain))
    assert count(papers, tmp_path, "delange-rotated", "2") == (2, 0, 0, 30)
    plain["rows"] = [report_row("acc", [96.6])]
    (other / "gpu.json").write_text(json.dumps(plain))
    with pytest.raises(SystemExit, match="measured in another report too"):
        papers.load_results(tmp_path)


def test_m2i_is_one_file_per_seed_and_task_means_domain(papers: Any, tmp_path: Path) -> None:
    folder = tmp_path / "studies" / "m2i"
    folder.mkdir(parents=True)
    seeds = ({"m2i task naive": {"acc.lower": 0.9}}, {"m2i domain naive": {"acc.lower": 0.40}},
             {"m2i domain naive": {"acc.lower": 0.42}})  # fmt: skip
    for k, runs in enumerate(seeds):
        (folder / f"results_gpu_{k}.json").write_text(json.dumps(runs))
    (one,) = (one for one in papers.load_results(tmp_path) if one.result.name == "faber-vgg9")
    (row,) = (row for row in one.rows if row.values)
    assert row.values == [0.40, 0.42]
    assert row.published == 0.411
    assert row.cell["measured as"] == "domain"
    assert len(one.rows) == sum(
        len(published.values) + 1 for published in find_published_result("faber-vgg9").published
    )  # every number, and a rank per row, which is not counted
    assert sum(one.count(one.rows)) == len(one.rows) - 44
