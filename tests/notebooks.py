"""Executes the notebooks of docs/notebooks: `make notebooks` writes what their cells show.

Cells run in one namespace, in an empty folder, without Jupyter. What a cell shows is what it prints
and the value of its last expression, figures only after INLINE, as in Jupyter; a cell that is one
line such as `!perdure report runs` is that command.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
PATHS = sorted(FOLDER.glob("*.ipynb"))
INLINE = "%matplotlib inline\n"


def execute(notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Return what each code cell shows, executed in the current folder."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [
        _execute_cell("".join(cell["source"]), namespace, count)
        for count, cell in enumerate(cells, 1)
    ]


def _execute_cell(source: str, namespace: dict[str, Any], count: int) -> list[dict[str, Any]]:
    if source.startswith("!perdure "):
        return _describe_text(_call(source.removeprefix("!perdure ").split()))
    if source.startswith(INLINE):
        namespace[INLINE] = True
    tree = ast.parse(source.removeprefix(INLINE), f"cell {count}")
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    value = None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, f"cell {count}", "exec"), namespace)
        if isinstance(last, ast.Expr):
            expression = compile(ast.Expression(last.value), f"cell {count}", "eval")
            value = eval(expression, namespace)
    inline = INLINE in namespace
    return [*_describe_text(printed.getvalue()), *_describe_value(value, count, inline)]


def _call(words: list[str]) -> str:
    """Return what a command prints; progress and notes go to stderr and are not shown."""
    command = [sys.executable, "-m", "perdure", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _describe_text(text: str) -> list[dict[str, Any]]:
    if not text:
        return []
    return [{"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}]


def _describe_value(value: Any, count: int, inline: bool) -> list[dict[str, Any]]:
    """Return a value as Jupyter shows it: as a picture, as HTML, and as text."""
    if value is None:
        return []
    data: dict[str, Any] = {"text/plain": repr(value).splitlines(keepends=True)}
    if html := getattr(value, "_repr_html_", str)():
        data["text/html"] = html.splitlines(keepends=True)
    if inline and hasattr(value, "savefig"):
        picture = io.BytesIO()
        value.savefig(picture, format="png", dpi=75)
        data["image/png"] = base64.b64encode(picture.getvalue()).decode()
    return [
        {"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"}
    ]


def read(path: Path) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return notebook


def main() -> None:
    """Execute every notebook and write what its cells show into it."""
    for path in PATHS:
        notebook = read(path)
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            shown = execute(notebook)
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        for count, (cell, outputs) in enumerate(zip(cells, shown, strict=True), 1):
            cell["execution_count"], cell["outputs"] = count, outputs
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
