"""Bad input: exit code 2 and one line that names file, place, value and what was expected."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from .cli_helpers import (
    COSTS,
    POINTS,
    R,
    judged_refusal,
    refused,
    says,
    start,
    table,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

GIB = 1 << 30
LOSSES = table(rows=[[f"{9 * cell:.10g}" for cell in row] for row in R])

BAD_FILES: dict[str, tuple[str | bytes, tuple[str, ...]]] = {
    "ragged_short": (".9,.1\n.5\n", ("line 2", "1 entry", "expected 2")),
    "ragged_long": (".9,.1\n.5,.8\n.1,.2,.3\n", ("line 3", "3 entries", "expected 2")),
    "ragged_after_comment": ("# x\n\n.9 .1\n.5 .8 .7\n", ("line 4", "3", "expected 2")),
    "ragged_json": ("[[0.9, 0.1], [0.5]]", ("row 1", "1", "expected 2")),
    "ragged_object": ('{"matrix": [[0.9, 0.5], [0.1]]}', ("row 1", "1", "expected 2")),
    "upside_down": ('[[0.9, 0.5, 0.1], [0.5, 0.4], [0.3]]', ("row 1", "2", "expected 3")),
    "null_row": ("[[0.9, 0.1], null]", ("row 1", "expected 2")),
    "null_row_of_one": ("[[0.9], null]", ("row 1", "null", "expected")),
    "flat_list": ("[0.9, 0.1]", ("square", "(2,)")),
    "text_last_row": (".9,.1\n.5,abc\n", ("line 2", "'abc'", "expected a number")),
    "text_first_row": (".9,abc\n.5,.8\n", ("line 1", "'abc'", "expected a number")),
    "text_first_row_of_3": (".9,x,.1\n.5,.8,.1\n.2,.3,.4\n", ("line 1", "'x'", "expected")),
    "text_in_column_0": (".9,.1\nabc,.8\n", ("line 2", "'abc'", "expected a number")),
    "text_with_header": ("a,b\n.9,.1\n.5,o.8\n", ("line 3", "'o.8'", "expected a number")),
    "prose": ("Dear reader,\nthis is a letter.\n", ("line 2", "expected")),
    "two_points": (".9,.1\n.5,0.8.1\n", ("line 2", "'0.8.1'", "expected a number")),
    "underscore": (".9,.1\n.5,0_1\n", ("line 2", "'0_1'", "expected")),
    "infinite": (".9,.1\n.5,inf\n", ("line 2", "'inf'", "finite")),
    "overflow": (".9,.1\n.5,1e999\n", ("line 2", "'1e999'", "finite")),
    "commas_and_points": ("0,9;0.1\n0,5;0,8\n", ("line 1", "'0,9'", "'0.1'", "expected one")),
    "some_percent_signs": ("90%,10%\n50,80%\n", ("line 2", "'50'", "percent", "expected all")),
    "small_percent_signs": ("0.9%,0.1%\n0.5%,0.8%\n", ("percent",)),
    "percent_or_losses": ("2.5,3\n1.5,4\n", ("task 0 after task 0", "2.5", "--percent", "--lower")),
    "percent_and_fraction": ("[[90, 10], [50, 0.8]]", ("task 0 after task 0", "90", "--percent")),
    "zeros_below": ("[[0.9, 0.3], [0, 0.8]]", ("below", "--transposed", "--no-transposed")),
    "above_range": (".9,.1\n.5,1.01\n", ("task 1 after task 1", "1.01", "0 to 1")),
    "below_range": (".9,.1\n-.5,.8\n", ("task 0 after task 1", "-0.5", "0 to 1")),
    "above_in_upper_half": (".9,250\n.5,.8\n", ("task 1 after task 0", "250", "0 to 1")),
    "empty": ("", ("empty", "expected")),
    "only_a_bom": (b"\xef\xbb\xbf", ("empty", "expected")),
    "only_whitespace": (" \n\t\r\n  \n", ("empty", "expected")),
    "only_comments": ("# a\n# b\n", ("empty", "expected")),
    "only_header": ("a,b,c\n", ("header", "expected")),
    "only_delimiters": (",,\n,,\n,,\n", ("task 0", "expected")),
    "wide": (".9,.1\n", ("square", "(1, 2)")),
    "tall": (".9\n.1\n", ("square", "(2, 1)")),
    "nan_on_diagonal": (".9,.1\n.5,nan\n", ("task 1 after task 1", "missing", "expected")),
    "blank_on_diagonal": (".9,.1,.1\n.5,,.1\n.5,.5,.5\n", ("task 1 after task 1", "missing")),
    "null_on_diagonal": ("[[0.9, 0.1], [0.5, null]]", ("task 1 after task 1", "missing")),
    "nan_in_json": ("[[NaN]]", ("0", "expected")),
    "infinity_in_json": ("[[0.9, Infinity], [0.5, 0.8]]", ("0", "1", "inf", "expected a finite")),
    "string_in_json": ('[[0.9, 0.1], ["0.5", 0.8]]', ("row 1 entry 0", "'0.5'", "expected")),
    "boolean_in_json": ("[[0.9, true], [0.5, 0.8]]", ("row 0 entry 1", "True", "expected")),
    "object_in_json": ('[[0.9, {"a": 1}], [0.5, 0.8]]', ("row 0 entry 1", "expected")),
    "list_in_json": ("[[0.9, [0.9]], [0.1, 0.2]]", ("row 0 entry 1", "[0.9]", "expected")),
    "four_levels": ("[[[[0.9]]]]", ("4 levels", "(seeds, T, T)")),
    "huge_integer_in_json": (f"[[1{'0' * 400}]]", ("expected",)),
    "too_many_digits_in_json": (f"[[{'1' * 5000}]]", ()),
    "empty_list": ("[]", ("expected",)),
    "empty_row": ("[[]]", ("square",)),
    "empty_object": ("{}", ("'matrix'", "expected")),
    "cut_off_json": ('{"matrix": [[0.9, 0.1]', ("line 1", "JSON")),
    "two_values_in_json": ("[[0.5]]\n[[0.5]]", ("line 2", "JSON")),
    "deep_json": ("[" * 100_000 + "]" * 100_000, ("nested",)),
    "unknown_field": ('{"matrix": [[0.5]], "clases": [2]}', ("'clases'", "expected", "classes")),
    "no_matrix": ('{"initial": [0.5], "joint": [0.5]}', ("'matrix'", "expected")),
    "matrix_is_text": ('{"matrix": "0.5"}', ("'0.5'", "expected a list")),
    "task_names_number": ('{"matrix": [[0.5]], "tasks": 5}', ("tasks", "5", "expected")),
    "task_names_string": ('{"matrix": [[0.9, 0.1], [0.5, 0.8]], "tasks": "ab"}', ("tasks", "'ab'")),
    "task_names_count": ('{"matrix": [[0.5]], "tasks": ["a", "b"]}', ("1 unique", "['a', 'b']")),
    "same_task_names": ("a,a\n.9,.1\n.5,.8\n", ("unique", "['a', 'a']")),
    "initial_count": ('{"matrix": [[0.5]], "initial": [0.1, 0.1]}', ("initial", "1 tasks", "2")),
    "initial_range": ('{"matrix": [[0.5]], "initial": [7]}', ("initial score of task 0", "7")),
    "initial_text": ('{"matrix": [[0.5]], "initial": ["x"]}', ("initial", "'x'", "expected")),
    "classes_number": ('{"matrix": [[0.5]], "classes": 2}', ("classes", "2", "expected a list")),
    "setting_unknown": ('{"matrix": [[0.5]], "setting": "Class"}', ("'Class'", "class, task or")),
    "not_utf8": (b".9,.1\n.5,\xff8\n", ("byte 9", "UTF-8")),
    "utf16": (".9,.1\n.5,.8\n".encode("utf-16"), ("byte 0", "UTF-8")),
    "many_columns": (",".join(["0.5"] * 6000), ("line 1", "6000", "expected at most")),
    "a_long_line": (",".join(["0.5"] * 500_000), ("line 1", "expected")),
    "a_long_second_line": (".9,.1\n.5" + ",.8" * 500_000, ("line 2", "expected")),
    "a_long_number": (f".9,.1\n.5,{'1' * 200_000}\n", ("line 2",)),
    "many_rows": ("0.5\n" * 20_000, ("at most", "tasks")),
    "an_image": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), ("UTF-8",)),
    "points_only_header": ("step,tested,score\n", ("no evaluations", "expected")),
    "points_ragged": ("step,tested,score\n1,a\n2,a,.5\n", ("line 2", "2 fields", "expected 3")),
    "points_text": ("step,tested,score\n1,a,x\n2,a,.5\n", ("line 2", "score", "'x'", "expected")),
    "points_no_score": ("step,tested,score\n1,a,\n2,a,.5\n", ("line 2", "score", "expected")),
    "points_nan": ("step,tested,score\n1,a,.4\n2,a,nan\n3,a,.5\n", ("line 3", "'nan'", "expected")),
    "points_step": ("step,tested,score\n1.5,a,.5\n2,a,.5\n", ("line 2", "step", "'1.5'", "whole")),
    "points_back": ("step,tested,score\n-1,a,.5\n2,a,.5\n", ("line 2", "step", "'-1'", "expected")),
    "points_huge_step": (f"step,tested,score\n{9**99},a,.5\n2,a,.5\n", ("line 2", "step", "whole")),
    "points_kind": ("step,tested,kind,score\n1,a,Probe,.5\n2,a,full,.5\n", ("line 2", "'Probe'")),
    "points_n": ("step,tested,score,n\n1,a,.5,0\n2,a,.5,9\n", ("line 2", "n is '0'", "expected")),
    "points_range": ("step,tested,score\n1,a,.5\n2,a,50\n", ("line 3", "50", "0 to 1", "percent")),
    "points_twice": ("step,tested,score\n1,a,.5\n1,a,.6\n", ("line 3", "second", "'a' at step 1")),
    "points_column": ("step,tested,score,lr\n1,a,.5,.1\n", ("line 1", "'lr'", "expected")),
    "points_long": (f"step,tested,score\n1,a,.5\n2,a,{'1' * 200_000}\n", ("line 3",)),
    "points_wide": (f"step,tested,score,{'x' * 200_000}\n1,a,.5,1\n", ("line 1",)),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    content, words = BAD_FILES[name]
    path = write(tmp_path, f"{name}.txt", content)
    says(refused("score", path), f"{name}.txt", *words)


def test_the_same_really_started_and_through_a_pipe(tmp_path: Path) -> None:
    path = write(tmp_path, "losses.csv", LOSSES)
    says(judged_refusal(start("score", path)), "losses.csv", "percent")
    line = judged_refusal(start("score", "-", stdin=b".9,.1\n.5\n"))
    says(line, "standard input line 2")
    line = judged_refusal(start("score", tmp_path / "none.csv"))
    says(line, "none.csv", "no such file")


def test_what_is_no_file(tmp_path: Path) -> None:
    empty = tmp_path / "empty folder"
    empty.mkdir()
    says(refused("score", tmp_path / "missing.csv"), "missing.csv", "no such file")
    says(
        refused("score", empty),
        "empty folder",
        "no runs in it",
        "expected a run or a folder of runs",
    )
    says(refused("score", ""), "expected")
    says(refused("score", "x" * 5000), "xxx", "no such file")
    says(refused("score", tmp_path / "two\nlines.csv"), "lines.csv", "no such file")


def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = write(tmp_path, "secret.csv", table())
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("root may read everything")
    says(refused("score", path), "secret.csv", "permission denied")
    says(refused("score", "-", "--classes", path, stdin=b".5"), "secret.csv")


@pytest.mark.parametrize("start_of_line", [b"", b"0.5,0.4,", b"[[0.5,"])
def test_a_billion_columns_are_refused_without_reading_them(
    start_of_line: bytes, tmp_path: Path
) -> None:
    path = write(tmp_path, "huge.csv", start_of_line)
    os.truncate(path, 10**9 if start_of_line[:1] != b"[" else 5 * 10**9)
    answer = start("score", path, memory=GIB * 3 // 2)
    says(judged_refusal(answer), "huge.csv")


@pytest.mark.parametrize("content", [table(), POINTS, "[[0.5]]"])
def test_a_small_file_needs_little_memory(content: str, tmp_path: Path) -> None:
    path = write(tmp_path, "small", content)
    answer = start("score", path, "--metrics", "acc", memory=GIB * 3 // 4)
    assert (answer.code, answer.err) == (0, "")


def test_a_huge_file_of_values_is_refused_too(tmp_path: Path) -> None:
    path = write(tmp_path, "classes.txt", "2")
    os.truncate(path, 10**9)
    answer = start("score", "-", "--classes", path, stdin=table().encode(), memory=GIB * 3 // 2)
    says(judged_refusal(answer), "classes.txt")


BAD_OPTIONS: dict[str, tuple[list[str], tuple[str, ...]]] = {
    "classes_count": (["--classes", "2,2"], ("class count", "5 tasks", "2")),
    "classes_fraction": (["--classes", "2,2,2,2,2.5"], ("class count", "2.5", "whole")),
    "classes_zero": (["--classes", "2,2,2,2,0"], ("class count", "0", "at least 1")),
    "classes_negative": (["--classes=-2,2,2,2,2"], ("class count", "-2", "at least 1")),
    "classes_blank": (["--classes", "2,2,,2,2"], ("class count", "task 2")),
    "classes_text": (["--classes", "two"], ("--classes", "'two'", "expected")),
    "classes_long": (["--classes", "x" * 5000], ("--classes", "expected")),
    "sizes_zero": (["--sizes", "0,1,1,1,1"], ("size", "at least 1")),
    "initial_count": (["--initial", ".1"], ("initial", "5 tasks")),
    "initial_percent": (["--initial", "10,10,10,10,10"], ("initial score of task 0", "percent")),
    "joint_infinite": (["--joint", "inf,1,1,1,1"], ("joint", "inf", "expected")),
    "single_text": (["--single", ".1,.2,x"], ("--single", "expected")),
    "setting": (["--setting", "clas"], ("clas", "class", "task", "domain")),
    "range_one": (["--range", "5"], ("--range", "'5'", "LO,HI")),
    "range_three": (["--range", "0,1,2"], ("--range", "LO,HI")),
    "range_text": (["--range", "low,high"], ("--range", "'low,high'", "expected")),
    "range_nan": (["--range", "0,nan"], ("--range", "expected")),
    "range_turned": (["--range", "1,0"], ("1", "0", "lower to higher")),
    "range_equal": (["--range", "1,1"], ("lower to higher",)),
    "range_narrow": (["--range", "0,.5"], ("task 0 after task 0", "0.8", "0 to 0.5")),
    "weights_sum": (["--weights", "A=.4,REM=.4"], ("weights sum to 0.8", "expected 1")),
    "weights_unknown": (["--weights", "A=.5,REMM=.5"], ("'REMM'",)),
    "weights_malformed": (["--weights", "A:.5"], ("--weights", "'A:.5'", "NAME=WEIGHT")),
    "weights_text": (["--weights", "A=much"], ("--weights", "'A=much'", "NAME=WEIGHT")),
    "weights_negative": (["--weights", "A=1.5,REM=-.5"], ("1.5", "expected 0 to 1")),
    "weights_nan": (["--weights", "A=nan"], ("nan", "expected NAME=WEIGHT")),
    "weights_by_zero": (["--weights", "A=1/0"], ("1/0", "A=1/6")),
    "weights_twice": (["--weights", "A=.5,acc.lower=.5"], ("twice",)),
    "weights_repeated": (["--weights", "A=.2,A=1"], ("twice",)),
    "weights_of_a_difference": (["--weights", "bwt=1"], ("'bwt'", "-1 to 1", "expected 0 to 1")),
    "epsilon_text": (["--epsilon", "small"], ("--epsilon", "small")),
    "epsilon_zero": (["--epsilon", "0"], ("epsilon", "0", "positive")),
    "window_zero": (["--window", "10,0"], ("--window", "'0'", "expected")),
    "window_text": (["--window", "ten"], ("--window", "'ten'", "expected")),
    "window_blank": (["--window", "10,"], ("--window", "expected")),
    "window_fraction": (["--window", "1.5"], ("--window", "'1.5'", "expected")),
    "thin_zero": (["--subsample", "0"], ("--subsample", "0", "at least 1")),
    "thin_negative": (["--subsample=-3"], ("--subsample", "-3", "at least 1")),
    "thin_text": (["--subsample", "x"], ("--subsample", "x")),
    "thin_fraction": (["--subsample", "1.5"], ("--subsample", "1.5")),
    "beta_negative": (["--beta=-1"], ("beta", "-1")),
    "beta_fraction": (["--beta", "1.5"], ("--beta", "1.5")),
    "interval": (["--interval", "z"], ("--interval", "t", "bca")),
    "two_formats": (["--format", "json", "--format", "latex"], ("--format", "given twice")),
    "format": (["--format", "jsn"], ("jsn", "--format", "json", "markdown")),
    "tool": (["--as", "avalance"], ("'avalance'", "did you mean avalanche")),
    "tool_far": (["--as", "zzz"], ("'zzz'", "mammoth")),
    "only": (["--metrics", "forgeting.best"], ("'forgeting.best'", "forgetting.best")),
    "only_far": (["--metrics", "zzz"], ("'zzz'", "perdure list metrics")),
    "costs_missing": (["--costs", "none.csv"], ("none.csv", "no such file")),
    "costs_twice": (["--costs", "a", "--costs", "b"], ("--costs", "2", "each file")),
    "hits_twice": (["--per-example", "a", "--per-example", "b"], ("--per-example", "2", "each")),
    "hits_of_a_matrix": (["--per-example", "h"], ("h:", "points.csv")),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_a_bad_option_is_refused_in_one_line(name: str) -> None:
    options, words = BAD_OPTIONS[name]
    says(refused("score", "-", *options, stdin=table().encode()), *words)


def test_files_behind_options_are_named_too(tmp_path: Path) -> None:
    matrix = write(tmp_path, "m.csv", table())
    says(refused("score"), "no file")
    says(refused("score", matrix, "--classes", tmp_path), "--classes", "expected")
    for content in ("2,2\n2,2\n", "2,2\n2\n", "two\n", "", "[[2, 2], [2]]", b"\xff", '["a"]', "[]"):
        path = write(tmp_path, "classes.txt", content)
        says(refused("score", matrix, "--classes", path), "classes.txt")
    for content, words in (
        (COSTS.replace("b,100", "b,lots"), ("line 3", "flops_train", "'lots'", "expected")),
        (COSTS.replace("b,100", "b,-1"), ("line 3", "'-1'", "from 0 to")),
        (COSTS.replace("b,", "a,"), ("line 3", "'a'", "twice")),
        (COSTS.replace("task", "name"), ("line 1", "'task'")),
        ("", ("line 1",)),
    ):
        path = write(tmp_path, "costs.csv", content)
        says(refused("score", matrix, "--costs", path), "costs.csv", *words)
    points = write(tmp_path, "points.csv", POINTS)
    says(refused("score", points, "--classes", "2,2,2"), "class count", "2 tasks", "points.csv")
    says(refused("score", points, "--classes", "2,"), "class count", "task 1")
    says(
        refused("score", points, "--per-example", tmp_path / "per_example"),
        "per_example",
        "no such folder",
    )
    says(refused("score", matrix, write(tmp_path, "x.csv", ".5")), "x.csv: 1 task, expected 5")
    says(refused("score", points, matrix, "--as", "tutorial"), "5 tasks, expected 2")


@pytest.mark.parametrize(
    ("described", "words"),
    [
        ("{", ()),
        ("[]", ("object",)),
        ('{"setting": "klass"}', ("'klass'", "setting")),
        ('{"classes": [2]}', ("class", "2 tasks")),
        ('{"classes": ["a", "b"]}', ("classes",)),
        ('{"classes": [{}, {}]}', ("class",)),
        ('{"classes": [2, null]}', ("class",)),
    ],
)
def test_a_bad_description_of_a_run_names_its_file(
    described: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    write(tmp_path, "run/points.csv", POINTS)
    write(tmp_path, "run/done.json", "{}")
    write(tmp_path, "run/run.json", described)
    says(refused("score", tmp_path / "run"), "run.json", *words)
