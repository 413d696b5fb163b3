"""docs/papers.md: how many published numbers land, and why the others do not.

python studies/papers.py            # write docs/papers.md
python studies/papers.py --check    # exit with code 1 if docs/papers.md is out of date

The measured numbers are those of the reports under studies/ (studies/reproduce/*.json) and of
studies/m2i/results_gpu*.json, one file per seed. The causes are in studies/causes.toml.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import msgspec

from perdure.reproduction import Measurements, PublishedResult, load_published_results
from perdure.reproduction.comparison import (
    Agreement,
    ComparisonRow,
    compare_with_published,
    count_agreement,
    count_sds,
)
from perdure.reproduction.measurements import Claim
from perdure.reproduction.published import CELL_FACTORS

ROOT = Path(__file__).resolve().parents[1]
# Faber et al. 2023 print as task-incremental what their code runs domain-incrementally; where that
# was not run, a head per task is the nearest.
NEAREST = {"domain": "task"}
INTRODUCTION = """\
# Published numbers: which land, and why the others do not

Written by `python studies/papers.py` from the results under [studies](../studies) and the causes in
[studies/causes.toml](../studies/causes.toml); `perdure reproduce NAME` measures them
([how](reproduce.md)).

A number lands if the mean over our seeds is within two SDs of the published one. The SD is the
paper's, or ours over three seeds or more if it prints none; with fewer seeds, .03 counts as two
SDs. Ranks are left out, and so are numbers that a figure only shows. *Claims* are sentences of the
paper that are checked as a comparison of numbers. Variants, such as `faber-vgg9-epochs`, measure
numbers of another result with other options; *all* does not count them.
"""


class Cause(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why some numbers or claims do not land; `open` says what was ruled out if that is unknown."""

    result: str
    evidence: str
    where: dict[str, str | list[str]] = {}  # factors of the cell, table, id, details, or claim
    cause: str = ""
    open: str = ""

    def matches(self, fields: dict[str, str]) -> bool:
        """Return whether this is the cause of a number with these fields."""
        wanted = {k: [v] if isinstance(v, str) else v for k, v in self.where.items()}
        return all(fields.get(name) in values for name, values in wanted.items())


class Measured(NamedTuple):
    """Every number of a published result, measured or not, and its claims."""

    result: PublishedResult
    rows: list[ComparisonRow]
    claims: list[Claim]
    sources: dict[str, set[str]]  # files with measured numbers, and the tables that they have

    @property
    def percent(self) -> bool:
        """Whether the numbers are percentages."""
        return self.result.unit == "percent"

    def links(self, table: str | None = None) -> str:
        """Return the name, with a link to each file with numbers, or with those of a table."""
        if not self.sources:
            return self.result.name
        if len(self.sources) == 1:
            return f"[{self.result.name}](../{next(iter(self.sources))})"
        shown = [s for s, tables in self.sources.items() if table is None or table in tables]
        return ", ".join(f"[{Path(source).stem}](../{source})" for source in shown)

    def count(self, rows: list[ComparisonRow]) -> Agreement:
        """Return how many of some rows land."""
        return count_agreement(rows, percent=self.percent)

    def misses(self) -> list[ComparisonRow]:
        """Return the numbers that do not land."""
        return [row for row in self.rows if self.count([row]).beyond]


Key = tuple[str, tuple[str | None, ...], str, str]  # table, factors, details, id


def row_key(row: ComparisonRow) -> Key:
    """Return what tells a number from the others of its result."""
    return row.table, tuple(row.cell.get(name) for name in CELL_FACTORS), row.details, row.id


def load_results(root: Path) -> list[Measured]:
    """Return every published result with what was measured of it."""
    reports: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(root.glob("studies/*/*.json")):
        content = json.loads(path.read_text("utf-8"))
        if isinstance(content, dict) and "rows" in content and not content.get("quick"):
            reports[content["name"]].append(path)
    seeds = sorted(root.glob("studies/m2i/results_gpu*.json"))
    results = []
    for name, result in load_published_results().items():
        rows = [row for row in compare_with_published(Measurements(result, [])) if row.table]
        if name == "faber-vgg9" and not reports[name]:
            rows = [_fill_m2i(row, seeds) for row in rows]
            results.append(Measured(result, rows, [], {"studies/m2i/README.md": set()}))
            continue
        values: dict[Key, list[float]] = {}
        claims: dict[str, Claim] = {}
        sources: dict[str, set[str]] = {}
        for path in reports[name]:
            tables = _add_report(path, {row_key(row) for row in rows}, values, claims)
            sources[str(path.with_suffix(".md").relative_to(root))] = tables
        rows = [row._replace(values=values.get(row_key(row), ())) for row in rows]
        results.append(Measured(result, rows, list(claims.values()), sources))
    return results


def _add_report(
    path: Path, known: set[Key], values: dict[Key, list[float]], claims: dict[str, Claim]
) -> set[str]:
    """Add the numbers and claims of a report, which may have a part; return its tables."""
    report, tables = json.loads(path.read_text("utf-8")), set[str]()
    for row in report["rows"]:
        if row["published"] is None or not row["values"]:
            continue
        key = (row["table"], tuple(row.get(f) for f in CELL_FACTORS), row["details"], row["id"])
        if key not in known or key in values:
            problem = "measured in another report too" if key in values else "not in its TOML file"
            raise SystemExit(f"{path}: {key} is {problem}; keep one report per number")
        values[key] = row["values"]
        tables.add(row["table"])
    for claim in report["claims"]:
        if claim["holds"] is not None or claim["text"] not in claims:
            claims[claim["text"]] = Claim(**claim)
    return tables


def _fill_m2i(row: ComparisonRow, seeds: list[Path]) -> ComparisonRow:
    """Return a number of Faber et al. 2023 with its values in studies/m2i, one per seed."""
    scenario, setting, strategy = (row.cell[k] for k in ("scenario", "setting", "strategy"))
    for measured in (setting, NEAREST.get(setting, setting)):
        name = f"{scenario} {measured} {strategy}"
        runs = [json.loads(path.read_text("utf-8")).get(name, {}) for path in seeds]
        if values := [run[row.id] for run in runs if row.id in run]:
            return row._replace(values=values, cell={**row.cell, "measured as": measured})
    return row


def load_causes(path: Path, results: list[Measured]) -> list[Cause]:
    """Return the causes in a file, or exit naming one that fits no published number or claim."""
    entries = tomllib.loads(path.read_text("utf-8")).get("cause", [])
    causes = msgspec.convert(entries, list[Cause])
    for cause in causes:
        if bool(cause.cause) == bool(cause.open):
            raise SystemExit(f"{path}: {cause.where} of {cause.result} needs `cause` or `open`")
        ours = [one for one in results if one.result.name == cause.result]
        numbers = [_fields(row) for one in ours for row in one.rows]
        claims = [{"claim": claim.text} for one in ours for claim in one.claims]
        if not any(cause.matches(fields) for fields in numbers + claims):
            raise SystemExit(f"{path}: {cause.where} fits no number or claim of {cause.result}")
    return causes


def _fields(row: ComparisonRow) -> dict[str, str]:
    return {**row.cell, "table": row.table, "id": row.id, "details": row.details}


def find_cause(causes: list[Cause], result: str, fields: dict[str, str]) -> Cause | None:
    """Return the first cause that matches."""
    matching = (one for one in causes if one.result == result and one.matches(fields))
    return next(matching, None)


def check_causes(results: list[Measured], causes: list[Cause]) -> None:
    """Exit naming every number and claim that does not land and has no cause."""
    unexplained = []
    for one in results:
        claims = [{"claim": claim.text} for claim in one.claims if claim.holds is False]
        for fields in [_fields(row) for row in one.misses()] + claims:
            if find_cause(causes, one.result.name, fields) is None:
                shown = ", ".join(f"{name} {value}" for name, value in fields.items() if value)
                unexplained.append(f"{one.result.name}: {shown}")
    if unexplained:
        listed = "\n  ".join(unexplained)
        raise SystemExit(
            f"no cause of {len(unexplained)} that do not land:\n  {listed}\n"
            "expected a [[cause]] in studies/causes.toml for each: `cause` and its `evidence`, or "
            "`open` with what was ruled out"
        )


def make_page(results: list[Measured], causes: list[Cause]) -> str:
    """Return the page as Markdown."""
    papers: dict[str, list[Measured]] = defaultdict(list)
    for one in results:
        papers[one.result.paper].append(one)
    lines = [INTRODUCTION]
    for paper, ours in papers.items():
        lines += [f"## {paper}", "", *_counts(ours), *_list_not_run(ours)]
        lines += [*_list_claims(ours, causes), *_list_misses(ours, causes)]
    return "\n".join(lines).rstrip() + "\n"


def _counts(ours: list[Measured]) -> list[str]:
    """Return how many numbers land, a line per table and result."""
    header = ["measured", "within one SD", "more within two", "beyond", "land", "not measured"]
    lines = [f"| table | result | {' | '.join(header)} |", f"|---|---|{'---:|' * len(header)}"]
    total = Agreement(0, 0, 0, 0)
    for one in ours:
        if one.result.variant_of is not None and not one.sources:
            continue  # it repeats numbers of another result
        by_table: dict[str, list[ComparisonRow]] = defaultdict(list)
        for row in one.rows:
            by_table[row.table].append(row)
        for table, rows in by_table.items():
            counts = one.count(rows)
            if one.result.variant_of is None:
                total = Agreement(*(a + b for a, b in zip(total, counts, strict=True)))
            name = f"Table {table}" if table[0].isdigit() else table
            lines.append(_count_line(name, one.links(table), counts))
    if not sum(total):
        return ["It prints curves and no numbers.", ""]
    return [*lines, _count_line("**all**", "", total), ""]


def _count_line(table: str, result: str, counts: Agreement) -> str:
    one, two, beyond, missing = counts
    measured = one + two + beyond
    share = f"{100 * (one + two) / measured:.1f}%" if measured else ""
    shown = [f"{count}" if measured else "" for count in (one, two, beyond)]
    cells = [table, result, str(measured), *shown, share, str(missing) if missing else ""]
    return f"| {' | '.join(cells)} |"


def _list_claims(ours: list[Measured], causes: list[Cause]) -> list[str]:
    """Return how many claims hold per result, and the causes of those that do not."""
    lines = []
    for one in ours:
        checked = [claim for claim in one.claims if claim.holds is not None]
        failed: dict[str, list[str]] = defaultdict(list)
        for claim in checked:
            if not claim.holds:
                cause = find_cause(causes, one.result.name, {"claim": claim.text})
                numbers = claim.numbers.replace("<", "&lt;")
                failed[_explain(cause)].append(f"*{claim.text}* ({numbers})")
        if checked:
            held = sum(claim.holds is True for claim in checked)
            hold = f"{held} of {len(checked)} claims hold"
            lines.append(f"- {one.links()}: {hold} ({one.result.tables}).")
        for reason, claims in failed.items():
            these = "This does not" if len(claims) == 1 else "These do not"
            lines.append(f"    - {these}: {'; '.join(claims)}. {reason}")  # 4 spaces, for the site
    return ["Claims:", "", *lines, ""] if lines else []


def _list_not_run(ours: list[Measured]) -> list[str]:
    names = [f"{one.result.name} ({one.result.tables})" for one in ours if not one.sources]
    return [f"Not run: {'; '.join(names)}.", ""] if names else []


def _explain(cause: Cause | None) -> str:
    if cause is None:
        return "**Open.**"
    reason = cause.cause or f"**Open.** {cause.open}"
    return f"{reason} Evidence: {cause.evidence}"


def _list_misses(ours: list[Measured], causes: list[Cause]) -> list[str]:
    """Return the numbers that do not land, below their causes."""
    lines = []
    for one in ours:
        by_cause: dict[str, list[ComparisonRow]] = defaultdict(list)
        for row in one.misses():
            by_cause[_explain(find_cause(causes, one.result.name, _fields(row)))].append(row)
        for reason, rows in by_cause.items():
            lines += [f"**{one.result.name}, {len(rows)} beyond two SDs.** {reason}", ""]
            lines += ["| table | cell | id | published | measured | SDs |"]
            lines += ["|---|---|---|---:|---:|---:|"]
            lines += [*(_miss_line(row, one) for row in rows), ""]
    return ["### Numbers that do not land", "", *lines] if lines else []


def _miss_line(row: ComparisonRow, one: Measured) -> str:
    digits = one.result.digits
    sds = count_sds(row, percent=one.percent) or 0.0
    cell = [*(row.cell[name] for name in CELL_FACTORS if name in row.cell), row.details]
    if row.cell.get("measured as", row.cell.get("setting")) != row.cell.get("setting"):
        cell.append(f"(run {row.cell['measured as']}-incremental)")
    published = f"{row.published:.{digits}f}"
    published += f" ± {row.published_sd:.{digits}f}" if row.published_sd is not None else ""
    measured = f"{row.mean:.{digits}f}" + (f" ± {row.sd:.{digits}f}" if row.sd is not None else "")
    name = " ".join(part for part in cell if part)
    return f"| {row.table} | {name} | {row.id} | {published} | {measured} | {sds:+.1f} |"


def main() -> int:
    """Write the page, or compare it."""
    results = load_results(ROOT)
    causes = load_causes(ROOT / "studies" / "causes.toml", results)
    check_causes(results, causes)
    page = make_page(results, causes)
    path = ROOT / "docs" / "papers.md"
    if sys.argv[1:] == ["--check"]:
        if not path.is_file() or path.read_text("utf-8") != page:
            print("docs/papers.md is out of date; run python studies/papers.py", file=sys.stderr)
            return 1
        return 0
    path.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
