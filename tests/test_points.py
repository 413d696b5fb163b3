"""points.csv: what its lines mean; a broken one is named by file, line and value."""

import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import perdure
from perdure import ScoreScale, UndefinedMetricError
from perdure.metrics import lca, min_acc, wf, wp
from perdure.record import InputError, Points, read_points
from perdure.record.io import text as _text

from .stream_references import law

HEADER = "step,trained,tested,kind,score,n\n"


def read(lines: str, header: str = HEADER, *, ours: bool = False) -> Points:
    return read_points(header + lines, "p.csv", ours=ours)


def rows_of(points: Points, task: str) -> dict[int, float]:
    steps, scores = points.stream().tasks[task]
    return dict(zip(steps.tolist(), scores.tolist(), strict=True))


SMALL = """\
0,a,a,initial,.1,50
0,a,b,initial,.2,50
1,a,a,probe,.5,10
2,a,a,probe,.7,10
2,a,a,full,.75,50
2,a,b,full,.25,50
2,b,b,initial,.3,50
3,b,a,probe,.4,10
3,b,b,probe,.6,10
4,b,a,full,.55,50
4,b,b,full,.85,50
"""


def test_every_rule_on_one_small_record() -> None:
    points = read(SMALL)
    assert points.names == ("a", "b")
    assert points.spans() == [("a", 2), ("b", 4)]
    matrix, stream = points.matrix(), points.stream()
    assert matrix.tasks == ("a", "b")
    assert matrix.scores.tolist() == [[0.75, 0.25], [0.55, 0.85]]
    assert matrix.initial is not None
    assert matrix.sizes is not None
    assert matrix.initial.tolist() == [0.1, 0.2]
    assert matrix.sizes.tolist() == [50, 50]
    assert rows_of(points, "a") == {1: 0.5, 2: 0.7, 3: 0.4, 4: 0.55}  # the probe at step 2
    assert rows_of(points, "b") == {2: 0.25, 3: 0.6, 4: 0.85}
    assert stream.before == {"a": 0.1, "b": 0.3}
    assert stream.spans == (("a", 2), ("b", 4))
    assert min_acc(stream) == 0.4
    assert lca(stream, 1) == pytest.approx((0.1 + 0.5 + 0.3 + 0.6) / 4)


def test_initial_rows_take_no_part_in_extremes() -> None:
    """Untrained scores below and above all others change neither drops, rises nor minima."""
    without = read(
        "".join(line for line in SMALL.splitlines(keepends=True) if "initial" not in line)
    )
    with_ = read(SMALL.replace(",.1,50", ",0,50").replace(",.3,50", ",1,50"))
    for metric in (min_acc, lambda s: wf(s, None), lambda s: wp(s, None)):
        assert metric(with_.stream()) == metric(without.stream())
    assert without.matrix().initial is None
    assert without.stream().before == {}


def test_tasks_are_ordered_by_first_appearance_in_trained() -> None:
    points = read("1,z,a,,.1,\n1,z,z,,.2,\n2,m,a,,.3,\n2,m,m,,.4,\n".replace(",,.", ",probe,."))
    assert points.names == ("z", "m", "a")
    assert points.matrix().tasks == ("z", "m")
    assert any("not learned: a" in note for note in points.matrix().notes)


def test_the_order_of_lines_does_not_matter() -> None:
    lines = SMALL.splitlines(keepends=True)
    shuffled = read("".join(lines[::-1]))
    assert shuffled.names == ("a", "b")
    assert shuffled.matrix().scores.tolist() == read(SMALL).matrix().scores.tolist()
    assert rows_of(shuffled, "a") == rows_of(read(SMALL), "a")
    assert shuffled.stream().before == read(SMALL).stream().before


def test_the_untrained_scores_do_not_decide_the_order_of_learning() -> None:
    points = read(
        "0,b,b,initial,.1,\n0,a,a,initial,.2,\n1,a,a,full,.3,\n1,a,b,full,.4,\n"
        "2,b,a,full,.5,\n2,b,b,full,.6,\n"
    )
    matrix = points.matrix()
    a, b = matrix.tasks.index("a"), matrix.tasks.index("b")
    assert matrix.initial is not None
    assert (matrix.initial[a], matrix.initial[b]) == (0.2, 0.1)
    assert matrix.scores[a, a] == 0.3
    assert matrix.scores[a, b] == 0.4
    assert matrix.scores[b, a] == 0.5
    assert matrix.scores[b, b] == 0.6


def test_a_task_entered_but_never_tested_while_learned_breaks_nothing() -> None:
    points = read("0,a,a,initial,.1,\n5,b,b,initial,.2,\n10,b,a,full,.3,\n10,b,b,full,.4,\n")
    assert points.stream().spans == (("b", 10),)
    matrix = points.matrix()
    assert matrix.tasks == ("b",)
    assert matrix.scores.tolist() == [[0.4]]
    assert matrix.initial is None  # b was tested after five iterations, not untrained


def test_the_score_on_entering_counts_wherever_the_last_evaluation_was() -> None:
    """Task a ended at step 15 but was last tested at 10: the initial row still is b = 0."""
    points = read("10,a,a,probe,.2,\n15,b,b,initial,.3,\n20,b,a,probe,.3,\n20,b,b,probe,.4,\n")
    assert points.stream().before == {"b": 0.3}


def test_the_score_on_entering_is_that_of_the_first_visit() -> None:
    points = read(
        "0,a,a,initial,.1,\n0,a,b,initial,.05,\n1,a,a,full,.9,\n1,b,b,initial,.2,\n"
        "2,b,b,full,.8,\n2,a,a,initial,.3,\n3,a,a,full,.9,\n3,b,b,initial,.4,\n4,b,b,full,.8,\n"
    )
    assert points.stream().before == {"a": 0.1, "b": 0.2}


def test_kind_and_n_may_be_missing() -> None:
    points = read("1,a,a,.5\n2,a,a,.75\n3,b,a,.25\n3,b,b,.5\n", "step,trained,tested,score\n")
    assert rows_of(points, "a") == {1: 0.5, 2: 0.75, 3: 0.25}
    assert points.stream().sizes == {}
    matrix = points.matrix()
    assert matrix.sizes is None
    np.testing.assert_equal(matrix.scores, [[0.75, np.nan], [0.25, 0.5]])
    assert any("3 of 4 matrix entries are probes" in note for note in matrix.notes)


def test_columns_may_come_in_any_order_and_n_may_be_empty() -> None:
    points = read(".5,full,a,a,1,\n.75,full,a,a,2,9\n", "score,kind,tested,trained,step,n\n")
    assert rows_of(points, "a") == {1: 0.5, 2: 0.75}
    assert points.stream().sizes == {}


def test_without_boundaries() -> None:
    points = read("0,,a,initial,.1,\n1,,a,probe,.9,\n2,,b,probe,.5,\n2,,a,probe,.1,\n")
    assert points.names == ("a", "b")
    assert points.spans() == []
    assert points.stream().spans == ()
    with pytest.raises(UndefinedMetricError, match="needs task boundaries"):
        points.matrix()
    assert wf(points.stream(), None) == pytest.approx(0.4)


def test_a_task_that_returns_has_streams_but_no_matrix() -> None:
    points = read(
        "1,a,a,full,.9,\n2,b,a,full,.3,\n2,b,b,full,.8,\n3,a,a,full,.7,\n3,a,b,full,.4,\n"
    )
    assert points.spans() == [("a", 1), ("b", 2), ("a", 3)]
    with pytest.raises(UndefinedMetricError, match="task 'a' returns"):
        points.matrix()
    assert min_acc(points.stream()) == 0.4


def test_the_last_full_else_the_last_probe_and_the_notes_say_so() -> None:
    points = read(
        "1,a,a,full,.1,\n2,a,a,full,.2,\n3,a,a,probe,.3,\n"  # full, though a probe came later
        "4,b,a,probe,.4,\n5,b,a,probe,.5,\n5,b,b,full,.6,\n"
    )
    matrix = points.matrix()
    np.testing.assert_equal(matrix.scores, [[0.2, np.nan], [0.5, 0.6]])
    assert any("1 of 4 matrix entries are probes, not whole sets" in n for n in matrix.notes)
    assert "1 of 4 matrix entries are probes, not whole sets" in perdure.summary(matrix).notes
    assert not any("probes" in note for note in read("1,a,a,full,.1,\n").matrix().notes)


def test_streams_use_full_rows_only_at_steps_without_probe() -> None:
    points = read("1,a,a,probe,.1,5\n2,a,a,full,.2,9\n3,a,a,full,.3,9\n3,a,a,probe,.4,5\n")
    assert rows_of(points, "a") == {1: 0.1, 2: 0.2, 3: 0.4}
    assert points.stream().sizes == {"a": 5}


BROKEN = [
    ("2,a,a,probe,.5\n", "line 3: 5 fields, expected 6 (step,trained,tested,kind,score,n)"),
    ("2,a,a,probe,.5,1,1\n", "line 3: 7 fields, expected 6"),
    ("two,a,a,probe,.5,1\n", "line 3: step is 'two', expected a whole number"),
    ("2.5,a,a,probe,.5,1\n", "line 3: step is '2.5', expected a whole number"),
    ("-2,a,a,probe,.5,1\n", "line 3: step is '-2', expected a whole number"),
    (",a,a,probe,.5,1\n", "line 3: step is '', expected a whole number"),
    ("2_0,a,a,probe,.5,1\n", "line 3: step is '2_0', expected a whole number"),
    ("99999999999999999999,a,a,probe,.5,1\n", "line 3: step is '99999999999999999999'"),
    ("2,a,a,prob,.5,1\n", "line 3: kind is 'prob', expected initial or probe or full"),
    ("2,a,a,,.5,1\n", "line 3: kind is '', expected initial or probe or full"),
    ("2,a,a,probe,nan,1\n", "line 3: score is 'nan', expected a number"),
    ("2,a,a,probe,inf,1\n", "line 3: score is 'inf', expected a number"),
    ("2,a,a,probe,high,1\n", "line 3: score is 'high', expected a number"),
    ("2,a,a,probe,,1\n", "line 3: score is '', expected a number"),
    ("2,a,a,probe,1_0e-1,1\n", "line 3: score is '1_0e-1', expected a number"),
    (
        "2,a,a,probe,75,1\n",
        "line 3: score is 75, expected 0 to 1; for percentages use `percent=True` or divide by 100",
    ),
    ("2,a,a,probe,-.5,1\n", "line 3: score is -0.5, expected 0 to 1"),
    ("2,a,a,probe,.5,0\n", "line 3: n is '0', expected a whole number of at least 1"),
    ("2,a,a,probe,.5,-1\n", "line 3: n is '-1', expected a whole number of at least 1"),
    ("2,a,a,probe,.5,ten\n", "line 3: n is 'ten', expected a whole number of at least 1"),
    ("2,a,,probe,.5,1\n", "line 3: tested is '', expected the name of a task"),
    ("2,,a,probe,.5,1\n", "line 3: trained is empty, expected a task"),
    ("2,a,a,probe,.5,1\n2,b,b,probe,.5,1\n", "line 4: another task is trained at the same step 2"),
    ("1,a,a,probe,.5,1\n", "line 3: a second probe of 'a' at step 1, expected one"),
    ("2,a,a,full,.5,1\n2,a,a,full,.5,1\n", "line 4: a second full of 'a' at step 2, expected one"),
    ('2,"a,a,probe,.5,1\n', "line 3"),
    ('2,"a"b,a,probe,.5,1\n', "line 3"),
    ("2,a,a,probe,.5\x00,1\n", "line 3"),
    ("2\x00,a,a,probe,.5,1\n", "line 3"),
    ("2,a,a\x00,probe,.5,1\n", "line 3"),
]


@pytest.mark.parametrize(("line", "message"), BROKEN, ids=lambda text: repr(text)[:40])
def test_a_broken_line_is_named(line: str, message: str) -> None:
    for more in ("5,a,a,probe,.5,1\n", ""):
        with pytest.raises(InputError, match=re.escape(f"p.csv {message}")):
            read("1,a,a,probe,.5,1\n" + line + more)


HEADERS = [
    ("step,trained,kind,score,n\n", "no column 'tested'"),
    ("trained,tested,kind,score,n\n", "no column 'step'"),
    ("step,trained,tested,kind,n\n", "no column 'score'"),
    ("step,trained,tested,kind,score,n,loss\n", "column 'loss' is unknown"),
    ("step,trained,tested,kind,score,score\n", "column 'score' is there twice"),
]


@pytest.mark.parametrize(("header", "message"), HEADERS)
def test_a_wrong_header_is_named_with_the_right_one(header: str, message: str) -> None:
    expected = re.escape(f"p.csv line 1: {message}") + ".*expected step,trained,tested,kind,score,n"
    with pytest.raises(InputError, match=expected):
        read_points(header, "p.csv")


@pytest.mark.parametrize("text", ["", "\n", " \r\n"])
def test_an_empty_file_has_no_evaluations(text: str) -> None:
    with pytest.raises(
        InputError, match=r"p\.csv: no evaluations, the file is empty, expected step"
    ):
        read_points(text, "p.csv")


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n"])
def test_a_header_and_nothing_else(end: str) -> None:
    with pytest.raises(InputError, match=r"p\.csv: no evaluations, expected lines under step"):
        read_points(HEADER.rstrip() + end, "p.csv")


def test_lines_are_counted_through_blank_ones_and_line_ends_in_quotes() -> None:
    lines = '1,a,"new\nline",probe,.5,1\n\n2,a,a,probe,.5,1\n\n\n3,a,a,prob,.5,1\n'
    with pytest.raises(InputError, match=r"p\.csv line 8: kind is 'prob'"):
        read(lines)
    assert read(lines.replace("prob,", "probe,")).names == ("a", "new\nline")


def test_lines_are_those_of_the_file_also_where_steps_are_not_in_order() -> None:
    with pytest.raises(InputError, match=r"p\.csv line 2: score is 7, expected 0 to 1"):
        read("9,a,a,probe,7,1\n1,a,a,probe,.5,1\n2,a,a,probe,.5,1\n")
    with pytest.raises(InputError, match=r"p\.csv line 4: a second probe of 'a' at step 1"):
        read("9,a,a,probe,.5,1\n1,a,a,probe,.5,1\n1,a,a,probe,.5,1\n")


@law
@given(st.integers(1, 7))
def test_the_size_of_a_chunk_changes_nothing(chunk: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_text, "CHUNK_LINES", chunk)
        patch.setattr(_text, "BLOCK_CHARACTERS", 8 * chunk)
        assert read(SMALL).matrix().scores.tolist() == [[0.75, 0.25], [0.55, 0.85]]
        assert read(SMALL).names == ("a", "b")
        with pytest.raises(InputError, match=r"p\.csv line 13: score is 'x'"):
            read(SMALL + "5,b,b,probe,x,1\n")
        with pytest.raises(InputError, match=r"p\.csv line 12: a second full of 'b'"):
            read(SMALL.replace("4,b,a,full", "4,b,b,full"))


CELLS = st.sampled_from(["1", "2", " 3", "4.5", "x", "-1", "", "1_0", "0.25", "9" * 30])
LINE = st.one_of(
    st.integers(0, 3).map(lambda k: f"{k},a,b{k},probe,0.{k},{k + 1}"),
    st.just(""),
    st.lists(CELLS, min_size=1, max_size=7).map(",".join),
    st.tuples(CELLS, CELLS, CELLS).map(lambda cells: "{},a,b,probe,{},{}".format(*cells)),
)


@law
@example(
    lines=["", "1,1,1,1"], block=20, ends=True
)  # with the line break, as many cells as a line has
@given(st.lists(LINE, max_size=6), st.sampled_from([1, 20, 1 << 16]), st.booleans())
def test_splitting_lines_is_reading_them_with_the_csv_module(
    lines: list[str], block: int, ends: bool
) -> None:
    text = "\n".join(lines) + "\n" * ends
    quoted = HEADER.replace("step", '"step"')  # a quote anywhere, and the csv module reads it all

    def outcome(header: str) -> object:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_text, "BLOCK_CHARACTERS", block)
            try:
                points = read(text, header)
            except InputError as error:
                return str(error)
        columns = (points.step, points.trained, points.tested, points.kind, points.n)
        return [column.tolist() for column in (*columns, points.score)], points.names

    plain, by_csv = outcome(HEADER), outcome(quoted)
    if isinstance(plain, str):  # of several broken lines, either may be named
        assert isinstance(by_csv, str)
        assert plain == by_csv or sum(map(bool, lines)) > 1
    else:
        assert plain == by_csv


def test_line_ends_of_windows_and_names_with_commas_quotes_and_letters() -> None:
    text = HEADER + '1,"digits 0, 1",été 数字,full,.5,3\n2,"digits 0, 1","say ""hi""",full,.5,3\n'
    for changed in (text, text.replace("\n", "\r\n"), text[:-1]):
        points = read_points(changed, "p.csv")
        assert points.names == ("digits 0, 1", "été 数字", 'say "hi"')
        assert points.notes == ()


def test_percent_and_other_scales() -> None:
    lines = "1,a,a,full,50,\n2,a,a,full,75,\n"
    in_percent = read_points(HEADER + lines, "p.csv", percent=True)
    assert in_percent.matrix().scores.tolist() == [[0.75]]
    losses = read_points(HEADER + lines, "p.csv", scale=ScoreScale(0, 100, lower_is_better=True))
    assert losses.matrix().scores.tolist() == [[75]]
    assert losses.stream().scale.lower_is_better
    with pytest.raises(InputError, match=r"p\.csv line 3: score is 75, expected 0 to 60"):
        read_points(HEADER + lines, "p.csv", scale=ScoreScale(0, 60))


def record(every: int, ends: list[int], scores: dict[tuple[int, str], float]) -> str:
    """Return the record of a run that probes every so many steps, and all tasks at task ends."""
    lines, task = ["0,t0,t0,initial,.05,9\n"], 0
    for step in range(1, ends[-1] + 1):
        seen = [f"t{k}" for k in range(task + 1)]
        if step % every == 0:
            lines += [f"{step},t{task},{name},probe,{scores[step, name]},5\n" for name in seen]
        if step == ends[task]:
            lines += [f"{step},t{task},{name},full,{scores[-step, name]},9\n" for name in seen]
            task += 1
            lines += [f"{step},t{task},t{task},initial,.05,9\n"] if task < len(ends) else []
    return HEADER + "".join(lines)


@law
@given(st.lists(st.integers(1, 40), min_size=1, max_size=3), st.sampled_from([2, 7, 10, 50]))
def test_thinning_a_dense_record_is_testing_less_often(lengths: list[int], every: int) -> None:
    ends = np.cumsum(lengths).tolist()
    rng = np.random.default_rng(every)
    steps = range(-ends[-1], ends[-1] + 1)
    scores = {(t, f"t{k}"): float(rng.random()) for t in steps for k in range(len(ends))}
    dense = read_points(record(1, ends, scores), "dense.csv").stream(subsample=every)
    coarse = read_points(record(every, ends, scores), "coarse.csv").stream()
    assert dense.names == coarse.names
    assert dense.spans == coarse.spans
    assert dense.before == coarse.before
    assert dense.sizes == coarse.sizes
    for name in dense.names:
        for found, expected in zip(dense.tasks[name], coarse.tasks[name], strict=True):
            assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("thin", [0, -1])
def test_thinning_refuses_what_is_no_period(thin: int) -> None:
    with pytest.raises(ValueError, match=f"at least 1.*{thin}"):
        read(SMALL).stream(subsample=thin)
