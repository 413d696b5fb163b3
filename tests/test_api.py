"""The functions of `import perdure`: what they take, and what they refuse in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure import InputError, ScoreMatrix, Stream
from perdure.api.recorded_runs import note_interrupt
from perdure.execution import Job
from perdure.training import make_config

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCORES = [[0.9, 0.1], [0.6, 0.8]]
LOG = "step,trained,tested,score\n" + "".join(
    f"{step},a,a,{0.9 - step / 100}\n" for step in range(1, 30)
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for seed in range(2):
        (tmp_path / f"er{seed}.csv").write_text(f"0.9,\n0.{6 + seed},0.8\n")
        (tmp_path / f"ewc{seed}.csv").write_text(f"0.9,\n0.{3 + seed},0.8\n")
    (tmp_path / "log.csv").write_text(LOG)
    return tmp_path


def test_a_metric_and_a_window_may_be_given_alone(folder: Path) -> None:
    several = perdure.score(folder / "log.csv", metrics=["wf5"], window=[5])
    assert perdure.score(folder / "log.csv", metrics="wf5", window=5).metrics == several.metrics
    (group,) = perdure.score_groups(folder / "log.csv", metrics=["wf5"]).groups.values()
    assert group.summary.metrics["wf5"] == several.metrics["wf5"]


def test_paths_and_text_are_the_same(folder: Path) -> None:
    text = perdure.score_groups(str(folder / "er0.csv"), str(folder / "er1.csv"))
    paths = perdure.score_groups(folder / "er0.csv", folder / "er1.csv")
    assert [g.summary.metrics for g in text.groups.values()] == [
        g.summary.metrics for g in paths.groups.values()
    ]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: perdure.score(ScoreMatrix(SCORES), joint=[0.9, 0.9]), "`joint=` has no effect"),
        (lambda: perdure.score(ScoreMatrix(SCORES), transposed=True), "on a ScoreMatrix"),
        (lambda: perdure.score(ScoreMatrix(SCORES), range=(0, 5)), "`range=` has no effect"),
        (
            lambda: perdure.score(Stream({"a": ([1], [0.5])}), percent=True),
            "`percent=` .* a Stream",
        ),
        (lambda: perdure.score(SCORES, costs="nothere.csv"), "`costs=` has no effect on an array"),
        (lambda: perdure.score(SCORES, subsample=3), "`subsample=` has no effect on an array"),
        (lambda: perdure.score(SCORES, classes={"tsk 0": 2}), "`classes=` is .*one per task"),  # type: ignore[arg-type]
        (lambda: perdure.score(SCORES, classes=2), "`classes=` is 2, expected a list"),  # type: ignore[arg-type]
        (lambda: perdure.score(SCORES, single="s.csv"), "`single=` is 's.csv', expected a list"),  # type: ignore[arg-type]
        (lambda: perdure.score_groups(), "nothing to score"),
        (lambda: perdure.compare(), "nothing to compare"),
        (lambda: perdure.list_runs("nothere"), "nothere: no such folder"),
    ],
)
def test_what_has_no_effect_or_no_meaning_is_refused(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("seeds", [0, [], [1, 1], 2.5, "5"])
def test_each_seed_once(seeds: Any, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with pytest.raises(InputError, match="`seeds=` is"):
        perdure.run(seeds=seeds, store=tmp_path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seed": 3}, "`seed=` is for a single run, expected a list of them in `seeds=`"),
        ({"epoch": 3}, "there is no option 'epoch'; did you mean epochs"),
        ({"memory": 50}, "there is no option 'memory'; .*hyperparameters are in `settings=`"),
    ],
)
def test_options_that_a_run_does_not_have_are_named(
    options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    with pytest.raises(InputError, match=words):
        perdure.run(store=tmp_path, **options)


def test_an_interrupt_after_the_last_run_promises_no_resuming(tmp_path: Path) -> None:
    job = Job(make_config(), tmp_path, code=0)
    assert note_interrupt([job]) == [
        "interrupted; 1 of 1 run finished. The same command prints their metrics"
    ]
