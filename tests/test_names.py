"""Names that people type: aliases, families, patterns, tools' names, and formulas as text."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

import perdure
from perdure._suggestions import normalize_name
from perdure.metrics import (
    FAMILIES,
    METRIC_ALIASES,
    METRICS,
    TOOLS,
    SummaryOptions,
    family_members,
    find_metric,
    metric_symbol,
    plain_formula,
    resolve_metric,
    select_metric_ids,
)
from perdure.strategies import STRATEGIES, STRATEGY_ALIASES, resolve_strategy
from perdure.studies import make_study

from .cli_helpers import R, refused, run, says, scored, strict, table, write

if TYPE_CHECKING:
    from pathlib import Path

IDS = [id_ for base in METRICS for id_ in SummaryOptions().ids_of(base)]


def test_every_alias_leads_to_something_and_hides_nothing() -> None:
    for word, ids in METRIC_ALIASES.items():
        assert word == normalize_name(word)
        assert set(ids) <= set(IDS)
        assert word not in METRICS or METRICS[word].parameter is not None
    for word, name in STRATEGY_ALIASES.items():
        assert word == normalize_name(word)
        assert name in STRATEGIES
        assert word not in {normalize_name(name) for name in STRATEGIES}
    assert not {*METRIC_ALIASES, *FAMILIES} & {*STRATEGY_ALIASES, *STRATEGIES, *TOOLS}


def test_every_id_stands_for_itself() -> None:
    assert [resolve_metric(id_) for id_ in IDS] == IDS
    assert [resolve_metric(id_.upper()) for id_ in METRICS if not METRICS[id_].parameter] == [
        id_ for id_ in METRICS if not METRICS[id_].parameter
    ]
    assert [resolve_strategy(name.upper()) for name in STRATEGIES] == list(STRATEGIES)


@pytest.mark.parametrize("name", ["forgetting", "fwt", "FM", "gap", "wf", "accuracy"])
def test_a_name_of_several_metrics_is_refused_with_all_of_them(name: str) -> None:
    with pytest.raises(ValueError, match="stands for several metrics") as error:
        resolve_metric(name)
    ids = METRIC_ALIASES.get(name.lower()) or family_members(name.lower())
    says(str(error.value), *ids)


def test_a_pattern_matches_the_family_and_its_name() -> None:
    assert select_metric_ids(["acc.*"]).ids == family_members("acc")
    assert select_metric_ids(["wf*"]).ids == ["wf10", "wf100", "wfall"]
    assert select_metric_ids(["acc", "acc.*"]).named == ["acc"]
    with pytest.raises(ValueError, match="no id of a metric matches"):
        select_metric_ids(["zzz*"])


def test_families_say_which_member_to_use() -> None:
    for word, family in FAMILIES.items():
        members = family_members(word)
        assert len(members) > 1
        for id_ in members:
            assert id_ in family.advice
        for id_ in family.related:
            assert id_ in METRICS


def test_the_order_that_the_family_page_states() -> None:
    """forgetting.learned <= best <= peak and best <= any, on any matrix."""
    rng = np.random.default_rng(0)
    functions = {id_: METRICS[id_].function for id_ in family_members("forgetting")[:4]}
    for _ in range(200):
        r = rng.random((4, 4))
        value = {id_.partition(".")[2]: float(function(r)) for id_, function in functions.items()}
        assert value["learned"] <= value["best"] + 1e-12
        assert value["best"] <= min(value["peak"], value["any"]) + 1e-12


def test_every_formula_has_a_plain_text_without_latex() -> None:
    for id_ in IDS:
        for latex in (find_metric(id_).formula, metric_symbol(id_)):
            text = plain_formula(latex)
            assert not re.search(r"\\|[_^]\{|\bfrac|  ", text), text
            assert text.count("(") == text.count(")")
            assert text.count("[") == text.count("]")
            assert text
    with pytest.raises(ValueError, match="no plain text"):
        plain_formula(r"\unknown")


def test_plain_formulas_compute_what_the_metrics_compute() -> None:
    """The text of a formula, read as Python, gives the metric: it has lost nothing."""
    r = np.array(R)
    tasks = len(r)

    def total(pairs: str, term: str) -> float:
        """Return the sum over 1-based i and j that meet a condition."""
        return sum(
            float(eval(term, {"R": lambda a, b: r[a - 1, b - 1], "T": tasks, "i": i, "j": j}))
            for i in range(1, tasks + 1)
            for j in range(1, tasks + 1)
            if eval(pairs, {"i": i, "j": j, "T": tasks})
        )

    for id_ in (
        "acc.lower",
        "acc.below",
        "acc.all",
        "bwt",
        "bwt.all",
        "bwt.consecutive",
        "fwt.upper",
    ):
        text = plain_formula(METRICS[id_].formula).partition(" = ")[0]
        found = re.fullmatch(r"(\S+) Σ\[(.+?)\] (.+)", text)
        assert found, text
        factor, index, term = found.groups()
        condition = index.replace("≥", ">=").replace("i,j", "True")
        condition += "" if "i" in index else " and i == T"  # a sum over j only
        term = re.sub(r"R\[(.+?),(.+?)\]", r"R(\1, \2)", term)
        factor = factor.replace("T(", "T*(").replace("^", "**")
        value = eval(factor, {"T": tasks}) * total(condition.replace("True", "i*j"), term)
        assert value == pytest.approx(float(METRICS[id_].function(r))), id_


def test_score_takes_aliases_and_says_so(tmp_path: Path) -> None:
    path = write(tmp_path, "r.csv", table())
    answer = run("score", path, "--metrics", "AA,la", "--format", "json")
    assert list(strict(answer.out)["metrics"]) == ["acc", "acc.learning"]
    assert answer.err == "perdure: note: AA means acc\nperdure: note: la means acc.learning\n"
    says(
        refused("score", path, "--metrics", "forgetting"),
        "several",
        "forgetting.best",
        "'forgetting.*'",
    )


def test_the_functions_take_aliases_too(tmp_path: Path) -> None:
    scores = perdure.score(R, metrics=["aa", "omega.*"])
    assert list(scores.metrics) == ["acc", "omega.new"]
    assert "aa means acc" in scores.notes
    report = perdure.compare({"a": [R, R], "b": [R, R]}, metrics=["LA"])
    assert list(report.metrics) == ["acc.learning"]
    assert "LA means acc.learning" in report.notes
    groups = perdure.score_groups(write(tmp_path, "r.csv", table()), metrics=["la"])
    assert groups.notes == ["la means acc.learning"]
    with pytest.raises(ValueError, match="several metrics"):
        perdure.score(R, metrics="forgetting")


def test_an_undefined_metric_of_a_pattern_is_no_failure(tmp_path: Path) -> None:
    path = write(tmp_path, "r.csv", table())
    assert list(scored(path, "--metrics", "forgetting.*")["undefined"]) == ["forgetting.ratio"]
    assert scored(path, "--metrics", "forgetting.*,forgetting.ratio", code=1)
    assert scored(path, "--metrics", "gap.*", code=1)["metrics"] == {}


def test_explain_knows_tools_their_names_and_families() -> None:
    says(
        run("explain", "avalanche").out,
        *(metric.name for metric in TOOLS["avalanche"]),
        "acc.pooled",
    )
    says(run("explain", "streambwt").out, "bwt: backward transfer", "1/(T-1) Σ[j<T]")
    family = run("explain", "forgetting").out
    says(family, *family_members("forgetting"), "mammoth", "continuum")
    both = run("explain", "acc").out
    says(both, "acc: average accuracy", "acc.pooled", "'acc.*'")
    says(run("explain", "acc.*").out, *family_members("acc"), FAMILIES["acc"].about)
    says(run("explain", "FM").out, "forgetting.best:", "forgetting.peak:")
    says(refused("explain", "avalnche"), "did you mean avalanche")
    says(run("explain", "split-mnist").out, "tasks    5, class-incremental", "mlp", "perdure run")
    says(run("explain", "m2i").out, "bwt.consecutive", "perdure run m2i replay")
    says(run("explain", "mlp").out, "two hidden layers")
    answer = run("explain", "er")
    assert (answer.out.split(":")[0], answer.err) == ("replay", "perdure: note: er means replay\n")


def test_explain_and_which_name_one_id_for_what_a_tool_prints() -> None:
    says(run("explain", "mammoth").out, "usually forgetting.peak", "R[j-1, j]")
    family = run("explain", "forgetting").out
    says(family, "Forgetting by mammoth (usually)")
    assert "  mammoth\n" not in family  # among tools that print something else
    printed = {m.id: m.printed_by for m in perdure.which(R, "0.225").matches}
    assert "mammoth (Forgetting)" in printed["forgetting.peak"]


def test_a_suggestion_is_something_that_can_be_typed() -> None:
    says(refused("explain", "forgeting"), "did you mean forgetting or ")


def test_explain_prints_latex_only_on_request() -> None:
    everything = run("explain", *METRICS, *TOOLS, *FAMILIES, *(f"{word}.*" for word in FAMILIES))
    assert everything.code == 0
    assert "\\" not in everything.out
    latex = run("explain", "bwt", "--format", "latex").out
    assert METRICS["bwt"].formula in latex
    (entry,) = json.loads(run("explain", "StreamBWT", "--format", "json").out)
    assert (entry["id"], entry["formula"]) == ("bwt", METRICS["bwt"].formula)
    says(refused("explain", "ewc", "--format", "latex"), "'ewc'", "no formula")


def test_run_says_where_the_strategy_belongs() -> None:
    says(refused("run", "ewc"), "is a strategy", "`perdure run split-digits ewc`")
    says(refused("run", "A-GEM", "split-mnist"), "comes first: `perdure run split-mnist agem`")
    answer = run("run", "split-digits", "finetune", "--dry-run", "--seeds", "1")
    assert answer.out.startswith("split-digits, naive, ")
    assert answer.err == "perdure: note: finetune means naive\n"


def test_a_study_takes_aliases() -> None:
    plain: dict[str, object] = {
        "scenarios": ["split-digits"], "strategies": ["finetune", "ER"], "select": {"metric": "aa"},
        "strategy": {"er": {"memory": 50}},
    }  # fmt: skip
    study = make_study(plain, "s")
    assert study.strategies == ["naive", "replay"]
    assert study.notes == [
        "finetune means naive",
        "ER means replay",
        "er means replay",
        "aa means acc",
    ]
    config = study.make_configs(study.cells[1], {})[0]
    assert (config.strategy, config.options["memory"]) == ("replay", 50)
    with pytest.raises(ValueError, match="listed twice"):
        make_study({"scenarios": ["split-digits"], "strategies": ["er", "replay"]}, "s")
    with pytest.raises(ValueError, match="unknown key 'notes'"):
        make_study({**plain, "notes": []}, "s")
