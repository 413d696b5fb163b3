"""Messages name Python arguments below cli/, and options where the command line prints them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import perdure
from perdure.cli import app, options_of
from perdure.cli._output import render_options


def test_no_option_is_named_below_the_command_line() -> None:
    """Messages below cli/ name Python arguments, `restart=True`, which the commands render."""
    options = options_of(app)
    assert {"--restart", "--no-per-example", "--format", "--gpus-per-run"} <= options
    source = Path(perdure.__file__).parent
    named = []
    for path in sorted(source.rglob("*.py")):
        if path.relative_to(source).parts[0] == "cli":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docstrings = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found = options.intersection(re.findall(r"(?<![\w-])--[a-z][a-z-]*", node.value))
                if found and id(node) not in docstrings:
                    named.append(f"{path.relative_to(source)}:{node.lineno}: {found}")
    assert named == []


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("use `restart=True` to start over", "use --restart to start over"),
        ("a smaller `every=`, or `every=…`", "a smaller --every, or --every"),
        ("`early_stopping_split=0.5`", "--early-stopping-split 0.5"),
        ("`upper='measured'` or `upper=\"measured\"`", "--upper measured or --upper measured"),
        ("`range_=`", "--range"),
        ("`per_example=False`", "--no-per-example"),
        ("`settings={'lr': …}`", "--set lr=…"),
        ('`settings={"fill": "reservoir"}`', "--set fill=reservoir"),
        ("`perdure data fetch mnist` and `NAME=PATH` stay", None),
        ("a task called ``` or x=1 stays", None),
    ],
)
def test_arguments_in_messages_become_options(message: str, expected: str | None) -> None:
    assert render_options(message) == (message if expected is None else expected)
