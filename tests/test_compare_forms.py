"""What `perdure compare` prints: the same numbers in five forms, with what they rest on."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import stats

from .cli_helpers import run, says, table, write
from .compare_helpers import found, printed, spread, store
from .test_import import SCORE, loaded

if TYPE_CHECKING:
    from pathlib import Path

# Nine seeds: er is better than both others on every one of them; ewc and mas cross.
ER, EWC = spread(0.7, 9), spread(0.3, 9, 0.02)
MAS = {seed: EWC[seed] + (0.05 if seed % 2 else -0.03) for seed in EWC}
METHODS = {"er": ER, "ewc": EWC, "mas": MAS}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return store(tmp_path / "runs", METHODS)


def test_json_has_every_number(runs: Path) -> None:
    answer = found(runs)
    assert list(answer["metrics"]) == [
        "acc", "acc.learning", "bwt", "forgetting.best", "min_acc", "wc_acc"
    ]  # fmt: skip
    assert answer["paired_by"] == "seed"
    assert answer["seeds_in_common"] == list(range(9))
    acc = answer["metrics"]["acc"]
    for name, values in METHODS.items():
        each, mine = list(values.values()), acc["methods"][name]
        assert mine["mean"] == pytest.approx(np.mean(each))
        assert mine["sd"] == pytest.approx(np.std(each, ddof=1))
        ends = stats.t.interval(0.95, 8, np.mean(each), stats.sem(each))
        assert [mine["low"], mine["high"]] == pytest.approx(list(ends))
        assert mine["n"] == answer["methods"][name]["n"] == 9
        assert len(answer["methods"][name]["runs"]) == 9
    ranks = stats.rankdata([[-v for v in m.values()] for m in METHODS.values()], axis=0)
    assert [m["rank"] for m in acc["methods"].values()] == pytest.approx(ranks.mean(axis=1))
    assert [m["letters"] for m in acc["methods"].values()] == ["a", "b", "b"]
    flips = found(runs, "--test", "permutation")["metrics"]["acc"]["pairs"]
    p = {(pair["first"], pair["second"]): pair["p"] for pair in flips}
    assert p["er", "ewc"] == p["er", "mas"] == pytest.approx(3 * 2 / 2**9)
    assert p["ewc", "mas"] > 0.05
    raw = {}
    for pair in acc["pairs"]:
        a, b = (list(METHODS[pair[name]].values()) for name in ("first", "second"))
        expected = stats.ttest_rel(a, b)
        ends = expected.confidence_interval(0.95)
        assert [pair["low"], pair["high"]] == pytest.approx([ends.low, ends.high])
        assert pair["difference"] == pytest.approx(np.mean(a) - np.mean(b))
        raw[pair["first"], pair["second"]] = expected.pvalue
    order = sorted(raw.values())
    for pair in acc["pairs"]:
        mine = raw[pair["first"], pair["second"]]
        holm = max((3 - k) * p for k, p in enumerate(order) if p <= mine)
        assert pair["p"] == pytest.approx(min(holm, 1))
    # The lowest on the way to acc is half of it, in every run.
    lowest = answer["metrics"]["min_acc"]["methods"]
    for name, mine in acc["methods"].items():
        assert lowest[name]["mean"] == pytest.approx(mine["mean"] / 2)


def test_bca_level_and_alpha(runs: Path) -> None:
    narrow = found(runs, "--metrics", "acc", "--level", "0.5")["metrics"]["acc"]["methods"]["er"]
    ends = stats.t.interval(0.5, 8, np.mean(list(ER.values())), stats.sem(list(ER.values())))
    assert [narrow["low"], narrow["high"]] == pytest.approx(list(ends))
    says(printed(runs, "--interval", "bca", "--level", "0.9"), "90% interval", "BCa", "9 seeds")
    strict_ = found(runs, "--metrics", "acc", "--alpha", "0.01", "--test", "permutation")
    assert {m["letters"] for m in strict_["metrics"]["acc"]["methods"].values()} == {"a"}
    assert (strict_["seeds_needed"], strict_["min_attainable_p"]) == (
        10,
        pytest.approx(3 * 2 / 2**9),
    )
    by_t = found(runs, "--metrics", "acc", "--alpha", "0.01")
    assert (by_t["seeds_needed"], by_t["min_attainable_p"]) == (None, None)


def test_text_says_what_the_numbers_rest_on(runs: Path, tmp_path: Path) -> None:
    text = printed(runs)
    says(
        text, "split-x, class-incremental, 2 tasks: 3 methods, seeds 0-8", "paired by their seeds",
        "over the 9 seeds of each method",
        "paired t-test, two-sided; it assumes that seeds are independent and",
        "their differences roughly normal; Holm's correction over 3 pairs within each metric",
        "alpha = 0.05", "perdure explain acc acc.learning", "not corrected and may exclude 0",
        "acc ↑ average accuracy", "forgetting.best ↓", "g_z: mean difference in SDs",
    )  # fmt: skip
    assert "can reach" not in text
    assert "cannot go below" not in text
    says(printed(runs, "--test", "permutation"), "9 seeds can reach p = 0.01172")
    one = store(tmp_path / "one", {"er": spread(0.7, 1), "ewc": spread(0.3, 1)})
    says(printed(one), "split-x, class-incremental, 2 tasks: 2 methods, seed 0\n")
    few = store(tmp_path / "few", {"er": spread(0.7, 5), "ewc": spread(0.3, 5)})
    for test in ("permutation", "wilcoxon"):
        text = printed(few, "--test", test)
        says(text, "5 seeds cannot go below p = 0.0625, whatever the scores", "at least 6")
        says(text, "unbounded")


def test_text_shows_the_best_first(runs: Path) -> None:
    blocks = printed(runs, "--metrics", "acc,forgetting.learned").split("\n\n")
    pairs = [blocks.pop(2), blocks.pop(3)]
    assert blocks[1].splitlines()[1].split() == [
        "method", "mean", "SD", "95%", "interval", "rank", "n", "letters"
    ]  # fmt: skip
    answer = found(runs, "--metrics", "acc,forgetting.learned")["metrics"]
    for block, (id_, one) in zip(blocks[1:3], answer.items(), strict=True):
        rows = [line.split() for line in block.splitlines()[2:]]
        sign = 1 if one["better"] == "lower" else -1
        assert [row[0] for row in rows] == sorted(
            METHODS, key=lambda name: sign * one["methods"][name]["mean"]
        ), id_
        for row in rows:
            mine = one["methods"][row[0]]
            assert [float(row[1]), float(row[2])] == pytest.approx(
                [mine["mean"], mine["sd"]], abs=6e-5
            )
            assert [float(row[3]), float(row[5])] == pytest.approx(
                [mine["low"], mine["high"]], abs=6e-5
            )
            assert row[6:] == [f"{mine['rank']:.2f}", "9", mine["letters"]]
    for block, (id_, one) in zip(pairs, answer.items(), strict=True):
        lines = block.splitlines()
        assert lines[0] == f"{id_} differences"
        assert lines[1].split() == [
            "pair", "difference", "95%", "interval", "g_z", "p", "after", "Holm"
        ]  # fmt: skip
        for line, pair in zip(lines[2:], one["pairs"], strict=True):
            cells = line.split()
            assert cells[:3] == [pair["first"], "-", pair["second"]]
            sizes = [float(cells[k]) for k in (3, 4, 6, 7)]
            expected = [pair[name] for name in ("difference", "low", "high", "effect")]
            assert sizes == pytest.approx(expected, abs=6e-3)
            assert cells[8].endswith("*") == pair["distinguishable"]


def test_many_pairs_are_one_table_of_p(tmp_path: Path) -> None:
    names = [f"m{k}" for k in range(6)]
    runs = store(tmp_path, {name: spread(0.1 * k, 3, 0.01 * k) for k, name in enumerate(names)})
    blocks = printed(runs, "--metrics", "acc,bwt").split("\n\n")
    assert len(blocks) == 5
    says(blocks[3], "p after Holm (* below 0.05)", "m0 - m1", "m4 - m5")
    says(blocks[4], "intervals and effects: --details")
    assert len(printed(runs, "--metrics", "acc,bwt", "--details").split("\n\n")) == 6
    against = printed(runs, "--metrics", "acc,bwt", "--against", "m0").split("\n\n")
    assert len(against) == 6  # five pairs are not many


def test_percent_and_digits(runs: Path) -> None:
    mean = np.mean(list(ER.values()))
    says(printed(runs, "--metrics", "acc", "--percent"), f"{100 * mean:.2f}", "acc (%) ↑")
    says(printed(runs, "--metrics", "acc", "--percent", "--digits", "0"), f" {100 * mean:.0f} ")
    says(printed(runs, "--metrics", "acc", "--digits", "1"), f" {mean:.1f} ")
    plain = printed(runs, "--metrics", "acc", "--format", "csv")
    assert (
        printed(runs, "--metrics", "acc", "--format", "csv", "--percent", "--digits", "1") == plain
    )
    rank = printed(runs, "--metrics", "uraa", "--percent", "--format", "markdown")
    assert "(%)" not in rank  # a ratio is no percentage


def test_csv_has_a_line_for_each_metric_and_method(runs: Path) -> None:
    lines = list(csv.DictReader(io.StringIO(printed(runs, "--format", "csv"))))
    answer = found(runs)["metrics"]
    assert len(lines) == 18
    for line in lines:
        mine = answer[line["id"]]["methods"][line["method"]]
        numbers = [float(line[name]) for name in ("mean", "SD", "low", "high", "rank")]
        assert numbers == [mine[name] for name in ("mean", "sd", "low", "high", "rank")]
        assert (line["letters"], line["n"]) == (mine["letters"], "9")
        assert line["better"] == answer[line["id"]]["better"]
    _, second = printed(runs, "--format", "csv", "--details", "--metrics", "acc").split("\n\n")
    pairs = list(csv.DictReader(io.StringIO(second)))
    assert [(pair["first"], pair["second"]) for pair in pairs] == [
        ("er", "ewc"), ("er", "mas"), ("ewc", "mas")
    ]  # fmt: skip
    assert [float(pair["p"]) for pair in pairs] == [pair["p"] for pair in answer["acc"]["pairs"]]
    assert [pair["distinguishable"] for pair in pairs] == ["true", "true", "false"]


def test_markdown(runs: Path) -> None:
    text = printed(runs, "--format", "markdown", "--metrics", "acc,forgetting.learned")
    rows = [re.split(r"\s*\|\s*", line.strip("| ")) for line in text.splitlines()[:5]]
    assert rows[0] == ["method", "acc ↑", "forgetting.learned ↓"]
    assert rows[1] == ["---", "---:", "---:"]
    assert [row[0] for row in rows[2:]] == list(METHODS)
    assert re.fullmatch(r"\*\*0\.\d{4} ± 0\.\d{4}\*\*<sup>a</sup>", rows[2][1])
    assert re.fullmatch(r"0\.\d{4} ± 0\.\d{4}<sup>b</sup>", rows[3][1])
    assert text.count("**") == 4
    says(
        text,
        "- runs are paired by their seeds",
        "- paired t-test",
        "9 seeds of each",
    )
    more = printed(runs, "--format", "markdown", "--details")
    says(
        more, "**95% interval**", "**mean rank over seeds**", "**p after Holm", "**acc differences"
    )


def test_latex(runs: Path) -> None:
    text = printed(runs, "--format", "latex", "--metrics", "acc,forgetting.learned,wc_acc")
    comments = [line for line in text.splitlines() if line.startswith("% ")]
    says(
        " ".join(comments),
        "paired by their seeds",
        "9 seeds",
        r"\usepackage{booktabs}",
        "explain",
    )
    body = text.splitlines()[len(comments) :]
    assert body[:4] == [
        r"\begin{tabular}{lrrr}", r"\toprule",
        r"method & $\mathrm{ACC}$ $\uparrow$ & $\mathrm{FORG}$ $\downarrow$ & WC-ACC $\uparrow$ \\",
        r"\midrule",
    ]  # fmt: skip
    assert body[-2:] == [r"\bottomrule", r"\end{tabular}"]
    er, ewc, mas = (row.removesuffix(r" \\").split(" & ") for row in body[4:7])
    number = r"0\.\d{4} \$\\pm\$ 0\.\d{4}"
    assert all(re.fullmatch(rf"\\textbf{{{number}}}\\textsuperscript{{a}}", c) for c in er[1:])
    means = {name: np.mean(list(each.values())) for name, each in METHODS.items()}
    second, third = (ewc, mas) if means["ewc"] > means["mas"] else (mas, ewc)
    assert all(
        re.fullmatch(rf"\\underline{{{number}}}\\textsuperscript{{b}}", c) for c in second[1:]
    )
    assert all(re.fullmatch(rf"{number}\\textsuperscript{{b}}", c) for c in third[1:])
    more = printed(runs, "--format", "latex", "--details")
    assert more.count(r"\begin{tabular}") == more.count(r"\end{tabular}") == 4 + 6
    says(
        more,
        "% 95% interval",
        "% mean rank",
        "% p after Holm",
        r"\textless{}" if "<" in more else "",
    )


def test_ties_are_all_best_or_all_second(tmp_path: Path) -> None:
    tied = {"a": {0: 0.5, 1: 0.7}, "b": {0: 0.7, 1: 0.5}, "c": {0: 0.2, 1: 0.1},
            "d": {0: 0.1, 1: 0.2}, "e": {0: 0.0, 1: 0.1}}  # fmt: skip
    text = printed(store(tmp_path, tied), "--format", "latex", "--metrics", "acc")
    rows = [line for line in text.splitlines() if line.endswith(r"\\")][1:]
    marks = [re.findall(r"textbf|underline", row) for row in rows]
    assert marks == [["textbf"], ["textbf"], ["underline"], ["underline"], []]
    near = {"a": {0: 0.50001}, "b": {0: 0.50002}}  # as printed they are the same
    text = printed(store(tmp_path / "near", near), "--format", "latex", "--metrics", "acc")
    assert text.count("textbf") == 2
    assert text.count("underline") == 0
    assert (
        printed(tmp_path / "near", "--format", "latex", "--metrics", "acc", "--digits", "6").count(
            "textbf"
        )
        == 1
    )


def test_names_with_markup_come_out_unharmed(tmp_path: Path) -> None:
    nasty = {"a_b & 50%": spread(0.7, 2), "[red]x|y": spread(0.3, 2), "$#{}~^\\": spread(0.1, 2)}
    files = []
    for k, (name, accs) in enumerate(nasty.items()):
        files.append(f"{name}=" + ",".join(
            str(write(tmp_path, f"{k}/{seed}.csv", f"{acc},0\n{acc},{acc}\n"))
            for seed, acc in accs.items()))  # fmt: skip
    latex = printed(*files, "--format", "latex", "--metrics", "acc")
    says(latex, r"a\_b \& 50\%", r"[red]x\textbar{}y", r"\$\#\{\}\textasciitilde{}")
    says(printed(*files, "--format", "markdown", "--metrics", "acc"), r"a_b & 50%", r"\[red]x\|y")
    assert list(found(*files)["methods"]) == list(nasty)
    answer = run("compare", *files, terminal=True)
    assert (answer.code, answer.err) == (0, "")
    says(re.sub(r"\x1b\[[\d;]*m", "", answer.out), *nasty)


def test_matrices_are_paired_by_file_order(tmp_path: Path) -> None:
    for name, accs in METHODS.items():
        for seed, acc in accs.items():
            write(tmp_path, f"{name}-{seed}.csv", f"{100 * acc},0\n{100 * acc},{100 * acc}\n")
    files = [f"{name}={tmp_path}/{name}-*.csv" for name in METHODS]
    answer = found(*files, "--metrics", "acc", "--percent")
    assert (answer["paired_by"], answer["seeds_in_common"]) == ("file order", 9)
    expected = found(store(tmp_path / "runs", METHODS), "--metrics", "acc")["metrics"]["acc"]
    assert answer["metrics"]["acc"]["pairs"] == [
        {key: pytest.approx(value) if isinstance(value, float) else value
         for key, value in pair.items()} for pair in expected["pairs"]
    ]  # fmt: skip
    says(printed(*files, "--percent"), "runs are paired by file order", "2 tasks: 3 methods\n")


def test_losses_are_better_when_lower(tmp_path: Path) -> None:
    for name, loss in (("good", 1.0), ("bad", 2.0)):
        write(tmp_path, f"{name}.csv", f"{loss},9\n{loss},{loss}\n")
    files = [tmp_path / "bad.csv", tmp_path / "good.csv"]
    text = printed(*files, "--lower-is-better", "--metrics", "acc")
    says(text, "acc ↓ average score")
    assert text.index("\ngood") < text.index("\nbad")
    assert (
        found(*files, "--range", "0,9", "--metrics", "acc")["metrics"]["acc"]["better"] == "higher"
    )


def test_one_seed_has_no_spread(tmp_path: Path) -> None:
    both = store(tmp_path, {"er": {0: 0.7}, "ewc": {0: 0.3}})
    answer = found(both, "--metrics", "acc")["metrics"]["acc"]["methods"]["er"]
    assert (answer["mean"], answer["sd"], answer["low"], answer["letters"]) == (
        0.7,
        None,
        None,
        None,
    )
    (pair,) = found(both, "--metrics", "acc")["metrics"]["acc"]["pairs"]
    assert (pair["difference"], pair["p"], pair["low"]) == (pytest.approx(0.4), None, None)
    says(printed(both), "1 seed: not tested, the paired t-test needs 2 or more", "not tested")
    says(printed(both, "--test", "permutation"), "1 seed cannot go below p = 1")
    for option in (["--unpaired"], ["--against", "er"], ["--test", "wilcoxon"]):
        for form in (
            [],
            ["--format", "json"],
            ["--format", "markdown", "--details"],
            ["--format", "csv", "--details"],
        ):
            assert "nan" not in printed(both, *option, *form)
    assert "nan" not in printed(both) + printed(both, "--format", "csv") + printed(
        both, "--format", "latex"
    )


def test_what_is_undefined_is_said(runs: Path) -> None:
    answer = run("compare", runs, "--metrics", "acc,fwt.gem,clstability")
    assert answer.code == 1
    says(answer.out, "undefined: fwt.gem: ", "clstability: is one number", "acc ↑")
    paper = run("compare", runs, "--metrics", "fwt.gem", "--format", "csv")
    assert paper.code == 1
    says(paper.err, "perdure: undefined: fwt.gem")
    (runs / "split-x-mas-s3" / "costs.csv").write_text("task,model_bytes\na,1\nb,1\n")
    one = run("compare", runs, "--metrics", "ms")
    says(one.out, "undefined: ms: in ", "split-x-er-s0")
    by_matrix = [f"er={write(runs.parent, 'a.csv', table())}",
                 f"ewc={write(runs.parent, 'b.csv', table())}"]  # fmt: skip
    default = run("compare", *by_matrix)
    assert default.code == 0  # what a matrix cannot tell is left out, and said
    says(default.out, "undefined: min_acc, wc_acc: needs a stream", "bwt")


def test_windows_and_batches_of_their_own(runs: Path) -> None:
    assert list(found(runs, "--metrics", "wf2,wpall,wp3")["metrics"]) == ["wf2", "wpall", "wp3"]
    answer = run("compare", runs, "--metrics", "lca3")
    says(answer.out, "undefined: lca3: ")
    assert "not computed" not in answer.out


@pytest.mark.parametrize("form", [[], ["--format", "json"], ["--format", "latex"]])
def test_comparing_loads_nothing_heavy(runs: Path, form: list[str]) -> None:
    script = SCORE.replace('"score"', '"compare"').format(arguments=[str(runs), *form])
    assert not {"torch", "duckdb", "matplotlib", "scipy.stats"} & set(loaded(script))
