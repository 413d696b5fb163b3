"""Importing and scoring load nothing heavy: checked in a fresh interpreter."""

from __future__ import annotations

import ast
import importlib
import json
import sys
from pathlib import Path

import pytest

import perdure

from .cli_helpers import start, table, write

HEAVY = (
    "torch", "matplotlib", "pandas", "plotly", "duckdb", "sklearn", "ray", "lightning",
    "transformers",
    "scipy.stats", "scipy.special", "scipy.ndimage", "scipy.optimize", "scipy.sparse",
)  # fmt: skip
REPORT = "\nimport json, sys\nprint('LOADED', json.dumps(sorted(sys.modules)))\n"
SCORE = """
import sys
from perdure.cli import main
sys.argv = ["perdure", "score", *{arguments!r}]
try:
    main()
except SystemExit as stop:
    assert stop.code == 0, stop.code
"""


PACKAGES = [
    "adapters", "data", "evaluation", "execution", "importers", "metrics", "models", "record",
    "report", "reproduction", "scenarios", "stats", "strategies", "studies", "training",
]  # fmt: skip


def loaded(script: str) -> list[str]:
    """Return which heavy modules a fresh interpreter holds after running `script`."""
    answer = start("-c", script + REPORT, command=[sys.executable])
    assert answer.code == 0, answer.err
    last = answer.out.splitlines()[-1]
    assert last.startswith("LOADED ")
    modules = json.loads(last.removeprefix("LOADED "))
    assert "json" in modules
    return [name for name in HEAVY if name in modules]


def test_the_check_sees_what_is_loaded() -> None:
    assert "scipy.stats" in loaded("import scipy.stats")
    assert loaded("import scipy.ndimage")
    assert loaded("import json") == []


@pytest.mark.parametrize(
    "script",
    [
        "from perdure import *",
        "import perdure.metrics, perdure.record, perdure.report, perdure.cli",
        "import perdure; perdure.summary([[0.9, 0.1], [0.6, 0.8]])",
        "import perdure; perdure.score([[0.9, 0.1], [0.6, 0.8]]); perdure.compare; perdure.run",
    ],
)
def test_import_is_light(script: str) -> None:
    assert loaded(script) == []


@pytest.mark.parametrize("option", [[], ["--format", "json"], ["--as", "mammoth"]])
def test_scoring_a_matrix_is_light(option: list[str], tmp_path: Path) -> None:
    path = write(tmp_path, "m.csv", table())
    arguments = [str(path), "--sizes", "9,9,9,9,9", "--classes", "2,2,2,2,2", *option]
    assert loaded(SCORE.format(arguments=arguments)) == []


def test_importing_prints_and_warns_of_nothing() -> None:
    answer = start("-W", "error", "-c", "import perdure.cli", command=[sys.executable])
    assert answer == (0, "", "")


@pytest.mark.parametrize("package", ["", *(f".{package}" for package in PACKAGES)])
def test_dir_lists_every_public_name_once(package: str) -> None:
    module = importlib.import_module(f"perdure{package}")
    names = dir(module)
    assert names == sorted(set(names))
    assert set(getattr(module, "__all__", ())) <= set(names)
    assert all(hasattr(module, name) for name in names)


def test_type_checkers_and_dir_see_the_same_names() -> None:
    """What is imported on first use is named twice: in a table, and for type checkers."""
    tree = ast.parse(Path(perdure.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    aliases = [
        alias for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    ]
    assert all(alias.name == alias.asname for alias in aliases)
    eager = [
        alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.level
        for alias in node.names
    ]
    names = [*eager, *(alias.name for alias in aliases), "__version__"]
    assert sorted(names) == dir(perdure)


def test_every_package_is_an_attribute() -> None:
    for package in PACKAGES:
        assert getattr(perdure, package) is importlib.import_module(f"perdure.{package}")
    with pytest.raises(AttributeError, match="no attribute 'scroe'"):
        _ = perdure.scroe  # type: ignore[attr-defined]
