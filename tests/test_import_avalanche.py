"""Files of Avalanche give the numbers that it printed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from perdure.importers import ImportOptions, read_runs
from perdure.importers.frameworks.avalanche import run_from_scalars

from .import_helpers import FIXTURES, matrix, read, tool_values

if TYPE_CHECKING:
    from pathlib import Path

# Avalanche

STEPS = (24, 56, 76)
AVALANCHE = [[100.0, 0.0, 0.0], [100.0, 0.0, 0.0], [100.0, 5.17, 7.14]]


@pytest.mark.parametrize(
    "file", ["eval_results.csv", "text.log", "interactive.txt", "text_tasks.log"]
)
def test_avalanche_gives_what_it_printed(file: str, tmp_path: Path) -> None:
    (run,) = read("avalanche", f"avalanche/{file}")
    assert run.tasks == ["Exp000", "Exp001", "Exp002"]
    assert matrix(run) == AVALANCHE
    initial = [e.score for e in run.evaluations if e.kind == "initial"]
    assert initial == [0.122, 0.0, 0.1905]  # 0.0000 is measured
    values = tool_values(run, tmp_path / "x", sizes=[41, 58, 42])
    assert values["Top1_Acc_Stream"] == pytest.approx(1 / 3, abs=1e-4)
    assert values["StreamForgetting"] == pytest.approx(-0.0259, abs=1e-4)
    assert values["StreamBWT"] == pytest.approx(0.0259, abs=1e-4)


def test_a_bare_zero_of_avalanche_is_not_a_score() -> None:
    with pytest.raises(ValueError, match=r"line 2: eval_accuracy is 0.*not monitored"):
        read("avalanche", "avalanche/not_monitored")


def table_lines() -> list[str]:
    return (FIXTURES / "avalanche" / "eval_results.csv").read_text().splitlines(keepends=True)


def test_hostile_variants_of_avalanches_table(tmp_path: Path) -> None:
    lines, path = table_lines(), tmp_path / "eval_results.csv"
    path.write_text("".join(lines) + "".join(lines[4:]))
    assert [matrix(run) for run in read_runs("avalanche", [path])] == [AVALANCHE, AVALANCHE]
    path.write_text("".join([*lines, lines[-1]]))
    with pytest.raises(ValueError, match=r"line 14: experience 2 was evaluated twice"):
        read_runs("avalanche", [path])
    path.write_text("".join(lines)[:-16])
    with pytest.raises(ValueError, match=r"line 13: cut off"):
        read_runs("avalanche", [path])
    path.write_text("".join(lines).replace("0.0517", "much", 1))
    with pytest.raises(ValueError, match=r"line 12: eval_accuracy is 'much'"):
        read_runs("avalanche", [path])
    path.write_text("".join([lines[0], *lines[4:7], *lines[10:13], *lines[7:10]]))
    (other_order,) = read_runs("avalanche", [path])
    assert [e.trained for e in other_order.evaluations[::3]] == ["Exp000", "Exp002", "Exp001"]


def test_evaluations_while_an_experience_is_trained_are_probes(tmp_path: Path) -> None:
    text = (FIXTURES / "avalanche" / "text.log").read_text()
    evaluation = re.findall(r"-- >> Start of eval phase.*?End of eval phase[^\n]*\n", text, re.S)[1]
    inside = text.replace("Epoch 1 ended.\n", evaluation + "Epoch 1 ended.\n", 1)
    (tmp_path / "text.log").write_text(inside)
    (run,) = read_runs("avalanche", [tmp_path / "text.log"])
    assert [e.kind for e in run.evaluations[3:9]] == ["probe"] * 3 + ["full"] * 3
    assert matrix(run) == AVALANCHE


def test_two_streams_of_avalanche_are_told_apart(tmp_path: Path) -> None:
    text = (FIXTURES / "avalanche" / "text.log").read_text()
    both = re.sub(r"(?m)^\tTop1_Acc_Exp.*$", lambda m: m[0] + "\n" + _twin(m[0]), text)
    (tmp_path / "text.log").write_text(both)
    (run,) = read_runs("avalanche", [tmp_path / "text.log"])
    assert matrix(run) == AVALANCHE
    assert any("other streams are left out: train" in note for note in run.notes)
    with pytest.raises(ValueError, match="has the streams test, train"):
        read_runs("avalanche", [tmp_path / "text.log"], ImportOptions(metric="valid"))


def _twin(line: str) -> str:
    return line.replace("test_stream", "train_stream").replace(" = 0.0", " = 0.9")


def test_text_of_avalanche_without_the_trained_experience_needs_an_order(tmp_path: Path) -> None:
    text = (FIXTURES / "avalanche" / "interactive.txt").read_text()
    half = text[: text.rindex("-- >> Start of training phase")]
    (tmp_path / "log.txt").write_text(half)
    with pytest.raises(ValueError, match=r"2 phases of training and 3 experiences.*`order=`"):
        read_runs("avalanche", [tmp_path / "log.txt"])
    (run,) = read_runs("avalanche", [tmp_path / "log.txt"], ImportOptions(order=("1", "0")))
    assert [e.trained for e in run.evaluations[3::3]] == ["Exp001", "Exp000"]


def test_scalars_under_avalanches_tags(tmp_path: Path) -> None:
    for task in ("", "/Task000"):
        tag = f"Top1_Acc_Exp/eval_phase/test_stream{task}/Exp"
        scalars = {
            f"{tag}{j:03d}": [
                (step, row[j] / 100) for step, row in zip(STEPS, AVALANCHE, strict=True)
            ]
            for j in range(3)
        }
        run = run_from_scalars(scalars, [], ImportOptions())
        assert matrix(run) == AVALANCHE
        assert sorted({e.step for e in run.evaluations}) == list(STEPS)
    early = {"ExperienceForgetting/eval_phase/test_stream/Exp001": [(24, 0.1)]}
    with pytest.raises(ValueError, match="not trained in order"):
        run_from_scalars(scalars | early, [], ImportOptions())
    named = run_from_scalars(scalars, [], ImportOptions(order=("2", "0", "1")))
    assert named.tasks[:3] == ["Exp002", "Exp000", "Exp001"]


def test_event_files_of_avalanche_need_no_columns(tmp_path: Path) -> None:
    (run,) = read("tensorboard", "avalanche/tensorboard")
    assert (run.tool, run.metrics) == ("Avalanche", "avalanche")
    rows = [[None if cell is None else round(cell, 2) for cell in row] for row in matrix(run)]
    assert rows == AVALANCHE
    assert sorted({e.step for e in run.evaluations}) == [0, *STEPS]  # training iterations
    values = tool_values(run, tmp_path / "x", sizes=[41, 58, 42])
    assert values["Top1_Acc_Stream"] == pytest.approx(1 / 3)
