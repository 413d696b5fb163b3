"""The shape of the code as a table: python benchmarks/shape.py [FOLDER ...], a checkout each.

Lines are those with code: no docstrings, comments or blank lines. With two checkouts the table has
a column for each, which is how docs/architecture.md compares before and after.
"""

from __future__ import annotations

import ast
import io
import os
import re
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parents[1]
SKIPPED = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
           tokenize.ENCODING, tokenize.ENDMARKER}  # fmt: skip
Function = ast.FunctionDef | ast.AsyncFunctionDef


def code_lines(path: Path) -> int:
    """Return how many lines of a file hold code."""
    text = path.read_text("utf-8")
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SKIPPED:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, Function | ast.ClassDef | ast.Module) and ast.get_docstring(node):
            first = node.body[0]
            lines.difference_update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(lines)


def reads_run_json(path: Path) -> bool:
    """Return whether a module has `run.json` in a string that is no docstring."""
    tree = ast.parse(path.read_text("utf-8"))
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, Function | ast.ClassDef | ast.Module)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return any(
        isinstance(node, ast.Constant) and node.value == "run.json" and id(node) not in docs
        for node in ast.walk(tree)
    )


def has_any(function: Function) -> bool:
    """Return whether a signature says `Any`."""
    arguments = function.args
    everything = chain(
        arguments.posonlyargs, arguments.args, arguments.kwonlyargs,
        filter(None, (arguments.vararg, arguments.kwarg)),
    )  # fmt: skip
    annotations = [argument.annotation for argument in everything] + [function.returns]
    return any(a is not None and re.search(r"\bAny\b", ast.unparse(a)) for a in annotations)


def modules_loaded(checkout: Path) -> int:
    """Return how many modules of ours one `perdure run` imports in its own process."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["run", "split-digits", "naive", "--seeds", "1", "--iterations", "2"]
        answer = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "perdure", *words, "--store", folder],
            capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONPATH": str(checkout / "src")},
        )  # fmt: skip
    names = re.findall(r"\|\s+(perdure[\w.]*)$", answer.stderr, flags=re.MULTILINE)
    return len(set(names))


def repeated_classes(nodes: Iterable[ast.AST]) -> list[str]:
    """Return the names that stand for more than one class."""
    names = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    return sorted(name for name, count in names.items() if count > 1)


def modules_per_package(source: Path) -> Counter[Path]:
    """Return how many modules each package has, `__init__.py` not counted."""
    return Counter(path.parent for path in source.rglob("*.py") if path.name != "__init__.py")


def parse_all(source: Path) -> list[ast.AST]:
    """Return every node of every module."""
    trees = (ast.parse(path.read_text("utf-8")) for path in sorted(source.rglob("*.py")))
    return [node for tree in trees for node in ast.walk(tree)]


def shape(checkout: Path) -> dict[str, str]:
    """Return each row of the table for one checkout."""
    source = checkout / "src" / "perdure"
    paths = sorted(source.rglob("*.py"))
    nodes = parse_all(source)
    functions = [node for node in nodes if isinstance(node, Function)]
    largest, most = modules_per_package(source).most_common(1)[0]
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in paths}
    evaluator = next(
        node for node in nodes if isinstance(node, ast.ClassDef) and node.name == "Evaluator"
    )
    init = next(n for n in evaluator.body if isinstance(n, Function) and n.name == "__init__")
    parameters = len(init.args.args) - 1 + len(init.args.kwonlyargs)
    with_any = sum(map(has_any, functions))
    return {
        "lines of code": f"{sum(map(code_lines, paths)):,}",
        "modules": str(len(paths)),
        "modules in the largest package": f"{most} ({largest.relative_to(source.parent)})",
        "longest file, lines": f"{max(lengths.values())}",
        "files over 300 lines": str(sum(length > 300 for length in lengths.values())),
        "class names used more than once": str(len(repeated_classes(nodes))),
        "modules that name run.json": str(sum(map(reads_run_json, paths))),
        "parameters of Evaluator": str(parameters),
        "functions with Any in their signature": f"{with_any / len(functions):.1%}",
        "modules of ours loaded by `perdure run`": str(modules_loaded(checkout)),
    }


def main() -> None:
    """Print the table as Markdown."""
    checkouts = [Path(word) for word in sys.argv[1:]] or [ROOT]
    tables = [shape(checkout) for checkout in checkouts]
    print("|" + " | ".join(["", *(checkout.name for checkout in checkouts)]) + " |")
    print("|---" * (len(tables) + 1) + "|")
    for row in tables[0]:
        print("| " + " | ".join([row, *(table[row] for table in tables)]) + " |")


if __name__ == "__main__":
    main()
