"""The report says each thing once: which methods differ, warnings by kind, names in full."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perdure.metrics import compare_methods
from perdure.report.labels import shorten_names
from perdure.report.load import open_methods
from perdure.report.page.narrative import group_notes, group_undefined, group_warnings
from perdure.report.page.results import describe_verdicts
from perdure.report.page.summaries import summarize_methods

from .cli_helpers import run

if TYPE_CHECKING:
    from pathlib import Path

    from perdure.report.page.narrative import WarningGroup

NAMES = ("er", "ewc", "gem", "si")
LONG = "my_package.strategies.experience_replay:BalancedReservoirReplay lr=0.02 memory={}"


def visible_text(page: Path) -> str:
    """Return what a page says, without its scripts and styles."""
    text = re.sub(r"<(script|style|svg).*?</\1>", "", page.read_text(), flags=re.DOTALL)
    return unescape(re.sub(r"<[^>]+>", " ", text))


def matrices(folder: Path, name: str, seeds: int, level: float) -> str:
    rng = np.random.default_rng(len(name) + 97)
    for seed in range(seeds):
        older, newer = level + rng.normal(0, 0.02, 2)
        (folder / f"{name}-{seed}.csv").write_text(f"0.9,\n{older:.3f},{newer:.3f}\n")
    return f"{name}={folder}/{name}-*.csv"


@pytest.mark.parametrize("seed", range(12))
def test_a_verdict_names_those_that_share_a_letter_with_the_best(seed: int) -> None:
    rng = np.random.default_rng(seed)
    levels = dict(zip(NAMES, rng.choice([0.5, 0.52, 0.6, 0.9], 4), strict=True))
    values: dict[str, dict[int | str, float]] = {
        name: dict(enumerate((level + rng.normal(0, 0.03, 6)).tolist()))
        for name, level in levels.items()
    }
    comparison = compare_methods("acc", values)
    verdict = describe_verdicts({"acc": comparison}, {name: name.upper() for name in NAMES})["acc"]
    best = max(values, key=lambda name: float(np.mean(list(values[name].values()))))
    letters = comparison.letters
    ties = {name for name in NAMES if name != best and set(letters[name]) & set(letters[best])}
    if len({*letters.values()}) == 1:
        assert verdict == "no two methods are distinguishable"
        return
    assert verdict.startswith(f"{best.upper()} is ")
    before, _, after = verdict.partition("better than ")
    assert set(re.findall(r"\b[A-Z]+\b", before)) == {name.upper() for name in (best, *ties)}
    assert set(after.split(", ")) - {""} == {n.upper() for n in NAMES if n not in (best, *ties)}
    assert ("not distinguishable" in before) == bool(ties)


def test_identical_differences_are_doubted() -> None:
    """Without variance p is 0: the page says so next to its verdict, as `perdure compare` does."""
    same: dict[str, dict[int | str, float]] = {"good": {0: 0.75, 1: 0.5}, "bad": {0: 0.5, 1: 0.25}}
    compared = compare_methods("acc", same)
    verdict = describe_verdicts({"acc": compared}, {name: name for name in same})["acc"]
    assert verdict == (
        "good is better than bad (identical difference on all 2 seeds: may be chance on a small "
        "test set)"
    )


def test_of_two_methods_the_better_is_named(tmp_path: Path) -> None:
    page = tmp_path / "x.html"
    sources = [matrices(tmp_path, "good", 5, 0.9), matrices(tmp_path, "bad", 5, 0.4)]
    assert run("report", *sources, "-o", page).code == 0
    assert "Which methods differ acc good is better than bad" in " ".join(
        visible_text(page).split()
    )


def log(folder: Path, strategy: str, n: int, *, done: bool = True) -> None:
    """Write a run with noisy evaluations of `n` examples."""
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"config": {"strategy": strategy, "seed": 0}}))
    rows = [f"{k},a,a,probe,{0.5 + 0.001 * k},{n}" for k in range(1, 30)]
    rows += [
        f"{k},b,{task},probe,{score},{n}"
        for k in range(30, 60)
        for task, score in (("a", 0.6), ("b", 0.9))
    ]
    (folder / "points.csv").write_text(
        "step,trained,tested,kind,score,n\n" + "\n".join(rows) + "\n"
    )
    if done:
        (folder / "done.json").write_text("{}")


def test_warnings_are_one_line_per_kind_and_none_is_lost(tmp_path: Path) -> None:
    for k in range(6):
        log(tmp_path / f"m{k}-run", f"m{k}", 50 + 10 * k, done=k < 5)
    methods = summarize_methods(open_methods([str(tmp_path)])[0])
    groups = group_warnings(methods)
    said = [note for method in methods for note in method.notes]
    assert len(groups) <= len(set(said)) + 1 < len(said)
    listed = "\n".join(line for group in groups for line in (group.text, *group.entries))
    for method in methods:
        for note in method.notes:
            assert note in listed
        for id_, bound in method.run_summaries[0].bias.items():
            assert f"{id_} may be up to {bound:.3f} too" in listed, (method.name, id_)
    assert next(g for g in groups if "biased" in g.text).concerns == "all 6 methods"
    assert next(g for g in groups if "unfinished" in g.text).concerns == "m5"
    assert "both methods" in {group.concerns for group in group_warnings(methods[:2])}
    reasons = group_undefined(methods)
    for method in methods:
        for id_, reason in method.summary.undefined.items():
            assert any(concerns(group, id_, reason, method.label) for group in reasons)


def concerns(group: WarningGroup, id_: str, reason: str, label: str) -> bool:
    ids, _, why = group.text.partition(": ")
    who = group.concerns.startswith("all ") or label in (group.concerns, *group.entries)
    return id_ in ids.split(", ") and why == reason and who


def test_notes_on_many_runs_are_counted() -> None:
    notes = [f"left out: runs/x-s{k}: no evaluation was recorded" for k in range(500)]
    [many, one] = group_notes([*notes, "left out: runs/y: not JSON"])
    assert (many.concerns, len(many.entries), one.entries) == ("500 times", 500, [])
    assert set(many.entries) == set(notes)


def test_reasons_on_the_page_name_options_of_the_command(tmp_path: Path) -> None:
    page = tmp_path / "x.html"
    sources = [matrices(tmp_path, "good", 3, 0.9), matrices(tmp_path, "bad", 2, 0.4)]
    assert run("report", *sources, "-o", page).code == 0
    text = visible_text(page)
    assert "expected equally many of each method, or --unpaired" in text
    assert not re.search(r"`[a-z_]+=", text)  # no Python argument


def test_labels_are_short_and_different() -> None:
    names = [
        "er",
        *(LONG.format(k) for k in (100, 500)),
        "a" * 200,
        f"{'a' * 100}c{'a' * 99}",
        "er ",
    ]
    labels = shorten_names(names)
    assert list(labels) == names
    assert len(set(labels.values())) == len(names)
    assert max(map(len, labels.values())) <= 44
    assert labels["er"] == "er"
    assert labels[LONG.format(500)].endswith(" lr=0.02 memory=500")


def test_task_orders_are_shown_apart_with_a_caution(tmp_path: Path) -> None:
    for name, order in (("a", [0, 1]), ("b", [1, 0])):
        log(tmp_path / "runs" / name, "replay", 50)
        config = {"strategy": "replay", "seed": 0, "task_order": order}
        (tmp_path / "runs" / name / "run.json").write_text(json.dumps({"config": config}))
    page = tmp_path / "x.html"
    assert run("report", tmp_path / "runs", "-o", page).code == 0
    text = visible_text(page)
    assert "task_order=[0,1]" in text
    assert "task_order=[1,0]" in text
    assert "These rows differ in the task order" in text
    assert run("report", tmp_path / "runs" / "a", "-o", page).code == 0
    assert "These rows differ" not in visible_text(page)
