"""`kill -9` at random moments: a run that goes on ends with the bits of one never stopped.

Points, hits, gradients, the sha256 of the weights, run.json and costs (but for seconds and peaks)
are those of the same run in peace. 4 cases here, 30 in the slow tests.
"""

from __future__ import annotations

import os
import random
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .kill_cases import (
    SHORT,
    Kill,
    Runner,
    heading,
    in_words,
    killed_and_finished,
    killed_command_and_finished,
    moments,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

NORMED = "--model tests.strategy_helpers:normed"  # BatchNorm and dropout
RESNET = "--model resnet18-slim --set filters=2"
STEPS = 90  # at least so many in every run here

# Every strategy, setting, kind of network, optimizer and kind of stream is there.
CASES = [
    f"naive {NORMED} --optimizer adam --set lr=.005",
    f"naive {RESNET} --batch 64 --gradients 7",
    "naive --boundaries none --unseen --gradients 3 --batch 16",
    f"naive {NORMED} --setting domain --patience 1 --early-stopping-split .2",
    f"cumulative {NORMED} --setting task --optimizer adam --batch 64",
    "cumulative --boundaries blurred --blur .2 --unseen",
    f"joint {NORMED} --batch 64",
    "joint --optimizer adam --setting task --gradients 5 --batch 64",
    f"single {NORMED} --optimizer adam --unseen",
    "single --setting domain --patience 2 --early-stopping-split .3",
    f"replay {NORMED} --set memory=60 --gradients 4",
    f"replay {RESNET} --setting task --batch 64 --set memory=40 --optimizer adam",
    f"replay {NORMED} --boundaries none --set fill=reservoir --set memory=40 --batch 16",
    "replay --set fill=reservoir --set balance=none --set replacement=true --set memory=30",
    "random --unseen --batch 16",
    "gdumb --set memory=60 --set passes=7 --unseen --batch 16",
    f"gdumb {NORMED} --set memory=60 --set passes=7 --optimizer adam --batch 16",
    "ewc --set strength=5 --optimizer adam --gradients 2",
    f"ewc {NORMED} --setting task --set strength=5 --patience 1",
    "si --gradients 3 --setting domain",
    f"si {NORMED} --optimizer adam --boundaries blurred",
    "mas --set strength=.1 --setting task --unseen",
    f"mas {NORMED} --set strength=.1 --optimizer adam --patience 1",
    f"lwf {NORMED} --gradients 6 --subset 20",
    "lwf --setting task --optimizer adam --patience 2",
    f"gem {NORMED} --set memory=20 --gradients 3",
    f"gem {RESNET} --setting task --set memory=16 --batch 64 --optimizer adam",
    f"agem {NORMED} --set memory=20 --set sample=16 --boundaries blurred",
    "agem --set memory=20 --set sample=16 --setting domain --optimizer adam --resample",
    f"cwr-star {NORMED} --no-per-example --optimizer adam",
]


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    found = Runner()
    yield found
    found.close()


@pytest.mark.parametrize(
    ("options", "kills"),
    [
        pytest.param(
            f"gem {NORMED} --setting task --set memory=20 --gradients 5",
            [("folder", 0), ("half", 2), ("reach", 60), ("torn", 30)],
            id="gem-batchnorm",
        ),
        pytest.param(
            f"replay {NORMED} --set memory=40 --set fill=reservoir --optimizer adam --patience 1",
            [("between", 3), ("operation", 30), ("closing", 1)],
            id="replay-batchnorm-patience",
        ),
        pytest.param(
            "ewc --set strength=5 --boundaries blurred --unseen",
            [("reach", 20), ("renamed", 2), ("operation", 12), ("torn", 50)],
            id="ewc-blurred",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_killed_and_finished(
    runner: Runner, options: str, kills: list[tuple[str, float]], tmp_path: Path
) -> None:
    arguments = [*options.split(), *SHORT]
    done, wrong = killed_and_finished(runner, arguments, tmp_path, kills)
    assert wrong == [], done
    check_interrupted(done)


@pytest.mark.slow
def test_the_command_is_killed_and_given_again(runner: Runner, tmp_path: Path) -> None:
    """Really started, with the run in a process of its own."""
    arguments = [*f"naive {NORMED} --gradients 9".split(), *SHORT]
    done, wrong = killed_command_and_finished(runner, arguments, tmp_path, [("both", 57)])
    assert wrong == [], done
    check_interrupted(done)


def check_interrupted(kills: list[Kill]) -> None:
    """Fail unless most kills came after a checkpoint, so that most runs really went on."""
    assert sum(kill.saved > 0 for kill in kills) * 2 >= len(kills), kills
    assert any(kill.step > kill.saved > 0 or kill.moment != "reach" for kill in kills), kills


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, len(CASES) + 1))
def test_thirty_killed_and_finished(runner: Runner, number: int, tmp_path: Path) -> None:
    """Write a line for each to the file that PERDURE_KILL_LOG names."""
    assert len(CASES) == 30
    chance = random.Random(number)
    arguments = [*shlex.split(CASES[number - 1]), *SHORT]
    if number % 6 == 1:
        steps = sorted(chance.sample(range(10, STEPS), 3))
        who = chance.sample(["both", "parent", "child"], 3)
        kills: list[tuple[str, float]] = list(zip(who, map(float, steps), strict=True))
        done, wrong = killed_command_and_finished(runner, arguments, tmp_path, kills)
    else:
        kills = list(moments(chance, STEPS, chance.randint(3, 5)))
        done, wrong = killed_and_finished(runner, arguments, tmp_path, kills)
    if log := os.environ.get("PERDURE_KILL_LOG"):
        with Path(log).open("a", encoding="utf-8") as file:
            file.write(heading() if not file.tell() else "")
            file.write(in_words(number, arguments, done, wrong) + "\n")
    assert wrong == [], done
    check_interrupted(done)
