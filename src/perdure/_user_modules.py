"""Importing a user's own module from the directory in which the command was started."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ._suggestions import suggest_names
from .record import InputError

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["import_user_attribute"]


def import_user_attribute(name: str, kind: str) -> object:
    """Return what `module:attribute` names, or raise an error that begins with `kind` and `name`.

    The current directory is searched last, so a file such as `numpy.py` in it never shadows an
    installed package.

    Args:
        name: "module:attribute"; the attribute may have dots.
        kind: what is imported, such as "model" or "strategy".

    Example:
        >>> import_user_attribute("math:pi", "model")
        3.141592653589793
    """
    module_name, _, attribute = name.partition(":")
    if not (module_name and attribute):
        raise InputError(f"{kind} is {name!r:.60}, expected module:name")
    module = _import_module(module_name, f"{kind} {name!r}")
    value: object = module
    for part in attribute.split("."):
        if not hasattr(value, part):
            # An installed module of the same name may have been found first: show the file.
            file = getattr(module, "__file__", None) or "built in"
            hint = suggest_names(part, (known for known in dir(value) if known[0] != "_"))
            lacking = f"{kind} {name!r}: {module_name} ({file}) has no {attribute!r}"
            raise InputError(f"{lacking}; {hint}".rstrip("; "))
        value = getattr(value, part)
    return value


def _import_module(module: str, subject: str) -> ModuleType:
    here = str(Path.cwd())
    if not {"", here} & set(sys.path):
        sys.path.append(here)
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(f"{error.name}.")):
            raise InputError(
                f"{subject}: no module named {error.name!r} in the current directory or installed, "
                "expected module:name; run the command from the folder that contains it"
            ) from None
        raise InputError(
            f"{subject}: {module} requires {error.name!r}, which is not installed"
        ) from error
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"{subject}: importing {module} failed: {reason}") from error
