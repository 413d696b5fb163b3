"""`perdure compare` by its tests: what it finds, and that no two of its forms contradict."""

from __future__ import annotations

import csv
import io
import re
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import stats

from perdure.metrics import compare_methods
from perdure.report.figures import ranks
from perdure.report.load import open_methods
from perdure.report.page import render_page
from perdure.report.page.results import PairTestOptions
from perdure.report.page.sections import build_sections
from perdure.report.page.summaries import summarize_methods

from .cli_helpers import refused, run, says, write
from .compare_helpers import found, printed, spread, store

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from perdure.stats import PairTestName

    Names = frozenset[str]

REPLAY = dict(enumerate([0.81, 0.79, 0.83, 0.80, 0.82]))
NAIVE = dict(enumerate([0.21, 0.22, 0.18, 0.20, 0.19]))


def test_five_seeds_find_an_obvious_difference(tmp_path: Path) -> None:
    runs = store(tmp_path, {"replay": REPLAY, "naive": NAIVE})
    (pair,) = found(runs, "--metrics", "acc")["metrics"]["acc"]["pairs"]
    assert pair["distinguishable"]
    assert pair["p"] < 1e-4
    assert pair["test"] == "paired t-test"
    assert -0.65 < pair["low"] < pair["difference"] < pair["high"] < -0.55
    assert (pair["first"], pair["second"]) == ("naive", "replay")


def test_the_same_difference_on_every_seed_is_said(tmp_path: Path) -> None:
    runs = store(tmp_path, {"replay": {0: 0.8, 1: 0.8}, "naive": {0: 0.2, 1: 0.2}})
    text = printed(runs, "--metrics", "acc,wc_acc")
    says(text, "naive - replay: identical difference on all 2 seeds, p = 0 (acc, wc_acc)")
    says(text, "<0.0001*", "with 2 seeds the paired t-test finds large differences only")
    (pair,) = found(runs, "--metrics", "acc")["metrics"]["acc"]["pairs"]
    assert (pair["p"], pair["effect"], pair["low"]) == (0.0, None, pytest.approx(-0.6))


def test_against_a_baseline_is_a_smaller_family(tmp_path: Path) -> None:
    methods = {"naive": NAIVE, "er": spread(0.25, 5), "ewc": spread(0.21, 5), "replay": REPLAY}
    runs = store(tmp_path, methods)
    every, some = (
        found(runs, "--metrics", "acc"),
        found(runs, "--metrics", "acc", "--against", "naive"),
    )
    assert (every["test"]["comparisons"], some["test"]["comparisons"]) == (6, 3)
    pairs = some["metrics"]["acc"]["pairs"]
    assert [(pair["first"], pair["second"]) for pair in pairs] == [
        ("er", "naive"), ("ewc", "naive"), ("replay", "naive")
    ]  # fmt: skip
    names = [pair["first"] for pair in pairs]
    raw = [stats.ttest_rel(list(methods[name].values()), list(NAIVE.values())) for name in names]
    order = np.argsort([each.pvalue for each in raw])
    assert pairs[order[0]]["p"] == pytest.approx(3 * raw[order[0]].pvalue)
    assert pairs[order[1]]["p"] == pytest.approx(2 * raw[order[1]].pvalue)
    assert {m["letters"] for m in some["metrics"]["acc"]["methods"].values()} == {None}
    text = printed(runs, "--metrics", "acc", "--against", "naive")
    says(text, "* differs from naive at alpha = 0.05", "replay - naive", "over 3 pairs")
    assert "letter" not in text
    table = printed(runs, "--metrics", "acc", "--against", "naive", "--format", "markdown")
    starred = {line.split("|")[1].strip() for line in table.splitlines() if "<sup>" in line}
    assert starred == {pair["first"] for pair in pairs if pair["distinguishable"]}
    message = refused("compare", runs, "--against", "navie")
    says(message, "--against is 'navie'", "did you mean naive?", "er, ewc, naive, replay")


def test_unpaired_runs_need_no_seed_in_common(tmp_path: Path) -> None:
    later = {seed + 10: value for seed, value in NAIVE.items() if seed < 4}
    runs = store(tmp_path, {"replay": REPLAY, "naive": later})
    assert "no seed is in all groups" in refused("compare", runs)
    for option in (["--unpaired"], ["--test", "welch"], ["--unpaired", "--test", "permutation"]):
        answer = found(runs, "--metrics", "acc", *option)
        assert (answer["paired_by"], answer["test"]["paired"]) == (None, False)
        (pair,) = answer["metrics"]["acc"]["pairs"]
        assert pair["distinguishable"]
        assert answer["metrics"]["acc"]["methods"]["naive"]["rank"] is None
    says(printed(runs, "--unpaired"), "not paired: naive 4, replay 5", "Welch's t-test")
    for name, last in (("a", 0.8), ("b", 0.7), ("c", 0.1)):
        write(tmp_path, f"{name}.csv", f"0.9,0\n{last},0.9\n")
    files = [f"one={tmp_path}/a.csv,{tmp_path}/b.csv", f"other={tmp_path}/c.csv"]
    answer = found(*files, "--unpaired", "--metrics", "acc")
    assert answer["metrics"]["acc"]["pairs"][0]["verdict"].startswith("not tested: 2 and 1 seeds")


@pytest.mark.parametrize("unpaired", [False, True])
def test_unpaired_tests_do_not_look_at_seeds(unpaired: bool) -> None:
    """A large spread between seeds that both share hides a difference from unpaired tests only."""
    level = [0.1, 0.3, 0.5, 0.7, 0.9]
    a = {seed: value + 0.03 + 0.001 * seed for seed, value in enumerate(level)}
    both = {"a": a, "b": dict(enumerate(level))}
    compared = compare_methods("acc", both, unpaired=unpaired)  # type: ignore[arg-type]
    assert compared.pairs["a", "b"].distinguishable is not unpaired


# --- one test, one answer

OPTIONS: list[tuple[PairTestName, bool]] = [
    ("t", False), ("t", True), ("welch", False), ("permutation", False), ("permutation", True),
    ("wilcoxon", False), ("wilcoxon", True),
]  # fmt: skip
METHODS = ["er", "ewc", "gem", "lwf"]


def drawn_at_random(seed: int) -> dict[str, dict[int, float]]:
    """Return four methods of which some differ, with ties; the last has seeds of its own too."""
    rng = np.random.default_rng(seed)
    seeds = int(rng.integers(5, 9))
    shared = rng.normal(0, 0.03, seeds)
    methods = {}
    for name in METHODS:
        level = rng.choice([0.4, 0.42, 0.45, 0.6])
        scores = level + shared + rng.normal(0, 0.02, seeds)
        methods[name] = dict(enumerate(scores.clip(0, 1).round(2).tolist()))
    methods[METHODS[-1]] |= {seeds + 1: 0.5, seeds + 3: 0.1}
    return methods


def apart_by_letters(letters: dict[str, str]) -> set[Names]:
    return {
        frozenset(p) for p in combinations(letters, 2) if not {*letters[p[0]]} & {*letters[p[1]]}
    }


def apart_in_figure(axes: Axes) -> tuple[set[Names], set[tuple[float, float]]]:
    """Return the pairs without a common letter, and the ranks that no bar joins."""
    texts = [re.findall(r"([\d.]+)|(\w+) \((\w+)\)", text.get_text()) for text in axes.texts]
    letters, rank = {}, {}
    for parts in texts:
        if len(parts) == 2:
            number = next(part[0] for part in parts if part[0])
            name, letter = next(part[1:] for part in parts if part[1])
            letters[name], rank[name] = letter, number
    joined = set()
    for line in axes.lines:
        if line.get_marker() == "o":
            at = [f"{float(x):.2f}" for x in np.asarray(line.get_xdata(), dtype=float)]
            joined |= {frozenset(pair) for pair in combinations(at, 2)}
    assert len(letters) == len(METHODS)
    unlinked = {
        frozenset(pair)
        for pair in combinations(METHODS, 2)
        if frozenset((rank[pair[0]], rank[pair[1]])) not in joined
    }
    return apart_by_letters(letters), unlinked  # type: ignore[return-value]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("test", "unpaired"), OPTIONS)
def test_nothing_contradicts(seed: int, test: PairTestName, unpaired: bool, tmp_path: Path) -> None:
    runs = store(tmp_path, drawn_at_random(seed))
    alpha = 0.1 if seed % 2 else 0.05
    options = ["--metrics", "acc", "--alpha", str(alpha), "--test", test]
    options += ["--unpaired"] if unpaired else []
    acc = found(runs, *options)["metrics"]["acc"]
    truth = {
        frozenset((pair["first"], pair["second"])) for pair in acc["pairs"] if pair["p"] < alpha
    }
    assert truth == {
        frozenset((p["first"], p["second"])) for p in acc["pairs"] if p["distinguishable"]
    }
    for pair in acc["pairs"]:
        assert pair["verdict"].startswith("distinguishable") == pair["distinguishable"]
    letters = {name: mine["letters"] for name, mine in acc["methods"].items()}
    assert apart_by_letters(letters) == truth
    assert in_text(printed(runs, *options)) == (truth, letters)
    rows = [
        line.split("|")
        for line in printed(runs, *options, "--format", "markdown").splitlines()[2:6]
    ]
    assert {row[1].strip(): re.findall(r"<sup>(\w+)", row[2])[0] for row in rows} == letters
    one, two = printed(runs, *options, "--format", "csv", "--details").split("\n\n")
    assert {row["method"]: row["letters"] for row in csv.DictReader(io.StringIO(one))} == letters
    assert truth == {
        frozenset((row["first"], row["second"]))
        for row in csv.DictReader(io.StringIO(two))
        if row["distinguishable"] == "true"
    }
    methods, _ = open_methods([str(runs)])
    figure = ranks(methods, test=test, unpaired=unpaired, alpha=alpha)
    by_letters, unlinked = apart_in_figure(figure.axes[0])
    assert by_letters == truth
    assert unlinked <= truth  # equal ranks are joined by any bar there
    shown = build_sections(summarize_methods(methods), [], PairTestOptions(test, unpaired, alpha))
    [part] = shown.parts
    column = [metric.id for metric in part.columns].index("acc")
    assert {row.name: row.cells[column].letters for row in part.results} == letters


def in_text(text: str) -> tuple[set[Names], dict[str, str]]:
    """Return the pairs with a star and the letters of a printed comparison."""
    blocks = text.split("\n\n")
    letters = {line.split()[0]: line.split()[-1] for line in blocks[1].splitlines()[2:]}
    rows = [line.split() for line in blocks[2].splitlines()[2:]]
    return {frozenset((row[0], row[2])) for row in rows if row[-1].endswith("*")}, letters


def test_some_random_data_differ_and_some_do_not() -> None:
    """What the test above goes over has both, with every test."""
    for test, unpaired in OPTIONS:
        verdicts = [
            pair.distinguishable
            for seed in range(2)
            for pair in compare_methods(
                "acc", drawn_at_random(seed), test=test, unpaired=unpaired, alpha=0.1,  # type: ignore[arg-type]
            ).pairs.values()
        ]  # fmt: skip
        assert any(verdicts), test
        assert not all(verdicts), test


def test_the_page_has_the_letters_and_says_where_they_are_from(tmp_path: Path) -> None:
    runs = store(tmp_path, {"er": spread(0.7, 5), "ewc": spread(0.3, 5, 0.02)})
    methods, _ = open_methods([str(runs)])
    text = render_page(methods)
    assert re.search(r"<sup>a</sup>.*<sup>b</sup>", text, re.S)
    says(text, "paired t-test, two-sided", "over the 5 seeds in common", "The best mean is bold")
    floor = render_page(methods, test=PairTestOptions("permutation"))
    says(floor, "sign-flip permutation test", "So few seeds cannot go below p = 0.0625")
    assert "<sup>b</sup>" not in floor
    out = tmp_path / "report.html"
    assert run("report", runs, "-o", out, "--test", "wilcoxon", "--unpaired").code == 0
    says(out.read_text(), "Mann-Whitney test", "--test wilcoxon --unpaired", "<sup>b</sup>")
    alone = render_page({name: several[:1] for name, several in methods.items()})
    says(alone, "not tested against each other: 1 seed, and the paired t-test needs 2 or more.")
    three = {**methods, "one": methods["er"][:1]}
    says(
        render_page(three, test=PairTestOptions("welch")), "<sup>b</sup>", "<sup>ab</sup>"
    )  # as compare has it
    apart = {"er": methods["er"][:2], "ewc": methods["ewc"][2:]}
    says(render_page(apart), "not tested against each other: no seed is in all of er, ewc.")
    assert not re.search(r"<sup>[a-z]</sup>", alone)
    assert "--alpha is 5" in refused("report", runs, "-o", out, "--alpha", "5")
