"""Logs of PyCIL, PILOT and Mammoth give the numbers that the tools printed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from perdure.importers import read_runs
from perdure.importers.frameworks.logs import MEAN_OF_GROUPS, MIXED_GROUPS
from perdure.importers.frameworks.mammoth import LAST_LEFT_OUT

from .import_helpers import FIXTURES, matrix, printed, read, tool_values

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# PyCIL and PILOT


@pytest.mark.parametrize(
    ("file", "index", "classifier"),
    [("icarl.log", 0, "CNN"), ("icarl.log", 1, "NME"), ("two_seeds.log", 0, "CNN"),
     ("two_seeds.log", 1, "CNN")],
)  # fmt: skip
def test_pycil_gives_what_it_printed(
    file: str, index: int, classifier: str, tmp_path: Path
) -> None:
    run = read("pycil", f"pycil/{file}")[index]
    text = (FIXTURES / "pycil" / file).read_text()
    part = text.split("config: ")[1 + (index if file == "two_seeds.log" else 0)]
    values = tool_values(run, tmp_path / "x")
    averages = printed(part, rf"Average Accuracy \({classifier}\)")
    assert values["Average Accuracy (CNN)"] == pytest.approx(averages[-1] / 100, abs=1e-4)
    (forgetting,) = printed(part, rf"Forgetting \({classifier}\)")
    assert values["Forgetting (CNN)"] == pytest.approx(forgetting / 100, abs=1e-4)
    assert run.classes == [10, 10, 10]


def test_pycil_appends_the_second_seed_to_the_file_of_the_first() -> None:
    first, second = read("pycil", "pycil/two_seeds.log")
    assert [run.config["seed"] for run in (first, second)] == [1993, 7]
    assert {key for key in first.config if first.config[key] != second.config[key]} == {"seed"}
    assert matrix(first)[0][0] == 11.0


def test_pycil_counts_ten_classes_whatever_a_task_is(tmp_path: Path) -> None:
    (run,) = read("pycil", "pycil/init20.log")
    assert MEAN_OF_GROUPS not in run.notes  # with two tasks, old and new are the tasks
    assert run.tasks == ["00-19", "20-29"]
    text = (FIXTURES / "pycil" / "init20.log").read_text()
    first, second = re.findall(r"'new': np.float64\(([\d.]+)\)", text)
    (old,) = re.findall(r"'old': np.float64\(([\d.]+)\)", text)
    assert matrix(run) == [[float(first), None], [float(old), float(second)]]
    third = text + (
        "x y [finetune.py] => Learning on 30-40\n"
        "x y [trainer.py] => CNN: {'total': np.float64(1.0), '00-09': np.float64(10.0), "
        "'10-19': np.float64(20.0), '20-29': np.float64(5.0), '30-39': np.float64(7.0), "
        "'old': np.float64(11.67), 'new': np.float64(7.0)}\n"
    )
    (tmp_path / "third.log").write_text(third)
    (longer,) = read_runs("pycil", [tmp_path / "third.log"])
    assert matrix(longer)[2] == [15.0, 5.0, 7.0]
    assert MEAN_OF_GROUPS in longer.notes
    (tmp_path / "mixed.log").write_text(
        third.replace("Learning on 0-20", "Learning on 0-15").replace("20-30", "15-30")
    )
    (mixed,) = read_runs("pycil", [tmp_path / "mixed.log"])
    assert matrix(mixed)[2] == [None, None, 7.0]
    assert MIXED_GROUPS in mixed.notes


def test_pilot_weighs_tasks_by_their_test_sets(tmp_path: Path) -> None:
    (run,) = read("pycil", "pycil/pilot.log")
    assert (run.tool, run.tasks) == ("PILOT", ["00-19", "20-29", "30-39"])
    values = tool_values(run, tmp_path / "x", sizes=[200, 100, 100])
    text = (FIXTURES / "pycil" / "pilot.log").read_text()
    average = printed(text, r"Average Accuracy \(CNN\)")[-1]
    assert values["Average Accuracy (CNN)"] == pytest.approx(average / 100, abs=1e-4)
    assert values["Forgetting (CNN)"] == pytest.approx(0.07)


def test_a_truncated_pycil_log_gives_the_tasks_it_has(tmp_path: Path) -> None:
    lines = (FIXTURES / "pycil" / "icarl.log").read_text().splitlines(keepends=True)
    at = next(k for k, line in enumerate(lines) if "Learning on 20-30" in line)
    (tmp_path / "cut.log").write_text("".join(lines[: at + 2]))
    _, nme = read_runs("pycil", [tmp_path / "cut.log"])
    assert matrix(nme)[:2] == [[42.0, None], [18.0, 28.0]]
    (tmp_path / "short.log").write_text("".join(lines[:14]))
    with pytest.raises(ValueError, match="no run found"):
        read_runs("pycil", [tmp_path / "short.log"])


# Mammoth


def test_mammoth_gives_what_it_printed(tmp_path: Path) -> None:
    text = (FIXTURES / "mammoth" / "console_class.txt").read_text()
    from_console = read("mammoth", "mammoth/console_class.txt")
    for setting, column, console in zip(("class", "task"), (0, 1), from_console, strict=True):
        run = read("mammoth", f"mammoth/{setting}-il")[0]
        assert matrix(run) == matrix(console)
        assert (run.config["setting"], console.config["setting"]) == (setting, setting)
        assert run.config["strategy"] == "er"
        values = tool_values(run, tmp_path / setting)
        for name in ("Backward Transfer", "Forgetting"):
            (line,) = re.findall(rf"Raw {name} values: (.*)", text)
            number = float(re.findall(r"-?[\d.]+", line)[column])
            assert values[name] == pytest.approx(number / 100)
        accuracy = printed(text, r"for 5 task\(s\):.*\[Class-IL\]")
        assert setting == "task" or values["Accuracy"] == pytest.approx(accuracy[0] / 100, abs=1e-4)


def test_evaluation_counts_of_mammoth_are_not_task_numbers() -> None:
    every_epoch = read("mammoth", "mammoth/class-il")[1]
    console, _ = read("mammoth", "mammoth/console_epochs.txt")
    assert len(every_epoch.tasks) == len(console.tasks) == 5
    assert matrix(every_epoch) == matrix(console)
    assert [e.step for e in every_epoch.evaluations if e.tested == "task 1"] == list(range(1, 16))
    assert every_epoch.config["seed"] == 1


def test_a_domain_incremental_log_of_mammoth_has_only_means() -> None:
    with pytest.raises(ValueError, match=r"only means.*console output"):
        read("mammoth", "mammoth/domain-il")
    runs = read("mammoth", "mammoth")  # next to others it is left out
    assert [run.config["setting"] for run in runs] == ["class", "class", "task", "task"]
    assert all(any("left out: " in note for note in run.notes) for run in runs)
    (run,) = read("mammoth", "mammoth/console_domain.txt")  # every line is there twice
    assert run.config == {"setting": "domain"}
    assert matrix(run)[2] == [73.0, 75.166667, 76.166667]
    assert len(run.evaluations) == 6


def spoil(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


def mammoth_log() -> str:
    path = FIXTURES / "mammoth" / "class-il" / "seq-mnist" / "er" / "logs.pyd"
    return path.read_text().splitlines(keepends=True)[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[:-200], "line 1: ends inside a dictionary"),
        (lambda text: spoil(text, "'accuracy_1_task3': 91.26984126984127, ", ""), "are missing"),
        (lambda text: spoil(text, "'joint': 0", "'joint': 1"), "joint=1"),
        (lambda text: spoil(text, "'eval_future': False", "'eval_future': True"), "eval_future"),
        (lambda text: spoil(text, "'accuracy_1_task1': 100.0", "'accuracy_1_task1': nan"), "nan"),
        (lambda text: spoil(text, "'accuracy_1_task1': 100.0", "'accuracy_1_task1': 1e3"), "1e3"),
        (lambda text: "{'a': __import__('os').system('true')}\n" + text, "line 1: no accuracy"),
        (lambda text: "{" * 5000 + "\n", "ends inside"),
    ],
)
def test_a_broken_mammoth_log_is_refused(
    change: Callable[[str], str], message: str, tmp_path: Path
) -> None:
    (tmp_path / "logs.pyd").write_text(change(mammoth_log()))
    with pytest.raises(ValueError, match=message):
        read_runs("mammoth", [tmp_path / "logs.pyd"])


def test_a_mammoth_log_is_read_whatever_the_order_of_its_keys(tmp_path: Path) -> None:
    text = mammoth_log()
    items = re.findall(r"'accuracy_\d_task\d': [\d.]+", text)
    for old, new in zip(items, reversed(items), strict=True):
        text = text.replace(old, "@" + new, 1)
    (tmp_path / "logs.pyd").write_text(text.replace("@", ""))
    (run,) = read_runs("mammoth", [tmp_path])
    assert matrix(run) == matrix(read("mammoth", "mammoth/class-il")[0])


def test_what_mammoth_fills_in_or_evaluates_on_other_data_is_left_out(tmp_path: Path) -> None:
    text = mammoth_log()
    expected = matrix(read("mammoth", "mammoth/class-il")[0])
    zeros = "".join(f"'accuracy_{j}_task{i}': 0.0, " for i in range(1, 5) for j in range(i + 1, 6))
    (tmp_path / "logs.pyd").write_text(spoil(text, "'cpu_memory", zeros + "'cpu_memory"))
    (padded,) = read_runs("mammoth", [tmp_path])
    assert matrix(padded) == expected
    assert any("zeros above the diagonal" in note for note in padded.notes)
    final = "".join(f"'accuracy_{j}_task6': 50.0, " for j in range(1, 6))
    (tmp_path / "logs.pyd").write_text(spoil(text, "'cpu_memory", final + "'cpu_memory"))
    (validated,) = read_runs("mammoth", [tmp_path])
    assert matrix(validated) == expected
    assert LAST_LEFT_OUT in validated.notes


def test_two_runs_on_one_console_are_two_runs(tmp_path: Path) -> None:
    text = (FIXTURES / "mammoth" / "console_class.txt").read_text()
    (tmp_path / "console.txt").write_text(text + text.replace("100.0", "99.0"))
    runs = read_runs("mammoth", [tmp_path / "console.txt"])
    assert [run.config["setting"] for run in runs] == ["class", "task"] * 2
    assert [matrix(run)[0][0] for run in runs[::2]] == [100.0, 99.0]
