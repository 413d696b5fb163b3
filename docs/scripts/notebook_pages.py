"""Notebooks as Markdown: their text, code and outputs, without running them."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["notebook_page"]


def notebook_page(path: Path, pictures: Path) -> str:
    """Return a notebook as Markdown, and write its pictures next to the page.

    Args:
        path: The notebook.
        pictures: The folder of the page.
    """
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    parts: list[str] = []
    for number, cell in enumerate(cells):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif cell["cell_type"] == "code" and source.strip():
            parts.append(f"```python\n{source}\n```")
            for place, output in enumerate(cell["outputs"]):
                name = f"{path.stem}-{number}-{place}.png"
                parts.append(_output(output, pictures / name))
    return "\n\n".join(filter(None, parts)) + "\n"


def _output(output: dict[str, object], picture: Path) -> str:
    """Return an output as Markdown: a picture, a table or text."""
    data = output.get("data", {})
    assert isinstance(data, dict)
    if "image/png" in data:
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.write_bytes(base64.b64decode("".join(data["image/png"])))
        return f"![output]({picture.name})"
    if "text/html" in data:
        return "\n".join(line for line in _text(data["text/html"]).splitlines() if line.strip())
    text = _text(output.get("text", data.get("text/plain", "")))
    return f"```text\n{text.rstrip()}\n```" if text.strip() else ""


def _text(value: object) -> str:
    return "".join(value) if isinstance(value, list) else str(value)
