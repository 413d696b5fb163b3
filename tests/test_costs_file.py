"""costs.csv: one line a task, empty where nothing was measured, broken lines named."""

import re

import pytest

import perdure
from perdure import UndefinedMetricError
from perdure.record import InputError, read_costs

HEADER = (
    "task,seconds_train,seconds_eval,flops_train,flops_eval,flops_one_pass,"
    "peak_bytes,model_bytes,copies_bytes,stored_bytes,data_bytes\n"
)
LINES = "a,1.5,.25,2e9,1e8,1e9,4096,1000,0,0,500\nb,2.5,.5,4e9,3e8,1e9,8192,2000,10,500,500\n"


def test_the_format_of_the_record() -> None:
    costs, warning = read_costs(HEADER + LINES, "costs.csv")
    assert warning is None
    assert costs.tasks == ("a", "b")
    assert list(costs.columns) == HEADER.strip().split(",")[1:]
    assert costs.column("seconds_train").tolist() == [1.5, 2.5]
    assert costs.column("flops_one_pass").tolist() == [1e9, 1e9]
    assert costs.column("peak_bytes").tolist() == [4096, 8192]
    assert costs.column("data_bytes").tolist() == [500, 500]


def test_the_metrics_that_come_of_it() -> None:
    costs, _ = read_costs(HEADER + LINES, "costs.csv")
    found = perdure.summary(costs=costs)
    assert found.metrics["ms"] == pytest.approx((1000 / 1000 + 1000 / 2000) / 2)
    assert found.metrics["sss"] == pytest.approx(1 - (0 + 500 / 1000) / 2)
    assert found.metrics["ce"] == pytest.approx((1e9 / 2e9 + 1e9 / 4e9) / 2)


def test_what_was_not_measured_is_undefined_and_never_zero() -> None:
    costs, _ = read_costs(HEADER + LINES.replace(",2000,", ",,"), "costs.csv")
    with pytest.raises(UndefinedMetricError, match="needs model_bytes of task 'b'"):
        costs.column("model_bytes")
    found = perdure.summary(costs=costs)
    assert "model_bytes of task 'b'" in found.undefined["ms"]
    assert "sss" in found.metrics


def test_columns_may_be_missing() -> None:
    costs, _ = read_costs("task,model_bytes\na,100\n", "costs.csv")
    assert costs.column("model_bytes").tolist() == [100]
    with pytest.raises(UndefinedMetricError, match="needs flops_train"):
        costs.column("flops_train")


def test_line_ends_of_windows_and_quoted_names() -> None:
    text = 'task,model_bytes\n"digits 0, 1",1\nété,2\n'
    for changed in (text, text.replace("\n", "\r\n"), text[:-1]):
        costs, warning = read_costs(changed, "costs.csv")
        assert costs.tasks == ("digits 0, 1", "été")
        assert warning is None


BROKEN = [
    ("b,-1,2\n", "line 3: model_bytes is '-1', expected a number from 0 to 1e+100, or nothing"),
    ("b,1e308,2\n", "line 3: model_bytes is '1e308', expected a number from 0 to 1e+100"),
    ("b,nan,2\n", "line 3: model_bytes is 'nan', expected a number"),
    ("b,inf,2\n", "line 3: model_bytes is 'inf', expected a number"),
    ("b,much,2\n", "line 3: model_bytes is 'much', expected a number"),
    ("b,1\n", "line 3: 2 fields, expected 3 (task,model_bytes,data_bytes)"),
    ("b,1,2,3\n", "line 3: 4 fields, expected 3"),
    (",1,2\n", "line 3: task is '', expected the name of a task"),
    ("a,1,2\n", "line 3: task 'a' is there twice"),
    ("b,1\x00,2\n", "line 3"),
    ("b\x00,1,2\n", "line 3"),
]


@pytest.mark.parametrize(("line", "message"), BROKEN)
def test_a_broken_line_is_named(line: str, message: str) -> None:
    for more in ("c,1,2\n", ""):
        text = "task,model_bytes,data_bytes\na,1,2\n" + line + more
        with pytest.raises(InputError, match=re.escape(f"costs.csv {message}")):
            read_costs(text, "costs.csv")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("model_bytes\n", "no column 'task'"),
        ("task,bytes\n", "column 'bytes' is unknown"),
        ("task,model_bytes,model_bytes\n", "column 'model_bytes' is there twice"),
        ("", "no column 'task' in an empty line"),
    ],
)
def test_a_wrong_header_is_named_with_the_right_one(header: str, message: str) -> None:
    expected = re.escape(f"costs.csv line 1: {message}") + ".*expected " + HEADER.strip()
    with pytest.raises(InputError, match=expected):
        read_costs(header, "costs.csv")


def test_a_header_and_nothing_else() -> None:
    with pytest.raises(InputError, match=r"costs\.csv: no tasks, expected one line per task"):
        read_costs(HEADER, "costs.csv")


@pytest.mark.parametrize("name", ["b", '"b, c"', " b", "été"])
def test_a_last_line_torn_at_any_byte_is_left_out(name: str) -> None:
    """In a run folder; text cut inside a letter is tried in test_run_folder."""
    last = LINES.splitlines(keepends=True)[1].replace("b", name, 1)
    whole = HEADER + LINES.splitlines(keepends=True)[0]
    for cut in range(len(last)):
        costs, warning = read_costs(whole + last[:cut], "costs.csv", ours=True)
        assert costs.tasks == ("a",), last[:cut]
        assert (warning is not None) == (cut > 0)
        assert warning is None or "the last line is cut off" in warning
    costs, warning = read_costs(whole + last, "costs.csv", ours=True)
    assert (len(costs.tasks), warning) == (2, None)


def test_in_other_files_only_a_broken_last_line_is_left_out() -> None:
    whole = HEADER + LINES.splitlines(keepends=True)[0]
    costs, warning = read_costs(whole + "b,1,2", "costs.csv")
    assert costs.tasks == ("a",)
    assert warning is not None
    costs, warning = read_costs(HEADER + LINES.rstrip(), "costs.csv")
    assert (costs.tasks, warning) == (("a", "b"), None)
