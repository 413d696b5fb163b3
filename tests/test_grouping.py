"""What may be averaged: seeds of one method, in every command; and what --percent then means."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perdure.metrics import summary

from .cli_helpers import refused, run, says, scored, strict, table, write
from .compare_helpers import made, spread, store
from .report_helpers import plotted

if TYPE_CHECKING:
    from pathlib import Path

ER, NAIVE = spread(0.7, 3), spread(0.2, 3)


def groups_of(*arguments: str | Path) -> dict[str, float]:
    """Return the acc that `perdure score` prints for each group."""
    answer = run("score", *arguments, "--metrics", "acc", "--format", "json")
    assert answer.code == 0, answer.err
    return {name: each["metrics"]["acc"] for name, each in strict(answer.out)["groups"].items()}


def test_a_store_is_scored_group_by_group(tmp_path: Path) -> None:
    runs = store(tmp_path, {"er": ER, "naive": NAIVE})
    expected = {"er": np.mean(list(ER.values())), "naive": np.mean(list(NAIVE.values()))}
    assert groups_of(runs) == pytest.approx(expected)
    assert groups_of(*sorted(runs.iterdir())) == pytest.approx(expected)
    out = run("score", runs, "--metrics", "acc").out
    says(out, "er\n", "naive\n", "mean over 3 runs that differ in the seed alone: 0-2")
    lines = run("score", runs, "--metrics", "acc", "--format", "csv").out.splitlines()
    assert [line.split(",")[:2] for line in lines] == [
        ["method", "id"], ["er", "acc"], ["naive", "acc"],
    ]  # fmt: skip
    for form, start in (("markdown", "### er"), ("latex", "% er")):
        says(run("score", runs, "--metrics", "acc", "--format", form).out, start)


@pytest.mark.parametrize(
    ("differ", "names"),
    [
        ({"scenario": "other"}, ["split-x", "other"]),
        ({"setting": "task"}, ["class", "task"]),
        ({"options": {"lr": 2}}, ["er lr=1", "er lr=2"]),
        ({"epochs": 9}, ["er epochs=1", "er epochs=9"]),
    ],
)
def test_one_seed_with_another_config_is_another_group(
    tmp_path: Path, differ: dict[str, object], names: list[str]
) -> None:
    one = {"scenario": "split-x", "strategy": "er", "epochs": 1, "setting": "class", "seed": 0}
    made(tmp_path / "0", 0.5, one | {"options": {"lr": 1}})
    made(tmp_path / "1", 0.9, one | {"options": {"lr": 1}} | differ)
    assert groups_of(tmp_path) == pytest.approx(dict(zip(names, (0.5, 0.9), strict=True)))
    line = refused("score", f"both={tmp_path}/*")
    says(line, "'both' differ in more than the seed", next(iter(differ)), "NAME=PATH", "--pool")
    pooled = scored(f"{tmp_path}/*", "--pool", "--metrics", "acc")
    assert pooled["metrics"]["acc"] == pytest.approx(0.7)
    says(pooled["notes"][0], "mean over 2 runs that differ in", next(iter(differ)), "as asked")


def test_how_a_loop_was_evaluated_is_part_of_its_config(tmp_path: Path) -> None:
    for k, every in enumerate((1, 1, 10)):
        evaluation = {"every": every, "seed": k, "where": "inline" if k else "process"}
        made(tmp_path / f"{k}", 0.5, {"strategy": "mine", "seed": k}, evaluation=evaluation)
    assert list(groups_of(tmp_path)) == ["mine every=1", "mine every=10"]


@pytest.mark.parametrize("said", [None, {}, {"seed": 0}])
def test_runs_that_state_nothing_are_told_apart_by_folder(
    tmp_path: Path, said: dict[str, int] | None
) -> None:
    accs = {"er-0": 0.9, "er-1": 0.8, "naive-0": 0.2, "naive-1": 0.3}
    for name, acc in accs.items():
        made(tmp_path / name, acc, said)
    assert groups_of(tmp_path) == pytest.approx(accs)
    says(run("score", tmp_path).out, "4 runs state no config", "NAME=PATH,PATH")
    compared = strict(run("compare", tmp_path, "--metrics", "acc", "--format", "json").out)
    assert list(compared["methods"]) == list(accs)
    if said:  # each has seed 0
        says(refused("score", f"er={tmp_path}/er-*"), "seed 0 twice", "er-0", "er-1", "--pool")
        return
    named = scored(f"er={tmp_path}/er-*", "--metrics", "acc")
    assert named["metrics"]["acc"] == pytest.approx(0.85)
    says(named["notes"][0], "2 runs without a stated seed, taken as seeds of one method")


def test_files_are_seeds_and_the_output_says_so(tmp_path: Path) -> None:
    half = [[0.5, 0.1], [0.25, 0.75]]
    files = [
        write(tmp_path, "s0.csv", ".9,.1\n.6,.8\n"),
        write(tmp_path, "s1.csv", table(rows=half)),
    ]
    found = scored(*files)
    assert found["metrics"]["acc"] == pytest.approx((0.7 + 0.5) / 2)
    assert found["notes"][0] == "mean over 2 files, taken as seeds of one method"
    assert scored(f"{tmp_path}/s*.csv")["metrics"] == found["metrics"]
    assert list(groups_of(f"a={files[0]}", f"b={files[1]}")) == ["a", "b"]
    says(refused("score", files[0], files[0]), "s0.csv: given twice")


def test_unfinished_and_unreadable_runs_do_not_stop_the_others(tmp_path: Path) -> None:
    store(tmp_path, {"er": ER, "naive": NAIVE})
    (tmp_path / "split-x-er-s1" / "done.json").unlink()
    for k in range(3):
        (tmp_path / f"split-x-naive-s{k}" / "points.csv").write_text("step,tested\n")
    answer = run("score", tmp_path, "--metrics", "acc")
    assert answer.code == 0
    says(answer.out, "unfinished and left out of the mean:", "er-s1")
    says(answer.out, "left out: ", "naive-s0", "score")
    found = scored(tmp_path, "--metrics", "acc")
    assert found["metrics"]["acc"] == pytest.approx((ER[0] + ER[2]) / 2)


def test_percent_sets_the_unit_of_a_runs_table(tmp_path: Path) -> None:
    runs = store(
        tmp_path / "runs",
        {"er": ER, "naive": NAIVE},
    )
    for folder in runs.iterdir():
        said = json.loads((folder / "run.json").read_text()) | {"scale": {"low": 0, "high": 1}}
        (folder / "run.json").write_text(json.dumps(said))
    one = runs / "split-x-er-s0"
    plain, percent = (scored(one, *option) for option in ((), ("--percent",)))
    assert percent == plain  # JSON is in fractions, whatever the table is in
    says(run("score", one, "--percent", "--metrics", "acc").out, "value (%)", "70.00")
    says(run("compare", runs, "--percent", "--metrics", "acc").out, "acc (%)", "71.17", "21.17")
    matrix = write(tmp_path, "m.csv", "90,10\n60,80\n")
    says(run("score", matrix, "--percent", "--metrics", "acc").out, "value (%)", "70.00")


def test_percent_of_losses_is_refused(tmp_path: Path) -> None:
    scale = {"low": 0, "high": None, "lower_is_better": True}
    for k in range(2):
        made(tmp_path / f"{k}", 0.5, {"strategy": f"s{k}", "seed": 0}, scale=scale)
    for command in ("score", "compare"):
        line = refused(command, tmp_path, "--percent", "--metrics", "acc")
        says(line, "scores run from 0 to inf", "expected 0 to 1", "--percent")


def test_an_upper_triangle_of_zeros_is_unmeasured(tmp_path: Path) -> None:
    ids = ("fwt.upper", "fwt.gem", "fwt.next", "acc.all", "forgetting.any")
    zeros = write(tmp_path, "m.csv", "0.9,0,0\n.6,.8,0\n.5,.7,.6\n")
    given = ("--initial", "0.1,0.1,0.1")
    found = scored(zeros, *given)
    for id_ in ids:
        says(found["undefined"][id_], "upper triangle is all zeros", "--upper measured")
    measured = scored(zeros, *given, "--upper", "measured")["metrics"]
    assert [measured[id_] for id_ in ids] == pytest.approx([0, -0.1, 0, 4.1 / 9, 0.25])
    assert found["metrics"] == {id_: measured[id_] for id_ in found["metrics"]}
    one_measured = write(tmp_path, "n.csv", "0.9,0,.1\n.6,.8,0\n.5,.7,.6\n")
    assert set(ids) <= scored(one_measured, *given)["metrics"].keys()
    assert "fwt.upper" in summary(np.tril(np.full((3, 3), 0.5))).undefined


def test_zeros_that_a_log_measured_are_zeros() -> None:
    log = "step,trained,tested,score\n1,a,a,.9\n1,a,b,0\n2,b,a,.6\n2,b,b,.8\n"
    found = scored("-", stdin=log.encode())["metrics"]
    assert (found["fwt.upper"], found["forgetting.any"]) == pytest.approx((0, 0.3))


def test_tasks_are_named_by_the_axis_of_evaluated_tasks(tmp_path: Path) -> None:
    turned = write(tmp_path, "m.csv", ",after cats,after dogs\ncats,.9,.6\ndogs,.1,.8\n")
    assert scored(turned, "--transposed")["tasks"] == ["cats", "dogs"]
    plain = write(tmp_path, "n.csv", ",cats,dogs\nafter cats,.9,.1\nafter dogs,.6,.8\n")
    assert scored(plain)["tasks"] == ["cats", "dogs"]
    only_rows = write(tmp_path, "o.csv", "cats,.9,.6\ndogs,.1,.8\n")
    assert scored(only_rows, "--transposed")["tasks"] == ["cats", "dogs"]


def test_clscore_names_the_weights_that_make_it_defined(tmp_path: Path) -> None:
    matrix, costs = write(tmp_path, "m.csv", table()), tmp_path / "c.csv"
    costs.write_text(
        "task,flops_train,flops_one_pass,model_bytes,stored_bytes,data_bytes\n"
        + "".join(f"{k},100,10,100,{10 * k},100\n" for k in range(5))
    )
    given = (matrix, "--setting", "class", "--costs", costs)
    found = scored(*given)
    reason = found["undefined"]["clscore"]
    says(reason, "needs fwt.upper, which is undefined", "to leave it out, use the weights ")
    weights = reason.partition("use the weights ")[2]
    names = ("acc.lower", "rem", "bwt.positive", "ms", "sss", "ce")
    expected = sum(found["metrics"][id_] for id_ in names) / 6
    assert scored(*given, "--weights", weights)["metrics"]["clscore"] == pytest.approx(expected)


def test_percent_is_the_unit_of_figures_and_pages_too(tmp_path: Path) -> None:
    scale = {"low": 0, "high": 1}
    for k in range(2):
        made(tmp_path / "runs" / f"{k}", 0.5, {"strategy": f"s{k}", "seed": 0}, scale=scale)
    matrix = write(tmp_path, "m.csv", "90,10\n50,50\n")
    for sources in ((tmp_path / "runs",), (matrix,)):
        picture, page = tmp_path / "x.svg", tmp_path / "x.html"
        assert run("plot", "heatmaps", *sources, "-o", picture, "--percent").code == 0
        says(picture.read_text(), ">accuracy (%)<", ">90.0<", ">50.0<")
        assert run("report", *sources, "-o", page, "--percent").code == 0
        says(page.read_text(), "acc</a> (%)", "50.00")
        assert plotted(page.read_text())["percent"] is True
    plain = run("plot", "heatmaps", tmp_path / "runs", "-o", tmp_path / "x.svg")
    assert plain.code == 0
    says((tmp_path / "x.svg").read_text(), ">accuracy<", ">0.90<")
    for k in range(2):
        folder = made(tmp_path / "losses" / f"{k}", 0.5, {"strategy": f"s{k}", "seed": 0})
        said = {"scale": {"low": 0, "high": None, "lower_is_better": True}, "config": {}}
        (folder / "run.json").write_text(json.dumps(said))
    line = refused("plot", "heatmaps", tmp_path / "losses", "-o", tmp_path / "y.svg", "--percent")
    says(line, "scores run from 0 to inf", "--percent")


def test_a_label_of_the_score_makes_no_other_method(tmp_path: Path) -> None:
    labels: list[dict[str, str]] = [{}, {"name": "accuracy"}]
    for k, label in enumerate(labels):
        scale = {"low": 0, "high": 1, **label}
        made(tmp_path / f"{k}", 0.5 + k / 10, {"strategy": "er", "seed": k}, scale=scale)
    assert scored(tmp_path, "--metrics", "acc")["metrics"]["acc"] == pytest.approx(0.55)


def test_a_seed_twice_is_pooled_only_when_asked_and_said(tmp_path: Path) -> None:
    for k in range(2):
        made(tmp_path / f"{k}", 0.5, {"strategy": "er", "seed": 0})
    says(refused("score", tmp_path), "seed 0 twice", "--pool")
    pooled = scored(tmp_path, "--pool", "--metrics", "acc")
    says(pooled["notes"][0], "2 runs that state a seed more than once, pooled as asked")
