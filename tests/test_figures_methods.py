"""Figures that set methods side by side: rescaled pairs, spiders, all tasks at once, ranks."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest
from matplotlib.patches import Polygon

from perdure.metrics import Costs, ScoreMatrix, ScoreScale
from perdure.record import InputError, ScoreInput
from perdure.report.colours import choose_styles
from perdure.report.figures import fixed, guessing, ranks, rescaled, spider
from perdure.report.filtering import LeftOutWarning
from perdure.stats import critical_difference, friedman_p, indistinguishable_groups

from .cli_helpers import refused, run
from .matrix_figure_helpers import R5, five, line, source

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from perdure.report.figures.drawing import Size

LOSS = {"scale": ScoreScale(0, np.inf, lower_is_better=True)}
A = np.array([[0.9, 0.1], [0.6, 0.8]])
B = np.array([[0.7, 0.3], [0.2, 0.6]])
CHANCE = [1 / 2, 1 / 4, 1 / 6, 1 / 8, 1 / 10]  # of a guesser among 2, 4, … 10 classes


def aa_by_hand(r: np.ndarray) -> list[float]:
    return [sum(r[k][: k + 1]) / (k + 1) for k in range(len(r))]


def af_by_hand(r: np.ndarray) -> list[float]:
    """Return after task k how much older tasks lost from their best until then."""
    found = [np.nan]
    for k in range(1, len(r)):
        drops = [max(r[i][j] for i in range(j, k)) - r[k][j] for j in range(k)]
        found.append(sum(drops) / k)
    return found


# --- rescaled


def test_rescaled_pairs_of_five_tasks() -> None:
    aa, raa, af, raf = rescaled(five()).axes
    by_hand = aa_by_hand(R5)
    assert line(aa)[0].tolist() == [1, 2, 3, 4, 5]
    assert line(aa)[1] == pytest.approx(by_hand)
    assert line(raa)[1] == pytest.approx(
        [v * 0.1 / c for v, c in zip(by_hand, CHANCE, strict=True)]
    )
    assert line(af)[1] == pytest.approx(af_by_hand(R5), nan_ok=True)
    guesser = [np.nan] + [np.mean(CHANCE[:k]) - CHANCE[k] for k in range(1, 5)]
    least = min(guesser[1:])
    rescaled_ = [v * least / g for v, g in zip(af_by_hand(R5), guesser, strict=True)]
    assert line(raf)[1] == pytest.approx(rescaled_, nan_ok=True)
    assert aa.get_ylim() == raa.get_ylim()  # a pair is read on one axis
    assert af.get_ylim() == raf.get_ylim()
    assert [axes.get_ylabel() for axes in (aa, raa, af, raf)] == [
        "$AA_k$", "$RAA_k$", "$AF_k$", "$RAF_k$",
    ]  # fmt: skip


def test_rescaled_lines_are_means_with_a_band_of_one_sd() -> None:
    two = [{"classes": [2, 2]}] * 2
    methods = {"replay": [source(A, **two[0]), source(B, **two[1])], "naive": [source(B, **two[0])]}
    figure = rescaled(methods)
    aa = figure.axes[0]
    said = [text.get_text() for text in figure.legends[0].get_texts()]
    assert said == ["replay", "naive", "mean ± SD, 2 runs"]
    assert line(aa, 0)[1] == pytest.approx([0.8, 0.55])
    sd = [0.2 / 2**0.5, 0.3 / 2**0.5]
    band = aa.collections[0].get_paths()[0].vertices
    for k in (1, 2):
        heights = {round(y, 9) for x, y in np.asarray(band) if x == k}
        mean = [0.8, 0.55][k - 1]
        assert min(heights) == pytest.approx(mean - sd[k - 1])
        assert max(heights) == pytest.approx(mean + sd[k - 1])
    assert len(aa.collections) == 1  # one run has no spread
    for drawn, (name, look) in zip(aa.lines, choose_styles(methods).items(), strict=True):
        assert (drawn.get_label(), drawn.get_color()) == (name, look.colour)


def test_rescaled_says_what_is_undefined() -> None:
    task = source(A, classes=[2, 2], setting="task")
    raa, raf = (rescaled({"er": [task]}).axes[k] for k in (1, 3))
    assert line(raa)[1] == pytest.approx([0.9, 0.7])  # guessing is as good after each task
    assert not raf.lines
    assert raf.texts[0].get_text().startswith("undefined: a random guesser")
    both = rescaled({"er": [task], "ewc": [source(A, classes=[2, 2])]}).axes[3]
    assert len(both.lines) == 1
    assert both.get_title() == "undefined for er"


def test_rescaled_needs_classes_accuracies_and_two_tasks() -> None:
    with pytest.raises(
        InputError, match=r"er: the number of classes .* `classes=`, as classes in a"
    ):
        rescaled({"er": [source(A)]})
    with pytest.raises(InputError, match="score is not an accuracy"):
        rescaled({"er": [source(A, classes=[2, 2], **LOSS)]})
    with pytest.raises(InputError, match="one task only"):
        rescaled({"er": [source([[0.5]], classes=[2])]})


def test_guessing_draws_the_factors_once_for_each_list_of_classes() -> None:
    equal = source(R5, classes=[2] * 5)
    other = source(np.eye(3), classes=[50, 5, 5])
    figure = guessing({"er": [equal, equal], "ewc": [equal], "lwf": [other]})
    first, second = figure.axes[:2]
    assert [axes.get_title() for axes in figure.axes if axes.axison] == [
        "5 tasks of 2 classes", "3 tasks of 5 to 50 classes",
    ]  # fmt: skip
    assert line(first, 0)[1] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    h = np.cumsum([1 / k for k in range(1, 6)])
    by_hand = [(h[4] - 1) * (k - 1) / ((h[k - 1] - 1) * 4) for k in range(2, 6)]
    assert line(first, 1)[1][1:] == pytest.approx(by_hand)
    assert np.isnan(line(first, 1)[1][0])
    assert line(second, 0)[1] == pytest.approx([50 / 60, 55 / 60, 1.0])


def test_guessing_where_a_guesser_does_not_forget() -> None:
    axes = guessing({"er": [source(A, classes=[2, 2], setting="task")]}).axes[0]
    assert np.isnan(line(axes, 1)[1]).all()
    assert str(axes.lines[1].get_label()).endswith("(undefined)")
    assert axes.get_title() == "2 tasks of 2 classes, task-incremental"


# --- spider


def complete(scores: np.ndarray) -> ScoreInput:
    """Return a source with all seven criteria: costs that can be reckoned by hand."""
    costs = {
        "flops_train": [40, 40], "flops_one_pass": [10, 10], "model_bytes": [100, 200],
        "stored_bytes": [0, 50], "data_bytes": [100, 100],
    }  # fmt: skip
    columns = {name: np.array(values, dtype=float) for name, values in costs.items()}
    return ScoreInput(ScoreMatrix(scores, tasks=["x", "y"]), costs=Costs(("x", "y"), columns))


# A: 2.3 / 3 of the lower half. REM: 1 - 0.3 lost. BWT+: nothing gained. FWT: the upper 0.1.
BY_HAND = {"A": 2.3 / 3, "REM": 0.7, "BWT+": 0.0, "FWT": 0.1}


def drawn(axes: Axes, name: str) -> np.ndarray:
    """Return the angles and radii of a method's line."""
    (found,) = [each for each in axes.lines if each.get_label() == name]
    return np.array([found.get_xdata(), found.get_ydata()], dtype=float)


def test_spider_vertices_stand_where_the_criteria_are() -> None:
    axes = spider({"er": [complete(A)]}).axes[0]
    angles, radii = drawn(axes, "er")
    assert angles == pytest.approx([2 * np.pi * k / 7 for k in range(8)])
    assert radii[:4] == pytest.approx(list(BY_HAND.values()))
    # MS: the model doubles, (1 + 1/2) / 2. SSS: 50 of 200 bytes at the second task. CE: 4 passes.
    assert radii[4:7] == pytest.approx([0.75, 1 - 0.25 / 2, 10 / 40])
    assert radii[7] == radii[0]  # closed
    assert [label.get_text() for label in axes.get_xticklabels()] == [
        "A", "REM", "BWT+", "FWT", "MS", "SSS", "CE",
    ]  # fmt: skip
    (filled,) = [patch for patch in axes.patches if isinstance(patch, Polygon)]
    assert filled.get_xy()[:8, 1] == pytest.approx(radii)
    assert axes.get_ylim() == (0, 1)


def test_an_undefined_criterion_is_a_gap_and_said_so() -> None:
    axes = spider({"er": [source(A)]}).axes[0]
    angles, radii = drawn(axes, "er")
    assert np.isnan(radii[4:7]).all()
    assert radii[:4] == pytest.approx(list(BY_HAND.values()))
    assert [text.get_text() for text in axes.texts] == ["undefined"] * 3
    assert [text.get_position()[0] for text in axes.texts] == pytest.approx(angles[4:7])
    assert not [patch for patch in axes.patches if isinstance(patch, Polygon)]
    # Undefined in one run is undefined for the method; a mean of the others would mislead.
    both = spider({"er": [complete(A), source(A)]}).axes[0]
    assert np.isnan(drawn(both, "er")[1][4:7]).all()


def test_spider_draws_means_over_seeds() -> None:
    radii = drawn(spider({"er": [complete(A), complete(B)]}).axes[0], "er")[1]
    assert radii[0] == pytest.approx((2.3 / 3 + 1.5 / 3) / 2)
    assert radii[1] == pytest.approx((0.7 + 0.5) / 2)


def test_naive_and_cumulative_are_bounds_in_every_panel() -> None:
    methods = {n: [complete(A)] for n in ("naive", "ewc", "lwf", "cumulative")}
    figure = spider(methods)
    shown = [axes for axes in figure.axes if axes.axison]
    assert [axes.get_title() for axes in shown] == ["ewc", "lwf"]
    for axes in shown:
        assert {str(each.get_label()) for each in axes.lines} == {
            axes.get_title(), "naive", "cumulative",
        }  # fmt: skip
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["naive", "cumulative"]
    alone = spider({"naive": [complete(A)], "cumulative": [complete(B)]})
    assert [axes.get_title() for axes in alone.axes] == ["naive", "cumulative"]
    # Two naive methods: neither is the bound.
    two = spider({"naive lr=1": [complete(A)], "naive lr=2": [complete(A)], "ewc": [complete(A)]})
    assert all(len(axes.lines) == 1 for axes in two.axes[:3])


def test_spider_refuses_what_has_no_criteria() -> None:
    with pytest.raises(InputError, match="score is not an accuracy"):
        spider({"er": [source(A, **LOSS)]})
    with pytest.raises(InputError, match="er: no criterion is defined, expected at least A: why"):
        spider({"er": [ScoreInput(no_matrix="why")]})


# --- fixed


def test_fixed_is_the_mean_over_all_tasks() -> None:
    axes = fixed(five()).axes[0]
    x, y = line(axes)
    assert x.tolist() == [1, 2, 3, 4, 5]
    assert y == pytest.approx([sum(row) / 5 for row in R5])
    assert axes.get_ylim()[0] == 0
    loss = fixed({"er": [source(10 * A, **LOSS)]}).axes[0]
    assert line(loss)[1] == pytest.approx([5.0, 7.0])
    assert loss.get_ylim()[1] > 7


def test_fixed_needs_tests_of_tasks_not_yet_learned() -> None:
    with pytest.raises(
        InputError, match=r"er: all tasks were evaluated only after the last one.*`unseen=True`"
    ):
        fixed({"er": [source([[0.9, np.nan], [0.6, 0.8]])]})


# --- ranks


@pytest.mark.parametrize(("k", "q"), [(2, 1.960), (5, 2.728), (10, 3.164)])
def test_critical_differences_are_those_of_demsar_table_5(k: int, q: float) -> None:
    for seeds in (5, 30):
        expected = q * (k * (k + 1) / (6 * seeds)) ** 0.5
        assert critical_difference(k, seeds) == pytest.approx(expected, rel=3e-4)
    tenth = {2: 1.645, 5: 2.459, 10: 2.920}[k]
    assert critical_difference(k, 6, alpha=0.1) == pytest.approx(
        tenth * (k * (k + 1) / 36) ** 0.5, rel=3e-4
    )


def test_groups_indistinguishable_groups_are_the_largest_ones() -> None:
    """Every pair closer than the difference shares a group, no other does, none is needless."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        mean = {f"m{k}": float(rank) for k, rank in enumerate(rng.integers(2, 12, 6) / 2)}
        groups = indistinguishable_groups(mean, 1.5)
        joined = {frozenset(pair) for group in groups for pair in itertools.combinations(group, 2)}
        close = {
            frozenset(pair)
            for pair in itertools.combinations(mean, 2)
            if abs(mean[pair[0]] - mean[pair[1]]) < 1.5
        }
        assert joined == close
        assert not any(set(a) <= set(b) for a, b in itertools.permutations(groups, 2))


def test_friedman_p_is_that_of_the_formula() -> None:
    table = [[0.9, 0.5, 0.1], [0.8, 0.6, 0.2], [0.3, 0.5, 0.1]]
    mean = np.array([4 / 3, 5 / 3, 3.0])
    statistic = 12 * 3 / (3 * 4) * ((mean - 2) ** 2).sum()
    assert friedman_p(table) == pytest.approx(np.exp(-statistic / 2))  # chi-squared, 2 degrees
    assert friedman_p([[0.5, 0.5, 0.5]] * 2) == 1.0
    assert friedman_p([[0.5, 0.4]] * 2) is None


def ending(score: float) -> ScoreInput:
    """Return a run that ends with this ACC."""
    return source([[0.5, 0.5], [score, score]])


# Ranks by hand: a is 1st twice and 2nd once; b 2nd, tied 1st with nobody…; c always last.
SCORED = {"c": [0.1, 0.2, 0.3], "a": [0.9, 0.8, 0.5], "b": [0.7, 0.6, 0.6]}
RANKED = {"a": 4 / 3, "b": 5 / 3, "c": 3.0}


def ranked(**scores: list[float]) -> dict[str, list[ScoreInput]]:
    return {name: [ending(score) for score in several] for name, several in scores.items()}


def test_ranks_stand_at_their_places() -> None:
    axes = ranks(ranked(**SCORED), test="nemenyi").axes[0]
    names = [text.get_text().strip() for text in axes.texts]
    assert names[:3] == ["a  1.33", "b  1.67", "3.00  c"]
    stems = [each for each in axes.lines if len(each.get_xdata()) == 3]  # type: ignore[arg-type]
    for stem, rank, text in zip(stems, RANKED.values(), axes.texts, strict=False):
        x, y = np.asarray(stem.get_xdata()), np.asarray(stem.get_ydata())
        assert x[0] == x[1] == pytest.approx(rank)
        assert y[0] == 0
        assert (x[2], y[2]) == text.get_position()  # from its rank to its name
    title = axes.get_title()
    assert "3 seeds" in title
    assert "alpha = 0.05" in title
    assert "acc" in title


def flat_lines(axes: Axes) -> list[tuple[float, float, float]]:
    """Return left, right and height of lines of two points that lie flat."""
    found = []
    for each in axes.lines:
        x, y = np.asarray(each.get_xdata()), np.asarray(each.get_ydata())
        if len(x) == 2 and y[0] == y[1] and each.get_marker() != "o":
            found.append((float(x[0]), float(x[1]), float(y[0])))
    return found


def test_the_critical_difference_is_as_long_as_it_is() -> None:
    figure = ranks(ranked(**SCORED), test="nemenyi")
    left, right, _ = max(flat_lines(figure.axes[0]), key=lambda each: each[2])  # topmost
    assert right - left == pytest.approx(2.343 * (3 * 4 / 18) ** 0.5, rel=3e-4)  # Demšar: q = 2.343
    assert "CD = 1.91" in [text.get_text() for text in figure.axes[0].texts]
    wide = ranks(ranked(**SCORED), test="nemenyi", alpha=0.01).axes[0]
    assert "alpha = 0.01" in wide.get_title()
    left, right, _ = max(flat_lines(wide), key=lambda each: each[2])
    assert right - left > 2.2


def test_bars_join_what_nemenyi_cannot_separate() -> None:
    """Four methods on 14 seeds: CD = 2.569 sqrt(20 / 84) = 1.2535."""
    order = {"a": 1, "b": 2, "c": 3, "d": 4}
    clear = ranked(**{name: [1 - rank / 10] * 14 for name, rank in order.items()})
    figure = ranks(clear, test="nemenyi")
    bars = sorted(each for each in flat_lines(figure.axes[0]) if each[2] < 0)
    # Neighbours are one rank apart, less than CD; the others two or three.
    assert [(round(left), round(right)) for left, right, _ in bars] == [(1, 2), (2, 3), (3, 4)]
    assert len({height for *_, height in bars}) == 3  # none hides another
    few = ranked(**{name: [1 - rank / 10] * 2 for name, rank in order.items()})
    axes = ranks(few, test="nemenyi").axes[0]
    assert [(round(a), round(b)) for a, b, y in flat_lines(axes) if y < 0] == [(1, 4)]
    assert "2 seeds cannot separate any two of 4 methods" in axes.get_title()
    assert not any(y < 0 for *_, y in flat_lines(ranks(few).axes[0]))  # the t-test separates all


def dots(axes: Axes) -> list[list[float]]:
    """Return where each bar has its dots."""
    return [
        np.asarray(each.get_xdata(), dtype=float).tolist()
        for each in axes.lines
        if each.get_marker() == "o"
    ]


def test_bars_have_dots_at_what_they_join_only() -> None:
    """The test separates b, which lies between a and c by rank, from a, but not c from a."""
    a, b = np.array([0.50, 0.52, 0.54, 0.56, 0.58]), np.array([0.49, 0.51, 0.531, 0.55, 0.57])
    c = a + np.array([-0.3, -0.3, -0.3, 0.2, 0.2])
    axes = ranks(ranked(a=a.tolist(), b=b.tolist(), c=c.tolist())).axes[0]
    by_rank = {"a": 1.4, "b": 2.4, "c": 2.2}
    names = " ".join(text.get_text().strip() for text in axes.texts[:3])
    assert names == "a (a)  1.40 c (ab)  2.20 2.40  b (b)"
    assert dots(axes) == [
        pytest.approx([by_rank["a"], by_rank["c"]]), pytest.approx([by_rank["c"], by_rank["b"]])
    ]  # fmt: skip
    assert "what the paired t-test with Holm's correction cannot" in axes.get_title()
    floor = ranks(ranked(a=a.tolist(), b=b.tolist()), test="permutation").axes[0]
    assert "cannot go below p = 0.0625 with 5 seeds" in floor.get_title()
    assert "cannot go below" not in axes.get_title()


def test_lower_is_better_turns_the_ranks() -> None:
    losses = {"a": [[2.0, 9.0], [7.0, 3.0]], "b": [[2.0, 9.0], [1.0, 3.0]]}
    methods = {name: [source(r, **LOSS)] * 2 for name, r in losses.items()}
    assert ranks(methods).axes[0].texts[0].get_text().startswith("b (a)  1.00")
    forgot = ranks(ranked(a=[0.1, 0.2], b=[0.4, 0.3]), metric="forgetting.learned").axes[0]
    assert forgot.texts[0].get_text().startswith("b (a)  1.00")


def test_names_do_not_cover_each_other() -> None:
    several = {f"a method with quite a long name {k}": [1 - k / 20] * 3 for k in range(11)}
    sizes: tuple[Size, ...] = ("column", "page", "slide")
    for size in sizes:
        figure = ranks({n: [ending(v) for v in s] for n, s in several.items()}, size=size)
        figure.draw_without_rendering()
        boxes = [text.get_window_extent() for text in figure.axes[0].texts]
        assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
        assert all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 for box in boxes)


@pytest.mark.parametrize(
    ("scores", "options", "words"),
    [
        ({"a": [0.5, 0.6]}, {}, r"1 method, expected two or more"),
        ({"a": [0.5], "b": [0.6]}, {}, r"1 seed in common, expected two or more"),
        ({"a": [0.5, 0.6], "b": [0.6]}, {}, "paired by their order, and a has 2, b has 1"),
        (
            {"a": [0.5] * 2, "b": [0.6] * 2},
            {"metric": "raa"},
            "run 1 of a: raa is undefined",
        ),
        ({"a": [0.5] * 2, "b": [0.6] * 2}, {"metric": "ac"}, "acc"),
        ({"a": [0.5] * 2, "b": [0.6] * 2}, {"alpha": 5.0}, "alpha is 5, expected a number between"),
        ({"a": [0.5] * 2, "b": [0.6]}, {"unpaired": True}, r"0 seeds in common"),
        (
            {"a": [0.5] * 2, "b": [0.6] * 2},
            {"unpaired": True, "test": "nemenyi"},
            "leave out `unpaired=True`",
        ),
    ],
)
def test_what_cannot_be_ranked(
    scores: dict[str, list[float]], options: dict[str, object], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        ranks(ranked(**scores), **options)  # type: ignore[arg-type]


def test_ranks_of_other_tasks_or_scores_are_refused() -> None:
    one = [ending(0.5)] * 2
    with (
        pytest.warns(
            LeftOutWarning, match="left out: run 1 of a, run 2 of a: 2 task.* most runs have 5"
        ),
        pytest.raises(InputError, match="1 method is left"),
    ):
        ranks({"a": one, "b": [source(R5)] * 2})
    with pytest.raises(InputError, match="b has scores of another range"):
        ranks({"a": one, "b": [source(A, **LOSS)] * 2})


# --- the command


def matrices(folder: Path) -> list[Path]:
    found = []
    for name, scores in (("er", [0.8, 0.9, 0.7]), ("naive", [0.1, 0.2, 0.3])):
        for k, score in enumerate(scores):
            found.append(folder / f"{name}-{k}.csv")
            found[-1].write_text(f"0.9,0.1\n{score},0.8\n")
    return found


def test_the_command_draws_these_kinds(tmp_path: Path) -> None:
    matrices(tmp_path)
    named = [f"er={tmp_path}/er-*.csv", f"naive={tmp_path}/naive-*.csv"]
    for kind, form, extra in (
        ("rescaled", "pdf", ["--classes", "2,2", "--setting", "class"]),
        ("guessing", "svg", ["--classes", "2,2"]),
        ("spider", "png", []),
        ("fixed", "svg", []),
        ("ranks", "svg", ["--metric", "bwt", "--alpha", "0.1", "--test", "wilcoxon"]),
    ):
        path = tmp_path / f"{kind}.{form}"
        answer = run("plot", kind, *named, *extra, "-o", path)
        assert (answer.code, answer.out) == (0, f"wrote {path}\n")
        assert "note: " not in answer.err
        assert path.stat().st_size > 1000
    assert "bwt: mean ranks over 3 seeds, alpha = 0.1" in (tmp_path / "ranks.svg").read_text()


def test_runs_that_say_no_seed_stay_paired_by_their_order_where_some_are_left_out() -> None:
    bad = ScoreInput(no_matrix="tasks return")
    first = [ending(0.1), bad, ending(0.9), ending(0.3)]
    second = [ending(0.2), ending(0.9), ending(0.8), bad]
    with pytest.warns(LeftOutWarning, match="run [24] of"):
        figure = ranks({"a": first, "b": second})
    assert figure.axes[0].get_title().startswith("acc: mean ranks over 2 seeds")
    assert [text.get_text() for text in figure.axes[0].texts][:2] == [
        "a (a)  1.50 ",
        " 1.50  b (a)",
    ]


def test_the_command_refuses_in_one_line(tmp_path: Path) -> None:
    er, *_ = matrices(tmp_path)
    out = tmp_path / "x.pdf"
    assert "--classes" in refused("plot", "rescaled", er, "-o", out)
    assert "expected two or more" in refused("plot", "ranks", er, "-o", out)
    assert "--metric is not for spider" in refused(
        "plot", "spider", er, "--metric", "acc", "-o", out
    )
    assert "each of 2 tasks, got 3" in refused(
        "plot", "rescaled", er, "--classes", "2,2,2", "-o", out
    )
    assert not out.exists()
