"""Faults that reviews and mutations found, kept from coming back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perdure import PerExample, ScoreMatrix, ScoreScale, Stream, summary
from perdure.metrics import LiveWindow, current_accuracy, selection_bias, summary_of_runs
from perdure.record import InputError, InputOptions, read_input, read_points
from perdure.report.tables import TextTable
from perdure.stats import compare_pair, compare_pairs, drop_bias, minimum_bias, wilson_interval

from .cli_helpers import run, write

if TYPE_CHECKING:
    from pathlib import Path

POINTS = "step,trained,tested,kind,score,n\n"


def two_tasks() -> Stream:
    return Stream(
        {"a": ([1, 2, 3, 4], [0.5, 0.9, 0.4, 0.6]), "b": ([3, 4], [0.3, 0.8])},
        [("a", 2), ("b", 4)],
        sizes={"a": 100, "b": 100},
    )


def test_the_bias_of_wc_acc_is_only_that_of_its_older_tasks() -> None:
    bounds = selection_bias(two_tasks(), ["min_acc", "wc_acc"])
    assert bounds["wc_acc"] == pytest.approx(bounds["min_acc"] / 2)


def test_a_stream_cut_inside_a_visit_goes_on_with_that_visit() -> None:
    cut = two_tasks().until(3)
    assert cut.spans[-1] == ("b", 3)
    assert current_accuracy(cut) == 0.3


def test_bounds_do_not_vanish_where_they_matter_most() -> None:
    assert minimum_bias(0.0, 100, 1000) > 0.05  # a true .02 reads 0
    rng = np.random.default_rng(0)
    pairs = rng.binomial(100, 0.5, size=(20_000, 2)) / 100
    imagined = np.maximum(pairs[:, 0] - pairs[:, 1], 0).mean()
    bound = drop_bias(2, 100, None)
    assert bound is not None
    assert imagined <= bound


def test_a_verdict_agrees_with_its_p_value() -> None:
    rng = np.random.default_rng(0)
    base = rng.random(12)
    six = base + np.r_[np.full(6, 0.1), np.zeros(6)]
    found = compare_pairs({"a": six, "b": base, "c": base - 5})
    for comparison in found.values():
        assert comparison.verdict.startswith("distinguishable") == comparison.distinguishable
        json.dumps(comparison)


def test_what_is_left_of_rounding_is_no_difference() -> None:
    assert compare_pair([0.3] * 6, [0.1 + 0.2] * 6).p == 1


def test_an_interval_uses_the_examples_of_its_own_evaluation() -> None:
    text = POINTS + "1,a,a,probe,.9,100\n2,b,a,full,.8,10000\n2,b,b,full,.9,10000\n"
    matrix = read_points(text, "p").matrix()
    found = summary(matrix)
    low, high = wilson_interval([0.9], [100])
    assert found.per_task_intervals["acc.learning"][0] == pytest.approx((low[0], high[0]))


def test_levels_of_losses_point_down_and_scales_must_agree(tmp_path: Path) -> None:
    path = write(tmp_path, "loss.csv", "1.5,2\n2,1\n")
    answer = run("score", path, "--lower-is-better", "--metrics", "acc,bwt")
    assert "acc ↓ 1.5000 average score" in " ".join(answer.out.split())
    losses = ScoreMatrix([[0.5]], scale=ScoreScale(0, 9, lower_is_better=True))
    with pytest.raises(ValueError, match="stream of"):
        summary(losses, stream=Stream({"a": ([1], [0.5])}, [("a", 1)]))


def test_several_runs_as_another_tool_have_what_only_several_runs_have(tmp_path: Path) -> None:
    costs = "task,flops_train,flops_one_pass,model_bytes,stored_bytes,data_bytes\n"
    costs += "a,10,5,8,0,4\nb,10,5,8,4,4\n"
    files = [write(tmp_path, f"{k}.csv", f".9,.1\n.{k},.8\n") for k in (5, 7)]
    cost = write(tmp_path, "costs.csv", costs)
    answer = run(
        "score", *files, "--costs", cost, "--costs", cost, "--as", "diaz2018", "--format", "json"
    )
    rows = {row["name"]: row["value"] for row in json.loads(answer.out)["rows"]}
    assert 0.9 < rows["CLstability"] < 1


def test_names_of_tasks_never_learned_are_kept() -> None:
    text = POINTS + "1,a,a,probe,.5,9\n1,a,z,probe,.2,9\n2,b,b,probe,.5,9\n2,b,a,probe,.4,9\n"
    points = read_points(text, "p")
    found = summary(points.matrix(), stream=points.stream())
    assert found.tasks == ("a", "b", "z")
    assert {len(each) for each in found.per_task.values()} == {3}


def run_folder(path: Path, points: str, **files: str) -> Path:
    path.mkdir()
    (path / "points.csv").write_text(POINTS + points)
    for name, text in files.items():
        (path / name.replace("_", ".")).write_text(text)
    return path


TWO = "1,a,a,full,.9,8\n2,b,a,probe,.5,8\n2,b,b,probe,.25,8\n"


def test_an_unfinished_run_reads_the_same_by_folder_and_by_file(tmp_path: Path) -> None:
    ours = run_folder(tmp_path / "ours", TWO, run_json="{}")
    for source in (ours, ours / "points.csv"):
        found = read_input(str(source))
        assert found.matrix is not None
        assert found.matrix.tasks == ("a",)
        assert any("unfinished" in note for note in found.notes)
    theirs = read_input(str(run_folder(tmp_path / "theirs", TWO)))
    assert theirs.matrix is not None
    assert theirs.matrix.tasks == ("a", "b")  # another tool's log says nothing of its end


def test_costs_must_be_of_the_tasks_that_were_learned(tmp_path: Path) -> None:
    points = write(tmp_path, "points.csv", POINTS + TWO)
    header = "task,model_bytes\n"
    for costs, message in (
        ("a,8\n", "1 task"),
        ("a,8\nz,8\n", "expected of"),
        ("b,8\na,8\n", "of"),
    ):
        path = write(tmp_path, "costs.csv", header + costs)
        with pytest.raises(InputError, match=message):
            read_input(str(points), costs=path)
    path = write(tmp_path, "costs.csv", header + "a,8\nb,16\nc,99\n")
    found = read_input(str(points), costs=path).costs
    assert found is not None
    assert found.tasks == ("a", "b")


def test_hits_are_thinned_as_the_stream_is(tmp_path: Path) -> None:
    lines = "".join(f"{step},a,a,probe,1,8\n" for step in range(1, 7))
    folder = run_folder(tmp_path / "run", lines)
    (folder / "per_example").mkdir()
    np.save(folder / "per_example" / "0.npy", np.arange(8))
    records = b"".join(step.to_bytes(8, "little") + b"\xff" for step in range(1, 7))
    (folder / "per_example" / "0.bin").write_bytes(records)
    assert read_input(str(folder), InputOptions(subsample=2)).per_example["a"].steps.tolist() == [
        2,
        4,
        6,
    ]


def test_only_keeps_nothing_else(tmp_path: Path) -> None:
    path = write(tmp_path, "m.csv", ".9,.1\n.6,.8\n")
    other = write(tmp_path, "n.csv", ".9,.1\n.5,.8\n")
    found = json.loads(
        run("score", path, other, "--classes", "2,2", "--metrics", "acc", "--format", "json").out
    )
    assert list(found["metrics"]) == list(found["per_task"]) == ["acc"]
    assert list(found["curves"]) == ["aa"]
    assert list(found["runs"][0]["metrics"]) == ["acc"]
    assert found["notes"] == ["mean over 2 files, taken as seeds of one method"]


def test_runs_that_name_other_tasks_say_so() -> None:
    runs = [summary(ScoreMatrix([[0.9, 0.1], [0.6, 0.8]], names)) for names in ("ab", "ba")]
    assert any("match by position" in note for note in summary_of_runs(runs).notes)


def test_a_criterion_without_weight_is_not_needed(tmp_path: Path) -> None:
    path = write(tmp_path, "m.csv", ".9,.1\n.6,.8\n")
    answer = run(
        "score", path, "--setting", "class", "--weights", "A=1,FWT=0", "--metrics", "clscore"
    )
    assert answer.code == 0


def test_not_a_number_is_no_score_of_a_live_window() -> None:
    with pytest.raises(ValueError, match="nan"):
        LiveWindow(3).update(float("nan"))


def test_control_characters_do_not_reach_a_terminal() -> None:
    assert "\x1b" not in TextTable(["id\x1b[31m"], [["a\x1bb"]]).text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (",0.1,0.2\n0.6,0.8,0.1\n0.5,0.6,0.7\n", "task 0 after task 0 is missing"),
        ("O.9,0.1,0.2\n0.6,0.8,0.1\n0.5,0.6,0.7\n", "line 1: 'O.9'"),
        (",a,b\nb,.1,.9\na,.8,.5\n", "rows are named"),
        ("eval_exp,training_exp\n0,1\n1,0\n", "look like a log"),
        ("step,tested,accuracy\n1,a,.5\n2,a,.6\n", "rename the column that has the scores"),
        (".9,.1\n.6,.8\n", "omit `percent=True`"),
    ],
)
def test_a_typo_does_not_become_another_matrix(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, "m.csv", text)
    with pytest.raises(InputError, match=message):
        read_input(str(path), InputOptions(percent="omit" in message))


def test_pandas_columns_that_count_are_still_a_header(tmp_path: Path) -> None:
    path = write(tmp_path, "m.csv", ",0,1\n0,.9,.1\n1,.6,.8\n")
    found = read_input(str(path)).matrix
    assert found is not None
    assert found.scores.tolist() == [[0.9, 0.1], [0.6, 0.8]]


def test_hits_hold_many_examples_without_a_table_of_them() -> None:
    results = PerExample.pack([1, 2], np.ones((2, 20_000), dtype=bool))
    assert (
        summary(Stream({"a": ([1, 2], [1.0, 1.0])}), per_example={"a": results}).intervals["wf10"][
            0
        ]
        == 0
    )


def test_a_points_file_of_a_run_knows_what_the_run_says(tmp_path: Path) -> None:
    folder = run_folder(
        tmp_path / "run", TWO, run_json='{"setting": "task", "classes": [2, 3]}', done_json="{}"
    )
    for source in (folder, folder / "points.csv"):
        found = read_input(str(source)).matrix
        assert found is not None
        assert (found.setting, found.classes is not None) == ("task", True)
