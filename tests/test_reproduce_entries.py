"""The published results of `perdure reproduce`: what they name exists, their numbers are right."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from typing import Any

import pytest

from perdure.record import InputError
from perdure.reproduction import find_published_result, load_published_results
from perdure.reproduction.claims import CLAIMS
from perdure.reproduction.published import CELL_FACTORS, PublishedResult
from perdure.scenarios import SCENARIOS
from perdure.studies import make_study

NAMES = sorted(load_published_results())
SMALL_DATA = {
    "digits", "mnist", "fashion-mnist", "omniglot-magi", "svhn", "cifar10", "tiny-imagenet-10",
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_both_studies_of_a_published_result_can_be_run(name: str) -> None:
    result = load_published_results()[name]
    for quick in (False, True):
        study = make_study(result.study_dict(quick=quick), name)
        assert study.cells
        if quick:
            needed = {data for each in study.scenarios for data in SCENARIOS[each].data}
            assert needed <= SMALL_DATA


@pytest.mark.parametrize("name", NAMES)
def test_every_published_row_is_one_cell_of_the_study(name: str) -> None:
    result = load_published_results()[name]
    cells = [cell._asdict() for cell in make_study(result.study, name).cells]
    for row in result.published:
        fits = [cell for cell in cells if all(cell[k] == v for k, v in row.factors.items())]
        assert len(fits) == 1, row
    for figure in result.figures:
        assert any(all(cell[k] == v for k, v in figure.factors.items()) for cell in cells), figure


@pytest.mark.parametrize("name", NAMES)
def test_every_published_result_is_described_and_has_claims(name: str) -> None:
    result = load_published_results()[name]
    assert result.hours > 0
    assert result.deviations
    assert result.quick_about
    assert name in CLAIMS or result.variant_of is not None
    assert result.published or result.extra_metrics


def test_every_table_and_figure_is_covered() -> None:
    tables: dict[str, set[str]] = defaultdict(set)
    figures: dict[str, str] = defaultdict(str)
    for result in load_published_results().values():
        tables[result.authors] |= {row.table for row in result.published}
        figures[result.authors] += " " + " ".join(figure.figure for figure in result.figures)
    assert tables["De Lange et al. 2023"] >= set("123456")
    assert tables["Diaz-Rodriguez et al. 2018"] == {"1", "3"}
    assert tables["Faber et al. 2023"] == set("3456")
    for number in range(2, 13):  # the figures with data of De Lange et al.
        assert f" {number}" in figures["De Lange et al. 2023"], number
    assert "3" in figures["Michel et al. 2023"]
    assert "4" in figures["Michel et al. 2023"]
    assert "1b" in figures["Diaz-Rodriguez et al. 2018"]


def published(name: str, table: str, id_: str, **where: object) -> tuple[float, float | None]:
    """Return the one number of a table that these factors name."""
    factors = {"subsample": 1, "weights": None, "on": "test", **where}
    rows = [
        row
        for row in find_published_result(name).published
        if row.table == table and all(getattr(row, key) == value for key, value in factors.items())
    ]
    assert len(rows) == 1, rows
    return rows[0].mean_and_sd(id_)


# The numbers stand in the TOML files only. They were compared with the papers' pages when these
# digests were made, so that no number changes unnoticed.
DIGESTS = {
    "delange-cifar10": "26390a1ee2728950",
    "delange-domainnet": "5c85832dd7edc68a",
    "delange-finetuning": "3618ad949667463b",
    "delange-mini-imagenet": "adf5983ec188e57c",
    "delange-mnist": "91a54f91cff098f2",
    "delange-online": "ddccbe6b4b96678f",
    "delange-rotated": "4fbb6234ff6fa2e9",
    "diaz-icifar100": "293ccd3b42b54b4d",
    "faber-efficientnet": "49cd4c1a281da9db",
    "faber-vgg9": "9ddac0c9efe3abb0",
}


@pytest.mark.parametrize("name", NAMES)
def test_published_numbers_do_not_change_unnoticed(name: str) -> None:
    numbers = [
        (
            row.table, sorted(row.factors.items()), row.subsample, row.weights, row.rank,
            sorted(row.values.items()),
        )
        for row in find_published_result(name).published
    ]  # fmt: skip
    digest = hashlib.sha256(repr(numbers).encode()).hexdigest()[:16] if numbers else None
    if find_published_result(name).variant_of is None:
        assert digest == DIGESTS.get(name)


@pytest.mark.parametrize("name", [n for n in NAMES if find_published_result(n).variant_of])
def test_a_variant_has_the_numbers_of_its_original_and_a_cell_for_each(name: str) -> None:
    variant = find_published_result(name)
    original = find_published_result(str(variant.variant_of))
    printed = {
        (row.table, row.scenario, row.setting, row.strategy): row.values
        for row in original.published
    }
    cells = make_study(variant.study, name).cells
    assert len(variant.published) == len(cells) > 0
    for row in variant.published:
        assert row.values == printed[row.table, row.scenario, row.setting, row.strategy]
        assert row.rank is None


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
    result = find_published_result("diaz-icifar100")
    names = {"A": "acc.lower", "REM": "rem", "BWT+": "bwt.positive", "FWT": "fwt.upper",
             "MS": "ms", "SSS": "sss", "CE": "ce"}  # fmt: skip
    table_1 = next(row for row in result.published if row.table == "1" and row.strategy == strategy)
    for weights, shares in result.weights.items():
        by_hand = sum(
            shares.get(name, 1 / 7) * table_1.mean_and_sd(id_)[0] for name, id_ in names.items()
        )
        printed, _ = published("diaz-icifar100", "3", "clscore", strategy=strategy, weights=weights)
        assert by_hand == pytest.approx(printed, abs=6e-5)


def test_worst_case_accuracies_are_lower_bounds_as_printed() -> None:
    # WC-ACC = A/k + (1 - 1/k) min-ACC: where ACC is printed, WC-ACC cannot be far above it.
    for result in load_published_results().values():
        for row in result.published:
            if {"acc", "wc_acc", "min_acc"} <= set(row.values):
                acc, wc_acc, low = (row.mean_and_sd(i)[0] for i in ("acc", "wc_acc", "min_acc"))
                assert low <= wc_acc <= acc + 0.25, row


def test_an_unknown_name_is_refused_with_similar_ones() -> None:
    with pytest.raises(InputError, match=r"'delange-mnst'; did you mean delange-mnist"):
        find_published_result("delange-mnst")


def test_the_quick_study_replaces_keys_and_leaves_scenarios_out() -> None:
    plain: dict[str, Any] = {
        "about": "", "paper": "", "tables": "", "hours": 1.0, "unit": "share", "deviations": [],
        "quick_about": "", "published": [], "name": "made-up",
        "study": {
            "scenarios": ["m2i", "split-mnist"], "strategies": ["naive", "ewc"],
            "run": {"epochs": 3, "lr": 0.1}, "scenario": {"m2i": {"lr": 0.2}},
            "strategy": {"ewc": {"strength": 2}},
        },
        "quick": {"strategies": ["naive"], "run": {"iterations": 2}},
    }  # fmt: skip
    result = PublishedResult(**plain)
    small = result.study_dict(quick=True, without=["m2i"])
    assert small == {
        "scenarios": ["split-mnist"], "strategies": ["naive"], "run": {"lr": 0.1, "iterations": 2}
    }  # fmt: skip
    assert result.study_dict() == plain["study"]
    assert plain["study"]["run"] == {"epochs": 3, "lr": 0.1}  # not changed on the way
    assert CELL_FACTORS == ("scenario", "setting", "model", "strategy", "variant")
