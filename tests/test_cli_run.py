"""`perdure run`: its words, its table, its records. The children's work is done in here."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import shutil
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import pytest

from perdure.api.recorded_runs import note_progress
from perdure.api.runs import RunPlan
from perdure.cli._progress import SeedProgressView
from perdure.cli.run import describe_config
from perdure.execution import FailureEvent, plan_jobs
from perdure.record.io.lock import Lock
from perdure.training import make_config

from .cli_helpers import judged_refusal, says, scored, strict
from .run_helpers import SMALL, done, inside, kept_by_hand, points, printed_table, real_data

if TYPE_CHECKING:
    from pathlib import Path

ONE = ("--seeds", "1", *SMALL)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The default scenario and strategy, three seeds: the store and what was printed."""
    store = tmp_path_factory.mktemp("three") / "runs"
    answer = inside(*SMALL, "--store", store)
    assert answer.code == 0, answer.err
    return store, answer.out


def test_the_table_says_what_the_points_say(three: tuple[Path, str]) -> None:
    store, out = three
    folders = sorted(store.iterdir())
    assert [re.sub("-[0-9a-f]{8}$", "", path.name) for path in folders] == [
        f"split-digits-replay-s{k}" for k in range(3)
    ]
    assert "split-digits, replay, class-incremental, mean of 3 seeds" in out
    for folder in folders:
        assert str(folder) in out
    table, hands = printed_table(out), [kept_by_hand(folder) for folder in folders]
    assert list(table) == ["0-1", "2-3", "4-5", "6-7", "8-9"]
    for task, cells in table.items():
        for column, cell in cells.items():
            if column not in hands[0][task]:
                assert cell == ""
                continue
            mean = sum(hand[task][column] for hand in hands) / 3
            assert abs(float(cell) - mean) <= 0.0005 + 1e-9, (task, column)


def test_the_headline_numbers_by_hand(three: tuple[Path, str]) -> None:
    store, out = three
    hands = [kept_by_hand(folder) for folder in sorted(store.iterdir())]
    columns = {
        "acc": "at the end", "acc.learning": "learned", "min_acc": "lowest since",
    }  # fmt: skip
    for id_, column in columns.items():
        seeds = [
            float(np.mean([each[column] for each in hand.values() if column in each]))
            for hand in hands
        ]
        (line,) = (line for line in out.splitlines() if line.split()[:1] == [id_])
        numbers = [float(cell) for cell in re.findall(r"-?\d\.\d{4}", line)]
        assert abs(numbers[0] - np.mean(seeds)) <= 0.00005 + 1e-9
        assert abs(numbers[1] - np.std(seeds, ddof=1)) <= 0.00005 + 1e-9


def test_finished_runs_are_not_run_again(three: tuple[Path, str]) -> None:
    store, out = three
    before = {path: path.stat().st_mtime_ns for path in store.rglob("*")}
    with patch("perdure.execution.serial.perform", side_effect=AssertionError("run again")):
        answer = inside(*SMALL, "--store", store)
    assert answer.code == 0
    assert answer.out == out
    says(answer.err, "finished before", "--restart")
    assert {path: path.stat().st_mtime_ns for path in store.rglob("*")} == before


def test_json_is_all_there_is_on_stdout(three: tuple[Path, str]) -> None:
    store, _ = three
    answer = inside(*SMALL, "--store", store, "--format", "json")
    assert answer.err == ""
    found = strict(answer.out)
    folders = sorted(store.iterdir())
    assert found["runs"] == [str(folder) for folder in folders]
    hand = kept_by_hand(folders[1])
    assert math.isclose(
        found["summary"]["runs"][1]["metrics"]["acc"],
        np.mean([each["at the end"] for each in hand.values()]),
    )


def test_one_line_says_how_it_was_trained(three: tuple[Path, str]) -> None:
    line = three[1].splitlines()[1]
    says(line, "memory", "alpha")
    assert "None" not in line  # options that are not set are not listed
    config = make_config("split-digits", "naive", epochs=1)
    assert ", 1 epoch per task" in describe_config(config)


def test_what_another_process_trains_is_said(tmp_path: Path) -> None:
    configs = [make_config("split-digits", "naive", seed=seed) for seed in range(2)]
    _, waiting = plan_jobs(configs, tmp_path)
    for job in waiting:
        job.folder.mkdir()
    lock = Lock(waiting[0].folder)
    assert note_progress([], waiting) == [
        "running in another process: seed 0",
        "starting from scratch: seed 1",
    ]
    lock.release()


def test_an_interrupt_names_every_run_that_has_begun(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configs = [make_config("split-digits", "naive", seed=seed) for seed in range(2)]
    _, waiting = plan_jobs(configs, tmp_path / "my runs")
    view = SeedProgressView(show=False)
    view.on_plan(RunPlan([], waiting, []))

    def interrupt() -> str:
        with pytest.raises(KeyboardInterrupt), view:
            raise KeyboardInterrupt
        return capsys.readouterr().err

    for job in waiting:
        job.folder.mkdir(parents=True)
        (job.folder / "points.csv").write_text("step,trained,tested,kind,score,n\n")
    none = interrupt()
    says(none, "0 of 2 runs finished", "starts from scratch: there is no checkpoint yet")
    assert "perdure score" not in none  # which would find nothing
    for job in waiting:
        with (job.folder / "points.csv").open("a") as file:
            file.write("1,a,a,probe,0.5,10\n")
    (waiting[0].folder / "checkpoint").mkdir()
    first, folders = interrupt().split("perdure score ")
    says(first, "resumes 1 from the last checkpoint and starts the rest from scratch")
    assert shlex.split(folders) == [str(job.folder) for job in waiting]
    (waiting[1].folder / "checkpoint").mkdir()
    says(interrupt(), "The same command resumes from the last checkpoint")
    waiting[1].code = 0
    says(interrupt(), "1 of 2 runs finished. The same command resumes the other from the last")
    (waiting[0].folder / "checkpoint").rmdir()
    says(interrupt(), "1 of 2 runs finished. The same command starts the other from scratch")


def test_fewer_and_more_seeds_use_what_is_there(three: tuple[Path, str], tmp_path: Path) -> None:
    store = shutil.copytree(three[0], tmp_path / "runs")
    ran = []

    def note(job: Any, tell: Any) -> int:
        ran.append(job.config.seed)
        tell(FailureEvent("not now"))
        return 2

    with patch("perdure.execution.serial.perform", note):
        assert inside(*SMALL, "--store", store, "--seeds", "2").code == 0
        assert inside(*SMALL, "--store", store, "--seeds", "2,0").code == 0
        assert not ran
        answer = inside(*SMALL, "--store", store, "--seeds", "0,4")
    assert ran == [4]
    assert answer.code == 2
    says(answer.err, "finished before: seed 0", "seed 4 failed: not now")
    assert "1 seed" in answer.out
    with patch("perdure.execution.serial.perform", note):
        inside(*SMALL, "--store", store, "--restart", "--seeds", "1")
    assert ran == [4, 0]


def test_changed_data_is_said(three: tuple[Path, str], tmp_path: Path) -> None:
    store = shutil.copytree(three[0], tmp_path / "runs")
    folder = sorted(store.iterdir())[1]
    text = (folder / "run.json").read_text()
    digest = json.loads(text)["config"]["data"]["digits"]["sha256"]["digits"]
    (folder / "run.json").write_text(text.replace(digest, "ab" * 32))
    answer = inside(*SMALL, "--store", store)
    assert answer.code == 0
    changed = [line for line in answer.err.splitlines() if "has changed" in line]
    assert len(changed) == 1
    says(changed[0], str(folder), "digits", digest[:12], "abababababab", "--restart")
    notes = strict(inside(*SMALL, "--store", store, "--format", "json").out)["notes"]
    assert any("has changed" in note for note in notes)
    (folder / "run.json").write_text("{}")
    says(judged_refusal(inside(*SMALL, "--store", store)), "run.json", "--restart")


def test_the_same_bits_again(three: tuple[Path, str], tmp_path: Path) -> None:
    (alone,) = done(*SMALL, "--seeds", "1,", "--store", tmp_path / "runs")
    known = next(path for path in three[0].iterdir() if path.name == alone.name)
    first = (alone / "points.csv").read_bytes()
    assert first == (known / "points.csv").read_bytes()
    (again,) = done(*SMALL, "--seeds", "1,", "--store", tmp_path / "runs", "--restart")
    assert again == alone
    assert (again / "points.csv").read_bytes() == first
    for name in ("0.bin", "4.bin", "0.npy"):
        assert (again / "per_example" / name).read_bytes() == (
            known / "per_example" / name
        ).read_bytes()


def test_everything_that_was_chosen_is_recorded(three: tuple[Path, str]) -> None:
    folder = min(three[0].iterdir())
    said = json.loads((folder / "run.json").read_text())
    assert said["threads"] == 1
    assert {"perdure", "torch", "numpy", "python"} <= set(said["versions"])
    described = said["config"]
    assert described["options"].items() >= {"memory": 100, "alpha": 0.3}.items()
    assert described["optimizer_options"] == {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.0}
    assert described["batch"] == 32
    assert described["epochs"] == 1
    assert described["data"]["digits"]["sha256"]


def test_unseen_tasks_make_forward_transfer_defined(tmp_path: Path) -> None:
    arguments = ("--setting", "task", "--unseen", *ONE, "--store", tmp_path)
    (folder,) = done("split-digits", "naive", *arguments)
    rows = points(folder)
    names = ["0-1", "2-3", "4-5", "6-7", "8-9"]
    untrained = {row.tested: row.score for row in rows if row.step == 0 and row.kind == "initial"}
    assert list(untrained) == names
    before = [  # each task's score when the one before it had ended, less that of no training
        next(r.score for r in rows if r.kind == "full" and r.trained == a and r.tested == b)
        - untrained[b]
        for a, b in pairwise(names)
    ]
    found = scored(folder)["metrics"]["fwt.gem"]
    assert math.isclose(found, float(np.mean(before)), abs_tol=1e-12)


def test_gradients_are_recorded(tmp_path: Path) -> None:
    (folder,) = done(*ONE, "--gradients", "4", "--store", tmp_path)
    header, *lines = (folder / "gradients.csv").read_text().splitlines()
    assert header == "step,trained,plasticity,stability"
    cells = [line.split(",") for line in lines]
    last = max(row.step for row in points(folder))
    steps = [int(cell[0]) for cell in cells]
    assert len(set(np.diff(steps))) == 1
    assert np.diff(steps)[0] == 4
    assert max(steps) > last - 4
    for _, trained, plasticity, stability in cells:
        assert float(plasticity) > 0
        if trained == "0-1":
            assert not stability or float(stability) == 0
        else:
            assert float(stability) > 0


def test_training_is_the_same_however_it_is_watched(tmp_path: Path) -> None:
    ends = []
    rarely = ["--every", "10"]
    for k, more in enumerate(
        (
            rarely, [*rarely, "--gradients", "3"], [*rarely, "--unseen"],
            [*rarely, "--no-per-example"], [*rarely, "--subset", "all"], ["--every", "3"],
        )
    ):  # fmt: skip
        (folder,) = done(
            "--seeds", "1", "--epochs", "1", "--set", "hidden=16", *more, "--store",
            tmp_path / str(k),
        )  # fmt: skip
        ends.append(
            [(r.step, r.trained, r.tested, r.score) for r in points(folder)
             if r.kind == "full" and r.step > 0 and seen(r.trained, r.tested)]
        )  # fmt: skip
        assert (folder / "per_example").exists() == ("--no-per-example" not in more)
    assert all(end == ends[0] for end in ends)


def seen(trained: str, tested: str) -> bool:
    return tested <= trained


def test_subsets(tmp_path: Path) -> None:
    (folder,) = done(*ONE, "--subset", "20", "--store", tmp_path / "a")
    (redrawn,) = done(*ONE, "--subset", "20", "--resample", "--store", tmp_path / "b")
    for each in (folder, redrawn):
        lines = (each / "points.csv").read_text().splitlines()[1:]
        counts = {(line.split(",")[3], line.split(",")[5]) for line in lines}
        assert {n for kind, n in counts if kind == "probe"} == {"20"}
        assert all(int(n) > 60 for kind, n in counts if kind == "full")
    assert np.load(folder / "per_example" / "0.npy").shape == (20,)
    fixed = [r.score for r in points(folder) if r.kind == "probe"]
    assert fixed != [r.score for r in points(redrawn) if r.kind == "probe"]


def test_lengths(tmp_path: Path) -> None:
    def steps(*more: str) -> list[int]:
        (folder,) = done(
            "split-digits", "naive", "--seeds", "1", "--every", "50", "--set", "hidden=8",
            "--store", tmp_path / "".join(more).strip("-"), *more,
        )  # fmt: skip
        return sorted({r.step for r in points(folder) if r.kind == "full"})

    assert steps("--iterations", "3") == [3, 6, 9, 12, 15]
    once = steps("--online")
    assert once == steps("--epochs", "1")
    assert steps("--epochs", "2") == [2 * step for step in once]
    assert len(set(np.diff(steps("--online", "--batch", "10000")))) == 1
    stopped = steps("--patience", "1", "--epochs", "30", "--set", "lr=0")
    each = np.diff([0, *stopped])
    assert max(each) <= 2 * 9  # nothing is ever better: one epoch, and one that is not better


def test_order_mask_and_setting(tmp_path: Path) -> None:
    order = "9,8,7,6,5,4,3,2,1,0"
    (folder,) = done(*ONE, "--order", order, "--store", tmp_path / "a")
    tasks = json.loads((folder / "run.json").read_text())["tasks"]
    assert tasks == ["9, 8", "7, 6", "5, 4", "3, 2", "1, 0"]
    assert list(dict.fromkeys(r.trained for r in points(folder))) == tasks
    assert scored(folder)["tasks"] == tasks  # names with commas come back
    (first,) = done(*ONE, "--order", "3", "--store", tmp_path / "b")
    (second,) = done(*ONE, "--order", "4", "--store", tmp_path / "b")
    assert [r.tested for r in points(first)] != [r.tested for r in points(second)]
    (masked,) = done("split-digits", "naive", *ONE, "--mask-unseen", "--store", tmp_path / "c")
    begun = [r for r in points(masked) if r.kind == "initial"]
    assert begun[0].score > 0.2  # two classes are left to choose from
    (heads,) = done(*ONE, "--setting", "task", "--store", tmp_path / "d")
    ends = [r.score for r in points(heads) if r.kind == "full" and r.trained == r.tested]
    assert min(ends) > 0.5  # no task has more than two outputs to choose from
    (domain,) = done(*ONE, "--setting", "domain", "--store", tmp_path / "e")
    assert json.loads((domain / "run.json").read_text())["setting"] == "domain"
    (adam,) = done(*ONE, "--optimizer", "adam", "--store", tmp_path / "f")
    options = json.loads((adam / "run.json").read_text())["config"]["optimizer_options"]
    assert options == {"lr": 0.001, "weight_decay": 0.0}


def test_streams_without_sharp_boundaries(tmp_path: Path) -> None:
    (sharp,) = done(*ONE, "--store", tmp_path / "a")
    soft = ("--boundaries", "blurred", "--blur")
    (blurred,) = done(*ONE, *soft, ".3", "--store", tmp_path / "a")
    (hardly,) = done(*ONE, *soft, "0", "--store", tmp_path / "a")
    assert len({r.trained for r in points(blurred)}) == 5
    assert points(blurred) != points(sharp)
    assert points(hardly) == points(sharp)
    stream = ("--boundaries", "none", "--set", "fill=reservoir")
    (none,) = done(*ONE, *stream, "--store", tmp_path / "b")
    rows = points(none)
    assert {r.trained for r in rows} == {""}
    assert len({r.tested for r in rows}) == 5
    answer = inside(*ONE, *stream, "--store", tmp_path / "b")
    assert answer.code == 0
    says(answer.out, "wf10", str(none))


def test_deviations_are_recorded(tmp_path: Path) -> None:
    short = ("--seeds", "1", "--iterations", "1", "--every", "9", "--batch", "4", "--subset", "10")
    with real_data():
        (folder,) = done(
            "m2i", "naive", *short, "--image-size", "16", "--setting", "task", "--model", "mlp",
            "--set", "hidden=4", "--no-per-example", "--store", tmp_path,
        )  # fmt: skip
    said = json.loads((folder / "run.json").read_text())["config"]
    assert any("omniglot-magi: only 16 training" in text for text in said["deviations"])
    assert set(said["data"]) == set(said["tasks"])
    assert said["optimizer_options"] == {"lr": 0.001, "momentum": 0.9, "weight_decay": 0.0}


BAD: list[tuple[list[str], list[str]]] = [
    (["split-digit"], ["split-digit", "did you mean split-digits"]),
    (["split-digits", "repaly"], ["repaly", "did you mean replay"]),
    (["split-digits", "repaly:"], ["repaly:"]),
    (["split-digits", ":Mine"], [":Mine", "module:name"]),
    (["split-digits", "nowhere:Mine"], ["nowhere", "no module"]),
    (["split-digits", "torch.nn:Linear"], ["torch.nn:Linear", "Strategy"]),
    (["split-digits", "replay", "more"], ["more"]),
    (["--model", "mpl"], ["mpl", "mlp"]),
    (["--model", "nowhere:network"], ["nowhere"]),
    (["--model", "math:pi"], ["math:pi"]),
    (["--seeds", "0"], ["--seeds", "'0'"]),
    (["--seeds", "-1"], ["--seeds"]),
    (["--seeds", "two"], ["--seeds", "two"]),
    (["--seeds", ","], ["--seeds"]),
    (["--seeds", "1,1"], ["--seeds", "1,1"]),
    (["--seeds", "1,99999999999999999999"], ["seed", "99999999999999999999"]),
    (["--every", "0"], ["--every"]),
    (["--every", "1.5"], ["--every", "1.5"]),
    (["--subset", "0"], ["--subset"]),
    (["--subset", "some"], ["--subset", "some"]),
    (["--gradients", "0"], ["--gradients"]),
    (["--iterations", "0"], ["--iterations"]),
    (["--batch", "0"], ["--batch"]),
    (["--patience", "0"], ["--patience"]),
    (["--early-stopping-split", "1"], ["--early-stopping-split is 1"]),
    (["--early-stopping-split", "nan"], ["--early-stopping-split is nan"]),
    (["--blur", "2"], ["blur"]),
    (["--blur", "x"], ["--blur", "x"]),
    (["--threads", "0"], ["--threads"]),
    (["--threads", "99999999999999999999"], ["threads"]),
    (["--jobs", "0"], ["--jobs"]),
    (["--device", "gpu"], ["device", "gpu"]),
    (["--device", "cuda:99"], ["device", "cuda:99"]),
    (["--optimizer", "rmsprop"], ["--optimizer", "rmsprop"]),
    (["--setting", "instance"], ["--setting", "instance"]),
    (["--boundaries", "soft"], ["--boundaries", "soft"]),
    (["--order", "x"], ["--order", "x"]),
    (["--order", "cat,dog"], ["--order is 'cat,dog'", "numbers from 0", "not names"]),
    (["--epochs", "1", "--online"], ["--epochs", "--online"]),
    (["--boundaries", "none", "--patience", "2"], ["boundaries", "patience"]),
    (["--boundaries", "none", "--mask-unseen"], ["boundaries", "mask"]),
    (["--set", "lr"], ["--set", "lr", "NAME=VALUE"]),
    (["--set", "lr="], ["--set"]),
    (["--set", "=1"], ["--set"]),
    (["--set", "lr=x"], ["lr", "'x'", "number"]),
    (["--set", "lr=nan"], ["lr", "nan"]),
    (["--set", "lr=-1"], ["lr", "-1"]),
    (["--set", "lr=1", "--set", "lr=2"], ["lr", "twice"]),
    (["--set", "memory=1.5"], ["memory", "1.5", "whole"]),
    (["--set", "fill=begin"], ["fill", "begin", "end", "reservoir"]),
    (["--set", "alhpa=.3"], ["alhpa", "did you mean alpha"]),
    (["--set", "seed=3"], ["seed"]),
    (["split-digits", "naive", "--set", "memory=5"], ["memory", "naive"]),
    (["--optimizer", "adam", "--set", "momentum=.9"], ["momentum", "adam"]),
    (["--nonsense"], ["--nonsense"]),
    # found when the network, the learner or the tasks are made
    (["--set", "alpha=7"], ["alpha is 7", "0 to 1"]),
    (["--set", "memory=-1"], ["memory is -1"]),
    (["--set", "hidden=0"], ["hidden", "'0'"]),
    (["--order", "1,2"], ["order", "0 to 9"]),
    (["--image-size", "16"], ["size"]),
]


@pytest.mark.parametrize(("arguments", "words"), BAD, ids=lambda value: " ".join(value))
def test_mistakes_are_one_line(arguments: list[str], words: list[str], tmp_path: Path) -> None:
    store = tmp_path / "runs"
    answer = inside(*arguments, "--store", store)
    if answer.err.startswith("perdure: training "):  # a value that only the strategy can judge
        answer = answer._replace(err=answer.err.split("\n", 1)[1])
    says(judged_refusal(answer), *words)
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("mine")
    for store in (tmp_path / "runs", tmp_path / "runs" / "deeper"):
        says(judged_refusal(inside(*ONE, "--store", store)), "file", "folder")
    assert (tmp_path / "runs").read_text() == "mine"


@pytest.mark.parametrize("name", ["split-mini-imagenet", "split-cifar100", "split-mnist", "m2i"])
def test_missing_data_says_how_to_get_it(name: str, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    nowhere = {
        "PERDURE_DATA": str(tmp_path / "nothing"), "PERDURE_CACHE": str(tmp_path / "cache"),
        "HF_ENDPOINT": "http://127.0.0.1:9",
    }  # fmt: skip
    with patch.dict(os.environ, nowhere):
        said = judged_refusal(inside(name, "--seeds", "1", "--store", tmp_path / "runs"))
    says(said, "PERDURE_DATA")
    assert not (tmp_path / "runs").exists()


def test_a_plan_counts_the_evaluations_of_the_run(tmp_path: Path) -> None:
    arguments = ("split-digits", "naive", "--seeds", "1", "--iterations", "5", "--every", "2")
    options = (*arguments, "--set", "hidden=8", "--store", tmp_path)
    plan = inside(*options, "--dry-run").out
    assert inside(*options).code == 0
    (folder,) = tmp_path.iterdir()
    rows = [line.split(",") for line in (folder / "points.csv").read_text().splitlines()]
    steps = {kind: {row[0] for row in rows if row[3] == kind} for kind in ("probe", "full")}
    says(plan, f"{len(steps['probe'])} and {len(steps['full'])} per run", folder.name)
    says(inside(*options, "--dry-run").out, "1 of 1 run")
