"""Names of a package that are imported when they are first used, for a fast start."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["import_on_use"]


def import_on_use(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package.

    Args:
        package: its `__name__`.
        modules: the module that defines each name, relative to the package.

    Example:
        >>> import_on_use("perdure", {"count_gpus": "_devices"})("count_gpus").__name__
        'count_gpus'
    """

    def get_attribute(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f".{modules[name]}", package), name)

    return get_attribute
