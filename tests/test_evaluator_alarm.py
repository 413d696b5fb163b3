"""The bell and the line in the terminal: what rings, what does not, what is shown where."""

from __future__ import annotations

import io
import re
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import Tensor

import perdure
from perdure import (
    Alarm,
    AlarmTriggered,
    Evaluator,
    Score,
    ScoreScale,
    Worker,
)
from perdure.evaluation import Live
from perdure.evaluation.alarm import AlarmMonitor

from .cli_helpers import scored
from .evaluator_helpers import lines, quietly, rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

N, TESTS = 200, 500
UNIT = ScoreScale(0, 1)


# Alone: simulated streams of live numbers.


def first_ring(rule: str, truth: Callable[[int], float], *, older: int = 1, seed: int = 0) -> int:
    """Return the evaluation at which the bell first rings, 0 if never.

    Some tasks were learned and another is; each evaluation of each has noise of its own.
    """
    rng = np.random.default_rng(seed)
    live, bell = Live(UNIT), AlarmMonitor(Alarm(rule))
    for k in range(older):
        live.begin_task(f"old {k}", live.step)
        live.update(live.step + 1, f"old {k}", rng.binomial(N, truth(0)) / N, N)
        live.end_task(f"old {k}", live.step)
    live.begin_task("new", live.step)
    start = live.step
    noise = rng.random((TESTS, older + 1, N))
    for test in range(1, TESTS + 1):
        found = (noise[test - 1] < truth(test)).mean(axis=1)
        for k in range(older):
            live.update(start + test, f"old {k}", float(found[k]), N)
        live.update(start + test, "new", float(found[-1]), N)
        if bell.check(live) is not None:
            return test
    return 0


STEADY = {  # a rule that is true of the noise, never of the truth; older tasks; streams
    "min_acc": ("min_acc < 0.6", 0.605, 1, 200),
    "min_acc, high": ("min_acc < 0.95", 0.955, 1, 80),
    "min_acc of three": ("min_acc < 0.6", 0.605, 3, 40),
    "current": ("current < 0.6", 0.605, 0, 100),
    "current, high": ("current > 0.95", 0.945, 0, 100),
    "wc_acc": ("wc_acc < 0.6", 0.605, 1, 60),
    "wf10": ("wf10 > 0", 0.6, 1, 60),
    "wp100": ("wp100 > 0", 0.6, 0, 60),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("what", STEADY)
def test_noise_does_not_ring(what: str) -> None:
    rule, truth, older, streams = STEADY[what]
    rang = [first_ring(rule, lambda _: truth, older=older, seed=k) > 0 for k in range(streams)]
    assert sum(rang) <= 0.05 * streams


@pytest.mark.parametrize(
    ("rule", "older"),
    [("min_acc < 0.6", 1), ("min_acc < 0.6", 3), ("current < 0.6", 0), ("wc_acc < 0.6", 1)],
)
def test_a_true_drop_rings_soon(rule: str, older: int) -> None:
    found = [
        first_ring(rule, lambda test: 0.7 if test < 300 else 0.35, older=older, seed=k)
        for k in range(10)
    ]
    assert all(300 <= test <= 302 for test in found), found


@pytest.mark.parametrize(
    ("rule", "before", "after"), [("wf10 > 0.1", 0.6, 0.1), ("wp10 > 0.1", 0.2, 0.9)]
)
def test_drops_and_rises_ring_soon(rule: str, before: float, after: float) -> None:
    rings = [first_ring(rule, lambda t: before if t < 99 else after, seed=k) for k in range(5)]
    assert all(99 <= test <= 100 for test in rings), rings


def fed(live: Live, values: Iterable[float], n: int = 10_000) -> Iterable[None]:
    for step, value in enumerate(values, start=live.step + 1):
        live.update(step, "a", value, n)
        yield


def test_it_rings_once_until_the_rule_no_longer_holds() -> None:
    live = Live(UNIT)
    live.begin_task("a", 0)
    bell = AlarmMonitor(Alarm("current < 0.5"))
    values = [0.9, 0.3, 0.2, 0.3, 0.9, 0.9, 0.1, 0.9, 0.4]
    rang = [bell.check(live) is not None for _ in fed(live, values)]
    assert rang == [False, True, False, False, False, False, True, False, True]


def test_a_bell_says_the_number_its_limit_and_the_rule() -> None:
    live = Live(UNIT)
    live.begin_task("a", 0)
    bell = AlarmMonitor(Alarm("current < 0.5"))
    (message,) = [bell.check(live) for _ in fed(live, [0.25])]
    assert message is not None
    assert message.startswith("current is 0.25, at most 0.2")
    assert message.endswith("current < 0.5")
    low = float(re.findall(r"at most ([\d.]+)", message)[0])
    assert 0.25 < low < 0.5


def test_the_fewer_examples_the_more_it_takes() -> None:
    for n, rings in ((10, False), (1000, True)):
        live = Live(UNIT)
        live.begin_task("a", 0)
        live.update(1, "a", 0.5, n)
        assert (Alarm("current < 0.6").message(live) is not None) == rings
        assert (Alarm("current > 0.4").message(live) is not None) == rings


def test_nothing_rings_while_a_number_is_undefined() -> None:
    live = Live(UNIT)
    live.begin_task("a", 0)
    assert Alarm("min_acc < 2").message(live) is None
    assert Alarm("wf10 > -1").message(live) is None
    live.update(1, "a", 0.5, 1000)
    assert Alarm("min_acc < 2").message(live) is None
    assert Alarm("wf10 > -1").message(live) is None  # one test is no change


@pytest.mark.parametrize("rule", ["min_acc < .5", " wc_acc>1e-1 ", "wf10 > +0.5", "wp100 < -1"])
def test_rules_as_people_write_them(rule: str) -> None:
    assert Alarm(rule).rule is not None


@pytest.mark.parametrize(
    "rule", ["", "min_acc", "min_acc = 1", "min_acc << 1", "< 1", "min_acc < x", "min_acc < inf",
             "min_acc < 1 or wf10 > 2", "min_acc < 1e", "min_acc < 50%"],
)  # fmt: skip
def test_rules_that_are_none(rule: str) -> None:
    with pytest.raises(ValueError, match="expected a rule like"):
        Alarm(rule)


@pytest.mark.parametrize(
    "name", ["acc", "min", "wf0", "wf", "wfall", "live", "wf10.5", "gap.depth"]
)
def test_names_that_are_unknown_are_refused_at_once(tmp_path: Path, name: str) -> None:
    with pytest.raises((ValueError, KeyError), match=r"expected (one of|a rule)"):
        Evaluator({"a": rows()}, record=tmp_path, alarm=f"{name} > 0.5")
    Evaluator({"a": rows()}, record=tmp_path, alarm="wf7 > 0.5").close()


# In a loop.


def falling(values: Iterable[float]) -> Any:
    """Return a score whose mean is what comes next, a call an evaluation."""
    coming = iter(values)

    def score(model: Any, x: Tensor, y: Tensor) -> Tensor:
        return torch.arange(len(y)) < next(coming) * len(y)

    return score


def evaluator_of(values: list[float], folder: Path | None = None, **how: Any) -> Evaluator:
    how |= {"initial": "none", "count_flops": False}
    score = Score(falling(values), UNIT)
    return Evaluator({"a": rows(400)}, record=folder, score=score, **how)


def run_through(evaluator: Evaluator, steps: int) -> Evaluator:
    with evaluator, evaluator.task("a", None):
        for _ in range(steps):
            evaluator.step(torch.nn.Identity())
    return evaluator


def test_a_warning_at_each_edge_and_in_the_record(tmp_path: Path) -> None:
    values = [0.9, 0.2, 0.2, 0.9, 0.2, 0.9]
    evaluator = evaluator_of([*values, 0.5], tmp_path, alarm="current < 0.5")
    _, said = quietly(lambda: run_through(evaluator, 6))
    assert len(said) == 2
    assert said[0].startswith("alarm at step 2: current is 0.2, at most ")
    assert said[1].startswith("alarm at step 5: ")
    assert evaluator.notes == said
    assert [note for note in scored(tmp_path)["notes"] if "alarm" in note] == said


def test_a_stop_leaves_everything_recorded(tmp_path: Path) -> None:
    evaluator = evaluator_of([0.9, 0.8, 0.2, 0.9], tmp_path, alarm=Alarm("current < 0.5", "stop"))
    # Warnings are errors here: the exception is the only thing that the user meets.
    expected = r"alarm at step 3: current is 0.2, at most .*: current < 0.5"
    with pytest.raises(AlarmTriggered, match=expected):
        run_through(evaluator, 10)
    assert [line.score for line in lines(tmp_path)] == [0.9, 0.8, 0.2]
    assert not (tmp_path / "done.json").exists()
    assert any("alarm at step 3" in note for note in scored(tmp_path)["notes"])


def test_training_may_go_on_after_a_stop(tmp_path: Path) -> None:
    values = [0.9, 0.2, 0.2, 0.9, 0.9, 0.9]
    evaluator = evaluator_of(values, tmp_path, alarm=Alarm("current < 0.5", "stop"))
    rang: list[int] = []

    def stubborn() -> None:
        with evaluator, evaluator.task("a", None):
            for step in range(1, 6):
                try:
                    evaluator.step(torch.nn.Identity())
                except AlarmTriggered:
                    rang.append(step)

    quietly(stubborn)
    assert rang == [2]
    assert [line.step for line in lines(tmp_path)] == [1, 2, 3, 4, 5, 5]
    assert (tmp_path / "done.json").exists()


@pytest.mark.parametrize("answer", [True, "the model forgets", 1])
def test_a_function_decides_by_itself(answer: Any) -> None:
    def alarm(live: Live) -> Any:
        return answer if live.current is not None and live.current < 0.5 else None

    evaluator = evaluator_of([0.9, 0.49, 0.48, 0.9, 0.1, 0.9], alarm=alarm)
    _, said = quietly(lambda: run_through(evaluator, 5))
    what = answer if isinstance(answer, str) else "its function returned true"
    assert said == [f"alarm at step 2: {what}", f"alarm at step 5: {what}"]


def test_a_function_of_several_numbers() -> None:
    seen: list[tuple[Any, ...]] = []

    def alarm(live: Live) -> bool:
        seen.append((live.step, live.task, live.current, live.wf[10], live["wf100"]))
        return False

    _, said = quietly(lambda: run_through(evaluator_of([0.9, 0.5, 0.6], alarm=alarm), 2))
    assert said == []
    assert seen == [(1, "a", 0.9, None, None), (2, "a", 0.5, 0.4, 0.4)]


def test_a_function_that_compares_what_is_undefined_so_far() -> None:
    evaluator = evaluator_of([0.9, 0.5], alarm=lambda live: live.min_acc < 0.6)
    with pytest.raises(TypeError, match=r"None while it is undefined.*live\.min_acc is not None"):
        quietly(lambda: run_through(evaluator, 1))


def test_an_alarm_of_a_loss() -> None:
    losses = iter([1.0, 3.0, 1.0])
    evaluator = Evaluator(
        {"a": rows()}, alarm="current > 2", initial="none", count_flops=False,
        score=Score(lambda m, x, y: torch.full((len(y),), next(losses)), lower_is_better=True),
    )  # fmt: skip
    _, said = quietly(lambda: run_through(evaluator, 2))
    assert len(said) == 1
    assert said[0].startswith("alarm at step 2: current is 3")


def test_a_stop_loses_no_result_of_a_worker(tmp_path: Path) -> None:
    """Several results may come in at once: they are recorded, whichever of them rings."""
    model = torch.nn.Linear(4, 3)
    evaluator = Evaluator(
        {"a": rows()}, record=tmp_path, executor=Worker(queue=8), initial="none", count_flops=False,
        alarm=Alarm(lambda live: live.step >= 2, "stop"),
    )  # fmt: skip
    steps = 0

    def loop() -> None:
        nonlocal steps
        with evaluator.task("a", model):
            for _ in range(6):
                steps += 1
                evaluator.step(model)
            evaluator.flush()

    with pytest.raises(AlarmTriggered, match="step 2"):
        quietly(loop)
    quietly(lambda: evaluator.close(finished=False))
    assert [line.step for line in lines(tmp_path)] == list(range(1, steps + 1))


# The line in the terminal.


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(
    monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO, name: str = "a", **how: Any
) -> tuple[str, str]:
    """Return what a short run writes to standard error and to standard output."""
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    for variable in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    values = [0.5, 0.75, 0.75]
    how |= {"score": Score(falling(values), UNIT, name="accuracy")}
    how |= {"initial": "none", "count_flops": False}
    with Evaluator({name: rows(4)}, **how) as evaluator, evaluator.task(name, None):
        evaluator.step(torch.nn.Identity())
        evaluator.step(torch.nn.Identity())
    return stderr.getvalue(), out.getvalue()


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


@pytest.mark.parametrize("ci", [False, True])
@pytest.mark.parametrize("terminal", [False, True])
def test_the_line_is_for_terminals_of_people(
    monkeypatch: pytest.MonkeyPatch, ci: bool, terminal: bool
) -> None:
    monkeypatch.delenv("CI", raising=False)
    if ci:
        monkeypatch.setenv("CI", "true")
    err, out = shown(monkeypatch, Terminal() if terminal else io.StringIO())
    assert out == ""
    assert ("step 1" in err) == (terminal and not ci)
    if not terminal or ci:
        assert err == ""


def test_the_line_says_where_training_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    err, _ = shown(monkeypatch, Terminal())
    line = plain(err).strip().splitlines()[0]
    assert re.match(r"step 1  [\d.e+]+ steps/s  training a  current 0\.500  wc_acc 0\.500", line)
    after = err[err.rindex("steps/s") :]
    assert "\x1b[2K" in after, repr(err)  # the line is wiped out
    assert "\x1b[?25h" in after, repr(err)  # and the cursor is back


def test_no_line_if_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, Terminal(), progress=False) == ("", "")


@pytest.mark.parametrize("terminal", [False, True])
def test_a_line_that_is_insisted_on(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    monkeypatch.setenv("CI", "true")
    err, out = shown(monkeypatch, Terminal() if terminal else io.StringIO(), progress=True)
    assert "current 0.500" in plain(err)
    assert out == ""


@pytest.mark.parametrize("name", ["[red]digits[/red]", "[/]", "[link=x]", r"\[b]", ":smile:"])
def test_names_are_no_markup(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    err, _ = shown(monkeypatch, Terminal(), name, progress=True)
    assert f"training {name}  current 0.500" in plain(err)


def test_the_terminal_is_left_as_it_was_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")

    def broken() -> None:
        with Evaluator({"a": rows()}, progress=True, count_flops=False) as evaluator:
            evaluator.step(torch.nn.Linear(4, 3))
            raise FloatingPointError

    with pytest.raises(FloatingPointError):
        broken()
    text = terminal.getvalue()
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")  # the cursor was hidden, then shown


def test_live_numbers_by_name() -> None:
    live = perdure.Evaluator({"a": rows()}).live
    live.add_windows(3)
    assert live["wf3"] is None
    assert live.wf == {10: None, 100: None, 3: None}
    with pytest.raises(KeyError, match="current, min_acc, wc_acc, wf10, wf100, wf3, wp10"):
        live["wf7"]
