"""A verdict for continuous integration: JUnit XML, GitHub annotations, and Markdown."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from .tables.verdict import describe_requirement, describe_verdict, make_verdict_tables

if TYPE_CHECKING:
    from ..verdict import RequirementResult, Verdict

__all__ = ["format_github", "format_junit", "format_markdown"]

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
