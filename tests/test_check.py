"""`perdure check`: verdicts, exit codes, baselines, requirements, and what is refused."""

from __future__ import annotations

import base64
import io
import json
import re
from itertools import permutations
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from PIL import Image

import perdure
from perdure.record import InputError
from perdure.report.page import render_page
from perdure.stats import drop_bounds
from perdure.verdict import parse_requirement

from .check_helpers import answers, changed, two_tasks, write_run
from .cli_helpers import refused, run, says, strict

if TYPE_CHECKING:
    from pathlib import Path

LEARNED = "forgetting.learned <= .05"
DROP = "no task drops more than .02"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return two_tasks(tmp_path / "base", forgot=5)


def decision(*words: str | Path) -> tuple[int | None, str]:
    answer = run("check", *words, "--format", "json")
    assert answer.err == "", answer.err
    return answer.code, str(strict(answer.out)["decision"])


@pytest.mark.parametrize(
    ("n", "forgot", "code", "expected"),
    [(1000, 5, 0, "PASS"), (1000, 200, 1, "FAIL"), (30, 1, 3, "INCONCLUSIVE")],
)
def test_exit_codes(tmp_path: Path, n: int, forgot: int, code: int, expected: str) -> None:
    folder = two_tasks(tmp_path / "run", n, forgot=forgot)
    assert decision(folder, "--require", LEARNED) == (code, expected)
    for counts_as, other in (("pass", 0), ("fail", 1)):
        words = ("--require", LEARNED, "--inconclusive", counts_as)
        assert decision(folder, *words) == (other if code == 3 else code, expected)


def test_undefined_fails_closed_whatever_else_holds(tmp_path: Path) -> None:
    folder = two_tasks(tmp_path / "run", forgot=200)
    words = ("--require", LEARNED, "--require", "fwt.gem >= 0")
    assert decision(folder, *words) == (2, "UNDEFINED")
    assert decision(folder, *words, "--inconclusive", "pass") == (2, "UNDEFINED")
    says(run("check", folder, *words).out, "fwt.gem >= 0: undefined: needs", "UNDEFINED")


def test_the_number_that_would_decide_is_stated(tmp_path: Path) -> None:
    folder = two_tasks(tmp_path / "run", 100, forgot=3)
    answer = run("check", folder, "--require", LEARNED)
    assert answer.code == 3
    says(answer.out, "examples per task (now 100) would decide with probability .8")


def test_python_and_the_command_say_the_same(tmp_path: Path, base: Path) -> None:
    folder = two_tasks(tmp_path / "run", forgot=30)
    texts = [LEARNED, "acc >= base - .01", DROP]
    verdict = perdure.check(folder, texts, baseline=base)
    words = [word for text in texts for word in ("--require", text)]
    printed = run("check", folder, "--baseline", base, *words, "--format", "json")
    assert strict(printed.out) == json.loads(json.dumps(verdict.to_dict()))
    assert printed.code == verdict.exit_code
    assert "Verdict: " in repr(verdict)


def test_a_frozen_baseline_gives_the_verdict_of_the_run(tmp_path: Path, base: Path) -> None:
    folder = two_tasks(tmp_path / "run", forgot=30)
    assert run("freeze", base, "-o", tmp_path / "b.json").code == 0
    texts = [LEARNED, "acc >= base - .01", "bwt >= base - .1", "acc.pooled >= base", DROP]
    first, second = (perdure.check(folder, texts, baseline=b) for b in (base, tmp_path / "b.json"))
    assert first.requirements == second.requirements
    assert first.decision == second.decision == "FAIL"


def test_the_order_of_examples_and_of_requirements_does_not_matter(
    tmp_path: Path, base: Path
) -> None:
    rng = np.random.default_rng(0)
    learned, other = answers(900, 1000), answers(800, 1000)
    after = changed(learned, 30, 4)
    order = rng.permutation(1000)
    ends = {("a", "a"): learned, ("b", "a"): after, ("b", "b"): other}
    plain = write_run(tmp_path / "plain", ends)
    shuffled = write_run(
        tmp_path / "shuffled",
        {key: right[order] if key[1] == "a" else right for key, right in ends.items()},
        ids={"a": order.tolist()},
    )
    texts = [LEARNED, "acc >= base - .01", DROP]
    expected = perdure.check(plain, texts, baseline=base)
    assert perdure.check(shuffled, texts, baseline=base).requirements == expected.requirements
    for other_order in permutations(texts):
        again = perdure.check(plain, other_order, baseline=base)
        by_text = {one.requirement: one for one in again.requirements}
        assert [by_text[text] for text in texts] == expected.requirements


def test_a_baseline_of_other_examples_is_refused(tmp_path: Path, base: Path) -> None:
    ends = {("a", "a"): answers(900, 1000), ("b", "a"): answers(890, 1000),
            ("b", "b"): answers(800, 1000)}  # fmt: skip
    folder = write_run(tmp_path / "run", ends, ids={"a": range(1, 1001)})
    line = refused("check", folder, "--baseline", base, "--require", DROP)
    says(line, "'a'", "different examples", "999 of 1000")
    says(refused("flips", folder, "--against", base), "different examples")
    fewer = two_tasks(tmp_path / "fewer", 500)
    says(refused("check", fewer, "--baseline", base, "--require", LEARNED), "1000", "500")


def test_pairing_decides_what_sizes_alone_do_not(tmp_path: Path) -> None:
    before = two_tasks(tmp_path / "before", 2000)
    words = ("--require", "no task drops more than .015", "--format", "json")
    after = two_tasks(tmp_path / "after", 2000, second=changed(answers(1600, 2000), 10, 10))
    paired = strict(run("check", after, "--baseline", before, *words).out)
    assert paired["decision"] == "PASS"
    says(paired["requirements"][0]["method"], "paired on examples")
    blind = two_tasks(tmp_path / "blind", 2000, per_example=False)
    unpaired = strict(run("check", blind, "--baseline", before, *words).out)
    assert unpaired["decision"] == "INCONCLUSIVE"
    says(unpaired["requirements"][0]["method"], "unpaired")


def test_without_an_interval_only_the_user_may_decide_by_values(tmp_path: Path) -> None:
    folder = two_tasks(tmp_path / "run", forgot=200, per_example=False, sizes=False)
    answer = run("check", folder, "--require", LEARNED)
    assert answer.code == 2
    says(answer.out, "--point-values", "--per-example")
    assert decision(folder, "--require", LEARNED, "--point-values") == (1, "FAIL")
    assert decision(folder, "--require", "acc >= .7", "--point-values") == (0, "PASS")
    shown = run("check", folder, "--require", LEARNED, "--point-values").out
    says(shown, "point value only", "promises nothing")


def test_drops_are_measured_since_learning_without_a_baseline(tmp_path: Path) -> None:
    folder = two_tasks(tmp_path / "run", forgot=200)
    verdict = perdure.check(folder, DROP)
    (result,) = verdict.requirements
    assert (result.decision, result.task) == ("FAIL", "a")
    assert result.value == pytest.approx(0.2)
    says(result.reference, "when learned")
    assert [one.task for one in result.tasks] == ["a"]  # b was learned last: nothing came after


def test_a_run_without_order_is_checked_against_a_baseline(tmp_path: Path) -> None:
    right = answers(900, 1000)
    before = write_run(tmp_path / "before", {("", "a"): right, ("", "b"): right})
    after = write_run(tmp_path / "after", {("", "a"): right, ("", "b"): changed(right, 200, 0)})
    assert run("freeze", before, "-o", tmp_path / "b.json").code == 0
    for baseline in (before, tmp_path / "b.json"):
        assert decision(after, "--baseline", baseline, "--require", DROP) == (1, "FAIL")
        assert decision(before, "--baseline", baseline, "--require", DROP) == (0, "PASS")
    assert decision(after, "--require", "acc >= .5") == (2, "UNDEFINED")
    assert decision(after, "--require", DROP) == (2, "UNDEFINED")


def test_tasks_that_are_never_learned_count_too(tmp_path: Path) -> None:
    right = answers(900, 1000)
    ends = {("a", "a"): right, ("a", "control"): changed(right, 150, 0)}
    folder = write_run(tmp_path / "run", ends, initial={"control": right})
    (result,) = perdure.check(folder, DROP).requirements
    assert (result.decision, result.task) == ("FAIL", "control")
    (task,) = perdure.flips(folder).tasks
    assert (task.task, task.lost, task.gained) == ("control", 150, 0)


def test_a_task_of_the_baseline_that_is_missing_is_undefined(tmp_path: Path, base: Path) -> None:
    right = answers(900, 1000)
    alone = write_run(tmp_path / "alone", {("a", "a"): right})
    assert decision(alone, "--baseline", base, "--require", DROP) == (2, "UNDEFINED")
    more = write_run(tmp_path / "more", {
        ("a", "a"): right, ("b", "a"): right, ("b", "b"): answers(800, 1000), ("b", "new"): right,
    })  # fmt: skip
    says(
        run("check", more, "--baseline", base, "--require", DROP).out, "not in the baseline", "new"
    )


def test_noise_of_the_scorer_widens_the_bounds(tmp_path: Path, base: Path) -> None:
    folder = two_tasks(tmp_path / "run", forgot=50)
    quiet = perdure.check(folder, DROP, baseline=base, noise=folder)
    assert quiet.requirements == perdure.check(folder, DROP, baseline=base).requirements
    noisy = two_tasks(
        tmp_path / "again", first=changed(answers(900, 1000), 60, 60), second=answers(800, 1000)
    )
    verdict = perdure.check(folder, DROP, baseline=base, noise=noisy)
    one, other = verdict.requirements[0], quiet.requirements[0]
    assert (one.low, other.low) == (min(one.low or 0, other.low or 0), other.low)
    assert (one.high or 0) > (other.high or 0)
    assert (other.decision, one.decision) == ("FAIL", "INCONCLUSIVE")
    assert any("noise of the scorer" in note for note in verdict.notes)


def test_several_runs_are_seeds(tmp_path: Path) -> None:
    news = [two_tasks(tmp_path / f"n{k}", forgot=200 + k) for k in range(4)]
    olds = [two_tasks(tmp_path / f"o{k}", forgot=2 * k) for k in range(3)]
    verdict = perdure.check(news, [LEARNED, "acc >= base - .01"], baseline=olds)
    assert verdict.decision == "FAIL"
    assert verdict.uncertainty == "seeds"
    assert [one.method for one in verdict.requirements] == [
        "Student's t over 4 seeds", "Welch's t over 4 and 3 seeds",
    ]  # fmt: skip
    assert perdure.check(news[:2], LEARNED).decision == "UNDEFINED"
    same = [two_tasks(tmp_path / f"s{k}", forgot=200) for k in range(3)]
    says(perdure.check(same, LEARNED).requirements[0].reason, "same value")
    says(refused("check", *news, "--baseline", olds[0], "--require", LEARNED), "4 and 1 runs")


def test_an_unfinished_run_is_refused(tmp_path: Path) -> None:
    folder = two_tasks(tmp_path / "run")
    (folder / "run.json").write_text('{"schema": 1, "config": {}}')
    says(refused("check", folder, "--require", LEARNED), "interrupted", "finished")
    says(refused("freeze", folder, "-o", tmp_path / "b.json"), "finished")
    assert not (tmp_path / "b.json").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("acc => .9", ("word 2 is '=>'", "<= or >=")),
        ("akk >= .9", ("word 1 is 'akk'", "metric")),
        ("acc >= 5%", ("word 3 is '5%'", "fractions")),
        ("acc >= base - x", ("word 5 is 'x'", "number")),
        ("acc >= base .1", ("word 4 is '.1'", "+ or -")),
        ("acc >=", ("word 3 is missing", "number")),
        ("acc >= .9 .8", ("word 4 is '.8'", "nothing")),
        ("no task drop more than .1", ("word 3 is 'drop'", "'drops'")),
        ("no task drops more than -.1", ("word 6 is '-'",)),
        ("forgetting <= .1", ("several metrics", "forgetting.learned")),
        ("__import__('os') <= 1", ("word 1", "metric")),
        ("", ("empty",)),
        ("acc >= 90", ("at most 1", "write 0.9")),
        ("acc >= base - 1e-2 ", ("needs a baseline",)),
        ("acc >= .9" + " " * 300, ("longer than 200",)),
    ],
)
def test_requirements_that_are_wrong_name_the_word(
    tmp_path: Path, text: str, words: tuple[str, ...]
) -> None:
    folder = two_tasks(tmp_path / "run", 20)
    says(refused("check", folder, "--require", text), *words)


def test_every_metric_can_be_required() -> None:
    for id_ in (*perdure.metrics.METRICS, "wf10", "wpall", "lca5"):
        if perdure.metrics.find_metric(id_).parameter is None or id_[-1].isdigit():
            requirement = parse_requirement(f"{id_}<=base+.1")
            assert (requirement.metric, requirement.limit, requirement.relative) == (id_, 0.1, True)


def test_requirements_from_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = two_tasks(tmp_path / "run", 30, forgot=1)
    file = tmp_path / "gate.toml"
    file.write_text(f'require = ["{LEARNED}"]\ninconclusive = "pass"\n')
    assert decision(folder, "--requirements", file) == (0, "INCONCLUSIVE")
    assert decision(folder, "--requirements", file, "--inconclusive", "fail")[0] == 1
    monkeypatch.chdir(tmp_path)
    says(refused("check", folder), "no requirement is given", "--require")
    (tmp_path / "pyproject.toml").write_text(
        f'[tool.perdure.check]\nrequire = ["{LEARNED}"]\nlevel = 0.6\nbaseline = "base"\n'
    )
    two_tasks(tmp_path / "base", 30)
    verdict = strict(run("check", folder, "--format", "json").out)
    assert (verdict["level"], verdict["baseline"]) == (0.6, "base")
    file.write_text(f'require = ["{LEARNED}"]\nlevels = 0.9\n')
    says(refused("check", folder, "--requirements", file), "levels", "gate.toml")
    says(refused("check", folder, "--requirements", tmp_path / "none.toml"), "no such file")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"schema": 1', '"schema": 2'),
        lambda text: text.replace('"schema": 1', '"schema": "1"'),
        lambda text: text.replace('"examples": 1000', '"examples": 999'),
        lambda text: text.replace('"score": 0.895', '"score": 0.5'),
        lambda text: text.replace('"learned"', '"taught"'),
        lambda text: text.replace('"name": "a"', '"name": "b"'),
        lambda text: text.replace("//", "~~"),
        lambda text: '{"schema":' * 5000,
    ],
)
def test_a_broken_baseline_is_refused(tmp_path: Path, base: Path, spoil: object) -> None:
    file = tmp_path / "b.json"
    assert run("freeze", base, "-o", file).code == 0
    whole = file.read_text()
    file.write_text(spoil(whole))  # type: ignore[operator]
    assert file.read_text() != whole
    says(refused("check", base, "--baseline", file, "--require", DROP), "b.json")


def test_junit_is_well_formed_whatever_tasks_are_called(tmp_path: Path) -> None:
    name = 'a <b> & "c" \' ]]> %0A::error::'
    right = answers(900, 1000)
    before = write_run(tmp_path / "x", {("", name): right, ("", "b"): right})
    after = write_run(tmp_path / "y", {("", name): changed(right, 300, 0), ("", "b"): right})
    words = ("check", after, "--baseline", before, "--require", DROP, "--require", "acc <= 1")
    answer = run(*words, "--format", "junit")
    suites = ET.fromstring(answer.out)
    (suite,) = suites
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "1")
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert name in (failure.get("message") or "")
    assert answer.code == 2


def test_github_annotations_cannot_be_forged_by_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "100%: a::error::b"
    right = answers(900, 1000)
    before = write_run(tmp_path / "x", {("", name): right})
    after = write_run(tmp_path / "y", {("", name): changed(right, 300, 0)})
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    words = ("check", after, "--baseline", before, "--require", DROP, "--format", "github")
    answer = run(*words)
    (line,) = answer.out.splitlines()
    assert line.startswith(f"::error title={DROP}::FAIL: drop of 100%25: a")
    text = summary.read_text()
    assert text.startswith("before\n### ")
    says(text, "FAIL", "| verdict | requirement |")


def test_formats_and_inconclusive_pass(tmp_path: Path) -> None:
    folder = two_tasks(tmp_path / "run", 30, forgot=1)
    words = ("check", folder, "--require", LEARNED, "--inconclusive", "pass")
    assert "<skipped " in run(*words, "--format", "junit").out
    assert run(*words, "--format", "github").out.startswith("::warning ")
    says(run(*words, "--format", "markdown").out, "### ", "counts as PASS", "| INCONCLUSIVE |")
    says(run(*words).out, "├", "┃", "●")


def test_flips_say_what_was_lost_when_and_what_came_back(tmp_path: Path) -> None:
    t, f = True, False
    table = np.array([[t, t, t, f, t], [t, f, f, f, t], [t, f, t, t, t], [t, f, t, t, f]])
    ends = {(task, "a"): table[k] for k, task in enumerate("abcd")}
    ends |= {("b", "b"): table[0], ("c", "b"): table[0], ("d", "b"): table[0],
             ("c", "c"): table[0], ("d", "c"): table[0], ("d", "d"): table[0]}  # fmt: skip
    folder = write_run(tmp_path / "run", ends, ids={"a": [10, 11, 12, 13, 14]})
    first, *others = perdure.flips(folder).tasks
    assert (first.task, first.lost, first.gained, first.returned) == ("a", 2, 1, 1)
    assert [tuple(flip) for flip in first.flips] == [
        (11, "b", None), (14, "d", None), (12, "b", "c"),
    ]  # fmt: skip
    assert all((task.lost, task.gained) == (0, 0) for task in others)
    shown = run("flips", folder)
    says(shown.out, "came back", "right again after")
    plain = strict(run("flips", folder, "--format", "json").out)
    assert plain["tasks"][0]["flips"][0] == {"id": 11, "lost_after": "b", "returned_after": None}


def test_flips_against_an_earlier_run(tmp_path: Path, base: Path) -> None:
    folder = two_tasks(tmp_path / "run", forgot=25)
    assert run("freeze", base, "-o", tmp_path / "b.json").code == 0
    for against in (base, tmp_path / "b.json"):
        first = perdure.flips(folder, against).tasks[0]
        assert (first.lost, first.gained) == (20, 0)
        assert first.p == pytest.approx(2 * 0.5**20)
    blind = two_tasks(tmp_path / "blind", per_example=False)
    says(refused("flips", blind), "per-example results")


@pytest.mark.slow
def test_a_check_of_many_requirements_rarely_fails_at_its_limits(tmp_path: Path) -> None:
    """Every task at its limit: the run keeps all requirements, so FAIL is wrong."""
    rng = np.random.default_rng(3)
    wrong = {"PASS": 0, "FAIL": 0}
    n, repeats = 60, 400
    for k in range(repeats):
        before = {task: rng.random(n) < 0.8 for task in "ab"}
        after = {}
        for task, right in before.items():
            # 10% of all examples are lost and 5% gained: the drop is 5%
            flips = rng.random(n) < np.where(right, 0.1 / 0.8, 0.05 / 0.2)
            after[task] = right ^ flips
        old = write_run(tmp_path / f"o{k}", {("", t): r for t, r in before.items()})
        new = write_run(tmp_path / f"n{k}", {("", t): r for t, r in after.items()})
        verdict = perdure.check(new, "no task drops more than .05", baseline=old)
        if verdict.decision in wrong:
            wrong[verdict.decision] += 1
    assert max(wrong.values()) <= repeats * 0.05 + 3 * np.sqrt(repeats * 0.05 * 0.95)


def test_the_report_draws_lost_examples_and_escapes_names(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    name = "<b>a</b>"
    right = answers(900, 1000)
    ends = {(name, name): right, ("b", name): changed(right, 250, 0), ("b", "b"): right}
    folder = write_run(tmp_path / "run", ends)
    page = tmp_path / "page.html"
    assert run("report", folder, "-o", page).code == 0
    text = page.read_text(encoding="utf-8")
    section = text[text.index('<section id="lost"') :].partition("</section>")[0]
    assert section.count("<rect ") == 200  # of 250
    says(section, "example 0: lost after b", "and 50 more", "250 lost", "&lt;b&gt;a")
    assert name not in section
    several = [two_tasks(tmp_path / f"s{k}", forgot=k) for k in range(2)]
    assert run("report", *(f"mine={one}" for one in several), "-o", page).code == 0
    assert '<section id="lost"' not in page.read_text(encoding="utf-8")


def test_the_error_of_fail_is_shared_over_tasks_and_over_requirements(tmp_path: Path) -> None:
    """A drop that is significant by itself, not among ten tasks or ten requirements."""
    right = answers(900, 1000)
    lost = changed(right, 30, 0)  # P(30 lost or more at a drop of .02) = .02
    alone = [
        write_run(tmp_path / f"alone{k}", {("", "a"): one}) for k, one in enumerate((right, lost))
    ]
    assert perdure.check(alone[1], DROP, baseline=alone[0]).decision == "FAIL"
    others = {("", f"t{k}"): right for k in range(9)}
    ten = [
        write_run(tmp_path / f"ten{k}", {("", "a"): one, **others})
        for k, one in enumerate((right, lost))
    ]
    (result,) = perdure.check(ten[1], DROP, baseline=ten[0]).requirements
    assert (result.decision, result.task) == ("INCONCLUSIVE", "a")
    assert result.low == drop_bounds(30, 0, 1000, alpha=(1 - 0.95) / 10).low
    assert result.high == drop_bounds(30, 0, 1000, alpha=1 - 0.95).high
    learned = [
        two_tasks(tmp_path / f"learned{k}", first=right, forgot=forgot)
        for k, forgot in enumerate((0, 30))
    ]
    easy = [f"acc >= .{k}" for k in range(1, 7)] + [f"acc.learning >= .{k}" for k in range(1, 4)]
    text = "forgetting.learned <= .02"
    assert perdure.check(learned[1], text).decision == "FAIL"
    verdict = perdure.check(learned[1], [*easy, text])
    assert [one.decision for one in verdict.requirements] == ["PASS"] * 9 + ["INCONCLUSIVE"]


def test_a_pass_needs_no_correction(tmp_path: Path, base: Path) -> None:
    folder = two_tasks(tmp_path / "run", forgot=5)
    texts = [LEARNED, *(f"acc >= .{k}" for k in range(1, 8))]
    one, many = perdure.check(folder, LEARNED), perdure.check(folder, texts)
    assert one.requirements[0].high == many.requirements[0].high
    assert one.decision == many.decision == "PASS"


def test_a_task_that_cannot_be_compared_is_never_passed_over(tmp_path: Path) -> None:
    right = answers(900, 1000)
    gone = {("a", "a"): right, ("b", "b"): right, ("c", "b"): right, ("c", "c"): right}
    says(_reason(write_run(tmp_path / "gone", gone)), "no last score of 'a'")
    new = {("a", "a"): right, ("b", "a"): right, ("b", "b"): right, ("b", "control"): right}
    says(_reason(write_run(tmp_path / "new", new)), "'control' is never learned")
    says(_reason(write_run(tmp_path / "one", {("a", "a"): right})), "no task has an earlier score")


def _reason(folder: Path) -> str:
    verdict = perdure.check(folder, DROP)
    assert verdict.exit_code == 2
    return verdict.requirements[0].reason


def pictures(task: str, id_: int) -> object:
    """Return an image for the first task, a text with markup for the others."""
    if task == "a":
        return np.full((1, 6, 6), id_ % 256, dtype=np.uint8)
    return f"<b>{task}</b> example {id_} " + "long " * 100


def lost_run(folder: Path) -> Path:
    """Return a run in which the first ten examples of task a are lost."""
    right = np.ones(40, dtype=bool)
    worse = right.copy()
    worse[:10] = False
    with perdure.Log(folder) as log:
        log.add(1, "a", "a", correct=right, kind="full")
        for task, correct in (("a", worse), ("b", right)):
            log.add(2, "b", task, correct=correct, kind="full")
        for task, correct in (("a", worse), ("b", worse), ("c", right)):
            log.add(3, "c", task, correct=correct, kind="full")
    return folder


def test_the_report_shows_lost_examples_as_thumbnails_and_text(tmp_path: Path) -> None:
    methods = {"mine": [perdure.open_run(lost_run(tmp_path / "run"))]}
    page = render_page(methods, examples=pictures)
    images = re.findall(r'<img src="data:image/png;base64,([^"]+)" alt="">', page)
    seen = [Image.open(io.BytesIO(base64.b64decode(image))).getpixel((3, 3)) for image in images]
    assert seen == [(k, k, k) for k in range(10)]
    assert page.count("<q>&lt;b&gt;b&lt;/b&gt; example ") == 10
    assert "<b>b</b> example" not in page
    assert "…</q>" in page
    assert "<img src" not in render_page(methods)


def test_an_example_that_cannot_be_shown_names_it(tmp_path: Path) -> None:
    methods = {"mine": [perdure.open_run(lost_run(tmp_path / "run"))]}
    with pytest.raises(InputError, match=r"example 0 of task 'a' cannot be shown \(KeyError: 0"):
        render_page(methods, examples=lambda task, id_: dict[int, str]()[id_])
    with pytest.raises(InputError, match=r"shape \(2,\) is no image"):
        render_page(methods, examples=lambda task, id_: [1, 2])


def test_the_option_names_a_function(tmp_path: Path) -> None:
    folder = lost_run(tmp_path / "run")
    page = tmp_path / "r.html"
    shown = run("report", folder, "-o", page, "--examples", "tests.test_check:pictures")
    assert shown.code == 0, shown.err
    assert "data:image/png" in page.read_text(encoding="utf-8")
    line = refused("report", folder, "-o", page, "--examples", "math:pi")
    says(line, "examples 'math:pi' is float", "expected a function")
