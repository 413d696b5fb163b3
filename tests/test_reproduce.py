"""Measured next to published: matching, deviations, another's counting, claims, figures."""

from __future__ import annotations

import csv
import importlib.util
import io
import math
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perdure.metrics import summary
from perdure.record import open_run, read_input
from perdure.reproduction import (
    CellRuns,
    ComparisonRow,
    Measurements,
    find_published_result,
    load_published_results,
)
from perdure.reproduction.claims import check_claims
from perdure.reproduction.comparison import compare_with_published, list_measured_rows
from perdure.reproduction.measurements import (
    NotMeasuredError,
    claim_less,
    count_as_de_lange,
    find_plateau,
    forgetting_pairs,
)
from perdure.reproduction.published import PublishedFigure
from perdure.reproduction.report import figure_rows, write_figures
from perdure.studies import make_study

from .reproduce_helpers import finished, of_matrix

if TYPE_CHECKING:
    from collections.abc import Sequence

STUDY = Path(__file__).parents[1] / "studies" / "stability_gap" / "tables.py"
# Two tasks of four updates, each evaluated before its first update and after every update.
ROWS: list[tuple[int, str, str, str, float]] = [
    (0, "a", "a", "initial", 0.10),
    (1, "a", "a", "probe", 0.50), (2, "a", "a", "probe", 0.70),
    (3, "a", "a", "probe", 0.80), (4, "a", "a", "probe", 0.90), (4, "a", "a", "full", 0.88),
    (4, "b", "b", "initial", 0.00),
    (5, "b", "a", "probe", 0.40), (5, "b", "b", "probe", 0.30),
    (6, "b", "a", "probe", 0.20), (6, "b", "b", "probe", 0.60),
    (7, "b", "a", "probe", 0.60), (7, "b", "b", "probe", 0.70),
    (8, "b", "a", "probe", 0.80), (8, "b", "b", "probe", 0.90),
    (8, "b", "a", "full", 0.78), (8, "b", "b", "full", 0.86),
]  # fmt: skip


def shifted(by: float) -> list[tuple[int, str, str, str, float]]:
    return [(*row[:4], round(row[4] + by, 6)) for row in ROWS]


def of_cells(name: str, tmp: Path, seeds: Sequence[Any], **factors: str | None) -> Measurements:
    """Return the measurements of one cell with one run per list of points."""
    folders = [finished(tmp / f"{k}", points) for k, points in enumerate(seeds)]
    return Measurements(find_published_result(name), [CellRuns(factors, folders)])


# Deviations, by hand.


def test_a_deviation_is_in_the_papers_sds_where_it_prints_them() -> None:
    row = ComparisonRow("3", {}, "", "acc", 90.0, 0.5, [91.0, 93.0])
    assert row.mean == 92.0
    assert row.sd == pytest.approx(math.sqrt(2))
    assert row.difference == 2.0
    assert row.deviation == (4.0, "paper")


@pytest.mark.parametrize("printed", [None, 0.0])
def test_it_is_in_ours_where_the_paper_prints_none_or_zero(printed: float | None) -> None:
    row = ComparisonRow("3", {}, "", "acc", 0.25, printed, [0.10, 0.30, 0.20])
    assert row.deviation is not None
    assert row.deviation[0] == pytest.approx(-0.05 / 0.1)
    assert row.deviation[1] == "ours"


def test_without_any_sd_there_is_a_difference_only() -> None:
    row = ComparisonRow("3", {}, "", "acc", 0.25, None, [0.5])
    assert (row.difference, row.deviation, row.sd) == (0.25, None, None)
    nothing = ComparisonRow("3", {}, "", "acc", 0.25, 0.1, [], (), "why")
    assert (nothing.mean, nothing.difference, nothing.deviation) == (None, None, None)


# Evaluations counted as in the paper's code.


def papers_own(path: Path, every: int, epochs: int) -> str:
    """Return points as rewritten by studies/stability_gap, which has its own code for it."""
    spec = importlib.util.spec_from_file_location("stability_gap_tables", STUDY)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return str(module.papers_points(path, every, epochs))


@pytest.mark.parametrize("every", [1, 2, 3, 100])
@pytest.mark.parametrize("epochs", [1, 2, 4])
def test_counting_as_de_lange_is_that_of_the_study(tmp_path: Path, every: int, epochs: int) -> None:
    folder = finished(tmp_path / "run", ROWS)
    other = tmp_path / "other.csv"
    other.write_text(papers_own(folder / "points.csv", every, epochs))
    theirs = read_input(str(other)).summary()
    points = open_run(folder).points
    assert points is not None
    ours = summary(stream=count_as_de_lange(points, every, epochs).stream())
    for id_ in ("min_acc", "wc_acc", "wf10", "wf100", "wp10", "wp100"):
        assert ours.metrics[id_] == theirs.metrics[id_], id_


def test_counting_as_de_lange_by_hand(tmp_path: Path) -> None:
    measurements = of_cells("delange-mnist", tmp_path, [ROWS], variant="n-1000")
    where = {"variant": "n-1000"}
    # The first task rises from .10 before its first update to .90, b from .30 after its first.
    assert measurements.values("wp10", where) == [pytest.approx(70.0)]
    # By our definition the evaluation before the first update does not count.
    assert measurements.values("wp10", where, as_published=False) == [pytest.approx(60.0)]
    # Every other update: 1 and 3 of each task, so that the lowest, .20 after update 6, is missed.
    assert measurements.values("min_acc", where) == [pytest.approx(20.0)]
    assert measurements.values("min_acc", where, subsample=2) == [pytest.approx(40.0)]


def test_rho_restarts_in_every_epoch_and_whole_sets_do_not_count(tmp_path: Path) -> None:
    points = open_run(finished(tmp_path / "run", ROWS)).points
    assert points is not None
    counted = [count_as_de_lange(points, every, epochs=2) for every in (100, 1000)]
    for one in counted:  # updates 1 and 3 of each task of two epochs with two iterations each
        steps, scores = one.stream().tasks["a"]
        assert (steps // 2).tolist() == [0, 1, 3, 5, 7]
        assert scores.tolist() == [0.10, 0.50, 0.80, 0.40, 0.60]
        assert one.stream().tasks["b"][1].tolist() == [0.30, 0.70]
    with pytest.raises(ValueError, match="4 iterations, expected a multiple of 3 epochs"):
        count_as_de_lange(points, 1, epochs=3)


def test_accuracy_as_printed_pools_the_test_examples(tmp_path: Path) -> None:
    folder = finished(tmp_path / "run", ROWS)
    path = folder / "points.csv"
    header, *lines = path.read_text().splitlines()
    sizes = {"a": "300", "b": "100"}
    lines = [",".join([*line.split(",")[:5], sizes[line.split(",")[2]]]) for line in lines]
    path.write_text("\n".join([header, *lines]) + "\n")
    result = find_published_result("delange-finetuning")
    measurements = Measurements(result, [CellRuns({"scenario": "split-mnist"}, [folder])])
    where = {"scenario": "split-mnist"}
    assert measurements.values("acc", where) == [pytest.approx(75 * 0.78 + 25 * 0.86)]
    assert measurements.values("acc", where, as_published=False) == [pytest.approx(82.0)]


# Matching.


def test_published_rows_get_the_runs_of_their_cell(tmp_path: Path) -> None:
    runs = [ROWS, shifted(0.02)]
    measurements = of_cells("delange-mnist", tmp_path, runs, strategy="replay", variant="n-1000")
    rows = compare_with_published(measurements)
    assert len(rows) == 8 * 6
    first = next(row for row in rows if row.id == "min_acc")
    printed = find_published_result("delange-mnist").published[0]
    mean, sd = printed.mean_and_sd("min_acc")
    assert (first.table, first.published, first.published_sd) == ("3", mean, sd)
    assert list(first.values) == [pytest.approx(20.0), pytest.approx(22.0)]
    assert first.deviation is not None
    assert first.deviation[0] == pytest.approx((21.0 - mean) / (sd or 0))
    assert first.deviation[1] == "paper"
    subsampled = [row for row in rows if row.id == "min_acc" and row.details == "every 10"]
    assert list(subsampled[0].values) == [pytest.approx(40.0), pytest.approx(42.0)]
    not_run = [row for row in rows if row.cell == {"variant": "n-all"}]
    assert {row.not_measured for row in not_run} == {"no finished run of n-all"}
    training = [row for row in rows if row.details == "training examples"]
    assert [row.not_measured for row in training] == ["no finished run of train"] * 6


def test_ranks_and_other_variants_of_bwt(tmp_path: Path) -> None:
    result = find_published_result("faber-vgg9")
    cells = []
    for k, strategy in enumerate(result.strategies):
        matrix = [[0.9 - k / 20], [0.1, 0.8], [0.1, 0.1, 0.7]]
        folder = finished(tmp_path / strategy, of_matrix(matrix))
        cell = {"scenario": "m2i", "setting": "class", "model": "wide-vgg9", "strategy": strategy}
        cells.append(CellRuns(cell, [folder]))
    rows = compare_with_published(Measurements(result, cells))
    mine = {(row.cell.get("strategy"), row.id): row for row in rows if row.values}
    # Strategies have an accuracy that falls in the order in which the study names them.
    assert mine["agem", "rank"].values == [1.0]
    assert mine["si", "rank"].values == [11.0]
    assert mine["si", "rank"].published == 10.0
    gem, all_, steps = (mine["agem", id_].mean for id_ in ("bwt", "bwt.all", "bwt.consecutive"))
    assert gem == pytest.approx(((0.1 - 0.9) + (0.1 - 0.8)) / 2)
    assert all_ == pytest.approx((2 * (0.1 - 0.9) + (0.1 - 0.8)) / 3)
    assert steps == pytest.approx(2 * ((0.1 - 0.9) + (0.1 - 0.8)) / 2 / 3)
    printed = result.published[0]
    assert (printed.scenario, printed.setting, printed.strategy) == ("m2i", "class", "agem")
    assert mine["agem", "bwt.consecutive"].published == printed.mean_and_sd("bwt.consecutive")[0]


def test_a_setting_under_another_name_is_measured_as_run_and_by_our_definition(
    tmp_path: Path,
) -> None:
    """What Faber et al. print as task-incremental is domain-incremental."""
    cells = []
    for setting, last in (("domain", 0.2), ("task", 0.6)):
        folder = finished(tmp_path / setting, of_matrix([[0.9, 0.1], [last, 0.8]]))
        cell = {"scenario": "m2i", "setting": setting, "model": "wide-vgg9", "strategy": "naive"}
        cells.append(CellRuns(cell, [folder]))
    result = find_published_result("faber-vgg9")
    rows = compare_with_published(Measurements(result, cells))
    (acc,) = (row for row in rows if row.id == "acc.lower" and row.values)
    assert (acc.cell["setting"], acc.published) == ("domain", 0.411)
    assert list(acc.values) == [pytest.approx((0.9 + 0.2 + 0.8) / 3)]
    assert list(acc.own_values) == [pytest.approx((0.9 + 0.6 + 0.8) / 3)]


def test_a_rank_needs_all_strategies(tmp_path: Path) -> None:
    factors = {"scenario": "m2i", "setting": "class", "model": "wide-vgg9", "strategy": "naive"}
    measurements = of_cells("faber-vgg9", tmp_path, [of_matrix([[0.9], [0.1, 0.8]])], **factors)
    ranks = [row for row in compare_with_published(measurements) if row.id == "rank"]
    assert not any(row.values for row in ranks)


def test_scores_with_several_weights(tmp_path: Path) -> None:
    costs = (
        "task,flops_train,flops_one_pass,model_bytes,stored_bytes,data_bytes\n"
        "t0,100,10,100,0,100\nt1,100,10,200,100,100\n"
    )
    matrices = ([[0.9, 0.1], [0.5, 0.8]], [[0.7, 0.1], [0.5, 0.8]])
    folders = [
        finished(tmp_path / f"{k}", of_matrix(each), setting="task", costs=costs)
        for k, each in enumerate(matrices)
    ]
    measurements = Measurements(
        find_published_result("diaz-icifar100"), [CellRuns({"strategy": "naive"}, folders)]
    )  # fmt: skip
    # A, MS, SSS, CE, REM, BWT+, FWT of each run; CE has epsilon 5: .1 x 5.
    a = [(0.9 + 0.5 + 0.8) / 3, (0.7 + 0.5 + 0.8) / 3]
    rem = [1 - 0.4, 1 - 0.2]
    rest = {"MS": 0.75, "SSS": 0.75, "CE": 0.5, "BWT+": 0.0, "FWT": 0.1}
    w2 = {"A": 0.4, "MS": 0.05, "SSS": 0.2, "CE": 0.1, "REM": 0.15, "BWT+": 0.05, "FWT": 0.05}
    by_hand = [
        w2["A"] * a[k] + w2["REM"] * rem[k] + sum(w2[name] * rest[name] for name in rest)
        for k in (0, 1)
    ]
    where = {"strategy": "naive"}
    assert measurements.values("clscore", where, weights="W2") == [
        pytest.approx(x) for x in by_hand
    ]
    spread = w2["A"] * np.std(a, ddof=1) + w2["REM"] * np.std(rem, ddof=1)
    assert measurements.values("clstability", where, weights="W2") == [pytest.approx(1 - spread)]
    assert measurements.values("clscore", where) == measurements.values(
        "clscore", where, weights="W1"
    )


def test_factors_that_match_several_cells_are_our_mistake(tmp_path: Path) -> None:
    folder = finished(tmp_path / "run", ROWS)
    cells = [CellRuns({"variant": name}, [folder]) for name in ("n-1000", "n-all")]
    measurements = Measurements(find_published_result("delange-mnist"), cells)
    with pytest.raises(ValueError, match="matches 2 cells"):
        measurements.find_cell({})
    with pytest.raises(NotMeasuredError, match="no finished run of n-100"):
        measurements.find_cell({"variant": "n-100"})


def test_deviations_that_the_runs_record(tmp_path: Path) -> None:
    folder = finished(tmp_path / "run", ROWS, deviations=["cifar10: 5000 of 50000"])
    measurements = Measurements(
        find_published_result("delange-cifar10"), [CellRuns({"variant": "n-1000"}, [folder])]
    )
    assert measurements.deviations == ["cifar10: 5000 of 50000"]


# Claims.


def test_plateaus() -> None:
    rising = [k / 99 for k in range(100)]
    assert find_plateau(rising) is None
    assert find_plateau([min(each, rising[24]) for each in rising]) == 23  # nine tenths are enough
    assert find_plateau([min(1.0, k / 89) for k in range(100)]) is None  # the last tenth is none
    assert find_plateau([0.5] * 8) == 1


def test_a_number_that_is_not_there_is_neither_yes_nor_no() -> None:
    assert claim_less("text", math.nan, 1).holds is None
    assert claim_less("text", 1, 1).holds is False


@pytest.mark.parametrize("name", sorted(load_published_results()))
def test_claims_without_runs_are_not_measured(name: str) -> None:
    result = load_published_results()[name]
    claims = check_claims(Measurements(result, []))
    assert claims or result.variant_of
    assert all(claim.holds is None for claim in claims)


def _any_points(tasks: int, rng: np.random.Generator) -> list[tuple[int, str, str, str, float]]:
    rows = []
    for i in range(tasks):
        rows.append((3 * i, f"t{i}", f"t{i}", "initial", rng.random()))
        for step in (3 * i + 1, 3 * i + 2, 3 * i + 3):
            rows += [(step, f"t{i}", f"t{j}", "probe", rng.random()) for j in range(i + 1)]
        rows += [(3 * i + 3, f"t{i}", f"t{j}", "full", rng.random()) for j in range(tasks)]
    return rows


@pytest.mark.parametrize("name", sorted(load_published_results()))
def test_with_every_cell_run_everything_is_measured(name: str, tmp_path: Path) -> None:
    result, rng = load_published_results()[name], np.random.default_rng(0)
    norms = "step,trained,plasticity,stability\n" + "".join(
        f"{3 * i + k},t{i},{rng.random()},{rng.random()}\n" for i in range(4) for k in (1, 2, 3)
    )
    costs = "task,flops_train,flops_one_pass,model_bytes,stored_bytes,data_bytes\n"
    costs += "".join(f"t{i},100,10,100,0,100\n" for i in range(4))
    folders = {
        setting: [
            finished(
                tmp_path / f"{setting}-{seed}", _any_points(4, rng), setting=setting,
                classes=[2] * 4, gradients=norms, costs=costs,
            )
            for seed in (0, 1)
        ]
        for setting in ("class", "task", "domain")
    }  # fmt: skip
    for folder in (folder for several in folders.values() for folder in several):
        shutil.copy(folder / "points.csv", folder / "train_points.csv")
    cells = [
        CellRuns({k: v or None for k, v in cell._asdict().items()}, folders[cell.setting])
        for cell in make_study(result.study, name).cells
    ]
    measurements = Measurements(result, cells)
    for row in compare_with_published(measurements):
        assert row.values, row
    assert list_measured_rows(measurements, result.ids)
    assert all(claim.holds is not None for claim in check_claims(measurements))
    written = write_figures(measurements, tmp_path / "out", name)
    assert len(written) == len(result.figures)
    for path in written:
        assert len(path.read_text().splitlines()) > 2


def test_a_gap_that_grows_with_the_rotation(tmp_path: Path) -> None:
    result = find_published_result("delange-rotated")
    cells = []
    for phi, low, end in ((10, 0.9, 0.94), (30, 0.8, 0.93), (60, 0.7, 0.92), (80, 0.6, 0.91)):
        rows = [
            (1, "a", "a", "probe", 0.95), (1, "a", "a", "full", 0.95), (2, "b", "a", "probe", low),
            (2, "b", "b", "probe", 0.5), (3, "b", "a", "probe", end), (3, "b", "b", "probe", 0.9),
            (3, "b", "a", "full", end), (3, "b", "b", "full", 0.9),
        ]  # fmt: skip
        folder = finished(tmp_path / str(phi), rows, setting="domain")
        cells.append(CellRuns({"scenario": f"rotated-mnist-{phi}"}, [folder]))
    assert all(claim.holds for claim in check_claims(Measurements(result, cells)))
    cells[1], cells[2] = (
        cells[1]._replace(folders=cells[2].folders),
        cells[2]._replace(folders=cells[1].folders),
    )
    held = [claim.holds for claim in check_claims(Measurements(result, cells))]
    assert held == [True, True, True, False, True]


def test_rescaled_curves_show_the_plateaus_of_the_paper(tmp_path: Path) -> None:
    """Accuracies 1/k from some task on are what a random classifier gains: RAA is flat there."""
    result, tasks, cells = find_published_result("michel-online"), 100, []
    for strategy, still in (("replay", 65), ("gdumb", 25)):
        raa = np.minimum(np.arange(1, tasks + 1), still) / tasks
        matrix = [[min(1.0, raa[k] * tasks / (k + 1))] * (k + 1) for k in range(tasks)]
        folder = finished(tmp_path / strategy, of_matrix(matrix), classes=[2] * tasks)
        cell = {"scenario": "split-tiny-imagenet", "strategy": strategy}
        cells.append(CellRuns(cell, [folder]))
    claims = {claim.text: claim for claim in check_claims(Measurements(result, cells))}
    flat = [claim for text, claim in claims.items() if "plateau" in text and "tiny" in text]
    assert [claim.holds for claim in flat] == [True, True]
    assert claims["split-cifar100, replay: RAA has no plateau"].holds is None


# Data of figures.


def rows_of(measurements: Measurements, **figure: Any) -> list[dict[str, str]]:
    header, rows = figure_rows(measurements, PublishedFigure(figure="x", **figure))
    text = io.StringIO()
    csv.writer(text).writerows([header, *rows])
    return list(csv.DictReader(io.StringIO(text.getvalue())))


def test_curves_of_a_figure(tmp_path: Path) -> None:
    runs = [ROWS, shifted(0.02)]
    measurements = of_cells("delange-mnist", tmp_path, runs, strategy="replay", variant="n-1000")
    rows = rows_of(measurements, kind="scores", variant="n-1000")
    low = next(row for row in rows if (row["tested"], row["step"]) == ("a", "6"))
    assert (low["mean"], low["runs"], low["strategy"]) == ("0.21", "2", "replay")
    assert float(low["sd"]) == pytest.approx(0.02 / math.sqrt(2), rel=1e-4)
    assert len(rows) == 8 + 4
    assert {row["tested"] for row in rows_of(measurements, kind="scores", tasks=1)} == {"a"}
    assert rows_of(measurements, kind="scores", variant="n-all") == []


def test_forgetting_and_windowed_forgetting_of_figure_9(tmp_path: Path) -> None:
    run = open_run(finished(tmp_path / "run", ROWS))
    forgotten, dropped = forgetting_pairs(run)["b", "a"]
    assert forgotten == pytest.approx(0.88 - 0.78)
    assert dropped == pytest.approx(0.9 - 0.2)


def test_norms_curves_and_matrices_of_figures(tmp_path: Path) -> None:
    norms = "step,trained,plasticity,stability\n1,a,2.5,\n2,a,2,0.5\n"
    folder = finished(tmp_path / "run", ROWS, gradients=norms, classes=[2, 2])
    measurements = Measurements(
        find_published_result("michel-online"), [CellRuns({"strategy": "gem"}, [folder])]
    )
    rows = rows_of(measurements, kind="gradients")
    assert [(row["term"], row["step"], row["mean"]) for row in rows] == [
        ("plasticity", "1", "2.5"), ("plasticity", "2", "2"), ("stability", "2", "0.5"),
    ]  # fmt: skip
    curve = rows_of(measurements, kind="tasks", ids=["aa", "raa"])
    assert [(row["id"], row["after task"], row["mean"]) for row in curve] == [
        ("aa", "1", "0.88"), ("aa", "2", "0.82"), ("raa", "1", "0.44"), ("raa", "2", "0.82"),
    ]  # fmt: skip
    matrix = rows_of(measurements, kind="matrix")
    assert [(row["trained"], row["tested"], row["mean"]) for row in matrix] == [
        ("a", "a", "0.88"), ("b", "a", "0.78"), ("b", "b", "0.86"),
    ]  # fmt: skip
