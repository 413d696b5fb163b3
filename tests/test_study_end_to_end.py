"""Studies with real runs: held-out data, the same bits, stopping and going on, estimates."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

from perdure import execution, studies, training
from perdure.execution import FailureEvent, RunEvent, run_in_processes, run_serially
from perdure.record import RunWriter
from perdure.scenarios import hold_out_validation, make_permutations, make_scenario, map_domains
from perdure.strategies import Naive
from perdure.studies import make_study, run_study, study_status

from .cli_helpers import Answer, run, says, strict, write
from .evaluator_helpers import Clock
from .run_helpers import Command, points, recorded, until
from .study_helpers import nobody

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.execution import Job
    from perdure.execution.events import OnEvent
    from perdure.scenarios import Scenario

# Four runs of the search, of which two diverge, then two that are reported.
TEXT = """
scenarios = ["split-digits"]
strategies = ["naive", "replay"]
seeds = 1
[run]
iterations = 60
every = 10
hidden = "16"
[grid]
lr = [0.05, 1e30]
"""
RUNS, FAILING = 6, 2


class Reference(NamedTuple):
    """The study above, done one run after the other in this process."""

    file: Path
    store: Path
    answer: Answer


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    folder = tmp_path_factory.mktemp("study")
    file, store = write(folder, "small.toml", TEXT), folder / "store"
    return Reference(file, store, run("study", "run", file, "--store", store, "--serial"))


def bits(store: Path) -> dict[str, tuple[bytes, bytes]]:
    """Return points and digests of weights of every finished run in a store."""
    return {
        path.parent.name: ((path.parent / "points.csv").read_bytes(), path.read_bytes())
        for path in store.glob("*/done.json")
    }


# Held-out data


def shapes() -> dict[str, Scenario]:
    return {
        "class": make_scenario("split-digits"),
        "task": make_scenario("split-digits", setting="task"),
        "domains": map_domains("digits", make_permutations((8, 8), 3)),
    }


@pytest.mark.parametrize("kind", ["class", "task", "domains"])
@pytest.mark.parametrize(("share", "seed"), [(0.1, 0), (0.1, 1), (0.5, 0), (0.001, 3), (0.999, 3)])
def test_held_out_rows_by_hand(kind: str, share: float, seed: int) -> None:
    whole = shapes()[kind]
    part = hold_out_validation(whole, share, seed)
    assert part.test.x is whole.train.x  # no image of the test set is at hand
    assert part.test.y is whole.train.y
    for before, after in zip(whole.tasks, part.tasks, strict=True):
        learned, tested = set(after.train.tolist()), set(after.test.tolist())
        assert not learned & tested
        assert learned | tested == set(before.train.tolist())
        assert len(learned) + len(tested) == len(before.train)
        every = Counter(whole.train.y[before.train].tolist())
        held = Counter(whole.train.y[after.test].tolist())
        assert set(held) == set(every)
        for label, n in every.items():
            assert held[label] == min(max(1, round(share * n)), n - 1)
        assert (after.name, after.classes) == (before.name, before.classes)
    again, other = (
        hold_out_validation(whole, share, seed),
        hold_out_validation(whole, share, seed + 1),
    )
    for one, two in zip(part.tasks, again.tasks, strict=True):
        np.testing.assert_array_equal(one.test, two.test)
    assert any(
        not np.array_equal(one.test, two.test)
        for one, two in zip(part.tasks, other.tasks, strict=True)
    )


def test_an_image_held_out_of_one_domain_is_learned_in_no_other() -> None:
    part = hold_out_validation(map_domains("digits", make_permutations((8, 8), 3)), 0.1, seed=0)
    each = len(part.train.y) // 3
    held = {int(row) % each for task in part.tasks for row in task.test}
    learned = {int(row) % each for task in part.tasks for row in task.train}
    assert not held & learned


def test_a_search_is_tested_on_what_it_does_not_learn(whole: Reference) -> None:
    scenario = make_scenario("split-digits")
    for folder in whole.store.glob("*/"):
        said = json.loads((folder / "run.json").read_text())["config"]
        held = hold_out_validation(scenario, 0.1, said["seed"])
        expected = held if said["validation_split"] else scenario
        sizes = {task.name: [len(task.train), len(task.test)] for task in expected.tasks}
        assert said["examples"] == sizes
        assert said["validation_split"] == (
            0.1 if "not on the test set" in str(said["deviations"]) else 0
        )
        for line in (folder / "points.csv").read_text().splitlines()[1:]:
            _, _, tested, kind, _, n = line.split(",")
            if kind == "full":
                assert int(n) == sizes[tested][1]


# A point that diverges


def test_a_point_that_diverges_is_out_and_the_rest_is_finished(whole: Reference) -> None:
    assert whole.answer.code == 1
    assert len(bits(whole.store)) == RUNS - FAILING
    said = json.loads((whole.store / "small.study.json").read_text())
    for choice in said["selections"]:
        assert choice["point"] == {"lr": 0.05}
        good, bad = choice["trials"]
        assert 0 < good["score"] < 1
        assert bad["score"] is None
        says(bad["reason"], "expected a finite number")
    failed = list(whole.store.glob("*/failed.json"))
    assert len(failed) == FAILING
    for note in failed:
        assert json.loads(note.read_text())["code"] == 2
        assert not (note.parent / "done.json").exists()
        says(whole.answer.out, f"{note.parent.name}: the loss")
    says(whole.answer.out, "1 of 1", "selected by acc on validation data", "lr = 0.05")
    assert "Traceback" not in whole.answer.err


def test_nothing_is_done_again(whole: Reference) -> None:
    def files() -> dict[Path, int]:
        kept = (path for path in whole.store.rglob("*") if path.name != "small.study.json")
        return {path: path.stat().st_mtime_ns for path in kept}

    before = files()
    answer = run("study", "run", whole.file, "--store", whole.store, "--serial")
    assert (answer.code, answer.out) == (1, whole.answer.out)
    assert files() == before


def test_a_failure_tried_again_fails_again(whole: Reference, tmp_path: Path) -> None:
    plain = {
        "scenarios": ["split-digits"], "strategies": ["naive"], "seeds": 1,
        "run": {"iterations": 5, "lr": 1e30, "hidden": "16"},
    }  # fmt: skip
    mine = make_study(plain, "mine")
    began = list[Path]()

    def execute(jobs: Sequence[Job], on_event: OnEvent) -> None:
        began.extend(job.folder for job in jobs)
        run_serially(jobs, on_event)

    for retry, times in ((False, 1), (False, 1), (True, 2)):
        found = run_study(mine, tmp_path, execute, nobody, retry_failed=retry)
        assert (len(found.failed), found.finished, len(began)) == (1, 0, times)


# Estimates


def test_an_estimate_lists_all_and_starts_none(whole: Reference, tmp_path: Path) -> None:
    answer = run(
        "study", "run", whole.file, "--store", tmp_path / "none", "--estimate", "--format", "json"
    )
    assert (answer.code, answer.err) == (0, "perdure: measuring a few steps of each kind of run\n")
    assert not list(tmp_path.iterdir())
    said = strict(answer.out)
    assert len(said["runs"]) == RUNS
    named = {each["folder"] for each in said["runs"]}  # the first point is the one chosen
    assert named == {path.parent.name for path in whole.store.glob("*/run.json")}
    assert {each["state"] for each in said["runs"]} == {"waiting"}
    assert said["seconds"] == pytest.approx(sum(each["seconds"] for each in said["runs"]))
    assert all(each["seconds"] > 0 for each in said["runs"])


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a step take a hundredth of a second, and everything else no time."""
    clock, step = Clock(monkeypatch), Naive.step

    def stepped(self: Naive, *batch: Any, **more: Any) -> Any:
        clock.wait(0.01)
        return step(self, *batch, **more)

    monkeypatch.setattr(Naive, "step", stepped)


@pytest.mark.usefixtures("timed")
def test_an_estimate_of_steps_whose_time_is_known() -> None:
    mine = training.make_config("split-digits", "naive", iterations=60, settings={"hidden": "16"})
    assert training.estimate_seconds(mine) == pytest.approx(5 * 60 * 0.01)


def test_a_dry_run_of_what_is_done(whole: Reference) -> None:
    answer = run("study", "run", whole.file, "--store", whole.store, "--dry-run")
    lines = answer.out.splitlines()
    assert Counter(line.split()[-1] for line in lines[:-1]) == {"done": 4, "failed": 2}
    says(lines[-1], "6 runs: ", " 0 to do")
    assert answer.err == ""  # nothing is measured


@pytest.mark.usefixtures("timed")
def test_runs_of_other_lengths_are_measured_apart(tmp_path: Path) -> None:
    text = 'scenarios = ["split-digits"]\nstrategies = ["naive"]\nseeds = 1\n[run]\nevery = 50\n'
    file = write(tmp_path, "mine.toml", text + "[grid]\niterations = [10, 1000]\nlr = [0.1, 0.2]\n")
    answer = run(
        "study", "run", file, "--store", tmp_path / "none", "--estimate", "--format", "json"
    )
    seconds = [each["seconds"] for each in strict(answer.out)["runs"]]
    assert seconds == pytest.approx([0.5, 0.5, 50.0, 50.0, 0.5])  # the last: what is reported


# The same bits, wherever runs run


@pytest.mark.slow
def test_processes_give_the_same_bits(whole: Reference, tmp_path: Path) -> None:
    store = tmp_path / "store"
    mine = studies.read_study(whole.file)
    found = run_study(mine, store, partial(run_in_processes, max_parallel=1), nobody)
    assert (found.complete, len(found.failed)) == (True, FAILING)
    assert bits(store) == bits(whole.store)
    assert len(bits(store)) == RUNS - FAILING
    for path in store.glob("*/done.json"):
        assert len(json.loads(path.read_text())["weights"]) == 64
    chosen = [json.loads((s / "small.study.json").read_text()) for s in (store, whole.store)]
    assert chosen[0] == chosen[1]


def stopped(whole: Reference, store: Path, number: int, jobs: int, *, group: bool) -> Answer:
    """Return what a study said that was stopped in the middle of a run; no child is left."""
    with Command(
        whole.file, "--store", store, "--jobs", str(jobs), "--checkpoint-every", "0.1",
        cwd=store.parent, words=("study", "run"), CI="1",
    ) as command:  # fmt: skip
        until(lambda: recorded(store, 20), "a run that is on its way")
        command.children()
        (os.killpg if group else os.kill)(command.process.pid, number)
        answer = command.end()
        until(lambda: not command.left(), "the end of every child")
    return answer


def finish(whole: Reference, store: Path) -> None:
    """Give the same command again; everything is as if nothing had been."""
    assert len(bits(store)) < RUNS - FAILING
    done = {path: path.stat().st_mtime_ns for path in store.glob("*/done.json")}
    answer = run("study", "run", whole.file, "--store", store, "--serial")
    assert answer.code == 1
    assert bits(store) == bits(whole.store)
    assert done.items() <= {p: p.stat().st_mtime_ns for p in store.glob("*/done.json")}.items()
    assert not [path for path in store.glob("*/done.json") if (path.parent / "checkpoint").exists()]


def test_interrupted_and_begun_again(whole: Reference, tmp_path: Path) -> None:
    store = tmp_path / "store"
    answer = stopped(whole, store, signal.SIGINT, 1, group=True)
    assert (answer.code, answer.out) == (130, "")
    says(answer.err, "interrupted", "The same command resumes")
    assert "Traceback" not in answer.err
    status = strict(run("study", "status", whole.file, "--store", store, "--format", "json").out)
    assert (status["running"], status["undecided"] + status["waiting"] > 0) == ([], True)
    failing = [json.loads(path.read_text()) for path in store.glob("*/failed.json")]
    assert all("finite number" in each["error"] for each in failing)  # only what diverged
    finish(whole, store)


def test_a_driver_that_is_killed_leaves_no_child_and_a_study_that_goes_on(
    whole: Reference, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    answer = stopped(whole, store, signal.SIGKILL, 2, group=False)
    assert answer.code == -signal.SIGKILL
    finish(whole, store)


class Stop(BaseException):
    """Ends a run where it is, as an interrupt does."""


def half(mine: studies.Study, store: Path) -> None:
    """Leave the first run of a study in its middle, with a checkpoint."""

    def on_event(job: Job, event: RunEvent) -> None:
        if (job.folder / "checkpoint").exists() and getattr(event, "fraction", 0) > 0.3:
            raise Stop

    with pytest.raises(Stop):
        run_study(mine, store, run_serially, on_event, checkpoint_every=0.05)


def one(**run: Any) -> studies.Study:
    plain = {
        "scenarios": ["split-digits"], "strategies": ["naive"], "seeds": 2,
        "run": {"iterations": 200, "every": 50, "hidden": "16", **run},
    }  # fmt: skip
    return make_study(plain, "mine")


def test_what_was_begun_with_other_versions_is_refused_but_has_not_failed(tmp_path: Path) -> None:
    mine, store, plain = one(), tmp_path / "store", tmp_path / "plain"
    run_study(mine, plain, run_serially, nobody)
    half(mine, store)
    (begun,) = store.glob("*/run.json")
    said = json.loads(begun.read_text())
    begun.write_text(json.dumps({**said, "versions": {**said["versions"], "torch": "1.0"}}))
    errors = list[str]()

    def on_event(_: Job, event: RunEvent) -> None:
        if isinstance(event, FailureEvent):
            errors.append(event.reason)

    found = run_study(mine, store, run_serially, on_event)
    (error,) = errors
    says(error, "torch 1.0", "`force=True`")
    assert (found.failed, [path.name for path in found.waiting]) == ({}, [begun.parent.name])
    assert len(bits(store)) == 1  # the other seed
    found = run_study(mine, store, run_serially, nobody, force=True)
    assert found.successful
    assert bits(store) == bits(plain)


def test_a_run_that_another_program_writes_is_left_to_it(tmp_path: Path) -> None:
    mine = one(iterations=5)
    first, second = mine.make_configs(mine.cells[0], {})
    with RunWriter(tmp_path / first.folder, {"setting": "class"}):
        found = run_study(mine, tmp_path, run_serially, nobody)
        assert (found.failed, found.waiting) == ({}, [tmp_path / first.folder])
        assert list(bits(tmp_path)) == [second.folder]
    assert run_study(mine, tmp_path, run_serially, nobody).successful


def test_python_is_the_same_as_the_command(whole: Reference) -> None:
    mine = studies.read_study(whole.file)
    found = study_status(mine, whole.store)
    assert [len(found.done[cell]) for cell in mine.cells] == [1, 1]
    for folders in found.done.values():
        for folder in folders:
            assert points(folder)[-1].step == 5 * 60


@pytest.mark.slow
def test_sixty_runs_are_the_same_bits_one_by_one_in_processes_and_on_ray(tmp_path: Path) -> None:
    plain = {
        "scenarios": ["split-digits"], "settings": ["class", "task"], "seeds": 5,
        "strategies": ["naive", "joint", "replay", "ewc", "gdumb", "agem"],
        "run": {"iterations": 20, "every": 10, "hidden": "16"},
    }  # fmt: skip
    mine = make_study(plain, "sixty")
    ways: dict[str, Any] = {
        "serial": run_serially,
        "processes": partial(run_in_processes, max_parallel=2),
    }
    if hasattr(execution, "run_on_ray") and importlib.util.find_spec("ray"):
        ways["ray"] = execution.run_on_ray
    found = {}
    for name, execute in ways.items():
        assert run_study(mine, tmp_path / name, execute, nobody).successful
        found[name] = bits(tmp_path / name)
    assert len(found["serial"]) == 60
    for name, each in found.items():
        assert each == found["serial"], name
