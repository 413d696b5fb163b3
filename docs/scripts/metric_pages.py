"""The pages of the metrics, from the registry: formula, interpretation, example, other names."""

from __future__ import annotations

import inspect
import re
import textwrap
from pathlib import Path

from perdure.metrics import GROUPS, METRICS, NEEDS, TOOLS, Metric, ScoreMatrix, summary
from perdure.record import read_input

__all__ = ["group_file", "metric_pages"]

ROOT = Path(__file__).parents[2]
FIVE_TASKS = "examples/five_tasks.json"
SYMBOLS = {
    "matrix": "R<sub>i,j</sub> is the score on task j after learning task i, and T the number of "
    "tasks; b, J and S are the scores of the untrained, the jointly trained and the single-task "
    "models, O<sub>i</sub> is the mean score on tasks 1 to i of a model trained offline on them, "
    "and n<sub>j</sub> is the number of test examples of task j.",
    "stream": "A(E<sub>i</sub>, f<sub>n</sub>) is the score on task i after iteration n, "
    "t<sub>i</sub> the last iteration of task i, and N the number of tasks.",
    "control": "F<sub>c</sub> is the score on control task c at the end, b<sub>c</sub> before "
    "training, and C the number of control tasks.",
    "costs": "Sizes and costs are those of `costs.csv`, per task: see "
    "[a run folder](../../formats.md#a-run-folder).",
    "runs": "CLscore and CLstability combine seven of the other metrics.",
}
WORDS = {"current", "wf", "wp", "ms", "ce", "sss", "lca", "aaa", "retention", "intransigence"}
IDS = [id_ for id_ in METRICS if id_ not in WORDS]
IN_TEXT = re.compile(
    rf"(?<![\w.])({'|'.join(map(re.escape, sorted(IDS, key=len)[::-1]))})(?![\w-]|\.\w)"
)


def group_file(group: str) -> str:
    """Return the file name of a group of metrics."""
    return f"{group.replace(' ', '-')}.md"


def metric_pages() -> dict[str, str]:
    """Return the pages by file name: one per group of metrics, and an index of all ids."""
    scores = summary(_five_tasks()).metrics
    pages = {group_file(group): _group_page(group, scores) for group in GROUPS}
    return {"index.md": _index(), **pages}


def _index() -> str:
    about = (
        "Every metric has one id and one formula; a metric that is undefined for your numbers "
        "comes with the reason. These pages are generated from the registry, which "
        "`perdure list metrics` and `perdure explain ID` print."
    )
    lines = ["# Metrics", "", about]
    for group, metrics in GROUPS.items():
        page = group_file(group)
        lines += ["", f"## {group.capitalize()}", "", "| id | name | better |", "|---|---|---|"]
        lines += [
            f"| [`{id_}`]({page}#{id_}) | {metric.name} | {metric.better} |"
            for id_, metric in metrics.items()
        ]
    return "\n".join([*lines, ""])


def _group_page(group: str, scores: dict[str, float]) -> str:
    inputs = dict.fromkeys(metric.input for metric in GROUPS[group].values())
    lines = [
        f"# {group.capitalize()}",
        "",
        *(SYMBOLS[kind] + "\n" for kind in inputs if kind in SYMBOLS),
    ]
    for id_, metric in GROUPS[group].items():
        lines += _section(id_, metric, scores.get(id_))
    return "\n".join(lines)


def _section(id_: str, metric: Metric, score: float | None) -> list[str]:
    needs = "; ".join(NEEDS[need] for need in metric.needs)
    reading = f"{metric.rule_of_thumb} {metric.interpretation}".strip()
    facts = [
        ("Interpretation", _with_links(reading, id_)),
        ("Similar metrics", _with_links(metric.distinction, id_)),
        ("Range", f"{metric.low:g} to {metric.high:g} for accuracies; {metric.better} is better."),
        ("Needs", f"{needs}." if needs else ""),
        ("Printed as", _printed_as(id_)),
        ("Source", _with_links(f"{metric.source}.", id_)),
        (
            "Value",
            f"{score:.4f} for [{FIVE_TASKS}](../../examples/five_tasks.md)."
            if score is not None
            else "",
        ),
    ]
    return [
        f"## {id_} {{ #{id_} }}",
        "",
        f"**{metric.name.capitalize()}.** {_in_words(metric)}",
        "",
        f"$${metric.symbol} = {metric.formula}$$",
        "",
        *(f"- **{label}.** {text}" for label, text in facts if text),
        "",
        "```pycon",
        _example(metric),
        "```",
        "",
    ]


def _printed_as(id_: str) -> str:
    """Return who prints a metric under which name."""
    names: dict[str, list[str]] = {}
    for tool, metrics in TOOLS.items():
        for metric in metrics:
            if id_ in (metric.id, metric.nearest):
                usually = "" if metric.id else " (usually)"
                names.setdefault(metric.name, []).append(f"{tool}{usually}")
    text = "; ".join(f"`{name}` by {', '.join(tools)}" for name, tools in names.items())
    return f"{text}." if text else ""


def _in_words(metric: Metric) -> str:
    """Return the first sentence of the function's docstring, which begins with "Return"."""
    doc = inspect.getdoc(metric.function) or ""
    sentence = doc.partition("\n\n")[0].replace("\n", " ").removeprefix("Return ")
    return sentence[:1].upper() + sentence[1:]


def _example(metric: Metric) -> str:
    """Return the example of the function's docstring, which the tests run."""
    doc = inspect.getdoc(metric.function) or ""
    return textwrap.dedent(doc.partition("Example:\n")[2]).strip("\n")


def _with_links(text: str, own: str) -> str:
    """Return a text of the registry as Markdown, with a link at the ids of other metrics."""

    def link(match: re.Match[str]) -> str:
        id_ = match[1]
        page = next(group_file(group) for group, metrics in GROUPS.items() if id_ in metrics)
        return f"`{id_}`" if id_ == own else f"[`{id_}`]({page}#{id_})"

    pieces = IN_TEXT.split(text)
    plain = [re.sub(r"([*_<])", r"\\\1", piece) for piece in pieces[::2]]
    linked = [IN_TEXT.sub(link, id_) for id_ in pieces[1::2]]
    return "".join(part for pair in zip(plain, [*linked, ""], strict=True) for part in pair)


def _five_tasks() -> ScoreMatrix:
    matrix = read_input(str(ROOT / FIVE_TASKS)).matrix
    assert matrix is not None
    return matrix
