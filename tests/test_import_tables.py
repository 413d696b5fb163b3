"""Files of FACIL, CLArena and Renate, and objects in memory, give the tools' numbers."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import perdure
from perdure.importers import ImportOptions, read_object, read_runs
from perdure.metrics import as_tool

from .import_helpers import FIXTURES, matrix, points_of, read, tool_values

if TYPE_CHECKING:
    from pathlib import Path

# FACIL

FACIL_FORGETTING = {"taw": 0.008, "tag": 0.600}
FACIL_ACCURACY = {"taw": 0.654, "tag": 0.259}


@pytest.mark.parametrize("source", ["facil", "facil/results/acc_{}-2026-11-18-01-18.txt"])
@pytest.mark.parametrize("kind", ["taw", "tag"])
def test_facil_gives_what_it_printed(source: str, kind: str, tmp_path: Path) -> None:
    (run,) = read("facil", source.format(kind), metric=kind)
    values = tool_values(run, tmp_path / "x")
    accuracy, forgetting = values.values()
    assert accuracy == pytest.approx(FACIL_ACCURACY[kind], abs=6e-4)
    assert forgetting == pytest.approx(FACIL_FORGETTING[kind], abs=6e-4)
    assert run.config["setting"] == {"taw": "task", "tag": "class"}[kind]
    assert (run.config["seed"], run.config["strategy"]) == (0, "finetuning")
    rows = matrix(run)
    assert [row[k + 1 :] for k, row in enumerate(rows)] == [[None, None], [None], []]
    if kind == "tag":
        assert rows[1][0] == 0.0  # measured


def test_hostile_variants_of_facils_files(tmp_path: Path) -> None:
    text = (FIXTURES / "facil" / "raw_log-2026-11-18-01-18.txt").read_text()
    path = tmp_path / "raw_log-x.txt"
    path.write_text(text[:-20])
    with pytest.raises(ValueError, match="cut off"):
        read_runs("facil", [tmp_path])
    path.write_text(text + text)
    with pytest.raises(ValueError, match="evaluated twice after task 0; two runs"):
        read_runs("facil", [tmp_path])
    lines = text.splitlines(keepends=True)
    path.write_text("".join(reversed(lines)))
    assert [matrix(run) for run in read_runs("facil", [path], ImportOptions(metric="taw"))] == [
        matrix(run) for run in read("facil", "facil", metric="taw")
    ]
    path.write_text("".join(line for line in lines if '"task": 2' not in line))
    assert all(len(run.tasks) == 2 for run in read_runs("facil", [path]))
    (tmp_path / "raw_log-y.txt").write_text(text)  # two runs in one folder
    assert len(read_runs("facil", [tmp_path])) == 4
    path = tmp_path / "acc_taw-z.txt"
    path.write_text("0.5\t0.0\t0.0\n0.4\t0.7\t0.0\n0.0\t0.0\t0.0\n")
    (unfinished,) = read_runs("facil", [path])
    assert matrix(unfinished) == [[50.0, None], [40.0, 70.0]]


# CLArena and Renate


def test_clarena_rows_have_one_column_per_task_so_far(tmp_path: Path) -> None:
    (run,) = read("clarena", "clarena")
    assert matrix(run) == [
        [93.75, None, None],
        [68.75, 90.625, None],
        [60.416669, 68.75, 89.583331],
    ]
    text = (FIXTURES / "clarena" / "acc.csv").read_text().replace("\r\n", "\n")
    path = tmp_path / "acc.csv"
    for change, message in [
        (text[:-5], "cut off"),
        (text.replace("test_on_task_2,", ""), "expected"),
        (text.replace("0.6875,0.90625", "0.6875"), "line 3: 1 accuracies, expected 2"),
        ("\n".join([*text.split("\n")[:2], *text.split("\n")[3:1:-1], ""]), "line 3: "),
        (text.replace("2,0.796875", "1,0.796875"), "line 3: after task '1', expected task 2"),
        (text.replace("0.90625", "yes"), "line 3: an accuracy is 'yes'"),
    ]:
        path.write_text(change)
        with pytest.raises(ValueError, match=message):
            read_runs("clarena", [path])


def test_renate_gives_what_it_printed(tmp_path: Path) -> None:
    (run,) = read("renate", "renate")
    values = tool_values(run, tmp_path / "x", sizes=[41, 58, 42])
    summary = (FIXTURES / "renate" / "metrics_summary.csv").read_text().splitlines()
    expected = dict(zip(summary[0].split(","), map(float, summary[-1].split(",")), strict=True))
    for name in ("Average Accuracy", "Micro Average Accuracy", "Forgetting", "Backward Transfer"):
        assert values[name] == pytest.approx(expected[name]), name
    initial = [0.1219512195121951, 0.0, 0.19047619047619047]  # not in Renate's file
    points = points_of(tmp_path / "x")
    rows_with = {row.name: row.value for row in as_tool(points.matrix(initial=initial), "renate")}
    assert rows_with["Forward Transfer"] == pytest.approx(expected["Forward Transfer"])
    (loss,) = read("renate", "renate", metric="loss")
    assert loss.scale.lower_is_better
    with pytest.raises(ValueError, match="has no 'f1'; choose with `metric=`: accuracy, loss"):
        read("renate", "renate", metric="f1")


def test_hostile_variants_of_renates_file(tmp_path: Path) -> None:
    text = (FIXTURES / "renate" / "metrics_summary_update_2.csv").read_text()
    path = tmp_path / "metrics_summary_update_10.csv"
    lines = text.splitlines(keepends=True)
    (tmp_path / "metrics_summary_update_9.csv").write_text("".join(lines[:-1]))
    path.write_text(text)
    assert read_runs("renate", [tmp_path])[0].files == [path]  # 10 is after 9
    for change, message in [
        ("".join(lines[:1] + lines[2:]), "two header rows"),
        ("".join([*lines[:2], lines[3], lines[2], lines[4]]), "line 3: "),
        ("".join([*lines[:3], lines[2], lines[3], lines[4]]), "line 4: "),
        (text[:-30], "line 5: "),
    ]:
        path.write_text(change)
        with pytest.raises(ValueError, match=message):
            read_runs("renate", [path])


# Objects in memory


def continuum_logger() -> tuple[Any, dict[str, float]]:
    stored = json.loads((FIXTURES / "continuum" / "logger.json").read_text())
    performance = {
        subset: {
            "performance": [
                [{key: np.array(value) for key, value in epoch.items()} for epoch in task]
                for task in content["performance"]
            ]
        }
        for subset, content in stored["logger_dict"].items()
    }
    logger = SimpleNamespace(logger_dict=performance, current_task=stored["current_task"])
    return logger, stored["metrics"]


def test_a_continuum_logger_gives_its_own_metrics(tmp_path: Path) -> None:
    logger, metrics = continuum_logger()
    (run,) = perdure.import_results(logger, output=tmp_path / "x")
    values = {row.name: row.value for row in as_tool(points_of(run.folder).matrix(), "continuum")}
    for name, value in values.items():
        assert value == pytest.approx(metrics[name]), name
    assert "acc" in perdure.score(tmp_path / "x").intervals  # it has every example


def test_a_continuum_logger_without_what_is_needed_is_refused() -> None:
    logger, _ = continuum_logger()
    with pytest.raises(ValueError, match="no performance of subset 'valid'"):
        read_object(logger, ImportOptions(metric="valid"))
    last = logger.logger_dict["test"]["performance"][-1][-1]
    kept, last["task_ids"] = last["task_ids"], np.zeros(0)
    with pytest.raises(ValueError, match="no task ids of the evaluation after task 2"):
        read_object(logger)
    last["task_ids"] = kept
    logger.logger_dict["test"]["performance"][0] = None
    with pytest.raises(ValueError, match="saved task 0 to a file"):
        read_object(logger)


def test_a_continuum_logger_whose_examples_change_has_no_results_per_example() -> None:
    logger, _ = continuum_logger()
    epoch = logger.logger_dict["test"]["performance"][0][0]
    for key in epoch:
        epoch[key] = epoch[key][:-1]
    (run,) = read_object(logger)
    assert all(e.correct is None and e.n for e in run.evaluations)


def test_capymoas_metrics_give_its_own_numbers(tmp_path: Path) -> None:
    stored = json.loads((FIXTURES / "capymoa" / "metrics.json").read_text())
    metrics = SimpleNamespace(
        **{k: np.array(v) if isinstance(v, list) else v for k, v in stored.items()}
    )
    (run,) = perdure.import_results(metrics, output=tmp_path / "x")
    values = {row.name: row.value for row in as_tool(points_of(run.folder).matrix(), "capymoa")}
    for name, value in values.items():
        assert value == pytest.approx(stored[name], abs=1e-6), name
    steps = sorted(set(points_of(run.folder).step.tolist()))
    assert [steps[2], steps[5], steps[8]] == [60, 100, 141]  # the ends of the tasks
    metrics.boundaries = metrics.boundaries[:-1]
    with pytest.raises(ValueError, match="boundaries 3 entries"):
        read_object(metrics)
