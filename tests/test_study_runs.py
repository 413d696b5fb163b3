"""Running a study with runs made by hand: what is chosen, run, left alone and written down."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from perdure.execution import ExitEvent, ProgressEvent
from perdure.record import load_summary
from perdure.studies import run_study, study_status

from .study_helpers import Failure, Fake, Scores, flat, made_run, nobody, snapshot, study

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from perdure.studies import Study
    from perdure.training import RunConfig

LR = {"lr": [0.1, 0.2, 0.3]}
ALL = {"seeds": "all"}


def lr_of(run: RunConfig) -> float:
    return run.optimizer_options["lr"]


def by_lr(table: dict[float, Any]) -> Callable[[RunConfig], Any]:
    """Return a function that looks scores up by learning rate: one value, or one per seed."""

    def answer(run: RunConfig) -> Any:
        found = table[lr_of(run)]
        return found[run.seed] if isinstance(found, list) else found

    return answer


def chosen(answer: Callable[[RunConfig], Any], store: Path, **plain: Any) -> Any:
    """Return the choice of a study of naive alone."""
    mine = study(strategies=["naive"], **plain)
    status = run_study(mine, store, Fake(answer), nobody)
    return status.selections[mine.cells[0]]


def test_the_best_mean_is_chosen_and_not_the_best_seed(tmp_path: Path) -> None:
    scores = {0.1: [0.99, 0.1, 0.5], 0.2: [0.6, 0.6, 0.6], 0.3: [0.2, 0.95, 0.3]}
    found = chosen(
        by_lr({rate: [flat(x) for x in each] for rate, each in scores.items()}),
        tmp_path, grid=LR, seeds=3, select=ALL,
    )  # fmt: skip
    assert found.point == {"lr": 0.2}
    means = [sum(each) / 3 for each in scores.values()]
    assert [each.score for each in found.trials] == pytest.approx(means)


def test_the_lowest_is_chosen_where_lower_is_better(tmp_path: Path) -> None:
    answer = by_lr({0.1: Scores(0.9, 0.5, 0.9), 0.2: Scores(0.6, 0.5, 0.6), 0.3: flat(0.4)})
    assert chosen(answer, tmp_path / "a", grid=LR).point == {"lr": 0.1}  # the most accurate
    by = {"metric": "forgetting.learned"}
    found = chosen(answer, tmp_path / "b", grid=LR, select=by)
    assert found.point == {"lr": 0.3}  # nothing is forgotten
    assert [each.score for each in found.trials] == pytest.approx([0.4, 0.1, 0.0])


def test_negative_scores_are_compared_as_numbers(tmp_path: Path) -> None:
    answer = by_lr({0.1: Scores(0.9, 0.1, 1), 0.2: Scores(0.9, 0.6, 1), 0.3: Scores(0.9, 0.4, 1)})
    found = chosen(answer, tmp_path, grid=LR, select={"metric": "bwt"})
    assert found.point == {"lr": 0.2}
    assert [each.score for each in found.trials] == pytest.approx([-0.8, -0.3, -0.5])


def test_of_equal_points_the_first_stands(tmp_path: Path) -> None:
    found = chosen(by_lr({0.1: flat(0.2), 0.2: flat(0.7), 0.3: flat(0.7)}), tmp_path, grid=LR)
    assert found.point == {"lr": 0.2}


def test_a_point_that_fails_with_any_seed_is_out(tmp_path: Path) -> None:
    table = {0.1: [flat(0.99), Failure("the loss is nan")], 0.2: flat(0.3), 0.3: flat(0.2)}
    found = chosen(by_lr(table), tmp_path, grid=LR, seeds=2, select=ALL)
    assert found.point == {"lr": 0.2}
    assert found.trials[0].score is None
    assert found.trials[0].reason == "the loss is nan"


def test_a_point_whose_metric_is_undefined_is_out(tmp_path: Path) -> None:
    table = {0.1: Scores(1.0, 1.0), 0.2: Scores(0.9, 0.2, 0.9), 0.3: Scores(0.9, 0.1, 0.9)}
    found = chosen(by_lr(table), tmp_path, grid=LR, select={"metric": "bwt"})
    assert found.point == {"lr": 0.2}
    assert found.trials[0].score is None
    assert found.trials[0].reason


@pytest.mark.parametrize("every", [Failure("no"), Scores(0.5, 0.5)])
def test_a_cell_without_a_point_is_complete_but_not_whole(every: Any, tmp_path: Path) -> None:
    mine = study(strategies=["naive"], grid=LR, seeds=2, select={"metric": "bwt"})
    fake = Fake(lambda _: every)
    status = run_study(mine, tmp_path, fake, nobody)
    assert status.selections[mine.cells[0]].point is None
    assert (status.complete, status.successful, status.done[mine.cells[0]]) == (True, False, [])
    assert [run[2:] for run in fake.take()] == [(0, 0.1)] * 3  # nothing is run for the tables


def test_searches_hold_data_out_and_what_is_reported_does_not(tmp_path: Path) -> None:
    fake = Fake(by_lr({0.1: flat(0.5), 0.2: flat(0.9), 0.3: flat(0.7)}))
    mine = study(strategies=["naive"], grid=LR, select={"validation_split": 0.25})
    status = run_study(mine, tmp_path, fake, nobody)
    search = [("naive", rate, 0, 0.25) for rate in (0.1, 0.2, 0.3)]
    reported = [("naive", 0.2, seed, 0.0) for seed in range(5)]
    assert fake.take() == search + reported
    assert [len(wave) for wave in fake.waves] == [3, 5]
    names = [folder.name for folder in status.done[mine.cells[0]]]
    assert names == [each.folder for each in mine.make_configs(mine.cells[0], {"lr": 0.2})]
    assert (status.finished, status.waiting, status.undecided, status.failed) == (8, [], [], {})


def test_chosen_on_the_test_set_nothing_runs_twice(tmp_path: Path) -> None:
    fake = Fake(by_lr({0.1: flat(0.5), 0.2: flat(0.9), 0.3: flat(0.7)}))
    mine = study(strategies=["naive"], grid=LR, seeds=3, select={"on": "test", "seeds": "all"})
    run_study(mine, tmp_path / "all", fake, nobody)
    assert sorted(fake.take()) == [
        ("naive", rate, seed, 0.0) for rate in (0.1, 0.2, 0.3) for seed in range(3)
    ]
    mine = study(strategies=["naive"], grid=LR, seeds=[7, 1, 4], select={"on": "test"})
    run_study(mine, tmp_path / "one", fake, nobody)
    search = [("naive", rate, 7, 0.0) for rate in (0.1, 0.2, 0.3)]
    assert fake.take() == [*search, ("naive", 0.2, 1, 0.0), ("naive", 0.2, 4, 0.0)]


def test_more_seeds_to_select_by_than_there_are(tmp_path: Path) -> None:
    fake = Fake(lambda _: flat(0.5))
    run_study(
        study(strategies=["naive"], grid={"lr": [0.1, 0.2]}, seeds=2, select={"seeds": 9}),
        tmp_path, fake, nobody,
    )  # fmt: skip
    assert len(fake.take()) == 2 * 2 + 2


def test_a_grid_of_one_point_is_not_searched(tmp_path: Path) -> None:
    fake = Fake(lambda _: flat(0.5))
    mine = study(strategies=["naive"], grid={"lr": [0.1]}, seeds=2)
    status = run_study(mine, tmp_path, fake, nobody)
    assert fake.take() == [("naive", 0.1, 0, 0.0), ("naive", 0.1, 1, 0.0)]
    assert status.selections[mine.cells[0]].trials == []


def test_each_cell_chooses_for_itself(tmp_path: Path) -> None:
    def answer(run: RunConfig) -> Scores:
        return flat(lr_of(run) if run.strategy == "naive" else 1 - lr_of(run))

    mine = study(grid=LR, seeds=1)
    status = run_study(mine, tmp_path, Fake(answer), nobody)
    assert [status.selections[cell].point for cell in mine.cells] == [{"lr": 0.3}, {"lr": 0.1}]


def test_what_is_finished_is_not_touched(tmp_path: Path) -> None:
    fake = Fake(by_lr({0.1: flat(0.5), 0.2: flat(0.9), 0.3: flat(0.7)}))
    mine = study(grid=LR)
    first = run_study(mine, tmp_path, fake, nobody)
    before = {k: v for k, v in snapshot(tmp_path).items() if not k.endswith(".study.json")}
    fake.take()
    again = run_study(mine, tmp_path, fake, nobody)
    assert fake.take() == []
    after = {k: v for k, v in snapshot(tmp_path).items() if not k.endswith(".study.json")}
    assert before == after
    assert first == again


def test_exactly_what_changed_is_run(tmp_path: Path) -> None:
    fake = Fake(lambda _: flat(0.5))
    run_study(study(seeds=2), tmp_path, fake, nobody)
    fake.take()
    run_study(study(seeds=3), tmp_path, fake, nobody)
    assert fake.take() == [("naive", 0.02, 2, 0.0), ("ewc", 0.02, 2, 0.0)]
    run_study(study(seeds=[1, 5]), tmp_path, fake, nobody)
    assert fake.take() == [("naive", 0.02, 5, 0.0), ("ewc", 0.02, 5, 0.0)]
    run_study(study(seeds=2, strategy={"ewc": {"lr": 0.5}}), tmp_path, fake, nobody)
    assert fake.take() == [("ewc", 0.5, 0, 0.0), ("ewc", 0.5, 1, 0.0)]
    run_study(study(seeds=2, strategies=["naive", "ewc", "si"]), tmp_path, fake, nobody)
    assert fake.take() == [("si", 0.02, 0, 0.0), ("si", 0.02, 1, 0.0)]
    run_study(study(seeds=2, run={"lr": 0.02}), tmp_path, fake, nobody)  # said, not changed
    assert fake.take() == []


def test_a_better_point_added_to_a_grid_is_searched_and_reported(tmp_path: Path) -> None:
    fake = Fake(by_lr({0.1: flat(0.5), 0.2: flat(0.9), 0.3: flat(0.95)}))
    mine = ["naive"]
    run_study(study(strategies=mine, grid={"lr": [0.1, 0.2]}, seeds=2), tmp_path, fake, nobody)
    fake.take()
    run_study(study(strategies=mine, grid=LR, seeds=2), tmp_path, fake, nobody)
    assert fake.take() == [("naive", 0.3, 0, 0.1), ("naive", 0.3, 0, 0.0), ("naive", 0.3, 1, 0.0)]


def test_two_studies_share_their_runs(tmp_path: Path) -> None:
    fake = Fake(lambda _: flat(0.5))
    run_study(study("one", seeds=2), tmp_path, fake, nobody)
    fake.take()
    two = study("two", seeds=3, strategies=["ewc", "joint"])
    status = run_study(two, tmp_path, fake, nobody)
    assert fake.take() == [
        ("ewc", 0.02, 2, 0.0),
        *(("joint", 0.02, seed, 0.0) for seed in range(3)),
    ]
    assert [len(status.done[cell]) for cell in two.cells] == [3, 3]
    assert {path.name for path in tmp_path.glob("*.json")} == {"one.study.json", "two.study.json"}


def test_variants_that_are_the_same_run_are_run_and_counted_once(tmp_path: Path) -> None:
    fake = Fake(lambda _: flat(0.5))
    mine = study(
        strategies=["naive", "replay"], seeds=2,
        variant={"small": {"memory": 10}, "large": {"memory": 20}},
    )  # fmt: skip
    before = study_status(mine, tmp_path)
    assert len(before.waiting) == len(set(before.waiting)) == 6  # two of naive, four of replay
    status = run_study(mine, tmp_path, fake, nobody)
    assert len(fake.take()) == status.finished == 6
    assert [len(status.done[cell]) for cell in mine.cells] == [2, 2, 2, 2]
    assert status.done[mine.cells[0]] == status.done[mine.cells[1]]


def failing(*wrong: int) -> Fake:
    """Return who fails the runs of these seeds."""
    return Fake(lambda run: Failure("it broke") if run.seed in wrong else flat(0.5))


def test_a_failure_is_written_down_and_stops_nobody(tmp_path: Path) -> None:
    fake, mine = failing(1), study(seeds=3)
    status = run_study(mine, tmp_path, fake, nobody)
    assert len(fake.take()) == 6
    assert {path.name for path in status.failed} == {
        mine.make_configs(cell, {})[1].folder for cell in mine.cells
    }
    for folder, why in status.failed.items():
        said = json.loads((folder / "failed.json").read_text())
        assert (said["error"], said["code"], why) == ("it broke", 2, "it broke")
    assert [len(status.done[cell]) for cell in mine.cells] == [2, 2]
    assert (status.complete, status.successful) == (True, False)
    run_study(mine, tmp_path, fake, nobody)
    assert fake.take() == []


def test_a_failure_is_tried_again_when_asked_and_once(tmp_path: Path) -> None:
    mine = study(seeds=2)
    run_study(mine, tmp_path, failing(1), nobody)
    still = failing(1)
    assert len(run_study(mine, tmp_path, still, nobody, retry_failed=True).failed) == 2
    assert still.take() == [("naive", 0.02, 1, 0.0), ("ewc", 0.02, 1, 0.0)]
    well = failing()
    status = run_study(mine, tmp_path, well, nobody, retry_failed=True)
    assert well.take() == [("naive", 0.02, 1, 0.0), ("ewc", 0.02, 1, 0.0)]
    assert (status.failed, status.successful) == ({}, True)


def test_a_run_that_was_finished_after_it_failed_counts_in_the_search(tmp_path: Path) -> None:
    """The folder of another machine may come back with the note of the failure still in it."""
    mine = study(strategies=["naive"], grid=LR, seeds=1)
    table: dict[float, Any] = {0.1: flat(0.5), 0.2: Failure("lost"), 0.3: flat(0.4)}
    assert run_study(mine, tmp_path, Fake(by_lr(table)), nobody).selections[
        mine.cells[0]
    ].point == {"lr": 0.1}
    fake = Fake(by_lr({**table, 0.2: flat(0.9)}))
    status = run_study(mine, tmp_path, fake, nobody, retry_failed=True)
    assert fake.take() == [("naive", 0.2, 0, 0.1), ("naive", 0.2, 0, 0.0)]
    assert (status.selections[mine.cells[0]].point, status.failed) == ({"lr": 0.2}, {})


@pytest.mark.parametrize(
    "refusal",
    [
        Failure("another program writes here", "RecordError", 1),
        Failure("was begun otherwise", "ResumeError", 2),
        Failure("ended", "", 130),
    ],
)
def test_what_could_go_on_later_has_not_failed(refusal: Failure, tmp_path: Path) -> None:
    mine = study(seeds=2)
    fake = Fake(lambda run: refusal if run.seed else flat(0.5))
    status = run_study(mine, tmp_path, fake, nobody)  # and it does not try for ever
    assert (status.failed, len(status.waiting), status.complete) == ({}, 2, False)
    assert not list(tmp_path.rglob("failed.json"))
    fake.take()
    later = failing()
    assert run_study(mine, tmp_path, later, nobody).successful
    assert later.take() == [("naive", 0.02, 1, 0.0), ("ewc", 0.02, 1, 0.0)]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("the cluster is lost")])
@pytest.mark.parametrize("after", [0, 2, 3, 5, 6])
def test_the_next_call_goes_on_where_one_was_stopped(
    error: BaseException, after: int, tmp_path: Path
) -> None:
    table = {0.1: flat(0.5), 0.2: flat(0.9), 0.3: flat(0.7)}
    mine = study(strategies=["naive"], grid=LR, seeds=4)
    whole = Fake(by_lr(table))
    expected = run_study(mine, tmp_path / "whole", whole, nobody)
    runs = whole.take()
    stopped = Fake(lambda run: error if len(stopped.began) == after else by_lr(table)(run))
    with pytest.raises(type(error)):
        run_study(mine, tmp_path / "part", stopped, nobody)
    part = study_status(mine, tmp_path / "part")
    assert (part.finished, part.failed, part.complete) == (after, {}, False)
    assert part.undecided == (mine.cells if after < 3 else [])
    rest = Fake(by_lr(table))
    status = run_study(mine, tmp_path / "part", rest, nobody)
    assert stopped.take() + rest.take() == runs
    assert status.selections == expected.selections
    assert [f.name for f in status.done[mine.cells[0]]] == [
        f.name for f in expected.done[mine.cells[0]]
    ]


def test_what_was_tried_and_chosen_is_written_down(tmp_path: Path) -> None:
    table: dict[float, Any] = {0.1: flat(0.5), 0.2: flat(0.75), 0.3: Failure("nan")}
    mine = study("deep", strategies=["naive", "joint"], strategy={"naive": {"grid": LR}})
    run_study(mine, tmp_path, Fake(lambda run: by_lr({0.02: flat(0.1), **table})(run)), nobody)
    said = json.loads((tmp_path / "deep.study.json").read_text())
    (choice,) = said["selections"]  # joint has no grid
    assert choice == {
        "scenario": "split-digits", "setting": "class", "model": "mlp", "strategy": "naive",
        "variant": "", "point": {"lr": 0.2},
        "trials": [
            {"point": {"lr": 0.1}, "score": 0.5, "reason": ""},
            {"point": {"lr": 0.2}, "score": 0.75, "reason": ""},
            {"point": {"lr": 0.3}, "score": None, "reason": "nan"},
        ],
    }  # fmt: skip
    assert said["study"]["strategy"] == {"naive": {"grid": LR}}
    assert said["study"]["select"]["on"] == "validation"


def test_jobs_are_told_how_to_go_on(tmp_path: Path) -> None:
    fake, planned = failing(), list[int]()
    run_study(
        study(seeds=2), tmp_path, fake, nobody, force=True, checkpoint_every=7.5,
        on_round=lambda jobs, _: planned.append(len(jobs)),
    )  # fmt: skip
    assert planned == [4]
    for job in fake.waves[0]:
        assert (job.resume, job.overwrite, job.force) == (True, False, True)
        assert job.checkpoint_every == 7.5
        assert job.folder == tmp_path / job.config.folder


def test_every_message_is_handed_on(tmp_path: Path) -> None:
    heard = []
    run_study(study(seeds=1), tmp_path, failing(0), lambda job, said: heard.append(said))
    assert heard == [ProgressEvent(0.5), ExitEvent(2)] * 2


def test_the_plan_names_searches_first_and_the_chosen_later(tmp_path: Path) -> None:
    mine = study(strategies=["naive"], grid=LR, seeds=4)

    def planned(*, everything: bool = False) -> list[tuple[float, int, float]]:
        status = study_status(mine, tmp_path)
        plan = [*status.planned, *(status.after_selection if everything else [])]
        return [(lr_of(each), each.seed, each.validation_split) for _, each in plan]

    search = [(0.1, 0, 0.1), (0.2, 0, 0.1), (0.3, 0, 0.1)]
    assert planned() == search
    assert len(planned(everything=True)) == 3 + 4
    fake = Fake(by_lr({0.1: flat(0.5), 0.2: flat(0.9), 0.3: flat(0.7)}))
    run_study(mine, tmp_path, fake, nobody)
    assert planned() == planned(everything=True) == search + [(0.2, seed, 0) for seed in range(4)]


def test_scores_are_those_of_the_run_that_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    made_run(folder, Scores(0.9, 0.5, 0.7))
    kept = folder / "scores.json"
    assert load_summary(folder).metrics["acc"] == pytest.approx(0.6)
    assert not kept.exists()  # it may be somebody else's run
    assert load_summary(folder, keep=True).costs == {"seconds_train": 2.0, "peak_bytes": 3e6}
    said = json.loads(kept.read_text())
    said["metrics"]["acc"] = 0.123
    kept.write_text(json.dumps(said))
    assert load_summary(folder).metrics["acc"] == 0.123  # kept, not computed
    made_run(folder, Scores(0.9, 0.1, 0.5))  # made anew
    assert load_summary(folder).metrics["acc"] == pytest.approx(0.3)
    assert load_summary(folder, keep=True).metrics["bwt"] == pytest.approx(-0.8)
    said = json.loads(kept.read_text())
    said["metrics"]["acc"] = 0.123
    said["of"][0] = "0.0.0"  # another version, whose metrics may be others
    kept.write_text(json.dumps(said))
    assert load_summary(folder).metrics["acc"] == pytest.approx(0.3)
    kept.write_text('{"of": [')
    assert load_summary(folder).metrics["acc"] == pytest.approx(0.3)


def test_a_run_made_anew_changes_the_choice(tmp_path: Path) -> None:
    mine = study(strategies=["naive"], grid={"lr": [0.1, 0.2]}, seeds=1)
    status = run_study(mine, tmp_path, Fake(by_lr({0.1: flat(0.5), 0.2: flat(0.9)})), nobody)
    cell = mine.cells[0]
    assert status.selections[cell].point == {"lr": 0.2}
    (search,) = mine.make_configs(cell, {"lr": 0.1}, search=True)
    made_run(tmp_path / search.folder, flat(0.95))
    assert study_status(mine, tmp_path).selections[cell].point == {"lr": 0.1}


def test_a_failure_whose_note_is_torn_is_still_one(tmp_path: Path) -> None:
    mine = study(seeds=1)
    run_study(mine, tmp_path, failing(0), nobody)
    for note in tmp_path.rglob("failed.json"):
        note.write_text('{"err')
    status = study_status(mine, tmp_path)
    assert len(status.failed) == 2
    assert all("cannot be read" in why for why in status.failed.values())


def test_looking_writes_nothing_and_needs_no_store(tmp_path: Path) -> None:
    mine: Study = study(seeds=2, grid=LR)
    status = study_status(mine, tmp_path / "none")
    assert not (tmp_path / "none").exists()
    assert (status.finished, len(status.waiting), status.undecided) == (0, 6, mine.cells)
