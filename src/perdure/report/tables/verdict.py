"""The tables of a verdict and of lost examples, both in words, and as JUnit XML and Markdown."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from .text_table import TextTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...verdict import Flips, RequirementResult, TaskResult, Verdict

__all__ = [
    "describe_verdict",
    "format_github",
    "format_junit",
    "format_markdown",
    "make_flip_tables",
    "make_verdict_tables",
]

WIDTH = 17  # characters of a drawn interval
MAX_FLIPS = 20  # examples per task in a table for people


def draw_interval(low: float, value: float, high: float, limit: float, width: int = WIDTH) -> str:
    """Return an interval with its value and its limit as one line of text.

    Example:
        >>> draw_interval(0.0, 0.5, 1.0, 1.2, width=13)
        '├────●────┤ ┃'
        >>> draw_interval(-0.1, 0.0, 0.1, 0.0, width=9)
        '├───┃───┤'
    """
    start, end = min(low, limit), max(high, limit)
    scale = (width - 1) / (end - start) if end > start else 0.0

    def place(number: float) -> int:
        return round((number - start) * scale) if scale else width // 2

    line = [" "] * width
    for k in range(place(low), place(high) + 1):
        line[k] = "─"
    for number, mark in ((low, "├"), (high, "┤"), (value, "●"), (limit, "┃")):
        line[place(number)] = mark
    return "".join(line)


def make_verdict_tables(
    verdict: Verdict, *, details: bool = False, drawn: bool = True
) -> list[TextTable]:
    """Return the requirements as a table and, with `details`, the tasks of each.

    Without `drawn`, limits are numbers: intervals are drawn for fonts of one width only.
    """
    last = "limit ┃" if drawn else "limit"
    header = ["verdict", "requirement", "value", "bounds", last]
    rows = [
        [one.decision, one.requirement, *_numbers(one, one.limit, drawn=drawn)]
        for one in verdict.requirements
    ]
    tables = [TextTable(header, rows, right=set(header[2:]), keys=2)]
    for result in verdict.requirements if details else ():
        if result.tasks:
            header = ["verdict", "task", "drop", "bounds", last]
            rows = [
                [one.decision, one.task, *_numbers(one, result.limit, drawn=drawn)]
                for one in result.tasks
            ]
            title = f"{result.requirement}, against {result.reference}"
            tables.append(TextTable(header, rows, title=title, right=set(header[2:]), keys=2))
    return tables


def _numbers(result: RequirementResult | TaskResult, limit: float, *, drawn: bool) -> list[str]:
    value, low, high = result.value, result.low, result.high
    if value is None or low is None or high is None:
        return ["", "", ""]
    last = draw_interval(low, value, high, limit) if drawn else f"{limit:g}"
    return [f"{value:.4f}", f"{low:.4f} to {high:.4f}", last]


def describe_verdict(verdict: Verdict) -> list[str]:
    """Return in words what was checked, how sure it is, and what each open requirement needs."""
    against = f" against {verdict.baseline}" if verdict.baseline else ""
    first = f"{verdict.decision}: {verdict.run}{against}"
    if verdict.decision == "INCONCLUSIVE" and verdict.inconclusive:
        first += f" (counts as {verdict.inconclusive.upper()})"
    about = {
        "examples": "other examples of the same tasks, not about other seeds",
        "seeds": "other seeds of the same method",
    }[verdict.uncertainty]
    error = f"{1 - verdict.level:.3g}"
    second = f"each wrong verdict has a probability of {error} at most; bounds are about {about}"
    if any(one.low == one.high and one.value is not None for one in verdict.requirements):
        second += "; a requirement that is decided by its value alone promises nothing"
    return [first, second, *_describe_methods(verdict), *_describe_open(verdict)]


def _describe_methods(verdict: Verdict) -> Iterator[str]:
    methods: dict[str, list[str]] = {}
    for result in verdict.requirements:
        if result.method:
            methods.setdefault(result.method, []).append(result.requirement)
    for method, requirements in methods.items():
        yield f"{', '.join(requirements)}: {method}"


def _describe_open(verdict: Verdict) -> Iterator[str]:
    for result in verdict.requirements:
        if text := describe_requirement(result):
            yield f"{result.requirement}: {text}"


def describe_requirement(result: RequirementResult) -> str:
    """Return which task decides, why a requirement is undefined, and what would decide it."""
    if result.decision == "UNDEFINED":
        return f"undefined: {result.reason}"
    parts = []
    if result.task is not None and result.decision != "PASS":
        parts.append(f"task {result.task}, against {result.reference}")
    elif result.metric is None:
        parts.append(f"against {result.reference}")
    if result.base is not None:
        parts.append(f"the value is {result.metric} minus {result.base:.4f}, that of the baseline")
    if result.decision == "INCONCLUSIVE":
        parts.append(_describe_needed(result))
    return "; ".join(parts)


def _describe_needed(result: RequirementResult) -> str:
    if result.examples is None:
        return "more examples would decide"
    if result.examples_needed is None:
        return "no number of examples would decide: the value is at its limit"
    unit = "seeds" if result.unit == "seeds" else "examples per task"
    return (
        f"about {result.examples_needed:,} {unit} (now {result.examples:,}) would decide with "
        "probability .8 if the value is right"
    )


def make_flip_tables(flips: Flips, *, all_examples: bool = False) -> list[TextTable]:
    """Return what each task has lost, and below it the lost examples.

    Against another run there are only two evaluations, so that nothing comes back in between.
    """
    own = flips.against is None
    header = ["task", "examples", "lost", "gained", *["came back"] * own, "p", "p (Holm)"]
    rows, examples = [], []
    for task in flips.tasks:
        counts = [task.examples, task.lost, task.gained, *([task.returned] if own else [])]
        rows.append([task.task, *map(str, counts), f"{task.p:.3g}", f"{task.p_holm:.3g}"])
        shown = task.flips if all_examples else task.flips[:MAX_FLIPS]
        for flip in shown:
            when = [flip.lost_after, flip.returned_after or ""] if own else []
            examples.append([task.task, str(flip.id), *when])
        if more := len(task.flips) - len(shown):
            examples.append([task.task, f"and {more} more", *([""] * 2 if own else [])])
    tables = [TextTable(header, rows, right=set(header[1:]))]
    if examples:
        names = ["task", "lost example", *(["lost after", "right again after"] if own else [])]
        tables.append(TextTable(names, examples, right={"lost example"}))
    return tables


MARKS = {"PASS": "✅", "FAIL": "❌", "INCONCLUSIVE": "❔", "UNDEFINED": "⛔"}
NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def format_markdown(verdict: Verdict) -> str:
    """Return the verdict as Markdown, for a comment or a step summary."""
    first, *others = describe_verdict(verdict)
    lines = [f"### {MARKS[verdict.decision]} {_escape_markdown(first)}", ""]
    for table in make_verdict_tables(verdict, details=True, drawn=False):
        lines += [table.markdown(), ""]
    notes = [*others, *(f"note: {note}" for note in verdict.notes)]
    return "\n".join([*lines, *(f"- {_escape_markdown(line)}" for line in notes)])


def _escape_markdown(line: str) -> str:
    line = re.sub(r"([\\`*_\[\]|#~])", r"\\\1", " ".join(line.split()))
    return line.replace("<", "&lt;")


def format_junit(verdict: Verdict) -> str:
    """Return the verdict as JUnit XML with a test case per requirement.

    A requirement that is inconclusive is a failure, or skipped if it counts as passed.
    """
    cases = [_junit_case(result, verdict) for result in verdict.requirements]
    kinds = ("failure", "error", "skipped")
    counts = [sum(f"<{kind} " in case for case in cases) for kind in kinds]
    totals = (
        f'tests="{len(cases)}" failures="{counts[0]}" errors="{counts[1]}" skipped="{counts[2]}"'
    )
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            f"<testsuites {totals}>",
            f' <testsuite name="perdure check" {totals}>',
            *cases,
            " </testsuite>",
            "</testsuites>",
        ]
    )


def _junit_case(result: RequirementResult, verdict: Verdict) -> str:
    open_ = f'  <testcase classname="perdure.check" name="{_xml(result.requirement)}"'
    if result.decision == "PASS":
        return f"{open_}/>"
    kind = {"FAIL": "failure", "UNDEFINED": "error", "INCONCLUSIVE": "failure"}[result.decision]
    if result.decision == "INCONCLUSIVE" and verdict.inconclusive == "pass":
        kind = "skipped"
    message = _xml(_message(result))
    type_ = "" if kind == "skipped" else f' type="{result.decision}"'
    return f'{open_}>\n   <{kind}{type_} message="{message}"/>\n  </testcase>'


def _xml(text: str) -> str:
    return escape(NOT_IN_XML.sub("\ufffd", text))


def format_github(verdict: Verdict) -> list[str]:
    """Return a workflow command of GitHub Actions per requirement, which becomes an annotation."""
    return [
        f"::{_github_kind(result, verdict)} title={_github(result.requirement, property_=True)}::"
        f"{_github(_message(result))}"
        for result in verdict.requirements
    ]


def _github_kind(result: RequirementResult, verdict: Verdict) -> str:
    if result.decision == "INCONCLUSIVE":
        return "warning" if verdict.inconclusive == "pass" else "error"
    return "notice" if result.decision == "PASS" else "error"


def _github(text: str, *, property_: bool = False) -> str:
    """Return text with the characters escaped that end a workflow command or one of its parts."""
    for character, code in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A")):
        text = text.replace(character, code)
    return text.replace(":", "%3A").replace(",", "%2C") if property_ else text


def _message(result: RequirementResult) -> str:
    if result.value is None:
        return f"{result.decision}: {result.reason}"
    numbers = f"{result.quantity} is {result.value:.4f} ({result.low:.4f} to {result.high:.4f})"
    return "; ".join(filter(None, [f"{result.decision}: {numbers}", describe_requirement(result)]))
