"""Accuracy curves: what is drawn is what the files say, computed here by hand."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perdure.metrics import ScoreMatrix, ScoreScale, Stream
from perdure.record import InputError, ScoreInput
from perdure.report.figures import add_title, curves, save, series
from perdure.report.load import open_methods

from . import cli_helpers
from .cli_helpers import environment
from .figure_helpers import check_files, curve, data, edges, ends, parts, rows, spread, tasks_of
from .report_helpers import store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from matplotlib.figure import Figure

    from perdure.report.load import RunsByMethod


def folders(strategy: str) -> list[Path]:
    return sorted(store().glob(f"*-{strategy}-s*"))


def real(*strategies: str) -> RunsByMethod:
    return open_methods([f"{s}={','.join(map(str, folders(s)))}" for s in strategies])[0]


def low(folder: Path, k: int, thin: int = 1) -> float:
    """Return the lowest score on the k-th task after it was learned."""
    after = curve(folder, tasks_of(folder)[k], thin)
    return min(score for step, score in after.items() if step > ends(folder)[k])


def ended(folder: Path, k: int) -> list[tuple[int, float]]:
    """Return where every task from the k-th on ended, and the whole-set score on the k-th then."""
    task = tasks_of(folder)[k]
    mine = [row for row in rows(folder) if (row["tested"], row["kind"]) == (task, "full")]
    return [(int(row["step"]), float(row["score"])) for row in mine]


def test_lines_bands_switches_minima_and_task_ends_are_those_of_the_files() -> None:
    names = ("replay", "gem")
    figure = curves(real(*names))
    *panels, last = [axes for axes in figure.axes if axes.get_visible()]
    assert last.get_legend() is not None  # in the place that five panels leave
    tasks = tasks_of(folders("gem")[0])
    assert [axes.get_title() for axes in panels] == tasks
    for k, axes in enumerate(panels):
        drawn = parts(axes)
        assert drawn.upright == ends(folders("gem")[0])[:-1]
        for at, name in enumerate(names):
            steps, mean, sd = spread([curve(each, tasks[k]) for each in folders(name)])
            assert drawn.curves[at][:, 0].tolist() == steps
            np.testing.assert_allclose(drawn.curves[at][:, 1], mean, atol=1e-12)
            below, above = edges(axes, at)
            np.testing.assert_allclose(below, np.column_stack([steps, mean - sd]), atol=1e-12)
            np.testing.assert_allclose(above, np.column_stack([steps, mean + sd]), atol=1e-12)
            np.testing.assert_allclose(
                drawn.diamonds[at], np.mean([ended(f, k) for f in folders(name)], axis=0)
            )
        if k < len(tasks) - 1:
            lows = [np.mean([low(each, k) for each in folders(name)]) for name in names]
            np.testing.assert_allclose(drawn.level, lows, atol=1e-12)
        else:
            assert drawn.level == []  # nothing came after the last task


def test_periodicities_in_one_picture() -> None:
    figure = curves(real("replay"), tasks=1, subsample=(10, 1, 3))
    assert [axes.get_visible() for axes in figure.axes] == [True]
    drawn = parts(figure.axes[0])
    assert len(drawn.diamonds) == 1
    first = tasks_of(folders("replay")[0])[0]
    for at, thin in enumerate((1, 3, 10)):
        steps, mean, _ = spread([curve(each, first, thin) for each in folders("replay")])
        assert drawn.curves[at][:, 0].tolist() == steps
        np.testing.assert_allclose(drawn.curves[at][:, 1], mean, atol=1e-12)
        lows = [low(each, 0, thin) for each in folders("replay")]
        assert drawn.level[at] == pytest.approx(np.mean(lows))
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[:3] == ["every iteration", "every 3 iterations", "every 10 iterations"]
    assert labels[3:] == ["mean ± SD, 2 runs", "min-ACC", "task end"]
    colours = {line.get_color() for line in figure.axes[0].lines if len(data(line)) > 5}
    assert len(colours) == 3


def test_zoom_begins_at_each_switch() -> None:
    most = 4
    figure = curves(real("gem"), zoom=most)
    tasks, switch = tasks_of(folders("gem")[0]), ends(folders("gem")[0])
    wanted = {
        (k, s): f"{tasks[k]} when {tasks[s + 1]} starts" for s in range(4) for k in range(s + 1)
    }
    panels = {axes.get_title(): axes for axes in figure.axes if axes.get_visible()}
    assert list(panels) == list(wanted.values())
    for (k, s), title in wanted.items():
        steps, mean, _ = spread([curve(each, tasks[k]) for each in folders("gem")])
        inside = [at for at, t in enumerate(steps) if switch[s] <= t <= switch[s] + most]
        [drawn] = parts(panels[title]).curves
        assert drawn[:, 0].tolist() == [steps[at] - switch[s] for at in inside]
        np.testing.assert_allclose(drawn[:, 1], mean[inside], atol=1e-12)
    assert drawn[:, 0].tolist() == [0, 1, 2, 3, 4]  # the score at the switch itself is there


def test_zoom_ends_with_the_task_and_one_task_alone_fits_rows() -> None:
    figure = curves(real("gem"), zoom=10_000, tasks=1)
    assert len([axes for axes in figure.axes if axes.get_visible()]) == 4
    switch = ends(folders("gem")[0])
    for s, axes in enumerate(figure.axes):
        assert parts(axes).curves[0][-1, 0] == switch[s + 1] - switch[s]


def test_switches_that_not_all_methods_share_have_the_colour_of_the_method() -> None:
    figure = curves(real("replay", "cumulative"), tasks=1)
    upright = [line for line in figure.axes[0].lines if np.ptp(data(line)[:, 0]) == 0]
    lines = {float(data(line)[0, 0]): line.get_color() for line in upright if len(data(line)) == 2}
    ours, theirs = (set(ends(folders(name)[0])[:-1]) for name in ("replay", "cumulative"))
    assert set(lines) == ours | theirs
    assert {lines[step] for step in ours & theirs} == {"#9a9a9a"}
    assert {lines[step] for step in ours - theirs} == {"#0072b2"}
    assert {lines[step] for step in theirs - ours} == {"#3a9bdc"}


@pytest.mark.parametrize("seed", range(5))
def test_the_lowest_point_drawn_is_the_lowest_there_is(seed: int) -> None:
    random = np.random.default_rng(seed)
    steps = np.arange(1, 30_001)
    runs = []
    for _ in range(3):
        scores = random.uniform(0.4, 0.9, len(steps))
        scores[random.integers(len(steps))] = 0.01
        runs.append(ScoreInput(stream=Stream({"a": (steps, scores)})))
    mean = np.mean([run.stream.tasks["a"][1] for run in runs if run.stream], axis=0)
    figure = curves({"mine": runs})
    [drawn] = parts(figure.axes[0]).curves
    assert 100 < len(drawn) <= 1000
    assert drawn[:, 1].min() == mean.min()
    assert drawn[:, 1].max() == mean.max()
    assert drawn[drawn[:, 1].argmin(), 0] == steps[mean.argmin()]
    assert drawn[[0, -1], 0].tolist() == [1, 30_000]
    np.testing.assert_array_equal(drawn[:, 1], mean[drawn[:, 0].astype(int) - 1])
    sd = np.std([run.stream.tasks["a"][1] for run in runs if run.stream], axis=0, ddof=1)
    below, above = edges(figure.axes[0])
    assert below[:, 1].min() == pytest.approx((mean - sd).min(), abs=1e-12)
    assert above[:, 1].max() == pytest.approx((mean + sd).max(), abs=1e-12)
    assert len(below) <= 2000


def test_a_stream_without_boundaries_has_curves_only() -> None:
    scores = {"a": ([1, 2, 3], [0.5, 0.1, 0.7]), "b": ([2, 3], [0.4, 0.6])}
    figure = curves({"mine": [ScoreInput(stream=Stream(scores))]})
    for axes, name in zip(figure.axes, scores, strict=True):
        drawn = parts(axes)
        assert (drawn.upright, drawn.level) == ([], [])
        assert all(not len(each) for each in drawn.diamonds)
        assert drawn.curves[0].tolist() == np.column_stack(scores[name]).tolist()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["mine"]


def test_losses_are_worst_where_they_are_highest() -> None:
    scale = ScoreScale(0, np.inf, lower_is_better=True)
    scores = {"a": ([1, 2, 3, 4, 5], [9.0, 1.0, 6.0, 4.0, 2.0]), "b": ([4, 5], [3.0, 1.5])}
    stream = Stream(scores, [("a", 2), ("b", 5)], scale=scale)
    matrix = ScoreMatrix([[1.0, 8.0], [2.0, 1.5]], ["a", "b"], scale=scale)
    figure = curves({"mine": [ScoreInput(matrix, stream)]})
    drawn = parts(figure.axes[0])
    assert drawn.level == [6.0]
    assert drawn.diamonds[0].tolist() == [[2, 1.0], [5, 2.0]]
    assert parts(figure.axes[1]).diamonds[0].tolist() == [[5, 1.5]]
    assert figure.get_supylabel() == "score (lower is better)"
    bottom, top = figure.axes[0].get_ylim()
    assert bottom < 1.0 < 6.0 < top
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "highest score since learned" in legend


def test_a_task_that_returns_counts_from_its_first_end() -> None:
    scores = {"a": ([1, 2, 3, 4, 5, 6], [0.9, 0.3, 0.5, 0.8, 0.2, 0.7])}
    scores |= {"b": ([3, 5], [0.6, 0.4])}
    spans = [("a", 1), ("b", 3), ("a", 4), ("b", 6)]
    figure = curves({"mine": [ScoreInput(stream=Stream(scores, spans))]})
    assert parts(figure.axes[0]).level == [0.2]
    assert parts(figure.axes[1]).level == []  # it is being learned
    zoomed = curves({"mine": [ScoreInput(stream=Stream(scores, spans))]}, zoom=1, tasks=1)
    assert [axes.get_title() for axes in zoomed.axes if axes.get_visible()] == [
        "a when b starts", "a when a starts", "a when b starts",
    ]  # fmt: skip
    firsts = [parts(axes).curves[0].tolist() for axes in zoomed.axes[:3]]
    assert firsts == [[[0, 0.9], [1, 0.3]], [[0, 0.5], [1, 0.8]], [[0, 0.8], [1, 0.2]]]


def test_tasks_are_matched_by_when_they_were_learned() -> None:
    runs = [
        ScoreInput(stream=Stream({x: ([1, 2], [score, 0.4]), y: ([2], [0.6])}, [(x, 1), (y, 2)]))
        for x, y, score in (("a", "b", 0.5), ("b", "a", 0.7))
    ]
    figure = curves({"mine": runs})
    assert [axes.get_title() for axes in figure.axes] == ["task no. 1", "task no. 2"]
    np.testing.assert_allclose(parts(figure.axes[0]).curves[0], [[1, 0.6], [2, 0.4]])


def test_names_are_drawn_as_they_are_written(tmp_path: Path) -> None:
    stream = Stream({"$a_b$ <i>": ([1, 2], [0.5, 0.6])}, [("$a_b$ <i>", 2)])
    run = ScoreInput(stream=stream)
    figure = curves({r"_$\frac$": [run], "b\N{COMBINING ACUTE ACCENT}": [run]})
    add_title(figure, "100 $ & $\\no$")
    text = save(figure, tmp_path / "x.svg").read_text()
    for said in (r"_$\frac$", "$a_b$ &lt;i&gt;", "100 $ &amp; $\\no$"):
        assert said in text
    assert len(figure.legends[0].get_texts()) == 2


@pytest.mark.parametrize("size", ["column", "page", "slide"])
def test_many_tasks_with_long_names_still_fit(size: str) -> None:
    names = [f"airplane-automobile-{k}" for k in range(12)]
    tasks = {name: ([k + 1, 12], [0.5, 0.6]) for k, name in enumerate(names[:-1])}
    tasks |= {names[-1]: ([12], [0.5])}
    spans = [(name, k + 1) for k, name in enumerate(names)]
    stream = Stream(tasks, spans, scale=ScoreScale(lower_is_better=True))
    figure = curves({"m" * 50: [ScoreInput(stream=stream)]}, size=size)  # type: ignore[arg-type]
    figure.draw_without_rendering()  # a layout that fails would warn
    titles = [axes.title.get_window_extent() for axes in figure.axes if axes.get_visible()]
    for k, box in enumerate(titles):
        assert not any(box.overlaps(other) for other in titles[k + 1 :])


def test_the_axis_fits_what_came_after_learning_but_shows_all_lows() -> None:
    scores = {"a": ([1, 2, 3, 4], [0.02, 0.98, 0.71, 0.95])}
    stream = Stream(scores | {"b": ([4], [0.9])}, [("a", 2), ("b", 4)])
    bottom, top = curves({"mine": [ScoreInput(stream=stream)]}).axes[0].get_ylim()
    assert 0.5 < bottom < 0.71
    assert 0.98 < top < 1.05


def test_every_form_of_a_real_run(tmp_path: Path) -> None:
    methods = real("naive", "gem")
    check_files(lambda: curves(methods, tasks=2), tmp_path)
    check_files(lambda: curves(methods, tasks=1, zoom=5), tmp_path)


@pytest.mark.parametrize("size", ["column", "page", "slide"])
def test_nothing_covers_the_panels_or_leaves_the_paper(size: str) -> None:
    figure = curves(real("naive", "cumulative", "replay", "gem"), size=size)  # type: ignore[arg-type]
    figure.draw_without_rendering()
    assert figure.get_size_inches()[0] == {"column": 3.4, "page": 7, "slide": 12}[size]
    panels = [axes for axes in figure.axes if axes.get_visible() and axes.axison]
    boxes = [axes.get_tightbbox() for axes in panels]
    inside = [axes.get_legend() for axes in figure.axes]
    (legend,) = [*figure.legends, *(one for one in inside if one is not None)]
    keys = legend.get_window_extent()
    assert not any(box is None or box.overlaps(keys) for box in boxes)
    for k, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[k + 1 :] if box and other)
        assert box is not None
        assert box.width > 0.2 * figure.bbox.width / 4
    assert keys.x0 >= 0
    assert keys.x1 <= figure.bbox.width


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tasks": 0}, "tasks is 0, expected a whole number of at least 1"),
        ({"zoom": -1}, "zoom is -1"),
        ({"subsample": (1, 0)}, "subsample is 0"),
        ({"subsample": ()}, "one value of `subsample=`"),
        ({"subsample": (7,)}, "mine: no evaluation is left"),
        ({"zoom": 5}, "none"),
        ({"size": "huge"}, "size is 'huge'"),
    ],
)
def test_what_cannot_be_drawn_is_refused(options: dict[str, object], said: str) -> None:
    stream = Stream({"a": ([1, 2, 3], [0.5, 0.1, 0.7])})
    with pytest.raises(InputError, match=said):
        curves({"mine": [ScoreInput(stream=stream)]}, **options)  # type: ignore[arg-type]


def test_methods_that_do_not_go_together_are_refused() -> None:
    one = ScoreInput(stream=Stream({"a": ([1, 2], [0.5, 0.1])}))
    two = ScoreInput(stream=Stream({"a": ([3], [0.5])}))
    loss = ScoreInput(stream=Stream({"a": ([1], [0.5])}, scale=ScoreScale(lower_is_better=True)))
    with pytest.raises(InputError, match="mine: no stream"):
        curves({"mine": [ScoreInput(ScoreMatrix([[0.5]]))]})
    with pytest.raises(InputError, match="evaluated at different steps"):
        curves({"mine": [one, two]})
    with pytest.raises(InputError, match="several values of `subsample=` for 2 methods"):
        curves({"mine": [one], "yours": [two]}, subsample=(1, 2))
    with pytest.raises(InputError, match="higher is better for some scores and lower for others"):
        curves({"mine": [one], "yours": [loss]})
    many = Stream({f"t{k}": ([1], [0.5]) for k in range(61)})
    with pytest.raises(InputError, match="61 panels, expected at most 60"):
        curves({"mine": [ScoreInput(stream=many)]})


# The command.


def test_the_command_writes_the_figure_that_the_function_draws(tmp_path: Path) -> None:
    target = tmp_path / "x.pdf"
    named = f"gem={store()}/*gem*"
    answer = cli_helpers.run(
        "plot",
        "curves",
        named,
        "-o",
        target,
        "--tasks",
        "1",
        "--subsample",
        "1,10",
        "--title",
        "Gap",
    )
    assert (answer.code, answer.err.count("\n"), answer.err[:18]) == (0, 1, "perdure: caption: ")
    assert answer.out == f"wrote {target}\n"
    assert target.read_bytes().startswith(b"%PDF-")
    assert cli_helpers.run("plot", "curves", named, "-o", target, "--zoom", "3").code == 0


def test_a_mistake_is_one_line(tmp_path: Path) -> None:
    matrix = tmp_path / "m.csv"
    matrix.write_text("0.9,\n0.6,0.8\n")
    runs, target = f"gem={store()}/*gem*", str(tmp_path / "x.pdf")
    for arguments, said in (
        (("curves", matrix, "-o", target), "m: no stream of evaluations"),
        (
            ("curves", runs, "-o", target, "--subsample", "1,x"),
            "--subsample is 'x', expected a whole number",
        ),
        (("curves", runs, "-o", target, "--tasks", "0"), "--tasks is '0'"),
        (("curves", runs, "-o", target, "--zoom", "2.5"), "--zoom is '2.5'"),
        (("forgetting", runs, "-o", target, "--zoom", "5"), "--zoom is not for forgetting"),
        (("curves", runs, "-o", target, "--window", "5"), "--window is not for curves"),
        (("curves", runs, "-o", tmp_path / "no" / "x.pdf"), "there is no folder"),
        (
            ("curves", tmp_path / "nothing", "-o", tmp_path / "x.jpg"),  # before anything is read
            "x.jpg: expected a file name that ends in one of .pdf, .svg, .png",
        ),
        (("curves", runs, "-o", target, "--tasks", "99"), "--tasks is 99, expected 1 to 5: 0-1, "),
        (("curves", runs, "-o", target, "--tasks", "6", "--zoom", "9"), "expected 1 to 5: 0-1, "),
        (("classes", runs, "-o", target, "--tasks", "6"), "expected 1 to 5: 0-1, 2-3"),
    ):
        answer = cli_helpers.run("plot", *arguments)
        assert answer.code == 2, answer
        assert said in answer.err
        assert answer.err.count("\n") == 1
    folder = tmp_path / "taken.pdf"
    folder.mkdir()
    answer = cli_helpers.run("plot", "curves", runs, "-o", folder)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "taken.pdf: is a directory" in answer.err
    assert not (tmp_path / "x.pdf").exists()


def test_drawing_loads_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from perdure.cli import main\n"
        "for kind in ('curves', 'gradients', 'forgetting'):\n"
        "    sys.argv[2] = kind\n"
        "    try: main()\n"
        "    except SystemExit as stop: assert not stop.code, stop.code\n"
        "assert 'matplotlib' in sys.modules and 'torch' not in sys.modules\n"
    )
    arguments = ["plot", "kind", f"{store()}/*gem*", "-o", str(tmp_path / "x.png")]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("draw", [curves, series])
def test_no_marker_lies_outside_its_axes(draw: Callable[..., Figure]) -> None:
    """Tests before a task was learned lie below the axis, where markers are not cut off."""
    steps = np.arange(1, 7)
    tasks = {
        "a": (steps, np.array([0.5, 0.9, 0.8, 0.7, 0.7, 0.6])),
        "b": (steps, np.array([0.1, 0.0, 0.5, 0.9, 0.8, 0.8])),
        "c": (steps, np.array([0.1, 0.0, 0.0, 0.0, 0.5, 0.95])),
    }
    stream = Stream(tasks, [("a", 2), ("b", 4), ("c", 6)])
    # Whole sets, which give other scores than the subsets of the stream.
    matrix = ScoreMatrix([[0.93, 0.0, 0.0], [0.7, 0.97, 0.0], [0.4, 0.8, 0.99]], ["a", "b", "c"])
    runs = [ScoreInput(matrix, stream)]
    figure = draw({"er 10": runs, "er 20": runs})
    found = 0
    for axes in figure.axes:
        (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
        for line in axes.lines:
            if line.get_marker() not in ("None", None, ""):
                at = np.asarray(line.get_xydata())
                found += len(at)
                assert ((at[:, 0] >= left) & (at[:, 0] <= right)).all()
                assert ((at[:, 1] >= bottom) & (at[:, 1] <= top)).all()
    assert found >= 6
