"""Which runs are compared: what a user may name, how groups are told apart, what is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from perdure.record import InputError
from perdure.record.comparability import pair_runs
from perdure.record.group_names import format_seeds
from perdure.record.grouping import find_groups

from .cli_helpers import refused, run, says, strict, table, write
from .compare_helpers import made, points, spread, store

if TYPE_CHECKING:
    from pathlib import Path

BOTH = {"replay": spread(0.7, 3), "naive": spread(0.2, 3)}


def groups(*arguments: str | Path) -> dict[str, list[str]]:
    """Return the names of the folders or files in each group."""
    found, _ = find_groups([str(argument) for argument in arguments])
    return {name: [m.path.rpartition("/")[2] for m in members] for name, members in found.items()}


def compared(*arguments: str | Path) -> dict[str, int]:
    answer = run("compare", *arguments, "--format", "json", "--metrics", "acc")
    assert (answer.code, answer.err) == (0, "")
    return {name: each["n"] for name, each in strict(answer.out)["methods"].items()}


def test_a_store_is_taken_apart_by_what_differs(tmp_path: Path) -> None:
    runs = store(tmp_path / "runs", BOTH)
    (runs / "figures").mkdir()  # no run
    found = groups(runs)
    assert found == {
        "naive": [f"split-x-naive-s{k}" for k in range(3)],
        "replay": [f"split-x-replay-s{k}" for k in range(3)],
    }
    assert groups(f"{runs}/*naive*", f"{runs}/*replay*") == found
    assert groups(*sorted(runs.glob("split*"))) == found
    assert groups(*(folder / "points.csv" for folder in sorted(runs.glob("split*")))) == found


def test_seeds_of_a_store_are_in_order(tmp_path: Path) -> None:
    runs = store(tmp_path, {"er": {10: 0.1, 2: 0.2}, "ewc": {2: 0.2, 10: 0.3}})
    assert [m.seed for m in find_groups([str(runs)])[0]["er"]] == [2, 10]


def test_names_say_what_differs_and_no_more(tmp_path: Path) -> None:
    one = {"scenario": "x", "model": "mlp", "strategy": "er", "seed": 0, "every": 1}
    several = [
        one | {"options": {"alpha": 0.1}, "optimizer_options": {"lr": 0.1}},
        one | {"options": {"alpha": 0.3}, "optimizer_options": {"lr": 0.1}},
        one | {"options": {"alpha": 0.3}, "optimizer_options": {"lr": 0.01}},
        one | {"strategy": "naive", "options": {}, "every": 5},
    ]
    for k, said in enumerate(several):
        made(tmp_path / f"{k}", 0.5, said)
    assert list(groups(tmp_path)) == ["er alpha=0.1 lr=0.1", "er alpha=0.3 lr=0.1",
                                      "er alpha=0.3 lr=0.01", "naive"]  # fmt: skip
    assert list(groups(tmp_path / "0", tmp_path / "2")) == ["er alpha=0.1 lr=0.1",
                                                            "er alpha=0.3 lr=0.01"]  # fmt: skip
    made(tmp_path / "m", 0.5, several[3] | {"model": "big"})
    assert list(groups(tmp_path / "3", tmp_path / "m")) == ["mlp", "big"]


def test_long_values_are_cut_unless_they_are_all_that_differs(tmp_path: Path) -> None:
    orders = [[*range(30), 1], [*range(30), 2], [2, 1]]
    for k, order in enumerate(orders):
        made(tmp_path / f"{k}", 0.5, {"strategy": "er", "order": order, "seed": 0})
    cut = list(groups(tmp_path / "0", tmp_path / "2"))
    assert cut == ["er order=[0,1,2,3,4,5,6,7,8,9,10…", "er order=[2,1]"]
    assert len(groups(tmp_path)) == 3


def test_groups_are_named(tmp_path: Path) -> None:
    runs = store(tmp_path / "runs", BOTH)
    here, n = sorted(runs.glob("*replay*")), f"n={runs}/*naive*"
    expected = {"er": 3, "n": 3}
    assert compared(f"er={runs}/*replay*", n) == expected
    assert compared(f"er={here[0]}", here[1], here[2], n) == expected
    assert compared("er=", *here, n) == expected
    assert compared(f"er={here[0]},{here[1]}, {here[2]}", n) == expected
    assert compared(f"er={here[0]}", n, f"er={here[1]}", f"er={here[2]}") == expected


def test_what_is_there_is_a_path_whatever_it_is_called(tmp_path: Path) -> None:
    odd = [tmp_path / name for name in ("lr=0.1", "a[1]", "b,c")]
    for k, folder in enumerate(odd):
        made(folder, 0.5, {"strategy": f"s{k}", "seed": 0})
    assert list(groups(*odd)) == ["s0", "s1", "s2"]
    assert groups(f"x={odd[1]}", f"y={odd[2]}") == {"x": ["a[1]"], "y": ["b,c"]}


def test_files_without_a_name_are_methods_of_their_own(tmp_path: Path) -> None:
    for name in ("er.csv", "ewc.csv", "deep/er.csv", "deep/s0.csv", "deep/s1.csv"):
        write(tmp_path, name, table())
    er, ewc = tmp_path / "er.csv", tmp_path / "ewc.csv"
    assert list(groups(er, ewc)) == ["er", "ewc"]
    assert list(groups(er, tmp_path / "deep/er.csv")) == [str(er), str(tmp_path / "deep/er.csv")]
    pattern = f"{tmp_path}/deep/s*.csv"
    assert groups(pattern, ewc) == {"s*.csv": ["s0.csv", "s1.csv"], "ewc": ["ewc.csv"]}
    for name in ("mine", "theirs"):
        write(tmp_path, f"{name}/points.csv", points(0.9, 0.5, 0.5))
    assert list(groups(tmp_path / "mine", tmp_path / "theirs/points.csv")) == ["mine", "theirs"]


def test_runs_are_paired_by_seed_and_not_by_place(tmp_path: Path) -> None:
    store(tmp_path / "a", {"er": {0: 0.1, 1: 0.2, 2: 0.3}})
    store(tmp_path / "b", {"ewc": {2: 0.3, 1: 0.2, 0: 0.1, 7: 0.9}})
    found, _ = find_groups([f"er={tmp_path}/a", f"ewc={tmp_path}/b"])
    found["ewc"].reverse()
    by_seed, by = pair_runs(found)
    assert by == "seed"
    assert [by_seed["ewc"][k].path[-3:] for k in range(3)] == ["-s0", "-s1", "-s2"]
    answer = run(
        "compare", f"er={tmp_path}/a", f"ewc={tmp_path}/b", "--metrics", "acc", "--format", "json"
    )
    acc = strict(answer.out)
    assert acc["seeds_in_common"] == [0, 1, 2]
    assert acc["metrics"]["acc"]["pairs"][0]["difference"] == 0
    assert acc["metrics"]["acc"]["methods"]["ewc"]["mean"] == pytest.approx(1.5 / 4)


@pytest.mark.parametrize("seed", [None, True, 1.5, [1]])
def test_one_run_without_a_seed_and_all_are_paired_by_order(tmp_path: Path, seed: object) -> None:
    store(tmp_path, {"er": {1: 0.1, 2: 0.2}})
    for k in (1, 2):
        said = {} if seed is None else {"seed": seed}
        made(tmp_path / f"x{k}", 0.3 * k, {"strategy": "x", **said})
    found, _ = find_groups([str(tmp_path)])
    by_seed, by = pair_runs(found)
    assert (by, list(by_seed["er"])) == ("file order", [0, 1])
    answer = run("compare", tmp_path, "--metrics", "acc")
    assert answer.code == 0
    says(answer.out, "paired by file order", "x1: no seed")
    assert "paired by their seeds" not in answer.out


def test_an_evaluators_own_seed_is_not_the_runs(tmp_path: Path) -> None:
    for k in (1, 2):
        made(tmp_path / f"{k}", 0.5, None, evaluation={"seed": 0})
    found, _ = find_groups([str(tmp_path / "1"), str(tmp_path / "2")])
    assert [member.seed for members in found.values() for member in members] == [None, None]


REFUSED = [
    ((), ["nothing to compare", "er=PATH"]),
    (("{runs}/*naive*",), ["one group only (naive, 3 runs)", "perdure score"]),
    (("all={runs}",), ["'all' differ in more than the seed", "strategy: naive, replay", "--pool"]),
    (("all={runs}", "--pool"), ["one group only (all, 6 runs)"]),
    (("er={runs}", "n={runs}/*naive*"), ["naive-s0", "in 'er' and in 'n'"]),
    (("er={runs}/*naive-s0,{runs}/*naive-s0", "n={runs}/*replay*"), ["naive-s0: given twice"]),
    (("er={runs}", "n={other}"), ["'er' differ in more than the seed", "NAME=PATH", "--pool"]),
    (("er={runs}", "n={other}", "--pool"), ["'er' has seed 0 twice", "naive-s0", "replay-s0"]),
    (("er={runs}/*replay*", "n={other}"), ["no seed", "er has 0-2", "n has 7, 9", "same seeds"]),
    (("er={runs}/*replay*", "n=nowhere"), ["'nowhere'", "no such file or folder"]),
    (("er={runs}/*replay*", "n="), ["group 'n' has no paths", "n=PATH"]),
    (("={runs}",), ["no name before ="]),
    (("{runs}", "naive={other}"), ["two groups are called 'naive'"]),
    (("{empty}", "n={other}"), ["empty: no runs in it", "*.csv"]),
    (("-", "n={other}"), ["standard input"]),
    (("{runs}", "--alpha", "0"), ["--alpha is 0", "between 0 and 1"]),
    (("{runs}", "--level", "95"), ["--level is 95"]),
    (("{runs}", "--digits", "-1"), ["--digits"]),
    (("{runs}", "--digits", "1.5"), ["--digits is '1.5'"]),
    (("{runs}", "--metrics", "accu"), ["accu", "acc"]),
    (("{runs}", "--format", "json", "--format", "latex"), ["--format"]),
    (("{runs}", "--finished", "--unfinished"), ["exclude"]),
    (("{matrix}", "{runs}/*replay*"), ["m has 1", "replay has 3", "by their order", "--force"]),
]


@pytest.mark.parametrize(("arguments", "words"), REFUSED, ids=lambda each: " ".join(each)[:60])
def test_mistakes_are_one_line(tmp_path: Path, arguments: list[str], words: list[str]) -> None:
    places = {
        "runs": store(tmp_path / "runs", BOTH),
        "other": store(tmp_path / "other", {"er": {7: 0.5, 9: 0.6}}),
        "empty": tmp_path / "empty",
        "matrix": write(tmp_path, "m.csv", table()),
    }
    places["empty"].mkdir()
    line = refused("compare", *(argument.format(**places) for argument in arguments))
    says(line, *words)


def test_unfinished_runs_are_named_left_out_or_taken(tmp_path: Path) -> None:
    store(tmp_path, BOTH)
    (tmp_path / "split-x-naive-s1" / "done.json").unlink()
    line = refused("compare", tmp_path)
    says(line, "unfinished: ", "split-x-naive-s1", "--finished", "--unfinished")
    without = run("compare", tmp_path, "--finished", "--metrics", "acc")
    says(without.out, "left out", "naive-s1", "naive 2", "over the 2 seeds that all methods have")
    says(run("compare", tmp_path, "--unfinished", "--force").out, "the run is unfinished")
    for k in (0, 2):
        (tmp_path / f"split-x-naive-s{k}" / "done.json").unlink()
    says(refused("compare", tmp_path, "--finished"), "one group only (replay, 3 runs)")
    says(refused("compare", tmp_path), "naive-s0", "naive-s1", "naive-s2")


def test_scenarios_and_settings_are_not_mixed(tmp_path: Path) -> None:
    store(tmp_path, BOTH)
    store(tmp_path, {"er": spread(0.5, 3)}, scenario="split-y")
    says(refused("compare", tmp_path), "2 scenarios: split-x (6), split-y (3)", "--force")
    answer = run("compare", tmp_path, "--force", "--metrics", "acc")
    says(answer.out, "2 scenarios", "split-x naive", "split-y er")
    store(tmp_path, {"er2": spread(0.5, 3)}, setting="task")
    line = refused("compare", tmp_path / "split-x-er2-s0", tmp_path / "split-x-naive-s0")
    says(line, "2 settings: task (1), class (1)")


def test_runs_that_chose_hyperparameters_are_not_mixed_with_the_others(tmp_path: Path) -> None:
    store(tmp_path, {"er": spread(0.5, 3)})  # as before a run could say what it was tested on
    store(tmp_path, {"ewc": spread(0.5, 2)}, validation_split=0.0)
    store(tmp_path, {"search": spread(0.5, 2)}, validation_split=0.1)
    assert list(groups(tmp_path)) == ["er", "ewc"]
    says(run("compare", tmp_path, "--metrics", "acc").out, "2 of 7 runs", "held-out", "left out")
    er, search = f"er={tmp_path}/*er-s*", f"s={tmp_path}/*search*"
    says(refused("compare", er, search), "2 kinds", "held-out training data (2)", "--force")
    store(tmp_path / "more", {"b": spread(0.5, 2)}, validation_split=0.1)
    assert list(groups(tmp_path / "more", f"{tmp_path}/*search*")) == ["b", "search"]


def test_a_run_before_and_one_after_validate_was_there_are_one_method(tmp_path: Path) -> None:
    store(tmp_path, {"er": {0: 0.5}, "ewc": {0: 0.5}})
    store(tmp_path, {"er": {1: 0.5}, "ewc": {1: 0.5}}, validation_split=0.0)
    assert {name: len(members) for name, members in groups(tmp_path).items()} == {"er": 2, "ewc": 2}


def test_tasks_must_be_the_same_in_runs_that_belong_together(tmp_path: Path) -> None:
    orders = {0: ("a", "b"), 1: ("b", "a")}
    for name in ("er", "ewc"):
        for seed, tasks in orders.items():
            made(tmp_path / f"{name}{seed}", 0.5, {"strategy": name, "seed": seed}, tasks=tasks)
    both = (f"er={tmp_path}/er*", f"ewc={tmp_path}/ewc*")
    assert run("compare", *both).code == 0  # the order changes from seed to seed
    made(tmp_path / "ewc2", 0.5, {"strategy": "ewc", "seed": 2}, tasks=("x", "y"))
    assert run("compare", *both).code == 0  # and is nothing that is paired
    made(tmp_path / "er2", 0.5, {"strategy": "er", "seed": 2}, tasks=("y", "x"))
    line = refused("compare", *both)
    says(line, "ewc2: tasks x, y (2), and y, x (2) in", "er2", "--force")
    says(run("compare", *both, "--force").out, "note: ", "tasks x, y (2)")
    for name in ("p", "q"):  # paired they are alike, and yet no mean is of one thing
        write(tmp_path, f"{name}0.csv", table())
        write(tmp_path, f"{name}1.csv", "0.9,0.1\n0.5,0.6\n")
    line = refused("compare", f"p={tmp_path}/p*.csv", f"q={tmp_path}/q*.csv")
    says(line, "p1.csv", "(2)", "(5)")
    long = write(tmp_path, "long.csv", table())
    says(refused("compare", long, tmp_path / "er0"), "tasks", "(5)", "(2)")


def test_a_bare_matrix_has_no_names_of_tasks_to_compare(tmp_path: Path) -> None:
    bare = write(tmp_path, "bare.csv", "0.9,0.1\n0.5,0.6\n")
    made(tmp_path / "run", 0.5, {"strategy": "er", "seed": 0})
    assert run("compare", tmp_path / "run", bare, "--metrics", "acc").code == 0


def test_scores_of_another_kind_are_refused_always(tmp_path: Path) -> None:
    made(tmp_path / "a", 0.5, {"strategy": "er", "seed": 0})
    scale = {"low": 0.0, "high": None, "lower_is_better": True}
    made(tmp_path / "b", 0.5, {"strategy": "ewc", "seed": 0}, scale=scale)
    line = refused("compare", tmp_path / "a", tmp_path / "b", "--force")
    says(line, "another range or direction")


def test_digests_are_short(tmp_path: Path) -> None:
    for k, strategy in enumerate(("er", "ewc")):
        store(tmp_path, {strategy: spread(0.5, 2)}, data_sha256=f"{k}" * 64)
    out = run("compare", tmp_path, "--metrics", "acc").out
    says(out, "groups differ in data_sha256 too: 00000000… (er); 11111111… (ewc)")


def test_what_else_differs_is_noted(tmp_path: Path) -> None:
    store(tmp_path, {"er": spread(0.5, 2)})
    store(tmp_path, {"ewc": spread(0.5, 2)}, epochs=5, data={"x": {"sha256": {"f": "1"}}})
    store(tmp_path, {"mas": spread(0.5, 2)}, data={"x": {"sha256": {"f": "2"}, "source": "hub"}})
    out = run("compare", tmp_path, "--metrics", "acc").out
    says(out, "groups differ in epochs too: 1 (er, mas); 5 (ewc)", "same bytes of data")
    assert "of_er" not in out  # a method's own options are what is compared
    mixed = (f"a={tmp_path}/*er-s0,{tmp_path}/*ewc-s1", f"b={tmp_path}/*mas*")
    says(refused("compare", *mixed), "strategy: er, ewc; epochs: 1, 5", "--pool")
    pooled = run("compare", *mixed, "--pool").out
    says(pooled, "a: 2 runs that differ in strategy, epochs", "pooled as asked")


def test_names_from_files_steer_nothing(tmp_path: Path) -> None:
    for k, name in enumerate(("er\nrun", "\x1b[31mred")):
        made(tmp_path / f"{k}", 0.5, {"strategy": name, "seed": 0, "scenario": "a\nb"})
    answer = run("compare", tmp_path, "--format", "latex", "--metrics", "acc")
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert "\x1b" not in answer.out
    assert all(line.startswith("%") for line in lines[: lines.index(r"\begin{tabular}{lr}")])


@pytest.mark.parametrize("content", ["{", "[]", '"x"', "\xff", '{"config": 5, "setting": 7}'])
def test_a_broken_run_json_is_one_line_or_none(tmp_path: Path, content: str) -> None:
    store(tmp_path, BOTH)
    path = tmp_path / "split-x-naive-s0" / "run.json"
    path.write_bytes(content.encode("latin-1"))
    says(refused("compare", f"a={tmp_path}/*naive*", f"b={tmp_path}/*replay*"), "run.json")


def test_a_name_too_long_for_a_file_is_no_crash() -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        find_groups(["x" * 5000])


def test_descriptions_of_any_shape(tmp_path: Path) -> None:
    odd = {"seed": 0, "x": None, "y": [1, {"z": 2}], "nested": {"deep": {"er": 1.5}}}
    made(tmp_path / "0", 0.5, odd)
    made(tmp_path / "1", 0.5, json.loads(json.dumps(odd)) | {"x": {"y": 1}})
    assert list(groups(tmp_path)) == ["y=unstated", "x=unstated y=1"]


@pytest.mark.parametrize(
    ("seeds", "words"),
    [([3], "3"), ([1, 0], "0, 1"), ([5, 3, 4, 9], "3-5, 9"), (["b", 1, "a"], "1, b, a"), ([], "")],
)
def test_seeds_in_words(seeds: list[int | str], words: str) -> None:
    assert format_seeds(seeds) == words
