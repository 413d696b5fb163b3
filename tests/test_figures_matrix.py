"""Figures drawn from score matrices: what stands in them is what was measured."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.patches import Rectangle

from perdure.metrics import ScoreScale
from perdure.record import InputError, ScoreInput
from perdure.report import figures
from perdure.report.figures import changes, heatmaps, panels
from perdure.report.filtering import LeftOutWarning

from .cli_helpers import POINTS, refused, run
from .matrix_figure_helpers import FIVE, R5, five, image_of, line, source, texts

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

LOSS = {"scale": ScoreScale(0, np.inf, lower_is_better=True)}
A = np.array([[0.9, 0.1], [0.6, 0.8]])
B = np.array([[0.7, 0.3], [0.2, 0.6]])


def bars(axes: Axes) -> NDArray[np.float64]:
    """Return left, right and height of every bar."""
    found = [p for p in axes.patches if isinstance(p, Rectangle)]
    return np.array([[p.get_x(), p.get_x() + p.get_width(), p.get_height()] for p in found])


def errors(axes: Axes) -> list[NDArray[np.float64]]:
    """Return the ends of the error bars of each group."""
    lines = [each for each in axes.collections if isinstance(each, LineCollection)]
    return [np.array(each.get_segments())[:, :, 1] for each in lines]


# --- panels


def test_panels_of_five_tasks_show_the_example() -> None:
    matrix, ends, lost, course = panels(five()).axes[:4]
    assert (image_of(matrix) == R5).all()
    assert [label.get_text() for label in matrix.get_yticklabels()] == [
        "0-1", "2-3", "4-5", "6-7", "8-9",
    ]  # fmt: skip
    # Row i, drawn at height i from the top, is after learning task i.
    assert matrix.get_ylabel() == "after learning"
    assert matrix.get_xlabel() == "evaluated on"
    assert matrix.yaxis_inverted()
    assert texts(matrix)[2, 1] == "0.72"  # column 2, row 1: 4-5 after 2-3
    assert texts(matrix)[1, 2] == "0.55"
    drawn = bars(ends)
    assert drawn[:5, 2] == pytest.approx([0.80, 0.70, 0.65, 0.90, 0.92])
    assert drawn[5:, 2] == pytest.approx([0.64, 0.48, 0.75, 0.52, 0.92])
    assert drawn[:5, 1] == pytest.approx(range(5))  # beside each other, both at their task
    assert drawn[5:, 0] == pytest.approx(range(5))
    assert bars(lost)[:, 2] == pytest.approx([0.16, 0.22, -0.10, 0.38])
    assert len(course.lines) == 5
    for j in range(5):
        x, y = line(course, j)
        assert x.tolist() == list(range(j, 5))
        assert y == pytest.approx([R5[i][j] for i in range(j, 5)])


def test_panels_show_mean_and_sd_of_seeds() -> None:
    matrix, ends, lost, course = panels({"er": [source(A), source(B)]}).axes[:4]
    assert image_of(matrix) == pytest.approx(np.array([[0.8, 0.2], [0.4, 0.7]]))
    sd = {"learned 0": 0.2 / 2**0.5, "kept 0": 0.4 / 2**0.5, "1": 0.2 / 2**0.5}  # of two values
    learned, kept = errors(ends)
    assert learned == pytest.approx(
        np.array([[0.8 - sd["learned 0"], 0.8 + sd["learned 0"]], [0.7 - sd["1"], 0.7 + sd["1"]]])
    )
    assert kept[0] == pytest.approx([0.4 - sd["kept 0"], 0.4 + sd["kept 0"]])
    assert bars(lost)[:, 2] == pytest.approx([0.4])  # 0.3 and 0.5: SD 0.1 * sqrt 2
    assert errors(lost)[0][0] == pytest.approx([0.4 - 0.02**0.5, 0.4 + 0.02**0.5])
    assert errors(course)[0] == pytest.approx(np.array([learned[0], kept[0]]))
    assert not errors(panels({"er": [source(A)]}).axes[1])  # one run has no spread


def test_panels_of_losses_count_a_rise_as_forgetting_and_leave_the_axes_free() -> None:
    rising = [[2.0, 9.0], [7.0, 3.0]]
    matrix, ends, lost, course, bar = panels({"er": [source(rising, **LOSS)]}).axes
    assert bars(lost)[:, 2] == pytest.approx([5.0])
    assert ends.get_ylim()[1] > 7
    assert course.get_ylim()[1] > 7
    image = matrix.get_images()[0]
    assert image.get_clim() == (2.0, 9.0)
    assert image.cmap.name.endswith("_r")  # the lower the brighter
    assert bar.get_ylabel() == "score (lower is better)"


def test_panels_want_one_method() -> None:
    two = {"er": [source(A)], "ewc": [source(B)]}
    with pytest.raises(InputError, match=r"2 methods \(er, ewc\), expected one .* `method=`"):
        panels(two)
    with pytest.raises(InputError, match=r"'ecw'; did you mean ewc\? expected one of er, ewc"):
        panels(two, method="ecw")
    assert (image_of(panels(two, method="ewc").axes[0]) == B).all()


def test_one_task_has_nothing_to_forget() -> None:
    figure = panels({"er": [source([[0.5]])]})
    assert not figure.axes[2].patches
    assert "nothing to forget" in figure.axes[2].texts[0].get_text()
    with pytest.raises(InputError, match="one task only"):
        changes({"er": [source([[0.5]])]})


def test_a_diagonal_alone_says_what_it_cannot_show() -> None:
    er = {"er": [source(np.where(np.eye(3), 0.5, np.nan))]}
    assert "not evaluated at the end" in panels(er).axes[2].texts[0].get_text()
    with pytest.raises(InputError, match="no task was evaluated after two consecutive tasks"):
        changes(er)


# --- heatmaps and changes


def test_heatmaps_show_each_method_on_one_colour_scale() -> None:
    figure = heatmaps({"er": [source(A)], "ewc": [source(B), source(A)]})
    er, ewc, bar = figure.axes
    assert [er.get_title(), ewc.get_title()] == ["er", "ewc"]
    assert (image_of(er) == A).all()
    assert image_of(ewc) == pytest.approx((A + B) / 2)
    assert er.get_images()[0].get_clim() == ewc.get_images()[0].get_clim() == (0, 1)
    assert bar.get_ylabel() == "accuracy"
    assert [texts(ewc)[0, 0], texts(ewc)[1, 0]] == ["0.80", "0.20"]


def test_only_outer_axes_have_names_unless_tasks_differ() -> None:
    same = heatmaps({name: [source(A)] for name in "abc"}, size="column").axes
    assert [bool(axes.get_yticklabels()) for axes in same[:3]] == [True, False, True]
    assert [bool(axes.get_xticklabels()) for axes in same[:3]] == [False, False, True]
    # Under b nothing stands: its columns are named all the same.
    assert {"task 0", "task 1"} <= {text.get_text() for text in same[1].texts}
    mixed = {"a": [source(A, tasks=["x", "y"])], "b": [source(A, tasks=["y", "x"])]}
    figure = heatmaps(mixed)
    assert [[t.get_text() for t in axes.get_yticklabels()] for axes in figure.axes[:2]] == [
        ["x", "y"], ["y", "x"],
    ]  # fmt: skip


def test_what_was_not_measured_is_left_out() -> None:
    axes = heatmaps({"er": [source([[0.9, np.nan], [0.6, 0.8]])]}).axes[0]
    assert np.isnan(image_of(axes)[0, 1])
    assert (1, 0) not in texts(axes)
    assert len(axes.texts) == 3


def test_changes_are_from_task_to_task_with_white_at_none() -> None:
    figure = changes({"er": five()["five_tasks"], "flat": [source(np.full((5, 5), 0.5))]})
    er, flat, _ = figure.axes
    by_hand = np.array([[R5[i][j] - R5[i - 1][j] for j in range(5)] for i in range(1, 5)])
    assert image_of(er) == pytest.approx(by_hand)
    assert [t.get_text() for t in er.get_yticklabels()] == ["2-3", "4-5", "6-7", "8-9"]
    assert texts(er)[0, 0] == "-0.20"
    assert texts(er)[4, 3] == "+0.74"
    assert set(texts(flat).values()) == {"0.00"}
    image = er.get_images()[0]
    assert image.get_clim() == pytest.approx((-0.74, 0.74))
    orange, none, purple = image.to_rgba(np.array([-0.74, 0.0, 0.74]))[:, :3]
    assert np.ptp(none) < 0.02  # neither colour
    assert none.min() > 0.9
    assert orange[0] > orange[2]  # never red against green
    assert purple[2] > purple[1]


def test_changes_of_losses_count_gains_as_positive() -> None:
    figure = changes({"er": [source([[2.0, 9.0], [7.0, 3.0]], **LOSS)]})
    assert image_of(figure.axes[0]) == pytest.approx(np.array([[-5.0, 6.0]]))


def test_nothing_changed_can_be_drawn() -> None:
    assert changes({"er": [source(np.ones((3, 3)))]}).axes[0].get_images()[0].get_clim() == (-1, 1)


def test_numbers_stand_where_they_can_be_read_and_nowhere_else() -> None:
    few = heatmaps({"er": [source(np.eye(8))]}).axes[0]
    assert {text.get_text() for text in few.texts} == {"0.00", "1.00"}
    many = heatmaps({f"m{k}": [source(np.eye(40))] for k in range(4)})
    assert not any(axes.texts for axes in many.axes)
    # Of 40 names only some, and those far enough apart.
    names = many.axes[0].get_yticklabels()
    assert 5 < len(names) < 30


def test_numbers_fit_their_cells() -> None:
    figure = heatmaps({f"m{k}": [source(np.full((8, 8), 0.888))] for k in range(4)})
    figure.draw_without_rendering()
    axes = figure.axes[0]
    assert len(axes.texts) == 64
    cell = axes.get_window_extent().width / 8
    assert all(text.get_window_extent().width < cell for text in axes.texts)


def test_numbers_are_written_in_black_on_bright_and_white_on_dark() -> None:
    axes = heatmaps({"er": [source([[1.0, 0.01], [0.0, 1.0]])]}).axes[0]
    assert [text.get_color() for text in axes.texts] == ["black", "white", "white", "black"]


# --- what all share


def test_names_are_no_formulas_and_end_no_line() -> None:
    tasks = ["$\\frac$", "_hidden"]
    named = {"$\\bad$": [source(A, tasks=tasks)], "_er\nx": [source(B, tasks=tasks)]}
    figure = heatmaps(named)
    figure.draw_without_rendering()
    assert "\n" not in figure.axes[1].get_title()
    four = panels(named, method="_er\nx")
    four.draw_without_rendering()
    legend = four.axes[3].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["\\$\\frac\\$", " _hidden"]


def test_letters_that_no_font_has_are_one_note(tmp_path: Path) -> None:
    target = tmp_path / "x.png"
    path = tmp_path / "mine.csv"
    path.write_text("after,\U0001f9a4,\U000e0fff\n\U0001f9a4,0.9,\n\U000e0fff,0.6,0.8\n")
    answer = run("plot", "heatmaps", path, "-o", target)
    assert answer.code == 0
    assert answer.err.count("note: ") == 1
    assert "drawn as boxes" in answer.err
    assert target.stat().st_size > 1000


def test_seeds_that_order_tasks_otherwise_name_places() -> None:
    runs = [source(A, tasks=["x", "y"]), source(B, tasks=["y", "x"])]
    axes = heatmaps({"er": runs}).axes[0]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["task no. 1", "task no. 2"]


@pytest.mark.parametrize("size", ["column", "page", "slide"])
@pytest.mark.parametrize("kind", ["panels", "heatmaps", "changes"])
def test_every_size_draws_long_names_without_overlap(kind: str, size: str) -> None:
    tasks = ["a very long name of a task", "another of them", "short", "x", "y"]
    figure = getattr(figures, kind)({"er": [source(R5, tasks=tasks)]}, size=size)
    figure.draw_without_rendering()
    labels = [t.get_window_extent() for t in figure.axes[0].get_xticklabels()]
    labels.sort(key=lambda box: box.x0)
    assert all(one.x1 <= other.x0 + 1 for one, other in pairwise(labels))
    inside = figure.bbox
    assert all(inside.x0 <= box.x0 and box.x1 <= inside.x1 and box.y0 >= 0 for box in labels)


@pytest.mark.parametrize("kind", ["panels", "heatmaps", "changes", "fixed", "spider", "rescaled"])
def test_no_matrix_no_figure(kind: str) -> None:
    draw = getattr(figures, kind)
    with pytest.raises(InputError, match="task a is learned twice"):
        draw({"er": [ScoreInput(no_matrix="task a is learned twice")]})


@pytest.mark.parametrize("kind", ["heatmaps", "changes", "fixed"])
def test_methods_need_one_kind_of_score(kind: str) -> None:
    draw = getattr(figures, kind)
    with pytest.raises(InputError, match="b has scores of another range or direction than a"):
        draw({"a": [source(A)], "b": [source(A, **LOSS)]})


@pytest.mark.parametrize("kind", ["heatmaps", "changes", "fixed", "rescaled", "spider"])
def test_a_run_with_another_number_of_tasks_does_not_break_the_others(kind: str) -> None:
    draw, classes = getattr(figures, kind), {"classes": [2, 2]}
    one = source([[0.5]], classes=[2])
    with pytest.warns(LeftOutWarning, match="run 3 of a: (1 task.* have 2|one task only)"):
        draw({"a": [source(A, **classes), source(A, **classes), one]})
    if kind == "heatmaps":  # each method has axes of its own
        assert len(draw({"a": [source(A)], "b": [one]}).axes) == 3
    elif kind == "changes":
        with pytest.warns(LeftOutWarning, match="left out: b: one task only"):
            draw({"a": [source(A, **classes)] * 2, "b": [one]})


@pytest.mark.parametrize(
    ("kind", "form"), [("panels", "pdf"), ("heatmaps", "svg"), ("changes", "png")]
)
def test_the_command_writes_every_format(kind: str, form: str, tmp_path: Path) -> None:
    path = tmp_path / f"figure.{form}"
    answer = run("plot", kind, FIVE, "-o", path)
    assert (answer.code, answer.out) == (0, f"wrote {path}\n")
    assert answer.err.startswith("perdure: caption: ")
    start = {"pdf": b"%PDF", "svg": b"<?xml", "png": b"\x89PNG"}[form]
    assert path.read_bytes().startswith(start)
    if form == "svg":
        assert b">0.86<" in path.read_bytes()  # letters stay letters


def test_the_command_chooses_a_method_and_says_which_option_is_not_for_a_kind(
    tmp_path: Path,
) -> None:
    one, two, out = tmp_path / "one.csv", tmp_path / "two.csv", tmp_path / "x.svg"
    one.write_text("0.9,\n0.6,0.8\n")
    two.write_text("0.7,\n0.2,0.64\n")
    assert run("plot", "panels", one, two, "--method", "two", "-o", out).code == 0
    assert ">0.64<" in out.read_text()
    assert "expected one for panels" in refused("plot", "panels", one, two, "-o", out)
    assert "--method is not for heatmaps" in refused(
        "plot", "heatmaps", one, two, "--method", "two", "-o", out
    )
    loss = run("plot", "heatmaps", one, "--lower-is-better", "--range", "0,9", "-o", out)
    assert loss.code == 0
    assert "lower is better" in out.read_text()


def test_a_log_without_a_matrix_is_refused_with_the_reason(tmp_path: Path) -> None:
    log = tmp_path / "points.csv"
    log.write_text(POINTS + "7,a,a,probe,0.9\n7,a,b,probe,0.9\n")  # task a returns
    line_ = refused("plot", "heatmaps", log, "-o", tmp_path / "x.pdf")
    assert "no score matrix: task 'a' returns" in line_
    assert "returns" in line_ or "twice" in line_ or "again" in line_
