"""Methods that share axes are of one scenario, setting and number of tasks, in every figure."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perdure.cli.plot import KINDS
from perdure.metrics import ScoreMatrix
from perdure.record import InputError, Run, RunMetadata, ScoreInput
from perdure.report import figures
from perdure.report.colours import STRATEGY_STYLES, choose_styles
from perdure.report.live.curves import choose_run_styles

from .cli_helpers import refused
from .matrix_figure_helpers import source

if TYPE_CHECKING:
    from pathlib import Path

# A panel per method, or, of ranks, one rank per scenario.
SEPARATE = {"heatmaps", "changes", "confusion", "forgetting", "guessing", "panels", "ranks"}
SHARED = sorted(set(KINDS) - SEPARATE)


def make_run(config: dict[str, str] | None = None, *, finished: bool = True, tasks: int = 2) -> Run:
    scores = np.tril(np.full((tasks, tasks), 0.8))
    return Run(
        matrix=ScoreMatrix(scores),
        metadata=RunMetadata(config=dict(config or {})),
        finished=finished,
    )


@pytest.mark.parametrize("kind", SHARED)
@pytest.mark.parametrize("key", ["scenario", "setting"])
def test_unlike_runs_are_refused_in_the_words_of_compare(kind: str, key: str) -> None:
    methods = {name: [make_run({"strategy": "gem", key: name})] for name in ("one", "two")}
    with pytest.raises(InputError, match=f"of 2 {key}s: one .1., two .1.; expected one: name a"):
        getattr(figures, kind.replace("-", "_"))(methods)


@pytest.mark.parametrize("kind", SHARED)
def test_other_numbers_of_tasks_are_refused(kind: str) -> None:
    methods = {str(n): [source(np.eye(n), classes=[2] * n)] for n in (2, 3)}
    with pytest.raises(InputError, match=r"2 has 2 tasks and 3 has 3, expected equally many"):
        getattr(figures, kind.replace("-", "_"))(methods)


@pytest.mark.parametrize("kind", ["heatmaps", "changes"])
def test_methods_with_panels_of_their_own_may_differ(kind: str) -> None:
    methods = {str(n): [make_run({"scenario": str(n)}, tasks=n)] for n in (2, 3)}
    titles = [axes.get_title() for axes in getattr(figures, kind)(methods).axes]
    assert titles[:2] == ["2", "3"]


def test_an_unfinished_run_is_drawn_as_far_as_it_got() -> None:
    methods = {"a": [make_run(tasks=3)], "b": [make_run(tasks=2, finished=False)]}
    drawn = figures.averages(methods).axes[0].lines
    assert [len(np.asarray(line.get_xdata())) for line in drawn] == [3, 2]


def test_the_command_names_both_and_what_to_do(tmp_path: Path) -> None:
    for n in (2, 3):
        np.savetxt(tmp_path / f"{n}.csv", np.eye(n), delimiter=",")
    out = tmp_path / "a.pdf"
    message = refused("plot", "averages", tmp_path / "2.csv", tmp_path / "3.csv", "-o", out)
    assert "2 has 2 tasks and 3 has 3" in message
    assert not out.exists()


# --- colours


def runs_of(strategies: dict[str, str]) -> dict[str, list[ScoreInput]]:
    return {name: [make_run({"strategy": strategy})] for name, strategy in strategies.items()}


def test_a_strategy_has_its_own_style_whoever_else_is_there() -> None:
    for names in permutations(["mine", "gdumb", "replay m=1", "gem", "replay m=2"], 4):
        styles = choose_styles({name: [] for name in names})
        assert len(set(styles.values())) == len(names)
        for strategy in ("gdumb", "gem", "replay"):
            own = [styles[name] for name in names if name.split()[0] == strategy]
            assert not own or own[0] == STRATEGY_STYLES[strategy]
            assert {style.colour for style in own} <= {STRATEGY_STYLES[strategy].colour}


def test_figures_and_live_page_agree() -> None:
    strategies = {"a": "gem", "b": "mine", "c": "gem", "d": "replay", "e": "yours", "f": "agem"}
    for count in range(1, len(strategies) + 1):
        for some in combinations(strategies.items(), count):
            assert choose_run_styles(dict(some)) == choose_styles(runs_of(dict(some)))


def test_more_methods_than_styles_still_have_one_each() -> None:
    styles = choose_styles({f"m{k}": [] for k in range(40)})
    assert len(styles) == 40
    assert len(set(styles.values())) == 28
