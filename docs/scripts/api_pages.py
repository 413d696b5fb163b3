"""The pages of the API: which names mkdocstrings describes from their docstrings."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import perdure

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["api_pages"]

# What a user calls, in the order of the introduction of `help(perdure)`.
SECTIONS = {
    "Scores": (
        "score", "score_groups", "compare", "which", "plan", "repeat", "summary", "Summary",
        "RunsSummary", "SummaryOptions", "ScoreMatrix", "ScoreScale", "Stream", "PerExample",
        "Costs", "GroupedScores", "ScoreGroup", "ComparisonReport", "DefinitionMatch",
        "DefinitionMatches", "EvaluationPlan",
    ),
    "Evaluation during training": (
        "Evaluator", "EvalTask", "Record", "Score", "every", "Every", "burst", "Burst", "Subset",
        "Inline", "Worker", "Alarm", "gradient_norm", "evaluate", "TaskScores", "Log",
    ),
    "Runs": (
        "run", "RunResult", "ConfigOptions", "list_runs", "open_run", "Run", "RunFolder",
        "RunMetadata", "RunStatus", "InputOptions", "import_results",
    ),
    "Verdicts": ("check", "freeze", "flips", "Verdict", "Flips"),
    "Errors and warnings": (
        "InputError", "RecordError", "RepeatError", "UndefinedMetricError", "AlarmTriggered",
        "EvaluationWarning",
    ),
}  # fmt: skip
# Packages below `perdure` that a user imports from, in the order of the navigation.
PACKAGES = {
    "metrics": "The metrics as functions of arrays, and their registry.",
    "stats": "Intervals, tests, ranks and sample-size planning.",
    "strategies": "The strategies of `perdure run`, and the base class of your own.",
    "scenarios": "The scenarios of `perdure run`.",
    "studies": "Study files, their runs and tables.",
    "execution": "How many runs are executed: serially, in processes, or on Ray.",
    "report.figures": "One function per kind of figure; each returns a matplotlib figure.",
    "adapters.lightning": "The callback for Lightning.",
    "adapters.transformers": "The callback for the Hugging Face Trainer.",
    "adapters.avalanche": "The plugin for Avalanche.",
}
SOURCE = Path(perdure.__file__).parent


def api_pages() -> dict[str, str]:
    """Return the pages by file name: groups of names of `perdure`, packages, and an index."""
    pages = {_file(title): (title, "perdure", names) for title, names in SECTIONS.items()}
    for package in PACKAGES:
        path = f"perdure.{package}"
        pages[f"{package}.md"] = (path, path, tuple(_public_names(package)))
    about = (
        "Everything that `import perdure` offers, and the packages below it. PyTorch is imported "
        "only when something that needs it is used."
    )
    sections = (f"- [{title}]({_file(title)}): {_code(names)}" for title, names in SECTIONS.items())
    packages = (f"- [`perdure.{name}`]({name}.md): {text}" for name, text in PACKAGES.items())
    index = ["# Python API", "", about, "", *sections, *packages, ""]
    return {"index.md": "\n".join(index), **{name: _page(*page) for name, page in pages.items()}}


def _page(title: str, path: str, names: Sequence[str]) -> str:
    heading = f"`{title}`" if title == path else title
    return "\n\n".join([f"# {heading}", *(f"::: {path}.{name}" for name in names)]) + "\n"


def _file(title: str) -> str:
    return f"{title.lower().replace(' ', '-')}.md"


def _code(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _public_names(package: str) -> list[str]:
    """Return the functions and classes of a package: those in `__all__`, or else all."""
    path = SOURCE.joinpath(*package.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            break
    else:
        names = dir(import_module(f"perdure.{package}"))
    return [name for name in names if _is_documented(package, name)]


def _is_documented(package: str, name: str) -> bool:
    """Return whether a name is a function or class of the package that has no page elsewhere."""
    if name.startswith("_") or name in dir(perdure):
        return False
    if package.startswith(("adapters", "report")):  # they import what is not installed here
        return True
    value = vars(import_module(f"perdure.{package}")).get(name)  # None: imported on first use
    ours = getattr(value, "__module__", "").startswith("perdure.")
    return value is None or (callable(value) and ours)
