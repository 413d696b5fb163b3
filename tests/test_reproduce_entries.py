"""The entries of `perdure reproduce`: what they name exists, and what they copy is copied right."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from perdure.record import InputError
from perdure.reproduction import find_published_result, published_results
from perdure.reproduction.claims import CLAIMS
from perdure.reproduction.published import CELL, PublishedResult
from perdure.scenarios import SCENARIOS
from perdure.studies import make_study

NAMES = sorted(published_results())
AT_HAND = {
    "digits", "mnist", "fashion-mnist", "omniglot-magi", "svhn", "cifar10", "tiny-imagenet-10",
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_both_studies_of_an_entry_can_be_run(name: str) -> None:
    entry = published_results()[name]
    for quick in (False, True):
        study = make_study(entry.mapping(quick=quick), name)
        assert study.cells
        if quick:
            needed = {data for each in study.scenarios for data in SCENARIOS[each].data}
            assert needed <= AT_HAND


@pytest.mark.parametrize("name", NAMES)
def test_every_published_line_is_one_cell_of_the_study(name: str) -> None:
    entry = published_results()[name]
    cells = [cell._asdict() for cell in make_study(entry.study, name).cells]
    for row in entry.published:
        fits = [cell for cell in cells if all(cell[k] == v for k, v in row.given.items())]
        assert len(fits) == 1, row
    for figure in entry.figures:
        assert any(all(cell[k] == v for k, v in figure.given.items()) for cell in cells), figure


@pytest.mark.parametrize("name", NAMES)
def test_every_entry_says_what_it_is_and_what_is_checked(name: str) -> None:
    entry = published_results()[name]
    assert entry.hours > 0
    assert entry.deviations
    assert entry.stand_in
    assert name in CLAIMS
    assert entry.published or entry.also


def test_every_table_and_figure_has_an_entry() -> None:
    tables: dict[str, set[str]] = defaultdict(set)
    said: dict[str, str] = defaultdict(str)
    for entry in published_results().values():
        tables[entry.authors] |= {row.table for row in entry.published}
        said[entry.authors] += " " + " ".join(figure.figure for figure in entry.figures)
    assert tables["De Lange et al. 2023"] >= set("123456")
    assert tables["Diaz-Rodriguez et al. 2018"] == {"1", "3"}
    assert tables["Faber et al. 2023"] == set("3456")
    for number in range(2, 13):  # the figures with data of De Lange et al.
        assert f" {number}" in said["De Lange et al. 2023"], number
    assert "3" in said["Michel et al. 2023"]
    assert "4" in said["Michel et al. 2023"]
    assert "1b" in said["Diaz-Rodriguez et al. 2018"]


def published(name: str, table: str, id_: str, **where: object) -> tuple[float, float | None]:
    """Return the one number of a table that these factors name."""
    factors = {"thin": 1, "weights": None, "missing": None, **where}
    rows = [
        row
        for row in find_published_result(name).published
        if row.table == table and all(getattr(row, key) == value for key, value in factors.items())
    ]
    assert len(rows) == 1, rows
    return rows[0].mean_and_sd(id_)


# Typed from the papers' pages, not from our files.
DE_LANGE = [
    ("delange-mini-imagenet", "1", {}, "wc_acc", 4.1, 0.3),
    ("delange-mini-imagenet", "1", {"thin": 10}, "wp100", 68.1, 0.4),
    ("delange-mini-imagenet", "1", {"thin": 1000}, "min_acc", 3.6, 1.1),
    ("delange-mini-imagenet", "3", {"thin": 100}, "wf100", 60.5, 0.7),
    ("delange-mini-imagenet", "4", {"variant": "n-100"}, "wf100", 71.6, 0.7),
    ("delange-mini-imagenet", "4", {"missing": "tests on training examples"}, "wf10", 73.8, 0.3),
    ("delange-rotated", "2", {"scenario": "rotated-mnist-10"}, "acc", 96.6, 0.3),
    ("delange-rotated", "2", {"scenario": "rotated-mnist-30"}, "forgetting.learned", 4.6, 0.6),
    ("delange-rotated", "2", {"scenario": "rotated-mnist-60"}, "wf10", 12.8, 1.4),
    ("delange-rotated", "2", {"scenario": "rotated-mnist-80"}, "wp100", 75.6, 1.8),
    ("delange-mnist", "3", {}, "min_acc", 73.0, 4.4),
    ("delange-mnist", "3", {"thin": 10}, "wp10", 94.5, 1.2),
    ("delange-mnist", "3", {"thin": 1000}, "wf100", 6.0, 0.3),
    ("delange-mnist", "4", {"variant": "n-all"}, "wc_acc", 77.2, 1.4),
    ("delange-mnist", "4", {"missing": "tests on training examples"}, "wp100", 95.7, 1.4),
    ("delange-cifar10", "3", {}, "wc_acc", 17.9, 0.9),
    ("delange-cifar10", "3", {"thin": 100}, "min_acc", 2.0, 2.5),
    ("delange-cifar10", "4", {"variant": "n-1000"}, "wp10", 59.2, 2.7),
    ("delange-domainnet", "3", {}, "wf10", 15.1, 1.4),
    ("delange-domainnet", "3", {"thin": 1000}, "wp100", 21.0, 1.6),
    ("delange-online", "5", {"scenario": "split-mnist"}, "min_acc", 50.8, 8.7),
    ("delange-online", "5", {"scenario": "split-cifar10"}, "forgetting.learned", 55.8, 3.4),
    ("delange-finetuning", "6", {"scenario": "split-mnist"}, "wf10", 86.1, 3.5),
    ("delange-finetuning", "6", {"scenario": "split-cifar10"}, "wp100", 83.8, 1.5),
    ("delange-finetuning", "6", {"scenario": "split-mini-imagenet"}, "acc", 3.3, 0.1),
    ("delange-finetuning", "6", {"scenario": "mini-domainnet"}, "min_acc", 4.9, 1.3),
]


@pytest.mark.parametrize(("name", "table", "where", "id_", "mean", "sd"), DE_LANGE)
def test_numbers_of_de_lange(
    name: str, table: str, where: dict[str, object], id_: str, mean: float, sd: float
) -> None:
    if table == "1" and not where:
        rows = [
            row
            for row in find_published_result(name).published
            if row.table == "1" and row.thin == 1
        ]
        assert (mean, sd) in [row.values[id_] for row in rows if id_ in row.values]
        assert (32.9, 0.8) in [row.values.get("acc") for row in rows]
        assert (32.3, 1.0) in [row.values.get("forgetting.learned") for row in rows]
        return
    assert published(name, table, id_, **where) == (mean, sd)


# ACC, BWT; ACC, BWT, FWT of the class- and of the task-incremental setting.
FABER = [
    ("vgg9", "3", "m2i", "gem", ".572 -.074 .613 -.053 .099"),
    ("vgg9", "3", "m2i", "naive", ".213 -.261 .411 -.228 .093"),
    ("vgg9", "4", "i2m", "gem", ".297 -.031 .269 .005 .117"),
    ("vgg9", "4", "i2m", "cwr-star", ".079 -.037 .202 -.011 .107"),
    ("efficientnet", "5", "m2i", "agem", ".179 -.224 .328 -.171 .091"),
    ("efficientnet", "5", "m2i", "replay", ".655 -.041 .605 -.098 .102"),
    ("efficientnet", "6", "i2m", "gdumb", ".029 .000 .100 .000 .092"),
    ("efficientnet", "6", "i2m", "mas", ".178 -.164 .284 -.148 .105"),
]


@pytest.mark.parametrize(("model", "table", "scenario", "strategy", "numbers"), FABER)
def test_numbers_of_faber(
    model: str, table: str, scenario: str, strategy: str, numbers: str
) -> None:
    ids = ["acc.lower", "bwt.consecutive"] * 2 + ["fwt.upper"]
    for id_, setting, text in zip(ids, ["class"] * 2 + ["task"] * 3, numbers.split(), strict=True):
        found = published(
            f"faber-{model}", table, id_, scenario=scenario, strategy=strategy, setting=setting
        )
        assert found == (float(text), None)


@pytest.mark.parametrize("name", ["faber-vgg9", "faber-efficientnet"])
def test_the_ranks_that_faber_prints_are_those_of_its_accuracies(name: str) -> None:
    groups = defaultdict(list)
    for row in find_published_result(name).published:
        groups[row.scenario, row.setting].append((row.rank, row.mean_and_sd("acc.lower")[0]))
    assert len(groups) == 4
    for rows in groups.values():
        ordered = [acc for _, acc in sorted(rows, key=lambda pair: pair[0] or 0)]
        assert sorted(rank or 0 for rank, _ in rows) == list(range(1, 12))
        assert ordered == sorted(ordered, reverse=True)


@pytest.mark.parametrize("strategy", ["naive", "cumulative", "ewc", "lwf", "si"])
def test_clscore_of_table_1_gives_table_3_of_diaz_rodriguez(strategy: str) -> None:
    entry = find_published_result("diaz-icifar100")
    names = {"A": "acc.lower", "REM": "rem", "BWT+": "bwt.positive", "FWT": "fwt.upper",
             "MS": "ms", "SSS": "sss", "CE": "ce"}  # fmt: skip
    table_1 = next(row for row in entry.published if row.table == "1" and row.strategy == strategy)
    for weights, shares in entry.weights.items():
        by_hand = sum(
            shares.get(name, 1 / 7) * table_1.mean_and_sd(id_)[0] for name, id_ in names.items()
        )
        printed, _ = published("diaz-icifar100", "3", "clscore", strategy=strategy, weights=weights)
        assert by_hand == pytest.approx(printed, abs=6e-5)


def test_clstability_of_diaz_rodriguez() -> None:
    found = [
        published("diaz-icifar100", "3", "clstability", strategy="si", weights=name)[0]
        for name in ("W1", "W2", "W3")
    ]
    assert found == [0.9970, 0.9945, 0.9927]


def test_worst_case_accuracies_are_lower_bounds_as_printed() -> None:
    # WC-ACC = A/k + (1 - 1/k) min-ACC: where ACC is printed, WC-ACC cannot be far above it.
    for entry in published_results().values():
        for row in entry.published:
            if {"acc", "wc_acc", "min_acc"} <= set(row.values):
                acc, wc_acc, low = (row.mean_and_sd(i)[0] for i in ("acc", "wc_acc", "min_acc"))
                assert low <= wc_acc <= acc + 0.25, row


def test_an_unknown_entry_names_the_near_ones() -> None:
    with pytest.raises(
        InputError, match=r"'delange-mnst' is not known; did you mean delange-mnist"
    ):
        find_published_result("delange-mnst")


def test_the_small_study_replaces_and_leaves_out() -> None:
    plain: dict[str, Any] = {
        "about": "", "paper": "", "tables": "", "hours": 1.0, "unit": "share", "deviations": [],
        "stand_in": "", "published": [], "name": "made-up",
        "study": {
            "scenarios": ["m2i", "split-mnist"], "strategies": ["naive", "ewc"],
            "run": {"epochs": 3, "lr": 0.1}, "scenario": {"m2i": {"lr": 0.2}},
            "strategy": {"ewc": {"strength": 2}},
        },
        "quick": {"strategies": ["naive"], "run": {"iterations": 2}},
    }  # fmt: skip
    entry = PublishedResult(**plain)
    small = entry.mapping(quick=True, without=["m2i"])
    assert small == {
        "scenarios": ["split-mnist"], "strategies": ["naive"], "run": {"lr": 0.1, "iterations": 2}
    }  # fmt: skip
    assert entry.mapping() == plain["study"]
    assert "epochs" in entry.study["run"]  # nothing was changed on the way
    assert CELL == ("scenario", "setting", "model", "strategy", "variant")
