"""points.csv, run folders, hits, and the other commands: explain, list, help."""

from __future__ import annotations

import os
import re
import struct
import subprocess
from typing import TYPE_CHECKING

import numpy as np
import pytest

import perdure
from perdure.metrics import METRICS, TOOLS
from perdure.strategies import STRATEGIES

from .cli_helpers import (
    COSTS,
    POINTS,
    environment,
    installed,
    refused,
    run,
    says,
    scored,
    start,
    table,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

A = [0.5, 0.9, 0.8, 0.3, 0.6, 0.7]  # task a at iterations 1 to 6, b at 4 to 6, as in POINTS
STREAM = {
    "min_acc": 0.3, "wc_acc": 0.6 / 2 + 0.3 / 2, "wf2": (0.5 + 0.1) / 2, "wfall": (0.6 + 0.1) / 2,
    "wp2": (0.4 + 0.3) / 2, "wpall": (0.4 + 0.3) / 2, "wf1": 0, "current": 0.6,
    "aaa": (0.5 + 0.9 + 0.8 + 0.35 + 0.65 + 0.65) / 6, "lca2": (0.15 + 0.45 + 0.8) / 3,
    "gap.depth": 0.5, "gap.area": 0.8, "gap.recovered": 0,
}  # fmt: skip
MATRIX = {"acc": 0.65, "bwt": -0.1, "fwt.learned": 0.5, "acc.learning": 0.7}


@pytest.fixture
def points(tmp_path: Path) -> Path:
    return write(tmp_path, "points.csv", POINTS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a finished run with whole test sets, costs and class counts."""
    whole = "3,a,a,full,0.75,1000\n3,a,b,full,0.15,1000\n"
    end = "6,b,a,full,0.65,1000\n6,b,b,full,0.55,1000\n"
    text = POINTS.replace("score\n", "score,n\n")
    text = re.sub(r"(initial|probe)(,\d.*)", r"\1\2,10", text)
    write(tmp_path, "run/points.csv", text.replace("3,b,b,initial", whole + "3,b,b,initial") + end)
    write(tmp_path, "run/run.json", '{"scenario": "x", "setting": "class", "classes": [2, 2, 2]}')
    write(tmp_path, "run/costs.csv", "".join(COSTS.splitlines(keepends=True)[:3]))
    write(tmp_path, "run/done.json", "{}")
    return tmp_path / "run"


def hits(folder: Path, examples: int = 10, *, wrong: bool = False) -> Path:
    """Write hits that agree with POINTS, or do not."""
    for task, steps, scores in ((0, range(1, 7), A), (1, range(4, 7), [0.4, 0.7, 0.6])):
        records = b""
        for step, score in zip(steps, scores, strict=True):
            right = np.arange(examples) < round(score * examples) - (1 if wrong else 0)
            records += struct.pack("<q", step) + np.packbits(right).tobytes()
        write(folder, f"per_example/{task}.bin", records)
        np.save(folder / "per_example" / f"{task}.npy", np.arange(examples))
    return folder / "per_example"


def test_points_give_stream_and_matrix_metrics(points: Path) -> None:
    found = scored(points, "--window", "1,2,all", "--beta", "2")
    expected = STREAM | MATRIX
    assert {id_: found["metrics"].get(id_) for id_ in expected} == pytest.approx(expected)
    assert not {"wf10", "wp100", "lca10"} & (found["metrics"].keys() | found["undefined"].keys())
    says(found["undefined"]["gap.recovery"], "recover")
    assert found["tasks"] == ["a", "b"]
    assert found["curves"]["min_acc"] == [None, pytest.approx(0.3)]
    assert found["curves"]["wfall"] == pytest.approx([0.1, 0.35])
    assert found["per_task"]["wfall"] == pytest.approx([0.6, 0.1])
    says(" ".join(found["notes"]), "probe", "one per iteration")


def test_points_through_a_pipe_in_percent_and_without_optional_columns() -> None:
    rows = [line.split(",") for line in POINTS.splitlines()[1:] if "initial" not in line]
    short = "step,trained,tested,score\n" + "".join(
        f"{step},{trained},{tested},{100 * float(score):.10g}\n"
        for step, trained, tested, _, score in rows
    )
    found = scored("-", "--percent", "--window", "2", stdin=short.encode())["metrics"]
    assert (found["wf2"], found["acc"]) == pytest.approx((0.3, 0.65))


def test_the_order_of_points_columns_does_not_matter() -> None:
    turned = "".join(",".join(reversed(row.split(","))) + "\r\n" for row in POINTS.splitlines())
    assert scored("-", stdin=turned.encode()) == scored("-", stdin=POINTS.encode())


def test_thin_keeps_every_second_evaluation(points: Path) -> None:
    found = scored(points, "--subsample", "2", "--window", "2,all")
    expected = {"min_acc": 0.3, "wf2": (0.6 + 0) / 2, "wp2": (0.4 + 0.2) / 2, "wfall": 0.3}
    assert {id_: found["metrics"][id_] for id_ in expected} == pytest.approx(expected)
    assert found["metrics"]["acc"] == pytest.approx(0.65)  # the matrix is not thinned
    says(" ".join(found["notes"]), "every 2 iteration")


def test_a_stream_without_boundaries_or_with_a_returning_task_has_no_matrix() -> None:
    free = "step,tested,score\n" + "".join(f"{k},a,{score}\n" for k, score in enumerate(A, 1))
    found = scored("-", stdin=free.encode())
    assert found["metrics"]["wfall"] == pytest.approx(0.6)
    says(found["undefined"]["acc"], "boundaries")
    says(found["undefined"]["min_acc"], "boundaries")
    returns = scored("-", stdin=(POINTS + "7,a,a,probe,0.9\n7,a,b,probe,0.5\n").encode())
    says(returns["undefined"]["acc"], "'a' returns")
    assert "wfall" in returns["metrics"]


def test_a_torn_last_line_is_left_out_with_a_note() -> None:
    found = scored("-", stdin=(POINTS + "7,b,a,pro").encode())
    assert found["metrics"] == scored("-", stdin=POINTS.encode())["metrics"]
    says(" ".join(found["notes"]), "last line is cut off")


def test_a_run_folder_brings_costs_classes_and_whole_sets(folder: Path) -> None:
    found = scored(folder)
    assert found["metrics"]["acc"] == pytest.approx(0.6)
    assert found["metrics"]["bwt"] == pytest.approx(-0.1)
    assert found["metrics"]["uraa"] == pytest.approx(0.6 * 4)
    assert found["metrics"]["ms"] == pytest.approx(0.75)
    assert found["metrics"]["min_acc"] == pytest.approx(0.3)  # from the probes
    assert found["metrics"]["acc.pooled"] == pytest.approx(0.6)
    assert {"acc", "acc.pooled"} <= found["intervals"].keys()
    says(found["undefined"]["fwt.upper"], "class-incremental")
    assert "unfinished" not in " ".join(found["notes"])
    assert scored(folder, "--setting", "domain")["metrics"]["fwt.upper"] == pytest.approx(0.15)


def test_an_unfinished_run_is_scored_over_its_finished_tasks_and_says_so(folder: Path) -> None:
    (folder / "done.json").unlink()
    path = folder / "points.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-3]))
    found = scored(folder)
    assert found["tasks"] == ["a", "b"]  # b was tested, though not learned yet
    assert (found["curves"]["aa"], found["metrics"]["acc"]) == ([0.75], pytest.approx(0.75))
    says(" ".join(found["notes"]), "unfinished", "1 finished task")
    says(run("score", folder).out, "unfinished")


def test_hits_give_intervals_on_extremes(folder: Path, points: Path) -> None:
    path = hits(folder)
    for arguments in ([folder], [points, "--per-example", path]):
        found = scored(*arguments, "--window", "2")
        assert {"min_acc", "wc_acc", "wf2"} <= found["intervals"].keys()
        for id_ in ("min_acc", "wc_acc", "wf2"):
            low, high = found["intervals"][id_]
            assert 0 <= low <= high <= 1
    assert "min_acc" not in scored(points)["intervals"]
    says(run("score", folder).out, "95% interval")
    line = refused("score", folder, "--per-example", hits(folder, wrong=True))
    says(line, "per-example", "task 'a' at step 1", "0.4000", "0.5000")


@pytest.mark.parametrize("id_", [*METRICS, "wf10", "wpall", "lca3"])
def test_explain_has_a_page_for_every_id(id_: str) -> None:
    answer = run("explain", id_)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(f"{id_}: ")
    for part in ("formula", "source", "range", "needs", "differs", "reading"):
        assert re.search(rf"^  {part} +\S+", answer.out, re.MULTILINE), part
    assert all(len(line) <= 100 for line in answer.out.splitlines())


def test_explain_teaches_what_the_sources_say() -> None:
    text = " ".join(run("explain", "wc_acc", "acc", "acc.lower", "bwt").out.split())
    says(text, "wc_acc: worst-case accuracy", "acc.lower: ", "bwt: ", "eq. 6", "boundaries")
    says(
        text, ".8", "severe forgetting", "easy tasks"
    )  # the tutorial's values and its table; Faber et al. 2023
    says(refused("explain", "wc_ac"), "'wc_ac'", "did you mean", "wc_acc")
    says(refused("explain"), "nothing to explain", "name a metric", "strategy")
    assert run("explain", "acc", "nope").out == ""


def test_list_shows_every_metric_and_every_tool() -> None:
    rows = {line.split()[0]: line for line in run("list", "metrics").out.splitlines()}
    assert METRICS.keys() <= rows.keys()
    says(rows["wf"], "↓", "windowed forgetting", "stream", "De Lange")
    tools = run("list", "tools").out
    says(tools, *TOOLS)
    says(tools, "avalanche", "mammoth", "continuum", "pycil", "renate", "facil", "capymoa", "m2i")


def test_help_version_and_unknown_commands() -> None:
    assert run("--version").out.strip() == perdure.__version__
    says(run("--help").out, "score", "explain", "list")
    page = run("score", "--help").out
    says(page, "--transposed", "--percent", "--classes", "--range", "--lower-is-better", "--as")
    says(refused("scoer", "m.csv"), "scoer", "score")
    says(refused("list", "metric"), "metric")
    says(refused("score", "m.csv", "--percnt"), "--percnt")


def test_exit_code_1_when_a_wanted_metric_is_undefined() -> None:
    matrix = table().encode()
    answer = run("score", "-", "--metrics", "acc,fwt.gem", stdin=matrix)
    assert (answer.code, answer.err) == (1, "")
    says(answer.out, "0.6620", "fwt.gem: needs the untrained model's scores")
    found = scored("-", "--metrics", "fwt.gem", stdin=matrix, code=1)
    assert (found["metrics"], list(found["undefined"])) == ({}, ["fwt.gem"])
    says(
        scored("-", "--metrics", "wf7", stdin=matrix, code=1)["undefined"]["wf7"], "needs a stream"
    )
    assert start("score", "-", "--metrics", "fwt.gem", stdin=matrix).code == 1


def test_only_prints_nothing_else() -> None:
    found = scored("-", "--metrics", "bwt, acc", "--sizes", "9,9,9,9,9", stdin=table().encode())
    assert found["metrics"].keys() == {"acc", "bwt"} == found["per_task"].keys()
    assert (found["undefined"], list(found["intervals"])) == ({}, ["acc"])


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "arguments", [["list", "metrics"], ["score", "-"], ["score", "-", "--format", "json"]]
)
def test_a_closed_pipe_is_no_error_of_ours(arguments: list[str], unbuffered: str) -> None:
    read, out = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*installed(), *arguments], input=table().encode(), stdout=out, stderr=subprocess.PIPE,
        env=environment() | {"PYTHONUNBUFFERED": unbuffered}, check=False, timeout=300,
    )  # fmt: skip
    os.close(out)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("data", "encoding"),
    [(table().encode(), "ascii"), (b'{"matrix": [[0.5]], "tasks": ["\\ud800"]}', "utf-8")],
)
def test_what_cannot_be_shown_is_no_bad_input(data: bytes, encoding: str) -> None:
    answer = start("score", "-", "--per-task", stdin=data, PYTHONIOENCODING=encoding)
    assert (answer.code, answer.err) == (0, "")
    says(answer.out, "acc.learning", "after each task")


def test_explain_says_what_a_strategy_keeps_costs_and_takes() -> None:
    page = " ".join(run("explain", "ewc").out.split())
    says(page, "importance and an anchor per weight", "Kirkpatrick et al. 2017", "costs")
    says(
        page, "strength=1000", "mode=separate", "strength=1 mode=separate labels=data for m2i, i2m"
    )
    says(page, "strength=100000 for split-mnist --setting task")
    for name in STRATEGIES:
        says(run("explain", name).out, f"{name}: ", "stores", "costs", "paper", "options")
        shown = "implementation=perdure (or avalanche-0.2.1)" in " ".join(
            run("explain", name).out.split()
        )
        assert shown == (name in ("ewc", "si", "mas", "lwf", "gem"))
    naive = run("explain", "naive").out
    assert "--set" not in naive  # it has no hyperparameter
    assert "its paper" not in naive  # and no paper
    says(refused("explain", "gdum"), "'gdum'", "did you mean gdumb")


def test_explain_says_what_options_a_model_has() -> None:
    page = " ".join(run("explain", "efficientnet-b1").out.split())
    says(page, "Tan & Le 2019", "batch_norm_momentum=0.1", "padding=symmetric (or same)", "--set")
    says(run("explain", "mlp").out, "hidden=400,400")
