"""Commands about names: list, explain, and which metric a number is."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from .._suggestions import normalize_name, suggest_names
from ..api.definitions import TypedNumber, which_of_group
from ..api.grouped_scores import score_groups
from ..metrics import (
    FAMILIES,
    METRIC_ALIASES,
    METRICS,
    NEEDS,
    TOOLS,
    family_members,
    find_metric,
    metric_symbol,
    parse_id,
    plain_formula,
)
from ..models import MODELS, describe_model
from ..record import InputError
from ..report.tables import TextTable
from ..report.tables.scores import ARROWS
from ..scenarios import SCENARIOS
from ..strategies import STRATEGIES, STRATEGY_ALIASES, resolve_strategy
from ._option_groups import DEFAULT_FILE_OPTIONS, DEFAULT_TASK_OPTIONS, FileOptions, TaskOptions
from ._options import PathText, TermName, TextFormat
from ._output import (
    STDIN,
    print_json,
    print_lines,
    print_notes,
    print_stderr,
    print_tables,
    print_wrapped,
    render_options,
)
from ._pages import (
    candidates_page,
    family_page,
    metric_page,
    model_page,
    printed_as,
    scenario_page,
    strategy_page,
    tool_metrics,
    tool_page,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ..api.definitions import DefinitionMatches

__all__ = ["explain", "list_app", "which"]

MAX_ALIAS = 12  # characters: longer ones are names written out, as in the column of papers

list_app = App(name="list", help="List metrics, tools, scenarios, strategies and models.")


@list_app.command
def metrics() -> None:
    """List all metrics with their direction, name, input and source."""
    rows = [
        [id_, ARROWS[metric.better], metric.name, metric.input, metric.source]
        for id_, metric in METRICS.items()
    ]
    TextTable(["id", "", "name", "from", "source"], rows).show(sys.stdout)


@list_app.command
def tools() -> None:
    """List the tools and papers that `perdure score --as` imitates, and the names they print."""
    rows = [[tool, ", ".join(row.name for row in rows)] for tool, rows in TOOLS.items()]
    TextTable(["--as", "prints"], rows).show(sys.stdout)


@list_app.command
def scenarios() -> None:
    """List all scenarios with their tasks, setting, datasets and default model."""
    rows = [
        [name, str(spec.tasks), spec.setting, ", ".join(spec.data), spec.defaults.model, spec.about]
        for name, spec in SCENARIOS.items()
    ]
    header = ["scenario", "tasks", "setting", "data", "model", "what it is"]
    TextTable(header, rows, right={"tasks"}).show(sys.stdout)
    print_lines("")
    print_wrapped(
        "your own data: perdure run ./images STRATEGY (or data.npz, data.parquet, module:function)",
        "  ",
    )


@list_app.command
def strategies() -> None:
    """List all strategies with their other names, what they store, and their papers."""
    others: dict[str, list[str]] = {}
    for alias, name in STRATEGY_ALIASES.items():
        if len(alias) <= MAX_ALIAS:
            others.setdefault(name, []).append(alias)
    rows = [
        [name, entry.about, ", ".join(others.get(name, ())), entry.keeps, entry.paper]
        for name, entry in STRATEGIES.items()
    ]
    header = ["strategy", "what it does", "also called", "stores", "paper"]
    TextTable(header, rows).show(sys.stdout)


@list_app.command
def models() -> None:
    """List all models."""
    TextTable(["model", "what it is"], [[name, describe_model(name)] for name in MODELS]).show(
        sys.stdout
    )


Typed = Annotated[str | None, Parameter("--value", metavar="NUMBER", allow_leading_hyphen=True)]


def which(
    *files: PathText,
    value: Typed = None,
    inputs: FileOptions = DEFAULT_FILE_OPTIONS,
    tasks: TaskOptions = DEFAULT_TASK_OPTIONS,
    format_: TextFormat = "text",
) -> int:
    """Print which definitions give a number for these scores, and which tools print it.

    `perdure which results.csv --value -0.33` compares every metric, and every number that other
    tools would print, with -0.33 within its rounding: from -0.335 to -0.325. A whole number, one
    above 1 and one with % are also read as percentages. Values of the other sign are shown as
    `negated`, near misses as `close`. Exits with code 1 if nothing matches, and then prints the
    three that are closest.

    Args:
        files: Score matrix, evaluation log (points.csv), run folder, or - for standard input;
            several are seeds of one method, whose means are compared. Runs are grouped by their
            config, with a table per method.
        value: The number, with as many digits as it is printed with.
        inputs: How to read the scores.
        tasks: What else is known about the tasks.
        format_: Output format.
    """
    if not files:
        raise InputError("no file; name a matrix, a points.csv, a run folder, or - (stdin)")
    if value is None:
        raise InputError("no number; add the one you are looking for, as in --value -0.33")
    number = TypedNumber.parse(value)
    options = tasks.add_to(inputs.make())
    paths = ["-" if file == STDIN else file for file in files]
    groups, notes = score_groups(*paths, inputs=options, stdin=sys.stdin.buffer)
    results = {name: which_of_group(group, number, options) for name, group in groups.items()}
    if format_ == "json":
        _print_json(results, notes)
    else:
        for k, (name, result) in enumerate(results.items()):
            if len(results) > 1:
                print_lines(*[""] * (k > 0), name, "")
            _print(result)
        print_notes(notes, format_)
    return 0 if any(result.found for result in results.values()) else 1


def _print(result: DefinitionMatches) -> None:
    print_tables([result.table()], "text")
    for line in result.describe():
        print_wrapped(line, "  ")
    print_notes(result.notes, "text")


def _print_json(results: Mapping[str, DefinitionMatches], notes: Sequence[str]) -> None:
    """Print a single method as it is, several under their names."""
    plain = {
        name: {**result.to_dict(), "notes": [*map(render_options, (*result.notes, *notes))]}
        for name, result in results.items()
    }
    print_json({"groups": plain} if len(plain) > 1 else next(iter(plain.values())))


ExplainFormat = Annotated[Literal["text", "latex", "json"], Parameter("--format")]


def explain(*terms: TermName, format_: ExplainFormat = "text") -> None:
    """Explain metrics, families of metrics, names that other tools print, strategies, scenarios.

    For a metric: its formula, source, requirements, similar metrics and interpretation. For a
    family such as `forgetting` or `'acc.*'`: its members, how they differ and when to use which.
    For a tool such as `avalanche`, or a name it prints such as `StreamBWT`: the metric that it is
    here. For a strategy: what it does, stores and costs, its paper, and its hyperparameters.

    Args:
        terms: Ids of metrics (`perdure list metrics`), families, tools (`perdure list tools`),
            names that tools print, strategies (`perdure list strategies`), scenarios or models.
        format_: Output format. `latex` prints the formulas of metrics in LaTeX; `json` prints
            metrics with both.
    """
    if not terms:
        raise InputError(
            "nothing to explain; name a metric such as wc_acc (`perdure list metrics`), a family "
            "such as forgetting, a tool such as avalanche (`perdure list tools`) or a strategy "
            "such as ewc (`perdure list strategies`)"
        )
    if format_ == "text":
        for line in "\n\n".join(map(_page, terms)).split("\n"):
            print_wrapped(line, " " * (len(line) - len(line.lstrip()) + 2))
        return
    ids = dict.fromkeys(id_ for term in terms for id_ in _metric_ids(term))
    if format_ == "json":
        print_json([_metric_to_dict(id_) for id_ in ids])
        return
    for id_ in ids:
        formula = f"{metric_symbol(id_)} = {find_metric(id_).formula}"
        print_lines(f"% {id_}: {find_metric(id_).name}", rf"\[ {formula} \]")


def _page(term: str) -> str:
    """Return the page of the first kind of thing that has the name."""
    strategy = resolve_strategy(term)
    if strategy in STRATEGIES:
        return strategy_page(strategy) if strategy == term else _taken(term, strategy)
    if term in TOOLS or term in SCENARIOS:  # m2i is both: the tables of a paper and its tasks
        pages = [tool_page(term)] if term in TOOLS else []
        return "\n\n".join([*pages, *([scenario_page(term)] if term in SCENARIOS else [])])
    if term in MODELS:
        return model_page(term)
    word = term.casefold().removesuffix(".*")
    if word in FAMILIES and (term.endswith(".*") or word not in METRICS):
        return _with_tools(family_page(word), term, family_members(word))
    id_ = _find_id(term)
    if id_ is not None:
        return _with_tools(metric_page(id_), term, [id_])
    candidates = METRIC_ALIASES.get(normalize_name(term), ())
    if candidates:
        single = len(candidates) == 1
        text = metric_page(candidates[0]) if single else candidates_page(term, candidates)
        return _with_tools(text, term, candidates)
    if lines := _tool_lines(term):
        return "\n".join([f"{term}: a name that tools print", *lines])
    raise _unknown(term)


def _taken(term: str, strategy: str) -> str:
    print_stderr(f"note: {term} means {strategy}")
    return strategy_page(strategy)


def _find_id(term: str) -> str | None:
    """Return the id that a term is, in any case."""
    for id_ in (term, term.casefold()):
        try:
            parse_id(id_)
        except ValueError:
            continue
        return id_
    return None


def _with_tools(page: str, term: str, ids: Collection[str]) -> str:
    """Return a page, and below it what else tools print under that very name."""
    if lines := _tool_lines(term, besides=ids):
        return "\n".join([page, "", f"  tools that print {term} for something else", *lines])
    return page


def _tool_lines(term: str, besides: Collection[str] = ()) -> list[str]:
    """Return what each tool computes under a name, unless it is one of the ids `besides`."""
    lines: list[str] = []
    for tool, metrics in TOOLS.items():
        names = {
            metric.name
            for metric in metrics
            if normalize_name(metric.name) == normalize_name(term)
            and (metric.id or metric.nearest) not in besides
        }
        for name in names:
            lines += ["", f"  {tool}", *("  " + line for line in tool_metrics(tool, name))]
    return lines


def _unknown(term: str) -> InputError:
    printed = [metric.name for metrics in TOOLS.values() for metric in metrics]
    known = [*METRICS, *FAMILIES, *STRATEGIES, *TOOLS, *SCENARIOS, *MODELS, *printed]
    hint = suggest_names(term, known) or (
        "see `perdure list metrics`, `perdure list tools` and `perdure list strategies`"
    )
    return InputError(f"nothing is called {term!r:.60}; {hint.strip()}")


def _metric_ids(term: str) -> list[str]:
    """Return the ids of the metrics that a term stands for, for formats of formulas."""
    word = term.casefold().removesuffix(".*")
    if term in TOOLS:
        return [metric.id for metric in TOOLS[term] if metric.id is not None]
    if word in FAMILIES and (term.endswith(".*") or word not in METRICS):
        return family_members(word)
    id_ = _find_id(term)
    if id_ is not None:
        return [id_]
    if candidates := METRIC_ALIASES.get(normalize_name(term)):
        return list(candidates)
    named = [
        metric.id
        for metrics in TOOLS.values()
        for metric in metrics
        if metric.id is not None and normalize_name(metric.name) == normalize_name(term)
    ]
    if named:
        return named
    if resolve_strategy(term) in (*STRATEGIES, *SCENARIOS, *MODELS):
        raise InputError(f"{term!r:.60} is no metric and has no formula; use --format text")
    raise _unknown(term)


def _metric_to_dict(id_: str) -> dict[str, object]:
    metric = find_metric(id_)
    return {
        "id": id_,
        "name": metric.name,
        "symbol": metric_symbol(id_),
        "formula": metric.formula,
        "plain_formula": plain_formula(metric.formula),
        "source": metric.source,
        "input": metric.input,
        "needs": [render_options(NEEDS[need]) for need in metric.needs],
        "better": metric.better,
        "distinction": metric.distinction,
        "interpretation": f"{metric.rule_of_thumb} {metric.interpretation}".strip(),
        "printed_as": printed_as(id_),
    }
