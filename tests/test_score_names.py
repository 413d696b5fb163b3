"""A score is shown by its own name and in its own direction, wherever it is shown."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from perdure import Evaluator, Score, ScoreMatrix, ScoreScale, open_run
from perdure.evaluation.live import Live
from perdure.evaluation.progress import format_line
from perdure.metrics import ACCURACY, METRICS, display_name
from perdure.report import figures
from perdure.report.labels import axis_label, merge_scales
from perdure.report.live.store_watcher import StoreWatcher
from perdure.report.load import open_methods
from perdure.report.page import render_page
from perdure.report.tables import make_headline_table, make_task_table

from .cli_helpers import run
from .score_name_helpers import LOSS, NAME, loss_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# What only accuracies are called; the reason why a metric is undefined may name them.
WORDS = re.compile(
    r"(?<!is defined for )accurac|\bmin[- ]ACC\b|\bACC so far\b|lowest (score|since)", re.IGNORECASE
)


def per_row(model: Any, x: Any, y: Any) -> Any:
    return torch.nn.functional.cross_entropy(model(x), y, reduction="none")


def evaluator(**more: Any) -> Evaluator:
    rows = (torch.eye(4), torch.tensor([0, 0, 1, 1]))
    return Evaluator({"a": rows}, progress=False, count_flops=False, **more)


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({}, "accuracy"),
        ({"score": Score(per_row, lower_is_better=True)}, "per_row"),
        ({"score": Score(partial(per_row), lower_is_better=True)}, "score"),
        ({"score": lambda model, x, y: per_row(model, x, y)}, "score"),
        ({"score": Score(per_row, name=NAME)}, NAME),
        ({"score": Score(per_row, LOSS)}, NAME),
        ({"score": Score(per_row, LOSS, name="loss")}, "loss"),
        ({"score": Score(None, name="top-1")}, "top-1"),
    ],
)
def test_the_record_says_what_a_score_is_called(
    tmp_path: Path, more: dict[str, Any], name: str
) -> None:
    model = torch.nn.Linear(4, 2)
    with evaluator(record=tmp_path / "run", **more) as mine, mine.task("a", model):
        mine.step(model)
    assert json.loads((tmp_path / "run" / "run.json").read_bytes())["scale"]["name"] == name
    stream = open_run(tmp_path / "run").stream
    assert stream is not None
    assert stream.scale.label == name == mine.live.scale.label


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 61, 3])
def test_a_name_that_nobody_can_read_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match="the score's name is"):
        evaluator(score=Score(per_row, name=name))


def test_a_name_is_no_other_kind_of_score() -> None:
    assert ScoreScale(0, 9, name="a") == ScoreScale(0, 9, name="b")
    assert ScoreScale().label == "accuracy"
    assert ScoreScale(0, 9).label == "score"


@pytest.mark.parametrize("id_", METRICS)
def test_no_metric_of_a_loss_is_called_an_accuracy_or_a_minimum(id_: str) -> None:
    metric = METRICS[id_]
    assert display_name(metric, ACCURACY) == metric.name
    if metric.accepts != "accuracy":
        assert not re.search(r"accuracy|minimum|\bscore\b", display_name(metric, LOSS))


def test_the_progress_line_has_the_words_and_the_sign_of_a_loss() -> None:
    live = Live(LOSS, (10,))
    live.begin_task("a", 0)
    live.update(1, "a", 2.0, 10)
    live.end_task("a", 1)
    live.begin_task("b", 1)
    live.update(2, "a", 8.0, 10)
    live.update(2, "b", 6.0, 10)
    line = format_line(2, 1.0, live)
    assert f"{NAME} 6.000" in line
    assert "highest since trained 8.000" in line
    assert "acc" not in line
    assert "-" not in line


def test_the_tables_of_a_run_say_highest_of_a_loss(tmp_path: Path) -> None:
    found = open_run(loss_run(tmp_path / "mine")).summary()
    grid = make_task_table(found)
    assert grid.header == ["task", "learned", "highest since", "at the end", "lost"]
    assert grid.rows[0] == ["a", "2.000", "8.000", "4.000", "2.000"]
    names = [row[-1] for row in make_headline_table(found).rows]
    assert f"average maximum {NAME}" in names
    assert not WORDS.search(" ".join(names))


def test_the_live_page_is_told_name_direction_and_sign(tmp_path: Path) -> None:
    loss_run(tmp_path / "mine")
    watching = StoreWatcher(tmp_path)
    watching.poll()
    row = watching.listing["mine"]
    assert (row.score, row.lower, row.acc, row.min_acc) == (NAME, True, 3.5, 8.0)
    found = json.loads(watching.curves("mine") or b"")
    assert found["worst"]["0"] == [3, 8.0, 2.0]


def test_a_page_of_losses_has_the_words_of_losses(tmp_path: Path) -> None:
    loss_run(tmp_path / "a")
    loss_run(tmp_path / "b", seed=1)
    text = render_page(open_methods([str(tmp_path)])[0])
    text = re.sub(r"<script.*?</script>|<style.*?</style>", "", text, flags=re.DOTALL)
    main = text.partition('<section id="definitions"')[0]
    assert not WORDS.search(main), WORDS.search(main)
    assert "Good above" not in text
    assert f"mean {NAME} when learned: 2.5; on older tasks it then rose by 2" in main
    assert f"mean {NAME} at the end: 3.5; during training it rose to 8 on older tasks" in main
    assert f"{NAME} (lower is better)" in text
    assert 'id="criteria"' not in text  # larger would be better there


@pytest.mark.parametrize("kind", ["curves", "panels", "heatmaps", "fixed"])
def test_figures_name_the_score_on_their_axes(tmp_path: Path, kind: str) -> None:
    methods, _ = open_methods([str(loss_run(tmp_path / "a"))])
    if kind == "fixed":
        whole = ScoreMatrix([[2.0, 6.0], [4.0, 3.0]], scale=LOSS)
        methods["naive"][0].matrix = whole
    draw: Callable[..., Any] = getattr(figures, kind)
    assert NAME in " ".join(_texts(draw(methods)))
    assert not WORDS.search(" ".join(_texts(draw(methods))))


def _texts(figure: Any) -> list[str]:
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text)]


def test_the_legend_of_curves_says_highest_of_a_loss(tmp_path: Path) -> None:
    methods, _ = open_methods([str(loss_run(tmp_path / "a"))])
    legend = [text.get_text() for text in figures.curves(methods).legends[0].get_texts()]
    assert f"highest {NAME} since learned" in legend


def test_methods_with_other_names_share_a_plain_axis() -> None:
    assert axis_label(LOSS) == f"{NAME} (lower is better)"
    other = ScoreScale(0, 9, lower_is_better=True, name="loss")
    assert axis_label(merge_scales([LOSS, other])) == "score (lower is better)"


def test_a_notebook_shades_and_names_a_loss() -> None:
    html = ScoreMatrix([[2.0, 6.0], [4.0, 3.0]], scale=LOSS)._repr_html_()
    assert NAME in html
    dark = [float(a) for a in re.findall(r"rgba\(0, 114, 178, ([\d.]+)\)", html)]
    assert np.argsort(dark).tolist() == np.argsort([-2.0, -6.0, -4.0, -3.0]).tolist()


def test_the_command_line_names_the_score(tmp_path: Path) -> None:
    answer = run("score", str(loss_run(tmp_path / "mine")))
    assert f"average maximum {NAME}" in answer.out
    assert not WORDS.search(answer.out)


def test_a_name_from_a_file_steers_no_terminal(tmp_path: Path) -> None:
    answer = run("score", str(loss_run(tmp_path / "mine", name="\x1b[2Jloss" + "s" * 999)))
    assert answer.code == 0, answer.err
    assert "\x1b" not in answer.out
    assert "s" * 100 not in answer.out
