"""Mistakes of somebody who scores matrices from several tools for the first time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

import perdure
from perdure.record import InputError

from .cli_helpers import refused, run, says, scored, write

if TYPE_CHECKING:
    from pathlib import Path

FULL = np.array([[0.9, 0.3, 0.2], [0.6, 0.85, 0.3], [0.45, 0.7, 0.95]])
LOG = "step,trained,tested,score\n1,a,a,0.9\n2,b,a,0.6\n2,b,b,0.8\n"


def lines(matrix: np.ndarray) -> str:
    return "\n".join(",".join(f"{v:g}" for v in row) for row in matrix) + "\n"


def test_percent_prints_fractions_in_percent(tmp_path: Path) -> None:
    fractions = write(tmp_path, "fractions.csv", lines(FULL))
    percent = write(tmp_path, "percent.csv", lines(100 * FULL))
    log = write(tmp_path, "log.csv", LOG)
    for path in (fractions, percent, log):
        answer = run("score", path, "--metrics", "acc", "--percent")
        assert answer.code == 0
        says(answer.out, "70.00")
        assert ("read as fractions" in answer.out) == (path != percent)
    answer = run("compare", f"a={fractions}", f"b={percent}", "--metrics", "acc", "--percent")
    assert answer.code == 0
    assert answer.out.count("70.00") == 2


def test_a_log_of_fractions_is_not_percent(tmp_path: Path) -> None:
    path = write(tmp_path, "log.csv", LOG)
    with pytest.raises(InputError, match="omit `percent=True`"):
        perdure.score(path, percent=True)


def test_a_full_matrix_that_looks_transposed_is_noted(tmp_path: Path) -> None:
    path = write(tmp_path, "columns.csv", lines(FULL.T))
    says(" ".join(scored(path)["notes"]), "above the diagonal is better", "--transposed")
    assert scored(path, "--transposed")["notes"] == []
    assert scored(path, "--no-transposed")["notes"] == []
    losses = write(tmp_path, "losses.csv", lines(3 * (1 - FULL.T)))
    options = ("--range", "0,inf", "--lower-is-better")
    says(" ".join(scored(losses, *options)["notes"]), "above the diagonal is better")


def test_transposed_is_refused_on_a_lower_triangle(tmp_path: Path) -> None:
    path = write(tmp_path, "rows.csv", "0.9,,\n0.6,0.85,\n0.45,0.7,0.95\n")
    says(refused("score", path, "--transposed"), "above the diagonal", "omit --transposed")


def test_a_group_that_is_left_out_is_left_out_aloud(tmp_path: Path) -> None:
    good, bad = write(tmp_path, "good.csv", lines(FULL)), write(tmp_path, "bad.csv", "0.9,O.1\n")
    methods = write(tmp_path, "methods.json", json.dumps({"er": FULL.tolist()}))
    answer = run("score", methods, good, bad, "--metrics", "acc")
    says(answer.out, "left out: all 2 runs of good: ", "bad.csv")


def test_compare_says_where_a_file_of_methods_goes(tmp_path: Path) -> None:
    one = write(tmp_path, "one.csv", lines(FULL))
    methods = write(tmp_path, "m.json", json.dumps({"er": FULL.tolist(), "ewc": FULL.tolist()}))
    says(refused("compare", f"lwf={one}", methods), "m.json", "put it before the first NAME=PATH")
    says(refused("compare", f"lwf={methods}"), "m.json", "omit lwf=")
    assert run("compare", methods, f"lwf={one}", "--metrics", "acc").code == 0


def test_seeds_given_as_methods_are_told_how_to_be_named(tmp_path: Path) -> None:
    seeds = write(tmp_path, "seeds.json", json.dumps({"er": [FULL.tolist(), FULL.tolist()]}))
    one = write(tmp_path, "s0.csv", lines(FULL))
    says(refused("compare", seeds, one), "s0 has 1", "NAME=PATH,PATH", "--unpaired", "--force")


def test_reasons_name_tasks(tmp_path: Path) -> None:
    path = write(tmp_path, "named.csv", ",T1,T2\nT1,0.9,\nT2,0.6,0.85\n")
    says(scored(path)["undefined"]["fwt.next"], "the score on T2 after T1")
    says(refused("score", write(tmp_path, "m.csv", ",A,B\nA,0.9,\nB,0.6,\n")), "on B after B")
    says(refused("score", write(tmp_path, "m.csv", ",A,B\nA,0.9,\nB,7,0.8\n")), "on A after B")


def test_python_takes_one_metric_as_text_everywhere() -> None:
    methods = {"er": FULL, "ewc": FULL}
    assert list(perdure.compare(methods, metrics="acc").metrics) == ["acc"]
    assert list(perdure.score(FULL, metrics="acc").metrics) == ["acc"]
    assert list(perdure.repeat(lambda _: FULL, 2, metrics="aa").metrics) == ["acc"]
    (group,) = perdure.score_groups(FULL, metrics="acc").groups.values()
    assert list(group.summary.metrics) == ["acc"]


def test_paths_instead_of_scores_are_told_where_to_go() -> None:
    with pytest.raises(InputError, match=r"'s0.csv' is text.*'NAME=PATH,PATH'"):
        perdure.score(["s0.csv", "s1.csv"])
    with pytest.raises(InputError, match=r"er: 's0.csv' is text.*'NAME=PATH,PATH'"):
        perdure.compare({"er": ["s0.csv", "s1.csv"], "ewc": "s2.csv"})


def test_print_shows_what_was_read_and_what_is_shown(tmp_path: Path) -> None:
    path = write(tmp_path, "percent.csv", lines(100 * FULL))
    says(repr(perdure.which(path, "-0.30")), "note: ", "read as percent")
    single = repr(perdure.compare({"er": FULL, "ewc": FULL - 0.1}, metrics=["acc"]))
    assert "±" not in single
    assert "letter" not in single


def test_other_names_of_several_seeds(tmp_path: Path) -> None:
    paths = [write(tmp_path, f"s{k}.csv", lines(100 * FULL - k)) for k in range(3)]
    answer = run("score", *paths, "--as", "avalanche")
    assert answer.out.count("read as percent") == 1
    says(answer.out, "mean of 3 runs; test sets assumed equal")


def test_a_variance_in_percent_has_its_unit(tmp_path: Path) -> None:
    path = write(tmp_path, "m.csv", lines(FULL))
    options = ("--percent", "--metrics", "memory_stability")
    says(run("score", path, *options).out, "memory stability (variance), in squared %")
    assert "%" not in run("score", path, *options, "--format", "csv").out.splitlines()[-1]
    answer = run("compare", f"a={path}", f"b={write(tmp_path, 'n.csv', lines(FULL / 2))}", *options)
    says(answer.out, "memory_stability (squared %)")


def test_latex_says_what_it_needs(tmp_path: Path) -> None:
    path = write(tmp_path, "m.csv", lines(FULL))
    answer = run("score", path, "--metrics", "acc", "--format", "latex")
    assert answer.out.startswith("% needs \\usepackage{booktabs}\n\\begin{tabular}")


def test_one_run_of_each_method_has_no_sd(tmp_path: Path) -> None:
    methods = write(tmp_path, "m.json", json.dumps({"er": FULL.tolist(), "ewc": FULL.tolist()}))
    answer = run("compare", methods, "--metrics", "acc")
    says(answer.out, "one run of each method")
    assert "SD over" not in answer.out


def test_a_table_of_another_library_is_refused_in_one_line() -> None:
    class Frame:
        def __repr__(self) -> str:
            return "  method  score\n0 er  0.5"

        def to_csv(self) -> None: ...

    with pytest.raises(
        InputError, match=r"^array: got Frame, expected .* CSV file and score that$"
    ):
        perdure.score(Frame())  # type: ignore[arg-type]


def test_the_kinds_of_figures_fit_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = run("plot", terminal=True).out
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.split() == run("plot").out.split()


def test_values_after_each_task_go_by_the_ids_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path, "m.csv", lines(FULL))
    answer = run("score", path, "--metrics", "acc,forgetting.best", "--per-task", "--format", "csv")
    after = answer.out.partition("after each task")[2].splitlines()[1:]
    assert [line.partition(",")[0] for line in after if line] == ["acc", "forgetting.best"]


def test_a_method_that_is_left_over_is_named(tmp_path: Path) -> None:
    good, bad = [[0.9, None], [0.6, 0.8]], [[0.9, None], [60, 80]]
    file = tmp_path / "two.json"
    file.write_text(json.dumps({"er": [good, good], "naive": [good, bad]}))
    notes = perdure.score_groups(file).notes
    assert "left out" in notes[0]
    assert notes[-1] == "these are the scores of er alone"


def test_reasons_that_methods_share_are_printed_once(tmp_path: Path) -> None:
    both = {"er": FULL.tolist(), "ewc": [[0.9], [0.6, 0.8], [0.5, 0.7, 0.9]]}
    out = run("score", write(tmp_path, "both.json", json.dumps(both))).out
    assert out.count("undefined\n") == 1
    assert out.count("needs the costs of each task") == 1
    says(out, "acc.all, fwt.upper, fwt.next, forgetting.any: needs the score on", "(ewc)")
    same = {"er": FULL.tolist(), "si": FULL.tolist()}
    assert "(er" not in run("score", write(tmp_path, "same.json", json.dumps(same))).out


def test_scores_on_entering_a_task_are_not_those_of_the_untrained_model(tmp_path: Path) -> None:
    """An `initial` line after step 0 is there; the reason says why it does not count."""
    rows = (
        "step,trained,tested,kind,score\n0,cat,cat,initial,0.1\n5,cat,cat,full,0.9\n"
        "5,cat,dog,full,0.2\n5,dog,dog,initial,0.2\n9,dog,cat,full,0.5\n9,dog,dog,full,0.8\n"
    )
    out = run("score", write(tmp_path, "log.csv", rows), "--metrics", "fwt.gem").out
    says(out, "untrained model's score on dog", "`initial` line at step 0", "--initial")
    first = rows.replace("5,dog,dog,initial", "0,cat,dog,initial")
    assert scored(write(tmp_path, "first.csv", first))["metrics"]["fwt.gem"] == pytest.approx(0)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("commas.csv", "0,9,0,1\n0,75,0,8\n", ("0,9,0,1", "decimal commas", "semicolons")),
        ("triangle.csv", "0,9\n0,75,0,8\n1,0,0,7,0,9\n", ("decimal commas", "points")),
        ("acc.csv", "trained,tested,acc\na,a,0.9\n", ("trained,tested,acc", "rename", "to score")),
        ("log.csv", "step,tested,accuracy\n1,a,0.9\n", ("no column score", "rename")),
        (
            "untrained.csv",
            "trained,tested,score\ninitial,a,0.1\na,a,0.9\n",
            ("'initial' is trained and never tested", "leave `trained` empty"),
        ),
        ("study.toml", "seeds = 3\n", ("`perdure study report", "study.toml")),
    ],
)
def test_a_file_of_another_form_is_told_what_to_change(
    tmp_path: Path, name: str, text: str, words: tuple[str, ...]
) -> None:
    says(refused("score", write(tmp_path, name, text)), *words)


def test_run_json_is_told_to_be_its_folder(tmp_path: Path) -> None:
    path = write(tmp_path / "run0", "run.json", "{}")
    says(refused("score", path), "has no scores", f"expected its run folder: {path.parent}")


def test_whole_numbers_are_not_taken_for_halves(tmp_path: Path) -> None:
    assert scored(write(tmp_path, "one.csv", "1,0\n0,1\n"))["metrics"]["acc"] == 0.5
