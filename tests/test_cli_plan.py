"""`perdure plan`: every form, a run to follow, thinning against `score`, and mistakes."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perdure.stats import plan

from .cli_helpers import POINTS, refused, run, says, scored, strict, table, write

if TYPE_CHECKING:
    from pathlib import Path


def recorded(folder: Path, every: int = 1, whole: bool = True) -> Path:
    """Return a run of three tasks of 40, 40 and 30 iterations with a dip after each switch."""
    rng = np.random.default_rng(2)
    ends = {"a": 40, "b": 80, "c": 110}
    lines = ["step,trained,tested,kind,score,n"]
    for step in range(1, 111):
        trained = next(task for task, end in ends.items() if step <= end)
        for task in "abc"[: "abc".index(trained) + 1]:
            dip = 0.5 if task != trained and step - min(ends.values()) in (3, 43) else 0.0
            score = 0.9 - dip - 0.05 * rng.random()
            if step % every == 0:
                lines.append(f"{step},{trained},{task},probe,{score},50")
            if whole and step == ends[trained]:
                lines.append(f"{step},{trained},{task},full,{score + 0.01},200")
    write(folder, "points.csv", "\n".join(lines) + "\n")
    costs = "task,seconds_train,seconds_eval\na,4,1\nb,4,2\nc,3,3\n"
    write(folder, "costs.csv", costs)
    return folder


def planned(*arguments: str | Path) -> dict[str, Any]:
    answer = run("plan", *arguments, "--format", "json")
    assert (answer.code, answer.err) == (0, "")
    return strict(answer.out)


def test_the_shortest_command_is_useful() -> None:
    answer = run("plan", "--iterations", "500", "--tasks", "5")
    assert (answer.code, answer.err) == (0, "")
    header, *rows = answer.out.partition("note: ")[0].splitlines()
    says(header, "n", "every", "evaluations", "ratio", "examples", "min_acc bias", "wf10 ±")
    assert "seconds" not in header
    assert "seen" not in header
    assert len(rows) == 8
    assert rows[1].split()[:5] == ["100", "10", "250", "50", "75000"]
    assert answer.out.count("--from-run RUN") == 1


def test_a_terminal_that_is_narrow_loses_no_digit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    wide = ["plan", "--iterations", "500", "--tasks", "5", "--train-ms", "1", "--example-us", "9"]
    shown = run(*wide, terminal=True).out.partition("note: ")[0]
    piped = run(*wide).out.partition("note: ")[0].splitlines()
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    assert max(map(len, lines)) <= 40
    for row in piped[1:]:
        named = [line.split() for line in lines if line.split()[:2] == row.split()[:2]]
        assert [cell for line in named for cell in line[2:]] == row.split()[2:]


def test_all_forms_have_the_same_numbers() -> None:
    wide = ["--iterations", "40,60", "--n", "50,200", "--every", "1,20", "--burst", "5,10",
            "--train-ms", "2", "--example-us", "30", "--window", "all"]  # fmt: skip
    rows = planned(*wide)["plans"]
    assert [(row["n"], row["every"], row["burst"]) for row in rows] == [
        (n, every, burst) for n in (50, 200) for every, burst in
        ((1, None), (20, None), (None, [5, 10]))
    ]  # fmt: skip
    expected = plan([40, 60], n=200, burst=(5, 10), window=None, train_seconds=0.002,
                    example_seconds=30e-6)  # fmt: skip
    as_csv = run("plan", *wide, "--format", "csv")
    assert as_csv.err.startswith("perdure: note: ")
    lines = list(csv.DictReader(io.StringIO(as_csv.out)))
    last = lines[-1]
    assert len(lines) == len(rows) == 6
    assert (last["n"], last["every"]) == ("200", "burst 5,10")
    for column, name in (
        ("ratio", "ratio"), ("seconds", "seconds_eval"), ("share", "share"),
        ("min_acc bias", "bias_min_acc"), ("min_acc ±", "half_min_acc"),
        ("wfall bias", "bias_wf"), ("wfall ±", "half_wf"),
    ):  # fmt: skip
        value = getattr(expected, name)
        assert float(last[column]) == rows[-1][name] == pytest.approx(value)
    assert int(last["evaluations"]) == sum(expected.evaluations)
    assert int(last["examples"]) == rows[-1]["examples"] == expected.examples
    markdown = run("plan", *wide, "--format", "markdown").out.splitlines()
    assert len(markdown) == 2 + 6
    says(
        markdown[-1], "| 200 | burst 5,10 |", f"| {expected.bias_wf:.4f} |", f"{expected.share:.1%}"
    )


def test_a_share_that_changes_lowers_the_bias_and_is_said() -> None:
    plain = planned("--iterations", "50", "--tasks", "2", "--every", "1")
    fixed = planned("--iterations", "50", "--tasks", "2", "--every", "1", "--changed", ".01")
    assert fixed["plans"][0]["bias_wf"] < plain["plans"][0]["bias_wf"] / 2
    says(plain["notes"][0], "accuracy stays at 0.9, with fixed or resampled subsets")
    says(fixed["notes"][0], "with fixed subsets, 0.01 of answers changing")


def test_a_subset_is_not_planned_beyond_the_sets_of_the_run(tmp_path: Path) -> None:
    found = planned("--from-run", recorded(tmp_path), "--n", "100,1000,5000", "--every", "1")
    assert [row["n"] for row in found["plans"]] == [100, 200]
    says(found["notes"][-1], "at most 200", str(tmp_path))


def test_a_run_gives_length_and_times(tmp_path: Path) -> None:
    folder = recorded(tmp_path)
    row = planned("--from-run", folder, "--n", "50", "--every", "1")["plans"][0]
    assert row["iterations"] == [40, 40, 30]
    assert row["seconds_train"] == pytest.approx(11)
    probes = 50 * (40 * 1 + 40 * 2 + 30 * 3)
    wholes = 200 * (1 + 2 + 3)
    assert row["seconds_eval"] == pytest.approx(6 * probes / (probes + wholes))
    given = planned("--from-run", folder, "--train-ms", "1", "--iterations", "7", "--every", "1")
    assert given["plans"][0]["iterations"] == [7, 7, 7]  # what is said overrules the run
    assert given["plans"][0]["seconds_train"] == pytest.approx(0.021)
    more = planned("--from-run", folder, "--iterations", "7", "--tasks", "2")["plans"][0]
    assert more["iterations"] == [7, 7]


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("recorded_every", [1, 2])
def test_seen_is_what_score_says_of_the_thinned_run(
    tmp_path: Path, recorded_every: int, whole: bool
) -> None:
    folder = recorded(tmp_path, recorded_every, whole)
    found = planned(
        "--from-run", folder, "--n", "50", "--every", "1,2,4,10,40,100", "--window", "5"
    )
    shown = 0
    for row in found["plans"]:
        if row["every"] % recorded_every:
            assert row["seen"] == {}
            assert any("lacks evaluations" in note for note in found["notes"])
            continue
        thin = str(row["every"] // recorded_every)
        metrics = scored(folder, "--subsample", thin, "--window", "5")["metrics"]
        assert row["seen"] == {id_: metrics[id_] for id_ in ("min_acc", "wf5") if id_ in metrics}
        shown += len(row["seen"])
    assert shown >= 8
    by_every = {row["every"]: row["seen"] for row in found["plans"]}
    assert by_every[10]["min_acc"] > by_every[2]["min_acc"]  # a coarser one misses the dip


def test_a_burst_sees_the_dip_that_an_even_schedule_misses(tmp_path: Path) -> None:
    rows = planned(
        "--from-run", recorded(tmp_path), "--n", "50", "--every", "1,10", "--burst", "4,10"
    )
    every, tenth, burst = rows["plans"]
    assert burst["seen"]["min_acc"] == every["seen"]["min_acc"] < tenth["seen"]["min_acc"]
    assert burst["examples"] < every["examples"] / 2
    columns = run("plan", "--from-run", tmp_path, "--format", "csv").out.splitlines()[0].split(",")
    assert {"min_acc seen", "wf10 seen", "seconds", "share"} <= set(columns)


def test_a_run_without_times_says_so_once(tmp_path: Path) -> None:
    path = write(tmp_path, "points.csv", POINTS)
    found = planned("--from-run", path, "--every", "1")
    assert found["plans"][0]["share"] is None
    assert found["plans"][0]["seen"]["min_acc"] == 0.3
    assert sum("times are not known" in note for note in found["notes"]) == 1
    write(tmp_path, "costs.csv", "task,seconds_train,seconds_eval\na,1,1\nb,1,1\n")
    notes = " ".join(planned("--from-run", tmp_path)["notes"])
    says(notes, "how many examples were evaluated", "give --example-us")
    assert "--train-ms" not in notes
    write(tmp_path, "costs.csv", "task,model_bytes\na,1\nb,1\n")
    says(
        " ".join(planned("--from-run", tmp_path)["notes"]), "needs seconds_train", "give --train-ms"
    )
    answer = run("plan", "--from-run", "-", "--format", "json", stdin=POINTS.encode())
    assert strict(answer.out)["plans"][0]["iterations"] == [3, 3]


def test_a_run_of_losses_gives_times_only(tmp_path: Path) -> None:
    folder = recorded(tmp_path)
    write(folder, "run.json", '{"scale": {"low": 0, "lower_is_better": true}}')
    write(folder, "done.json", "{}")
    found = planned("--from-run", folder, "--every", "1")
    assert found["plans"][0]["seen"] == {}
    assert found["plans"][0]["share"] is not None
    assert any("not accuracies" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["how long is a task?", "--iterations", "--from-run RUN"]),
        (["--tasks", "5"], ["how long is a task?"]),
        (["--iterations", "500"], ["how many tasks?", "--tasks"]),
        (["--iterations", "5,6", "--tasks", "3"], ["--tasks is 3, expected 2"]),
        (["--iterations", "5.5", "--tasks", "3"], ["--iterations is '5.5'", "whole number"]),
        (["--iterations", "5", "--tasks", "0"], ["--tasks is '0'", "at least 1"]),
        (["--iterations", "5", "--tasks", "99999999999"], ["tasks is 99999999999", "2000"]),
        (["--iterations", "5", "--tasks", "2", "--n", "10,"], ["--n is ''", "whole number"]),
        (["--iterations", "5", "--tasks", "2", "--every", "0"], ["--every is '0'"]),
        (["--iterations", "5", "--tasks", "2", "--every", "9" * 30], ["every is 9", "at most"]),
        (
            ["--iterations", "5", "--tasks", "2", "--burst", "10"],
            ["--burst is '10'", "like 20,100"],
        ),
        (["--iterations", "5", "--tasks", "2", "--window", "5,6"], ["--window is '5,6'", "or all"]),
        (["--iterations", "5", "--tasks", "2", "--accuracy", "90"], ["accuracy is 90", "0 to 1"]),
        (["--iterations", "5", "--tasks", "2", "--accuracy", "-1"], ["accuracy is -1"]),
        (["--iterations", "5", "--tasks", "2", "--train-ms", "-1"], ["--train-ms is -1"]),
        (["--iterations", "5", "--tasks", "2", "--example-us", "nan"], ["--example-us is nan"]),
        (
            ["--iterations", "5", "--tasks", "2", "--format", "json", "--format", "csv"],
            ["--format", "given twice"],
        ),
        (["--from-run", "nowhere"], ["nowhere: no such file"]),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], words: list[str]) -> None:
    says(refused("plan", *arguments), *words)


def test_a_run_that_cannot_be_followed_is_refused(tmp_path: Path) -> None:
    matrix = write(tmp_path, "matrix.csv", table())
    says(refused("plan", "--from-run", matrix), "matrix.csv: a matrix", "a run folder")
    nobody = write(tmp_path, "nobody.csv", "step,tested,score\n1,a,0.5\n2,a,0.6\n")
    says(refused("plan", "--from-run", nobody), "no line says which task was trained")
    again = "step,trained,tested,score\n1,a,a,0.5\n2,b,a,0.5\n2,b,b,0.5\n3,a,a,0.5\n"
    returns = write(tmp_path, "returns.csv", again)
    says(refused("plan", "--from-run", returns), "task 'a' returns", "--iterations")
    assert planned("--from-run", returns, "--iterations", "9", "--tasks", "2")["plans"]
    says(refused("plan", "--from-run", recorded(tmp_path / "run"), "--tasks", "4"),
         "--tasks is 4", "different lengths", "--iterations")  # fmt: skip
