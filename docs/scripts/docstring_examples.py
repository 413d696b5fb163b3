"""An extension of griffe that takes `Example:` in docstrings for examples, as `Examples:` is."""

from __future__ import annotations

from typing import Any

from griffe import Extension, Object

__all__ = ["DocstringExamples"]


class DocstringExamples(Extension):
    """Renames the section, so that its lines are code and not quotations."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:  # noqa: ARG002
        """Change the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")
